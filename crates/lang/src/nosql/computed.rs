//! Definitions of computed properties: `SELECT VALUE <expression of the item> FROM <name>`.

use model::limits::COMPUTED_PROPERTY_DEPTH_MAX;
use query::functions::date::CurrentTime;

use super::ast::{Collection, Expr, ExprKind, Query, Select};
use super::lower::Purpose;
use super::{Environment, lower, parse};
use crate::SyntaxError;

/// Why a text does not define a property.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// It is not a query.
    #[error("{0}")]
    Malformed(SyntaxError),
    /// It does not select exactly one value.
    #[error("the VALUE expression is missing")]
    NoValue,
    /// It contains something that is not allowed in a definition.
    #[error("{0} is not allowed in the query of a computed property")]
    NotAllowed(&'static str),
}

/// Whether a text defines a property.
pub fn check_computed_property(text: &str) -> Result<(), DefinitionError> {
    let query = parse(text).map_err(DefinitionError::Malformed)?;
    let lowered = lower::lower_query(&query, &[], &Environment::default(), Purpose::Planning);
    lowered.map_err(|diagnostic| DefinitionError::Malformed(diagnostic.locate(text)))?;
    value_of(query).map(|_| ())
}

/// The name of the item and the expression of a definition.
pub(super) fn read(text: &str) -> Result<(String, Expr), DefinitionError> {
    value_of(parse(text).map_err(DefinitionError::Malformed)?)
}

fn value_of(query: Query) -> Result<(String, Expr), DefinitionError> {
    let clauses = [
        (query.distinct.is_some(), "DISTINCT"),
        (query.top.is_some(), "TOP"),
        (query.from.len() != 1, "anything but one source"),
        (query.filter.is_some(), "WHERE"),
        (!query.group_by.is_empty(), "GROUP BY"),
        (query.order_by.is_some(), "ORDER BY"),
        (query.window.is_some(), "OFFSET LIMIT"),
    ];
    let Select::Value(value) = query.select else { return Err(DefinitionError::NoValue) };
    if let Some((_, clause)) = clauses.iter().find(|(is_used, _)| *is_used) {
        return Err(DefinitionError::NotAllowed(clause));
    }
    let alias = query.from.into_iter().next().and_then(|source| {
        let Collection::Path(path) = source.collection else { return None };
        let ExprKind::Identifier(name) = path.kind else { return None };
        (!source.is_iteration).then(|| source.alias.map_or(name, |alias| alias.text))
    });
    let Some(alias) = alias else { return Err(DefinitionError::NotAllowed("a part of the item")) };
    if value.depth > COMPUTED_PROPERTY_DEPTH_MAX {
        return Err(DefinitionError::NotAllowed("so much nesting"));
    }
    match refused(&value) {
        Some(what) => Err(DefinitionError::NotAllowed(what)),
        None => Ok((alias, value)),
    }
}

/// The part of an expression that is not allowed in a definition.
fn refused(expr: &Expr) -> Option<&'static str> {
    if let ExprKind::Subquery { .. } = &expr.kind {
        return Some("a subquery");
    }
    if let ExprKind::Parameter(_) = &expr.kind {
        return Some("a parameter");
    }
    if let ExprKind::Call { name, is_user_defined, .. } = &expr.kind {
        let is_named = |wanted: &str| name.text.eq_ignore_ascii_case(wanted);
        let is_spatial = name.text.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("ST_"));
        if *is_user_defined {
            return Some("a user-defined function");
        } else if lower::aggregate_call(expr).is_some() {
            return Some("an aggregate function");
        } else if is_spatial {
            return Some("a spatial function");
        } else if is_named("RAND") || CurrentTime::lookup(&name.text).is_some() {
            return Some("a function with changing results");
        }
    }
    expr.children().into_iter().find_map(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        check_computed_property(text).unwrap_err().to_string()
    }

    #[test]
    fn a_value_of_the_item_is_a_definition() {
        for text in [
            "SELECT VALUE LOWER(c.name) FROM c",
            "select value c.a + c.b[0] from c",
            "SELECT VALUE r.a ?? {x: [r.b]} FROM root r",
        ] {
            assert_eq!(check_computed_property(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        assert!(matches!(
            check_computed_property("SELECT LOWER(c.name) FROM r"),
            Err(DefinitionError::Malformed(error)) if error.code == "SC2001"
        ));
        assert_eq!(
            check_computed_property("SELECT LOWER(c.name) FROM c"),
            Err(DefinitionError::NoValue)
        );
        for (text, what) in [
            ("SELECT DISTINCT VALUE c.a FROM c", "DISTINCT"),
            ("SELECT TOP 1 VALUE c.a FROM c", "TOP"),
            ("SELECT VALUE 1", "one source"),
            ("SELECT VALUE t FROM c JOIN t IN c.t", "one source"),
            ("SELECT VALUE t FROM t IN c.t", "part of the item"),
            ("SELECT VALUE t FROM c.t", "part of the item"),
            ("SELECT VALUE c.a FROM c WHERE c.b", "WHERE"),
            ("SELECT VALUE c.a FROM c ORDER BY c.a", "ORDER BY"),
            ("SELECT VALUE c.a FROM c GROUP BY c.a", "GROUP BY"),
            ("SELECT VALUE c.a FROM c OFFSET 0 LIMIT 1", "OFFSET"),
            ("SELECT VALUE COUNT(1) FROM c", "aggregate"),
            ("SELECT VALUE udf.f(c.a) FROM c", "user-defined"),
            ("SELECT VALUE EXISTS(SELECT 1 FROM t IN c.t) FROM c", "subquery"),
            ("SELECT VALUE st_area(c.a) FROM c", "spatial"),
            ("SELECT VALUE [RAND()] FROM c", "changing"),
            ("SELECT VALUE GetCurrentTicks() FROM c", "changing"),
            ("SELECT VALUE c[@p] FROM c", "parameter"),
        ] {
            let problem = problem(text);
            assert!(problem.contains(what), "{text}: {problem}");
        }
        let deep = format!("SELECT VALUE {}c.a FROM c", "~".repeat(60));
        assert!(problem(&deep).contains("nesting"));
    }
}
