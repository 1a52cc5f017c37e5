//! Scores that rows are ranked by: `ORDER BY RANK`, and `ORDER BY VectorDistance(...)`.

use model::limits::{RANK_SCORES_MAX, SCORE_TERMS_MAX};
use model::{PropertyPath, Value};
use query::plan::SortOrder;
use query::vector::VectorMetric;

use super::ast::{Collection, Expr, ExprKind, OrderBy, Query, Span};
use super::diagnostic::Diagnostic;

/// What rows are ranked by.
#[derive(Debug)]
pub(super) struct Ranking<'q> {
    pub scores: Vec<Score<'q>>,
    /// One per score; none if all count alike.
    pub weights: Vec<f64>,
}

/// A measure of how well a row matches.
#[derive(Clone, Copy, Debug)]
pub(super) enum Score<'q> {
    /// By the words of a text.
    FullText { path: &'q Expr, terms: &'q [Expr] },
    /// By the distance of a vector.
    Vector { call: &'q Expr, args: &'q [Expr] },
}

/// The ranking of a query, or what is wrong with it.
pub(super) fn ranking<'q>(
    query: &'q Query,
    order_by: &'q OrderBy,
    parameters: &[(String, Value)],
) -> Result<Ranking<'q>, Diagnostic> {
    check_sources(query, order_by.span)?;
    let [item] = order_by.items.as_slice() else { return Err(no_score(order_by.span)) };
    if item.direction.is_some() {
        return Err(Diagnostic::planner(
            "Specifying a sort order (ASC or DESC) in the ORDER BY RANK clause is not allowed.",
        ));
    }
    let Some(args) = call_of(&item.expr, "RRF") else {
        return Ok(Ranking { scores: vec![score(&item.expr)?], weights: Vec::new() });
    };
    if let Some(nested) = args.iter().find(|arg| call_of(arg, "RRF").is_some()) {
        let message = "'RRF' is not a recognized built-in function name.".to_owned();
        return Err(Diagnostic::syntax("SC2005", message, nested.span));
    }
    let (scored, weighed) = match args.split_last() {
        Some((last, scored)) if score(last).is_err() => (scored, Some(last)),
        _ => (args, None),
    };
    if scored.len() < 2 {
        let message = "The RRF function requires at least 2 argument(s).".to_owned();
        return Err(Diagnostic::syntax("SC2050", message, item.expr.span));
    }
    if scored.len() > RANK_SCORES_MAX {
        let what = format!("more than {RANK_SCORES_MAX} scores");
        return Err(Diagnostic::not_supported(&what, item.expr.span));
    }
    let scores = scored.iter().map(score).collect::<Result<Vec<_>, _>>()?;
    let weights = match weighed {
        Some(weighed) => numbers(weighed, parameters)
            .filter(|weights| weights.len() == scores.len())
            .ok_or_else(|| wrong_weights(weighed.span))?,
        None => Vec::new(),
    };
    Ok(Ranking { scores, weights })
}

/// Checks that a ranking is over the items of the container.
fn check_sources(query: &Query, span: Span) -> Result<(), Diagnostic> {
    let (code, message) = match query.from.as_slice() {
        [_, _, ..] => ("SC2224", "The JOIN operator is not allowed with the ORDER BY RANK clause."),
        [only] if only.is_iteration => (
            "SC2223",
            "The FROM clause with the IN operator is not allowed with the ORDER BY RANK clause.",
        ),
        [only] if matches!(only.collection, Collection::Subquery(_)) => (
            "SC2225",
            "Subqueries in the FROM clause are not allowed with the ORDER BY RANK clause.",
        ),
        [] | [_] => return Ok(()),
    };
    Err(Diagnostic::syntax(code, message.to_owned(), span))
}

/// The arguments of a call of a built-in function.
fn call_of<'q>(expr: &'q Expr, wanted: &str) -> Option<&'q [Expr]> {
    if let ExprKind::Call { name, is_user_defined: false, args } = &expr.kind
        && name.text.eq_ignore_ascii_case(wanted)
    {
        return Some(args);
    }
    None
}

