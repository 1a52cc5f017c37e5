//! Order-preserving encoding of values as bytes: comparing the bytes compares the values.
//!
//! The only module that knows how values sort; layouts are shown in `docs/format.md`. An encoding
//! is a tag byte for the type, then a body that is never a prefix of another body of that tag. So
//! encodings may be concatenated, and a column is made descending by complementing its bytes.
//!
//! Encodings are bounded ([`ENCODED_BYTES_MAX`]): long strings and binaries, and in BSON order
//! large arrays and objects, are cut and carry a strong hash of the whole. Equality stays exact; an
//! answer to a range predicate from cut encodings must be checked against the value. Where an
//! encoding must be exact, as in row keys, [`encode_whole`] cuts nothing.

use std::cmp::Ordering;

use crate::hash::{array_hash, distinct_hash, hash_bytes, object_hash};
use crate::value::Object;
use crate::{Value, number};

pub mod bounds;
mod bytes;
mod numbers;
mod tags;

use bytes::{Alphabet, cut_and_hash, encode_bytes, strong_hash};
use tags::tag_byte;

pub use tags::Tag;

/// The type order of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeOrder {
    /// undefined < null < false < true < number < string < array < object; strings in UTF-16 order,
    /// arrays and objects by their distinct hash. Types that JSON lacks follow after objects.
    NoSql,
    /// BSON comparison order, for Mongo containers: strings by their bytes, arrays and objects
    /// element by element.
    Bson,
}

/// Most bytes of a string, binary, regular expression or code that are encoded unchanged.
pub const STRING_BYTES_MAX: usize = 512;
/// Most bytes of the elements of an array or object in BSON order that are encoded unchanged.
pub const COMPOSITE_BYTES_MAX: usize = 1024;
/// Upper bound of the length of any encoding.
pub const ENCODED_BYTES_MAX: usize = 2 * COMPOSITE_BYTES_MAX;

/// Appends the encoding of `value` (`None` = undefined). Self-delimiting: encodings may be
/// concatenated, and then compare component by component.
pub fn encode(order: TypeOrder, value: Option<&Value>, out: &mut Vec<u8>) {
    encode_with(Form { order, extent: Extent::Bounded }, value, out);
}

/// The first byte of the encoding of `value`, which determines its type.
pub fn tag(order: TypeOrder, value: Option<&Value>) -> u8 {
    tag_byte(order, value)
}

/// As [`encode`], with nothing cut however long it is. The encodings sort like the values.
pub fn encode_whole(order: TypeOrder, value: Option<&Value>, out: &mut Vec<u8>) {
    encode_with(Form { order, extent: Extent::Whole }, value, out);
}

/// How values are encoded.
#[derive(Clone, Copy)]
struct Form {
    order: TypeOrder,
    extent: Extent,
}

/// How much of long values an encoding holds.
#[derive(Clone, Copy)]
enum Extent {
    /// The beginning and a hash.
    Bounded,
    /// Everything.
    Whole,
}

fn encode_with(form: Form, value: Option<&Value>, out: &mut Vec<u8>) {
    out.push(tag_byte(form.order, value));
    if let Some(value) = value {
        encode_body(form, value, out);
    }
}

/// Compares two values directly, agreeing with the order of their encodings except where an
/// encoding is cut (long strings and binaries, large arrays and objects in BSON order). A total
/// order: NaN equals itself and is below every other number.
pub fn compare(order: TypeOrder, a: Option<&Value>, b: Option<&Value>) -> Ordering {
    tag_byte(order, a).cmp(&tag_byte(order, b)).then_with(|| match (a, b) {
        (Some(a), Some(b)) => compare_same_tag(order, a, b),
        _ => Ordering::Equal,
    })
}

fn encode_body(form: Form, value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Undefined | Value::Null | Value::MinKey | Value::MaxKey => {}
        Value::Bool(b) => encode_bool(form, *b, out),
        Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Decimal128(_) => {
            numbers::encode(value, out);
        }
        Value::String(text) | Value::Symbol(text) => encode_text(form, text, out),
        Value::Binary { subtype, bytes } => encode_binary(form, *subtype, bytes, out),
        Value::Guid(guid) => encode_guid(form, guid, out),
        Value::Date(date) => {
            out.extend_from_slice(&ordered_i64(date.millis));
            out.extend_from_slice(&date.ticks.to_be_bytes());
        }
        Value::ObjectId(id) => out.extend_from_slice(id),
        Value::Timestamp { seconds, increment } => {
            out.extend_from_slice(&seconds.to_be_bytes());
            out.extend_from_slice(&increment.to_be_bytes());
        }
        Value::Regex { pattern, options } => {
            encode_text(form, pattern, out);
            encode_text(form, options, out);
        }
        Value::JavaScript { code, scope } => {
            encode_text(form, code, out);
            if let Some(scope) = scope {
                encode_object(form, scope, out);
            }
        }
        Value::DbPointer { namespace, id } => {
            // As MongoDB has it, the length of the name counts before its letters.
            let length = u32::try_from(namespace.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&length.to_be_bytes());
            encode_text(form, namespace, out);
            out.extend_from_slice(id);
        }
        Value::Array(elements) => encode_array(form, elements, out),
        Value::Object(object) => encode_object(form, object, out),
    }
}

