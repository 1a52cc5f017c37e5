//! `$bucketAuto`: groups of neighbouring values with about as many documents each.

use std::sync::Arc;

use model::order::{TypeOrder, encode_whole};
use model::{Object, Value};

use super::sorter::{Sorted, Sorter};
use super::{Context, Documents};
use crate::document::accumulator::{Accumulator, AccumulatorCall};
use crate::document::expression::number::Number;
use crate::document::values::{compare, type_name};
use crate::document::{Expression, Failure, Scope};

mod granularity;

pub use granularity::Granularity;

/// `$bucketAuto`.
#[derive(Clone, Debug)]
pub struct BucketAuto {
    /// The value that documents are grouped by.
    pub key: Expression,
    /// How many groups there are to be.
    pub buckets: u32,
    /// The fields of a group besides its `_id`.
    pub fields: Vec<(String, AccumulatorCall)>,
    /// The numbers that bounds are rounded to.
    pub granularity: Option<Granularity>,
}

pub(super) fn run(
    stage: Arc<BucketAuto>,
    source: Box<dyn Documents>,
    context: Context,
) -> Box<dyn Documents> {
    Box::new(Buckets { stage, source: Some(source), context, state: None })
}

struct Buckets {
    stage: Arc<BucketAuto>,
    source: Option<Box<dyn Documents>>,
    context: Context,
    state: Option<State>,
}

/// The sorted documents, and where the next bucket begins.
struct State {
    sorted: Sorted,
    next: Option<(Value, Value)>,
    per_bucket: u64,
    made: u32,
    /// The upper bound of the bucket before, if bounds are rounded.
    last_bound: Option<Value>,
}

/// A row of the sort: the key and the document.
fn row_parts(row: Value) -> Option<(Value, Value)> {
    let Value::Array(parts) = row else { return None };
    let mut parts = parts.into_iter();
    Some((parts.next()?, parts.next()?))
}

impl State {
    fn advance(&mut self) -> Result<Option<(Value, Value)>, Failure> {
        let following = self.sorted.next()?.and_then(row_parts);
        Ok(std::mem::replace(&mut self.next, following))
    }
}

impl Documents for Buckets {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        if let Some(source) = self.source.take() {
            self.state = Some(self.sort(source)?);
        }
        let Some(mut state) = self.state.take() else { return Ok(None) };
        let bucket = self.bucket(&mut state);
        self.state = Some(state);
        bucket
    }
}

impl Buckets {
    fn sort(&self, mut source: Box<dyn Documents>) -> Result<State, Failure> {
        let mut sorter = Sorter::new(None, &self.context);
        let mut count = 0_u64;
        while let Some(document) = source.next()? {
            let scope = Scope::new(&document, &self.context.variables);
            let key = self.stage.key.evaluate(&scope)?.unwrap_or(Value::Null);
            self.check_key(&key)?;
            let mut encoded = Vec::new();
            encode_whole(TypeOrder::Bson, Some(&key), &mut encoded);
            sorter.add(encoded, Value::Array(vec![key, document]))?;
            count += 1;
        }
        // Rounded to the nearest.
        let buckets = u64::from(self.stage.buckets);
        let per_bucket = ((count + buckets / 2) / buckets).max(1);
        let mut sorted = sorter.finish()?;
        let next = sorted.next()?.and_then(row_parts);
        Ok(State { sorted, next, per_bucket, made: 0, last_bound: None })
    }

    fn check_key(&self, key: &Value) -> Result<(), Failure> {
        if self.stage.granularity.is_none() {
            return Ok(());
        }
        let Some(number) = Number::of(Some(key)) else {
            let given = type_name(Some(key));
            let message = format!(
                "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a \
                 value with type: {given}"
            );
            return Err(Failure::new(40258, message));
        };
        if number.is_nan() {
            let message = "$bucketAuto can specify a 'granularity' with numeric boundaries only, \
                           but found a NaN";
            return Err(Failure::new(40259, message));
        }
        if number.to_f64() < 0.0 {
            let message = "$bucketAuto can specify a 'granularity' with non-negative numbers only, \
                           but found a negative number";
            return Err(Failure::new(40260, message));
        }
        Ok(())
    }

    fn bucket(&self, state: &mut State) -> Result<Option<Value>, Failure> {
        let Some((least, first)) = state.advance()? else { return Ok(None) };
        state.made += 1;
        let is_last = state.made == self.stage.buckets;
        let variables = &self.context.variables;
        let begin = |(_, call): &(_, AccumulatorCall)| call.begin(&Value::Null, variables);
        let mut accumulators =
            self.stage.fields.iter().map(begin).collect::<Result<Vec<Accumulator>, _>>()?;
        let mut add = |document: &Value| {
            let scope = Scope::new(document, variables);
            let mut pairs = self.stage.fields.iter().zip(&mut accumulators);
            pairs.try_for_each(|((_, call), accumulator)| call.add(accumulator, &scope))
        };
        add(&first)?;
        let (mut greatest, mut count) = (least.clone(), 1);
        while is_last || count < state.per_bucket {
            let Some((key, document)) = state.advance()? else { break };
            add(&document)?;
            greatest = key;
            count += 1;
        }
        let rounded = self.stage.granularity.map(|granularity| granularity.up(&greatest));
        loop {
            let belongs = state.next.as_ref().is_some_and(|(key, _)| match &rounded {
                Some(bound) => compare(Some(key), Some(bound)).is_lt(),
                None => compare(Some(key), Some(&greatest)).is_eq(),
            });
            if !belongs {
                break;
            }
            if let Some((key, document)) = state.advance()? {
                add(&document)?;
                greatest = key;
            }
        }
        let (least, greatest) = match (self.stage.granularity, rounded) {
            (Some(granularity), Some(bound)) => {
                let zero = Value::Double(0.0);
                let is_zero = compare(Some(&greatest), Some(&zero)).is_eq();
                let bound = match (&state.next, is_zero) {
                    // Zero has no neighbour; the bucket reaches to the next number.
                    (Some((key, _)), true) => granularity.down(key),
                    _ => bound,
                };
                let least = state.last_bound.take().unwrap_or_else(|| granularity.down(&least));
                state.last_bound = Some(bound.clone());
                (least, bound)
            }
            _ => {
                let following = state.next.as_ref().map(|(key, _)| key.clone());
                (least, following.unwrap_or(greatest))
            }
        };
        let mut output = Object::new();
        let bounds = [("min".to_owned(), least), ("max".to_owned(), greatest)];
        output.insert("_id", Value::Object(Object::from_iter(bounds)));
        for ((name, call), accumulator) in self.stage.fields.iter().zip(accumulators) {
            output.insert(name.as_str(), call.finish(accumulator, variables)?);
        }
        Ok(Some(Value::Object(output)))
    }
}
