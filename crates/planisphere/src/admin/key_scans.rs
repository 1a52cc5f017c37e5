//! Scans of the counters of logical partitions, of which there can be millions.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::reply::AdminError;

/// Most counters of logical partitions that one request reads.
const COUNTED_MAX: u64 = 1_000_000;

/// Limits the server time for scans: only one runs at a time, for all callers together.
pub(super) struct KeyScanLimiter {
    permits: Semaphore,
    /// Most counters that one request reads to find the largest.
    pub(super) counted_max: u64,
}

impl Default for KeyScanLimiter {
    fn default() -> Self {
        Self { permits: Semaphore::new(1), counted_max: COUNTED_MAX }
    }
}

impl KeyScanLimiter {
    /// Waits until no other scan runs; none begins until the returned permit is dropped.
    pub(super) async fn acquire(&self) -> Result<SemaphorePermit<'_>, AdminError> {
        self.permits.acquire().await.map_err(|_| AdminError::internal())
    }
}
