//! Reading against writing, against damage, and against another reader.

use proptest::prelude::*;

use super::*;
use crate::Value;
use crate::json::FieldMask;
use crate::limits::BSON_DEPTH_MAX;
use crate::order::{TypeOrder, compare};
use crate::value::tests::any_value;
use crate::value::{Date, Object};

mod cases;

const LIMITS: BsonLimits = BsonLimits { bytes_max: DOCUMENT_BYTES_MAX, depth_max: BSON_DEPTH_MAX };

fn document(fields: &[(&str, Value)]) -> Vec<u8> {
    let object = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    written(&object)
}

fn written(object: &Object) -> Vec<u8> {
    let mut out = Vec::new();
    write(object, &mut out).unwrap();
    out
}

/// A tree as it is read back: what BSON can't express is made into what it can, and what it can't
/// express at all into nothing.
pub(crate) fn expressible(value: Value) -> Value {
    let without_zeros = |text: String| text.replace('\0', "0");
    let object = |object: Object| -> Object {
        object.into_iter().map(|(n, v)| (without_zeros(n), expressible(v))).collect()
    };
    match value {
        Value::Guid(guid) => Value::Binary { subtype: 4, bytes: guid.to_vec() },
        Value::Date(date) => Value::Date(Date { ticks: 0, ..date }),
        Value::Regex { pattern, options } => {
            Value::Regex { pattern: without_zeros(pattern), options: without_zeros(options) }
        }
        Value::JavaScript { code, scope: Some(scope) } => {
            Value::JavaScript { code, scope: Some(Box::new(object(*scope))) }
        }
        Value::Array(elements) => Value::Array(elements.into_iter().map(expressible).collect()),
        Value::Object(fields) => Value::Object(object(fields)),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Int32(_)
        | Value::Int64(_)
        | Value::Double(_)
        | Value::Decimal128(_)
        | Value::String(_)
        | Value::Binary { .. }
        | Value::ObjectId(_)
        | Value::Timestamp { .. }
        | Value::JavaScript { scope: None, .. }
        | Value::Symbol(_)
        | Value::Undefined
        | Value::DbPointer { .. }
        | Value::MinKey
        | Value::MaxKey) => other,
    }
}

fn any_object() -> impl Strategy<Value = Object> {
    let name = "[abc]{0,2}|.{0,4}";
    prop::collection::vec((name, any_value()), 0..6).prop_map(|fields| {
        let object: Object = fields.into_iter().collect();
        let Value::Object(object) = expressible(Value::Object(object)) else { unreachable!() };
        object
    })
}

/// The bits of every double and the letters of everything, which `==` does not compare.
fn exact(value: &Value) -> String {
    format!("{value:?}")
        + &if let Value::Double(n) = value { format!("{:x}", n.to_bits()) } else { String::new() }
}

#[test]
fn the_golden_document_is_read_and_written() {
    // {_id: 1, s: "a\0b", d: -0.0, n: {x: [true, null]}}
    let bytes = b"\x3b\0\0\0\x10_id\0\x01\0\0\0\x02s\0\x04\0\0\0a\0b\0\x01d\0\0\0\0\0\0\0\0\x80\
        \x03n\0\x14\0\0\0\x04x\0\x0c\0\0\0\x080\0\x01\x0a1\0\0\0\0";
    let bytes = &bytes[..];
    let raw = check(bytes, LIMITS).map(RawDocument::to_object).unwrap().unwrap();
    assert_eq!(written(&raw), bytes);
    assert_eq!(raw.get("_id"), Some(&Value::Int32(1)));
    assert_eq!(raw.get("s"), Some(&Value::from("a\0b")));
    assert!(raw.get("d").is_some_and(|d| d.as_f64().is_some_and(f64::is_sign_negative)));
    let raw = check(bytes, LIMITS).unwrap();
    let x = raw.at_path(["n", "x"]).and_then(RawValue::as_array).unwrap();
    assert_eq!(x.iter().map(|f| f.name()).collect::<Vec<_>>(), ["0", "1"]);
    assert_eq!(raw.at_path(["n", "x", "0"]), None, "arrays are not entered");
    assert_eq!(raw.at_path(["s", "x"]), None);
    assert_eq!(raw.at_path([]), None);
}

