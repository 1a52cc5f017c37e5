//! Reading one item from a view.

use model::{ContainerRid, PartitionId};
use storage::View;

use crate::catalog::{Container, ContainerSpec};
use crate::item::{NoSystemProperties, SystemProperties};
use crate::keys::LogicalKey;
use crate::row::Row;
use crate::{BodyFormat, Error, RowKey, StoredItem};

/// What a read needs of its container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub(crate) container: ContainerRid,
    /// The form of its items.
    pub(crate) body: BodyFormat,
    pub(crate) default_ttl: Option<i32>,
    pub(crate) now_seconds: u64,
    /// The properties that queries see beside those of items.
    pub(crate) system: &'static dyn SystemProperties,
}

impl Reader {
    pub(crate) fn new(container: &Container, now_seconds: u64) -> Self {
        let ContainerSpec { body, default_ttl, .. } = container.spec;
        let system = &NoSystemProperties;
        Self { container: container.rid, body, default_ttl, now_seconds, system }
    }
}

/// The live item `id` of a logical partition.
pub(crate) fn fetch(
    view: &dyn View,
    partition: PartitionId,
    reader: Reader,
    logical: &LogicalKey,
    id: &[u8],
) -> Result<Option<StoredItem>, Error> {
    let Some(value) = view.get(partition, &logical.row(id))? else { return Ok(None) };
    let row = Row::read(value, id)?;
    Ok((!reader.is_expired(&row.head))
        .then(|| row.into_item(reader.container, RowKey::copy_of(id))))
}
