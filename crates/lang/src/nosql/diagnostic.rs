//! Compile errors with byte positions; converted to [`SyntaxError`] at the very end.

use super::ast::Span;
use crate::{SyntaxError, SyntaxErrorKind};

/// Longest part of a text quoted in a message.
const QUOTE_CHARS_MAX: usize = 100;

/// An error at a position in the text. Boxed, since results of the parser are returned often and
/// errors are rare.
#[derive(Debug)]
pub(super) struct Diagnostic(Box<Inner>);

#[derive(Debug)]
struct Inner {
    code: &'static str,
    message: String,
    span: Span,
    kind: SyntaxErrorKind,
}

impl Diagnostic {
    pub(super) fn syntax(code: &'static str, message: String, span: Span) -> Self {
        Self(Box::new(Inner { code, message, span, kind: SyntaxErrorKind::Syntax }))
    }

    /// A token that is not allowed at its position.
    pub(super) fn unexpected(near: &str, span: Span) -> Self {
        let message = format!("Syntax error, incorrect syntax near '{}'.", quote(near));
        Self::syntax("SC1001", message, span)
    }

    /// The text ends too early.
    pub(super) fn end_of_text(span: Span) -> Self {
        Self::syntax("SC1002", "Syntax error, unexpected end-of-file.".to_owned(), span)
    }

    /// Characters that are not a token.
    pub(super) fn invalid_token(token: &str, span: Span) -> Self {
        let message = format!("Syntax error, invalid token '{}'.", quote(token));
        Self::syntax("SC1010", message, span)
    }

    /// A valid clause or expression that this server cannot run.
    pub(super) fn not_supported(what: &str, span: Span) -> Self {
        let message = format!(
            "The specified query includes '{}' which is currently not supported.",
            quote(what)
        );
        let kind = SyntaxErrorKind::NotSupported;
        Self(Box::new(Inner { code: "SC2990", message, span, kind }))
    }

    /// A sort key that is not a path of the item.
    pub(super) fn unsupported_order() -> Self {
        let message = "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped \
                       to a document path.";
        Self::unlocated("2206", message.to_owned(), SyntaxErrorKind::Binding)
    }

    /// A query that cannot be planned.
    pub(super) fn planner(message: &str) -> Self {
        Self::unlocated("", message.to_owned(), SyntaxErrorKind::Planning)
    }

    fn unlocated(code: &'static str, message: String, kind: SyntaxErrorKind) -> Self {
        Self(Box::new(Inner { code, message, span: Span::new(0, 0), kind }))
    }

    /// The error for callers, with positions in UTF-16 units of `text`.
    pub(super) fn locate(self, text: &str) -> SyntaxError {
        let Inner { code, message, span, kind } = *self.0;
        let units = |byte: usize| text.get(..byte).unwrap_or(text).encode_utf16().count();
        SyntaxError { code, message, start: units(span.start), end: units(span.end), kind }
    }
}

/// The beginning of a long text.
fn quote(text: &str) -> &str {
    match text.char_indices().nth(QUOTE_CHARS_MAX) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}
