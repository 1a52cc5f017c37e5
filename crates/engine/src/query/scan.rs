//! A page's scan of the ranges of its scope, and its charge in each.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use model::{Charge, Epk, PartitionId, PartitionKeyDefinition, limits};
use query::access::IndexSet;
use query::exec::{Execution, PageEnd, RowPosition};
use query::stopwatch::{Phase, Stopwatch};
use storage::View;

use super::PageWork;
use super::access_path::AccessPath;
use super::route::{Route, ScanStop};
use super::scope::ScanRange;
use crate::cancellation::StopSignal;
use crate::governor::{Meter, Paid};
use crate::index::{Indexes, Order, OrderedRows, OrderedScan, PostingList, ScanStart};
use crate::keys::EpkForm;
use crate::ops::PageTimes;
use crate::partition::{Reader, ScanContext, ScanLimits, ScanStats, StoredRows, too_late};
use crate::{Admission, Engine, Error, StoredItem, ru};

/// Items that are counted between two checks of the clock.
const COUNTED_PER_CLOCK: u64 = 65_536;

/// A page's scan of the ranges of its scope.
pub(super) struct Scan<'w> {
    pub(super) engine: &'w Engine,
    pub(super) indexes: &'w Indexes,
    pub(super) key_definition: &'w PartitionKeyDefinition,
    pub(super) form: EpkForm,
    pub(super) reader: Reader,
    pub(super) view: &'w dyn View,
    pub(super) scan_ranges: &'w [ScanRange],
    pub(super) route: &'w Route,
    pub(super) started: Duration,
    /// Ends the page earlier than its time limits.
    pub(super) stop: StopSignal,
    /// Whether the client asked which indexes serve the query.
    pub(super) has_report: bool,
    /// Measures the phases, if the client asked for query metrics.
    pub(super) stopwatch: Option<Rc<Stopwatch>>,
}

/// How a scan ended, and where if it ended early.
pub(super) type ScanEnd = (PageEnd, ScanStop);

/// Where the rows of a range come from.
pub(super) enum RowSource<'f> {
    /// From an index, if that is cheaper.
    Index(&'f IndexSet),
    /// From index entries that were looked up before.
    PostingList(PostingList),
    /// From all rows of the range.
    FullScan,
}

/// Where the rows of all ranges come from.
pub(super) enum RowSources<'f> {
    Index(&'f IndexSet),
    PostingList(Vec<Option<PostingList>>),
}

impl RowSources<'_> {
    /// The source of the rows of one range.
    pub(super) fn at(&mut self, scan_range: usize) -> RowSource<'_> {
        match self {
            RowSources::Index(index_set) => RowSource::Index(index_set),
            RowSources::PostingList(found) => {
                match found.get_mut(scan_range).and_then(Option::take) {
                    Some(found) => RowSource::PostingList(found),
                    None => RowSource::FullScan,
                }
            }
        }
    }
}

