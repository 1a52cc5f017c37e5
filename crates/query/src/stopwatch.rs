//! Where the time of a page goes, for clients that ask for query metrics.
//!
//! Reading the clock takes about as long as evaluating a small item, so only some items are
//! measured, and each of them stands for those that are not. Work that is done once per page or
//! range is measured every time.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

/// This many items are all measured, which makes the times of a small page exact.
const MEASURED_FIRST: u64 = 16;
/// Of later items only one in this many is measured. Items are often in blocks of powers of two, so
/// a power of two would measure always the first of a block or never.
const MEASURED_ONE_OF: u32 = 17;
const MEASURED_MIDDLE: u64 = 8;

/// What time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Finding which indexes could serve the query.
    Optimizing,
    /// Choosing access paths.
    Planning,
    /// Index lookups.
    IndexLookup,
    /// Reading items from the store.
    Loading,
    /// Built-in functions.
    SystemFunctions,
    /// User-defined functions of the container.
    UserFunctions,
}

const PHASES: usize = 6;

/// Measures phases. A phase within another one counts as part of the outer one, except those within
/// [`Phase::Planning`], whose time excludes them.
pub struct Stopwatch {
    now: Box<dyn Fn() -> Duration>,
    items: Cell<u64>,
    /// How many items the current one stands for; 0 if it is not measured.
    weight: Cell<u32>,
    running: Cell<Option<Phase>>,
    /// The time of other phases within the running one.
    within: Cell<Duration>,
    spent: [Cell<Duration>; PHASES],
}

impl Stopwatch {
    /// A stopwatch that reads the time from `now`.
    pub fn new(now: impl Fn() -> Duration + 'static) -> Self {
        Self {
            now: Box::new(now),
            items: Cell::new(0),
            weight: Cell::new(1),
            running: Cell::new(None),
            within: Cell::default(),
            spent: Default::default(),
        }
    }

    /// Moves to the next item.
    pub fn next_item(&self) {
        let before = self.items.replace(self.items.get() + 1);
        self.weight.set(match before.checked_sub(MEASURED_FIRST) {
            None => 1,
            // In the middle of the items that it stands for.
            Some(later) => match later % u64::from(MEASURED_ONE_OF) == MEASURED_MIDDLE {
                true => MEASURED_ONE_OF,
                false => 0,
            },
        });
    }

    /// Runs work for the current item, measured if that item is.
    pub fn of_item<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        match self.weight.get() {
            0 => work(),
            weight => self.measure(phase, weight, work),
        }
    }

    /// Runs work that is done once, always measured.
    pub fn once<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        self.measure(phase, 1, work)
    }

    fn measure<T>(&self, phase: Phase, weight: u32, work: impl FnOnce() -> T) -> T {
        let around = self.running.get();
        if around.is_some_and(|around| around != Phase::Planning) {
            return work();
        }
        self.running.set(Some(phase));
        let began = (self.now)();
        let done = work();
        let took = (self.now)().saturating_sub(began).saturating_mul(weight);
        self.running.set(around);
        match around {
            Some(_) => {
                self.within.set(self.within.get() + took);
                self.add(phase, took);
            }
            None => self.add(phase, took.saturating_sub(self.within.take())),
        }
        done
    }

    fn add(&self, phase: Phase, took: Duration) {
        let spent = &self.spent[phase as usize];
        spent.set(spent.get().saturating_add(took));
    }

    /// The time of a phase so far.
    pub fn spent(&self, phase: Phase) -> Duration {
        self.spent[phase as usize].get()
    }
}

impl fmt::Debug for Stopwatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopwatch").field("spent", &self.spent).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A stopwatch, and a function that advances its time.
    fn stopwatch() -> (Stopwatch, impl Fn(u32)) {
        let time = Rc::new(Cell::new(Duration::ZERO));
        let shown = Rc::clone(&time);
        (Stopwatch::new(move || shown.get()), move |ms| time.set(time.get() + MS * ms))
    }

    #[test]
    fn the_times_of_few_items_are_exact() {
        let (watch, pass) = stopwatch();
        for ms in 1..=16 {
            watch.next_item();
            watch.of_item(Phase::Loading, || pass(ms));
        }
        assert_eq!(watch.spent(Phase::Loading), MS * (1..=16).sum());
        assert_eq!(watch.spent(Phase::IndexLookup), Duration::ZERO);
    }

    #[test]
    fn of_many_items_some_stand_for_all() {
        let (watch, pass) = stopwatch();
        let measured = Cell::new(0);
        for _ in 0..MEASURED_FIRST + 1_000 * u64::from(MEASURED_ONE_OF) {
            watch.next_item();
            measured.set(measured.get() + u32::from(watch.weight.get() > 0));
            watch.of_item(Phase::SystemFunctions, || pass(1));
        }
        assert_eq!(watch.spent(Phase::SystemFunctions), MS * 17_016);
        assert_eq!(measured.get(), 1_016);
    }

    #[test]
    fn no_time_is_counted_twice() {
        let (watch, pass) = stopwatch();
        watch.once(Phase::Planning, || {
            pass(1);
            watch.once(Phase::Optimizing, || pass(2));
            watch.once(Phase::IndexLookup, || {
                pass(3);
                watch.once(Phase::Loading, || pass(4));
            });
            watch.once(Phase::IndexLookup, || pass(5));
        });
        watch.once(Phase::Planning, || pass(6));
        assert_eq!(watch.spent(Phase::Planning), MS * 7);
        assert_eq!(watch.spent(Phase::Optimizing), MS * 2);
        assert_eq!(watch.spent(Phase::IndexLookup), MS * 12);
        assert_eq!(watch.spent(Phase::Loading), Duration::ZERO);
    }
}
