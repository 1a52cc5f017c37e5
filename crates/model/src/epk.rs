//! The effective partition key: a partition key's position on the hash line.
//!
//! Exactly the SDKs' MurmurHash V1, V2 and MultiHash, since clients compute it themselves.
//! `docs/format.md` shows how the bytes are computed.

use std::fmt;

use smallvec::SmallVec;

use crate::limits::EPK_HEX_CHARS_MAX;
use crate::{
    PartitionKey, PartitionKeyComponent, PartitionKeyDefinition, PartitionKeyKind,
    PartitionKeyVersion,
};

mod v1;
mod v2;

/// A position on the hash line. Compared as bytes; trailing zero bytes are not significant and are
/// not stored, so that derived order and equality hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epk(SmallVec<[u8; 16]>);

/// A half-open range of the hash line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EpkRange {
    /// Lower bound, included.
    pub min: Epk,
    /// Upper bound, excluded.
    pub max: Epk,
}

/// A bound that is not hexadecimal text of even length within the limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a valid effective partition key")]
pub struct EpkError(pub String);

/// The byte of the bound above every key. No key's first byte (V1: 05, V2: at most 3F) and no
/// level of a hierarchical key reaches it.
const ABOVE_ALL: u8 = 0xFF;

impl Epk {
    /// The lowest position, `""` on the wire.
    pub fn min() -> Self {
        Self::default()
    }

    /// The bound above every key, `FF` on the wire.
    pub fn max() -> Self {
        Self::from_bytes(&[ABOVE_ALL])
    }

    /// Reads hex of either case. At most [`EPK_HEX_CHARS_MAX`] characters.
    pub fn from_hex(text: &str) -> Result<Self, EpkError> {
        // The error repeats only the start of what a client sent.
        let refuse = || EpkError(text.chars().take(64).collect());
        if text.len() > EPK_HEX_CHARS_MAX {
            return Err(refuse());
        }
        let (pairs, odd) = text.as_bytes().as_chunks::<2>();
        if !odd.is_empty() {
            return Err(refuse());
        }
        let bytes: Option<SmallVec<[u8; 64]>> =
            pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
        bytes.map(|bytes| Self::from_bytes(&bytes)).ok_or_else(refuse)
    }

    /// Upper-case hex as clients write it. Shows the stored bytes; only [`effective_hex`] shows a
    /// hash that ends in zero bytes in full length.
    pub fn to_hex(&self) -> String {
        to_hex(&self.0)
    }

    /// The significant bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// From raw bytes; trailing zeros are dropped.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let significant = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
        Self(SmallVec::from_slice(&bytes[..significant]))
    }
}

impl fmt::Display for Epk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl EpkRange {
    /// The whole hash line.
    pub fn full() -> Self {
        Self { min: Epk::min(), max: Epk::max() }
    }

    /// Whether `at` lies inside.
    pub fn contains(&self, at: &Epk) -> bool {
        self.min <= *at && *at < self.max
    }

    /// The intersection, if it is not empty.
    pub fn intersect(&self, other: &EpkRange) -> Option<EpkRange> {
        let min = self.min.clone().max(other.min.clone());
        let max = self.max.clone().min(other.max.clone());
        (min < max).then_some(EpkRange { min, max })
    }
}

/// Maps a full key to its position, in full length: 16 bytes (V2), 16 per level (MultiHash) or the
/// variable V1 form. A missing component hashes as *undefined*. Never fails.
pub fn effective_bytes(
    definition: &PartitionKeyDefinition,
    key: &PartitionKey,
) -> SmallVec<[u8; 16]> {
    let missing = definition.paths.len().saturating_sub(key.0.len());
    if missing == 0 {
        return hash_components(definition, &key.0);
    }
    let mut padded = key.0.clone();
    padded.extend(std::iter::repeat_n(PartitionKeyComponent::Undefined, missing));
    hash_components(definition, &padded)
}

/// [`effective_bytes`] as a position on the line.
pub fn effective_partition_key(definition: &PartitionKeyDefinition, key: &PartitionKey) -> Epk {
    Epk::from_bytes(&effective_bytes(definition, key))
}

/// [`effective_bytes`] as upper-case hex, in full length.
pub fn effective_hex(definition: &PartitionKeyDefinition, key: &PartitionKey) -> String {
    to_hex(&effective_bytes(definition, key))
}

/// The range of all keys that begin with `prefix` (fewer components than a hierarchical
/// definition has; none is the whole line), or the one-key range of a full key.
pub fn key_range(definition: &PartitionKeyDefinition, prefix: &PartitionKey) -> EpkRange {
    let is_partial = match definition.kind {
        PartitionKeyKind::Hash => false,
        PartitionKeyKind::MultiHash => prefix.0.len() < definition.paths.len(),
    };
    if is_partial {
        let mut bytes = hash_components(definition, &prefix.0);
        let min = Epk::from_bytes(&bytes);
        bytes.push(ABOVE_ALL);
        return EpkRange { min, max: Epk::from_bytes(&bytes) };
    }
    let mut bytes = effective_bytes(definition, prefix);
    let min = Epk::from_bytes(&bytes);
    increment(&mut bytes);
    EpkRange { min, max: Epk::from_bytes(&bytes) }
}

/// `n` ranges that divide the line evenly, with the boundaries the service uses. 0 counts as 1.
pub fn equal_ranges(definition: &PartitionKeyDefinition, n: u32) -> Vec<EpkRange> {
    let n = n.max(1);
    let boundary = |i: u32| match hash_of(definition) {
        _ if i == 0 => Epk::min(),
        _ if i == n => Epk::max(),
        PartitionKeyVersion::V1 => v1::boundary(i, n),
        PartitionKeyVersion::V2 => v2::boundary(i, n),
    };
    (0..n).map(|i| EpkRange { min: boundary(i), max: boundary(i + 1) }).collect()
}

/// The position that halves the hashes of a range; `None` when nothing lies strictly between its
/// ends.
pub fn midpoint(definition: &PartitionKeyDefinition, range: &EpkRange) -> Option<Epk> {
    let (min, max) = (range.min.as_bytes(), range.max.as_bytes());
    let half = match hash_of(definition) {
        PartitionKeyVersion::V1 => v1::midpoint(min, max),
        PartitionKeyVersion::V2 => v2::midpoint(min, max),
    };
    (range.min < half && half < range.max).then_some(half)
}

/// Hierarchical keys exist in version 2 only.
fn hash_of(definition: &PartitionKeyDefinition) -> PartitionKeyVersion {
    match definition.kind {
        PartitionKeyKind::Hash => definition.version,
        PartitionKeyKind::MultiHash => PartitionKeyVersion::V2,
    }
}

fn hash_components(
    definition: &PartitionKeyDefinition,
    components: &[PartitionKeyComponent],
) -> SmallVec<[u8; 16]> {
    match (definition.kind, hash_of(definition)) {
        (PartitionKeyKind::Hash, PartitionKeyVersion::V1) => v1::effective_bytes(components),
        (PartitionKeyKind::Hash, PartitionKeyVersion::V2) => {
            SmallVec::from(v2::effective_bytes(components))
        }
        (PartitionKeyKind::MultiHash, _) => {
            components.iter().flat_map(|c| v2::effective_bytes(std::slice::from_ref(c))).collect()
        }
    }
}

/// Adds one to a big-endian number. A key never consists of FF bytes only, so nothing overflows.
fn increment(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            break;
        }
    }
}

fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 0x0F)]);
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(*b)]).collect()
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        b'A'..=b'F' => Some(character - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
