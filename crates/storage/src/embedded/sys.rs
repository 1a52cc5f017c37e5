//! The store's own records, under the one partition id that nothing else may use.
//!
//! | key after the prefix `FF FF FF FF` | value |
//! |---|---|
//! | `v` | format version, u32 big-endian |
//! | `r` partition u32 | empty: retired, may still hold bytes |
//! | `f` first u32 | last u32: a run of retired partitions that held nothing when last seen |
//!
//! A tree of its own would make creating a directory half as slow again (17 more syncs), and its
//! rarely flushed memtable would keep journals alive.

use std::collections::BTreeMap;
use std::sync::Arc;

use fjall::{Database, Keyspace, OwnedWriteBatch, PersistMode, Slice};
use model::PartitionId;

use crate::StoreError;
use crate::partition_set::{Grown, PartitionSet};

use super::errors::{read_failed, unsupported, write_failed};
use super::view::prefixed;

/// Always hidden, so that reads find nothing there and writes have no effect.
const RESERVED: PartitionId = crate::PARTITION_RESERVED;

const FORMAT_TAG: &[u8] = b"v";
const RETIRED_TAG: u8 = b'r';
const FORGOTTEN_TAG: u8 = b'f';

/// The layout of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// All keys in one tree. No longer created.
    OneTree = 1,
    /// Keys that are scanned in a tree of their own.
    TwoTrees = 2,
}

/// The format of a directory; a new one has none yet, and one of a later format is refused.
pub(super) fn format(data: &Keyspace) -> Result<Option<Format>, StoreError> {
    let Some(found) = data.get(prefixed(RESERVED, FORMAT_TAG)).map_err(read_failed)? else {
        return Ok(None);
    };
    match read_id(&found)? {
        1 => Ok(Some(Format::OneTree)),
        2 => Ok(Some(Format::TwoTrees)),
        other => Err(unsupported(&format!(
            "the data directory has format {other}; this program reads formats 1 and 2"
        ))),
    }
}

/// Marks a new directory as one of the newest format.
pub(super) fn mark_format(db: &Database, data: &Keyspace) -> Result<(), StoreError> {
    let mut batch = db.batch().durability(Some(PersistMode::SyncData));
    let version = Format::TwoTrees as u32;
    batch.insert(data, &prefixed(RESERVED, FORMAT_TAG)[..], version.to_be_bytes());
    batch.commit().map_err(write_failed)
}

/// How far a retired partition has been reclaimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReclaimStage {
    /// Nothing was removed yet, so whole files may still be dropped.
    Fresh,
    /// Its keys are being removed one by one, ordered by tree and then by key, and are removed up
    /// to this key of this tree. Dropping a file now could drop such tombstones and bring back rows
    /// of other files.
    RemovedUpTo(usize, Slice),
}

/// Every partition that was ever retired.
pub(super) struct RetiredPartitions {
    /// All of them, and the reserved one; never shown to readers.
    hidden: Arc<PartitionSet>,
    /// Those that may still hold bytes.
    pending: BTreeMap<u32, ReclaimStage>,
    /// Those that held nothing when last checked; as stored in the tree.
    forgotten: PartitionSet,
}

impl Default for RetiredPartitions {
    fn default() -> Self {
        let mut hidden = PartitionSet::default();
        hidden.insert(RESERVED);
        Self {
            hidden: Arc::new(hidden),
            pending: BTreeMap::new(),
            forgotten: PartitionSet::default(),
        }
    }
}

impl RetiredPartitions {
    pub(super) fn hidden(&self) -> Arc<PartitionSet> {
        Arc::clone(&self.hidden)
    }

    pub(super) fn is_hidden(&self, p: PartitionId) -> bool {
        self.hidden.contains(p)
    }

    pub(super) fn hide(&mut self, p: PartitionId) {
        Arc::make_mut(&mut self.hidden).insert(p);
        self.pending.insert(p.0, ReclaimStage::Fresh);
    }

    pub(super) fn pending(&self) -> &BTreeMap<u32, ReclaimStage> {
        &self.pending
    }

    pub(super) fn forgotten(&self) -> &PartitionSet {
        &self.forgotten
    }

    pub(super) fn set_stage(&mut self, id: u32, stage: ReclaimStage) {
        self.pending.insert(id, stage);
    }

    /// Records partitions as holding nothing; `forgotten` already includes them.
    pub(super) fn forget(&mut self, emptied: &[u32], forgotten: PartitionSet) {
        for id in emptied {
            self.pending.remove(id);
        }
        self.forgotten = forgotten;
    }
}

pub(super) fn mark_retired(data: &Keyspace, batch: &mut OwnedWriteBatch, p: PartitionId) {
    batch.insert(data, tagged(RETIRED_TAG, p.0), []);
}

/// Records that a retired partition holds nothing and that the run it belongs to has grown.
pub(super) fn mark_forgotten(data: &Keyspace, batch: &mut OwnedWriteBatch, grown: Grown, id: u32) {
    batch.remove(data, tagged(RETIRED_TAG, id));
    if let Some(swallowed) = grown.swallowed {
        batch.remove(data, tagged(FORGOTTEN_TAG, swallowed));
    }
    batch.insert(data, tagged(FORGOTTEN_TAG, grown.first), grown.last.to_be_bytes());
}

pub(super) fn load_retired(data: &Keyspace) -> Result<RetiredPartitions, StoreError> {
    let mut retired = RetiredPartitions::default();
    for entry in data.prefix(prefixed(RESERVED, &[FORGOTTEN_TAG])) {
        let (k, v) = entry.into_inner().map_err(read_failed)?;
        let (first, last) = (read_id(k.get(5..).unwrap_or_default())?, read_id(&v)?);
        retired.forgotten.insert_run(first, last);
        Arc::make_mut(&mut retired.hidden).insert_run(first, last);
    }
    for entry in data.prefix(prefixed(RESERVED, &[RETIRED_TAG])) {
        let k = entry.key().map_err(read_failed)?;
        retired.hide(PartitionId(read_id(k.get(5..).unwrap_or_default())?));
    }
    Ok(retired)
}

fn tagged(tag: u8, id: u32) -> [u8; 9] {
    let mut key = [0xFF; 9];
    key[4] = tag;
    key[5..].copy_from_slice(&id.to_be_bytes());
    key
}

fn read_id(bytes: &[u8]) -> Result<u32, StoreError> {
    let fixed = <[u8; 4]>::try_from(bytes)
        .map_err(|_| StoreError::Corrupt("a record of the store itself is malformed".to_owned()))?;
    Ok(u32::from_be_bytes(fixed))
}