impl Scan<'_> {
    /// Fills a page.
    pub(super) fn run(
        &self,
        work: &mut PageWork,
    ) -> Result<(Execution<StoredItem>, ScanEnd), Error> {
        let position = self.route.start(&work.position);
        let execution = Execution::new(work.plan.clone(), position.clone(), work.limits);
        if execution.is_satisfied() {
            return Ok((execution, (PageEnd::Satisfied, ScanStop::AtRow)));
        }
        let scan_ranges = if work.plan.reads_items() { self.scan_ranges } else { &[] };
        let mut prepayments = match work.plan.is_stream() {
            true => Prepayments::default(),
            false => self.prepay(scan_ranges, work)?,
        };
        let choice = self.once(Phase::Planning, || self.choose_access_path(work))?;
        self.note_access_path(work, &choice);
        let stats = &choice.stats;
        let mut execution = match &choice.access_path {
            AccessPath::InIndexOrder(_) => Execution::ordered(choice.plan, position, work.limits),
            AccessPath::InStorageOrder(_) | AccessPath::PostingList(_) => {
                let order = self.route.item_order();
                Execution::in_order(order, choice.plan, position, work.limits)
            }
            AccessPath::FirstInIndexOrder(_) | AccessPath::Counted(_) | AccessPath::Totals(_) => {
                Execution::new(choice.plan, position, work.limits)
            }
        };
        if work.keeps_partial_results {
            execution.keep_partial_results();
        }
        if let Some(stopwatch) = &self.stopwatch {
            execution.measure(stopwatch);
        }
        let engine = self.engine.clone();
        execution.give_way_by(Rc::new(move || engine.give_way()));
        let ended = match choice.access_path {
            AccessPath::InStorageOrder(index_set) => {
                let rows = RowSources::Index(&index_set);
                self.scan_in_storage_order(
                    &mut execution,
                    work,
                    scan_ranges,
                    &mut prepayments,
                    stats,
                    rows,
                )?
            }
            AccessPath::PostingList(found) => {
                let rows = RowSources::PostingList(found);
                self.scan_in_storage_order(
                    &mut execution,
                    work,
                    scan_ranges,
                    &mut prepayments,
                    stats,
                    rows,
                )?
            }
            AccessPath::Counted(counts) => {
                for ((scan_range, stats), count) in scan_ranges.iter().zip(stats).zip(counts) {
                    work.enter(scan_range)?;
                    self.take_counted(&mut execution, count)?;
                    self.settle(scan_range, work, prepayments.next(), stats);
                }
                (execution.finish(&mut self.row_lookup(&ScanStats::default()))?, ScanStop::AtRow)
            }
            AccessPath::Totals(totals) => {
                for scan_range in scan_ranges {
                    work.enter(scan_range)?;
                }
                execution.take_totals(&totals);
                self.settle_all(scan_ranges, work, &mut prepayments, stats);
                (execution.finish(&mut self.row_lookup(&ScanStats::default()))?, ScanStop::AtRow)
            }
            AccessPath::InIndexOrder(order) => {
                let end =
                    self.scan_in_index_order(&mut execution, work, &order, stats, u64::MAX, true);
                self.settle_all(scan_ranges, work, &mut prepayments, stats);
                (end?, ScanStop::AtRow)
            }
            AccessPath::FirstInIndexOrder(order) => {
                let end = self.scan_in_index_order(&mut execution, work, &order, stats, 1, false);
                self.settle_all(scan_ranges, work, &mut prepayments, stats);
                end?;
                (execution.finish(&mut self.row_lookup(&ScanStats::default()))?, ScanStop::AtRow)
            }
        };
        Ok((execution, ended))
    }

    /// Runs a step that is done once for a page or range, measured if the client asked for query
    /// metrics.
    pub(super) fn once<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        match &self.stopwatch {
            Some(stopwatch) => stopwatch.once(phase, work),
            None => work(),
        }
    }

    /// How long each phase took since the scan began, if that was measured.
    pub(super) fn times(&self) -> Option<PageTimes> {
        let stopwatch = self.stopwatch.as_ref()?;
        let total = self.engine.inner.components.clock.monotonic().saturating_sub(self.started);
        // Phases are measured for some items only, so the estimate may exceed the total.
        let mut left = total;
        let mut part = |phase| {
            let spent = stopwatch.spent(phase).min(left);
            left -= spent;
            spent
        };
        Some(PageTimes {
            total,
            optimizing: part(Phase::Optimizing),
            choosing: part(Phase::Planning),
            index_lookup: part(Phase::IndexLookup),
            loading: part(Phase::Loading),
            system_functions: part(Phase::SystemFunctions),
            user_functions: part(Phase::UserFunctions),
        })
    }

    /// Adds items that were only counted, within the deadline.
    fn take_counted(
        &self,
        execution: &mut Execution<StoredItem>,
        mut count: u64,
    ) -> Result<(), Error> {
        while count > 0 {
            let some = match execution.counts_at_once() {
                true => count,
                false => count.min(COUNTED_PER_CLOCK),
            };
            execution.take_counted(some)?;
            count -= some;
            if self.is_late() {
                return Err(too_late());
            }
        }
        Ok(())
    }

    /// Whether a query that must read all of its rows has passed its deadline.
    pub(super) fn is_late(&self) -> bool {
        self.engine.give_way();
        let now = self.engine.inner.components.clock.monotonic();
        self.stop.is_due(self.started + limits::QUERY_TIME_MAX, now)
    }

    /// Reads rows of all ranges in the order of an index, at most `rows_max`.
    fn scan_in_index_order(
        &self,
        execution: &mut Execution<StoredItem>,
        work: &mut PageWork,
        order: &Order,
        stats: &[ScanStats],
        rows_max: u64,
        can_pause: bool,
    ) -> Result<PageEnd, Error> {
        for scan_range in self.scan_ranges {
            work.enter(scan_range)?;
        }
        let within: Vec<_> =
            self.scan_ranges.iter().map(|scan_range| self.within(scan_range)).collect();
        let parts = || self.scan_ranges.iter().zip(stats);
        let is_costly = self.cost_limit(stats);
        let limits = self.limits(can_pause, &is_costly);
        let position = work.position.query.at.clone();
        let in_index = execution.start_in_index();
        let open = || {
            let start = match (&position, &in_index) {
                (RowPosition::Key { key, tie, .. }, Some(in_index)) => {
                    Some(ScanStart { key, tie: *tie, in_index: in_index.clone() })
                }
                _ => None,
            };
            let mut scans = Vec::with_capacity(self.scan_ranges.len());
            for ((scan_range, stats), within) in parts().zip(&within) {
                let context = self.context(scan_range, stats, within.as_ref());
                scans.push((OrderedScan::new(order, context, start.as_ref())?, context));
            }
            self.once(Phase::IndexLookup, || OrderedRows::new(scans, limits, rows_max))
        };
        if execution.must_look_up() {
            execution.look_up(&mut open()?)?;
        }
        execution.pull(&mut open()?)
    }

    pub(super) fn admit(
        &self,
        scan_range: &ScanRange,
        admission: Admission,
        work: &PageWork,
    ) -> Result<Paid, Error> {
        match work.is_admitted {
            true => Ok(self.admit_further(scan_range, work)),
            false => self.engine.try_admit(admission, &scan_range.range, ru::query(1, 0, 0)),
        }
    }

    pub(super) fn admit_further(&self, scan_range: &ScanRange, work: &PageWork) -> Paid {
        self.engine.admit_further(work.admission, &scan_range.range, ru::query(1, 0, 0))
    }

    /// Has all ranges admit the scan, or charges none of them.
    pub(super) fn prepay<'s>(
        &self,
        scan_ranges: &'s [ScanRange],
        work: &PageWork,
    ) -> Result<Prepayments<'s>, Error> {
        let mut prepayments = Prepayments::default();
        for scan_range in scan_ranges {
            prepayments.paid.push_back((scan_range, self.admit(scan_range, work.admission, work)?));
        }
        Ok(prepayments)
    }

    /// Settles the charge for what was read of a range.
    pub(super) fn settle(
        &self,
        scan_range: &ScanRange,
        work: &mut PageWork,
        paid: Option<Paid>,
        stats: &ScanStats,
    ) {
        let charge = charge_of(stats);
        if let Some(paid) = paid {
            scan_range.range.partition.meter.settle(
                paid,
                charge,
                scan_range.logical_partition.as_ref(),
            );
        }
        work.charge += charge;
        work.note_read(stats);
        work.note_range(scan_range, stats, charge);
    }

    pub(super) fn settle_all(
        &self,
        scan_ranges: &[ScanRange],
        work: &mut PageWork,
        prepayments: &mut Prepayments<'_>,
        stats: &[ScanStats],
    ) {
        for (scan_range, stats) in scan_ranges.iter().zip(stats) {
            self.settle(scan_range, work, prepayments.next(), stats);
        }
    }

    /// Whether what was read of one of the ranges costs as much as a page of that range may.
    pub(super) fn cost_limit<'l>(
        &self,
        stats: &'l [ScanStats],
    ) -> impl Fn(&ScanStats) -> bool + use<'l> {
        cost_limit_of(self.scan_ranges, stats)
    }

    pub(super) fn limits<'l>(
        &'l self,
        can_pause: bool,
        is_costly: &'l dyn Fn(&ScanStats) -> bool,
    ) -> ScanLimits<'l> {
        ScanLimits {
            clock: self.engine.inner.components.clock.as_ref(),
            spawner: self.engine.inner.components.spawner.as_ref(),
            pause_at: can_pause.then(|| self.started + limits::PAGE_TIME_MAX),
            fail_at: self.started + limits::QUERY_TIME_MAX,
            stop: &self.stop,
            is_costly,
            stopwatch: self.stopwatch.as_deref(),
        }
    }

    pub(super) fn context<'g>(
        &'g self,
        scan_range: &ScanRange,
        stats: &'g ScanStats,
        within: Option<&'g (Vec<u8>, Vec<u8>)>,
    ) -> ScanContext<'g> {
        ScanContext {
            view: self.view,
            partition: scan_range.range.partition.id,
            form: self.form,
            reader: self.reader,
            within,
            stats,
        }
    }

    pub(super) fn row_lookup<'s>(
        &'s self,
        stats: &'s ScanStats,
    ) -> StoredRows<'s, impl Fn(&Epk) -> Option<PartitionId>> {
        StoredRows {
            view: self.view,
            form: self.form,
            reader: self.reader,
            partition_of: |epk: &Epk| self.partition_of(epk),
            stats,
            stopwatch: self.stopwatch.as_deref(),
        }
    }

    fn partition_of(&self, epk: &Epk) -> Option<PartitionId> {
        let holds = |scan_range: &&ScanRange| scan_range.range.epk.contains(epk);
        self.scan_ranges.iter().find(holds).map(|scan_range| scan_range.range.partition.id)
    }
}

