//! Arrays: elements, parts, positions and the ways to make new ones.

use std::borrow::Cow;
use std::cmp::Ordering;

use model::Value;

use super::number::Number;
use super::operator::{Named, null, optional, owned, required};
use super::{Arguments, Evaluated, Operator, Shape};
use crate::document::Failure;
use crate::document::values::{compare, double_text, is_nullish, is_truthy, printed, type_name};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("$arrayElemAt", Shape::Exactly(2), element_at),
    Operator::new("$concatArrays", Shape::Any, concat_arrays),
    Operator::new("$first", Shape::Exactly(1), |arguments| element(arguments, Some(0))),
    Operator::new("$firstN", Shape::Named(N), |arguments| some_of(arguments, take_first)),
    Operator::new("$in", Shape::Exactly(2), is_in),
    Operator::new("$indexOfArray", Shape::Between(2, 4), index_of_array),
    Operator::new("$isArray", Shape::Exactly(1), is_array),
    Operator::new("$last", Shape::Exactly(1), |arguments| element(arguments, Some(-1))),
    Operator::new("$lastN", Shape::Named(N), |arguments| some_of(arguments, take_last)),
    Operator::new("$maxN", Shape::Named(N), |arguments| some_of(arguments, take_greatest)),
    Operator::new("$minN", Shape::Named(N), |arguments| some_of(arguments, take_least)),
    Operator::new("$range", Shape::Between(2, 3), range),
    Operator::new("$reverseArray", Shape::Exactly(1), reverse),
    Operator::new("$size", Shape::Exactly(1), size),
    Operator::new("$slice", Shape::Between(2, 3), slice),
    // The order is checked when it is compiled.
    Operator::new("$sortArray", Shape::Special(Some(SORT_ARRAY)), sort_array),
    Operator::new("$zip", Shape::Special(Some(ZIP)), zip),
];

/// Arguments of operators that take the first or least `n`.
const N: &Named = &Named {
    parameters: &[
        required("input", 5787907, "Missing value for 'input'"),
        required("n", 5787906, "Missing value for 'n'"),
    ],
    not_object: (5787900, "specification must be an object; found {op}: {value}"),
    unknown: (5787901, "Unknown argument for 'n' operator: {}"),
};

/// Arguments of `$sortArray`.
const SORT_ARRAY: &Named = &Named {
    parameters: &[
        required("input", 2942502, "$sortArray requires 'input' to be specified"),
        required("sortBy", 2942503, "$sortArray requires 'sortBy' to be specified"),
    ],
    not_object: (2942500, "$sortArray requires an object as an argument, found: {}"),
    unknown: (2942501, "$sortArray found an unknown argument: {}"),
};

/// Arguments of `$zip`.
const ZIP: &Named = &Named {
    parameters: &[optional("inputs"), optional("useLongestLength"), optional("defaults")],
    not_object: (34460, "$zip only supports an object as an argument, found {}"),
    unknown: (34464, "$zip found an unknown argument: {}"),
};

/// The elements of an array, borrowed if the array is.
pub(super) fn elements_of(value: Option<Cow<'_, Value>>) -> Result<Cow<'_, [Value]>, &'static str> {
    match value {
        Some(Cow::Borrowed(Value::Array(elements))) => Ok(Cow::Borrowed(elements)),
        Some(Cow::Owned(Value::Array(elements))) => Ok(Cow::Owned(elements)),
        other => Err(type_name(other.as_deref())),
    }
}

/// The elements as values of their own.
pub(super) fn own_elements<'s>(
    elements: Cow<'s, [Value]>,
    arguments: &Arguments<'s>,
) -> Result<Vec<Value>, Failure> {
    match elements {
        Cow::Owned(elements) => Ok(elements),
        Cow::Borrowed(elements) => {
            let own = |element| arguments.scope().own(Cow::Borrowed(element));
            elements.iter().map(own).collect()
        }
    }
}

