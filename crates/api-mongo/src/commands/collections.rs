//! The commands about databases and collections.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::catalog::OfferTarget;
use engine::{BodyFormat, Container, Error};
use model::{Object, Value};

use super::find::{FIRST_BATCH, Opening, filtered, not_supported};
use super::indexes::{ID_INDEX, id_index};
use super::{Access, write_concern};
use crate::client::Client;
use crate::collections::{size_of, to_bytes};
use crate::command::{Command, is_true};
use crate::document::{count, document, uuid};
use crate::errors::codes as code;
use crate::find::Outcome;
use crate::reply::Reply;
use crate::rights::ADMIN;
use crate::{MongoError, Service};

/// Options of `create` that would make another kind of collection.
const OTHER_KINDS: &[&str] = &[
    "capped",
    "viewOn",
    "validator",
    "timeseries",
    "clusteredIndex",
    "changeStreamPreAndPostImages",
    "encryptedFields",
    "expireAfterSeconds",
];

/// `create`.
pub(crate) async fn create(
    service: &Service,
    client: &Client,
    command: &Command,
) -> Result<Object, MongoError> {
    let name = command.collection()?;
    for option in OTHER_KINDS {
        let is_asked = command.get(option).is_some_and(|value| {
            is_true(value) && value.as_object().is_none_or(|object| !object.is_empty())
        });
        if is_asked {
            return Err(not_supported(option));
        }
    }
    super::find::check_collation(command.object("collation"))?;
    let concern = write_concern::check(client, command)?;
    let ctx = service.context(client, command)?;
    match service.create_collection(&ctx, &command.database, name).await {
        Ok(_) => {
            let mut reply = Object::new();
            write_concern::report(concern, &mut reply);
            Ok(reply)
        }
        Err(Error::AlreadyExists { .. }) => Err(MongoError::new(
            code::NAMESPACE_EXISTS,
            format!("Collection {}.{name} already exists.", command.database),
        )),
        Err(error) => Err(error.into()),
    }
}

