//! What a commit builds on, and whether that is still so.

use model::{Lsn, PartitionId};

use super::group::Group;
use super::state::PartitionState;
use crate::Error;
use crate::item::Etag;
use crate::prepare::LogicalPartition;
use crate::row::RowHead;
use crate::transaction::{touched_in, touched_since};

/// Most entries of the change log that the committer looks at for one commit. Who builds on more
/// than that is behind, and looks by itself.
const ENTRIES_LOOKED_AT: u64 = 1_000;

/// What somebody saw of a logical partition before deciding what to write.
#[derive(Debug)]
pub(crate) struct ReadSet {
    /// Where it was.
    pub(crate) partition: PartitionId,
    /// All that changed later was not seen.
    pub(crate) since: Lsn,
    /// Single items, and the version each had.
    pub(crate) read_versions: Vec<(String, Option<Etag>)>,
    /// Whether more was seen than single items.
    pub(crate) has_scanned: bool,
}

impl ReadSet {
    /// Whether all that was seen is still so.
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
            let row = group.get(partition, &logical_partition.logical_key.row(id))?;
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
