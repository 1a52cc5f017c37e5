//! Resource ids: the short base64 names the system gives to resources, with their byte layout.

use std::fmt;

/// A database's resource id: 4 bytes, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseRid(pub u32);

/// A container's resource id: the database's and 4 more bytes with the top bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerRid {
    /// The owning database.
    pub database: DatabaseRid,
    /// The container's number in the database; the top bit is added in the encoding.
    pub number: u32,
}

/// An item's resource id: the container's and an 8-byte little-endian counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentRid {
    /// The owning container.
    pub container: ContainerRid,
    /// The item's number in the container, below 2^60.
    pub number: u64,
}

/// What the top nibble of a 16-byte resource id says about its owner-level kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChildKind {
    /// 0x0
    Document,
    /// 0x8
    StoredProcedure,
    /// 0x7
    Trigger,
    /// 0x6
    UserDefinedFunction,
    /// 0x5
    PartitionKeyRange,
    /// 0x4
    Conflict,
}

impl DatabaseRid {
    /// Reads the 8-character text form.
    pub fn parse(text: &str) -> Option<Self> {
        todo!("{text}")
    }
}

impl fmt::Display for DatabaseRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        {
            let _ = f;
            todo!()
        }
    }
}

impl ContainerRid {
    /// Reads the 12-character text form.
    pub fn parse(text: &str) -> Option<Self> {
        todo!("{text}")
    }
}

impl fmt::Display for ContainerRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        {
            let _ = f;
            todo!()
        }
    }
}

impl DocumentRid {
    /// Reads the 24-character text form of a document (not of a script or range).
    pub fn parse(text: &str) -> Option<Self> {
        todo!("{text}")
    }
}

impl fmt::Display for DocumentRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        {
            let _ = f;
            todo!()
        }
    }
}

/// The text form of any 16-byte resource id below a container.
pub fn child_rid(container: ContainerRid, kind: ChildKind, number: u64) -> String {
    todo!("{container:?} {kind:?} {number}")
}

/// An offer's resource id: 3 bytes, 4 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferRid(pub u32);

impl OfferRid {
    /// Reads the 4-character text form.
    pub fn parse(text: &str) -> Option<Self> {
        todo!("{text}")
    }
}

impl fmt::Display for OfferRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        {
            let _ = f;
            todo!()
        }
    }
}

/// Why an id is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing there.
    #[error("the id is missing or empty")]
    Empty,
    /// Over the limit.
    #[error("the id is longer than {max} {unit}")]
    TooLong {
        /// The limit.
        max: usize,
        /// `bytes` or `characters`.
        unit: &'static str,
    },
    /// A character ids may not have.
    #[error("the id may not contain {0:?}")]
    Forbidden(char),
}

/// Checks an item id: 1 to 1,023 bytes, no backslash (spec 3.4).
pub fn validate_item_id(id: &str) -> Result<(), IdError> {
    todo!("{id}")
}

/// Checks the id of a database, container or any other named resource: 1 to 255 characters, none
/// of `/ \ ? #`, no trailing space.
pub fn validate_resource_id(id: &str) -> Result<(), IdError> {
    todo!("{id}")
}
