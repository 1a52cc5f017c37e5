//! `$group`: documents with the same key, made into one by accumulators.
//!
//! Keys are found by their encodings, so that a document is copied only for what its accumulators
//! keep of it. When the groups take too much memory, their states are written to disk in the order
//! of their keys, and merged in the end.

use std::sync::Arc;

use hashbrown::HashMap;
use model::order::{TypeOrder, encode_whole};
use model::{Object, Value};

use super::spill::{SpillRun, decode, encode};
use super::{Context, Documents};
use crate::budget::bytes_of;
use crate::document::accumulator::{Accumulator, AccumulatorCall};
use crate::document::expression::count_of;
use crate::document::{Expression, Failure, Scope, Variables};

/// `$group`.
#[derive(Clone, Debug)]
pub struct Group {
    /// What documents of one group share.
    pub key: GroupKey,
    /// The fields of a group besides its `_id`.
    pub fields: Vec<(String, AccumulatorCall)>,
}

/// The key of a group.
#[derive(Clone, Debug)]
pub enum GroupKey {
    /// One value; what is missing is null.
    Value(Expression),
    /// An object of these fields; those that are missing are left out.
    Fields(Vec<(String, Expression)>),
}

impl GroupKey {
    /// Appends the bytes that are equal for documents of one group.
    fn encode(&self, scope: &Scope<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        match self {
            GroupKey::Value(expression) => {
                let value = expression.eval(scope)?;
                encode_whole(TypeOrder::Bson, Some(value.as_deref().unwrap_or(&Value::Null)), out);
            }
            GroupKey::Fields(fields) => {
                for (_, expression) in fields {
                    let value = expression.eval(scope)?;
                    // A mark tells what is missing from what is undefined.
                    out.push(u8::from(value.is_some()));
                    encode_whole(TypeOrder::Bson, value.as_deref(), out);
                }
            }
        }
        Ok(())
    }

    fn value(&self, scope: &Scope<'_>) -> Result<Value, Failure> {
        match self {
            GroupKey::Value(expression) => Ok(expression.evaluate(scope)?.unwrap_or(Value::Null)),
            GroupKey::Fields(fields) => {
                let mut object = Object::with_capacity(fields.len());
                for (name, expression) in fields {
                    if let Some(value) = expression.evaluate(scope)? {
                        object.insert(name.as_str(), value);
                    }
                }
                Ok(Value::Object(object))
            }
        }
    }
}

/// A group in progress.
#[derive(Clone, Debug)]
struct State {
    key: Value,
    accumulators: Vec<Accumulator>,
}

/// Groups in progress, in the order in which they began.
struct Groups {
    numbers: HashMap<Vec<u8>, usize>,
    states: Vec<State>,
    bytes: usize,
}

impl Groups {
    fn new() -> Self {
        Self { numbers: HashMap::new(), states: Vec::new(), bytes: 0 }
    }

    fn add(
        &mut self,
        group: &Group,
        document: &Value,
        variables: &Variables,
        encoded: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let scope = Scope::new(document, variables);
        encoded.clear();
        group.key.encode(&scope, encoded)?;
        let number = match self.numbers.get(encoded.as_slice()) {
            Some(number) => *number,
            None => {
                let key = group.key.value(&scope)?;
                self.bytes += encoded.len() + bytes_of(&key) + 2 * size_of::<State>();
                let begin = |(_, call): &(_, AccumulatorCall)| call.begin(&key, variables);
                let accumulators = group.fields.iter().map(begin).collect::<Result<Vec<_>, _>>()?;
                self.bytes += accumulators.iter().map(Accumulator::bytes).sum::<usize>();
                self.states.push(State { key, accumulators });
                self.numbers.insert(encoded.clone(), self.states.len() - 1);
                self.states.len() - 1
            }
        };
        let Some(state) = self.states.get_mut(number) else { return Ok(()) };
        for ((_, call), accumulator) in group.fields.iter().zip(&mut state.accumulators) {
            let before = accumulator.bytes();
            call.add(accumulator, &scope)?;
            self.bytes = self.bytes + accumulator.bytes() - before;
        }
        Ok(())
    }

    /// Writes the groups to disk in the order of their encoded keys.
    fn spill(&mut self, context: &Context) -> Result<Box<dyn SpillRun>, Failure> {
        let mut run = context.create_run("$group")?;
        let mut numbers: Vec<(Vec<u8>, usize)> = self.numbers.drain().collect();
        numbers.sort_unstable();
        for (encoded, number) in numbers {
            let Some(state) = self.states.get(number) else { continue };
            let partials = state.accumulators.iter().map(Accumulator::to_partial).collect();
            run.write(&encode(Value::Array(vec![
                Value::Binary { subtype: 0, bytes: encoded },
                state.key.clone(),
                Value::Array(partials),
            ]))?)?;
        }
        *self = Self::new();
        Ok(run)
    }
}

