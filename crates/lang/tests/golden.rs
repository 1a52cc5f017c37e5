//! Runs `golden/nosql` through the compiler and the executor, over items in memory.
//!
//! Commands: `query` returns rows, without ORDER BY in the order of the items or groups;
//! `condition` returns one truth value per item; `keys` the partition keys to which a filter
//! restricts rows; `gateway` the parts of a plan that differ from a plain plan.

use std::path::Path;

use golden::{Case, Setup};
use lang::SyntaxError;
use lang::nosql::gateway::{DistinctType, GatewayPlan, HybridPlan};
use lang::nosql::{self, Environment, PlanScope};
use model::{PropertyPath, Value, json, limits};
use query::exec::memory::Values;
use query::exec::{Limits, Position, Row};
use query::fulltext::Language;
use query::functions::spatial::Geospatial;
use query::plan::Aggregate;
use query::vector::VectorMetric;
use query::{KeyScope, Plan};

#[test]
fn golden_files_hold() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/nosql");
    golden::check_directory(&directory, answer);
}

fn answer(setup: &Setup, case: &Case) -> Vec<String> {
    let parameters: Vec<(String, Value)> =
        case.parameters.iter().map(|(name, value)| (name.clone(), parse(value))).collect();
    let items: Vec<Value> = setup.items.iter().map(|item| parse(item)).collect();
    let answered = match case.command.as_str() {
        "query" => nosql::compile_in(&environment(setup), &case.text, &parameters)
            .map(|plan| rows(&plan, &items)),
        "condition" => nosql::compile_condition(&case.text).map(|plan| truths(&plan, &items)),
        "keys" => nosql::compile(&case.text, &parameters)
            .map(|plan| scope_lines(&plan.key_scope(&paths(setup)))),
        "gateway" => gateway(setup, case, &parameters),
        other => panic!("line {}: no command {other}", case.line),
    };
    answered.unwrap_or_else(|error| vec![error_line(&error)])
}

/// The time at which golden queries run: 2020-08-13T23:19:54.3002652Z.
fn environment(setup: &Setup) -> Environment {
    let geospatial = match setup.is_planar {
        true => Geospatial::Geometry,
        false => Geospatial::Geography,
    };
    let computed = setup.computed.clone();
    let vector = |name: &str, metric| (PropertyPath::parse(name).expect(name), metric);
    let vectors =
        vec![vector("/vec", VectorMetric::Cosine), vector("/far", VectorMetric::Euclidean)];
    Environment {
        now_ticks: 15_973_607_943_002_652,
        seed: 1,
        geospatial,
        computed,
        vectors,
        texts: vec![(PropertyPath::parse("/texte").expect("a path"), Language::French)],
        language: Language::English,
        user_functions: None,
    }
}

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes(), limits::ITEM_DEPTH_MAX).expect(text).value
}

fn paths(setup: &Setup) -> Vec<PropertyPath> {
    setup.keys.iter().map(|path| PropertyPath::parse(path).expect(path)).collect()
}

fn error_line(error: &SyntaxError) -> String {
    format!("error {} {}..{} {}", error.code, error.start, error.end, error.message)
}

/// The rows of a query over all items, which are the same however they are divided into pages.
fn rows(plan: &Plan, items: &[Value]) -> Vec<String> {
    let rows = paged_rows(plan, items, usize::MAX);
    for page in [1, 2, 3] {
        assert_eq!(paged_rows(plan, items, page), rows, "in pages of {page}");
    }
    rows
}

fn paged_rows(plan: &Plan, items: &[Value], rows_max: usize) -> Vec<String> {
    let mut source = Values::new(items.to_vec());
    let mut lines = Vec::new();
    let mut position = Position::default();
    loop {
        let limits = Limits { rows_max, bytes_max: usize::MAX };
        let (rows, next) = match source.page(plan, position, limits) {
            Ok(page) => page,
            Err(error) => {
                lines.push(format!("error {error}"));
                return lines;
            }
        };
        assert!(rows.len() <= rows_max);
        lines.extend(rows.into_iter().map(|row| match row {
            Row::WholeItem(value) => json::to_string(&value),
            Row::Json(text) => String::from_utf8(text).expect("rows are JSON"),
        }));
        position = match next {
            Some(mut next) => {
                next.at.cut_long_key(40);
                next
            }
            None => return lines,
        };
    }
}

