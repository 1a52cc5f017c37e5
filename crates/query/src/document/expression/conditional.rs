//! Operators that choose which operand to evaluate, and those that bind variables.

use std::borrow::Cow;

use super::operator::{Named, null, optional, owned, required};
use super::{Arguments, Evaluated, Operator, Shape};
use crate::document::Failure;
use crate::document::values::{is_nullish, is_truthy, printed, type_name};
use model::Value;

pub(super) const OPERATORS: &[Operator] = &[
    // Three in an array, or an object with names, which is compiled by its own rule.
    Operator::new("$cond", Shape::Special(Some(COND)), cond),
    Operator::new("$filter", Shape::Named(FILTER), filter),
    Operator::new("$ifNull", Shape::Special(None), if_null),
    Operator::new("$let", Shape::Special(None), let_in),
    Operator::new("$literal", Shape::Special(None), |arguments| arguments.value(0)),
    Operator::new("$map", Shape::Named(MAP), map),
    Operator::new("$reduce", Shape::Named(REDUCE), reduce),
    Operator::new("$switch", Shape::Special(None), switch),
];

/// Arguments of `$cond`, where they have names.
const COND: &Named = &Named {
    parameters: &[
        required("if", 17080, "Missing 'if' parameter to $cond"),
        required("then", 17081, "Missing 'then' parameter to $cond"),
        required("else", 17082, "Missing 'else' parameter to $cond"),
    ],
    not_object: (17079, "$cond only supports an object as its argument"),
    unknown: (17083, "Unrecognized parameter to $cond: {}"),
};

/// The variable `as` is bound for the argument `cond`.
const FILTER: &Named = &Named {
    parameters: &[
        required("input", 28648, "Missing 'input' parameter to $filter"),
        required("cond", 28650, "Missing 'cond' parameter to $filter"),
        optional("limit"),
        optional("as"),
    ],
    not_object: (28646, "$filter only supports an object as its argument"),
    unknown: (28647, "Unrecognized parameter to $filter: {}"),
};

const MAP: &Named = &Named {
    parameters: &[
        required("input", 16880, "Missing 'input' parameter to $map"),
        required("in", 16882, "Missing 'in' parameter to $map"),
        optional("as"),
    ],
    not_object: (16878, "$map only supports an object as its argument"),
    unknown: (16879, "Unrecognized parameter to $map: {}"),
};

const REDUCE: &Named = &Named {
    parameters: &[
        required("input", 40077, "$reduce requires 'input' to be specified"),
        required("initialValue", 40078, "$reduce requires 'initialValue' to be specified"),
        required("in", 40079, "$reduce requires 'in' to be specified"),
    ],
    not_object: (40075, "$reduce requires an object as an argument, found: {}"),
    unknown: (40076, "$reduce found an unknown argument: {}"),
};

fn cond<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let chosen = if is_truthy(arguments.value(0)?.as_deref()) { 1 } else { 2 };
    arguments.value(chosen)
}

fn if_null<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let last = arguments.len().saturating_sub(1);
    for at in 0..last {
        let value = arguments.value(at)?;
        if !is_nullish(value.as_deref()) {
            return Ok(value);
        }
    }
    arguments.value(last)
}

/// Pairs of a condition and a result; the default, if there is one, stands alone at the end.
fn switch<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    for at in (0..arguments.len() - arguments.len() % 2).step_by(2) {
        if is_truthy(arguments.value(at)?.as_deref()) {
            return arguments.value(at + 1);
        }
    }
    if arguments.len() % 2 == 1 {
        return arguments.value(arguments.len() - 1);
    }
    Err(Failure::new(
        40066,
        "$switch could not find a matching branch for an input, and no default was specified.",
    ))
}

/// The values of the variables, then the expression that sees them.
fn let_in<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let last = arguments.len().saturating_sub(1);
    let values = (0..last).map(|at| arguments.value(at)).collect::<Result<Vec<_>, _>>()?;
    let Some(body) = arguments.expression(last) else { return Ok(None) };
    let scope = arguments.scope();
    let frame = scope.bind(arguments.first_local(), &values);
    Ok(body.evaluate(&scope.within(&frame))?.map(Cow::Owned))
}

/// The elements of the first argument; `None` if it is null or missing.
fn input<'s>(
    arguments: &Arguments<'s>,
    complaint: impl Fn(Option<&Value>) -> Failure,
) -> Result<Option<Cow<'s, [Value]>>, Failure> {
    match arguments.value(0)? {
        value if is_nullish(value.as_deref()) => Ok(None),
        Some(Cow::Borrowed(Value::Array(elements))) => Ok(Some(Cow::Borrowed(elements))),
        Some(Cow::Owned(Value::Array(elements))) => Ok(Some(Cow::Owned(elements))),
        other => Err(complaint(other.as_deref())),
    }
}

