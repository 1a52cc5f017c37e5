//! Aggregates, computed from the values of a group one at a time.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use model::Value;
use model::order::TypeOrder;

use crate::compare::{Class, class_of};
use crate::eval::from_f64;
use crate::plan::Aggregate;
use crate::value_keys::equality_key_of;
use crate::{Budget, EvalError};

impl Aggregate {
    const ALL: [Aggregate; 8] = [
        Aggregate::Average,
        Aggregate::Count,
        Aggregate::CountIf,
        Aggregate::Max,
        Aggregate::Min,
        Aggregate::Sum,
        Aggregate::MakeList,
        Aggregate::MakeSet,
    ];

    /// The function's name in queries.
    pub fn function(self) -> &'static str {
        match self {
            Aggregate::Average => "AVG",
            Aggregate::Count => "COUNT",
            Aggregate::CountIf => "COUNTIF",
            Aggregate::Max => "MAX",
            Aggregate::Min => "MIN",
            Aggregate::Sum => "SUM",
            Aggregate::MakeList => "MAKELIST",
            Aggregate::MakeSet => "MAKESET",
        }
    }

    /// Whether adding the same value many times at once gives the same result as adding it one by
    /// one. Sums of fractions do not: each addition is rounded.
    pub(crate) fn takes_repeated(self, value: &Value) -> bool {
        match self {
            Aggregate::Count
            | Aggregate::CountIf
            | Aggregate::Max
            | Aggregate::Min
            | Aggregate::MakeSet => true,
            Aggregate::Sum | Aggregate::Average => !matches!(value, Value::Double(_)),
            Aggregate::MakeList => false,
        }
    }

    /// The aggregate called `name`, whatever its case.
    pub fn lookup(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.function().eq_ignore_ascii_case(name))
    }
}

/// An aggregate in progress. *Undefined* values never reach it.
#[derive(Clone, Debug)]
pub(crate) enum Accumulator {
    Count(i64),
    CountIf(i64),
    Sum(Sum),
    Average(Sum),
    Extreme { wanted: Ordering, state: Extreme },
    List(Vec<Value>),
    Set { seen: BTreeSet<Vec<u8>>, values: Vec<Value> },
}

/// A sum that is exact as long as all its terms are integers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    count: u64,
    integers: i128,
    doubles: Option<f64>,
    /// Whether a value other than a number was added.
    is_spoiled: bool,
}

/// The least or greatest value so far.
#[derive(Clone, Debug, Default)]
pub(crate) enum Extreme {
    #[default]
    Nothing,
    Value(Value),
    /// An array or object was among the values.
    Spoiled,
}

impl Accumulator {
    pub(crate) fn new(aggregate: Aggregate) -> Self {
        let extreme = |wanted| Accumulator::Extreme { wanted, state: Extreme::Nothing };
        match aggregate {
            Aggregate::Count => Accumulator::Count(0),
            Aggregate::CountIf => Accumulator::CountIf(0),
            Aggregate::Sum => Accumulator::Sum(Sum::default()),
            Aggregate::Average => Accumulator::Average(Sum::default()),
            Aggregate::Max => extreme(Ordering::Greater),
            Aggregate::Min => extreme(Ordering::Less),
            Aggregate::MakeList => Accumulator::List(Vec::new()),
            Aggregate::MakeSet => Accumulator::Set { seen: BTreeSet::new(), values: Vec::new() },
        }
    }

    /// Adds a value; returns how many bytes of it are kept.
    pub(crate) fn add(&mut self, value: &Value, budget: &Budget) -> Result<usize, EvalError> {
        match self {
            Accumulator::Count(count) => *count += 1,
            Accumulator::CountIf(count) => *count += i64::from(value.as_bool() == Some(true)),
            Accumulator::Sum(sum) | Accumulator::Average(sum) => sum.add(value),
            Accumulator::Extreme { wanted, state } => return state.add(*wanted, value, budget),
            Accumulator::List(values) => {
                values.push(budget.clone_value(value)?);
                return Ok(crate::budget::bytes_of(value));
            }
            Accumulator::Set { seen, values } => {
                budget.spend_copy_of(value)?;
                if seen.insert(equality_key_of(Some(value))) {
                    values.push(budget.clone_value(value)?);
                    return Ok(2 * crate::budget::bytes_of(value));
                }
            }
        }
        Ok(0)
    }

