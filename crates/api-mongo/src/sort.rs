//! The order of documents, by the fields of a sort.

use std::cmp::Ordering;

use model::{Object, Value};
use query::document::FieldPath;
use query::document::PathPart;
use query::document::types::compare;

use crate::MongoError;
use crate::command::whole_number;
use crate::errors::codes as code;

/// Most fields of a sort.
const FIELDS_MAX: usize = 32;

/// The fields of a sort.
#[derive(Clone, Debug)]
pub(crate) struct Sort {
    fields: Vec<(FieldPath, Direction)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Ascending,
    Descending,
}

impl Sort {
    /// Reads a sort; `None` if it asks for no order.
    pub(crate) fn read(sort: &Object) -> Result<Option<Self>, MongoError> {
        let bad = |message: String| MongoError::new(code::BAD_VALUE, message);
        if sort.len() > FIELDS_MAX {
            return Err(bad(format!("a sort has at most {FIELDS_MAX} fields")));
        }
        let mut fields = Vec::new();
        for (name, direction) in sort.iter() {
            if name == "$natural" {
                return Ok(None);
            }
            if name.is_empty() || name.split('.').any(str::is_empty) {
                return Err(MongoError::new(
                    40_352,
                    "FieldPath cannot be constructed with empty string",
                ));
            }
            let direction = match whole_number(direction) {
                Some(1) => Direction::Ascending,
                Some(-1) => Direction::Descending,
                Some(_) => {
                    return Err(MongoError::new(
                        15_975,
                        "$sort key ordering must be 1 (for ascending) or -1 (for descending)",
                    ));
                }
                None => {
                    return Err(MongoError::new(
                        15_974,
                        format!("Illegal key in $sort specification: {name}"),
                    ));
                }
            };
            fields.push((FieldPath::parse(name), direction));
        }
        Ok((!fields.is_empty()).then_some(Self { fields }))
    }

    /// The values by which a document is sorted.
    pub(crate) fn key(&self, document: &Value) -> Vec<Value> {
        let keys = self.fields.iter().map(|(path, direction)| {
            let mut values = Vec::new();
            collect(document, path.parts(), &mut values);
            let order = |a: &&Value, b: &&Value| compare(Some(*a), Some(*b));
            let chosen = match direction {
                Direction::Ascending => values.iter().min_by(order),
                Direction::Descending => values.iter().max_by(order),
            };
            chosen.cloned().unwrap_or(Value::Null)
        });
        keys.collect()
    }

    /// The order of two documents with these values.
    pub(crate) fn compare(&self, a: &[Value], b: &[Value]) -> Ordering {
        let pairs = a.iter().zip(b).zip(&self.fields);
        let orders = pairs.map(|((a, b), (_, direction))| {
            let order = compare(Some(a), Some(b));
            match direction {
                Direction::Ascending => order,
                Direction::Descending => order.reverse(),
            }
        });
        orders.fold(Ordering::Equal, Ordering::then)
    }
}

/// The values that a path leads to, each element of an array for itself. A missing value is null,
/// an empty array less than that.
fn collect(value: &Value, path: &[PathPart], out: &mut Vec<Value>) {
    let Some((part, rest)) = path.split_first() else {
        match value.as_array() {
            Some([]) => out.push(Value::Undefined),
            Some(elements) => out.extend(elements.iter().cloned()),
            None => out.push(value.clone()),
        }
        return;
    };
    let before = out.len();
    if let Value::Array(elements) = value {
        // A number may be a position.
        if let Some(element) = part.position.and_then(|at| elements.get(at)) {
            return collect(element, rest, out);
        }
        let objects = elements.iter().filter(|element| element.as_object().is_some());
        objects.for_each(|element| collect(element, path, out));
    } else if let Some(value) = value.field(&part.name) {
        collect(value, rest, out);
    }
    if out.len() == before {
        out.push(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::document;

    fn sort(fields: Object) -> Sort {
        Sort::read(&fields).unwrap().unwrap()
    }

    #[test]
    fn arrays_count_by_their_least_or_greatest_element() {
        let of = |value: Value| Value::Object(document! { "a" => value });
        let numbers = of(Value::Array([2, 5, 3].map(Value::Int64).to_vec()));
        assert_eq!(sort(document! { "a" => 1 }).key(&numbers), [Value::Int64(2)]);
        assert_eq!(sort(document! { "a" => -1 }).key(&numbers), [Value::Int64(5)]);
        assert_eq!(sort(document! { "a.1" => 1 }).key(&numbers), [Value::Int64(5)]);
        assert_eq!(sort(document! { "b" => 1 }).key(&numbers), [Value::Null]);
        let empty = of(Value::Array(Vec::new()));
        assert_eq!(sort(document! { "a" => 1 }).key(&empty), [Value::Undefined]);
        let nested =
            of(Value::Array(vec![document! { "b" => 7 }.into(), document! { "b" => 1 }.into()]));
        assert_eq!(sort(document! { "a.b" => 1 }).key(&nested), [Value::Int32(1)]);
    }

    #[test]
    fn the_first_field_that_differs_decides() {
        let sort = sort(document! { "a" => 1, "b" => -1 });
        let key = |a: i64, b: i64| [Value::Int64(a), Value::Int64(b)];
        assert_eq!(sort.compare(&key(1, 9), &key(2, 1)), Ordering::Less);
        assert_eq!(sort.compare(&key(1, 9), &key(1, 1)), Ordering::Less);
        assert_eq!(sort.compare(&key(1, 1), &key(1, 1)), Ordering::Equal);
        assert!(Sort::read(&document! { "a" => 2 }).is_err());
        assert!(Sort::read(&document! { "a" => "x" }).is_err());
        assert!(Sort::read(&Object::new()).unwrap().is_none());
    }
}
