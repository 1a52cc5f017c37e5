//! Binary JSON to values: the cursor, numbers and containers. Strings are in `strings`.
#![expect(clippy::little_endian_bytes, reason = "binary JSON is little-endian")]

use model::{Object, Value};

use super::marker::*;
use super::{BinaryJsonError as Error, PREAMBLE};

/// How much output one buffer may produce.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Deepest nesting of arrays and objects.
    pub depth_max: usize,
    /// Most bytes of JSON text.
    pub text_bytes_max: usize,
}

impl Limits {
    /// The limits of an item.
    pub const ITEM: Limits = Limits {
        depth_max: model::limits::ITEM_DEPTH_MAX,
        text_bytes_max: model::limits::ITEM_BYTES_MAX,
    };
}

/// Most children that memory is reserved for in advance. The count comes from the sender, and
/// nested counts would multiply.
const RESERVED_MAX: usize = 256;

/// Decodes `buffer`. GUIDs become text and bytes become base64, as in JSON; unsigned integers
/// beyond the signed range become doubles. Of repeated names the last wins.
///
/// Takes time and memory in proportion to the buffer and `limits.text_bytes_max`.
pub fn decode(buffer: &[u8], limits: Limits) -> Result<Value, Error> {
    let mut reader = Reader::new(buffer, limits);
    match reader.byte()? {
        PREAMBLE => {}
        marker => return Err(Error::Marker { marker, at: 0 }),
    }
    let value = reader.value(0)?;
    if reader.at != buffer.len() {
        return Err(Error::Trailing { at: reader.at });
    }
    Ok(value)
}

/// How many bytes a length, count or offset takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Width {
    One,
    Two,
    Three,
    Four,
}

/// A position in the buffer. It never leaves the buffer or the container being read.
pub(super) struct Reader<'b> {
    pub(super) buffer: &'b [u8],
    pub(super) at: usize,
    /// Where the innermost container with a stated length ends.
    end: usize,
    limits: Limits,
    text_bytes_left: usize,
    /// Offsets of strings that a reference may name, in ascending order.
    pub(super) string_starts: Vec<usize>,
}

impl<'b> Reader<'b> {
    fn new(buffer: &'b [u8], limits: Limits) -> Self {
        Self {
            buffer,
            at: 0,
            end: buffer.len(),
            limits,
            text_bytes_left: limits.text_bytes_max,
            string_starts: Vec::new(),
        }
    }

