//! The fields of a frame's head, called tokens: an id, a type and a value each.
//!
//! The type tells the length, so a token with an unknown id can be skipped. Nothing is copied and
//! nothing is allocated: values borrow from the frame.
#![expect(clippy::little_endian_bytes, reason = "RNTBD is little-endian")]

use super::BadFrame;

/// How the value of a token is encoded. All integers are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum TokenType {
    Byte = 0x00,
    UShort = 0x01,
    ULong = 0x02,
    Long = 0x03,
    ULongLong = 0x04,
    LongLong = 0x05,
    Guid = 0x06,
    /// Text with one byte for its length.
    SmallString = 0x07,
    /// Text with two bytes for its length.
    String = 0x08,
    /// Text with four bytes for its length.
    ULongString = 0x09,
    /// Bytes with one byte for their number.
    SmallBytes = 0x0A,
    /// Bytes with two bytes for their number.
    Bytes = 0x0B,
    /// Bytes with four bytes for their number.
    ULongBytes = 0x0C,
    Float = 0x0D,
    Double = 0x0E,
}

/// Bytes of a token's id and type.
const PREFIX_BYTES: usize = 3;

impl TokenType {
    pub(crate) const ALL: [TokenType; 15] = [
        TokenType::Byte,
        TokenType::UShort,
        TokenType::ULong,
        TokenType::Long,
        TokenType::ULongLong,
        TokenType::LongLong,
        TokenType::Guid,
        TokenType::SmallString,
        TokenType::String,
        TokenType::ULongString,
        TokenType::SmallBytes,
        TokenType::Bytes,
        TokenType::ULongBytes,
        TokenType::Float,
        TokenType::Double,
    ];

    fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Bytes of the value's length, and bytes of the value if it has no length.
    const fn widths(self) -> (usize, usize) {
        match self {
            TokenType::Byte => (0, 1),
            TokenType::UShort => (0, 2),
            TokenType::ULong | TokenType::Long | TokenType::Float => (0, 4),
            TokenType::ULongLong | TokenType::LongLong | TokenType::Double => (0, 8),
            TokenType::Guid => (0, 16),
            TokenType::SmallString | TokenType::SmallBytes => (1, 0),
            TokenType::String | TokenType::Bytes => (2, 0),
            TokenType::ULongString | TokenType::ULongBytes => (4, 0),
        }
    }

    /// Whether the value is text, which must be UTF-8.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, TokenType::SmallString | TokenType::String | TokenType::ULongString)
    }
}

/// One token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'f> {
    pub id: u16,
    pub kind: TokenType,
    /// The value without its length.
    pub value: &'f [u8],
    /// Where the value begins in the head.
    pub at: usize,
}

impl<'f> Token<'f> {
    /// A value of four bytes.
    pub(crate) fn ulong(&self) -> u32 {
        self.value.try_into().map_or(0, u32::from_le_bytes)
    }

    /// A value of one byte.
    pub(crate) fn byte(&self) -> u8 {
        self.value.first().copied().unwrap_or_default()
    }

    /// A text; empty if it is none.
    pub(crate) fn text(&self) -> &'f str {
        std::str::from_utf8(self.value).unwrap_or_default()
    }
}

/// The tokens of a head, in the order in which they were sent.
#[derive(Clone, Debug)]
pub(crate) struct Tokens<'f> {
    head: &'f [u8],
    at: usize,
}

impl<'f> Tokens<'f> {
    /// The tokens of `head` from byte `at` on.
    pub(crate) fn new(head: &'f [u8], at: usize) -> Self {
        Self { head, at }
    }

    /// The next token; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Token<'f>>, BadFrame> {
        let rest = self.head.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let (prefix, rest) = rest.split_first_chunk::<PREFIX_BYTES>().ok_or(BadFrame::CutToken)?;
        let id = u16::from_le_bytes([prefix[0], prefix[1]]);
        let kind = TokenType::of(prefix[2]).ok_or(BadFrame::UnknownType)?;
        let (length_bytes, fixed) = kind.widths();
        let (length, rest) = if length_bytes == 0 {
            (fixed, rest)
        } else {
            let (bytes, rest) = rest.split_at_checked(length_bytes).ok_or(BadFrame::CutToken)?;
            let length = bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | usize::from(*byte));
            (length, rest)
        };
        let value = rest.get(..length).ok_or(BadFrame::CutToken)?;
        let at = self.at + PREFIX_BYTES + length_bytes;
        self.at = at + length;
        Ok(Some(Token { id, kind, value, at }))
    }
}

