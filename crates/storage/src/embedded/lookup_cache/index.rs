//! The index of the lookup cache: where the newest values of keys were copied to, for as many keys
//! as memory allows.
//!
//! Sixteen bytes for each key: its hash and a location. A reader compares the key itself. The table
//! grows with the keys; once it may not grow any more, a new key replaces the one with a similar
//! hash that was copied first.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fjall::SeqNo;

const SHARD_BITS: u32 = 6;
const SHARDS: usize = 1 << SHARD_BITS;

/// Few enough for the memory they take, enough for all keys that are written while one is being
/// copied.
const SLOTS_PER_SHARD: usize = 1 << 10;

/// Two cache lines of the processor.
const BUCKET_ENTRIES: usize = 8;

/// Where bytes are: the number of a file, and a range of it in units of [`UNIT_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheLocation(u64);

/// What copies are aligned to.
pub(super) const UNIT_BYTES: usize = 64;

const LENGTH_BITS: u32 = 12;
const OFFSET_BITS: u32 = 24;

/// The part of a file after this has no locations.
pub(super) const FILE_BYTES_MAX: u64 = (1 << OFFSET_BITS) * UNIT_BYTES as u64;

impl CacheLocation {
    /// No bytes.
    const NONE: Self = Self(0);

    /// `None` if it does not fit into so few bits.
    pub(super) fn new(file: u64, offset: u64, bytes: usize) -> Option<Self> {
        let units = bytes.div_ceil(UNIT_BYTES) as u64;
        let at = offset / UNIT_BYTES as u64;
        let fits = units < 1 << LENGTH_BITS
            && at < 1 << OFFSET_BITS
            && file < 1 << (u64::BITS - LENGTH_BITS - OFFSET_BITS);
        fits.then_some(Self(file << (OFFSET_BITS + LENGTH_BITS) | at << LENGTH_BITS | units))
    }

    pub(super) fn file(self) -> u64 {
        self.0 >> (OFFSET_BITS + LENGTH_BITS)
    }

    pub(super) fn offset(self) -> u64 {
        (self.0 >> LENGTH_BITS & ((1 << OFFSET_BITS) - 1)) * UNIT_BYTES as u64
    }

    pub(super) fn bytes(self) -> usize {
        // The value has only a few bits.
        usize::try_from(self.0 & ((1 << LENGTH_BITS) - 1)).unwrap_or_default() * UNIT_BYTES
    }
}

pub(super) struct CacheIndex {
    shards: Box<[Mutex<Shard>]>,
    shard_buckets_max: usize,
}

struct Shard {
    /// A power of two in number.
    buckets: Vec<Bucket>,
    entries: usize,
    /// For each slot, chosen by bits of the hash, the first view with the last write to a key of
    /// that slot. Keys share slots, so now and then a value is needlessly not copied.
    written: Box<[SeqNo]>,
}

type Bucket = [Entry; BUCKET_ENTRIES];

/// The hash of a key and the location of its newest value; all zero if there is none.
#[derive(Clone, Copy, PartialEq)]
struct Entry {
    hash: u64,
    location: CacheLocation,
}

const NO_ENTRY: Entry = Entry { hash: 0, location: CacheLocation::NONE };

impl CacheIndex {
    pub(super) fn new(bytes_max: u64) -> Self {
        let shard = || Shard {
            buckets: vec![[NO_ENTRY; BUCKET_ENTRIES]],
            entries: 0,
            written: vec![0; SLOTS_PER_SHARD].into_boxed_slice(),
        };
        Self {
            shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect(),
            shard_buckets_max: shard_buckets_max(bytes_max),
        }
    }

    /// The largest size of an index with this limit.
    pub(super) fn bytes_of(bytes_max: u64) -> u64 {
        (shard_buckets_max(bytes_max) * SHARDS * size_of::<Bucket>()) as u64
    }

    pub(super) fn get(&self, hash: u64) -> Option<CacheLocation> {
        self.shard(hash).find(hash).map(|entry| entry.location)
    }

    /// Records that a key was written, and that views from `seqno` on have the write. Must be
    /// called before there is such a view. Returns the key's previous location.
    pub(super) fn note_write(&self, hash: u64, seqno: SeqNo) -> Option<CacheLocation> {
        let mut shard = self.shard(hash);
        shard.written[slot_of(hash)] = seqno;
        shard.remove(hash, |_| true)
    }

