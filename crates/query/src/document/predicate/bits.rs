//! Tests of single bits of numbers and binaries.

use model::Value;
use model::decimal::Decimal;

/// Which bits have to be how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is the operator")]
pub enum BitTest {
    AllSet,
    AnySet,
    AllClear,
    AnyClear,
}

/// A test of the bits at some positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Bits {
    test: BitTest,
    positions: Vec<u32>,
}

impl Bits {
    /// Tests the bits at `positions`, the lowest of which is 0.
    pub fn at(test: BitTest, mut positions: Vec<u32>) -> Self {
        positions.sort_unstable();
        positions.dedup();
        Self { test, positions }
    }

    /// Tests the bits that are set in a number that is not negative.
    pub fn of_number(test: BitTest, mask: i64) -> Self {
        let positions = (0..63).filter(|at| mask >> at & 1 == 1).collect();
        Self { test, positions }
    }

    /// Tests the bits that are set in `mask`, the lowest in its first byte.
    pub fn of_bytes(test: BitTest, mask: &[u8]) -> Self {
        let bits = mask.iter().zip(0_u32..);
        let positions = bits.flat_map(|(byte, at)| {
            (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| at * 8 + bit)
        });
        Self { test, positions: positions.collect() }
    }

    /// Whether a value is an integer or binary that passes.
    pub(super) fn passes(&self, value: &Value) -> bool {
        if let Value::Binary { bytes, .. } = value {
            return self.passes_with(|position| bit_of_bytes(bytes, position));
        }
        if let Value::Guid(bytes) = value {
            return self.passes_with(|position| bit_of_bytes(bytes, position));
        }
        // From the last bit on, the sign goes on for ever.
        exact_integer(value)
            .is_some_and(|n| self.passes_with(|position| n >> position.min(63) & 1 == 1))
    }

    fn passes_with(&self, is_set: impl Fn(u32) -> bool) -> bool {
        let mut positions = self.positions.iter().copied();
        match self.test {
            BitTest::AllSet => positions.all(is_set),
            BitTest::AnySet => positions.any(is_set),
            BitTest::AllClear => !positions.any(is_set),
            BitTest::AnyClear => !positions.all(is_set),
        }
    }
}

fn bit_of_bytes(bytes: &[u8], position: u32) -> bool {
    let byte = usize::try_from(position / 8).ok().and_then(|at| bytes.get(at));
    byte.is_some_and(|byte| byte >> (position % 8) & 1 == 1)
}

/// A number that is an int64 without loss.
pub(crate) fn exact_integer(value: &Value) -> Option<i64> {
    if let Value::Decimal128(bytes) = value {
        let Decimal::Finite(finite) = Decimal::from_bson(bytes) else { return None };
        return finite.to_i64();
    }
    value.as_i64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_tested_in_numbers_and_binaries() {
        let test = |test, positions: &[u32], value: &Value| {
            Bits::at(test, positions.to_vec()).passes(value)
        };
        let n = Value::Int32(0b1010);
        assert!(test(BitTest::AllSet, &[1, 3], &n) && !test(BitTest::AllSet, &[0, 1], &n));
        assert!(test(BitTest::AnySet, &[0, 1], &n) && !test(BitTest::AnySet, &[0, 2], &n));
        assert!(test(BitTest::AllClear, &[0, 2], &n) && !test(BitTest::AllClear, &[0, 1], &n));
        assert!(test(BitTest::AnyClear, &[0, 1], &n) && !test(BitTest::AnyClear, &[1, 3], &n));
        // No positions: all of none are, and none of them is.
        assert!(test(BitTest::AllSet, &[], &n) && !test(BitTest::AnySet, &[], &n));
        let binary = Value::Binary { subtype: 0, bytes: vec![0b10, 0b1] };
        assert!(test(BitTest::AllSet, &[1, 8], &binary));
        assert!(test(BitTest::AllClear, &[0, 9, 1000], &binary));
    }

    #[test]
    fn the_sign_goes_on() {
        let far = |value| Bits::at(BitTest::AllSet, vec![63, 200]).passes(&value);
        assert!(far(Value::Int32(-1)) && far(Value::Double(-1.0)) && !far(Value::Int32(1)));
        assert!(!far(Value::Double(-1.5)) && !far(Value::from("x")));
    }

    #[test]
    fn masks_name_their_set_bits() {
        let of_number = Bits::of_number(BitTest::AllSet, 0b101);
        assert_eq!(of_number, Bits::at(BitTest::AllSet, vec![0, 2]));
        let of_bytes = Bits::of_bytes(BitTest::AllSet, &[0b101, 0b10]);
        assert_eq!(of_bytes, Bits::at(BitTest::AllSet, vec![0, 2, 9]));
    }
}
