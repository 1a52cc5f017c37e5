//! Arithmetic of decimals. Every result is the exact one rounded to 34 digits, ties to even.

use std::cmp::Ordering;

use super::{COEFFICIENT_MAX, Decimal, EXPONENT_BIAS, Finite};

/// Digits of a coefficient.
const PRECISION: u32 = 34;
/// Digits that sums are computed with: some more than are kept, and few enough for 128 bits.
const WORKING_DIGITS: u32 = 37;
const EXPONENT_MIN: i32 = -EXPONENT_BIAS;
const EXPONENT_MAX: i32 = 6111;

/// How a number that lies between two others becomes one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest; to the even one if both are as near.
    HalfEven,
    /// Towards zero.
    TowardsZero,
    /// Towards positive infinity.
    Up,
    /// Towards negative infinity.
    Down,
}

impl Decimal {
    /// Zero.
    pub const ZERO: Decimal =
        Decimal::Finite(Finite { is_negative: false, coefficient: 0, exponent: 0 });

    /// BSON's 16 bytes.
    #[expect(clippy::little_endian_bytes, reason = "BSON's byte order")]
    pub fn to_bson(self) -> [u8; 16] {
        let bits = match self {
            Decimal::NaN => 0b11111 << 122,
            Decimal::Infinity { is_negative } => sign_bit(is_negative) | 0b11110 << 122,
            Decimal::Finite(finite) => {
                let exponent = u128::try_from(finite.exponent + EXPONENT_BIAS).unwrap_or(0);
                sign_bit(finite.is_negative) | exponent << 113 | finite.coefficient
            }
        };
        bits.to_le_bytes()
    }

    /// Whether this is a zero of any sign and exponent.
    pub fn is_zero(self) -> bool {
        matches!(self, Decimal::Finite(Finite { coefficient: 0, .. }))
    }

    /// Whether this is not a number.
    pub fn is_nan(self) -> bool {
        self == Decimal::NaN
    }

    /// Whether the sign is negative.
    pub fn is_negative(self) -> bool {
        match self {
            Decimal::NaN => false,
            Decimal::Infinity { is_negative } => is_negative,
            Decimal::Finite(finite) => finite.is_negative,
        }
    }

    /// An integer as a decimal.
    pub fn from_i64(n: i64) -> Self {
        Decimal::Finite(Finite::from_i64(n))
    }

    /// A double rounded to the 15 digits that every double keeps.
    pub fn from_f64(n: f64) -> Self {
        if n.is_nan() {
            return Decimal::NaN;
        }
        if n.is_infinite() {
            return Decimal::Infinity { is_negative: n < 0.0 };
        }
        if n == 0.0 {
            return Decimal::ZERO.with_sign(n.is_sign_negative());
        }
        Decimal::parse(&format!("{n:.14e}")).unwrap_or(Decimal::NaN)
    }

    /// A double with as many digits as decimals have.
    pub fn from_f64_exact(n: f64) -> Self {
        match n.is_finite() && n != 0.0 {
            true => Decimal::parse(&format!("{n:.33e}")).unwrap_or(Decimal::NaN).trimmed(),
            false => Decimal::from_f64(n),
        }
    }

    /// The same magnitude with this sign.
    #[must_use]
    pub fn with_sign(self, is_negative: bool) -> Self {
        match self {
            Decimal::NaN => Decimal::NaN,
            Decimal::Infinity { .. } => Decimal::Infinity { is_negative },
            Decimal::Finite(finite) => Decimal::Finite(Finite { is_negative, ..finite }),
        }
    }

