//! A state of the store with unstored changes on top.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use model::PartitionId;
use storage::{Cursor, Dir, KeyRange, StoreError, View};

/// Changed keys of one partition; `None` where a key is deleted.
pub(crate) type Changes = BTreeMap<Bytes, Option<Bytes>>;

/// A view in which one partition has additional changes.
pub(crate) struct Overlay {
    pub(crate) view: Arc<dyn View>,
    pub(crate) partition: PartitionId,
    pub(crate) changes: Changes,
}

impl View for Overlay {
    fn get(&self, p: PartitionId, k: &[u8]) -> Result<Option<Bytes>, StoreError> {
        match self.changes.get(k).filter(|_| p == self.partition) {
            Some(changed) => Ok(changed.clone()),
            None => self.view.get(p, k),
        }
    }

    fn scan<'v>(
        &'v self,
        p: PartitionId,
        range: KeyRange<'_>,
        dir: Dir,
    ) -> Result<Box<dyn Cursor + Send + 'v>, StoreError> {
        let below = self.view.scan(p, range, dir)?;
        if p != self.partition || is_void(&range) {
            return Ok(below);
        }
        let bounds = (range.lo, range.hi);
        let changes = self.changes.range::<[u8], _>(bounds);
        if changes.clone().next().is_none() {
            return Ok(below);
        }
        let bounds = (owned(range.lo), owned(range.hi));
        let all = &self.changes;
        Ok(Box::new(Merged { below, all, changes, bounds, dir, held: None, current: None }))
    }
}

fn owned(bound: Bound<&[u8]>) -> Bound<Vec<u8>> {
    bound.map(<[u8]>::to_vec)
}

fn is_void(range: &KeyRange<'_>) -> bool {
    match (range.lo, range.hi) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(lo), Bound::Included(hi)) => lo > hi,
        (Bound::Included(lo) | Bound::Excluded(lo), Bound::Excluded(hi))
        | (Bound::Excluded(lo), Bound::Included(hi)) => lo >= hi,
    }
}

/// Two scans side by side: of the stored keys and of the changed ones.
struct Merged<'v> {
    below: Box<dyn Cursor + Send + 'v>,
    all: &'v Changes,
    changes: Range<'v, Bytes, Option<Bytes>>,
    bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    dir: Dir,
    /// What the lower scan returned last and is not yet shown.
    held: Option<Option<(Bytes, Bytes)>>,
    current: Option<(Bytes, Bytes)>,
}

impl Merged<'_> {
    fn next_changed(&mut self) -> Option<(&Bytes, &Option<Bytes>)> {
        match self.dir {
            Dir::Fwd => self.changes.next(),
            Dir::Rev => self.changes.next_back(),
        }
    }

    fn peek_changed(&self) -> Option<&Bytes> {
        let mut ahead = self.changes.clone();
        match self.dir {
            Dir::Fwd => ahead.next(),
            Dir::Rev => ahead.next_back(),
        }
        .map(|(key, _)| key)
    }

    fn fill(&mut self) -> Result<(), StoreError> {
        if self.held.is_none() {
            let next = self.below.next()?;
            let copy = |(k, v)| (Bytes::copy_from_slice(k), Bytes::copy_from_slice(v));
            self.held = Some(next.map(copy));
        }
        Ok(())
    }
}

