//! The text that is sent to each range instead of the client's.

use model::Value;
use query::plan::{Aggregate, Plan, Window};

use super::super::ast::{
    Collection, Count, CountValue, Expr, ExprKind, LogicalOp, Name, OrderBy, Query, Select,
    SelectItem, Span,
};
use super::super::lower::{aggregate_call, select_names};
use super::super::print;
use super::planner::ClientMerge;

/// The placeholder for the condition by which the client resumes.
const RESUME_FILTER: &str = "({documentdb-formattableorderbyquery-filter})";
pub(super) const NOWHERE: Span = Span { start: 0, end: 0 };

/// The text for each range; empty if the original can be sent.
pub(super) fn text(
    query: &Query,
    client_merge: &ClientMerge<'_>,
    window: Option<Window>,
    plan: &Plan,
) -> String {
    if client_merge.counts_distinct.is_some() {
        return counted_rows(query);
    }
    let mut rewritten = query.clone();
    bind_counts(&mut rewritten, plan);
    if client_merge.is_grouped {
        drop_counts(&mut rewritten);
        rewritten.select = grouped_select(query);
    } else if let Some(order_by) = client_merge.order_by {
        // Rows are compared, and then counted, only after they are merged.
        if query.distinct.is_some() {
            drop_counts(&mut rewritten);
        }
        rewritten.distinct = None;
        rewritten.select = ordered_select(query, order_by);
        rewritten.filter = Some(ordered_filter(query));
    } else if query.distinct.is_some() && (query.top.is_some() || window.is_some()) {
        drop_counts(&mut rewritten);
    } else if window.is_none() {
        return String::new();
    }
    if let Some(window) = window {
        take_first(&mut rewritten, window.offset.saturating_add(window.limit));
    }
    print::query_text(&rewritten)
}

/// The rows to count.
fn counted_rows(query: &Query) -> String {
    match query.from.first().map(|source| &source.collection) {
        Some(Collection::Subquery(inner)) => print::query_text(inner),
        Some(Collection::Path(_)) | None => String::new(),
    }
}

/// Replaces parameters by numbers: clients resend parameters, but read counts themselves.
fn bind_counts(query: &mut Query, plan: &Plan) {
    if let (Some(count), Some(top)) = (&mut query.top, plan.top()) {
        set_count(count, top);
    }
    if let (Some(window), Some(bound)) = (&mut query.window, plan.clauses().window) {
        set_count(&mut window.offset, bound.offset);
        set_count(&mut window.limit, bound.limit);
    }
}

pub(super) fn set_count(count: &mut Count, rows: u64) {
    // Counts are below 2^32; their sum may not be, and no range has more rows to return.
    let rows = i64::try_from(rows.min(u64::from(u32::MAX))).unwrap_or(i64::MAX);
    count.value = CountValue::Number(Value::Int64(rows));
}

pub(super) fn drop_counts(query: &mut Query) {
    query.top = None;
    query.window = None;
}

/// Changes a remaining window so that it returns its first `rows` rows, as a range must when only
/// the client can skip.
fn take_first(query: &mut Query, rows: u64) {
    if let Some(window) = &mut query.window {
        set_count(&mut window.offset, 0);
        set_count(&mut window.limit, rows);
    }
}

/// Resource id, sort keys and the selected values.
fn ordered_select(query: &Query, order_by: &OrderBy) -> Select {
    let keys = order_by.items.iter().map(|item| item.expr.clone()).collect();
    sorted_select(query, keys, payload(query))
}

/// Resource id, sort keys and a payload.
pub(super) fn sorted_select(query: &Query, keys: Vec<Expr>, payload: Expr) -> Select {
    let root = node(ExprKind::Identifier(root_alias(query)));
    let rid = ExprKind::Member { base: Box::new(root), name: name("_rid") };
    let keys = keys.into_iter().map(|key| object([("item", key)])).collect();
    Select::List(vec![
        SelectItem { expr: node(rid), alias: None },
        aliased(node(ExprKind::Array(keys)), "orderByItems"),
        aliased(payload, "payload"),
    ])
}

