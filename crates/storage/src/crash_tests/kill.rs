//! Kills the process at any moment.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use model::PartitionId;
use tempfile::TempDir;

use crate::testing::{Random, scale};
use crate::{Durability, EmbeddedStore, LocalStore, View, WriteBatch};

use super::child::{Acks, passing_from};
use super::{acks_path, child, documents, store_dir, tiny};

/// Rounds after which a partition of documents is retired, to keep the store small.
const ROUNDS_KEPT: u64 = 3;

#[test]
fn whatever_was_acknowledged_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random::new(42);
    for round in 1..=4 * scale() {
        run_until_killed(&dir, round, &mut random);
        let store = EmbeddedStore::open(&store_dir(dir.path()), tiny()).unwrap();
        check_round(&store, dir.path(), round);
        if round > ROUNDS_KEPT {
            store.retire(partition(round - ROUNDS_KEPT)).unwrap();
        }
        store.close().unwrap();
    }
}

#[test]
fn another_process_finds_an_open_store_locked() {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(&store_dir(dir.path()), tiny()).unwrap();
    assert!(child("find-locked", dir.path(), 1).status().unwrap().success());
    let ops = documents::ops(partition(1), 1, 1, 100);
    store.write(WriteBatch { ops }, Durability::Synced).unwrap();
    store.close().unwrap();
    drop(store);
    assert!(child("open", dir.path(), 1).status().unwrap().success());
    let store = EmbeddedStore::open(&store_dir(dir.path()), tiny()).unwrap();
    assert_eq!(documents::check(&*store.view(), partition(1)).len(), 1);
}

fn partition(round: u64) -> PartitionId {
    PartitionId(u32::try_from(round).unwrap())
}

/// Lets the child acknowledge a random number of documents, then kills it.
fn run_until_killed(dir: &TempDir, round: u64, random: &mut Random) {
    let before = acks_bytes(dir.path());
    let wanted = before + 20 * random.below(400);
    let mut running = child("group-commit", dir.path(), round).spawn().unwrap();
    while acks_bytes(dir.path()) < wanted {
        assert_eq!(running.try_wait().unwrap(), None, "the child of round {round} gave up");
        thread::sleep(Duration::from_micros(500));
    }
    running.kill().unwrap();
    running.wait().unwrap();
}

fn acks_bytes(dir: &Path) -> u64 {
    fs::metadata(acks_path(dir)).map_or(0, |meta| meta.len())
}

fn check_round(store: &EmbeddedStore, dir: &Path, round: u64) {
    let view = store.view();
    let mut acked: BTreeMap<PartitionId, BTreeMap<u64, u64>> = BTreeMap::new();
    for (p, lsn, id) in Acks::read(dir) {
        acked.entry(p).or_default().insert(lsn, id);
    }
    for kept in round.saturating_sub(ROUNDS_KEPT - 1).max(1)..=round {
        let p = partition(kept);
        let found = documents::check(&*view, p);
        for (lsn, id) in acked.remove(&p).unwrap_or_default() {
            assert_eq!(found.get(&lsn), Some(&id), "round {round} lost write {lsn} of {p}");
        }
    }
    check_passing(store, &*view, round);
}

/// Partitions that were filled and retired are whole or gone, and stay gone while the rest is
/// reclaimed.
fn check_passing(store: &EmbeddedStore, view: &dyn View, round: u64) {
    let ids = passing_from(round)..passing_from(round) + 200;
    let count = |view: &dyn View, id| documents_in_passing(view, PartitionId(id));
    let before: Vec<_> = ids.clone().map(|id| count(view, id)).collect();
    for (id, documents) in ids.clone().zip(&before) {
        assert!([0, 40].contains(documents), "partition {id} has {documents} documents");
    }
    let progress = store.reclaim(Duration::from_secs(60)).unwrap();
    assert_eq!(progress.partitions_left, 0);
    let view = store.view();
    assert!(ids.clone().map(|id| count(&*view, id)).eq(before.iter().copied()));
    for (id, _) in ids.zip(before).filter(|(_, documents)| *documents > 0) {
        store.retire(PartitionId(id)).unwrap();
    }
    store.write(WriteBatch::default(), Durability::Synced).unwrap();
}

fn documents_in_passing(view: &dyn View, p: PartitionId) -> usize {
    documents::check(view, p).len()
}
