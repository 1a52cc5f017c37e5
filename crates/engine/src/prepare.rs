//! Checking operations and items before they reach the committer, off its thread.

use std::sync::Arc;

use bytes::Bytes;
use model::{PartitionKey, PartitionKeyComponent, Value, epk, order, partition_key};

use crate::catalog::{Container, ContainerSpec};
use crate::commit::{PreparedOp, PreparedPatch, PreparedUpdate};
use crate::index::{TERM_ORDER, Terms};
use crate::item::NoSystemProperties;
use crate::keys::{EpkForm, LogicalKey};
use crate::old_version::OldVersion;
use crate::ops::{ItemBody, ItemOp};
use crate::patch::{Patch, PatchCondition};
use crate::row_key;
use crate::{BodyFormat, Error, InvalidRequest, KeyMismatch, RowKey, StoredItem, ru, ttl};

/// An item that is ready to be stored.
#[derive(Clone, Debug)]
pub(crate) struct NewItem {
    pub(crate) id: RowKey,
    /// What is stored, in the form of the container.
    pub(crate) body: Bytes,
    /// The item's own time to live; 0 = none.
    pub(crate) ttl: i32,
    /// Per unique key of the container, its encoded values.
    pub(crate) unique: Vec<Vec<u8>>,
    /// What it holds in unique ordered indexes, under the policy of `index_version`.
    pub(crate) held: Vec<Vec<u8>>,
    pub(crate) indexed_values: u64,
    /// Its index entries under the policy of this version.
    pub(crate) terms: Terms,
    pub(crate) index_version: u64,
    /// What the version that it will probably replace has beside its row, if that was computed.
    pub(crate) replaces: Option<Arc<OldVersion>>,
}

/// A logical partition: its position on the hash line and its key values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogicalPartition {
    pub(crate) epk: model::Epk,
    pub(crate) logical_key: LogicalKey,
    pub(crate) key_values: Bytes,
}

impl LogicalPartition {
    /// The logical partition of a full key.
    pub(crate) fn of(container: &Container, key: &PartitionKey) -> Result<Self, Error> {
        let definition = &container.spec.partition_key;
        let system_key;
        let key = if definition.is_system && key.0.is_empty() {
            system_key = PartitionKey([PartitionKeyComponent::Undefined].into_iter().collect());
            &system_key
        } else {
            key
        };
        if key.0.len() != definition.paths.len() {
            return Err(KeyMismatch::Components.into());
        }
        let full = epk::effective_bytes(definition, key);
        let mut key_values = Vec::with_capacity(32);
        key.encode(&mut key_values);
        Ok(Self {
            epk: model::Epk::from_bytes(&full),
            logical_key: LogicalKey::new(
                EpkForm::of(definition),
                &full,
                partition_key::digest_of(&key_values),
            ),
            key_values: key_values.into(),
        })
    }
}

/// The logical partition that a request was about, for the list of the busiest.
#[derive(Clone, Debug)]
pub(crate) struct LogicalPartitionId {
    pub(crate) digest: u64,
    pub(crate) key_values: Bytes,
}

impl LogicalPartition {
    pub(crate) fn id(&self) -> LogicalPartitionId {
        LogicalPartitionId {
            digest: self.logical_key.short_digest(),
            key_values: self.key_values.clone(),
        }
    }

    /// As [`LogicalPartition::id`], without a copy.
    pub(crate) fn into_id(self) -> LogicalPartitionId {
        LogicalPartitionId { digest: self.logical_key.short_digest(), key_values: self.key_values }
    }
}

/// The logical partition of an item that is being written. A key that the caller names must be the
/// item's own: same logical partition, bit for bit (-0 is another key than 0).
pub(crate) fn logical_partition_of_item(
    container: &Container,
    named: Option<&LogicalPartition>,
    body: &ItemBody,
) -> Result<LogicalPartition, Error> {
    let definition = &container.spec.partition_key;
    let key = match container.spec.body {
        BodyFormat::Json => definition.extract(&body.value),
        BodyFormat::Bson => definition.extract_from_document(&body.value),
    };
    let key = key.map_err(InvalidRequest::PartitionKey)?;
    let own = LogicalPartition::of(container, &key)?;
    match named {
        Some(named) if named.key_values != own.key_values => Err(KeyMismatch::Item.into()),
        _ => Ok(own),
    }
}

