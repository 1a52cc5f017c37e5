use proptest::prelude::*;

use super::*;
use crate::json;
use crate::value::Date;
use crate::value::tests::{any_text, any_value};

const ORDERS: [TypeOrder; 2] = [TypeOrder::NoSql, TypeOrder::Bson];

fn encoded(order: TypeOrder, value: Option<&Value>) -> Vec<u8> {
    let mut out = Vec::new();
    encode(order, value, &mut out);
    out
}

/// Every value is below the next, in both forms of comparison.
fn check_ascending(order: TypeOrder, values: &[Option<Value>]) {
    for (at, a) in values.iter().enumerate() {
        for (other, b) in values.iter().enumerate() {
            let (a, b) = (a.as_ref(), b.as_ref());
            assert_eq!(compare(order, a, b), at.cmp(&other), "{a:?} {b:?}");
            assert_eq!(encoded(order, a).cmp(&encoded(order, b)), at.cmp(&other), "{a:?} {b:?}");
        }
    }
}

fn check_equal(order: TypeOrder, values: &[Value]) {
    for pair in values.windows(2) {
        let (a, b) = (Some(&pair[0]), Some(&pair[1]));
        assert_eq!(compare(order, a, b), Ordering::Equal, "{pair:?}");
        assert_eq!(encoded(order, a), encoded(order, b), "{pair:?}");
    }
}

fn text(s: &str) -> Option<Value> {
    Some(Value::from(s))
}

fn json(s: &str) -> Value {
    json::parse(s.as_bytes(), 16).unwrap().value
}

#[expect(clippy::little_endian_bytes, reason = "BSON's byte order")]
fn decimal(coefficient: u128, exponent: i32) -> Value {
    let biased = u128::try_from(exponent + 6176).unwrap();
    Value::Decimal128((biased << 113 | coefficient).to_le_bytes())
}

fn code(scope: Option<Object>) -> Option<Value> {
    Some(Value::JavaScript { code: "f".into(), scope: scope.map(Box::new) })
}

#[test]
fn nosql_type_order() {
    check_ascending(
        TypeOrder::NoSql,
        &[
            Some(Value::MinKey),
            None,
            Some(Value::Null),
            Some(Value::Bool(false)),
            Some(Value::Bool(true)),
            Some(Value::Int64(-3)),
            Some(Value::Double(2.5)),
            text(""),
            text("Beta"),
            text("alpha"),
            text("alphabet"),
            Some(Value::Array(vec![])),
            Some(Value::Object(Object::new())),
            Some(Value::Binary { subtype: 0, bytes: vec![] }),
            Some(Value::Guid([0; 16])),
            Some(Value::Date(Date { millis: 0, ticks: 0 })),
            Some(Value::ObjectId([0; 12])),
            Some(Value::Timestamp { seconds: 0, increment: 0 }),
            Some(Value::Regex { pattern: String::new(), options: String::new() }),
            code(None),
            code(Some(Object::new())),
            Some(Value::Symbol(String::new())),
            Some(Value::DbPointer { namespace: String::new(), id: [0; 12] }),
            Some(Value::MaxKey),
        ],
    );
}

#[test]
fn bson_type_order() {
    check_ascending(
        TypeOrder::Bson,
        &[
            Some(Value::MinKey),
            None,
            Some(Value::Null),
            Some(Value::Double(f64::NAN)),
            Some(Value::Int32(7)),
            text("z"),
            Some(Value::Object(Object::new())),
            Some(Value::Array(vec![])),
            Some(Value::Binary { subtype: 0, bytes: vec![] }),
            Some(Value::ObjectId([0; 12])),
            Some(Value::Bool(false)),
            Some(Value::Bool(true)),
            Some(Value::Date(Date { millis: -1, ticks: 9999 })),
            Some(Value::Date(Date { millis: 0, ticks: 0 })),
            Some(Value::Timestamp { seconds: 0, increment: 9 }),
            Some(Value::Timestamp { seconds: 1, increment: 0 }),
            Some(Value::Regex { pattern: "a".into(), options: "i".into() }),
            Some(Value::Regex { pattern: "b".into(), options: String::new() }),
            Some(Value::DbPointer { namespace: "b".into(), id: [9; 12] }),
            Some(Value::DbPointer { namespace: "aa".into(), id: [0; 12] }),
            Some(Value::DbPointer { namespace: "aa".into(), id: [1; 12] }),
            code(None),
            code(Some(Object::new())),
            Some(Value::MaxKey),
        ],
    );
}

