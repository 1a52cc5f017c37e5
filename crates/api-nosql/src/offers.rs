//! Offers: provisioned throughput, set by headers at creation and as a resource afterwards.

use engine::catalog::{
    NewSubject, OfferBounds, OfferChange, OfferRefused, OfferTarget, ThroughputKind, resource_etag,
};
use engine::{Engine, Offer, RequestContext, Throughput};
use model::rid::OfferRid;
use model::{ErrorKind, Object, Value, json};

use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::policy::given;
use crate::reply::{Reply, ReplyHeader};
use crate::request::{Request, Verb};
use crate::resource_query::{Resource, ResourceFeed};
use crate::{Service, resource};

/// The member that states whether an offer has an extra budget per minute.
const MINUTE_BUDGET: &str = "offerIsRUPerMinuteThroughputEnabled";

/// The throughput that a create request asks for.
pub(crate) fn requested_throughput(
    engine: &Engine,
    new: NewSubject,
    request: &Request,
) -> Result<Option<Throughput>, ApiError> {
    let manual = request.header_lossy(HeaderName::OfferThroughput);
    let autoscale = request.header_lossy(HeaderName::AutopilotSettings);
    let bounds = |kind| engine.bounds_of_new(new, kind);
    match (manual, autoscale) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(ApiError::bad_request_errors(
            "Both manual and autoscale throughput are given. Please give only one.",
        )),
        (Some(text), None) => {
            let bounds = bounds(ThroughputKind::Manual);
            let requested = text.trim().parse().map_err(|_| OfferRefused::OutOfBounds(bounds))?;
            Ok(Some(Throughput::Manual(bounds.check(requested)?)))
        }
        (None, Some(text)) => {
            let settings = json::parse(text.as_bytes(), 8).map(|parsed| parsed.value);
            let settings = settings.map_err(|_| invalid_autoscale())?;
            autoscale_throughput(&settings, bounds(ThroughputKind::Autoscale)).map(Some)
        }
    }
}

/// `/offers`
pub(crate) async fn feed(
    service: &Service,
    ctx: &mut RequestContext,
    request: &Request,
) -> Result<Reply, ApiError> {
    let is_feed = request.verb == Verb::Get;
    let is_query = request.is_query();
    if !is_feed && !is_query {
        return Err(ApiError::method_not_allowed());
    }
    ctx.served.charge += resource::LIST_CHARGE;
    let catalog = service.engine().catalog();
    let resources = catalog.offers().map(|offer| Resource {
        position: u64::from(offer.rid.0),
        value: Box::new(|| to_value(service.engine(), offer)),
        alias: Some(Box::new(|| with_short_link(service.engine(), offer))),
    });
    ResourceFeed { parent_rid: String::new(), key: "Offers", resources }
        .answer(service, request)
        .await
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
    match request.verb {
        Verb::Get => {
            ctx.served.charge += resource::READ_CHARGE;
            let engine = service.engine();
            let OfferBounds { minimum, .. } = engine.bounds_of(offer, offer.throughput.kind());
            let reply = resource::read_reply(request, &to_value(engine, offer), etag(offer))?;
            let reply = reply.header(ReplyHeader::MinThroughput, minimum.to_string());
            Ok(with_pending_header(reply, engine, offer))
        }
        Verb::Put => {
            ctx.served.charge += resource::WRITE_CHARGE;
            replace(service.engine(), ctx, offer, request).await
        }
        Verb::Head | Verb::Post | Verb::Patch | Verb::Delete | Verb::Other => {
            Err(ApiError::method_not_allowed())
        }
    }
}

async fn replace(
    engine: &Engine,
    ctx: &RequestContext,
    offer: &Offer,
    request: &Request,
) -> Result<Reply, ApiError> {
    let body = resource::parse_body(request)?;
    let rid = offer.rid.to_string();
    if given(&body, "_rid").is_some_and(|given| given.as_str() != Some(&rid)) {
        return Err(ApiError::bad_request_errors("The '_rid' of the offer does not match its id."));
    }
    if given(&body, "id").is_none() && given(&body, "_rid").is_none() {
        return Err(ApiError::missing_properties(&["id"]));
    }
    let content = body.get("content").ok_or_else(|| ApiError::missing_properties(&["content"]))?;
    let throughput = requested(engine, offer, content, request)?;
    let has_minute_budget = match content.field(MINUTE_BUDGET) {
        None | Some(Value::Null) => None,
        Some(Value::Bool(has)) => Some(*has),
        Some(_) => {
            let reason = format!("'{MINUTE_BUDGET}' of an offer is true or false.");
            return Err(ApiError::invalid_input(reason));
        }
    };
    let change = OfferChange { throughput, has_minute_budget, if_match: request.if_match() };
    let replaced = engine.replace_offer(ctx, offer.rid, change).await?;
    let OfferBounds { minimum, .. } = engine.bounds_of(&replaced, throughput.kind());
    let reply = Reply::ok(resource::body(&to_value(engine, &replaced)))
        .etag(etag(&replaced))
        .header(ReplyHeader::MinThroughput, minimum.to_string());
    Ok(with_pending_header(reply, engine, &replaced))
}

