//! Damaged journals: which of them open again, which are refused, and which writes are lost.

use std::fs;

use bytes::Bytes;
use model::PartitionId;
use tempfile::TempDir;

use crate::testing::{Random, scale, warnings_of};
use crate::{
    Dir, Durability, EmbeddedOptions, EmbeddedStore, KeyRange, LocalStore, Op, View, WriteBatch,
};

use super::*;

const P: PartitionId = PartitionId(3);

type Row = (Vec<u8>, Vec<u8>);

fn open(dir: &Path) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(dir, EmbeddedOptions::default())
}

fn put((k, v): &Row) -> Op {
    Op::Put { p: P, k: Bytes::copy_from_slice(k), v: Bytes::copy_from_slice(v) }
}

/// A closed store, what was written to it, and where each batch ends in its journal.
struct Written {
    dir: TempDir,
    batches: Vec<Vec<Row>>,
    ends: Vec<usize>,
}

impl Written {
    fn new(batches: Vec<Vec<Row>>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).unwrap();
        let mut written = Self { dir, batches, ends: Vec::new() };
        for batch in &written.batches {
            let ops = batch.iter().map(put).collect();
            store.write(WriteBatch { ops }, Durability::Synced).unwrap();
            let end = journal::written_bytes(&written.journal(0)).unwrap();
            written.ends.push(usize::try_from(end).unwrap());
        }
        store.close().unwrap();
        written
    }

    /// A few small batches and a last one with values of up to `last_value_bytes`.
    fn random(random: &mut Random, last_value_bytes: usize) -> Self {
        let mut serial = 0;
        let mut batches = Vec::new();
        for value_bytes in [300, 20, 0, 300, last_value_bytes] {
            let rows = 1 + random.index(6);
            batches.push((0..rows).map(|_| random_row(random, &mut serial, value_bytes)).collect());
        }
        Self::new(batches)
    }

    fn journal(&self, id: u64) -> PathBuf {
        self.dir.path().join("kv").join(format!("{id}.jnl"))
    }

    fn read(&self) -> Vec<u8> {
        let bytes = fs::read(self.journal(0)).unwrap();
        assert_eq!(bytes.len(), *self.ends.last().unwrap());
        bytes
    }

    /// The journal with its first `count` batches only.
    fn read_up_to(&self, count: usize) -> Vec<u8> {
        let mut bytes = fs::read(self.journal(0)).unwrap();
        bytes.truncate(self.start(count));
        bytes
    }

    /// Where batch `n` begins, counting from zero.
    fn start(&self, n: usize) -> usize {
        self.ends[n - 1]
    }

    fn last(&self) -> usize {
        self.batches.len() - 1
    }

    fn open_with(&self, journal: &[u8]) -> Result<EmbeddedStore, StoreError> {
        self.put_journal(journal);
        open(self.dir.path())
    }

    /// A process that was killed before it had synced leaves no manifest.
    fn put_journal(&self, journal: &[u8]) {
        fs::write(self.journal(0), journal).unwrap();
        let _ = fs::remove_file(self.dir.path().join("store.manifest"));
    }

    /// How many batches a store holds: each whole or not at all, and none after a missing one.
    fn count_in(&self, store: &EmbeddedStore) -> usize {
        let view = store.view();
        let present: Vec<_> = self.batches.iter().map(|batch| is_present(&*view, batch)).collect();
        let count = present.iter().take_while(|present| **present).count();
        assert!(present[count..].iter().all(|present| !present), "a hole: {present:?}");
        let mut cursor = view.scan(P, KeyRange::ALL, Dir::Fwd).unwrap();
        let mut rows = 0;
        while cursor.next().unwrap().is_some() {
            rows += 1;
        }
        assert_eq!(rows, self.batches[..count].iter().map(Vec::len).sum::<usize>());
        count
    }

    fn kept_aside(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.to_string_lossy().contains("torn-journal")).collect()
    }
}

fn random_row(random: &mut Random, serial: &mut u64, value_bytes: usize) -> Row {
    *serial += 1;
    let bytes = random.index(value_bytes + 1);
    // Long runs of one byte make the engine compress the value in the journal.
    let value = if random.chance(30) { vec![b'x'; bytes] } else { random.bytes(bytes) };
    (serial.to_be_bytes().to_vec(), value)
}

fn is_present(view: &dyn View, batch: &[Row]) -> bool {
    let found = batch.iter().filter(|(k, v)| view.get(P, k).unwrap().is_some_and(|f| f == *v));
    match found.count() {
        0 => false,
        some => {
            assert_eq!(some, batch.len(), "a batch is there in part");
            true
        }
    }
}

fn refusal(outcome: Result<EmbeddedStore, StoreError>) -> String {
    match outcome {
        Err(StoreError::Corrupt(why)) => why,
        Err(other) => panic!("refused for another reason: {other}"),
        Ok(_) => panic!("opened"),
    }
}

