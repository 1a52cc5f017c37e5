//! What names a document within its logical partition: its `_id` as a row key, and as the text that
//! the NoSQL API shows as `id`.
//!
//! The row key is the whole order-preserving encoding of the value, so row keys sort like values,
//! and numbers that are equal are one key whatever their types.
//!
//! | `_id` | Text |
//! |---|---|
//! | string | the same; `$str:` before one that is empty or begins with `$` |
//! | number | `$num:` and an int64, or the shortest digits of a double, or `NaN`, `inf`, `-inf` |
//! | decimal that is neither int64 nor double | `$dec:` and its digits without zeros at the end |
//! | object id | `$oid:` and 24 hexadecimal digits |
//! | guid, binary of 16 bytes and subtype 4 | `$uuid:` and its text |
//! | date | `$date:` and milliseconds since 1970 |
//! | boolean, null | `$bool:true`, `$bool:false`, `$null` |
//! | anything else | `$bson:` and, in URL-safe base64, its type and bytes in BSON |
//!
//! In a string the four characters that no id of the NoSQL API has are `$x2f`, `$x5c`, `$x3f` and
//! `$x23`, and a `$` before an `x` is `$x24`. Two texts are equal exactly when the row keys are.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{BsonError, ElementType, GUID_SUBTYPE, RawDocument, check, write_value};
use super::{BsonLimits, DOCUMENT_BYTES_MIN};
use crate::decimal::Decimal;
use crate::edm::{guid_text, parse_guid};
use crate::json;
use crate::limits::ROW_KEY_BYTES_MAX;
use crate::order::{TypeOrder, encode_whole};
use crate::value::{Date, Object};
use crate::{Value, number};

/// Why a value can't be an `_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowKeyError {
    /// Arrays, regular expressions and *undefined* name no document.
    #[error("The '_id' value cannot be of type {}", .0.alias())]
    Type(ElementType),
    /// Too long.
    #[error("The '_id' value is too long: its key has {bytes} bytes, more than the {max} allowed")]
    TooLong {
        /// Length of its row key.
        bytes: usize,
        /// The limit that was exceeded.
        max: usize,
    },
}

/// The row key of the document with this `_id`.
pub fn row_key(id: &Value) -> Result<Vec<u8>, RowKeyError> {
    match ElementType::of(id) {
        refused @ (ElementType::Array | ElementType::Regex | ElementType::Undefined) => {
            return Err(RowKeyError::Type(refused));
        }
        ElementType::Double
        | ElementType::String
        | ElementType::Document
        | ElementType::Binary
        | ElementType::ObjectId
        | ElementType::Bool
        | ElementType::Date
        | ElementType::Null
        | ElementType::DbPointer
        | ElementType::JavaScript
        | ElementType::Symbol
        | ElementType::JavaScriptWithScope
        | ElementType::Int32
        | ElementType::Timestamp
        | ElementType::Int64
        | ElementType::Decimal128
        | ElementType::MinKey
        | ElementType::MaxKey => {}
    }
    let mut key = Vec::with_capacity(32);
    encode_whole(TypeOrder::Bson, Some(id), &mut key);
    match key.len() > ROW_KEY_BYTES_MAX {
        true => Err(RowKeyError::TooLong { bytes: key.len(), max: ROW_KEY_BYTES_MAX }),
        false => Ok(key),
    }
}

