//! Values as error messages show them: `{ a: 1, b: "x", c: [ 1.0, null ] }`.

use std::fmt::{self, Write};

use model::decimal::Decimal;
use model::{Object, Value};

/// A value, printed as in a shell.
pub struct Printed<'v>(pub &'v Value);

/// A field, printed as in a shell: `a: 1`.
pub struct PrintedField<'v>(pub &'v str, pub &'v Value);

/// An object, printed as in a shell.
pub struct PrintedObject<'v>(pub &'v Object);

/// Longer texts are cut, so that a message cannot be as large as a document.
const TEXT_CHARS_MAX: usize = 160;
/// Deeper objects and arrays, and what follows after this many elements, are left out.
const DEPTH_MAX: usize = 10;
const ELEMENTS_MAX: usize = 100;

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value(self.0, DEPTH_MAX, f)
    }
}

impl fmt::Display for PrintedField<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0, Printed(self.1))
    }
}

impl fmt::Display for PrintedObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_object(self.0, DEPTH_MAX, f)
    }
}

fn write_value(value: &Value, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value {
        Value::Null => f.write_str("null"),
        Value::Bool(value) => write!(f, "{value}"),
        Value::Int32(n) => write!(f, "{n}"),
        Value::Int64(n) => write!(f, "{n}"),
        Value::Double(n) => write_double(*n, f),
        Value::Decimal128(bytes) => write!(f, "{}", Decimal::from_bson(bytes)),
        Value::String(text) | Value::Symbol(text) => write_text(text, f),
        Value::Binary { subtype, bytes } => write_binary(*subtype, bytes, f),
        Value::Guid(bytes) => write_binary(4, bytes, f),
        Value::Date(date) => write!(f, "new Date({})", date.millis),
        Value::ObjectId(id) => write_object_id(id, f),
        Value::Undefined => f.write_str("undefined"),
        Value::DbPointer { namespace, id } => {
            write!(f, "DBRef('{namespace}', ")?;
            write_object_id(id, f)?;
            f.write_str(")")
        }
        Value::Timestamp { seconds, increment } => write!(f, "Timestamp({seconds}, {increment})"),
        Value::Regex { pattern, options } => write!(f, "/{pattern}/{options}"),
        Value::JavaScript { code, scope: None } => f.write_str(code),
        Value::JavaScript { code, scope: Some(scope) } => {
            write!(f, "CodeWScope( {code}, ")?;
            write_object(scope, depth, f)?;
            f.write_str(")")
        }
        Value::Array(elements) => write_array(elements, depth, f),
        Value::Object(object) => write_object(object, depth, f),
        Value::MinKey => f.write_str("MinKey"),
        Value::MaxKey => f.write_str("MaxKey"),
    }
}

fn write_object_id(id: &[u8; 12], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("ObjectId('")?;
    id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
    f.write_str("')")
}

fn write_double(n: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if n.is_nan() {
        return f.write_str("nan");
    }
    if n.is_infinite() {
        return f.write_str(if n > 0.0 { "inf" } else { "-inf" });
    }
    let mut text = Vec::new();
    model::number::write_f64(n, &mut text);
    let text = String::from_utf8_lossy(&text);
    let is_whole = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    write!(f, "{text}{}", if is_whole { ".0" } else { "" })
}

fn write_text(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        None => f.write_str(text)?,
        Some((end, _)) => write!(f, "{}...", &text[..end])?,
    }
    f.write_char('"')
}

fn write_binary(subtype: u8, bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "BinData({subtype}, ")?;
    let shown = &bytes[..bytes.len().min(TEXT_CHARS_MAX / 2)];
    shown.iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
    f.write_str(if shown.len() < bytes.len() { "...)" } else { ")" })
}

fn write_array(elements: &[Value], depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(depth) = depth.checked_sub(1) else { return f.write_str("[ ... ]") };
    if elements.is_empty() {
        return f.write_str("[]");
    }
    f.write_str("[ ")?;
    for (at, element) in elements.iter().take(ELEMENTS_MAX).enumerate() {
        if at > 0 {
            f.write_str(", ")?;
        }
        write_value(element, depth, f)?;
    }
    f.write_str(if elements.len() > ELEMENTS_MAX { ", ... ]" } else { " ]" })
}

fn write_object(object: &Object, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(depth) = depth.checked_sub(1) else { return f.write_str("{ ... }") };
    if object.is_empty() {
        return f.write_str("{}");
    }
    f.write_str("{ ")?;
    for (at, (name, value)) in object.iter().take(ELEMENTS_MAX).enumerate() {
        if at > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{name}: ")?;
        write_value(value, depth, f)?;
    }
    f.write_str(if object.len() > ELEMENTS_MAX { ", ... }" } else { " }" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_look_as_in_a_shell() {
        let inner = Object::from_iter([("x".to_owned(), Value::Double(1.0))]);
        let object = Object::from_iter([
            ("a".to_owned(), Value::Int32(1)),
            ("b".to_owned(), Value::from("x")),
            ("c".to_owned(), Value::Array(vec![Value::Double(1.5), Value::Null])),
            ("d".to_owned(), Value::Object(inner)),
            ("e".to_owned(), Value::ObjectId([0xAB; 12])),
            ("f".to_owned(), Value::Array(Vec::new())),
        ]);
        let expected = "{ a: 1, b: \"x\", c: [ 1.5, null ], d: { x: 1.0 }, \
                        e: ObjectId('abababababababababababab'), f: [] }";
        assert_eq!(PrintedObject(&object).to_string(), expected);
        assert_eq!(PrintedField("v", &Value::from("s")).to_string(), "v: \"s\"");
        assert_eq!(Printed(&Value::Double(1e20)).to_string(), "1e+20");
    }

    #[test]
    fn what_is_large_is_cut() {
        let long = Value::from("ü".repeat(100_000));
        assert!(Printed(&long).to_string().len() < 1000);
        let many = Value::Array(vec![Value::Int32(1); 100_000]);
        assert!(Printed(&many).to_string().len() < 1000);
        let deep = (0..100).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        assert!(Printed(&deep).to_string().contains("[ ... ]"));
    }
}
