//! What the embedded store promises beyond the common contract.

mod held_views;
mod reopened;

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use fjall::{Keyspace, KeyspaceCreateOptions, Readable};
use tempfile::TempDir;

use crate::testing::{LOOKED_UP_KEYS, scale};
use crate::{Dir, KeyRange};

use super::*;

const P: PartitionId = PartitionId(1);
const LONG: Duration = Duration::from_secs(60);
const FORMAT_KEY: [u8; 5] = [0xFF, 0xFF, 0xFF, 0xFF, b'v'];

fn open(dir: &TempDir, memtable_bytes: u64) -> EmbeddedStore {
    let options = EmbeddedOptions { memtable_bytes, ..EmbeddedOptions::default() };
    EmbeddedStore::open(dir.path(), options).unwrap()
}

/// Fills a directory with a new store in the first format.
pub(crate) fn make_one_tree(dir: &Path) {
    let db = Database::builder(dir.join(ENGINE_DIRECTORY)).open().unwrap();
    let data = db.keyspace("data", KeyspaceCreateOptions::default).unwrap();
    data.insert(FORMAT_KEY, 1_u32.to_be_bytes()).unwrap();
    db.persist(PersistMode::SyncAll).unwrap();
}

fn put(p: PartitionId, k: impl Into<Vec<u8>>, v: impl Into<Vec<u8>>) -> Op {
    Op::Put { p, k: Bytes::from(k.into()), v: Bytes::from(v.into()) }
}

fn write(store: &EmbeddedStore, ops: Vec<Op>) {
    store.write(WriteBatch { ops }, Durability::Synced).unwrap();
}

fn fill(store: &EmbeddedStore, p: PartitionId, rows: u32, value_bytes: usize) {
    let ops = (0..rows).map(|row| put(p, row.to_be_bytes(), vec![b'v'; value_bytes])).collect();
    write(store, ops);
}

/// Keys of a partition that are in the tree, hidden or not.
fn keys_in_tree(store: &EmbeddedStore, p: PartitionId) -> usize {
    let writer = store.lock_writer();
    let engine = writer.engine().unwrap();
    let snapshot = engine.db.snapshot();
    let keys = |tree| snapshot.prefix(tree, p.0.to_be_bytes()).count();
    engine.trees.each().map(keys).sum()
}

fn tables(store: &EmbeddedStore) -> usize {
    trees(store).each().map(|tree| tree.tree.table_count()).sum()
}

fn trees(store: &EmbeddedStore) -> Trees {
    store.lock_writer().engine().unwrap().trees.clone()
}

/// Waits until everything written is in tables.
fn flush(store: &EmbeddedStore) {
    for tree in trees(store).each() {
        tree.rotate_memtable_and_wait().unwrap();
        // The engine waits only for memtables that this call rotated. A worker may have rotated one
        // first.
        wait_until("memtables are not flushed", || tree.tree.sealed_memtable_count() == 0);
    }
}

fn merge_all(store: &EmbeddedStore) {
    for tree in trees(store).each() {
        tree.major_compact().unwrap();
    }
}

/// For work of the engine's threads that does not report its end.
fn wait_until(otherwise: &str, is_done: impl Fn() -> bool) {
    for _ in 0..30_000 {
        if is_done() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{otherwise}");
}

fn rows(view: &dyn View, p: PartitionId) -> usize {
    let mut cursor = view.scan(p, KeyRange::ALL, Dir::Fwd).unwrap();
    let mut rows = 0;
    while cursor.next().unwrap().is_some() {
        rows += 1;
    }
    rows
}

#[test]
fn a_second_open_is_refused_and_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 1 << 20);
    write(&store, vec![put(P, "a", "1")]);
    let second = EmbeddedStore::open(dir.path(), EmbeddedOptions::default());
    assert!(matches!(second.err(), Some(StoreError::Locked)));
    write(&store, vec![put(P, "b", "2")]);
    let view = store.view();
    store.close().unwrap();
    let while_viewed = EmbeddedStore::open(dir.path(), EmbeddedOptions::default());
    assert!(matches!(while_viewed.err(), Some(StoreError::Locked)));
    drop(view);
    let store = open(&dir, 1 << 20);
    assert_eq!(store.view().get(P, b"b").unwrap().as_deref(), Some(&b"2"[..]));
}

