//! A page's way through the ranges of its scope, and what it costs in each.

use std::collections::VecDeque;
use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;

use model::{Charge, Epk, PartitionId, PartitionKeyDefinition};
use query::access::Access;
use query::exec::{At, End, Execution};
use query::stopwatch::{Phase, Stopwatch};
use storage::View;

use super::access_path::Way;
use super::{PageWork, Stretch};
use crate::continuation::Position;
use crate::governor::Paid;
use crate::index::{Found, FoundRows, Ground, Indexes, Order, OrderWalk, OrderedRows, Rows, Start};
use crate::keys::{self, EpkForm};
use crate::ops::PageTimes;
use crate::partition::{Reader, RowBounds, RowScan, RowShelf, ScanLimits, Seen, too_late};
use crate::{Admission, Engine, Error, StoredItem, ru};

/// A page ends after this long, so that no view is held for long and no client waits for ever.
const PAGE_TIME_MAX: Duration = Duration::from_secs(1);
/// A query that must see all rows before it returns the first fails after this long.
const QUERY_TIME_MAX: Duration = Duration::from_secs(30);

/// Items that are counted between two looks at the clock.
const COUNTED_PER_CLOCK: u64 = 65_536;

/// A page's way through the ranges of its scope.
pub(super) struct Walk<'w> {
    pub(super) engine: &'w Engine,
    pub(super) indexes: &'w Indexes,
    pub(super) key_definition: &'w PartitionKeyDefinition,
    pub(super) form: EpkForm,
    pub(super) reader: Reader,
    pub(super) view: &'w dyn View,
    pub(super) stretches: &'w [Stretch],
    pub(super) started: Duration,
    /// Whether somebody wants to know which indexes serve the query.
    pub(super) has_report: bool,
    /// Measures what takes how long, if somebody wants to know that.
    pub(super) stopwatch: Option<Rc<Stopwatch>>,
}

/// How a walk ended, and the place it looked at last if it ended before its time.
pub(super) type Ended = (End, Option<Vec<u8>>);

/// Where the rows of a stretch are looked for.
enum Where<'f> {
    /// In an index, if that helps.
    Set(&'f Access),
    /// They were found already.
    Found(Found),
    /// Everywhere.
    Everywhere,
}

/// Where the rows of all stretches are looked for.
enum Everywhere<'f> {
    Set(&'f Access),
    Found(Vec<Option<Found>>),
}

impl Everywhere<'_> {
    /// Where those of one stretch are.
    fn at(&mut self, stretch: usize) -> Where<'_> {
        match self {
            Everywhere::Set(access) => Where::Set(access),
            Everywhere::Found(found) => match found.get_mut(stretch).and_then(Option::take) {
                Some(found) => Where::Found(found),
                None => Where::Everywhere,
            },
        }
    }
}

