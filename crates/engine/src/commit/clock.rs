//! The commit clock: a time for every commit, unique in the store, that never goes back.
//!
//! Versions carry real time, which may be set back. Clients of some APIs compare the times of
//! commits, even of different partitions, so those come from a clock of their own.

use std::sync::atomic::{AtomicU64, Ordering};

use model::Timestamp;

/// The lower bits of a time count the commits of a second.
const COUNT_BITS: u32 = 32;
/// How far other nodes' clocks may be ahead.
const SECONDS_AHEAD_MAX: u64 = 366 * 24 * 3600;

/// A time of the commit clock: seconds since the Unix epoch, and a number that tells the commits of
/// a second apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitTime(pub u64);

impl CommitTime {
    /// The time of these parts.
    pub fn of(seconds: u32, count: u32) -> Self {
        Self(u64::from(seconds) << COUNT_BITS | u64::from(count))
    }

    /// Seconds since the Unix epoch.
    pub fn seconds(self) -> u32 {
        u32::try_from(self.0 >> COUNT_BITS).unwrap_or(u32::MAX)
    }

    /// The number within the second.
    pub fn count(self) -> u32 {
        // Masked, so nothing is lost.
        u32::try_from(self.0 & u64::from(u32::MAX)).unwrap_or(u32::MAX)
    }

    /// The first time of the second that the clock shows.
    fn first_of(now: Timestamp) -> Self {
        Self::of(u32::try_from(now.seconds()).unwrap_or(u32::MAX), 1)
    }
}

/// Gives commits their times, and tells readers the time of the last durable one.
#[derive(Debug, Default)]
pub(crate) struct CommitClock {
    /// The last time that was given.
    given: AtomicU64,
    /// The last time of a commit that is durable, or that another node has told.
    reached: AtomicU64,
}

impl CommitClock {
    /// A clock of a store whose last commit has this time.
    pub(crate) fn starting_at(last: u64) -> Self {
        Self { given: last.into(), reached: last.into() }
    }

    /// The time of a commit made `now`. Only the committer takes times.
    pub(super) fn next(&self, now: Timestamp) -> u64 {
        let last = self.given.load(Ordering::Relaxed);
        let next = CommitTime::first_of(now).0.max(last.saturating_add(1));
        self.given.fetch_max(next, Ordering::Relaxed);
        next
    }

    /// A commit of this time is durable.
    pub(super) fn reach(&self, time: u64) {
        // ORDERING: Release pairs with the Acquire in `reached`: who sees the time sees the commit.
        self.reached.fetch_max(time, Ordering::Release);
    }

    /// The time of the last durable commit, or a later one that another node has told.
    pub(crate) fn reached(&self) -> CommitTime {
        CommitTime(self.reached.load(Ordering::Acquire))
    }

    /// Lets all later commits have later times than this one, which another node has given. Refuses
    /// a time that is too far ahead of the real one.
    pub(crate) fn advance(&self, to: CommitTime, now: Timestamp) -> bool {
        if u64::from(to.seconds()) > now.seconds().saturating_add(SECONDS_AHEAD_MAX) {
            return false;
        }
        self.given.fetch_max(to.0, Ordering::Relaxed);
        self.reach(to.0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_unique_and_grow_whatever_the_clock_does() {
        let clock = CommitClock::default();
        let next = |millis| CommitTime(clock.next(Timestamp(millis)));
        assert_eq!(next(5_000), CommitTime::of(5, 1));
        assert_eq!(next(5_999), CommitTime::of(5, 2));
        assert_eq!(next(1_000), CommitTime::of(5, 3), "the clock was set back");
        assert_eq!(next(7_000), CommitTime::of(7, 1));
        let again = CommitClock::starting_at(CommitTime::of(7, 1).0);
        assert_eq!(CommitTime(again.next(Timestamp(6_000))), CommitTime::of(7, 2));
    }

    #[test]
    fn what_another_node_tells_is_believed_up_to_a_year_ahead() {
        let clock = CommitClock::default();
        let now = Timestamp(1_000_000);
        assert!(clock.advance(CommitTime::of(2_000, 7), now));
        assert_eq!(clock.reached(), CommitTime::of(2_000, 7));
        assert_eq!(CommitTime(clock.next(now)), CommitTime::of(2_000, 8));
        assert!(!clock.advance(CommitTime::of(u32::MAX, 1), now));
        assert_eq!(clock.reached(), CommitTime::of(2_000, 7));
    }
}
