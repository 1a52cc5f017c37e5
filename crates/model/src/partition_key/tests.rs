use proptest::prelude::*;
use smallvec::smallvec;

use super::*;
use crate::json;

fn definition(paths: &[&str]) -> PartitionKeyDefinition {
    PartitionKeyDefinition {
        paths: paths.iter().map(|p| PropertyPath::parse(p).unwrap()).collect(),
        kind: if paths.len() == 1 { PartitionKeyKind::Hash } else { PartitionKeyKind::MultiHash },
        version: PartitionKeyVersion::V2,
        is_system: false,
    }
}

fn item(text: &str) -> Value {
    json::parse(text.as_bytes(), 16).unwrap().value
}

#[test]
fn extracts_scalars_and_undefined() {
    use PartitionKeyComponent::{Bool, Null, Number, String, Undefined};
    let table = [
        (r#"{"a":{"b":"x"}}"#, String("x".into())),
        (r#"{"a":{"b":""}}"#, String(std::string::String::new())),
        (r#"{"a":{"b":5}}"#, Number(5.0)),
        (r#"{"a":{"b":9007199254740993}}"#, Number(9_007_199_254_740_992.0)),
        (r#"{"a":{"b":true}}"#, Bool(true)),
        (r#"{"a":{"b":null}}"#, Null),
        (r#"{"a":{}}"#, Undefined),
        (r#"{"a":null}"#, Undefined),
        (r#"{"a":[{"b":1}]}"#, Undefined),
        (r#"{"a":{"b":{"c":1}}}"#, Undefined),
        (r#"{"a":{"b":["x"]}}"#, Undefined),
        ("{}", Undefined),
    ];
    for (text, expected) in table {
        let key = definition(&["/a/b"]).extract(&item(text)).unwrap();
        assert_eq!(key, PartitionKey(smallvec![expected]), "{text}");
    }
}

#[test]
fn extracts_every_level_of_a_hierarchical_key() {
    let key = definition(&["/t", "/u", "/s"]).extract(&item(r#"{"t":"x","s":1}"#)).unwrap();
    let expected: [PartitionKeyComponent; 3] = [
        PartitionKeyComponent::String("x".into()),
        PartitionKeyComponent::Undefined,
        PartitionKeyComponent::Number(1.0),
    ];
    assert_eq!(key.0.as_slice(), expected);
}

#[test]
fn containers_without_a_key_take_it_from_the_system_path() {
    let system = PartitionKeyDefinition { is_system: true, ..definition(&[SYSTEM_KEY_PATH]) };
    let extract = |text| system.extract(&item(text)).unwrap().0[0].clone();
    assert_eq!(extract(r#"{"id":"1"}"#), PartitionKeyComponent::Undefined);
    assert_eq!(extract(r#"{"_partitionKey":"k"}"#), PartitionKeyComponent::String("k".into()));
}

#[test]
fn refuses_what_is_no_key() {
    let extract = |value: Value| {
        let mut object = crate::Object::new();
        object.insert("k", value);
        definition(&["/k"]).extract(&Value::Object(object))
    };
    for tree in [Value::Array(vec![]), crate::Object::new().into()] {
        let component = PartitionKeyComponent::from_value(Some(&tree));
        assert_eq!(component, Err(PartitionKeyError::NotScalar));
    }
    assert_eq!(extract(Value::MinKey), Err(PartitionKeyError::NotScalar));
    assert!(extract("a".repeat(PARTITION_KEY_BYTES_MAX).into()).is_ok());
    assert_eq!(
        extract("a".repeat(PARTITION_KEY_BYTES_MAX + 1).into()),
        Err(PartitionKeyError::TooLong { max: PARTITION_KEY_BYTES_MAX })
    );
}

#[test]
fn different_keys_have_different_bytes_and_digests() {
    use PartitionKeyComponent::{Bool, Null, Number, String, Undefined};
    let keys: Vec<PartitionKey> = vec![
        PartitionKey(smallvec![]),
        PartitionKey(smallvec![Undefined]),
        PartitionKey(smallvec![Null]),
        PartitionKey(smallvec![Bool(false)]),
        PartitionKey(smallvec![Bool(true)]),
        PartitionKey(smallvec![Number(0.0)]),
        PartitionKey(smallvec![Number(-0.0)]),
        PartitionKey(smallvec![String(std::string::String::new())]),
        PartitionKey(smallvec![String("a".into())]),
        PartitionKey(smallvec![String("a".into()), Undefined]),
        PartitionKey(smallvec![String("a".into()), String("b".into())]),
        PartitionKey(smallvec![String("ab".into())]),
    ];
    let mut digests: Vec<_> = keys.iter().map(PartitionKey::digest).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), keys.len());
}

#[test]
fn encoding_is_fixed() {
    let key = PartitionKey(smallvec![
        PartitionKeyComponent::String("hi".into()),
        PartitionKeyComponent::Number(1.0),
        PartitionKeyComponent::Null,
    ]);
    let mut out = Vec::new();
    key.encode(&mut out);
    assert_eq!(out, b"\x08\0\0\0\x02hi\x05\x3f\xf0\0\0\0\0\0\0\x01\xff");
}

#[test]
fn decodes_only_whole_keys() {
    for bytes in
        [&b""[..], b"\x00", b"\xff\xff", b"\x04\xff", b"\x08\0\0\0\x05ab\xff", b"\x05\0\xff"]
    {
        assert_eq!(PartitionKey::decode(bytes), None, "{bytes:?}");
    }
    assert_eq!(PartitionKey::decode(b"\x08\0\0\0\x01\xfe\xff"), None, "not UTF-8");
}

/// Any component except NaN, which JSON cannot express.
pub(crate) fn any_component() -> impl Strategy<Value = PartitionKeyComponent> {
    prop_oneof![
        Just(PartitionKeyComponent::Undefined),
        Just(PartitionKeyComponent::Null),
        any::<bool>().prop_map(PartitionKeyComponent::Bool),
        any::<f64>().prop_filter("NaN", |n| !n.is_nan()).prop_map(PartitionKeyComponent::Number),
        ".*".prop_map(PartitionKeyComponent::String),
    ]
}

pub(crate) fn any_key() -> impl Strategy<Value = PartitionKey> {
    prop::collection::vec(any_component(), 0..4).prop_map(|c| PartitionKey(c.into()))
}

proptest! {
    #[test]
    fn decode_undoes_encode(key in any_key()) {
        let mut out = Vec::new();
        key.encode(&mut out);
        prop_assert_eq!(PartitionKey::decode(&out), Some(key));
    }

    #[test]
    fn decode_takes_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Some(key) = PartitionKey::decode(&bytes) {
            let mut out = Vec::new();
            key.encode(&mut out);
            prop_assert_eq!(out, bytes);
        }
    }

    #[test]
    fn components_survive_as_values(component in any_component()) {
        let value = component.to_value();
        prop_assert_eq!(PartitionKeyComponent::from_value(value.as_ref()), Ok(component));
    }
}

#[test]
fn keys_are_made_of_scalars() {
    let key = PartitionKey::from_values(&[Some(Value::Int64(1)), None]).unwrap();
    assert_eq!(key.0.len(), 2);
    assert_eq!(key.0[1], PartitionKeyComponent::Undefined);
    assert!(PartitionKey::from_values(&[Some(Value::Array(Vec::new()))]).is_none());
}

fn of_document(value: Value) -> PartitionKeyComponent {
    PartitionKeyComponent::from_document_value(Some(&value)).unwrap()
}

#[test]
fn scalars_of_json_are_the_same_components_in_documents() {
    let scalars = [
        Value::Null,
        Value::Bool(true),
        Value::Int32(7),
        Value::Int64(1 << 40),
        Value::Double(0.5),
        Value::from("x"),
    ];
    for value in scalars {
        let own = PartitionKeyComponent::from_value(Some(&value)).unwrap();
        assert_eq!(of_document(value), own);
    }
    assert_eq!(
        PartitionKeyComponent::from_document_value(None),
        Ok(PartitionKeyComponent::Undefined)
    );
    assert_eq!(of_document(Value::Undefined), PartitionKeyComponent::Undefined);
}

#[test]
fn equal_values_of_documents_are_one_component_and_others_are_not() {
    let number = |n: Value| Value::Array(vec![n]);
    let same = [
        (Value::Double(-0.0), Value::Int32(0)),
        (Value::Double(1.0), Value::Int64(1)),
        (Value::Symbol("a".into()), Value::from("a")),
        (number(Value::Int32(1)), number(Value::Double(1.0))),
    ];
    for (a, b) in same {
        assert_eq!(of_document(a), of_document(b));
    }
    let different = [
        Value::MinKey,
        Value::ObjectId([1; 12]),
        Value::ObjectId([2; 12]),
        Value::Timestamp { seconds: 1, increment: 1 },
        Value::Binary { subtype: 0, bytes: vec![1] },
        Value::Array(Vec::new()),
        Value::Object(crate::Object::new()),
        Value::from("1"),
    ];
    for (at, a) in different.iter().enumerate() {
        for b in &different[at + 1..] {
            assert_ne!(of_document(a.clone()), of_document(b.clone()), "{a:?} {b:?}");
        }
    }
}

#[test]
fn encoded_components_read_back_and_have_a_length_limit() {
    let key = PartitionKey(
        [Value::ObjectId([9; 12]), Value::from("x"), Value::MaxKey]
            .into_iter()
            .map(of_document)
            .collect(),
    );
    let mut bytes = Vec::new();
    key.encode(&mut bytes);
    assert_eq!(PartitionKey::decode(&bytes), Some(key));
    for cut in 0..bytes.len() {
        assert_eq!(PartitionKey::decode(&bytes[..cut]), None, "cut at {cut}");
    }
    let long = Value::Array(vec![Value::from("x".repeat(PARTITION_KEY_BYTES_MAX))]);
    assert_eq!(
        PartitionKeyComponent::from_document_value(Some(&long)),
        Err(PartitionKeyError::TooLong { max: PARTITION_KEY_BYTES_MAX })
    );
}
