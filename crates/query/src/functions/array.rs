//! Arrays: membership, slices and statistics of their elements.

use std::cmp::Ordering;

use model::order::TypeOrder;
use model::{Object, Value};

use super::string::count;
use super::{Args, Function, Outcome, at_least, between, exactly};
use crate::compare::{self, Class, class_of};
use crate::eval::from_f64;
use crate::{Budget, EvalError};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::linear("ARRAY_AVG", exactly(1), average),
    Function::metered("ARRAY_CONCAT", at_least(2), concat),
    Function::metered("ARRAY_CONTAINS", between(2, 3), contains),
    Function::metered("ARRAY_CONTAINS_ALL", at_least(2), |a, b| contains_many(a, b, true)),
    Function::metered("ARRAY_CONTAINS_ANY", at_least(2), |a, b| contains_many(a, b, false)),
    Function::linear("ARRAY_LENGTH", exactly(1), |args| Some(count(args.array(0)?.len()))),
    Function::metered("ARRAY_MAX", exactly(1), |a, b| extreme(a, b, Ordering::Greater)),
    Function::linear("ARRAY_MEDIAN", exactly(1), median),
    Function::metered("ARRAY_MIN", exactly(1), |a, b| extreme(a, b, Ordering::Less)),
    Function::metered("ARRAY_SLICE", between(2, 3), slice),
    Function::linear("ARRAY_SUM", exactly(1), |args| Some(from_f64(numbers(args)?.iter().sum()))),
    Function::metered("ObjectToArray", between(1, 3), object_to_array),
];

fn concat(args: &Args<'_>, budget: &Budget) -> Outcome {
    let arrays = args.rest(0).map(|arg| arg?.as_array()).collect::<Option<Vec<_>>>();
    let Some(arrays) = arrays else { return Ok(None) };
    let elements = arrays.into_iter().flatten().map(|element| budget.clone_value(element));
    Ok(Some(Value::Array(elements.collect::<Result<_, _>>()?)))
}

fn contains(args: &Args<'_>, budget: &Budget) -> Outcome {
    let (Some(elements), Some(wanted), Some(partial)) = (args.array(0), args.get(1), args.flag(2))
    else {
        return Ok(None);
    };
    let is_found = match (partial, wanted.as_object()) {
        (true, Some(wanted)) => any_includes(elements, wanted, budget)?,
        _ => has_element(elements, wanted, budget)?,
    };
    Ok(Some(Value::Bool(is_found)))
}

