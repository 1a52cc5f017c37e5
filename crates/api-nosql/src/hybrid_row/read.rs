//! Reading rows.
#![expect(clippy::little_endian_bytes, reason = "HybridRow is little-endian")]

use super::crc::crc32;
use super::schema::{Field, Kind, Place, Schema};
use super::{
    HEADER_BYTES, RECORD_BYTES, RECORD_ID, ROW_VERSION, Row, RowError, SEGMENT_BYTES, SEGMENT_ID,
    Scalar,
};

/// Longest number in groups of seven bits.
const VARUINT_BYTES_MAX: usize = 5;

/// Types of sparse values.
mod kind {
    pub(super) const NULL: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const TRUE: u8 = 3;
    pub(super) const INT32: u8 = 7;
    pub(super) const UINT32: u8 = 11;
    pub(super) const FLOAT64: u8 = 16;
    pub(super) const UTF8: u8 = 20;
    pub(super) const BINARY: u8 = 21;
}

/// The rows of a body that announce rows of one schema.
#[derive(Debug)]
pub(super) struct Rows<'b> {
    schema: &'static Schema,
    rest: Input<'b>,
}

impl<'b> Rows<'b> {
    /// Begins with the segment that every body has.
    pub(super) fn new(schema: &'static Schema, body: &'b [u8]) -> Result<Self, RowError> {
        let mut rest = Input(body);
        match rest.peek_header() {
            Ok(SEGMENT_ID) => rest.skip_segment()?,
            Ok(_) => return Err(RowError::NoSegment),
            Err(error) => return Err(error),
        }
        Ok(Self { schema, rest })
    }

    /// The next row; `None` behind the last.
    pub(super) fn next(&mut self) -> Result<Option<Row<'b>>, RowError> {
        while !self.rest.0.is_empty() {
            match self.rest.peek_header()? {
                SEGMENT_ID => self.rest.skip_segment()?,
                RECORD_ID => return self.recorded().map(Some),
                other => return Err(RowError::UnexpectedRow(other)),
            }
        }
        Ok(None)
    }

    /// A record and the row behind it.
    fn recorded(&mut self) -> Result<Row<'b>, RowError> {
        let mut record = Input(self.rest.take(RECORD_BYTES)?);
        record.take(HEADER_BYTES)?;
        let (length, checksum) = (record.u32()?, record.u32()?);
        let row = self.rest.take(usize::try_from(length).map_err(|_| RowError::Truncated)?)?;
        if crc32(row) != checksum {
            return Err(RowError::Checksum);
        }
        read_row(self.schema, row)
    }
}

fn read_row<'b>(schema: &'static Schema, row: &'b [u8]) -> Result<Row<'b>, RowError> {
    let mut rest = Input(row);
    let id = rest.peek_header()?;
    if id != schema.id {
        return Err(RowError::UnexpectedRow(id));
    }
    rest.take(HEADER_BYTES)?;
    let presence = rest.u8()?;
    if u32::from(presence) >> schema.bits() != 0 {
        return Err(RowError::Presence);
    }
    let mut values: Row<'b> = [None; _];
    for (at, (field, value)) in schema.fields.iter().zip(&mut values).enumerate() {
        let is_present = presence >> at.min(7) & 1 == 1;
        match field.place {
            Place::Fixed => {
                let number = rest.i32()?;
                *value = is_present.then_some(Scalar::Int32(number));
            }
            Place::Variable if is_present => *value = Some(rest.bytes_of(field)?),
            Place::Variable => {}
            Place::Sparse => break,
        }
    }
    while !rest.0.is_empty() {
        let (kind, name) = (rest.u8()?, rest.name(schema)?);
        let Some(at) = name else {
            rest.skip(kind)?;
            continue;
        };
        let field = &schema.fields[at];
        let value = rest.sparse(kind, field)?;
        if values[at].replace(value).is_some() {
            return Err(RowError::Repeated(field.name));
        }
    }
    Ok(values)
}

/// What is left to read.
#[derive(Debug)]
struct Input<'b>(&'b [u8]);

