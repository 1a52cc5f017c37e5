//! Texts: parts by byte and by code point, searching, splitting and letter case.

use std::borrow::Cow;

use model::Value;

use super::array::{found_at, position};
use super::number::Number;
use super::operator::{Named, null, optional, owned, required};
use super::{Arguments, Evaluated, Operator, Shape};
use crate::document::Failure;
use crate::document::values::{date_text, double_text, is_nullish, printed, type_name};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("$concat", Shape::Any, concat),
    Operator::new("$indexOfBytes", Shape::Between(2, 4), index_of_bytes),
    Operator::new("$indexOfCP", Shape::Between(2, 4), index_of_code_point),
    Operator::new("$ltrim", Shape::Named(TRIM), |arguments| trim(arguments, true, false)),
    Operator::new("$replaceAll", Shape::Named(REPLACE), |arguments| replace(arguments, usize::MAX)),
    Operator::new("$replaceOne", Shape::Named(REPLACE), |arguments| replace(arguments, 1)),
    Operator::new("$rtrim", Shape::Named(TRIM), |arguments| trim(arguments, false, true)),
    Operator::new("$split", Shape::Exactly(2), split),
    Operator::new("$strLenBytes", Shape::Exactly(1), length_in_bytes),
    Operator::new("$strLenCP", Shape::Exactly(1), length_in_code_points),
    Operator::new("$strcasecmp", Shape::Exactly(2), compare_ignoring_case),
    Operator::new("$substr", Shape::Exactly(3), substring_of_bytes),
    Operator::new("$substrBytes", Shape::Exactly(3), substring_of_bytes),
    Operator::new("$substrCP", Shape::Exactly(3), substring_of_code_points),
    Operator::new("$toLower", Shape::Exactly(1), |arguments| {
        owned(text_of(arguments, 0)?.to_ascii_lowercase())
    }),
    Operator::new("$toUpper", Shape::Exactly(1), |arguments| {
        owned(text_of(arguments, 0)?.to_ascii_uppercase())
    }),
    Operator::new("$trim", Shape::Named(TRIM), |arguments| trim(arguments, true, true)),
];

const TRIM: &Named = &Named {
    parameters: &[required("input", 50695, "{op} requires an 'input' field"), optional("chars")],
    not_object: (50696, "{op} only supports an object as an argument, found {}"),
    unknown: (50694, "{op} found an unknown argument: {}"),
};

const REPLACE: &Named = &Named {
    parameters: &[
        required("input", 51749, "{op} requires 'input' to be specified"),
        required("find", 51748, "{op} requires 'find' to be specified"),
        required("replacement", 51747, "{op} requires 'replacement' to be specified"),
    ],
    not_object: (51751, "{op} requires an object as an argument, found: {}"),
    unknown: (51750, "{op} found an unknown argument: {}"),
};

/// Longest text that an operator makes.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// Pays for a text of this length.
pub(super) fn spend_text(arguments: &Arguments<'_>, bytes: usize) -> Result<(), Failure> {
    if bytes > TEXT_BYTES_MAX {
        let message = "BufBuilder attempted to grow() to more than 64MB";
        return Err(Failure::new(13548, message));
    }
    arguments.scope().spend_bytes(bytes)
}

/// The text of what operators take for one: numbers and times are printed, null is empty.
pub(super) fn coerce_to_text(value: Option<&Value>) -> Result<Cow<'_, str>, Failure> {
    Ok(match value {
        Some(Value::String(text) | Value::Symbol(text)) => Cow::Borrowed(text),
        Some(Value::JavaScript { code, scope: None }) => Cow::Borrowed(code),
        Some(Value::Double(n)) => Cow::Owned(double_text(*n)),
        Some(Value::Int32(_) | Value::Int64(_) | Value::Decimal128(_)) => {
            Cow::Owned(printed(value))
        }
        Some(Value::Timestamp { .. }) => Cow::Owned(printed(value)),
        Some(Value::Date(date)) => Cow::Owned(date_text(date.millis)),
        other if is_nullish(other) => Cow::Borrowed(""),
        other => {
            let given = type_name(other);
            let message = format!("can't convert from BSON type {given} to String");
            return Err(Failure::new(16007, message));
        }
    })
}

fn text_of(arguments: &Arguments<'_>, at: usize) -> Result<String, Failure> {
    let value = arguments.value(at)?;
    let text = coerce_to_text(value.as_deref())?;
    arguments.scope().spend_bytes(text.len())?;
    Ok(text.into_owned())
}

fn concat<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let mut all = String::new();
    for value in arguments.values() {
        let value = value?;
        if is_nullish(value.as_deref()) {
            return null();
        }
        let Some(Value::String(text)) = value.as_deref() else {
            let given = type_name(value.as_deref());
            return Err(Failure::new(16702, format!("$concat only supports strings, not {given}")));
        };
        spend_text(arguments, all.len() + text.len())?;
        all.push_str(text);
    }
    owned(all)
}

