//! Tables and entities in the engine: containers of one database, and their items.

use bytes::Bytes;
use engine::item::{ItemVersion, SystemProperties};
use engine::listing;
use engine::ops::ItemBody;
use engine::patch::Unfit;
use engine::{Api, BodyFormat, Container, ContainerSpec, IndexingPolicy, StoredItem};
use lang::odata::TIMESTAMP;
use model::json::FieldMask;
use model::order::TypeOrder;
use model::{
    Date, Object, PartitionKey, PartitionKeyComponent, PartitionKeyDefinition, PartitionKeyKind,
    PartitionKeyVersion, PropertyPath, Value, json, limits,
};

use crate::Flavour;
use crate::edm::{Entity, EntityError, Rules};
use crate::errors::TableError;

/// The database that holds the tables of the default account.
pub(crate) const DATABASE: &str = "TablesDB";

/// The path of a table's partition key.
const KEY_PATH: &str = "/'$pk'";

/// The policies of a table that the NoSQL API shows.
const POLICIES: &str = r#"{"indexingPolicy":{"indexingMode":"consistent","automatic":true,"includedPaths":[],"excludedPaths":[{"path":"/*"},{"path":"/\"_etag\"/?"}],"compositeIndexes":[[{"path":"/\"$pk\"","order":"ascending"},{"path":"/id","order":"ascending"}]]},"partitionKey":{"paths":["/'$pk'"],"kind":"Hash","version":2},"uniqueKeyPolicy":{"uniqueKeys":[]},"conflictResolutionPolicy":{"mode":"LastWriterWins","conflictResolutionPath":"/_ts","conflictResolutionProcedure":""},"geospatialConfig":{"type":"Geography"}}"#;

/// The container specification of a new table. Entities are found by their keys, so nothing else is
/// indexed unless a client asks for it through the NoSQL API.
pub(crate) fn table_spec(name: &str) -> Result<ContainerSpec, TableError> {
    let broken = || TableError::internal("the description of tables can't be read");
    let path = PropertyPath::parse(KEY_PATH).map_err(|_| broken())?;
    let partition_key = PartitionKeyDefinition {
        paths: vec![path],
        kind: PartitionKeyKind::Hash,
        version: PartitionKeyVersion::V2,
        is_system: false,
    };
    let composites = listing::key_order(&partition_key).into_iter().collect();
    let policies = json::parse(POLICIES.as_bytes(), limits::ITEM_DEPTH_MAX);
    Ok(ContainerSpec {
        id: name.to_owned(),
        api: Api::Table,
        order: TypeOrder::NoSql,
        body: BodyFormat::Json,
        partition_key,
        unique_keys: Vec::new(),
        default_ttl: None,
        versions_minutes: 0,
        indexing: IndexingPolicy {
            is_on: true,
            is_lean: true,
            composites,
            ..IndexingPolicy::none()
        },
        policies: policies.map_err(|_| broken())?.value,
    })
}

/// Whether a container is a table: its partition key path is that of entities.
pub(crate) fn is_table(container: &Container) -> bool {
    let definition = &container.spec.partition_key;
    let [path] = definition.paths.as_slice() else { return false };
    let segments = path.segments();
    segments.len() == 1
        && segments.iter().all(|name| name == model::edm::PARTITION_KEY_FIELD)
        && definition.kind == PartitionKeyKind::Hash
}

/// Whether the container has an index in key order.
pub(crate) fn has_key_order(container: &Container) -> bool {
    let indexing = &container.spec.indexing;
    let order = listing::key_order(&container.spec.partition_key);
    indexing.is_on && order.is_none_or(|order| indexing.composites.contains(&order))
}

/// The container's specification with the index in key order added.
pub(crate) fn with_key_order(container: &Container) -> ContainerSpec {
    let mut spec = container.spec.clone();
    spec.indexing.is_on = true;
    let order = listing::key_order(&spec.partition_key);
    spec.indexing.composites.extend(order.filter(|o| !spec.indexing.composites.contains(o)));
    spec
}