/// One element, borrowed if its array is.
fn pick<'s>(elements: Cow<'s, [Value]>, at: usize) -> Option<Cow<'s, Value>> {
    match elements {
        Cow::Borrowed(elements) => elements.get(at).map(Cow::Borrowed),
        Cow::Owned(mut elements) => {
            (at < elements.len()).then(|| Cow::Owned(elements.swap_remove(at)))
        }
    }
}

fn element_at<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    element(arguments, None)
}

/// The element at a fixed position, or at the one that the second argument gives. Negative
/// positions count from the end.
fn element<'s>(arguments: &Arguments<'s>, fixed: Option<i32>) -> Evaluated<'s> {
    let array = arguments.value(0)?;
    let position = match fixed {
        Some(position) => Some(Cow::Owned(Value::Int32(position))),
        None => arguments.value(1)?,
    };
    if is_nullish(array.as_deref()) || is_nullish(position.as_deref()) {
        return null();
    }
    let which = if fixed.is_some() { "argument" } else { "first argument" };
    let elements = elements_of(array).map_err(|given| {
        arguments.failure(28689, format_args!("'s {which} must be an array, but is {given}"))
    })?;
    let number = Number::of(position.as_deref()).ok_or_else(|| {
        let given = type_name(position.as_deref());
        let text = format_args!("'s second argument must be a numeric value, but is {given}");
        arguments.failure(28690, text)
    })?;
    let position = number.exact_i32().ok_or_else(|| {
        let shown = double_text(number.to_f64());
        let text =
            format_args!("'s second argument must be representable as a 32-bit integer: {shown}");
        arguments.failure(28691, text)
    })?;
    let at = match usize::try_from(position) {
        Ok(at) => Some(at),
        Err(_) => elements.len().checked_sub(magnitude(position)),
    };
    Ok(at.and_then(|at| pick(elements, at)))
}

fn magnitude(n: i32) -> usize {
    usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX)
}

fn concat_arrays<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let mut all = Vec::new();
    for value in arguments.values() {
        let value = value?;
        if is_nullish(value.as_deref()) {
            return null();
        }
        let elements = elements_of(value).map_err(|given| {
            Failure::new(28664, format!("$concatArrays only supports arrays, not {given}"))
        })?;
        all.append(&mut own_elements(elements, arguments)?);
    }
    owned(all)
}

type Take = fn(Vec<Value>, usize) -> Vec<Value>;

fn some_of<'s>(arguments: &Arguments<'s>, take: Take) -> Evaluated<'s> {
    let n = count_of(arguments.value(1)?.as_deref())?;
    let array = arguments.value(0)?;
    if is_nullish(array.as_deref()) {
        return null();
    }
    let elements =
        elements_of(array).map_err(|_| Failure::new(5788200, "Input must be an array"))?;
    owned(take(own_elements(elements, arguments)?, n))
}

/// The `n` of operators that take the first or least `n`.
pub(crate) fn count_of(value: Option<&Value>) -> Result<usize, Failure> {
    let integral = |code| {
        let shown = printed(value);
        Failure::new(code, format!("Value for 'n' must be of integral type, but found {shown}"))
    };
    let number = Number::of(value).ok_or_else(|| integral(5787902))?;
    let n = number.exact_i64().ok_or_else(|| integral(5787903))?;
    usize::try_from(n)
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| Failure::new(5787908, format!("'n' must be greater than 0, found {n}")))
}

fn take_first(mut elements: Vec<Value>, n: usize) -> Vec<Value> {
    elements.truncate(n);
    elements
}

fn take_last(mut elements: Vec<Value>, n: usize) -> Vec<Value> {
    elements.split_off(elements.len().saturating_sub(n))
}

fn take_greatest(mut elements: Vec<Value>, n: usize) -> Vec<Value> {
    elements.retain(|element| !is_nullish(Some(element)));
    elements.sort_by(|a, b| compare(Some(b), Some(a)));
    take_first(elements, n)
}

