//! Reading at one moment: gets, scans and size estimates over a snapshot.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use fjall::{AbstractTree, Iter, Keyspace, Readable, SeqNo, Slice, Snapshot};
use model::PartitionId;
use smallvec::SmallVec;

use crate::partition_set::PartitionSet;
use crate::{Cursor, Dir, KeyRange, StoreError, View};

use super::errors::read_failed;
use super::lock::DirectoryLock;

/// Keys read one by one before a size estimate turns to file sizes.
const SIZED_KEYS_MAX: usize = 10_000;

/// Rows a seek reads on before it opens a new iterator, which costs about as much as ten.
const SEEK_STEPS_MAX: usize = 6;

/// Holds a prefixed key of common length without allocating.
pub(super) type KeyBuffer = SmallVec<[u8; 128]>;

/// The key of the `data` tree for `k` in `p`.
pub(super) fn prefixed(p: PartitionId, k: &[u8]) -> KeyBuffer {
    let mut key = KeyBuffer::with_capacity(4 + k.len());
    key.extend_from_slice(&p.0.to_be_bytes());
    key.extend_from_slice(k);
    key
}

/// A published snapshot; shared by all who read between two commits.
pub(super) struct EmbeddedView {
    open: Option<OpenView>,
}

/// The lock is the last to go: the engine's files are in use as long as the rest is held.
pub(super) struct OpenView {
    pub(super) snapshot: Snapshot,
    pub(super) data: Keyspace,
    pub(super) hidden: Arc<PartitionSet>,
    pub(super) _lock: Arc<DirectoryLock>,
}

impl EmbeddedView {
    pub(super) fn new(open: OpenView) -> Self {
        Self { open: Some(open) }
    }

    /// What is published after `close`, so that the store itself holds nothing open.
    pub(super) fn closed() -> Self {
        Self { open: None }
    }

    /// The sequence number it was taken at.
    pub(super) fn seqno(&self) -> Option<SeqNo> {
        self.open.as_ref().map(|open| open.snapshot.seqno())
    }

    pub(super) fn data(&self) -> Option<&Keyspace> {
        self.open.as_ref().map(|open| &open.data)
    }

    pub(super) fn table_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.data.tree.disk_space())
    }

    /// Exact for small partitions, from file sizes for large ones.
    pub(super) fn approximate_bytes(&self, p: PartitionId) -> Result<u64, StoreError> {
        let mut cursor = self.cursor(p, KeyRange::ALL, Dir::Fwd)?;
        let mut walked_bytes = 0;
        for _ in 0..SIZED_KEYS_MAX {
            match cursor.next()? {
                Some((k, v)) => walked_bytes += (k.len() + v.len()) as u64,
                None => return Ok(walked_bytes),
            }
        }
        Ok(walked_bytes.max(self.open()?.file_bytes(p)))
    }

    pub(super) fn cursor(
        &self,
        p: PartitionId,
        range: KeyRange<'_>,
        dir: Dir,
    ) -> Result<EmbeddedCursor<'_>, StoreError> {
        let open = self.open()?;
        let place = if open.hidden.contains(p) { Place::Nowhere } else { Place::Before(None) };
        let bounds = Bounds::within(p, range);
        Ok(EmbeddedCursor { open, bounds, dir, place, row: None, is_row_next: false })
    }

    fn open(&self) -> Result<&OpenView, StoreError> {
        self.open.as_ref().ok_or_else(StoreError::closed)
    }
}

impl OpenView {
    fn iter(&self, (lo, hi): (Bound<&[u8]>, Bound<&[u8]>)) -> Iter {
        self.snapshot.range::<&[u8], _>(&self.data, (lo, hi))
    }

    /// Files wholly within the partition count in full, those it shares with others by half.
    fn file_bytes(&self, p: PartitionId) -> u64 {
        let prefix = p.0.to_be_bytes();
        let version = self.data.tree.current_version();
        let share = |min: &[u8], max: &[u8], file_bytes: u64| {
            let (min, max) = (min.get(..4), max.get(..4));
            match (min.map(|m| m.cmp(&prefix)), max.map(|m| m.cmp(&prefix))) {
                (Some(std::cmp::Ordering::Greater), _) | (_, Some(std::cmp::Ordering::Less)) => 0,
                (Some(std::cmp::Ordering::Equal), Some(std::cmp::Ordering::Equal)) => file_bytes,
                _ => file_bytes / 2,
            }
        };
        version
            .iter_tables()
            .map(|table| &table.metadata)
            .map(|meta| share(meta.key_range.min(), meta.key_range.max(), meta.file_size))
            .sum()
    }
}

impl View for EmbeddedView {
    fn get(&self, p: PartitionId, k: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let open = self.open()?;
        if open.hidden.contains(p) {
            return Ok(None);
        }
        let found = open.snapshot.get(&open.data, prefixed(p, k)).map_err(read_failed)?;
        Ok(found.map(Bytes::from))
    }

