//! Offers: provisioned throughput, set by headers at creation and as a resource afterwards.

use std::sync::Arc;

use engine::catalog::{OfferTarget, resource_etag};
use engine::{Catalog, Engine, Offer, RequestContext, Throughput};
use hyper::Method;
use model::rid::OfferRid;
use model::{DatabaseRid, ErrorKind, Object, Value, json, limits};

use crate::errors::ApiError;
use crate::headers::name;
use crate::reply::Reply;
use crate::request::Request;
use crate::resource_query::{Resource, ResourceFeed};
use crate::{Service, resource};

/// Most throughput of a container without a partition key, which can't be divided.
const FIXED_MAX: u32 = limits::PARTITION_RU_MAX;
const GIGABYTE: u64 = 1 << 30;

/// The throughput that a request to create something asks for.
pub(crate) fn requested_throughput(request: &Request) -> Result<Option<Throughput>, ApiError> {
    let manual = request.header_lossy(&name::OFFER_THROUGHPUT);
    let autoscale = request.header_lossy(&name::AUTOPILOT_SETTINGS);
    match (manual, autoscale) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(ApiError::bad_request_errors(
            "Both manual and autoscale throughput are given. Please give only one.",
        )),
        (Some(text), None) => {
            let wanted = text.trim().parse().map_err(|_| out_of_range(limits::THROUGHPUT_MAX))?;
            manual_throughput(wanted, limits::THROUGHPUT_MIN).map(Some)
        }
        (None, Some(text)) => {
            let settings = json::parse(text.as_bytes(), 8).map(|parsed| parsed.value);
            let settings = settings.map_err(|_| invalid_autoscale())?;
            autoscale_throughput(&settings, limits::AUTOSCALE_MAX_MIN).map(Some)
        }
    }
}

/// Refuses what a container without a partition key can't have.
pub(crate) fn check_fixed(throughput: Option<Throughput>) -> Result<(), ApiError> {
    match throughput {
        Some(t) if t.peak() > FIXED_MAX => Err(out_of_range(FIXED_MAX)),
        _ => Ok(()),
    }
}

/// Refuses one more container in a database whose throughput is shared by as many as can be.
pub(crate) fn check_shared(catalog: &Catalog, database: DatabaseRid) -> Result<(), ApiError> {
    const MAX: usize = limits::SHARED_THROUGHPUT_CONTAINERS_MAX;
    if catalog.offer_of(OfferTarget::Database(database)).is_none() {
        return Ok(());
    }
    let has_own = |offer: &&Arc<Offer>| match offer.target {
        OfferTarget::Container(rid) => rid.database == database,
        OfferTarget::Database(_) => false,
    };
    let own = catalog.offers().filter(has_own).count();
    match catalog.containers(database).count().saturating_sub(own) < MAX {
        true => Ok(()),
        false => Err(ApiError::bad_request_errors(format!(
            "The number of containers that share the throughput of the database has reached the \
             maximum of {MAX}. Create the container with throughput of its own."
        ))),
    }
}

/// `/offers`
pub(crate) fn feed(
    service: &Service,
    ctx: &mut RequestContext,
    request: &Request,
) -> Result<Reply, ApiError> {
    let is_feed = request.method == Method::GET;
    let is_query = request.method == Method::POST && request.is_query();
    if !is_feed && !is_query {
        return Err(ApiError::method_not_allowed());
    }
    ctx.served.charge += resource::LIST_CHARGE;
    let catalog = service.engine().catalog();
    let resources = catalog.offers().map(|offer| Resource {
        position: u64::from(offer.rid.0),
        value: Box::new(|| to_value(offer)),
        alias: Some(Box::new(|| with_short_link(offer))),
    });
    ResourceFeed { parent_rid: String::new(), key: "Offers", resources }.answer(request)
}

