//! The times that versions carry.

use model::Timestamp;

const TICKS_PER_MILLI: u64 = 10_000;

/// A time of a commit.
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
}

/// Gives out times of which no two are the same, though the clock counts milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    last: u64,
}

impl Stamps {
    /// The time of a commit made `now`.
    pub(crate) fn next(&mut self, now: Timestamp) -> Stamp {
        let clock = now.0.saturating_mul(TICKS_PER_MILLI);
        // Behind a clock that was set back, times would run away from it.
        let is_near = self.last.saturating_sub(clock) < crate::item::TICKS_PER_SECOND;
        self.last = if is_near { clock.max(self.last + 1) } else { clock };
        Stamp::from_ticks(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_of_one_millisecond_have_times_of_their_own() {
        let mut stamps = Stamps::default();
        let at = |millis| Timestamp(millis);
        let first = stamps.next(at(1_500));
        assert_eq!(first, Stamp { seconds: 1, ticks: 5_000_000 });
        let second = stamps.next(at(1_500));
        assert_eq!(second, Stamp { seconds: 1, ticks: 5_000_001 });
        assert_eq!(stamps.next(at(1_499)), Stamp { seconds: 1, ticks: 5_000_002 });
        assert_eq!(stamps.next(at(1_501)), Stamp { seconds: 1, ticks: 5_010_000 });
    }

    #[test]
    fn a_clock_that_was_set_back_is_believed() {
        let mut stamps = Stamps::default();
        stamps.next(Timestamp(1_000_000));
        assert_eq!(stamps.next(Timestamp(2_000)), Stamp { seconds: 2, ticks: 0 });
    }
}
