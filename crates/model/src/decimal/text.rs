//! Reading decimals from text.

use super::arithmetic::finish;
use super::{COEFFICIENT_MAX, Decimal};

/// Longest text that is read.
const TEXT_BYTES_MAX: usize = 100_000;

impl Decimal {
    /// Reads a number: digits with a point and an exponent, `Infinity` or `NaN`. Digits beyond the
    /// 34th are rounded. `None` if it is no number.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (is_negative, magnitude) = match text.strip_prefix('-') {
            Some(magnitude) => (true, magnitude),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        match magnitude.to_ascii_lowercase().as_str() {
            "nan" => return Some(Decimal::NaN),
            "inf" | "infinity" => return Some(Decimal::Infinity { is_negative }),
            _ => {}
        }
        let (mantissa, exponent) = match magnitude.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
            None => (magnitude, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits = whole.bytes().chain(fraction.bytes());
        if (whole.is_empty() && fraction.is_empty()) || !digits.all(|digit| digit.is_ascii_digit())
        {
            return None;
        }
        Some(of_digits(is_negative, whole, fraction, exponent))
    }
}

/// An exponent; one that is out of every range is cut.
fn parse_exponent(text: &str) -> Option<i32> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let magnitude = digits.parse::<i32>().map_or(1_000_000, |n| n.min(1_000_000));
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

fn of_digits(is_negative: bool, whole: &str, fraction: &str, exponent: i32) -> Decimal {
    let mut exponent = exponent - i32::try_from(fraction.len()).unwrap_or(0);
    let (mut coefficient, mut is_exact) = (0_u128, true);
    for digit in whole.bytes().chain(fraction.bytes()).map(|digit| u128::from(digit - b'0')) {
        // One digit more than is kept decides how to round, and what follows breaks ties.
        if coefficient <= COEFFICIENT_MAX {
            coefficient = coefficient * 10 + digit;
        } else {
            exponent += 1;
            is_exact &= digit == 0;
        }
    }
    finish(is_negative, coefficient, exponent, is_exact)
}
