//! Functions that make strings from strings.

use model::Value;
use model::limits::REPLICATE_UNITS_MAX;

use super::{Args, Function, Outcome, at_least, between, exactly, utf16};
use crate::Budget;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::linear("CONCAT", at_least(2), concat),
    Function::linear("LEFT", exactly(2), left),
    Function::linear("LENGTH", exactly(1), length),
    Function::linear("LOWER", exactly(1), |args| map_chars(args, lower_char)),
    Function::linear("LTRIM", between(1, 2), |args| trim(args, true, false)),
    Function::metered("REPLACE", exactly(3), replace),
    Function::linear("REPLICATE", exactly(2), replicate),
    Function::linear("REVERSE", exactly(1), reverse),
    Function::linear("RIGHT", exactly(2), right),
    Function::linear("RTRIM", between(1, 2), |args| trim(args, false, true)),
    Function::linear("SUBSTRING", exactly(3), substring),
    Function::linear("TRIM", between(1, 2), |args| trim(args, true, true)),
    Function::linear("UPPER", exactly(1), |args| map_chars(args, upper_char)),
];

/// A character's upper case if that is one character, as in invariant casing.
pub(super) fn upper_char(c: char) -> char {
    single(c, c.to_uppercase())
}

fn lower_char(c: char) -> char {
    single(c, c.to_lowercase())
}

fn single(c: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(only), None) => only,
        _ => c,
    }
}

fn map_chars(args: &Args<'_>, map: fn(char) -> char) -> Option<Value> {
    Some(Value::String(args.str(0)?.chars().map(map).collect()))
}

fn concat(args: &Args<'_>) -> Option<Value> {
    let texts = args.rest(0).map(|arg| arg?.as_str()).collect::<Option<Vec<_>>>()?;
    Some(Value::String(texts.concat()))
}

fn length(args: &Args<'_>) -> Option<Value> {
    Some(count(utf16::len(args.str(0)?)))
}

/// A count as a value.
pub(super) fn count(n: usize) -> Value {
    Value::Int64(i64::try_from(n).unwrap_or(i64::MAX))
}

/// A number of code units: a negative number is zero, too large a number is the maximum.
fn units(number: f64) -> usize {
    if number.is_nan() || number <= 0.0 {
        0
    } else if number >= f64::from(u32::MAX) {
        usize::MAX
    } else {
        truncated(number)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "dropping the fraction is meant, and callers keep the number within u32"
)]
fn truncated(number: f64) -> usize {
    number as usize
}

fn left(args: &Args<'_>) -> Option<Value> {
    let (text, n) = (args.str(0)?, args.number(1)?);
    Some(Value::String(utf16::slice(text, 0, units(n)).into_owned()))
}

fn right(args: &Args<'_>) -> Option<Value> {
    let (text, n) = (args.str(0)?, args.number(1)?);
    let length = utf16::len(text);
    Some(Value::String(utf16::slice(text, length.saturating_sub(units(n)), length).into_owned()))
}

fn substring(args: &Args<'_>) -> Option<Value> {
    let (text, start, length) = (args.str(0)?, args.number(1)?, args.number(2)?);
    if start < 0.0 {
        return Some(Value::from(""));
    }
    let start = units(start);
    Some(Value::String(utf16::slice(text, start, start.saturating_add(units(length))).into_owned()))
}

/// Strips white space, or any character of the second argument, which is a set.
fn trim(args: &Args<'_>, at_start: bool, at_end: bool) -> Option<Value> {
    let text = args.str(0)?;
    // A set is looked up once per character stripped, so it must not be searched.
    let set: Option<Vec<char>> =
        if args.len() > 1 { Some(sorted_chars(args.str(1)?)) } else { None };
    let is_stripped = |c: char| match &set {
        Some(set) => set.binary_search(&c).is_ok(),
        None => c.is_whitespace(),
    };
    let text = if at_start { text.trim_start_matches(is_stripped) } else { text };
    let text = if at_end { text.trim_end_matches(is_stripped) } else { text };
    Some(Value::from(text))
}

fn sorted_chars(text: &str) -> Vec<char> {
    let mut chars: Vec<char> = text.chars().collect();
    chars.sort_unstable();
    chars.dedup();
    chars
}

fn replicate(args: &Args<'_>) -> Option<Value> {
    let (text, times) = (args.str(0)?, args.number(1)?);
    if !times.is_finite() || times < 0.0 {
        return None;
    }
    let total = utf16::len(text).saturating_mul(units(times));
    (total <= REPLICATE_UNITS_MAX).then(|| {
        // An empty text, however often repeated, is empty.
        Value::String(if text.is_empty() { String::new() } else { text.repeat(units(times)) })
    })
}

fn reverse(args: &Args<'_>) -> Option<Value> {
    Some(Value::String(args.str(0)?.chars().rev().collect()))
}

fn replace(args: &Args<'_>, budget: &Budget) -> Outcome {
    let (Some(text), Some(find), Some(by)) = (args.str(0), args.str(1), args.str(2)) else {
        return Ok(None);
    };
    if find.is_empty() {
        return Ok(None);
    }
    budget.spend_bytes(text.len().saturating_add(find.len()))?;
    // Many short matches may grow into many long texts: pay for the result before making it.
    let occurrences = text.matches(find).count();
    budget.spend_bytes(occurrences.saturating_mul(by.len()))?;
    Ok(Some(Value::String(text.replace(find, by))))
}
