//! States of accumulators as values, so that they can be written to disk or sent to another node.

use std::collections::VecDeque;

use model::Value;

use super::sum::Sum;
use super::{Accumulator, AccumulatorKind, State};
use crate::document::expression::Merged;

impl Accumulator {
    /// The state as a value.
    pub fn to_partial(&self) -> Value {
        let count = |count: u64| Value::Int64(i64::try_from(count).unwrap_or(i64::MAX));
        match &self.state {
            State::One(value) => Value::Array(value.iter().cloned().collect()),
            State::Sum { sum, count: added } => {
                let mut parts = sum.to_parts();
                parts.push(count(*added));
                Value::Array(parts)
            }
            State::Deviation { count: added, mean, squares } => {
                Value::Array(vec![count(*added), Value::Double(*mean), Value::Double(*squares)])
            }
            State::List(values) | State::Set { values, .. } => Value::Array(values.clone()),
            State::Queue { values, .. } => Value::Array(values.iter().cloned().collect()),
            State::Ranked { values, .. } => {
                let pair = |(key, value): &(Vec<u8>, Value)| {
                    let key = Value::Binary { subtype: 0, bytes: key.clone() };
                    Value::Array(vec![key, value.clone()])
                };
                Value::Array(values.iter().map(pair).collect())
            }
            State::Numbers(numbers) => {
                Value::Array(numbers.iter().map(|n| Value::Double(*n)).collect())
            }
            State::Merged(merged) => Value::Object(merged.clone().finish()),
        }
    }

    /// The state of a value that [`Accumulator::to_partial`] gave; `None` if it is no such value.
    pub fn of_partial(kind: AccumulatorKind, n: usize, partial: Value) -> Option<Self> {
        let mut accumulator = Accumulator::new(kind, n);
        accumulator.bytes += crate::budget::bytes_of(&partial);
        if let Value::Object(object) = partial {
            let mut merged = Merged::default();
            merged.add(Value::Object(object)).ok()?;
            accumulator.state = State::Merged(merged);
            return Some(accumulator);
        }
        let Value::Array(mut parts) = partial else { return None };
        match &mut accumulator.state {
            State::One(value) => *value = parts.pop(),
            State::Sum { sum, count } => {
                *count = u64::try_from(parts.pop()?.as_i64()?).ok()?;
                *sum = Sum::of_parts(&parts)?;
            }
            State::Deviation { count, mean, squares } => {
                let [added, m, s] = parts.as_slice() else { return None };
                *count = u64::try_from(added.as_i64()?).ok()?;
                (*mean, *squares) = (m.as_f64()?, s.as_f64()?);
            }
            State::List(values) => *values = parts,
            State::Set { .. } => {
                for value in parts {
                    accumulator.add(Some(std::borrow::Cow::Owned(value))).ok()?;
                }
            }
            State::Queue { values, .. } => *values = VecDeque::from(parts),
            State::Ranked { values, .. } => {
                for pair in parts {
                    let Value::Array(mut pair) = pair else { return None };
                    let value = pair.pop()?;
                    let Some(Value::Binary { bytes, .. }) = pair.pop() else { return None };
                    values.push((bytes, value));
                }
            }
            State::Numbers(numbers) => {
                *numbers = parts.iter().map(Value::as_f64).collect::<Option<_>>()?;
            }
            State::Merged(_) => return None,
        }
        Some(accumulator)
    }
}
