use proptest::prelude::*;

use super::*;
use crate::Object;
use crate::limits::JSON_DEPTH_MAX;
use crate::value::Date;
use crate::value::tests::{any_plain, any_value};

fn value(text: &str) -> Value {
    parse(text.as_bytes(), 16).unwrap_or_else(|e| panic!("{text}: {e}")).value
}

#[test]
fn scalars() {
    let table: &[(&str, Value)] = &[
        ("null", Value::Null),
        (" \t\r\n true \n", Value::Bool(true)),
        ("false", Value::Bool(false)),
        ("0", Value::Int64(0)),
        ("-1", Value::Int64(-1)),
        ("9007199254740993", Value::Int64(9_007_199_254_740_993)),
        ("9223372036854775807", Value::Int64(i64::MAX)),
        ("-9223372036854775808", Value::Int64(i64::MIN)),
        ("9223372036854775808", Value::Double(9_223_372_036_854_775_808.0)),
        ("-9223372036854775809", Value::Double(-9_223_372_036_854_775_808.0)),
        ("18446744073709551615", Value::Double(18_446_744_073_709_551_615.0)),
        ("18446744073709551616", Value::Double(18_446_744_073_709_551_616.0)),
        ("100000000000000000000000000", Value::Double(1e26)),
        ("1.0", Value::Double(1.0)),
        ("1e2", Value::Double(100.0)),
        ("1E+2", Value::Double(100.0)),
        ("-1.5e-3", Value::Double(-0.0015)),
        ("5e-324", Value::Double(5e-324)),
        ("1e-400", Value::Double(0.0)),
        ("0.1", Value::Double(0.1)),
        ("\"\"", Value::from("")),
        ("\"a\"", Value::from("a")),
        (r#""\"\\\/\b\f\n\r\t""#, Value::from("\"\\/\u{8}\u{c}\n\r\t")),
        (r#""a\u00e9b\u65E5\ud83d\ude80c""#, Value::from("aéb日🚀c")),
        (r#""\u0000""#, Value::from("\0")),
        ("\"é日🚀\u{7f}\u{2028}\"", Value::from("é日🚀\u{7f}\u{2028}")),
    ];
    for (text, expected) in table {
        assert_eq!(value(text), *expected, "{text}");
    }
}

#[test]
fn negative_zero_keeps_its_sign() {
    for text in ["-0", "-0.0", "-0e5"] {
        let Value::Double(n) = value(text) else { panic!("{text} is a double") };
        assert!(n == 0.0 && n.is_sign_negative(), "{text}");
    }
}

#[test]
fn refusals_say_where() {
    let table: &[(&[u8], usize)] = &[
        (b"", 0),
        (b"  ", 2),
        (b"nul", 0),
        (b"True", 0),
        (b"undefined", 0),
        (b"NaN", 0),
        (b"01", 1),
        (b"-01", 2),
        (b"-", 1),
        (b"+1", 0),
        (b".5", 0),
        (b"1.", 2),
        (b"1.e5", 2),
        (b"1e", 2),
        (b"1e+", 3),
        (b"1e400", 0),
        (b"[-1e400]", 1),
        (b"1 2", 2),
        (b"[1,]", 3),
        (b"[1 2]", 3),
        (b"[,1]", 1),
        (b"[", 1),
        (b"[1", 2),
        (b"]", 0),
        (b"{", 1),
        (b"{1:2}", 1),
        (b"{\"a\"}", 4),
        (b"{\"a\":}", 5),
        (b"{\"a\":1,}", 7),
        (b"{'a':1}", 1),
        (b"\"a", 2),
        (b"\"a\x0bb\"", 2),
        (b"\"\x00\"", 1),
        (b"\"\\x\"", 2),
        (b"\"\\", 2),
        (b"\"\\u12", 2),
        (b"\"\\u+123\"", 2),
        (b"// x\n1", 0),
        (b"\xEF\xBB\xBF1", 0),
        (b"\"\xff\"", 1),
        (b"\"\xed\xa0\x80\"", 1),
        (b"\"\xc0\x80\"", 1),
    ];
    for (text, expected) in table {
        match parse(text, 16) {
            Err(JsonError::Syntax { at, .. }) => assert_eq!(at, *expected, "{text:?}"),
            other => panic!("{text:?}: {other:?}"),
        }
    }
}

#[test]
fn tabs_and_line_ends_may_stand_in_strings_and_are_stored_escaped() {
    let parsed = parse(b"{\"a\tb\":\"\r\n\\t x\"}", 16).unwrap();
    assert!(!parsed.is_faithful);
    assert_eq!(to_string(&parsed.value), r#"{"a\tb":"\r\n\t x"}"#);
    assert!(parse(b"\t\r\n1 ", 16).unwrap().is_faithful);
}

#[test]
fn lone_surrogates_are_refused() {
    for text in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800x""#,
        r#""\ud800\u0041""#,
        r#""\ud800\ud800""#,
        r#""\ud800\"#,
    ] {
        assert!(matches!(parse(text.as_bytes(), 1), Err(JsonError::Syntax { .. })), "{text}");
    }
}

#[test]
fn depth_is_bounded_at_the_limit_and_not_before() {
    let nested =
        |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        assert!(parse(nested(open, close, 128).as_bytes(), 128).is_ok());
        let too_deep = parse(nested(open, close, 129).as_bytes(), 128);
        assert_eq!(too_deep, Err(JsonError::TooDeep { max: 128 }));
    }
    assert!(parse(b"1", 0).is_ok());
    assert_eq!(parse(b"[]", 0), Err(JsonError::TooDeep { max: 0 }));
}

/// Whatever limit the caller passes, a hostile text cannot exhaust the stack.
#[test]
fn depth_has_a_ceiling() {
    let open = "[".repeat(5_000_000);
    assert_eq!(parse(open.as_bytes(), usize::MAX), Err(JsonError::TooDeep { max: JSON_DEPTH_MAX }));
    let text = format!("{}{}", "[".repeat(JSON_DEPTH_MAX), "]".repeat(JSON_DEPTH_MAX));
    let deepest = parse(text.as_bytes(), usize::MAX).unwrap().value;
    assert_eq!(to_string(&deepest), text);
}

#[test]
fn fields_keep_their_order() {
    let parsed = parse(br#"{"b":1,"a":{"z":[],"y":{}},"":2}"#, 8).unwrap();
    assert!(parsed.is_faithful);
    assert_eq!(to_string(&parsed.value), r#"{"b":1,"a":{"z":[],"y":{}},"":2}"#);
}

#[test]
fn of_repeated_names_the_last_wins_in_the_first_place() {
    let table = [
        (r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#),
        (r#"{"x":{"a":1,"\u0061":2}}"#, r#"{"x":{"a":2}}"#),
        (r#"[{"a":1,"a":2,"a":3},{"a":1}]"#, r#"[{"a":3},{"a":1}]"#),
    ];
    for (text, expected) in table {
        let parsed = parse(text.as_bytes(), 8).unwrap();
        assert_eq!(to_string(&parsed.value), expected);
        assert!(!parsed.is_faithful, "{text}");
    }
    assert!(parse(br#"{"a":{"a":1},"b":{"a":1}}"#, 8).unwrap().is_faithful);
}

/// Small objects are searched pair by pair, large ones are sorted: the outcome is the same.
#[test]
fn repeated_names_in_objects_of_any_size() {
    for size in [1, 2, 23, 24, 25, 26, 48, 1000] {
        for repeated in [0, size / 2, size - 1] {
            let mut text = String::from("{");
            for n in 0..size {
                text.push_str(&format!("\"n{n}\":{n},"));
            }
            let unique = format!("{}}}", text.trim_end_matches(','));
            assert!(parse(unique.as_bytes(), 8).unwrap().is_faithful, "{size}");
            text.push_str(&format!("\"n{repeated}\":-1,\"last\":0,\"n{repeated}\":-2}}"));
            let parsed = parse(text.as_bytes(), 8).unwrap();
            assert!(!parsed.is_faithful, "{size} {repeated}");
            let object = parsed.value.as_object().unwrap();
            assert_eq!(object.len(), size + 1);
            let (name, value) = object.iter().nth(repeated).unwrap();
            assert_eq!((name, value), (format!("n{repeated}").as_str(), &Value::Int64(-2)));
            assert_eq!(object.iter().last().unwrap().0, "last");
        }
    }
}

#[test]
fn writes_compactly_with_minimal_escapes() {
    let table = [
        (r#" { "a" : [ 1 , 2.50 , null ] , "b" : true } "#, r#"{"a":[1,2.5,null],"b":true}"#),
        (r#""\/\u0041\u00e9\u007f""#, "\"/Aé\u{7f}\""),
        (r#""\u0000\u001f\b\f\n\r\t\"\\""#, r#""\u0000\u001f\b\f\n\r\t\"\\""#),
        ("[]", "[]"),
        ("{}", "{}"),
    ];
    for (text, expected) in table {
        assert_eq!(to_string(&value(text)), expected);
    }
}

#[test]
fn extended_forms() {
    let date = |millis, ticks| Value::Date(Date { millis, ticks });
    let mut scope = Object::new();
    scope.insert("x", Value::Int32(1));
    let guid = std::array::from_fn(|n| u8::try_from(n * 17).unwrap());
    let mut decimal = [0; 16];
    (decimal[0], decimal[14], decimal[15]) = (110, 0x3C, 0x30);
    let table: Vec<(Value, &str)> = vec![
        (Value::Int32(-3), "-3"),
        (Value::Double(f64::NAN), r#"{"$numberDouble":"NaN"}"#),
        (Value::Double(f64::INFINITY), r#"{"$numberDouble":"Infinity"}"#),
        (Value::Double(f64::NEG_INFINITY), r#"{"$numberDouble":"-Infinity"}"#),
        (Value::Decimal128(decimal), r#"{"$numberDecimal":"1.10"}"#),
        (
            Value::Binary { subtype: 0x80, bytes: vec![1, 2] },
            r#"{"$binary":{"base64":"AQI=","subType":"80"}}"#,
        ),
        (Value::Guid(guid), r#"{"$uuid":"00112233-4455-6677-8899-aabbccddeeff"}"#),
        (date(0, 0), r#"{"$date":"1970-01-01T00:00:00Z"}"#),
        (date(1_709_211_906_789, 0), r#"{"$date":"2024-02-29T13:05:06.789Z"}"#),
        (date(1_377_133_926_260, 8595), r#"{"$date":"2013-08-22T01:12:06.2608595Z"}"#),
        (date(1_000, 1), r#"{"$date":"1970-01-01T00:00:01.0000001Z"}"#),
        (date(951_782_400_000, 0), r#"{"$date":"2000-02-29T00:00:00Z"}"#),
        (date(4_107_542_400_000, 0), r#"{"$date":"2100-03-01T00:00:00Z"}"#),
        (date(253_402_300_799_999, 0), r#"{"$date":"9999-12-31T23:59:59.999Z"}"#),
        (date(253_402_300_800_000, 0), r#"{"$date":{"$numberLong":"253402300800000"}}"#),
        (date(-1, 0), r#"{"$date":{"$numberLong":"-1"}}"#),
        (date(-1, 7), r#"{"$date":{"$numberLong":"-1","ticks":7}}"#),
        (date(i64::MIN, 0), r#"{"$date":{"$numberLong":"-9223372036854775808"}}"#),
        (Value::ObjectId([0xAB; 12]), r#"{"$oid":"abababababababababababab"}"#),
        (Value::Timestamp { seconds: 1, increment: 2 }, r#"{"$timestamp":{"t":1,"i":2}}"#),
        (
            Value::Regex { pattern: "^\"a".into(), options: "i".into() },
            r#"{"$regularExpression":{"pattern":"^\"a","options":"i"}}"#,
        ),
        (Value::JavaScript { code: "f()".into(), scope: None }, r#"{"$code":"f()"}"#),
        (
            Value::JavaScript { code: "f()".into(), scope: Some(Box::new(scope)) },
            r#"{"$code":"f()","$scope":{"x":1}}"#,
        ),
        (Value::Symbol("s".into()), r#"{"$symbol":"s"}"#),
        (Value::Undefined, r#"{"$undefined":true}"#),
        (
            Value::DbPointer { namespace: "d.c".into(), id: [1; 12] },
            r#"{"$dbPointer":{"$ref":"d.c","$id":{"$oid":"010101010101010101010101"}}}"#,
        ),
        (Value::MinKey, r#"{"$minKey":1}"#),
        (Value::MaxKey, r#"{"$maxKey":1}"#),
    ];
    for (value, expected) in table {
        assert_eq!(to_string(&value), expected);
        assert!(parse(expected.as_bytes(), 8).unwrap().is_faithful);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = parse(&bytes, 8);
    }

    /// Texts made of JSON's own characters get deeper into the parser than random bytes.
    #[test]
    fn almost_json_is_read_or_refused(text in r#"[\[\]{},:"\\u0-9eE.+\- dtrufalsn/]{0,64}"#) {
        if let Ok(parsed) = parse(text.as_bytes(), 8) {
            let written = to_string(&parsed.value);
            prop_assert_eq!(to_string(&value(&written)), written);
        }
    }

    #[test]
    fn plain_values_round_trip(original in any_plain()) {
        let text = to_string(&original);
        let parsed = parse(text.as_bytes(), JSON_DEPTH_MAX).unwrap();
        prop_assert!(parsed.is_faithful);
        prop_assert_eq!(to_string(&parsed.value), text);
        let order = crate::order::TypeOrder::Bson;
        prop_assert!(crate::order::compare(order, Some(&parsed.value), Some(&original)).is_eq());
    }

    #[test]
    fn every_value_is_written_as_json(original in any_value()) {
        let text = to_string(&original);
        prop_assert!(parse(text.as_bytes(), JSON_DEPTH_MAX).is_ok(), "{}", text);
    }

    /// Another parser is the oracle for which texts are JSON and for their values.
    #[test]
    fn agrees_with_serde_json(text in r#"(\PC|[\[\]{},:"\\ue0-9. -]){0,40}|[{\["0-9].{0,30}"#) {
        let ours = parse(text.as_bytes(), 100);
        let theirs: Result<serde_json::Value, _> = serde_json::from_str(&text);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{} {:?} {:?}", text, ours, theirs);
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            prop_assert!(is_same(&ours.value, &theirs), "{} {:?} {:?}", text, ours, theirs);
        }
    }

    #[test]
    fn doubles_agree_with_the_standard_library(
        whole in "0|[1-9][0-9]{0,20}",
        fraction in "(\\.[0-9]{1,25})?",
        exponent in "(e[+-]?[0-9]{1,2})?",
    ) {
        let text = format!("-{whole}{fraction}{exponent}");
        let expected: f64 = text.parse().unwrap();
        prop_assert_eq!(value(&text).as_f64(), Some(expected), "{}", text);
    }

    #[test]
    fn strings_agree_with_serde_json(text in any::<String>()) {
        let theirs = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(value(&theirs), Value::String(text.clone()));
        let ours = to_string(&Value::String(text.clone()));
        let back: String = serde_json::from_str(&ours).unwrap();
        prop_assert_eq!(back, text);
    }
}

/// Whether two parsers have read the same value.
fn is_same(ours: &Value, theirs: &serde_json::Value) -> bool {
    match (ours, theirs) {
        (Value::Null, serde_json::Value::Null) => true,
        (Value::Bool(a), serde_json::Value::Bool(b)) => a == b,
        (Value::Int64(a), serde_json::Value::Number(b)) => b.as_i64() == Some(*a),
        (Value::Double(a), serde_json::Value::Number(b)) => b.as_f64() == Some(*a),
        (Value::String(a), serde_json::Value::String(b)) => a == b,
        (Value::Array(a), serde_json::Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), serde_json::Value::Object(b)) => {
            let has_same = |(name, a)| b.get(name).is_some_and(|b| is_same(a, b));
            a.len() == b.len() && a.iter().all(has_same)
        }
        _ => false,
    }
}