#[test]
fn a_whole_journal_is_left_alone() {
    let written = Written::random(&mut Random::new(1), 10_000);
    let before = written.read();
    let store = open(written.dir.path()).unwrap();
    assert_eq!(written.count_in(&store), written.batches.len());
    store.close().unwrap();
    assert_eq!(written.read(), before);
    assert_eq!(written.kept_aside(), Vec::<PathBuf>::new());
}

#[test]
fn zeros_behind_the_last_batch_are_not_damage() {
    let written = Written::random(&mut Random::new(2), 1_000);
    let mut journal = written.read();
    journal.resize(journal.len() + 200_000, 0);
    let store = written.open_with(&journal).unwrap();
    assert_eq!(written.count_in(&store), written.batches.len());
    assert_eq!(written.kept_aside(), Vec::<PathBuf>::new());
}

/// Damages some part of `torn` as a power failure may: missing, stale or truncated blocks.
fn tear(random: &mut Random, torn: &mut Vec<u8>, from: usize) {
    let batch = &mut torn[from..];
    let block = [1, 16, 512, 4_096][random.index(4)].min(batch.len());
    let first = random.index(batch.len());
    let len = 1 + random.index(batch.len() - first);
    match random.below(5) {
        0 => batch[first..first + len].fill(0),
        1 => {
            let noise = random.bytes(len);
            batch[first..first + len].copy_from_slice(&noise);
        }
        2 => batch.chunks_mut(block).for_each(|chunk| {
            if random.chance(40) {
                chunk.fill(0);
            }
        }),
        // The sequence number stays intact: no part of a batch can be torn without the rest.
        3 if !(5..13).contains(&first) => batch[first] ^= 1 << random.below(8),
        _ => torn.truncate(from + first),
    }
    if random.chance(50) {
        torn.resize(torn.len() + 10_000, 0);
    }
}

#[test]
fn a_torn_last_batch_costs_at_most_itself() {
    let mut dropped = 0;
    let rounds = 20 * scale();
    for round in 0..rounds {
        let mut random = Random::new(round);
        let last_value_bytes = if round % 10 == 0 { 2 << 20 } else { 20_000 };
        let written = Written::random(&mut random, last_value_bytes);
        let mut journal = written.read();
        tear(&mut random, &mut journal, written.start(written.last()));
        let store = written.open_with(&journal).unwrap_or_else(|e| panic!("round {round}: {e}"));
        let count = written.count_in(&store);
        assert!(count >= written.last(), "round {round} lost a synced batch");
        dropped += usize::from(count == written.last());
        // The store must work as a new one does.
        let row = (b"after".to_vec(), b"repair".to_vec());
        store.write(WriteBatch { ops: vec![put(&row)] }, Durability::Synced).unwrap();
        store.close().unwrap();
        let again = open(written.dir.path()).unwrap();
        assert!(is_present(&*again.view(), &[row]), "round {round}");
    }
    assert!(dropped > 0 && dropped <= usize::try_from(rounds).unwrap(), "{dropped} dropped");
}

#[test]
fn what_was_cut_off_is_kept_aside() {
    let written = Written::new(vec![
        vec![(b"a".to_vec(), b"1".to_vec())],
        vec![(b"b".to_vec(), vec![7; 3_000])],
    ]);
    let mut journal = written.read();
    let start = written.start(1);
    journal[start + 1_000..start + 2_000].fill(0);
    let store = written.open_with(&journal).unwrap();
    assert_eq!(written.count_in(&store), 1);
    let kept = written.kept_aside();
    assert_eq!(kept.len(), 1);
    assert_eq!(fs::read(&kept[0]).unwrap(), journal[start..]);
}

#[test]
fn an_unfinished_last_batch_leaves_no_file_behind() {
    let written = Written::random(&mut Random::new(5), 5_000);
    let journal = written.read();
    let start = written.start(written.last());
    for len in [start + 1, start + 12, start + 40, journal.len() - 5, journal.len() - 1] {
        let store = written.open_with(&journal[..len]).unwrap();
        assert_eq!(written.count_in(&store), written.last());
    }
    assert_eq!(written.kept_aside(), Vec::<PathBuf>::new());
}

#[test]
fn what_is_dropped_is_told_with_its_place() {
    let written = Written::random(&mut Random::new(5), 5_000);
    let whole = written.read();
    let (start, end) = (written.start(written.last()), whole.len());
    let mut torn = whole.clone();
    torn[start + 20] ^= 1;
    let cases =
        [(&whole[..end - 5], "dropping an unfinished last write"), (&torn, "cutting off a torn")];
    for (journal, what) in cases {
        let said = warnings_of(|| drop(written.open_with(journal).unwrap()));
        let line = said.iter().find(|line| line.contains(what)).unwrap();
        let range = format!("from={start} to={} ", journal.len());
        assert!(line.contains(&range) && line.contains("0.jnl"), "{line}");
    }
}

