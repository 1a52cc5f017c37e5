//! Arrays as sets: duplicates and order do not matter.

use std::borrow::Cow;
use std::collections::BTreeSet;

use model::Value;

use super::array::{elements_of, own_elements};
use super::operator::{null, owned};
use super::{Arguments, Evaluated, Operator, Shape};
use crate::document::Failure;
use crate::document::values::{compare, is_nullish, is_truthy};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("$allElementsTrue", Shape::Exactly(1), |arguments| {
        truth(arguments, 17040, |mut elements| elements.all(|element| is_truthy(Some(element))))
    }),
    Operator::new("$anyElementTrue", Shape::Exactly(1), |arguments| {
        truth(arguments, 17041, |mut elements| elements.any(|element| is_truthy(Some(element))))
    }),
    Operator::new("$setDifference", Shape::Exactly(2), difference),
    Operator::new("$setEquals", Shape::Special(None), equals),
    Operator::new("$setIntersection", Shape::Any, intersection),
    Operator::new("$setIsSubset", Shape::Exactly(2), is_subset),
    Operator::new("$setUnion", Shape::Any, union),
];

/// A value in the order of BSON.
#[derive(Clone, Debug)]
pub(crate) struct Ordered<'v>(pub(crate) Cow<'v, Value>);

impl PartialEq for Ordered<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered<'_> {}

impl PartialOrd for Ordered<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        compare(Some(&self.0), Some(&other.0))
    }
}

fn truth<'s>(
    arguments: &Arguments<'s>,
    code: i32,
    decide: fn(std::slice::Iter<'_, Value>) -> bool,
) -> Evaluated<'s> {
    let elements = elements_of(arguments.value(0)?).map_err(|given| {
        arguments.failure(code, format_args!("'s argument must be an array, but is {given}"))
    })?;
    owned(decide(elements.iter()))
}

fn set_of(elements: &[Value]) -> BTreeSet<Ordered<'_>> {
    elements.iter().map(|element| Ordered(Cow::Borrowed(element))).collect()
}

fn difference<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let (a, b) = (arguments.value(0)?, arguments.value(1)?);
    if is_nullish(a.as_deref()) || is_nullish(b.as_deref()) {
        return null();
    }
    let complaint = |code, which: &'static str| {
        move |given| {
            let message = format!(
                "both operands of $setDifference must be arrays. {which} argument is of type: {given}"
            );
            Failure::new(code, message)
        }
    };
    let a = elements_of(a).map_err(complaint(17048, "First"))?;
    let b = elements_of(b).map_err(complaint(17049, "Second"))?;
    let mut seen = set_of(&b);
    let mut left = Vec::new();
    for element in a.iter() {
        if seen.insert(Ordered(Cow::Borrowed(element))) {
            left.push(arguments.scope().own(Cow::Borrowed(element))?);
        }
    }
    owned(left)
}

fn equals<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let operand = |at: usize| {
        elements_of(arguments.value(at)?).map_err(|given| {
            let message = format!(
                "All operands of $setEquals must be arrays. {}-th argument is of type: {given}",
                at + 1
            );
            Failure::new(17044, message)
        })
    };
    let first = operand(0)?;
    let first = set_of(&first);
    let mut are_equal = true;
    for at in 1..arguments.len() {
        are_equal &= set_of(&operand(at)?) == first;
    }
    owned(are_equal)
}

fn intersection<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let mut common: Option<Vec<Value>> = None;
    for value in arguments.values() {
        let value = value?;
        if is_nullish(value.as_deref()) {
            return null();
        }
        let elements = elements_of(value).map_err(|given| {
            let message = format!(
                "All operands of $setIntersection must be arrays. One argument is of type: {given}"
            );
            Failure::new(17047, message)
        })?;
        let shared = match common {
            None => own_elements(elements, arguments)?,
            Some(mut common) => {
                let other = set_of(&elements);
                common.retain(|element| other.contains(&Ordered(Cow::Borrowed(element))));
                common
            }
        };
        common = Some(shared);
    }
    owned(distinct(common.unwrap_or_default()))
}

fn union<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let mut all = Vec::new();
    for value in arguments.values() {
        let value = value?;
        if is_nullish(value.as_deref()) {
            return null();
        }
        let elements = elements_of(value).map_err(|given| {
            let message = format!(
                "All operands of $setUnion must be arrays. One argument is of type: {given}"
            );
            Failure::new(17043, message)
        })?;
        all.append(&mut own_elements(elements, arguments)?);
    }
    owned(distinct(all))
}

/// The elements in order, each once.
fn distinct(mut elements: Vec<Value>) -> Vec<Value> {
    elements.sort_by(|a, b| compare(Some(a), Some(b)));
    elements.dedup_by(|a, b| compare(Some(a), Some(b)).is_eq());
    elements
}

fn is_subset<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let complaint = |code, which: &'static str| {
        move |given| {
            let message = format!(
                "both operands of $setIsSubset must be arrays. {which} argument is of type: {given}"
            );
            Failure::new(code, message)
        }
    };
    let a = elements_of(arguments.value(0)?).map_err(complaint(17046, "First"))?;
    let b = elements_of(arguments.value(1)?).map_err(complaint(17042, "Second"))?;
    owned(set_of(&a).is_subset(&set_of(&b)))
}