#[test]
fn numbers_of_all_kinds_are_on_one_line() {
    let two_53 = 9_007_199_254_740_992_i64;
    let ascending = [
        Value::Double(f64::NAN),
        Value::Double(f64::NEG_INFINITY),
        Value::Double(f64::MIN),
        Value::Double(-9_223_372_036_854_775_808.0 - 2048.0),
        Value::Int64(i64::MIN),
        Value::Int64(i64::MIN + 1),
        Value::Int64(-two_53 - 1),
        Value::Double(-9_007_199_254_740_992.0),
        Value::Int32(-1),
        Value::Double(-0.5),
        Value::Double(-5e-324),
        Value::Double(0.0),
        decimal(1, -6176),
        Value::Double(5e-324),
        decimal(1, -1),
        Value::Double(0.1),
        decimal(11, -2),
        Value::Int64(1),
        decimal(11, -1),
        Value::Double(1.5),
        Value::Int64(two_53),
        Value::Int64(two_53 + 1),
        decimal(90_071_992_547_409_935, -1),
        Value::Double(9_007_199_254_740_994.0),
        Value::Int64(i64::MAX - 1),
        Value::Int64(i64::MAX),
        Value::Double(9_223_372_036_854_775_808.0),
        Value::Double(f64::MAX),
        decimal(1, 400),
        decimal(11, 399),
        Value::Double(f64::INFINITY),
    ];
    let ascending: Vec<_> = ascending.into_iter().map(Some).collect();
    for order in ORDERS {
        check_ascending(order, &ascending);
    }
}

#[test]
fn equal_numbers_have_one_encoding() {
    for order in ORDERS {
        check_equal(
            order,
            &[
                Value::Int32(1),
                Value::Int64(1),
                Value::Double(1.0),
                decimal(1, 0),
                decimal(100, -2),
            ],
        );
        check_equal(
            order,
            &[Value::Double(0.0), Value::Double(-0.0), Value::Int64(0), decimal(0, 7)],
        );
        check_equal(order, &[decimal(5, -1), Value::Double(0.5)]);
        check_equal(
            order,
            &[Value::Int64(9_007_199_254_740_993), decimal(9_007_199_254_740_993, 0)],
        );
        check_equal(order, &[Value::Double(f64::NAN), Value::Double(-f64::NAN)]);
    }
}

#[test]
fn nosql_strings_are_in_utf16_order() {
    let ascending = [
        "",
        "\0",
        "\0\0",
        "\0a",
        "\u{1}",
        "a",
        "a\0",
        "a\u{1}",
        "aa",
        "b",
        "\u{7f}",
        "é",
        "\u{d7ff}",
        "\u{10000}",
        "\u{10ffff}",
        "\u{e000}",
        "\u{ffff}",
    ];
    check_ascending(TypeOrder::NoSql, &ascending.map(text));
    let mut by_bytes = ascending;
    by_bytes.sort_unstable();
    check_ascending(TypeOrder::Bson, &by_bytes.map(text));
}

/// The last string that is encoded whole, the first that is cut, and escapes across the limit.
#[test]
fn long_strings_are_cut_and_hashed() {
    let x = |n: usize, tail: &str| "x".repeat(n) + tail;
    for order in ORDERS {
        let length = |s: &str| encoded(order, Some(&Value::from(s))).len();
        assert_eq!(length(&x(512, "")), 1 + 512 + 2);
        assert_eq!(length(&x(513, "")), 1 + 512 + 2 + 16);
        assert_eq!(length(&x(100_000, "")), 1 + 512 + 2 + 16);
        assert_eq!(length(&x(511, "\0")), 1 + 511 + 2 + 16, "an escape is not cut in two");
        // Differences before the cut determine the order, and a cut string is above its prefixes.
        let ascending = [
            x(510, ""),
            x(511, ""),
            x(511, "\0"),
            x(511, "\u{1}"),
            x(512, ""),
            x(513, "y"),
            x(511, "y"),
        ];
        check_ascending(order, &ascending.map(|s| Some(Value::String(s))));
        // Strings that differ only after the cut still have different encodings.
        let (a, b) = (Value::String(x(600, "a")), Value::String(x(600, "b")));
        assert_ne!(encoded(order, Some(&a)), encoded(order, Some(&b)));
        assert_eq!(compare(order, Some(&a), Some(&b)), Ordering::Less);
    }
}

