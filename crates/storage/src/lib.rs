//! Ordered key-value stores that a partitioned engine runs on.
//!
//! Everything here is synchronous: a query walks a [`View`] with plain calls, and the one thread
//! that writes owns all waiting. No type of a concrete engine appears in these traits; whatever
//! implements them must pass the one contract suite.
#![forbid(unsafe_code)]

use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::PartitionId;

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After the journal is on disk.
    Synced,
    /// After the operating system has it; lost on power failure.
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
        /// Its new value.
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

/// Changes that happen together or not at all, across partitions. A later op on the same key wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    /// The changes, in order.
    pub ops: Vec<Op>,
}

/// A stretch of keys within one partition.
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
}

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dir {
    /// Ascending keys.
    Fwd,
    /// Descending keys.
    Rev,
}

/// Why a store could not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No space left on the device; may succeed after space is freed and the store reopened.
    #[error("the disk is full")]
    Full,
    /// An earlier write failed in a way that leaves the journal unknown; reopen to go on.
    #[error("the store refuses writes after a failed sync: {0}")]
    Poisoned(String),
    /// What is on disk is not what was written.
    #[error("the data directory is damaged: {0}")]
    Corrupt(String),
    /// Another process has the directory open.
    #[error("the data directory is in use by another process")]
    Locked,
    /// A key or value over the store's limit.
    #[error("a key or value is too large for the store")]
    TooLarge,
    /// Anything else the operating system said.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// How far reclaiming has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimProgress {
    /// Keys removed in this call.
    pub keys_removed: u64,
    /// Retired partitions that still hold bytes.
    pub partitions_left: usize,
}

/// What a store says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Whether writes are taken.
    pub writable: bool,
    /// Whether writes are being slowed down.
    pub stalled: bool,
    /// Bytes on disk, journals included.
    pub disk_bytes: u64,
    /// Bytes in journals.
    pub journal_bytes: u64,
}

/// An ordered key-value store with atomic batches and cheap snapshots.
pub trait LocalStore: Send + Sync + 'static {
    /// Applies all ops or none. With `Synced`, returns only after the journal is on disk. May block
    /// (backpressure): call from the committer thread only. After `Poisoned` every later write
    /// fails until the store is reopened.
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError>;
    /// A consistent snapshot over all partitions; cheap; keeps old versions alive while held.
    fn view(&self) -> Arc<dyn View>;
    /// Forgets a partition: durable, idempotent, O(1). Its keys are never returned again, by
    /// views taken afterwards.
    fn retire(&self, p: PartitionId) -> Result<(), StoreError>;
    /// Frees space of retired partitions for at most about `budget`.
    fn reclaim(&self, budget: Duration) -> Result<ReclaimProgress, StoreError>;
    /// Roughly how many bytes a partition occupies.
    fn approximate_bytes(&self, p: PartitionId) -> Result<u64, StoreError>;
    /// How the store is doing.
    fn health(&self) -> Health;
    /// Flushes and lets go of the directory. Views still held stay readable.
    fn close(&self) -> Result<(), StoreError>;
}

/// A consistent state of the store.
pub trait View: Send + Sync {
    /// The value of a key.
    fn get(&self, p: PartitionId, k: &[u8]) -> Result<Option<Bytes>, StoreError>;
    /// Walks a stretch of one partition's keys.
    fn scan<'v>(
        &'v self,
        p: PartitionId,
        range: KeyRange<'_>,
        dir: Dir,
    ) -> Result<Box<dyn Cursor + Send + 'v>, StoreError>;
}

/// A walk over keys in order.
pub trait Cursor {
    /// The next key (without the partition prefix) and value; both valid until the next call.
    #[expect(clippy::type_complexity, reason = "a pair of slices is the plainest answer")]
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>, StoreError>;
    /// Continues at the first key at or beyond `k` in the walk's direction, within its range.
    fn seek(&mut self, k: &[u8]) -> Result<(), StoreError>;
}
