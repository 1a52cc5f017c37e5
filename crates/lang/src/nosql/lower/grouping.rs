//! GROUP BY and aggregates: expresses the select list by keys and results instead of rows.

use model::limits::GROUP_BY_KEYS_MAX;
use query::algebra::Expr;
use query::plan::{Aggregate, AggregateCall, Grouping, Projection, SortKey};

use super::super::ast::{self, ExprKind, Select};
use super::super::diagnostic::Diagnostic;
use super::super::print;
use super::{AggregateUse, Lowered, Lowering, aggregate_call, order, unique_names};

/// Whether a query groups its rows, if only into one group.
pub(super) fn is_grouped(query: &ast::Query) -> bool {
    !query.group_by.is_empty() || selected(&query.select).any(has_aggregate)
}

/// The selected expressions.
fn selected(select: &Select) -> impl Iterator<Item = &ast::Expr> {
    let (value, items) = match select {
        Select::Star(_) => (None, [].as_slice()),
        Select::Value(value) => (Some(value), [].as_slice()),
        Select::List(items) => (None, items.as_slice()),
    };
    value.into_iter().chain(items.iter().map(|item| &item.expr))
}

/// Whether an expression calls an aggregate, not counting subqueries.
pub(in super::super) fn has_aggregate(expr: &ast::Expr) -> bool {
    aggregate_call(expr).is_some() || expr.children().into_iter().any(has_aggregate)
}

/// The aggregates that a query's select list calls, not counting subqueries.
pub(in super::super) fn aggregates_in(query: &ast::Query) -> Vec<Aggregate> {
    fn collect(expr: &ast::Expr, found: &mut Vec<Aggregate>) {
        match aggregate_call(expr) {
            Some((aggregate, _)) => found.push(aggregate),
            None => expr.children().into_iter().for_each(|child| collect(child, found)),
        }
    }
    let mut found = Vec::new();
    selected(&query.select).for_each(|expr| collect(expr, &mut found));
    found
}

