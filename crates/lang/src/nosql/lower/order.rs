//! ORDER BY, and the clauses that subqueries cannot have.

use std::sync::Arc;

use model::Value;
use model::limits::ORDER_BY_KEYS_MAX;
use query::algebra::Expr;
use query::plan::{Binding, SortKey, SortOrder};

use super::super::ast::{self, Direction, OrderBy, OrderItem};
use super::super::diagnostic::Diagnostic;
use super::super::rank::{self, Score};
use super::{AggregateUse, Lowered, Lowering, Purpose};

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
        if rank::vector_order(order_by).is_some()
            && let [only] = order_by.items.as_slice()
        {
            return self.nearest(only);
        }
        if let [only] = order_by.items.as_slice()
            && rank::is_score(&only.expr)
        {
            return Ok(vec![self.score_key(only)?]);
        }
        if let Some(excess) = order_by.items.get(ORDER_BY_KEYS_MAX) {
            let what = format!("more than {ORDER_BY_KEYS_MAX} expressions in ORDER BY");
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

    /// `ORDER BY RANK`. It has no sort keys: each score becomes a query of its own, which is made
    /// from the text.
    fn ranked(&mut self, query: &ast::Query, order_by: &OrderBy) -> Lowered<Vec<SortKey>> {
        let ranking = rank::ranking(query, order_by, self.given)?;
        for score in &ranking.scores {
            match score {
                Score::FullText { path, terms } => {
                    let path = self.expr(path)?;
                    let terms = terms.iter().map(|term| self.expr(term));
                    let terms = terms.collect::<Lowered<Vec<_>>>()?;
                    self.search_for(&path, &terms, order_by.span)?;
                }
                Score::Vector { call, .. } => {
                    self.expr(call)?;
                }
            }
        }
        match self.purpose {
            Purpose::Planning => Ok(Vec::new()),
            Purpose::Running => Err(Diagnostic::not_supported("ORDER BY RANK", order_by.span)),
        }
    }

    /// `ORDER BY VectorDistance(...)`: the most similar first, items without a vector last.
    fn nearest(&mut self, item: &OrderItem) -> Lowered<Vec<SortKey>> {
        if item.direction.is_some() {
            return Err(Diagnostic::planner(
                "Specifying a sorting order (ASC or DESC) with VectorDistance function is not \
                 supported.",
            ));
        }
        Ok(vec![self.score_key(item)?])
    }

    /// A sort key that is a score. Without a direction the best rows come first.
    fn score_key(&mut self, item: &OrderItem) -> Lowered<SortKey> {
        let expr = self.expr(&item.expr)?;
        let best_first = expr.as_distance().map(|(_, distance)| distance.metric.best_first());
        let order = match item.direction {
            None => best_first.unwrap_or(SortOrder::Ascending),
            Some(_) => sort_order(item),
        };
        let expr = match order {
            SortOrder::Descending => expr,
            // A missing score would come before all others.
            SortOrder::Ascending => {
                let last = Expr::Constant(Some(Arc::new(Value::Double(f64::MAX))));
                Expr::Coalesce(Box::new(expr), Box::new(last))
            }
        };
        Ok(SortKey { expr, order })
    }
}

pub(super) fn sort_order(item: &OrderItem) -> SortOrder {
    match item.direction {
        Some(Direction::Descending) => SortOrder::Descending,
        Some(Direction::Ascending) | None => SortOrder::Ascending,
    }
}

/// A sort key as a path of the item. A path that begins at a part of the item is extended; one that
/// begins elsewhere is rejected.
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

/// Whether a path begins with a computed property, which is as good as a stored one.
fn begins_with_computed(expr: &Expr) -> bool {
    if let Expr::Property { base, .. } = expr {
        return begins_with_computed(base);
    }
    matches!(expr, Expr::Computed(_))
}

/// The variable that a path begins with, and whether the path is only that variable.
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
