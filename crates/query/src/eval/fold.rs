//! Evaluates expressions that do not depend on a row, ahead of time.

use std::sync::Arc;

use super::{Scope, into_owned};
use crate::algebra::{Expr, LikePattern};
use crate::{Budget, EvalError};

impl Expr {
    /// This expression, evaluated if all its operands are constants. Compilers call it on every
    /// node they make, children first; when the budget runs out nodes stay as they are.
    pub fn folded(self, budget: &Budget) -> Expr {
        if !self.has_constant_operands() {
            return self;
        }
        let value = self.eval(&Scope::EMPTY, budget);
        match value.and_then(|value| value.map(|value| into_owned(value, budget)).transpose()) {
            Ok(value) => Expr::Constant(value.map(Arc::new)),
            Err(
                EvalError::BudgetExceeded
                | EvalError::NonFiniteNumber
                | EvalError::ScalarSubqueryRows
                | EvalError::UserFunction
                | EvalError::PatternTooSlow
                | EvalError::Document
                | EvalError::MemoryExceeded,
            ) => self,
        }
    }

    fn has_constant_operands(&self) -> bool {
        let is_constant = |expr: &Expr| matches!(expr, Expr::Constant(_));
        match self {
            // A subquery may have variables of its own, and is rarely constant.
            Expr::Constant(_)
            | Expr::Variable(_)
            | Expr::Random(_)
            | Expr::Matches(_)
            | Expr::SortValue(_)
            | Expr::UserFunction { .. }
            | Expr::Computed(_)
            | Expr::Subquery { .. } => false,
            Expr::Property { base, .. } => is_constant(base),
            Expr::Element { base, index } => is_constant(base) && is_constant(index),
            Expr::Unary { operand, .. } | Expr::Not(operand) | Expr::Untag(operand) => {
                is_constant(operand)
            }
            Expr::Binary { left, right, .. }
            | Expr::Typed { left, right, .. }
            | Expr::Coalesce(left, right) => is_constant(left) && is_constant(right),
            Expr::And(operands) | Expr::Or(operands) | Expr::Array(operands) => {
                operands.iter().all(is_constant)
            }
            Expr::Conditional { condition, then, otherwise } => {
                is_constant(condition) && is_constant(then) && is_constant(otherwise)
            }
            Expr::In { needle, list } => is_constant(needle) && list.iter().all(is_constant),
            Expr::Between { operand, low, high } => {
                is_constant(operand) && is_constant(low) && is_constant(high)
            }
            Expr::Like { operand, pattern } => {
                is_constant(operand)
                    && match pattern {
                        LikePattern::Compiled(_) => true,
                        LikePattern::Computed { text, .. } => is_constant(text),
                    }
            }
            Expr::Call { args, .. } => args.iter().all(is_constant),
            Expr::Object(fields) => fields.iter().all(|(_, field)| is_constant(field)),
        }
    }
}
