//! Resource ids: the short base64 names that the system assigns to resources, with their byte
//! layout.
//!
//! Clients parse these ids, so the layout (shown in `docs/format.md`) is part of the wire contract.
//! Text is standard base64 with `-` instead of `/` and with padding; parsing is strict, so a
//! resource has exactly one text form.

use std::fmt;

use base64::Engine as _;
use base64::alphabet::Alphabet;
use base64::engine::general_purpose::{GeneralPurpose, PAD};

use crate::limits::{ITEM_ID_BYTES_MAX, RESOURCE_ID_CHARS_MAX};

const ALPHABET: Alphabet =
    match Alphabet::new("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-") {
        Ok(alphabet) => alphabet,
        Err(_) => panic!("64 different characters are an alphabet"),
    };
const BASE64: GeneralPurpose = GeneralPurpose::new(&ALPHABET, PAD);

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

/// A user's resource id: the database's and 4 more bytes with the top bit clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserRid {
    /// The owning database.
    pub database: DatabaseRid,
    /// The user's number in the database, below 2^31.
    pub number: u32,
}

/// A permission's resource id: the user's and an 8-byte little-endian counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermissionRid {
    /// The user who holds it.
    pub user: UserRid,
    /// The permission's number.
    pub number: u64,
}

/// A client encryption key's resource id: the database's, four zero bytes, the key's number and
/// the type of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EncryptionKeyRid {
    /// The owning database.
    pub database: DatabaseRid,
    /// The key's number in the database.
    pub number: u32,
}

/// The type of resource that the top nibble of a 16-byte resource id denotes.
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

/// Set in a container's number, clear in a user's.
const CONTAINER_BIT: u32 = 1 << 31;
/// A child's number occupies the bits below its kind's nibble.
const CHILD_NUMBER_BITS: u32 = 60;

impl ChildKind {
    /// Every kind, for tables and tests.
    pub const ALL: [ChildKind; 6] = [
        ChildKind::Document,
        ChildKind::StoredProcedure,
        ChildKind::Trigger,
        ChildKind::UserDefinedFunction,
        ChildKind::PartitionKeyRange,
        ChildKind::Conflict,
    ];

    fn nibble(self) -> u64 {
        match self {
            ChildKind::Document => 0x0,
            ChildKind::StoredProcedure => 0x8,
            ChildKind::Trigger => 0x7,
            ChildKind::UserDefinedFunction => 0x6,
            ChildKind::PartitionKeyRange => 0x5,
            ChildKind::Conflict => 0x4,
        }
    }
}

impl DatabaseRid {
    /// Reads the 8-character text form.
    pub fn parse(text: &str) -> Option<Self> {
        decode(text).map(Self::from_bytes)
    }

    fn from_bytes(bytes: [u8; 4]) -> Self {
        Self(u32::from_be_bytes(bytes))
    }
}

impl fmt::Display for DatabaseRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_base64(&self.0.to_be_bytes(), f)
    }
}

impl ContainerRid {
    /// Reads the 12-character text form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::of_bytes(decode(text)?)
    }

    /// Reads the bytes behind the text form.
    pub fn of_bytes(bytes: [u8; 8]) -> Option<Self> {
        let (database, number) = split_database(bytes);
        (number & CONTAINER_BIT != 0).then_some(Self { database, number: number & !CONTAINER_BIT })
    }

    fn to_bytes(self) -> [u8; 8] {
        assert!(self.number < CONTAINER_BIT, "container numbers stay below 2^31");
        join_database(self.database, self.number | CONTAINER_BIT)
    }
}

impl fmt::Display for ContainerRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_base64(&self.to_bytes(), f)
    }
}

/// The database and the number of a container or user.
fn split_database(bytes: [u8; 8]) -> (DatabaseRid, u32) {
    let [a, b, c, d, e, f, g, h] = bytes;
    (DatabaseRid::from_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

fn join_database(database: DatabaseRid, number: u32) -> [u8; 8] {
    let [a, b, c, d] = database.0.to_be_bytes();
    let [e, f, g, h] = number.to_be_bytes();
    [a, b, c, d, e, f, g, h]
}

impl DocumentRid {
    /// Reads the 24-character text form of a document (not of a script or range).
    pub fn parse(text: &str) -> Option<Self> {
        let (container, kind, number) = parse_child_rid(text)?;
        (kind == ChildKind::Document).then_some(Self { container, number })
    }
}

impl fmt::Display for DocumentRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_base64(&child_bytes(self.container, ChildKind::Document, self.number), f)
    }
}

/// The text form of any 16-byte resource id below a container.
pub fn child_rid(container: ContainerRid, kind: ChildKind, number: u64) -> String {
    BASE64.encode(child_bytes(container, kind, number))
}

/// Reads the 24-character text form of any resource id below a container.
#[expect(clippy::little_endian_bytes, reason = "the layout that clients read")]
pub fn parse_child_rid(text: &str) -> Option<(ContainerRid, ChildKind, u64)> {
    let bytes: [u8; 16] = decode(text)?;
    let (container, rest) = bytes.split_first_chunk()?;
    let container = ContainerRid::of_bytes(*container)?;
    let tagged = u64::from_le_bytes(rest.try_into().ok()?);
    let nibble = tagged >> CHILD_NUMBER_BITS;
    let kind = ChildKind::ALL.into_iter().find(|kind| kind.nibble() == nibble)?;
    Some((container, kind, tagged & ((1 << CHILD_NUMBER_BITS) - 1)))
}

