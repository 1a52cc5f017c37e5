//! Request units as integers, so that sums never drift.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// An amount of request units, held in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Charge(u64);

impl Charge {
    /// Nothing.
    pub const ZERO: Charge = Charge(0);

    /// `n` thousandths of a request unit.
    pub const fn milli(n: u64) -> Self {
        Charge(n)
    }

    /// `n` whole request units.
    pub const fn units(n: u64) -> Self {
        Charge(n.saturating_mul(1000))
    }

    /// The amount in thousandths.
    pub const fn as_milli(self) -> u64 {
        self.0
    }
}

impl Add for Charge {
    type Output = Charge;

    fn add(self, other: Charge) -> Charge {
        Charge(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Charge {
    fn add_assign(&mut self, other: Charge) {
        *self = *self + other;
    }
}

impl Sum for Charge {
    fn sum<I: Iterator<Item = Charge>>(iter: I) -> Charge {
        iter.fold(Charge::ZERO, Add::add)
    }
}

/// Prints the form that clients expect: no trailing zeros, at least one digit before the point.
impl fmt::Display for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, milli) = (self.0 / 1000, self.0 % 1000);
        match milli {
            0 => write!(f, "{whole}"),
            m if m % 100 == 0 => write!(f, "{whole}.{}", m / 100),
            m if m % 10 == 0 => write!(f, "{whole}.{:02}", m / 10),
            m => write!(f, "{whole}.{m:03}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Charge;

    #[test]
    fn prints_without_trailing_zeros() {
        let shown = |m| Charge::milli(m).to_string();
        assert_eq!(shown(1000), "1");
        assert_eq!(shown(5520), "5.52");
        assert_eq!(shown(500), "0.5");
        assert_eq!(shown(1), "0.001");
    }
}
