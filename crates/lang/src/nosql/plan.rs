//! Answers clients that ask how to run a query over several ranges.

use model::{PropertyPath, Value};
use query::plan::{DistinctType, Feature, GatewayPlan};

use super::ast::{Count, CountValue, Query, Select, Window};
use super::lower::lower_query;
use super::{parse, print};
use crate::SyntaxError;

/// What the plan is asked for.
#[derive(Clone, Copy, Debug)]
pub struct PlanScope<'a> {
    /// Partition-key paths of the container.
    pub key_paths: &'a [PropertyPath],
    /// Whether the request names one partition key that the query is confined to.
    pub has_partition_key: bool,
}

/// The plan of a query. Fails exactly as compiling the query does.
pub fn gateway_plan(
    text: &str,
    parameters: &[(String, Value)],
    scope: PlanScope<'_>,
) -> Result<GatewayPlan, SyntaxError> {
    let query = parse(text)?;
    let plan = lower_query(&query, parameters).map_err(|diagnostic| diagnostic.locate(text))?;
    let keys = plan.key_scope(scope.key_paths);
    let has_one_key = scope.has_partition_key || keys.single_key(scope.key_paths.len()).is_some();
    // Within one logical partition the range itself skips and counts.
    let window = plan.clauses().window.filter(|_| !has_one_key);
    let rewritten_query = match window {
        Some(window) => print::query_text(&taking(query.clone(), window.offset + window.limit)),
        None => String::new(),
    };
    Ok(GatewayPlan {
        distinct_type: DistinctType::None,
        top: plan.top(),
        offset: window.map(|window| window.offset),
        limit: window.map(|window| window.limit),
        order_by: Vec::new(),
        order_by_expressions: Vec::new(),
        group_by_expressions: Vec::new(),
        group_by_aliases: Vec::new(),
        aggregates: Vec::new(),
        group_by_alias_to_aggregate_type: Vec::new(),
        rewritten_query,
        has_select_value: matches!(query.select, Select::Value(_)),
        dcount_alias: None,
        has_non_streaming_order_by: false,
        keys,
        required_features: required_features(&query),
    })
}

/// The query with a window that returns its first `rows` rows, as a range must when only the
/// client can skip.
fn taking(mut query: Query, rows: u64) -> Query {
    // Counts are below 2^32; the sum of two may not be, and a range cannot have more rows to give.
    let rows = i64::try_from(rows.min(u64::from(u32::MAX))).unwrap_or(i64::MAX);
    if let Some(Window { offset, limit, .. }) = &mut query.window {
        let number = |count: &mut Count, n| count.value = CountValue::Number(Value::Int64(n));
        number(offset, 0);
        number(limit, rows);
    }
    query
}

fn required_features(query: &Query) -> Vec<Feature> {
    let window = query.window.is_some().then_some(Feature::OffsetAndLimit);
    window.into_iter().chain(query.top.is_some().then_some(Feature::Top)).collect()
}