impl Walk<'_> {
    /// Fills a page.
    pub(super) fn run(&self, work: &mut PageWork) -> Result<(Execution<StoredItem>, Ended), Error> {
        let position = work.position.query.clone();
        let execution = Execution::new(work.plan.clone(), position.clone(), work.limits);
        if execution.is_satisfied() {
            return Ok((execution, (End::Satisfied, None)));
        }
        let stretches = if work.plan.reads_items() { self.stretches } else { &[] };
        let mut advances = match work.plan.is_stream() {
            true => Advances::default(),
            false => self.pay_in_advance(stretches, work)?,
        };
        let choice = self.once(Phase::Choosing, || self.choose(work))?;
        self.note_way(work, &choice.way);
        let seen = &choice.seen;
        let mut execution = match &choice.way {
            Way::ByOrder(_) => Execution::ordered(choice.plan, position, work.limits),
            Way::ByPlace(_) | Way::Found(_) | Way::First(_) | Way::Counted(_) | Way::Totals(_) => {
                Execution::new(choice.plan, position, work.limits)
            }
        };
        if work.keeps_pieces {
            execution.keep_pieces();
        }
        if let Some(stopwatch) = &self.stopwatch {
            execution.measure(stopwatch);
        }
        let engine = self.engine.clone();
        execution.give_way_by(Rc::new(move || engine.give_way()));
        let ended = match choice.way {
            Way::ByPlace(access) => {
                let rows = Everywhere::Set(&access);
                self.go_by_place(&mut execution, work, stretches, &mut advances, seen, rows)?
            }
            Way::Found(found) => {
                let rows = Everywhere::Found(found);
                self.go_by_place(&mut execution, work, stretches, &mut advances, seen, rows)?
            }
            Way::Counted(counts) => {
                for ((stretch, seen), count) in stretches.iter().zip(seen).zip(counts) {
                    work.enter(stretch)?;
                    self.take_counted(&mut execution, count)?;
                    self.settle(stretch, work, advances.next(), seen);
                }
                (execution.finish(&mut self.shelf(&Seen::default()))?, None)
            }
            Way::Totals(totals) => {
                for stretch in stretches {
                    work.enter(stretch)?;
                }
                execution.take_totals(&totals);
                self.settle_all(stretches, work, &mut advances, seen);
                (execution.finish(&mut self.shelf(&Seen::default()))?, None)
            }
            Way::ByOrder(order) => {
                let end = self.go_in_order(&mut execution, work, &order, seen, u64::MAX, true);
                self.settle_all(stretches, work, &mut advances, seen);
                (end?, None)
            }
            Way::First(order) => {
                let end = self.go_in_order(&mut execution, work, &order, seen, 1, false);
                self.settle_all(stretches, work, &mut advances, seen);
                end?;
                (execution.finish(&mut self.shelf(&Seen::default()))?, None)
            }
        };
        Ok((execution, ended))
    }

    /// Does something that is done once for a page or range, measured if somebody wants to know.
    pub(super) fn once<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        match &self.stopwatch {
            Some(stopwatch) => stopwatch.once(phase, work),
            None => work(),
        }
    }

    /// What took how long since the walk began, if that was measured.
    pub(super) fn times(&self) -> Option<PageTimes> {
        let stopwatch = self.stopwatch.as_ref()?;
        let total = self.engine.inner.components.clock.monotonic().saturating_sub(self.started);
        // What is known of some items only may be more than there is.
        let mut left = total;
        let mut part = |phase| {
            let spent = stopwatch.spent(phase).min(left);
            left -= spent;
            spent
        };
        Some(PageTimes {
            total,
            optimizing: part(Phase::Optimizing),
            choosing: part(Phase::Choosing),
            index_lookup: part(Phase::IndexLookup),
            loading: part(Phase::Loading),
            system_functions: part(Phase::SystemFunctions),
            user_functions: part(Phase::UserFunctions),
        })
    }

    /// Takes items that were only counted, within the time there is.
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

    /// Whether a query that must see all it is about takes too long.
    pub(super) fn is_late(&self) -> bool {
        self.engine.give_way();
        self.engine.inner.components.clock.monotonic() >= self.started + QUERY_TIME_MAX
    }

    fn go_by_place(
        &self,
        execution: &mut Execution<StoredItem>,
        work: &mut PageWork,
        stretches: &[Stretch],
        advances: &mut Advances<'_>,
        seen: &[Seen],
        mut rows: Everywhere<'_>,
    ) -> Result<Ended, Error> {
        let can_pause = execution.can_pause();
        let has_looked_up = execution.must_look_up();
        if has_looked_up {
            for stretch in stretches {
                let (paid, seen) = (self.admit(stretch, work.admission, work)?, Seen::default());
                let found =
                    self.pull(stretch, work, false, paid, &seen, Where::Everywhere, |rows| {
                        execution.look_up(rows)
                    })?;
                if found.0 {
                    break;
                }
            }
        }
        let mut looked_at = None;
        let Some(last) = stretches.last() else {
            work.charge += charge_of(&Seen::default());
            return Ok((execution.finish(&mut self.shelf(&Seen::default()))?, None));
        };
        for (at, (stretch, seen)) in stretches.iter().zip(seen).enumerate() {
            let admission = match looked_at {
                Some(_) => work.admission.silent(),
                None => work.admission,
            };
            let paid = match advances.next() {
                Some(paid) => Ok(paid),
                // The request has been let in for what it looked up.
                None if has_looked_up => Ok(self.admit_further(stretch, work)),
                None => self.admit(stretch, admission, work),
            };
            let paid = match paid {
                // The caller takes what there is and comes again for the rest.
                Err(_) if looked_at.is_some() => return Ok((End::Full, looked_at)),
                paid => paid?,
            };
            let (end, place) =
                self.pull(stretch, work, can_pause, paid, seen, rows.at(at), |rows| {
                    execution.pull(rows)
                })?;
            if end != End::Exhausted {
                return Ok((end, place.or(looked_at)));
            }
            if can_pause {
                // Beyond everything of this range, also if there was nothing.
                looked_at = stretch.hi.get(1..).map(<[u8]>::to_vec);
                if work.ends_with_range && !std::ptr::eq(stretch, last) {
                    return Ok((End::Full, looked_at));
                }
            }
        }
        let seen = Seen::default();
        let end = execution.finish(&mut self.shelf(&seen));
        work.note_read(&seen);
        Ok((end?, None))
    }

    /// Takes rows of all stretches in the order of an index, at most `rows_max`.
    fn go_in_order(
        &self,
        execution: &mut Execution<StoredItem>,
        work: &mut PageWork,
        order: &Order,
        seen: &[Seen],
        rows_max: u64,
        can_pause: bool,
    ) -> Result<End, Error> {
        for stretch in self.stretches {
            work.enter(stretch)?;
        }
        let within: Vec<_> = self.stretches.iter().map(|stretch| self.within(stretch)).collect();
        let parts = || self.stretches.iter().zip(seen);
        let is_costly = |_: &Seen| {
            parts().any(|(stretch, seen)| {
                let max = stretch.range.partition.meter.page_charge_max();
                max.is_some_and(|max| charge_of(seen) >= max)
            })
        };
        let limits = self.limits(can_pause, &is_costly);
        let position = work.position.query.at.clone();
        let in_index = execution.start_in_index();
        let open = || {
            let start = match (&position, &in_index) {
                (At::Key { key, number, .. }, Some(in_index)) => {
                    Some(Start { key, number: *number, in_index: in_index.clone() })
                }
                _ => None,
            };
            let mut walks = Vec::with_capacity(self.stretches.len());
            for ((stretch, seen), within) in parts().zip(&within) {
                let ground = self.ground(stretch, seen, within.as_ref());
                walks.push((OrderWalk::new(order, ground, start.as_ref())?, ground));
            }
            self.once(Phase::IndexLookup, || OrderedRows::new(walks, limits, rows_max))
        };
        if execution.must_look_up() {
            execution.look_up(&mut open()?)?;
        }
        execution.pull(&mut open()?)
    }

    fn admit(
        &self,
        stretch: &Stretch,
        admission: Admission,
        work: &PageWork,
    ) -> Result<Paid, Error> {
        match work.is_let_in {
            true => Ok(self.admit_further(stretch, work)),
            false => self.engine.try_admit(admission, &stretch.range, ru::query(1, 0, 0)),
        }
    }

    fn admit_further(&self, stretch: &Stretch, work: &PageWork) -> Paid {
        self.engine.admit_further(work.admission, &stretch.range, ru::query(1, 0, 0))
    }

    /// Has all stretches let the walk in, or none of them paid.
    fn pay_in_advance<'s>(
        &self,
        stretches: &'s [Stretch],
        work: &PageWork,
    ) -> Result<Advances<'s>, Error> {
        let mut advances = Advances::default();
        for stretch in stretches {
            advances.paid.push_back((stretch, self.admit(stretch, work.admission, work)?));
        }
        Ok(advances)
    }

    /// Lets `pull` take rows of a stretch that has let it in, and has them paid. Returns what it
    /// made of them, and the place looked at last.
    #[expect(clippy::too_many_arguments, reason = "what is pulled, from where, at whose cost")]
    fn pull<T>(
        &self,
        stretch: &Stretch,
        work: &mut PageWork,
        can_pause: bool,
        paid: Paid,
        seen: &Seen,
        rows: Where<'_>,
        pull: impl FnOnce(&mut Rows<'_>) -> Result<T, Error>,
    ) -> Result<(T, Option<Vec<u8>>), Error> {
        let pulled = self.take(stretch, work, can_pause, seen, rows, pull);
        self.settle(stretch, work, Some(paid), seen);
        pulled
    }

    /// Has what was seen of a stretch paid.
    fn settle(&self, stretch: &Stretch, work: &mut PageWork, paid: Option<Paid>, seen: &Seen) {
        let charge = charge_of(seen);
        if let Some(paid) = paid {
            stretch.range.partition.meter.settle(paid, charge, stretch.name.as_ref());
        }
        work.charge += charge;
        work.note_read(seen);
        work.note_range(stretch, seen, charge);
    }

    fn settle_all(
        &self,
        stretches: &[Stretch],
        work: &mut PageWork,
        advances: &mut Advances<'_>,
        seen: &[Seen],
    ) {
        for (stretch, seen) in stretches.iter().zip(seen) {
            self.settle(stretch, work, advances.next(), seen);
        }
    }

    fn take<T>(
        &self,
        stretch: &Stretch,
        work: &mut PageWork,
        can_pause: bool,
        seen: &Seen,
        rows: Where<'_>,
        pull: impl FnOnce(&mut Rows<'_>) -> Result<T, Error>,
    ) -> Result<(T, Option<Vec<u8>>), Error> {
        work.enter(stretch)?;
        let start = start_of(&work.position, stretch);
        let charge_max = stretch.range.partition.meter.page_charge_max();
        let is_costly = |seen: &Seen| charge_max.is_some_and(|max| charge_of(seen) >= max);
        let limits = self.limits(can_pause, &is_costly);
        let found = match rows {
            Where::Found(found) => Some(found),
            Where::Set(access) => self.find_for_page(stretch, access, can_pause, seen)?,
            Where::Everywhere => None,
        };
        let mut rows = match found {
            Some(found) => {
                seen.is_indexed.set(true);
                let ground = self.ground(stretch, seen, None);
                let mut postings = found.postings;
                postings.retain(|posting| is_ahead(&start, &posting.place));
                Rows::Found(FoundRows::new(ground, limits, postings))
            }
            None => {
                let lo = match &start {
                    Bound::Included(key) => Bound::Included(key.as_slice()),
                    Bound::Excluded(key) => Bound::Excluded(key.as_slice()),
                    Bound::Unbounded => Bound::Included(stretch.lo.as_slice()),
                };
                let partition = stretch.range.partition.id;
                let bounds = RowBounds { partition, lo, hi: &stretch.hi };
                let (form, reader) = (self.form, self.reader);
                Rows::Scanned(RowScan::new(self.view, &bounds, form, reader, limits, seen)?)
            }
        };
        let pulled = pull(&mut rows)?;
        Ok((pulled, rows.place().map(<[u8]>::to_vec)))
    }

    fn limits<'l>(
        &'l self,
        can_pause: bool,
        is_costly: &'l dyn Fn(&Seen) -> bool,
    ) -> ScanLimits<'l> {
        ScanLimits {
            clock: self.engine.inner.components.clock.as_ref(),
            spawner: self.engine.inner.components.spawner.as_ref(),
            pause_at: can_pause.then(|| self.started + PAGE_TIME_MAX),
            fail_at: self.started + QUERY_TIME_MAX,
            is_costly,
            stopwatch: self.stopwatch.as_deref(),
        }
    }

    fn ground<'g>(
        &'g self,
        stretch: &Stretch,
        seen: &'g Seen,
        within: Option<&'g (Vec<u8>, Vec<u8>)>,
    ) -> Ground<'g> {
        Ground {
            view: self.view,
            partition: stretch.range.partition.id,
            form: self.form,
            reader: self.reader,
            within,
            seen,
        }
    }

    fn shelf<'s>(&'s self, seen: &'s Seen) -> RowShelf<'s, impl Fn(&Epk) -> Option<PartitionId>> {
        RowShelf {
            view: self.view,
            form: self.form,
            reader: self.reader,
            partition_of: |epk: &Epk| self.partition_of(epk),
            seen,
            stopwatch: self.stopwatch.as_deref(),
        }
    }

    fn partition_of(&self, epk: &Epk) -> Option<PartitionId> {
        let holds = |stretch: &&Stretch| stretch.range.epk.contains(epk);
        self.stretches.iter().find(holds).map(|stretch| stretch.range.partition.id)
    }
}