fn take_least(mut elements: Vec<Value>, n: usize) -> Vec<Value> {
    elements.retain(|element| !is_nullish(Some(element)));
    elements.sort_by(|a, b| compare(Some(a), Some(b)));
    take_first(elements, n)
}

fn is_in<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let sought = arguments.value(0)?;
    let elements = elements_of(arguments.value(1)?).map_err(|given| {
        let message = format!("$in requires an array as a second argument, found: {given}");
        Failure::new(40081, message)
    })?;
    let is_sought = |element| compare(Some(element), sought.as_deref()).is_eq();
    owned(elements.iter().any(is_sought))
}

/// A position to begin or end at.
pub(super) fn position(
    arguments: &Arguments<'_>,
    at: usize,
    what: &str,
) -> Result<Option<usize>, Failure> {
    if !arguments.is_given(at) {
        return Ok(None);
    }
    let value = arguments.value(at)?;
    let n = Number::of(value.as_deref()).and_then(Number::exact_i32).ok_or_else(|| {
        let (given, shown) = (type_name(value.as_deref()), printed(value.as_deref()));
        let text = format!(
            "requires an integral {what}, found a value of type: {given}, with value: {shown}"
        );
        arguments.failure(40096, text)
    })?;
    usize::try_from(n).map(Some).map_err(|_| {
        arguments.failure(40097, format_args!(" requires a nonnegative {what}, found: {n}"))
    })
}

/// A result that is a position in an array or a text, or -1.
pub(super) fn found_at<'s>(at: Option<usize>) -> Evaluated<'s> {
    let at = at.map_or(-1, |at| i32::try_from(at).unwrap_or(i32::MAX));
    owned(Value::Int32(at))
}

fn index_of_array<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let array = arguments.value(0)?;
    if is_nullish(array.as_deref()) {
        return null();
    }
    let elements = elements_of(array).map_err(|given| {
        let message =
            format!("$indexOfArray requires an array as a first argument, found: {given}");
        Failure::new(40090, message)
    })?;
    let sought = arguments.value(1)?;
    let start = position(arguments, 2, "starting index")?.unwrap_or(0);
    let end = position(arguments, 3, "ending index")?.unwrap_or(usize::MAX).min(elements.len());
    let within = elements.get(start..end).unwrap_or_default();
    let is_sought = |element| compare(Some(element), sought.as_deref()).is_eq();
    found_at(within.iter().position(is_sought).map(|at| start + at))
}

fn is_array<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    owned(matches!(arguments.value(0)?.as_deref(), Some(Value::Array(_))))
}

/// Most bytes of a range, at the size that a number has in MongoDB.
const RANGE_BYTES_MAX: u64 = 100 * 1024 * 1024;
const BYTES_PER_NUMBER: u64 = 16;

fn range<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let start = bound(arguments, 0, (34443, "a", "starting"), 34444)?;
    let end = bound(arguments, 1, (34445, "a", "ending"), 34446)?;
    let step = match arguments.is_given(2) {
        true => bound(arguments, 2, (34447, "a", "step"), 34448)?,
        false => 1,
    };
    if step == 0 {
        return Err(Failure::new(34449, "$range requires a non-zero step value"));
    }
    let distance = if step > 0 { end - start } else { start - end };
    let count = u64::try_from(distance).unwrap_or(0).div_ceil(step.unsigned_abs());
    let bytes = count.saturating_mul(BYTES_PER_NUMBER);
    if bytes >= RANGE_BYTES_MAX {
        let message = format!(
            "$range would use too much memory ({bytes} bytes) and cannot spill to disk. Memory \
             limit: {RANGE_BYTES_MAX} bytes"
        );
        return Err(Failure::new(146, message));
    }
    let count = usize::try_from(count).unwrap_or(0);
    arguments.scope().spend_bytes(count * size_of::<Value>())?;
    let numbers = (0..).map(|n: i64| start + n * step).take(count);
    owned(numbers.map(|n| Value::Int32(i32::try_from(n).unwrap_or(0))).collect::<Vec<_>>())
}

