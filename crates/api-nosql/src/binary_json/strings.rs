//! The many forms of a string in binary JSON.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use super::BinaryJsonError as Error;
use super::decode::{Reader, Width};
use super::marker::*;

const LOWER_DIGITS: &[u8; 16] = b"0123456789abcdef";
const UPPER_DIGITS: &[u8; 16] = b"0123456789ABCDEF";
const DATE_TIME_CHARACTERS: &[u8; 16] = b" 0123456789:-.TZ";

impl Reader<'_> {
    /// Reads the rest of the string whose `marker` is at `at`; `None` if the marker begins no
    /// string.
    pub(super) fn string(&mut self, marker: u8, at: usize) -> Result<Option<String>, Error> {
        let text = match marker {
            REFERENCE_1 => self.reference(Width::One, at)?,
            REFERENCE_2 => self.reference(Width::Two, at)?,
            REFERENCE_3 => self.reference(Width::Three, at)?,
            REFERENCE_4 => self.reference(Width::Four, at)?,
            _ => match self.own_string(marker, at)? {
                Some(text) => {
                    self.string_starts.push(at);
                    text
                }
                None => return Ok(None),
            },
        };
        // The quotes count too.
        self.spend(text.len() + 2)?;
        Ok(Some(text))
    }

    /// Any string but a reference.
    fn own_string(&mut self, marker: u8, at: usize) -> Result<Option<String>, Error> {
        Ok(Some(match marker {
            SYSTEM_STRING_FIRST..=SYSTEM_STRING_LAST => {
                SYSTEM_STRINGS[usize::from(marker - SYSTEM_STRING_FIRST)].to_owned()
            }
            SHORT_STRING_FIRST..=SHORT_STRING_LAST => {
                self.utf8(usize::from(marker - SHORT_STRING_FIRST), at)?
            }
            STRING_1 => self.sized_utf8(Width::One, at)?,
            STRING_2 => self.sized_utf8(Width::Two, at)?,
            STRING_4 => self.sized_utf8(Width::Four, at)?,
            GUID_LOWER => self.guid_text(LOWER_DIGITS)?,
            GUID_UPPER => self.guid_text(UPPER_DIGITS)?,
            GUID_QUOTED => format!("\"{}\"", self.guid_text(LOWER_DIGITS)?),
            GUID => self.guid()?,
            HEX_LOWER => self.nibbles(LOWER_DIGITS, at)?,
            HEX_UPPER => self.nibbles(UPPER_DIGITS, at)?,
            DATE_TIME => self.nibbles(DATE_TIME_CHARACTERS, at)?,
            PACKED_4 => self.packed_from_base(4, at)?,
            PACKED_5 => self.packed_from_base(5, at)?,
            PACKED_6 => self.packed_from_base(6, at)?,
            PACKED_7_1 => self.packed(7, Width::One, at)?,
            PACKED_7_2 => self.packed(7, Width::Two, at)?,
            BASE64_1 => self.base64(Width::One, false, at)?,
            BASE64_2 => self.base64(Width::Two, false, at)?,
            BASE64_URL_1 => self.base64(Width::One, true, at)?,
            BASE64_URL_2 => self.base64(Width::Two, true, at)?,
            BINARY_1 => self.binary(Width::One)?,
            BINARY_2 => self.binary(Width::Two)?,
            BINARY_4 => self.binary(Width::Four)?,
            _ => return Ok(None),
        }))
    }

    fn utf8(&mut self, length: usize, at: usize) -> Result<String, Error> {
        let text = std::str::from_utf8(self.bytes(length)?);
        Ok(text.map_err(|_| Error::Text { at })?.to_owned())
    }

    fn sized_utf8(&mut self, width: Width, at: usize) -> Result<String, Error> {
        let length = self.length(width)?;
        self.utf8(length, at)
    }

    /// The string at an earlier position. It must be one that was read as a string there, and not
    /// itself a reference, so that a client can construct neither loops nor strings out of other
    /// strings' bytes.
    fn reference(&mut self, width: Width, at: usize) -> Result<String, Error> {
        let target = self.length(width)?;
        let nowhere = Error::Reference { at };
        self.string_starts.binary_search(&target).map_err(|_| nowhere)?;
        let here = std::mem::replace(&mut self.at, target);
        let marker = self.byte()?;
        let text = self.own_string(marker, target)?.ok_or(nowhere)?;
        self.at = here;
        Ok(text)
    }

    /// 16 bytes as 32 digits, the low half of each byte first, in groups.
    fn guid_text(&mut self, digits: &[u8; 16]) -> Result<String, Error> {
        let bytes: [u8; 16] = self.fixed()?;
        Ok(grouped(bytes.into_iter().map(|b| (digit(digits, b), digit(digits, b >> 4)))))
    }

    /// 16 bytes of which the first three groups are little-endian numbers.
    fn guid(&mut self) -> Result<String, Error> {
        let b: [u8; 16] = self.fixed()?;
        let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
        let digits = LOWER_DIGITS;
        Ok(grouped(order.into_iter().map(|i| (digit(digits, b[i] >> 4), digit(digits, b[i])))))
    }

    /// Two characters of `alphabet` per byte, the low half first; an odd rest must be zero.
    fn nibbles(&mut self, alphabet: &[u8; 16], at: usize) -> Result<String, Error> {
        let count = self.length(Width::One)?;
        let bytes = self.bytes(count.div_ceil(2))?;
        let mut text: String =
            bytes.iter().flat_map(|b| [digit(alphabet, *b), digit(alphabet, b >> 4)]).collect();
        if count % 2 == 1 {
            if bytes.last().is_some_and(|b| b >> 4 != 0) {
                return Err(Error::Length { at });
            }
            text.pop();
        }
        Ok(text)
    }

    fn packed(&mut self, bits: usize, width: Width, at: usize) -> Result<String, Error> {
        let count = self.length(width)?;
        self.unpack(bits, count, 0, at)
    }

    fn packed_from_base(&mut self, bits: usize, at: usize) -> Result<String, Error> {
        let count = self.length(Width::One)?;
        let base = self.byte()?;
        self.unpack(bits, count, base, at)
    }

    /// `count` characters of `bits` bits each, lowest bit first, counted from `base`.
    fn unpack(&mut self, bits: usize, count: usize, base: u8, at: usize) -> Result<String, Error> {
        let bytes = self.bytes((count * bits).div_ceil(8))?;
        let mut text = String::with_capacity(count);
        let (mut window, mut filled) = (0u16, 0usize);
        let mut rest = bytes.iter();
        for _ in 0..count {
            if filled < bits {
                window |= u16::from(rest.next().copied().unwrap_or_default()) << filled;
                filled += 8;
            }
            let code = base.checked_add((window & ((1 << bits) - 1)).to_be_bytes()[1]);
            window >>= bits;
            filled -= bits;
            let code = code.filter(u8::is_ascii).ok_or(Error::Text { at })?;
            text.push(char::from(code));
        }
        Ok(text)
    }

    /// Base64 text stored as its decoded bytes: the number of four-character groups, then how many
    /// `=` it ends in (0 to 2) or the complement of how many were omitted.
    fn base64(&mut self, width: Width, is_url_safe: bool, at: usize) -> Result<String, Error> {
        let groups = self.length(width)?;
        let (missing, is_padded) = match self.byte()? {
            written @ 0..=2 => (written, true),
            left_out => (!left_out, false),
        };
        let missing = usize::from(missing);
        if missing > 2 || (groups == 0 && missing > 0) {
            return Err(Error::Length { at });
        }
        let bytes = self.bytes(groups * 3 - missing)?;
        let engine = match (is_url_safe, is_padded) {
            (false, true) => &STANDARD,
            (false, false) => &STANDARD_NO_PAD,
            (true, true) => &URL_SAFE,
            (true, false) => &URL_SAFE_NO_PAD,
        };
        Ok(engine.encode(bytes))
    }

    fn binary(&mut self, width: Width) -> Result<String, Error> {
        let length = self.length(width)?;
        Ok(STANDARD.encode(self.bytes(length)?))
    }
}

/// The character that the low half of `byte` encodes.
fn digit(alphabet: &[u8; 16], byte: u8) -> char {
    char::from(alphabet[usize::from(byte & 0x0F)])
}

/// 16 pairs of digits in the 8-4-4-4-12 shape.
fn grouped(pairs: impl Iterator<Item = (char, char)>) -> String {
    let mut text = String::with_capacity(36);
    for (i, (first, second)) in pairs.enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(first);
        text.push(second);
    }
    text
}
