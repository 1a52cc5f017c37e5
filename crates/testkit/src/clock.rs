//! A clock that moves only when a test says so.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::components::{Clock, Task};
use model::Timestamp;
use tokio::sync::watch;

/// Time under a test's control. Sleepers wake when it is moved past their moment.
#[derive(Debug)]
pub struct ManualClock {
    started: u64,
    now_millis: AtomicU64,
    moved: watch::Sender<u64>,
}

impl ManualClock {
    /// A clock that stands at `seconds` since the Unix epoch.
    pub fn at(seconds: u64) -> Self {
        let millis = seconds * 1000;
        let (moved, _) = watch::channel(millis);
        Self { started: millis, now_millis: AtomicU64::new(millis), moved }
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
        Timestamp(self.now_millis.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.now().0 - self.started)
    }

    fn sleep(&self, duration: Duration) -> Task {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let wake = self.now().0.saturating_add(millis);
        let mut moved = self.moved.subscribe();
        Box::pin(async move {
            // An error means that the clock is gone, and the test with it.
            let _ = moved.wait_for(|now| *now >= wake).await;
        })
    }
}
