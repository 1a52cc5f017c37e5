//! Arrays as sets: each distinct element counts once.

use model::Value;

use super::array::has_element;
use super::{Args, Function, Outcome, exactly};
use crate::{Budget, EvalError};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::metered("SetDifference", exactly(2), difference),
    Function::metered("SetEqual", exactly(2), equal),
    Function::metered("SetIntersect", exactly(2), intersect),
    Function::metered("SetUnion", exactly(2), union),
];

fn both<'a>(args: &Args<'a>) -> Option<(&'a [Value], &'a [Value])> {
    Some((args.array(0)?, args.array(1)?))
}

/// The first of each run of equal elements that `keep` accepts, in order.
fn distinct<'a>(
    elements: impl Iterator<Item = &'a Value>,
    budget: &Budget,
    mut keep: impl FnMut(&Value) -> Result<bool, EvalError>,
) -> Result<Vec<Value>, EvalError> {
    let mut kept: Vec<Value> = Vec::new();
    for element in elements {
        if !has_element(&kept, element, budget)? && keep(element)? {
            kept.push(budget.clone_value(element)?);
        }
    }
    Ok(kept)
}

fn difference(args: &Args<'_>, budget: &Budget) -> Outcome {
    let Some((left, right)) = both(args) else { return Ok(None) };
    let rest = distinct(left.iter(), budget, |e| Ok(!has_element(right, e, budget)?))?;
    Ok(Some(Value::Array(rest)))
}

/// Common elements in the order of the second array, as the documented sample has them.
fn intersect(args: &Args<'_>, budget: &Budget) -> Outcome {
    let Some((left, right)) = both(args) else { return Ok(None) };
    let common = distinct(right.iter(), budget, |e| has_element(left, e, budget))?;
    Ok(Some(Value::Array(common)))
}

fn union(args: &Args<'_>, budget: &Budget) -> Outcome {
    let Some((left, right)) = both(args) else { return Ok(None) };
    Ok(Some(Value::Array(distinct(left.iter().chain(right), budget, |_| Ok(true))?)))
}

fn equal(args: &Args<'_>, budget: &Budget) -> Outcome {
    let Some((left, right)) = both(args) else { return Ok(None) };
    Ok(Some(Value::Bool(is_subset(left, right, budget)? && is_subset(right, left, budget)?)))
}

fn is_subset(part: &[Value], whole: &[Value], budget: &Budget) -> Result<bool, EvalError> {
    for element in part {
        if !has_element(whole, element, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}
