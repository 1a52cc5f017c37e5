//! How much a job has to copy, and how much of that is done.
//!
//! A partition counts the bytes of its items, so those are known. Index entries and entries of its
//! logs are not counted, so some are sampled and the rest is assumed to be like them. Other rows
//! are small and left out on both sides.

use bytes::Bytes;
use model::{Lsn, PartitionId};
use storage::{Dir, KeyRange, View};

use crate::Error;
use crate::commit::CopyProgress;
use crate::index::Indexes;
use crate::keys::{self, INDEX_BOUNDS, Kind, Log, ROWS_BOUNDS};
use crate::row::Row;

/// Entries of a log that are sampled.
const SAMPLED_MAX: u64 = 1000;

/// Items whose index entries are sampled.
const ITEMS_SAMPLED_MAX: u64 = 50;

/// Bytes of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Volume {
    /// About how many there are to copy.
    pub(super) total: u64,
    /// How many of them were copied before.
    pub(super) done: u64,
}

/// What a partition counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceCounters {
    pub(super) items: u64,
    pub(super) bytes: u64,
    pub(super) lsn: Lsn,
}

/// Whether a row is part of the volume.
pub(super) fn is_counted(key: &[u8]) -> bool {
    matches!(keys::kind(key), Kind::Row(_) | Kind::Index | Kind::Log { .. } | Kind::Version { .. })
}

/// The volume of one source, of which `copied` is done.
pub(super) fn volume_of(
    view: &dyn View,
    source: PartitionId,
    counted: SourceCounters,
    indexes: Option<&Indexes>,
    copied: &CopyProgress,
) -> Result<Volume, Error> {
    let sections = [
        (ROWS_BOUNDS, counted.bytes),
        (INDEX_BOUNDS, index_bytes(view, source, indexes, counted)?),
        (Log::Changes.all(), log_bytes(view, source, Log::Changes, counted)?),
        (Log::Versions.all(), log_bytes(view, source, Log::Versions, counted)?),
    ];
    let mut volume = Volume::default();
    for ((lo, hi), bytes) in sections {
        volume.total += bytes;
        volume.done += match copied {
            CopyProgress::All => bytes,
            CopyProgress::UpTo(last) if last[..] < lo[..] => 0,
            CopyProgress::UpTo(last) if last[..] >= hi[..] => bytes,
            CopyProgress::UpTo(last) => part_of(bytes, passed(view, source, (&lo, &hi), last)?),
        };
    }
    Ok(volume)
}

/// About how many bytes all index entries have.
fn index_bytes(
    view: &dyn View,
    source: PartitionId,
    indexes: Option<&Indexes>,
    counted: SourceCounters,
) -> Result<u64, Error> {
    let Some(indexes) = indexes.filter(|indexes| indexes.has_entries()) else { return Ok(0) };
    let (lo, hi) = ROWS_BOUNDS;
    let mut cursor = view.scan(source, KeyRange::half_open(&lo, &hi), Dir::Fwd)?;
    let (mut items, mut bytes) = (0, 0);
    while let Some((key, value)) = cursor.next()? {
        let Some(row) = Row::decode(Bytes::copy_from_slice(value)) else { continue };
        let Ok(item) = row.head.body.read(b"to count", &row.body) else { continue };
        for term in indexes.terms_to_remove(&item, row.head.ts).iter() {
            let value = term.value_len(key.len() - 1);
            bytes += (term.entry(row.head.number).len() + value) as u64;
        }
        items += 1;
        if items == ITEMS_SAMPLED_MAX {
            break;
        }
    }
    Ok(if items == 0 { 0 } else { part_of(bytes, counted.items as f64 / items as f64) })
}

/// About how many bytes a log has.
fn log_bytes(
    view: &dyn View,
    source: PartitionId,
    log: Log,
    counted: SourceCounters,
) -> Result<u64, Error> {
    let (lo, hi) = log.all();
    let mut cursor = view.scan(source, KeyRange::half_open(&lo, &hi), Dir::Fwd)?;
    let (mut entries, mut bytes) = (0, 0);
    let mut bounds: Option<(Lsn, Lsn)> = None;
    while let Some((key, value)) = cursor.next()? {
        if entries == SAMPLED_MAX {
            let times = match (log, bounds) {
                // Each item has one entry, and deleted items add some more.
                (Log::Changes, _) => counted.items as f64 / entries as f64,
                // Each write has one entry.
                (Log::Versions, Some((first, last))) => {
                    let lsns = |to: Lsn| to.0.saturating_sub(first.0).saturating_add(1) as f64;
                    lsns(counted.lsn) / lsns(last)
                }
                (Log::Versions, None) => 1.0,
            };
            return Ok(part_of(bytes, times.max(1.0)));
        }
        entries += 1;
        bytes += (key.len() + value.len()) as u64;
        if let Some((lsn, ..)) = keys::log_entry(key) {
            bounds = Some((bounds.map_or(lsn, |(first, _)| first), lsn));
        }
    }
    Ok(bytes)
}

