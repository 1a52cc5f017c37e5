//! Order-preserving encoding of values as bytes: comparing the bytes compares the values.
//!
//! The one place that knows how a value sorts; layouts are drawn in `docs/format.md`.

use std::cmp::Ordering;

use crate::Value;

/// Whose type order a container follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeOrder {
    /// undefined < null < false < true < number < string < array < object; strings in UTF-16 order.
    NoSql,
    /// BSON comparison order, for Mongo containers.
    Bson,
}

/// Appends the encoding of `value` (`None` = undefined). Self-delimiting: encodings may be
/// concatenated, and then compare component by component.
pub fn encode(order: TypeOrder, value: Option<&Value>, out: &mut Vec<u8>) {
    todo!("{order:?} {value:?} {out:?}")
}

/// Compares two values directly, agreeing with the order of their encodings except where an
/// encoding is cut (long strings).
pub fn compare(order: TypeOrder, a: Option<&Value>, b: Option<&Value>) -> Ordering {
    todo!("{order:?} {a:?} {b:?}")
}
