//! Partition keys: the definition on a container and the values on an item.

use sha2::{Digest, Sha256};
use smallvec::SmallVec;

use crate::decimal::Decimal;
use crate::limits::PARTITION_KEY_BYTES_MAX;
use crate::order::{self, TypeOrder};
use crate::{PropertyPath, Value, number};

/// The key path of a container that was created without one.
pub const SYSTEM_KEY_PATH: &str = "/_partitionKey";

/// How several key paths are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartitionKeyKind {
    /// One path.
    Hash,
    /// One to three paths, hashed one by one, so that a prefix of them is a contiguous range.
    MultiHash,
}

/// The hash that a key uses.
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
    /// The paths of the values in an item.
    pub paths: Vec<PropertyPath>,
    /// How they are hashed together.
    pub kind: PartitionKeyKind,
    /// The hash that is used.
    pub version: PartitionKeyVersion,
    /// True for a container created without a key: every item has the one *undefined* key unless it
    /// has `_partitionKey`.
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
    /// A value that JSON lacks, an array or an object, of a container that keeps documents: as its
    /// encoding in BSON order, which is the same for equal values.
    Encoded(Box<[u8]>),
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
    /// The component for `value` (`None` = undefined). Every number becomes the nearest double,
    /// which is what clients hash. A string over the limit is rejected, and so is anything but a
    /// JSON scalar or a number.
    pub fn from_value(value: Option<&Value>) -> Result<Self, PartitionKeyError> {
        let Some(value) = value else { return Ok(Self::Undefined) };
        match value {
            Value::Null => Ok(Self::Null),
            Value::Bool(b) => Ok(Self::Bool(*b)),
            Value::Int32(n) => Ok(Self::Number(f64::from(*n))),
            Value::Int64(n) => Ok(Self::Number(number::i64_to_f64(*n))),
            Value::Double(n) => Ok(Self::Number(*n)),
            Value::Decimal128(bytes) => Ok(Self::Number(Decimal::from_bson(bytes).to_f64())),
            Value::String(text) if text.len() > PARTITION_KEY_BYTES_MAX => {
                Err(PartitionKeyError::TooLong { max: PARTITION_KEY_BYTES_MAX })
            }
            Value::String(text) => Ok(Self::String(text.clone())),
            Value::Binary { .. }
            | Value::Guid(_)
            | Value::Date(_)
            | Value::ObjectId(_)
            | Value::Timestamp { .. }
            | Value::Regex { .. }
            | Value::JavaScript { .. }
            | Value::Undefined
            | Value::DbPointer { .. }
            | Value::Symbol(_)
            | Value::Array(_)
            | Value::Object(_)
            | Value::MinKey
            | Value::MaxKey => Err(PartitionKeyError::NotScalar),
        }
    }

    /// The component for `value` of a container that keeps documents (`None` = missing): any value
    /// can be one, and equal values are one component. Of JSON's scalars it is what
    /// [`from_value`](Self::from_value) makes of them, except that negative zero is zero.
    pub fn from_document_value(value: Option<&Value>) -> Result<Self, PartitionKeyError> {
        let Some(value) = value else { return Ok(Self::Undefined) };
        match value {
            Value::Undefined => Ok(Self::Undefined),
            Value::Symbol(text) => Self::from_value(Some(&Value::from(text.as_str()))),
            Value::Null
            | Value::Bool(_)
            | Value::Int32(_)
            | Value::Int64(_)
            | Value::Double(_)
            | Value::Decimal128(_)
            | Value::String(_) => {
                let component = Self::from_value(Some(value))?;
                Ok(if let Self::Number(n) = component {
                    Self::Number(canonical(n))
                } else {
                    component
                })
            }
            Value::Binary { .. }
            | Value::Guid(_)
            | Value::Date(_)
            | Value::ObjectId(_)
            | Value::Timestamp { .. }
            | Value::Regex { .. }
            | Value::JavaScript { .. }
            | Value::DbPointer { .. }
            | Value::Array(_)
            | Value::Object(_)
            | Value::MinKey
            | Value::MaxKey => {
                let mut encoded = Vec::with_capacity(24);
                order::encode_whole(TypeOrder::Bson, Some(value), &mut encoded);
                match encoded.len() > PARTITION_KEY_BYTES_MAX {
                    true => Err(PartitionKeyError::TooLong { max: PARTITION_KEY_BYTES_MAX }),
                    false => Ok(Self::Encoded(encoded.into())),
                }
            }
        }
    }

    /// Converts back to a value; `None` = undefined. A number without a fraction becomes an integer
    /// if it fits, except negative zero, whose sign is part of the key. An encoded value is shown as
    /// its bytes.
    pub fn to_value(&self) -> Option<Value> {
        match self {
            Self::Undefined => None,
            Self::Null => Some(Value::Null),
            Self::Bool(b) => Some(Value::Bool(*b)),
            Self::Number(n) if *n == 0.0 && n.is_sign_negative() => Some(Value::Double(*n)),
            Self::Number(n) => Some(number::f64_to_i64(*n).map_or(Value::Double(*n), Value::Int64)),
            Self::String(text) => Some(Value::String(text.clone())),
            Self::Encoded(bytes) => Some(Value::Binary { subtype: 0, bytes: bytes.to_vec() }),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Undefined => out.push(UNDEFINED),
            Self::Null => out.push(NULL),
            Self::Bool(false) => out.push(FALSE),
            Self::Bool(true) => out.push(TRUE),
            Self::Number(n) => {
                out.push(NUMBER);
                out.extend_from_slice(&n.to_bits().to_be_bytes());
            }
            Self::String(text) => {
                out.push(STRING);
                let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(text.as_bytes());
            }
            Self::Encoded(bytes) => {
                out.push(ENCODED);
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(bytes);
            }
        }
    }

    /// The component at the start of `bytes`, and the bytes after it.
    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (tag, rest) = bytes.split_first()?;
        match *tag {
            UNDEFINED => Some((Self::Undefined, rest)),
            NULL => Some((Self::Null, rest)),
            FALSE => Some((Self::Bool(false), rest)),
            TRUE => Some((Self::Bool(true), rest)),
            NUMBER => {
                let (bits, rest) = rest.split_first_chunk()?;
                Some((Self::Number(f64::from_bits(u64::from_be_bytes(*bits))), rest))
            }
            STRING => {
                let (length, rest) = rest.split_first_chunk()?;
                let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
                let (text, rest) = rest.split_at_checked(length)?;
                Some((Self::String(str::from_utf8(text).ok()?.to_owned()), rest))
            }
            ENCODED => {
                let (length, rest) = rest.split_first_chunk()?;
                let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
                let (bytes, rest) = rest.split_at_checked(length)?;
                Some((Self::Encoded(bytes.into()), rest))
            }
            _ => None,
        }
    }
}

