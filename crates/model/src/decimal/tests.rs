use proptest::prelude::*;

use super::*;

mod vectors;

/// A decimal128 of the given parts, in BSON's bytes.
#[expect(clippy::little_endian_bytes, reason = "BSON's byte order")]
fn bson(is_negative: bool, coefficient: u128, exponent: i32) -> [u8; 16] {
    let biased = u128::try_from(exponent + EXPONENT_BIAS).unwrap();
    (u128::from(is_negative) << 127 | biased << 113 | coefficient).to_le_bytes()
}

fn hex(text: &str) -> [u8; 16] {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    std::array::from_fn(byte)
}

#[test]
fn reads_the_byte_patterns_of_bson() {
    let table = [
        ("0000000000000000000000000000007C", "NaN"),
        ("000000000000000000000000000000FC", "NaN"),
        ("00000000000000000000000000000078", "Infinity"),
        ("000000000000000000000000000000F8", "-Infinity"),
        ("00000000000000000000000000004030", "0"),
        ("000000000000000000000000000040B0", "-0"),
        ("01000000000000000000000000004030", "1"),
        ("6E000000000000000000000000003C30", "1.10"),
        ("F2AF967ED05C82DE3297FF6FDE3C4030", "1234567890123456789012345678901234"),
        ("FFFFFFFF638E8D37C087ADBE09EDFF5F", "9.999999999999999999999999999999999E+6144"),
        ("01000000000000000000000000000000", "1E-6176"),
        // A coefficient of more than 34 digits is not canonical and means zero.
        ("FFFFFFFFFFFFFFFFFFFFFFFFFFFF4130", "0"),
        // The large form: the exponent sits two bits lower, the coefficient is out of range.
        ("0000000000000000000000000000106C", "0"),
    ];
    for (bytes, expected) in table {
        assert_eq!(Decimal::from_bson(&hex(bytes)).to_string(), expected, "{bytes}");
    }
}

#[test]
fn prints_plain_and_scientific() {
    let table = [
        (0, 0, "0"),
        (0, -2, "0.00"),
        (0, 3, "0E+3"),
        (15, -1, "1.5"),
        (5, -3, "0.005"),
        (5, -6, "0.000005"),
        (5, -7, "5E-7"),
        (1234, -11, "1.234E-8"),
        (12, 0, "12"),
        (12, 1, "1.2E+2"),
    ];
    for (coefficient, exponent, expected) in table {
        let decimal = Decimal::from_bson(&bson(false, coefficient, exponent));
        assert_eq!(decimal.to_string(), expected);
        let negative = Decimal::from_bson(&bson(true, coefficient, exponent));
        assert_eq!(negative.to_string(), format!("-{expected}"));
    }
}

#[test]
fn compares_with_doubles_exactly() {
    use Ordering::{Equal, Greater, Less};
    let finite = |coefficient, exponent| Finite { is_negative: false, coefficient, exponent };
    let table = [
        // The double 0.1 is a little above one tenth.
        (finite(1, -1), 0.1, Less),
        (finite(1, -1), 0.1_f64.next_down(), Greater),
        (finite(5, -1), 0.5, Equal),
        (finite(50, -2), 0.5, Equal),
        (finite(9_007_199_254_740_993, 0), 9_007_199_254_740_992.0, Greater),
        (finite(0, 5), -0.0, Equal),
        (finite(1, -6176), 0.0, Greater),
        (finite(1, 6111), f64::INFINITY, Less),
        (finite(1, 308), 1e308, Less),
        (finite(5, -324), 5e-324, Greater),
    ];
    for (decimal, double, expected) in table {
        assert_eq!(decimal.compare_f64(double), expected, "{decimal} {double}");
        let negated = Finite { is_negative: true, ..decimal };
        assert_eq!(negated.compare_f64(-double), expected.reverse(), "-{decimal} {double}");
    }
    assert_eq!(finite(1, 0).compare_f64(-1.0), Greater);
    assert_eq!(finite(1, 0).compare_f64(f64::NEG_INFINITY), Greater);
}

#[test]
fn nearest_doubles_at_the_edges() {
    let near = |c, e| Decimal::from_bson(&bson(true, c, e)).to_f64();
    assert_eq!(near(1, 6111), f64::NEG_INFINITY);
    assert!(near(1, -6176) == 0.0 && near(1, -6176).is_sign_negative());
    assert_eq!(near(17_976_931_348_623_157, 292), f64::MIN);
    assert!(Decimal::NaN.to_f64().is_nan());
}

proptest! {
    /// The exact digits that the standard library prints of a double are an independent oracle.
    #[test]
    fn comparison_agrees_with_the_exact_expansion(
        coefficient in 1_u128..=COEFFICIENT_MAX,
        exponent in -330_i32..300,
        ulps in -2_i64..=2,
    ) {
        let decimal = Finite { is_negative: false, coefficient, exponent };
        let near = decimal.to_f64();
        prop_assume!(near.is_finite() && near > 0.0);
        let double = f64::from_bits(near.to_bits().saturating_add_signed(ulps));
        prop_assume!(double.is_finite() && double > 0.0);
        let exact = format!("{double:.1100}");
        let expected = compare_plain(&plain(decimal), &exact);
        prop_assert_eq!(decimal.compare_f64(double), expected);
    }
}