/// Zeros take two bytes, so a text that is itself short enough may be cut.
#[test]
fn strings_that_are_encoded_whole_are_never_cut() {
    let whole = |s: &str| {
        let mut out = Vec::new();
        encode_whole(TypeOrder::NoSql, Some(&Value::from(s)), &mut out);
        out
    };
    let ascending = ["\0".repeat(300), "\0".repeat(301), "\0".repeat(300) + "a", "x".repeat(600)];
    for pair in ascending.windows(2) {
        assert!(whole(&pair[0]) < whole(&pair[1]), "{} {}", pair[0].len(), pair[1].len());
    }
    assert_eq!(whole(&ascending[0]).len(), 1 + 600 + 2);
    assert_eq!(whole("a\0é"), encoded(TypeOrder::NoSql, text("a\0é").as_ref()));
}

#[test]
fn nosql_arrays_and_objects_are_in_hash_order() {
    let order = TypeOrder::NoSql;
    let array = json("[1,[2,{\"a\":3}]]");
    let mut expected = vec![0x40];
    expected.extend_from_slice(&hash_bytes(distinct_hash(&array)));
    assert_eq!(encoded(order, Some(&array)), expected);
    check_equal(order, &[json(r#"{"a":1,"b":[2]}"#), json(r#"{"b":[2.0],"a":1.0}"#)]);
}

#[test]
fn bson_arrays_and_objects_compare_element_by_element() {
    let arrays = ["[]", "[null]", "[1]", "[1,null]", "[1,2]", "[2]", r#"["a"]"#, "[[]]", "[[1]]"];
    check_ascending(TypeOrder::Bson, &arrays.map(|s| Some(json(s))));
    let objects = [
        "{}",
        r#"{"b":null}"#,
        r#"{"a":1}"#,
        r#"{"a":1,"a2":1}"#,
        r#"{"a":2}"#,
        r#"{"b":0}"#,
        r#"{"a":"x"}"#,
    ];
    check_ascending(TypeOrder::Bson, &objects.map(|s| Some(json(s))));
    assert!(
        compare(TypeOrder::Bson, Some(&json(r#"{"a":1,"b":2}"#)), Some(&json(r#"{"b":2,"a":1}"#)))
            .is_ne()
    );
}

#[test]
fn large_bson_composites_are_cut_and_hashed() {
    let order = TypeOrder::Bson;
    let array = |n: i64, last: i64| {
        let mut elements: Vec<Value> = (0..n).map(Value::Int64).collect();
        elements.push(Value::Int64(last));
        Value::Array(elements)
    };
    let bytes = |v: &Value| encoded(order, Some(v));
    // Ten bytes an element: 102 fit, 103 do not.
    assert_eq!(bytes(&array(101, 0)).len(), 1 + 1020 + 1);
    assert_eq!(bytes(&array(102, 0)).len(), 1 + COMPOSITE_BYTES_MAX + 1 + 16);
    assert_eq!(bytes(&array(100_000, 0)).len(), 1 + COMPOSITE_BYTES_MAX + 1 + 16);
    assert_ne!(bytes(&array(1000, 0)), bytes(&array(1000, 1)));
    assert_eq!(bytes(&array(1000, 1)), bytes(&array(1000, 1)));
    // A cut array is above its prefixes and below arrays that are greater before the cut.
    let ascending = [array(101, 101), array(102, 102), array(500, 500), array(101, 102)];
    let shown: Vec<_> = ascending.iter().map(bytes).collect();
    assert!(
        shown[0] < shown[1] && shown[0] < shown[2] && shown[1] < shown[3] && shown[2] < shown[3]
    );
    let deep = (0..200).fold(array(300, 0), |inner, _| Value::Array(vec![inner]));
    assert!(bytes(&deep).len() <= ENCODED_BYTES_MAX);
}

#[test]
fn binaries() {
    let binary = |subtype, bytes: &[u8]| Some(Value::Binary { subtype, bytes: bytes.to_vec() });
    check_ascending(
        TypeOrder::NoSql,
        &[
            binary(0, b""),
            binary(1, b""),
            binary(0, b"\0"),
            binary(0, b"\0\0"),
            binary(0, b"a"),
            binary(0, b"ab"),
            binary(0, b"b"),
        ],
    );
    check_ascending(
        TypeOrder::Bson,
        &[
            binary(0, b""),
            binary(1, b""),
            binary(0, b"a"),
            binary(0, b"b"),
            binary(1, b"a"),
            binary(0, b"\0\0"),
        ],
    );
    check_equal(
        TypeOrder::Bson,
        &[Value::Guid([7; 16]), Value::Binary { subtype: 4, bytes: vec![7; 16] }],
    );
    for order in ORDERS {
        let long =
            |last: u8| Value::Binary { subtype: 0, bytes: [vec![1; 5000], vec![last]].concat() };
        assert!(encoded(order, Some(&long(1))).len() < 600);
        assert_ne!(encoded(order, Some(&long(1))), encoded(order, Some(&long(2))));
    }
}

/// Written to disk: a change here is a change of format.
#[test]
fn encodings_are_fixed() {
    let table: &[(TypeOrder, Option<Value>, &str)] = &[
        (TypeOrder::NoSql, None, "10"),
        (TypeOrder::NoSql, Some(Value::Null), "18"),
        (TypeOrder::NoSql, Some(Value::Bool(false)), "20"),
        (TypeOrder::NoSql, Some(Value::Bool(true)), "28"),
        (TypeOrder::NoSql, Some(Value::Int64(1)), "30bff000000000000080"),
        (TypeOrder::NoSql, Some(Value::Double(-2.5)), "303ffbffffffffffff80"),
        (
            TypeOrder::NoSql,
            Some(Value::Int64(9_007_199_254_740_993)),
            "30c340000000000000c0400f5b08145d374b0a5e00",
        ),
        (TypeOrder::NoSql, text("a\0é"), "386100ffc3a90001"),
        (TypeOrder::NoSql, text("\u{e000}\u{1f680}"), "38f38080ee9f9a800001"),
        (TypeOrder::Bson, text("\u{e000}\u{1f680}"), "28ee8080f09f9a800001"),
        (TypeOrder::Bson, Some(Value::Bool(true)), "5001"),
        (TypeOrder::Bson, Some(json(r#"{"a":null,"b":[true]}"#)), "30186100013862000150010000"),
    ];
    for (order, value, expected) in table {
        let hex: String =
            encoded(*order, value.as_ref()).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, *expected, "{value:?}");
    }
}

fn maybe_value() -> impl Strategy<Value = Option<Value>> {
    prop::option::weighted(0.95, any_value())
}

/// Whether an encoding of this value may be cut, so that only direct comparison is exact.
fn may_be_cut(value: Option<&Value>) -> bool {
    let Some(value) = value else { return false };
    let long = |n: usize| n > STRING_BYTES_MAX / 2;
    match value {
        Value::String(s) | Value::Symbol(s) | Value::JavaScript { code: s, scope: None } => {
            long(s.len())
        }
        Value::Binary { bytes, .. } => long(bytes.len()),
        Value::DbPointer { namespace, .. } => long(namespace.len()),
        Value::Array(_) | Value::Object(_) | Value::JavaScript { scope: Some(_), .. } => {
            json::to_string(value).len() > COMPOSITE_BYTES_MAX / 4
        }
        Value::Null
        | Value::Bool(_)
        | Value::Int32(_)
        | Value::Int64(_)
        | Value::Double(_)
        | Value::Decimal128(_)
        | Value::Guid(_)
        | Value::Date(_)
        | Value::ObjectId(_)
        | Value::Timestamp { .. }
        | Value::Regex { .. }
        | Value::Undefined
        | Value::MinKey
        | Value::MaxKey => false,
    }
}

proptest! {
    #[test]
    fn whole_encodings_are_in_the_order_of_values_of_any_length(
        a in maybe_value(), b in maybe_value(), more in prop::collection::vec(any_value(), 0..40),
    ) {
        // Long ones that differ only in the end, where a bounded encoding is cut.
        let long = |end: &Option<Value>| {
            let mut elements = more.clone();
            elements.extend(end.clone());
            Value::Array(elements)
        };
        for (a, b) in [(a.clone(), b.clone()), (Some(long(&a)), Some(long(&b)))] {
            let whole = |value: &Option<Value>| {
                let mut out = Vec::new();
                encode_whole(TypeOrder::Bson, value.as_ref(), &mut out);
                out
            };
            let ordering = compare(TypeOrder::Bson, a.as_ref(), b.as_ref());
            prop_assert_eq!(whole(&a).cmp(&whole(&b)), ordering);
        }
    }
}

proptest! {
    #[test]
    fn encodings_are_in_the_order_of_values(a in maybe_value(), b in maybe_value()) {
        for order in ORDERS {
            let (a, b) = (a.as_ref(), b.as_ref());
            let (x, y) = (encoded(order, a), encoded(order, b));
            if may_be_cut(a) && may_be_cut(b) {
                prop_assert_eq!(x == y, compare(order, a, b).is_eq());
            } else {
                prop_assert_eq!(x.cmp(&y), compare(order, a, b));
            }
            prop_assert!(x == y || !x.starts_with(&y) && !y.starts_with(&x), "prefix-free");
            prop_assert!(x.len() <= ENCODED_BYTES_MAX);
        }
    }

    /// Concatenations compare component by component, ascending or complemented.
    #[test]
    fn concatenations_compare_by_component(
        a in prop::collection::vec(maybe_value(), 3),
        b in prop::collection::vec(maybe_value(), 3),
        shared in 0_usize..3,
    ) {
        for order in ORDERS {
            let mut b = b.clone();
            b[..shared].clone_from_slice(&a[..shared]);
            let (mut x, mut y) = (Vec::new(), Vec::new());
            let mut expected = Ordering::Equal;
            for (at, (a, b)) in a.iter().zip(&b).enumerate() {
                let (mut p, mut q) = (encoded(order, a.as_ref()), encoded(order, b.as_ref()));
                let mut ordering = p.cmp(&q);
                if at == 1 {
                    p.iter_mut().chain(&mut q).for_each(|byte| *byte = !*byte);
                    ordering = ordering.reverse();
                }
                expected = expected.then(ordering);
                x.extend(p);
                y.extend(q);
            }
            prop_assert_eq!(x.cmp(&y), expected);
        }
    }

    #[test]
    fn comparison_is_a_total_order(a in maybe_value(), b in maybe_value(), c in maybe_value()) {
        for order in ORDERS {
            let (a, b, c) = (a.as_ref(), b.as_ref(), c.as_ref());
            prop_assert_eq!(compare(order, a, a), Ordering::Equal);
            prop_assert_eq!(compare(order, a, b), compare(order, b, a).reverse());
            let mut sorted = [a, b, c];
            sorted.sort_by(|x, y| compare(order, *x, *y));
            prop_assert!(compare(order, sorted[0], sorted[1]).is_le());
            prop_assert!(compare(order, sorted[1], sorted[2]).is_le());
            prop_assert!(compare(order, sorted[0], sorted[2]).is_le());
            if compare(order, sorted[0], sorted[2]).is_eq() {
                prop_assert!(compare(order, sorted[0], sorted[1]).is_eq());
            }
        }
    }

    #[test]
    fn nosql_text_compares_as_utf16(a in any_text(), b in any_text()) {
        let expected = a.encode_utf16().cmp(b.encode_utf16());
        prop_assert_eq!(compare_text(TypeOrder::NoSql, &a, &b), expected);
    }
}
