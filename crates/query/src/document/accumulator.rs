//! Accumulators: what many values of one group are made into.
//!
//! An [`Accumulator`] is the state of one of them. States can be merged, and kept as values in
//! between, so that partitions and runs on disk can each do a part of the work.

use std::borrow::Cow;
use std::collections::VecDeque;

use model::Value;

use super::expression::number::Number;
use super::expression::{Expression, Merged};
use super::sort::SortPattern;
use super::values::{compare, is_nullish};
use super::{Failure, Scope, Variables};
use crate::budget::bytes_of;

mod call;
mod partial;
mod sum;

pub use call::{AccumulatorCall, ScriptSources};
use sum::Sum;

/// What an accumulator computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is the operator's")]
pub enum AccumulatorKind {
    AddToSet,
    Avg,
    Bottom,
    BottomN,
    First,
    FirstN,
    Last,
    LastN,
    Max,
    MaxN,
    Median,
    MergeObjects,
    Min,
    MinN,
    Percentile,
    Push,
    Script,
    StdDevPop,
    StdDevSamp,
    Sum,
    Top,
    TopN,
}

/// The state of an accumulator.
#[derive(Clone, Debug)]
pub struct Accumulator {
    kind: AccumulatorKind,
    state: State,
    bytes: usize,
}

#[derive(Clone, Debug)]
enum State {
    /// The least, greatest, first or last.
    One(Option<Value>),
    Sum {
        sum: Sum,
        count: u64,
    },
    Deviation {
        count: u64,
        mean: f64,
        squares: f64,
    },
    List(Vec<Value>),
    /// Distinct values, with the bytes that tell them apart.
    Set {
        seen: hashbrown::HashSet<Vec<u8>>,
        values: Vec<Value>,
    },
    /// The first or last of them.
    Queue {
        values: VecDeque<Value>,
        n: usize,
    },
    /// The first in an order, with their keys.
    Ranked {
        values: Vec<(Vec<u8>, Value)>,
        n: usize,
    },
    Numbers(Vec<f64>),
    Merged(Merged),
}

/// Most bytes of one accumulator.
const BYTES_MAX: usize = 100 * 1024 * 1024;

impl Accumulator {
    /// A state without values. `n` is the number of values that those which keep several keep.
    pub fn new(kind: AccumulatorKind, n: usize) -> Self {
        let state = match kind {
            AccumulatorKind::Min
            | AccumulatorKind::Max
            | AccumulatorKind::First
            | AccumulatorKind::Last
            | AccumulatorKind::Script => State::One(None),
            AccumulatorKind::Sum | AccumulatorKind::Avg => {
                State::Sum { sum: Sum::default(), count: 0 }
            }
            AccumulatorKind::StdDevPop | AccumulatorKind::StdDevSamp => {
                State::Deviation { count: 0, mean: 0.0, squares: 0.0 }
            }
            AccumulatorKind::Push => State::List(Vec::new()),
            AccumulatorKind::AddToSet => {
                State::Set { seen: hashbrown::HashSet::new(), values: Vec::new() }
            }
            AccumulatorKind::FirstN | AccumulatorKind::LastN => {
                State::Queue { values: VecDeque::new(), n }
            }
            AccumulatorKind::MinN
            | AccumulatorKind::MaxN
            | AccumulatorKind::Top
            | AccumulatorKind::TopN
            | AccumulatorKind::Bottom
            | AccumulatorKind::BottomN => State::Ranked { values: Vec::new(), n },
            AccumulatorKind::Median | AccumulatorKind::Percentile => State::Numbers(Vec::new()),
            AccumulatorKind::MergeObjects => State::Merged(Merged::default()),
        };
        Self { kind, state, bytes: size_of::<Self>() }
    }

