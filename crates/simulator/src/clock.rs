//! Time that passes only when the scheduler advances it.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use engine::components::{Clock, Task};
use model::Timestamp;

/// When simulated time begins, in milliseconds since the Unix epoch.
const EPOCH_MILLIS: u64 = 1_700_000_000_000;

/// A clock shared by everything in a run. Clones are the same clock.
#[derive(Clone, Default)]
pub(crate) struct VirtualClock {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    micros: AtomicU64,
    /// Seconds between the wall clock and a wall clock that was never set.
    set_seconds: AtomicI64,
    timers: Mutex<Timers>,
}

#[derive(Default)]
struct Timers {
    /// Keyed by the time at which they are due and the order in which they were set.
    pending: BTreeMap<(u64, u64), Waker>,
    set: u64,
}

impl VirtualClock {
    /// Microseconds since the run began.
    pub(crate) fn micros(&self) -> u64 {
        self.shared.micros.load(Ordering::SeqCst)
    }

    /// Lets time pass and wakes the timers that are due.
    pub(crate) fn advance(&self, micros: u64) {
        let now = self.shared.micros.fetch_add(micros, Ordering::SeqCst) + micros;
        let due = {
            let mut timers = self.timers();
            let later = timers.pending.split_off(&(now + 1, 0));
            std::mem::replace(&mut timers.pending, later)
        };
        due.into_values().for_each(Waker::wake);
    }

    /// Sets the wall clock to this many seconds from a wall clock that was never set.
    pub(crate) fn set(&self, seconds: i64) {
        self.shared.set_seconds.store(seconds, Ordering::SeqCst);
    }

    /// How long until the next timer is due.
    pub(crate) fn micros_to_next_timer(&self) -> Option<u64> {
        let (due, _) = *self.timers().pending.first_key_value()?.0;
        Some(due.saturating_sub(self.micros()))
    }

    fn timers(&self) -> MutexGuard<'_, Timers> {
        self.shared.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let set_millis = 1_000 * self.shared.set_seconds.load(Ordering::SeqCst);
        Timestamp((EPOCH_MILLIS + self.micros() / 1_000).saturating_add_signed(set_millis))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.micros())
    }

    fn sleep(&self, duration: Duration) -> Task {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let due = self.micros().saturating_add(micros);
        Box::pin(Sleep { clock: self.clone(), due, timer: None })
    }
}

struct Sleep {
    clock: VirtualClock,
    due: u64,
    timer: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.clock.micros() >= self.due {
            return Poll::Ready(());
        }
        let number = {
            let mut timers = self.clock.timers();
            let number = self.timer.unwrap_or(timers.set);
            timers.set = timers.set.max(number + 1);
            timers.pending.insert((self.due, number), cx.waker().clone());
            number
        };
        self.timer = Some(number);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.timer {
            self.clock.timers().pending.remove(&(self.due, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleepers_wake_when_their_time_has_come() {
        let clock = VirtualClock::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut short = clock.sleep(Duration::from_millis(1));
        let mut long = clock.sleep(Duration::from_millis(5));
        assert!(short.as_mut().poll(&mut cx).is_pending());
        assert!(long.as_mut().poll(&mut cx).is_pending());
        assert_eq!(clock.micros_to_next_timer(), Some(1_000));
        clock.advance(1_000);
        assert!(short.as_mut().poll(&mut cx).is_ready());
        assert!(long.as_mut().poll(&mut cx).is_pending());
        assert_eq!(clock.micros_to_next_timer(), Some(4_000));
        drop(long);
        assert_eq!(clock.micros_to_next_timer(), None);
    }
}
