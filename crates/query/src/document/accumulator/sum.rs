//! Sums of numbers of any type that do not lose what small numbers add to large ones.

use model::Value;
use model::decimal::Decimal;
use model::number::i64_to_f64;

use crate::document::expression::number::{Number, int_or_long};

/// A sum: integers exactly, doubles as a double and what it lacks, decimals as one.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    whole: i128,
    high: f64,
    low: f64,
    decimal: Decimal,
    has_long: bool,
    has_double: bool,
    has_decimal: bool,
}

impl Default for Sum {
    fn default() -> Self {
        Self {
            whole: 0,
            high: 0.0,
            low: 0.0,
            decimal: Decimal::ZERO,
            has_long: false,
            has_double: false,
            has_decimal: false,
        }
    }
}

impl Sum {
    pub(super) fn add(&mut self, number: Number) {
        match number {
            Number::Int(n) => self.whole += i128::from(n),
            Number::Long(n) => {
                self.whole += i128::from(n);
                self.has_long = true;
            }
            Number::Double(n) => {
                self.add_double(n);
                self.has_double = true;
            }
            Number::Decimal(n) => {
                self.decimal = self.decimal.plus(n);
                self.has_decimal = true;
            }
        }
    }

    fn add_double(&mut self, n: f64) {
        let sum = self.high + n;
        let added = sum - self.high;
        self.low += (self.high - (sum - added)) + (n - added);
        self.high = sum;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.whole += other.whole;
        self.add_double(other.high);
        if other.high.is_finite() {
            self.low += other.low;
        }
        self.decimal = self.decimal.plus(other.decimal);
        self.has_long |= other.has_long;
        self.has_double |= other.has_double;
        self.has_decimal |= other.has_decimal;
    }

    /// The sum as a double.
    pub(super) fn to_f64(&self) -> f64 {
        if !self.high.is_finite() {
            return self.high;
        }
        let mut total = self.clone();
        // In two parts, each of which a double holds.
        let upper = i64::try_from(self.whole >> 32).unwrap_or(i64::MAX);
        let lower = u32::try_from(self.whole & 0xFFFF_FFFF).unwrap_or(0);
        total.add_double(i64_to_f64(upper) * 4_294_967_296.0);
        total.add_double(f64::from(lower));
        total.high + total.low
    }

    fn to_decimal(&self) -> Decimal {
        let whole = i64::try_from(self.whole).map_or_else(
            |_| Decimal::parse(&self.whole.to_string()).unwrap_or(Decimal::NaN),
            Decimal::from_i64,
        );
        let doubles = match self.has_double {
            true if self.high.is_finite() => Decimal::from_f64(self.high + self.low),
            true => Decimal::from_f64(self.high),
            false => Decimal::ZERO,
        };
        whole.plus(doubles).plus(self.decimal)
    }

    /// The sum in the widest type of what was added.
    pub(super) fn finish(&self) -> Number {
        if self.has_decimal {
            return Number::Decimal(self.to_decimal());
        }
        match i64::try_from(self.whole) {
            Ok(n) if !self.has_double && self.has_long => Number::Long(n),
            Ok(n) if !self.has_double => int_or_long(n),
            _ => Number::Double(self.to_f64()),
        }
    }

    /// The sum divided by a number of values; `None` of no values.
    pub(super) fn average(&self, count: u64) -> Option<Value> {
        let count = i64::try_from(count).ok().filter(|count| *count > 0)?;
        Some(Value::from(match self.has_decimal {
            true => Number::Decimal(self.to_decimal().divide(Decimal::from_i64(count))),
            false => Number::Double(self.to_f64() / i64_to_f64(count)),
        }))
    }

    /// The parts, to be kept or sent elsewhere.
    pub(super) fn to_parts(&self) -> Vec<Value> {
        vec![
            Value::String(self.whole.to_string()),
            Value::Double(self.high),
            Value::Double(self.low),
            Value::Decimal128(self.decimal.to_bson()),
            Value::Bool(self.has_long),
            Value::Bool(self.has_double),
            Value::Bool(self.has_decimal),
        ]
    }

    pub(super) fn of_parts(parts: &[Value]) -> Option<Self> {
        let [
            Value::String(whole),
            Value::Double(high),
            Value::Double(low),
            Value::Decimal128(decimal),
            Value::Bool(has_long),
            Value::Bool(has_double),
            Value::Bool(has_decimal),
        ] = parts
        else {
            return None;
        };
        Some(Self {
            whole: whole.parse().ok()?,
            high: *high,
            low: *low,
            decimal: Decimal::from_bson(decimal),
            has_long: *has_long,
            has_double: *has_double,
            has_decimal: *has_decimal,
        })
    }
}