/// The engine alone does not guarantee this: flushes and compactions can make a batch visible while
/// it is still being applied.
#[test]
fn views_never_show_half_a_batch() {
    const KEYS: u8 = 40;
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 5_000);
    let done = AtomicBool::new(false);
    let key =
        |key: u8| if key.is_multiple_of(2) { vec![LOOKED_UP_KEYS.start, key] } else { vec![key] };
    let check = |view: &dyn View| {
        let first = view.get(P, &key(0)).unwrap();
        for number in 0..KEYS {
            assert_eq!(view.get(P, &key(number)).unwrap(), first, "key {number}");
        }
        let mut cursor = view.scan(P, KeyRange::ALL, Dir::Rev).unwrap();
        while let Some((k, v)) = cursor.next().unwrap() {
            assert_eq!(Some(v), first.as_deref(), "key {k:?}");
        }
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    check(&*store.view());
                }
            });
        }
        for round in 0..200 * u32::try_from(scale()).unwrap() {
            let value = round.to_be_bytes().repeat(8);
            write(&store, (0..KEYS).map(|number| put(P, key(number), value.clone())).collect());
            assert_eq!(store.view().get(P, &key(KEYS - 1)).unwrap().unwrap(), value);
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn items_are_copied_when_written_and_when_read() {
    const ITEMS: u8 = 200;
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 1 << 20);
    let key = |number: u8| vec![LOOKED_UP_KEYS.start, number];
    let copied = |store: &EmbeddedStore| {
        let seqno = store.shared.published.load().seqno().unwrap();
        let lookup_cache = trees(store).lookup_cache;
        let copy = |number: u8| lookup_cache.get(P, &key(number), seqno);
        (0..ITEMS).filter_map(copy).collect::<Vec<_>>()
    };
    let values: Vec<_> = (0..ITEMS).map(|number| Bytes::from(vec![number; 500])).collect();
    let item = |number: u8| put(P, key(number), values[usize::from(number)].clone());
    write(&store, (0..ITEMS).map(item).collect());
    wait_until("what was written is not copied", || copied(&store) == values);
    let health = store.health();
    assert!(health.lookup_cache_bytes > 100_000);
    assert!(health.disk_bytes > health.lookup_cache_bytes);
    store.close().unwrap();
    drop(store);
    let store = open(&dir, 1 << 20);
    assert!(copied(&store).is_empty());
    assert_eq!(store.health().lookup_cache_bytes, 0);
    let read = |number: u8| store.view().get(P, &key(number)).unwrap().unwrap();
    assert_eq!((0..ITEMS).map(read).collect::<Vec<_>>(), values);
    wait_until("what was read is not copied", || copied(&store) == values);
    assert_eq!((0..ITEMS).map(read).collect::<Vec<_>>(), values);
}

#[test]
fn the_lookup_cache_shrinks_with_the_items() {
    const MEGA: u64 = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 4 << 20);
    let key = |number: u32| [&[LOOKED_UP_KEYS.start][..], &number.to_be_bytes()].concat();
    let thousands = || (0..15).map(|thousand| thousand * 1_000..(thousand + 1) * 1_000);
    for numbers in thousands() {
        write(&store, numbers.map(|number| put(P, key(number), [7; 1_000])).collect());
    }
    let cached_bytes = || store.health().lookup_cache_bytes;
    wait_until("what was written is not copied", || cached_bytes() > 12 * MEGA);
    let remove = |number| Op::Del { p: P, k: Bytes::from(key(number)) };
    for numbers in thousands() {
        write(&store, numbers.map(remove).collect());
    }
    flush(&store);
    wait_until("copies of what was removed are left", || cached_bytes() <= 8 * MEGA);
}

#[test]
fn an_idle_store_lets_go_of_what_was_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 1 << 30);
    fill(&store, P, 1_000, 100);
    let viewed = store.view();
    flush(&store);
    let trees = trees(&store);
    let kept_bytes = || trees.each().map(|tree| tree.tree.version_memtable_size_sum()).sum::<u64>();
    assert!(kept_bytes() > 100_000, "what a view sees is gone");
    assert_eq!(rows(&*viewed, P), 1_000);
    drop(viewed);
    wait_until("flushed rows are still in memory", || kept_bytes() == 0);
    assert_eq!(rows(&*store.view(), P), 1_000);
}

#[test]
fn an_idle_store_lets_go_of_files_that_were_merged() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 1 << 30);
    for _ in 0..3 {
        fill(&store, P, 1_000, 100);
        flush(&store);
    }
    merge_all(&store);
    let trees = trees(&store);
    let files_of = |tree: &Keyspace| tree.path().join("tables").read_dir().unwrap().count();
    let files = || trees.each().map(files_of).sum::<usize>();
    wait_until("merged files are still there", || files() == tables(&store));
    assert_eq!(rows(&*store.view(), P), 1_000);
}

#[test]
fn whole_files_of_a_retired_partition_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 1 << 30);
    for p in 1..=3 {
        fill(&store, PartitionId(p), 2_000, 50);
        flush(&store);
    }
    let view = store.view();
    let before = tables(&store);
    store.retire(PartitionId(2)).unwrap();
    let progress = store.reclaim(LONG).unwrap();
    assert_eq!(progress, ReclaimProgress { keys_removed: 0, partitions_left: 0 });
    assert_eq!(tables(&store), before - 1);
    assert_eq!(keys_in_tree(&store, PartitionId(2)), 0);
    assert_eq!(store.approximate_bytes(PartitionId(3)).unwrap(), 2_000 * 54);
    assert!(view.get(PartitionId(2), &7_u32.to_be_bytes()).unwrap().is_some());
}

