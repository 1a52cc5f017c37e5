//! A store that lives in memory: for `--memory`, and as the plain model that other stores are
//! tested against.
//!
//! One persistent ordered map per partition. A view is a reference to a published state and costs
//! one counter; retiring a partition drops its map.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use imbl::OrdMap;
use imbl::ordmap::RangedIter;
use imbl::shared_ptr::DefaultSharedPtr;
use model::PartitionId;

use crate::partition_set::PartitionSet;
use crate::{
    Cursor, Dir, Durability, Health, KeyRange, LocalStore, Op, PARTITION_RESERVED, ReclaimProgress,
    StoreError, View, WriteBatch,
};

type Rows = OrdMap<Bytes, Bytes>;

/// A [`LocalStore`] without a disk. Its contents are lost when it is dropped.
#[derive(Default)]
pub struct MemoryStore {
    published: ArcSwap<State>,
    writer: Mutex<Writer>,
}

#[derive(Default)]
struct Writer {
    closed: bool,
}

/// The contents of the store at one moment; its maps are shared with later states.
#[derive(Clone)]
struct State {
    partitions: OrdMap<u32, Rows>,
    retired: Arc<PartitionSet>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// A second store that starts with what this one holds.
    pub(crate) fn fork(&self) -> Self {
        Self { published: ArcSwap::new(self.published.load_full()), writer: Mutex::default() }
    }

    /// Applies a batch whose ops were checked before.
    pub(crate) fn apply(&self, batch: WriteBatch) {
        self.change(|state| batch.ops.into_iter().for_each(|op| state.apply(op)));
    }

    /// Retires a partition.
    pub(crate) fn forget(&self, p: PartitionId) {
        self.change(|state| {
            state.partitions.remove(&p.0);
            Arc::make_mut(&mut state.retired).insert(p);
        });
    }

    /// Publishes the state that `change` makes of the current one. Callers take turns.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = State::clone(&self.published.load());
        change(&mut state);
        self.published.store(Arc::new(state));
    }

    fn lock_open(&self) -> Result<MutexGuard<'_, Writer>, StoreError> {
        // A panic cannot leave the state half changed: it is published whole or not at all.
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.closed { Err(StoreError::closed()) } else { Ok(writer) }
    }
}

impl Default for State {
    fn default() -> Self {
        let mut retired = PartitionSet::default();
        retired.insert(PARTITION_RESERVED);
        Self { partitions: OrdMap::new(), retired: Arc::new(retired) }
    }
}

impl State {
    fn apply(&mut self, op: Op) {
        if self.retired.contains(op.partition()) {
            return;
        }
        match op {
            Op::Put { p, k, v } => {
                self.partitions.entry(p.0).or_default().insert(k, v);
            }
            Op::Del { p, k } => {
                if let Some(rows) = self.partitions.get_mut(&p.0) {
                    rows.remove(&k);
                }
            }
        }
    }
}

impl LocalStore for MemoryStore {
    fn write(&self, batch: WriteBatch, _durability: Durability) -> Result<(), StoreError> {
        let _writer = self.lock_open()?;
        batch.ops.iter().try_for_each(Op::check_size)?;
        self.apply(batch);
        Ok(())
    }

    fn view(&self) -> Arc<dyn View> {
        self.published.load_full()
    }

    fn retire(&self, p: PartitionId) -> Result<(), StoreError> {
        let _writer = self.lock_open()?;
        self.forget(p);
        Ok(())
    }

    fn reclaim(&self, _budget: Duration) -> Result<ReclaimProgress, StoreError> {
        let _writer = self.lock_open()?;
        Ok(ReclaimProgress::default())
    }

    fn approximate_bytes(&self, p: PartitionId) -> Result<u64, StoreError> {
        let state = self.published.load();
        let Some(rows) = state.partitions.get(&p.0) else { return Ok(0) };
        Ok(rows.iter().map(|(k, v)| (k.len() + v.len()) as u64).sum())
    }

    fn health(&self) -> Health {
        Health { writable: self.lock_open().is_ok(), ..Health::default() }
    }

    fn close(&self) -> Result<(), StoreError> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        Ok(())
    }
}

impl View for State {
    fn get(&self, p: PartitionId, k: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.partitions.get(&p.0).and_then(|rows| rows.get(k)).cloned())
    }

    fn scan<'v>(
        &'v self,
        p: PartitionId,
        range: KeyRange<'_>,
        dir: Dir,
    ) -> Result<Box<dyn Cursor + Send + 'v>, StoreError> {
        let rows = self.partitions.get(&p.0);
        let iter = rows.and_then(|rows| range_iter(rows, range));
        let bounds = (range.lo.map(Bytes::copy_from_slice), range.hi.map(Bytes::copy_from_slice));
        Ok(Box::new(MemoryCursor { rows, iter, bounds, dir, row: None }))
    }
}

type RangeIter<'v> = RangedIter<'v, Bytes, Bytes, DefaultSharedPtr>;

struct MemoryCursor<'v> {
    rows: Option<&'v Rows>,
    iter: Option<RangeIter<'v>>,
    bounds: (std::ops::Bound<Bytes>, std::ops::Bound<Bytes>),
    dir: Dir,
    row: Option<(&'v Bytes, &'v Bytes)>,
}

fn range_iter<'v>(rows: &'v Rows, range: KeyRange<'_>) -> Option<RangeIter<'v>> {
    (!range.is_void()).then(|| rows.range::<_, [u8]>((range.lo, range.hi)))
}

impl Cursor for MemoryCursor<'_> {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>, StoreError> {
        self.row = self.iter.as_mut().and_then(|iter| match self.dir {
            Dir::Fwd => iter.next(),
            Dir::Rev => iter.next_back(),
        });
        Ok(self.row())
    }

    fn row(&self) -> Option<(&[u8], &[u8])> {
        self.row.map(|(k, v)| (k.as_ref(), v.as_ref()))
    }

    fn seek(&mut self, k: &[u8]) -> Result<(), StoreError> {
        let whole = KeyRange {
            lo: self.bounds.0.as_ref().map(Bytes::as_ref),
            hi: self.bounds.1.as_ref().map(Bytes::as_ref),
        };
        self.iter = self.rows.and_then(|rows| range_iter(rows, whole.left_after_seek(k, self.dir)));
        Ok(())
    }
}
