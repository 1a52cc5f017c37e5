//! A clock that moves only when a test says so.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use engine::components::{Clock, Task};
use model::Timestamp;
use tokio::sync::watch;

/// Time under a test's control. Sleepers wake when it is moved past their deadline.
#[derive(Debug)]
pub struct ManualClock {
    started: u64,
    now_millis: AtomicU64,
    /// How far the wall clock is from where it would be had it never been set.
    set_millis: AtomicI64,
    /// How long one read of the monotonic time takes, and how long all reads took.
    step_nanos: AtomicU64,
    stepped_nanos: AtomicU64,
    moved: watch::Sender<u64>,
}

impl ManualClock {
    /// A clock that stands at `seconds` since the Unix epoch.
    pub fn at(seconds: u64) -> Self {
        let millis = seconds * 1000;
        let (moved, _) = watch::channel(millis);
        Self {
            started: millis,
            now_millis: AtomicU64::new(millis),
            set_millis: AtomicI64::new(0),
            step_nanos: AtomicU64::new(0),
            stepped_nanos: AtomicU64::new(0),
            moved,
        }
    }

    /// Makes every read of the monotonic time take this long, so that measured durations are not
    /// zero.
    pub fn slow_down(&self, step: Duration) {
        let nanos = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        self.step_nanos.store(nanos, Ordering::SeqCst);
    }

    /// Sets the wall clock, which can go back. Neither the monotonic time nor sleepers notice.
    pub fn set(&self, seconds: u64) {
        let passed = self.now_millis.load(Ordering::SeqCst);
        let offset = (seconds * 1000).cast_signed() - passed.cast_signed();
        self.set_millis.store(offset, Ordering::SeqCst);
    }

    /// Moves time forward.
    pub fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        let now = self.now_millis.fetch_add(millis, Ordering::SeqCst) + millis;
        self.moved.send_replace(now);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let passed = self.now_millis.load(Ordering::SeqCst);
        Timestamp(passed.saturating_add_signed(self.set_millis.load(Ordering::SeqCst)))
    }

    fn monotonic(&self) -> Duration {
        let step = self.step_nanos.load(Ordering::SeqCst);
        let stepped = self.stepped_nanos.fetch_add(step, Ordering::SeqCst) + step;
        let passed = self.now_millis.load(Ordering::SeqCst) - self.started;
        Duration::from_millis(passed) + Duration::from_nanos(stepped)
    }

    fn sleep(&self, duration: Duration) -> Task {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let wake = self.now_millis.load(Ordering::SeqCst).saturating_add(millis);
        let mut moved = self.moved.subscribe();
        Box::pin(async move {
            // An error means that the clock is gone, and the test with it.
            let _ = moved.wait_for(|now| *now >= wake).await;
        })
    }
}