/// About which part of the rows between two bounds lies up to `at`, 0 to 1. Keys are assumed to be
/// spread evenly, as hashes and positions are.
fn passed(
    view: &dyn View,
    source: PartitionId,
    (lo, hi): (&[u8], &[u8]),
    at: &[u8],
) -> Result<f64, Error> {
    let end = |dir: Dir| -> Result<Option<Vec<u8>>, Error> {
        let mut cursor = view.scan(source, KeyRange::half_open(lo, hi), dir)?;
        Ok(cursor.next()?.map(|(key, _)| key.to_vec()))
    };
    let (Some(first), Some(last)) = (end(Dir::Fwd)?, end(Dir::Rev)?) else { return Ok(1.0) };
    let common = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
    let place = |key: &[u8]| {
        let mut bytes = [0; 8];
        for (byte, from) in bytes.iter_mut().zip(key.iter().skip(common)) {
            *byte = *from;
        }
        u64::from_be_bytes(bytes) as f64
    };
    let (first, last, at) = (place(&first), place(&last), place(at));
    Ok(if last > first { ((at - first) / (last - first)).clamp(0.0, 1.0) } else { 1.0 })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate")]
fn part_of(bytes: u64, part: f64) -> u64 {
    (bytes as f64 * part) as u64
}

#[cfg(test)]
mod tests {
    use storage::{Durability, LocalStore, MemoryStore, Op, WriteBatch};

    use super::*;

    const P: PartitionId = PartitionId(7);
    const ENTRIES: u64 = 5000;

    /// A partition with items and a log of 5,000 entries, whose rows are 100 bytes each.
    fn filled(log: Log) -> MemoryStore {
        let store = MemoryStore::new();
        let mut batch = WriteBatch::default();
        let mut put = |key: Bytes| {
            let value = Bytes::from(vec![0; 100 - key.len()]);
            batch.ops.push(Op::Put { p: P, k: key, v: value });
        };
        for n in 0..ENTRIES {
            let place = (n << 48).to_be_bytes();
            put([&ROWS_BOUNDS.0[..], &place].concat().into());
            put(log.key(Lsn(n + 10), P, 0));
        }
        store.write(batch, Durability::Buffered).unwrap();
        store
    }

    fn counted() -> SourceCounters {
        SourceCounters { items: ENTRIES, bytes: ENTRIES * 100, lsn: Lsn(ENTRIES + 9) }
    }

    #[test]
    fn logs_are_part_of_what_is_to_be_copied() {
        for log in [Log::Changes, Log::Versions] {
            let view = filled(log).view();
            let volume = volume_of(view.as_ref(), P, counted(), None, &CopyProgress::NONE).unwrap();
            assert_eq!(volume, Volume { total: 2 * ENTRIES * 100, done: 0 });
            let over = volume_of(view.as_ref(), P, counted(), None, &CopyProgress::All).unwrap();
            assert_eq!(over.done, over.total);
        }
    }

    #[test]
    fn what_was_copied_before_is_done() {
        let view = filled(Log::Changes).view();
        let parts = |last: Bytes| {
            let volume =
                volume_of(view.as_ref(), P, counted(), None, &CopyProgress::UpTo(last)).unwrap();
            volume.done as f64 / volume.total as f64
        };
        let middle = ((ENTRIES / 2) << 48).to_be_bytes();
        let a_quarter = parts([&ROWS_BOUNDS.0[..], &middle].concat().into());
        assert!((a_quarter - 0.25).abs() < 0.01, "{a_quarter}");
        let half = parts(Bytes::from_static(&keys::COUNTERS_BOUNDS.0));
        assert_eq!(half, 0.5);
        let more = parts(Log::Changes.key(Lsn(10 + ENTRIES / 2), P, 0));
        assert!((more - 0.75).abs() < 0.01, "{more}");
    }

    #[test]
    fn a_partition_without_rows_has_no_volume() {
        let counted = SourceCounters { items: 0, bytes: 0, lsn: Lsn(0) };
        let view = MemoryStore::new().view();
        let volume = volume_of(view.as_ref(), P, counted, None, &CopyProgress::NONE).unwrap();
        assert_eq!(volume, Volume::default());
    }

    #[test]
    fn only_items_and_logs_count() {
        let log = Log::Changes.key(Lsn(1), P, 0);
        assert!(is_counted(&[ROWS_BOUNDS.0[0], 1]) && is_counted(&log));
        assert!(!is_counted(&[keys::COUNTERS_BOUNDS.0[0], 1]) && !is_counted(keys::COPY_PROGRESS));
    }
}