    /// Adds the same value this many times, at least once, if the aggregate
    /// [can](Aggregate::takes_repeated).
    pub(crate) fn add_repeated(
        &mut self,
        value: &Value,
        times: u64,
        budget: &Budget,
    ) -> Result<usize, EvalError> {
        let count = i64::try_from(times).unwrap_or(i64::MAX);
        match self {
            Accumulator::Count(own) => *own = own.saturating_add(count),
            Accumulator::CountIf(own) if value.as_bool() == Some(true) => {
                *own = own.saturating_add(count);
            }
            Accumulator::Sum(sum) | Accumulator::Average(sum) => sum.add_repeated(value, times),
            Accumulator::CountIf(_)
            | Accumulator::Extreme { .. }
            | Accumulator::List(_)
            | Accumulator::Set { .. } => return self.add(value, budget),
        }
        Ok(0)
    }

    /// Adds what was counted or summed up elsewhere; only counts and sums can do so.
    pub(crate) fn add_total(&mut self, total: i64) {
        match self {
            Accumulator::Count(count) | Accumulator::CountIf(count) => {
                *count = count.saturating_add(total);
            }
            Accumulator::Sum(sum) => sum.add(&Value::Int64(total)),
            Accumulator::Average(_)
            | Accumulator::Extreme { .. }
            | Accumulator::List(_)
            | Accumulator::Set { .. } => {}
        }
    }

    /// Adds all values that the same aggregate has seen over other rows.
    pub(crate) fn merge(&mut self, other: Accumulator) {
        match (self, other) {
            (Accumulator::Count(own), Accumulator::Count(others))
            | (Accumulator::CountIf(own), Accumulator::CountIf(others)) => *own += others,
            (Accumulator::Sum(own), Accumulator::Sum(others))
            | (Accumulator::Average(own), Accumulator::Average(others)) => own.merge(others),
            (
                Accumulator::Extreme { wanted, state },
                Accumulator::Extreme { state: others, .. },
            ) => state.merge(*wanted, others),
            (Accumulator::List(own), Accumulator::List(others)) => own.extend(others),
            (Accumulator::Set { seen, values }, Accumulator::Set { values: others, .. }) => {
                for value in others {
                    if seen.insert(equality_key_of(Some(&value))) {
                        values.push(value);
                    }
                }
            }
            // All executions of a plan have the same aggregates.
            (
                Accumulator::Count(_)
                | Accumulator::CountIf(_)
                | Accumulator::Sum(_)
                | Accumulator::Average(_)
                | Accumulator::Extreme { .. }
                | Accumulator::List(_)
                | Accumulator::Set { .. },
                _,
            ) => {}
        }
    }

    /// The result; `None` is *undefined*.
    pub(crate) fn finish(self) -> Option<Value> {
        match self {
            Accumulator::Count(count) | Accumulator::CountIf(count) => Some(Value::Int64(count)),
            Accumulator::Sum(sum) => sum.total(),
            Accumulator::Average(sum) => sum.average(),
            Accumulator::Extreme { state: Extreme::Value(value), .. } => Some(value),
            Accumulator::Extreme { state: Extreme::Nothing | Extreme::Spoiled, .. } => None,
            Accumulator::List(values) | Accumulator::Set { values, .. } => {
                Some(Value::Array(values))
            }
        }
    }
}

impl Sum {
    fn add(&mut self, value: &Value) {
        self.add_repeated(value, 1);
    }

    fn add_repeated(&mut self, value: &Value, times: u64) {
        self.count += times;
        if let Value::Int64(n) = value {
            self.integers += i128::from(*n) * i128::from(times);
        } else if let Value::Int32(n) = value {
            self.integers += i128::from(*n) * i128::from(times);
        } else if let Value::Double(n) = value {
            *self.doubles.get_or_insert(0.0) += n * times as f64;
        } else {
            self.is_spoiled = true;
        }
    }

    fn merge(&mut self, other: Sum) {
        self.count += other.count;
        self.integers += other.integers;
        if let Some(doubles) = other.doubles {
            *self.doubles.get_or_insert(0.0) += doubles;
        }
        self.is_spoiled |= other.is_spoiled;
    }

    fn total(&self) -> Option<Value> {
        if self.is_spoiled {
            return None;
        }
        Some(match (self.doubles, i64::try_from(self.integers)) {
            (None, Ok(exact)) => Value::Int64(exact),
            _ => from_f64(self.approximate()),
        })
    }

    fn average(&self) -> Option<Value> {
        let is_undefined = self.is_spoiled || self.count == 0;
        (!is_undefined).then(|| from_f64(self.approximate() / self.count as f64))
    }

    fn approximate(&self) -> f64 {
        self.integers as f64 + self.doubles.unwrap_or(0.0)
    }
}

