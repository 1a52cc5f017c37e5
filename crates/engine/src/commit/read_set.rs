//! What a commit was decided on, and whether that is still current.

use model::{Lsn, PartitionId};

use super::group::Group;
use super::state::PartitionState;
use crate::item::Etag;
use crate::prepare::LogicalPartition;
use crate::row::RowHead;
use crate::transaction::{touched_in, touched_since};
use crate::{Error, RowKey};

/// Most entries of the change log that the committer reads for one commit. A transaction that is
/// further behind checks by itself first.
const ENTRIES_LOOKED_AT: u64 = 1_000;

/// What a transaction read of a logical partition before deciding what to write.
#[derive(Debug)]
pub(crate) struct ReadSet {
    /// The partition that held it.
    pub(crate) partition: PartitionId,
    /// Changes after this position were not seen.
    pub(crate) since: Lsn,
    /// Items that were read one by one, and the version of each.
    pub(crate) read_versions: Vec<(RowKey, Option<Etag>)>,
    /// Whether more was read than single items.
    pub(crate) has_scanned: bool,
}

impl ReadSet {
    /// Whether everything that was read is still current.
    pub(super) fn is_current(
        &self,
        group: &Group,
        state: &PartitionState,
        partition: PartitionId,
        logical_partition: &LogicalPartition,
    ) -> Result<bool, Error> {
        if partition != self.partition {
            return Ok(false);
        }
        if state.lsn == self.since || !self.is_touched(group, logical_partition)? {
            return Ok(true);
        }
        if self.has_scanned {
            return Ok(false);
        }
        for (id, etag) in &self.read_versions {
            let row = group.get(partition, &logical_partition.logical_key.row(id.as_bytes()))?;
            if row.and_then(|row| RowHead::decode(&row)).map(|head| head.etag) != *etag {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether anything of the logical partition may have changed.
    fn is_touched(
        &self,
        group: &Group,
        logical_partition: &LogicalPartition,
    ) -> Result<bool, Error> {
        let view = group.view();
        let touched =
            touched_since(view, self.partition, logical_partition, self.since, ENTRIES_LOOKED_AT)?;
        Ok(touched.unwrap_or(true) || touched_in(group, self.partition, logical_partition))
    }
}