/// The text that stands for an `_id` in the NoSQL API.
pub fn item_id(id: &Value) -> Result<String, BsonError> {
    let canonical = canonical(id);
    if let Value::String(text) = &canonical {
        return Ok(string_id(text));
    }
    if let Value::Int64(n) = &canonical {
        return Ok(format!("$num:{n}"));
    }
    if let Value::Double(n) = &canonical {
        return Ok(match n.is_finite() {
            true => format!("$num:{}", ryu::Buffer::new().format_finite(*n)),
            false => format!("$num:{n}"),
        });
    }
    if let Value::Decimal128(bytes) = &canonical {
        return Ok(format!("$dec:{}", Decimal::from_bson(bytes)));
    }
    if let Value::ObjectId(id) = &canonical {
        return Ok(format!("$oid:{}", json::hex(id)));
    }
    if let Value::Date(date) = &canonical {
        return Ok(format!("$date:{}", date.millis));
    }
    if let Value::Bool(b) = &canonical {
        return Ok(format!("$bool:{b}"));
    }
    if let Value::Null = &canonical {
        return Ok("$null".to_owned());
    }
    if let Some(guid) = guid_of(&canonical) {
        return Ok(format!("$uuid:{}", guid_text(&guid)));
    }
    let mut bytes = vec![ElementType::of(&canonical).code()];
    write_value(&canonical, &mut bytes)?;
    Ok(format!("$bson:{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// The `_id` that a text stands for, up to the type of a number; `None` if [`item_id`] makes no
/// such text.
pub fn id_of_item(text: &str) -> Option<Value> {
    let id = parsed(text)?;
    (item_id(&id).as_deref() == Ok(text)).then_some(id)
}

fn parsed(text: &str) -> Option<Value> {
    let Some((kind, rest)) = text.split_once(':').filter(|_| text.starts_with('$')) else {
        return match text {
            "$null" => Some(Value::Null),
            _ => Some(Value::String(unescaped(text))),
        };
    };
    match kind {
        "$str" => Some(Value::String(unescaped(rest))),
        "$num" => match rest.parse() {
            Ok(n) => Some(i32::try_from(n).map_or(Value::Int64(n), Value::Int32)),
            Err(_) => rest.parse().ok().map(Value::Double),
        },
        "$dec" => Decimal::parse(rest).map(|decimal| Value::Decimal128(decimal.to_bson())),
        "$oid" => json::bytes_of_hex(rest).map(Value::ObjectId),
        "$uuid" => {
            let bytes = parse_guid(rest)?.to_vec();
            Some(Value::Binary { subtype: GUID_SUBTYPE, bytes })
        }
        "$date" => rest.parse().ok().map(|millis| Value::Date(Date { millis, ticks: 0 })),
        "$bool" => rest.parse().ok().map(Value::Bool),
        "$bson" => value_of_bytes(&URL_SAFE_NO_PAD.decode(rest).ok()?),
        _ => Some(Value::String(unescaped(text))),
    }
}

/// The value of these bytes, which begin with its type.
fn value_of_bytes(bytes: &[u8]) -> Option<Value> {
    let (code, value) = bytes.split_first()?;
    let mut document = Vec::with_capacity(DOCUMENT_BYTES_MIN + 2 + value.len());
    let length = i32::try_from(document.capacity()).ok()?;
    super::write::write_i32(length, &mut document);
    document.extend_from_slice(&[*code, 0]);
    document.extend_from_slice(value);
    document.push(0);
    check(&document, BsonLimits::DOCUMENT).ok()?;
    RawDocument::of_stored(&document).get("")?.to_value().ok()
}

/// The one value that stands for all with the same row key.
fn canonical(value: &Value) -> Value {
    let object = |object: &Object| -> Object {
        object.iter().map(|(name, value)| (name.to_owned(), canonical(value))).collect()
    };
    match value {
        Value::Int32(n) => Value::Int64(i64::from(*n)),
        Value::Double(n) => canonical_double(*n),
        Value::Decimal128(bytes) => canonical_decimal(Decimal::from_bson(bytes)),
        Value::Symbol(text) => Value::String(text.clone()),
        Value::Guid(guid) => Value::Binary { subtype: GUID_SUBTYPE, bytes: guid.to_vec() },
        Value::JavaScript { code, scope: Some(scope) } => {
            Value::JavaScript { code: code.clone(), scope: Some(Box::new(object(scope))) }
        }
        Value::Array(elements) => Value::Array(elements.iter().map(canonical).collect()),
        Value::Object(fields) => Value::Object(object(fields)),
        Value::Null
        | Value::Bool(_)
        | Value::Int64(_)
        | Value::String(_)
        | Value::Binary { .. }
        | Value::Date(_)
        | Value::ObjectId(_)
        | Value::Timestamp { .. }
        | Value::Regex { .. }
        | Value::JavaScript { scope: None, .. }
        | Value::Undefined
        | Value::DbPointer { .. }
        | Value::MinKey
        | Value::MaxKey => value.clone(),
    }
}

fn canonical_double(n: f64) -> Value {
    match number::f64_to_i64(n) {
        Some(whole) => Value::Int64(whole),
        None => Value::Double(if n.is_nan() { f64::NAN } else { n }),
    }
}

fn canonical_decimal(decimal: Decimal) -> Value {
    let near = decimal.to_f64();
    let Decimal::Finite(finite) = decimal else { return canonical_double(near) };
    match finite.to_i64() {
        Some(n) => Value::Int64(n),
        None if finite.compare_f64(near).is_eq() => canonical_double(near),
        None => Value::Decimal128(decimal.trimmed().to_bson()),
    }
}

fn guid_of(value: &Value) -> Option<[u8; 16]> {
    let Value::Binary { subtype: GUID_SUBTYPE, bytes } = value else { return None };
    bytes.as_slice().try_into().ok()
}

fn string_id(text: &str) -> String {
    let is_marked = text.is_empty() || text.starts_with('$');
    let mut out = String::with_capacity(text.len() + 5);
    out.push_str(if is_marked { "$str:" } else { "" });
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '/' => out.push_str("$x2f"),
            '\\' => out.push_str("$x5c"),
            '?' => out.push_str("$x3f"),
            '#' => out.push_str("$x23"),
            '$' if letters.peek() == Some(&'x') => out.push_str("$x24"),
            other => out.push(other),
        }
    }
    out
}

fn unescaped(text: &str) -> String {
    let escapes = [("$x2f", '/'), ("$x5c", '\\'), ("$x3f", '?'), ("$x23", '#'), ("$x24", '$')];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("$x") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let found = escapes.iter().find(|(escape, _)| from.starts_with(escape));
        let (length, letter) = found.map_or((1, '$'), |(escape, letter)| (escape.len(), *letter));
        out.push(letter);
        rest = from.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bson::tests::expressible;
    use crate::order::compare;
    use crate::value::tests::any_value;

    fn decimal(text: &str) -> Value {
        Value::Decimal128(Decimal::parse(text).unwrap().to_bson())
    }

    #[track_caller]
    fn check_text(id: Value, text: &str) {
        assert_eq!(item_id(&id).unwrap(), text);
        let again = id_of_item(text).unwrap();
        assert_eq!(row_key(&again), row_key(&id));
    }

    #[test]
    fn texts_of_ids() {
        check_text(Value::from("a b"), "a b");
        check_text(Value::from(""), "$str:");
        check_text(Value::from("$null"), "$str:$null");
        check_text(Value::from("a/b\\c?d#e$x2f$y"), "a$x2fb$x5cc$x3fd$x23e$x24x2f$y");
        check_text(Value::from("$x"), "$str:$x24x");
        check_text(Value::from("a:b"), "a:b");
        check_text(Value::Symbol("s".into()), "s");
        check_text(Value::Int32(1), "$num:1");
        check_text(Value::Double(1.0), "$num:1");
        check_text(decimal("1.00"), "$num:1");
        check_text(Value::Double(-0.0), "$num:0");
        check_text(Value::Double(0.1), "$num:0.1");
        check_text(decimal("0.10"), "$dec:0.1");
        check_text(decimal("0.5"), "$num:0.5");
        check_text(Value::Double(1e300), "$num:1e300");
        check_text(Value::Double(f64::NAN), "$num:NaN");
        check_text(decimal("NaN"), "$num:NaN");
        check_text(Value::Double(f64::NEG_INFINITY), "$num:-inf");
        check_text(Value::Int64(i64::MAX), "$num:9223372036854775807");
        check_text(Value::ObjectId([0xAB; 12]), "$oid:abababababababababababab");
        check_text(Value::Date(Date { millis: -5, ticks: 0 }), "$date:-5");
        check_text(Value::Bool(true), "$bool:true");
        check_text(Value::Null, "$null");
        let guid = "$uuid:00000000-0000-0000-0000-000000000000";
        check_text(Value::Guid([0; 16]), guid);
        check_text(Value::Binary { subtype: 4, bytes: vec![0; 16] }, guid);
        check_text(Value::MinKey, "$bson:_w");
        let object = |n: Value| Value::Object([("a".to_owned(), n)].into_iter().collect());
        assert_eq!(item_id(&object(Value::Int32(1))), item_id(&object(Value::Double(1.0))));
        assert_ne!(item_id(&object(Value::Int32(1))), item_id(&object(Value::Int32(2))));
    }

    #[test]
    fn texts_that_stand_for_no_id() {
        for text in [
            "",
            "$num:01",
            "$num:x",
            "$num:1.0",
            "$num:",
            "$oid:xx",
            "$oid:AB",
            "$bool:yes",
            "$x",
            "$dec:0.10",
            "$dec:1",
            "$uuid:1",
            "$date:",
            "$bson:",
            "$bson:_w==",
            "$other:1",
            "a/b",
            "$str:a",
            "$null:",
            "$bson:EAEAAAA",
        ] {
            assert_eq!(id_of_item(text), None, "{text}");
        }
    }

    #[test]
    fn some_types_name_no_document() {
        let regex = Value::Regex { pattern: "a".into(), options: String::new() };
        for (id, alias) in
            [(Value::Array(vec![]), "array"), (regex, "regex"), (Value::Undefined, "undefined")]
        {
            let error = row_key(&id).unwrap_err();
            assert_eq!(error.to_string(), format!("The '_id' value cannot be of type {alias}"));
        }
    }

    #[test]
    fn row_keys_are_limited() {
        // A tag before the text and two bytes after it.
        let longest = "x".repeat(ROW_KEY_BYTES_MAX - 3);
        assert_eq!(row_key(&Value::from(longest.clone())).unwrap().len(), ROW_KEY_BYTES_MAX);
        let bytes = ROW_KEY_BYTES_MAX + 1;
        let too_long = RowKeyError::TooLong { bytes, max: ROW_KEY_BYTES_MAX };
        assert_eq!(row_key(&Value::from(longest + "x")), Err(too_long));
    }

    proptest! {
        #[test]
        fn row_keys_sort_like_values_and_texts_tell_them_apart(a in any_value(), b in any_value()) {
            let (a, b) = (expressible(a), expressible(b));
            let (Ok(a_key), Ok(b_key)) = (row_key(&a), row_key(&b)) else { return Ok(()) };
            let ordering = compare(TypeOrder::Bson, Some(&a), Some(&b));
            prop_assert_eq!(a_key.cmp(&b_key), ordering);
            let (a_text, b_text) = (item_id(&a).unwrap(), item_id(&b).unwrap());
            prop_assert!(!a_text.contains(['/', '\\', '?', '#']));
            prop_assert_eq!(a_text == b_text, ordering.is_eq());
            let again = id_of_item(&a_text).unwrap();
            prop_assert_eq!(row_key(&again), Ok(a_key));
        }

        #[test]
        fn every_text_is_an_id_or_none(text in "\\PC{0,12}|\\$(num|dec|oid|bson|str):[0-9a-zA-Z_.-]{0,12}") {
            if let Some(id) = id_of_item(&text) {
                prop_assert_eq!(item_id(&id).unwrap(), text);
            }
        }
    }
}
