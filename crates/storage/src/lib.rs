//! Ordered key-value stores that a partitioned engine runs on.
//!
//! Everything here is synchronous: a query scans a [`View`] with plain calls, and only the
//! committer thread blocks on writes. No type of a concrete engine appears in these traits; every
//! implementation must pass the one contract suite.
#![forbid(unsafe_code)]

#[cfg(test)]
mod contract_tests;
#[cfg(test)]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod crash_tests;
mod embedded;
pub mod faulty;
#[doc(hidden)]
pub mod forward;
mod memory;
#[cfg(test)]
mod model_tests;
mod partition_set;
mod space;
#[cfg(test)]
mod testing;

use std::io;
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::PartitionId;

pub use embedded::{EmbeddedOptions, EmbeddedStore};
pub use memory::MemoryStore;
pub use space::{DiskSpace, FileSystem, Room, SystemDiskSpace};

/// The one id that is not a partition: stores keep their own records there. Nothing is read from
/// it and writes to it have no effect.
pub const PARTITION_RESERVED: PartitionId = PartitionId(u32::MAX);

/// How the user of a store reads its keys, told by their first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTags {
    /// Keys that are scanned and rarely looked up one by one, in ascending order. A store may keep
    /// them apart, which makes lookups of the other keys cheaper. They determine the layout of
    /// store directories: a directory must always be opened with the same ones.
    pub scanned: [Range<u8>; 2],
    /// Keys that are looked up one by one, in any order, far more often than others. A store may
    /// optimize for them.
    pub looked_up: Range<u8>,
}

/// The longest key a store accepts.
pub const KEY_BYTES_MAX: usize = 65_531;

/// The longest value a store accepts.
pub const VALUE_BYTES_MAX: usize = 1 << 30;

/// When a write counts as complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Once the journal is on disk.
    Synced,
    /// Once the operating system has it; lost on power failure.
    Buffered,
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sets a key.
    Put {
        /// The partition.
        p: PartitionId,
        /// The key within it.
        k: Bytes,
        /// Its new value. A store may keep these very bytes, so they should not be a small part of
        /// a large buffer.
        v: Bytes,
    },
    /// Removes a key; absent keys are fine.
    Del {
        /// The partition.
        p: PartitionId,
        /// The key within it.
        k: Bytes,
    },
}

/// Changes that are applied together or not at all, across partitions. A later op on the same key
/// wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    /// The changes, in order.
    pub ops: Vec<Op>,
}

impl Op {
    fn partition(&self) -> PartitionId {
        match self {
            Op::Put { p, .. } | Op::Del { p, .. } => *p,
        }
    }

    /// Rejects ops that no store can hold.
    fn check_size(&self) -> Result<(), StoreError> {
        let (key_bytes, value_bytes) = match self {
            Op::Put { k, v, .. } => (k.len(), v.len()),
            Op::Del { k, .. } => (k.len(), 0),
        };
        if key_bytes > KEY_BYTES_MAX || value_bytes > VALUE_BYTES_MAX {
            return Err(StoreError::TooLarge);
        }
        Ok(())
    }
}

/// A range of keys within one partition.
#[derive(Clone, Copy, Debug)]
pub struct KeyRange<'a> {
    /// Lower bound.
    pub lo: Bound<&'a [u8]>,
    /// Upper bound.
    pub hi: Bound<&'a [u8]>,
}

impl<'a> KeyRange<'a> {
    /// Every key.
    pub const ALL: KeyRange<'static> = KeyRange { lo: Bound::Unbounded, hi: Bound::Unbounded };

    /// From `lo` up to but not including `hi`.
    pub fn half_open(lo: &'a [u8], hi: &'a [u8]) -> Self {
        Self { lo: Bound::Included(lo), hi: Bound::Excluded(hi) }
    }

    /// Whether no key can lie within.
    fn is_void(&self) -> bool {
        match (self.lo, self.hi) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(lo), Bound::Included(hi)) => lo > hi,
            (Bound::Included(lo) | Bound::Excluded(lo), Bound::Excluded(hi))
            | (Bound::Excluded(lo), Bound::Included(hi)) => lo >= hi,
        }
    }

    /// The part of this range that a scan in `dir` has yet to read when it stands at `k`.
    fn left_after_seek(self, k: &'a [u8], dir: Dir) -> Self {
        match dir {
            Dir::Fwd => Self { lo: higher_lower_bound(self.lo, k), hi: self.hi },
            Dir::Rev => Self { lo: self.lo, hi: lower_upper_bound(self.hi, k) },
        }
    }
}

fn higher_lower_bound<'a>(lo: Bound<&'a [u8]>, k: &'a [u8]) -> Bound<&'a [u8]> {
    match lo {
        Bound::Included(at) if at > k => lo,
        Bound::Excluded(at) if at >= k => lo,
        Bound::Included(_) | Bound::Excluded(_) | Bound::Unbounded => Bound::Included(k),
    }
}

