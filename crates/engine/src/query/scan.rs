//! A page's scan of the ranges of its scope, and its charge in each.

use std::collections::VecDeque;
use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;

use model::{Charge, Epk, PartitionId, PartitionKeyDefinition, limits};
use query::access::IndexSet;
use query::exec::{Execution, PageEnd, RowPosition};
use query::stopwatch::{Phase, Stopwatch};
use storage::View;

use super::access_path::AccessPath;
use super::{PageWork, ScanRange};
use crate::cancellation::StopSignal;
use crate::continuation::PagePosition;
use crate::governor::{Meter, Paid};
use crate::index::{
    Indexes, Order, OrderedRows, OrderedScan, PostingList, PostingRows, Rows, ScanStart,
};
use crate::keys::{self, EpkForm};
use crate::ops::PageTimes;
use crate::partition::{
    Reader, RowBounds, RowScan, ScanContext, ScanLimits, ScanStats, StoredRows, too_late,
};
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
    pub(super) started: Duration,
    /// Ends the page earlier than its time limits.
    pub(super) stop: StopSignal,
    /// Whether the client asked which indexes serve the query.
    pub(super) has_report: bool,
    /// Measures the phases, if the client asked for query metrics.
    pub(super) stopwatch: Option<Rc<Stopwatch>>,
}

/// How a scan ended, and the identity of the row read last if it ended early.
pub(super) type ScanEnd = (PageEnd, Option<Vec<u8>>);

/// Where the rows of a range come from.
enum RowSource<'f> {
    /// From an index, if that is cheaper.
    Index(&'f IndexSet),
    /// From index entries that were looked up before.
    PostingList(PostingList),
    /// From all rows of the range.
    FullScan,
}

/// Where the rows of all ranges come from.
enum RowSources<'f> {
    Index(&'f IndexSet),
    PostingList(Vec<Option<PostingList>>),
}

