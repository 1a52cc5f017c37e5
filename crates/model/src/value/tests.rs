//! Tests of objects, and the generators of values that other tests use.

use proptest::prelude::*;

use super::*;

/// Strings that are likely to collide, to share prefixes and to hold awkward characters.
pub(crate) fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab\0\u{1}\u{ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}é]{0,6}",
        any::<String>(),
        (500_usize..530, "[ab\0é]{0,12}").prop_map(|(n, tail)| "x".repeat(n) + &tail),
    ]
}

pub(crate) fn any_double() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        (-5_i32..5).prop_map(|n| f64::from(n) / 2.0),
        Just(-0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        near_2_pow_53().prop_map(crate::number::i64_to_f64),
    ]
}

fn near_2_pow_53() -> impl Strategy<Value = i64> {
    (53_u32..63, -3_i64..3, any::<bool>()).prop_map(|(power, offset, is_negative)| {
        let n = (1_i64 << power) + offset;
        if is_negative { -n } else { n }
    })
}

fn any_integer() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), -5_i64..5, near_2_pow_53(), Just(i64::MAX), Just(i64::MIN)]
}

#[expect(clippy::little_endian_bytes, reason = "BSON's byte order")]
fn any_decimal() -> impl Strategy<Value = [u8; 16]> {
    let parts = |coefficient: u128, exponent: i32, is_negative: bool| {
        let biased = u128::try_from(exponent + 6176).unwrap();
        (u128::from(is_negative) << 127 | biased << 113 | coefficient).to_le_bytes()
    };
    prop_oneof![
        any::<[u8; 16]>(),
        (0_u128..200, -3_i32..3, any::<bool>()).prop_map(move |(c, e, n)| parts(c, e, n)),
        (0_u128..1 << 113, -6176_i32..6112, any::<bool>())
            .prop_map(move |(c, e, n)| parts(c, e, n)),
        (near_2_pow_53(), 0_i32..3).prop_map(move |(n, e)| {
            parts(u128::from(n.unsigned_abs()) * 10_u128.pow(e.unsigned_abs()), -e, n < 0)
        }),
    ]
}

fn plain_scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any_integer().prop_map(Value::Int64),
        any_double().prop_filter("JSON", |n| n.is_finite()).prop_map(Value::Double),
        any_text().prop_map(Value::String),
    ]
}

fn typed_scalar() -> impl Strategy<Value = Value> {
    let bytes = prop_oneof![
        prop::collection::vec(0_u8..3, 0..4),
        prop::collection::vec(any::<u8>(), 510..516),
    ];
    prop_oneof![
        any_double().prop_map(Value::Double),
        any::<i32>().prop_map(Value::Int32),
        (-3_i32..3).prop_map(Value::Int32),
        any_decimal().prop_map(Value::Decimal128),
        (0_u8..6, bytes).prop_map(|(subtype, bytes)| Value::Binary { subtype, bytes }),
        any::<[u8; 16]>().prop_map(Value::Guid),
        (any::<i64>(), 0_u16..10_000)
            .prop_map(|(millis, ticks)| Value::Date(Date { millis, ticks })),
        any::<[u8; 12]>().prop_map(Value::ObjectId),
        (0_u32..3, any::<u32>())
            .prop_map(|(seconds, increment)| Value::Timestamp { seconds, increment }),
        ("[ab\0]{0,3}", "[ims]{0,2}")
            .prop_map(|(pattern, options)| Value::Regex { pattern, options }),
        any_text().prop_map(|code| Value::JavaScript { code, scope: None }),
        any_text().prop_map(Value::Symbol),
        Just(Value::Undefined),
        (any_text(), any::<[u8; 12]>())
            .prop_map(|(namespace, id)| Value::DbPointer { namespace, id }),
        Just(Value::MinKey),
        Just(Value::MaxKey),
    ]
}

fn object(fields: Vec<(String, Value)>) -> Object {
    fields.into_iter().collect()
}

/// Values that JSON can express.
pub(crate) fn any_plain() -> impl Strategy<Value = Value> {
    plain_scalar().prop_recursive(4, 48, 6, |inner| {
        let fields = prop::collection::vec((any_text(), inner.clone()), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::Array),
            fields.prop_map(|f| Value::Object(object(f))),
        ]
    })
}

/// Values of every type.
pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![plain_scalar(), typed_scalar()].prop_recursive(3, 48, 6, |inner| {
        let name = "[ab]{0,2}";
        let fields = prop::collection::vec((name, inner.clone()), 0..4);
        let scope = prop::collection::vec((name, inner.clone()), 0..3);
        prop_oneof![
            3 => prop::collection::vec(inner, 0..6).prop_map(Value::Array),
            3 => fields.prop_map(|f| Value::Object(object(f))),
            1 => ("[ab]{0,2}", scope).prop_map(|(code, scope)| Value::JavaScript {
                code,
                scope: Some(Box::new(object(scope))),
            }),
        ]
    })
}

#[test]
fn insert_replaces_in_place_and_remove_keeps_order() {
    let mut fields = Object::with_capacity(3);
    for (name, n) in [("a", 1), ("b", 2), ("c", 3)] {
        assert_eq!(fields.insert(name, Value::Int64(n)), None);
    }
    assert_eq!(fields.insert("b", Value::Null), Some(Value::Int64(2)));
    let names = |object: &Object| object.iter().map(|(n, _)| n.to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&fields), ["a", "b", "c"]);
    assert_eq!(fields.remove("a"), Some(Value::Int64(1)));
    assert_eq!(fields.remove("a"), None);
    assert_eq!(names(&fields), ["b", "c"]);
    assert_eq!((fields.get("c"), fields.len()), (Some(&Value::Int64(3)), 2));
    assert!(!fields.is_empty() && Object::new().is_empty());
}

proptest! {
    /// Inserting one by one defines what taking all fields at once must do.
    #[test]
    fn from_fields_is_repeated_insertion(
        names in prop_oneof![
            prop::collection::vec("[a-c]{1,2}", 0..12),
            prop::collection::vec("[a-d]{1,3}", 20..60),
        ],
    ) {
        let numbered = (0..).map(Value::Int64);
        let fields: Vec<_> = names.into_iter().zip(numbered).collect();
        let mut expected = Object::new();
        let mut repeated = false;
        for (name, value) in fields.clone() {
            repeated |= expected.insert(name, value).is_some();
        }
        prop_assert_eq!(Object::from_fields(fields), (expected, repeated));
    }
}