/// `/offers/{id}`
pub(crate) async fn offer(
    service: &Service,
    ctx: &mut RequestContext,
    id: &str,
    request: &Request,
) -> Result<Reply, ApiError> {
    let catalog = service.engine().catalog();
    let offer = OfferRid::parse(id).and_then(|rid| catalog.offer(rid));
    let offer = offer.ok_or_else(|| ApiError::missing(ErrorKind::NotFound))?;
    match request.method {
        Method::GET => {
            ctx.served.charge += resource::READ_CHARGE;
            let minimum = minimum(service.engine(), &catalog, offer, offer.throughput);
            let reply = resource::read_reply(request, &to_value(offer), &etag(offer))?;
            let reply = reply.header(name::MIN_THROUGHPUT, &minimum.to_string());
            Ok(told_if_pending(reply, service.engine(), offer))
        }
        Method::PUT => {
            ctx.served.charge += resource::WRITE_CHARGE;
            replace(service.engine(), &catalog, offer, request).await
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

async fn replace(
    engine: &Engine,
    catalog: &Catalog,
    offer: &Offer,
    request: &Request,
) -> Result<Reply, ApiError> {
    let body = resource::parse_body(request)?;
    let rid = offer.rid.to_string();
    if body.get("_rid").is_some_and(|given| given.as_str() != Some(&rid)) {
        return Err(ApiError::bad_request_errors("The '_rid' of the offer does not match its id."));
    }
    if let Some(condition) = request.if_match()
        && !matches!(condition, engine::ops::EtagCondition::Any)
        && condition != engine::ops::EtagCondition::parse(&etag(offer))
    {
        return Err(engine::Error::PreconditionFailed.into());
    }
    let content = body.get("content").ok_or_else(|| ApiError::missing_properties(&["content"]))?;
    let throughput = wanted(engine, catalog, offer, content, request)?;
    let replaced = engine.replace_offer(offer.rid, throughput).await?;
    let minimum = minimum(engine, catalog, &replaced, throughput);
    let reply = Reply::ok(resource::body(&to_value(&replaced)))
        .etag(&etag(&replaced))
        .header(name::MIN_THROUGHPUT, &minimum.to_string());
    Ok(told_if_pending(reply, engine, &replaced))
}

/// Says so when partitions are still being split for the throughput of the offer.
fn told_if_pending(reply: Reply, engine: &Engine, offer: &Offer) -> Reply {
    match engine.is_scaling(offer) {
        true => reply.header(name::OFFER_REPLACE_PENDING, "true"),
        false => reply,
    }
}

/// What the content of a replaced offer asks for. Settings for autoscale win over a plain number,
/// which then is only what the offer scaled to; headers can ask for the other kind.
fn wanted(
    engine: &Engine,
    catalog: &Catalog,
    offer: &Offer,
    content: &Value,
    request: &Request,
) -> Result<Throughput, ApiError> {
    let settings = content.field("offerAutopilotSettings").filter(|s| **s != Value::Null);
    let number = content.field("offerThroughput").and_then(Value::as_i64);
    let to_manual = request.flag(&name::MIGRATE_TO_MANUAL);
    let to_autoscale = request.flag(&name::MIGRATE_TO_AUTOPILOT);
    if to_manual && to_autoscale {
        return Err(ApiError::bad_request_errors("An offer can't be migrated both ways at once."));
    }
    let minimum_of = |kind| minimum(engine, catalog, offer, kind);
    let manual_minimum = minimum_of(Throughput::Manual(0));
    let autoscale_minimum = minimum_of(Throughput::Autoscale { max: 0, increment_percent: 0 });
    match settings {
        _ if to_manual => manual_throughput(i64::from(offer.throughput.peak()), manual_minimum),
        Some(settings) => autoscale_throughput(settings, autoscale_minimum),
        None if to_autoscale => {
            let max = offer.throughput.peak().next_multiple_of(limits::AUTOSCALE_MAX_STEP);
            let max = max.max(autoscale_minimum.next_multiple_of(limits::AUTOSCALE_MAX_STEP));
            Ok(Throughput::Autoscale { max, increment_percent: 0 })
        }
        None => {
            let number = number.ok_or_else(|| out_of_range(limits::THROUGHPUT_MAX))?;
            manual_throughput(number, manual_minimum)
        }
    }
}

fn manual_throughput(wanted: i64, minimum: u32) -> Result<Throughput, ApiError> {
    in_steps(wanted, minimum, limits::THROUGHPUT_STEP).map(Throughput::Manual)
}

fn autoscale_throughput(settings: &Value, minimum: u32) -> Result<Throughput, ApiError> {
    let wanted = settings.field("maxThroughput").and_then(Value::as_i64);
    let max = in_steps(wanted.ok_or_else(invalid_autoscale)?, minimum, limits::AUTOSCALE_MAX_STEP)?;
    let percent = settings
        .field("autoUpgradePolicy")
        .and_then(|policy| policy.field("throughputPolicy"))
        .and_then(|policy| policy.field("incrementPercent"));
    let increment_percent = match percent {
        None | Some(Value::Null) => 0,
        Some(percent) => percent
            .as_i64()
            .and_then(|p| u32::try_from(p).ok())
            .filter(|p| *p <= 100)
            .ok_or_else(invalid_autoscale)?,
    };
    Ok(Throughput::Autoscale { max, increment_percent })
}

fn in_steps(wanted: i64, minimum: u32, step: u32) -> Result<u32, ApiError> {
    if wanted < i64::from(minimum) {
        return Err(ApiError::bad_request_errors(format!(
            "Requested throughput {wanted} is less than required minimum throughput {minimum}."
        )));
    }
    u32::try_from(wanted)
        .ok()
        .filter(|n| *n <= limits::THROUGHPUT_MAX && n.is_multiple_of(step))
        .ok_or_else(|| {
            ApiError::bad_request_errors(format!(
                "The offer should have valid throughput values between {minimum} and {} inclusive \
                 in increments of {step}.",
                limits::THROUGHPUT_MAX
            ))
        })
}

/// The least an offer may be set to, by what it stores, what it once had and how many share it.
fn minimum(engine: &Engine, catalog: &Catalog, offer: &Offer, kind: Throughput) -> u32 {
    let (containers, shared): (Vec<_>, bool) = match offer.target {
        OfferTarget::Container(rid) => (catalog.container_by_rid(rid).into_iter().collect(), false),
        OfferTarget::Database(rid) => (catalog.containers(rid).collect(), true),
    };
    let bytes: u64 = containers
        .iter()
        .flat_map(|container| engine.statistics(container))
        .map(|(_, _, bytes)| bytes)
        .sum();
    let gigabytes = u32::try_from(bytes / GIGABYTE).unwrap_or(u32::MAX);
    let beyond = containers.len().saturating_sub(limits::SHARED_THROUGHPUT_CONTAINERS_MAX);
    let beyond = if shared { u32::try_from(beyond).unwrap_or(u32::MAX) } else { 0 };
    let (least, step) = match kind {
        Throughput::Manual(_) => {
            let stored = gigabytes.max(offer.peak_ever / 100);
            let for_many = limits::THROUGHPUT_MIN.saturating_add(beyond.saturating_mul(100));
            (stored.max(for_many), limits::THROUGHPUT_STEP)
        }
        Throughput::Autoscale { .. } => {
            let stored = gigabytes.saturating_mul(10).max(offer.peak_ever / 10);
            let for_many = limits::AUTOSCALE_MAX_MIN.saturating_add(beyond.saturating_mul(1000));
            (stored.max(for_many), limits::AUTOSCALE_MAX_STEP)
        }
    };
    least.checked_next_multiple_of(step).unwrap_or(least)
}

fn out_of_range(max: u32) -> ApiError {
    ApiError::bad_request_errors(format!(
        "The offer should have valid throughput values between {} and {max} inclusive in \
         increments of {}.",
        limits::THROUGHPUT_MIN,
        limits::THROUGHPUT_STEP
    ))
}

fn invalid_autoscale() -> ApiError {
    ApiError::invalid_input("The autoscale settings do not have the documented form.")
}

fn etag(offer: &Offer) -> String {
    resource_etag(offer.rid.0, offer.version)
}

/// The address of what the offer provisions, and its resource id.
fn target(offer: &Offer) -> (String, String) {
    match offer.target {
        OfferTarget::Database(rid) => (format!("dbs/{rid}/"), rid.to_string()),
        OfferTarget::Container(rid) => {
            (format!("dbs/{}/colls/{rid}/", rid.database), rid.to_string())
        }
    }
}

fn to_value(offer: &Offer) -> Value {
    let rid = offer.rid.to_string();
    let (link, target_rid) = target(offer);
    let mut out = Object::with_capacity(10);
    out.insert("resource", link.into());
    out.insert("offerType", "Invalid".into());
    out.insert("offerResourceId", target_rid.into());
    out.insert("offerVersion", "V2".into());
    out.insert("content", content(offer));
    out.insert("id", rid.as_str().into());
    out.insert("_self", format!("offers/{rid}/").into());
    out.insert("_rid", rid.into());
    out.insert("_etag", etag(offer).into());
    out.insert("_ts", resource::int(offer.ts));
    out.into()
}

/// Some clients look an offer up by a link without the slash at its end.
fn with_short_link(offer: &Offer) -> Value {
    let mut value = to_value(offer);
    if let Some(object) = value.as_object_mut() {
        object.insert("resource", target(offer).0.trim_end_matches('/').into());
    }
    value
}

fn content(offer: &Offer) -> Value {
    let number = |n: u32| Value::Int64(i64::from(n));
    let mut ever = Object::with_capacity(2);
    ever.insert("maxThroughputEverProvisioned", number(offer.peak_ever));
    ever.insert("maxConsumedStorageEverInKB", number(0));
    let mut out = Object::with_capacity(5);
    let current = match offer.throughput {
        Throughput::Manual(throughput) => throughput,
        Throughput::Autoscale { max, .. } => max / 10,
    };
    out.insert("offerThroughput", number(current));
    out.insert("offerIsRUPerMinuteThroughputEnabled", false.into());
    out.insert("offerMinimumThroughputParameters", ever.into());
    out.insert("offerLastReplaceTimestamp", resource::int(offer.ts));
    if let Throughput::Autoscale { max, increment_percent } = offer.throughput {
        out.insert("offerAutopilotSettings", autoscale_settings(max, increment_percent));
    }
    out.into()
}

fn autoscale_settings(max: u32, increment_percent: u32) -> Value {
    let number = |n: u32| Value::Int64(i64::from(n));
    let nested = |name: &str, value: Value| {
        let mut out = Object::with_capacity(1);
        out.insert(name, value);
        Value::from(out)
    };
    let policy = nested("throughputPolicy", nested("incrementPercent", number(increment_percent)));
    let mut out = Object::with_capacity(5);
    out.insert("tier", number(0));
    out.insert("maximumTierThroughput", number(0));
    out.insert("autoUpgrade", false.into());
    out.insert("maxThroughput", number(max));
    out.insert("autoUpgradePolicy", policy);
    out.into()
}
