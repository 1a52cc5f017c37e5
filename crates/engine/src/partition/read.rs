//! Reading one item from a view.

use model::{ContainerRid, PartitionId};
use storage::View;

use crate::keys::LogicalKey;
use crate::row::Row;
use crate::{Error, StoredItem};

/// What a read needs to know of its container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub(crate) container: ContainerRid,
    pub(crate) default_ttl: Option<i32>,
    pub(crate) now_seconds: u64,
}

impl Reader {
    /// The item of a decoded row, unless its time is over.
    pub(crate) fn live_item(&self, row: Row, id: &str) -> Option<StoredItem> {
        let expired = row.head.is_expired(self.default_ttl, self.now_seconds);
        (!expired).then(|| row.into_item(self.container, id))
    }
}

/// The live item `id` of a logical partition.
pub(crate) fn fetch(
    view: &dyn View,
    partition: PartitionId,
    reader: Reader,
    logical: &LogicalKey,
    id: &str,
) -> Result<Option<StoredItem>, Error> {
    let Some(value) = view.get(partition, &logical.row(id))? else { return Ok(None) };
    let row = Row::decode(value)
        .ok_or_else(|| Error::Internal(format!("row of item {id} can't be read")))?;
    Ok(reader.live_item(row, id))
}
