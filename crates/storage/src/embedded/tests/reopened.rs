//! A store that is reopened inside the process after a write has failed.

use std::path::Path;
use std::sync::atomic::AtomicU64;

use crate::{DiskSpace, FileSystem, Room};

use super::*;

fn fail(store: &EmbeddedStore) {
    store.refuse(fjall::Error::Poisoned);
    let refused = store.write(WriteBatch::default(), Durability::Synced);
    assert!(matches!(refused, Err(StoreError::Poisoned(_))), "{refused:?}");
    let health = store.health();
    assert!(!health.writable && health.reason.is_some());
}

fn value(store: &EmbeddedStore, k: &str) -> Option<Bytes> {
    store.view().get(P, k.as_bytes()).unwrap()
}

#[test]
fn what_was_written_is_there_and_writes_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 1 << 20);
    write(&store, vec![put(P, "a", "1")]);
    flush(&store);
    write(&store, vec![put(P, "b", "2"), put(P, [LOOKED_UP_KEYS.start, 1], "item")]);
    store.retire(PartitionId(9)).unwrap();
    for round in 0..3 {
        fail(&store);
        assert!(value(&store, "a").is_some(), "reads go on after a failed write");
        store.reopen().unwrap();
        assert!(store.health().writable && store.health().reason.is_none());
        assert_eq!(value(&store, "a").as_deref(), Some(&b"1"[..]));
        assert_eq!(value(&store, "b").as_deref(), Some(&b"2"[..]));
        let item = store.view().get(P, &[LOOKED_UP_KEYS.start, 1]).unwrap();
        assert_eq!(item.as_deref(), Some(&b"item"[..]));
        write(&store, vec![put(P, "c", [round]), put(PartitionId(9), "gone", "1")]);
        assert_eq!(store.view().get(PartitionId(9), b"gone").unwrap(), None);
    }
    store.close().unwrap();
    assert!(store.reopen().is_err(), "a closed store stays closed");
    drop(store);
    assert_eq!(value(&open(&dir, 1 << 20), "c").as_deref(), Some(&[2][..]));
}

#[test]
fn readers_wait_for_it_and_it_waits_for_readers() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 1 << 20);
    write(&store, vec![put(P, "a", "1")]);
    fail(&store);
    let held = store.view();
    let is_open = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            store.reopen().unwrap();
            is_open.store(true, Ordering::SeqCst);
        });
        wait_until("it was never closed", || store.db.load().is_none());
        let reader = scope.spawn(|| store.view().get(P, b"a"));
        assert_eq!(held.get(P, b"a").unwrap().as_deref(), Some(&b"1"[..]));
        assert!(!is_open.load(Ordering::SeqCst), "two engines are at work");
        drop(held);
        // A busy machine may take longer than readers wait.
        if let Ok(read) = reader.join().unwrap() {
            assert_eq!(read.as_deref(), Some(&b"1"[..]));
        }
    });
    assert!(is_open.load(Ordering::SeqCst));
}

/// A reader shares its thread with other requests.
#[test]
fn readers_do_not_wait_as_long_as_somebody_keeps_it_from_being_opened() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 1 << 20);
    write(&store, vec![put(P, "a", "1")]);
    fail(&store);
    let held = store.view();
    thread::scope(|scope| {
        let reopened = scope.spawn(|| store.reopen());
        wait_until("it was never closed", || store.shared.published.load().seqno().is_none());
        assert!(store.view().get(P, b"a").is_err());
        assert!(!reopened.is_finished(), "a reopened store waits for readers that hold a view");
        assert!(matches!(reopened.join().unwrap(), Err(StoreError::Locked)));
    });
    assert!(store.view().get(P, b"a").is_err(), "and none waits in between");
    assert_eq!(held.get(P, b"a").unwrap().as_deref(), Some(&b"1"[..]));
    drop(held);
    store.reopen().unwrap();
    assert_eq!(value(&store, "a").as_deref(), Some(&b"1"[..]));
}

#[test]
fn space_can_be_reclaimed_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 1 << 20);
    for p in 10..200 {
        fill(&store, PartitionId(p), 20, 100);
        store.retire(PartitionId(p)).unwrap();
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                // Fails while writes are refused.
                let _ = store.reclaim(Duration::ZERO);
            }
        });
        for _ in 0..5 {
            fail(&store);
            store.reopen().unwrap();
            write(&store, vec![put(P, "a", "1")]);
        }
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(store.reclaim(LONG).unwrap().partitions_left, 0);
}

#[test]
fn one_that_failed_can_be_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 1 << 20);
    write(&store, vec![put(P, "a", "1")]);
    fail(&store);
    let current = dir.path().join("kv").join("keyspaces").join("1").join("current");
    let aside = dir.path().join("aside");
    std::fs::rename(&current, &aside).unwrap();
    assert!(matches!(store.reopen(), Err(StoreError::Corrupt(_))));
    assert!(!store.health().writable);
    assert!(store.view().get(P, b"a").is_err());
    let second = EmbeddedStore::open(dir.path(), EmbeddedOptions::default());
    assert!(matches!(second.err(), Some(StoreError::Locked)));
    std::fs::rename(&aside, &current).unwrap();
    store.reopen().unwrap();
    assert_eq!(value(&store, "a").as_deref(), Some(&b"1"[..]));
    write(&store, vec![put(P, "b", "2")]);
}

#[derive(Debug)]
struct Free(AtomicU64);

impl DiskSpace for Free {
    fn of(&self, _: &Path) -> Option<FileSystem> {
        let free_bytes = self.0.load(Ordering::SeqCst);
        Some(FileSystem { free_bytes, total_bytes: 1 << 40 })
    }
}

/// What a failed sync has left only in memory must be written again to reach the disk.
#[test]
fn journals_are_written_again_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, 1 << 20);
    write(&store, vec![put(P, "a", "1"), put(P, "b", vec![7; 200_000])]);
    drop(store);
    let kv = dir.path().join("kv");
    let [old, first, second] = ["7.jnl", "8.jnl", "9.jnl"].map(|name| kv.join(name));
    std::fs::rename(kv.join("0.jnl"), &second).unwrap();
    std::fs::copy(&second, &first).unwrap();
    std::fs::copy(&second, &old).unwrap();
    let content = std::fs::read(&second).unwrap();
    let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let all = [&old, &first, &second];
    for path in all {
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(long_ago).unwrap();
    }
    journal::write_again(&kv).unwrap();
    let is_written =
        all.map(|path| std::fs::metadata(path).unwrap().modified().unwrap() != long_ago);
    assert_eq!(is_written, [false, true, true]);
    assert!(all.iter().all(|path| std::fs::read(path).unwrap() == content));
}

#[test]
fn it_says_how_much_room_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let space = Arc::new(Free(AtomicU64::new(1 << 30)));
    let options = EmbeddedOptions {
        space: Arc::<Free>::clone(&space),
        memtable_bytes: 8 << 20,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open(dir.path(), options).unwrap();
    for free_bytes in [1 << 30, 5] {
        space.0.store(free_bytes, Ordering::SeqCst);
        let room = Some(Room { free_bytes, floor_bytes: 80 << 20 });
        assert_eq!((store.room(), store.health().room), (room, room));
    }
}
