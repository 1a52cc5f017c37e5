//! Values to binary JSON, in the plain forms only.
#![expect(clippy::little_endian_bytes, reason = "binary JSON is little-endian")]

use std::borrow::Cow;

use model::Value;

use super::PREAMBLE;
use super::marker::*;

/// Encodes `value`. Kinds of values that JSON lacks are written in the form they have in JSON text,
/// and a number that is not finite as null.
pub fn encode(value: &Value) -> Vec<u8> {
    // A container states its length before its content. Measuring all of them first, outermost
    // first, lets the second pass write each byte exactly once.
    let mut lengths = Vec::new();
    let total = measure(value, &mut lengths);
    let mut writer = Writer { out: Vec::with_capacity(total + 1), lengths: lengths.into_iter() };
    writer.out.push(PREAMBLE);
    writer.value(value);
    debug_assert_eq!(writer.out.len(), total + 1, "both passes see the same value");
    writer.out
}

/// Bytes that `value` takes; notes the content lengths of the containers in it, in the order in
/// which the writer needs them.
fn measure(value: &Value, lengths: &mut Vec<usize>) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 1,
        Value::Int64(n) => IntForm::of(*n).width(),
        Value::Double(n) if n.is_finite() => 9,
        Value::Double(_) => 1,
        Value::String(s) => measure_string(s),
        Value::Array(items) => measure_container(items.len(), lengths, |lengths| {
            items.iter().map(|item| measure(item, lengths)).sum()
        }),
        Value::Object(fields) => measure_container(fields.len(), lengths, |lengths| {
            fields.iter().map(|(name, v)| measure_string(name) + measure(v, lengths)).sum()
        }),
        Value::Int32(_)
        | Value::Decimal128(_)
        | Value::Binary { .. }
        | Value::Guid(_)
        | Value::Date(_)
        | Value::ObjectId(_)
        | Value::Timestamp { .. }
        | Value::Regex { .. }
        | Value::JavaScript { .. }
        | Value::Undefined
        | Value::DbPointer { .. }
        | Value::Symbol(_)
        | Value::MinKey
        | Value::MaxKey => measure(&plain(value), lengths),
    }
}

fn measure_container(
    count: usize,
    lengths: &mut Vec<usize>,
    measure_content: impl FnOnce(&mut Vec<usize>) -> usize,
) -> usize {
    if count == 0 {
        return 1;
    }
    let slot = lengths.len();
    lengths.push(0);
    let length = measure_content(lengths);
    lengths[slot] = length;
    length
        + match ContainerForm::of(length, count) {
            ContainerForm::One => 3,
            ContainerForm::Two => 5,
            ContainerForm::Four => 9,
        }
}

fn measure_string(text: &str) -> usize {
    if of_system_string(text).is_some() {
        return 1;
    }
    text.len()
        + match text.len() {
            0..=63 => 1,
            64..=0xFF => 2,
            0x100..=0xFFFF => 3,
            _ => 5,
        }
}

/// A value of the plain kinds that has the same JSON text as `value`.
fn plain(value: &Value) -> Cow<'static, Value> {
    let text = model::json::to_string(value);
    match model::json::parse(text.as_bytes(), usize::MAX) {
        Ok(parsed) => Cow::Owned(parsed.value),
        // Text that we wrote always parses; null is only a fallback.
        Err(_) => Cow::Owned(Value::Null),
    }
}

/// The narrowest form of an integer.
enum IntForm {
    Literal(u8),
    Byte(u8),
    I16(i16),
    I32(i32),
    I64(i64),
}

impl IntForm {
    fn of(n: i64) -> Self {
        if let Ok(byte) = u8::try_from(n) {
            return match byte {
                0..=LITERAL_INT_LAST => IntForm::Literal(byte),
                _ => IntForm::Byte(byte),
            };
        }
        match (i16::try_from(n), i32::try_from(n)) {
            (Ok(n), _) => IntForm::I16(n),
            (_, Ok(n)) => IntForm::I32(n),
            _ => IntForm::I64(n),
        }
    }

    fn width(&self) -> usize {
        match self {
            IntForm::Literal(_) => 1,
            IntForm::Byte(_) => 2,
            IntForm::I16(_) => 3,
            IntForm::I32(_) => 5,
            IntForm::I64(_) => 9,
        }
    }
}

