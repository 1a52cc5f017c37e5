//! Plans queries for clients that run them over several ranges.
//!
//! Ranges cannot order, count, group or compare rows beyond their own, so the client does the last
//! step. The rewritten text makes each range return the data for that step beside its rows.

use model::{PropertyPath, Value};
use query::plan::{Aggregate, Plan, SortOrder};

use super::super::ast::{
    Collection, Direction, Expr, ExprKind, OrderBy, Query, Select, SelectItem,
};
use super::super::diagnostic::Diagnostic;
use super::super::lower::{
    Purpose, aggregate_call, aggregates_in, has_aggregate, lower_query, select_names,
};
use super::super::{Environment, parse, print, rank};
use super::{DistinctType, Feature, GatewayPlan, hybrid, rewrite};
use crate::SyntaxError;

/// The container and request that a plan is for.
#[derive(Clone, Copy, Debug)]
pub struct PlanScope<'a> {
    /// Partition-key paths of the container.
    pub key_paths: &'a [PropertyPath],
    /// Whether the request names one partition key, to which the query is restricted.
    pub has_partition_key: bool,
}

/// The plan of a query. Fails if the query cannot be compiled, or if clients cannot complete it.
pub fn gateway_plan(
    environment: &Environment,
    text: &str,
    parameters: &[(String, Value)],
    scope: PlanScope<'_>,
) -> Result<GatewayPlan, SyntaxError> {
    let query = parse(text)?;
    let plan = lower_query(&query, parameters, environment, Purpose::Planning)
        .map_err(|diagnostic| diagnostic.locate(text))?;
    let planned = match &query.order_by {
        Some(order_by) if order_by.is_rank => {
            hybrid::plan_of(&query, order_by, &plan, parameters, environment, scope)
        }
        _ => plan_of(&query, &plan, environment, scope),
    };
    planned.map_err(|diagnostic| diagnostic.locate(text))
}

fn plan_of(
    query: &Query,
    plan: &Plan,
    environment: &Environment,
    scope: PlanScope<'_>,
) -> Result<GatewayPlan, Diagnostic> {
    let keys = plan.key_scope(scope.key_paths);
    let has_one_key = scope.has_partition_key || keys.single_key(scope.key_paths.len()).is_some();
    let client_merge = ClientMerge::of(query)?;
    let is_merged = client_merge.is_grouped
        || query.distinct.is_some()
        || client_merge.counts_distinct.is_some();
    // Within one logical partition the range itself skips and counts.
    let window = plan.clauses().window.filter(|_| is_merged || !has_one_key);
    let order_by = client_merge.order_by.map_or(&[][..], |order_by| order_by.items.as_slice());
    let select_list =
        match (&query.select, client_merge.is_grouped && client_merge.counts_distinct.is_none()) {
            (Select::List(items), true) => items.as_slice(),
            _ => &[],
        };
    let aggregate_of =
        |item: &SelectItem| aggregate_call(&item.expr).map(|(aggregate, _)| aggregate);
    let aliases = select_names(select_list);
    Ok(GatewayPlan {
        distinct_type: distinct_type(query, &client_merge),
        // One row needs no counting by the client.
        top: plan.top().filter(|_| !query.from.is_empty()),
        offset: window.map(|window| window.offset),
        limit: window.map(|window| window.limit),
        order_by: match client_merge.vector_order {
            Some(args) => vec![rank::best_first(args, &environment.vectors)],
            None => order_by.iter().map(|item| sort_order(item.direction)).collect(),
        },
        order_by_expressions: order_by.iter().map(|item| print::expr_text(&item.expr)).collect(),
        group_by_expressions: query.group_by.iter().map(print::expr_text).collect(),
        group_by_alias_to_aggregate_type: aliases
            .iter()
            .cloned()
            .zip(select_list.iter().map(aggregate_of))
            .collect(),
        group_by_aliases: aliases,
        aggregates: client_merge
            .value_aggregate
            .filter(|_| client_merge.counts_distinct.is_none())
            .into_iter()
            .collect(),
        rewritten_query: rewrite::text(query, &client_merge, window, plan),
        has_select_value: matches!(query.select, Select::Value(_)),
        dcount_alias: client_merge.counts_distinct.clone(),
        has_non_streaming_order_by: client_merge.vector_order.is_some(),
        hybrid: None,
        keys,
        required_features: required_features(query, &client_merge),
    })
}

/// The parts of a query that only the client can complete.
pub(super) struct ClientMerge<'q> {
    pub(super) is_grouped: bool,
    aggregates: Vec<Aggregate>,
    /// The aggregate that `SELECT VALUE` selects.
    value_aggregate: Option<Aggregate>,
    /// The sort keys that rows are merged by. `None` for groups, which are merged by key.
    pub(super) order_by: Option<&'q OrderBy>,
    /// The arguments of the distance that rows are sorted by.
    vector_order: Option<&'q [Expr]>,
    /// The output name of a count of distinct rows, empty for a bare value.
    pub(super) counts_distinct: Option<String>,
}

