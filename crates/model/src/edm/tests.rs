use proptest::prelude::*;

use super::*;
use crate::{Date, json};

fn any_date() -> impl Strategy<Value = Date> {
    (ticks_of(DATE_MIN)..=ticks_of(DATE_MAX)).prop_map(date_from_ticks)
}

fn any_edm() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<[u8; 16]>().prop_map(Value::Guid),
        any::<f64>().prop_map(Value::Double),
        ".{0,20}".prop_map(Value::String),
        any::<Vec<u8>>().prop_map(|bytes| Value::Binary { subtype: 0, bytes }),
        any::<bool>().prop_map(Value::Bool),
        any_date().prop_map(Value::Date),
        any::<i32>().prop_map(Value::Int32),
        any::<i64>().prop_map(Value::Int64),
    ]
}

fn tagged_text(value: &Value) -> String {
    let mut out = Vec::new();
    write_tagged(value, &mut out);
    String::from_utf8(out).expect("JSON is text")
}

fn read_tagged(text: &str) -> Option<Value> {
    untag(&json::parse(text.as_bytes(), 4).expect("JSON").value)
}

/// Compares bit by bit, so that negative zero differs and NaN equals itself.
fn is_same(a: &Value, b: &Value) -> bool {
    if let (Value::Double(a), Value::Double(b)) = (a, b) {
        return a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
    }
    a == b
}

proptest! {
    #[test]
    fn tagged_values_come_back(value in any_edm()) {
        let again = read_tagged(&tagged_text(&value)).expect("our own form");
        prop_assert!(is_same(&again, &value), "{again:?}");
    }

    #[test]
    fn dates_come_back_from_either_text(date in any_date()) {
        for digits in [DateDigits::AsNeeded, DateDigits::Seven] {
            prop_assert_eq!(parse_date(&date_text(date, digits)), Some(date));
        }
    }

    #[test]
    fn dates_are_in_the_order_of_their_tagged_texts(a in any_date(), b in any_date()) {
        let texts = tagged_text(&Value::Date(a)).cmp(&tagged_text(&Value::Date(b)));
        prop_assert_eq!(texts, a.cmp(&b));
    }

    #[test]
    fn guids_come_back(guid in any::<[u8; 16]>()) {
        prop_assert_eq!(parse_guid(&guid_text(&guid)), Some(guid));
        prop_assert_eq!(parse_guid(&guid_text(&guid).to_uppercase()), Some(guid));
    }

    #[test]
    fn ids_are_in_the_order_of_row_keys(a in "[\\x00-\\x03a]{0,3}", b in "[\\x00-\\x03a]{0,3}") {
        prop_assert!(!item_id_of(&a).is_empty());
        prop_assert_eq!(item_id_of(&a).cmp(&item_id_of(&b)), a.cmp(&b));
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in ".{0,40}") {
        let _ = (parse_date(&text), parse_guid(&text));
    }
}

#[test]
fn tagged_forms_are_those_of_the_service() {
    let date = parse_date("2019-12-30T15:30:45.678901Z").expect("a date");
    for (value, expected) in [
        (Value::from("x"), r#"{"$t":2,"$v":"x"}"#),
        (Value::Int32(39), r#"{"$t":16,"$v":39}"#),
        (Value::Int64(1_099_511_627_776), r#"{"$t":18,"$v":"00000001099511627776"}"#),
        (Value::Int64(-5), r#"{"$t":18,"$v":"-00000000000000000005"}"#),
        (Value::Bool(true), r#"{"$t":8,"$v":true}"#),
        (Value::Double(3.1), r#"{"$t":1,"$v":3.1}"#),
        (Value::Double(3.0), r#"{"$t":1,"$v":3.0}"#),
        (Value::Double(f64::NEG_INFINITY), r#"{"$t":1,"$v":"-Infinity"}"#),
        (Value::Date(date), r#"{"$t":9,"$v":"00637133166456789010"}"#),
        (Value::Binary { subtype: 0, bytes: vec![1, 2] }, r#"{"$t":5,"$v":"AQI="}"#),
    ] {
        assert_eq!(tagged_text(&value), expected);
    }
}

#[test]
fn what_is_not_tagged_is_no_property() {
    for text in [
        "1",
        "{}",
        r#"{"$t":2}"#,
        r#"{"$v":"x"}"#,
        r#"{"$t":3,"$v":"x"}"#,
        r#"{"$t":16,"$v":"1"}"#,
        r#"{"$t":16,"$v":2147483648}"#,
        r#"{"$t":18,"$v":"9223372036854775808"}"#,
        r#"{"$t":0,"$v":"c9da6455213d42c99a793e9149a57833"}"#,
        r#"{"$t":5,"$v":"*"}"#,
        r#"{"$t":1,"$v":"nan"}"#,
        r#"{"$t":9,"$v":"-1"}"#,
    ] {
        assert_eq!(read_tagged(text), None, "{text}");
    }
}

#[test]
fn dates_are_read_with_and_without_a_zone() {
    let same = [
        "2013-08-22T01:12:06Z",
        "2013-08-22T01:12:06",
        "2013-08-22T01:12:06.0000000Z",
        "2013-08-22T03:12:06+02:00",
        "2013-08-21T20:42:06.0-04:30",
    ];
    for text in same {
        let date = parse_date(text).map(|date| date_text(date, DateDigits::AsNeeded));
        assert_eq!(date.as_deref(), Some("2013-08-22T01:12:06Z"), "{text}");
    }
    let precise = parse_date("2013-08-22T01:12:06.2608595Z").expect("a date");
    assert_eq!(date_text(precise, DateDigits::AsNeeded), "2013-08-22T01:12:06.2608595Z");
    let short = parse_date("2013-08-22T01:12:06.26Z").expect("a date");
    assert_eq!(date_text(short, DateDigits::Seven), "2013-08-22T01:12:06.2600000Z");
    assert_eq!(date_text(DATE_MIN, DateDigits::AsNeeded), "1601-01-01T00:00:00Z");
    assert_eq!(date_text(DATE_MAX, DateDigits::AsNeeded), "9999-12-31T23:59:59.9999999Z");
    for wrong in [
        "",
        "2013",
        "2013-02-29T00:00:00Z",
        "2013-08-22T24:00:00Z",
        "2013-08-22T01:12:06.12345678Z",
        "2013-08-22T01:12:06.Z",
        "2013-08-22T01:12:06ZZ",
        "1600-12-31T23:59:59Z",
        "0000-01-01",
        "2013-08-22T01:12:06+15:00",
    ] {
        assert_eq!(parse_date(wrong), None, "{wrong}");
    }
}

#[test]
fn names_and_codes_lead_back_to_types() {
    for edm in EdmType::ALL {
        assert_eq!(EdmType::named(edm.name()), Some(edm));
        assert_eq!(EdmType::coded(i64::from(edm.code())), Some(edm));
    }
    assert_eq!(EdmType::named("Edm.Decimal"), None);
    assert_eq!(EdmType::coded(3), None);
}

#[test]
fn every_property_has_a_field_of_its_own() {
    for property in ["name", "Timestamp", "id", "_ts", "_etag", "ttl", "ID", "_x"] {
        assert_eq!(property_in(&field_of(property)), Some(property));
    }
    for field in ["id", "$id", "$pk", "_ts", "_rid", "ttl", "$$name", "$"] {
        assert_eq!(property_in(field), None, "{field}");
    }
}