/// Checks what can be checked of an operation without the store.
pub(crate) fn prepare_op(
    container: &Container,
    named: Option<&LogicalPartition>,
    op: ItemOp,
) -> Result<(LogicalPartition, PreparedOp), Error> {
    let form = container.spec.body;
    let addressed = |id: &RowKey| {
        check_addressed_id(form, id.as_bytes())?;
        named.cloned().ok_or_else(|| Error::from(InvalidRequest::PartitionKeyMissing))
    };
    Ok(match op {
        ItemOp::Create { body } => {
            let logical_partition = logical_partition_of_item(container, named, &body)?;
            (logical_partition, PreparedOp::Create(new_item(container, body)?))
        }
        ItemOp::Upsert { body, if_match } => {
            let logical_partition = logical_partition_of_item(container, named, &body)?;
            (logical_partition, PreparedOp::Upsert(new_item(container, body)?, if_match))
        }
        ItemOp::Replace { id, body, if_match } => {
            check_addressed_id(form, id.as_bytes())?;
            let logical_partition = logical_partition_of_item(container, named, &body)?;
            (
                logical_partition,
                PreparedOp::Replace { id, item: new_item(container, body)?, if_match },
            )
        }
        ItemOp::Patch { id, patch, if_match } => {
            let patch = PreparedPatch { id, patch, if_match, or_create: None };
            (addressed(&patch.id)?, PreparedOp::Patch(Box::new(patch)))
        }
        ItemOp::Merge { body, if_match, creates, check } => {
            let logical_partition = logical_partition_of_item(container, named, &body)?;
            let patch = Patch { check, ..Patch::laying_over(&body.value) };
            let item = new_item(container, body)?;
            let id = item.id.clone();
            let or_create = creates.then_some(item);
            (
                logical_partition,
                PreparedOp::Patch(Box::new(PreparedPatch { id, patch, if_match, or_create })),
            )
        }
        ItemOp::Update { id, update, if_match } => {
            let update = PreparedUpdate { id, update, if_match };
            (addressed(&update.id)?, PreparedOp::Update(Box::new(update)))
        }
        ItemOp::Delete { id, if_match } => {
            (addressed(&id)?, PreparedOp::Delete { id, if_match, old: None })
        }
        ItemOp::Read { id, if_none_match } => {
            (addressed(&id)?, PreparedOp::Read { id, if_none_match })
        }
    })
}

/// No item has an id above the length limit, and stores have limits of their own for keys.
pub(crate) fn check_addressed_id(form: BodyFormat, id: &[u8]) -> Result<(), Error> {
    if id.len() > form.row_key_bytes_max() {
        let shown: String = row_key::text_of(id).chars().take(64).collect();
        return Err(Error::item_not_found(shown.as_bytes()));
    }
    Ok(())
}

/// Checks id and ttl and computes what the committer needs.
pub(crate) fn new_item(container: &Container, body: ItemBody) -> Result<NewItem, Error> {
    let body = body.in_format(container.spec.body)?;
    let id = body.format.row_key(&body.value)?;
    let (terms, held) = container.indexes.goal.terms_and_held(&body.value)?;
    Ok(NewItem {
        ttl: match body.format {
            BodyFormat::Json => ttl::own_ttl(&body.value)?,
            // Whatever else a document has there is its own affair.
            BodyFormat::Bson => ttl::own_ttl(&body.value).unwrap_or_default(),
        },
        unique: unique_values(&container.spec, &body.value),
        held,
        indexed_values: ru::indexed_values(&body.value),
        terms,
        index_version: container.indexes.version,
        replaces: None,
        body: body.bytes,
        id,
    })
}

/// The new version that `patch` makes of `stored`, which must keep its id and key.
pub(crate) fn patched(
    container: &Container,
    stored: &StoredItem,
    patch: &Patch,
) -> Result<NewItem, Error> {
    if let Some(PatchCondition { plan, system }) = &patch.condition {
        let met =
            plan.matches(&stored.to_value(*system)?).map_err(InvalidRequest::PatchCondition)?;
        if !met {
            return Err(Error::PatchConditionFailed);
        }
    }
    let mut value = stored.to_value(&NoSystemProperties)?;
    patch.apply(&mut value).map_err(InvalidRequest::Patch)?;
    let body = ItemBody::of(container.spec.body, value)?;
    if let Some(check) = patch.check {
        check(&body.value).map_err(|unfit| Error::Unfit(unfit.0))?;
    }
    let logical_partition = logical_partition_of_item(container, None, &body)?;
    let item = new_item(container, body)?;
    if item.id != *stored.row_key() || logical_partition.key_values != stored.partition_key {
        return Err(InvalidRequest::PatchMovesItem.into());
    }
    Ok(item)
}

/// What an update of `stored` puts in its place, which must keep its row key and partition key.
pub(crate) fn updated(
    container: &Container,
    stored: &StoredItem,
    body: ItemBody,
) -> Result<NewItem, Error> {
    put_by_update(container, stored.row_key(), &stored.partition_key, body)
}

/// What an update puts under a row key of a logical partition.
pub(crate) fn put_by_update(
    container: &Container,
    id: &RowKey,
    key_values: &[u8],
    body: ItemBody,
) -> Result<NewItem, Error> {
    let logical_partition = logical_partition_of_item(container, None, &body)?;
    let item = new_item(container, body)?;
    if item.id != *id || logical_partition.key_values != *key_values {
        return Err(InvalidRequest::PatchMovesItem.into());
    }
    Ok(item)
}

/// Encoded values of each unique key. A missing value counts as null, and numbers are compared as
/// doubles, as the service does.
pub(crate) fn unique_values(spec: &ContainerSpec, item: &Value) -> Vec<Vec<u8>> {
    spec.unique_keys
        .iter()
        .map(|paths| {
            let mut out = Vec::with_capacity(32);
            for path in paths {
                let value = match path.get(item) {
                    None => Value::Null,
                    Some(v) => v.as_f64().map_or_else(|| v.clone(), Value::Double),
                };
                order::encode(TERM_ORDER, Some(&value), &mut out);
            }
            out
        })
        .collect()
}
