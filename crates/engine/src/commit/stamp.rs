//! The times that versions carry.
//!
//! A version's time is the real one, and later than that of the version it replaces. Nothing else
//! delays or advances it: the clock of one run may be days ahead of that of the next, and a write
//! then has the time of the next clock. The order of writes is that of their positions.

use model::{Lsn, Timestamp};

use crate::row::RowHead;

const TICKS_PER_MILLI: u64 = 10_000;
/// How far times of a partition may be ahead of the clock because commits follow each other faster
/// than it ticks.
const TICKS_AHEAD_MAX: u64 = 10 * TICKS_PER_MILLI;

/// A time of a commit or version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    /// Seconds since the Unix epoch.
    pub(crate) seconds: u64,
    /// 100 ns ticks after them.
    pub(crate) ticks: u32,
}

impl Stamp {
    /// As exact as the clock.
    pub(crate) fn of(now: Timestamp) -> Self {
        Self::from_ticks(now.0.saturating_mul(TICKS_PER_MILLI))
    }

    fn from_ticks(ticks: u64) -> Self {
        let per_second = crate::item::TICKS_PER_SECOND;
        // A remainder is less than what it was divided by.
        Self {
            seconds: ticks / per_second,
            ticks: u32::try_from(ticks % per_second).unwrap_or_default(),
        }
    }

    fn all_ticks(self) -> u64 {
        self.seconds
            .saturating_mul(crate::item::TICKS_PER_SECOND)
            .saturating_add(u64::from(self.ticks))
    }

    /// The time of a version made now that replaces `old`: the clock may stand still or go back,
    /// the versions of an item may not.
    pub(crate) fn after(self, old: &RowHead) -> Self {
        Self::from_ticks(self.all_ticks().max(old.all_ticks().saturating_add(1)))
    }
}

/// Assigns the times of a partition's commits.
///
/// The clock counts milliseconds. What is finer comes from the commit's position. So an item that
/// is deleted and created again does not get the time (which is its version in the Table API) of an
/// earlier version, even if the clock was set back to that very millisecond: that takes a multiple
/// of 10,000 commits in between.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stamps {
    last: u64,
}

impl Stamps {
    /// The time of the commit at `lsn`, made `now`.
    pub(crate) fn next(&mut self, now: Timestamp, lsn: Lsn) -> Stamp {
        let clock = now.0.saturating_mul(TICKS_PER_MILLI).saturating_add(lsn.0 % TICKS_PER_MILLI);
        // Behind a clock that was set back, times would drift ever further ahead of it.
        let is_near = self.last.saturating_sub(clock) < TICKS_AHEAD_MAX;
        self.last = if is_near { clock.max(self.last + 1) } else { clock };
        Stamp::from_ticks(self.last)
    }
}

#[cfg(test)]
mod tests {
    use model::PartitionId;

    use super::*;
    use crate::BodyFormat;
    use crate::item::Etag;

    fn at(millis: u64) -> Timestamp {
        Timestamp(millis)
    }

    #[test]
    fn commits_of_one_millisecond_have_times_of_their_own() {
        let mut stamps = Stamps::default();
        let first = stamps.next(at(1_500), Lsn(7));
        assert_eq!(first, Stamp { seconds: 1, ticks: 5_000_007 });
        let second = stamps.next(at(1_500), Lsn(8));
        assert_eq!(second, Stamp { seconds: 1, ticks: 5_000_008 });
        assert_eq!(stamps.next(at(1_499), Lsn(9)), Stamp { seconds: 1, ticks: 5_000_009 });
        assert_eq!(stamps.next(at(1_501), Lsn(10)), Stamp { seconds: 1, ticks: 5_010_010 });
        let mut last = stamps.next(at(1_501), Lsn(9_998));
        for lsn in 9_999..10_050 {
            let next = stamps.next(at(1_501), Lsn(lsn));
            assert!(next > last, "at {lsn}");
            last = next;
        }
    }

    #[test]
    fn a_clock_that_was_set_back_is_believed() {
        let mut stamps = Stamps::default();
        stamps.next(at(1_000_000), Lsn(1));
        assert_eq!(stamps.next(at(2_000), Lsn(2)), Stamp { seconds: 2, ticks: 2 });
    }

    #[test]
    fn a_millisecond_that_comes_again_has_other_times() {
        let mut given = std::collections::BTreeSet::new();
        let mut stamps = Stamps::default();
        for lsn in 1..5_000 {
            // Repeatedly back to the same ten milliseconds, now and then in a new process.
            if lsn % 77 == 0 {
                stamps = Stamps::default();
            }
            let millis = 1_000 + lsn % 10 * 20;
            let stamp = stamps.next(at(millis), Lsn(lsn));
            assert!(given.insert(stamp), "{stamp:?} at {lsn}");
            let clock = Stamp::of(at(millis)).all_ticks();
            assert!(stamp.all_ticks() - clock < TICKS_AHEAD_MAX, "{stamp:?} at {lsn}");
        }
    }

    #[test]
    fn a_version_is_later_than_the_one_it_replaces_whatever_the_clock_says() {
        let head = |ts, ticks| RowHead {
            body: BodyFormat::Json,
            number: 1,
            etag: Etag { origin: PartitionId(1), lsn: Lsn(1), seq: 0 },
            ts,
            ticks,
            created: ts,
            ttl: 0,
        };
        let now = Stamp { seconds: 100, ticks: 50 };
        assert_eq!(now.after(&head(99, 9_999_999)), now);
        assert_eq!(now.after(&head(100, 50)), Stamp { seconds: 100, ticks: 51 });
        assert_eq!(now.after(&head(200, 7)), Stamp { seconds: 200, ticks: 8 });
        assert_eq!(now.after(&head(200, 9_999_999)), Stamp { seconds: 201, ticks: 0 });
    }
}