/// The partition key of an entity.
pub(crate) fn partition_key(key: &str) -> PartitionKey {
    PartitionKey([PartitionKeyComponent::String(key.to_owned())].into_iter().collect())
}

/// The rules for entities in a flavour.
pub(crate) fn rules(flavour: Flavour) -> &'static Rules {
    match flavour {
        Flavour::Storage => &Rules::STORAGE,
        Flavour::Cosmos => &Rules::COSMOS,
    }
}

/// Converts an entity to an item.
pub(crate) fn item_of(entity: &Entity) -> Result<ItemBody, TableError> {
    let mut text = Vec::with_capacity(512);
    entity.write_item(&mut text);
    ItemBody::from_json(Bytes::from(text)).map_err(|_| EntityError::EntityTooLarge.into())
}

/// Converts an item to an entity.
pub(crate) fn entity_of(item: &StoredItem) -> Result<Entity, TableError> {
    let parsed = json::parse(item.body(), limits::ITEM_DEPTH_MAX);
    let value = parsed.map_err(|_| TableError::internal("an item can't be read"))?.value;
    let entity = Entity::from_item(&value, date_of(item.ticks()));
    entity.ok_or_else(|| TableError::internal("an item is no entity"))
}

/// A check of the entity that results from a merge.
pub(crate) fn check_of(flavour: Flavour) -> engine::patch::Check {
    fn check(item: &Value, rules: &Rules) -> Result<(), Unfit> {
        let now = date_of(0);
        match Entity::from_item(item, now).map(|entity| entity.check(rules)) {
            Some(Err(EntityError::TooManyProperties)) => Err(TOO_MANY),
            Some(Err(_)) => Err(TOO_LARGE),
            Some(Ok(())) | None => Ok(()),
        }
    }
    match flavour {
        Flavour::Storage => |item| check(item, &Rules::STORAGE),
        Flavour::Cosmos => |item| check(item, &Rules::COSMOS),
    }
}

const TOO_MANY: Unfit = Unfit(1);
const TOO_LARGE: Unfit = Unfit(2);

/// The error for a number that [`check_of`] returned.
pub(crate) fn table_error_of(rule: u16) -> EntityError {
    if Unfit(rule) == TOO_MANY {
        EntityError::TooManyProperties
    } else {
        EntityError::EntityTooLarge
    }
}

/// Shows the time of an entity's last change to filters.
#[derive(Debug)]
pub(crate) struct TableProperties;

impl SystemProperties for TableProperties {
    fn add(&self, version: &ItemVersion, field_mask: &FieldMask, part: &mut Object) {
        if field_mask.has_field(TIMESTAMP) {
            part.insert(TIMESTAMP, Value::Date(date_of(version.ticks())));
        }
    }

    fn write_item(&self, _: &ItemVersion, body: &[u8], out: &mut Vec<u8>) {
        // Entities are written by `edm`, from their items.
        out.extend_from_slice(body);
    }
}

const TICKS_PER_MILLI: u64 = 10_000;

/// The date of a number of 100 ns ticks since 1970.
pub(crate) fn date_of(ticks: u64) -> Date {
    Date {
        millis: i64::try_from(ticks / TICKS_PER_MILLI).unwrap_or(i64::MAX),
        // A remainder is less than its divisor.
        ticks: u16::try_from(ticks % TICKS_PER_MILLI).unwrap_or_default(),
    }
}

/// 100 ns ticks since 1970. Dates before 1970, which no version has, map to the largest number.
pub(crate) fn ticks_of(date: Date) -> u64 {
    let millis = u64::try_from(date.millis).ok();
    let ticks = millis.and_then(|millis| millis.checked_mul(TICKS_PER_MILLI));
    ticks.map_or(u64::MAX, |ticks| ticks.saturating_add(u64::from(date.ticks)))
}
