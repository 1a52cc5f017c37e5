//! Converts text to tokens. Never fails: characters that are not a token become
//! [`TokenKind::Invalid`], so that the first error in the text is the one reported.

use super::ast::Span;

/// A token and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) span: Span,
}

/// Kinds of token; the text itself is looked up by the span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Identifier,
    Keyword(Keyword),
    Parameter,
    Number,
    String,
    Symbol(Symbol),
    Invalid,
    End,
}

macro_rules! keywords {
    ($($variant:ident $text:literal)*) => {
        /// Reserved words, in any case.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Keyword { $($variant),* }

        const KEYWORDS: &[(&str, Keyword)] = &[$(($text, Keyword::$variant)),*];
    };
}

keywords! {
    All "ALL" And "AND" Array "ARRAY" As "AS" Asc "ASC" Between "BETWEEN" By "BY" Cross "CROSS"
    Desc "DESC" Distinct "DISTINCT" Escape "ESCAPE" Exists "EXISTS" False "FALSE" First "FIRST"
    For "FOR" From "FROM" Group "GROUP" Having "HAVING" In "IN" Inner "INNER" Is "IS" Join "JOIN"
    Last "LAST" Left "LEFT" Let "LET" Like "LIKE" Limit "LIMIT" Not "NOT" Null "NULL"
    Offset "OFFSET" Or "OR" Order "ORDER" Over "OVER" Rank "RANK" Right "RIGHT" Select "SELECT"
    Set "SET" Top "TOP" True "TRUE" Udf "UDF" Undefined "UNDEFINED" Value "VALUE" Where "WHERE"
}

macro_rules! symbols {
    ($($variant:ident $text:literal)*) => {
        /// Operators and punctuation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Symbol { $($variant),* }

        const SYMBOLS: &[(&str, Symbol)] = &[$(($text, Symbol::$variant)),*];
    };
}

// A symbol comes before its own prefixes.
symbols! {
    ShiftRightUnsigned ">>>" ShiftRight ">>" GreaterOrEqual ">=" Greater ">"
    ShiftLeft "<<" LessOrEqual "<=" NotEqual "<>" Less "<" NotEqualC "!=" Equal "="
    Concat "||" Pipe "|" Coalesce "??" Question "?" Colon ":" Dot "." Comma ","
    Plus "+" Minus "-" Star "*" Slash "/" Percent "%" Ampersand "&" Caret "^" Tilde "~"
    OpenParen "(" CloseParen ")" OpenBracket "[" CloseBracket "]" OpenBrace "{" CloseBrace "}"
}

/// The tokens of a text, produced on demand: the text after an error costs nothing.
pub(super) struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Tokens<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// The next token; after the last one always [`TokenKind::End`].
    pub(super) fn next(&mut self) -> Token {
        let start = skip_blanks(self.text, self.at);
        let rest = self.text.get(start..).unwrap_or_default();
        let (kind, len) = match rest {
            "" => (TokenKind::End, 0),
            rest => next_token(rest),
        };
        self.at = start + len;
        Token { kind, span: Span::new(start, self.at) }
    }
}

/// Whether `name` is `@` and an identifier.
pub(super) fn is_parameter_name(name: &str) -> bool {
    name.strip_prefix('@')
        .is_some_and(|name| !name.is_empty() && identifier_len(name) == name.len())
}

/// Whether `text` can be written as a bare name.
pub(super) fn is_identifier(text: &str) -> bool {
    !text.is_empty() && identifier_len(text) == text.len() && keyword_of(text).is_none()
}

/// Skips white space and `--` comments.
fn skip_blanks(text: &str, mut at: usize) -> usize {
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let trimmed = rest.trim_start();
        at += rest.len() - trimmed.len();
        if !trimmed.starts_with("--") {
            return at;
        }
        at += trimmed.find('\n').unwrap_or(trimmed.len());
    }
}

/// The token that `rest`, which is not empty, begins with, and its length in bytes.
fn next_token(rest: &str) -> (TokenKind, usize) {
    let bytes = rest.as_bytes();
    let first = rest.chars().next().unwrap_or_default();
    if is_identifier_start(first) {
        let len = identifier_len(rest);
        let word = rest.get(..len).unwrap_or_default();
        return (keyword_of(word).map_or(TokenKind::Identifier, TokenKind::Keyword), len);
    }
    match first {
        '0'..='9' => number(rest),
        '.' if bytes.get(1).is_some_and(u8::is_ascii_digit) => number(rest),
        '\'' | '"' => string(rest, first),
        '@' => match identifier_len(rest.get(1..).unwrap_or_default()) {
            0 => (TokenKind::Invalid, 1),
            len => (TokenKind::Parameter, 1 + len),
        },
        _ => match SYMBOLS.iter().find(|(text, _)| rest.starts_with(text)) {
            Some((text, symbol)) => (TokenKind::Symbol(*symbol), text.len()),
            None => (TokenKind::Invalid, first.len_utf8()),
        },
    }
}