impl<'b> Input<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], RowError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(RowError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RowError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(RowError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, RowError> {
        self.array().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Result<u32, RowError> {
        self.array().map(u32::from_le_bytes)
    }

    fn i32(&mut self) -> Result<i32, RowError> {
        self.array().map(i32::from_le_bytes)
    }

    /// The schema of the row that begins here.
    fn peek_header(&self) -> Result<i32, RowError> {
        let mut header = Input(self.0);
        match header.u8()? {
            ROW_VERSION => header.i32(),
            other => Err(RowError::UnexpectedRow(other.into())),
        }
    }

    /// Skips a segment: its length counts all of it, with optional fields that mean nothing here.
    fn skip_segment(&mut self) -> Result<(), RowError> {
        let mut head = Input(self.0.get(..SEGMENT_BYTES).ok_or(RowError::Truncated)?);
        head.take(HEADER_BYTES)?;
        let (presence, length) = (head.u8()?, head.i32()?);
        let length = usize::try_from(length).map_err(|_| RowError::Segment)?;
        if presence != 1 || length < SEGMENT_BYTES || length > self.0.len() {
            return Err(RowError::Segment);
        }
        self.take(length).map(drop)
    }

    /// A number in groups of seven bits.
    fn varuint(&mut self) -> Result<usize, RowError> {
        let mut number = 0_u64;
        for group in 0..VARUINT_BYTES_MAX {
            let byte = self.u8()?;
            number |= u64::from(byte & 0x7F) << (7 * group);
            if byte < 0x80 {
                return usize::try_from(number).map_err(|_| RowError::Truncated);
            }
        }
        Err(RowError::Varuint)
    }

    /// Bytes behind their length.
    fn bytes(&mut self) -> Result<&'b [u8], RowError> {
        let length = self.varuint()?;
        self.take(length)
    }

    /// A value of a field whose values have a length.
    fn bytes_of(&mut self, field: &Field) -> Result<Scalar<'b>, RowError> {
        let bytes = self.bytes()?;
        match field.kind {
            Kind::Text => Ok(Scalar::Text(std::str::from_utf8(bytes).map_err(|_| RowError::Text)?)),
            Kind::Binary => Ok(Scalar::Binary(bytes)),
            Kind::Bool | Kind::Int32 | Kind::UInt32 | Kind::Float64 => {
                Err(RowError::FieldType(field.name))
            }
        }
    }

    /// The index of the sparse field that is named here; `None` for a name that no field has.
    fn name(&mut self, schema: &Schema) -> Result<Option<usize>, RowError> {
        let token = self.varuint()?;
        if let Some(length) = token.checked_sub(schema.names()) {
            let name = self.take(length)?;
            return match schema.fields.iter().find(|field| field.name.as_bytes() == name) {
                // A known name has a token, and its value may not come twice.
                Some(field) => Err(RowError::Repeated(field.name)),
                None => Ok(None),
            };
        }
        let Some(at) = token.checked_sub(1) else { return Ok(None) };
        let field = &schema.fields[at];
        match field.place {
            Place::Sparse => Ok(Some(at)),
            Place::Fixed | Place::Variable => Err(RowError::Repeated(field.name)),
        }
    }

    fn sparse(&mut self, kind: u8, field: &Field) -> Result<Scalar<'b>, RowError> {
        match (field.kind, kind) {
            (Kind::Bool, kind::FALSE) => Ok(Scalar::Bool(false)),
            (Kind::Bool, kind::TRUE) => Ok(Scalar::Bool(true)),
            (Kind::Int32, kind::INT32) => self.i32().map(Scalar::Int32),
            (Kind::UInt32, kind::UINT32) => self.u32().map(Scalar::UInt32),
            (Kind::Float64, kind::FLOAT64) => {
                self.array().map(|bytes| Scalar::Float64(f64::from_le_bytes(bytes)))
            }
            (Kind::Text, kind::UTF8) | (Kind::Binary, kind::BINARY) => self.bytes_of(field),
            (
                Kind::Bool | Kind::Int32 | Kind::UInt32 | Kind::Float64 | Kind::Text | Kind::Binary,
                _,
            ) => Err(RowError::FieldType(field.name)),
        }
    }

    /// Skips a value that no field of the schema has. Values with values within are refused: no
    /// client sends them.
    fn skip(&mut self, kind: u8) -> Result<(), RowError> {
        let bytes = match kind {
            kind::NULL | kind::FALSE | kind::TRUE => 0,
            // Numbers of 8 to 64 bits, first signed, then unsigned.
            5 | 9 => 1,
            6 | 10 => 2,
            kind::INT32 | kind::UINT32 | 15 => 4,
            8 | 12 | kind::FLOAT64 => 8,
            // Numbers in groups of seven bits; 64 bits are up to ten of them.
            13 | 14 => return self.skip_long_varuint(),
            // Decimal, GUID, float of 128 bits.
            17 | 19 | 22 => 16,
            // Times.
            18 | 23 => 8,
            kind::UTF8 | kind::BINARY => return self.bytes().map(drop),
            // Object id.
            24 => 12,
            other => return Err(RowError::Type(other)),
        };
        self.take(bytes).map(drop)
    }

    fn skip_long_varuint(&mut self) -> Result<(), RowError> {
        for _ in 0..10 {
            if self.u8()? < 0x80 {
                return Ok(());
            }
        }
        Err(RowError::Varuint)
    }
}