    /// Roughly how much memory it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a value; `None` is missing.
    pub fn add(&mut self, value: Option<Cow<'_, Value>>) -> Result<(), Failure> {
        match &mut self.state {
            State::One(kept) => {
                let is_better = |is_it: fn(std::cmp::Ordering) -> bool| {
                    let kept = kept.as_ref();
                    !is_nullish(value.as_deref())
                        && kept.is_none_or(|kept| is_it(compare(value.as_deref(), Some(kept))))
                };
                let is_taken = if self.kind == AccumulatorKind::Min {
                    is_better(std::cmp::Ordering::is_lt)
                } else if self.kind == AccumulatorKind::Max {
                    is_better(std::cmp::Ordering::is_gt)
                } else {
                    self.kind == AccumulatorKind::Last || kept.is_none()
                };
                if is_taken {
                    // What is missing comes out as null.
                    let value = value.map_or(Value::Null, Cow::into_owned);
                    self.bytes = size_of::<Self>() + bytes_of(&value);
                    *kept = Some(value);
                }
            }
            State::Sum { sum, count } => {
                if let Some(number) = Number::of(value.as_deref()) {
                    sum.add(number);
                    *count += 1;
                }
            }
            State::Deviation { count, mean, squares } => {
                if let Some(number) = Number::of(value.as_deref()) {
                    let n = number.to_f64();
                    *count += 1;
                    let delta = n - *mean;
                    *mean += delta / as_f64(*count);
                    *squares += delta * (n - *mean);
                }
            }
            State::List(values) => {
                if let Some(value) = value {
                    let value = value.into_owned();
                    self.bytes += bytes_of(&value);
                    values.push(value);
                }
            }
            State::Set { seen, values } => {
                if let Some(value) = value {
                    let mut key = Vec::new();
                    model::order::encode_whole(
                        model::order::TypeOrder::Bson,
                        Some(&value),
                        &mut key,
                    );
                    if !seen.contains(&key) {
                        let value = value.into_owned();
                        self.bytes += bytes_of(&value) + key.len() + size_of::<Vec<u8>>();
                        values.push(value);
                        seen.insert(key);
                    }
                }
            }
            State::Queue { values, n } => {
                let value = value.map_or(Value::Null, Cow::into_owned);
                let is_first = self.kind == AccumulatorKind::FirstN;
                if is_first && values.len() >= *n {
                    return Ok(());
                }
                self.bytes += bytes_of(&value);
                values.push_back(value);
                if values.len() > *n
                    && let Some(dropped) = values.pop_front()
                {
                    self.bytes -= bytes_of(&dropped);
                }
            }
            State::Ranked { .. } => {
                let is_least = self.kind == AccumulatorKind::MinN;
                if let Some(value) = value.filter(|value| !is_nullish(Some(value))) {
                    let mut key = Vec::new();
                    model::order::encode_whole(
                        model::order::TypeOrder::Bson,
                        Some(&value),
                        &mut key,
                    );
                    if !is_least {
                        key.iter_mut().for_each(|byte| *byte = !*byte);
                    }
                    self.rank(key, || value.into_owned());
                }
            }
            State::Numbers(numbers) => {
                if let Some(number) = Number::of(value.as_deref()) {
                    numbers.push(number.to_f64());
                    self.bytes += size_of::<f64>();
                }
            }
            State::Merged(merged) => {
                if let Some(value) = value {
                    self.bytes += bytes_of(&value);
                    merged.add(value.into_owned())?;
                }
            }
        }
        self.check_memory()
    }

    /// Adds the output for a document with this sort key.
    fn add_ranked(&mut self, key: Vec<u8>, value: Option<Cow<'_, Value>>) -> Result<(), Failure> {
        self.rank(key, || value.map_or(Value::Null, Cow::into_owned));
        self.check_memory()
    }

    /// Keeps a value if it is among the first `n`. Of equal keys the earlier comes first among the
    /// top, and the later among the bottom.
    fn rank(&mut self, key: Vec<u8>, value: impl FnOnce() -> Value) {
        let State::Ranked { values, n } = &mut self.state else { return };
        let is_bottom = matches!(self.kind, AccumulatorKind::Bottom | AccumulatorKind::BottomN);
        let at = values.partition_point(|(other, _)| match is_bottom {
            true => *other < key,
            false => *other <= key,
        });
        if at >= *n {
            return;
        }
        let value = value();
        self.bytes += bytes_of(&value) + key.len() + size_of::<Vec<u8>>();
        values.insert(at, (key, value));
        if values.len() > *n
            && let Some((key, dropped)) = values.pop()
        {
            self.bytes -= bytes_of(&dropped) + key.len() + size_of::<Vec<u8>>();
        }
    }

    fn check_memory(&self) -> Result<(), Failure> {
        if self.bytes > BYTES_MAX {
            let message = format!(
                "an accumulator used too much memory and cannot spill to disk. Memory limit: \
                 {BYTES_MAX} bytes"
            );
            return Err(Failure::new(146, message));
        }
        Ok(())
    }