impl Group {
    fn output(&self, state: State, variables: &Variables) -> Result<Value, Failure> {
        let mut object = Object::with_capacity(self.fields.len() + 1);
        object.insert("_id", state.key);
        for ((name, call), accumulator) in self.fields.iter().zip(state.accumulators) {
            object.insert(name.as_str(), call.finish(accumulator, variables)?);
        }
        Ok(Value::Object(object))
    }

    /// A group of a record on disk, with its encoded key.
    fn read(&self, record: &[u8], variables: &Variables) -> Result<(Vec<u8>, State), Failure> {
        let damaged = || Failure::new(1, "a temporary record of $group cannot be read");
        let Value::Array(parts) = decode(record)? else { return Err(damaged()) };
        let mut parts = parts.into_iter();
        let (Some(Value::Binary { bytes, .. }), Some(key), Some(Value::Array(partials))) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(damaged());
        };
        let mut accumulators = Vec::with_capacity(partials.len());
        for ((_, call), partial) in self.fields.iter().zip(partials) {
            let n = match &call.n {
                Some(n) => count_of(n.evaluate(&Scope::new(&key, variables))?.as_ref())?,
                None => 1,
            };
            accumulators.push(Accumulator::of_partial(call.kind, n, partial).ok_or_else(damaged)?);
        }
        Ok((bytes, State { key, accumulators }))
    }
}

pub(super) fn run(
    group: Arc<Group>,
    source: Box<dyn Documents>,
    context: Context,
) -> Box<dyn Documents> {
    Box::new(Grouping {
        group,
        source: Some(source),
        context,
        ready: Ready::Kept(Vec::new().into_iter()),
    })
}

struct Grouping {
    group: Arc<Group>,
    source: Option<Box<dyn Documents>>,
    context: Context,
    ready: Ready,
}

enum Ready {
    Kept(std::vec::IntoIter<State>),
    Merged(MergedGroups),
}

impl Documents for Grouping {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        if let Some(source) = self.source.take() {
            self.ready = self.consume(source)?;
        }
        let variables = &self.context.variables;
        let state = match &mut self.ready {
            Ready::Kept(states) => states.next(),
            Ready::Merged(merged) => merged.next(&self.group, variables)?,
        };
        state.map(|state| self.group.output(state, variables)).transpose()
    }
}

impl Grouping {
    fn consume(&self, mut source: Box<dyn Documents>) -> Result<Ready, Failure> {
        let (mut groups, mut runs, mut encoded) = (Groups::new(), Vec::new(), Vec::new());
        while let Some(document) = source.next()? {
            groups.add(&self.group, &document, &self.context.variables, &mut encoded)?;
            if groups.bytes > self.context.stage_bytes_max {
                runs.push((groups.spill(&self.context)?, 0));
            }
        }
        if runs.is_empty() {
            return Ok(Ready::Kept(groups.states.into_iter()));
        }
        runs.push((groups.spill(&self.context)?, 0));
        let mut merged = MergedGroups { heads: runs.iter().map(|_| None).collect(), runs };
        for run in 0..merged.runs.len() {
            merged.advance(run, &self.group, &self.context.variables)?;
        }
        Ok(Ready::Merged(merged))
    }
}

/// Runs of groups, in the order of their encoded keys.
struct MergedGroups {
    runs: Vec<(Box<dyn SpillRun>, u64)>,
    heads: Vec<Option<(Vec<u8>, State)>>,
}

impl MergedGroups {
    fn advance(&mut self, run: usize, group: &Group, variables: &Variables) -> Result<(), Failure> {
        let Some((file, at)) = self.runs.get_mut(run) else { return Ok(()) };
        let head = match *at < file.end() {
            true => {
                let (record, next) = file.read(*at)?;
                *at = next;
                Some(group.read(&record, variables)?)
            }
            false => None,
        };
        if let Some(slot) = self.heads.get_mut(run) {
            *slot = head;
        }
        Ok(())
    }

    /// The group with the least key, of all runs that have it.
    fn next(&mut self, group: &Group, variables: &Variables) -> Result<Option<State>, Failure> {
        let least = self.heads.iter().flatten().map(|(key, _)| key).min().cloned();
        let Some(least) = least else { return Ok(None) };
        let mut result: Option<State> = None;
        for run in 0..self.runs.len() {
            let is_least = matches!(self.heads.get(run), Some(Some((key, _))) if *key == least);
            if !is_least {
                continue;
            }
            let Some((_, state)) = self.heads.get_mut(run).and_then(Option::take) else { continue };
            self.advance(run, group, variables)?;
            result = Some(match result {
                None => state,
                Some(mut result) => {
                    let pairs = result.accumulators.iter_mut().zip(state.accumulators);
                    for ((_, call), (own, other)) in group.fields.iter().zip(pairs) {
                        call.merge(own, other, variables)?;
                    }
                    result
                }
            });
        }
        Ok(result)
    }
}
