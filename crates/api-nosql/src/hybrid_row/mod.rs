//! HybridRow RecordIO, the binary form of batches and bulk requests that the .NET SDK sends and
//! wants to be answered in.
//!
//! A body is a sequence of rows: a *segment*, then for each operation or result a *record*, which
//! states length and checksum of the row behind it, and that row. There is neither a count nor an
//! end mark. No row of these schemas is nested, so reading needs no recursion, and every length is
//! checked against the bytes that are there.

mod crc;
mod operation;
mod read;
mod result;
mod schema;
#[cfg(test)]
mod tests;
mod write;

pub use crc::crc32;
pub(crate) use operation::read_operations;
pub(crate) use result::{ResultRow, ResultRows};

use schema::{FIELDS_MAX, Schema};

/// First byte of every row, and so of every body in this form. No JSON text and no binary JSON
/// begins with it.
const ROW_VERSION: u8 = 0x81;
/// Bytes of a row's header: version and schema id.
const HEADER_BYTES: usize = 5;
/// Bytes of a record: header, length and checksum of the row behind it.
const RECORD_BYTES: usize = HEADER_BYTES + 8;
/// Bytes of a segment without optional fields: header, presence, length.
const SEGMENT_BYTES: usize = HEADER_BYTES + 5;
const SEGMENT_ID: i32 = 2_147_473_648;
const RECORD_ID: i32 = 2_147_473_649;

/// Whether a body is in this form.
pub(crate) fn is_rows(body: &[u8]) -> bool {
    body.first() == Some(&ROW_VERSION)
}

/// A value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar<'b> {
    Bool(bool),
    Int32(i32),
    UInt32(u32),
    Float64(f64),
    Text(&'b str),
    Binary(&'b [u8]),
}

/// The values of a row by the places of their fields in its schema; `None` for absent fields.
pub(crate) type Row<'b> = [Option<Scalar<'b>>; FIELDS_MAX];

/// Why a body is not a sequence of rows of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RowError {
    #[error("it ends within a row")]
    Truncated,
    #[error("it does not begin with a segment")]
    NoSegment,
    #[error("the length of a segment is impossible")]
    Segment,
    #[error("it has an unexpected row of schema {0}")]
    UnexpectedRow(i32),
    #[error("a checksum is wrong")]
    Checksum,
    #[error("a row has fields that its schema lacks")]
    Presence,
    #[error("a number is too long")]
    Varuint,
    #[error("a value has the unsupported type {0}")]
    Type(u8),
    #[error("the field '{0}' has a value of another type")]
    FieldType(&'static str),
    #[error("the field '{0}' is repeated")]
    Repeated(&'static str),
    #[error("a text is not UTF-8")]
    Text,
}

/// Reads the rows of results and writes them again; true if the body consists of such rows. For
/// fuzzing: the server itself only writes results.
pub fn rewrite_results(body: &[u8]) -> Option<Vec<u8>> {
    rewrite(&schema::RESULT, body)
}

/// Reads the rows of operations and writes them again.
pub fn rewrite_operations(body: &[u8]) -> Option<Vec<u8>> {
    rewrite(&schema::OPERATION, body)
}

fn rewrite(schema: &'static Schema, body: &[u8]) -> Option<Vec<u8>> {
    let mut rows = read::Rows::new(schema, body).ok()?;
    let mut out = write::begin();
    while let Some(row) = rows.next().ok()? {
        write::row(schema, &row, &mut out);
    }
    Some(out)
}
