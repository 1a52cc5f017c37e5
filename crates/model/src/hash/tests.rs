use super::*;
use crate::json;

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes(), 16).unwrap().value
}

fn hex(value: &Value) -> String {
    hash_bytes(distinct_hash(value)).iter().map(|b| format!("{b:02X}")).collect()
}

/// Expected values from the client libraries' own tests.
#[test]
fn agrees_with_the_client_libraries() {
    let table = [
        ("null", "7D415366AED6249EA3AE0D68F2FB8E89"),
        ("true", "25015CA5E4C319F01F079F86AB514DCD"),
        (r#""""#, "A1A9A261A195B385A5297028CF4684A7"),
        ("[]", "82805359A33CEFA2FF634AFF29F7547D"),
        ("{}", "D865B9803E74381438A701AA606AB814"),
        (
            r#"[null,false,true,1234,"asdfasdfasdfasdfasdfasdf"]"#,
            "E6D5AFB94E8E5ACC16F327DE167940A9",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(hex(&parse(text)), expected, "{text}");
    }
}

#[test]
fn equal_values_hash_equally() {
    let same = [
        ("1", "1.0"),
        ("0", "-0.0"),
        (r#"{"a":1,"b":2}"#, r#"{"b":2.0,"a":1}"#),
        ("[1152921504606846976]", "[1152921504606846976.0]"),
    ];
    for (a, b) in same {
        assert_eq!(hex(&parse(a)), hex(&parse(b)), "{a} {b}");
    }
    assert_eq!(hex(&Value::Int32(7)), hex(&Value::Int64(7)));
    let decimal = |text: u8, exponent: u8| {
        let mut bytes = [0; 16];
        (bytes[0], bytes[14], bytes[15]) = (text, exponent, 0x30);
        Value::Decimal128(bytes)
    };
    assert_eq!(hex(&decimal(10, 0x3E)), hex(&Value::Int64(1)));
    assert_eq!(hex(&decimal(5, 0x3E)), hex(&Value::Double(0.5)));
    assert_ne!(hex(&decimal(1, 0x3E)), hex(&Value::Double(0.1)));
}

#[test]
fn different_values_hash_differently() {
    let texts = [
        "null",
        "false",
        "true",
        "0",
        "1",
        "9007199254740993",
        "9007199254740992",
        "\"\"",
        "\"1\"",
        "[]",
        "[null]",
        "[[]]",
        "{}",
        "[1,2]",
        "[2,1]",
        r#"{"a":1}"#,
        r#"{"b":1}"#,
        r#"{"a":[]}"#,
    ];
    let mut hashes: Vec<_> = texts.iter().map(|t| hex(&parse(t))).collect();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), texts.len());
}

/// Integers that need more than 53 bits: the double towards zero and the ten bits beside it.
#[test]
fn wide_integers_split_as_the_client_libraries_do() {
    let table: &[(i64, f64, u16)] = &[
        (5, 5.0, 0),
        (i64::MIN, -9_223_372_036_854_775_808.0, 0),
        (1 << 62, 4_611_686_018_427_387_904.0, 0),
        (9_007_199_254_740_993, 9_007_199_254_740_992.0, 0x8000),
        (-9_007_199_254_740_993, -9_007_199_254_740_992.0, 0x8000),
        (i64::MAX, 9_223_372_036_854_774_784.0, 0xFFC0),
        ((1 << 62) + 1, 4_611_686_018_427_387_904.0, 0x40),
    ];
    for (n, double, extra) in table {
        assert_eq!(split_i64(*n), (*double, *extra), "{n}");
    }
}