#[test]
fn of_repeated_names_the_first_wins() {
    let bytes = b"\x17\0\0\0\x10a\0\x01\0\0\0\x08b\0\x01\x10a\0\x02\0\0\0\0";
    let raw = check(bytes, LIMITS).unwrap();
    assert_eq!(raw.get("a").and_then(RawValue::as_i64), Some(1));
    assert_eq!(raw.iter().count(), 3);
    let object = raw.to_object().unwrap();
    assert_eq!(object.get("a"), Some(&Value::Int32(1)));
    assert_eq!(object.len(), 2);
    let mask =
        FieldMask::Fields(vec![("a".to_owned(), FieldMask::All), ("z".to_owned(), FieldMask::All)]);
    let part = read_part(bytes, &mask).unwrap();
    assert_eq!(part.field("a"), Some(&Value::Int32(1)));
    assert_eq!(part.as_object().map(Object::len), Some(1));
}

#[test]
fn many_repeated_names_keep_their_first_values() {
    let fields = (0..100).map(|n: i32| (format!("f{}", n % 40), Value::Int32(n)));
    let object = Object::from_fields_keeping_first(fields.collect());
    let expected: Vec<Value> = (0..40).map(Value::Int32).collect();
    assert_eq!(object.iter().map(|(_, v)| v.clone()).collect::<Vec<_>>(), expected);
}

#[test]
fn the_bits_of_a_nan_survive() {
    for bits in [0x7FF8_0000_0000_0001_u64, 0xFFF0_DEAD_BEEF_0001, 0x8000_0000_0000_0000] {
        let bytes = document(&[("x", Value::Double(f64::from_bits(bits)))]);
        let object = check(&bytes, LIMITS).unwrap().to_object().unwrap();
        let Some(Value::Double(n)) = object.get("x") else { panic!("{object:?}") };
        assert_eq!(n.to_bits(), bits);
        assert_eq!(written(&object), bytes);
    }
}

#[test]
fn nesting_is_limited_at_the_limit() {
    let nested = |levels: usize| {
        let innermost = Value::Object(Object::new());
        let value = (2..levels).fold(innermost, |inner, _| Value::Array(vec![inner]));
        document(&[("a", value)])
    };
    let limits = BsonLimits { depth_max: 100, ..LIMITS };
    assert!(check(&nested(100), limits).is_ok());
    assert_eq!(check(&nested(101), limits), Err(BsonError::TooDeep { max: 100 }));
    assert!(check(&nested(BSON_DEPTH_MAX), LIMITS).unwrap().to_object().is_ok());
    let deep = nested(BSON_DEPTH_MAX + 1);
    let too_deep = BsonError::TooDeep { max: BSON_DEPTH_MAX };
    assert_eq!(check(&deep, BsonLimits { depth_max: usize::MAX, ..LIMITS }), Err(too_deep));
    assert_eq!(RawDocument::of_stored(&deep).to_object(), Err(too_deep));
    let inside = FieldMask::Fields(vec![("a".to_owned(), FieldMask::NOTHING)]);
    assert_eq!(read_part(&deep, &inside), Err(too_deep));
}

#[test]
fn length_is_limited_before_anything_is_read() {
    let bytes = document(&[("a", Value::from("x".repeat(100)))]);
    let limits = |bytes_max| BsonLimits { bytes_max, depth_max: 10 };
    assert!(check(&bytes, limits(bytes.len())).is_ok());
    let too_long = BsonError::TooLong { bytes: bytes.len(), max: bytes.len() - 1 };
    assert_eq!(check(&bytes, limits(bytes.len() - 1)), Err(too_long));
    assert_eq!(
        check(&bytes[..4], limits(10)),
        Err(BsonError::TooLong { bytes: bytes.len(), max: 10 })
    );
}

#[test]
fn the_first_of_several_documents_is_split_off() {
    let mut bytes = document(&[("a", Value::Int32(1))]);
    let length = bytes.len();
    assert_eq!(check_first(&bytes, LIMITS).unwrap().1, b"");
    bytes.extend(document(&[]));
    let (first, rest) = check_first(&bytes, LIMITS).unwrap();
    assert_eq!((first.as_bytes().len(), rest.len()), (length, 5));
    assert_eq!(check(&bytes, LIMITS), Err(BsonError::BytesAfterEnd { at: length }));
}

#[test]
fn names_with_zeros_are_not_written() {
    let regex = |pattern: &str| Value::Regex { pattern: pattern.into(), options: "i".into() };
    for object in [("a\0", Value::Null), ("a", regex("\0"))] {
        let object: Object = [(object.0.to_owned(), object.1)].into_iter().collect();
        assert_eq!(write(&object, &mut Vec::new()), Err(BsonError::ZeroByteInName));
    }
}

