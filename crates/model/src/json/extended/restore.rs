//! Reads the extended forms of types that JSON lacks: those that the writer makes, and the canonical
//! ones, which have every number's type.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::decimal::Decimal;
use crate::edm::{parse_date, parse_guid, special_double};
use crate::json::{self, JsonError, bytes_of_hex};
use crate::value::{Date, Object};
use crate::{Value, number};

/// Why a text is not extended JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExtendedJsonError {
    /// Not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// An object has the name of a form, and is not of that form.
    #[error("an object with '{form}' is not of the form that the name stands for")]
    WrongForm {
        /// The name.
        form: &'static str,
    },
}

/// Reads a text in extended JSON. Integers without a form are int32 or int64, whichever is enough.
pub fn parse(text: &[u8], depth_max: usize) -> Result<Value, ExtendedJsonError> {
    restored(json::parse(text, depth_max)?.value, WrongForms::Refused)
}

/// Gives values of a tree that came as JSON the types that their forms stand for. An object that
/// only resembles a form stays what it is.
pub fn restore(value: Value) -> Value {
    // Nothing is refused.
    restored(value, WrongForms::Kept).unwrap_or(Value::Null)
}

/// What becomes of objects that are almost of a form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WrongForms {
    Kept,
    Refused,
}

fn restored(value: Value, wrong: WrongForms) -> Result<Value, ExtendedJsonError> {
    match value {
        Value::Int64(n) => Ok(i32::try_from(n).map_or(Value::Int64(n), Value::Int32)),
        Value::Array(elements) => {
            let elements = elements.into_iter().map(|element| restored(element, wrong));
            elements.collect::<Result<_, _>>().map(Value::Array)
        }
        Value::Object(object) => match named_form(&object) {
            Some((form, read)) => match read(&object) {
                Some(value) => Ok(value),
                None if wrong == WrongForms::Refused => Err(ExtendedJsonError::WrongForm { form }),
                None => restored_fields(object, wrong).map(Value::Object),
            },
            None => restored_fields(object, wrong).map(Value::Object),
        },
        scalar @ (Value::Null
        | Value::Bool(_)
        | Value::Int32(_)
        | Value::Double(_)
        | Value::Decimal128(_)
        | Value::String(_)
        | Value::Binary { .. }
        | Value::Guid(_)
        | Value::Date(_)
        | Value::ObjectId(_)
        | Value::Timestamp { .. }
        | Value::Regex { .. }
        | Value::JavaScript { .. }
        | Value::Symbol(_)
        | Value::Undefined
        | Value::DbPointer { .. }
        | Value::MinKey
        | Value::MaxKey) => Ok(scalar),
    }
}

fn restored_fields(object: Object, wrong: WrongForms) -> Result<Object, ExtendedJsonError> {
    let fields = object.into_iter().map(|(name, value)| Ok((name, restored(value, wrong)?)));
    fields.collect()
}

/// Reads an object of a form.
type Form = fn(&Object) -> Option<Value>;

/// The forms by the name that tells them from other objects.
const FORMS: &[(&str, Form)] = &[
    ("$oid", |o| object_id(o).map(Value::ObjectId)),
    ("$symbol", |o| only_text(o).map(|text| Value::Symbol(text.to_owned()))),
    ("$numberInt", |o| digits(only_text(o)?)?.try_into().ok().map(Value::Int32)),
    ("$numberLong", |o| digits(only_text(o)?).map(Value::Int64)),
    ("$numberDouble", |o| double(only_text(o)?).map(Value::Double)),
    ("$numberDecimal", |o| {
        Decimal::parse(only_text(o)?).map(|decimal| Value::Decimal128(decimal.to_bson()))
    }),
    ("$binary", binary),
    ("$uuid", |o| {
        let bytes = parse_guid(only_text(o)?)?.to_vec();
        Some(Value::Binary { subtype: GUID_SUBTYPE, bytes })
    }),
    ("$code", code),
    ("$timestamp", timestamp),
    ("$regularExpression", regex),
    ("$dbPointer", db_pointer),
    ("$date", date),
    ("$minKey", |o| (only(o)?.as_i64()? == 1).then_some(Value::MinKey)),
    ("$maxKey", |o| (only(o)?.as_i64()? == 1).then_some(Value::MaxKey)),
    ("$undefined", |o| only(o)?.as_bool()?.then_some(Value::Undefined)),
];

