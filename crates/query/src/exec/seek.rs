//! Finds where in an index a position is.
//!
//! Sort keys hold strings whole, and arrays and objects as their hash. An index holds a prefix of a
//! long string, and only the type of arrays and objects. So the part of a sort key after such a
//! value does not determine a position in the index.

use model::order::bounds::{FirstEncoding, first_encoding};
use model::order::{STRING_BYTES_MAX, Tag, TypeOrder};

use crate::plan::SortOrder;

const ARRAY: u8 = Tag::Array.byte(TypeOrder::NoSql);
const OBJECT: u8 = Tag::Object.byte(TypeOrder::NoSql);

/// The position at which an ordered page begins in an index with a column for each sort key. An
/// index key is the terms of all columns one after the other, with the bytes of descending columns
/// complemented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexStart {
    /// The least index key that an item of the page can have.
    pub key: Vec<u8>,
    /// The least [tie](crate::Plan::tie_of) that an item with exactly this index key can have.
    pub tie: u64,
}

/// The position of the first item that has this sort key, or a key that begins with it or comes
/// later, and at least this tie if the key is the same.
pub(super) fn index_start(sort_key: &[u8], tie: u64, orders: &[SortOrder]) -> IndexStart {
    let mut out = Vec::with_capacity(sort_key.len().min(2 * STRING_BYTES_MAX));
    let mut rest = sort_key;
    for order in orders {
        let flip = match order {
            SortOrder::Ascending => 0x00,
            SortOrder::Descending => 0xFF,
        };
        let column: Vec<u8> = rest.iter().map(|byte| byte ^ flip).collect();
        let FirstEncoding { length, bounded } = first_column(&column);
        out.extend(bounded.iter().map(|byte| byte ^ flip));
        match length.and_then(|length| rest.get(length..)) {
            Some(after) => rest = after,
            None => return IndexStart { key: out, tie: 0 },
        }
    }
    IndexStart { key: out, tie }
}

/// The first column of a sort key: its length, if the index can distinguish it from others, and the
/// beginning of the term of every value with this column.
fn first_column(key: &[u8]) -> FirstEncoding {
    match key.first() {
        Some(tag @ &(ARRAY | OBJECT)) => FirstEncoding { length: None, bounded: vec![*tag] },
        _ => first_encoding(key),
    }
}
