//! What a partition key is made of: the definition on a container and the values on an item.

use smallvec::SmallVec;

use crate::{PropertyPath, Value};

/// How several key paths are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartitionKeyKind {
    /// One path.
    Hash,
    /// One to three paths, hashed one by one, so that a prefix of them is a contiguous range.
    MultiHash,
}

/// Which hash a key uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartitionKeyVersion {
    /// 32-bit MurmurHash of the first 100 characters.
    V1,
    /// 128-bit MurmurHash of the whole value.
    V2,
}

/// A container's partition key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionKeyDefinition {
    /// Where in an item the values are.
    pub paths: Vec<PropertyPath>,
    /// How they are hashed together.
    pub kind: PartitionKeyKind,
    /// Which hash.
    pub version: PartitionKeyVersion,
    /// True for a container made without a key: every item has the one *undefined* key unless it
    /// carries `_partitionKey`.
    pub is_system: bool,
}

/// One component of a partition-key value.
#[derive(Clone, Debug, PartialEq)]
pub enum PartitionKeyComponent {
    /// The property is missing.
    Undefined,
    /// JSON null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number; all numbers are compared as doubles here.
    Number(f64),
    /// A string.
    String(String),
}

/// The partition-key values of an item, or a prefix of them in a query's scope.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PartitionKey(pub SmallVec<[PartitionKeyComponent; 1]>);

/// Why a value cannot be (part of) a partition key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartitionKeyError {
    /// Arrays and objects are not keys.
    #[error("a partition key component must be a string, number, boolean, null or undefined")]
    NotScalar,
    /// A string component over the limit.
    #[error("partition key longer than {max} bytes")]
    TooLong {
        /// The limit.
        max: usize,
    },
}

impl PartitionKeyComponent {
    /// The component that `value` (`None` = undefined) stands for.
    pub fn from_value(value: Option<&Value>) -> Result<Self, PartitionKeyError> {
        todo!("{value:?}")
    }

    /// Back to a value; `None` = undefined.
    pub fn to_value(&self) -> Option<Value> {
        todo!()
    }
}

impl PartitionKeyDefinition {
    /// The key values of `item`. A path through a non-object, an array or a missing property is
    /// *undefined*; an array or object at the end of a path is an error.
    pub fn extract(&self, item: &Value) -> Result<PartitionKey, PartitionKeyError> {
        todo!("{item:?}")
    }
}

impl PartitionKey {
    /// Canonical bytes: equal for keys that are the same logical partition, different otherwise
    /// (numbers as doubles, -0 distinct from 0 as the hash has it). Prefix-free, decodable.
    pub fn encode(&self, out: &mut Vec<u8>) {
        todo!("{out:?}")
    }

    /// Reads what [`PartitionKey::encode`] wrote; `None` if the bytes are not such a thing.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        todo!("{bytes:?}")
    }

    /// 16 bytes that identify the logical partition even where two keys share a hash.
    pub fn digest(&self) -> [u8; 16] {
        todo!()
    }
}
