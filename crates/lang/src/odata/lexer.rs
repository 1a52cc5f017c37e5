//! Converts the text of a filter to tokens.

use model::{Value, edm};
use query::algebra::Relation;

use crate::{SyntaxError, SyntaxErrorKind};

/// A token with its start and end, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    Open,
    Close,
    Comma,
    And,
    Or,
    Not,
    Relation(Relation),
    /// An arithmetic operator, which is not supported.
    Arithmetic,
    Name(String),
    Literal(Value),
    End,
}

/// Reads a text token by token.
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

pub(super) type Lexed<T> = Result<T, SyntaxError>;

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// An error at a range of the text.
    pub(super) fn error(&self, message: &str, start: usize, end: usize) -> SyntaxError {
        self.error_of(SyntaxErrorKind::Syntax, message, start, end)
    }

    pub(super) fn error_of(
        &self,
        kind: SyntaxErrorKind,
        message: &str,
        start: usize,
        end: usize,
    ) -> SyntaxError {
        let units = |at: usize| {
            let before = self.text.get(..at).unwrap_or(self.text);
            before.encode_utf16().count()
        };
        let (start, end) = (units(start), units(end));
        let message = match kind {
            SyntaxErrorKind::Syntax => {
                format!("A syntax error occurred at position {start} of the filter: {message}")
            }
            SyntaxErrorKind::NotSupported
            | SyntaxErrorKind::Binding
            | SyntaxErrorKind::Planning => {
                format!("Not supported at position {start} of the filter: {message}")
            }
        };
        SyntaxError { code: "", message, start, end, kind }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn take_while(&mut self, is_taken: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !is_taken(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// The next token.
    pub(super) fn next(&mut self) -> Lexed<Token> {
        self.take_while(char::is_whitespace);
        let start = self.at;
        let kind = match self.rest().chars().next() {
            None => TokenKind::End,
            Some('(') => self.single(TokenKind::Open),
            Some(')') => self.single(TokenKind::Close),
            Some(',') => self.single(TokenKind::Comma),
            Some('\'') => TokenKind::Literal(Value::String(self.quoted(start)?)),
            Some(c) if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => self.number()?,
            Some(c) if is_name_start(c) => self.word()?,
            Some(c) => {
                let end = start + c.len_utf8();
                return Err(self.error("this character is not expected here.", start, end));
            }
        };
        Ok(Token { kind, start, end: self.at })
    }

    fn single(&mut self, kind: TokenKind) -> TokenKind {
        self.at += 1;
        kind
    }

    /// A text in single quotes, where a quote is doubled; the lexer stands at the first quote.
    fn quoted(&mut self, start: usize) -> Lexed<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            out.push_str(self.take_while(|c| c != '\''));
            if self.rest().starts_with("''") {
                out.push('\'');
                self.at += 2;
            } else if self.rest().starts_with('\'') {
                self.at += 1;
                return Ok(out);
            } else {
                return Err(self.error("a string is not closed.", start, self.text.len()));
            }
        }
    }

    /// A word, or a literal that begins with one.
    fn word(&mut self) -> Lexed<TokenKind> {
        let start = self.at;
        let word = self.take_while(is_name_part);
        if self.rest().starts_with('\'') {
            let text = self.quoted(start)?;
            let value = typed_literal(word, &text);
            return value.map(TokenKind::Literal).ok_or_else(|| {
                let message = format!("'{word}' is no type with a literal of this form.");
                self.error(&message, start, self.at)
            });
        }
        Ok(keyword(word).unwrap_or_else(|| TokenKind::Name(word.to_owned())))
    }

    fn number(&mut self) -> Lexed<TokenKind> {
        let start = self.at;
        let mut has_exponent = false;
        if self.rest().starts_with(['-', '+']) {
            self.at += 1;
        }
        self.take_while(|c| c.is_ascii_digit());
        let mut is_double = self.rest().starts_with('.');
        if is_double {
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        if self.rest().starts_with(['e', 'E']) {
            has_exponent = true;
            self.at += 1;
            if self.rest().starts_with(['-', '+']) {
                self.at += 1;
            }
            self.take_while(|c| c.is_ascii_digit());
        }
        is_double |= has_exponent;
        let digits = self.text.get(start..self.at).unwrap_or_default();
        let suffix = self.take_while(is_name_part);
        let value = match suffix {
            "" if is_double => double(digits),
            "" => integer(digits, i32::MIN.into()..=i32::MAX.into()),
            "l" | "L" if !is_double => digits.parse().ok().map(Value::Int64),
            "d" | "D" | "f" | "F" | "m" | "M" => double(digits),
            _ => None,
        };
        let error = || self.error("this is not a number in range.", start, self.at);
        value.map(TokenKind::Literal).ok_or_else(error)
    }
}

fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_name_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn double(digits: &str) -> Option<Value> {
    let number: f64 = digits.parse().ok()?;
    number.is_finite().then_some(Value::Double(number))
}

/// An int32 if it fits, else an int64.
fn integer(digits: &str, int32: std::ops::RangeInclusive<i64>) -> Option<Value> {
    let number: i64 = digits.parse().ok()?;
    let small = i32::try_from(number).ok().filter(|_| int32.contains(&number));
    Some(small.map_or(Value::Int64(number), Value::Int32))
}

/// The value of `name'text'`.
fn typed_literal(name: &str, text: &str) -> Option<Value> {
    match name.to_ascii_lowercase().as_str() {
        "datetime" => edm::parse_date(text).map(Value::Date),
        "guid" => edm::parse_guid(text).map(Value::Guid),
        "x" | "binary" => hex_bytes(text).map(|bytes| Value::Binary { subtype: 0, bytes }),
        _ => None,
    }
}

fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|n| u8::try_from(n).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| match *pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        })
        .collect()
}

/// Reserved words, in either case.
fn keyword(word: &str) -> Option<TokenKind> {
    let lower = word.to_ascii_lowercase();
    Some(match lower.as_str() {
        "and" => TokenKind::And,
        "or" => TokenKind::Or,
        "not" => TokenKind::Not,
        "eq" => TokenKind::Relation(Relation::Equal),
        "ne" => TokenKind::Relation(Relation::NotEqual),
        "lt" => TokenKind::Relation(Relation::Less),
        "le" => TokenKind::Relation(Relation::LessOrEqual),
        "gt" => TokenKind::Relation(Relation::Greater),
        "ge" => TokenKind::Relation(Relation::GreaterOrEqual),
        "add" | "sub" | "mul" | "div" | "mod" => TokenKind::Arithmetic,
        "true" => TokenKind::Literal(Value::Bool(true)),
        "false" => TokenKind::Literal(Value::Bool(false)),
        _ => return None,
    })
}