fn lower_upper_bound<'a>(hi: Bound<&'a [u8]>, k: &'a [u8]) -> Bound<&'a [u8]> {
    match hi {
        Bound::Included(at) if at < k => hi,
        Bound::Excluded(at) if at <= k => hi,
        Bound::Included(_) | Bound::Excluded(_) | Bound::Unbounded => Bound::Included(k),
    }
}

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dir {
    /// Ascending keys.
    Fwd,
    /// Descending keys.
    Rev,
}

/// Why a store could not carry out a call.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No space left on the device; may succeed after space is freed and the store reopened.
    #[error("the disk is full")]
    Full,
    /// An earlier write failed and left the journal in an unknown state; reopen to continue.
    #[error("the store refuses writes after a failed sync: {0}")]
    Poisoned(String),
    /// What is on disk is not what was written.
    #[error("the data directory is damaged: {0}")]
    Corrupt(String),
    /// Another process has the directory open.
    #[error("the data directory is in use by another process")]
    Locked,
    /// A key over [`KEY_BYTES_MAX`] or a value over [`VALUE_BYTES_MAX`]; nothing was written.
    #[error("a key or value is too large for the store")]
    TooLarge,
    /// Any other error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl StoreError {
    /// The error of every call after `close`, except reads of a view that is still held.
    fn closed() -> Self {
        StoreError::Io(io::Error::new(io::ErrorKind::NotConnected, "the store is closed"))
    }
}

/// How far reclaiming has progressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimProgress {
    /// Keys removed in this call.
    pub keys_removed: u64,
    /// Retired partitions that still hold bytes.
    pub partitions_left: usize,
}

/// The state a store reports of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Whether writes are accepted.
    pub writable: bool,
    /// Why not, if it is known.
    pub reason: Option<String>,
    /// The disk space that is left, for a store on disk.
    pub room: Option<Room>,
    /// Whether writes are being slowed down.
    pub stalled: bool,
    /// Bytes on disk, journals and the lookup cache included.
    pub disk_bytes: u64,
    /// Bytes in journals.
    pub journal_bytes: u64,
    /// Bytes on disk that the lookup cache takes.
    pub lookup_cache_bytes: u64,
    /// Batches written to journals since the store was opened.
    pub batches: u64,
}

/// An ordered key-value store with atomic batches and cheap snapshots.
pub trait LocalStore: Send + Sync + 'static {
    /// Applies all ops or none. With `Synced`, returns only after the journal is on disk. May block
    /// (backpressure): call from the committer thread only. After `Poisoned` every later write
    /// fails until the store is reopened.
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError>;
    /// A consistent snapshot over all partitions; cheap; keeps old versions alive while held.
    fn view(&self) -> Arc<dyn View>;
    /// Forgets a partition: durable, idempotent, O(1). Views taken afterwards never return its keys
    /// again; ops on it in later batches have no effect.
    fn retire(&self, p: PartitionId) -> Result<(), StoreError>;
    /// Frees space of retired partitions for at most about `budget`.
    fn reclaim(&self, budget: Duration) -> Result<ReclaimProgress, StoreError>;
    /// Roughly how many bytes a partition occupies.
    fn approximate_bytes(&self, p: PartitionId) -> Result<u64, StoreError>;
    /// The state of the store.
    fn health(&self) -> Health;
    /// How much disk space is left, for a store on disk. Fast, but it makes a system call.
    fn room(&self) -> Option<Room> {
        None
    }
    /// Whether [`reopen`](LocalStore::reopen) can help.
    fn can_reopen(&self) -> bool {
        false
    }
    /// Continues from what is on disk after a write has failed, as a restart of the process would:
    /// a write that was not acknowledged may or may not be there. Waits until views are released;
    /// while it runs and after it has failed, nothing can be read.
    fn reopen(&self) -> Result<(), StoreError> {
        Err(StoreError::Io(io::ErrorKind::Unsupported.into()))
    }
    /// Flushes and releases the directory. Views still held stay readable.
    fn close(&self) -> Result<(), StoreError>;
}

/// A consistent state of the store.
pub trait View: Send + Sync {
    /// The value of a key.
    fn get(&self, p: PartitionId, k: &[u8]) -> Result<Option<Bytes>, StoreError>;
    /// Scans a range of one partition's keys.
    fn scan<'v>(
        &'v self,
        p: PartitionId,
        range: KeyRange<'_>,
        dir: Dir,
    ) -> Result<Box<dyn Cursor + Send + 'v>, StoreError>;
}

/// A cursor over keys in order.
pub trait Cursor {
    /// The next key (without the partition prefix) and value; both valid until the next call.
    #[expect(clippy::type_complexity, reason = "a pair of slices is the plainest answer")]
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>, StoreError>;
    /// What [`next`](Cursor::next) returned last.
    fn row(&self) -> Option<(&[u8], &[u8])>;
    /// Continues at the first key at or beyond `k` in the scan's direction, within its range.
    fn seek(&mut self, k: &[u8]) -> Result<(), StoreError>;
}
