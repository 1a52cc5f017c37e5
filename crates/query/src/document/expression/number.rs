//! Numbers of the four types, and the type that a result has: the widest of its operands. Integers
//! that overflow become the next wider type.

use model::Value;
use model::decimal::Decimal;
use model::number::i64_to_f64;

/// A number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Int(i32),
    Long(i64),
    Double(f64),
    Decimal(Decimal),
}

impl Number {
    pub(crate) fn of(value: Option<&Value>) -> Option<Self> {
        match value {
            Some(Value::Int32(n)) => Some(Number::Int(*n)),
            Some(Value::Int64(n)) => Some(Number::Long(*n)),
            Some(Value::Double(n)) => Some(Number::Double(*n)),
            Some(Value::Decimal128(bytes)) => Some(Number::Decimal(Decimal::from_bson(bytes))),
            _ => None,
        }
    }

    /// The integer of an int or a long.
    pub(crate) fn whole(self) -> Option<i64> {
        match self {
            Number::Int(n) => Some(i64::from(n)),
            Number::Long(n) => Some(n),
            Number::Double(_) | Number::Decimal(_) => None,
        }
    }

    pub(crate) fn to_f64(self) -> f64 {
        match self {
            Number::Int(n) => f64::from(n),
            Number::Long(n) => i64_to_f64(n),
            Number::Double(n) => n,
            Number::Decimal(n) => n.to_f64(),
        }
    }

    pub(crate) fn to_decimal(self) -> Decimal {
        match self {
            Number::Int(n) => Decimal::from_i64(i64::from(n)),
            Number::Long(n) => Decimal::from_i64(n),
            Number::Double(n) => Decimal::from_f64(n),
            Number::Decimal(n) => n,
        }
    }

    /// The int64 with the same value.
    pub(crate) fn exact_i64(self) -> Option<i64> {
        match self {
            Number::Int(n) => Some(i64::from(n)),
            Number::Long(n) => Some(n),
            Number::Double(n) => model::number::f64_to_i64(n),
            Number::Decimal(Decimal::Finite(n)) => n.to_i64(),
            Number::Decimal(Decimal::NaN | Decimal::Infinity { .. }) => None,
        }
    }

    /// The int32 with the same value.
    pub(crate) fn exact_i32(self) -> Option<i32> {
        i32::try_from(self.exact_i64()?).ok()
    }

    pub(crate) fn is_nan(self) -> bool {
        match self {
            Number::Int(_) | Number::Long(_) => false,
            Number::Double(n) => n.is_nan(),
            Number::Decimal(n) => n.is_nan(),
        }
    }

    fn width(self) -> Width {
        match self {
            Number::Int(_) => Width::Int,
            Number::Long(_) => Width::Long,
            Number::Double(_) => Width::Double,
            Number::Decimal(_) => Width::Decimal,
        }
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        match number {
            Number::Int(n) => Value::Int32(n),
            Number::Long(n) => Value::Int64(n),
            Number::Double(n) => Value::Double(n),
            Number::Decimal(n) => Value::Decimal128(n.to_bson()),
        }
    }
}

/// Types of numbers, from narrow to wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Width {
    Int,
    Long,
    Double,
    Decimal,
}

/// An int if it fits one, else a long.
pub(crate) fn int_or_long(n: i64) -> Number {
    i32::try_from(n).map_or(Number::Long(n), Number::Int)
}

/// What a fold of several numbers has so far: the widest type met, and the value in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    widest: Width,
    value: Number,
}

impl Running {
    /// Begins with an int.
    pub(super) fn new(start: i32) -> Self {
        Self { widest: Width::Int, value: Number::Long(i64::from(start)) }
    }

    /// Combines with another number in the wider of both types.
    pub(super) fn fold(
        &mut self,
        operand: Number,
        of_whole: fn(i64, i64) -> Option<i64>,
        of_doubles: fn(f64, f64) -> f64,
        of_decimals: fn(Decimal, Decimal) -> Decimal,
    ) {
        self.widest = self.widest.max(operand.width());
        let both = (self.value.whole(), operand.whole());
        self.value = match (self.widest, both) {
            (Width::Int | Width::Long, (Some(a), Some(b))) => match of_whole(a, b) {
                Some(n) => Number::Long(n),
                None => {
                    self.widest = Width::Double;
                    Number::Double(of_doubles(self.value.to_f64(), operand.to_f64()))
                }
            },
            (Width::Decimal, _) => {
                Number::Decimal(of_decimals(self.value.to_decimal(), operand.to_decimal()))
            }
            _ => Number::Double(of_doubles(self.value.to_f64(), operand.to_f64())),
        };
    }

    pub(super) fn finish(self) -> Number {
        match (self.widest, self.value) {
            (Width::Int, Number::Long(n)) => int_or_long(n),
            (_, value) => value,
        }
    }
}
