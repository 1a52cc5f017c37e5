//! Reads and writes BSON, the form of the documents of MongoDB programs.
//!
//! Bytes that a client sent are checked once, by [`check()`]. After that, [`RawDocument`] picks
//! values by name or path and skips all others by their length, without building them; reading
//! damaged bytes yields fewer values or an error, never a panic. [`read_part`] builds the part of a
//! tree that a [`FieldMask`](crate::json::FieldMask) names, [`write()`] turns a tree into bytes.
//!
//! Bytes and tree say the same, but for this:
//! - Of repeated names the tree has the first; bytes keep all.
//! - Names of the elements of an array are ignored, and written as `0`, `1` and so on.
//! - A guid of the tree is written as a binary of subtype 4 and read back as that; ticks within a
//!   date's millisecond are not written.
//! - Binaries of the old subtype 2 hold their length twice; the tree has the bytes after it.

use crate::limits::{DOCUMENT_BYTES_MAX, DOCUMENT_DEPTH_MAX};

mod check;
mod element;
mod part;
mod raw;
mod row_key;
#[cfg(test)]
pub(crate) mod tests;
mod tree;
mod write;

pub use check::{check, check_first};
pub use element::ElementType;
pub use part::{read_part, read_part_again};
pub use raw::{RawDocument, RawField, RawFields, RawValue};
pub use row_key::{RowKeyError, id_of_item, item_id, row_key};
pub use tree::read;
pub use write::{write, write_value};

/// What a document may be at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BsonLimits {
    /// Length of the document in bytes.
    pub bytes_max: usize,
    /// Levels of documents and arrays, the document itself included. At most
    /// [`BSON_DEPTH_MAX`](crate::limits::BSON_DEPTH_MAX) whatever is given.
    pub depth_max: usize,
}

impl BsonLimits {
    /// What a document of a collection may be.
    pub const DOCUMENT: BsonLimits =
        BsonLimits { bytes_max: DOCUMENT_BYTES_MAX, depth_max: DOCUMENT_DEPTH_MAX };
}

/// Why bytes are not a document, or a tree can't become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BsonError {
    /// A length, or what must follow it, lies beyond the end.
    #[error("the bytes end inside the value that begins at byte {at}")]
    TooShort {
        /// Where the value begins.
        at: usize,
    },
    /// Bytes follow the document.
    #[error("bytes follow the end of the document at byte {at}")]
    BytesAfterEnd {
        /// Where the document ends.
        at: usize,
    },
    /// A length is negative, less than what it must count, or disagrees with the content.
    #[error("the length at byte {at} is wrong")]
    WrongLength {
        /// Where the length is.
        at: usize,
    },
    /// A document or a string does not end with a zero byte.
    #[error("a zero byte is missing at byte {at}")]
    NoTerminator {
        /// Where it should be.
        at: usize,
    },
    /// There is no type of this number.
    #[error("unknown element type {code:#04x} at byte {at}")]
    UnknownType {
        /// Where the type is.
        at: usize,
        /// Its number.
        code: u8,
    },
    /// A name or a text is not UTF-8.
    #[error("the text at byte {at} is not UTF-8")]
    NotUtf8 {
        /// Where the text begins.
        at: usize,
    },
    /// A boolean is neither 0 nor 1.
    #[error("the boolean at byte {at} is neither 0 nor 1")]
    NotBoolean {
        /// Where the boolean is.
        at: usize,
    },
    /// Nested deeper than allowed.
    #[error("the document is nested deeper than {max} levels")]
    TooDeep {
        /// The limit that was exceeded.
        max: usize,
    },
    /// Longer than allowed.
    #[error("the document has {bytes} bytes, more than the {max} allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit that was exceeded.
        max: usize,
    },
    /// A name, or a part of a regular expression, holds a zero byte, which BSON can't express.
    #[error("a field name or a regular expression holds a zero byte")]
    ZeroByteInName,
}

/// A document's length field, with the zero byte at its end the least a document can be.
const DOCUMENT_BYTES_MIN: usize = 5;
/// Bytes of a length.
const LENGTH_BYTES: usize = 4;
/// Bytes of an object id.
const OBJECT_ID_BYTES: usize = 12;
/// The binary subtype whose bytes begin with their length.
const OLD_BINARY_SUBTYPE: u8 = 2;
/// The binary subtype of a guid.
const GUID_SUBTYPE: u8 = 4;
