//! Query languages in, the shared algebra out.
#![forbid(unsafe_code)]

/// Why a text could not be compiled.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// The service's code.
    pub code: &'static str,
    /// For people.
    pub message: String,
    /// Byte offset of the offending text.
    pub start: usize,
    /// And where it ends.
    pub end: usize,
}
