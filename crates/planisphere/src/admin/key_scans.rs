//! Looks through counters of logical partitions, of which there can be millions.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::reply::AdminError;

/// Logical partitions whose counters one request looks at.
const COUNTED_MAX: u64 = 1_000_000;

/// What keeps scans from taking the server's time: one goes on at a time, whoever asked for it.
pub(super) struct KeyScanLimiter {
    permits: Semaphore,
    /// Most counters that one request looks at to find the largest.
    pub(super) counted_max: u64,
}

impl Default for KeyScanLimiter {
    fn default() -> Self {
        Self { permits: Semaphore::new(1), counted_max: COUNTED_MAX }
    }
}

impl KeyScanLimiter {
    /// Waits until no other scan goes on; none begins until what is returned is dropped.
    pub(super) async fn acquire(&self) -> Result<SemaphorePermit<'_>, AdminError> {
        self.permits.acquire().await.map_err(|_| AdminError::internal())
    }
}
