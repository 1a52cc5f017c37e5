//! The physical partitions of a container as ranges of the hash line, in the form that clients
//! cache.
//!
//! Clients read the feed until it answers 304 to the etag of the previous page. They keep the
//! ranges until a response says that a range is gone. The etag names the container and the version
//! of its routing map, so that it does not match a container created again under the same name. A
//! page is always the whole map: a request with an older etag gets all live ranges, which clients
//! merge by id and by `parents`.

use engine::catalog::resource_etag;
use engine::{Container, PartitionRange, RequestContext, RoutingMap};
use model::rid::{ChildKind, child_rid};
use model::{Object, Value};

use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::reply::{Reply, Status};
use crate::request::{Request, Verb};
use crate::resource;
use crate::resource_query::feed_body;

/// `.../pkranges`
pub(crate) fn feed(
    ctx: &mut RequestContext,
    container: &Container,
    request: &Request,
) -> Result<Reply, ApiError> {
    if request.verb != Verb::Get {
        return Err(ApiError::method_not_allowed());
    }
    ctx.served.charge += resource::READ_CHARGE;
    let routing = container.routing();
    let etag = resource_etag(container.rid.number, routing.version());
    let known = request.header(HeaderName::IfNoneMatch);
    if known.is_some_and(|known| known.trim_matches('"') == etag.trim_matches('"')) {
        return Ok(Reply::new(Status::NOT_MODIFIED, Vec::new()).etag(etag));
    }
    let ranges: Vec<Value> =
        routing.ranges().iter().map(|range| to_value(container, &routing, range)).collect();
    let body = feed_body(&container.rid.to_string(), "PartitionKeyRanges", &ranges);
    Ok(Reply::ok(body).item_count(ranges.len()).etag(etag))
}

fn to_value(container: &Container, routing: &RoutingMap, range: &PartitionRange) -> Value {
    let id = range.id.to_string();
    // In the layout that clients know, numbers below 2 are reserved for the container itself.
    let rid = child_rid(container.rid, ChildKind::PartitionKeyRange, u64::from(range.id.0) + 2);
    let link = format!("dbs/{}/colls/{}/pkranges/{rid}/", container.rid.database, container.rid);
    let parents = range.parents.iter().map(|p| Value::from(p.to_string())).collect();
    // There are so few ranges that a double holds their number exactly.
    let fraction = 1.0 / f64::from(u32::try_from(routing.ranges().len()).unwrap_or(u32::MAX));
    let mut out = Object::with_capacity(14);
    out.insert("_rid", rid.into());
    out.insert("id", id.into());
    out.insert("_etag", format!("\"{:08x}-{:012x}\"", range.id.0, routing.version()).into());
    out.insert("minInclusive", range.epk.min.to_hex().into());
    out.insert("maxExclusive", range.epk.max.to_hex().into());
    out.insert("ridPrefix", resource::int(u64::from(range.id.0)));
    out.insert("_self", link.into());
    out.insert("throughputFraction", fraction.into());
    out.insert("status", "online".into());
    out.insert("parents", Value::Array(parents));
    out.insert("ownedArchivalPKRangeIds", Value::Array(Vec::new()));
    out.insert("_ts", resource::int(container.ts));
    out.insert("lsn", resource::int(routing.version()));
    out.into()
}
