//! Runs `golden/nosql` through the compiler and the evaluator, item by item.
//!
//! Commands: `query` answers rows in the order of the items, `condition` one truth value per item,
//! `keys` the partition keys that a filter leaves, `gateway` the parts of a plan that differ from
//! a plain one.

use std::path::Path;

use golden::{Case, Setup};
use lang::SyntaxError;
use lang::nosql::{self, PlanScope};
use model::{PropertyPath, Value, json, limits};
use query::plan::GatewayPlan;
use query::{EvalError, KeyScope, Plan};

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
        "query" => nosql::compile(&case.text, &parameters).map(|plan| rows(&plan, &items)),
        "condition" => nosql::compile_condition(&case.text).map(|plan| truths(&plan, &items)),
        "keys" => nosql::compile(&case.text, &parameters)
            .map(|plan| scope_lines(&plan.key_scope(&paths(setup)))),
        "gateway" => gateway(setup, case, &parameters),
        other => panic!("line {}: no command {other}", case.line),
    };
    answered.unwrap_or_else(|error| vec![error_line(&error)])
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

/// The rows of a query over all items, counted as the engine will count them.
fn rows(plan: &Plan, items: &[Value]) -> Vec<String> {
    let nothing = [Value::Null];
    let items = if plan.reads_items() { items } else { &nothing };
    let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let skipped = plan.offset().map_or(0, count);
    let taken = plan.limit().or(plan.top()).map_or(usize::MAX, count);
    let rows = items.iter().filter_map(|item| row(plan, item).transpose());
    let lines = rows.map(|row| match row {
        Ok(row) => json::to_string(&row),
        Err(error) => format!("error {error}"),
    });
    lines.skip(skipped).take(taken).collect()
}

/// The row of an item, by both ways that callers have.
fn row(plan: &Plan, item: &Value) -> Result<Option<Value>, EvalError> {
    let row = if plan.matches(item)? { plan.project(item)? } else { None };
    assert_eq!(plan.evaluate(item)?, row);
    if plan.is_select_all() {
        assert!(row.as_ref().is_none_or(|row| row == item));
    }
    Ok(row)
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

/// A plan as lines; a text that begins with `scoped` is asked for within one partition key.
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
    Ok(plan_lines(&nosql::gateway_plan(text, parameters, scope)?))
}

fn plan_lines(plan: &GatewayPlan) -> Vec<String> {
    let mut lines = Vec::new();
    let counts = [("top", plan.top), ("offset", plan.offset), ("limit", plan.limit)];
    for (name, count) in counts {
        lines.extend(count.map(|count| format!("{name} {count}")));
    }
    if plan.has_select_value {
        lines.push("hasSelectValue".to_owned());
    }
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