/// Whether some element equals `wanted`.
pub(super) fn has_element(
    elements: &[Value],
    wanted: &Value,
    budget: &Budget,
) -> Result<bool, EvalError> {
    for element in elements {
        if compare::equals(element, wanted, budget)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn any_includes(elements: &[Value], wanted: &Object, budget: &Budget) -> Result<bool, EvalError> {
    for element in elements {
        if let Some(object) = element.as_object()
            && includes(object, wanted, budget)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether `object` has all fields of `wanted`; fields that are objects need to match in part only.
fn includes(object: &Object, wanted: &Object, budget: &Budget) -> Result<bool, EvalError> {
    for (name, wanted) in wanted.iter() {
        // Finding a field is a search, which costs time.
        budget.spend(object.len() as u64 / 8 + 1)?;
        let Some(found) = object.get(name) else { return Ok(false) };
        let is_same = match (found.as_object(), wanted.as_object()) {
            (Some(found), Some(wanted)) => includes(found, wanted, budget)?,
            _ => compare::equals(found, wanted, budget)?,
        };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Three-valued AND (`all`) or OR of membership of the arguments after the first.
fn contains_many(args: &Args<'_>, budget: &Budget, all: bool) -> Outcome {
    let Some(elements) = args.array(0) else { return Ok(None) };
    let mut is_unknown = false;
    for wanted in args.rest(1) {
        match wanted {
            Some(wanted) if has_element(elements, wanted, budget)? != all => {
                return Ok(Some(Value::Bool(!all)));
            }
            Some(_) => {}
            None => is_unknown = true,
        }
    }
    Ok((!is_unknown).then_some(Value::Bool(all)))
}

/// The elements, if all are numbers.
fn numbers(args: &Args<'_>) -> Option<Vec<f64>> {
    args.array(0)?.iter().map(Value::as_f64).collect()
}

fn average(args: &Args<'_>) -> Option<Value> {
    let numbers = numbers(args)?;
    (!numbers.is_empty()).then(|| from_f64(numbers.iter().sum::<f64>() / length(&numbers)))
}

#[expect(clippy::cast_precision_loss, reason = "no array is longer than 2^53")]
fn length(numbers: &[f64]) -> f64 {
    numbers.len() as f64
}

fn median(args: &Args<'_>) -> Option<Value> {
    let mut numbers = numbers(args)?;
    numbers.sort_unstable_by(f64::total_cmp);
    let upper = *numbers.get(numbers.len() / 2)?;
    if numbers.len() % 2 == 1 {
        return Some(from_f64(upper));
    }
    let lower = *numbers.get(numbers.len() / 2 - 1)?;
    Some(from_f64(f64::midpoint(lower, upper)))
}

/// The greatest or least element; *undefined* for an empty array or one holding arrays or objects.
fn extreme(args: &Args<'_>, budget: &Budget, wanted: Ordering) -> Outcome {
    let Some(elements) = args.array(0) else { return Ok(None) };
    let mut best: Option<&Value> = None;
    for element in elements {
        budget.spend_bytes(element.as_str().map_or(0, str::len))?;
        match class_of(element) {
            Class::Null | Class::Bool | Class::Number | Class::String => {}
            Class::Array | Class::Object | Class::Foreign => return Ok(None),
        }
        if best.is_none_or(|best| {
            model::order::compare(TypeOrder::NoSql, Some(element), Some(best)) == wanted
        }) {
            best = Some(element);
        }
    }
    best.map(|best| budget.clone_value(best)).transpose()
}

/// Elements from a start index, which counts from the end when negative, at most a given number.
fn slice(args: &Args<'_>, budget: &Budget) -> Outcome {
    let Some((elements, range)) = slice_range(args) else { return Ok(None) };
    let part = elements.get(range).unwrap_or_default();
    let copies = part.iter().map(|element| budget.clone_value(element));
    Ok(Some(Value::Array(copies.collect::<Result<_, _>>()?)))
}

fn slice_range<'a>(args: &Args<'a>) -> Option<(&'a [Value], std::ops::Range<usize>)> {
    let elements = args.array(0)?;
    let start = args.integer(1)?;
    let wanted = if args.len() > 2 { args.integer(2)?.max(0) } else { i64::MAX };
    let distance = usize::try_from(start.unsigned_abs()).unwrap_or(usize::MAX);
    let start = if start < 0 {
        elements.len().saturating_sub(distance)
    } else {
        distance.min(elements.len())
    };
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    Some((elements, start..start.saturating_add(wanted).min(elements.len())))
}

/// The fields of an object as `{"k": name, "v": value}`, with other names for the two if given.
fn object_to_array(args: &Args<'_>, budget: &Budget) -> Outcome {
    let name_of = |at, default| if args.len() > at { args.str(at) } else { Some(default) };
    let (Some(object), Some(key_name), Some(value_name)) =
        (args.object(0), name_of(1, "k"), name_of(2, "v"))
    else {
        return Ok(None);
    };
    let mut pairs = Vec::with_capacity(object.len());
    for (name, value) in object.iter() {
        budget.spend_bytes(name.len() + key_name.len() + value_name.len())?;
        let mut pair = Object::with_capacity(2);
        pair.insert(key_name, Value::from(name));
        pair.insert(value_name, budget.clone_value(value)?);
        pairs.push(Value::Object(pair));
    }
    Ok(Some(Value::Array(pairs)))
}
