//! Version 1: a 32-bit MurmurHash3 as an ordered number, then the components themselves in an
//! ordered form; strings are cut to their first 100 characters.

use smallvec::SmallVec;

use super::Epk;
use super::v2::{HashInput, append_for_hash};
use crate::PartitionKeyComponent;
use crate::hash::{murmur3_x64_128, murmur3_x86_32};
use crate::limits::PARTITION_KEY_V1_CHARS_HASHED;
use crate::partition_key::ENCODED;

const STRING_END: u8 = 0x00;
/// A longer text is written with one byte more and without its end mark.
const STRING_BYTES_ENDED_MAX: usize = 100;

/// The position of a key.
pub(super) fn effective_bytes(components: &[PartitionKeyComponent]) -> SmallVec<[u8; 16]> {
    let cut: SmallVec<[PartitionKeyComponent; 1]> = components.iter().map(cut_string).collect();
    let mut bytes = HashInput::new();
    for component in &cut {
        append_for_hash(component, STRING_END, &mut bytes);
    }
    let mut out = SmallVec::new();
    append_number(f64::from(murmur3_x86_32(&bytes, 0)), &mut out);
    for component in &cut {
        append_component(component, &mut out);
    }
    out
}

/// Boundary `i` of `n` equal ranges.
pub(super) fn boundary(i: u32, n: u32) -> Epk {
    let mut out = SmallVec::new();
    append_number(f64::from((u32::MAX / n) * i), &mut out);
    Epk::from_bytes(&out)
}

/// The boundary half-way between the hashes at which `min` and `max` begin.
pub(super) fn midpoint(min: &[u8], max: &[u8]) -> Epk {
    let low = hash_at(min).unwrap_or(0);
    let high = hash_at(max).unwrap_or(u32::MAX);
    let mut out = SmallVec::new();
    append_number(f64::from(low + high.saturating_sub(low) / 2), &mut out);
    Epk::from_bytes(&out)
}

/// The hash at the beginning of a position, if there is one. Inverse of [`append_number`].
fn hash_at(place: &[u8]) -> Option<u32> {
    let (&top, rest) = place.strip_prefix(&[0x05])?.split_first()?;
    let mut ordered = u64::from(top) << 56;
    let mut shift = 49i32;
    for byte in rest {
        let bits = u64::from(byte >> 1);
        ordered |= if shift >= 0 { bits << shift } else { bits >> -shift };
        shift -= 7;
        if byte & 1 == 0 || shift < -7 {
            break;
        }
    }
    let number = f64::from_bits(ordered ^ 1 << 63);
    let is_hash = number >= 0.0 && number <= f64::from(u32::MAX);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "just checked")]
    is_hash.then_some(number as u32)
}

/// A string cut to its first 100 UTF-16 code units. Half of a surrogate pair becomes U+FFFD, as
/// in the client libraries when they turn the cut text into UTF-8.
fn cut_string(component: &PartitionKeyComponent) -> PartitionKeyComponent {
    match component {
        PartitionKeyComponent::String(text) if text.len() > PARTITION_KEY_V1_CHARS_HASHED => {
            let units = text.encode_utf16().take(PARTITION_KEY_V1_CHARS_HASHED);
            let cut = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
            PartitionKeyComponent::String(cut.collect())
        }
        PartitionKeyComponent::Undefined
        | PartitionKeyComponent::Null
        | PartitionKeyComponent::Bool(_)
        | PartitionKeyComponent::Number(_)
        | PartitionKeyComponent::String(_)
        | PartitionKeyComponent::Encoded(_) => component.clone(),
    }
}

fn append_component(component: &PartitionKeyComponent, out: &mut SmallVec<[u8; 16]>) {
    match component {
        PartitionKeyComponent::Undefined => out.push(0x00),
        PartitionKeyComponent::Null => out.push(0x01),
        PartitionKeyComponent::Bool(false) => out.push(0x02),
        PartitionKeyComponent::Bool(true) => out.push(0x03),
        PartitionKeyComponent::Number(n) => append_number(*n, out),
        PartitionKeyComponent::String(text) => append_string(text.as_bytes(), out),
        PartitionKeyComponent::Encoded(bytes) => {
            out.push(ENCODED);
            out.extend_from_slice(&murmur3_x64_128(bytes, 0).to_be_bytes());
        }
    }
}

/// Marker, top byte, then groups of seven bits, each in the high end of a byte whose low bit says
/// whether more bytes follow.
fn append_number(n: f64, out: &mut SmallVec<[u8; 16]>) {
    let bits = n.to_bits();
    let is_negative = bits >> 63 == 1;
    let ordered = if is_negative { (!bits).wrapping_add(1) } else { bits ^ 1 << 63 };
    out.extend([0x05, top_byte(ordered)]);
    let mut rest = ordered << 8;
    while rest != 0 {
        let more = u8::from(rest << 7 != 0);
        out.push(top_byte(rest) & 0xFE | more);
        rest <<= 7;
    }
}

fn top_byte(n: u64) -> u8 {
    n.to_be_bytes()[0]
}

/// Marker, each byte plus one (so that none equals the end mark), end mark.
fn append_string(text: &[u8], out: &mut SmallVec<[u8; 16]>) {
    out.push(0x08);
    let is_ended = text.len() <= STRING_BYTES_ENDED_MAX;
    let written = text.iter().take(STRING_BYTES_ENDED_MAX + 1);
    out.extend(written.map(|b| b.saturating_add(1)));
    if is_ended {
        out.push(STRING_END);
    }
}