/// The selected values.
pub(super) fn payload(query: &Query) -> Expr {
    match &query.select {
        Select::Star(_) => node(ExprKind::Identifier(root_alias(query))),
        Select::Value(value) => value.clone(),
        Select::List(items) => fields(items, |item| item.expr.clone()),
    }
}

/// The filter, the client's condition and, for bare values, the condition that the value is
/// defined.
pub(super) fn ordered_filter(query: &Query) -> Expr {
    let resume = node(ExprKind::Identifier(RESUME_FILTER.to_owned()));
    let mut operands: Vec<Expr> = query.filter.iter().cloned().chain([resume]).collect();
    if let Select::Value(value) = &query.select {
        operands.push(call("IS_DEFINED", value.clone()));
    }
    match operands.len() {
        1 => operands.remove(0),
        _ => node(ExprKind::Logical { op: LogicalOp::And, operands }),
    }
}

/// The keys of the groups, if there are any, and the partial aggregates.
fn grouped_select(query: &Query) -> Select {
    let payload = match &query.select {
        Select::Star(_) => node(ExprKind::Literal(None)),
        Select::Value(value) => match partial(value) {
            Some(partial) => node(ExprKind::Array(vec![partial])),
            None => value.clone(),
        },
        Select::List(items) => {
            fields(items, |item| partial(&item.expr).unwrap_or_else(|| item.expr.clone()))
        }
    };
    if !query.group_by.is_empty() {
        let keys = query.group_by.iter().map(|key| object([("item", key.clone())])).collect();
        let keys = aliased(node(ExprKind::Array(keys)), "groupByItems");
        return Select::List(vec![keys, aliased(payload, "payload")]);
    }
    match query.select {
        Select::Value(_) => Select::Value(payload),
        Select::Star(_) | Select::List(_) => Select::List(vec![aliased(payload, "payload")]),
    }
}

/// The form of an aggregate that a range returns, so that the results of all ranges can be merged.
fn partial(expr: &Expr) -> Option<Expr> {
    let (aggregate, args) = aggregate_call(expr)?;
    let operand = args.first()?;
    let counted = || call("COUNT", operand.clone());
    let best = |key| {
        let with_count = object([(key, expr.clone()), ("count", counted())]);
        object([("item", expr.clone()), ("item2", with_count)])
    };
    Some(match aggregate {
        Aggregate::Average => {
            let sum = call("SUM", operand.clone());
            object([("item", object([("sum", sum), ("count", counted())]))])
        }
        Aggregate::Min => best("min"),
        Aggregate::Max => best("max"),
        Aggregate::Count
        | Aggregate::CountIf
        | Aggregate::Sum
        | Aggregate::MakeList
        | Aggregate::MakeSet => object([("item", expr.clone())]),
    })
}

/// The name of the first source.
fn root_alias(query: &Query) -> String {
    let Some(source) = query.from.first() else { return String::new() };
    match (&source.alias, &source.collection) {
        (Some(alias), _) => alias.text.clone(),
        (None, Collection::Path(path)) => print::expr_text(path),
        (None, Collection::Subquery(_)) => String::new(),
    }
}

/// An object with the output names of a select list.
fn fields(items: &[SelectItem], value: impl Fn(&SelectItem) -> Expr) -> Expr {
    let names = select_names(items).into_iter().map(|text| Name { text, span: NOWHERE });
    node(ExprKind::Object(names.zip(items.iter().map(value)).collect()))
}

pub(super) fn object<const N: usize>(fields: [(&str, Expr); N]) -> Expr {
    node(ExprKind::Object(fields.into_iter().map(|(key, value)| (name(key), value)).collect()))
}

pub(super) fn call(function: &str, arg: Expr) -> Expr {
    node(ExprKind::Call { name: name(function), is_user_defined: false, args: vec![arg] })
}

pub(super) fn aliased(expr: Expr, alias: &str) -> SelectItem {
    SelectItem { expr, alias: Some(name(alias)) }
}

pub(super) fn name(text: &str) -> Name {
    Name { text: text.to_owned(), span: NOWHERE }
}

/// A node that is only printed.
pub(super) fn node(kind: ExprKind) -> Expr {
    Expr::printed(kind, NOWHERE)
}