/// What was paid for stretches that are still to be walked, in their order. Where the walk does
/// not get to, it is paid back.
#[derive(Default)]
struct Advances<'s> {
    paid: VecDeque<(&'s Stretch, Paid)>,
}

impl Advances<'_> {
    /// What was paid for the next stretch, if anything was.
    fn next(&mut self) -> Option<Paid> {
        self.paid.pop_front().map(|(_, paid)| paid)
    }
}

impl Drop for Advances<'_> {
    fn drop(&mut self) {
        for (stretch, paid) in self.paid.drain(..) {
            stretch.range.partition.meter.settle(paid, Charge::ZERO, None);
        }
    }
}

/// What looking at rows of one range costs.
fn charge_of(seen: &Seen) -> Charge {
    let walked = seen.walked.get();
    ru::query(1, walked.rows, walked.bytes) + ru::index_entries(seen.entries.get())
}

/// The row that a page from `position` on begins with in a stretch.
fn start_of(position: &Position, stretch: &Stretch) -> Bound<Vec<u8>> {
    let At::Item { place, rows } = &position.query.at else { return Bound::Unbounded };
    let key = keys::row_of_identity(place).to_vec();
    match (key >= stretch.lo, *rows) {
        (false, _) => Bound::Unbounded,
        (true, u64::MAX) => Bound::Excluded(key),
        (true, _) => Bound::Included(key),
    }
}

/// Whether a place is not before the row that a page begins with.
fn is_ahead(start: &Bound<Vec<u8>>, place: &[u8]) -> bool {
    match start {
        Bound::Unbounded => true,
        Bound::Included(key) => key.get(1..).is_some_and(|from| place >= from),
        Bound::Excluded(key) => key.get(1..).is_some_and(|from| place > from),
    }
}