    /// The number with the other sign.
    #[must_use]
    pub fn negate(self) -> Self {
        self.with_sign(!self.is_negative())
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Decimal::NaN, _) | (_, Decimal::NaN) => Decimal::NaN,
            (Decimal::Infinity { is_negative: a }, Decimal::Infinity { is_negative: b }) => {
                if a == b { self } else { Decimal::NaN }
            }
            (Decimal::Infinity { .. }, _) => self,
            (_, Decimal::Infinity { .. }) => other,
            (Decimal::Finite(a), Decimal::Finite(b)) => add_finite(a, b),
        }
    }

    /// The difference.
    #[must_use]
    pub fn subtract(self, other: Self) -> Self {
        self.plus(other.negate())
    }

    /// The product.
    #[must_use]
    pub fn multiply(self, other: Self) -> Self {
        let is_negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Decimal::NaN, _) | (_, Decimal::NaN) => Decimal::NaN,
            (Decimal::Infinity { .. }, finite) | (finite, Decimal::Infinity { .. }) => {
                if finite.is_zero() { Decimal::NaN } else { Decimal::Infinity { is_negative } }
            }
            (Decimal::Finite(a), Decimal::Finite(b)) => {
                let (coefficient, dropped, is_exact) = product(a.coefficient, b.coefficient);
                let exponent = a.exponent + b.exponent + dropped;
                finish(is_negative, coefficient, exponent, is_exact)
            }
        }
    }

    /// The quotient; infinite for a division by zero.
    #[must_use]
    pub fn divide(self, other: Self) -> Self {
        let is_negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Decimal::NaN, _) | (_, Decimal::NaN) => Decimal::NaN,
            (Decimal::Infinity { .. }, Decimal::Infinity { .. }) => Decimal::NaN,
            (Decimal::Infinity { .. }, _) => Decimal::Infinity { is_negative },
            (_, Decimal::Infinity { .. }) => Decimal::ZERO.with_sign(is_negative),
            (Decimal::Finite(a), Decimal::Finite(b)) => match (a.coefficient, b.coefficient) {
                (0, 0) => Decimal::NaN,
                (_, 0) => Decimal::Infinity { is_negative },
                _ => divide_finite(is_negative, a, b),
            },
        }
    }

    /// The remainder of the division that rounds towards zero; it has the sign of the dividend.
    #[must_use]
    pub fn remainder(self, other: Self) -> Self {
        let (Decimal::Finite(a), Decimal::Finite(b)) = (self, other) else {
            let is_whole = matches!(self, Decimal::Finite(_)) && !other.is_nan();
            return if is_whole { self } else { Decimal::NaN };
        };
        if b.coefficient == 0 {
            return Decimal::NaN;
        }
        let exponent = a.exponent.min(b.exponent);
        let Some(divisor) = scaled(b.coefficient, b.exponent - exponent) else { return self };
        let mut rest = a.coefficient % divisor;
        for _ in exponent..a.exponent {
            // The divisor has its own coefficient here, so ten times the rest fits.
            rest = rest * 10 % divisor;
        }
        finish(a.is_negative, rest, exponent, true)
    }

    /// Compares by value. A total order: NaN equals itself and is below all others.
    pub fn compare(self, other: Self) -> Ordering {
        let class = |n: Self| match n {
            Decimal::NaN => 0,
            Decimal::Infinity { is_negative: true } => 1,
            Decimal::Finite(_) => 2,
            Decimal::Infinity { is_negative: false } => 3,
        };
        let (Decimal::Finite(a), Decimal::Finite(b)) = (self, other) else {
            return class(self).cmp(&class(other));
        };
        let signs = (a.is_negative && a.coefficient != 0, b.is_negative && b.coefficient != 0);
        match signs {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => compare_magnitudes(a, b),
            (true, true) => compare_magnitudes(b, a),
        }
    }

    /// Rounds so that the exponent is `exponent`; as it is if that would take more digits than
    /// there are.
    #[must_use]
    pub fn round_to_exponent(self, exponent: i32, rounding: Rounding) -> Self {
        let Decimal::Finite(finite) = self else { return self };
        let Finite { is_negative, coefficient, exponent: own } = finite;
        if exponent <= own {
            let padded = scaled(coefficient, own - exponent).filter(|c| *c <= COEFFICIENT_MAX);
            let padded = padded.filter(|_| exponent >= EXPONENT_MIN);
            return padded.map_or(self, |coefficient| {
                Decimal::Finite(Finite { is_negative, coefficient, exponent })
            });
        }
        let dropped = exponent.saturating_sub(own).unsigned_abs();
        let (kept, rest) = split(coefficient, dropped);
        let coefficient = kept + u128::from(rounds_up(kept, rest, is_negative, rounding));
        finish(is_negative, coefficient, exponent.min(EXPONENT_MAX), true)
    }

    /// The int64 that is nearest in this direction, if there is one.
    pub fn to_i64(self, rounding: Rounding) -> Option<i64> {
        match self.round_to_exponent(0, rounding) {
            Decimal::Finite(finite) => finite.to_i64(),
            Decimal::NaN | Decimal::Infinity { .. } => None,
        }
    }

    /// The square root; not a number of what is negative.
    #[must_use]
    pub fn square_root(self) -> Self {
        let Decimal::Finite(finite) = self else {
            return if self.is_negative() { Decimal::NaN } else { self };
        };
        if finite.coefficient == 0 {
            return self;
        }
        if finite.is_negative {
            return Decimal::NaN;
        }
        // Newton's iteration from the root as a double doubles the correct digits each time.
        let half = Decimal::Finite(Finite { is_negative: false, coefficient: 5, exponent: -1 });
        // The exponent is taken out in even steps, so that doubles can hold what is left.
        let even = finite.exponent.div_euclid(2) * 2;
        let reduced = Decimal::Finite(Finite { exponent: finite.exponent - even, ..finite });
        let mut root = Decimal::from_f64(reduced.to_f64().sqrt());
        for _ in 0..4 {
            root = root.plus(reduced.divide(root)).multiply(half);
        }
        let exact = root.trimmed();
        let root = if exact.multiply(exact).compare(reduced).is_eq() { exact } else { root };
        match root {
            Decimal::Finite(root) => {
                finish(false, root.coefficient, root.exponent + even / 2, true)
            }
            Decimal::NaN | Decimal::Infinity { .. } => root,
        }
    }

    /// The same value without zeros at the end of its coefficient.
    #[must_use]
    pub fn trimmed(self) -> Self {
        let Decimal::Finite(mut finite) = self else { return self };
        while finite.coefficient != 0 && finite.coefficient.is_multiple_of(10) {
            finite.coefficient /= 10;
            finite.exponent += 1;
        }
        finish(finite.is_negative, finite.coefficient, finite.exponent, true)
    }
}

