//! Objects: fields by name, merging, and their form as arrays of pairs.

use std::borrow::Cow;

use model::{Object, Value};

use super::array::{elements_of, own_elements};
use super::operator::{Named, null, owned, required};
use super::{Arguments, Evaluated, Operator, Shape};
use crate::document::Failure;
use crate::document::values::{is_nullish, printed, type_name};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("$arrayToObject", Shape::Exactly(1), array_to_object),
    Operator::new("$getField", Shape::Special(Some(GET_FIELD)), get_field),
    Operator::new("$mergeObjects", Shape::Any, merge_objects),
    Operator::new("$objectToArray", Shape::Exactly(1), object_to_array),
    Operator::new("$setField", Shape::Special(Some(SET_FIELD)), set_field),
    // Its value is always missing.
    Operator::new("$unsetField", Shape::Special(Some(UNSET_FIELD)), set_field),
];

/// Arguments of `$getField` as an object.
const GET_FIELD: &Named = &Named {
    parameters: &[
        required("field", 3041702, "$getField requires 'field' to be specified"),
        required("input", 3041703, "$getField requires 'input' to be specified"),
    ],
    not_object: (3041700, "$getField requires an object"),
    unknown: (3041701, "$getField found an unknown argument: {}"),
};

/// Arguments of `$setField`.
const SET_FIELD: &Named = &Named {
    parameters: &[
        required("field", 4161102, "{op} requires 'field' to be specified"),
        required("input", 4161109, "{op} requires 'input' to be specified"),
        required("value", 4161103, "{op} requires 'value' to be specified"),
    ],
    not_object: (4161100, "{op} only supports an object as its argument"),
    unknown: (4161101, "{op} found an unknown argument: {}"),
};

/// Arguments of `$unsetField`.
const UNSET_FIELD: &Named = &Named {
    parameters: &[
        required("field", 4161102, "{op} requires 'field' to be specified"),
        required("input", 4161109, "{op} requires 'input' to be specified"),
    ],
    not_object: (4161100, "{op} only supports an object as its argument"),
    unknown: (4161101, "{op} found an unknown argument: {}"),
};

fn array_to_object<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let array = arguments.value(0)?;
    if is_nullish(array.as_deref()) {
        return null();
    }
    let elements = elements_of(array).map_err(|given| {
        Failure::new(40386, format!("$arrayToObject requires an array input, found: {given}"))
    })?;
    let elements = own_elements(elements, arguments)?;
    let is_of_arrays = matches!(elements.first(), Some(Value::Array(_)));
    let fields = elements
        .into_iter()
        .map(|element| match (Some(element), is_of_arrays) {
            (Some(Value::Array(pair)), true) => field_of_array(pair),
            (Some(Value::Object(pair)), false) => field_of_object(pair),
            (other, true) => Err(Failure::new(
                40396,
                format!(
                    "$arrayToObject requires a consistent input format. Elements must all be \
                     arrays or all be objects. Array was detected, now found: {}",
                    type_name(other.as_ref())
                ),
            )),
            (other @ Some(Value::Array(_)), false) => Err(Failure::new(
                40391,
                format!(
                    "$arrayToObject requires a consistent input format. Elements must all be \
                     arrays or all be objects. Object was detected, now found: {}",
                    type_name(other.as_ref())
                ),
            )),
            (other, false) => Err(Failure::new(
                40398,
                format!(
                    "Unrecognised input type format for $arrayToObject: {}",
                    type_name(other.as_ref())
                ),
            )),
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    owned(Object::from_fields(fields).0)
}

fn field_name(name: &Value, code: i32) -> Result<String, Failure> {
    let Some(name) = name.as_str() else {
        let message = format!(
            "$arrayToObject requires an array of key-value pairs, where the key must be of type \
             string. Found key type: {}",
            type_name(Some(name))
        );
        return Err(Failure::new(code, message));
    };
    if name.contains('\0') {
        return Err(Failure::new(4940400, "Key field cannot contain an embedded null byte"));
    }
    Ok(name.to_owned())
}

fn field_of_array(pair: Vec<Value>) -> Result<(String, Value), Failure> {
    let count = pair.len();
    let mut pair = pair.into_iter();
    match (pair.next(), pair.next(), count) {
        (Some(name), Some(value), 2) => Ok((field_name(&name, 40395)?, value)),
        _ => Err(Failure::new(
            40397,
            format!(
                "$arrayToObject requires an array of size 2 arrays,found array of size: {count}"
            ),
        )),
    }
}

fn field_of_object(mut pair: Object) -> Result<(String, Value), Failure> {
    if pair.len() != 2 {
        let message = format!(
            "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of \
             keys:{}",
            pair.len()
        );
        return Err(Failure::new(40392, message));
    }
    let (Some(name), Some(value)) = (pair.remove("k"), pair.remove("v")) else {
        let shown = printed(Some(&Value::Object(pair)));
        let message = format!(
            "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both keys \
             from: {shown}"
        );
        return Err(Failure::new(40393, message));
    };
    if name.as_str().is_none() {
        let message = format!(
            "$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' must \
             be of type string. Found type: {}",
            type_name(Some(&name))
        );
        return Err(Failure::new(40394, message));
    }
    Ok((field_name(&name, 40394)?, value))
}

/// The name as a literal, then the object.
fn get_field<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let name = arguments.value(0)?;
    let Some(name) = name.as_deref().and_then(Value::as_str) else { return Ok(None) };
    match arguments.value(1)? {
        Some(Cow::Borrowed(value)) => match value.as_object() {
            Some(object) => Ok(object.get(name).map(Cow::Borrowed)),
            None if is_nullish(Some(value)) => null(),
            None => Ok(None),
        },
        Some(Cow::Owned(Value::Object(mut object))) => Ok(object.remove(name).map(Cow::Owned)),
        None => Ok(None),
        Some(Cow::Owned(value)) if is_nullish(Some(&value)) => null(),
        Some(Cow::Owned(_)) => Ok(None),
    }
}

