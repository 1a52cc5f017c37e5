//! The `sys` tree: what the store remembers about itself.
//!
//! | key | value |
//! |---|---|
//! | `v` | format version, u32 big-endian |
//! | `r` partition u32 | empty: retired, may still hold bytes |
//! | `f` first u32 | last u32: a run of retired partitions that held nothing when last seen |

use std::collections::BTreeMap;
use std::sync::Arc;

use fjall::{Database, Keyspace, OwnedWriteBatch, PersistMode};
use model::PartitionId;

use crate::StoreError;
use crate::partition_set::{Grown, PartitionSet};

use super::errors::{read_failed, unsupported, write_failed};

const FORMAT_VERSION: u32 = 1;
const FORMAT_KEY: &[u8] = b"v";
const RETIRED_TAG: u8 = b'r';
const FORGOTTEN_TAG: u8 = b'f';

/// Refuses a directory written by a later format; marks a new one.
pub(super) fn check_format(db: &Database, sys: &Keyspace) -> Result<(), StoreError> {
    let Some(found) = sys.get(FORMAT_KEY).map_err(read_failed)? else {
        let mut batch = db.batch().durability(Some(PersistMode::SyncData));
        batch.insert(sys, FORMAT_KEY, FORMAT_VERSION.to_be_bytes());
        return batch.commit().map_err(write_failed);
    };
    match read_id(&found)? {
        FORMAT_VERSION => Ok(()),
        other => Err(unsupported(&format!(
            "the data directory has format {other}; this program reads format {FORMAT_VERSION}"
        ))),
    }
}

/// How far a retired partition is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing was removed yet, so whole files may still be dropped.
    Fresh,
    /// Its keys are being removed one by one. Dropping a file now could drop such removals and
    /// bring back what they removed from other files.
    Removing,
}

/// Every partition that was ever retired.
#[derive(Default)]
pub(super) struct Retired {
    /// All of them; never shown to readers.
    hidden: Arc<PartitionSet>,
    /// Those that may still hold bytes.
    pending: BTreeMap<u32, Stage>,
    /// Those that held nothing when last seen; as kept in the tree.
    forgotten: PartitionSet,
}

impl Retired {
    pub(super) fn hidden(&self) -> Arc<PartitionSet> {
        Arc::clone(&self.hidden)
    }

    pub(super) fn is_hidden(&self, p: PartitionId) -> bool {
        self.hidden.contains(p)
    }

    pub(super) fn hide(&mut self, p: PartitionId) {
        Arc::make_mut(&mut self.hidden).insert(p);
        self.pending.insert(p.0, Stage::Fresh);
    }

    pub(super) fn pending(&self) -> &BTreeMap<u32, Stage> {
        &self.pending
    }

    pub(super) fn forgotten(&self) -> &PartitionSet {
        &self.forgotten
    }

    pub(super) fn set_stage(&mut self, id: u32, stage: Stage) {
        self.pending.insert(id, stage);
    }

    /// Counts partitions as holding nothing; `forgotten` already includes them.
    pub(super) fn forget(&mut self, emptied: &[u32], forgotten: PartitionSet) {
        for id in emptied {
            self.pending.remove(id);
        }
        self.forgotten = forgotten;
    }
}

pub(super) fn mark_retired(sys: &Keyspace, batch: &mut OwnedWriteBatch, p: PartitionId) {
    batch.insert(sys, tagged(RETIRED_TAG, p.0), []);
}

/// Records that a retired partition holds nothing and that the run it belongs to has grown.
pub(super) fn mark_forgotten(sys: &Keyspace, batch: &mut OwnedWriteBatch, grown: Grown, id: u32) {
    batch.remove(sys, tagged(RETIRED_TAG, id));
    if let Some(swallowed) = grown.swallowed {
        batch.remove(sys, tagged(FORGOTTEN_TAG, swallowed));
    }
    batch.insert(sys, tagged(FORGOTTEN_TAG, grown.first), grown.last.to_be_bytes());
}

pub(super) fn load_retired(sys: &Keyspace) -> Result<Retired, StoreError> {
    let mut retired = Retired::default();
    for entry in sys.prefix([FORGOTTEN_TAG]) {
        let (k, v) = entry.into_inner().map_err(read_failed)?;
        let (first, last) = (read_id(k.get(1..).unwrap_or_default())?, read_id(&v)?);
        retired.forgotten.insert_run(first, last);
        Arc::make_mut(&mut retired.hidden).insert_run(first, last);
    }
    for entry in sys.prefix([RETIRED_TAG]) {
        let k = entry.key().map_err(read_failed)?;
        retired.hide(PartitionId(read_id(k.get(1..).unwrap_or_default())?));
    }
    Ok(retired)
}

fn tagged(tag: u8, id: u32) -> [u8; 5] {
    let [a, b, c, d] = id.to_be_bytes();
    [tag, a, b, c, d]
}

fn read_id(bytes: &[u8]) -> Result<u32, StoreError> {
    let fixed = <[u8; 4]>::try_from(bytes)
        .map_err(|_| StoreError::Corrupt("a record of the store itself is malformed".to_owned()))?;
    Ok(u32::from_be_bytes(fixed))
}
