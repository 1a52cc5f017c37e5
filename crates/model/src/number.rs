//! Exact handling of integers and doubles: conversion, comparison and printing.
//!
//! A *plain number* is an int32, an int64 or a double. Decimal128 is in [`crate::decimal`]; it is
//! never a plain number, because neither JSON nor SQL can express it without loss.

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::Value;

/// 2^63 as a double: the first one above every int64. Its negative is the lowest int64.
const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;

/// The exact integer of a plain number, if it is one: an int32, an int64, or a double without a
/// fraction that lies in the range of int64.
pub fn as_i64(value: &Value) -> Option<i64> {
    if let Value::Int64(n) = value {
        return Some(*n);
    }
    if let Value::Int32(n) = value {
        return Some(i64::from(*n));
    }
    if let Value::Double(n) = value { f64_to_i64(*n) } else { None }
}

/// The nearest double of a plain number (int32, int64, double).
pub fn as_f64(value: &Value) -> Option<f64> {
    if let Value::Int64(n) = value {
        return Some(i64_to_f64(*n));
    }
    if let Value::Int32(n) = value {
        return Some(f64::from(*n));
    }
    if let Value::Double(n) = value { Some(*n) } else { None }
}

/// The int64 that equals `n`, if there is one. Negative zero is 0.
pub fn f64_to_i64(n: f64) -> Option<i64> {
    let in_range = (-TWO_POW_63..TWO_POW_63).contains(&n);
    (in_range && n.fract() == 0.0).then(|| truncate(n))
}

/// The double nearest to `n`, ties to even.
pub fn i64_to_f64(n: i64) -> f64 {
    n as f64
}

/// Compares two plain numbers exactly: 2^53 + 1 as int64 is greater than 2^53 as double. `None`
/// when one of them is not a plain number or is NaN.
pub fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (Plain::of(a)?, Plain::of(b)?) {
        (Plain::Integer(a), Plain::Integer(b)) => Some(a.cmp(&b)),
        (Plain::Double(a), Plain::Double(b)) => a.partial_cmp(&b),
        (Plain::Integer(a), Plain::Double(b)) => compare_i64_f64(a, b),
        (Plain::Double(a), Plain::Integer(b)) => compare_i64_f64(b, a).map(Ordering::reverse),
    }
}

/// Compares an integer with a double by their mathematical values; `None` for NaN.
pub fn compare_i64_f64(a: i64, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        return None;
    }
    if b >= TWO_POW_63 {
        return Some(Ordering::Less);
    }
    if b < -TWO_POW_63 {
        return Some(Ordering::Greater);
    }
    let whole = truncate(b);
    // With equal whole parts the fraction decides; it has the sign of `b`.
    Some(a.cmp(&whole).then_with(|| 0.0_f64.total_cmp(&(b.fract() + 0.0))))
}

/// Appends `n` as JSON the way the service prints numbers: a value that is an int64 without point
/// or exponent (`1.0` is `1`, `-0.0` is `0`); any other with 15 significant digits if they read
/// back as the same double, else with 17, in the form of C's `%g` (`0.33333333333333331`, `1e-05`,
/// `1.8446744073709552e+19`).
///
/// JSON has no NaN or infinities; they are written as the strings `"NaN"`, `"Infinity"` and
/// `"-Infinity"`. Callers that must reject them check [`f64::is_finite`] first.
pub fn write_f64(n: f64, out: &mut Vec<u8>) {
    if let Some(whole) = f64_to_i64(n) {
        return write_i64(whole, out);
    }
    if !n.is_finite() {
        return out.extend_from_slice(non_finite_name(n).as_bytes());
    }
    Digits::of(n).write(n.is_sign_negative(), out);
}

/// Appends `n` in decimal.
pub fn write_i64(n: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

fn non_finite_name(n: f64) -> &'static str {
    if n.is_nan() {
        "\"NaN\""
    } else if n > 0.0 {
        "\"Infinity\""
    } else {
        "\"-Infinity\""
    }
}

