//! Paths of fields in expressions. They broadcast over arrays: `$a.b` of an array of objects is the
//! array of their fields `b`. Segments are never positions in an array.

use std::borrow::Cow;

use model::Value;

use super::Evaluated;
use crate::document::{Failure, Scope};

/// Where a path begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// `$$ROOT`, the document.
    Root,
    /// `$$CURRENT`: the document, unless an operator descends into it.
    Current,
    /// A variable of the command, by its slot.
    Slot(usize),
    /// A variable that an expression around this one binds, by its number.
    Local(usize),
    /// `$$NOW`.
    Now,
    /// `$$CLUSTER_TIME`.
    ClusterTime,
}

/// A path of fields from a base on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionPath {
    base: Base,
    names: Vec<String>,
}

/// A variable that the caller of this command could have, but does not.
const VARIABLE_NOT_AVAILABLE: i32 = 51144;

impl ExpressionPath {
    /// A path of fields with these names, which the caller has checked.
    pub fn new(base: Base, names: Vec<String>) -> Self {
        Self { base, names }
    }

    /// Where it begins.
    pub fn base(&self) -> Base {
        self.base
    }

    /// The names of its fields.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn eval<'s>(&'s self, scope: &Scope<'s>) -> Evaluated<'s> {
        let variables = scope.variables();
        let base = match self.base {
            Base::Root => Some(scope.root()),
            Base::Current => Some(scope.current()),
            Base::Slot(slot) => variables.slots.get(slot).and_then(Option::as_ref),
            Base::Local(number) => scope.local(number),
            Base::Now => {
                let now = Value::Date(variables.now);
                return Ok(self.names.is_empty().then_some(Cow::Owned(now)));
            }
            Base::ClusterTime => Some(variables.cluster_time.as_ref().ok_or_else(|| {
                let message = "Builtin variable '$$CLUSTER_TIME' is not available";
                Failure::new(VARIABLE_NOT_AVAILABLE, message)
            })?),
        };
        match base.and_then(|base| follow(base, &self.names)) {
            None => Ok(None),
            Some(Found::Value(value)) => Ok(Some(Cow::Borrowed(value))),
            Some(Found::InArray(elements, names)) => {
                Ok(Some(Cow::Owned(gather(elements, names, scope)?)))
            }
        }
    }

    /// The field of a document at this path, if no array is in between.
    pub fn follow_in<'v>(&self, document: &'v Value) -> Option<&'v Value> {
        self.names.iter().try_fold(document, |value, name| value.field(name))
    }
}

enum Found<'v, 'n> {
    Value(&'v Value),
    /// An array, with the names that are left to follow in each of its elements.
    InArray(&'v [Value], &'n [String]),
}

fn follow<'v, 'n>(base: &'v Value, names: &'n [String]) -> Option<Found<'v, 'n>> {
    let mut value = base;
    for (at, name) in names.iter().enumerate() {
        if let Value::Array(elements) = value {
            return Some(Found::InArray(elements, &names[at..]));
        }
        value = value.field(name)?;
    }
    Some(Found::Value(value))
}

/// The fields of those elements that are objects and have them.
fn gather(elements: &[Value], names: &[String], scope: &Scope<'_>) -> Result<Value, Failure> {
    let mut found = Vec::new();
    for element in elements.iter().filter(|element| element.as_object().is_some()) {
        match follow(element, names) {
            None => {}
            Some(Found::Value(value)) => found.push(scope.own(Cow::Borrowed(value))?),
            Some(Found::InArray(elements, names)) => found.push(gather(elements, names, scope)?),
        }
    }
    Ok(Value::Array(found))
}