fn score(expr: &Expr) -> Result<Score<'_>, Diagnostic> {
    if let Some(args) = call_of(expr, "FullTextScore") {
        return full_text(expr, args);
    }
    match vector_distance(expr) {
        Some(args) if (2..=4).contains(&args.len()) => Ok(Score::Vector { call: expr, args }),
        Some(_) => {
            let message = "The VectorDistance function requires 2 to 4 argument(s).".to_owned();
            Err(Diagnostic::syntax("SC2050", message, expr.span))
        }
        None => Err(no_score(expr.span)),
    }
}

fn full_text<'q>(expr: &Expr, args: &'q [Expr]) -> Result<Score<'q>, Diagnostic> {
    let Some((path, terms)) = args.split_first().filter(|(_, terms)| !terms.is_empty()) else {
        let message = "The FullTextScore function requires at least 2 argument(s).".to_owned();
        return Err(Diagnostic::syntax("SC2050", message, expr.span));
    };
    // In early versions terms were an array.
    let terms = match terms {
        [Expr { kind: ExprKind::Array(terms), .. }] => terms,
        terms => terms,
    };
    if terms.len() > SCORE_TERMS_MAX {
        let what = format!("more than {SCORE_TERMS_MAX} terms of the FullTextScore function");
        return Err(Diagnostic::not_supported(&what, expr.span));
    }
    Ok(Score::FullText { path, terms })
}

/// The arguments of a call of `VectorDistance`.
pub(super) fn vector_distance(expr: &Expr) -> Option<&[Expr]> {
    call_of(expr, "VectorDistance")
}

/// Whether an expression is a score as ranges compute it.
pub(super) fn is_score(expr: &Expr) -> bool {
    ["_FullTextScore", "_VectorScore"].iter().any(|name| call_of(expr, name).is_some())
}

/// The only sort key of a query, if it is the distance of a vector.
pub(super) fn vector_order(order_by: &OrderBy) -> Option<&[Expr]> {
    match order_by.items.as_slice() {
        [only] if !order_by.is_rank => vector_distance(&only.expr),
        _ => None,
    }
}

/// The order in which the most similar rows come first.
pub(super) fn best_first(args: &[Expr], policy: &[(PropertyPath, VectorMetric)]) -> SortOrder {
    let metric = metric_option(args).or_else(|| {
        let path = args.iter().take(2).find_map(path_of)?;
        policy.iter().find(|(known, _)| known.segments() == path).map(|(_, metric)| *metric)
    });
    metric.unwrap_or(VectorMetric::Cosine).best_first()
}

/// The metric in the options of a call.
fn metric_option(args: &[Expr]) -> Option<VectorMetric> {
    let ExprKind::Object(fields) = &args.get(3)?.kind else { return None };
    let (_, value) = fields.iter().find(|(name, _)| name.text == "distanceFunction")?;
    VectorMetric::lookup(value.as_string_literal()?)
}

/// The path of an expression in the item.
fn path_of(expr: &Expr) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut at = expr;
    loop {
        if let ExprKind::Member { base, name } = &at.kind {
            names.push(name.text.clone());
            at = base;
        } else if let ExprKind::Index { base, index } = &at.kind {
            names.push(index.as_string_literal()?.to_owned());
            at = base;
        } else {
            break;
        }
    }
    names.reverse();
    let is_item = matches!(at.kind, ExprKind::Identifier(_)) && !names.is_empty();
    is_item.then_some(names)
}

/// The numbers of an array that is a literal or a parameter.
fn numbers(expr: &Expr, parameters: &[(String, Value)]) -> Option<Vec<f64>> {
    if let ExprKind::Parameter(name) = &expr.kind {
        let (_, value) = parameters.iter().find(|(known, _)| known == name)?;
        return value.as_array()?.iter().map(Value::as_f64).collect();
    }
    let ExprKind::Array(elements) = &expr.kind else { return None };
    let number = |element: &Expr| {
        if let ExprKind::Literal(Some(value)) = &element.kind { value.as_f64() } else { None }
    };
    elements.iter().map(number).collect()
}

fn no_score(span: Span) -> Diagnostic {
    let message = "The ORDER BY RANK clause must be followed by a VectorDistance and/or a \
                   FullTextScore function call.";
    Diagnostic::syntax("SC2221", message.to_owned(), span)
}

fn wrong_weights(span: Span) -> Diagnostic {
    let message = "The last parameter of the RRF function is an optional array of weights. When \
                   present, it must be a literal array of numbers, one for each of the component \
                   scores used for the RRF function.";
    Diagnostic::syntax("SC2229", message.to_owned(), span)
}
