//! Which missing files are refused, and which are not.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use fjall::AbstractTree;
use model::PartitionId;
use tempfile::TempDir;

use crate::testing::Random;
use crate::{Durability, EmbeddedOptions, EmbeddedStore, LocalStore, Op, WriteBatch};

use super::*;

const P: PartitionId = PartitionId(3);
/// One key for each tree.
const KEYS: [u8; 2] = [0x10, 0x20];

fn open(dir: &Path) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(dir, EmbeddedOptions::default())
}

fn write(store: &EmbeddedStore, number: u8, value_bytes: usize, durability: Durability) {
    let put = |tag: u8| Op::Put {
        p: P,
        k: Bytes::copy_from_slice(&[tag, number]),
        v: Bytes::from(vec![number; value_bytes]),
    };
    store.write(WriteBatch { ops: KEYS.map(put).into() }, durability).unwrap();
}

fn holds(store: &EmbeddedStore, number: u8) -> bool {
    let [one, other] = KEYS.map(|tag| store.view().get(P, &[tag, number]).unwrap().is_some());
    assert_eq!(one, other, "half of write {number}");
    one
}

fn flush(store: &EmbeddedStore) {
    let trees = store.lock_writer().engine().unwrap().trees.clone();
    for tree in trees.each() {
        tree.rotate_memtable_and_wait().unwrap();
        while tree.tree.sealed_memtable_count() > 0 {
            thread::yield_now();
        }
    }
}

/// A store with tables and something in its journal.
fn filled() -> (TempDir, EmbeddedStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    write(&store, 1, 100, Durability::Synced);
    flush(&store);
    write(&store, 2, 100, Durability::Synced);
    (dir, store)
}

/// How a store ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Clean,
    /// The writes are there, but no manifest of the stop was written.
    Killed,
    /// As if it never had a manifest.
    WithoutManifest,
}

fn ended(end: End) -> TempDir {
    let (dir, store) = filled();
    match end {
        End::Clean => store.close().unwrap(),
        End::Killed | End::WithoutManifest => {}
    }
    drop(store);
    if let End::WithoutManifest = end {
        fs::remove_file(dir.path().join(FILE)).unwrap();
    }
    dir
}

/// Every file below `dir` with its length, except those that opening the store changes.
fn files(dir: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            } else {
                found.insert(entry.path(), entry.metadata().unwrap().len());
            }
        }
    }
    found
}

fn refusal(dir: &Path) -> String {
    match open(dir).err() {
        Some(StoreError::Corrupt(why)) => why,
        other => panic!("not refused as damaged: {other:?}"),
    }
}

fn newest_list(tree: &Path) -> PathBuf {
    tree.join(format!(
        "v{}",
        tree_files::versions(tree.parent().unwrap().parent().unwrap())
            .unwrap()
            .iter()
            .find(|(id, _)| tree.ends_with(id.to_string()))
            .unwrap()
            .1
    ))
}

#[test]
fn a_missing_file_is_named_and_nothing_is_touched() {
    for end in [End::Clean, End::Killed, End::WithoutManifest] {
        let whole = ended(end);
        let kv = whole.path().join("kv");
        let mut gone = vec![kv.join("0.jnl"), kv.join("version")];
        for tree in ["0", "1", "2"].map(|id| kv.join("keyspaces").join(id)) {
            gone.extend([tree.join("current"), newest_list(&tree)]);
            gone.extend(files(&tree.join("tables")).into_keys().take(1));
        }
        assert!(gone.len() > 9, "no tables: {gone:?}");
        for path in gone {
            let aside = whole.path().join("aside");
            fs::rename(&path, &aside).unwrap();
            let before = files(whole.path());
            let why = refusal(whole.path());
            assert!(why.contains(&path.display().to_string()), "{end:?} {path:?}: {why}");
            assert_eq!(files(whole.path()), before, "{end:?} {path:?}");
            fs::rename(&aside, &path).unwrap();
        }
        let store = open(whole.path()).unwrap();
        assert!(holds(&store, 1) && holds(&store, 2), "{end:?}");
    }
}

#[test]
fn a_missing_tree_is_missed() {
    for end in [End::Clean, End::Killed, End::WithoutManifest] {
        for tree in ["0", "1", "2"] {
            let dir = ended(end);
            let tree = dir.path().join("kv").join("keyspaces").join(tree);
            fs::remove_dir_all(&tree).unwrap();
            let why = refusal(dir.path());
            assert!(why.contains(&tree.display().to_string()), "{end:?}: {why}");
        }
    }
}

#[test]
fn a_store_that_is_gone_is_not_made_anew_beside_its_manifest() {
    let dir = ended(End::Clean);
    fs::remove_dir_all(dir.path().join("kv")).unwrap();
    assert!(refusal(dir.path()).contains(FILE));
    fs::remove_file(dir.path().join(FILE)).unwrap();
    assert!(!holds(&open(dir.path()).unwrap(), 1));
}

