//! Looks through counters of logical partitions, of which there can be millions.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::reply::Refusal;

/// Logical partitions whose counters one request looks at.
const COUNTED_MAX: u64 = 1_000_000;

/// What keeps scans from taking the server's time: one goes on at a time, whoever asked for it.
pub(super) struct Scans {
    turns: Semaphore,
    /// Most counters that one request looks at to find the largest.
    pub(super) counted_max: u64,
}

impl Default for Scans {
    fn default() -> Self {
        Self { turns: Semaphore::new(1), counted_max: COUNTED_MAX }
    }
}

impl Scans {
    /// Waits until no other scan goes on; none begins until what is returned is dropped.
    pub(super) async fn turn(&self) -> Result<SemaphorePermit<'_>, Refusal> {
        self.turns.acquire().await.map_err(|_| Refusal::internal())
    }
}
