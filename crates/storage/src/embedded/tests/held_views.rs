//! Views that are held while the store continues: they show one state, whole, and never change.
//!
//! A writer replaces a group of keys again and again, each time with the number of the round in
//! every value. Meanwhile memtables of a few kilobytes are flushed and compacted, partitions are
//! retired and their files dropped. Readers keep views and cursors for a while and read them again.
//! retired and their files dropped. Readers keep views and cursors for a while and look again.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use crate::Cursor;
use crate::testing::Random;

use super::*;

/// Two partitions, so that a batch is not one range of keys.
const GROUP: [PartitionId; 2] = [PartitionId(1), PartitionId(1_000_000)];
const KEYS: u8 = 60;
/// Keys that each round sets; it removes those of the round before.
const PLACES: u64 = 5;
/// Holds the number of the current partition, which is also in that partition's rows.
const SIDE: &[u8] = b"side";
const SIDE_ROWS: u32 = 50;
const SIDE_ROUNDS: u64 = 25;
const HELD_MAX: usize = 6;

/// Half of these keys are in the tree of scanned keys.
fn fixed_key(key: u8) -> Vec<u8> {
    vec![if key.is_multiple_of(2) { 0x10 } else { 0x20 }, key]
}

fn moving_key(round: u64) -> Vec<u8> {
    format!("m{}", round % PLACES).into_bytes()
}

fn side_of(round: u64) -> PartitionId {
    PartitionId(2 + u32::try_from(round / SIDE_ROUNDS).unwrap())
}

/// The number of the round, then padding that fills memtables.
fn value_of(round: u64, random: &mut Random) -> Vec<u8> {
    let mut value = round.to_be_bytes().to_vec();
    let filler = random.index(20);
    value.extend(random.bytes(filler));
    value
}

fn round_in(value: &[u8]) -> u64 {
    u64::from_be_bytes(*value.first_chunk().unwrap())
}

fn group_of(round: u64, random: &mut Random) -> Vec<Op> {
    let mut ops = Vec::new();
    for p in GROUP {
        ops.extend((0..KEYS).map(|key| put(p, fixed_key(key), value_of(round, random))));
        ops.push(put(p, moving_key(round), value_of(round, random)));
        if round > 0 {
            ops.push(Op::Del { p, k: moving_key(round - 1).into() });
        }
    }
    ops.push(put(GROUP[0], SIDE, side_of(round).0.to_be_bytes()));
    ops
}

fn fill_side(store: &EmbeddedStore, round: u64) {
    let side = side_of(round);
    let row = |row: u32| put(side, row.to_be_bytes(), side.0.to_be_bytes());
    // In a file of its own, which is dropped whole when the partition is retired.
    flush(store);
    write(store, (0..SIDE_ROWS).map(row).collect());
    flush(store);
}

/// All rows of a view must belong to one round, which is returned.
fn round_of(view: &dyn View) -> u64 {
    let value = |p, k: &[u8]| view.get(p, k).unwrap().unwrap_or_else(|| panic!("no {k:?}"));
    let round = round_in(&value(GROUP[0], &fixed_key(0)));
    for p in GROUP {
        for key in (0..KEYS).map(fixed_key).chain([moving_key(round)]) {
            assert_eq!(round_in(&value(p, &key)), round, "{key:?} in {p}");
        }
        for dir in [Dir::Fwd, Dir::Rev] {
            let mut cursor = view.scan(p, KeyRange::ALL, dir).unwrap();
            check_keys(p, round, &rest_of(&mut *cursor));
        }
    }
    let side = side_of(round);
    assert_eq!(value(GROUP[0], SIDE), side.0.to_be_bytes()[..]);
    let mut cursor = view.scan(side, KeyRange::ALL, Dir::Fwd).unwrap();
    let rows = rest_of(&mut *cursor);
    assert_eq!(rows.len(), usize::try_from(SIDE_ROWS).unwrap(), "rows beside round {round}");
    assert!(rows.iter().all(|(_, v)| *v == side.0.to_be_bytes()), "beside round {round}");
    round
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn rest_of(cursor: &mut dyn Cursor) -> Rows {
    let mut rows = Vec::new();
    while let Some((k, v)) = cursor.next().unwrap() {
        rows.push((k.to_vec(), v.to_vec()));
    }
    rows
}

/// A scan of the group shows each key of the round once, and no other key.
fn check_keys(p: PartitionId, round: u64, rows: &Rows) {
    let rows: Vec<_> = rows.iter().filter(|(k, _)| k != SIDE).collect();
    let expected: BTreeSet<_> = (0..KEYS).map(fixed_key).chain([moving_key(round)]).collect();
    let found: BTreeSet<_> = rows.iter().map(|(k, _)| k.clone()).collect();
    assert_eq!((found, rows.len()), (expected, usize::from(KEYS) + 1), "round {round} in {p}");
    assert!(rows.iter().all(|(_, v)| round_in(v) == round), "{rows:?} in round {round} of {p}");
}

/// What readers and the writer share.
struct SharedRun<'s> {
    store: &'s EmbeddedStore,
    /// The last round whose write has returned.
    acknowledged: AtomicU64,
    done: AtomicBool,
}