    fn scan<'v>(
        &'v self,
        p: PartitionId,
        range: KeyRange<'_>,
        dir: Dir,
    ) -> Result<Box<dyn Cursor + Send + 'v>, StoreError> {
        Ok(Box::new(self.cursor(p, range, dir)?))
    }
}

/// A range of the `data` tree that never leaves its partition.
struct Bounds {
    lo: Bound<KeyBuffer>,
    hi: Bound<KeyBuffer>,
    p: PartitionId,
}

impl Bounds {
    fn within(p: PartitionId, range: KeyRange<'_>) -> Self {
        let lo = match range.lo.map(|k| prefixed(p, k)) {
            Bound::Unbounded => Bound::Included(prefixed(p, &[])),
            bound @ (Bound::Included(_) | Bound::Excluded(_)) => bound,
        };
        let hi = match range.hi.map(|k| prefixed(p, k)) {
            Bound::Unbounded => end_of(p),
            bound @ (Bound::Included(_) | Bound::Excluded(_)) => bound,
        };
        Self { lo, hi, p }
    }

    fn as_refs(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.lo.as_ref().map(AsRef::as_ref), self.hi.as_ref().map(AsRef::as_ref))
    }

    fn as_range(&self) -> KeyRange<'_> {
        let (lo, hi) = self.as_refs();
        KeyRange { lo, hi }
    }
}

/// The first key behind every key of `p`.
fn end_of(p: PartitionId) -> Bound<KeyBuffer> {
    match p.0.checked_add(1) {
        Some(next) => Bound::Excluded(prefixed(PartitionId(next), &[])),
        None => Bound::Unbounded,
    }
}

pub(super) struct EmbeddedCursor<'v> {
    open: &'v OpenView,
    bounds: Bounds,
    dir: Dir,
    place: Place,
    /// The last row read.
    row: Option<(Slice, Slice)>,
    /// Whether that row was read by a seek and is still to be returned.
    is_row_next: bool,
}

enum Place {
    /// In a partition that no one sees.
    Nowhere,
    /// Before the range, or before a key in it. The engine's iterator is opened only when a row is
    /// asked for, since that is the dear part of a scan.
    Before(Option<KeyBuffer>),
    /// On the way.
    Within(Iter),
    /// Behind the last row.
    Behind,
}

impl EmbeddedCursor<'_> {
    fn read_row(&mut self) -> Result<(), StoreError> {
        if let Place::Before(target) = &self.place {
            let range = self.bounds.as_range();
            let range = match target {
                Some(target) => range.left_after_seek(target, self.dir),
                None => range,
            };
            self.place = if range.is_void() {
                Place::Behind
            } else {
                Place::Within(self.open.iter((range.lo, range.hi)))
            };
        }
        let found = match (&mut self.place, self.dir) {
            (Place::Within(iter), Dir::Fwd) => iter.next(),
            (Place::Within(iter), Dir::Rev) => iter.next_back(),
            (Place::Nowhere | Place::Before(_) | Place::Behind, _) => return Ok(()),
        };
        self.row = found.map(fjall::Guard::into_inner).transpose().map_err(read_failed)?;
        if self.row.is_none() {
            self.place = Place::Behind;
        }
        Ok(())
    }

    fn is_at_or_beyond(&self, key: &[u8], target: &[u8]) -> bool {
        match self.dir {
            Dir::Fwd => key >= target,
            Dir::Rev => key <= target,
        }
    }

    /// Tries to reach `target` in a few steps, which is cheaper than opening a new iterator.
    fn walk_to(&mut self, target: &[u8]) -> Result<bool, StoreError> {
        for _ in 0..SEEK_STEPS_MAX {
            match &self.row {
                Some((key, _)) if !self.is_at_or_beyond(key, target) => self.read_row()?,
                Some(_) | None => return Ok(false),
            }
            match &self.row {
                Some((key, _)) if self.is_at_or_beyond(key, target) => {
                    self.is_row_next = true;
                    return Ok(true);
                }
                Some(_) => {}
                None => return Ok(true),
            }
        }
        Ok(false)
    }
}

impl Cursor for EmbeddedCursor<'_> {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>, StoreError> {
        if self.is_row_next {
            self.is_row_next = false;
        } else {
            self.row = None;
            self.read_row()?;
        }
        Ok(self.row())
    }

    fn row(&self) -> Option<(&[u8], &[u8])> {
        self.row.as_ref().map(|(k, v)| (k.get(4..).unwrap_or_default(), v.as_ref()))
    }

    fn seek(&mut self, k: &[u8]) -> Result<(), StoreError> {
        if let Place::Nowhere = self.place {
            return Ok(());
        }
        let target = prefixed(self.bounds.p, k);
        self.is_row_next = false;
        if !self.walk_to(&target)? {
            self.place = Place::Before(Some(target));
            self.row = None;
        }
        Ok(())
    }
}
