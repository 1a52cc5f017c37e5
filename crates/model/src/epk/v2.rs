//! Version 2: one 128-bit MurmurHash3 over the components, with the two top bits cleared.

use smallvec::SmallVec;

use super::Epk;
use crate::PartitionKeyComponent;
use crate::hash::murmur3_x64_128;
use crate::partition_key::ENCODED;

/// The bytes of a key that are hashed; most keys need no allocation.
pub(super) type HashInput = SmallVec<[u8; 64]>;

/// Ends a string, so that no text is a prefix of another.
const STRING_END: u8 = 0xFF;
/// Clears the top bits, so that every hash sorts below the bound `FF`.
const TOP_BYTE_MASK: u8 = 0x3F;

/// The position of a key that is hashed as a whole (or of one level of a hierarchical key).
pub(super) fn effective_bytes(components: &[PartitionKeyComponent]) -> [u8; 16] {
    let mut bytes = HashInput::new();
    for component in components {
        append_for_hash(component, STRING_END, &mut bytes);
    }
    // The halves little-endian, then all 16 bytes reversed: big-endian with the second half first.
    let mut place = murmur3_x64_128(&bytes, 0).to_be_bytes();
    place[0] &= TOP_BYTE_MASK;
    place
}

/// The bytes of a component that are hashed, in either version.
#[expect(clippy::little_endian_bytes, reason = "clients hash the double's little-endian bytes")]
pub(super) fn append_for_hash(
    component: &PartitionKeyComponent,
    string_end: u8,
    out: &mut HashInput,
) {
    match component {
        PartitionKeyComponent::Undefined => out.push(0x00),
        PartitionKeyComponent::Null => out.push(0x01),
        PartitionKeyComponent::Bool(false) => out.push(0x02),
        PartitionKeyComponent::Bool(true) => out.push(0x03),
        PartitionKeyComponent::Number(n) => {
            out.push(0x05);
            out.extend_from_slice(&n.to_bits().to_le_bytes());
        }
        PartitionKeyComponent::String(text) => {
            out.push(0x08);
            out.extend_from_slice(text.as_bytes());
            out.push(string_end);
        }
        PartitionKeyComponent::Encoded(bytes) => {
            out.push(ENCODED);
            out.extend_from_slice(bytes);
            out.push(string_end);
        }
    }
}

/// Boundary `i` of `n` equal ranges.
pub(super) fn boundary(i: u32, n: u32) -> Epk {
    let width = ((1_u128 << 126) - 1) / u128::from(n);
    Epk::from_bytes(&(width * u128::from(i)).to_be_bytes())
}

/// The position half-way between `min` and `max`, as numbers.
pub(super) fn midpoint(min: &[u8], max: &[u8]) -> Epk {
    // For an open end, the midpoint of all hashes that can occur.
    let last = ((1_u128 << 126) - 1).to_be_bytes();
    let max = max.min(&last[..]);
    let len = min.len().max(max.len()).max(last.len());
    let half = average(min, max, len);
    if half.as_slice() > min {
        return Epk::from_bytes(&half);
    }
    // Neighbours of the same length: one more byte makes room between them.
    Epk::from_bytes(&average(min, max, len + 1))
}

/// Half the sum of two numbers, big-endian, padded with zero bytes to `len`.
fn average(a: &[u8], b: &[u8], len: usize) -> Vec<u8> {
    let digit = |bytes: &[u8], at: usize| u16::from(bytes.get(at).copied().unwrap_or(0));
    let mut sum = vec![0u16; len];
    let mut carry = 0;
    for at in (0..len).rev() {
        let digits = digit(a, at) + digit(b, at) + carry;
        sum[at] = digits & 0xFF;
        carry = digits >> 8;
    }
    let mut from_left = carry;
    sum.into_iter()
        .map(|byte| {
            let whole = from_left << 8 | byte;
            from_left = whole & 1;
            u8::try_from(whole >> 1).unwrap_or(u8::MAX)
        })
        .collect()
}