#[test]
fn a_tree_put_back_from_long_ago_is_refused() {
    let (dir, store) = filled();
    let tree = dir.path().join("kv").join("keyspaces").join("1");
    let old = ["current".into(), newest_list(&tree)]
        .map(|name: PathBuf| tree.join(name))
        .map(|path| (fs::read(&path).unwrap(), path));
    flush(&store);
    store.close().unwrap();
    drop(store);
    for (content, path) in old {
        fs::write(path, content).unwrap();
    }
    assert!(refusal(dir.path()).contains("current"));
}

#[test]
fn a_journal_cut_short_after_a_clean_stop_is_refused() {
    let dir = ended(End::Clean);
    let journal = dir.path().join("kv").join("0.jnl");
    let end = journal::written_end(&journal).unwrap();
    assert_eq!(end, journal::written_bytes(&journal).unwrap());
    for kept in [0, 50, end - 1] {
        fs::copy(&journal, dir.path().join("kept")).unwrap();
        OpenOptions::new().write(true).open(&journal).unwrap().set_len(kept).unwrap();
        let before = files(dir.path());
        let why = refusal(dir.path());
        assert!(why.contains("0.jnl") && why.contains(&end.to_string()), "{why}");
        assert_eq!(files(dir.path()), before);
        fs::copy(dir.path().join("kept"), &journal).unwrap();
    }
    let store = open(dir.path()).unwrap();
    assert!(holds(&store, 1) && holds(&store, 2));
}

#[test]
fn a_journal_shorter_than_the_tables_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let journal = dir.path().join("kv").join("0.jnl");
    write(&store, 1, 100, Durability::Synced);
    let end = journal::written_end(&journal).unwrap();
    write(&store, 2, 100, Durability::Synced);
    write(&store, 3, 100, Durability::Synced);
    flush(&store);
    drop(store);
    fs::remove_file(dir.path().join(FILE)).unwrap();
    OpenOptions::new().write(true).open(&journal).unwrap().set_len(end).unwrap();
    assert!(refusal(dir.path()).contains("cut short"));
}

fn noted(dir: &TempDir) -> Manifest {
    Manifest::load(dir.path()).unwrap().unwrap()
}

