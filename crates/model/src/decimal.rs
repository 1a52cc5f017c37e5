//! IEEE 754 decimal128 in binary-integer form: reading, printing, exact comparison, arithmetic.
//!
//! The bytes have BSON's layout (little-endian).

use std::cmp::Ordering;

mod arithmetic;
mod text;

pub use arithmetic::Rounding;

/// Largest coefficient: 34 nines. A larger one is not canonical and reads as zero.
const COEFFICIENT_MAX: u128 = 10_u128.pow(34) - 1;
const EXPONENT_BIAS: i32 = 6176;

/// The value of a decimal128.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decimal {
    /// Not a number.
    NaN,
    /// An infinity.
    Infinity {
        /// Whether the value is negative.
        is_negative: bool,
    },
    /// `coefficient * 10^exponent`, with a sign.
    Finite(Finite),
}

/// A finite decimal: `coefficient * 10^exponent`, with a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finite {
    /// Whether the value is negative (or negative zero).
    pub is_negative: bool,
    /// At most 34 decimal digits.
    pub coefficient: u128,
    /// Power of ten, -6176..=6111.
    pub exponent: i32,
}

impl Decimal {
    /// Reads BSON's 16 bytes. Every bit pattern has a meaning, so this never fails.
    #[expect(clippy::little_endian_bytes, reason = "BSON's byte order")]
    pub fn from_bson(bytes: &[u8; 16]) -> Self {
        let bits = u128::from_le_bytes(*bytes);
        let is_negative = bits >> 127 == 1;
        let combination = (bits >> 122) & 0x1F;
        if combination == 0b11111 {
            return Decimal::NaN;
        }
        if combination == 0b11110 {
            return Decimal::Infinity { is_negative };
        }
        // With the two bits after the sign set, the coefficient would exceed 34 digits: zero.
        let is_large = combination >> 3 == 0b11;
        let shift = if is_large { 111 } else { 113 };
        let exponent = i32::try_from((bits >> shift) & 0x3FFF).unwrap_or(0) - EXPONENT_BIAS;
        let coefficient = if is_large { 0 } else { bits & ((1 << 113) - 1) };
        let coefficient = if coefficient > COEFFICIENT_MAX { 0 } else { coefficient };
        Decimal::Finite(Finite { is_negative, coefficient, exponent })
    }

    /// The double nearest to this value, ties to even; infinite beyond the range of doubles.
    pub fn to_f64(self) -> f64 {
        match self {
            Decimal::NaN => f64::NAN,
            Decimal::Infinity { is_negative: false } => f64::INFINITY,
            Decimal::Infinity { is_negative: true } => f64::NEG_INFINITY,
            Decimal::Finite(finite) => finite.to_f64(),
        }
    }
}

/// The text BSON tools print: digits as they are (`1.10` keeps its zero), exponent form when the
/// exponent is positive or the value is below 10^-6.
impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Decimal::NaN => f.write_str("NaN"),
            Decimal::Infinity { is_negative } => {
                f.write_str(if *is_negative { "-Infinity" } else { "Infinity" })
            }
            Decimal::Finite(finite) => finite.fmt(f),
        }
    }
}

impl std::fmt::Display for Finite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_negative {
            f.write_str("-")?;
        }
        let digits = self.coefficient.to_string();
        let leading = self.leading_exponent(digits.len());
        if self.exponent > 0 || leading < -6 {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            return write!(f, "{first}{point}{rest}E{leading:+}");
        }
        if self.exponent == 0 {
            return f.write_str(&digits);
        }
        let fraction = usize::try_from(-self.exponent).unwrap_or(0);
        let padded = format!("{digits:0>width$}", width = fraction + 1);
        let (whole, fraction) = padded.split_at(padded.len() - fraction);
        write!(f, "{whole}.{fraction}")
    }
}

impl Finite {
    /// An integer as a decimal.
    pub fn from_i64(n: i64) -> Self {
        Self { is_negative: n < 0, coefficient: u128::from(n.unsigned_abs()), exponent: 0 }
    }

    /// The int64 that equals this value, if there is one.
    pub fn to_i64(self) -> Option<i64> {
        let (digits, leading) = self.canonical_digits();
        // 19 digits can hold every int64.
        let length = usize::try_from(leading + 1).ok().filter(|n| *n >= digits.len() && *n <= 19);
        match length {
            _ if digits.is_empty() => Some(0),
            None => None,
            Some(length) => {
                let sign = if self.is_negative { "-" } else { "" };
                format!("{sign}{digits:0<length$}").parse().ok()
            }
        }
    }

