//! Binds an item to the variables of a row, and folds what does not depend on one.

use std::borrow::Cow;
use std::sync::Arc;

use model::Value;

use super::{into_owned, object};
use crate::algebra::{Expr, Plan, Projection, Source};
use crate::{Budget, EvalError};

/// The values of a row's variables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    variable: Option<&'a Value>,
}

impl<'a> Scope<'a> {
    const EMPTY: Scope<'static> = Scope { variable: None };

    pub(super) fn get(self, slot: usize) -> Option<&'a Value> {
        if slot == 0 { self.variable } else { None }
    }
}

/// A row: what the FROM source made of an item.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    variable: Option<Cow<'a, Value>>,
}

impl Row<'_> {
    pub(crate) fn scope(&self) -> Scope<'_> {
        Scope { variable: self.variable.as_deref() }
    }
}

impl Plan {
    /// The row that the FROM source makes of `item`, if any.
    pub(crate) fn bind<'a>(
        &'a self,
        item: &'a Value,
        budget: &Budget,
    ) -> Result<Option<Row<'a>>, EvalError> {
        match &self.clauses().source {
            Source::Nothing => Ok(Some(Row { variable: None })),
            Source::Item => Ok(Some(Row { variable: Some(Cow::Borrowed(item)) })),
            Source::Part(part) => {
                let part = part.eval(Scope { variable: Some(item) }, budget)?;
                Ok(part.map(|part| Row { variable: Some(part) }))
            }
        }
    }

    /// What the projection yields in `scope`.
    pub(crate) fn yields(
        &self,
        scope: Scope<'_>,
        budget: &Budget,
    ) -> Result<Option<Value>, EvalError> {
        let value = match &self.clauses().projection {
            Projection::Value(value) => value.eval(scope, budget)?,
            Projection::Fields(fields) => object(fields, scope, budget)?,
        };
        let Some(value) = value else { return Ok(None) };
        if !is_finite(&value) {
            return Err(EvalError::NonFiniteNumber);
        }
        into_owned(value, budget).map(Some)
    }
}

impl Expr {
    /// This expression, evaluated if all its operands are constants. Compilers call it on every
    /// node they make, children first; when the budget runs out nodes stay as they are.
    pub fn folded(self, budget: &Budget) -> Expr {
        if !self.has_constant_operands() {
            return self;
        }
        let value = self.eval(Scope::EMPTY, budget);
        match value.and_then(|value| value.map(|value| into_owned(value, budget)).transpose()) {
            Ok(value) => Expr::Constant(value.map(Arc::new)),
            Err(EvalError::BudgetExceeded | EvalError::NonFiniteNumber) => self,
        }
    }

    fn has_constant_operands(&self) -> bool {
        use crate::algebra::LikePattern;
        let is_constant = |expr: &Expr| matches!(expr, Expr::Constant(_));
        match self {
            Expr::Constant(_) | Expr::Variable(_) => false,
            Expr::Property { base, .. } => is_constant(base),
            Expr::Element { base, index } => is_constant(base) && is_constant(index),
            Expr::Unary { operand, .. } | Expr::Not(operand) => is_constant(operand),
            Expr::Binary { left, right, .. } | Expr::Coalesce(left, right) => {
                is_constant(left) && is_constant(right)
            }
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

/// Whether JSON can carry every number in `value`.
fn is_finite(value: &Value) -> bool {
    if let Value::Double(number) = value {
        return number.is_finite();
    }
    if let Some(elements) = value.as_array() {
        return elements.iter().all(is_finite);
    }
    value.as_object().is_none_or(|object| object.iter().all(|(_, field)| is_finite(field)))
}