    /// Adds what another state of the same accumulator has, from values that come after its own.
    pub fn merge(&mut self, other: Self) -> Result<(), Failure> {
        match (&mut self.state, other.state) {
            (State::Sum { sum, count }, State::Sum { sum: others, count: others_count }) => {
                sum.merge(&others);
                *count += others_count;
            }
            (
                State::Deviation { count, mean, squares },
                State::Deviation { count: b_count, mean: b_mean, squares: b_squares },
            ) => {
                if b_count > 0 {
                    let (a, b) = (as_f64(*count), as_f64(b_count));
                    let delta = b_mean - *mean;
                    *squares += b_squares + delta * delta * a * b / (a + b);
                    *mean += delta * b / (a + b);
                    *count += b_count;
                }
            }
            (State::Ranked { .. }, State::Ranked { values, .. }) => {
                for (key, value) in values {
                    self.rank(key, || value);
                }
            }
            (State::Numbers(numbers), State::Numbers(mut others)) => {
                self.bytes += size_of_val(others.as_slice());
                numbers.append(&mut others);
            }
            (_, State::One(None)) => {}
            (_, State::One(Some(value))) => self.add(Some(Cow::Owned(value)))?,
            (_, State::List(values) | State::Set { values, .. }) => {
                for value in values {
                    self.add(Some(Cow::Owned(value)))?;
                }
            }
            (_, State::Queue { values, .. }) => {
                for value in values {
                    self.add(Some(Cow::Owned(value)))?;
                }
            }
            (_, State::Merged(merged)) => {
                self.add(Some(Cow::Owned(Value::Object(merged.finish()))))?;
            }
            (_, State::Sum { .. } | State::Deviation { .. }) => {}
            (_, State::Ranked { .. } | State::Numbers(_)) => {}
        }
        self.check_memory()
    }

    /// The result.
    pub fn finish(self) -> Value {
        match self.state {
            State::One(value) => value.unwrap_or(Value::Null),
            State::Sum { sum, count } if self.kind == AccumulatorKind::Avg => {
                sum.average(count).unwrap_or(Value::Null)
            }
            State::Sum { sum, .. } => Value::from(sum.finish()),
            State::Deviation { count, squares, .. } => {
                let is_sample = self.kind == AccumulatorKind::StdDevSamp;
                let divisor = if is_sample { count.saturating_sub(1) } else { count };
                match divisor {
                    0 => Value::Null,
                    divisor => Value::Double((squares / as_f64(divisor)).sqrt()),
                }
            }
            State::List(values) | State::Set { values, .. } => Value::Array(values),
            State::Queue { values, .. } => Value::Array(values.into()),
            State::Ranked { values, .. } => {
                let mut values: Vec<Value> = values.into_iter().map(|(_, value)| value).collect();
                if matches!(self.kind, AccumulatorKind::Top | AccumulatorKind::Bottom) {
                    return values.drain(..).next().unwrap_or(Value::Null);
                }
                if self.kind == AccumulatorKind::BottomN {
                    values.reverse();
                }
                Value::Array(values)
            }
            State::Numbers(numbers) => {
                percentile(numbers, &[0.5]).drain(..).next().unwrap_or(Value::Null)
            }
            State::Merged(merged) => Value::Object(merged.finish()),
        }
    }

    /// The values at these shares of the sorted numbers.
    fn percentiles(self, shares: &[f64]) -> Value {
        let State::Numbers(numbers) = self.state else { return Value::Null };
        Value::Array(percentile(numbers, shares))
    }
}

fn as_f64(count: u64) -> f64 {
    model::number::i64_to_f64(i64::try_from(count).unwrap_or(i64::MAX))
}

/// By nearest rank; null of no numbers.
fn percentile(mut numbers: Vec<f64>, shares: &[f64]) -> Vec<Value> {
    numbers.retain(|n| !n.is_nan());
    numbers.sort_unstable_by(f64::total_cmp);
    let count = as_f64(numbers.len() as u64);
    let at = |share: &f64| {
        let rank = model::number::f64_to_i64((share * count).ceil() - 1.0).unwrap_or(0);
        let rank = usize::try_from(rank).unwrap_or(0).min(numbers.len().saturating_sub(1));
        numbers.get(rank).map_or(Value::Null, |n| Value::Double(*n))
    };
    shares.iter().map(at).collect()
}

/// The accumulators that are also operators: the result for these values.
pub(super) fn accumulate<'v>(
    kind: AccumulatorKind,
    values: impl IntoIterator<Item = Option<Cow<'v, Value>>>,
) -> Result<Value, Failure> {
    let mut accumulator = Accumulator::new(kind, 1);
    for value in values {
        accumulator.add(value)?;
    }
    Ok(accumulator.finish())
}

/// As [`accumulate`], the values at these shares.
pub(super) fn accumulate_percentiles<'v>(
    values: impl IntoIterator<Item = Option<Cow<'v, Value>>>,
    shares: &[f64],
) -> Result<Value, Failure> {
    let mut accumulator = Accumulator::new(AccumulatorKind::Percentile, 1);
    for value in values {
        accumulator.add(value)?;
    }
    Ok(accumulator.percentiles(shares))
}
