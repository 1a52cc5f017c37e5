//! Encoding of numbers of all four types in one order.
//!
//! First the nearest double, as 8 bytes in order; then a tail that orders the exact values which
//! share that double: `80` for the double itself, `40` and digits for a value below it, `C0` and
//! digits for one above. Only int64 beyond 2^53 and decimal128 ever have digits.

use std::cmp::Ordering;

use crate::decimal::{Decimal, Finite};
use crate::{Value, number};

const BELOW: u8 = 0x40;
const EXACT: u8 = 0x80;
const ABOVE: u8 = 0xC0;
/// Where the tail begins that orders values with the same nearest double.
const TAIL_AT: usize = 8;
/// Length of the shortest encoding: that of a double.
pub(super) const BYTES_MIN: usize = TAIL_AT + 1;
/// Bytes of the exponent before the digits.
const EXPONENT_BYTES: usize = 2;
/// Below the first byte of any digit pair.
const DIGITS_END: u8 = 0x00;
/// Makes every exponent of a decimal128 (or int64) positive.
const EXPONENT_BIAS: i32 = 0x4000;

/// Appends the encoding of a number; other types append nothing.
pub(super) fn encode(value: &Value, out: &mut Vec<u8>) {
    if let Value::Double(n) = value {
        encode_exact(*n, out);
    } else if let Value::Decimal128(bytes) = value {
        encode_decimal(Decimal::from_bson(bytes), out);
    } else if let Some(n) = number::as_i64(value) {
        encode_i64(n, out);
    }
}

fn encode_exact(n: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(&ordered_f64(n));
    out.push(EXACT);
}

fn encode_i64(n: i64, out: &mut Vec<u8>) {
    let near = number::i64_to_f64(n);
    match number::compare_i64_f64(n, near) {
        Some(Ordering::Equal) | None => encode_exact(near, out),
        Some(side) => encode_near(Finite::from_i64(n), near, side, out),
    }
}

fn encode_decimal(decimal: Decimal, out: &mut Vec<u8>) {
    let near = decimal.to_f64();
    let Decimal::Finite(finite) = decimal else {
        return encode_exact(near, out);
    };
    match finite.compare_f64(near) {
        Ordering::Equal => encode_exact(near, out),
        side @ (Ordering::Less | Ordering::Greater) => encode_near(finite, near, side, out),
    }
}

/// A value next to its nearest double. All values that share double and side have one sign, so the
/// digits of negative ones are complemented without a mark.
fn encode_near(value: Finite, near: f64, side: Ordering, out: &mut Vec<u8>) {
    out.extend_from_slice(&ordered_f64(near));
    out.push(if side.is_lt() { BELOW } else { ABOVE });
    let start = out.len();
    encode_digits(value, out);
    if value.is_negative {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
}

/// Exponent of the first digit, digits in pairs plus one, end mark. Longer is larger.
fn encode_digits(value: Finite, out: &mut Vec<u8>) {
    let (digits, exponent) = value.canonical_digits();
    let biased = u16::try_from(exponent + EXPONENT_BIAS).unwrap_or(0);
    out.extend_from_slice(&biased.to_be_bytes());
    for pair in digits.as_bytes().chunks(2) {
        let digit = |at: usize| pair.get(at).map_or(0, |d| d - b'0');
        out.push(digit(0) * 10 + digit(1) + 1);
    }
    out.push(DIGITS_END);
}

/// The length of the encoding that `bytes` begin with; `None` if they end before that is known.
pub(super) fn length_of(bytes: &[u8]) -> Option<usize> {
    if *bytes.get(TAIL_AT)? == EXACT {
        return Some(BYTES_MIN);
    }
    // The digits end with a mark. All of the tail is complemented for negative numbers, whose
    // double has no sign bit.
    let is_negative = bytes.first()? & 0x80 == 0;
    let end = if is_negative { !DIGITS_END } else { DIGITS_END };
    let digits_at = BYTES_MIN + EXPONENT_BYTES;
    let digits = bytes.get(digits_at..)?.iter().position(|byte| *byte == end)?;
    Some(digits_at + digits + 1)
}

/// The bits of a double in the order of doubles: negative ones inverted, others with the sign bit
/// set. Negative zero is zero; every NaN is 0, below negative infinity.
fn ordered_f64(n: f64) -> [u8; 8] {
    if n.is_nan() {
        return [0; 8];
    }
    let bits = if n == 0.0 { 0 } else { n.to_bits() };
    let is_negative = bits >> 63 == 1;
    (if is_negative { !bits } else { bits | 1 << 63 }).to_be_bytes()
}