fn map<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let complaint = |value: Option<&Value>| {
        let given = type_name(value);
        Failure::new(16883, format!("input to $map must be an array not {given}"))
    };
    let Some(elements) = input(arguments, complaint)? else { return null() };
    let (scope, body) = (arguments.scope(), arguments.expression(1));
    let mut mapped = Vec::with_capacity(elements.len());
    for element in elements.iter() {
        scope.step()?;
        let values = [Some(Cow::Borrowed(element))];
        let frame = scope.bind(arguments.first_local(), &values);
        let value = body.map(|body| body.evaluate(&scope.within(&frame))).transpose()?.flatten();
        mapped.push(value.unwrap_or(Value::Null));
    }
    scope.spend_bytes(mapped.len() * size_of::<Value>())?;
    owned(mapped)
}

fn filter<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let complaint = |value: Option<&Value>| {
        let given = type_name(value);
        Failure::new(28651, format!("input to $filter must be an array not {given}"))
    };
    let Some(elements) = input(arguments, complaint)? else { return null() };
    let limit = filter_limit(arguments)?;
    let (scope, condition) = (arguments.scope(), arguments.expression(1));
    let mut kept = Vec::new();
    for element in elements.iter() {
        if kept.len() >= limit {
            break;
        }
        scope.step()?;
        let values = [Some(Cow::Borrowed(element))];
        let frame = scope.bind(arguments.first_local(), &values);
        let inner = scope.within(&frame);
        let value = condition.map(|condition| condition.eval(&inner)).transpose()?.flatten();
        if is_truthy(value.as_deref()) {
            kept.push(scope.own(Cow::Borrowed(element))?);
        }
    }
    owned(kept)
}

fn filter_limit(arguments: &Arguments<'_>) -> Result<usize, Failure> {
    let limit = arguments.value(2)?;
    if is_nullish(limit.as_deref()) {
        return Ok(usize::MAX);
    }
    let number = super::number::Number::of(limit.as_deref());
    match number.and_then(super::number::Number::exact_i32) {
        Some(n) if n > 0 => Ok(usize::try_from(n).unwrap_or(usize::MAX)),
        Some(_) => {
            let shown = printed(limit.as_deref());
            let message = format!("$filter: limit must be greater than 0: {shown}");
            Err(Failure::new(327392, message))
        }
        None => {
            let shown = printed(limit.as_deref());
            let message =
                format!("$filter: limit must be represented as a 32-bit integral value: {shown}");
            Err(Failure::new(327391, message))
        }
    }
}

/// Rounds after which the result of `$reduce` is checked not to be nested too deeply.
const ROUNDS_PER_CHECK: usize = 32;
/// Deepest nesting of a document.
const NESTING_MAX: usize = 200;

/// Binds `$$this` and `$$value`, in this order.
fn reduce<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let complaint = |value: Option<&Value>| {
        let shown = printed(value);
        let message = format!("$reduce requires that 'input' be an array, found: {shown}");
        Failure::new(40080, message)
    };
    let Some(elements) = input(arguments, complaint)? else { return null() };
    let (scope, body) = (arguments.scope(), arguments.expression(2));
    let mut result = arguments.own(1)?;
    for (round, element) in elements.iter().enumerate() {
        scope.step()?;
        let values = [Some(Cow::Borrowed(element)), result.take().map(Cow::Owned)];
        let frame = scope.bind(arguments.first_local(), &values);
        result = body.map(|body| body.evaluate(&scope.within(&frame))).transpose()?.flatten();
        let is_due = round % ROUNDS_PER_CHECK == ROUNDS_PER_CHECK - 1;
        if is_due && result.as_ref().is_some_and(|value| is_deeper_than(value, NESTING_MAX)) {
            return Err(too_deep());
        }
    }
    Ok(result.map(Cow::Owned))
}

/// The failure for a value that is nested too deeply.
pub(crate) fn too_deep() -> Failure {
    Failure::new(
        crate::document::code::OVERFLOW,
        format!(
            "cannot convert document to BSON because it exceeds the limit of {NESTING_MAX} levels \
             of nesting"
        ),
    )
}

/// Whether a value has more than `levels` levels of objects and arrays.
pub(crate) fn is_deeper_than(value: &Value, levels: usize) -> bool {
    let below = |value: &Value| levels == 0 || is_deeper_than(value, levels - 1);
    match Some(value) {
        Some(Value::Array(elements)) => levels == 0 || elements.iter().any(below),
        Some(Value::Object(object)) => levels == 0 || object.iter().any(|(_, field)| below(field)),
        _ => false,
    }
}
