//! Disks that are full or fail to sync.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use model::PartitionId;

use crate::testing::{Random, scale};
use crate::{Durability, EmbeddedOptions, EmbeddedStore, LocalStore, WriteBatch};

use super::child::Acks;
use super::{child, child_after, documents, store_dir, tiny};

const P: PartitionId = PartitionId(1);

/// A library to preload that observes sync calls and makes them fail; see `shim.c`.
pub(super) fn build_shim(dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/crash_tests/shim.c");
    let library = dir.join("shim.so");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl");
    let output = compile.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

/// A child whose sync calls below its store directory are observed.
pub(super) fn watched(shim: &Path, role: &str, dir: &Path, seed: u64) -> Command {
    let mut command = child(role, dir, seed);
    fs::create_dir_all(store_dir(dir)).unwrap();
    command
        .env("LD_PRELOAD", shim)
        .env("SHIM_DIR", store_dir(dir).canonicalize().unwrap())
        .env("SHIM_LOG", dir.join("syncs"));
    command
}

/// Opens the store a child left and checks it; returns how many of the child's documents are there.
pub(super) fn open_left(dir: &Path) -> (EmbeddedStore, u64) {
    let store = EmbeddedStore::open(&store_dir(dir), EmbeddedOptions::default()).unwrap();
    let found = documents::check(&*store.view(), P);
    for (p, lsn, id) in Acks::read(dir) {
        assert_eq!((p, found.get(&lsn)), (P, Some(&id)), "lost write {lsn}");
    }
    (store, found.len() as u64)
}

/// The same, and checks that it accepts writes again.
pub(super) fn check_left(dir: &Path) -> u64 {
    let (store, count) = open_left(dir);
    let ops = documents::ops(P, count + 1, u64::MAX, 10);
    store.write(WriteBatch { ops }, Durability::Synced).unwrap();
    store.close().unwrap();
    drop(store);
    let store = EmbeddedStore::open(&store_dir(dir), EmbeddedOptions::default()).unwrap();
    assert_eq!(documents::check(&*store.view(), P).len() as u64, count + 1);
    count
}

/// Runs 50 writes and returns the order of journal syncs (`s`) and acknowledgements (`a`).
fn syncs_and_acks(role: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let shim = build_shim(dir.path());
    let mut command = watched(&shim, role, dir.path(), u64::from(P.0));
    assert!(command.status().unwrap().success());
    assert_eq!(check_left(dir.path()), 400);
    let log = fs::read_to_string(dir.path().join("syncs")).unwrap();
    let event = |line: &str| match line.split(' ').next() {
        Some("ack") => Some('a'),
        Some("D") if line.ends_with(".jnl") => Some('s'),
        _ => None,
    };
    log.lines().filter_map(event).collect()
}

#[test]
fn each_synced_write_is_one_sync_before_its_acknowledgement() {
    assert_eq!(syncs_and_acks("synced-groups"), "sa".repeat(50));
}

#[test]
fn a_buffered_write_is_synced_before_the_next_unless_relaxed() {
    assert_eq!(syncs_and_acks("buffered-groups"), format!("a{}", "sa".repeat(49)));
    assert_eq!(syncs_and_acks("relaxed-groups"), "a".repeat(50));
}

#[test]
fn a_failed_sync_fails_the_write_and_all_after_it() {
    for failing in (0..3 * scale()).map(|round| 2 + round * 37 % 150) {
        let dir = tempfile::tempdir().unwrap();
        let shim = build_shim(dir.path());
        let mut command = watched(&shim, "one-by-one", dir.path(), u64::from(P.0));
        command.env("SHIM_FAIL", failing.to_string());
        assert!(command.status().unwrap().success(), "sync {failing}");
        let failure = fs::read_to_string(dir.path().join("failure")).unwrap();
        assert!(failure.contains("Input/output error"), "{failure}");
        assert!(dir.path().join("refused").exists(), "sync {failing}");
        check_left(dir.path());
    }
}

#[test]
fn a_full_disk_fails_writes_and_costs_nothing_else() {
    let mut random = Random::new(5);
    let mut full = 0;
    for round in 0..4 * scale() {
        let dir = tempfile::tempdir().unwrap();
        // A limit on file sizes stands in for a small disk. New journals are created larger than
        // that, so the store is made without the limit.
        let options = if round % 2 == 0 { tiny() } else { EmbeddedOptions::default() };
        drop(EmbeddedStore::open(&store_dir(dir.path()), options).unwrap());
        let blocks = 16 + random.below(500);
        let setup = format!("trap '' XFSZ; ulimit -f {blocks}");
        let mut command = child_after(&setup, "one-by-one", dir.path(), u64::from(P.0));
        assert!(command.status().unwrap().success(), "{blocks} blocks");
        let failure = fs::read_to_string(dir.path().join("failure")).unwrap_or_default();
        full += u64::from(failure.contains("full"));
        check_left(dir.path());
    }
    assert!(full > 0, "the limit was never reached");
}