fn bound(
    arguments: &Arguments<'_>,
    at: usize,
    (not_numeric, article, what): (i32, &str, &str),
    not_whole: i32,
) -> Result<i64, Failure> {
    let value = arguments.value(at)?;
    let number = Number::of(value.as_deref()).ok_or_else(|| {
        let given = type_name(value.as_deref());
        let space = if what == "step" { "" } else { " " };
        let message = format!(
            "$range requires {article} numeric {what} value, found value of type:{space}{given}"
        );
        Failure::new(not_numeric, message)
    })?;
    number.exact_i32().map(i64::from).ok_or_else(|| {
        let article = if what == "ending" { "an" } else { "a" };
        let shown = printed(value.as_deref());
        let message = format!(
            "$range requires {article} {what} value that can be represented as a 32-bit integer, \
             found value: {shown}"
        );
        Failure::new(not_whole, message)
    })
}

fn reverse<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let array = arguments.value(0)?;
    if is_nullish(array.as_deref()) {
        return null();
    }
    let elements = elements_of(array).map_err(|given| {
        let message =
            format!("The argument to $reverseArray must be an array, but was of type: {given}");
        Failure::new(34435, message)
    })?;
    let mut elements = own_elements(elements, arguments)?;
    elements.reverse();
    owned(elements)
}

fn size<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let array = arguments.value(0)?;
    let Some(Value::Array(elements)) = array.as_deref() else {
        let given = type_name(array.as_deref());
        let message = format!("The argument to $size must be an array, but was of type: {given}");
        return Err(Failure::new(17124, message));
    };
    owned(Value::Int32(i32::try_from(elements.len()).unwrap_or(i32::MAX)))
}

fn slice<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let (array, second) = (arguments.value(0)?, arguments.value(1)?);
    if is_nullish(array.as_deref()) || is_nullish(second.as_deref()) {
        return null();
    }
    let elements = elements_of(array).map_err(|given| {
        let message = format!("First argument to $slice must be an array, but is of type: {given}");
        Failure::new(28724, message)
    })?;
    let number = Number::of(second.as_deref()).ok_or_else(|| {
        let given = type_name(second.as_deref());
        let message =
            format!("Second argument to $slice must be a numeric value, but is of type: {given}");
        Failure::new(28725, message)
    })?;
    let n = number.exact_i32().ok_or_else(|| {
        let shown = double_text(number.to_f64());
        let message =
            format!("Second argument to $slice can't be represented as a 32-bit integer: {shown}");
        Failure::new(28726, message)
    })?;
    let from_end = |n: i32| elements.len().saturating_sub(magnitude(n));
    let (start, end) = match arguments.is_given(2) {
        false if n >= 0 => (0, magnitude(n)),
        false => (from_end(n), elements.len()),
        true => {
            let Some(count) = slice_count(arguments)? else { return null() };
            let start = if n >= 0 { magnitude(n).min(elements.len()) } else { from_end(n) };
            (start, start.saturating_add(count))
        }
    };
    let end = end.min(elements.len());
    let own = |element| arguments.scope().own(Cow::Borrowed(element));
    match elements {
        Cow::Owned(mut elements) => {
            elements.truncate(end);
            owned(elements.split_off(start))
        }
        Cow::Borrowed(elements) => {
            owned(elements[start..end].iter().map(own).collect::<Result<Vec<_>, _>>()?)
        }
    }
}