    /// The double nearest to this value, ties to even.
    pub fn to_f64(self) -> f64 {
        let magnitude = format!("{}e{}", self.coefficient, self.exponent);
        // The text is always a number; the standard library rounds it correctly.
        let magnitude = magnitude.parse().unwrap_or(f64::NAN);
        if self.is_negative { -magnitude } else { magnitude }
    }

    /// Compares this value with a double that is not NaN, exactly.
    ///
    /// The double must be near (the nearest double, for example): the cost grows with the
    /// difference of the exponents.
    pub fn compare_f64(self, n: f64) -> Ordering {
        if n.is_infinite() {
            return if n > 0.0 { Ordering::Less } else { Ordering::Greater };
        }
        let sign = |is_zero: bool, is_negative: bool| match (is_zero, is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let own_sign = sign(self.coefficient == 0, self.is_negative);
        let other_sign = sign(n == 0.0, n < 0.0);
        if own_sign != other_sign || own_sign == 0 {
            return own_sign.cmp(&other_sign);
        }
        let magnitudes = self.compare_magnitude(n.abs());
        if own_sign < 0 { magnitudes.reverse() } else { magnitudes }
    }

    /// `coefficient * 10^exponent` against a positive finite double, by whole-number arithmetic:
    /// both sides are multiplied by the powers of 2 and 5 that make them integers.
    fn compare_magnitude(self, n: f64) -> Ordering {
        let (mantissa, power_of_two) = mantissa_and_exponent(n);
        let mut own = BigUint::new(self.coefficient);
        let mut other = BigUint::new(u128::from(mantissa));
        own.multiply_by_power_of_five(self.exponent.max(0).unsigned_abs());
        other.multiply_by_power_of_five((-self.exponent).max(0).unsigned_abs());
        let shift = power_of_two - self.exponent;
        own.shift_left((-shift).max(0).unsigned_abs());
        other.shift_left(shift.max(0).unsigned_abs());
        own.compare(&other)
    }

    /// Decimal digits without trailing zeros, and the exponent of the first. The same for all
    /// representations of one value; zero has no digits.
    pub fn canonical_digits(self) -> (String, i32) {
        let digits = self.coefficient.to_string();
        let leading = self.leading_exponent(digits.len());
        (digits.trim_end_matches('0').to_owned(), leading)
    }

    fn leading_exponent(self, digits: usize) -> i32 {
        self.exponent + i32::try_from(digits).unwrap_or(0) - 1
    }
}

/// A positive finite double as `mantissa * 2^exponent`.
fn mantissa_and_exponent(n: f64) -> (u64, i32) {
    let bits = n.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    match i32::try_from((bits >> 52) & 0x7FF).unwrap_or(0) {
        0 => (fraction, -1074),
        biased => (fraction | 1 << 52, biased - 1075),
    }
}

/// A whole number of any size, least significant limb first.
struct BigUint(Vec<u32>);

impl BigUint {
    fn new(n: u128) -> Self {
        Self((0..4).map(|limb| low_32(n >> (32 * limb))).collect())
    }

    fn multiply_by_power_of_five(&mut self, power: u32) {
        // 5^13 is the largest power that fits a limb.
        for _ in 0..power / 13 {
            self.multiply(5_u32.pow(13));
        }
        self.multiply(5_u32.pow(power % 13));
    }

    fn multiply(&mut self, factor: u32) {
        let mut carry = 0_u64;
        for limb in &mut self.0 {
            let product = u64::from(*limb) * u64::from(factor) + carry;
            *limb = low_32(u128::from(product));
            carry = product >> 32;
        }
        self.0.push(low_32(u128::from(carry)));
    }

    fn shift_left(&mut self, bits: u32) {
        self.multiply(1 << (bits % 32));
        let limbs = usize::try_from(bits / 32).unwrap_or(0);
        self.0.splice(0..0, std::iter::repeat_n(0, limbs));
    }

    fn compare(&self, other: &Self) -> Ordering {
        let significant =
            |limbs: &[u32]| limbs.iter().rposition(|l| *l != 0).map_or(0, |at| at + 1);
        let (a, b) = (significant(&self.0), significant(&other.0));
        a.cmp(&b).then_with(|| self.0[..a].iter().rev().cmp(other.0[..b].iter().rev()))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "keeps the low 32 bits")]
fn low_32(n: u128) -> u32 {
    n as u32
}

#[cfg(test)]
mod tests;
