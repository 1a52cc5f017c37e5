//! Collections: containers of the engine whose items are BSON, and the items in them.

use std::sync::Arc;

use bytes::Bytes;
use engine::{
    Api, BodyFormat, Caller, Container, ContainerSpec, Database, Engine, Error, IndexingPolicy,
    RequestContext, Source, StoredItem,
};
use model::bson;
use model::order::TypeOrder;
use model::partition_key::SYSTEM_KEY_PATH;
use model::{
    Object, PartitionKey, PartitionKeyComponent, PartitionKeyDefinition, PartitionKeyKind,
    PartitionKeyVersion, PropertyPath, Value, json, limits,
};

use crate::client::Client;
use crate::command::Command;
use crate::errors::codes as code;
use crate::rights::Principal;
use crate::{MongoError, Service};

/// The policies of a collection, as the NoSQL API shows them.
const POLICIES: &str = r#"{"indexingPolicy":{"indexingMode":"none","automatic":false,"includedPaths":[],"excludedPaths":[]},"partitionKey":{"paths":["/_partitionKey"],"kind":"Hash","version":2,"systemKey":true},"uniqueKeyPolicy":{"uniqueKeys":[]},"conflictResolutionPolicy":{"mode":"LastWriterWins","conflictResolutionPath":"/_ts","conflictResolutionProcedure":""},"geospatialConfig":{"type":"Geography"}}"#;

/// The key of the one logical partition of a collection that is not sharded.
pub(crate) fn whole() -> PartitionKey {
    PartitionKey([PartitionKeyComponent::Undefined].into_iter().collect())
}

impl Service {
    /// A collection, if there is one.
    pub(crate) fn collection(&self, database: &str, name: &str) -> Option<Arc<Container>> {
        let catalog = self.engine.catalog();
        let database = catalog.database(database)?;
        catalog.container(database.rid, name).cloned()
    }