impl Lowering<'_> {
    /// The grouping of a query, and its projection and order over the variables of groups. The
    /// variables of rows start at `rows`, those of groups at `outer`.
    pub(super) fn grouped(
        &mut self,
        query: &ast::Query,
        rows: usize,
        outer: usize,
    ) -> Lowered<(Grouping, Projection, Vec<SortKey>)> {
        if let (Select::Star(span), false) = (&query.select, query.group_by.is_empty()) {
            let message = "'SELECT *' is not allowed with GROUP BY.".to_owned();
            return Err(Diagnostic::syntax("SC2041", message, *span));
        }
        let keys = self.group_keys(&query.group_by)?;
        let start = outer + keys.len();
        self.aggregates = AggregateUse::Collected { start, calls: Vec::new() };
        let group = GroupScope { rows, outer, keys: &keys };
        let projection = match &query.select {
            Select::Star(_) => Projection::Value(Expr::Constant(None)),
            Select::Value(value) => Projection::Value(self.grouped_expr(value, &group)?),
            Select::List(items) => {
                let fields = unique_names(items)?.into_iter().zip(items);
                let field = |(name, item): (String, &ast::SelectItem)| {
                    Ok((name, self.grouped_expr(&item.expr, &group)?))
                };
                Projection::Fields(fields.map(field).collect::<Lowered<_>>()?)
            }
        };
        let order = self.grouped_order(query, &group)?;
        let aggregates =
            match std::mem::replace(&mut self.aggregates, AggregateUse::Refused("ORDER BY")) {
                AggregateUse::Collected { calls, .. } => calls,
                AggregateUse::Refused(_) | AggregateUse::Nested => Vec::new(),
            };
        Ok((Grouping { keys, aggregates }, projection, order))
    }

    fn group_keys(&mut self, group_by: &[ast::Expr]) -> Lowered<Vec<Expr>> {
        if let Some(excess) = group_by.get(GROUP_BY_KEYS_MAX) {
            let what = format!("more than {GROUP_BY_KEYS_MAX} expressions in GROUP BY");
            return Err(Diagnostic::not_supported(&what, excess.span));
        }
        self.aggregates = AggregateUse::Refused("GROUP BY");
        group_by.iter().map(|key| self.expr(key)).collect()
    }

    /// The order of groups. A single group has none.
    fn grouped_order(
        &mut self,
        query: &ast::Query,
        group: &GroupScope<'_>,
    ) -> Lowered<Vec<SortKey>> {
        let Some(order_by) = &query.order_by else { return Ok(Vec::new()) };
        if order_by.is_rank {
            return Err(Diagnostic::not_supported("ORDER BY RANK", order_by.span));
        }
        let calls = self.take_calls();
        let mut keys = Vec::with_capacity(order_by.items.len());
        for item in &order_by.items {
            // Names must exist, whether or not the order matters.
            self.aggregates = AggregateUse::Refused("ORDER BY");
            self.expr(&item.expr)?;
            if !group.keys.is_empty() {
                let expr = self.grouped_expr(&item.expr, group)?;
                keys.push(SortKey { expr, order: order::sort_order(item) });
            }
        }
        let start = group.outer + group.keys.len();
        self.aggregates = AggregateUse::Collected { start, calls };
        Ok(keys)
    }

    fn take_calls(&mut self) -> Vec<AggregateCall> {
        match &mut self.aggregates {
            AggregateUse::Collected { calls, .. } => std::mem::take(calls),
            AggregateUse::Refused(_) | AggregateUse::Nested => Vec::new(),
        }
    }

    /// An expression over a group: it consists of keys, of aggregates and of parts that do not
    /// depend on rows.
    fn grouped_expr(&mut self, expr: &ast::Expr, group: &GroupScope<'_>) -> Lowered<Expr> {
        if aggregate_call(expr).is_some() {
            return self.expr(expr);
        }
        if !has_aggregate(expr) {
            let aggregates =
                std::mem::replace(&mut self.aggregates, AggregateUse::Refused("GROUP BY"));
            let lowered = self.expr(expr);
            self.aggregates = aggregates;
            let lowered = lowered?;
            if let Some(key) = group.keys.iter().position(|key| *key == lowered) {
                return Ok(Expr::Variable(group.outer + key));
            }
            if lowered.is_free_of_variables_from(group.rows) {
                return Ok(lowered);
            }
        }
        let is_path = matches!(expr.kind, ExprKind::Identifier(_)) || expr.path_base().is_some();
        match is_path && !self.begins_with_key(expr, group)? {
            true => Err(not_in_group(expr)),
            false => self.grouped_operands(expr, group),
        }
    }

    /// Whether a prefix of a path is a key of the group.
    fn begins_with_key(&mut self, path: &ast::Expr, group: &GroupScope<'_>) -> Lowered<bool> {
        let mut at = path;
        while let Some(base) = at.path_base() {
            if aggregate_call(base).is_some() || has_aggregate(base) {
                return Ok(true);
            }
            let is_path =
                matches!(base.kind, ExprKind::Identifier(_)) || base.path_base().is_some();
            let lowered = self.expr(base)?;
            if !is_path || group.keys.contains(&lowered) {
                return Ok(true);
            }
            at = base;
        }
        Ok(false)
    }

    /// The same operation on operands over the group.
    fn grouped_operands(&mut self, expr: &ast::Expr, group: &GroupScope<'_>) -> Lowered<Expr> {
        if let ExprKind::Subquery { .. } = expr.kind {
            return Err(not_in_group(expr));
        }
        let mut operands = Vec::new();
        for operand in expr.children() {
            operands.push(self.grouped_expr(operand, group)?);
        }
        Ok(self.combine(expr, operands)?.folded(&self.budget))
    }
}

/// The keys of a group.
struct GroupScope<'k> {
    /// The first variable of its rows.
    rows: usize,
    /// The first variable of the query itself.
    outer: usize,
    keys: &'k [Expr],
}

fn not_in_group(expr: &ast::Expr) -> Diagnostic {
    let message = format!(
        "Property reference '{}' is invalid in the select list because it is not contained in \
         either an aggregate function or the GROUP BY clause.",
        print::expr_text(expr)
    );
    Diagnostic::syntax("SC2102", message, expr.span)
}