    /// Records where the value in the view of `seqno` was copied to, unless a later view may have
    /// another value. Returns the location to free: that of an older value or of another key, or
    /// this one.
    pub(super) fn note_copy(
        &self,
        hash: u64,
        seqno: SeqNo,
        location: CacheLocation,
    ) -> Option<CacheLocation> {
        let mut shard = self.shard(hash);
        if shard.written[slot_of(hash)] > seqno {
            return Some(location);
        }
        shard.set(Entry { hash, location }, self.shard_buckets_max)
    }

    /// Forgets the key if this is its location.
    pub(super) fn forget(&self, hash: u64, location: CacheLocation) {
        self.shard(hash).remove(hash, |found| found == location);
    }

    pub(super) fn retain(&self, is_kept: impl Fn(CacheLocation) -> bool) {
        for shard in &self.shards {
            let mut shard = locked(shard);
            let mut gone = 0;
            for entry in shard.buckets.as_flattened_mut() {
                if *entry != NO_ENTRY && !is_kept(entry.location) {
                    *entry = NO_ENTRY;
                    gone += 1;
                }
            }
            shard.entries -= gone;
        }
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        locked(&self.shards[part(hash, 0, SHARDS)])
    }
}

impl Shard {
    fn bucket(&mut self, hash: u64) -> &mut Bucket {
        let at = part(hash, SHARD_BITS, self.buckets.len());
        &mut self.buckets[at]
    }

    fn find(&mut self, hash: u64) -> Option<&mut Entry> {
        let is_it = |entry: &&mut Entry| entry.hash == hash && **entry != NO_ENTRY;
        self.bucket(hash).iter_mut().find(is_it)
    }

    fn remove(
        &mut self,
        hash: u64,
        is_it: impl FnOnce(CacheLocation) -> bool,
    ) -> Option<CacheLocation> {
        let entry = self.find(hash).filter(|entry| is_it(entry.location))?;
        let location = entry.location;
        *entry = NO_ENTRY;
        self.entries -= 1;
        Some(location)
    }

    /// Returns the location whose entry was replaced.
    fn set(&mut self, new: Entry, buckets_max: usize) -> Option<CacheLocation> {
        if let Some(entry) = self.find(new.hash) {
            return Some(std::mem::replace(&mut entry.location, new.location));
        }
        let is_half_full = self.entries * 2 >= self.buckets.len() * BUCKET_ENTRIES;
        if is_half_full && self.buckets.len() < buckets_max {
            self.grow();
        }
        // An empty entry counts as the oldest.
        let oldest = self.bucket(new.hash).iter_mut().min_by_key(|entry| entry.location.0)?;
        let before = std::mem::replace(oldest, new);
        if before == NO_ENTRY {
            self.entries += 1;
            return None;
        }
        Some(before.location)
    }

    /// Doubles the buckets. Entries of one bucket are divided among two.
    fn grow(&mut self) {
        let before = self.buckets.len();
        self.buckets.reserve_exact(before);
        for at in 0..before {
            let mut added = [NO_ENTRY; BUCKET_ENTRIES];
            for (entry, location) in self.buckets[at].iter_mut().zip(&mut added) {
                if part(entry.hash, SHARD_BITS, before * 2) >= before {
                    *location = std::mem::replace(entry, NO_ENTRY);
                }
            }
            self.buckets.push(added);
        }
    }
}

/// The largest number of buckets, a power of two, that fits.
fn shard_buckets_max(bytes: u64) -> usize {
    let buckets = bytes / (SHARDS * size_of::<Bucket>()) as u64;
    buckets.checked_ilog2().map_or(1, |bits| 1 << bits)
}

/// A number below `values`, a power of two, from bits of the hash after those skipped.
fn part(hash: u64, skipped: u32, values: usize) -> usize {
    usize::try_from(hash >> skipped).unwrap_or_default() & (values - 1)
}

/// Uses other bits than those that choose a bucket.
fn slot_of(hash: u64) -> usize {
    part(hash.rotate_left(16), 0, SLOTS_PER_SHARD)
}

fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
