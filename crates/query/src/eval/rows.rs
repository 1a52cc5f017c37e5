//! The rows of a query: binds FROM sources one after the other, and tests the filter as early as
//! possible.

use model::Value;

use super::{Scope, into_owned, object};
use crate::plan::{Binding, Projection, Select};
use crate::{Budget, EvalError};

/// Whether the callback that is given rows wants more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    More,
    Enough,
}

/// Called with the variables of each row.
pub(crate) type VisitRow<'v> = dyn FnMut(&Scope<'_>) -> Result<Flow, EvalError> + 'v;

impl Select {
    /// Calls `visit` with every row that the filter keeps, until it breaks.
    pub(crate) fn for_each_row(
        &self,
        scope: &Scope<'_>,
        budget: &Budget,
        visit: &mut VisitRow<'_>,
    ) -> Result<Flow, EvalError> {
        self.rows_from(0, scope, budget, visit)
    }

    /// The rows once `bound` sources are bound.
    fn rows_from(
        &self,
        bound: usize,
        scope: &Scope<'_>,
        budget: &Budget,
        visit: &mut VisitRow<'_>,
    ) -> Result<Flow, EvalError> {
        if let Some(filter) = self.filter_after(bound)
            && !filter.is_true(scope, budget)?
        {
            return Ok(Flow::More);
        }
        let next = bound + 1;
        let slot = self.outer() + bound;
        match self.bindings().get(bound) {
            None => visit(scope),
            Some(Binding::Value(value)) => match value.eval(scope, budget)? {
                Some(value) => self.rows_from(next, &scope.with(slot, &value), budget, visit),
                None => Ok(Flow::More),
            },
            Some(Binding::Elements(array)) => {
                let array = array.eval(scope, budget)?;
                let elements = array.as_deref().and_then(Value::as_array).unwrap_or_default();
                for element in elements {
                    budget.spend(1)?;
                    if self.rows_from(next, &scope.with(slot, element), budget, visit)?
                        == Flow::Enough
                    {
                        return Ok(Flow::Enough);
                    }
                }
                Ok(Flow::More)
            }
            Some(Binding::Rows(select)) => select.for_each_output(scope, budget, &mut |row| {
                self.rows_from(next, &scope.with(slot, &row), budget, visit)
            }),
        }
    }
}

impl Projection {
    /// The result of the projection in `scope`; `None` (*undefined*) yields no row.
    pub(crate) fn eval(
        &self,
        scope: &Scope<'_>,
        budget: &Budget,
    ) -> Result<Option<Value>, EvalError> {
        let value = match self {
            Projection::Value(value) => value.eval(scope, budget)?,
            Projection::Fields(fields) => object(fields, scope, budget)?,
        };
        value.map(|value| into_owned(value, budget)).transpose()
    }
}
