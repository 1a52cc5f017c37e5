use model::json;

use query::document::Scripts;

use super::*;
use crate::mongo::test_support::bson;

/// Evaluates an expression on a document.
fn eval_on(document: &str, expression: &str) -> Result<Option<Value>, Failure> {
    let document = bson(document);
    let variables = Variables::at(Date { millis: 1_709_211_906_789, ticks: 0 });
    let compiled = compile(&bson(expression), &CompileOptions::default())?;
    compiled.evaluate(&Scope::new(&document, &variables))
}

/// The document that the tables of the tests are evaluated on.
const DOCUMENT: &str = r#"{"_id":1,"i":5,"l":{"$long":7},"d":{"$double":2.5},"m":{"$decimal":"1.10"},
    "s":"héllo","n":null,"a":[3,1,2],"o":{"x":1,"y":{"z":2}},"t":true,
    "objects":[{"k":1,"v":"a"},{"k":2},5,{"v":"c"}],"nested":[{"b":[{"c":1},{"c":2}]},{"b":[{"c":3}]}],
    "at":{"$date":1709211906789},"e":[]}"#;

/// Checks each line of a file: an expression and its result, or the number of its failure and a
/// part of the text.
fn check(cases: &str) {
    for line in cases.lines().filter(|line| !line.starts_with('#')) {
        if let Some((expression, expected)) = line.split_once(" -> ") {
            let expected = (expected != "missing").then(|| bson(expected));
            assert_eq!(eval_on(DOCUMENT, expression), Ok(expected), "{expression}");
            continue;
        }
        let (expression, expected) = line.split_once(" !! ").unwrap();
        let (code, text) = expected.split_once(' ').unwrap();
        let failure = eval_on(DOCUMENT, expression).expect_err(expression);
        assert_eq!(failure.code, code.parse::<i32>().unwrap(), "{expression}: {failure}");
        assert!(failure.message.contains(text), "{expression}: {failure}");
    }
}

#[test]
fn values_have_their_results() {
    check(include_str!("tests/values.txt"));
}

#[test]
fn arrays_have_their_results() {
    check(include_str!("tests/arrays.txt"));
}

#[test]
fn texts_have_their_results() {
    check(include_str!("tests/strings.txt"));
}

#[test]
fn numbers_have_their_results() {
    check(include_str!("tests/math.txt"));
}

#[test]
fn dates_have_their_results() {
    check(include_str!("tests/dates.txt"));
}

#[test]
fn conversions_sets_and_patterns_have_their_results() {
    check(include_str!("tests/conversions.txt"));
}

#[test]
fn random_numbers_differ() {
    let first = eval_on(DOCUMENT, r#"{"$rand":{}}"#).unwrap();
    let pair = eval_on(DOCUMENT, r#"[{"$rand":{}},{"$rand":{}}]"#).unwrap().unwrap();
    let pair = pair.as_array().unwrap();
    assert_eq!(first.as_ref(), pair.first());
    assert_ne!(pair[0], pair[1]);
    assert!(pair.iter().all(|n| n.as_f64().is_some_and(|n| (0.0..1.0).contains(&n))));
}

#[test]
fn functions_are_called_with_their_arguments() {
    struct Joins;
    impl Scripts for Joins {
        fn call(&self, source: &str, arguments: Vec<Value>) -> Result<Option<Value>, Failure> {
            Ok(Some(Value::String(format!("{source} {}", arguments.len()))))
        }
    }
    let text = r#"{"$function":{"body":"f","args":["$i",2],"lang":"js"}}"#;
    let compiled = compile(&bson(text), &CompileOptions::default()).unwrap();
    let mut variables = Variables::at(Date { millis: 0, ticks: 0 });
    let document = bson("{}");
    assert!(compiled.evaluate(&Scope::new(&document, &variables)).is_err());
    variables.set_scripts(std::sync::Arc::new(Joins));
    let result = compiled.evaluate(&Scope::new(&document, &variables));
    assert_eq!(result, Ok(Some(Value::from("f 2"))));
}

#[test]
fn a_long_evaluation_can_be_interrupted() {
    let text =
        r#"{"$size":{"$map":{"input":{"$range":["$zero",100000]},"in":{"$add":["$$this",1]}}}}"#;
    let compiled = compile(&bson(text), &CompileOptions::default()).unwrap();
    let mut variables = Variables::at(Date { millis: 0, ticks: 0 });
    variables.set_interrupt(|| Err(Failure::new(50, "operation exceeded time limit")));
    let document = bson(r#"{"zero":0}"#);
    let result = compiled.evaluate(&Scope::new(&document, &variables));
    assert_eq!(result.unwrap_err().code, 50);
}

#[test]
fn nesting_is_limited() {
    let nested = r#"{"$not":"#.repeat(220) + "1" + &"}".repeat(220);
    let parsed = json::parse(nested.as_bytes(), 400).unwrap().value;
    assert_eq!(compile(&parsed, &CompileOptions::default()).unwrap_err().code, 15);
}