/// States whether partitions are still being split for the offer's throughput.
fn with_pending_header(reply: Reply, engine: &Engine, offer: &Offer) -> Reply {
    let is_pending = if engine.is_scaling(offer) { "true" } else { "false" };
    reply.header(ReplyHeader::OfferReplacePending, is_pending)
}

/// The throughput that the content of a replaced offer requests. Autoscale settings win over a
/// plain number, which then is only the current autoscaled value; headers can request the other
/// kind.
fn requested(
    engine: &Engine,
    offer: &Offer,
    content: &Value,
    request: &Request,
) -> Result<Throughput, ApiError> {
    let settings = content.field("offerAutopilotSettings").filter(|s| **s != Value::Null);
    let number = content.field("offerThroughput").and_then(Value::as_i64);
    let to_manual = request.flag(HeaderName::MigrateToManual);
    let to_autoscale = request.flag(HeaderName::MigrateToAutopilot);
    if to_manual && to_autoscale {
        return Err(ApiError::bad_request_errors("An offer can't be migrated both ways at once."));
    }
    let manual = engine.bounds_of(offer, ThroughputKind::Manual);
    let autoscale = engine.bounds_of(offer, ThroughputKind::Autoscale);
    let peak = offer.throughput.peak();
    match settings {
        _ if to_manual => Ok(Throughput::Manual(manual.check(i64::from(peak))?)),
        Some(settings) => autoscale_throughput(settings, autoscale),
        None if to_autoscale => {
            let max = peak.next_multiple_of(autoscale.step).max(autoscale.minimum);
            Ok(Throughput::Autoscale { max, increment_percent: 0 })
        }
        None => {
            let number = number.ok_or(OfferRefused::OutOfBounds(manual))?;
            Ok(Throughput::Manual(manual.check(number)?))
        }
    }
}

fn autoscale_throughput(settings: &Value, bounds: OfferBounds) -> Result<Throughput, ApiError> {
    let requested = settings.field("maxThroughput").and_then(Value::as_i64);
    let max = bounds.check(requested.ok_or_else(invalid_autoscale)?)?;
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

fn invalid_autoscale() -> ApiError {
    ApiError::invalid_input("The autoscale settings do not have the documented form.")
}

fn etag(offer: &Offer) -> String {
    resource_etag(offer.rid.0, offer.version)
}

/// The link and resource id of the resource that the offer belongs to.
fn target(offer: &Offer) -> (String, String) {
    match offer.target {
        OfferTarget::Database(rid) => (format!("dbs/{rid}/"), rid.to_string()),
        OfferTarget::Container(rid) => {
            (format!("dbs/{}/colls/{rid}/", rid.database), rid.to_string())
        }
    }
}

fn to_value(engine: &Engine, offer: &Offer) -> Value {
    let rid = offer.rid.to_string();
    let (link, target_rid) = target(offer);
    let mut out = Object::with_capacity(10);
    out.insert("resource", link.into());
    out.insert("offerType", "Invalid".into());
    out.insert("offerResourceId", target_rid.into());
    out.insert("offerVersion", "V2".into());
    out.insert("content", content(engine, offer));
    out.insert("id", rid.as_str().into());
    out.insert("_self", format!("offers/{rid}/").into());
    out.insert("_rid", rid.into());
    out.insert("_etag", etag(offer).into());
    out.insert("_ts", resource::int(offer.ts));
    out.into()
}

/// Some clients look an offer up by a link without the trailing slash.
fn with_short_link(engine: &Engine, offer: &Offer) -> Value {
    let mut value = to_value(engine, offer);
    if let Some(object) = value.as_object_mut() {
        object.insert("resource", target(offer).0.trim_end_matches('/').into());
    }
    value
}

fn content(engine: &Engine, offer: &Offer) -> Value {
    let number = |n: u32| Value::Int64(i64::from(n));
    let mut ever = Object::with_capacity(2);
    ever.insert("maxThroughputEverProvisioned", number(offer.peak_ever));
    ever.insert("maxConsumedStorageEverInKB", resource::int(engine.stored_bytes(offer) / 1024));
    let mut out = Object::with_capacity(5);
    out.insert("offerThroughput", number(engine.current_throughput(offer)));
    out.insert(MINUTE_BUDGET, offer.has_minute_budget.into());
    out.insert("offerMinimumThroughputParameters", ever.into());
    out.insert("offerLastReplaceTimestamp", resource::int(offer.ts));
    if let Throughput::Autoscale { max, increment_percent } = offer.throughput {
        out.insert("offerAutopilotSettings", autoscale_settings(max, increment_percent));
    }
    if engine.is_scaling(offer) {
        out.insert("isOfferReplacePending", true.into());
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
    let mut out = Object::with_capacity(5);
    out.insert("tier", number(0));
    out.insert("maximumTierThroughput", number(0));
    out.insert("autoUpgrade", false.into());
    out.insert("maxThroughput", number(max));
    // The Python SDK changes the policy that it was given, so there has to be one.
    let policy = nested("incrementPercent", number(increment_percent));
    out.insert("autoUpgradePolicy", nested("throughputPolicy", policy));
    out.into()
}