/// Appends tokens to an answer.
pub(crate) struct TokenWriter<'a>(pub(crate) &'a mut Vec<u8>);

impl TokenWriter<'_> {
    fn prefix(&mut self, id: u16, kind: TokenType) {
        let [low, high] = id.to_le_bytes();
        self.0.extend_from_slice(&[low, high, kind as u8]);
    }

    pub(crate) fn byte(&mut self, id: u16, value: u8) {
        self.prefix(id, TokenType::Byte);
        self.0.push(value);
    }

    pub(crate) fn ulong(&mut self, id: u16, value: u32) {
        self.prefix(id, TokenType::ULong);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn long_long(&mut self, id: u16, value: i64) {
        self.prefix(id, TokenType::LongLong);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn double(&mut self, id: u16, value: f64) {
        self.prefix(id, TokenType::Double);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A text; one that is too long for its length is left out.
    pub(crate) fn string(&mut self, id: u16, text: &[u8]) {
        if let Ok(length) = u16::try_from(text.len()) {
            self.prefix(id, TokenType::String);
            self.0.extend_from_slice(&length.to_le_bytes());
            self.0.extend_from_slice(text);
        }
    }

    /// A text; one that is too long for its length is left out.
    pub(crate) fn small_string(&mut self, id: u16, text: &[u8]) {
        if let Ok(length) = u8::try_from(text.len()) {
            self.prefix(id, TokenType::SmallString);
            self.0.push(length);
            self.0.extend_from_slice(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_listed_by_number() {
        for (number, kind) in TokenType::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
        assert_eq!(TokenType::of(0x0F), None);
        assert_eq!(TokenType::of(0xFF), None);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut out = Vec::new();
        let mut writer = TokenWriter(&mut out);
        writer.byte(1, 7);
        writer.ulong(0x4D, 0x0102_0304);
        writer.long_long(0x13, -2);
        writer.double(0x15, 1.5);
        writer.string(0x17, "dbs/\u{fc}".as_bytes());
        writer.small_string(0x39, b"now");
        writer.small_string(0x39, &[b'x'; 256]);
        writer.string(0x17, &[b'x'; 65_536]);
        let mut tokens = Tokens::new(&out, 0);
        let mut next = || tokens.next().unwrap();
        assert_eq!(next().map(|t| (t.id, t.kind, t.byte())), Some((1, TokenType::Byte, 7)));
        assert_eq!(next().map(|t| (t.id, t.ulong())), Some((0x4D, 0x0102_0304)));
        assert_eq!(next().map(|t| t.value), Some(&(-2i64).to_le_bytes()[..]));
        assert_eq!(next().map(|t| t.value), Some(&1.5f64.to_le_bytes()[..]));
        assert_eq!(next().map(|t| t.text()), Some("dbs/\u{fc}"));
        assert_eq!(next().map(|t| t.text()), Some("now"));
        assert_eq!(next(), None);
    }

    #[test]
    fn every_type_is_skipped_by_its_length() {
        for kind in TokenType::ALL {
            let (length_bytes, fixed) = kind.widths();
            let mut bytes = vec![0xFE, 0x7F, kind as u8];
            let value = if length_bytes == 0 { fixed } else { 2 };
            if length_bytes > 0 {
                bytes.push(2);
                bytes.resize(bytes.len() + length_bytes - 1, 0);
            }
            bytes.resize(bytes.len() + value, 0xAB);
            for end in 1..bytes.len() {
                let cut = Tokens::new(&bytes[..end], 0).next();
                assert_eq!(cut, Err(BadFrame::CutToken), "{kind:?} {end}");
            }
            let mut tokens = Tokens::new(&bytes, 0);
            assert_eq!(tokens.next().unwrap().unwrap().value.len(), value, "{kind:?}");
            assert_eq!(tokens.next(), Ok(None));
        }
        assert_eq!(Tokens::new(&[0, 0, 0x0F, 0], 0).next(), Err(BadFrame::UnknownType));
        assert_eq!(
            Tokens::new(&[0, 0, 9, 255, 255, 255, 255, 0], 0).next(),
            Err(BadFrame::CutToken)
        );
    }
}
