//! ORDER BY, and what subqueries can't have.

use query::algebra::Expr;
use query::plan::SortOrder;
use query::select::{Binding, SortKey};

use super::super::ast::{self, Direction, OrderBy, OrderItem};
use super::super::diagnostic::Diagnostic;
use super::super::rank::{self, Score};
use super::{AggregateUse, Lowered, Lowering, Purpose};

/// Most sort keys (ours: the service has no more paths in a composite index).
const KEYS_MAX: usize = 8;

impl Lowering<'_> {
    /// The sort keys of a query that does not group, as paths of the item.
    pub(super) fn order(
        &mut self,
        query: &ast::Query,
        bindings: &[Binding],
        outer: usize,
    ) -> Lowered<Vec<SortKey>> {
        let Some(order_by) = &query.order_by else { return Ok(Vec::new()) };
        self.aggregates = AggregateUse::Refused("ORDER BY");
        if order_by.is_rank {
            return self.ranked(query, order_by);
        }
        if let Some(args) = rank::vector_order(order_by) {
            return self.nearest(order_by, args);
        }
        if let Some(excess) = order_by.items.get(KEYS_MAX) {
            let what = format!("more than {KEYS_MAX} expressions in ORDER BY");
            return Err(Diagnostic::not_supported(&what, excess.expr.span));
        }
        let mut keys = Vec::with_capacity(order_by.items.len());
        for item in &order_by.items {
            let expr = self.expr(&item.expr)?;
            let expr = item_path(expr, bindings, outer)?;
            keys.push(SortKey { expr, order: sort_order(item) });
        }
        Ok(keys)
    }

    /// `ORDER BY RANK`, which is checked and can't be run.
    fn ranked(&mut self, query: &ast::Query, order_by: &OrderBy) -> Lowered<Vec<SortKey>> {
        let ranking = rank::ranking(query, order_by, self.given)?;
        for score in &ranking.scores {
            let args = match score {
                Score::FullText { path, terms } => {
                    self.expr(path)?;
                    terms
                }
                Score::Vector { args } => args,
            };
            for arg in *args {
                self.expr(arg)?;
            }
        }
        self.refuse_to_run("ORDER BY RANK", order_by)
    }

    /// `ORDER BY VectorDistance(...)`, likewise.
    fn nearest(&mut self, order_by: &OrderBy, args: &[ast::Expr]) -> Lowered<Vec<SortKey>> {
        if order_by.items.iter().any(|item| item.direction.is_some()) {
            return Err(Diagnostic::planner(
                "Specifying a sorting order (ASC or DESC) with VectorDistance function is not \
                 supported.",
            ));
        }
        for arg in args {
            self.expr(arg)?;
        }
        self.refuse_to_run("the VectorDistance function", order_by)
    }

    /// There is nothing to sort by for the client's plan, which is made of the text.
    fn refuse_to_run(&self, what: &str, order_by: &OrderBy) -> Lowered<Vec<SortKey>> {
        match self.purpose {
            Purpose::Planning => Ok(Vec::new()),
            Purpose::Running => Err(Diagnostic::not_supported(what, order_by.span)),
        }
    }
}

pub(super) fn sort_order(item: &OrderItem) -> SortOrder {
    match item.direction {
        Some(Direction::Descending) => SortOrder::Descending,
        Some(Direction::Ascending) | None => SortOrder::Ascending,
    }
}

/// A sort key as a path of the item. One that begins at a part of the item is prolonged; one that
/// begins at something else is refused.
fn item_path(expr: Expr, bindings: &[Binding], outer: usize) -> Lowered<Expr> {
    if begins_with_computed(&expr) {
        return Ok(expr);
    }
    let Some((slot, is_whole)) = path_root(&expr) else {
        return Err(Diagnostic::unsupported_order());
    };
    let Some(at) = slot.checked_sub(outer) else {
        return if is_whole { Err(Diagnostic::unsupported_order()) } else { Ok(expr) };
    };
    match bindings.get(at) {
        Some(Binding::Value(part)) => {
            let path = replace_root(expr, part);
            item_path(path, bindings, outer)
        }
        Some(Binding::Elements(_) | Binding::Rows(_)) | None => {
            Err(Diagnostic::planner("Order-by over correlated collections is not supported."))
        }
    }
}

/// Whether a path begins with a property that is computed, which is as good as a stored one.
fn begins_with_computed(expr: &Expr) -> bool {
    if let Expr::Property { base, .. } = expr {
        return begins_with_computed(base);
    }
    matches!(expr, Expr::Computed(_))
}

/// The variable that a path begins with, and whether it is all of the path.
fn path_root(expr: &Expr) -> Option<(usize, bool)> {
    let mut at = expr;
    loop {
        if let Expr::Variable(slot) = at {
            return Some((*slot, std::ptr::eq(at, expr)));
        } else if let Expr::Property { base, .. } = at {
            at = base;
        } else if let Expr::Element { base, index } = at
            && matches!(**index, Expr::Constant(_))
        {
            at = base;
        } else {
            return None;
        }
    }
}

fn replace_root(expr: Expr, root: &Expr) -> Expr {
    if let Expr::Property { base, name } = expr {
        Expr::Property { base: Box::new(replace_root(*base, root)), name }
    } else if let Expr::Element { base, index } = expr {
        Expr::Element { base: Box::new(replace_root(*base, root)), index }
    } else {
        root.clone()
    }
}

/// Fails on the clauses that only a whole query can have.
pub(super) fn refuse_in_subquery(query: &ast::Query) -> Lowered<()> {
    let (code, message, span) = match (&query.order_by, &query.top, &query.window) {
        (Some(order_by), _, _) if order_by.is_rank => {
            ("SC2228", "The ORDER BY RANK clause is not supported in subqueries.", order_by.span)
        }
        (Some(order_by), _, _) => {
            ("SC2202", "'ORDER BY' is not supported in subqueries.", order_by.span)
        }
        (None, Some(top), _) => ("SC2203", "'TOP' is not supported in subqueries.", top.span),
        (None, None, Some(window)) => {
            ("SC2204", "'OFFSET LIMIT' clause is not supported in subqueries.", window.span)
        }
        (None, None, None) => return Ok(()),
    };
    Err(Diagnostic::syntax(code, message.to_owned(), span))
}