#[test]
fn raw_values_show_what_they_are() {
    let bytes = document(&[
        ("text", Value::from("é")),
        ("long", Value::Int64(i64::MAX)),
        ("double", Value::Double(2.5)),
        ("whole", Value::Double(3.0)),
        ("id", Value::ObjectId([7; 12])),
        ("binary", Value::Binary { subtype: 5, bytes: vec![1, 2] }),
        ("yes", Value::Bool(true)),
        ("sub", Value::Object(Object::new())),
    ]);
    let raw = check(&bytes, LIMITS).unwrap();
    let get = |name: &str| raw.get(name).unwrap();
    assert_eq!(get("text").as_str(), Some("é"));
    assert_eq!((get("long").as_i64(), get("long").as_str()), (Some(i64::MAX), None));
    assert_eq!((get("double").as_f64(), get("double").as_i64()), (Some(2.5), None));
    assert_eq!(get("whole").as_i64(), Some(3));
    assert_eq!(get("id").as_object_id(), Some([7; 12]));
    assert_eq!(get("binary").as_binary(), Some((5, &[1, 2][..])));
    assert_eq!((get("yes").as_bool(), get("text").as_bool()), (Some(true), None));
    assert!(get("sub").as_document().is_some_and(RawDocument::is_empty));
    assert!(!raw.is_empty() && raw.get("none").is_none());
    assert_eq!(get("sub").element_type(), ElementType::Document);
}

#[test]
fn types_are_found_by_code_and_name() {
    for element_type in ElementType::ALL {
        assert_eq!(ElementType::coded(element_type.code()), Some(element_type));
        assert_eq!(ElementType::named(element_type.alias()), Some(element_type));
    }
    assert_eq!(ElementType::MinKey.number(), -1);
    assert_eq!(ElementType::MaxKey.number(), 127);
    assert_eq!((ElementType::coded(0), ElementType::coded(0x14)), (None, None));
}

proptest! {
    #[test]
    fn every_tree_reads_back_as_it_was(object in any_object()) {
        let bytes = written(&object);
        let again = check(&bytes, LIMITS).unwrap().to_object().unwrap();
        prop_assert_eq!(exact(&Value::Object(again.clone())), exact(&Value::Object(object)));
        prop_assert_eq!(written(&again), bytes);
    }

    #[test]
    fn a_part_is_read_as_it_is_in_the_whole(
        object in any_object(),
        names in prop::collection::vec("[abc]{0,2}", 0..4),
        old in any_object(),
    ) {
        let bytes = written(&object);
        let mut mask = FieldMask::NOTHING;
        for name in &names {
            mask.add(std::slice::from_ref(name), FieldMask::All);
        }
        let part = read_part_again(&bytes, &mask, Value::Object(old)).unwrap();
        let expected: Object = object.into_iter().filter(|(name, _)| names.contains(name)).collect();
        prop_assert_eq!(exact(&part), exact(&Value::Object(expected)));
    }

    #[test]
    fn raw_and_built_values_agree(object in any_object()) {
        let bytes = written(&object);
        let raw = check(&bytes, LIMITS).unwrap();
        prop_assert_eq!(raw.iter().count(), object.len());
        for (field, (name, value)) in raw.iter().zip(object.iter()) {
            prop_assert_eq!(field.name(), name);
            prop_assert_eq!(field.value().element_type(), ElementType::of(value));
            let built = field.value().to_value().unwrap();
            prop_assert!(compare(TypeOrder::Bson, Some(&built), Some(value)).is_eq());
        }
    }

    #[test]
    fn damaged_documents_are_refused_or_read(
        object in any_object(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = written(&object);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        read_whatever(&bytes);
        read_whatever(&bytes[..cut.index(bytes.len())]);
    }
}

/// Reads bytes in every way. Only what was checked must read without an error.
pub(super) fn read_whatever(bytes: &[u8]) {
    let stored = RawDocument::of_stored(bytes);
    let built = stored.to_object();
    if check(bytes, LIMITS).is_ok() {
        let object = built.unwrap();
        let again = written(&object);
        assert_eq!(written(&check(&again, LIMITS).unwrap().to_object().unwrap()), again);
    }
    for field in stored.iter() {
        let _ = (field.name(), field.value().to_value(), field.value().as_str());
        let _ = (field.value().as_binary(), field.value().as_i64(), field.value().as_bool());
        let _ = field.value().as_document().map(|inner| inner.iter().count());
    }
    let mask = FieldMask::Fields(vec![("a".to_owned(), FieldMask::NOTHING)]);
    let _ = read_part(bytes, &mask);
}