fn is_identifier_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

/// Length in bytes of the identifier at the start of `text`; 0 if there is none.
fn identifier_len(text: &str) -> usize {
    if !text.starts_with(is_identifier_start) {
        return 0;
    }
    text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len())
}

fn keyword_of(word: &str) -> Option<Keyword> {
    let mut known = KEYWORDS.iter();
    known.find(|(text, _)| text.eq_ignore_ascii_case(word)).map(|(_, keyword)| *keyword)
}

/// Decimal digits with fraction and exponent, or `0x` and hexadecimal digits. A letter right after
/// it belongs to the same, invalid, token.
fn number(rest: &str) -> (TokenKind, usize) {
    let bytes = rest.as_bytes();
    let digits_from = |at: usize, is_digit: fn(&u8) -> bool| {
        bytes.get(at..).unwrap_or_default().iter().take_while(|b| is_digit(b)).count()
    };
    let mut len;
    let hex_digits = digits_from(2, u8::is_ascii_hexdigit);
    if (rest.starts_with("0x") || rest.starts_with("0X")) && hex_digits > 0 {
        len = 2 + hex_digits;
    } else {
        len = digits_from(0, u8::is_ascii_digit);
        let fraction = digits_from(len + 1, u8::is_ascii_digit);
        if bytes.get(len) == Some(&b'.') && fraction > 0 {
            len += 1 + fraction;
        }
        if matches!(bytes.get(len), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
            let exponent = digits_from(len + 1 + sign, u8::is_ascii_digit);
            if exponent > 0 {
                len += 1 + sign + exponent;
            }
        }
    }
    match identifier_len(rest.get(len..).unwrap_or_default()) {
        0 => (TokenKind::Number, len),
        more => (TokenKind::Invalid, len + more),
    }
}

/// A quoted string up to its closing quote. A string that is never closed, or has an unknown
/// escape, is invalid.
fn string(rest: &str, quote: char) -> (TokenKind, usize) {
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == quote {
            let end = at + 1;
            let is_valid = unescape(rest.get(1..at).unwrap_or_default()).is_some();
            return (if is_valid { TokenKind::String } else { TokenKind::Invalid }, end);
        }
        if c == '\\' {
            chars.next();
        }
    }
    (TokenKind::Invalid, rest.len())
}

/// The text between the quotes with its escapes resolved; `None` if an escape is unknown. Half a
/// surrogate pair, which UTF-8 cannot hold, becomes the replacement character.
pub(super) fn unescape(inner: &str) -> Option<String> {
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        text.push_str(rest.get(..at)?);
        let mut chars = rest.get(at + 1..)?.chars();
        let escaped = chars.next()?;
        rest = chars.as_str();
        match escaped {
            '\'' | '"' | '\\' | '/' => text.push(escaped),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{C}'),
            'n' => text.push('\n'),
            'r' => text.push('\r'),
            't' => text.push('\t'),
            'u' => {
                let (c, tail) = unescape_unicode(rest)?;
                text.push(c);
                rest = tail;
            }
            _ => return None,
        }
    }
    text.push_str(rest);
    Some(text)
}

/// Reads the digits after `\u`, and a low surrogate after a high one.
fn unescape_unicode(rest: &str) -> Option<(char, &str)> {
    let (unit, tail) = hex_unit(rest)?;
    if let Some(c) = char::from_u32(u32::from(unit)) {
        return Some((c, tail));
    }
    let low = tail.strip_prefix("\\u").and_then(hex_unit);
    if let Some((low, after)) = low
        && let Some(Ok(c)) = char::decode_utf16([unit, low]).next()
    {
        return Some((c, after));
    }
    Some((char::REPLACEMENT_CHARACTER, tail))
}

fn hex_unit(text: &str) -> Option<(u16, &str)> {
    let digits = text.get(..4)?;
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    Some((u16::from_str_radix(digits, 16).ok()?, text.get(4..)?))
}
