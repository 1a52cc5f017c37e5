//! What every store promises, checked on each of them.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::PartitionId;
use tempfile::TempDir;

use crate::embedded::tests::make_one_tree;
use crate::faulty::FaultyStore;
use crate::{
    Cursor, Dir, Durability, EmbeddedOptions, EmbeddedStore, KEY_BYTES_MAX, KeyRange, LocalStore,
    MemoryStore, Op, StoreError, View, WriteBatch,
};

const P: PartitionId = PartitionId(7);
const LONG: Duration = Duration::from_secs(60);

/// One store under test, and a way to open it again when it is durable.
struct Subject {
    store: Arc<dyn LocalStore>,
    reopen: Option<Box<dyn FnMut() -> Arc<dyn LocalStore>>>,
    _dir: Option<TempDir>,
}

impl Subject {
    fn memory() -> Self {
        Self { store: Arc::new(MemoryStore::new()), reopen: None, _dir: None }
    }

    fn faulty() -> Self {
        let mut current = Arc::new(FaultyStore::in_memory());
        let store = Arc::clone(&current);
        let reopen = move || -> Arc<dyn LocalStore> {
            current = Arc::new(current.crash(0));
            Arc::clone(&current) as _
        };
        Self { store, reopen: Some(Box::new(reopen)), _dir: None }
    }

    fn embedded() -> Self {
        Self::embedded_with(EmbeddedOptions::default())
    }

    /// Memtables so small that every test flushes and compacts, and no lookup cache.
    fn embedded_tiny() -> Self {
        let (memtable_bytes, lookup_cache_bytes) = (2_000, 0);
        Self::embedded_with(EmbeddedOptions {
            memtable_bytes,
            lookup_cache_bytes,
            ..Default::default()
        })
    }

    /// A directory created before scanned keys had a tree of their own.
    fn embedded_one_tree() -> Self {
        let dir = tempfile::tempdir().unwrap();
        make_one_tree(dir.path());
        Self::embedded_in(dir, EmbeddedOptions { memtable_bytes: 2_000, ..Default::default() })
    }

    fn embedded_with(options: EmbeddedOptions) -> Self {
        Self::embedded_in(tempfile::tempdir().unwrap(), options)
    }

    fn embedded_in(dir: TempDir, options: EmbeddedOptions) -> Self {
        let path = dir.path().to_owned();
        let open = move || -> Arc<dyn LocalStore> {
            Arc::new(EmbeddedStore::open(&path, options.clone()).unwrap())
        };
        Self { store: open(), reopen: Some(Box::new(open)), _dir: Some(dir) }
    }

    /// Closes the store and opens it again; does nothing to a store that is not durable.
    fn reopen(&mut self) {
        if let Some(open) = &mut self.reopen {
            self.store.close().unwrap();
            self.store = open();
        }
    }

    fn put(&self, p: PartitionId, k: &[u8], v: &[u8]) {
        self.write(vec![put(p, k, v)]);
    }

    fn write(&self, ops: Vec<Op>) {
        self.store.write(WriteBatch { ops }, Durability::Synced).unwrap();
    }

    fn get(&self, p: PartitionId, k: &[u8]) -> Option<Vec<u8>> {
        get(&*self.store.view(), p, k)
    }

    fn keys(&self, p: PartitionId) -> Vec<Vec<u8>> {
        rows(&*self.store.view(), p, KeyRange::ALL, Dir::Fwd).into_iter().map(|(k, _)| k).collect()
    }
}

fn put(p: PartitionId, k: &[u8], v: &[u8]) -> Op {
    Op::Put { p, k: Bytes::copy_from_slice(k), v: Bytes::copy_from_slice(v) }
}

fn del(p: PartitionId, k: &[u8]) -> Op {
    Op::Del { p, k: Bytes::copy_from_slice(k) }
}

fn get(view: &dyn View, p: PartitionId, k: &[u8]) -> Option<Vec<u8>> {
    view.get(p, k).unwrap().map(|v| v.to_vec())
}

type Row = (Vec<u8>, Vec<u8>);

