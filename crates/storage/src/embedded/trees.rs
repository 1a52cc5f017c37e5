//! Which of the engine's trees a key is in.
//!
//! Items are looked up one by one. Index entries and the log of changes, of which there are twenty
//! times as many, are scanned. Filters tell a lookup which files to skip. Building them for all
//! keys would be wasteful, and every lookup would go through structures sized for all keys. So keys
//! that are scanned ([`KeyTags`]) are in a tree of their own without filters, and the other
//! tree has filters and block indexes small enough to be used whole.

use std::cmp::Ordering;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use fjall::config::{BlockSizePolicy, FilterPolicy, PartitioningPolicy, PinningPolicy};
use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions};
use model::PartitionId;

use crate::{Dir, KeyRange, KeyTags, StoreError};

use super::errors::open_failed;
use super::lookup_cache::{self, LookupCache};
use super::manifest::missing;
use super::sys::{self, Format};
use super::{EmbeddedOptions, LEVEL_ZERO_RUNS_MAX, SEALED_MEMTABLES_MAX};

/// Holds several items of a common size. Twice the engine's default: scanning items, merging files
/// and finding the block of a key in a large store are all faster then, and reading a block that is
/// not cached is hardly slower.
const DATA_BLOCK_BYTES: u32 = 8 << 10;

impl EmbeddedOptions {
    /// The engine's options for the tree of keys that are looked up.
    ///
    /// Filters are kept in memory, about a byte for each key. Block indexes are read into the cache
    /// whole: a hundredth of the data they index.
    pub fn looked_up(&self) -> KeyspaceCreateOptions {
        self.tree()
            .filter_block_partitioning_policy(PartitioningPolicy::all(false))
            .filter_block_pinning_policy(PinningPolicy::all(true))
            .index_block_partitioning_policy(PartitioningPolicy::all(false))
    }

    /// The engine's options for the tree of keys that are scanned.
    ///
    /// Block indexes of the two newest levels are kept in memory, whole: they belong to 300 MB of
    /// files at most. Those of the other levels are partitioned. Whole, they take megabytes each
    /// once there are many small keys, and every scan would read some of them again as soon as they
    /// do not all fit the cache.
    pub fn scanned(&self) -> KeyspaceCreateOptions {
        self.tree()
            .filter_policy(FilterPolicy::disabled())
            .index_block_partitioning_policy(PartitioningPolicy::new([false, false, true]))
    }

    fn tree(&self) -> KeyspaceCreateOptions {
        KeyspaceCreateOptions::default()
            .max_memtable_size(self.memtable_bytes / 2)
            .data_block_size_policy(BlockSizePolicy::all(DATA_BLOCK_BYTES))
    }
}

/// The trees of a store, and their lookup cache.
#[derive(Clone)]
pub(super) struct Trees {
    /// Keys that are looked up, and the store's own records.
    pub(super) data: Keyspace,
    /// Keys that are scanned; `None` for a store of the first format, which has all keys in one
    /// tree.
    scanned: Option<Keyspace>,
    /// First bytes of keys at which the tree changes.
    boundaries: [u8; 4],
    pub(super) lookup_cache: Arc<dyn LookupCache>,
}

impl Trees {
    /// Opens the trees of the database in `directory`, or creates them.
    pub(super) fn open(
        db: &Database,
        directory: &Path,
        options: &EmbeddedOptions,
    ) -> Result<Self, StoreError> {
        let data = db.keyspace("data", || options.looked_up()).map_err(open_failed)?;
        let scanned = || db.keyspace("walked", || options.scanned()).map_err(open_failed);
        let scanned = match sys::format(&data)? {
            Some(Format::OneTree) => None,
            Some(Format::TwoTrees) if !db.keyspace_exists("walked") => {
                return Err(missing(&directory.join("keyspaces").join("2")));
            }
            Some(Format::TwoTrees) => Some(scanned()?),
            None => {
                let made = scanned()?;
                sys::mark_format(db, &data)?;
                Some(made)
            }
        };
        let lookup_cache = lookup_cache::open(directory, options, &data);
        let KeyTags { scanned: [entries, log], .. } = &options.key_tags;
        let boundaries = [entries.start, entries.end, log.start, log.end];
        Ok(Self { data, scanned, boundaries, lookup_cache })
    }

    /// All trees.
    pub(super) fn each(&self) -> impl Iterator<Item = &Keyspace> {
        std::iter::once(&self.data).chain(&self.scanned)
    }

    /// The tree that holds `k`, whatever the partition.
    pub(super) fn of(&self, k: &[u8]) -> &Keyspace {
        self.of_segment(self.segment_of(k.first()))
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.each().any(|tree| {
            tree.tree.sealed_memtable_count() >= SEALED_MEMTABLES_MAX
                || tree.tree.l0_run_count() >= LEVEL_ZERO_RUNS_MAX
        })
    }