fn sign_bit(is_negative: bool) -> u128 {
    u128::from(is_negative) << 127
}

/// `coefficient * 10^power`, if it fits.
fn scaled(coefficient: u128, power: i32) -> Option<u128> {
    if coefficient == 0 {
        return Some(0);
    }
    coefficient.checked_mul(10_u128.checked_pow(u32::try_from(power).ok()?)?)
}

fn digits_of(n: u128) -> u32 {
    if n == 0 { 0 } else { n.ilog10() + 1 }
}

/// What is dropped of a number, against half of the last digit that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Nothing,
    BelowHalf,
    Half,
    AboveHalf,
}

/// The coefficient without its last `dropped` digits.
fn split(coefficient: u128, dropped: u32) -> (u128, Rest) {
    let Some(unit) = 10_u128.checked_pow(dropped) else {
        return (0, if coefficient == 0 { Rest::Nothing } else { Rest::BelowHalf });
    };
    let rest = coefficient % unit;
    let rest = match rest.cmp(&(unit - rest)) {
        _ if rest == 0 => Rest::Nothing,
        Ordering::Less => Rest::BelowHalf,
        Ordering::Equal => Rest::Half,
        Ordering::Greater => Rest::AboveHalf,
    };
    (coefficient / unit, rest)
}

fn rounds_up(kept: u128, rest: Rest, is_negative: bool, rounding: Rounding) -> bool {
    match rounding {
        Rounding::TowardsZero => false,
        Rounding::Up => !is_negative && rest != Rest::Nothing,
        Rounding::Down => is_negative && rest != Rest::Nothing,
        Rounding::HalfEven => match rest {
            Rest::Nothing | Rest::BelowHalf => false,
            Rest::Half => kept % 2 == 1,
            Rest::AboveHalf => true,
        },
    }
}

/// The decimal next to a result. `is_exact` is false if something positive and smaller than the
/// last digit has been dropped already; then there are digits to spare.
pub(super) fn finish(
    is_negative: bool,
    coefficient: u128,
    exponent: i32,
    is_exact: bool,
) -> Decimal {
    let excess = digits_of(coefficient).saturating_sub(PRECISION);
    let below = (EXPONENT_MIN - exponent).max(0).unsigned_abs();
    let dropped = excess.max(below);
    let (mut kept, mut rest) = split(coefficient, dropped);
    if !is_exact {
        rest = match rest {
            Rest::Nothing => Rest::BelowHalf,
            Rest::Half => Rest::AboveHalf,
            Rest::BelowHalf | Rest::AboveHalf => rest,
        };
    }
    let mut exponent = exponent.saturating_add(i32::try_from(dropped).unwrap_or(i32::MAX));
    kept += u128::from(rounds_up(kept, rest, is_negative, Rounding::HalfEven));
    if kept > COEFFICIENT_MAX {
        kept /= 10;
        exponent += 1;
    }
    while exponent > EXPONENT_MAX {
        // Zeros at the end make up for an exponent that is too large.
        if kept == 0 {
            exponent = EXPONENT_MAX;
        } else if kept <= COEFFICIENT_MAX / 10 {
            kept *= 10;
            exponent -= 1;
        } else {
            return Decimal::Infinity { is_negative };
        }
    }
    let exponent = exponent.max(EXPONENT_MIN);
    Decimal::Finite(Finite { is_negative, coefficient: kept, exponent })
}