fn drain(cursor: &mut dyn Cursor) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Some((k, v)) = cursor.next().unwrap() {
        let row = (k.to_vec(), v.to_vec());
        assert_eq!(cursor.row(), Some((row.0.as_slice(), row.1.as_slice())));
        rows.push(row);
    }
    rows
}

fn rows(view: &dyn View, p: PartitionId, range: KeyRange<'_>, dir: Dir) -> Vec<Row> {
    drain(&mut *view.scan(p, range, dir).unwrap())
}

macro_rules! contract {
    ($($fact:ident)*) => {
        mod memory { $(#[test] fn $fact() { super::$fact(super::Subject::memory()); })* }
        mod faulty { $(#[test] fn $fact() { super::$fact(super::Subject::faulty()); })* }
        mod embedded { $(#[test] fn $fact() { super::$fact(super::Subject::embedded()); })* }
        mod embedded_one_tree {
            $(#[test] fn $fact() { super::$fact(super::Subject::embedded_one_tree()); })*
        }
        mod embedded_tiny { $(#[test] fn $fact() { super::$fact(super::Subject::embedded_tiny()); })* }
    };
}

contract! {
    a_new_store_is_empty
    what_is_written_is_read_back
    a_later_op_on_a_key_wins_within_a_batch
    a_batch_spans_partitions
    a_batch_with_an_oversized_op_changes_nothing
    deleting_an_absent_key_is_fine
    the_reserved_partition_holds_nothing
    scans_honour_every_kind_of_bound
    a_range_that_holds_nothing_is_empty
    a_scan_never_leaves_its_partition
    seek_continues_within_the_range
    views_do_not_see_later_writes
    views_outlive_retirement_and_close
    retired_partitions_are_gone_for_good
    reclaim_finishes_and_spares_the_living
    keys_order_as_bytes
    large_and_empty_keys_and_values_come_back_whole
    everything_survives_reopening
    a_closed_store_takes_nothing
    sizes_follow_what_is_stored
}

fn a_new_store_is_empty(s: Subject) {
    assert_eq!(s.get(P, b"a"), None);
    assert_eq!(s.keys(P), Vec::<Vec<u8>>::new());
    assert!(s.store.health().writable);
    assert_eq!(s.store.reclaim(LONG).unwrap().partitions_left, 0);
}

fn what_is_written_is_read_back(mut s: Subject) {
    s.put(P, b"a", b"1");
    s.put(P, b"a", b"2");
    s.store.write(WriteBatch { ops: vec![put(P, b"b", b"3")] }, Durability::Buffered).unwrap();
    s.store.write(WriteBatch::default(), Durability::Synced).unwrap();
    for _ in 0..2 {
        assert_eq!(s.get(P, b"a"), Some(b"2".to_vec()));
        assert_eq!(s.get(P, b"b"), Some(b"3".to_vec()));
        assert_eq!(s.get(P, b"c"), None);
        s.reopen();
    }
}

fn a_later_op_on_a_key_wins_within_a_batch(mut s: Subject) {
    s.put(P, b"kept", b"old");
    s.write(vec![
        put(P, b"twice", b"first"),
        put(P, b"twice", b"second"),
        put(P, b"gone", b"x"),
        del(P, b"gone"),
        del(P, b"kept"),
        put(P, b"kept", b"new"),
    ]);
    for _ in 0..2 {
        let found = rows(&*s.store.view(), P, KeyRange::ALL, Dir::Fwd);
        let expected =
            [(b"kept".to_vec(), b"new".to_vec()), (b"twice".to_vec(), b"second".to_vec())];
        assert_eq!(found, expected);
        assert_eq!(s.get(P, b"gone"), None);
        s.reopen();
    }
}

fn a_batch_spans_partitions(mut s: Subject) {
    let partitions =
        [PartitionId::CATALOG, PartitionId(1), PartitionId(255), PartitionId(u32::MAX - 1)];
    s.write(partitions.iter().map(|p| put(*p, b"k", &p.0.to_be_bytes())).collect());
    for _ in 0..2 {
        for p in partitions {
            assert_eq!(s.get(p, b"k"), Some(p.0.to_be_bytes().to_vec()));
            assert_eq!(s.keys(p), [b"k"]);
        }
        s.reopen();
    }
}

fn a_batch_with_an_oversized_op_changes_nothing(s: Subject) {
    let long = vec![1; KEY_BYTES_MAX + 1];
    let batch = WriteBatch { ops: vec![put(P, b"a", b"1"), put(P, &long, b"2")] };
    let refused = s.store.write(batch, Durability::Synced);
    assert!(matches!(refused, Err(StoreError::TooLarge)), "{refused:?}");
    assert_eq!(s.keys(P), Vec::<Vec<u8>>::new());
    s.put(P, &long[1..], b"3");
    assert_eq!(s.keys(P), [&long[1..]]);
}

fn deleting_an_absent_key_is_fine(s: Subject) {
    s.write(vec![del(P, b"never")]);
    assert_eq!(s.keys(P), Vec::<Vec<u8>>::new());
}

fn the_reserved_partition_holds_nothing(s: Subject) {
    let reserved = crate::PARTITION_RESERVED;
    s.write(vec![put(reserved, b"v", b"1"), put(P, b"a", b"1")]);
    s.store.retire(reserved).unwrap();
    s.store.retire(PartitionId(reserved.0 - 1)).unwrap();
    s.store.reclaim(LONG).unwrap();
    assert_eq!(s.get(reserved, b"v"), None);
    assert_eq!(s.keys(reserved), Vec::<Vec<u8>>::new());
    assert_eq!(s.keys(P), [b"a"]);
}

fn scans_honour_every_kind_of_bound(s: Subject) {
    let keys: [&[u8]; 5] = [b"b", b"d", b"f", b"h", b"j"];
    s.write(keys.iter().map(|k| put(P, k, k)).collect());
    let ends: [&[u8]; 7] = [b"a", b"b", b"c", b"f", b"i", b"j", b"k"];
    let kinds = |k| [Bound::Included(k), Bound::Excluded(k), Bound::Unbounded];
    let view = s.store.view();
    for lo in ends.iter().flat_map(|k| kinds(*k)) {
        for hi in ends.iter().flat_map(|k| kinds(*k)) {
            let above = |k: &[u8]| match lo {
                Bound::Included(lo) => k >= lo,
                Bound::Excluded(lo) => k > lo,
                Bound::Unbounded => true,
            };
            let below = |k: &[u8]| match hi {
                Bound::Included(hi) => k <= hi,
                Bound::Excluded(hi) => k < hi,
                Bound::Unbounded => true,
            };
            let mut expected: Vec<Row> = Vec::new();
            expected.extend(
                keys.iter().filter(|k| above(k) && below(k)).map(|k| (k.to_vec(), k.to_vec())),
            );
            let range = KeyRange { lo, hi };
            assert_eq!(rows(&*view, P, range, Dir::Fwd), expected, "forward {range:?}");
            expected.reverse();
            assert_eq!(rows(&*view, P, range, Dir::Rev), expected, "backward {range:?}");
        }
    }
}

fn a_range_that_holds_nothing_is_empty(s: Subject) {
    s.put(P, b"m", b"1");
    let view = s.store.view();
    for range in [
        KeyRange::half_open(b"z", b"a"),
        KeyRange::half_open(b"m", b"m"),
        KeyRange { lo: Bound::Excluded(b"m"), hi: Bound::Excluded(b"m") },
        KeyRange { lo: Bound::Excluded(b"m"), hi: Bound::Included(b"m") },
    ] {
        for dir in [Dir::Fwd, Dir::Rev] {
            assert_eq!(rows(&*view, P, range, dir), []);
            let mut cursor = view.scan(P, range, dir).unwrap();
            cursor.seek(b"m").unwrap();
            assert_eq!(drain(&mut *cursor), []);
        }
    }
}

fn a_scan_never_leaves_its_partition(s: Subject) {
    let around = [PartitionId(P.0 - 1), P, PartitionId(P.0 + 1)];
    s.write(
        around
            .iter()
            .flat_map(|p| [put(*p, &[], b"first"), put(*p, &[0xFF; 9], b"last")])
            .collect(),
    );
    let view = s.store.view();
    for dir in [Dir::Fwd, Dir::Rev] {
        assert_eq!(rows(&*view, P, KeyRange::ALL, dir).len(), 2);
        let mut cursor = view.scan(P, KeyRange::ALL, dir).unwrap();
        cursor.seek(if dir == Dir::Fwd { &[0xFF; 10] } else { &[] }).unwrap();
        assert_eq!(drain(&mut *cursor).len(), usize::from(dir == Dir::Rev));
    }
}

fn seek_continues_within_the_range(s: Subject) {
    let keys: Vec<[u8; 1]> = (b'a'..=b'p').map(|k| [k]).collect();
    s.write(keys.iter().map(|k| put(P, k, k)).collect());
    let view = s.store.view();
    let range = KeyRange { lo: Bound::Excluded(b"c"), hi: Bound::Included(b"m") };
    let check = |dir, target: &[u8], first: Option<&[u8]>, count: usize| {
        let mut cursor = view.scan(P, range, dir).unwrap();
        cursor.next().unwrap();
        cursor.seek(target).unwrap();
        let found = drain(&mut *cursor);
        assert_eq!(found.first().map(|(k, _)| k.as_slice()), first, "{dir:?} {target:?}");
        assert_eq!(found.len(), count, "{dir:?} {target:?}");
    };
    check(Dir::Fwd, b"f", Some(b"f"), 8);
    check(Dir::Fwd, b"f0", Some(b"g"), 7);
    check(Dir::Fwd, b"a", Some(b"d"), 10);
    check(Dir::Fwd, b"c", Some(b"d"), 10);
    check(Dir::Fwd, b"z", None, 0);
    check(Dir::Rev, b"f", Some(b"f"), 3);
    check(Dir::Rev, b"f0", Some(b"f"), 3);
    check(Dir::Rev, b"z", Some(b"m"), 10);
    check(Dir::Rev, b"c", None, 0);
}

fn views_do_not_see_later_writes(s: Subject) {
    s.put(P, b"a", b"1");
    let before = s.store.view();
    let mut cursor = before.scan(P, KeyRange::ALL, Dir::Fwd).unwrap();
    for round in 0..50_u8 {
        s.write(vec![put(P, b"a", &[round]), put(P, &[b'b', round], &[round; 100])]);
    }
    s.write(vec![del(P, b"a")]);
    assert_eq!(get(&*before, P, b"a"), Some(b"1".to_vec()));
    assert_eq!(drain(&mut *cursor), [(b"a".to_vec(), b"1".to_vec())]);
    cursor.seek(b"a").unwrap();
    assert_eq!(drain(&mut *cursor).len(), 1);
    assert_eq!(s.keys(P).len(), 50);
}

fn views_outlive_retirement_and_close(s: Subject) {
    for i in 0..100_u8 {
        s.put(P, &[i], &[i; 100]);
    }
    let before = s.store.view();
    s.store.retire(P).unwrap();
    assert_eq!(s.store.reclaim(LONG).unwrap().partitions_left, 0);
    assert_eq!(rows(&*before, P, KeyRange::ALL, Dir::Rev).len(), 100);
    s.store.close().unwrap();
    assert_eq!(rows(&*before, P, KeyRange::ALL, Dir::Fwd).len(), 100);
    assert_eq!(get(&*before, P, &[9]), Some(vec![9; 100]));
}

fn retired_partitions_are_gone_for_good(mut s: Subject) {
    let next = PartitionId(P.0 + 1);
    s.write(vec![put(P, b"a", b"1"), put(next, b"a", b"2")]);
    s.store.retire(P).unwrap();
    s.store.retire(P).unwrap();
    let gone = |s: &Subject| {
        assert_eq!(s.get(P, b"a"), None);
        assert_eq!(s.keys(P), Vec::<Vec<u8>>::new());
        assert_eq!(s.store.approximate_bytes(P).unwrap(), 0);
        assert_eq!(s.get(next, b"a"), Some(b"2".to_vec()));
    };
    gone(&s);
    if s.reopen.is_some() {
        s.reopen();
        gone(&s);
    }
    s.write(vec![put(P, b"a", b"late"), put(next, b"b", b"3")]);
    gone(&s);
    assert_eq!(s.get(next, b"b"), Some(b"3".to_vec()));
    s.store.reclaim(LONG).unwrap();
    gone(&s);
    if s.reopen.is_some() {
        s.reopen();
        gone(&s);
    }
}

fn reclaim_finishes_and_spares_the_living(mut s: Subject) {
    let partitions: Vec<_> = (1..=12).map(PartitionId).collect();
    for p in &partitions {
        s.write((0..300_u16).map(|i| put(*p, &i.to_be_bytes(), &[1; 20])).collect());
    }
    let is_kept = |p: &PartitionId| p.0.is_multiple_of(4);
    for p in partitions.iter().filter(|p| !is_kept(p)) {
        s.store.retire(*p).unwrap();
    }
    let mut rounds = 0;
    while s.store.reclaim(Duration::ZERO).unwrap().partitions_left > 0 {
        rounds += 1;
        assert!(rounds < 100, "reclaiming makes no progress");
    }
    for _ in 0..2 {
        for p in &partitions {
            assert_eq!(s.keys(*p).len(), if is_kept(p) { 300 } else { 0 }, "partition {p}");
        }
        s.reopen();
    }
    assert_eq!(s.store.reclaim(LONG).unwrap(), crate::ReclaimProgress::default());
}

fn keys_order_as_bytes(mut s: Subject) {
    let mut keys: Vec<Vec<u8>> = vec![
        vec![],
        vec![0],
        vec![0, 0],
        vec![0, 0xFF],
        vec![1],
        vec![0x7F, 0xFF],
        vec![0x80],
        vec![0xFF],
        vec![0xFF, 0],
        vec![0xFF, 0xFF],
        vec![0xFF; 40],
    ];
    s.write(keys.iter().rev().map(|k| put(P, k, k)).collect());
    keys.sort();
    for _ in 0..2 {
        assert_eq!(s.keys(P), keys);
        for k in &keys {
            assert_eq!(s.get(P, k).as_ref(), Some(k));
        }
        s.reopen();
    }
}

fn large_and_empty_keys_and_values_come_back_whole(mut s: Subject) {
    let pattern = |len: usize| (0..=250_u8).cycle().take(len).collect::<Vec<u8>>();
    let samples = [
        (pattern(2_400), pattern(2 << 20)),
        (pattern(KEY_BYTES_MAX), vec![]),
        (vec![], vec![]),
        (vec![0], pattern(1)),
    ];
    for (k, v) in &samples {
        s.put(P, k, v);
    }
    for _ in 0..2 {
        for (k, v) in &samples {
            assert!(s.get(P, k).as_ref() == Some(v), "key of {} bytes", k.len());
        }
        assert_eq!(s.keys(P).len(), samples.len());
        s.reopen();
    }
}

fn everything_survives_reopening(mut s: Subject) {
    for i in 0..500_u16 {
        let ops = vec![put(P, &i.to_be_bytes(), &[3; 50]), del(P, &(i / 2).to_be_bytes())];
        s.write(ops);
        if i % 100 == 99 {
            s.reopen();
        }
    }
    // The put of key 0 comes before its removal in the same batch; key i/2 is removed later.
    let expected: Vec<_> = (250..500_u16).map(|i| i.to_be_bytes().to_vec()).collect();
    assert_eq!(s.keys(P), expected);
}

fn a_closed_store_takes_nothing(s: Subject) {
    s.put(P, b"a", b"1");
    s.store.close().unwrap();
    s.store.close().unwrap();
    assert!(s.store.write(WriteBatch::default(), Durability::Synced).is_err());
    assert!(s.store.retire(P).is_err());
    assert!(s.store.reclaim(LONG).is_err());
    assert!(!s.store.health().writable);
}

fn sizes_follow_what_is_stored(s: Subject) {
    assert_eq!(s.store.approximate_bytes(P).unwrap(), 0);
    s.write((0..100_u16).map(|i| put(P, &i.to_be_bytes(), &[1; 98])).collect());
    assert_eq!(s.store.approximate_bytes(P).unwrap(), 100 * 100);
    assert_eq!(s.store.approximate_bytes(PartitionId(P.0 + 1)).unwrap(), 0);
}
