//! Finds where in an index a position is.
//!
//! Sort keys hold strings whole, and arrays and objects as their hash. An index holds a prefix of a
//! long string, and only the type of arrays and objects. So the part of a sort key after such a
//! value does not determine a position in the index.

use model::order::STRING_BYTES_MAX;

use crate::plan::SortOrder;

const NUMBER: u8 = 0x30;
const STRING: u8 = 0x38;
const ARRAY: u8 = 0x40;
const OBJECT: u8 = 0x48;
const ESCAPED: u8 = 0xFF;
/// Follows the prefix of a long string.
const CUT_END: [u8; 2] = [0x00, 0x02];
/// The tag and eight bytes of a double come before the side.
const SIDE_AT: usize = 9;
const SIDE_EXACT: u8 = 0x80;

/// The position at which an ordered page begins in an index with a column for each sort key. An
/// index key is the terms of all columns one after the other, with the bytes of descending columns
/// complemented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexStart {
    /// The least index key that an item of the page can have.
    pub key: Vec<u8>,
    /// The least number that an item with exactly this index key can have.
    pub number: u64,
}

/// The position of the first item that has this sort key, or a key that begins with it or comes
/// later, and at least this number if the key is the same.
pub(super) fn index_start(sort_key: &[u8], number: u64, orders: &[SortOrder]) -> IndexStart {
    let mut out = Vec::with_capacity(sort_key.len().min(2 * STRING_BYTES_MAX));
    let mut rest = sort_key;
    for order in orders {
        let flip = match order {
            SortOrder::Ascending => 0x00,
            SortOrder::Descending => 0xFF,
        };
        let column: Vec<u8> = rest.iter().map(|byte| byte ^ flip).collect();
        let Column { length, term } = Column::first_of(&column);
        out.extend(term.iter().map(|byte| byte ^ flip));
        match length.and_then(|length| rest.get(length..)) {
            Some(after) => rest = after,
            None => return IndexStart { key: out, number: 0 },
        }
    }
    IndexStart { key: out, number }
}

/// The first column of a sort key.
struct Column {
    /// Where the next column begins, if the index can distinguish this one.
    length: Option<usize>,
    /// What the term of every value with this key begins with.
    term: Vec<u8>,
}

impl Column {
    fn first_of(key: &[u8]) -> Self {
        match key.first() {
            Some(&NUMBER) => Self::up_to(number_length(key), key),
            Some(&STRING) => Self::of_string(key),
            Some(&(ARRAY | OBJECT)) => Self { length: None, term: key[..1].to_vec() },
            Some(_) => Self::up_to(Some(1), key),
            None => Self { length: None, term: Vec::new() },
        }
    }

    /// A column that the index holds unchanged.
    fn up_to(length: Option<usize>, key: &[u8]) -> Self {
        let whole = length.filter(|length| *length <= key.len());
        Self {
            length: whole,
            term: key.get(..whole.unwrap_or(key.len())).unwrap_or_default().to_vec(),
        }
    }

    fn of_string(key: &[u8]) -> Self {
        let mut at = 1;
        while let Some(&byte) = key.get(at) {
            let width = match (byte, key.get(at + 1)) {
                (0x00, Some(&ESCAPED)) => 2,
                (0x00, Some(_)) => return Self::up_to(Some(at + 2), key),
                // Half of an escape sequence or of the end mark.
                (0x00, None) => break,
                _ => 1,
            };
            if at + width > 1 + STRING_BYTES_MAX {
                let mut term = key.get(..at).unwrap_or_default().to_vec();
                term.extend(CUT_END);
                return Self { length: None, term };
            }
            at += width;
        }
        Self::up_to(None, key)
    }
}

/// The length of an encoded number; `None` if the key ends before that is known.
fn number_length(key: &[u8]) -> Option<usize> {
    let side = *key.get(SIDE_AT)?;
    if side == SIDE_EXACT {
        return Some(SIDE_AT + 1);
    }
    // The exact value: an exponent of two bytes and pairs of digits up to a zero, all of it
    // complemented for negative numbers, whose double has no sign bit.
    let is_negative = key.get(1)? & 0x80 == 0;
    let end = if is_negative { 0xFF } else { 0x00 };
    let digits_at = SIDE_AT + 3;
    let digits = key.get(digits_at..)?.iter().position(|byte| *byte == end)?;
    Some(digits_at + digits + 1)
}
