//! Subqueries in expressions and sources: their rows, and the values made of them.

use std::collections::BTreeSet;

use model::Value;

use super::rows::Flow;
use super::{Evaluated, Scope, boolean, owned};
use crate::algebra::SubqueryForm;
use crate::group::Groups;
use crate::plan::Select;
use crate::value_keys::equality_key_of;
use crate::{Budget, EvalError};

/// Called with each row that a query yields.
pub(super) type VisitOutput<'v> = dyn FnMut(Value) -> Result<Flow, EvalError> + 'v;

/// The value of a subquery.
pub(super) fn eval<'a>(
    form: SubqueryForm,
    select: &'a Select,
    scope: &'a Scope<'a>,
    budget: &Budget,
) -> Evaluated<'a> {
    match form {
        SubqueryForm::Scalar => scalar(select, scope, budget),
        SubqueryForm::Exists => {
            let end = select.for_each_output(scope, budget, &mut |_| Ok(Flow::Enough))?;
            Ok(boolean(Some(end == Flow::Enough)))
        }
        SubqueryForm::Array => {
            let mut rows = Vec::new();
            select.for_each_output(scope, budget, &mut |row| {
                rows.push(row);
                Ok(Flow::More)
            })?;
            Ok(owned(Some(Value::Array(rows))))
        }
        SubqueryForm::All => {
            let end = select.for_each_output(scope, budget, &mut |row| {
                let is_true = row.as_bool() == Some(true);
                Ok(if is_true { Flow::More } else { Flow::Enough })
            })?;
            Ok(boolean(Some(end == Flow::More)))
        }
        SubqueryForm::First => {
            let mut first = None;
            select.for_each_output(scope, budget, &mut |row| {
                first = Some(row);
                Ok(Flow::Enough)
            })?;
            Ok(owned(first))
        }
        SubqueryForm::Last => {
            let mut last = None;
            select.for_each_output(scope, budget, &mut |row| {
                last = Some(row);
                Ok(Flow::More)
            })?;
            Ok(owned(last))
        }
    }
}

fn scalar<'a>(select: &'a Select, scope: &'a Scope<'a>, budget: &Budget) -> Evaluated<'a> {
    let mut only = None;
    select.for_each_output(scope, budget, &mut |row| {
        if only.replace(row).is_some() {
            return Err(EvalError::ScalarSubqueryRows);
        }
        Ok(Flow::More)
    })?;
    Ok(owned(only))
}

impl Select {
    /// Calls `visit` with each row of the query, until it breaks.
    pub(crate) fn for_each_output(
        &self,
        scope: &Scope<'_>,
        budget: &Budget,
        visit: &mut VisitOutput<'_>,
    ) -> Result<Flow, EvalError> {
        let mut seen = BTreeSet::new();
        let mut emit = |scope: &Scope<'_>| -> Result<Flow, EvalError> {
            let Some(row) = self.projection().eval(scope, budget)? else {
                return Ok(Flow::More);
            };
            if self.is_distinct() {
                budget.spend_copy_of(&row)?;
                if !seen.insert(equality_key_of(Some(&row))) {
                    return Ok(Flow::More);
                }
            }
            visit(row)
        };
        let Some(grouping) = self.grouping() else {
            return self.for_each_row(scope, budget, &mut emit);
        };
        let mut groups = Groups::new(grouping);
        self.for_each_row(scope, budget, &mut |row| {
            groups.add(row, budget)?;
            Ok(Flow::More)
        })?;
        for values in groups.into_values() {
            if emit(&scope.with_group(self.outer(), &values))? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::More)
    }
}
