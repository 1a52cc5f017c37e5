//! Laws that updates of any document obey.

use model::{Object, Value};
use proptest::prelude::*;
use query::document::{UpdateContext, types};

use super::{UpdateOptions, compile};
use crate::mongo::test_support::{options, variables};

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(Value::Int32),
        any::<i64>().prop_map(Value::Int64),
        any::<f64>().prop_map(Value::Double),
        "[a-c]{0,3}".prop_map(Value::String),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec(("[a-c]", inner), 0..4)
                .prop_map(|fields| Value::Object(Object::from_fields(fields).0)),
        ]
    })
}

fn document() -> impl Strategy<Value = Object> {
    prop::collection::vec(("[a-d]", value()), 0..5).prop_map(|fields| Object::from_fields(fields).0)
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec("[a-d0-2]", 1..4).prop_map(|parts| parts.join("."))
}

/// The next version; `None` if the update fails.
fn apply(document: &Object, operator: &str, path: &str, argument: Value) -> Option<Object> {
    let arguments = Object::from_iter([(path.to_owned(), argument)]);
    let update = Object::from_iter([(operator.to_owned(), Value::Object(arguments))]);
    let update = compile(&Value::Object(update), &UpdateOptions::new(options())).ok()?;
    let variables = variables();
    let next = update.apply(document, &UpdateContext::new(&variables, None)).ok()?;
    Some(next.unwrap_or_else(|| document.clone()))
}

fn at<'d>(document: &'d Object, path: &str) -> Option<&'d Value> {
    let mut parts = path.split('.');
    let first = document.get(parts.next()?);
    parts.try_fold(first?, |value, part| match value.as_array() {
        Some(elements) => elements.get(part.parse::<usize>().ok()?),
        None => value.field(part),
    })
}

fn same(a: &Object, b: &Object) -> bool {
    types::identical(&Value::Object(a.clone()), &Value::Object(b.clone()))
}

proptest! {
    #[test]
    fn what_is_set_is_there(document in document(), path in path(), value in value()) {
        let Some(next) = apply(&document, "$set", &path, value.clone()) else { return Ok(()) };
        prop_assert!(at(&next, &path).is_some_and(|found| types::identical(found, &value)));
        // Setting it again changes nothing.
        let again = apply(&next, "$set", &path, value).unwrap();
        prop_assert!(same(&next, &again));
    }

    #[test]
    fn what_is_unset_is_not_there(document in document(), path in path()) {
        let set = apply(&document, "$set", &path, Value::Int32(1));
        let start = set.unwrap_or(document);
        let Some(next) = apply(&start, "$unset", &path, Value::Null) else { return Ok(()) };
        // An element of an array leaves null behind.
        let found = at(&next, &path);
        prop_assert!(matches!(found, None | Some(Value::Null)), "{:?}", found);
    }

    #[test]
    fn increments_commute(document in document(), path in path(), a: i32, b: i32) {
        let twice = |a, b| {
            let first = apply(&document, "$inc", &path, Value::Int32(a))?;
            apply(&first, "$inc", &path, Value::Int32(b))
        };
        let is_double = |found: Option<&Value>| matches!(found, Some(Value::Double(_)));
        // Doubles round, so that their sums depend on the order.
        prop_assume!(!is_double(at(&document, &path)));
        let value = |next: Option<Object>| next.and_then(|next| at(&next, &path).cloned());
        let (one, other) = (value(twice(a, b)), value(twice(b, a)));
        let is_same = match (&one, &other) {
            (Some(one), Some(other)) => types::equal(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        prop_assert!(is_same, "{:?} {:?}", one, other);
    }

    #[test]
    fn what_is_pushed_can_be_popped(document in document(), path in path(), value in value()) {
        let array = Value::Array(vec![Value::Int32(1)]);
        let Some(document) = apply(&document, "$set", &path, array) else { return Ok(()) };
        let Some(pushed) = apply(&document, "$push", &path, value) else { return Ok(()) };
        let popped = apply(&pushed, "$pop", &path, Value::Int32(1)).unwrap();
        prop_assert!(same(&popped, &document));
    }

    #[test]
    fn what_is_pulled_is_not_in_the_array(document in document(), path in path(), value in scalar()) {
        let Some(added) = apply(&document, "$addToSet", &path, value.clone()) else {
            return Ok(());
        };
        let Some(next) = apply(&added, "$pullAll", &path, Value::Array(vec![value.clone()])) else {
            return Ok(());
        };
        let elements = at(&next, &path).and_then(Value::as_array).unwrap_or_default();
        prop_assert!(!elements.iter().any(|element| types::equal(element, &value)));
    }

    #[test]
    fn the_least_of_all_is_kept(document in document(), path in path(), value in value()) {
        let Some(next) = apply(&document, "$min", &path, value.clone()) else { return Ok(()) };
        let found = at(&next, &path).unwrap();
        prop_assert!(types::compare(Some(found), Some(&value)).is_le());
        let before = at(&document, &path);
        prop_assert!(before.is_none_or(|old| types::compare(Some(found), Some(old)).is_le()));
    }
}