/// False and true have tags of their own in NoSQL order.
fn encode_bool(form: Form, b: bool, out: &mut Vec<u8>) {
    match form.order {
        TypeOrder::NoSql => {}
        TypeOrder::Bson => out.push(u8::from(b)),
    }
}

fn encode_text(form: Form, text: &str, out: &mut Vec<u8>) {
    encode_plain_bytes(form.extent, alphabet(form.order), text.as_bytes(), out);
}

fn encode_plain_bytes(extent: Extent, alphabet: Alphabet, bytes: &[u8], out: &mut Vec<u8>) {
    match extent {
        Extent::Bounded => encode_bytes(alphabet, bytes, out),
        Extent::Whole => bytes::encode_all_bytes(alphabet, bytes, out),
    }
}

fn alphabet(order: TypeOrder) -> Alphabet {
    match order {
        TypeOrder::NoSql => Alphabet::Utf16Order,
        TypeOrder::Bson => Alphabet::Plain,
    }
}

/// Table clients compare binaries byte by byte; BSON compares length, then subtype, then bytes.
fn encode_binary(form: Form, subtype: u8, bytes: &[u8], out: &mut Vec<u8>) {
    match form.order {
        TypeOrder::NoSql => {
            encode_plain_bytes(form.extent, Alphabet::Plain, bytes, out);
            out.push(subtype);
        }
        TypeOrder::Bson => {
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&length.to_be_bytes());
            out.push(subtype);
            match (form.extent, bytes.split_at_checked(STRING_BYTES_MAX)) {
                (Extent::Bounded, Some((head, tail))) if !tail.is_empty() => {
                    out.extend_from_slice(head);
                    out.extend_from_slice(&strong_hash(bytes));
                }
                (Extent::Bounded | Extent::Whole, _) => out.extend_from_slice(bytes),
            }
        }
    }
}

/// In BSON a guid is a binary of subtype 4.
fn encode_guid(form: Form, guid: &[u8; 16], out: &mut Vec<u8>) {
    match form.order {
        TypeOrder::NoSql => out.extend_from_slice(guid),
        TypeOrder::Bson => encode_binary(form, GUID_SUBTYPE, guid, out),
    }
}

const GUID_SUBTYPE: u8 = 4;

fn encode_array(form: Form, elements: &[Value], out: &mut Vec<u8>) {
    match form.order {
        TypeOrder::NoSql => out.extend_from_slice(&hash_bytes(array_hash(elements))),
        TypeOrder::Bson => {
            let encode_element =
                |element: &Value, out: &mut Vec<u8>| encode_with(form, Some(element), out);
            encode_composite(form.extent, elements.iter(), encode_element, out);
        }
    }
}

fn encode_object(form: Form, object: &Object, out: &mut Vec<u8>) {
    match form.order {
        TypeOrder::NoSql => out.extend_from_slice(&hash_bytes(object_hash(object))),
        TypeOrder::Bson => encode_composite(
            form.extent,
            object.iter(),
            |(name, value): (&str, &Value), out: &mut Vec<u8>| {
                // Fields compare by type, then name, then value.
                out.push(tag_byte(form.order, Some(value)));
                encode_text(form, name, out);
                encode_body(form, value, out);
            },
            out,
        ),
    }
}

