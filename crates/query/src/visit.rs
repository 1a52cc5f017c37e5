//! Visits expressions without evaluating them.

use crate::algebra::{Expr, LikePattern};
use crate::plan::{Binding, Plan, Projection, Select};

/// A query with more operators than this is never light.
const LIGHT_OPERATORS_MAX: usize = 64;

impl Expr {
    /// Calls `visit` with every direct operand; for a subquery, with every expression in it.
    pub fn for_each_child<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        match self {
            Expr::Constant(_)
            | Expr::Variable(_)
            | Expr::Random(_)
            | Expr::Matches(_)
            | Expr::SortValue(_) => {}
            Expr::Property { base, .. } => visit(base),
            Expr::Unary { operand, .. } | Expr::Not(operand) | Expr::Untag(operand) => {
                visit(operand)
            }
            Expr::Element { base: left, index: right }
            | Expr::Binary { left, right, .. }
            | Expr::Typed { left, right, .. }
            | Expr::Coalesce(left, right) => {
                visit(left);
                visit(right);
            }
            Expr::Conditional { condition: first, then: second, otherwise: third }
            | Expr::Between { operand: first, low: second, high: third } => {
                visit(first);
                visit(second);
                visit(third);
            }
            Expr::In { needle, list } => {
                visit(needle);
                list.iter().for_each(visit);
            }
            Expr::Like { operand, pattern } => {
                visit(operand);
                if let LikePattern::Computed { text, .. } = pattern {
                    visit(text);
                }
            }
            Expr::And(operands) | Expr::Or(operands) | Expr::Array(operands) => {
                operands.iter().for_each(visit);
            }
            Expr::Computed(property) => visit(&property.definition),
            Expr::Call { args, .. } | Expr::UserFunction { args, .. } => {
                args.iter().for_each(visit)
            }
            Expr::Object(fields) => fields.iter().for_each(|(_, field)| visit(field)),
            Expr::Subquery { select, .. } => select.for_each_expr(visit),
        }
    }

    fn as_subquery(&self) -> Option<&Select> {
        if let Expr::Subquery { select, .. } = self { Some(select) } else { None }
    }

    /// Whether this depends on none of the variables from `slot` on.
    pub fn is_free_of_variables_from(&self, slot: usize) -> bool {
        self.variables_end() <= slot
    }

    /// One more than the last variable that this expression needs from its surroundings.
    pub(crate) fn variables_end(&self) -> usize {
        self.variables_end_below(usize::MAX)
    }

    /// The same, for the variables below `limit`: those above belong to a subquery around this.
    fn variables_end_below(&self, limit: usize) -> usize {
        if let Expr::Variable(slot) = self {
            return if *slot < limit { slot + 1 } else { 0 };
        }
        if matches!(self, Expr::Matches(_) | Expr::SortValue(_)) {
            return usize::from(limit > 0);
        }
        let limit = match self.as_subquery() {
            Some(select) => limit.min(select.outer()),
            None => limit,
        };
        let mut end = 0;
        self.for_each_child(&mut |child| end = end.max(child.variables_end_below(limit)));
        end
    }
}

impl Select {
    /// Calls `visit` with every expression of the query.
    pub fn for_each_expr<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        for binding in self.bindings() {
            match binding {
                Binding::Value(expr) | Binding::Elements(expr) => visit(expr),
                Binding::Rows(select) => select.for_each_expr(visit),
            }
        }
        self.filter().into_iter().for_each(&mut *visit);
        if let Some(grouping) = self.grouping() {
            grouping.keys.iter().for_each(&mut *visit);
            grouping.aggregates.iter().for_each(|call| visit(&call.operand));
        }
        match self.projection() {
            Projection::Value(value) => visit(value),
            Projection::Fields(fields) => fields.iter().for_each(|(_, field)| visit(field)),
        }
    }
}

impl Plan {
    /// Whether evaluating an item takes hardly longer than reading it: a few operators on single
    /// values, and no pass over texts, arrays or rows.
    pub fn is_light(&self) -> bool {
        let select = self.select();
        let mut operators_left = LIGHT_OPERATORS_MAX;
        let mut is_light = self.is_row_by_row() && select.bindings().is_empty();
        select.for_each_expr(&mut |expr| is_light &= is_light_within(expr, &mut operators_left));
        is_light
    }

    /// Whether no work is left once the number of items is known.
    pub fn is_count(&self) -> bool {
        let mut operators_left = LIGHT_OPERATORS_MAX;
        let mut is_count = self.counts_at_once() && self.only_counts();
        let select = self.select();
        select.for_each_expr(&mut |expr| is_count &= is_light_within(expr, &mut operators_left));
        is_count
    }
}

fn is_light_within(expr: &Expr, operators_left: &mut usize) -> bool {
    let Some(left) = operators_left.checked_sub(1) else { return false };
    *operators_left = left;
    let mut is_light = match expr {
        Expr::Call { .. }
        | Expr::UserFunction { .. }
        | Expr::Subquery { .. }
        | Expr::Like { .. }
        | Expr::Matches(_)
        | Expr::Computed(_) => false,
        Expr::Constant(_)
        | Expr::Variable(_)
        | Expr::Random(_)
        | Expr::SortValue(_)
        | Expr::Property { .. }
        | Expr::Element { .. }
        | Expr::Unary { .. }
        | Expr::Binary { .. }
        | Expr::And(_)
        | Expr::Or(_)
        | Expr::Not(_)
        | Expr::Untag(_)
        | Expr::Typed { .. }
        | Expr::Coalesce(..)
        | Expr::Conditional { .. }
        | Expr::In { .. }
        | Expr::Between { .. }
        | Expr::Array(_)
        | Expr::Object(_) => true,
    };
    expr.for_each_child(&mut |child| {
        is_light = is_light && is_light_within(child, operators_left);
    });
    is_light
}
