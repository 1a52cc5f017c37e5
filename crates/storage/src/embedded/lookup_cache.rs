//! Copies of single items in files, for fast lookups.
//!
//! The engine finds an item through memtables, filters, a block index and a block. A block that is
//! not cached is read, checked and unpacked whole: ten microseconds and more, growing with the
//! number of items. So when an item is written, or found that way, a copy of it is put into a file,
//! and memory keeps its location ([`index`]). A lookup is then one small read, however many items
//! there are, and costs sixteen bytes of memory for each item.
//!
//! A location is always that of a key's newest value: a writer removes it before it publishes the
//! first view with the new value, and a copy records the first view in which it is valid. A reader
//! of an older view finds that the copy is too new and asks the engine. Once there is a newer
//! value, no thread can record a location for an older one.
//!
//! The copies are a cache: a background thread makes them a little later ([`writer`]), they are not
//! synced, and they vanish with the process ([`files`]).

mod files;
mod index;
#[cfg(test)]
mod tests;
mod writer;

use std::hash::BuildHasher;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use fjall::{AbstractTree, Keyspace, SeqNo};
use foldhash::fast::RandomState;
use hashbrown::HashSet;
use model::PartitionId;
use xxhash_rust::xxh3::xxh3_64;

use crate::{Op, StoreError};

use super::EmbeddedOptions;
use super::background::Background;
use files::{CacheFiles, Surroundings};
use index::{CacheIndex, CacheLocation, UNIT_BYTES};
use writer::WriteQueue;

/// Longer values are not cached.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Before the key: checksum of all that follows, sequence number of the first view that has the
/// value, partition, lengths of key and value.
const HEADER_BYTES: usize = 28;
const CHECKED_FROM: usize = 8;
const SEQNO_END: usize = 16;

/// What the store needs of the cache. The cache answers with the newest value of a key or not at
/// all, and the store then reads its trees.
pub(super) trait LookupCache: Send + Sync {
    /// The value that the view of `seqno` has, if the cache has it.
    fn get(&self, p: PartitionId, k: &[u8], seqno: SeqNo) -> Option<Bytes>;

    /// Records a value that was found in the view of `seqno`.
    fn note_read(&self, p: PartitionId, k: &[u8], seqno: SeqNo, value: &[u8]);

    /// What these ops change for the cache, to be passed to [`LookupCache::note_writes`] once they
    /// are written.
    fn prepare_update(&self, ops: &[Op]) -> CacheUpdate;

    /// Records changes that views from `seqno` on contain and earlier views do not; if `is_written`
    /// is false, the views from `seqno` on may lack them. Must be called before there is such a
    /// view.
    fn note_writes(&self, update: CacheUpdate, seqno: SeqNo, is_written: bool);

    /// Drops values while the disk has little room, or the cache more bytes than the store has
    /// items.
    fn make_room(&self);

    /// Bytes on disk.
    fn disk_bytes(&self) -> u64;

    /// Starts the cache's own thread, if it needs one.
    fn start(self: Arc<Self>) -> Result<Option<Background>, StoreError>;
}

/// The cache that `options` ask for, with its files in `directory`. The rows that may be cached are
/// in `tree`.
pub(super) fn open(
    directory: &Path,
    options: &EmbeddedOptions,
    tree: &Keyspace,
) -> Arc<dyn LookupCache> {
    if options.lookup_cache_bytes == 0 {
        return Arc::new(NoLookupCache);
    }
    let (store_options, place, tree) = (options.clone(), directory.to_owned(), tree.clone());
    let surroundings = Surroundings {
        room: Box::new(move || store_options.room(&place)),
        rows: Box::new(move || rows_of(&tree)),
    };
    Arc::new(FileLookupCache::new(directory, options, surroundings))
}

/// Rows of a tree, about: old versions count until they are merged, and rows that were removed until
/// the removal is in a file.
fn rows_of(tree: &Keyspace) -> u64 {
    let entries = tree.tree.approximate_len() as u64;
    entries.saturating_sub(2 * tree.tree.tombstone_count())
}

/// The most memory that the cache of these options takes.
pub(super) fn memory_bytes_max(options: &EmbeddedOptions) -> u64 {
    CacheIndex::bytes_of(index_bytes_max(options))
}

/// Enough for a million items by default.
fn index_bytes_max(options: &EmbeddedOptions) -> u64 {
    if options.lookup_cache_bytes == 0 { 0 } else { options.cache_bytes / 4 }
}

/// The cache of a store without one.
struct NoLookupCache;

impl LookupCache for NoLookupCache {
    fn get(&self, _: PartitionId, _: &[u8], _: SeqNo) -> Option<Bytes> {
        None
    }

    fn note_read(&self, _: PartitionId, _: &[u8], _: SeqNo, _: &[u8]) {}

    fn prepare_update(&self, _: &[Op]) -> CacheUpdate {
        CacheUpdate::default()
    }