/// Charges that ranges took before they are scanned, in the order of the scan. Dropping this
/// refunds the charges of the ranges that the scan does not reach.
#[derive(Default)]
pub(super) struct Prepayments<'s> {
    paid: VecDeque<(&'s ScanRange, Paid)>,
}

impl Prepayments<'_> {
    /// The charge of the next range, if it took one.
    pub(super) fn next(&mut self) -> Option<Paid> {
        self.paid.pop_front().map(|(_, paid)| paid)
    }
}

impl Drop for Prepayments<'_> {
    fn drop(&mut self) {
        for (scan_range, paid) in self.paid.drain(..) {
            scan_range.range.partition.meter.settle(paid, Charge::ZERO, None);
        }
    }
}

/// Whether what was read of one of these ranges costs as much as a page of that range may.
pub(super) fn cost_limit_of<'l>(
    scan_ranges: &[ScanRange],
    stats: &'l [ScanStats],
) -> impl Fn(&ScanStats) -> bool + use<'l> {
    let meters = scan_ranges.iter().map(|scan_range| &scan_range.range.partition.meter);
    let maxima: Vec<_> = meters.map(Meter::page_charge_max).collect();
    move |_| {
        let mut parts = maxima.iter().zip(stats);
        parts.any(|(max, stats)| max.is_some_and(|max| charge_of(stats) >= max))
    }
}

/// The charge for reading rows of one range.
pub(super) fn charge_of(stats: &ScanStats) -> Charge {
    let scanned = stats.scanned.get();
    ru::query(1, scanned.rows, scanned.bytes) + ru::index_entries(stats.entries.get())
}