/// Dropping a file leaves the journal unchanged, so replaying it may bring rows back.
#[test]
fn rows_that_come_back_with_the_journal_stay_hidden_and_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 1 << 30);
    flush(&store);
    fill(&store, P, 500, 50);
    flush(&store);
    store.retire(P).unwrap();
    assert_eq!(store.reclaim(LONG).unwrap().partitions_left, 0);
    assert_eq!(keys_in_tree(&store, P), 0);
    store.close().unwrap();
    drop(store);

    let store = open(&dir, 1 << 30);
    assert_eq!(keys_in_tree(&store, P), 500, "the journal no longer brings them back");
    assert_eq!(store.view().get(P, &7_u32.to_be_bytes()).unwrap(), None);
    assert_eq!(store.reclaim(LONG).unwrap().partitions_left, 0);
    assert_eq!(keys_in_tree(&store, P), 0);
}

#[test]
fn hundreds_of_partitions_come_and_go_without_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 100_000);
    write(&store, vec![put(P, "kept", "1")]);
    let count = 60 * u32::try_from(scale()).unwrap();
    let pass = |ids: std::ops::Range<u32>| {
        for id in ids {
            let p = PartitionId(id);
            fill(&store, p, 20, 400);
            store.retire(p).unwrap();
            if id % 10 == 9 {
                assert_eq!(store.reclaim(LONG).unwrap().partitions_left, 0);
            }
        }
        // The engine releases unreferenced versions only up to the last rotation of a memtable, so
        // one more must be rotated.
        write(&store, vec![put(P, "kept", "1")]);
        flush(&store);
        merge_all(&store);
        store.health()
    };
    let first = pass(10..10 + count);
    let second = pass(10 + count..10 + 2 * count);
    let table_bytes = |health: &Health| health.disk_bytes - health.journal_bytes;
    assert!(table_bytes(&second) <= table_bytes(&first) + 20_000, "{first:?} {second:?}");
    let writer = store.lock_writer();
    let retired = &writer.engine().unwrap().retired;
    assert_eq!(retired.forgotten().runs().count(), 1);
    assert!(retired.pending().is_empty());
    drop(writer);
    assert_eq!(store.view().get(P, b"kept").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn what_is_walked_over_is_kept_apart() {
    let dir = tempfile::tempdir().unwrap();
    let keys: Vec<_> = (0..=u8::MAX).map(|tag| vec![tag, 1]).collect();
    let check = |store: &EmbeddedStore| {
        for key in &keys {
            assert!(store.view().get(P, key).unwrap().is_some(), "{key:?}");
        }
        assert_eq!(rows(&*store.view(), P), keys.len());
        let keys_of = |tree: &Keyspace| tree.prefix(P.0.to_be_bytes()).count();
        trees(store).each().map(keys_of).collect::<Vec<_>>()
    };
    let store = open(&dir, 1 << 20);
    write(&store, keys.iter().map(|key| put(P, key.clone(), "v")).collect());
    assert_eq!(check(&store), [250, 6]);
    store.close().unwrap();
    drop(store);
    assert_eq!(check(&open(&dir, 1 << 20)), [250, 6]);

    let dir = tempfile::tempdir().unwrap();
    make_one_tree(dir.path());
    let store = open(&dir, 1 << 20);
    write(&store, keys.iter().map(|key| put(P, key.clone(), "v")).collect());
    assert_eq!(check(&store), [256], "a directory of the first format goes on as it is");
    store.close().unwrap();
    drop(store);
    assert_eq!(check(&open(&dir, 1 << 20)), [256]);
}

#[test]
fn a_later_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 1 << 20);
    {
        let writer = store.lock_writer();
        let engine = writer.engine().unwrap();
        engine.trees.data.insert(FORMAT_KEY, 3_u32.to_be_bytes()).unwrap();
    }
    store.close().unwrap();
    drop(store);
    let refused = EmbeddedStore::open(dir.path(), EmbeddedOptions::default()).err().unwrap();
    assert!(matches!(refused, StoreError::Io(_)), "{refused:?}");
    assert!(refused.to_string().contains("format 3"), "{refused}");
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let refused = EmbeddedStore::open(&file.join("store"), EmbeddedOptions::default());
    assert!(matches!(refused.err(), Some(StoreError::Io(_))));
}

#[test]
fn a_directory_that_lost_its_engine_files_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    open(&dir, 1 << 20).close().unwrap();
    std::fs::remove_file(dir.path().join("kv").join("version")).unwrap();
    let refused = EmbeddedStore::open(dir.path(), EmbeddedOptions::default());
    assert!(matches!(refused.err(), Some(StoreError::Corrupt(_))));
}
