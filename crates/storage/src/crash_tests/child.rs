//! The child processes.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use model::PartitionId;

use crate::testing::Random;
use crate::{Durability, EmbeddedOptions, EmbeddedStore, LocalStore, StoreError, WriteBatch};

use super::{ACKS_MAX, DIR, ROLE, SEED, acks_path, documents, store_dir, tiny, with_scratch};

const WRITERS: u64 = 16;
const GROUP_MAX: usize = 64;

/// Where children start. Run as an ordinary test it has no role.
#[test]
fn plays_its_part() {
    let Ok(role) = env::var(ROLE) else { return };
    let dir = PathBuf::from(env::var(DIR).unwrap());
    let seed = env::var(SEED).unwrap().parse().unwrap();
    match role.as_str() {
        "open" => open(&dir, with_scratch(&dir, EmbeddedOptions::default())),
        "open-in-place" => {
            open(&dir, EmbeddedOptions { scratch: None, ..EmbeddedOptions::default() });
        }
        "find-locked" => {
            let outcome = EmbeddedStore::open(&store_dir(&dir), EmbeddedOptions::default());
            assert!(matches!(outcome.err(), Some(StoreError::Locked)));
        }
        "group-commit" => group_commit(&dir, seed),
        "one-by-one" => one_by_one(&dir, seed),
        "synced-groups" => noted_groups(&dir, seed, Durability::Synced, false),
        "buffered-groups" => noted_groups(&dir, seed, Durability::Buffered, false),
        "relaxed-groups" => noted_groups(&dir, seed, Durability::Buffered, true),
        "until-rotated" => until_rotated(&dir, seed),
        other => panic!("unknown part {other}"),
    }
}

fn open(dir: &Path, options: EmbeddedOptions) {
    EmbeddedStore::open(&store_dir(dir), options).unwrap().close().unwrap();
}

/// What was acknowledged: fixed-width records of partition, position and id.
pub(super) struct Acks(File);

impl Acks {
    fn open(dir: &Path) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(acks_path(dir)).unwrap())
    }

    fn record(&mut self, acks: &[(PartitionId, u64, u64)]) {
        let mut bytes = Vec::new();
        for (p, lsn, id) in acks {
            bytes.extend_from_slice(&p.0.to_be_bytes());
            bytes.extend_from_slice(&lsn.to_be_bytes());
            bytes.extend_from_slice(&id.to_be_bytes());
        }
        self.0.write_all(&bytes).unwrap();
    }

    /// All whole records; a child may have died while writing one.
    pub(super) fn read(dir: &Path) -> Vec<(PartitionId, u64, u64)> {
        let bytes = fs::read(acks_path(dir)).unwrap_or_default();
        let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
        let record = |ack: &[u8]| {
            let p = u32::from_be_bytes(ack[..4].try_into().unwrap());
            (PartitionId(p), number(&ack[4..12]), number(&ack[12..]))
        };
        bytes.chunks_exact(20).map(record).collect()
    }
}

struct Request {
    id: u64,
    value_bytes: usize,
    done: Sender<()>,
}

/// Writers hand documents to one committer, which writes them in groups until it is killed. The
/// documents go to partition `seed`; around it, partitions come and go.
fn group_commit(dir: &Path, seed: u64) {
    let store = EmbeddedStore::open(&store_dir(dir), with_scratch(dir, tiny())).unwrap();
    let p = PartitionId(u32::try_from(seed).unwrap());
    let (requests, queue) = mpsc::channel();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let requests = requests.clone();
            scope.spawn(move || keep_writing(seed, writer, &requests));
        }
        scope.spawn(|| come_and_go(&store, seed));
        commit_groups(&store, p, &queue, &mut Acks::open(dir));
    });
}

fn keep_writing(seed: u64, writer: u64, requests: &Sender<Request>) {
    let mut random = Random::new(seed * WRITERS + writer);
    for serial in 0.. {
        let value_bytes = if random.chance(1) { 50_000 } else { random.index(1_500) };
        let (done, finished) = mpsc::channel();
        let id = (writer << 48) | serial;
        requests.send(Request { id, value_bytes, done }).unwrap();
        finished.recv().unwrap();
    }
}

fn commit_groups(
    store: &EmbeddedStore,
    p: PartitionId,
    queue: &Receiver<Request>,
    acks: &mut Acks,
) {
    let mut lsn = 0;
    while let Ok(first) = queue.recv() {
        let group: Vec<_> =
            std::iter::once(first).chain(queue.try_iter()).take(GROUP_MAX).collect();
        let mut ops = Vec::new();
        let mut acked = Vec::new();
        for request in &group {
            lsn += 1;
            ops.extend(documents::ops(p, lsn, request.id, request.value_bytes));
            acked.push((p, lsn, request.id));
        }
        store.write(WriteBatch { ops }, Durability::Synced).unwrap();
        acks.record(&acked);
        group.iter().for_each(|request| request.done.send(()).unwrap());
    }
}

