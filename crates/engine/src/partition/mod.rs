//! A physical partition as readers see it.

mod read;
mod scan;
mod source;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use model::{Lsn, PartitionId};

use crate::Error;
use crate::commit::PartitionState;
use crate::governor::Meter;

pub(crate) use read::{Reader, fetch};
pub(crate) use scan::{ScanRequest, scan};
pub(crate) use source::{
    FetchedRow, RowBounds, RowScan, ScanContext, ScanLimits, ScanStats, ScannedRow, StoredRows,
    too_late,
};

/// Published facts of a physical partition. Only the committer changes them, after a group is
/// durable. The meter is shared by all requests.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) id: PartitionId,
    lsn: AtomicU64,
    items: AtomicU64,
    bytes: AtomicU64,
    status: AtomicU8,
    /// The throughput of the partition, and how much of it is used.
    pub(crate) meter: Meter,
}

/// The state of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PartitionStatus {
    /// Serves requests.
    Online,
    /// Serves requests while it is split.
    Splitting,
    /// Serves requests while it is merged.
    Merging,
    /// Serves none, between two steps of a split or merge that is driven by hand.
    Swapping,
    /// Other partitions have replaced it.
    Gone,
}

/// Whether what was read from a partition is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serving {
    Yes,
    /// The caller reads the routing map again.
    Gone,
}

impl Partition {
    pub(crate) fn new(id: PartitionId, state: &PartitionState) -> Self {
        let partition = Self {
            id,
            lsn: AtomicU64::new(0),
            items: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            status: AtomicU8::new(PartitionStatus::Online as u8),
            meter: Meter::default(),
        };
        partition.publish(state);
        partition
    }

    /// LSN of the last durable commit.
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

    pub(crate) fn status(&self) -> PartitionStatus {
        // ORDERING: Acquire pairs with the Release in `set_status`: a thread that sees the
        // partition gone sees the routing map without it.
        match self.status.load(Ordering::Acquire) {
            0 => PartitionStatus::Online,
            1 => PartitionStatus::Splitting,
            2 => PartitionStatus::Merging,
            3 => PartitionStatus::Swapping,
            _ => PartitionStatus::Gone,
        }
    }

    pub(crate) fn set_status(&self, status: PartitionStatus) {
        self.status.store(status as u8, Ordering::Release);
    }

    /// Whether a view that was taken before this call shows the partition as it should. A partition
    /// is gone before its replacement takes a write and before its rows are removed.
    pub(crate) fn check_serving(&self) -> Result<Serving, Error> {
        match self.status() {
            PartitionStatus::Online | PartitionStatus::Splitting | PartitionStatus::Merging => {
                Ok(Serving::Yes)
            }
            PartitionStatus::Swapping => Err(Error::RangeMoving),
            PartitionStatus::Gone => Ok(Serving::Gone),
        }
    }

    pub(crate) fn publish(&self, state: &PartitionState) {
        self.items.store(state.items, Ordering::Relaxed);
        self.bytes.store(state.bytes, Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire in `lsn`: a thread that sees the LSN sees the
        // write.
        self.lsn.store(state.lsn.0, Ordering::Release);
    }
}
