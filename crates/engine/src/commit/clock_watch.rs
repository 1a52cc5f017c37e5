//! Notices a clock that is behind the times in the store.

use std::time::Duration;

use crate::components::Clock;

/// How far times in the store may be ahead of the clock: clocks are corrected now and then.
const AHEAD_SECONDS_MAX: u64 = 60;
/// How often the warning is repeated.
const WARN_EVERY: Duration = Duration::from_secs(3600);

/// Warns when the clock is behind the newest time in the store, because it is wrong now or was
/// wrong when that was written.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    warned: Option<Duration>,
}

impl ClockWatch {
    /// Compares the current time with the newest one of a partition.
    pub(crate) fn look(&mut self, now: u64, newest: u64, clock: &dyn Clock) {
        if newest.saturating_sub(now) > AHEAD_SECONDS_MAX {
            self.warn(now, newest, clock.monotonic());
        }
    }

    #[cold]
    fn warn(&mut self, now: u64, newest: u64, at: Duration) {
        if self.warned.is_some_and(|warned| at.saturating_sub(warned) < WARN_EVERY) {
            return;
        }
        self.warned = Some(at);
        tracing::warn!(
            now,
            newest,
            behind_seconds = newest - now,
            "the clock is behind the newest time in the store: it is wrong now, or was ahead \
             when those items were written. New items get its time; items with a later time keep \
             it, and their ttl counts from it"
        );
    }
}