impl<'q> ClientMerge<'q> {
    fn of(query: &'q Query) -> Result<Self, Diagnostic> {
        let aggregates = aggregates_in(query);
        if selects_composition(query) {
            return Err(Diagnostic::planner(
                "Compositions of aggregates and other expressions are not allowed.",
            ));
        }
        let is_grouped = !query.group_by.is_empty() || !aggregates.is_empty();
        let value_aggregate = match &query.select {
            Select::Value(_) => aggregates.first().copied(),
            Select::Star(_) | Select::List(_) => None,
        };
        let order_by = query.order_by.as_ref().filter(|_| !is_grouped);
        let vector_order = order_by.and_then(rank::vector_order);
        let counts_distinct = counted_alias(query);
        Ok(Self {
            is_grouped,
            aggregates,
            value_aggregate,
            order_by,
            vector_order,
            counts_distinct,
        })
    }
}

/// Whether a selected expression contains an aggregate as a part.
fn selects_composition(query: &Query) -> bool {
    let is_composed = |expr: &Expr| aggregate_call(expr).is_none() && has_aggregate(expr);
    match &query.select {
        Select::Star(_) => false,
        Select::Value(value) => is_composed(value),
        Select::List(items) => items.iter().any(|item| is_composed(&item.expr)),
    }
}

/// For `SELECT COUNT(1) FROM (SELECT DISTINCT ...)`, the output name of the count.
fn counted_alias(query: &Query) -> Option<String> {
    let [source] = query.from.as_slice() else { return None };
    let Collection::Subquery(inner) = &source.collection else { return None };
    let is_plain = query.filter.is_none()
        && query.group_by.is_empty()
        && query.distinct.is_none()
        && inner.distinct.is_some()
        && inner.group_by.is_empty()
        && aggregates_in(inner).is_empty();
    let (counted, alias) = match &query.select {
        Select::Value(value) => (value, String::new()),
        Select::List(items) => match items.as_slice() {
            [only] => (&only.expr, select_names(items).concat()),
            _ => return None,
        },
        Select::Star(_) => return None,
    };
    let (aggregate, args) = aggregate_call(counted)?;
    let counts_rows = aggregate == Aggregate::Count
        && matches!(args, [arg] if matches!(arg.kind, ExprKind::Literal(Some(_))));
    (is_plain && counts_rows).then_some(alias)
}

fn distinct_type(query: &Query, client_merge: &ClientMerge<'_>) -> DistinctType {
    if client_merge.counts_distinct.is_some() {
        return DistinctType::Unordered;
    }
    match (&query.distinct, &query.select, client_merge.order_by) {
        // A single row has no duplicates.
        (Some(_), _, _) if query.from.is_empty() => DistinctType::None,
        (None, _, _) => DistinctType::None,
        (Some(_), Select::Value(value), Some(order_by)) => match order_by.items.as_slice() {
            [only] if print::expr_text(&only.expr) == print::expr_text(value) => {
                DistinctType::Ordered
            }
            _ => DistinctType::Unordered,
        },
        (Some(_), _, _) => DistinctType::Unordered,
    }
}

fn sort_order(direction: Option<Direction>) -> SortOrder {
    match direction {
        Some(Direction::Descending) => SortOrder::Descending,
        Some(Direction::Ascending) | None => SortOrder::Ascending,
    }
}

fn required_features(query: &Query, client_merge: &ClientMerge<'_>) -> Vec<Feature> {
    let has_values = matches!(query.select, Select::Value(_));
    let is_counted = client_merge.counts_distinct.is_some();
    let aggregates = if is_counted { &[][..] } else { client_merge.aggregates.as_slice() };
    let uses = |wanted: &[Aggregate]| aggregates.iter().any(|used| wanted.contains(used));
    let sort_keys = client_merge.order_by.map_or(0, |order_by| order_by.items.len());
    let needed = [
        (Feature::Aggregate, !aggregates.is_empty() && has_values),
        (Feature::CountIf, uses(&[Aggregate::CountIf])),
        (Feature::DCount, is_counted),
        (Feature::Distinct, query.distinct.is_some() && !query.from.is_empty()),
        (Feature::GroupBy, !query.group_by.is_empty()),
        (Feature::MultipleAggregates, aggregates.len() > 1),
        (Feature::MultipleOrderBy, sort_keys > 1),
        (Feature::NonStreamingOrderBy, client_merge.vector_order.is_some()),
        (
            Feature::NonValueAggregate,
            !aggregates.is_empty() && !has_values && query.group_by.is_empty(),
        ),
        (Feature::OffsetAndLimit, query.window.is_some()),
        (Feature::OrderBy, sort_keys == 1),
        (Feature::Top, query.top.is_some() && !query.from.is_empty()),
    ];
    needed.into_iter().filter(|(_, is_needed)| *is_needed).map(|(feature, _)| feature).collect()
}
