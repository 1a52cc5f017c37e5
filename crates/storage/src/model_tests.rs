//! Every store against a plain map, over random histories.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::PartitionId;

use crate::faulty::FaultyStore;
use crate::testing::{Random, scale};
use crate::{
    Cursor, Dir, Durability, EmbeddedOptions, EmbeddedStore, KeyRange, LocalStore, MemoryStore, Op,
    View, WriteBatch,
};

/// Partitions alive at a time: few, so that their neighbours are often retired ones.
const PARTITIONS_ALIVE: usize = 5;
const VIEWS_HELD_MAX: usize = 4;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a store should hold. Partitions that are absent here are empty.
type Expected = BTreeMap<u32, Rows>;

struct History {
    random: Random,
    store: Arc<dyn LocalStore>,
    reopen: Option<Box<dyn FnMut() -> Arc<dyn LocalStore>>>,
    expected: Expected,
    /// Ids in use; retired ones are replaced by new ids.
    alive: Vec<u32>,
    next_id: u32,
    held: Vec<(Arc<dyn View>, Expected)>,
}

impl History {
    fn new(seed: u64, store: Arc<dyn LocalStore>) -> Self {
        let alive = (0..).take(PARTITIONS_ALIVE).collect();
        Self {
            random: Random::new(seed),
            store,
            reopen: None,
            expected: Expected::new(),
            alive,
            next_id: u32::try_from(PARTITIONS_ALIVE).unwrap(),
            held: Vec::new(),
        }
    }

    fn run(&mut self, steps: u64) {
        for step in 0..steps {
            match self.random.below(100) {
                0..60 => self.write(),
                60..75 => self.check_latest(),
                75..85 => self.check_held(),
                85..92 => self.hold_view(),
                92..94 => self.retire(),
                94..97 => self.reclaim(),
                97..99 => self.reopen(),
                _ => self.check_everything(),
            }
            assert!(self.store.health().writable, "step {step}");
        }
        self.check_everything();
    }

    fn write(&mut self) {
        let ops: Vec<Op> = (0..1 + self.random.index(20)).map(|_| self.op()).collect();
        for op in &ops {
            self.expect(op);
        }
        let durability =
            if self.random.chance(70) { Durability::Synced } else { Durability::Buffered };
        self.store.write(WriteBatch { ops }, durability).unwrap();
    }

    fn op(&mut self) -> Op {
        // Now and then a partition that was retired long ago, or is not yet in use.
        let id = match self.random.below(30) {
            0 => u32::try_from(self.random.below(u64::from(self.next_id))).unwrap(),
            _ => self.alive[self.random.index(self.alive.len())],
        };
        let (p, k) = (PartitionId(id), Bytes::from(self.key()));
        if self.random.chance(30) {
            return Op::Del { p, k };
        }
        let value_bytes = match self.random.below(50) {
            0 => 20_000,
            1..5 => 0,
            _ => self.random.index(200),
        };
        Op::Put { p, k, v: Bytes::from(self.random.bytes(value_bytes)) }
    }

    /// From a small set, so that keys are overwritten, deleted and adjacent to each other, also
    /// where a store may switch trees ([`crate::KeyTags`]), and some of them are those of
    /// items ([`crate::testing::LOOKED_UP_KEYS`]).
    fn key(&mut self) -> Vec<u8> {
        let alphabet = [0x00, 0x10, 0x10, 0x1F, 0x20, 0x24, 0x25, 0x30, 0x31, 0xFF];
        let len = self.random.index(4);
        let any = |_| alphabet[self.random.index(alphabet.len())];
        let mut key: Vec<u8> = (0..len).map(any).collect();
        if self.random.chance(3) {
            key.resize(key.len() + 2_400, 0xFF);
        }
        key
    }

    fn expect(&mut self, op: &Op) {
        if !self.alive.contains(&op.partition().0) {
            return;
        }
        let rows = self.expected.entry(op.partition().0).or_default();
        match op {
            Op::Put { k, v, .. } => rows.insert(k.to_vec(), v.to_vec()),
            Op::Del { k, .. } => rows.remove(&k[..]),
        };
    }

    fn retire(&mut self) {
        let place = self.random.index(self.alive.len());
        let id = std::mem::replace(&mut self.alive[place], self.next_id);
        self.next_id += 1;
        self.expected.remove(&id);
        self.store.retire(PartitionId(id)).unwrap();
    }

    fn reclaim(&mut self) {
        let budget = if self.random.chance(50) { Duration::ZERO } else { Duration::from_secs(9) };
        let progress = self.store.reclaim(budget).unwrap();
        assert!(budget.is_zero() || progress.partitions_left == 0);
    }

    fn reopen(&mut self) {
        let Some(reopen) = &mut self.reopen else { return };
        self.held.clear();
        self.store.close().unwrap();
        self.store = reopen();
    }

    fn hold_view(&mut self) {
        if self.held.len() == VIEWS_HELD_MAX {
            let place = self.random.index(VIEWS_HELD_MAX);
            self.held.swap_remove(place);
        }
        self.held.push((self.store.view(), self.expected.clone()));
    }

