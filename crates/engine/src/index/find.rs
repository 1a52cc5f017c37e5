//! The items that an index names for a set of terms.

use std::cell::Cell;

use model::PartitionId;
use query::access::{ByteRange, IndexSet, Step, Terms};
use storage::{Dir, KeyRange, View};

use super::PathHash;
use super::composite::CompositeRanges;
use crate::partition::too_late;
use crate::{Error, keys};

/// How many entries of each part of an intersection are read before it is known which part has the
/// fewest.
const FIRST_PASS_ENTRIES: usize = 64;
/// With every further pass, this many times more.
const PASS_GROWTH: usize = 8;
/// Reading this many entries costs about as much as reading an item.
const ENTRIES_PER_ROW: usize = 4;

/// How many times more entries are read in all than of the part that is used in the end.
const PASSES_MAX: usize = 4;
/// How many entries are read between two checks of the clock.
const ENTRIES_PER_CLOCK: u64 = 4096;

/// An item that an index entry names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Posting {
    pub(crate) number: u64,
    pub(crate) identity: Box<[u8]>,
}

/// Items that an index lookup found.
#[derive(Debug)]
pub(crate) struct PostingList {
    /// In the order of their identities, without duplicates.
    pub(crate) postings: Vec<Posting>,
    /// Whether all of them match the filter.
    pub(crate) is_exact: bool,
}

/// Looks up items in the index of a partition.
pub(crate) struct Finder<'v> {
    pub(crate) view: &'v dyn View,
    pub(crate) partition: PartitionId,
    /// The bounds of the identities to find; all identities if there are none.
    pub(crate) within: Option<&'v (Vec<u8>, Vec<u8>)>,
    /// Counts the entries that were read.
    pub(crate) entries: &'v Cell<u64>,
    /// Whether the lookup takes too long.
    pub(crate) is_late: &'v dyn Fn() -> bool,
}