#[test]
fn a_flipped_bit_before_the_last_batch_is_refused_or_harmless() {
    let mut refused = 0;
    let rounds = 60 * scale();
    let mut random = Random::new(77);
    let written = Written::random(&mut random, 3_000);
    let whole = written.read();
    for round in 0..rounds {
        let at = random.index(written.start(written.last()));
        let mut journal = whole.clone();
        journal[at] ^= 1 << random.below(8);
        match written.open_with(&journal) {
            Err(StoreError::Corrupt(why)) => {
                assert!(why.contains("not a torn last write"), "{why}");
                assert_eq!(written.read(), journal, "a refusal must not change the journal");
                refused += 1;
            }
            Err(other) => panic!("round {round}, byte {at}: {other}"),
            Ok(store) => {
                let count = written.count_in(&store);
                assert_eq!(count, written.batches.len(), "round {round}, byte {at}");
            }
        }
    }
    // Only the sequence number of the very first batch is unprotected.
    assert!(refused * 10 >= rounds * 9, "{refused} of {rounds}");
}

#[test]
fn a_damaged_sequence_number_does_not_cost_the_batch_behind() {
    let written = Written::random(&mut Random::new(14), 3_000);
    let whole = written.read();
    let seqno = written.start(written.last() - 1) + 5;
    for byte in seqno..seqno + 8 {
        for bit in 0..8 {
            let mut journal = whole.clone();
            journal[byte] ^= 1 << bit;
            refusal(written.open_with(&journal));
        }
    }
}

#[test]
fn two_damaged_batches_are_refused_even_at_the_end() {
    let written = Written::random(&mut Random::new(9), 3_000);
    let mut journal = written.read();
    let (before_last, last) = (written.start(written.last() - 1), written.start(written.last()));
    journal[before_last + 2] ^= 0x40;
    journal[last + 2] ^= 0x40;
    assert!(refusal(written.open_with(&journal)).contains("more than one write"));
}

#[test]
fn a_hole_at_the_start_of_a_batch_does_not_hide_those_behind() {
    let written = Written::random(&mut Random::new(10), 3_000);
    let mut journal = written.read();
    journal[written.start(2)..written.start(3)].fill(0);
    assert!(refusal(written.open_with(&journal)).contains("whole writes follow"));
}

#[test]
fn values_that_look_like_batches_are_not_taken_for_them() {
    let inner = Written::new(vec![vec![(b"x".to_vec(), b"y".to_vec())]; 3]);
    let lookalike = inner.read()[inner.start(2)..].to_vec();
    let written = Written::new(vec![
        vec![(b"a".to_vec(), b"1".to_vec())],
        vec![(b"b".to_vec(), lookalike), (b"c".to_vec(), vec![9; 3_000])],
    ]);
    let mut journal = written.read();
    let end = journal.len();
    journal[end - 1_000..end - 900].fill(0);
    let store = written.open_with(&journal).unwrap();
    assert_eq!(written.count_in(&store), 1);
}

#[test]
fn an_older_journal_may_end_short_but_not_torn() {
    let written = Written::random(&mut Random::new(11), 3_000);
    let whole = written.read();
    let split = written.start(3);
    fs::write(written.journal(1), &whole[split..]).unwrap();
    let store = written.open_with(&whole[..split]).unwrap();
    assert_eq!(written.count_in(&store), written.batches.len());
    store.close().unwrap();
    drop(store);

    let mut older = whole[..split].to_vec();
    let from = written.start(2);
    older[from + 20] ^= 1;
    assert!(refusal(written.open_with(&older)).contains("newer journals follow"));
}

#[test]
fn a_damaged_length_does_not_pass_for_an_unfinished_batch() {
    let written = Written::random(&mut Random::new(14), 3_000);
    let whole = written.read();
    let split = written.start(3);
    fs::write(written.journal(1), &whole[split..]).unwrap();
    let mut older = whole[..split].to_vec();
    // The highest byte of the stored length of the batch's first item: behind the batch's start
    // (13 bytes), the item's mark, kind, compression, tree and the two other lengths.
    older[written.start(2) + 13 + 20] ^= 0x40;
    assert!(refusal(written.open_with(&older)).contains("newer journals follow"));
}

#[test]
fn a_missing_journal_is_refused() {
    let written = Written::random(&mut Random::new(12), 3_000);
    let whole = written.read();
    let split = written.start(3);
    fs::write(written.journal(2), &whole[split..]).unwrap();
    assert!(refusal(written.open_with(&whole[..split])).contains("missing"));
}

#[test]
fn a_relaxed_store_opens_with_what_precedes_the_damage() {
    let written = Written::random(&mut Random::new(13), 3_000);
    let mut journal = written.read();
    journal[written.start(2)..written.start(3)].fill(0);
    written.put_journal(&journal);
    let relaxed = || EmbeddedOptions { relaxed: true, ..EmbeddedOptions::default() };
    assert!(refusal(EmbeddedStore::open(written.dir.path(), relaxed())).contains("follow"));

    written.put_journal(&written.read_up_to(2));
    EmbeddedStore::open(written.dir.path(), relaxed()).unwrap().close().unwrap();
    let store = written.open_with(&journal).unwrap();
    assert_eq!(written.count_in(&store), 2);
    assert_eq!(written.kept_aside().len(), 1);
    store.close().unwrap();
    drop(store);
    assert!(refusal(written.open_with(&journal)).contains("follow"), "strict again");
}