#[expect(clippy::cast_possible_truncation, reason = "callers have checked the range of int64")]
fn truncate(n: f64) -> i64 {
    n as i64
}

/// A plain number with int32 widened.
enum Plain {
    Integer(i64),
    Double(f64),
}

impl Plain {
    fn of(value: &Value) -> Option<Self> {
        if let Value::Int64(n) = value {
            return Some(Plain::Integer(*n));
        }
        if let Value::Int32(n) = value {
            return Some(Plain::Integer(i64::from(*n)));
        }
        if let Value::Double(n) = value { Some(Plain::Double(*n)) } else { None }
    }
}

/// The number of digits of any decimal number that survive conversion to a normal double, and of
/// any double that survive conversion to decimal: the two precisions that the service tries.
const PRECISION_SHORT: usize = 15;
const PRECISION_LONG: usize = 17;

/// The digits to print of a finite double that is not zero: `d1.d2d3… * 10^exponent`.
struct Digits {
    /// ASCII digits without trailing zeros, at least one.
    digits: SmallVec<[u8; 24]>,
    /// Decimal exponent of the first digit.
    exponent: i32,
    /// From this exponent on, the exponent form is used.
    exponent_form_min: i32,
}

impl Digits {
    fn of(n: f64) -> Self {
        // The shortest digits that read back as `n` are cheap, and decide most cases.
        let shortest = Self::parse(ryu::Buffer::new().format_finite(n.abs()));
        match shortest.digits.len() {
            _ if !n.is_normal() => Self::by_trial(n),
            // If they are at most 15, they are also the first 15 of any longer expansion.
            ..=PRECISION_SHORT => shortest,
            PRECISION_LONG => Self { exponent_form_min: 17, ..shortest },
            _ => Self::long(n),
        }
    }

    fn by_trial(n: f64) -> Self {
        let short = format!("{:.*e}", PRECISION_SHORT - 1, n.abs());
        if short.parse() == Ok(n.abs()) { Self::parse(&short) } else { Self::long(n) }
    }

    fn long(n: f64) -> Self {
        let long = format!("{:.*e}", PRECISION_LONG - 1, n.abs());
        Self { exponent_form_min: 17, ..Self::parse(&long) }
    }

    /// Splits a positive number in any usual form: `12.5`, `1e-7`, `0.03`.
    fn parse(text: &str) -> Self {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: SmallVec<[u8; 24]> = whole.bytes().chain(fraction.bytes()).collect();
        let leading_zeros = digits.iter().take_while(|d| **d == b'0').count();
        digits.drain(..leading_zeros);
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        let shift = i32::try_from(whole.len()).unwrap_or(0) - 1;
        let shift = shift - i32::try_from(leading_zeros).unwrap_or(0);
        let exponent = exponent.parse().unwrap_or(0) + shift;
        Self { digits, exponent, exponent_form_min: 15 }
    }

    fn write(&self, is_negative: bool, out: &mut Vec<u8>) {
        if is_negative {
            out.push(b'-');
        }
        if self.exponent < -4 || self.exponent >= self.exponent_form_min {
            self.write_scientific(out);
        } else {
            self.write_fixed(out);
        }
    }

    fn write_scientific(&self, out: &mut Vec<u8>) {
        let (first, rest) = self.digits.split_at(1);
        out.extend_from_slice(first);
        if !rest.is_empty() {
            out.push(b'.');
            out.extend_from_slice(rest);
        }
        let sign = if self.exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:02}", self.exponent.abs()).as_bytes());
    }

    fn write_fixed(&self, out: &mut Vec<u8>) {
        let whole = usize::try_from(self.exponent + 1).unwrap_or(0);
        if whole == 0 {
            out.extend_from_slice(b"0.");
            out.extend((self.exponent + 1..0).map(|_| b'0'));
            return out.extend_from_slice(&self.digits);
        }
        for at in 0..whole.max(self.digits.len()) {
            if at == whole {
                out.push(b'.');
            }
            out.push(self.digits.get(at).copied().unwrap_or(b'0'));
        }
    }
}

#[cfg(test)]
mod tests;