fn slice_count(arguments: &Arguments<'_>) -> Result<Option<usize>, Failure> {
    let value = arguments.value(2)?;
    if is_nullish(value.as_deref()) {
        return Ok(None);
    }
    let number = Number::of(value.as_deref()).ok_or_else(|| {
        let given = type_name(value.as_deref());
        let message = format!("Third argument to $slice must be numeric, but is of type: {given}");
        Failure::new(28727, message)
    })?;
    let n = number.exact_i32().ok_or_else(|| {
        let shown = double_text(number.to_f64());
        let message =
            format!("Third argument to $slice can't be represented as a 32-bit integer: {shown}");
        Failure::new(28728, message)
    })?;
    usize::try_from(n).ok().filter(|n| *n > 0).map(Some).ok_or_else(|| {
        Failure::new(28729, format!("Third argument to $slice must be positive: {n}"))
    })
}

/// The array, then a literal: a direction for whole elements, or fields with their directions.
fn sort_array<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let array = arguments.value(0)?;
    if is_nullish(array.as_deref()) {
        return null();
    }
    let elements = elements_of(array).map_err(|given| {
        let message =
            format!("The input argument to $sortArray must be an array, but was of type: {given}");
        Failure::new(2942504, message)
    })?;
    let mut elements = own_elements(elements, arguments)?;
    let order = arguments.value(1)?;
    match order.as_deref() {
        Some(Value::Object(fields)) => {
            let keys: Vec<(Vec<&str>, bool)> = fields
                .iter()
                .map(|(path, direction)| (path.split('.').collect(), is_ascending(direction)))
                .collect();
            elements.sort_by(|a, b| compare_fields(&keys, a, b));
        }
        direction => {
            let is_ascending = direction.is_none_or(is_ascending);
            elements.sort_by(|a, b| directed(compare(Some(a), Some(b)), is_ascending));
        }
    }
    owned(elements)
}

fn is_ascending(direction: &Value) -> bool {
    Number::of(Some(direction)).is_none_or(|number| number.to_f64() > 0.0)
}

fn directed(ordering: Ordering, is_ascending: bool) -> Ordering {
    if is_ascending { ordering } else { ordering.reverse() }
}

/// Compares fields of elements; one that is missing is null.
fn compare_fields(keys: &[(Vec<&str>, bool)], a: &Value, b: &Value) -> Ordering {
    for (path, is_ascending) in keys {
        let field = |value| {
            let found = path.iter().try_fold(value, |value: &Value, name| value.field(name));
            found.cloned().unwrap_or(Value::Null)
        };
        let ordering = compare(Some(&field(a)), Some(&field(b)));
        if ordering.is_ne() {
            return directed(ordering, *is_ascending);
        }
    }
    Ordering::Equal
}

/// An array of the inputs, whether the longest counts, and an array of defaults.
fn zip<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let Some(Value::Array(inputs)) = arguments.own(0)? else { return null() };
    let mut columns = Vec::with_capacity(inputs.len());
    for input in inputs {
        if is_nullish(Some(&input)) {
            return null();
        }
        match Some(input) {
            Some(Value::Array(elements)) => columns.push(elements),
            other => {
                let shown = printed(other.as_ref());
                let message = format!("$zip found a non-array expression in input: {shown}");
                return Err(Failure::new(34468, message));
            }
        }
    }
    let is_longest = arguments.value(1)?.is_some_and(|flag| is_truthy(Some(&flag)));
    let defaults = match arguments.own(2)? {
        Some(Value::Array(defaults)) => defaults,
        _ => Vec::new(),
    };
    let lengths = columns.iter().map(Vec::len);
    let rows = if is_longest { lengths.max() } else { lengths.min() }.unwrap_or(0);
    arguments.scope().spend_bytes(rows * columns.len() * size_of::<Value>())?;
    let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
    let row = |_| {
        let cell = |(at, column): (usize, &mut std::vec::IntoIter<Value>)| {
            column.next().or_else(|| defaults.get(at).cloned()).unwrap_or(Value::Null)
        };
        Value::Array(columns.iter_mut().enumerate().map(cell).collect())
    };
    owned((0..rows).map(row).collect::<Vec<_>>())
}