fn wait_until_noted(dir: &TempDir, what: &str, is_noted: impl Fn(&Manifest) -> bool) {
    for _ in 0..20_000 {
        if is_noted(&noted(dir)) {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{what} is not noted: {:?}", noted(dir));
}

/// A store that was killed soon after it had begun a second journal: the files have none of the
/// first journal's writes to keys that are scanned.
fn killed_with_two_journals() -> TempDir {
    let (dir, store) = filled();
    let second = dir.path().join("kv").join("1.jnl");
    let mut random = Random::new(8);
    let put = |tag: u8, v: Vec<u8>| Op::Put {
        p: P,
        k: Bytes::copy_from_slice(&[tag, 1]),
        v: Bytes::from(v),
    };
    let [looked_up, walked] = KEYS;
    while !second.exists() {
        // Compressible values would take forever.
        let ops = vec![put(looked_up, random.bytes(2 << 20)), put(walked, vec![1])];
        store.write(WriteBatch { ops }, Durability::Buffered).unwrap();
    }
    write(&store, 3, 100, Durability::Synced);
    let end = journal::written_end(&second).unwrap();
    wait_until_noted(&dir, "what was written", |manifest| {
        manifest.journals.last() == Some(&JournalEntry { id: 1, end })
    });
    assert!(noted(&dir).unflushed.iter().any(|note| note.journal == 0), "{:?}", noted(&dir));
    drop(store);
    dir
}

#[test]
fn journals_are_noted_while_the_store_is_open() {
    let dir = killed_with_two_journals();
    let kv = dir.path().join("kv");
    for name in ["0.jnl", "1.jnl"] {
        let (path, aside) = (kv.join(name), dir.path().join("aside"));
        fs::rename(&path, &aside).unwrap();
        let before = files(dir.path());
        assert!(refusal(dir.path()).contains(name), "{name} is missing");
        assert_eq!(files(dir.path()), before);
        fs::rename(&aside, &path).unwrap();

        // Emptied, cut in the middle, and cut between two batches.
        let end = journal::written_end(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        let between = whole.windows(4).position(|bytes| bytes == b"FJL\x03").unwrap() as u64 + 4;
        for kept in [0, end - 1, between] {
            fs::write(&path, &whole[..usize::try_from(kept).unwrap()]).unwrap();
            let why = refusal(dir.path());
            assert!(why.contains(name) && why.contains(&end.to_string()), "{name} {kept}: {why}");
        }
        fs::write(&path, &whole).unwrap();
    }
    let store = open(dir.path()).unwrap();
    assert!(holds(&store, 2) && holds(&store, 3));
}

/// Once a journal's writes are in tables, the engine deletes it, and what the manifest says of it
/// no longer matters.
#[test]
fn a_journal_that_went_by_itself_is_not_missed() {
    let dir = killed_with_two_journals();
    let manifest = fs::read(dir.path().join(FILE)).unwrap();
    let store = open(dir.path()).unwrap();
    flush(&store);
    let first = dir.path().join("kv").join("0.jnl");
    for _ in 0..20_000 {
        if !first.exists() {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!first.exists(), "it is kept");
    drop(store);
    // As if the process had ended before it recorded that.
    fs::write(dir.path().join(FILE), manifest).unwrap();
    let store = open(dir.path()).unwrap();
    assert!(holds(&store, 2) && holds(&store, 3));
}

#[test]
fn the_first_journal_can_not_be_empty_once_there_are_tables() {
    let dir = ended(End::WithoutManifest);
    fs::write(dir.path().join("kv").join("0.jnl"), b"").unwrap();
    assert!(refusal(dir.path()).contains("0.jnl was emptied"));
}

#[test]
fn what_was_written_last_is_noted_soon() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    write(&store, 1, 100, Durability::Synced);
    let journal = dir.path().join("kv").join("0.jnl");
    let end = journal::written_end(&journal).unwrap();
    wait_until_noted(&dir, "the first write", |manifest| manifest.journals[0].end == end);
    drop(store);
    fs::write(&journal, b"").unwrap();
    assert!(refusal(dir.path()).contains(&end.to_string()));
}

/// An older build knows nothing of the manifest.
#[test]
fn a_journal_that_is_missing_after_a_clean_stop_may_have_gone_in_an_older_build() {
    let dir = ended(End::Clean);
    fs::rename(dir.path().join("kv").join("0.jnl"), dir.path().join("kv").join("1.jnl")).unwrap();
    let why = refusal(dir.path());
    assert!(why.contains("an older version") && why.contains("store.manifest"), "{why}");
    fs::remove_file(dir.path().join(FILE)).unwrap();
    assert!(holds(&open(dir.path()).unwrap(), 2));
}

#[test]
fn a_store_without_a_manifest_gets_one() {
    let dir = ended(End::WithoutManifest);
    drop(open(dir.path()).unwrap());
    let manifest = Manifest::load(dir.path()).unwrap().unwrap();
    assert_eq!(manifest.trees.iter().map(|tree| tree.id).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(manifest.journals.len(), 1);
    assert!(!manifest.stopped && manifest.journals[0].end > 0);
}

/// As long as a view is held, the engine may still remove journals.
#[test]
fn a_stop_is_noted_only_when_nothing_is_read_any_more() {
    for has_reader in [false, true] {
        let (dir, store) = filled();
        let view = has_reader.then(|| store.view());
        store.close().unwrap();
        assert_eq!(Manifest::load(dir.path()).unwrap().unwrap().stopped, !has_reader);
        drop((view, store));
        assert!(holds(&open(dir.path()).unwrap(), 2));
    }
}

#[test]
fn a_manifest_that_was_being_written_is_of_no_matter() {
    for content in ["", "planisphere store man", "garbage"] {
        let dir = ended(End::Killed);
        fs::write(dir.path().join(NEW_FILE), content).unwrap();
        let store = open(dir.path()).unwrap();
        assert!(holds(&store, 1) && holds(&store, 2));
    }
}

/// The process may end between any two steps of creating a store.
#[test]
fn a_store_that_was_never_finished_is_begun_again() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    fs::write(dir.path().join("store.creating"), "").unwrap();
    drop(open(dir.path()).unwrap());
    fs::write(dir.path().join("store.creating"), "").unwrap();
    fs::remove_dir_all(dir.path().join("kv")).unwrap();
    drop(open(dir.path()).unwrap());
}

#[test]
fn a_manifest_is_read_as_it_was_written() {
    let manifest = Manifest {
        stopped: true,
        trees: vec![TreeEntry { id: 0, version: 7 }, TreeEntry { id: 2, version: u64::MAX }],
        journals: vec![JournalEntry { id: 9, end: 0 }, JournalEntry { id: 10, end: 12 }],
        unflushed: vec![UnflushedNote { journal: 9, tree: TreeEntry { id: 2, version: 8 } }],
    };
    let text = manifest.text();
    assert_eq!(Manifest::parse(&text), Some(manifest));
    for at in 0..text.len() {
        assert_eq!(Manifest::parse(&text[..at]), None, "cut at {at}");
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        assert_eq!(String::from_utf8(bytes).ok().and_then(|t| Manifest::parse(&t)), None, "{at}");
    }
    let dir = ended(End::Killed);
    fs::write(dir.path().join(FILE), &text[1..]).unwrap();
    assert!(refusal(dir.path()).contains(FILE));
}
