//! Query plans: how a client runs a query over several ranges itself.

use std::sync::Arc;

use ::query::KeyScope;
use ::query::plan::{Aggregate, SortOrder};
use bytes::Bytes;
use engine::{Container, RequestContext};
use lang::nosql::gateway::{DistinctType, Feature, GatewayPlan, HybridPlan};
use lang::nosql::{Environment, PlanScope};
use model::{Epk, ErrorKind, PartitionKey, PartitionKeyDefinition, Value, epk, json};

use crate::errors::ApiError;
use crate::headers::HeaderName;
use crate::query;
use crate::query_text::QueryText;
use crate::reply::Reply;
use crate::request::Request;
use crate::script_functions::QueryFunctions;
use crate::{Service, partition_key_header};

pub(crate) async fn execute(
    service: &Service,
    ctx: &mut RequestContext,
    container: &Arc<Container>,
    request: &Request,
) -> Result<Reply, ApiError> {
    ctx.served.charge = model::Charge::units(1);
    let query = QueryText::parse(request)?;
    let environment = query::environment(service, container, &QueryFunctions::default());
    let definition = &container.spec.partition_key;
    let key = partition_key_header::scope_key(container, request)?;
    let has_partition_key = key.is_some_and(|key| key.0.len() == definition.paths.len());
    let owner = Arc::clone(container);
    let plan =
        move |query| plan_of(&query, &environment, &owner.spec.partition_key, has_partition_key);
    let plan = query.run_blocking_if_long(service, plan).await?;
    check_features(&plan.required_features, request)?;
    Ok(Reply::ok(render(&plan, definition)))
}

/// The plan by which a client runs a query, within one partition key or over all.
pub(crate) fn plan_of(
    query: &QueryText,
    environment: &Environment,
    definition: &PartitionKeyDefinition,
    has_partition_key: bool,
) -> Result<GatewayPlan, ApiError> {
    let scope = PlanScope { key_paths: &definition.paths, has_partition_key };
    Ok(lang::nosql::gateway_plan(environment, &query.text, &query.parameters, scope)?)
}

/// Refuses a plan that the client could not carry out.
fn check_features(required: &[Feature], request: &Request) -> Result<(), ApiError> {
    let listed = request.header(HeaderName::SupportedQueryFeatures).unwrap_or_default();
    let is_listed = |feature: &Feature| listed.split(',').any(|f| f.trim() == feature.name());
    let missing: Vec<String> = required
        .iter()
        .filter(|feature| !is_listed(feature))
        .map(|feature| {
            format!(
                "Query contained {}, which the calling client does not support.",
                feature.name()
            )
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorKind::QueryNotServable,
        format!(
            "Query contains 1 or more unsupported features. Upgrade your SDK to a version that \
             does support the requested features:\r\n{}",
            missing.join("\r\n")
        ),
    ))
}

/// A plan in the form that clients read.
pub(crate) fn render(plan: &GatewayPlan, definition: &PartitionKeyDefinition) -> Bytes {
    let mut out = Vec::with_capacity(1024);
    let value = Value::Object(
        [
            ("partitionedQueryExecutionInfoVersion", Value::Int64(2)),
            ("queryInfo", plan.hybrid.as_ref().map_or_else(|| query_info(plan), |_| Value::Null)),
            ("queryRanges", query_ranges(&plan.keys, definition)),
            ("hybridSearchQueryInfo", plan.hybrid.as_ref().map_or(Value::Null, hybrid_info)),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect(),
    );
    json::write(&value, &mut out);
    out.into()
}

fn hybrid_info(hybrid: &HybridPlan) -> Value {
    let fields = [
        ("globalStatisticsQuery", hybrid.global_statistics_query.as_str().into()),
        ("componentQueryInfos", list(&hybrid.components, query_info)),
        ("componentWithoutPayloadQueryInfos", Value::Array(Vec::new())),
        ("projectionQueryInfo", Value::Null),
        ("componentWeights", list(&hybrid.weights, |weight| Value::Double(*weight))),
        ("skip", count(hybrid.skip)),
        ("take", count(hybrid.take)),
        ("requiresGlobalStatistics", hybrid.requires_global_statistics.into()),
    ];
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn query_info(plan: &GatewayPlan) -> Value {
    let fields = [
        ("distinctType", distinct_type(plan.distinct_type).into()),
        ("top", count(plan.top)),
        ("offset", count(plan.offset)),
        ("limit", count(plan.limit)),
        ("orderBy", list(&plan.order_by, |order| sort_order(*order).into())),
        ("orderByExpressions", list(&plan.order_by_expressions, |s| s.as_str().into())),
        ("groupByExpressions", list(&plan.group_by_expressions, |s| s.as_str().into())),
        ("groupByAliases", list(&plan.group_by_aliases, |s| s.as_str().into())),
        ("aggregates", list(&plan.aggregates, |a| aggregate(*a).into())),
        ("groupByAliasToAggregateType", aggregates_by_alias(plan)),
        ("rewrittenQuery", plan.rewritten_query.as_str().into()),
        ("hasSelectValue", plan.has_select_value.into()),
        ("dCountInfo", dcount_info(plan)),
        ("hasNonStreamingOrderBy", plan.has_non_streaming_order_by.into()),
    ];
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn list<T>(items: &[T], to_value: impl Fn(&T) -> Value) -> Value {
    Value::Array(items.iter().map(to_value).collect())
}

fn count(n: Option<u64>) -> Value {
    n.map_or(Value::Null, |n| Value::Int64(i64::try_from(n).unwrap_or(i64::MAX)))
}

fn distinct_type(kind: DistinctType) -> &'static str {
    match kind {
        DistinctType::None => "None",
        DistinctType::Ordered => "Ordered",
        DistinctType::Unordered => "Unordered",
    }
}

fn sort_order(order: SortOrder) -> &'static str {
    match order {
        SortOrder::Ascending => "Ascending",
        SortOrder::Descending => "Descending",
    }
}

fn aggregate(aggregate: Aggregate) -> &'static str {
    match aggregate {
        Aggregate::Average => "Average",
        Aggregate::Count => "Count",
        Aggregate::CountIf => "CountIf",
        Aggregate::Max => "Max",
        Aggregate::Min => "Min",
        Aggregate::Sum => "Sum",
        Aggregate::MakeList => "MakeList",
        Aggregate::MakeSet => "MakeSet",
    }
}