/// The name as a literal, the object, and the value; one that is missing removes the field.
fn set_field<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let name = arguments.value(0)?;
    let name = name.as_deref().and_then(Value::as_str).unwrap_or_default();
    let mut object = match arguments.own(1)? {
        Some(Value::Object(object)) => object,
        other if is_nullish(other.as_ref()) => return null(),
        _ => {
            let message = "$setField requires 'input' to evaluate to type Object";
            return Err(Failure::new(4161105, message));
        }
    };
    match arguments.own(2)? {
        Some(value) => {
            object.insert(name, value);
        }
        None => {
            object.remove(name);
        }
    }
    owned(object)
}

fn merge_objects<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let mut merged = Merged::default();
    let mut operands = Vec::new();
    for value in arguments.values() {
        operands.extend(value?);
    }
    // A single operand that is an array is merged element by element.
    if let [Cow::Borrowed(Value::Array(_)) | Cow::Owned(Value::Array(_))] = operands.as_slice()
        && let Some(array) = operands.pop()
        && let Ok(elements) = elements_of(Some(array))
    {
        for element in own_elements(elements, arguments)? {
            merged.add(element)?;
        }
        return owned(merged.finish());
    }
    for operand in operands {
        merged.add(arguments.scope().own(operand)?)?;
    }
    owned(merged.finish())
}

/// Fields of several objects: later ones win, at the position of the first of their name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Merged(Object);

impl Merged {
    /// Adds an object; null is skipped.
    pub(crate) fn add(&mut self, value: Value) -> Result<(), Failure> {
        if is_nullish(Some(&value)) {
            return Ok(());
        }
        match Some(value) {
            Some(Value::Object(object)) if self.0.is_empty() => self.0 = object,
            Some(Value::Object(object)) => {
                let earlier = std::mem::take(&mut self.0);
                self.0 = earlier.into_iter().chain(object).collect();
            }
            other => {
                let (shown, given) = (printed(other.as_ref()), type_name(other.as_ref()));
                let message = format!(
                    "$mergeObjects requires object inputs, but input {shown} is of type {given}"
                );
                return Err(Failure::new(40400, message));
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Object {
        self.0
    }
}

fn object_to_array<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let object = match arguments.own(0)? {
        Some(Value::Object(object)) => object,
        other if is_nullish(other.as_ref()) => return null(),
        other => {
            let given = type_name(other.as_ref());
            let message = format!("$objectToArray requires a document input, found: {given}");
            return Err(Failure::new(40390, message));
        }
    };
    let pair = |(name, value): (String, Value)| {
        let mut pair = Object::with_capacity(2);
        pair.push_unique("k".to_owned(), Value::String(name));
        pair.push_unique("v".to_owned(), value);
        Value::Object(pair)
    };
    owned(object.into_iter().map(pair).collect::<Vec<_>>())
}