#[expect(clippy::little_endian_bytes, reason = "the layout that clients read")]
fn child_bytes(container: ContainerRid, kind: ChildKind, number: u64) -> [u8; 16] {
    assert!(number >> CHILD_NUMBER_BITS == 0, "numbers below a container stay below 2^60");
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&container.to_bytes());
    bytes[8..].copy_from_slice(&(kind.nibble() << CHILD_NUMBER_BITS | number).to_le_bytes());
    bytes
}

impl UserRid {
    /// Reads the 12-character text form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_bytes(decode(text)?)
    }

    fn from_bytes(bytes: [u8; 8]) -> Option<Self> {
        let (database, number) = split_database(bytes);
        (number & CONTAINER_BIT == 0).then_some(Self { database, number })
    }

    fn to_bytes(self) -> [u8; 8] {
        assert!(self.number < CONTAINER_BIT, "user numbers stay below 2^31");
        join_database(self.database, self.number)
    }
}

impl fmt::Display for UserRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_base64(&self.to_bytes(), f)
    }
}

impl PermissionRid {
    /// Reads the 24-character text form.
    #[expect(clippy::little_endian_bytes, reason = "the layout that clients read")]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: [u8; 16] = decode(text)?;
        let (user, number) = bytes.split_first_chunk()?;
        let user = UserRid::from_bytes(*user)?;
        Some(Self { user, number: u64::from_le_bytes(number.try_into().ok()?) })
    }
}

impl fmt::Display for PermissionRid {
    #[expect(clippy::little_endian_bytes, reason = "the layout that clients read")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.user.to_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        write_base64(&bytes, f)
    }
}

/// The last four bytes of a client encryption key's resource id.
const ENCRYPTION_KEY_TYPE: [u8; 4] = [0, 0, 0, 0x10];

impl EncryptionKeyRid {
    /// Reads the 24-character text form.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: [u8; 16] = decode(text)?;
        let [a, b, c, d, 0, 0, 0, 0, e, f, g, h, kind @ ..] = bytes else { return None };
        let database = DatabaseRid::from_bytes([a, b, c, d]);
        let number = u32::from_be_bytes([e, f, g, h]);
        (kind == ENCRYPTION_KEY_TYPE).then_some(Self { database, number })
    }
}

impl fmt::Display for EncryptionKeyRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.database.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.number.to_be_bytes());
        bytes[12..].copy_from_slice(&ENCRYPTION_KEY_TYPE);
        write_base64(&bytes, f)
    }
}

/// An offer's resource id: 3 bytes, big-endian, 4 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferRid(pub u32);

impl OfferRid {
    /// Reads the 4-character text form.
    pub fn parse(text: &str) -> Option<Self> {
        let [a, b, c] = decode(text)?;
        Some(Self(u32::from_be_bytes([0, a, b, c])))
    }
}

impl fmt::Display for OfferRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [overflow, bytes @ ..] = self.0.to_be_bytes();
        assert!(overflow == 0, "offer numbers stay below 2^24");
        write_base64(&bytes, f)
    }
}

/// Exactly `N` bytes from base64 in its canonical form.
fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    // Also limits the work: a text of another length is not decoded.
    if text.len() != N.div_ceil(3) * 4 {
        return None;
    }
    BASE64.decode(text).ok()?.try_into().ok()
}

/// Writes the base64 of at most 16 bytes.
fn write_base64(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [0; 24];
    let length = BASE64.encode_slice(bytes, &mut text).map_err(|_| fmt::Error)?;
    f.write_str(str::from_utf8(&text[..length]).map_err(|_| fmt::Error)?)
}

/// Why an id is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The id is empty.
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
    /// A character that ids may not contain.
    #[error("the id may not contain {0:?}")]
    Forbidden(char),
}

/// Checks an item id: 1 to 1,536 bytes. Every character is accepted, as the service does: even a
/// slash or a backslash, although such an item cannot be addressed by name.
pub fn validate_item_id(id: &str) -> Result<(), IdError> {
    if id.is_empty() {
        return Err(IdError::Empty);
    }
    if id.len() > ITEM_ID_BYTES_MAX {
        return Err(IdError::TooLong { max: ITEM_ID_BYTES_MAX, unit: "bytes" });
    }
    Ok(())
}

/// Checks the id of a database, container or any other named resource: 1 to 255 characters, none
/// of `/ \ ? #`, no trailing space.
pub fn validate_resource_id(id: &str) -> Result<(), IdError> {
    if id.is_empty() {
        return Err(IdError::Empty);
    }
    // A character has at most four bytes, so a far too long id is rejected without counting.
    if id.len() > 4 * RESOURCE_ID_CHARS_MAX || id.chars().count() > RESOURCE_ID_CHARS_MAX {
        return Err(IdError::TooLong { max: RESOURCE_ID_CHARS_MAX, unit: "characters" });
    }
    let forbidden = id.chars().find(|c| matches!(c, '/' | '\\' | '?' | '#'));
    match forbidden.or_else(|| id.ends_with(' ').then_some(' ')) {
        Some(c) => Err(IdError::Forbidden(c)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