/// The first id that [`come_and_go`] uses in the process with `seed`.
pub(super) fn passing_from(seed: u64) -> u32 {
    u32::try_from(seed * 10_000 + 1_000_000).unwrap()
}

/// Fills partitions, retires them and reclaims their space, for ever.
fn come_and_go(store: &EmbeddedStore, seed: u64) {
    for id in passing_from(seed).. {
        let p = PartitionId(id);
        let ops = (1..=40).flat_map(|lsn| documents::ops(p, lsn, lsn, 500)).collect();
        store.write(WriteBatch { ops }, Durability::Buffered).unwrap();
        if id % 3 > 0 {
            store.retire(p).unwrap();
        }
        store.reclaim(Duration::from_millis(u64::from(id % 3))).unwrap();
    }
}

/// Writes one document at a time, retiring and reclaiming now and then, until the first failure;
/// then checks that the store refuses everything and says why. Ends by itself.
fn one_by_one(dir: &Path, seed: u64) {
    let store = EmbeddedStore::open(&store_dir(dir), with_scratch(dir, tiny())).unwrap();
    let mut acks = Acks::open(dir);
    let p = PartitionId(u32::try_from(seed).unwrap());
    let acks_max = env::var(ACKS_MAX).ok().and_then(|text| text.parse().ok());
    let failure = (1..=120).find_map(|lsn| {
        let outcome = write_one(&store, p, lsn);
        if outcome.is_ok() {
            acks.record(&[(p, lsn, lsn)]);
        }
        if Some(lsn) == acks_max {
            process::abort();
        }
        outcome.err()
    });
    let Some(failure) = failure else {
        store.close().unwrap();
        return;
    };
    fs::write(dir.join("failure"), failure.to_string()).unwrap();
    assert!(!store.health().writable);
    let again = write_one(&store, p, 1_000);
    assert!(matches!(again, Err(StoreError::Poisoned(_))), "{again:?}");
    let retired = store.retire(p);
    assert!(matches!(retired, Err(StoreError::Poisoned(_))), "{retired:?}");
    documents::check(&*store.view(), p);
    fs::write(dir.join("refused"), "").unwrap();
}

fn write_one(store: &EmbeddedStore, p: PartitionId, lsn: u64) -> Result<(), StoreError> {
    let passing = PartitionId(passing_from(u64::from(p.0)) + u32::try_from(lsn / 20).unwrap());
    if lsn % 20 == 19 {
        store.retire(passing)?;
        store.reclaim(Duration::from_secs(1))?;
    } else if lsn % 20 < 5 {
        let ops = documents::ops(passing, 1, lsn, 3_000);
        store.write(WriteBatch { ops }, Durability::Buffered)?;
    }
    let ops = documents::ops(p, lsn, lsn, 700);
    store.write(WriteBatch { ops }, Durability::Synced)
}

/// Writes groups of documents and records each acknowledgement among the syncs of the log.
fn noted_groups(dir: &Path, seed: u64, durability: Durability, relaxed: bool) {
    let options = EmbeddedOptions { relaxed, ..with_scratch(dir, EmbeddedOptions::default()) };
    let store = EmbeddedStore::open(&store_dir(dir), options).unwrap();
    let p = PartitionId(u32::try_from(seed).unwrap());
    let mut log = OpenOptions::new().append(true).open(dir.join("syncs")).unwrap();
    for group in 0..50 {
        let lsns = group * 8 + 1..=group * 8 + 8;
        let ops = lsns.flat_map(|lsn| documents::ops(p, lsn, lsn, 900)).collect();
        store.write(WriteBatch { ops }, durability).unwrap();
        log.write_all(b"ack\n").unwrap();
    }
}

/// Writes large documents without a sync until a second journal is begun, then one with a sync,
/// which makes all before it durable too. Dies.
fn until_rotated(dir: &Path, seed: u64) {
    let options =
        EmbeddedOptions { relaxed: true, ..with_scratch(dir, EmbeddedOptions::default()) };
    let store = EmbeddedStore::open(&store_dir(dir), options).unwrap();
    let p = PartitionId(u32::try_from(seed).unwrap());
    let second = store_dir(dir).join("kv").join("1.jnl");
    let mut lsns = 1..200;
    let mut write = |durability| {
        let lsn = lsns.next().unwrap();
        let ops = documents::ops(p, lsn, lsn, 1 << 20);
        store.write(WriteBatch { ops }, durability).unwrap();
        lsn
    };
    while !second.exists() {
        write(Durability::Buffered);
    }
    let last = write(Durability::Synced);
    let all: Vec<_> = (1..=last).map(|lsn| (p, lsn, lsn)).collect();
    Acks::open(dir).record(&all);
    process::abort();
}