/// `drop`.
pub(crate) async fn drop(
    service: &Service,
    client: &Client,
    command: &Command,
) -> Result<Object, MongoError> {
    let namespace = command.namespace()?;
    let concern = write_concern::check(client, command)?;
    let ctx = service.context(client, command)?;
    let mut reply = Object::new();
    if let Some(container) = service.collection(&command.database, command.collection()?) {
        match service.engine.delete_container(&ctx, container.rid, None).await {
            Ok(()) => {
                let indexes = container.spec.indexing.ordered.len() as u64 + 1;
                reply = document! { "nIndexesWas" => count(indexes), "ns" => namespace };
            }
            // Another command was faster.
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    write_concern::report(concern, &mut reply);
    Ok(reply)
}

/// `dropDatabase`.
pub(crate) async fn drop_database(
    service: &Service,
    client: &Client,
    command: &Command,
) -> Result<Object, MongoError> {
    let name = command.database.as_str();
    if matches!(name, ADMIN | "config" | "local") {
        return Err(MongoError::new(
            code::ILLEGAL_OPERATION,
            format!("Dropping the '{name}' database is prohibited."),
        ));
    }
    let concern = write_concern::check(client, command)?;
    let ctx = service.context(client, command)?;
    let database = service.engine.catalog().database(name).cloned();
    if let Some(database) = database {
        match service.engine.delete_database(&ctx, database.rid, None).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut reply = document! { "dropped" => name };
    write_concern::report(concern, &mut reply);
    Ok(reply)
}

/// `listDatabases`.
pub(crate) fn list_databases(
    service: &Service,
    client: &Client,
    command: &Command,
) -> Result<Object, MongoError> {
    let rights = service.rights(client);
    let catalog = service.engine.catalog();
    let mut databases = Vec::new();
    for database in catalog.databases() {
        if !rights.grant(Access::Read, &database.id) {
            continue;
        }
        let sizes = catalog.containers(database.rid).map(|one| size_of(&service.engine, one));
        let (items, bytes) = sizes.fold((0, 0), |(n, b), (more, size)| (n + more, b + size));
        databases.push(document! {
            "name" => database.id.as_str(),
            "sizeOnDisk" => i64::try_from(bytes).unwrap_or(i64::MAX),
            "empty" => items == 0,
        });
    }
    let name = |database: &Object| database.get("name").and_then(Value::as_str).map(str::to_owned);
    databases.sort_by_key(name);
    let databases = filtered(service, databases, command.object("filter"))?;
    if command.flag("nameOnly") == Some(true) {
        let names = databases.iter().filter_map(name).map(|name| document! { "name" => name });
        return Ok(document! { "databases" => names.collect::<Vec<_>>() });
    }
    let size = |database: &Object| database.get("sizeOnDisk").and_then(Value::as_i64);
    let total = databases.iter().filter_map(size).sum::<i64>();
    Ok(document! {
        "databases" => databases,
        "totalSize" => total,
        "totalSizeMb" => total >> 20,
    })
}

/// `listCollections`.
pub(crate) async fn list(
    service: &Service,
    client: &mut Client,
    command: Command,
) -> Result<Reply, MongoError> {
    let is_short = command.flag("nameOnly") == Some(true);
    let collections = service.collections(&command.database).into_iter().map(|container| {
        let mut described = document! {
            "name" => container.spec.id.as_str(),
            "type" => "collection",
        };
        if !is_short {
            let info = document! {
                "readOnly" => container.spec.body != BodyFormat::Bson,
                "uuid" => id_of(&container),
            };
            described.insert("options", Object::new().into());
            described.insert("info", info.into());
            described.insert("idIndex", id_index().into());
        }
        described
    });
    let collections = filtered(service, collections.collect(), command.object("filter"))?;
    let namespace = format!("{}.$cmd.listCollections", command.database);
    listed(service, client, &command, collections, namespace).await
}

/// The reply with documents that the server made itself.
pub(crate) async fn listed(
    service: &Service,
    client: &mut Client,
    command: &Command,
    documents: Vec<Object>,
    namespace: String,
) -> Result<Reply, MongoError> {
    let size = command.object("cursor").and_then(|cursor| cursor.get("batchSize"));
    let size =
        size.and_then(crate::command::whole_number).and_then(|size| u64::try_from(size).ok());
    let documents = documents.iter().map(to_bytes).collect::<Result<VecDeque<_>, _>>()?;
    let wanted = size.unwrap_or(FIRST_BATCH);
    let opening = Opening { namespace, wanted, is_single: false, command };
    let mut ctx = service.context(client, command)?;
    opening.reply(service, client, &mut ctx, Outcome::Documents(documents)).await
}

/// The id of a collection, which no other has.
fn id_of(container: &Container) -> Value {
    let text = format!("{}-{}", container.rid, container.ts);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    uuid(digest.as_ref().first_chunk().copied().unwrap_or_default())
}

impl Service {
    /// The collections of a database, by name.
    fn collections(&self, database: &str) -> Vec<Arc<Container>> {
        let catalog = self.engine.catalog();
        let Some(database) = catalog.database(database) else { return Vec::new() };
        let mut collections = catalog.containers(database.rid).cloned().collect::<Vec<_>>();
        collections.sort_by(|a, b| a.spec.id.cmp(&b.spec.id));
        collections
    }
}

fn scale_of(command: &Command) -> Result<u64, MongoError> {
    match command.integer("scale")?.unwrap_or(1) {
        scale @ 1.. => Ok(scale.unsigned_abs()),
        _ => Err(MongoError::new(code::BAD_VALUE, "scale has to be a number greater than 0")),
    }
}

/// `collStats`.
pub(crate) async fn stats(service: &Service, command: &Command) -> Result<Object, MongoError> {
    let scale = scale_of(command)?;
    let container = service.collection(&command.database, command.collection()?);
    let (items, bytes) =
        container.as_ref().map_or((0, 0), |container| size_of(&service.engine, container));
    let mut sizes = Object::new();
    let mut index_bytes = 0;
    if let Some(container) = &container {
        sizes.insert(ID_INDEX, Value::Int32(0));
        for index in service.engine.ordered_index_stats(container).await? {
            index_bytes += index.bytes / scale;
            sizes.insert(index.name, count(index.bytes / scale));
        }
    }
    let is_sharded = container.as_ref().is_some_and(|it| !it.spec.partition_key.is_system);
    let mut reply = document! {
        "ns" => command.namespace()?,
        "sharded" => is_sharded,
        "count" => count(items),
        "size" => count(bytes / scale),
        "storageSize" => count(bytes / scale),
        "totalSize" => count(bytes / scale + index_bytes),
        "nindexes" => count(sizes.len() as u64),
        "indexSizes" => sizes,
        "totalIndexSize" => count(index_bytes),
        "scaleFactor" => count(scale),
        "capped" => false,
    };
    if let Some(average) = bytes.checked_div(items) {
        reply.insert("avgObjSize", count(average));
    }
    if let Some(container) = container {
        let offer =
            service.engine.catalog().offer_of(OfferTarget::Container(container.rid)).cloned();
        if let Some(offer) = offer.filter(|offer| offer.was_requested) {
            let throughput = i64::from(offer.throughput.peak());
            reply.insert("planisphere", document! { "throughput" => throughput }.into());
        }
    }
    Ok(reply)
}

/// `dbStats`.
pub(crate) fn database_stats(service: &Service, command: &Command) -> Result<Object, MongoError> {
    let scale = scale_of(command)?;
    let collections = service.collections(&command.database);
    let sizes = collections.iter().map(|container| size_of(&service.engine, container));
    let (items, bytes) = sizes.fold((0, 0), |(n, b), (more, size)| (n + more, b + size));
    Ok(document! {
        "db" => command.database.as_str(),
        "collections" => count(collections.len() as u64),
        "views" => 0,
        "objects" => count(items),
        "avgObjSize" => if items > 0 { bytes as f64 / items as f64 } else { 0.0 },
        "dataSize" => (bytes / scale) as f64,
        "storageSize" => (bytes / scale) as f64,
        "indexes" => count(collections.len() as u64),
        "indexSize" => 0.0,
        "totalSize" => (bytes / scale) as f64,
        "scaleFactor" => count(scale),
    })
}