fn add_finite(a: Finite, b: Finite) -> Decimal {
    let (high, low) = if a.exponent >= b.exponent { (a, b) } else { (b, a) };
    let apart = (high.exponent - low.exponent).unsigned_abs();
    let spare = WORKING_DIGITS - digits_of(high.coefficient);
    let shift = if high.coefficient == 0 { apart } else { apart.min(spare) };
    let exponent = high.exponent - i32::try_from(shift).unwrap_or(0);
    let high_part = scaled(high.coefficient, i32::try_from(shift).unwrap_or(0)).unwrap_or(0);
    let (low_part, rest) = split(low.coefficient, apart - shift);
    let is_exact = rest == Rest::Nothing;
    if high.is_negative == low.is_negative {
        return finish(high.is_negative, high_part + low_part, exponent, is_exact);
    }
    match high_part.cmp(&low_part) {
        // What was dropped makes the difference smaller: one less, plus something.
        Ordering::Greater => {
            let difference = high_part - low_part - u128::from(!is_exact);
            finish(high.is_negative, difference, exponent, is_exact)
        }
        Ordering::Less => finish(low.is_negative, low_part - high_part, exponent, is_exact),
        Ordering::Equal => finish(false, 0, exponent, true),
    }
}

/// The product of two coefficients: its leading digits, how many were dropped, and whether they
/// were all zero.
fn product(a: u128, b: u128) -> (u128, i32, bool) {
    if let Some(product) = a.checked_mul(b) {
        return (product, 0, true);
    }
    let mut limbs = wide_product(a, b);
    let (mut dropped, mut is_exact) = (0, true);
    while limbs[2] != 0 || limbs[3] != 0 {
        let mut rest = 0_u128;
        for limb in limbs.iter_mut().rev() {
            let with_rest = rest << 64 | u128::from(*limb);
            *limb = low_64(with_rest / 10);
            rest = with_rest % 10;
        }
        is_exact &= rest == 0;
        dropped += 1;
    }
    (u128::from(limbs[1]) << 64 | u128::from(limbs[0]), dropped, is_exact)
}

/// The product of two 128-bit numbers, least significant limb first.
fn wide_product(a: u128, b: u128) -> [u64; 4] {
    let (a, b) = ([low_64(a), low_64(a >> 64)], [low_64(b), low_64(b >> 64)]);
    let mut limbs = [0_u64; 4];
    for (i, a) in a.iter().enumerate() {
        let mut carry = 0_u128;
        for (j, b) in b.iter().enumerate() {
            let sum = u128::from(*a) * u128::from(*b) + u128::from(limbs[i + j]) + carry;
            limbs[i + j] = low_64(sum);
            carry = sum >> 64;
        }
        limbs[i + 2] = low_64(carry);
    }
    limbs
}

fn divide_finite(is_negative: bool, a: Finite, b: Finite) -> Decimal {
    let mut exponent = a.exponent - b.exponent;
    let mut quotient = a.coefficient / b.coefficient;
    let mut rest = a.coefficient % b.coefficient;
    // One digit more than is kept decides how to round, and what is left breaks ties.
    while rest != 0 && quotient <= COEFFICIENT_MAX {
        quotient = quotient * 10 + rest * 10 / b.coefficient;
        rest = rest * 10 % b.coefficient;
        exponent -= 1;
    }
    finish(is_negative, quotient, exponent, rest == 0)
}

fn compare_magnitudes(a: Finite, b: Finite) -> Ordering {
    match (a.coefficient, b.coefficient) {
        (0, 0) => return Ordering::Equal,
        (0, _) => return Ordering::Less,
        (_, 0) => return Ordering::Greater,
        _ => {}
    }
    let leading = |n: Finite| n.exponent + i32::try_from(digits_of(n.coefficient)).unwrap_or(0);
    // With equal leading digits the exponents differ by less than 34.
    leading(a).cmp(&leading(b)).then_with(|| {
        let least = a.exponent.min(b.exponent);
        let whole = |n: Finite| scaled(n.coefficient, n.exponent - least);
        whole(a).cmp(&whole(b))
    })
}

#[expect(clippy::cast_possible_truncation, reason = "keeps the low 64 bits")]
fn low_64(n: u128) -> u64 {
    n as u64
}
