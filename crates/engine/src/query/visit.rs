//! Visits the ranges of a scan, each in its order, and has them paid for.

use std::ops::{Bound, Range};

use model::Charge;
use query::exec::{Execution, ItemOrder, PageEnd, RowPosition};
use query::stopwatch::Phase;

use super::PageWork;
use super::route::ScanStop;
use super::scan::{Prepayments, RowSource, RowSources, Scan, ScanEnd, charge_of, cost_limit_of};
use super::scope::ScanRange;
use crate::governor::Paid;
use crate::index::{NumberedRows, PostingList, PostingRows, Rows};
use crate::keys;
use crate::partition::{RowBounds, RowScan, ScanStats};
use crate::{Error, StoredItem};

/// How a range is visited.
struct Visit {
    /// Whether the page may end before all items were read.
    can_pause: bool,
    /// Where the page begins in it.
    start: RowPosition,
    /// Whether it is read only for what earlier pages have returned.
    is_marking: bool,
}

impl Visit {
    /// A visit of all of a range.
    fn whole(can_pause: bool) -> Self {
        Self { can_pause, start: RowPosition::Start, is_marking: false }
    }
}

/// Ranges that are visited together, each with its charge.
struct ScanPart<'p> {
    scan_ranges: &'p [ScanRange],
    stats: &'p [ScanStats],
    paid: Vec<Paid>,
}

/// What ranges have been paid.
struct Payments<'p, 's> {
    prepayments: &'p mut Prepayments<'s>,
    /// Whether they have admitted the request for what it looked up.
    has_looked_up: bool,
}

