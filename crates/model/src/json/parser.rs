//! A recursive parser from UTF-8 text straight into [`Value`].
//!
//! Written by hand because every write uses it: it knows the byte offset of every error, keeps
//! integers exact, finds repeated names and limits its own depth, and it is faster than building
//! the tree through a generic visitor.

use super::scan::plain_prefix;
use super::{JsonError, Parsed};
use crate::Value;
use crate::limits::JSON_DEPTH_MAX;
use crate::value::Object;

/// See [`super::parse`].
pub(super) fn parse(text: &[u8], depth_max: usize) -> Result<Parsed, JsonError> {
    let mut parser = Parser::new(text, depth_max)?;
    let value = parser.value()?;
    match parser.next_token() {
        None => Ok(Parsed { value, is_faithful: parser.is_faithful }),
        Some(_) => Err(parser.refuse("text follows the value")),
    }
}

pub(super) struct Parser<'t> {
    /// The same as `bytes`, if all of it is known to be UTF-8.
    text: Option<&'t str>,
    bytes: &'t [u8],
    at: usize,
    depth_max: usize,
    depth: usize,
    is_faithful: bool,
}

pub(super) type Outcome<T> = Result<T, JsonError>;

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t [u8], depth_max: usize) -> Outcome<Self> {
        let text = str::from_utf8(text).map_err(|error| JsonError::Syntax {
            at: error.valid_up_to(),
            reason: "the text is not UTF-8".to_owned(),
        })?;
        Ok(Self { text: Some(text), ..Self::of_part(text.as_bytes(), depth_max) })
    }

    /// A parser that checks UTF-8 only in the text it reads.
    pub(super) fn of_part(bytes: &'t [u8], depth_max: usize) -> Self {
        let depth_max = depth_max.min(JSON_DEPTH_MAX);
        Self { text: None, bytes, at: 0, depth_max, depth: 0, is_faithful: true }
    }

    /// The text between `start` and here, neither of which is inside a character.
    fn text_from(&self, start: usize) -> Outcome<&'t str> {
        match self.text {
            Some(text) => Ok(&text[start..self.at]),
            None => str::from_utf8(&self.bytes[start..self.at])
                .map_err(|_| self.refuse("the text is not UTF-8")),
        }
    }

    #[cold]
    pub(super) fn refuse(&self, reason: &str) -> JsonError {
        JsonError::Syntax { at: self.at, reason: reason.to_owned() }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips one byte.
    pub(super) fn advance(&mut self) {
        self.at += 1;
    }

    /// Skips all bytes for which `is_passed` is true.
    pub(super) fn skip_while(&mut self, is_passed: impl Fn(u8) -> bool) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at += rest.iter().position(|byte| !is_passed(*byte)).unwrap_or(rest.len());
    }

    /// The bytes of a string literal without escapes, which is consumed; the parser stands at its
    /// opening quote.
    pub(super) fn plain_string(&mut self) -> Option<&'t [u8]> {
        let rest = self.bytes.get(self.at + 1..)?;
        let length = plain_prefix(rest);
        let is_plain = rest.get(length) == Some(&b'"');
        is_plain.then(|| {
            self.at += length + 2;
            &rest[..length]
        })
    }

    /// Skips a string literal; the parser stands at its opening quote.
    pub(super) fn skip_string(&mut self) -> Outcome<()> {
        self.at += 1;
        loop {
            self.skip_plain();
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.at = (self.at + 2).min(self.bytes.len()),
                Some(b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(_) => return Err(self.refuse("a control character must be escaped")),
                None => return Err(self.refuse("the text ends inside a string")),
            }
        }
    }

    /// Skips white space and returns the next byte without consuming it.
    pub(super) fn next_token(&mut self) -> Option<u8> {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                _ => return Some(byte),
            }
        }
        None
    }

    pub(super) fn value(&mut self) -> Outcome<Value> {
        match self.next_token() {
            Some(b'"') => self.string().map(Value::String),
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            Some(_) => Err(self.refuse("a value is expected here")),
            None => Err(self.refuse("the text ends where a value is expected")),
        }
    }

    fn literal(&mut self, word: &str, value: Value) -> Outcome<Value> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.refuse("a value is expected here"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn nested(&mut self, body: fn(&mut Self) -> Outcome<Value>) -> Outcome<Value> {
        if self.depth == self.depth_max {
            return Err(JsonError::TooDeep { max: self.depth_max });
        }
        self.depth += 1;
        self.at += 1;
        let value = body(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Outcome<Value> {
        let mut elements = Vec::new();
        if self.next_token() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(elements));
        }
        loop {
            elements.push(self.value()?);
            if self.is_end(b']')? {
                return Ok(Value::Array(elements));
            }
        }
    }

    fn object(&mut self) -> Outcome<Value> {
        let mut fields: Vec<(String, Value)> = Vec::new();
        if self.next_token() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(Object::new()));
        }
        loop {
            fields.push(self.member()?);
            if self.is_end(b'}')? {
                break;
            }
        }
        let (object, has_repeated_names) = Object::from_fields(fields);
        self.is_faithful &= !has_repeated_names;
        Ok(Value::Object(object))
    }

    fn member(&mut self) -> Outcome<(String, Value)> {
        if self.next_token() != Some(b'"') {
            return Err(self.refuse("a property name is expected here"));
        }
        let name = self.string()?;
        if self.next_token() != Some(b':') {
            return Err(self.refuse("':' is expected here"));
        }
        self.at += 1;
        Ok((name, self.value()?))
    }

    /// After an element or member: true at the `closing` bracket, false after a comma.
    pub(super) fn is_end(&mut self, closing: u8) -> Outcome<bool> {
        let token = self.next_token();
        if token != Some(closing) && token != Some(b',') {
            return Err(self.refuse("',' or the closing bracket is expected here"));
        }
        self.at += 1;
        Ok(token == Some(closing))
    }

    /// A string literal; the parser stands at its opening quote.
    pub(super) fn string(&mut self) -> Outcome<String> {
        self.at += 1;
        let start = self.at;
        self.skip_plain();
        let plain = self.text_from(start)?;
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(plain.to_owned());
        }
        let mut out = String::with_capacity(2 * plain.len() + 16);
        out.push_str(plain);
        self.string_with_escapes(out)
    }

    fn string_with_escapes(&mut self, mut out: String) -> Outcome<String> {
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(space @ (b'\t' | b'\n' | b'\r')) => {
                    // The service takes these as they are; what is stored has them escaped.
                    self.is_faithful = false;
                    self.at += 1;
                    out.push(char::from(space));
                }
                Some(_) => return Err(self.refuse("a control character must be escaped")),
                None => return Err(self.refuse("the text ends inside a string")),
            }
            let start = self.at;
            self.skip_plain();
            out.push_str(self.text_from(start)?);
        }
    }

    /// Skips to the next quote, backslash or control character, or to the end.
    fn skip_plain(&mut self) {
        self.at += plain_prefix(&self.bytes[self.at..]);
    }

    /// An escape sequence; the parser stands at its backslash.
    fn escape(&mut self) -> Outcome<char> {
        self.at += 1;
        let Some(letter) = self.peek() else {
            return Err(self.refuse("the text ends inside a string"));
        };
        let character = match letter {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{C}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return Err(self.refuse("this escape does not exist")),
        };
        self.at += 1;
        Ok(character)
    }

    /// `uXXXX`, or a surrogate pair of two such escapes; the parser stands at the `u`.
    fn unicode_escape(&mut self) -> Outcome<char> {
        let first = self.code_unit()?;
        if let Some(character) = char::from_u32(u32::from(first)) {
            return Ok(character);
        }
        if self.bytes[self.at..].starts_with(b"\\u") {
            self.at += 1;
            let second = self.code_unit()?;
            if let Some(Ok(character)) = char::decode_utf16([first, second]).next() {
                return Ok(character);
            }
        }
        Err(self.refuse("a surrogate without its other half is not text"))
    }

    fn code_unit(&mut self) -> Outcome<u16> {
        let digits = self.bytes.get(self.at + 1..self.at + 5);
        let digits = digits.filter(|d| d.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|d| str::from_utf8(d).ok());
        let Some(unit) = digits.and_then(|d| u16::from_str_radix(d, 16).ok()) else {
            return Err(self.refuse("'\\u' needs four hexadecimal digits"));
        };
        self.at += 5;
        Ok(unit)
    }

    fn number(&mut self) -> Outcome<Value> {
        let start = self.at;
        let is_negative = self.peek() == Some(b'-');
        if is_negative {
            self.at += 1;
        }
        let whole_start = self.at;
        let mut mantissa = Mantissa::default();
        self.digits(&mut mantissa)?;
        if self.bytes[whole_start] == b'0' && self.at > whole_start + 1 {
            self.at = whole_start + 1;
            return Err(self.refuse("a number has no leading zeros"));
        }
        if matches!(self.peek(), Some(b'.' | b'e' | b'E')) {
            let exponent = self.fraction_and_exponent(&mut mantissa)?;
            return match mantissa.scaled(exponent) {
                Some(n) => Ok(Value::Double(if is_negative { -n } else { n })),
                None => self.double(start),
            };
        }
        match (mantissa.exact(), is_negative) {
            (Some(n), false) if i64::try_from(n).is_ok() => Ok(Value::Int64(n.cast_signed())),
            (Some(n), true) if n != 0 && n <= 1 << 63 => {
                Ok(Value::Int64(n.wrapping_neg().cast_signed()))
            }
            _ => self.double(start),
        }
    }

    /// Reads one digit or more.
    fn digits(&mut self, mantissa: &mut Mantissa) -> Outcome<()> {
        let start = self.at;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            mantissa.push(digit - b'0');
            self.at += 1;
        }
        if self.at == start { Err(self.refuse("a digit is expected here")) } else { Ok(()) }
    }

    /// Reads what follows the whole part: appends the digits of the fraction to the mantissa and
    /// returns the power of ten to multiply it with; `None` if that is out of range.
    fn fraction_and_exponent(&mut self, mantissa: &mut Mantissa) -> Outcome<Option<i32>> {
        let mut fraction = 0;
        if self.peek() == Some(b'.') {
            self.at += 1;
            let start = self.at;
            self.digits(mantissa)?;
            fraction = self.at - start;
        }
        let mut exponent = Mantissa::default();
        let mut is_negative = false;
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                is_negative = self.peek() == Some(b'-');
                self.at += 1;
            }
            self.digits(&mut exponent)?;
        }
        let exponent = exponent.exact().and_then(|e| i32::try_from(e).ok());
        let fraction = i32::try_from(fraction).ok();
        Ok(exponent.zip(fraction).and_then(|(exponent, fraction)| {
            let exponent = if is_negative { -exponent } else { exponent };
            exponent.checked_sub(fraction)
        }))
    }

    /// The double nearest to the number that started at `start` and ends here.
    #[cold]
    fn double(&mut self, start: usize) -> Outcome<Value> {
        match self.text_from(start)?.parse::<f64>() {
            Ok(n) if n.is_finite() => Ok(Value::Double(n)),
            _ => {
                self.at = start;
                Err(self.refuse("the number is out of range"))
            }
        }
    }
}

/// Digits read so far as one whole number.
#[derive(Default)]
struct Mantissa {
    /// Meaningless once there are more digits than are certain to fit.
    value: u64,
    count: usize,
}

impl Mantissa {
    /// 19 nines are below 2^64.
    const DIGITS_MAX: usize = 19;

    fn push(&mut self, digit: u8) {
        self.value = self.value.wrapping_mul(10).wrapping_add(u64::from(digit));
        self.count += 1;
    }

    fn exact(&self) -> Option<u64> {
        (self.count <= Self::DIGITS_MAX).then_some(self.value)
    }

    /// The double nearest to this number times a power of ten, in the simple case: both are exact
    /// doubles, so the one operation between them rounds correctly.
    fn scaled(&self, exponent: Option<i32>) -> Option<f64> {
        let mantissa = self.exact().filter(|n| *n <= 1 << 53)? as f64;
        let power = |n: u32| POWERS_OF_TEN.get(usize::try_from(n).ok()?).copied();
        match exponent? {
            negative @ ..0 => Some(mantissa / power(negative.unsigned_abs())?),
            positive => Some(mantissa * power(positive.unsigned_abs())?),
        }
    }
}

/// The powers of ten that are exact doubles.
const POWERS_OF_TEN: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];