impl Finder<'_> {
    /// The items of a set; `None` if more than `max` entries would be read for any part of it, or a
    /// few times as many in all, so that scanning all items is better.
    pub(crate) fn find(
        &self,
        index_set: &IndexSet,
        max: usize,
    ) -> Result<Option<PostingList>, Error> {
        let all = self.entries.get().saturating_add(max.saturating_mul(PASSES_MAX) as u64);
        let Some((mut postings, is_exact)) = self.postings(index_set, max, all)? else {
            return Ok(None);
        };
        postings.sort_unstable_by(|a, b| a.identity.cmp(&b.identity));
        postings.dedup_by(|a, b| a.identity == b.identity);
        Ok(Some(PostingList { postings, is_exact }))
    }

    /// The items with entries in ranges of keys; `None` if more than `max` entries would be read.
    pub(crate) fn find_between(
        &self,
        prefix: &[u8],
        ranges: &[ByteRange],
        max: usize,
    ) -> Result<Option<PostingList>, Error> {
        let mut postings = Vec::new();
        let mut left = max;
        for ByteRange { lo, hi } in ranges {
            let (lo, hi) = ([prefix, lo].concat(), [prefix, hi].concat());
            self.for_each_between(&lo, &hi, &mut |number, identity| {
                left = left.saturating_sub(1);
                if self.is_within(identity) {
                    postings.push(Posting { number, identity: identity.into() });
                }
                left > 0
            })?;
            if left == 0 {
                return Ok(None);
            }
        }
        postings.sort_unstable_by(|a, b| a.identity.cmp(&b.identity));
        postings.dedup_by(|a, b| a.identity == b.identity);
        Ok(Some(PostingList { postings, is_exact: false }))
    }

    /// The items in ranges of a composite index; `None` if there are more than `max`.
    pub(crate) fn find_by_composite(
        &self,
        composite_ranges: &CompositeRanges<'_>,
        max: usize,
    ) -> Result<Option<PostingList>, Error> {
        let mut postings = Vec::new();
        for ByteRange { lo, hi } in &composite_ranges.ranges {
            self.for_each_between(lo, hi, &mut |number, identity| {
                if self.is_within(identity) {
                    postings.push(Posting { number, identity: identity.into() });
                }
                postings.len() < max
            })?;
            if postings.len() >= max {
                return Ok(None);
            }
        }
        postings.sort_unstable_by(|a, b| a.identity.cmp(&b.identity));
        Ok(Some(PostingList { postings, is_exact: composite_ranges.is_exact }))
    }

    /// How many items have a term in ranges of a path at which each item has one value at most.
    pub(crate) fn count(&self, terms: &Terms) -> Result<u64, Error> {
        let mut count = 0;
        for range in &terms.ranges {
            self.for_each_entry(&terms.path, range, &mut |_, _| {
                count += 1;
                true
            })?;
        }
        Ok(count)
    }

    /// `all` limits the entries that the finder has read in all when this is done.
    fn postings(
        &self,
        index_set: &IndexSet,
        max: usize,
        all: u64,
    ) -> Result<Option<(Vec<Posting>, bool)>, Error> {
        match index_set {
            IndexSet::Everything => Ok(None),
            IndexSet::Nothing => Ok(Some((Vec::new(), true))),
            IndexSet::Terms(terms) => {
                let left = usize::try_from(all.saturating_sub(self.entries.get())).unwrap_or(max);
                if left == 0 {
                    return Ok(None);
                }
                let postings = self.postings_of_terms(terms, max.min(left))?;
                Ok(postings.map(|postings| (postings, terms.is_exact)))
            }
            IndexSet::Any(parts) => {
                let (mut union, mut is_exact) = (Vec::new(), true);
                let before = self.entries.get();
                for part in parts {
                    let seen = self.entries.get() - before;
                    let left = max.saturating_sub(usize::try_from(seen).unwrap_or(max));
                    let Some((postings, exact)) = self.postings(part, left, all)? else {
                        return Ok(None);
                    };
                    union.extend(postings);
                    is_exact &= exact;
                }
                Ok(Some((union, is_exact)))
            }
            IndexSet::All(parts) => self.postings_of_all(parts, max, all),
        }
    }

    fn postings_of_terms(&self, terms: &Terms, max: usize) -> Result<Option<Vec<Posting>>, Error> {
        let mut postings = Vec::new();
        let mut left = max;
        for range in &terms.ranges {
            self.for_each_entry(&terms.path, range, &mut |number, identity| {
                left = left.saturating_sub(1);
                if self.is_within(identity) {
                    postings.push(Posting { number, identity: identity.into() });
                }
                left > 0
            })?;
            if left == 0 {
                return Ok(None);
            }
        }
        Ok(Some(postings))
    }

    /// The part with the fewest entries, less the items that are missing in another part of about
    /// the same size.
    fn postings_of_all(
        &self,
        parts: &[IndexSet],
        max: usize,
        all: u64,
    ) -> Result<Option<(Vec<Posting>, bool)>, Error> {
        let Some((fewest, (mut postings, mut is_exact))) = self.fewest(parts, max, all)? else {
            return Ok(None);
        };
        for (_, part) in parts.iter().enumerate().filter(|(at, _)| *at != fewest) {
            let worth = (postings.len() * ENTRIES_PER_ROW).max(FIRST_PASS_ENTRIES).min(max);
            match self.postings(part, worth, all)? {
                Some((others, exact)) => {
                    keep_common(&mut postings, others);
                    is_exact &= exact;
                }
                None => is_exact = false,
            }
        }
        Ok(Some((postings, is_exact)))
    }

    #[expect(clippy::type_complexity, reason = "which part, and what is in it")]
    fn fewest(
        &self,
        parts: &[IndexSet],
        max: usize,
        all: u64,
    ) -> Result<Option<(usize, (Vec<Posting>, bool))>, Error> {
        let mut pass_entries = FIRST_PASS_ENTRIES;
        loop {
            let is_last = pass_entries >= max;
            for (at, part) in parts.iter().enumerate() {
                if let Some(found) = self.postings(part, pass_entries.min(max), all)? {
                    return Ok(Some((at, found)));
                }
            }
            if is_last || self.entries.get() >= all {
                return Ok(None);
            }
            pass_entries *= PASS_GROWTH;
        }
    }

    pub(crate) fn is_within(&self, identity: &[u8]) -> bool {
        self.within.is_none_or(|(lo, hi)| lo.as_slice() <= identity && identity < hi.as_slice())
    }

    /// Calls `visit` with number and identity of each entry, until it returns false.
    fn for_each_entry(
        &self,
        path: &[Step],
        range: &ByteRange,
        visit: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> Result<(), Error> {
        let mut lo = Vec::with_capacity(range.lo.len() + 9);
        keys::push_path_term(PathHash::of(path), &mut lo);
        let mut hi = lo.clone();
        lo.extend_from_slice(&range.lo);
        hi.extend_from_slice(&range.hi);
        self.for_each_between(&lo, &hi, visit)
    }

    fn for_each_between(
        &self,
        lo: &[u8],
        hi: &[u8],
        visit: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> Result<(), Error> {
        let mut cursor = self.view.scan(self.partition, KeyRange::half_open(lo, hi), Dir::Fwd)?;
        while let Some((key, identity)) = cursor.next()? {
            let entries = self.entries.get() + 1;
            self.entries.set(entries);
            if entries.is_multiple_of(ENTRIES_PER_CLOCK) && (self.is_late)() {
                return Err(too_late());
            }
            let (_, number) = keys::split_index_entry(key)
                .ok_or_else(|| Error::Internal("an index entry can't be read".into()))?;
            if !visit(number, identity) {
                break;
            }
        }
        Ok(())
    }
}

fn keep_common(postings: &mut Vec<Posting>, others: Vec<Posting>) {
    let mut numbers: Vec<u64> = others.into_iter().map(|posting| posting.number).collect();
    numbers.sort_unstable();
    postings.retain(|posting| numbers.binary_search(&posting.number).is_ok());
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use storage::{Durability, LocalStore, MemoryStore, Op, WriteBatch};

    use super::*;

    const PARTITION: PartitionId = PartitionId(1);

    fn path(name: usize) -> Vec<Step> {
        vec![Step::Name(name.to_string())]
    }

    /// The values at a path, each of which is one byte.
    fn terms(name: usize, lo: u8, hi: u8) -> IndexSet {
        let ranges = vec![ByteRange { lo: vec![lo], hi: vec![hi] }];
        IndexSet::Terms(Terms { path: path(name), ranges, is_exact: true })
    }

    /// A store in which `items` items have, at each of `paths` paths, the value 1.
    fn store(paths: usize, items: u64) -> MemoryStore {
        let store = MemoryStore::new();
        let mut batch = WriteBatch::default();
        for name in 0..paths {
            let mut term = Vec::new();
            keys::push_path_term(PathHash::of(&path(name)), &mut term);
            term.push(1);
            for number in 0..items {
                let k = keys::index_entry(&term, number);
                let v = Bytes::copy_from_slice(&number.to_be_bytes());
                batch.ops.push(Op::Put { p: PARTITION, k, v });
            }
        }
        store.write(batch, Durability::Buffered).expect("a write");
        store
    }

    fn find(
        store: &MemoryStore,
        index_set: &IndexSet,
        max: usize,
        is_late: &dyn Fn() -> bool,
    ) -> (Result<Option<PostingList>, Error>, u64) {
        let (view, entries) = (store.view(), Cell::new(0));
        let finder = Finder {
            view: view.as_ref(),
            partition: PARTITION,
            within: None,
            entries: &entries,
            is_late,
        };
        let found = finder.find(index_set, max);
        (found, entries.get())
    }

    #[test]
    fn conditions_share_what_may_be_looked_at() {
        let store = store(40, 500);
        let all = IndexSet::All((0..40).map(|name| terms(name, 1, 2)).collect());
        let (found, entries) = find(&store, &all, 64, &|| false);
        assert!(found.expect("in time").is_none());
        assert!(entries <= 64 * 4, "{entries}");
        let any = IndexSet::Any((0..40).map(|name| terms(name, 1, 2)).collect());
        let (found, entries) = find(&store, &any, 600, &|| false);
        assert!(found.expect("in time").is_none());
        assert!(entries <= 600, "{entries}");
        // Nested conditions share the same limit.
        let nested = IndexSet::All(vec![all.clone(), any.clone(), IndexSet::Any(vec![all, any])]);
        let (_, entries) = find(&store, &nested, 64, &|| false);
        assert!(entries <= 64 * 4, "{entries}");
    }

    #[test]
    fn what_is_rare_is_found_among_what_is_not() {
        let store = store(3, 5_000);
        let rare = IndexSet::All(vec![terms(0, 1, 2), terms(1, 1, 2), terms(2, 2, 3)]);
        let (found, entries) = find(&store, &rare, 1_000, &|| false);
        let found = found.expect("in time").expect("few enough");
        assert!(found.postings.is_empty());
        assert!(entries < 300, "{entries}");
    }

    #[test]
    fn looking_for_items_ends_when_it_is_late() {
        let store = store(1, 10_000);
        let late = find(&store, &terms(0, 1, 2), 20_000, &|| true);
        assert!(matches!(late.0, Err(Error::QueryLimit(_))), "{:?}", late.0);
        assert_eq!(late.1, ENTRIES_PER_CLOCK);
        let in_time = find(&store, &terms(0, 1, 2), 20_000, &|| false);
        assert_eq!(in_time.0.expect("in time").expect("few enough").postings.len(), 10_000);
        let view = store.view();
        let entries = Cell::new(0);
        let finder = Finder {
            view: view.as_ref(),
            partition: PARTITION,
            within: None,
            entries: &entries,
            is_late: &|| true,
        };
        let IndexSet::Terms(counted) = terms(0, 1, 2) else { unreachable!("terms are terms") };
        assert!(finder.count(&counted).is_err());
    }
}
