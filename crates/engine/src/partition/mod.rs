//! A physical partition as readers see it.

mod read;
mod scan;

use std::sync::atomic::{AtomicU64, Ordering};

use model::{Lsn, PartitionId};

use crate::commit::PartitionState;

pub(crate) use read::{Reader, fetch};
pub(crate) use scan::{ScanOutcome, ScanRequest, scan};

/// Published facts of a physical partition. Only the committer changes them, after a group is
/// durable.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) id: PartitionId,
    lsn: AtomicU64,
    items: AtomicU64,
    bytes: AtomicU64,
}

impl Partition {
    pub(crate) fn new(id: PartitionId, state: &PartitionState) -> Self {
        let partition =
            Self { id, lsn: AtomicU64::new(0), items: AtomicU64::new(0), bytes: AtomicU64::new(0) };
        partition.publish(state);
        partition
    }

    /// Position of the last durable commit.
    ///
    /// A reader takes this before its view, so what it reports is never ahead of what it read.
    pub(crate) fn lsn(&self) -> Lsn {
        Lsn(self.lsn.load(Ordering::Acquire))
    }

    pub(crate) fn items(&self) -> u64 {
        self.items.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn publish(&self, state: &PartitionState) {
        self.items.store(state.items, Ordering::Relaxed);
        self.bytes.store(state.bytes, Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire in `lsn`: who sees the position sees the write.
        self.lsn.store(state.lsn.0, Ordering::Release);
    }
}