    /// Charges `bytes` of JSON text against the limit.
    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), Error> {
        match self.text_bytes_left.checked_sub(bytes) {
            Some(left) => {
                self.text_bytes_left = left;
                Ok(())
            }
            None => Err(Error::TooLarge { max: self.limits.text_bytes_max }),
        }
    }

    pub(super) fn bytes(&mut self, n: usize) -> Result<&'b [u8], Error> {
        let truncated = Error::Truncated { at: self.end };
        let to = self.at.checked_add(n).filter(|to| *to <= self.end).ok_or(truncated)?;
        let bytes = self.buffer.get(self.at..to).ok_or(truncated)?;
        self.at = to;
        Ok(bytes)
    }

    pub(super) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let truncated = Error::Truncated { at: self.end };
        let bytes = self.bytes(N)?.first_chunk::<N>();
        bytes.copied().ok_or(truncated)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Error> {
        Ok(self.fixed::<1>()?[0])
    }

    pub(super) fn length(&mut self, width: Width) -> Result<usize, Error> {
        let length = match width {
            Width::One => u32::from(self.byte()?),
            Width::Two => u32::from(u16::from_le_bytes(self.fixed()?)),
            Width::Three => {
                let [a, b, c] = self.fixed()?;
                u32::from_le_bytes([a, b, c, 0])
            }
            Width::Four => u32::from_le_bytes(self.fixed()?),
        };
        usize::try_from(length).map_err(|_| Error::Length { at: self.at })
    }

    /// Reads one value nested in `depth` containers.
    fn value(&mut self, depth: usize) -> Result<Value, Error> {
        let at = self.at;
        let marker = self.byte()?;
        match marker {
            ARRAY_EMPTY..=ARRAY_COUNT_4 => self.array(marker, at, depth),
            OBJECT_EMPTY..=OBJECT_COUNT_4 => self.object(marker, at, depth),
            NUMBERS_1..=NUMBER_ARRAYS_2 => self.uniform(marker, depth),
            _ => self.scalar(marker, at),
        }
    }

    /// Kept out of `value`, whose stack frame repeats with every level.
    #[inline(never)]
    fn scalar(&mut self, marker: u8, at: usize) -> Result<Value, Error> {
        if let Some(text) = self.string(marker, at)? {
            return Ok(Value::String(text));
        }
        self.spend(1)?;
        match marker {
            NULL => Ok(Value::Null),
            FALSE => Ok(Value::Bool(false)),
            TRUE => Ok(Value::Bool(true)),
            0..=LITERAL_INT_LAST => Ok(Value::Int64(i64::from(marker))),
            NUMBER_U8 | NUMBER_I16 | NUMBER_I32 | NUMBER_I64 | NUMBER_U64 | NUMBER_F64 => {
                self.number(marker, at)
            }
            _ => self.typed_number(marker, at),
        }
    }

    fn number(&mut self, marker: u8, at: usize) -> Result<Value, Error> {
        Ok(match marker {
            NUMBER_U8 => Value::Int64(i64::from(self.byte()?)),
            NUMBER_I16 => Value::Int64(i64::from(i16::from_le_bytes(self.fixed()?))),
            NUMBER_I32 => Value::Int64(i64::from(i32::from_le_bytes(self.fixed()?))),
            NUMBER_I64 => Value::Int64(i64::from_le_bytes(self.fixed()?)),
            NUMBER_U64 => unsigned(u64::from_le_bytes(self.fixed()?)),
            _ => finite(f64::from_le_bytes(self.fixed()?), at)?,
        })
    }

    /// The number types that uniform arrays can also hold.
    fn typed_number(&mut self, marker: u8, at: usize) -> Result<Value, Error> {
        Ok(match marker {
            UINT8 => Value::Int64(i64::from(self.byte()?)),
            INT8 => Value::Int64(i64::from(i8::from_le_bytes(self.fixed()?))),
            INT16 => Value::Int64(i64::from(i16::from_le_bytes(self.fixed()?))),
            INT32 => Value::Int64(i64::from(i32::from_le_bytes(self.fixed()?))),
            INT64 => Value::Int64(i64::from_le_bytes(self.fixed()?)),
            UINT32 => Value::Int64(i64::from(u32::from_le_bytes(self.fixed()?))),
            FLOAT32 => finite(f64::from(f32::from_le_bytes(self.fixed()?)), at)?,
            FLOAT64 => finite(f64::from_le_bytes(self.fixed()?), at)?,
            _ => return Err(Error::Marker { marker, at }),
        })
    }

    fn check_depth(&self, depth: usize) -> Result<(), Error> {
        match depth < self.limits.depth_max {
            true => Ok(()),
            false => Err(Error::TooDeep { max: self.limits.depth_max }),
        }
    }

    fn array(&mut self, marker: u8, at: usize, depth: usize) -> Result<Value, Error> {
        self.check_depth(depth)?;
        self.spend(2)?;
        let frame = match marker {
            ARRAY_EMPTY => return Ok(Value::Array(Vec::new())),
            ARRAY_OF_ONE => return Ok(Value::Array(vec![self.value(depth + 1)?])),
            ARRAY_LENGTH_1 => self.frame(Width::One, false)?,
            ARRAY_LENGTH_2 => self.frame(Width::Two, false)?,
            ARRAY_LENGTH_4 => self.frame(Width::Four, false)?,
            ARRAY_COUNT_1 => self.frame(Width::One, true)?,
            ARRAY_COUNT_2 => self.frame(Width::Two, true)?,
            _ => self.frame(Width::Four, true)?,
        };
        let outer_end = std::mem::replace(&mut self.end, frame.end);
        let mut items = Vec::with_capacity(frame.capacity(self.at));
        while self.at < self.end {
            self.spend(1)?;
            items.push(self.value(depth + 1)?);
        }
        self.end = outer_end;
        frame.check_count(items.len(), at)?;
        Ok(Value::Array(items))
    }

    fn object(&mut self, marker: u8, at: usize, depth: usize) -> Result<Value, Error> {
        self.check_depth(depth)?;
        self.spend(2)?;
        let frame = match marker {
            OBJECT_EMPTY => return Ok(Value::Object(Object::new())),
            OBJECT_OF_ONE => {
                return Ok(Value::Object(Object::from_fields(vec![self.member(depth)?]).0));
            }
            OBJECT_LENGTH_1 => self.frame(Width::One, false)?,
            OBJECT_LENGTH_2 => self.frame(Width::Two, false)?,
            OBJECT_LENGTH_4 => self.frame(Width::Four, false)?,
            OBJECT_COUNT_1 => self.frame(Width::One, true)?,
            OBJECT_COUNT_2 => self.frame(Width::Two, true)?,
            _ => self.frame(Width::Four, true)?,
        };
        let outer_end = std::mem::replace(&mut self.end, frame.end);
        let mut members = Vec::with_capacity(frame.capacity(self.at));
        while self.at < self.end {
            self.spend(1)?;
            members.push(self.member(depth)?);
        }
        self.end = outer_end;
        frame.check_count(members.len(), at)?;
        Ok(Value::Object(Object::from_fields(members).0))
    }

    fn member(&mut self, depth: usize) -> Result<(String, Value), Error> {
        let at = self.at;
        let marker = self.byte()?;
        let name = self.string(marker, at)?.ok_or(Error::Marker { marker, at })?;
        Ok((name, self.value(depth + 1)?))
    }

    /// Reads a container's length and, when it states one, its count.
    fn frame(&mut self, width: Width, has_count: bool) -> Result<Frame, Error> {
        let length = self.length(width)?;
        let count = if has_count { Some(self.length(width)?) } else { None };
        let end = self.at.checked_add(length).filter(|end| *end <= self.end);
        let end = end.ok_or(Error::Truncated { at: self.end })?;
        Ok(Frame { end, count })
    }

    /// Arrays of numbers that share one marker, and arrays of equally long such arrays.
    fn uniform(&mut self, marker: u8, depth: usize) -> Result<Value, Error> {
        self.check_depth(depth)?;
        let width = match marker {
            NUMBERS_1 | NUMBER_ARRAYS_1 => Width::One,
            _ => Width::Two,
        };
        if matches!(marker, NUMBERS_1 | NUMBERS_2) {
            let (item, item_at) = (self.byte()?, self.at - 1);
            let count = self.length(width)?;
            return self.numbers(item, item_at, count);
        }
        self.check_depth(depth + 1)?;
        let (inner, inner_at) = (self.byte()?, self.at - 1);
        if inner != marker - (NUMBER_ARRAYS_1 - NUMBERS_1) {
            return Err(Error::Marker { marker: inner, at: inner_at });
        }
        let (item, item_at) = (self.byte()?, self.at - 1);
        let inner_count = self.length(width)?;
        let outer_count = self.length(width)?;
        self.spend(2)?;
        let mut arrays = Vec::new();
        for _ in 0..outer_count {
            // Empty arrays take no bytes of the buffer; only this charge bounds them.
            self.spend(1)?;
            arrays.push(self.numbers(item, item_at, inner_count)?);
        }
        Ok(Value::Array(arrays))
    }

    fn numbers(&mut self, marker: u8, at: usize, count: usize) -> Result<Value, Error> {
        self.spend(2)?;
        let mut items = Vec::with_capacity(count.min(self.end - self.at).min(RESERVED_MAX));
        for _ in 0..count {
            self.spend(2)?;
            items.push(self.typed_number(marker, at)?);
        }
        Ok(Value::Array(items))
    }
}

/// The stated size of a container.
struct Frame {
    end: usize,
    count: Option<usize>,
}

impl Frame {
    /// Capacity to reserve for the children: no more than the remaining bytes could hold, and no
    /// more than a fixed maximum.
    fn capacity(&self, at: usize) -> usize {
        self.count.unwrap_or(0).min(self.end - at).min(RESERVED_MAX)
    }

    fn check_count(&self, found: usize, at: usize) -> Result<(), Error> {
        match self.count {
            Some(stated) if stated != found => Err(Error::Length { at }),
            _ => Ok(()),
        }
    }
}

fn unsigned(n: u64) -> Value {
    match i64::try_from(n) {
        Ok(n) => Value::Int64(n),
        #[expect(clippy::cast_precision_loss, reason = "the service keeps such numbers as doubles")]
        Err(_) => Value::Double(n as f64),
    }
}

fn finite(n: f64, at: usize) -> Result<Value, Error> {
    match n.is_finite() {
        true => Ok(Value::Double(n)),
        false => Err(Error::Number { at }),
    }
}