fn truths(plan: &Plan, items: &[Value]) -> Vec<String> {
    items.iter().map(|item| plan.matches(item).expect("within budget").to_string()).collect()
}

fn scope_lines(scope: &KeyScope) -> Vec<String> {
    match scope {
        KeyScope::All => vec!["all".to_owned()],
        KeyScope::Keys(keys) if keys.is_empty() => vec!["nothing".to_owned()],
        KeyScope::Keys(keys) => keys.iter().map(|key| key_line(key)).collect(),
    }
}

fn key_line(key: &[Option<Value>]) -> String {
    let components = key.iter().map(|component| match component {
        Some(value) => json::to_string(value),
        None => "undefined".to_owned(),
    });
    components.collect::<Vec<_>>().join(" ")
}

/// A plan as lines; a text that begins with `scoped` is planned within one partition key.
fn gateway(
    setup: &Setup,
    case: &Case,
    parameters: &[(String, Value)],
) -> Result<Vec<String>, SyntaxError> {
    let (has_partition_key, text) = match case.text.strip_prefix("scoped ") {
        Some(text) => (true, text),
        None => (false, case.text.as_str()),
    };
    let scope = PlanScope { key_paths: &paths(setup), has_partition_key };
    Ok(plan_lines(&nosql::gateway_plan(&environment(setup), text, parameters, scope)?))
}

fn hybrid_lines(hybrid: &HybridPlan) -> Vec<String> {
    let mut lines = vec![format!("globalStatisticsQuery {:?}", hybrid.global_statistics_query)];
    for (at, component) in hybrid.components.iter().enumerate() {
        // The scores of one component are in the texts of all.
        let component = plan_lines(component).into_iter().filter(|line| !line.starts_with("keys"));
        lines.extend(component.map(|line| format!("component {at}: {line}")));
    }
    lines.push(format!("weights {:?}", hybrid.weights));
    lines.push(format!("skip {:?} take {:?}", hybrid.skip, hybrid.take));
    lines.push(format!("requiresGlobalStatistics {}", hybrid.requires_global_statistics));
    lines
}

fn plan_lines(plan: &GatewayPlan) -> Vec<String> {
    let mut lines = Vec::new();
    let counts = [("top", plan.top), ("offset", plan.offset), ("limit", plan.limit)];
    for (name, count) in counts {
        lines.extend(count.map(|count| format!("{name} {count}")));
    }
    match plan.distinct_type {
        DistinctType::None => {}
        DistinctType::Ordered | DistinctType::Unordered => {
            lines.push(format!("distinctType {:?}", plan.distinct_type));
        }
    }
    if !plan.order_by.is_empty() {
        lines.push(format!("orderBy {:?} {:?}", plan.order_by, plan.order_by_expressions));
    }
    if !plan.group_by_expressions.is_empty() {
        lines.push(format!("groupByExpressions {:?}", plan.group_by_expressions));
    }
    if !plan.group_by_aliases.is_empty() {
        let aggregates = plan.group_by_alias_to_aggregate_type.iter();
        let alias = |(alias, aggregate): &(String, Option<Aggregate>)| match aggregate {
            Some(aggregate) => format!("{alias}={aggregate:?}"),
            None => alias.clone(),
        };
        lines.push(format!(
            "groupByAliases {}",
            aggregates.map(alias).collect::<Vec<_>>().join(" ")
        ));
    }
    if !plan.aggregates.is_empty() {
        lines.push(format!("aggregates {:?}", plan.aggregates));
    }
    if let Some(alias) = &plan.dcount_alias {
        lines.push(format!("dCountAlias {alias:?}"));
    }
    if plan.has_select_value {
        lines.push("hasSelectValue".to_owned());
    }
    if plan.has_non_streaming_order_by {
        lines.push("hasNonStreamingOrderBy".to_owned());
    }
    lines.extend(plan.hybrid.iter().flat_map(hybrid_lines));
    if !plan.rewritten_query.is_empty() {
        lines.push(format!("rewrittenQuery {:?}", plan.rewritten_query));
    }
    let features: Vec<_> = plan.required_features.iter().map(|feature| feature.name()).collect();
    if !features.is_empty() {
        lines.push(format!("features {}", features.join(",")));
    }
    lines.extend(scope_lines(&plan.keys).into_iter().map(|line| format!("keys {line}")));
    lines
}