const GUID_SUBTYPE: u8 = 4;

fn named_form(object: &Object) -> Option<(&'static str, Form)> {
    let is_named = |(name, _): (&str, &Value)| {
        FORMS.iter().find(|(form, _)| name.starts_with('$') && *form == name)
    };
    object.iter().find_map(is_named).copied()
}

/// The value of an object's only field.
fn only(object: &Object) -> Option<&Value> {
    let mut fields = object.iter();
    let (_, value) = fields.next()?;
    (fields.len() == 0).then_some(value)
}

fn only_text(object: &Object) -> Option<&str> {
    only(object)?.as_str()
}

/// The two fields of an object with these names, in any order.
fn both<'o>(object: &'o Object, names: [&str; 2]) -> Option<[&'o Value; 2]> {
    let [first, second] = names.map(|name| object.get(name));
    (object.len() == 2).then_some([first?, second?])
}

fn object_id(object: &Object) -> Option<[u8; 12]> {
    bytes_of_hex(only_text(object)?)
}

/// An integer in digits, with a sign if it is negative.
fn digits(text: &str) -> Option<i64> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

fn double(text: &str) -> Option<f64> {
    let is_number = text.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '.']);
    special_double(text).or_else(|| text.parse().ok().filter(|n: &f64| is_number && n.is_finite()))
}

fn binary(object: &Object) -> Option<Value> {
    let [base64, subtype] = both(only(object)?.as_object()?, ["base64", "subType"])?;
    let subtype = subtype.as_str().filter(|text| matches!(text.len(), 1 | 2))?;
    let subtype = subtype.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(subtype)?;
    Some(Value::Binary {
        subtype: u8::from_str_radix(subtype, 16).ok()?,
        bytes: STANDARD.decode(base64.as_str()?).ok()?,
    })
}

fn code(object: &Object) -> Option<Value> {
    if let Some(code) = only(object) {
        return Some(Value::JavaScript { code: code.as_str()?.to_owned(), scope: None });
    }
    let [code, scope] = both(object, ["$code", "$scope"])?;
    let scope = restored_fields(scope.as_object()?.clone(), WrongForms::Kept).ok()?;
    Some(Value::JavaScript { code: code.as_str()?.to_owned(), scope: Some(Box::new(scope)) })
}

fn timestamp(object: &Object) -> Option<Value> {
    let parts = both(only(object)?.as_object()?, ["t", "i"])?;
    let [seconds, increment] = parts.map(|part| u32::try_from(number::as_i64(part)?).ok());
    Some(Value::Timestamp { seconds: seconds?, increment: increment? })
}

fn regex(object: &Object) -> Option<Value> {
    let [pattern, options] = both(only(object)?.as_object()?, ["pattern", "options"])?;
    let (pattern, options) = (pattern.as_str()?.to_owned(), options.as_str()?.to_owned());
    Some(Value::Regex { pattern, options })
}

fn db_pointer(object: &Object) -> Option<Value> {
    let [namespace, id] = both(only(object)?.as_object()?, ["$ref", "$id"])?;
    let id = id.as_object().filter(|id| id.get("$oid").is_some())?;
    Some(Value::DbPointer { namespace: namespace.as_str()?.to_owned(), id: object_id(id)? })
}

