//! Dying at a sync, with and without losing what was not yet synced.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::testing::{Random, scale};
use crate::{EmbeddedOptions, EmbeddedStore, LocalStore};

use super::disk::{build_shim, check_left, open_left, watched};
use super::{ACKS_MAX, store_dir};

/// How a child ends when it dies at a sync; see `shim.c`.
const DIED: i32 = 77;

/// Runs a child that dies at its `nth` sync; returns whether it came that far.
fn dies_at(shim: &Path, role: &str, dir: &Path, nth: u64) -> bool {
    let mut command = watched(shim, role, dir, 1);
    let status = command.env("SHIM_EXIT", nth.to_string()).status().unwrap();
    assert!(status.success() || status.code() == Some(DIED), "{role} ended with {status}");
    !status.success()
}

#[test]
fn a_store_whose_making_was_cut_short_is_made_again() {
    let tools = tempfile::tempdir().unwrap();
    let shim = build_shim(tools.path());
    for (role, syncs_at_least) in [("open", 4), ("open-in-place", 20)] {
        let mut nth = 1;
        loop {
            let dir = tempfile::tempdir().unwrap();
            let died = dies_at(&shim, role, dir.path(), nth);
            let store = EmbeddedStore::open(&store_dir(dir.path()), EmbeddedOptions::default());
            assert!(store.unwrap().health().writable, "{role} died at sync {nth}");
            if !died {
                break;
            }
            // A short run tries only some syncs of a creation in place, which has many.
            nth += if scale() == 1 && role == "open-in-place" { 3 } else { 1 };
        }
        assert!(nth > syncs_at_least, "{role} makes only {nth} syncs");
    }
}

#[test]
fn dying_at_any_sync_loses_nothing_acknowledged() {
    let tools = tempfile::tempdir().unwrap();
    let shim = build_shim(tools.path());
    let mut random = Random::new(11);
    for round in 0..5 * scale() {
        let dir = tempfile::tempdir().unwrap();
        dies_at(&shim, "one-by-one", dir.path(), 20 + random.below(200));
        if round % 4 > 0 {
            lose_unsynced(dir.path(), &mut random);
        }
        check_left(dir.path());
    }
}

#[test]
fn losing_power_between_writes_loses_nothing_acknowledged() {
    let tools = tempfile::tempdir().unwrap();
    let shim = build_shim(tools.path());
    let mut random = Random::new(12);
    for _ in 0..3 * scale() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = watched(&shim, "one-by-one", dir.path(), 1);
        let status = command.env(ACKS_MAX, (1 + random.below(119)).to_string()).status().unwrap();
        assert!(!status.success());
        lose_unsynced(dir.path(), &mut random);
        check_left(dir.path());
    }
}

/// Once a write is synced, so is everything before it, in whatever journal it is.
#[test]
fn a_synced_write_vouches_for_earlier_ones_in_an_older_journal() {
    let tools = tempfile::tempdir().unwrap();
    let shim = build_shim(tools.path());
    let mut random = Random::new(13);
    for _ in 0..scale() {
        let dir = tempfile::tempdir().unwrap();
        let status = watched(&shim, "until-rotated", dir.path(), 1).status().unwrap();
        assert!(!status.success());
        let older = store_dir(dir.path()).join("kv").join("0.jnl");
        assert!(older.exists(), "the older journal is no longer needed");
        lose_unsynced(dir.path(), &mut random);
        let (_, count) = open_left(dir.path());
        assert!(count > 60, "only {count} documents fill a journal");
    }
}

/// Does to the files of a store what a power failure may: data written after a file's last sync is
/// there, or not, or in part.
fn lose_unsynced(dir: &Path, random: &mut Random) {
    let log = fs::read_to_string(dir.join("syncs")).unwrap();
    let mut synced_bytes = BTreeMap::new();
    for line in log.lines() {
        let mut fields = line.split(' ');
        if let (Some("D" | "F"), Some(inode), Some(bytes)) =
            (fields.next(), fields.next(), fields.next())
        {
            let (inode, bytes): (u64, u64) = (inode.parse().unwrap(), bytes.parse().unwrap());
            // Two threads may sync a file at the same time, and finish in any order.
            let known = synced_bytes.entry(inode).or_insert(bytes);
            *known = bytes.max(*known);
        }
    }
    tear_files(&store_dir(dir), &synced_bytes, random);
}

fn tear_files(dir: &Path, synced_bytes: &BTreeMap<u64, u64>, random: &mut Random) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tear_files(&path, synced_bytes, random);
            continue;
        }
        let meta = fs::metadata(&path).unwrap();
        let kept = synced_bytes.get(&meta.ino()).copied().unwrap_or(0).min(meta.len());
        tear_file(&path, kept, meta.len(), random);
    }
}

fn tear_file(path: &Path, kept: u64, len: u64, random: &mut Random) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    match random.below(4) {
        0 => {}
        1 => file.set_len(kept).unwrap(),
        2 => file.set_len(kept + random.below(len - kept + 1)).unwrap(),
        _ => {
            for at in (kept..len).step_by(512).filter(|_| random.chance(50)) {
                let block = usize::try_from((len - at).min(512)).unwrap();
                file.write_all_at(&vec![0; block], at).unwrap();
            }
        }
    }
}