impl Scan<'_> {
    /// Reads rows of the segments of the scan, one after the other.
    pub(super) fn scan_in_storage_order(
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
                    &Visit::whole(false),
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
        if scan_ranges.is_empty() {
            work.charge += charge_of(&ScanStats::default());
            let end = execution.finish(&mut self.row_lookup(&ScanStats::default()))?;
            return Ok((end, ScanStop::AtRow));
        }
        let mut payments = Payments { prepayments, has_looked_up };
        let mut reached = None;
        let segments = &self.route.segments;
        for (at, segment) in segments.iter().enumerate() {
            match segment.marks {
                Some(marks) => execution.begin_marks(marks),
                None => execution.begin_range(segment.order(), !segment.is_begun),
            }
            let start = self.route.start_in(segment, &work.position).clone();
            let visit = Visit { can_pause, start, is_marking: segment.marks.is_some() };
            let turns: Vec<Range<usize>> = match segment.order() {
                ItemOrder::Identity => segment.ranges.clone().map(|at| at..at + 1).collect(),
                ItemOrder::Number => vec![segment.ranges.clone()],
            };
            let mut passed = None;
            for turn in turns {
                let is_last = turn.end == segment.ranges.end;
                let part = &scan_ranges[turn.clone()];
                let paid = match self.pay(part, work, &mut payments, reached.is_some()) {
                    Ok(paid) => paid,
                    // The caller returns the rows there are, and the client requests the rest.
                    Err(error) => return reached.map(|stop| (PageEnd::Full, stop)).ok_or(error),
                };
                let part = ScanPart { scan_ranges: part, stats: &stats[turn.clone()], paid };
                let (end, last_read) = match segment.order() {
                    ItemOrder::Identity => {
                        self.scan_in_key_order(part, rows.at(turn.start), execution, work, &visit)?
                    }
                    ItemOrder::Number => {
                        let sources = (&mut rows, turn.start);
                        self.scan_in_number_order(part, sources, execution, work, &visit)?
                    }
                };
                if end != PageEnd::Exhausted {
                    let last_read = last_read.or(passed);
                    return Ok((end, ScanStop::In { segment: at, last_read }));
                }
                if !can_pause || is_last {
                    continue;
                }
                // Behind all rows of this range, even if it has none.
                let end = scan_ranges[turn.start].hi.get(1..).unwrap_or_default().to_vec();
                passed = Some(RowPosition::Item { identity: end, rows: u64::MAX });
                let stop = ScanStop::In { segment: at, last_read: passed.clone() };
                if work.ends_with_range {
                    return Ok((PageEnd::Full, stop));
                }
                reached = Some(stop);
            }
            execution.end_range();
            if can_pause {
                if work.ends_with_range && at + 1 < segments.len() {
                    return Ok((PageEnd::Full, ScanStop::Behind(at)));
                }
                reached = Some(ScanStop::Behind(at));
            }
        }
        let stats = ScanStats::default();
        let end = execution.finish(&mut self.row_lookup(&stats));
        work.note_read(&stats);
        Ok((end?, ScanStop::AtRow))
    }

    /// Has some ranges admit the scan, or charges none of them. Ranges behind others ask without
    /// being counted as refusing.
    fn pay(
        &self,
        scan_ranges: &[ScanRange],
        work: &PageWork,
        payments: &mut Payments<'_, '_>,
        is_behind: bool,
    ) -> Result<Vec<Paid>, Error> {
        let admission = match is_behind {
            true => work.admission.silent(),
            false => work.admission,
        };
        let mut all = Vec::with_capacity(scan_ranges.len());
        for scan_range in scan_ranges {
            let paid = match payments.prepayments.next() {
                Some(paid) => Ok(paid),
                // The request was admitted for what it looked up.
                None if payments.has_looked_up => Ok(self.admit_further(scan_range, work)),
                None => self.admit(scan_range, admission, work),
            };
            match paid {
                Ok(paid) => all.push(paid),
                Err(error) => {
                    for (scan_range, paid) in scan_ranges.iter().zip(all) {
                        scan_range.range.partition.meter.settle(paid, Charge::ZERO, None);
                    }
                    return Err(error);
                }
            }
        }
        Ok(all)
    }

    /// Reads the rows of a range in the order of the hash line.
    fn scan_in_key_order(
        &self,
        part: ScanPart<'_>,
        rows: RowSource<'_>,
        execution: &mut Execution<StoredItem>,
        work: &mut PageWork,
        visit: &Visit,
    ) -> Result<(PageEnd, Option<RowPosition>), Error> {
        let ([scan_range], [stats]) = (part.scan_ranges, part.stats) else {
            return Ok((PageEnd::Exhausted, None));
        };
        let Some(paid) = part.paid.into_iter().next() else {
            return Ok((PageEnd::Exhausted, None));
        };
        self.pull(scan_range, work, visit, paid, stats, rows, |rows| execution.pull(rows))
    }

    /// Reads the rows of some ranges in the order of their numbers.
    fn scan_in_number_order(
        &self,
        part: ScanPart<'_>,
        (rows, first): (&mut RowSources<'_>, usize),
        execution: &mut Execution<StoredItem>,
        work: &mut PageWork,
        visit: &Visit,
    ) -> Result<(PageEnd, Option<RowPosition>), Error> {
        let ScanPart { scan_ranges, stats, paid } = part;
        let pulled = self.take_by_number(scan_ranges, stats, (rows, first), execution, work, visit);
        for ((scan_range, stats), paid) in scan_ranges.iter().zip(stats).zip(paid) {
            self.settle(scan_range, work, Some(paid), stats);
        }
        pulled
    }

    fn take_by_number(
        &self,
        scan_ranges: &[ScanRange],
        stats: &[ScanStats],
        (rows, first): (&mut RowSources<'_>, usize),
        execution: &mut Execution<StoredItem>,
        work: &mut PageWork,
        visit: &Visit,
    ) -> Result<(PageEnd, Option<RowPosition>), Error> {
        for scan_range in scan_ranges {
            work.enter(scan_range)?;
        }
        let is_costly = cost_limit_of(scan_ranges, stats);
        let limits = self.limits(visit.can_pause, &is_costly);
        let mut numbered = NumberedRows::new(limits, &visit.start);
        for (at, (scan_range, stats)) in (first..).zip(scan_ranges.iter().zip(stats)) {
            let context = self.context(scan_range, stats, None);
            match self.found(scan_range, rows.at(at), visit.can_pause, stats)? {
                Some(found) => numbered.add_postings(context, found.postings),
                None => numbered.add_rows(context, &scan_range.lo, &scan_range.hi),
            }
        }
        self.once(Phase::Loading, || numbered.load())?;
        let mut rows = Rows::Numbered(numbered);
        let end = execution.pull(&mut rows)?;
        Ok((end, rows.last_read()))
    }

    /// Lets `pull` take rows of a range that has admitted the scan, and settles their charge.
    /// Returns the result of `pull`, and the position behind the row read last.
    #[expect(clippy::too_many_arguments, reason = "what is pulled, from where, at whose cost")]
    fn pull<T>(
        &self,
        scan_range: &ScanRange,
        work: &mut PageWork,
        visit: &Visit,
        paid: Paid,
        stats: &ScanStats,
        rows: RowSource<'_>,
        pull: impl FnOnce(&mut Rows<'_>) -> Result<T, Error>,
    ) -> Result<(T, Option<RowPosition>), Error> {
        let pulled = self.take(scan_range, work, visit, stats, rows, pull);
        self.settle(scan_range, work, Some(paid), stats);
        pulled
    }

    fn take<T>(
        &self,
        scan_range: &ScanRange,
        work: &mut PageWork,
        visit: &Visit,
        stats: &ScanStats,
        rows: RowSource<'_>,
        pull: impl FnOnce(&mut Rows<'_>) -> Result<T, Error>,
    ) -> Result<(T, Option<RowPosition>), Error> {
        // Of a range that is read for marks alone no row is returned.
        if !visit.is_marking {
            work.enter(scan_range)?;
        }
        let start = start_of(&visit.start, scan_range);
        let charge_max = scan_range.range.partition.meter.page_charge_max();
        let is_costly = |stats: &ScanStats| charge_max.is_some_and(|max| charge_of(stats) >= max);
        let limits = self.limits(visit.can_pause, &is_costly);
        let mut rows = match self.found(scan_range, rows, visit.can_pause, stats)? {
            Some(found) => {
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
        Ok((pulled, rows.last_read()))
    }

    /// The rows of a range that an index names; `None` for a full scan.
    fn found(
        &self,
        scan_range: &ScanRange,
        rows: RowSource<'_>,
        can_pause: bool,
        stats: &ScanStats,
    ) -> Result<Option<PostingList>, Error> {
        let found = match rows {
            RowSource::PostingList(found) => Some(found),
            RowSource::Index(index_set) => {
                self.find_for_page(scan_range, index_set, can_pause, stats)?
            }
            RowSource::FullScan => None,
        };
        if found.is_some() {
            stats.is_indexed.set(true);
        }
        Ok(found)
    }
}

/// The row of a range at which a page from `start` begins.
fn start_of(start: &RowPosition, scan_range: &ScanRange) -> Bound<Vec<u8>> {
    let RowPosition::Item { identity, rows } = start else { return Bound::Unbounded };
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
