//! Cosmos binary JSON: a compact form of JSON for item bodies in requests and, if the client asks
//! for it, in responses. A buffer is the byte [`PREAMBLE`], then one value; every value begins with
//! a marker byte. Multi-byte numbers are little-endian.
//!
//! [`fn@decode`] accepts every marker. No input makes it panic, nest without bound or produce more
//! than the limit: the size of the values as JSON text is counted while they are read.
//! [`fn@encode`] writes only the plain forms, which every reader understands.

mod decode;
mod encode;
mod marker;
mod strings;
#[cfg(test)]
mod tests;

pub use decode::{Limits, decode};
pub use encode::encode;

/// First byte of every buffer. No JSON text begins with it, so it distinguishes the two forms.
pub(crate) const PREAMBLE: u8 = 0x80;

/// Whether `body` starts with the preamble of binary JSON.
pub(crate) fn is_binary(body: &[u8]) -> bool {
    body.first() == Some(&PREAMBLE)
}

/// Why a buffer is not binary JSON that we accept. Positions are byte offsets in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BinaryJsonError {
    /// The buffer ends, or the surrounding array or object does, before the value does.
    #[error("the binary JSON is cut off at byte {at}")]
    Truncated {
        /// Position where more bytes were expected.
        at: usize,
    },
    /// A byte that begins no value, or a value that is not allowed at this position.
    #[error("the binary JSON has an unexpected marker 0x{marker:02X} at byte {at}")]
    Marker {
        /// The byte.
        marker: u8,
        /// Its position.
        at: usize,
    },
    /// A length or count that contradicts what follows it.
    #[error("the binary JSON has a wrong length at byte {at}")]
    Length {
        /// Position of the value that states it.
        at: usize,
    },
    /// A string reference that does not point to an earlier string.
    #[error("the binary JSON has a string reference to nowhere at byte {at}")]
    Reference {
        /// Position of the reference.
        at: usize,
    },
    /// Text that is not UTF-8.
    #[error("the binary JSON has invalid text at byte {at}")]
    Text {
        /// Position of the string.
        at: usize,
    },
    /// A number that JSON can't express: NaN or an infinity.
    #[error("the binary JSON has a number that is not finite at byte {at}")]
    Number {
        /// Its position.
        at: usize,
    },
    /// Nested deeper than allowed.
    #[error("the binary JSON is nested deeper than {max} levels")]
    TooDeep {
        /// The limit.
        max: usize,
    },
    /// Longer than allowed as JSON text.
    #[error("the binary JSON stands for more than {max} bytes of text")]
    TooLarge {
        /// The limit.
        max: usize,
    },
    /// Bytes after the value.
    #[error("the binary JSON goes on after its value at byte {at}")]
    Trailing {
        /// Position of the first such byte.
        at: usize,
    },
}
