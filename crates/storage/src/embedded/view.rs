//! Reads of one snapshot: gets, scans and size estimates.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use fjall::{Iter, Readable, SeqNo, Slice, Snapshot};
use model::PartitionId;
use smallvec::SmallVec;

use crate::partition_set::PartitionSet;
use crate::{Cursor, Dir, KeyRange, StoreError, View};

use super::errors::read_failed;
use super::lock::DirectoryLock;
use super::trees::{TreeRange, Trees};

/// Keys read one by one before a size estimate uses file sizes instead.
const SIZED_KEYS_MAX: usize = 10_000;

/// Rows a seek skips before it opens a new iterator, which costs about as much as ten.
const SEEK_STEPS_MAX: usize = 6;

/// Holds a prefixed key of common length without allocating.
pub(super) type KeyBuffer = SmallVec<[u8; 128]>;

/// The stored key for `k` in `p`.
pub(super) fn prefixed(p: PartitionId, k: &[u8]) -> KeyBuffer {
    let mut key = KeyBuffer::with_capacity(4 + k.len());
    key.extend_from_slice(&p.0.to_be_bytes());
    key.extend_from_slice(k);
    key
}

/// A published snapshot; shared by all reads between two commits.
pub(super) struct EmbeddedView {
    open: Option<OpenView>,
}

/// The lock is dropped last: the engine's files are in use while the other fields are held.
pub(super) struct OpenView {
    pub(super) snapshot: Snapshot,
    pub(super) trees: Trees,
    pub(super) hidden: Arc<PartitionSet>,
    pub(super) _lock: Arc<DirectoryLock>,
}

impl EmbeddedView {
    pub(super) fn new(open: OpenView) -> Self {
        Self { open: Some(open) }
    }

    /// The view that is published after `close`, so that the store itself holds nothing open.
    pub(super) fn closed() -> Self {
        Self { open: None }
    }

    /// The sequence number it was taken at.
    pub(super) fn seqno(&self) -> Option<SeqNo> {
        self.open.as_ref().map(|open| open.snapshot.seqno())
    }

    pub(super) fn trees(&self) -> Option<&Trees> {
        self.open.as_ref().map(|open| &open.trees)
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
        Ok(walked_bytes.max(self.open()?.trees.file_bytes(p)))
    }

    pub(super) fn cursor(
        &self,
        p: PartitionId,
        range: KeyRange<'_>,
        dir: Dir,
    ) -> Result<EmbeddedCursor<'_>, StoreError> {
        let open = self.open()?;
        let position = if open.hidden.contains(p) {
            CursorPosition::Nowhere
        } else {
            CursorPosition::Before(None)
        };
        let bounds = Bounds::within(p, range);
        Ok(EmbeddedCursor { open, bounds, dir, position, row: None, is_row_next: false })
    }

    fn open(&self) -> Result<&OpenView, StoreError> {
        self.open.as_ref().ok_or_else(StoreError::closed)
    }
}

impl OpenView {
    fn iterate(&self, tree_range: &TreeRange<'_>) -> Iter {
        let tree = self.trees.of_segment(tree_range.segment);
        let KeyRange { lo, hi } = tree_range.range();
        self.snapshot.range::<&[u8], _>(tree, (lo, hi))
    }
}

impl View for EmbeddedView {
    fn get(&self, p: PartitionId, k: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let open = self.open()?;
        if open.hidden.contains(p) {
            return Ok(None);
        }
        let (lookup_cache, seqno) = (&open.trees.lookup_cache, open.snapshot.seqno());
        if let Some(value) = lookup_cache.get(p, k, seqno) {
            return Ok(Some(value));
        }
        let found = open.snapshot.get(open.trees.of(k), prefixed(p, k)).map_err(read_failed)?;
        if let Some(value) = &found {
            lookup_cache.note_read(p, k, seqno, value);
        }
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

/// A range of stored keys that never leaves its partition.
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

/// The first key after every key of `p`.
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
    position: CursorPosition,
    /// The last row read.
    row: Option<(Slice, Slice)>,
    /// Whether that row was read by a seek and is still to be returned.
    is_row_next: bool,
}

enum CursorPosition {
    /// In a hidden partition.
    Nowhere,
    /// Before the range, or before a key in it. The engine's iterator is opened only when a row is
    /// requested, since opening it is the expensive part of a scan.
    Before(Option<KeyBuffer>),
    /// Within the tree range of a segment.
    Within { iter: Iter, segment: usize },
    /// After the last row.
    Behind,
}

impl EmbeddedCursor<'_> {
    fn read_row(&mut self) -> Result<(), StoreError> {
        self.row = None;
        loop {
            let found = match (&mut self.position, self.dir) {
                (CursorPosition::Nowhere | CursorPosition::Behind, _) => return Ok(()),
                (CursorPosition::Before(_), _) => None,
                (CursorPosition::Within { iter, .. }, Dir::Fwd) => iter.next(),
                (CursorPosition::Within { iter, .. }, Dir::Rev) => iter.next_back(),
            };
            if let Some(found) = found {
                self.row = Some(found.into_inner().map_err(read_failed)?);
                return Ok(());
            }
            self.position = self.next_position();
        }
    }

    /// Where the cursor moves when its current position has no more rows.
    fn next_position(&self) -> CursorPosition {
        let (trees, p, dir) = (&self.open.trees, self.bounds.p, self.dir);
        let range = self.bounds.as_range();
        let mut tree_range = match &self.position {
            CursorPosition::Nowhere | CursorPosition::Behind => None,
            CursorPosition::Before(None) => trees.first_tree_range(p, range, dir),
            CursorPosition::Before(Some(k)) => {
                trees.first_tree_range(p, range.left_after_seek(k, dir), dir)
            }
            CursorPosition::Within { segment, .. } => {
                trees.tree_range_after(p, range, *segment, dir)
            }
        };
        while let Some(candidate) = tree_range {
            if !candidate.range().is_void() {
                let segment = candidate.segment;
                return CursorPosition::Within { iter: self.open.iterate(&candidate), segment };
            }
            tree_range = trees.tree_range_after(p, range, candidate.segment, dir);
        }
        CursorPosition::Behind
    }

    fn is_at_or_beyond(&self, key: &[u8], target: &[u8]) -> bool {
        match self.dir {
            Dir::Fwd => key >= target,
            Dir::Rev => key <= target,
        }
    }

    /// Tries to reach `target` in a few steps, which is cheaper than opening a new iterator.
    fn step_to(&mut self, target: &[u8]) -> Result<bool, StoreError> {
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
            self.read_row()?;
        }
        Ok(self.row())
    }

    fn row(&self) -> Option<(&[u8], &[u8])> {
        self.row.as_ref().map(|(k, v)| (k.get(4..).unwrap_or_default(), v.as_ref()))
    }

    fn seek(&mut self, k: &[u8]) -> Result<(), StoreError> {
        if let CursorPosition::Nowhere = self.position {
            return Ok(());
        }
        let target = prefixed(self.bounds.p, k);
        self.is_row_next = false;
        if !self.step_to(&target)? {
            self.position = CursorPosition::Before(Some(target));
            self.row = None;
        }
        Ok(())
    }
}