impl SharedRun<'_> {
    fn is_over(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// A new view, which must contain what was acknowledged before it was requested.
    fn take_view(&self) -> (Arc<dyn View>, u64) {
        let acknowledged = self.acknowledged.load(Ordering::Acquire);
        let view = self.store.view();
        let round = round_of(&*view);
        assert!(round >= acknowledged, "a view of {round} after {acknowledged} was acknowledged");
        (view, round)
    }

    fn write_rounds(&self, rounds: u64) {
        let mut random = Random::new(1);
        for round in 1..=rounds {
            let moves_side = round % SIDE_ROUNDS == 0;
            if moves_side {
                fill_side(self.store, round);
            }
            let durability =
                if random.chance(10) { Durability::Synced } else { Durability::Buffered };
            let ops = group_of(round, &mut random);
            self.store.write(WriteBatch { ops }, durability).unwrap();
            self.acknowledged.store(round, Ordering::Release);
            if moves_side {
                self.store.retire(side_of(round - 1)).unwrap();
            }
        }
    }

    /// Reads the first and the last key of a batch only, but all the time.
    fn glance(&self) {
        let ends = [(GROUP[0], fixed_key(0)), (GROUP[1], fixed_key(KEYS - 1))];
        while !self.is_over() {
            let view = self.store.view();
            let [first, last] = ends.each_ref().map(|(p, k)| view.get(*p, k).unwrap());
            assert_eq!(first.map(|v| round_in(&v)), last.map(|v| round_in(&v)), "half a batch");
        }
    }

    /// Holds some views, reads them now and then, and drops them in any order.
    fn hold_views(&self, seed: u64) {
        let mut random = Random::new(seed);
        let mut held: Vec<(Arc<dyn View>, u64)> = Vec::new();
        let mut newest = 0;
        while !self.is_over() {
            let (view, round) = self.take_view();
            assert!(round >= newest, "a view of {round} after one of {newest}");
            newest = round;
            held.push((view, round));
            let (view, round) = &held[random.index(held.len())];
            assert_eq!(round_of(&**view), *round, "a held view changed");
            if held.len() > HELD_MAX || random.chance(30) {
                held.swap_remove(random.index(held.len()));
            }
        }
        for (view, round) in held {
            assert_eq!(round_of(&*view), round, "a held view changed");
        }
    }

    /// Pauses in the middle of scans until the store has moved on.
    fn pause_scans(&self, seed: u64) {
        let mut random = Random::new(seed);
        while !self.is_over() {
            let (view, round) = self.take_view();
            let p = GROUP[random.index(2)];
            let dir = if random.chance(50) { Dir::Fwd } else { Dir::Rev };
            let mut cursor = view.scan(p, KeyRange::ALL, dir).unwrap();
            let mut rows = Rows::new();
            for _ in 0..random.below(u64::from(KEYS)) {
                rows.extend(cursor.next().unwrap().map(|(k, v)| (k.to_vec(), v.to_vec())));
            }
            let until = round + random.below(20);
            while self.acknowledged.load(Ordering::Acquire) < until && !self.is_over() {
                self.take_view();
            }
            rows.extend(rest_of(&mut *cursor));
            check_keys(p, round, &rows);
        }
    }

    fn reclaim_and_merge(&self) {
        while !self.is_over() {
            self.store.reclaim(Duration::from_millis(5)).unwrap();
            merge_all(self.store);
        }
    }
}

/// Signals that the writer has finished, also when it panics: the other threads wait only for this.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn held_views_show_one_whole_state_and_never_change() {
    let dir = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions {
        memtable_bytes: 16_000,
        lookup_cache_bytes: 256 << 10,
        relaxed: true,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open(dir.path(), options).unwrap();
    fill_side(&store, 0);
    write(&store, group_of(0, &mut Random::new(0)));
    let stage =
        SharedRun { store: &store, acknowledged: AtomicU64::new(0), done: AtomicBool::new(false) };
    let rounds = 150 * scale();
    thread::scope(|scope| {
        let _over = Over(&stage.done);
        scope.spawn(|| stage.hold_views(1));
        scope.spawn(|| stage.pause_scans(2));
        scope.spawn(|| stage.glance());
        scope.spawn(|| stage.reclaim_and_merge());
        stage.write_rounds(rounds);
    });
    assert_eq!(round_of(&*store.view()), rounds);
    assert_eq!(store.reclaim(LONG).unwrap().partitions_left, 0);
    for side in (0..rounds / SIDE_ROUNDS * SIDE_ROUNDS).step_by(25).map(side_of) {
        assert_eq!(keys_in_tree(&store, side), 0, "{side} was retired");
    }
}