/// Appends the encodings of `items`, each of which starts with a tag (never zero), and an end
/// mark; or, if bounded, their first [`COMPOSITE_BYTES_MAX`] bytes, a mark and a hash over all of
/// them.
fn encode_composite<I>(
    extent: Extent,
    items: impl Iterator<Item = I>,
    encode_item: impl Fn(I, &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let mut whole = None;
    for item in items {
        let item_start = out.len();
        encode_item(item, out);
        match extent {
            Extent::Bounded => cut_and_hash(&mut whole, start, item_start, out),
            Extent::Whole => {}
        }
    }
    match whole {
        None => out.push(COMPOSITE_END),
        Some(whole) => {
            out.push(COMPOSITE_CUT);
            out.extend_from_slice(&whole.finish());
        }
    }
}

const COMPOSITE_END: u8 = 0;
const COMPOSITE_CUT: u8 = 1;

fn compare_same_tag(order: TypeOrder, a: &Value, b: &Value) -> Ordering {
    match (order, a, b) {
        (_, Value::String(a) | Value::Symbol(a), Value::String(b) | Value::Symbol(b)) => {
            compare_text(order, a, b)
        }
        (_, Value::Date(a), Value::Date(b)) => a.cmp(b),
        (TypeOrder::Bson, Value::Array(a), Value::Array(b)) => compare_arrays(a, b),
        (TypeOrder::Bson, Value::Object(a), Value::Object(b)) => compare_objects(a, b),
        (TypeOrder::NoSql, Value::Array(_), _) | (TypeOrder::NoSql, Value::Object(_), _) => {
            hash_bytes(distinct_hash(a)).cmp(&hash_bytes(distinct_hash(b)))
        }
        (_, Value::Regex { pattern, options }, Value::Regex { pattern: p, options: o }) => {
            compare_text(order, pattern, p).then_with(|| compare_text(order, options, o))
        }
        (_, Value::JavaScript { code, scope }, Value::JavaScript { code: c, scope: s }) => {
            compare_text(order, code, c).then_with(|| compare_scopes(order, scope, s))
        }
        (_, Value::DbPointer { namespace, id }, Value::DbPointer { namespace: n, id: i }) => {
            let lengths = namespace.len().cmp(&n.len());
            lengths.then_with(|| compare_text(order, namespace, n)).then_with(|| id.cmp(i))
        }
        _ => compare_rest(order, a, b),
    }
}

/// Numbers, binaries and the types of fixed width.
fn compare_rest(order: TypeOrder, a: &Value, b: &Value) -> Ordering {
    if let Some(ordering) = number::compare(a, b) {
        return ordering;
    }
    if let (Some(a), Some(b)) = (binary_parts(a), binary_parts(b)) {
        return match order {
            TypeOrder::NoSql => a.1.cmp(b.1).then(a.0.cmp(&b.0)),
            TypeOrder::Bson => a.1.len().cmp(&b.1.len()).then(a.cmp(&b)),
        };
    }
    // None of the remaining types is ever cut, so the order of encodings is exact.
    let encoded = |value: &Value| {
        let mut out = Vec::with_capacity(32);
        encode_body(Form { order, extent: Extent::Whole }, value, &mut out);
        out
    };
    encoded(a).cmp(&encoded(b))
}

fn binary_parts(value: &Value) -> Option<(u8, &[u8])> {
    if let Value::Binary { subtype, bytes } = value {
        return Some((*subtype, bytes));
    }
    if let Value::Guid(guid) = value { Some((GUID_SUBTYPE, guid)) } else { None }
}

/// NoSQL compares UTF-16 code units, BSON bytes.
pub fn compare_text(order: TypeOrder, a: &str, b: &str) -> Ordering {
    match order {
        TypeOrder::NoSql => bytes::compare_utf16_order(a, b),
        TypeOrder::Bson => a.cmp(b),
    }
}

fn compare_scopes(order: TypeOrder, a: &Option<Box<Object>>, b: &Option<Box<Object>>) -> Ordering {
    let (Some(a), Some(b)) = (a, b) else {
        return a.is_some().cmp(&b.is_some());
    };
    match order {
        TypeOrder::NoSql => hash_bytes(object_hash(a)).cmp(&hash_bytes(object_hash(b))),
        TypeOrder::Bson => compare_objects(a, b),
    }
}

fn compare_arrays(a: &[Value], b: &[Value]) -> Ordering {
    let order = TypeOrder::Bson;
    let mut elements = a.iter().zip(b).map(|(a, b)| compare(order, Some(a), Some(b)));
    elements.find(|ordering| ordering.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn compare_objects(a: &Object, b: &Object) -> Ordering {
    let order = TypeOrder::Bson;
    for ((a_name, a_value), (b_name, b_value)) in a.iter().zip(b.iter()) {
        let ordering = tag_byte(order, Some(a_value))
            .cmp(&tag_byte(order, Some(b_value)))
            .then_with(|| a_name.cmp(b_name))
            .then_with(|| compare_same_tag(order, a_value, b_value));
        if ordering.is_ne() {
            return ordering;
        }
    }
    a.len().cmp(&b.len())
}

/// Big-endian with the sign bit flipped: bytes in the order of the numbers.
fn ordered_i64(n: i64) -> [u8; 8] {
    (n ^ i64::MIN).to_be_bytes()
}

#[cfg(test)]
mod tests;
