//! Accumulators as a stage calls them: with the expressions of their arguments.

use super::{
    Accumulator, AccumulatorKind, Expression, Failure, Scope, SortPattern, State, Value, Variables,
};
use crate::document::expression::count_of;

/// An accumulator with its arguments.
#[derive(Clone, Debug)]
pub struct AccumulatorCall {
    /// What it computes.
    pub kind: AccumulatorKind,
    /// What is added of each document.
    pub operand: Expression,
    /// How many values are kept, known for each group when it begins.
    pub n: Option<Expression>,
    /// The order of those that keep the first or last in one.
    pub order: Option<SortPattern>,
    /// The shares of percentiles.
    pub shares: Vec<f64>,
    /// The functions of `$accumulator`.
    pub scripts: Option<ScriptSources>,
}

/// The source texts of `$accumulator`.
#[derive(Clone, Debug)]
pub struct ScriptSources {
    /// Makes the state of a group.
    pub init: String,
    /// The arguments of `init`, an array.
    pub init_arguments: Expression,
    /// Adds a document to the state.
    pub accumulate: String,
    /// Joins two states.
    pub merge: String,
    /// Makes the result of a state.
    pub finalize: Option<String>,
}

impl AccumulatorCall {
    /// An accumulator with one operand and nothing else.
    pub fn new(kind: AccumulatorKind, operand: Expression) -> Self {
        Self { kind, operand, n: None, order: None, shares: Vec::new(), scripts: None }
    }

    /// The state of a group that begins. `key` is the `_id` of the group, which the number of
    /// values to keep may depend on.
    pub fn begin(&self, key: &Value, variables: &Variables) -> Result<Accumulator, Failure> {
        let n = match &self.n {
            Some(n) => count_of(n.evaluate(&Scope::new(key, variables))?.as_ref())?,
            None => 1,
        };
        let mut accumulator = Accumulator::new(self.kind, n);
        if let Some(sources) = &self.scripts {
            let arguments = sources.init_arguments.evaluate(&Scope::new(key, variables))?;
            let state = call(variables, &sources.init, elements(arguments))?;
            accumulator.state = State::One(Some(state));
        }
        Ok(accumulator)
    }

    /// Adds a document.
    pub fn add(&self, state: &mut Accumulator, scope: &Scope<'_>) -> Result<(), Failure> {
        if let Some(sources) = &self.scripts {
            let State::One(kept) = &mut state.state else { return Ok(()) };
            let mut arguments = vec![kept.take().unwrap_or(Value::Null)];
            arguments.extend(elements(self.operand.evaluate(scope)?));
            *kept = Some(call(scope.variables(), &sources.accumulate, arguments)?);
            return Ok(());
        }
        let value = self.operand.eval(scope)?;
        match &self.order {
            Some(order) => {
                let mut key = order.key_of(scope.root())?;
                if matches!(self.kind, AccumulatorKind::Bottom | AccumulatorKind::BottomN) {
                    key.iter_mut().for_each(|byte| *byte = !*byte);
                }
                state.add_ranked(key, value)
            }
            None => state.add(value),
        }
    }

    /// Joins two states of one group; the second is of later documents.
    pub fn merge(
        &self,
        state: &mut Accumulator,
        other: Accumulator,
        variables: &Variables,
    ) -> Result<(), Failure> {
        let Some(sources) = &self.scripts else { return state.merge(other) };
        if let (State::One(kept), State::One(others)) = (&mut state.state, other.state) {
            let arguments = vec![kept.take().unwrap_or(Value::Null), others.unwrap_or(Value::Null)];
            *kept = Some(call(variables, &sources.merge, arguments)?);
        }
        Ok(())
    }

    /// The result of a group.
    pub fn finish(&self, state: Accumulator, variables: &Variables) -> Result<Value, Failure> {
        if self.kind == AccumulatorKind::Percentile {
            return Ok(state.percentiles(&self.shares));
        }
        match self.scripts.as_ref().and_then(|sources| sources.finalize.as_ref()) {
            Some(finalize) => call(variables, finalize, vec![state.finish()]),
            None => Ok(state.finish()),
        }
    }
}

fn elements(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(elements)) => elements,
        _ => Vec::new(),
    }
}

fn call(variables: &Variables, source: &str, arguments: Vec<Value>) -> Result<Value, Failure> {
    let scripts = variables.scripts().ok_or_else(|| {
        let message = "$accumulator not allowed: there is no JavaScript on this server";
        Failure::new(31264, message)
    })?;
    Ok(scripts.call(source, arguments)?.unwrap_or(Value::Null))
}
