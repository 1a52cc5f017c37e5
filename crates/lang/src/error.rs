//! Why a text is not a query that can run: position, the service's code and message.

/// Whether a text is invalid or only unsupported, and how much of the error is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxErrorKind {
    /// The text is not a valid query.
    Syntax,
    /// The text is a valid query that is not supported yet.
    NotSupported,
    /// The query cannot be planned; the code is a bare number and there is no position.
    Binding,
    /// The query cannot be planned; there is neither a code nor a position.
    Planning,
}

/// Why a text cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// The service's code, such as `SC1001`; empty if it has none.
    pub code: &'static str,
    /// What is wrong, in the service's wording where it is known.
    pub message: String,
    /// Start of the error, in UTF-16 code units.
    pub start: usize,
    /// End of the error, exclusive, in UTF-16 code units.
    pub end: usize,
    /// Whether the text is invalid or unsupported.
    pub kind: SyntaxErrorKind,
}
