//! Laws that filters on any document obey.

use model::{Object, Value};
use proptest::prelude::*;
use query::document::types;

use super::compile;
use crate::mongo::test_support::{options, variables};

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(Value::MinKey),
        Just(Value::MaxKey),
        any::<bool>().prop_map(Value::Bool),
        (-3..3_i32).prop_map(Value::Int32),
        (-3..3_i64).prop_map(Value::Int64),
        prop_oneof![Just(f64::NAN), Just(-0.0), Just(1.5), Just(2.0)].prop_map(Value::Double),
        "[a-b]{0,2}".prop_map(Value::String),
        any::<[u8; 12]>().prop_map(Value::ObjectId),
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

fn document() -> impl Strategy<Value = Value> {
    prop::collection::vec(("[a-c]", value()), 0..4)
        .prop_map(|fields| Value::Object(Object::from_fields(fields).0))
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec("[a-c0-1]", 1..4).prop_map(|parts| parts.join("."))
}

fn object(name: &str, value: Value) -> Object {
    Object::from_iter([(name.to_owned(), value)])
}

fn matches(document: &Value, filter: &Object) -> bool {
    compile(filter, &options()).unwrap().matches(document, &variables()).unwrap()
}

/// Whether a document matches one operator on a path.
fn holds(document: &Value, path: &str, operator: &str, operand: &Value) -> bool {
    let test = Value::Object(object(operator, operand.clone()));
    matches(document, &object(path, test))
}

proptest! {
    #[test]
    fn some_operators_are_the_opposite_of_others(
        document in document(),
        path in path(),
        operand in value(),
    ) {
        let holds = |operator, operand: &Value| holds(&document, &path, operator, operand);
        let list = Value::Array(vec![operand.clone(), Value::Int32(1)]);
        prop_assert_ne!(holds("$eq", &operand), holds("$ne", &operand));
        prop_assert_ne!(holds("$in", &list), holds("$nin", &list));
        prop_assert_ne!(holds("$exists", &Value::Bool(true)), holds("$exists", &Value::Bool(false)));
        for operator in ["$eq", "$gt", "$lte"] {
            let test = Value::Object(object(operator, operand.clone()));
            prop_assert_ne!(holds(operator, &operand), holds("$not", &test));
        }
    }

    #[test]
    fn some_operators_are_the_same_as_others(
        document in document(),
        path in path(),
        operand in value(),
    ) {
        let holds = |operator, operand: &Value| holds(&document, &path, operator, operand);
        let equal = holds("$eq", &operand);
        prop_assert_eq!(equal, holds("$in", &Value::Array(vec![operand.clone()])));
        prop_assert_eq!(equal, holds("$all", &Value::Array(vec![operand.clone()])));
        let either = |one, other| holds(one, &operand) || holds(other, &operand);
        prop_assert_eq!(holds("$gte", &operand), either("$gt", "$eq"));
        prop_assert_eq!(holds("$lte", &operand), either("$lt", "$eq"));
    }

    #[test]
    fn values_of_a_class_are_less_equal_or_greater(a in scalar(), b in scalar()) {
        let document = Value::Object(object("v", a.clone()));
        let operators = ["$lt", "$eq", "$gt"];
        let count = operators.iter().filter(|each| holds(&document, "v", each, &b)).count();
        let is_key = |value: &Value| matches!(value, Value::MinKey | Value::MaxKey);
        let tag = |value| model::order::tag(model::order::TypeOrder::Bson, Some(value));
        let nan = |value: &Value| value.as_f64().is_some_and(f64::is_nan);
        let is_comparable = (tag(&a) == tag(&b) && nan(&a) == nan(&b)) || is_key(&b);
        prop_assert_eq!(count, usize::from(is_comparable), "{:?} {:?}", a, b);
        prop_assert_eq!(holds(&document, "v", "$eq", &b), types::equal(&a, &b));
    }

    #[test]
    fn the_parts_of_a_join_may_change_places(
        document in document(),
        paths in (path(), path()),
        operands in (value(), value()),
    ) {
        let first = Value::Object(object(&paths.0, Value::Object(object("$gte", operands.0))));
        let second = Value::Object(object(&paths.1, Value::Object(object("$eq", operands.1))));
        for join in ["$and", "$or", "$nor"] {
            let joined = |a: &Value, b: &Value| {
                matches(&document, &object(join, Value::Array(vec![a.clone(), b.clone()])))
            };
            prop_assert_eq!(joined(&first, &second), joined(&second, &first), "{}", join);
        }
        let join = |name| {
            matches(&document, &object(name, Value::Array(vec![first.clone(), second.clone()])))
        };
        prop_assert_ne!(join("$or"), join("$nor"));
    }
}
