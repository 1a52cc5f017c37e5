//! Reading one item from a view.

use model::{ContainerRid, PartitionId};
use storage::View;

use crate::catalog::Container;
use crate::keys::LogicalKey;
use crate::row::Row;
use crate::{Error, StoredItem};

/// What a read needs of its container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub(crate) container: ContainerRid,
    pub(crate) default_ttl: Option<i32>,
    pub(crate) now_seconds: u64,
    /// The property under which queries see the time of an item's last change, as a date.
    pub(crate) time_property: Option<&'static str>,
}

impl Reader {
    pub(crate) fn new(container: &Container, now_seconds: u64) -> Self {
        let default_ttl = container.spec.default_ttl;
        Self { container: container.rid, default_ttl, now_seconds, time_property: None }
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
    let row = Row::read(value, id)?;
    Ok((!reader.is_expired(&row.head)).then(|| row.into_item(reader.container, id)))
}
