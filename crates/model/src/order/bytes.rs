//! Encoding of byte strings of any length, and the hash that replaces the part that is cut off.
//!
//! Byte 00 is written as `00 FF`. Up to 512 bytes so encoded end with `00 01`; a longer string is
//! cut there (never inside an escape, else the terminator would compare with half of it) and ends
//! with `00 02` and a hash of the whole.

use std::cmp::Ordering;

use sha2::{Digest, Sha256};

use super::{COMPOSITE_BYTES_MAX, STRING_BYTES_MAX};

const ESCAPED: u8 = 0xFF;
const END: u8 = 0x01;
const CUT: u8 = 0x02;
/// What ends an encoding that holds all bytes.
pub(super) const WHOLE_END: [u8; 2] = [0, END];
/// What follows the bytes that are kept of a long string, before the hash of all of them.
pub(super) const CUT_END: [u8; 2] = [0, CUT];
/// Length of that hash.
pub(super) const HASH_BYTES: usize = 16;

/// How bytes are mapped before they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// Unchanged.
    Plain,
    /// So that UTF-8 sorts like the same text in UTF-16.
    Utf16Order,
}

/// Appends the self-delimiting encoding of `bytes`, cut if it is long.
pub(super) fn encode_bytes(alphabet: Alphabet, bytes: &[u8], out: &mut Vec<u8>) {
    encode_up_to(STRING_BYTES_MAX, alphabet, bytes, out);
}

/// Appends the self-delimiting encoding of all of `bytes`.
pub(super) fn encode_all_bytes(alphabet: Alphabet, bytes: &[u8], out: &mut Vec<u8>) {
    encode_up_to(usize::MAX, alphabet, bytes, out);
}

fn encode_up_to(bytes_max: usize, alphabet: Alphabet, bytes: &[u8], out: &mut Vec<u8>) {
    if bytes.len() <= bytes_max && bytes.iter().all(|b| is_kept(*b)) {
        out.reserve(bytes.len() + 2);
        out.extend_from_slice(bytes);
        return out.extend_from_slice(&WHOLE_END);
    }
    let start = out.len();
    for &byte in bytes {
        let width = if byte == 0 { 2 } else { 1 };
        if out.len() - start + width > bytes_max {
            out.extend_from_slice(&CUT_END);
            return out.extend_from_slice(&strong_hash(bytes));
        }
        match (byte, alphabet) {
            (0, _) => out.extend_from_slice(&[0, ESCAPED]),
            (_, Alphabet::Plain) => out.push(byte),
            (_, Alphabet::Utf16Order) => out.push(utf16_rank(byte)),
        }
    }
    out.extend_from_slice(&WHOLE_END);
}

/// What follows the bytes of a string in its encoded body: the end mark, then what comes after it.
/// `None` if there is no end mark.
pub(super) fn end_of(mut body: &[u8]) -> Option<&[u8]> {
    while let Some((&byte, rest)) = body.split_first() {
        match (byte, rest.first()) {
            // Zero stands for itself only if it is escaped.
            (0, Some(&ESCAPED)) => body = rest.get(1..).unwrap_or_default(),
            (0, _) => return Some(body),
            _ => body = rest,
        }
    }
    None
}

/// How much of the body of a string that is encoded whole is in its bounded encoding.
pub(super) enum Kept {
    /// All of it: this many bytes, with the end mark.
    All(usize),
    /// This many bytes, then it is cut.
    Part(usize),
    /// Unknown: the body has no end, and is not long enough to be cut.
    Unknown,
}

/// How much of `body`, which may end anywhere, [`encode_bytes`] keeps.
pub(super) fn kept_of(body: &[u8]) -> Kept {
    let mut at = 0;
    while let Some(&byte) = body.get(at) {
        let width = match (byte, body.get(at + 1)) {
            (0, Some(&ESCAPED)) => 2,
            (0, Some(_)) => return Kept::All(at + WHOLE_END.len()),
            // Half of an escape sequence or of the end mark.
            (0, None) => return Kept::Unknown,
            _ => 1,
        };
        if at + width > STRING_BYTES_MAX {
            return Kept::Part(at);
        }
        at += width;
    }
    Kept::Unknown
}

/// Whether a byte is written unchanged in every alphabet.
fn is_kept(byte: u8) -> bool {
    byte != 0 && byte < 0xEE
}

/// UTF-16 sorts the surrogates of supplementary characters (UTF-8 lead bytes F0 to F4) before
/// U+E000 to U+FFFF (lead bytes EE and EF). Exchanging the two groups is enough: every other byte
/// keeps its position, and continuation bytes are below all of them.
fn utf16_rank(byte: u8) -> u8 {
    match byte {
        0xEE | 0xEF => byte + 5,
        0xF0..=0xF4 => byte - 2,
        _ => byte,
    }
}

/// Compares two texts as UTF-16 code units.
pub(super) fn compare_utf16_order(a: &str, b: &str) -> Ordering {
    let differing = a.bytes().zip(b.bytes()).find(|(a, b)| a != b);
    match differing {
        Some((a, b)) => utf16_rank(a).cmp(&utf16_rank(b)),
        None => a.len().cmp(&b.len()),
    }
}

/// The first 16 bytes of SHA-256.
pub(super) fn strong_hash(bytes: &[u8]) -> [u8; HASH_BYTES] {
    first_16(Sha256::digest(bytes).as_slice())
}

fn first_16(digest: &[u8]) -> [u8; HASH_BYTES] {
    let mut first = [0; HASH_BYTES];
    for (to, from) in first.iter_mut().zip(digest) {
        *to = *from;
    }
    first
}

/// The hash of a composite that is being cut.
pub(super) struct CompositeHash(Sha256);

impl CompositeHash {
    pub(super) fn finish(self) -> [u8; HASH_BYTES] {
        first_16(self.0.finalize().as_slice())
    }
}

/// Keeps a composite that started at `start` within its limit after the item at `item_start` was
/// appended. Once the limit is exceeded, every item is hashed and the excess is dropped.
pub(super) fn cut_and_hash(
    whole: &mut Option<CompositeHash>,
    start: usize,
    item_start: usize,
    out: &mut Vec<u8>,
) {
    if whole.is_none() && out.len() - start <= COMPOSITE_BYTES_MAX {
        return;
    }
    let hashed_from = if whole.is_none() { start } else { item_start };
    let hash = whole.get_or_insert_with(|| CompositeHash(Sha256::new()));
    hash.0.update(&out[hashed_from..]);
    out.truncate(start + COMPOSITE_BYTES_MAX);
}