    fn note_writes(&self, _: CacheUpdate, _: SeqNo, _: bool) {}

    fn make_room(&self) {}

    fn disk_bytes(&self) -> u64 {
        0
    }

    fn start(self: Arc<Self>) -> Result<Option<Background>, StoreError> {
        Ok(None)
    }
}

/// A cache with its values in files.
struct FileLookupCache {
    files: CacheFiles,
    index: CacheIndex,
    pending: WriteQueue,
    hasher: RandomState,
    /// First bytes of the keys whose values are cached.
    tags: Range<u8>,
}

/// A key of a partition, and its hash.
#[derive(Clone, Copy)]
struct LookupKey<'k> {
    hash: u64,
    p: PartitionId,
    k: &'k [u8],
}

/// What a batch does to items: which keys it changes, and copies of the values it writes.
#[derive(Default)]
pub(super) struct CacheUpdate {
    bytes: Vec<u8>,
    changes: Vec<Change>,
}

struct Change {
    hash: u64,
    /// Where the copy is within `bytes`, if there is one.
    copy: Option<Range<usize>>,
}

impl FileLookupCache {
    /// A cache in `directory`.
    fn new(directory: &Path, options: &EmbeddedOptions, surroundings: Surroundings) -> Self {
        Self {
            files: CacheFiles::new(directory, options.lookup_cache_bytes, surroundings),
            index: CacheIndex::new(index_bytes_max(options)),
            pending: WriteQueue::default(),
            hasher: RandomState::default(),
            tags: options.key_tags.looked_up.clone(),
        }
    }

    /// The key to look up, if values of such keys are cached.
    fn lookup_key<'k>(&self, p: PartitionId, k: &'k [u8]) -> Option<LookupKey<'k>> {
        let is_item = k.first().is_some_and(|tag| self.tags.contains(tag));
        is_item.then(|| LookupKey { hash: self.hasher.hash_one((p.0, k)), p, k })
    }

    fn find(&self, lookup_key: LookupKey<'_>, seqno: SeqNo) -> Option<Bytes> {
        let location = self.index.get(lookup_key.hash)?;
        let copy = self.files.read(location).and_then(CachedRow::checked);
        let Some(copy) = copy.filter(|copy| copy.is_of(lookup_key)) else {
            // The file is gone or damaged, or the copy belongs to another key with that hash.
            self.index.forget(lookup_key.hash, location);
            return None;
        };
        (copy.seqno <= seqno).then(|| copy.into_value())
    }

    /// Copies the queued values. Returns whether there were any.
    fn write_pending(&self) -> bool {
        let pending = self.pending.take();
        let newest = self.files.newest();
        let is_any = !pending.is_empty();
        for (update, seqno) in pending {
            self.copy(update, seqno);
        }
        if self.files.newest() != newest {
            self.drop_unused_files();
        }
        is_any
    }

    /// Keys that have a location already are skipped. The location was removed when this value was
    /// written, so a reader has found this value or a newer one since; many readers may have found
    /// the same one.
    fn copy(&self, mut update: CacheUpdate, seqno: SeqNo) {
        update.drop_copies_of(|hash| self.index.get(hash).is_some());
        let copies = update.seal(seqno);
        let Some(written) = self.files.append(&update.bytes, copies) else { return };
        for change in &update.changes {
            let Some(copy) = &change.copy else { continue };
            let offset = written.offset + copy.start as u64;
            if let Some(location) = CacheLocation::new(written.file, offset, copy.len())
                && let Some(unneeded) = self.index.note_copy(change.hash, seqno, location)
            {
                self.files.mark_unused(unneeded);
            }
        }
    }

    /// Drops files of which little is still in use.
    fn drop_unused_files(&self) {
        if self.files.drop_unused() {
            self.index.retain(|location| self.files.has(location));
        }
    }
}

impl LookupCache for FileLookupCache {
    fn get(&self, p: PartitionId, k: &[u8], seqno: SeqNo) -> Option<Bytes> {
        self.find(self.lookup_key(p, k)?, seqno)
    }

    /// Queues the value to be copied.
    fn note_read(&self, p: PartitionId, k: &[u8], seqno: SeqNo, value: &[u8]) {
        let Some(lookup_key) = self.lookup_key(p, k) else { return };
        let mut update = CacheUpdate::default();
        update.add(lookup_key, Some(value));
        self.pending.push(update, seqno);
    }

    fn prepare_update(&self, ops: &[Op]) -> CacheUpdate {
        let mut update = CacheUpdate::default();
        for op in ops {
            let (p, k, value) = match op {
                Op::Put { p, k, v } => (*p, k, Some(&v[..])),
                Op::Del { p, k } => (*p, k, None),
            };
            if let Some(lookup_key) = self.lookup_key(p, k) {
                update.add(lookup_key, value);
            }
        }
        update
    }

