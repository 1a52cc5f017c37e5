//! Advice on how to improve a query, by the numbers that client libraries have explanations for.

use super::ast::{BinaryOp, Collection};
use super::ast::{Expr, ExprKind, Query, Select, SelectItem, Source};
use super::{lower, parse};
use crate::SyntaxError;

/// A possible improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each name is what the query does")]
pub enum Advice {
    PartialArrayContains,
    DistinctJoin,
    Contains,
    CaseInsensitiveBeginning,
    CaseInsensitiveEnd,
    GroupByExpression,
    ComparedCase,
    CurrentDateTime,
    CurrentTicks,
    CurrentTimestamp,
}

impl Advice {
    /// Its number on the wire.
    pub fn id(self) -> &'static str {
        match self {
            Advice::PartialArrayContains => "QA1000",
            Advice::DistinctJoin => "QA1001",
            Advice::Contains => "QA1002",
            Advice::CaseInsensitiveBeginning => "QA1003",
            Advice::CaseInsensitiveEnd => "QA1004",
            Advice::GroupByExpression => "QA1005",
            Advice::ComparedCase => "QA1006",
            Advice::CurrentDateTime => "QA1007",
            Advice::CurrentTicks => "QA1008",
            Advice::CurrentTimestamp => "QA1009",
        }
    }
}

/// The possible improvements of a query, ordered by number.
pub fn advice(text: &str) -> Result<Vec<Advice>, SyntaxError> {
    let mut found = Vec::new();
    check_query(&parse(text)?, &mut found);
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn check_query(query: &Query, found: &mut Vec<Advice>) {
    if query.distinct.is_some() && query.from.len() > 1 {
        found.push(Advice::DistinctJoin);
    }
    let is_computed =
        |key: &Expr| key.path_base().is_none() && !matches!(key.kind, ExprKind::Identifier(_));
    if query.group_by.iter().any(is_computed) {
        found.push(Advice::GroupByExpression);
    }
    if let Some(filter) = &query.filter {
        check_condition(filter, found);
    }
    for Source { collection, .. } in &query.from {
        if let Collection::Subquery(inner) = collection {
            check_query(inner, found);
        }
    }
    let selected: &[SelectItem] = match &query.select {
        Select::List(items) => items,
        Select::Value(_) | Select::Star(_) => &[],
    };
    selected.iter().for_each(|item| check_subqueries(&item.expr, found));
    if let Select::Value(value) = &query.select {
        check_subqueries(value, found);
    }
}

fn check_subqueries(expr: &Expr, found: &mut Vec<Advice>) {
    if let ExprKind::Subquery { query, .. } = &expr.kind {
        check_query(query, found);
    }
    expr.children().into_iter().for_each(|child| check_subqueries(child, found));
}

/// Checks the filter condition.
fn check_condition(expr: &Expr, found: &mut Vec<Advice>) {
    if let ExprKind::Call { name, is_user_defined: false, args } = &expr.kind {
        found.extend(advice_on_call(&name.text, args));
    }
    if let ExprKind::Binary { op: BinaryOp::Equal, left, right } = &expr.kind
        && [left, right].iter().any(|side| changes_case(side))
    {
        found.push(Advice::ComparedCase);
    }
    if let ExprKind::Subquery { query, .. } = &expr.kind {
        check_query(query, found);
    }
    expr.children().into_iter().for_each(|child| check_condition(child, found));
}

fn advice_on_call(name: &str, args: &[Expr]) -> Option<Advice> {
    let has_flag = || {
        let is_true = |arg: &Expr| matches!(&arg.kind, ExprKind::Literal(Some(value)) if value.as_bool() == Some(true));
        args.get(2).is_some_and(is_true)
    };
    match name.to_ascii_uppercase().as_str() {
        "ARRAY_CONTAINS" if has_flag() => Some(Advice::PartialArrayContains),
        "CONTAINS" => Some(Advice::Contains),
        "STARTSWITH" | "STRINGEQUALS" if has_flag() => Some(Advice::CaseInsensitiveBeginning),
        "ENDSWITH" if has_flag() => Some(Advice::CaseInsensitiveEnd),
        "GETCURRENTDATETIME" => Some(Advice::CurrentDateTime),
        "GETCURRENTTICKS" => Some(Advice::CurrentTicks),
        "GETCURRENTTIMESTAMP" => Some(Advice::CurrentTimestamp),
        _ => None,
    }
}

/// Whether an expression is a text of the item, converted to one case.
fn changes_case(expr: &Expr) -> bool {
    let ExprKind::Call { name, is_user_defined: false, args } = &expr.kind else { return false };
    let is_case = ["LOWER", "UPPER"].iter().any(|case| name.text.eq_ignore_ascii_case(case));
    is_case && args.iter().any(|arg| arg.path_base().is_some()) && !lower::has_aggregate(expr)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<&'static str> {
        advice(text).unwrap().into_iter().map(Advice::id).collect()
    }

    #[test]
    fn each_rule_is_about_what_it_names() {
        for (condition, expected) in [
            ("c.a = 1", &[][..]),
            ("ARRAY_CONTAINS(c.tags, {a: 1}, true)", &["QA1000"]),
            ("ARRAY_CONTAINS(c.tags, {a: 1}, false) OR ARRAY_CONTAINS(c.tags, 1)", &[]),
            ("contains(c.s, 'x')", &["QA1002"]),
            ("STARTSWITH(c.s, 'x', true)", &["QA1003"]),
            ("STARTSWITH(c.s, 'x') AND STRINGEQUALS(c.s, 'x', false)", &[]),
            ("StringEquals(c.s, 'x', true)", &["QA1003"]),
            ("NOT ENDSWITH(c.s, 'x', true)", &["QA1004"]),
            ("LOWER(c.s) = 'x'", &["QA1006"]),
            ("c.t > GetCurrentDateTime()", &["QA1007"]),
            ("c.t > GetCurrentTicks() + 1 OR c.u < GetCurrentTimestamp()", &["QA1008", "QA1009"]),
            ("c.t > GetCurrentDateTimeStatic()", &[]),
            ("EXISTS(SELECT 1 FROM t IN c.t WHERE CONTAINS(t, 'x'))", &["QA1002"]),
        ] {
            assert_eq!(ids(&format!("SELECT * FROM c WHERE {condition}")), expected, "{condition}");
        }
    }

    #[test]
    fn whole_queries_are_looked_at() {
        assert_eq!(ids("SELECT DISTINCT c.id FROM c JOIN t IN c.t"), ["QA1001"]);
        assert_eq!(ids("SELECT COUNT(1) FROM c GROUP BY LOWER(c.a)"), ["QA1005"]);
        assert!(ids("SELECT DISTINCT c.id, CONTAINS(c.a, 'x') FROM c").is_empty());
        assert!(ids("SELECT c.a.b FROM c GROUP BY c.a.b").is_empty());
        assert!(advice("SELECT").is_err());
    }
}
