//! Values as bytes: for testing equality, and for sorting.
//!
//! Both forms put scalars in the order of the dialect (undefined, null, false, true, numbers,
//! strings by UTF-16 unit). They differ in arrays and objects: an equality key holds them whole, a
//! sort key holds their hash, by which client libraries order them.

use model::order::{Tag, TypeOrder, encode_whole};
use model::{Object, Value};

use crate::plan::SortOrder;

const ARRAY: u8 = Tag::Array.byte(TypeOrder::NoSql);
const OBJECT: u8 = Tag::Object.byte(TypeOrder::NoSql);
/// Less than every tag.
const END: u8 = 0x00;

/// Bytes that two values share exactly when they are equal, *undefined* included.
pub(crate) fn equality_key_of(value: Option<&Value>) -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    push_equality_key(value, &mut out);
    out
}

/// Appends the [`equality_key_of`] a value. No equality key is a prefix of another.
pub(crate) fn push_equality_key(value: Option<&Value>, out: &mut Vec<u8>) {
    match value {
        Some(Value::Array(elements)) => push_array(elements, out),
        Some(Value::Object(object)) => push_object(object, out),
        scalar => encode_whole(TypeOrder::NoSql, scalar, out),
    }
}

fn push_array(elements: &[Value], out: &mut Vec<u8>) {
    out.push(ARRAY);
    for element in elements {
        push_equality_key(Some(element), out);
    }
    out.push(END);
}

fn push_object(object: &Object, out: &mut Vec<u8>) {
    let mut fields: Vec<_> = object.iter().collect();
    fields.sort_unstable_by_key(|(name, _)| *name);
    out.push(OBJECT);
    for (name, field) in fields {
        push_text(name, out);
        push_equality_key(Some(field), out);
    }
    out.push(END);
}

/// A name, preceded by its length in a form that never begins with the end mark.
fn push_text(text: &str, out: &mut Vec<u8>) {
    out.push(1);
    out.extend_from_slice(&(text.len() as u64).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Appends a sort key whose bytes compare as rows are to be ordered.
pub(crate) fn push_sort_key(
    type_order: TypeOrder,
    value: Option<&Value>,
    order: SortOrder,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    encode_whole(type_order, value, out);
    complement_if(order, &mut out[start..]);
}

/// Appends the sort key, in the NoSQL order, of an array or object of which only the distinct hash
/// is known.
pub(crate) fn push_hashed_sort_key(
    is_array: bool,
    hash: u128,
    order: SortOrder,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.push(if is_array { ARRAY } else { OBJECT });
    out.extend_from_slice(&model::hash::hash_bytes(hash));
    complement_if(order, &mut out[start..]);
}

fn complement_if(order: SortOrder, bytes: &mut [u8]) {
    match order {
        SortOrder::Ascending => {}
        SortOrder::Descending => bytes.iter_mut().for_each(|byte| *byte = !*byte),
    }
}

#[cfg(test)]
mod tests {
    use model::json;

    use super::*;

    fn value(text: &str) -> Option<Value> {
        (text != "undefined").then(|| json::parse(text.as_bytes(), 10).unwrap().value)
    }

    #[test]
    fn identities_are_shared_by_equal_values_only() {
        let same = [
            ("1", "1.0"),
            ("0", "-0.0"),
            (r#"{"a":1,"b":[2]}"#, r#"{"b":[2.0],"a":1e0}"#),
            ("undefined", "undefined"),
        ];
        for (a, b) in same {
            assert_eq!(
                equality_key_of(value(a).as_ref()),
                equality_key_of(value(b).as_ref()),
                "{a} {b}"
            );
        }
        let different = [
            "undefined",
            "null",
            "false",
            "true",
            "0",
            "\"\"",
            "[]",
            "[[]]",
            "[[],[]]",
            "[null]",
            "{}",
            r#"{"a":1}"#,
            r#"{"a":null}"#,
            r#"{"a":{}}"#,
            r#"[{"a":1}]"#,
            "9007199254740993",
            "9007199254740992",
            r#"{"a\u0000":1}"#,
            r#""a""#,
            r#""a\u0000""#,
        ];
        for (i, a) in different.iter().enumerate() {
            for b in &different[i + 1..] {
                let (a, b) = (value(a), value(b));
                assert_ne!(equality_key_of(a.as_ref()), equality_key_of(b.as_ref()), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn sort_keys_compare_as_their_values() {
        let long = format!("\"{}a\"", "x".repeat(600));
        let longer = format!("\"{}b\"", "x".repeat(600));
        let ascending = [
            "undefined",
            "null",
            "false",
            "true",
            "-1.5",
            "0",
            "9007199254740992",
            "9007199254740993",
            "\"\"",
            "\"a\"",
            "\"a\\u0000\"",
            "\"ab\"",
            &long,
            &longer,
            "\"\u{10000}\"",
            "\"\u{FFFF}\"",
            "[]",
            "{}",
        ];
        let key = |text: &str, order| {
            let mut out = Vec::new();
            push_sort_key(TypeOrder::NoSql, value(text).as_ref(), order, &mut out);
            out
        };
        for pair in ascending.windows(2) {
            let up = |text| key(text, SortOrder::Ascending);
            let down = |text| key(text, SortOrder::Descending);
            assert!(up(pair[0]) < up(pair[1]), "{pair:?}");
            assert!(down(pair[0]) > down(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn a_key_made_from_a_hash_is_the_key_of_the_value() {
        for text in ["[1,2]", r#"{"a":1}"#] {
            let value = value(text).unwrap();
            let (mut whole, mut hashed) = (Vec::new(), Vec::new());
            push_sort_key(TypeOrder::NoSql, Some(&value), SortOrder::Descending, &mut whole);
            let hash = model::hash::distinct_hash(&value);
            push_hashed_sort_key(text.starts_with('['), hash, SortOrder::Descending, &mut hashed);
            assert_eq!(whole, hashed, "{text}");
        }
    }
}
