//! Containers: create, read, replace, delete, list, query.

use std::sync::Arc;

use bytes::Bytes;
use engine::catalog::{NewSubject, OpaqueKind, OpaqueOwner, resource_etag};
use engine::{Catalog, Container, ContainerSpec, Engine, PartitionRange, RangeId, RequestContext};
use model::{DatabaseRid, ErrorKind, Lsn, Object, Value, epk};

use crate::address::DatabaseAddress;
use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::policy::ClientVersion;
use crate::quota::Usage;
use crate::reply::{Reply, ReplyHeader};
use crate::request::{Request, Verb};
use crate::resource_query::{Resource, ResourceFeed};
use crate::{Service, offers, partition_key_header, policy, quota, resolve, resource, scope};

/// `/dbs/{db}/colls`
pub(crate) async fn feed(
    service: &Service,
    ctx: &mut RequestContext,
    address: &DatabaseAddress,
    request: &Request,
) -> Result<Reply, ApiError> {
    let catalog = service.engine().catalog();
    let database = resolve::database(&catalog, address, ErrorKind::OwnerNotFound)?;
    match request.verb {
        Verb::Post if !request.is_query() => {
            ctx.served.charge += resource::WRITE_CHARGE;
            let body = resource::parse_body(request)?;
            let spec = new_spec(&catalog, database.rid, &body, request.client_version())?;
            let new = match spec.partition_key.is_system {
                true => NewSubject::Keyless,
                false => NewSubject::Keyed,
            };
            let engine = service.engine();
            let throughput = offers::requested_throughput(engine, new, request)?;
            // Boxed, because hardly any request needs the memory of this future.
            let created = engine.create_container(ctx, database.rid, spec, throughput);
            let container = Box::pin(created).await?;
            note_positions(ctx, &container);
            let value = to_value(&container, request);
            Ok(Reply::created(resource::body(&value)).etag(etag(&container)).about(container))
        }
        Verb::Get | Verb::Post => {
            ctx.served.charge += resource::LIST_CHARGE;
            let resources = catalog.containers(database.rid).map(|container| Resource {
                position: u64::from(container.rid.number),
                value: Box::new(|| to_value(container, request)),
                alias: None,
            });
            let parent_rid = database.rid.to_string();
            ResourceFeed { parent_rid, key: "DocumentCollections", resources }
                .answer(service, request)
                .await
        }
        Verb::Head | Verb::Put | Verb::Patch | Verb::Delete | Verb::Other => {
            Err(ApiError::method_not_allowed())
        }
    }
}

/// The specification of a new container of a database.
pub(crate) fn new_spec(
    catalog: &Catalog,
    database: DatabaseRid,
    body: &Object,
    version: ClientVersion,
) -> Result<ContainerSpec, ApiError> {
    let owner = OpaqueOwner::Database(database);
    let has_key = |id: &str| catalog.opaque(owner, OpaqueKind::EncryptionKey, id).is_some();
    policy::new_container(body, version, &has_key)
}

/// `/dbs/{db}/colls/{coll}`
pub(crate) async fn container(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    request: &Request,
) -> Result<Reply, ApiError> {
    match request.verb {
        Verb::Get => {
            ctx.served.charge += resource::READ_CHARGE;
            note_positions(ctx, container);
            read(service.engine(), container, request)
        }
        Verb::Put => {
            ctx.served.charge += resource::WRITE_CHARGE;
            let body = resource::parse_body(request)?;
            let spec = policy::replacement(container, &body, request.client_version())?;
            let engine = service.engine();
            let replaced = engine.replace_container(ctx, container.rid, spec, request.if_match());
            let replaced = Box::pin(replaced).await?;
            note_positions(ctx, &replaced);
            let value = to_value(&replaced, request);
            Ok(Reply::ok(resource::body(&value)).etag(etag(&replaced)))
        }
        Verb::Delete => {
            ctx.served.charge += resource::WRITE_CHARGE;
            service.engine().delete_container(ctx, container.rid, request.if_match()).await?;
            Ok(Reply::no_content())
        }
        Verb::Head => {
            ctx.served.charge += resource::READ_CHARGE;
            ctx.served.ranges = positions(container, request)?;
            Ok(Reply::ok(Bytes::new()))
        }
        Verb::Post | Verb::Patch | Verb::Other => Err(ApiError::method_not_allowed()),
    }
}