    /// A collection to write to, which is made if there is none.
    pub(crate) async fn collection_to_write(
        &self,
        ctx: &RequestContext,
        database: &str,
        name: &str,
    ) -> Result<Arc<Container>, MongoError> {
        loop {
            if let Some(container) = self.collection(database, name) {
                check_writable(&container)?;
                return Ok(container);
            }
            match self.create_collection(ctx, database, name).await {
                // Another command was faster.
                Ok(_) | Err(Error::AlreadyExists { .. } | Error::OwnerNotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Makes a collection, and its database if there is none.
    pub(crate) async fn create_collection(
        &self,
        ctx: &RequestContext,
        database: &str,
        name: &str,
    ) -> Result<Arc<Container>, Error> {
        let database = self.database_to_write(ctx, database).await?;
        self.engine.create_container(ctx, database.rid, spec(name)?, None).await
    }

    async fn database_to_write(
        &self,
        ctx: &RequestContext,
        name: &str,
    ) -> Result<Arc<Database>, Error> {
        if let Some(database) = self.engine.catalog().database(name) {
            return Ok(Arc::clone(database));
        }
        match self.engine.create_database(ctx, name, None).await {
            Err(Error::AlreadyExists { .. }) => {
                let made = self.engine.catalog().database(name).cloned();
                let kind = engine::ResourceKind::Database;
                made.ok_or_else(|| Error::OwnerNotFound { kind, id: name.to_owned() })
            }
            made => made,
        }
    }

    /// The context of what a command asks of the engine.
    pub(crate) fn context(
        &self,
        client: &Client,
        command: &Command,
    ) -> Result<RequestContext, MongoError> {
        let caller = match &client.principal {
            Some(Principal::User { user, database }) => {
                Caller::Grantee(format!("MongoDB user {database}.{user}").into())
            }
            Some(Principal::Account { .. }) | None => Caller::KeyHolder,
        };
        let activity = format!("mongo-{}", client.id);
        let mut ctx = RequestContext::new(caller, Source::Mongo, activity);
        if let Some(millis) = command.natural("maxTimeMS")?.filter(|millis| *millis > 0) {
            let now = self.engine.components().clock.monotonic();
            ctx.deadline = now.checked_add(std::time::Duration::from_millis(millis));
        }
        Ok(ctx)
    }

    /// Whether a command has had its time.
    pub(crate) fn check_time(&self, ctx: &RequestContext) -> Result<(), MongoError> {
        let now = self.engine.components().clock.monotonic();
        match ctx.deadline.is_some_and(|deadline| now >= deadline) {
            true => Err(MongoError::new(code::MAX_TIME_EXPIRED, "operation exceeded time limit")),
            false => Ok(()),
        }
    }
}

/// Refuses to write to containers of other APIs, whose items have rules of their own.
pub(crate) fn check_writable(container: &Container) -> Result<(), MongoError> {
    match container.spec.body {
        BodyFormat::Bson => Ok(()),
        BodyFormat::Json => Err(MongoError::new(
            code::COMMAND_NOT_SUPPORTED,
            "a container that another API made can only be read by this one",
        )),
    }
}

/// A new collection, which is one logical partition.
fn spec(name: &str) -> Result<ContainerSpec, Error> {
    let broken = |what: &str| Error::Internal(format!("the {what} of collections can't be read"));
    let path = PropertyPath::parse(SYSTEM_KEY_PATH).map_err(|_| broken("key"))?;
    let policies = json::parse(POLICIES.as_bytes(), limits::ITEM_DEPTH_MAX);
    Ok(ContainerSpec {
        id: name.to_owned(),
        api: Api::Mongo,
        order: TypeOrder::Bson,
        body: BodyFormat::Bson,
        partition_key: PartitionKeyDefinition {
            paths: vec![path],
            kind: PartitionKeyKind::Hash,
            version: PartitionKeyVersion::V2,
            is_system: true,
        },
        unique_keys: Vec::new(),
        default_ttl: None,
        versions_minutes: 0,
        indexing: IndexingPolicy::none(),
        policies: policies.map_err(|_| broken("policies"))?.value,
    })
}

/// The bytes of a stored document. Items of other APIs get an `_id` from their `id`.
pub(crate) fn document_of(item: &StoredItem) -> Result<Bytes, MongoError> {
    match item.format() {
        BodyFormat::Bson => Ok(item.body().clone()),
        BodyFormat::Json => {
            let parsed = json::parse(item.body(), limits::ITEM_DEPTH_MAX)
                .map_err(|error| internal(&error))?;
            let Value::Object(mut object) = parsed.value else {
                return Err(internal(&"an item is no object"));
            };
            let mut document = Object::new();
            let id = object.remove("_id").or_else(|| object.get("id").cloned());
            document.insert("_id", id.unwrap_or(Value::Null));
            for (name, value) in object {
                document.insert(name, value);
            }
            to_bytes(&document)
        }
    }
}

/// A document as bytes.
pub(crate) fn to_bytes(document: &Object) -> Result<Bytes, MongoError> {
    let mut out = Vec::new();
    match bson::write(document, &mut out) {
        Ok(()) => Ok(out.into()),
        Err(error) => Err(MongoError::new(code::INVALID_BSON, error.to_string())),
    }
}

/// A stored document as a tree.
pub(crate) fn tree_of(document: &[u8]) -> Result<Value, MongoError> {
    bson::read(document).map(Value::Object).map_err(|error| internal(&error))
}

fn internal(error: &dyn std::fmt::Display) -> MongoError {
    MongoError::new(code::INTERNAL_ERROR, format!("a stored document can't be read: {error}"))
}

/// Items and bytes of a collection.
pub(crate) fn size_of(engine: &Engine, container: &Container) -> (u64, u64) {
    let ranges = engine.statistics(container).into_iter();
    ranges.fold((0, 0), |(items, bytes), (_, more, more_bytes)| (items + more, bytes + more_bytes))
}
