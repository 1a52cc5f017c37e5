//! Documents as an engine would store them: a row, index rows, a feed entry, a position.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::PartitionId;

use crate::testing::Random;
use crate::{Dir, KeyRange, Op, View};

const META: u8 = 0x00;
const ROW: u8 = 0x10;
const INDEX: u8 = 0x20;
const FEED: u8 = 0x30;

/// Index rows of one document.
const INDEX_ROWS: u64 = 15;

/// All changes of one document that is the `lsn`-th of its partition.
pub(super) fn ops(p: PartitionId, lsn: u64, id: u64, value_bytes: usize) -> Vec<Op> {
    let put = |k: Vec<u8>, v: Vec<u8>| Op::Put { p, k: Bytes::from(k), v: Bytes::from(v) };
    let mut value = lsn.to_be_bytes().to_vec();
    value.extend(Random::new(id).bytes(value_bytes));
    let mut ops = vec![
        put(key(ROW, &[id]), value),
        put(key(FEED, &[lsn]), id.to_be_bytes().to_vec()),
        put(key(META, &[]), lsn.to_be_bytes().to_vec()),
    ];
    ops.extend((0..INDEX_ROWS).map(|path| put(key(INDEX, &[path, term(path, id), id]), vec![])));
    ops
}

fn term(path: u64, id: u64) -> u64 {
    Random::new(path ^ id).next() >> 48
}

fn key(tag: u8, parts: &[u64]) -> Vec<u8> {
    let mut key = vec![tag];
    parts.iter().for_each(|part| key.extend_from_slice(&part.to_be_bytes()));
    key
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// Checks that a partition holds whole documents with positions 1, 2, 3, ... and returns them, id
/// by position.
pub(super) fn check(view: &dyn View, p: PartitionId) -> BTreeMap<u64, u64> {
    let feed: BTreeMap<u64, u64> =
        rows(view, p, FEED).into_iter().map(|(k, v)| (number(&k[1..]), number(&v))).collect();
    let count = feed.len() as u64;
    assert!(feed.keys().copied().eq(1..=count), "positions have gaps in {p}");
    let meta = view.get(p, &key(META, &[])).unwrap().map_or(0, |v| number(&v));
    assert_eq!(meta, count, "the position of {p}");

    let found = rows(view, p, ROW);
    assert_eq!(found.len() as u64, count, "documents of {p}");
    for (k, v) in found {
        let (id, lsn) = (number(&k[1..]), number(&v[..8]));
        assert_eq!(feed.get(&lsn), Some(&id), "the feed entry of {id} in {p}");
        assert!(v[8..] == Random::new(id).bytes(v.len() - 8), "the value of {id} in {p}");
    }
    let mut expected: Vec<_> = feed
        .values()
        .flat_map(|id| (0..INDEX_ROWS).map(|path| key(INDEX, &[path, term(path, *id), *id])))
        .collect();
    expected.sort();
    let index: Vec<_> = rows(view, p, INDEX).into_iter().map(|(k, _)| k).collect();
    assert!(index == expected, "the index of {p} does not match its documents");
    feed
}

fn rows(view: &dyn View, p: PartitionId, tag: u8) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = view.scan(p, KeyRange::half_open(&[tag], &[tag + 1]), Dir::Fwd).unwrap();
    let mut rows = Vec::new();
    while let Some((k, v)) = cursor.next().unwrap() {
        rows.push((k.to_vec(), v.to_vec()));
    }
    rows
}