fn aggregates_by_alias(plan: &GatewayPlan) -> Value {
    let entries = plan.group_by_alias_to_aggregate_type.iter().map(|(alias, kind)| {
        (alias.clone(), kind.map_or(Value::Null, |kind| aggregate(kind).into()))
    });
    Value::Object(entries.collect())
}

fn dcount_info(plan: &GatewayPlan) -> Value {
    match &plan.dcount_alias {
        Some(alias) => {
            Value::Object([("dCountAlias".to_owned(), alias.as_str().into())].into_iter().collect())
        }
        None => Value::Null,
    }
}

/// The ranges of the hash line that rows can come from, in order and without overlap.
fn query_ranges(keys: &KeyScope, definition: &PartitionKeyDefinition) -> Value {
    let mut ranges = match keys {
        KeyScope::All => vec![HexRange::full()],
        KeyScope::Keys(keys) => keys.iter().map(|key| HexRange::of(key, definition)).collect(),
    };
    ranges.sort_by(|a, b| a.order().cmp(&b.order()));
    ranges.dedup_by(|next, kept| next == kept || next.max < kept.max);
    if ranges.is_empty() {
        ranges.push(HexRange::empty());
    }
    list(&ranges, HexRange::to_value)
}

/// A range of the hash line in the form that clients read. Bounds are full-length hashes, whose
/// trailing zeros count.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HexRange {
    min: String,
    max: String,
    is_max_inclusive: bool,
}

impl HexRange {
    fn full() -> Self {
        Self { min: String::new(), max: Epk::max().to_hex(), is_max_inclusive: false }
    }

    /// A range that holds no key.
    fn empty() -> Self {
        Self { min: String::new(), max: String::new(), is_max_inclusive: true }
    }

    /// The position of a whole key, or the range of all keys that begin with part of one.
    fn of(key: &[Option<Value>], definition: &PartitionKeyDefinition) -> Self {
        let is_whole = key.len() == definition.paths.len();
        let Some(key) = PartitionKey::from_values(key) else { return Self::full() };
        if !is_whole {
            // All keys with this prefix: up to the prefix and a byte above every hash.
            let max = epk::key_range(definition, &key).max.to_hex();
            let min = max.strip_suffix("FF").unwrap_or(&max).to_owned();
            return Self { min, max, is_max_inclusive: false };
        }
        let point = epk::effective_hex(definition, &key);
        Self { min: point.clone(), max: point, is_max_inclusive: true }
    }

    fn order(&self) -> (&str, &str) {
        (&self.min, &self.max)
    }

    fn to_value(&self) -> Value {
        let fields = [
            ("min", self.min.as_str().into()),
            ("max", self.max.as_str().into()),
            ("isMinInclusive", true.into()),
            ("isMaxInclusive", self.is_max_inclusive.into()),
        ];
        Value::Object(fields.into_iter().map(|(n, v)| (n.to_owned(), v)).collect())
    }
}

#[cfg(test)]
mod tests;