/// A text with date, time and zone, or milliseconds.
fn date(object: &Object) -> Option<Value> {
    let value = only(object)?;
    if let Some(text) = value.as_str() {
        let has_zone = text.ends_with('Z') || text.get(19..)?.contains(['+', '-']);
        return parse_date(text).filter(|_| has_zone).map(Value::Date);
    }
    let value = value.as_object()?;
    let millis = digits(value.get("$numberLong")?.as_str()?)?;
    let ticks = match value.len() {
        1 => 0,
        _ => both(value, ["$numberLong", "ticks"])?[1].as_i64()?,
    };
    let ticks = u16::try_from(ticks).ok().filter(|ticks| *ticks < 10_000)?;
    Some(Value::Date(Date { millis, ticks }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bson::tests::expressible;
    use crate::limits::JSON_DEPTH_MAX;
    use crate::order::{TypeOrder, compare};
    use crate::value::tests::any_value;

    fn read(text: &str) -> Result<Value, ExtendedJsonError> {
        parse(text.as_bytes(), 8)
    }

    #[track_caller]
    fn check(text: &str, expected: Value) {
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn canonical_forms_have_the_type_of_numbers() {
        check(r#"{"$numberInt":"-7"}"#, Value::Int32(-7));
        check(r#"{"$numberLong":"7"}"#, Value::Int64(7));
        check(r#"{"$numberDouble":"7.0"}"#, Value::Double(7.0));
        check(r#"{"$numberDouble":"-Infinity"}"#, Value::Double(f64::NEG_INFINITY));
        check("7", Value::Int32(7));
        check("2147483648", Value::Int64(2_147_483_648));
        check("7.0", Value::Double(7.0));
        check("[{}]", Value::Array(vec![Value::Object(Object::new())]));
    }

    #[test]
    fn dates_have_a_zone() {
        let date = |millis| Value::Date(Date { millis, ticks: 0 });
        check(r#"{"$date":"1970-01-01T01:00:00.001+01:00"}"#, date(1));
        check(r#"{"$date":{"$numberLong":"-1"}}"#, date(-1));
        assert!(read(r#"{"$date":"1970-01-01T01:00:00"}"#).is_err());
        assert!(read(r#"{"$date":"1970-01-01"}"#).is_err());
    }

    #[test]
    fn what_only_resembles_a_form_is_refused_or_stays() {
        for text in [
            r#"{"$oid":"x"}"#,
            r#"{"$oid":7}"#,
            r#"{"$oid":"507f1f77bcf86cd799439011","a":1}"#,
            r#"{"$numberInt":"2147483648"}"#,
            r#"{"$numberLong":7}"#,
            r#"{"$numberDouble":"inf"}"#,
            r#"{"$numberDecimal":""}"#,
            r#"{"$binary":{"base64":"AQI=","subType":"+1"}}"#,
            r#"{"$binary":{"base64":"!","subType":"00"}}"#,
            r#"{"$timestamp":{"t":-1,"i":2}}"#,
            r#"{"$timestamp":{"t":1,"i":4294967296}}"#,
            r#"{"$regularExpression":{"pattern":"a"}}"#,
            r#"{"$dbPointer":{"$ref":"c","$id":7}}"#,
            r#"{"$code":7}"#,
            r#"{"$code":"f","$scope":7}"#,
            r#"{"$date":7}"#,
            r#"{"$minKey":2}"#,
            r#"{"$undefined":false}"#,
            r#"{"$uuid":"7"}"#,
        ] {
            assert!(matches!(read(text), Err(ExtendedJsonError::WrongForm { .. })), "{text}");
            let plain = json::parse(text.as_bytes(), 8).unwrap().value;
            assert_eq!(json::to_string(&restore(plain)), text);
        }
    }

    #[test]
    fn names_of_other_objects_are_kept() {
        let text = r#"{"$set":{"a":1},"oid":"x","$ref":"c","$id":7}"#;
        assert_eq!(json::to_string(&read(text).unwrap()), text);
        assert!(matches!(read("{"), Err(ExtendedJsonError::Json(_))));
    }

    /// Whether an object has the name of a form: then its text is that of another value.
    fn has_form(value: &Value) -> bool {
        json::to_string(value).contains("\"$")
    }

    proptest! {
        #[test]
        fn every_value_is_read_from_its_text(original in any_value()) {
            let original = expressible(original);
            let text = json::to_string(&original);
            let again = parse(text.as_bytes(), JSON_DEPTH_MAX).unwrap();
            prop_assert_eq!(json::to_string(&again), text);
            prop_assert!(compare(TypeOrder::Bson, Some(&again), Some(&original)).is_eq());
        }

        #[test]
        fn restoring_changes_nothing_that_has_no_form(original in any_value()) {
            prop_assume!(!has_form(&original));
            let text = json::to_string(&original);
            let restored = restore(json::parse(text.as_bytes(), JSON_DEPTH_MAX).unwrap().value);
            prop_assert_eq!(json::to_string(&restored), text);
        }
    }
}