/// The position of the range that the request names, or else of all ranges: clients in Direct mode
/// ask for it to learn how far a range is.
fn positions(container: &Container, request: &Request) -> Result<Vec<(RangeId, Lsn)>, ApiError> {
    let routing = container.routing();
    let of = |range: &PartitionRange| vec![(range.id, range.lsn())];
    if let Some(id) = scope::range_id(request)? {
        return Ok(of(routing.by_id(id).ok_or(engine::Error::RangeGone)?));
    }
    let definition = &container.spec.partition_key;
    match partition_key_header::scope_key(container, request)? {
        Some(key) if key.0.len() == definition.paths.len() => {
            Ok(of(routing.locate(&epk::effective_partition_key(definition, &key))))
        }
        Some(_) | None => {
            Ok(routing.ranges().iter().map(|range| (range.id, range.lsn())).collect())
        }
    }
}

fn read(engine: &Engine, container: &Container, request: &Request) -> Result<Reply, ApiError> {
    let mut value = to_value(container, request);
    if request.flag(HeaderName::PopulatePartitionStatistics)
        && let Some(object) = value.as_object_mut()
    {
        object.insert("statistics", statistics(engine, container));
    }
    let mut reply = resource::read_reply(request, &value, etag(container))?;
    if request.flag(HeaderName::PopulateQuotaInfo) {
        reply = reply
            .header(ReplyHeader::ResourceQuota, quota::quota_text())
            .header(ReplyHeader::ResourceUsage, Usage::of(container).to_text());
        let progress = engine.index_progress(container).map_err(ApiError::from)?;
        reply = reply.header(ReplyHeader::IndexTransformationProgress, progress.to_string());
    }
    Ok(reply)
}

/// Adds the session token to a container's reply: the position of each of its ranges.
fn note_positions(ctx: &mut RequestContext, container: &Container) {
    let routing = container.routing();
    ctx.served.ranges = routing.ranges().iter().map(|range| (range.id, range.lsn())).collect();
}

fn statistics(engine: &Engine, container: &Container) -> Value {
    let of_range = |(range, items, bytes): (RangeId, u64, u64)| {
        let mut out = Object::with_capacity(5);
        out.insert("id", range.to_string().into());
        out.insert("sizeInKB", resource::int(quota::kilobytes(bytes)));
        out.insert("documentCount", resource::int(items));
        out.insert("sampledDistinctPartitionKeyCount", resource::int(0));
        out.insert("partitionKeys", Value::Array(Vec::new()));
        Value::from(out)
    };
    Value::Array(engine.statistics(container).into_iter().map(of_range).collect())
}

fn etag(container: &Container) -> String {
    resource_etag(container.rid.number, container.version)
}

fn to_value(container: &Container, request: &Request) -> Value {
    let mut out = described(container);
    // Clients that do not know containers without a partition key see no key definition for them.
    let is_old = request.client_version() == ClientVersion::BeforeKeys;
    if container.spec.partition_key.is_system && is_old {
        out.remove("partitionKey");
    }
    out.into()
}

/// A container's description in the form that clients read.
pub(crate) fn described(container: &Container) -> Object {
    let (database, rid) = (container.rid.database, container.rid.to_string());
    let mut out = Object::with_capacity(24);
    out.insert("id", container.spec.id.as_str().into());
    if let Some(policies) = container.spec.policies.as_object() {
        for (name, value) in policies.iter() {
            out.insert(name, value.clone());
        }
    }
    if let Some(ttl) = container.spec.default_ttl {
        out.insert("defaultTtl", Value::Int64(i64::from(ttl)));
    }
    out.insert("_self", format!("dbs/{database}/colls/{rid}/").into());
    out.insert("_rid", rid.into());
    out.insert("_ts", resource::int(container.ts));
    out.insert("_etag", etag(container).into());
    for kind in ["docs", "sprocs", "triggers", "udfs", "conflicts"] {
        out.insert(format!("_{kind}"), format!("{kind}/").into());
    }
    out
}
