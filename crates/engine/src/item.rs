//! An item as it is stored, and its system properties.

use std::fmt;

use bytes::Bytes;
use model::{ContainerRid, Lsn, PartitionId, PartitionKey, Value};

/// A version tag. Two versions of an item never share one, not even across containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Etag {
    pub(crate) origin: PartitionId,
    pub(crate) lsn: Lsn,
    pub(crate) seq: u32,
}

impl Etag {
    /// The text without quotes, in the 8-4-4-4-12 shape clients are used to.
    pub fn unquoted(&self) -> String {
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            self.origin.0,
            self.seq >> 16,
            self.seq & 0xffff,
            (self.lsn.0 >> 48) & 0xffff,
            self.lsn.0 & 0xffff_ffff_ffff
        )
    }
}

/// The text with its quotes, as headers and `_etag` carry it.
impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.unquoted())
    }
}

/// An item read from or written to a partition. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StoredItem {
    pub(crate) container: ContainerRid,
    pub(crate) number: u64,
    pub(crate) etag: Etag,
    /// Seconds since the Unix epoch of the last change.
    pub(crate) ts: u64,
    pub(crate) partition_key: PartitionKey,
    pub(crate) id: String,
    /// JSON text of the object without system properties.
    pub(crate) body: Bytes,
}

impl StoredItem {
    /// The item's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its version.
    pub fn etag(&self) -> Etag {
        self.etag
    }

    /// Position of its last change in its partition.
    pub fn lsn(&self) -> Lsn {
        self.etag.lsn
    }

    /// Its partition key values.
    pub fn partition_key(&self) -> &PartitionKey {
        &self.partition_key
    }

    /// The text as it was written, without system properties.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Appends the item as JSON with its system properties (`_rid`, `_self`, `_etag`,
    /// `_attachments`, `_ts`) after the client's own, copying the stored text.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        todo!("{out:?}")
    }

    /// The item with its system properties as a value, for queries.
    pub fn to_value(&self) -> Value {
        todo!()
    }
}
