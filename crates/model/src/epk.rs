//! The effective partition key: a partition key's place on the hash line.
//!
//! Exactly the SDKs' MurmurHash V1, V2 and MultiHash, since clients compute it themselves.

use std::fmt;

use smallvec::SmallVec;

use crate::{PartitionKey, PartitionKeyDefinition};

/// A place on the hash line. Compared as bytes; trailing zero bytes are not significant and are
/// not kept, so that derived order and equality hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epk(SmallVec<[u8; 16]>);

/// A half-open stretch of the hash line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EpkRange {
    /// First place inside.
    pub min: Epk,
    /// First place beyond.
    pub max: Epk,
}

/// A bound is not hexadecimal text of even length.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a valid effective partition key")]
pub struct EpkError(pub String);

impl Epk {
    /// The lowest place, `""` on the wire.
    pub fn min() -> Self {
        todo!()
    }

    /// The bound above every key, `FF` on the wire.
    pub fn max() -> Self {
        todo!()
    }

    /// Reads hex of either case.
    pub fn from_hex(text: &str) -> Result<Self, EpkError> {
        todo!("{text}")
    }

    /// Upper-case hex as clients write it. Note that kept bytes are shown, so a hash that ends in
    /// zero bytes is shown in full length only by [`EffectiveKey::to_hex`].
    pub fn to_hex(&self) -> String {
        todo!()
    }

    /// The significant bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// From raw bytes; trailing zeros are dropped.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        todo!("{bytes:?}")
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

    /// The common part, if there is one.
    pub fn intersect(&self, other: &EpkRange) -> Option<EpkRange> {
        let min = self.min.clone().max(other.min.clone());
        let max = self.max.clone().min(other.max.clone());
        (min < max).then_some(EpkRange { min, max })
    }
}

/// Maps a full key to its place, in full length: 16 bytes (V2), 16 per level (MultiHash) or the
/// variable V1 form. A missing component hashes as *undefined*. Never fails.
pub fn effective_bytes(
    definition: &PartitionKeyDefinition,
    key: &PartitionKey,
) -> SmallVec<[u8; 16]> {
    todo!("{definition:?} {key:?}")
}

/// [`effective_bytes`] as a place on the line.
pub fn effective_partition_key(definition: &PartitionKeyDefinition, key: &PartitionKey) -> Epk {
    Epk::from_bytes(&effective_bytes(definition, key))
}

/// The range of all keys that begin with `prefix` (fewer components than the definition), or the
/// one-key range of a full key.
pub fn key_range(definition: &PartitionKeyDefinition, prefix: &PartitionKey) -> EpkRange {
    todo!("{definition:?} {prefix:?}")
}

/// `n` ranges that share the line evenly, with the boundaries the service uses.
pub fn equal_ranges(definition: &PartitionKeyDefinition, n: u32) -> Vec<EpkRange> {
    todo!("{definition:?} {n}")
}
