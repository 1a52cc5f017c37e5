//! Why a text is not a query we can run: position, the service's code and its words.

/// Whether a text is wrong or merely beyond what this server does, and how much is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxErrorKind {
    /// The text is not a valid query.
    Syntax,
    /// The text is a valid query that is not supported yet.
    NotSupported,
    /// The query can't be planned; the code is a bare number and there is no position.
    Binding,
    /// The query can't be planned; there is neither a code nor a position.
    Planning,
}

/// A text that can't be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// The service's code, such as `SC1001`; empty if it has none.
    pub code: &'static str,
    /// What is wrong, in the service's words where they are known.
    pub message: String,
    /// Where it begins, in UTF-16 code units.
    pub start: usize,
    /// Where it ends, exclusive, in UTF-16 code units.
    pub end: usize,
    /// Whether the text is wrong or unsupported.
    pub kind: SyntaxErrorKind,
}
