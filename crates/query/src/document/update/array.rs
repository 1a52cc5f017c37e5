//! The operators on arrays that find elements: as a set, at the ends, and those that match.

use std::sync::Arc;

use model::{Object, Value};

use crate::document::types::{self, BsonType};
use crate::document::{Failure, Predicate, code};

use super::modifier::{Change, Target, changed};

/// Which elements are removed.
#[derive(Clone, Debug)]
pub enum PullCondition {
    /// Those that equal a value.
    Equal(Value),
    /// Objects that match a filter.
    Objects(Arc<Predicate>),
    /// Those that match a filter on the field without a name of an object around them.
    Elements(Arc<Predicate>),
}

/// Larger sets are searched by order rather than one by one.
const LINEAR_SEARCH_MAX: usize = 16;

/// The failure of an operator that needs an array.
pub(super) fn not_an_array(target: &Target<'_>, of: BsonType) -> Failure {
    let message = format!(
        "The field '{}' must be an array but is of type {} in document {{{}}}",
        target.path.join("."),
        of.alias(),
        target.printed_id()
    );
    Failure::new(code::BAD_VALUE, message)
}

pub(super) fn add(
    value: &mut Value,
    added: &[Value],
    target: &Target<'_>,
) -> Result<Change, Failure> {
    let of = BsonType::of(value);
    let Value::Array(elements) = value else {
        let message = format!(
            "Cannot apply $addToSet to non-array field. Field named '{}' has non-array type {}",
            target.name(),
            of.alias()
        );
        return Err(Failure::new(code::BAD_VALUE, message));
    };
    Ok(changed(add_to_set(elements, added)))
}

/// Adds values that no element equals. Whether one was added.
pub(super) fn add_to_set(elements: &mut Vec<Value>, added: &[Value]) -> bool {
    let before = elements.len();
    if added.len() <= LINEAR_SEARCH_MAX {
        for value in added {
            if !elements.iter().any(|element| types::equal(element, value)) {
                elements.push(value.clone());
            }
        }
        return elements.len() > before;
    }
    let mut known: Vec<&Value> = elements.iter().collect();
    known.sort_by(|a, b| types::compare(Some(a), Some(b)));
    let mut by_order: Vec<usize> = (0..added.len()).collect();
    // The sort is stable, so the first of equal values comes first.
    by_order.sort_by(|a, b| types::compare(Some(&added[*a]), Some(&added[*b])));
    by_order.dedup_by(|later, first| types::equal(&added[*later], &added[*first]));
    by_order.retain(|at| {
        let search = |each: &&Value| types::compare(Some(each), Some(&added[*at]));
        known.binary_search_by(search).is_err()
    });
    by_order.sort_unstable();
    elements.extend(by_order.into_iter().filter_map(|at| added.get(at).cloned()));
    elements.len() > before
}

pub(super) fn pop(
    value: &mut Value,
    is_first: bool,
    target: &Target<'_>,
) -> Result<Change, Failure> {
    let of = BsonType::of(value);
    let Value::Array(elements) = value else {
        let message = format!(
            "Path '{}' contains an element of non-array type '{}'",
            target.path.join("."),
            of.alias()
        );
        return Err(Failure::new(code::TYPE_MISMATCH, message));
    };
    if elements.is_empty() {
        return Ok(Change::Unchanged);
    }
    if is_first {
        elements.remove(0);
    } else {
        elements.pop();
    }
    Ok(Change::Changed)
}

fn elements_of(value: &mut Value) -> Result<&mut Vec<Value>, Failure> {
    let Value::Array(elements) = value else {
        let message = "Cannot apply $pull to a non-array value";
        return Err(Failure::new(code::BAD_VALUE, message));
    };
    Ok(elements)
}

pub(super) fn pull(
    value: &mut Value,
    condition: &PullCondition,
    target: &Target<'_>,
) -> Result<Change, Failure> {
    let elements = elements_of(value)?;
    let mut kept = Vec::with_capacity(elements.len());
    let before = elements.len();
    for element in std::mem::take(elements) {
        let (is_pulled, element) = is_pulled(element, condition, target)?;
        if !is_pulled {
            kept.push(element);
        }
    }
    *elements = kept;
    Ok(changed(elements.len() < before))
}

/// Whether an element matches; the element is lent and comes back.
fn is_pulled(
    element: Value,
    condition: &PullCondition,
    target: &Target<'_>,
) -> Result<(bool, Value), Failure> {
    match condition {
        PullCondition::Equal(value) => Ok((types::equal(&element, value), element)),
        PullCondition::Objects(predicate) => {
            let is_match =
                element.as_object().is_some() && predicate.matches(&element, target.variables)?;
            Ok((is_match, element))
        }
        PullCondition::Elements(predicate) => {
            let mut object = Object::with_capacity(1);
            object.push_unique(String::new(), element);
            let lent = Value::Object(object);
            let is_match = predicate.matches(&lent, target.variables)?;
            let Value::Object(mut object) = lent else { return Ok((is_match, Value::Null)) };
            Ok((is_match, object.remove("").unwrap_or(Value::Null)))
        }
    }
}

pub(super) fn pull_all(value: &mut Value, removed: &[Value]) -> Result<Change, Failure> {
    let elements = elements_of(value)?;
    let mut sorted: Vec<&Value> = removed.iter().collect();
    sorted.sort_by(|a, b| types::compare(Some(a), Some(b)));
    let before = elements.len();
    elements.retain(|element| {
        let search = |each: &&Value| types::compare(Some(each), Some(element));
        sorted.binary_search_by(search).is_err()
    });
    Ok(changed(elements.len() < before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_sets_grow_as_small_ones_do() {
        let n = Value::Int32;
        let added: Vec<Value> = (0..40).map(|at| n(at % 25)).collect();
        let mut large = vec![n(3), Value::Double(7.0)];
        let mut small = large.clone();
        assert!(add_to_set(&mut large, &added));
        for value in &added {
            add_to_set(&mut small, std::slice::from_ref(value));
        }
        assert_eq!(large, small);
        assert!(!add_to_set(&mut large, &added));
    }
}