/// An argument that must be a text.
fn require_text<'s>(
    value: &'s Option<Cow<'_, Value>>,
    code: i32,
    complaint: &str,
) -> Result<&'s str, Failure> {
    value
        .as_deref()
        .and_then(Value::as_str)
        .ok_or_else(|| Failure::new(code, format!("{complaint}{}", type_name(value.as_deref()))))
}

fn index_of_bytes<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let text = arguments.value(0)?;
    if is_nullish(text.as_deref()) {
        return null();
    }
    let complaint = "$indexOfBytes requires a string as the first argument, found: ";
    let text = require_text(&text, 40091, complaint)?.as_bytes();
    let token = arguments.value(1)?;
    let complaint = "$indexOfBytes requires a string as the second argument, found: ";
    let token = require_text(&token, 40092, complaint)?;
    let start = position(arguments, 2, "starting index")?.unwrap_or(0);
    let end = position(arguments, 3, "ending index")?.unwrap_or(usize::MAX).min(text.len());
    let Some(within) = text.get(start..end) else { return found_at(None) };
    found_at(find_bytes(within, token.as_bytes()).map(|at| start + at))
}

fn find_bytes(text: &[u8], token: &[u8]) -> Option<usize> {
    if token.is_empty() {
        return Some(0);
    }
    text.windows(token.len()).position(|part| part == token)
}

fn index_of_code_point<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let text = arguments.value(0)?;
    if is_nullish(text.as_deref()) {
        return null();
    }
    let complaint = "$indexOfCP requires a string as the first argument, found: ";
    let text = require_text(&text, 40093, complaint)?;
    let token = arguments.value(1)?;
    let complaint = "$indexOfCP requires a string as the second argument, found: ";
    let token = require_text(&token, 40094, complaint)?;
    let start = position(arguments, 2, "starting index")?.unwrap_or(0);
    let end = position(arguments, 3, "ending index")?.unwrap_or(usize::MAX);
    let count = text.chars().count();
    let (start, end) = (start, end.min(count));
    if start > end {
        return found_at(None);
    }
    let (from, to) = (byte_of(text, start), byte_of(text, end));
    let found = text[from..to].find(token);
    found_at(found.map(|at| start + text[from..from + at].chars().count()))
}

/// Where a code point begins; the length of the text if there are fewer.
fn byte_of(text: &str, code_point: usize) -> usize {
    text.char_indices().nth(code_point).map_or(text.len(), |(at, _)| at)
}

fn length_in_bytes<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let text = arguments.value(0)?;
    let complaint = "$strLenBytes requires a string argument, found: ";
    let length = require_text(&text, 34473, complaint)?.len();
    owned(Value::Int32(i32::try_from(length).unwrap_or(i32::MAX)))
}

fn length_in_code_points<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let text = arguments.value(0)?;
    let complaint = "$strLenCP requires a string argument, found: ";
    let length = require_text(&text, 34471, complaint)?.chars().count();
    owned(Value::Int32(i32::try_from(length).unwrap_or(i32::MAX)))
}

fn compare_ignoring_case<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let a = text_of(arguments, 0)?.to_ascii_uppercase();
    let b = text_of(arguments, 1)?.to_ascii_uppercase();
    owned(Value::Int32(match a.cmp(&b) {
        std::cmp::Ordering::Less => -1,
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Greater => 1,
    }))
}

/// A number cut to a whole one; `None` if it is not a number.
fn whole(value: Option<&Value>) -> Option<i64> {
    Number::of(value).map(|number| match number.whole() {
        Some(n) => n,
        // Out of range, the cast takes the nearest.
        None => saturating_whole(number.to_f64()),
    })
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, which is intended")]
fn saturating_whole(n: f64) -> i64 {
    n as i64
}

fn substring_of_bytes<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let text = text_of(arguments, 0)?;
    let (start, length) = (arguments.value(1)?, arguments.value(2)?);
    let complaint = |code, what: &str, value: Option<&Value>| {
        let given = type_name(value);
        let text = format_args!(": {what} must be a numeric type (is BSON type {given})");
        arguments.failure(code, text)
    };
    let start = whole(start.as_deref())
        .ok_or_else(|| complaint(16034, "starting index", start.as_deref()))?;
    let length =
        whole(length.as_deref()).ok_or_else(|| complaint(16035, "length", length.as_deref()))?;
    let from = usize::try_from(start).map_err(|_| {
        let text = format_args!(": starting index must be non-negative (got: {start})");
        arguments.failure(50752, text)
    })?;
    if from >= text.len() {
        return owned("");
    }
    // A negative length takes all that follows.
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let to = from.saturating_add(length).min(text.len());
    if !text.is_char_boundary(from) {
        let complaint = ": Invalid range, starting index is a UTF-8 continuation byte.";
        return Err(arguments.failure(28656, complaint));
    }
    if !text.is_char_boundary(to) {
        let complaint = ": Invalid range, ending index is in the middle of a UTF-8 character.";
        return Err(arguments.failure(28657, complaint));
    }
    owned(&text[from..to])
}