    fn check_latest(&mut self) {
        let view = self.store.view();
        let expected = std::mem::take(&mut self.expected);
        self.check_some(&*view, &expected);
        self.expected = expected;
    }

    fn check_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let place = self.random.index(self.held.len());
        let (view, expected) = self.held.swap_remove(place);
        self.check_some(&*view, &expected);
        self.held.push((view, expected));
    }

    /// One get and one scan with a seek in its middle.
    fn check_some(&mut self, view: &dyn View, expected: &Expected) {
        let id = u32::try_from(self.random.below(u64::from(self.next_id))).unwrap();
        let rows = expected.get(&id).cloned().unwrap_or_default();
        let (p, k) = (PartitionId(id), self.key());
        assert_eq!(view.get(p, &k).unwrap().as_deref(), rows.get(&k).map(Vec::as_slice));
        let (lo, hi) = (self.bound(), self.bound());
        let dir = if self.random.chance(50) { Dir::Fwd } else { Dir::Rev };
        let range = KeyRange { lo: as_slice(&lo), hi: as_slice(&hi) };
        let mut cursor = view.scan(p, range, dir).unwrap();
        check_scan(&mut *cursor, &mut in_range(&rows, range, dir), 3);
        let target = self.key();
        cursor.seek(&target).unwrap();
        let mut left = in_range(&rows, range, dir).skip_while(|(k, _)| match dir {
            Dir::Fwd => **k < target,
            Dir::Rev => **k > target,
        });
        check_scan(&mut *cursor, &mut left, usize::MAX);
    }

    fn bound(&mut self) -> Bound<Vec<u8>> {
        match self.random.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(self.key()),
            _ => Bound::Excluded(self.key()),
        }
    }

    fn check_everything(&self) {
        let latest = (self.store.view(), self.expected.clone());
        for (view, expected) in self.held.iter().chain([&latest]) {
            for id in 0..self.next_id {
                let rows = expected.get(&id).cloned().unwrap_or_default();
                for dir in [Dir::Fwd, Dir::Rev] {
                    let mut cursor = view.scan(PartitionId(id), KeyRange::ALL, dir).unwrap();
                    check_scan(&mut *cursor, &mut in_range(&rows, KeyRange::ALL, dir), usize::MAX);
                }
            }
        }
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

type InRange<'a> = Box<dyn Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)> + 'a>;

fn in_range<'a>(rows: &'a Rows, range: KeyRange<'a>, dir: Dir) -> InRange<'a> {
    if range.is_void() {
        return Box::new(std::iter::empty());
    }
    let rows = rows.range::<[u8], _>((range.lo, range.hi));
    match dir {
        Dir::Fwd => Box::new(rows),
        Dir::Rev => Box::new(rows.rev()),
    }
}

/// The next `max` rows of both are the same; so are their ends when there are fewer.
fn check_scan(
    cursor: &mut dyn Cursor,
    expected: &mut dyn Iterator<Item = (&Vec<u8>, &Vec<u8>)>,
    max: usize,
) {
    for _ in 0..max {
        let want = expected.next();
        let found = cursor.next().unwrap();
        assert!(
            found == want.map(|(k, v)| (k.as_slice(), v.as_slice())),
            "found {:?}, expected {:?}",
            found.map(|(k, v)| (k, v.len())),
            want.map(|(k, v)| (k, v.len()))
        );
        if want.is_none() {
            return;
        }
    }
}

#[test]
fn a_memory_store_equals_the_model() {
    for seed in 0..3 * scale() {
        History::new(seed, Arc::new(MemoryStore::new())).run(600);
    }
}

#[test]
fn a_faulty_store_without_faults_equals_the_model() {
    for seed in 0..2 * scale() {
        let mut current = Arc::new(FaultyStore::in_memory());
        let mut history = History::new(seed, Arc::clone(&current) as _);
        history.reopen = Some(Box::new(move || {
            current = Arc::new(current.crash(0));
            Arc::clone(&current) as _
        }));
        history.run(600);
    }
}

#[test]
fn an_embedded_store_equals_the_model() {
    for seed in 0..3 * scale() {
        let dir = tempfile::tempdir().unwrap();
        // From a flush every few batches to one now and then.
        let memtable_bytes = [1_000, 20_000, 300_000][usize::try_from(seed % 3).unwrap()];
        let mut options = EmbeddedOptions { memtable_bytes, ..EmbeddedOptions::default() };
        // Cache files of four kilobytes, large ones, or no cache.
        options.lookup_cache_bytes =
            [64 << 10, 1 << 30, 0][usize::try_from((seed + seed / 3) % 3).unwrap()];
        let path: PathBuf = dir.path().to_owned();
        let open = move || -> Arc<dyn LocalStore> {
            Arc::new(EmbeddedStore::open(&path, options.clone()).unwrap())
        };
        let mut history = History::new(seed, open());
        history.reopen = Some(Box::new(open));
        history.run(300);
    }
}