    fn note_writes(&self, update: CacheUpdate, seqno: SeqNo, is_written: bool) {
        for change in &update.changes {
            if let Some(unneeded) = self.index.note_write(change.hash, seqno) {
                self.files.mark_unused(unneeded);
            }
        }
        if is_written {
            self.pending.push(update, seqno);
        }
    }

    fn make_room(&self) {
        if self.files.make_room() {
            self.drop_unused_files();
        }
    }

    fn disk_bytes(&self) -> u64 {
        self.files.bytes()
    }

    fn start(self: Arc<Self>) -> Result<Option<Background>, StoreError> {
        writer::start(self).map(Some)
    }
}

impl CacheUpdate {
    fn add(&mut self, lookup_key: LookupKey<'_>, value: Option<&[u8]>) {
        let copied = value.filter(|value| value.len() <= VALUE_BYTES_MAX);
        let copy = copied.and_then(|value| self.put(lookup_key, value));
        self.changes.push(Change { hash: lookup_key.hash, copy });
    }

    /// Appends a copy; fields that are not known yet are zero.
    fn put(&mut self, lookup_key: LookupKey<'_>, value: &[u8]) -> Option<Range<usize>> {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).ok();
        let (key_bytes, value_bytes) = (length(lookup_key.k)?, length(value)?);
        let start = self.bytes.len();
        let end =
            start + (HEADER_BYTES + lookup_key.k.len() + value.len()).next_multiple_of(UNIT_BYTES);
        self.bytes.reserve(end - start);
        self.bytes.extend_from_slice(&[0; SEQNO_END]);
        self.bytes.extend_from_slice(&lookup_key.p.0.to_be_bytes());
        self.bytes.extend_from_slice(&key_bytes.to_be_bytes());
        self.bytes.extend_from_slice(&value_bytes.to_be_bytes());
        self.bytes.extend_from_slice(lookup_key.k);
        self.bytes.extend_from_slice(value);
        self.bytes.resize(end, 0);
        Some(start..end)
    }

    /// Keeps only the copy of a key's last change: no view may show an earlier one.
    fn drop_overwritten(&mut self) {
        let mut seen =
            HashSet::with_capacity_and_hasher(self.changes.len(), RandomState::default());
        self.drop_copies_of(|hash| !seen.insert(hash));
    }

    /// Goes from the last change to the first.
    fn drop_copies_of(&mut self, mut is_dropped: impl FnMut(u64) -> bool) {
        for change in self.changes.iter_mut().rev() {
            if is_dropped(change.hash) {
                change.copy = None;
            }
        }
    }

    /// Fills in the fields that were not known; returns how many copies there are.
    fn seal(&mut self, seqno: SeqNo) -> u64 {
        self.drop_overwritten();
        let mut copies = 0;
        for range in self.changes.iter().filter_map(|change| change.copy.clone()) {
            let Some(copy) = self.bytes.get_mut(range) else { continue };
            copy[CHECKED_FROM..SEQNO_END].copy_from_slice(&seqno.to_be_bytes());
            let checksum = xxh3_64(&copy[CHECKED_FROM..]);
            copy[..CHECKED_FROM].copy_from_slice(&checksum.to_be_bytes());
            copies += 1;
        }
        copies
    }
}

/// A copy that was read.
struct CachedRow {
    bytes: Vec<u8>,
    seqno: SeqNo,
    p: PartitionId,
    key_end: usize,
    value_end: usize,
}

impl CachedRow {
    /// `None` if these are not the bytes that were written.
    fn checked(bytes: Vec<u8>) -> Option<Self> {
        let (checksum, checked) = bytes.split_first_chunk()?;
        if u64::from_be_bytes(*checksum) != xxh3_64(checked) {
            return None;
        }
        let (seqno, rest) = checked.split_first_chunk()?;
        let (p, rest) = rest.split_first_chunk()?;
        let (key_bytes, rest) = rest.split_first_chunk()?;
        let (value_bytes, _) = rest.split_first_chunk()?;
        let length = |bytes: &[u8; 4]| usize::try_from(u32::from_be_bytes(*bytes)).ok();
        let key_end = HEADER_BYTES + length(key_bytes)?;
        let value_end = key_end + length(value_bytes)?;
        let (seqno, p) = (SeqNo::from_be_bytes(*seqno), PartitionId(u32::from_be_bytes(*p)));
        (value_end <= bytes.len()).then_some(Self { bytes, seqno, p, key_end, value_end })
    }

    fn is_of(&self, lookup_key: LookupKey<'_>) -> bool {
        self.p == lookup_key.p && self.bytes.get(HEADER_BYTES..self.key_end) == Some(lookup_key.k)
    }

    fn into_value(mut self) -> Bytes {
        self.bytes.truncate(self.value_end);
        let mut value = Bytes::from(self.bytes);
        value.advance(self.key_end);
        value
    }
}
