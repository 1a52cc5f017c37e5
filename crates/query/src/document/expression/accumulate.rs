//! Accumulators as operators: over their arguments, or over the elements of a single array.

use std::borrow::Cow;

use model::Value;

use super::array::elements_of;
use super::operator::{Named, owned, required};
use super::{Arguments, Evaluated, Operator, Shape};
use crate::document::Failure;
use crate::document::accumulator::{AccumulatorKind, accumulate, accumulate_percentiles};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("$avg", Shape::Any, |a| over(a, AccumulatorKind::Avg)),
    Operator::new("$max", Shape::Any, |a| over(a, AccumulatorKind::Max)),
    // The shares are checked when they are compiled.
    Operator::new("$median", Shape::Special(Some(MEDIAN)), percentiles),
    Operator::new("$min", Shape::Any, |a| over(a, AccumulatorKind::Min)),
    Operator::new("$percentile", Shape::Special(Some(PERCENTILE)), percentiles),
    Operator::new("$stdDevPop", Shape::Any, |a| over(a, AccumulatorKind::StdDevPop)),
    Operator::new("$stdDevSamp", Shape::Any, |a| over(a, AccumulatorKind::StdDevSamp)),
    Operator::new("$sum", Shape::Any, |a| over(a, AccumulatorKind::Sum)),
];

const MEDIAN: &Named = &Named {
    parameters: &[
        required("input", 40414, "BSON field '$median.input' is missing but a required field"),
        required("method", 40414, "BSON field '$median.method' is missing but a required field"),
    ],
    not_object: (7436201, "specification must be an object; found {op}: {value}"),
    unknown: (40415, "BSON field '$median.{}' is an unknown field."),
};

const PERCENTILE: &Named = &Named {
    parameters: &[
        required("input", 40414, "BSON field '$percentile.input' is missing but a required field"),
        required(
            "method",
            40414,
            "BSON field '$percentile.method' is missing but a required field",
        ),
        required("p", 40414, "BSON field '$percentile.p' is missing but a required field"),
    ],
    not_object: (7436200, "specification must be an object; found {op}: {value}"),
    unknown: (40415, "BSON field '$percentile.{}' is an unknown field."),
};

/// The values that are accumulated.
fn values<'s>(arguments: &Arguments<'s>) -> Result<Vec<Option<Cow<'s, Value>>>, Failure> {
    if arguments.len() != 1 {
        return arguments.values().collect();
    }
    of_array(arguments.value(0)?)
}

/// The elements of an array; anything else is the only value.
fn of_array(value: Option<Cow<'_, Value>>) -> Result<Vec<Option<Cow<'_, Value>>>, Failure> {
    if !matches!(value.as_deref(), Some(Value::Array(_))) {
        return Ok(vec![value]);
    }
    Ok(match elements_of(value) {
        Ok(Cow::Borrowed(elements)) => elements.iter().map(Cow::Borrowed).map(Some).collect(),
        Ok(Cow::Owned(elements)) => elements.into_iter().map(Cow::Owned).map(Some).collect(),
        Err(_) => Vec::new(),
    })
}

fn over<'s>(arguments: &Arguments<'s>, kind: AccumulatorKind) -> Evaluated<'s> {
    owned(accumulate(kind, values(arguments)?)?)
}

/// The input, then the shares as a literal array; a literal number has a single result.
fn percentiles<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let values = of_array(arguments.value(0)?)?;
    let shares = arguments.value(1)?;
    match shares.as_deref() {
        Some(Value::Array(shares)) => {
            let shares: Vec<f64> = shares.iter().filter_map(Value::as_f64).collect();
            owned(accumulate_percentiles(values, &shares)?)
        }
        _ => owned(accumulate(AccumulatorKind::Median, values)?),
    }
}
