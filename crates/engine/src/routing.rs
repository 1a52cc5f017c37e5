//! Which physical partition holds which part of the hash line.

use std::fmt;
use std::sync::Arc;

use model::{Epk, EpkRange, Lsn, PartitionId};

use crate::partition::{Partition, PartitionStatus};

/// A range's number within its container, as clients see it. Never reused in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeId(pub u32);

impl fmt::Display for RangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One live range.
#[derive(Clone, Debug)]
pub struct PartitionRange {
    /// Its number.
    pub id: RangeId,
    /// What it covers.
    pub epk: EpkRange,
    /// All ranges it descends from, oldest first.
    pub parents: Vec<RangeId>,
    pub(crate) partition: Arc<Partition>,
}

impl PartitionRange {
    /// The physical partition behind it.
    pub fn partition_id(&self) -> PartitionId {
        self.partition.id
    }

    /// Position of its last durable commit.
    pub fn lsn(&self) -> Lsn {
        self.partition.lsn()
    }

    /// Items it holds.
    pub fn items(&self) -> u64 {
        self.partition.items()
    }

    /// Bytes it holds.
    pub fn bytes(&self) -> u64 {
        self.partition.bytes()
    }

    /// The status of its partition.
    pub fn status(&self) -> PartitionStatus {
        self.partition.status()
    }
}

/// A container's live ranges: without gaps, in order, together the whole line.
#[derive(Clone, Debug)]
pub struct RoutingMap {
    version: u64,
    ranges: Vec<PartitionRange>,
}

impl RoutingMap {
    pub(crate) fn new(version: u64, ranges: Vec<PartitionRange>) -> Self {
        debug_assert!(!ranges.is_empty(), "a container has at least one range");
        Self { version, ranges }
    }

    /// Grows with every change of the ranges.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The ranges in order.
    pub fn ranges(&self) -> &[PartitionRange] {
        &self.ranges
    }

    /// The range that holds `at`.
    pub fn locate(&self, at: &Epk) -> &PartitionRange {
        let after = self.ranges.partition_point(|r| r.epk.min <= *at);
        &self.ranges[after.saturating_sub(1)]
    }

    /// The range numbered `id`, if it is live.
    pub fn by_id(&self, id: RangeId) -> Option<&PartitionRange> {
        self.ranges.iter().find(|r| r.id == id)
    }
}