impl Cursor for Merged<'_> {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>, StoreError> {
        self.current = None;
        loop {
            self.fill()?;
            let below = self.held.as_ref().and_then(Option::as_ref).map(|(key, _)| key);
            let order = match (self.peek_changed(), below) {
                (None, None) => return Ok(None),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(changed), Some(below)) => match self.dir {
                    Dir::Fwd => changed.cmp(below),
                    Dir::Rev => below.cmp(changed),
                },
            };
            if order.is_gt() {
                self.current = self.held.take().flatten();
                break;
            }
            if order.is_eq() {
                self.held = None;
            }
            let changed = self.next_changed().map(|(key, value)| (key.clone(), value.clone()));
            if let Some((key, Some(value))) = changed {
                self.current = Some((key, value));
                break;
            }
        }
        Ok(self.row())
    }

    fn row(&self) -> Option<(&[u8], &[u8])> {
        self.current.as_ref().map(|(key, value)| (&key[..], &value[..]))
    }

    fn seek(&mut self, k: &[u8]) -> Result<(), StoreError> {
        self.below.seek(k)?;
        (self.held, self.current) = (None, None);
        let (lo, hi) = (self.bounds.0.as_ref(), self.bounds.1.as_ref());
        let (lo, hi) = (lo.map(Vec::as_slice), hi.map(Vec::as_slice));
        let beyond = |bound: Bound<&[u8]>, is_behind: fn(&[u8], &[u8]) -> bool| match bound {
            Bound::Included(at) | Bound::Excluded(at) => is_behind(at, k),
            Bound::Unbounded => false,
        };
        let range = match self.dir {
            // A key outside the bounds of the scan does not widen them.
            Dir::Fwd if beyond(lo, |at, k| at >= k) => (lo, hi),
            Dir::Fwd => (Bound::Included(k), hi),
            Dir::Rev if beyond(hi, |at, k| at <= k) => (lo, hi),
            Dir::Rev => (lo, Bound::Included(k)),
        };
        self.changes = match is_void(&KeyRange { lo: range.0, hi: range.1 }) {
            true => self.all.range::<[u8], _>((Bound::Excluded(k), Bound::Included(k))),
            false => self.all.range::<[u8], _>(range),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use storage::{Durability, LocalStore, MemoryStore, Op, WriteBatch};

    use super::*;

    const P: PartitionId = PartitionId(7);

    fn key() -> impl Strategy<Value = Bytes> {
        prop::collection::vec(0u8..4, 1..3).prop_map(Bytes::from)
    }

    fn put(key: &Bytes, value: &Bytes) -> Op {
        Op::Put { p: P, k: key.clone(), v: value.clone() }
    }

    fn walk(
        view: &dyn View,
        lo: &[u8],
        hi: &[u8],
        dir: Dir,
        seek: Option<&[u8]>,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut cursor = view.scan(P, KeyRange::half_open(lo, hi), dir).unwrap();
        let mut out = Vec::new();
        if let Some(seek) = seek {
            if let Some((k, v)) = cursor.next().unwrap() {
                out.push((k.to_vec(), v.to_vec()));
            }
            cursor.seek(seek).unwrap();
        }
        while let Some((k, v)) = cursor.next().unwrap() {
            out.push((k.to_vec(), v.to_vec()));
        }
        out
    }

    proptest! {
        #[test]
        fn an_overlay_shows_what_the_store_would_after_the_changes(
            stored in prop::collection::btree_map(key(), key(), 0..12),
            changes in prop::collection::btree_map(key(), prop::option::of(key()), 0..12),
            lo in key(), hi in key(), seek in prop::option::of(key()), forward: bool,
        ) {
            let dir = if forward { Dir::Fwd } else { Dir::Rev };
            let (below, after) = (MemoryStore::new(), MemoryStore::new());
            for store in [&below, &after] {
                let ops = stored.iter().map(|(k, v)| put(k, v)).collect();
                store.write(WriteBatch { ops }, Durability::Buffered).unwrap();
            }
            let change = |(k, v): (&Bytes, &Option<Bytes>)| match v {
                Some(v) => put(k, v),
                None => Op::Del { p: P, k: k.clone() },
            };
            let ops = changes.iter().map(change).collect();
            after.write(WriteBatch { ops }, Durability::Buffered).unwrap();
            let overlay = Overlay { view: below.view(), partition: P, changes };
            let view = after.view();
            let seek = seek.as_deref();
            prop_assert_eq!(
                walk(&overlay, &lo, &hi, dir, seek),
                walk(view.as_ref(), &lo, &hi, dir, seek)
            );
            prop_assert_eq!(overlay.get(P, &lo).unwrap(), view.get(P, &lo).unwrap());
        }
    }
}
