//! Adding fields to documents, and setting values at paths.

use model::{Object, Value};

use crate::document::{Expression, Failure, Scope, Variables};

/// `$addFields`: fields with the expressions that compute them.
#[derive(Clone, Debug)]
pub struct AddFields {
    fields: Vec<(Vec<String>, Expression)>,
}

impl AddFields {
    /// These fields, none of which is within another.
    pub fn new(fields: Vec<(Vec<String>, Expression)>) -> Self {
        Self { fields }
    }

    /// The fields, by the names of their paths.
    pub fn fields(&self) -> &[(Vec<String>, Expression)] {
        &self.fields
    }

    /// The document with the fields. All are computed of the document as it was.
    pub fn apply(&self, mut document: Value, variables: &Variables) -> Result<Value, Failure> {
        let values = {
            let scope = Scope::new(&document, variables);
            let value = |(_, expression): &(_, Expression)| expression.evaluate(&scope);
            self.fields.iter().map(value).collect::<Result<Vec<_>, _>>()?
        };
        for ((path, _), value) in self.fields.iter().zip(values) {
            set_in_each(&mut document, path, value);
        }
        Ok(document)
    }
}

/// Sets the value at a path, in every element where an array is on the way; what is no object is
/// replaced by one. `None` removes the field.
fn set_in_each(target: &mut Value, path: &[String], value: Option<Value>) {
    let Some((name, rest)) = path.split_first() else {
        if let Some(value) = value {
            *target = value;
        }
        return;
    };
    if let Value::Array(elements) = target {
        for element in elements {
            set_in_each(element, path, value.clone());
        }
        return;
    }
    if target.as_object().is_none() {
        // A field that is removed of something that has none leaves an empty object.
        *target = Value::Object(Object::new());
    }
    let Some(object) = target.as_object_mut() else { return };
    match (rest.is_empty(), value) {
        (true, Some(value)) => {
            object.insert(name.as_str(), value);
        }
        (true, None) => {
            object.remove(name);
        }
        (false, value) => {
            if object.get(name).is_none() {
                object.insert(name.as_str(), Value::Object(Object::new()));
            }
            if let Some(inner) = object.get_mut(name) {
                set_in_each(inner, rest, value);
            }
        }
    }
}

/// Sets the value at a path through objects; what is no object on the way is replaced by one.
pub(super) fn set(target: &mut Value, path: &[String], value: Value) {
    let Some((name, rest)) = path.split_first() else {
        *target = value;
        return;
    };
    if target.as_object().is_none() {
        *target = Value::Object(Object::new());
    }
    let Some(object) = target.as_object_mut() else { return };
    if object.get(name).is_none() {
        object.insert(name.as_str(), Value::Null);
    }
    if let Some(inner) = object.get_mut(name) {
        set(inner, rest, value);
    }
}

/// Removes the field at a path through objects.
pub(super) fn remove(target: &mut Value, path: &[String]) {
    let Some((name, rest)) = path.split_first() else { return };
    let Some(object) = target.as_object_mut() else { return };
    match rest.is_empty() {
        true => {
            object.remove(name);
        }
        false => {
            if let Some(inner) = object.get_mut(name) {
                remove(inner, rest);
            }
        }
    }
}
