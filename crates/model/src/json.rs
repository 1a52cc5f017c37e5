//! JSON text to and from the plain subset of [`Value`].

use crate::Value;

/// Why a text is not the JSON we accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Not JSON.
    #[error("invalid JSON at byte {at}: {reason}")]
    Syntax {
        /// Byte offset.
        at: usize,
        /// What is wrong there.
        reason: String,
    },
    /// Nested deeper than allowed.
    #[error("JSON nested deeper than {max} levels")]
    TooDeep {
        /// The limit that was passed.
        max: usize,
    },
}

/// A parsed text, and whether the text can stand for the value as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The value. Of repeated names the last wins.
    pub value: Value,
    /// False when some object repeats a name, so that text and value say different things.
    pub is_faithful: bool,
}

/// Parses one JSON value that fills the whole text (white space around it allowed).
pub fn parse(text: &[u8], depth_max: usize) -> Result<Parsed, JsonError> {
    todo!("{text:?} {depth_max}")
}

/// Appends `value` as compact JSON. Kinds that JSON lacks are written in their documented
/// extended form (`docs/ARCHITECTURE.md`).
pub fn write(value: &Value, out: &mut Vec<u8>) {
    todo!("{value:?} {out:?}")
}

/// `value` as compact JSON text.
pub fn to_string(value: &Value) -> String {
    let mut out = Vec::with_capacity(128);
    write(value, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends `text` as a JSON string literal with its quotes.
pub fn write_str(text: &str, out: &mut Vec<u8>) {
    todo!("{text:?} {out:?}")
}