fn substring_of_code_points<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let text = text_of(arguments, 0)?;
    let start = code_points(arguments, 1, "starting index", (34450, 34451))?;
    let length = code_points(arguments, 2, "length", (34452, 34453))?;
    let length = usize::try_from(length)
        .map_err(|_| arguments.failure(34454, ": length must be a nonnegative integer."))?;
    let start = usize::try_from(start).map_err(|_| {
        arguments.failure(34455, ": the starting index must be nonnegative integer.")
    })?;
    let rest = &text[byte_of(&text, start)..];
    owned(&rest[..byte_of(rest, length)])
}

fn code_points(
    arguments: &Arguments<'_>,
    at: usize,
    what: &str,
    (not_numeric, not_whole): (i32, i32),
) -> Result<i32, Failure> {
    let value = arguments.value(at)?;
    let number = Number::of(value.as_deref()).ok_or_else(|| {
        let given = type_name(value.as_deref());
        let text = format_args!(": {what} must be a numeric type (is BSON type {given})");
        arguments.failure(not_numeric, text)
    })?;
    number.exact_i32().ok_or_else(|| {
        let shown = printed(value.as_deref());
        let text =
            format_args!(": {what} cannot be represented as a 32-bit integral value: {shown}");
        arguments.failure(not_whole, text)
    })
}

fn split<'s>(arguments: &Arguments<'s>) -> Evaluated<'s> {
    let (text, separator) = (arguments.value(0)?, arguments.value(1)?);
    if is_nullish(text.as_deref()) || is_nullish(separator.as_deref()) {
        return null();
    }
    let complaint =
        "$split requires an expression that evaluates to a string as a first argument, found: ";
    let text = require_text(&text, 40085, complaint)?;
    let complaint =
        "$split requires an expression that evaluates to a string as a second argument, found: ";
    let separator = require_text(&separator, 40086, complaint)?;
    if separator.is_empty() {
        return Err(Failure::new(40087, "$split requires a non-empty separator"));
    }
    let parts: Vec<Value> = text.split(separator).map(Value::from).collect();
    arguments.scope().spend_bytes(text.len() + parts.len() * size_of::<Value>())?;
    owned(parts)
}

fn replace<'s>(arguments: &Arguments<'s>, max: usize) -> Evaluated<'s> {
    let mut texts = Vec::with_capacity(3);
    let mut has_null = false;
    for (at, what, code) in [(0, "input", 51746), (1, "find", 51745), (2, "replacement", 51744)] {
        let value = arguments.value(at)?;
        if is_nullish(value.as_deref()) {
            has_null = true;
            continue;
        }
        let Some(text) = value.as_deref().and_then(Value::as_str) else {
            let shown = printed(value.as_deref());
            let text = format_args!(" requires that '{what}' be a string, found: {shown}");
            return Err(arguments.failure(code, text));
        };
        texts.push(text.to_owned());
    }
    if has_null {
        return null();
    }
    let [text, find, replacement] = texts.as_slice() else { return null() };
    let count = match find.is_empty() {
        true => text.chars().count() + 1,
        false => text.matches(find.as_str()).count(),
    };
    let growth = replacement.len().saturating_sub(find.len());
    spend_text(arguments, text.len().saturating_add(growth.saturating_mul(count.min(max))))?;
    owned(text.replacen(find.as_str(), replacement, max))
}

/// What is trimmed unless the client says otherwise: the null byte and blanks.
const BLANKS: [char; 20] = [
    '\0', ' ', '\t', '\n', '\u{b}', '\u{c}', '\r', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2001}',
    '\u{2002}', '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}',
    '\u{200a}',
];

fn trim<'s>(arguments: &Arguments<'s>, at_start: bool, at_end: bool) -> Evaluated<'s> {
    let input = arguments.value(0)?;
    if is_nullish(input.as_deref()) {
        return null();
    }
    let complaint = |code, what: &str, value: Option<&Value>| {
        let (shown, given) = (printed(value), type_name(value));
        arguments.failure(
            code,
            format_args!(" requires {what} to be a string, got {shown} (of type {given}) instead."),
        )
    };
    let Some(Value::String(text)) = input.as_deref() else {
        return Err(complaint(50699, "its input", input.as_deref()));
    };
    let chars = match arguments.is_given(1) {
        false => BLANKS.to_vec(),
        true => {
            let chars = arguments.value(1)?;
            if is_nullish(chars.as_deref()) {
                return null();
            }
            let Some(Value::String(chars)) = chars.as_deref() else {
                return Err(complaint(50700, "'chars'", chars.as_deref()));
            };
            let mut chars: Vec<char> = chars.chars().collect();
            chars.sort_unstable();
            chars
        }
    };
    let mut chars = chars;
    chars.sort_unstable();
    let is_trimmed = |c: char| chars.binary_search(&c).is_ok();
    let mut rest = text.as_str();
    if at_start {
        rest = rest.trim_start_matches(is_trimmed);
    }
    if at_end {
        rest = rest.trim_end_matches(is_trimmed);
    }
    owned(rest)
}
