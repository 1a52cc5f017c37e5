//! Values that were looked up, for whoever looks them up again.
//!
//! The engine caches blocks. To find a value in one takes a way through memtables, filters, a block
//! index and the block: ten times as long as to find it here, and eight times the memory where
//! nobody wants its neighbours.
//!
//! An entry says what a key's value was in a view. It is the same in every later view, unless
//! somebody wrote in between, and that is known by the key's *slot*: a writer notes there from
//! which sequence number on views have what it wrote, before it publishes the first of them. Keys
//! share slots, so now and then an entry is given up without need.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fjall::SeqNo;
use foldhash::fast::RandomState;
use model::PartitionId;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{Equivalent, Weighter};

/// Few enough for the memory they take, enough for all keys that are written within seconds.
const SLOT_BITS: u32 = 16;

/// Longer values are left to the cache of blocks.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// What an entry takes beside its key and value.
const ENTRY_BYTES: u64 = 100;

/// What a common entry takes.
const ENTRY_BYTES_COMMON: u64 = 1_000;

/// More are not prepared for in advance.
const ENTRIES_EXPECTED_MAX: usize = 1 << 20;

/// Whether values are remembered that are still in a memtable, where they are found quickly and
/// take memory already. Tests write few keys again and again and would find nothing here.
const REMEMBERS_MEMTABLES: bool = cfg!(test);

pub(super) struct Rows {
    entries: Cache<Key, Entry, ByBytes, RandomState>,
    hasher: RandomState,
    /// For each slot, the first view that has what was last written there.
    written: Box<[AtomicU64]>,
    /// What was written up to here is in files.
    filed: AtomicU64,
}

struct Key {
    hash: u64,
    p: PartitionId,
    k: Box<[u8]>,
}

#[derive(Clone)]
struct Entry {
    value: Bytes,
    /// The sequence number of the view that has it.
    seqno: SeqNo,
}

/// A key of a partition, and its hash.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'k> {
    hash: u64,
    p: PartitionId,
    k: &'k [u8],
}

impl Rows {
    pub(super) fn new(bytes_max: u64) -> Self {
        let entries = usize::try_from(bytes_max / ENTRY_BYTES_COMMON).unwrap_or(usize::MAX);
        let entries = Cache::with(
            entries.min(ENTRIES_EXPECTED_MAX),
            bytes_max,
            ByBytes,
            RandomState::default(),
            DefaultLifecycle::default(),
        );
        let written = (0..1 << SLOT_BITS).map(|_| AtomicU64::new(0)).collect();
        Self { entries, hasher: RandomState::default(), written, filed: AtomicU64::new(0) }
    }

    pub(super) fn wanted<'k>(&self, p: PartitionId, k: &'k [u8]) -> Wanted<'k> {
        Wanted { hash: self.hasher.hash_one((p.0, k)), p, k }
    }

    /// The value that the view of `seqno` has, if that is known.
    pub(super) fn get(&self, wanted: Wanted<'_>, seqno: SeqNo) -> Option<Bytes> {
        let entry = self.entries.get(&wanted)?;
        let is_of_view = self.written_at(wanted.hash) <= entry.seqno && entry.seqno <= seqno;
        is_of_view.then_some(entry.value)
    }

    /// Remembers the value that was found in the view of `seqno`.
    pub(super) fn remember(&self, wanted: Wanted<'_>, seqno: SeqNo, value: &[u8]) {
        let is_filed = self.written_at(wanted.hash) <= self.filed.load(Ordering::Relaxed);
        if (is_filed || REMEMBERS_MEMTABLES) && value.len() <= VALUE_BYTES_MAX {
            let key = Key { hash: wanted.hash, p: wanted.p, k: wanted.k.into() };
            // A copy, since what was found is a part of a block and would keep it in memory.
            self.entries.insert(key, Entry { value: Bytes::copy_from_slice(value), seqno });
        }
    }

    /// Where a write of this key is to be noted.
    pub(super) fn slot(&self, p: PartitionId, k: &[u8]) -> usize {
        slot_of(self.wanted(p, k).hash)
    }

    /// Notes that something was written there which views of `seqno` and later ones have, and
    /// earlier ones have not. To be called before there is such a view.
    pub(super) fn note_write(&self, slot: usize, seqno: SeqNo) {
        // ORDERING: publishing a view comes after this and is what readers synchronize with.
        self.written[slot].store(seqno, Ordering::Relaxed);
    }

    /// Says that views of `seqno` and earlier ones find everything in files.
    pub(super) fn note_files(&self, seqno: SeqNo) {
        // ORDERING: only says what is worth remembering.
        self.filed.store(seqno, Ordering::Relaxed);
    }

    fn written_at(&self, hash: u64) -> SeqNo {
        self.written[slot_of(hash)].load(Ordering::Relaxed)
    }
}

/// By other bits than those that tell entries apart.
fn slot_of(hash: u64) -> usize {
    usize::try_from(hash >> (u64::BITS - SLOT_BITS)).unwrap_or_default()
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.p == other.p && self.k == other.k
    }
}

impl Eq for Key {}

impl Equivalent<Key> for Wanted<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.p == key.p && *self.k == *key.k
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Hash for Wanted<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Entry> for ByBytes {
    fn weight(&self, key: &Key, entry: &Entry) -> u64 {
        (key.k.len() + entry.value.len()) as u64 + ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: PartitionId = PartitionId(1);

    fn get(rows: &Rows, k: &[u8], seqno: SeqNo) -> Option<Bytes> {
        rows.get(rows.wanted(P, k), seqno)
    }

    #[test]
    fn a_value_is_that_of_its_view_and_later_ones() {
        let rows = Rows::new(1 << 20);
        rows.remember(rows.wanted(P, b"k"), 100, b"v");
        assert_eq!(get(&rows, b"k", 99), None);
        assert_eq!(get(&rows, b"k", 100).as_deref(), Some(&b"v"[..]));
        assert_eq!(get(&rows, b"k", 500).as_deref(), Some(&b"v"[..]));
        assert_eq!(get(&rows, b"other", 500), None);
        assert!(rows.get(rows.wanted(PartitionId(2), b"k"), 500).is_none());
    }

    #[test]
    fn a_write_ends_it_also_for_those_who_come_late() {
        let rows = Rows::new(1 << 20);
        rows.remember(rows.wanted(P, b"k"), 100, b"old");
        rows.note_write(rows.slot(P, b"k"), 200);
        assert_eq!(get(&rows, b"k", 200), None);
        // Somebody who still reads an older view found the old value there.
        rows.remember(rows.wanted(P, b"k"), 199, b"old");
        assert_eq!(get(&rows, b"k", 300), None);
        rows.remember(rows.wanted(P, b"k"), 200, b"new");
        assert_eq!(get(&rows, b"k", 300).as_deref(), Some(&b"new"[..]));
    }

    #[test]
    fn it_takes_no_more_than_it_may() {
        let rows = Rows::new(1 << 20);
        for number in 0_u32..5_000 {
            rows.remember(rows.wanted(P, &number.to_be_bytes()), 100, &[0; 1_000]);
        }
        rows.remember(rows.wanted(P, b"long"), 100, &vec![0; VALUE_BYTES_MAX + 1]);
        assert_eq!(get(&rows, b"long", 100), None);
        assert!(rows.entries.weight() <= 1 << 20);
        let kept = (0_u32..5_000).filter(|n| get(&rows, &n.to_be_bytes(), 100).is_some()).count();
        assert!((800..=1_000).contains(&kept), "{kept}");
    }
}