/// A decimal without an exponent, with 1,100 digits after the point.
fn plain(decimal: Finite) -> String {
    let digits = decimal.coefficient.to_string();
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or(0));
    if decimal.exponent >= 0 {
        return format!("{digits}{}.{}", zeros(decimal.exponent), zeros(1100));
    }
    let fraction = usize::try_from(-decimal.exponent).unwrap();
    let padded = format!("{digits:0>width$}", width = fraction + 1);
    let (whole, fraction) = padded.split_at(padded.len() - fraction);
    format!("{whole}.{fraction:0<1100}")
}

fn compare_plain(a: &str, b: &str) -> Ordering {
    let point = |text: &str| text.find('.').unwrap();
    point(a).cmp(&point(b)).then_with(|| a.cmp(b))
}

fn decimal(text: &str) -> Decimal {
    Decimal::parse(text).unwrap()
}

#[test]
fn results_are_rounded_correctly() {
    for (a, operator, b, expected) in vectors::VECTORS {
        let (a, b) = (decimal(a), decimal(b));
        let result = match operator {
            '+' => a.plus(b),
            '-' => a.subtract(b),
            '*' => a.multiply(b),
            '/' => a.divide(b),
            _ => a.remainder(b),
        };
        assert_eq!(result.to_string(), *expected, "{a} {operator} {b}");
    }
}

#[test]
fn texts_are_read() {
    for (text, expected) in [
        ("1.10", "1.10"),
        ("-0", "-0"),
        ("+.5", "0.5"),
        ("5.", "5"),
        ("1e3", "1E+3"),
        ("-INF", "-Infinity"),
        ("nan", "NaN"),
        ("12345678901234567890123456789012345", "1.234567890123456789012345678901234E+34"),
        ("1e9999", "Infinity"),
        ("1e-9999", "0E-6176"),
    ] {
        assert_eq!(decimal(text).to_string(), expected, "{text}");
    }
    for text in ["", "-", ".", "e5", "1e", "1x", "0x10", " 1", "1 ", "--1", "1.2.3"] {
        assert_eq!(Decimal::parse(text), None, "{text}");
    }
}

#[test]
fn doubles_keep_fifteen_digits() {
    for (n, text) in [
        (0.1, "0.100000000000000"),
        (250.0, "250.000000000000"),
        (-1e300, "-1.00000000000000E+300"),
        (0.0, "0"),
        (f64::NAN, "NaN"),
        (f64::NEG_INFINITY, "-Infinity"),
    ] {
        assert_eq!(Decimal::from_f64(n).to_string(), text);
    }
}

#[test]
fn rounds_in_all_directions() {
    use Rounding::{Down, HalfEven, TowardsZero, Up};
    for (text, exponent, rounding, expected) in [
        ("2.5", 0, HalfEven, "2"),
        ("3.5", 0, HalfEven, "4"),
        ("2.51", 0, HalfEven, "3"),
        ("-2.5", 0, Up, "-2"),
        ("-2.5", 0, Down, "-3"),
        ("2.1", 0, Up, "3"),
        ("-2.9", 0, TowardsZero, "-2"),
        ("1234.567", 2, HalfEven, "1.2E+3"),
        ("1.5", -2, HalfEven, "1.50"),
        ("1E+40", -2, HalfEven, "1E+40"),
        ("0.4", 3, HalfEven, "0E+3"),
    ] {
        assert_eq!(decimal(text).round_to_exponent(exponent, rounding).to_string(), expected);
    }
    assert_eq!(decimal("-7.9").to_i64(TowardsZero), Some(-7));
    assert_eq!(decimal("9223372036854775808").to_i64(TowardsZero), None);
}

#[test]
fn square_roots_of_squares_are_exact() {
    for (square, root) in
        [("4", "2"), ("0.25", "0.5"), ("1E+40", "1E+20"), ("15241578750190521", "123456789")]
    {
        assert_eq!(
            decimal(square).square_root().compare(decimal(root)),
            Ordering::Equal,
            "{square}"
        );
    }
    assert_eq!(decimal("2").square_root().to_string(), "1.414213562373095048801688724209698");
    assert_eq!(decimal("-1").square_root(), Decimal::NaN);
}

proptest! {
    #[test]
    fn bytes_and_texts_come_back(n: i64, exponent in -6176_i32..6111) {
        let magnitude = u128::from(n.unsigned_abs());
        let value =
            Decimal::Finite(Finite { is_negative: n < 0, coefficient: magnitude, exponent });
        prop_assert_eq!(Decimal::from_bson(&value.to_bson()), value);
        prop_assert_eq!(Decimal::parse(&value.to_string()), Some(value));
    }

    #[test]
    fn small_numbers_follow_the_laws_of_integers(a: i32, b: i32, scale in -20_i32..20) {
        let of = |n: i64| Decimal::from_i64(n).multiply(decimal(&format!("1E{scale}")));
        let (a, b) = (i64::from(a), i64::from(b));
        prop_assert_eq!(of(a).plus(of(b)).compare(of(a + b)), Ordering::Equal);
        prop_assert_eq!(of(a).subtract(of(b)).compare(of(a - b)), Ordering::Equal);
        prop_assert_eq!(of(a).compare(of(b)), a.cmp(&b));
        prop_assume!(b != 0);
        prop_assert_eq!(of(a).remainder(of(b)).compare(of(a % b)), Ordering::Equal);
        prop_assert_eq!(of(a * b).divide(of(b)).compare(Decimal::from_i64(a)), Ordering::Equal);
    }
}
