use proptest::prelude::*;

use super::*;

fn printed(n: f64) -> String {
    let mut out = Vec::new();
    write_f64(n, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn prints_as_the_service_does() {
    let table: &[(f64, &str)] = &[
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-1.0, "-1"),
        (1e2, "100"),
        (1e15, "1000000000000000"),
        (1e17, "100000000000000000"),
        (1e18, "1000000000000000000"),
        (9_007_199_254_740_994.0, "9007199254740994"),
        (-TWO_POW_63, "-9223372036854775808"),
        (TWO_POW_63, "9.2233720368547758e+18"),
        (1e19, "1e+19"),
        (18_446_744_073_709_551_615.0, "1.8446744073709552e+19"),
        (12_345_678_901_234_567_000.0, "1.2345678901234567e+19"),
        (1e300, "1e+300"),
        (f64::MAX, "1.7976931348623157e+308"),
        (f64::MIN, "-1.7976931348623157e+308"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1.0 / 3.0, "0.33333333333333331"),
        (1.0 / 6.0, "0.16666666666666666"),
        (17.0_f64.sqrt(), "4.1231056256176606"),
        (5.123124190509124, "5.1231241905091238"),
        (123_456.789, "123456.789"),
        (1_234_567_890_123_456.5, "1234567890123456.5"),
        (0.0001, "0.0001"),
        (0.000_12, "0.00012"),
        (0.000_01, "1e-05"),
        (1.5e-7, "1.5e-07"),
        (1e-100, "1e-100"),
        (5e-324, "4.94065645841247e-324"),
        (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
        (f64::NAN, "\"NaN\""),
        (f64::INFINITY, "\"Infinity\""),
        (f64::NEG_INFINITY, "\"-Infinity\""),
    ];
    for (n, expected) in table {
        assert_eq!(printed(*n), *expected, "{n:?}");
    }
}

#[test]
fn integers_are_exact_or_absent() {
    let table: &[(Value, Option<i64>)] = &[
        (Value::Int32(-7), Some(-7)),
        (Value::Int64(i64::MAX), Some(i64::MAX)),
        (Value::Double(-0.0), Some(0)),
        (Value::Double(3.0), Some(3)),
        (Value::Double(3.5), None),
        (Value::Double(-TWO_POW_63), Some(i64::MIN)),
        (Value::Double(TWO_POW_63), None),
        (Value::Double(f64::NAN), None),
        (Value::Double(f64::INFINITY), None),
        (Value::String("3".into()), None),
        (Value::Bool(true), None),
    ];
    for (value, expected) in table {
        assert_eq!(as_i64(value), *expected, "{value:?}");
    }
}

#[test]
fn doubles_are_the_nearest() {
    assert_eq!(as_f64(&Value::Int64(9_007_199_254_740_993)), Some(9_007_199_254_740_992.0));
    assert_eq!(as_f64(&Value::Int64(i64::MAX)), Some(TWO_POW_63));
    assert_eq!(as_f64(&Value::Int32(5)), Some(5.0));
    assert_eq!(as_f64(&Value::Null), None);
}

#[test]
fn compares_mathematically() {
    use Ordering::{Equal, Greater, Less};
    let int = Value::Int64;
    let double = Value::Double;
    let table = [
        (int(9_007_199_254_740_993), double(9_007_199_254_740_992.0), Some(Greater)),
        (int(9_007_199_254_740_992), double(9_007_199_254_740_992.0), Some(Equal)),
        (int(9_007_199_254_740_991), double(9_007_199_254_740_992.0), Some(Less)),
        (int(i64::MAX), double(TWO_POW_63), Some(Less)),
        (int(i64::MIN), double(-TWO_POW_63), Some(Equal)),
        (int(i64::MIN), double(-TWO_POW_63 - 2048.0), Some(Greater)),
        (int(0), double(-0.0), Some(Equal)),
        (int(0), double(0.5), Some(Less)),
        (int(0), double(-0.5), Some(Greater)),
        (int(-1), double(-0.5), Some(Less)),
        (int(1), double(1.0), Some(Equal)),
        (double(-0.0), double(0.0), Some(Equal)),
        (int(1), double(f64::INFINITY), Some(Less)),
        (int(1), double(f64::NEG_INFINITY), Some(Greater)),
        (int(1), double(f64::NAN), None),
        (double(f64::NAN), double(f64::NAN), None),
        (Value::Int32(2), int(2), Some(Equal)),
        (int(1), Value::from("1"), None),
    ];
    for (a, b, expected) in table {
        assert_eq!(compare(&a, &b), expected, "{a:?} {b:?}");
        assert_eq!(compare(&b, &a), expected.map(Ordering::reverse), "{b:?} {a:?}");
    }
}

proptest! {
    #[test]
    fn printed_doubles_read_back(n in any::<f64>()) {
        prop_assume!(n.is_finite());
        let text = printed(n);
        let back: f64 = text.parse().unwrap();
        prop_assert_eq!(back, n, "{}", text);
    }

    /// Widening to 128 bits is an independent way to compare near an integer.
    #[test]
    fn integers_and_doubles_compare_as_128_bit_integers(a in any::<i64>(), offset in -3000_i64..3000) {
        let b = i64_to_f64(a.saturating_add(offset));
        #[expect(clippy::cast_possible_truncation, reason = "an int64-sized double fits i128")]
        let wide = b as i128;
        prop_assert_eq!(compare_i64_f64(a, b), Some(i128::from(a).cmp(&wide)));
    }
}
