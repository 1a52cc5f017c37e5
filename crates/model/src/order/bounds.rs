//! What encodings in NoSQL order show without being decoded: the bounds of a type or of a string,
//! which strings are cut, and where the next encoding of a key begins.

use super::bytes::{CUT_END, HASH_BYTES, Kept, WHOLE_END, end_of, kept_of};
use super::{STRING_BYTES_MAX, Tag, TypeOrder, encode, numbers};
use crate::Value;

/// Above the first byte of every encoding.
pub const ABOVE_ALL: u8 = 0xFF;
/// Longest encoding of a string that is not cut.
pub const WHOLE_STRING_BYTES_MAX: usize = 1 + STRING_BYTES_MAX + WHOLE_END.len();

const NULL: u8 = Tag::Null.byte(TypeOrder::NoSql);
const FALSE: u8 = Tag::False.byte(TypeOrder::NoSql);
const TRUE: u8 = Tag::True.byte(TypeOrder::NoSql);
const NUMBER: u8 = Tag::Number.byte(TypeOrder::NoSql);
const STRING: u8 = Tag::String.byte(TypeOrder::NoSql);

/// The least bytes above all that begin with `prefix`, which begins with a tag.
pub fn successor(prefix: &[u8]) -> Vec<u8> {
    let kept = prefix.iter().rposition(|byte| *byte < u8::MAX).map_or(0, |last| last + 1);
    let mut out = prefix.get(..kept).unwrap_or_default().to_vec();
    match out.last_mut() {
        Some(last) => *last += 1,
        None => out.push(ABOVE_ALL),
    }
    out
}

/// Whether an encoding is that of a string and holds only its beginning and a hash.
pub fn is_cut(encoded: &[u8]) -> bool {
    end_of_string(encoded).is_some_and(|end| end.starts_with(&CUT_END))
}

/// Whether these bytes are the whole encoding of a null, boolean, number or string.
pub fn is_scalar(encoded: &[u8]) -> bool {
    match encoded {
        [NULL | FALSE | TRUE] => true,
        [NUMBER, body @ ..] => body.len() >= numbers::BYTES_MIN,
        [STRING, ..] => {
            end_of_string(encoded).is_some_and(|end| match end.strip_prefix(&CUT_END) {
                Some(hash) => hash.len() == HASH_BYTES,
                None => end.len() == WHOLE_END.len(),
            })
        }
        _ => false,
    }
}

/// Removes the hash from the encoding of a cut string, and returns whether there was one. Strings
/// with the same beginning are ordered by their hashes, which says nothing of the strings.
pub fn remove_hash(encoded: &mut Vec<u8>) -> bool {
    let is_cut = is_cut(encoded);
    if is_cut {
        encoded.truncate(encoded.len() - HASH_BYTES);
    }
    is_cut
}

/// The bytes that the encodings of all strings with this prefix begin with, and whether no other
/// encoding does.
pub fn string_prefix(prefix: &str) -> (Vec<u8>, bool) {
    let mut encoded = Vec::with_capacity(1 + prefix.len() + WHOLE_END.len());
    encode(TypeOrder::NoSql, Some(&Value::from(prefix)), &mut encoded);
    let is_cut = remove_hash(&mut encoded);
    if !is_cut {
        encoded.truncate(encoded.len() - WHOLE_END.len());
    }
    (encoded, !is_cut)
}

/// The first of several encodings by [`encode_whole`](super::encode_whole).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstEncoding {
    /// Its length, if it is complete and [`encode`] writes the same bytes.
    pub length: Option<usize>,
    /// What [`encode`] writes for every value with this encoding, or the beginning of that.
    pub bounded: Vec<u8>,
}

/// The first encoding of `key`, which may end anywhere. Its value is neither an array nor an
/// object.
pub fn first_encoding(key: &[u8]) -> FirstEncoding {
    let complete = |length: Option<usize>| {
        let length = length.filter(|length| *length <= key.len());
        let bounded = key.get(..length.unwrap_or(key.len())).unwrap_or_default().to_vec();
        FirstEncoding { length, bounded }
    };
    match key.split_first() {
        Some((&NUMBER, body)) => complete(numbers::length_of(body).map(|length| 1 + length)),
        Some((&STRING, body)) => match kept_of(body) {
            Kept::All(length) => complete(Some(1 + length)),
            Kept::Part(length) => {
                let mut bounded = key.get(..1 + length).unwrap_or_default().to_vec();
                bounded.extend(CUT_END);
                FirstEncoding { length: None, bounded }
            }
            Kept::Unknown => complete(None),
        },
        Some(_) => complete(Some(1)),
        None => complete(None),
    }
}

/// The end mark of a string and what follows it; `None` if the encoding is not that of a string or
/// has no end.
fn end_of_string(encoded: &[u8]) -> Option<&[u8]> {
    end_of(encoded.strip_prefix(&[STRING])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        encode(TypeOrder::NoSql, Some(&Value::from(text)), &mut out);
        out
    }

    #[test]
    fn successors_are_above_all_that_begin_alike() {
        assert_eq!(successor(&[0x38, 0x61]), [0x38, 0x62]);
        assert_eq!(successor(&[0x38, 0xFF, 0xFF]), [0x39]);
    }

    #[test]
    fn encodings_of_long_strings_are_told_from_others() {
        for text in ["", "a", "\0", "a\0b", "\u{10FFFF}", &"x".repeat(512)] {
            let bytes = encoded(text);
            assert!(!is_cut(&bytes) && bytes.len() <= WHOLE_STRING_BYTES_MAX, "{text:?}");
        }
        for text in [&"x".repeat(513), &"\0".repeat(257), &format!("{}\0", "x".repeat(511))] {
            let bytes = encoded(text);
            assert!(is_cut(&bytes) && bytes.len() > WHOLE_STRING_BYTES_MAX, "{text:?}");
        }
        assert!(!is_cut(&[Tag::Array.byte(TypeOrder::NoSql)]) && !is_cut(&[]));
    }
}