/// The one double of those that are equal in documents.
fn canonical(n: f64) -> f64 {
    // The sum of the zeros is positive.
    if n.is_nan() { f64::NAN } else { n + 0.0 }
}

// The markers are those used in the hash of a key.
const UNDEFINED: u8 = 0x00;
const NULL: u8 = 0x01;
const FALSE: u8 = 0x02;
const TRUE: u8 = 0x03;
const NUMBER: u8 = 0x05;
const STRING: u8 = 0x08;
pub(crate) const ENCODED: u8 = 0x0C;
/// Ends a key, so that no key is a prefix of another.
const END: u8 = 0xFF;

impl PartitionKeyDefinition {
    /// The key values of `item`. A path through a non-object, an array or a missing property is
    /// *undefined*, and so is one that ends at an array or object: clients send `[{}]` as the key
    /// of such an item. Costs one lookup per path and a copy of the strings found.
    pub fn extract(&self, item: &Value) -> Result<PartitionKey, PartitionKeyError> {
        let component = |path: &PropertyPath| {
            let value = path.get(item);
            let is_tree = |v: &&Value| matches!(v, Value::Array(_) | Value::Object(_));
            PartitionKeyComponent::from_value(value.filter(|v| !is_tree(v)))
        };
        self.paths.iter().map(component).collect::<Result<_, _>>().map(PartitionKey)
    }

    /// The key values of a document of a container that keeps documents: any value can be one. A
    /// path through a non-object, an array or a missing field is *undefined*.
    pub fn extract_from_document(
        &self,
        document: &Value,
    ) -> Result<PartitionKey, PartitionKeyError> {
        let component =
            |path: &PropertyPath| PartitionKeyComponent::from_document_value(path.get(document));
        self.paths.iter().map(component).collect::<Result<_, _>>().map(PartitionKey)
    }
}

impl PartitionKey {
    /// The key with these values (`None` = undefined); `None` if no item can have it.
    pub fn from_values(values: &[Option<Value>]) -> Option<Self> {
        let component =
            |value: &Option<Value>| PartitionKeyComponent::from_value(value.as_ref()).ok();
        values.iter().map(component).collect::<Option<_>>().map(Self)
    }

    /// Canonical bytes: equal for keys that are the same logical partition, different otherwise
    /// (numbers as doubles, -0 distinct from 0 as in the hash). Prefix-free, decodable.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for component in &self.0 {
            component.encode(out);
        }
        out.push(END);
    }

    /// Reads the output of [`PartitionKey::encode`]; `None` if the bytes are not valid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut components = SmallVec::new();
        let mut rest = bytes;
        while rest != [END] {
            let component;
            (component, rest) = PartitionKeyComponent::decode(rest)?;
            components.push(component);
        }
        Some(Self(components))
    }

    /// 16 bytes that identify the logical partition even where two keys share a hash: the first
    /// half of SHA-256 over the canonical bytes.
    pub fn digest(&self) -> [u8; 16] {
        let mut canonical = Vec::with_capacity(64);
        self.encode(&mut canonical);
        digest_of(&canonical)
    }
}

/// [`PartitionKey::digest`] of a key that is encoded already.
pub fn digest_of(canonical: &[u8]) -> [u8; 16] {
    let mut digest = [0; 16];
    for (to, from) in digest.iter_mut().zip(Sha256::digest(canonical)) {
        *to = from;
    }
    digest
}

#[cfg(test)]
pub(crate) mod tests;