impl Extreme {
    fn merge(&mut self, wanted: Ordering, other: Extreme) {
        let is_better = match (&*self, &other) {
            (Extreme::Spoiled, _) | (_, Extreme::Nothing) => false,
            (_, Extreme::Spoiled) | (Extreme::Nothing, Extreme::Value(_)) => true,
            (Extreme::Value(best), Extreme::Value(value)) => {
                model::order::compare(TypeOrder::NoSql, Some(value), Some(best)) == wanted
            }
        };
        if is_better {
            *self = other;
        }
    }

    fn add(
        &mut self,
        wanted: Ordering,
        value: &Value,
        budget: &Budget,
    ) -> Result<usize, EvalError> {
        if matches!(class_of(value), Class::Array | Class::Object) {
            *self = Extreme::Spoiled;
        }
        let is_better = match self {
            Extreme::Spoiled => false,
            Extreme::Nothing => true,
            Extreme::Value(best) => {
                budget.spend_bytes(value.as_str().map_or(0, str::len))?;
                model::order::compare(TypeOrder::NoSql, Some(value), Some(best)) == wanted
            }
        };
        if !is_better {
            return Ok(0);
        }
        *self = Extreme::Value(budget.clone_value(value)?);
        Ok(crate::budget::bytes_of(value))
    }
}

#[cfg(test)]
mod tests {
    use model::json;

    use super::*;

    fn result(aggregate: Aggregate, values: &str) -> String {
        let values = json::parse(values.as_bytes(), 10).unwrap().value;
        let mut accumulator = Accumulator::new(aggregate);
        for value in values.as_array().unwrap() {
            accumulator.add(value, &Budget::per_item()).unwrap();
        }
        accumulator.finish().map_or("undefined".to_owned(), |value| json::to_string(&value))
    }

    #[test]
    fn each_aggregate_over_nothing_numbers_and_mixed_values() {
        let table = [
            (Aggregate::Count, "0", "3", "4"),
            (Aggregate::CountIf, "0", "0", "1"),
            (Aggregate::Sum, "0", "4.5", "undefined"),
            (Aggregate::Average, "undefined", "1.5", "undefined"),
            (Aggregate::Min, "undefined", "1", "null"),
            (Aggregate::Max, "undefined", "2", "\"x\""),
            (Aggregate::MakeList, "[]", "[1,1.5,2]", "[null,true,1,\"x\"]"),
            (Aggregate::MakeSet, "[]", "[1,1.5,2]", "[null,true,1,\"x\"]"),
        ];
        for (aggregate, empty, numbers, mixed) in table {
            assert_eq!(result(aggregate, "[]"), empty, "{aggregate:?}");
            assert_eq!(result(aggregate, "[1,1.5,2]"), numbers, "{aggregate:?}");
            assert_eq!(result(aggregate, "[null,true,1,\"x\"]"), mixed, "{aggregate:?}");
        }
        assert_eq!(result(Aggregate::MakeSet, "[1,1.0,{\"a\":1},{\"a\":1.0}]"), "[1,{\"a\":1}]");
        assert_eq!(result(Aggregate::Max, "[1,[],2]"), "undefined");
    }

    #[test]
    fn parts_put_together_are_the_whole() {
        let values = ["null", "true", "1", "2.5", "\"x\"", "[]", "1", "9007199254740993"];
        for aggregate in Aggregate::ALL {
            for mask in 0..1 << values.len() {
                let of = |side: usize| {
                    let mine = (0..values.len()).filter(|at| (mask >> at) & 1 == side);
                    let mine: Vec<_> = mine.map(|at| values[at]).collect();
                    let list = json::parse(format!("[{}]", mine.join(",")).as_bytes(), 10);
                    let mut accumulator = Accumulator::new(aggregate);
                    for value in list.unwrap().value.as_array().unwrap() {
                        accumulator.add(value, &Budget::per_item()).unwrap();
                    }
                    (accumulator, mine)
                };
                let ((mut own, mine), (others, rest)) = (of(0), of(1));
                own.merge(others);
                let together = format!("[{}]", [mine, rest].concat().join(","));
                let merged = own.finish().map_or("undefined".to_owned(), |v| json::to_string(&v));
                assert_eq!(merged, result(aggregate, &together), "{aggregate:?} of {together}");
            }
        }
    }

    #[test]
    fn integers_are_added_exactly() {
        let sum = |values| result(Aggregate::Sum, values);
        assert_eq!(sum("[9007199254740993,1]"), "9007199254740994");
        assert_eq!(sum("[9223372036854775807,1,-1]"), "9223372036854775807");
        assert_eq!(sum("[9223372036854775807,9223372036854775807]"), "1.8446744073709552e+19");
    }
}