/// Width of a container's length and of its count, which are equally wide.
enum ContainerForm {
    One,
    Two,
    Four,
}

impl ContainerForm {
    /// Every child takes a byte, so a count is never wider than the length.
    fn of(length: usize, count: usize) -> Self {
        debug_assert!(count <= length, "each child takes at least one byte");
        match length {
            0..=0xFF => ContainerForm::One,
            0x100..=0xFFFF => ContainerForm::Two,
            _ => ContainerForm::Four,
        }
    }
}

struct Writer {
    out: Vec<u8>,
    lengths: std::vec::IntoIter<usize>,
}

impl Writer {
    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.out.push(NULL),
            Value::Bool(false) => self.out.push(FALSE),
            Value::Bool(true) => self.out.push(TRUE),
            Value::Int64(n) => self.int(*n),
            Value::Double(n) if n.is_finite() => self.marked(NUMBER_F64, &n.to_le_bytes()),
            Value::Double(_) => self.out.push(NULL),
            Value::String(s) => self.string(s),
            Value::Array(items) if items.is_empty() => self.out.push(ARRAY_EMPTY),
            Value::Array(items) => {
                self.header([ARRAY_COUNT_1, ARRAY_COUNT_2, ARRAY_COUNT_4], items.len());
                items.iter().for_each(|item| self.value(item));
            }
            Value::Object(fields) if fields.is_empty() => self.out.push(OBJECT_EMPTY),
            Value::Object(fields) => {
                self.header([OBJECT_COUNT_1, OBJECT_COUNT_2, OBJECT_COUNT_4], fields.len());
                for (name, value) in fields.iter() {
                    self.string(name);
                    self.value(value);
                }
            }
            Value::Int32(_)
            | Value::Decimal128(_)
            | Value::Binary { .. }
            | Value::Guid(_)
            | Value::Date(_)
            | Value::ObjectId(_)
            | Value::Timestamp { .. }
            | Value::Regex { .. }
            | Value::JavaScript { .. }
            | Value::Undefined
            | Value::DbPointer { .. }
            | Value::Symbol(_)
            | Value::MinKey
            | Value::MaxKey => self.value(&plain(value)),
        }
    }

    fn marked(&mut self, marker: u8, payload: &[u8]) {
        self.out.push(marker);
        self.out.extend_from_slice(payload);
    }

    fn int(&mut self, n: i64) {
        match IntForm::of(n) {
            IntForm::Literal(byte) => self.out.push(byte),
            IntForm::Byte(byte) => self.marked(NUMBER_U8, &[byte]),
            IntForm::I16(n) => self.marked(NUMBER_I16, &n.to_le_bytes()),
            IntForm::I32(n) => self.marked(NUMBER_I32, &n.to_le_bytes()),
            IntForm::I64(n) => self.marked(NUMBER_I64, &n.to_le_bytes()),
        }
    }

    fn string(&mut self, text: &str) {
        if let Some(marker) = of_system_string(text) {
            self.out.push(marker);
            return;
        }
        let length = little_endian(text.len());
        match text.len() {
            0..=63 => self.out.push(SHORT_STRING_FIRST + length[0]),
            64..=0xFF => self.marked(STRING_1, &length[..1]),
            0x100..=0xFFFF => self.marked(STRING_2, &length[..2]),
            _ => self.marked(STRING_4, &length),
        }
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Writes a container's marker for the width of its measured length, then length and count.
    fn header(&mut self, [one, two, four]: [u8; 3], count: usize) {
        let length = self.lengths.next().unwrap_or_default();
        let (marker, width) = match ContainerForm::of(length, count) {
            ContainerForm::One => (one, 1),
            ContainerForm::Two => (two, 2),
            ContainerForm::Four => (four, 4),
        };
        self.out.push(marker);
        self.out.extend_from_slice(&little_endian(length)[..width]);
        self.out.extend_from_slice(&little_endian(count)[..width]);
    }
}

/// The low four bytes, lowest first. Items and pages are far below the limit of four bytes.
fn little_endian(n: usize) -> [u8; 4] {
    u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes()
}