    /// Bytes in files of the trees.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.each().map(|tree| tree.tree.disk_space()).sum()
    }

    /// Bytes in the files of a partition, counting those it shares with others by half.
    pub(super) fn file_bytes(&self, p: PartitionId) -> u64 {
        self.each().map(|tree| file_bytes(tree, p)).sum()
    }

    /// Differs between any two sets of files.
    pub(super) fn version(&self) -> Vec<u64> {
        self.each().map(|tree| tree.tree.current_version().id()).collect()
    }

    /// The tree range of `range` that comes first when it is scanned in `dir`.
    pub(super) fn first_tree_range<'r>(
        &self,
        p: PartitionId,
        range: KeyRange<'r>,
        dir: Dir,
    ) -> Option<TreeRange<'r>> {
        let (first, last) = self.segments(p, range);
        let segment = match dir {
            Dir::Fwd => first,
            Dir::Rev => last,
        };
        self.tree_range(p, range, segment)
    }

    /// The tree range of `range` that comes after `segment` when it is scanned in `dir`.
    pub(super) fn tree_range_after<'r>(
        &self,
        p: PartitionId,
        range: KeyRange<'r>,
        segment: usize,
        dir: Dir,
    ) -> Option<TreeRange<'r>> {
        let segment = match dir {
            Dir::Fwd => segment + 1,
            Dir::Rev => segment.checked_sub(1)?,
        };
        self.tree_range(p, range, segment)
    }

    fn tree_range<'r>(
        &self,
        p: PartitionId,
        range: KeyRange<'r>,
        segment: usize,
    ) -> Option<TreeRange<'r>> {
        let (first, last) = self.segments(p, range);
        let boundary =
            |at: usize| self.boundaries().get(at).map(|byte| TreeBoundary::new(p, *byte));
        let lo = (segment > first).then(|| boundary(segment - 1)).flatten();
        let hi = (segment < last).then(|| boundary(segment)).flatten();
        (first..=last).contains(&segment).then_some(TreeRange { range, lo, hi, segment })
    }

    /// The segments that a range begins and ends in.
    fn segments(&self, p: PartitionId, range: KeyRange<'_>) -> (usize, usize) {
        let first = match range.lo {
            Bound::Included(key) | Bound::Excluded(key) => self.segment_of(key.get(4)),
            Bound::Unbounded => 0,
        };
        let last = match range.hi {
            Bound::Included(key) | Bound::Excluded(key) if key.starts_with(&p.0.to_be_bytes()) => {
                self.segment_of(key.get(4))
            }
            Bound::Included(_) | Bound::Excluded(_) | Bound::Unbounded => self.boundaries().len(),
        };
        (first, last)
    }

    fn segment_of(&self, byte: Option<&u8>) -> usize {
        let is_behind = |boundary: &&u8| byte.is_some_and(|byte| byte >= *boundary);
        self.boundaries().iter().take_while(is_behind).count()
    }

    pub(super) fn of_segment(&self, segment: usize) -> &Keyspace {
        self.scanned.as_ref().filter(|_| !segment.is_multiple_of(2)).unwrap_or(&self.data)
    }

    fn boundaries(&self) -> &[u8] {
        if self.scanned.is_some() { &self.boundaries } else { &[] }
    }
}

/// A part of a range of stored keys that is in one tree.
pub(super) struct TreeRange<'r> {
    range: KeyRange<'r>,
    lo: Option<TreeBoundary>,
    hi: Option<TreeBoundary>,
    /// Which of the segments between two boundaries it lies in.
    pub(super) segment: usize,
}

impl TreeRange<'_> {
    pub(super) fn range(&self) -> KeyRange<'_> {
        let lo =
            self.lo.as_ref().map_or(self.range.lo, |boundary| Bound::Included(&boundary.0[..]));
        let hi =
            self.hi.as_ref().map_or(self.range.hi, |boundary| Bound::Excluded(&boundary.0[..]));
        KeyRange { lo, hi }
    }
}

/// The first stored key of a partition that is in another tree than the keys before it.
struct TreeBoundary([u8; 5]);

impl TreeBoundary {
    fn new(p: PartitionId, byte: u8) -> Self {
        let [a, b, c, d] = p.0.to_be_bytes();
        Self([a, b, c, d, byte])
    }
}

fn file_bytes(tree: &Keyspace, p: PartitionId) -> u64 {
    let prefix = p.0.to_be_bytes();
    let version = tree.tree.current_version();
    let share = |min: &[u8], max: &[u8], file_bytes: u64| {
        let (min, max) = (min.get(..4), max.get(..4));
        match (min.map(|m| m.cmp(&prefix)), max.map(|m| m.cmp(&prefix))) {
            (Some(Ordering::Greater), _) | (_, Some(Ordering::Less)) => 0,
            (Some(Ordering::Equal), Some(Ordering::Equal)) => file_bytes,
            _ => file_bytes / 2,
        }
    };
    version
        .iter_tables()
        .map(|table| &table.metadata)
        .map(|meta| share(meta.key_range.min(), meta.key_range.max(), meta.file_size))
        .sum()
}