impl RowSources<'_> {
    /// The source of the rows of one range.
    fn at(&mut self, scan_range: usize) -> RowSource<'_> {
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
        let position = work.position.query.clone();
        let execution = Execution::new(work.plan.clone(), position.clone(), work.limits);
        if execution.is_satisfied() {
            return Ok((execution, (PageEnd::Satisfied, None)));
        }
        let scan_ranges = if work.plan.reads_items() { self.scan_ranges } else { &[] };
        let mut prepayments = match work.plan.is_stream() {
            true => Prepayments::default(),
            false => self.prepay(scan_ranges, work)?,
        };
        let choice = self.once(Phase::Planning, || self.choose_access_path(work))?;
        self.note_access_path(work, &choice.access_path);
        let stats = &choice.stats;
        let mut execution = match &choice.access_path {
            AccessPath::InIndexOrder(_) => Execution::ordered(choice.plan, position, work.limits),
            AccessPath::InStorageOrder(_)
            | AccessPath::PostingList(_)
            | AccessPath::FirstInIndexOrder(_)
            | AccessPath::Counted(_)
            | AccessPath::Totals(_) => Execution::new(choice.plan, position, work.limits),
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
                (execution.finish(&mut self.row_lookup(&ScanStats::default()))?, None)
            }
            AccessPath::Totals(totals) => {
                for scan_range in scan_ranges {
                    work.enter(scan_range)?;
                }
                execution.take_totals(&totals);
                self.settle_all(scan_ranges, work, &mut prepayments, stats);
                (execution.finish(&mut self.row_lookup(&ScanStats::default()))?, None)
            }
            AccessPath::InIndexOrder(order) => {
                let end =
                    self.scan_in_index_order(&mut execution, work, &order, stats, u64::MAX, true);
                self.settle_all(scan_ranges, work, &mut prepayments, stats);
                (end?, None)
            }
            AccessPath::FirstInIndexOrder(order) => {
                let end = self.scan_in_index_order(&mut execution, work, &order, stats, 1, false);
                self.settle_all(scan_ranges, work, &mut prepayments, stats);
                end?;
                (execution.finish(&mut self.row_lookup(&ScanStats::default()))?, None)
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

    fn scan_in_storage_order(
        &self,
        execution: &mut Execution<StoredItem>,
        work: &mut PageWork,
        scan_ranges: &[ScanRange],
        prepayments: &mut Prepayments<'_>,
        stats: &[ScanStats],
        mut rows: RowSources<'_>,
    ) -> Result<ScanEnd, Error> {
        let can_pause = execution.can_pause();
        let has_looked_up = execution.must_look_up();
        if has_looked_up {
            for scan_range in scan_ranges {
                let (paid, stats) =
                    (self.admit(scan_range, work.admission, work)?, ScanStats::default());
                let found = self.pull(
                    scan_range,
                    work,
                    false,
                    paid,
                    &stats,
                    RowSource::FullScan,
                    |rows| execution.look_up(rows),
                )?;
                if found.0 {
                    break;
                }
            }
        }
        let mut last_read = None;
        let Some(last) = scan_ranges.last() else {
            work.charge += charge_of(&ScanStats::default());
            return Ok((execution.finish(&mut self.row_lookup(&ScanStats::default()))?, None));
        };
        for (at, (scan_range, stats)) in scan_ranges.iter().zip(stats).enumerate() {
            let admission = match last_read {
                Some(_) => work.admission.silent(),
                None => work.admission,
            };
            let paid = match prepayments.next() {
                Some(paid) => Ok(paid),
                // The request was admitted for what it looked up.
                None if has_looked_up => Ok(self.admit_further(scan_range, work)),
                None => self.admit(scan_range, admission, work),
            };
            let paid = match paid {
                // The caller returns the rows there are, and the client requests the rest.
                Err(_) if last_read.is_some() => return Ok((PageEnd::Full, last_read)),
                paid => paid?,
            };
            let (end, identity) =
                self.pull(scan_range, work, can_pause, paid, stats, rows.at(at), |rows| {
                    execution.pull(rows)
                })?;
            if end != PageEnd::Exhausted {
                return Ok((end, identity.or(last_read)));
            }
            if can_pause {
                // Behind all rows of this range, even if it has none.
                last_read = scan_range.hi.get(1..).map(<[u8]>::to_vec);
                if work.ends_with_range && !std::ptr::eq(scan_range, last) {
                    return Ok((PageEnd::Full, last_read));
                }
            }
        }
        let stats = ScanStats::default();
        let end = execution.finish(&mut self.row_lookup(&stats));
        work.note_read(&stats);
        Ok((end?, None))
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

    fn admit(
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

    fn admit_further(&self, scan_range: &ScanRange, work: &PageWork) -> Paid {
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

    /// Lets `pull` take rows of a range that has admitted the scan, and settles their charge.
    /// Returns the result of `pull`, and the identity of the row read last.
    #[expect(clippy::too_many_arguments, reason = "what is pulled, from where, at whose cost")]
    fn pull<T>(
        &self,
        scan_range: &ScanRange,
        work: &mut PageWork,
        can_pause: bool,
        paid: Paid,
        stats: &ScanStats,
        rows: RowSource<'_>,
        pull: impl FnOnce(&mut Rows<'_>) -> Result<T, Error>,
    ) -> Result<(T, Option<Vec<u8>>), Error> {
        let pulled = self.take(scan_range, work, can_pause, stats, rows, pull);
        self.settle(scan_range, work, Some(paid), stats);
        pulled
    }

    /// Settles the charge for what was read of a range.
    fn settle(
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

    fn take<T>(
        &self,
        scan_range: &ScanRange,
        work: &mut PageWork,
        can_pause: bool,
        stats: &ScanStats,
        rows: RowSource<'_>,
        pull: impl FnOnce(&mut Rows<'_>) -> Result<T, Error>,
    ) -> Result<(T, Option<Vec<u8>>), Error> {
        work.enter(scan_range)?;
        let start = start_of(&work.position, scan_range);
        let charge_max = scan_range.range.partition.meter.page_charge_max();
        let is_costly = |stats: &ScanStats| charge_max.is_some_and(|max| charge_of(stats) >= max);
        let limits = self.limits(can_pause, &is_costly);
        let found = match rows {
            RowSource::PostingList(found) => Some(found),
            RowSource::Index(index_set) => {
                self.find_for_page(scan_range, index_set, can_pause, stats)?
            }
            RowSource::FullScan => None,
        };
        let mut rows = match found {
            Some(found) => {
                stats.is_indexed.set(true);
                let context = self.context(scan_range, stats, None);
                let mut postings = found.postings;
                postings.retain(|posting| is_ahead(&start, &posting.identity));
                Rows::PostingList(PostingRows::new(context, limits, postings))
            }
            None => {
                let lo = match &start {
                    Bound::Included(key) => Bound::Included(key.as_slice()),
                    Bound::Excluded(key) => Bound::Excluded(key.as_slice()),
                    Bound::Unbounded => Bound::Included(scan_range.lo.as_slice()),
                };
                let partition = scan_range.range.partition.id;
                let bounds = RowBounds { partition, lo, hi: &scan_range.hi };
                let (form, reader) = (self.form, self.reader);
                Rows::Scanned(RowScan::new(self.view, &bounds, form, reader, limits, stats)?)
            }
        };
        let pulled = pull(&mut rows)?;
        Ok((pulled, rows.identity().map(<[u8]>::to_vec)))
    }

    /// Whether what was read of one of the ranges costs as much as a page of that range may.
    pub(super) fn cost_limit<'l>(
        &self,
        stats: &'l [ScanStats],
    ) -> impl Fn(&ScanStats) -> bool + 'l {
        let meters = self.scan_ranges.iter().map(|scan_range| &scan_range.range.partition.meter);
        let maxima: Vec<_> = meters.map(Meter::page_charge_max).collect();
        move |_| {
            let mut parts = maxima.iter().zip(stats);
            parts.any(|(max, stats)| max.is_some_and(|max| charge_of(stats) >= max))
        }
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
    fn next(&mut self) -> Option<Paid> {
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

/// The charge for reading rows of one range.
fn charge_of(stats: &ScanStats) -> Charge {
    let scanned = stats.scanned.get();
    ru::query(1, scanned.rows, scanned.bytes) + ru::index_entries(stats.entries.get())
}

/// The row of a range at which a page from `position` begins.
fn start_of(position: &PagePosition, scan_range: &ScanRange) -> Bound<Vec<u8>> {
    let RowPosition::Item { identity, rows } = &position.query.at else { return Bound::Unbounded };
    let key = keys::row_of_identity(identity).to_vec();
    match (key >= scan_range.lo, *rows) {
        (false, _) => Bound::Unbounded,
        (true, u64::MAX) => Bound::Excluded(key),
        (true, _) => Bound::Included(key),
    }
}

/// Whether an identity is at or behind the row at which a page begins.
fn is_ahead(start: &Bound<Vec<u8>>, identity: &[u8]) -> bool {
    match start {
        Bound::Unbounded => true,
        Bound::Included(key) => key.get(1..).is_some_and(|from| identity >= from),
        Bound::Excluded(key) => key.get(1..).is_some_and(|from| identity > from),
    }
}
