//! How paths and tests find values; the operators themselves are tested where they are compiled.

use super::*;

fn field(path: &str, relation: Relation, operand: Value) -> Predicate {
    let test = ValueTest::Compare { relation, operand };
    Predicate::Field { path: FieldPath::parse(path), test }
}

fn object(fields: &[(&str, Value)]) -> Value {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    Value::Object(fields.collect())
}

fn array(elements: &[Value]) -> Value {
    Value::Array(elements.to_vec())
}

fn variables() -> Variables {
    Variables::at(model::Date { millis: 0, ticks: 0 })
}

fn position(predicate: &Predicate, document: &Value) -> Option<Option<usize>> {
    predicate.matched_position(document, &variables()).unwrap()
}

#[test]
fn the_position_is_that_in_the_outermost_array_that_is_not_named() {
    let n = Value::Int32;
    let two = |path: &str| field(path, Relation::Equal, n(2));
    let inner = |value: i32| object(&[("b", array(&[n(0), n(value)]))]);
    let document = object(&[("a", array(&[inner(1), inner(2)])), ("c", array(&[n(1), n(2)]))]);
    assert_eq!(position(&two("a.b"), &document), Some(Some(1)));
    assert_eq!(position(&two("a.1.b"), &document), Some(Some(1)));
    assert_eq!(position(&two("c"), &document), Some(Some(1)));
    assert_eq!(position(&two("c.1"), &document), Some(None));
    assert_eq!(position(&two("a.0.b"), &document), None);
    // A negation has none, and of several the last counts.
    let not = Predicate::Not(Box::new(field("c", Relation::Equal, n(9))));
    assert_eq!(position(&not, &document), Some(None));
    let both = Predicate::And(vec![two("c"), field("c", Relation::Equal, n(1))]);
    assert_eq!(position(&both, &document), Some(Some(0)));
}

#[test]
fn numbers_in_paths_are_positions_and_names() {
    let n = Value::Int32;
    let matches = |path: &str, value: i32, document: &Value| {
        field(path, Relation::Equal, n(value)).matches(document, &variables()).unwrap()
    };
    let nested = object(&[("a", array(&[n(5), array(&[n(2), n(4)]), object(&[("2", n(7))])]))]);
    assert!(matches("a.0", 5, &nested) && matches("a.1.0", 2, &nested));
    assert!(matches("a.2", 7, &nested), "an object in an array has names, too");
    assert!(!matches("a.1", 2, &nested), "an element that is named is not spread");
    let deep = object(&[("a", array(&[array(&[object(&[("b", n(1))])])]))]);
    assert!(matches("a.0.b", 1, &deep) && !matches("a.b", 1, &deep));
}

#[test]
fn everything_compares_with_the_least_and_the_greatest_key() {
    let values = [Some(Value::Null), Some(Value::from("x")), Some(Value::Int32(1)), None];
    for value in values.iter().map(Option::as_ref) {
        assert!(is_in_relation(value, Relation::Greater, &Value::MinKey), "{value:?}");
        assert!(is_in_relation(value, Relation::LessOrEqual, &Value::MaxKey), "{value:?}");
        assert!(!is_in_relation(value, Relation::Equal, &Value::MaxKey), "{value:?}");
    }
    assert!(is_in_relation(Some(&Value::MaxKey), Relation::GreaterOrEqual, &Value::MaxKey));
}

#[test]
fn nothing_but_itself_is_in_a_relation_to_nan() {
    let (nan, one) = (Value::Double(f64::NAN), Value::Int32(1));
    for relation in [Relation::Equal, Relation::LessOrEqual, Relation::GreaterOrEqual] {
        assert!(is_in_relation(Some(&nan), relation, &nan));
        assert!(!is_in_relation(Some(&one), relation, &nan));
        assert!(!is_in_relation(Some(&nan), relation, &one));
    }
    assert!(!is_in_relation(Some(&nan), Relation::Less, &one));
}

#[test]
fn a_mask_has_what_a_filter_reads() {
    let predicate = Predicate::And(vec![
        field("a.b", Relation::Equal, Value::Null),
        Predicate::Not(Box::new(field("c.0", Relation::Equal, Value::Null))),
    ]);
    let mut mask = FieldMask::NOTHING;
    predicate.require(&mut mask);
    assert!(mask.has_field("a") && mask.has_field("c") && !mask.has_field("b"));
}

#[test]
fn a_long_evaluation_can_be_interrupted() {
    let long = object(&[("a", array(&vec![Value::Int32(0); 10_000]))]);
    let tests = (1..100).map(|n| field("a", Relation::Equal, Value::Int32(n)));
    let predicate = Predicate::Or(tests.collect());
    let mut variables = variables();
    assert_eq!(predicate.matches(&long, &variables), Ok(false));
    variables.set_interrupt(|| Err(Failure::new(50, "operation exceeded time limit")));
    assert_eq!(predicate.matches(&long, &variables).unwrap_err().code, 50);
}
