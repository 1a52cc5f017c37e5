//! Writing rows.
#![expect(clippy::little_endian_bytes, reason = "HybridRow is little-endian")]

use super::crc::crc32;
use super::schema::{Kind, Place, Schema};
use super::{HEADER_BYTES, RECORD_ID, ROW_VERSION, Row, SEGMENT_BYTES, SEGMENT_ID, Scalar};

/// [`SEGMENT_BYTES`] as a segment says it.
#[expect(clippy::cast_possible_truncation, reason = "a segment has a few bytes")]
const SEGMENT_LENGTH: u32 = SEGMENT_BYTES as u32;

/// A body with the segment that begins it.
pub(super) fn begin() -> Vec<u8> {
    let mut out = Vec::with_capacity(SEGMENT_BYTES);
    header(SEGMENT_ID, &mut out);
    out.push(1);
    out.extend_from_slice(&u32::to_le_bytes(SEGMENT_LENGTH));
    out
}

/// Appends a record and the row that it announces. Values must be of their fields' kinds.
pub(super) fn row(schema: &Schema, values: &Row<'_>, out: &mut Vec<u8>) {
    header(RECORD_ID, out);
    let length_at = out.len();
    out.extend_from_slice(&[0; 8]);
    let row_at = out.len();
    header(schema.id, out);
    let fields = || schema.fields.iter().zip(values);
    let present = fields().take(schema.bits()).enumerate();
    let presence = present.fold(0, |bits, (at, (_, value))| bits | u8::from(value.is_some()) << at);
    out.push(presence);
    for (field, value) in fields() {
        match (field.place, value) {
            (Place::Fixed, None) => out.extend_from_slice(&[0; 4]),
            (Place::Fixed | Place::Variable, Some(value)) => scalar(*value, out),
            (Place::Variable | Place::Sparse, None) => {}
            (Place::Sparse, Some(_)) => break,
        }
    }
    for (token, (field, value)) in (1_u8..).zip(fields()) {
        if let (Place::Sparse, Some(value)) = (field.place, value) {
            out.extend_from_slice(&[type_of(field.kind, *value), token]);
            if field.kind != Kind::Bool {
                scalar(*value, out);
            }
        }
    }
    // Bodies are far below 4 GB.
    let length = u32::try_from(out.len() - row_at).unwrap_or(u32::MAX);
    let checksum = crc32(&out[row_at..]);
    out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    out[length_at + 4..row_at].copy_from_slice(&checksum.to_le_bytes());
}

fn header(id: i32, out: &mut Vec<u8>) {
    let mut bytes = [ROW_VERSION; HEADER_BYTES];
    bytes[1..].copy_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&bytes);
}

/// The type byte of a sparse value.
fn type_of(kind: Kind, value: Scalar<'_>) -> u8 {
    match kind {
        Kind::Bool => 2 + u8::from(value == Scalar::Bool(true)),
        Kind::Int32 => 7,
        Kind::UInt32 => 11,
        Kind::Float64 => 16,
        Kind::Text => 20,
        Kind::Binary => 21,
    }
}

fn scalar(value: Scalar<'_>, out: &mut Vec<u8>) {
    match value {
        Scalar::Bool(value) => out.push(value.into()),
        Scalar::Int32(value) => out.extend_from_slice(&value.to_le_bytes()),
        Scalar::UInt32(value) => out.extend_from_slice(&value.to_le_bytes()),
        Scalar::Float64(value) => out.extend_from_slice(&value.to_le_bytes()),
        Scalar::Text(text) => bytes(text.as_bytes(), out),
        Scalar::Binary(value) => bytes(value, out),
    }
}

/// Bytes behind their length.
fn bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let mut length = bytes.len();
    while length > 0x7F {
        out.push(u8::try_from(length & 0x7F).unwrap_or_default() | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap_or_default());
    out.extend_from_slice(bytes);
}
