//! Queries over the items of a container.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::ops::{Retrieved, Scope};
use engine::{Container, RequestContext};
use hyper::header::HeaderName;
use model::{PartitionKey, PartitionKeyComponent, Value};
use percent_encoding::NON_ALPHANUMERIC;

use crate::errors::ApiError;
use crate::feed::{self, TokenLimit};
use crate::headers::name;
use crate::query_text::QueryText;
use crate::reply::Reply;
use crate::request::Request;
use crate::{Service, scope, session};

const POPULATE_INDEX_METRICS: HeaderName =
    HeaderName::from_static("x-ms-cosmos-populateindexmetrics");
const POPULATE_INDEX_METRICS_V2: HeaderName =
    HeaderName::from_static("x-ms-cosmos-populateindexmetrics-v2");
const INDEX_UTILIZATION: HeaderName = HeaderName::from_static("x-ms-cosmos-index-utilization");

/// Queries are answered by scan: no index is used, and none would be.
const INDEX_METRICS: &str = "{\"UtilizedSingleIndexes\":[],\"PotentialSingleIndexes\":[],\
                             \"UtilizedCompositeIndexes\":[],\"PotentialCompositeIndexes\":[]}";

pub(crate) async fn execute(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    request: &Request,
) -> Result<Reply, ApiError> {
    ctx.session = session::seen(request, service.account().consistency)?;
    let clock = &service.engine().components().clock;
    let started = clock.monotonic();
    let plan = QueryText::parse(request)?.compile()?;
    let compiled = clock.monotonic();
    let limit = TokenLimit::of(request)?;
    let scope = scope_of(container, request, &plan)?;
    let page = service.engine().query(ctx, container, plan, scope, request.page()?).await?;
    limit.check(&page)?;
    let (mut reply, rows_bytes) = feed::reply(container, &page);
    if request.flag(&name::POPULATE_QUERY_METRICS) {
        let metrics = Metrics {
            compile: compiled.saturating_sub(started),
            total: clock.monotonic().saturating_sub(started),
            retrieved: page.retrieved,
            rows: page.rows.len(),
            rows_bytes,
        };
        reply = reply.header(name::QUERY_METRICS, &metrics.to_text());
    }
    Ok(with_index_metrics(reply, request))
}

/// Adds what the query used of the indexes, if that is asked for: in base64 or percent-encoded,
/// depending on which header asks.
fn with_index_metrics(reply: Reply, request: &Request) -> Reply {
    if request.flag(&POPULATE_INDEX_METRICS) {
        reply.header(INDEX_UTILIZATION, &STANDARD.encode(INDEX_METRICS))
    } else if request.flag(&POPULATE_INDEX_METRICS_V2) {
        let text = percent_encoding::utf8_percent_encode(INDEX_METRICS, NON_ALPHANUMERIC);
        reply.header(INDEX_UTILIZATION, &text.to_string())
    } else {
        reply
    }
}

/// Where the query runs. One that names nothing runs where its own filter confines it to, or
/// everywhere if the client allows that.
fn scope_of(
    container: &Container,
    request: &Request,
    plan: &query::Plan,
) -> Result<Scope, ApiError> {
    let scope = scope::of(container, request)?;
    if !matches!(scope, Scope::All) {
        return Ok(scope);
    }
    let definition = &container.spec.partition_key;
    if let Some(key) = plan.partition_key_filter(&definition.paths) {
        return Ok(key_of(&key).map_or(Scope::All, Scope::Key));
    }
    match definition.is_system || request.flag(&name::ENABLE_CROSS_PARTITION) {
        true => Ok(Scope::All),
        false => Err(ApiError::bad_request(
            "Cross partition query is required but disabled. Please set \
             x-ms-documentdb-query-enablecrosspartition to true, specify \
             x-ms-documentdb-partitionkey, or revise your query to avoid this exception.",
        )),
    }
}

/// The key that a filter pins each path to; `None` if no item can have it.
pub(crate) fn key_of(values: &[Option<Value>]) -> Option<PartitionKey> {
    let component = |value: &Option<Value>| PartitionKeyComponent::from_value(value.as_ref()).ok();
    values.iter().map(component).collect::<Option<_>>().map(PartitionKey)
}

/// What `x-ms-documentdb-query-metrics` tells.
struct Metrics {
    compile: Duration,
    total: Duration,
    retrieved: Retrieved,
    rows: usize,
    rows_bytes: usize,
}

impl Metrics {
    fn to_text(&self) -> String {
        let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
        let (total, compile) = (ms(self.total), ms(self.compile));
        let execution = ms(self.total.saturating_sub(self.compile));
        let (rows, bytes) = (self.rows, self.rows_bytes);
        let Retrieved { rows: seen, bytes: bytes_seen } = self.retrieved;
        format!(
            "totalExecutionTimeInMs={total:.2};queryCompileTimeInMs={compile:.2};\
             queryLogicalPlanBuildTimeInMs=0.00;queryPhysicalPlanBuildTimeInMs=0.00;\
             queryOptimizationTimeInMs=0.00;VMExecutionTimeInMs={execution:.2};\
             indexLookupTimeInMs=0.00;instructionCount=0;documentLoadTimeInMs=0.00;\
             systemFunctionExecuteTimeInMs=0.00;userFunctionExecuteTimeInMs=0.00;\
             retrievedDocumentCount={seen};retrievedDocumentSize={bytes_seen};\
             outputDocumentCount={rows};outputDocumentSize={bytes};writeOutputTimeInMs=0.00;\
             indexUtilizationRatio=0.00"
        )
    }
}

#[cfg(test)]
mod tests;
