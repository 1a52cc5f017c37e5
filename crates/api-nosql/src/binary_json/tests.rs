use model::{Object, Value};
use proptest::prelude::*;

use super::decode::Limits;
use super::{BinaryJsonError as Error, decode, encode, is_binary};

/// Bytes from hex pairs separated by blanks, after the preamble.
fn buffer(hex: &str) -> Vec<u8> {
    let bytes = hex.split_whitespace().map(|pair| u8::from_str_radix(pair, 16).unwrap());
    std::iter::once(0x80).chain(bytes).collect()
}

fn text(s: &str) -> Value {
    Value::from(s)
}

fn ints(items: &[i64]) -> Value {
    Value::Array(items.iter().map(|n| Value::Int64(*n)).collect())
}

fn object(fields: &[(&str, Value)]) -> Value {
    Value::Object(fields.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect())
}

#[track_caller]
fn decodes(hex: &str, expected: Value) {
    assert_eq!(decode(&buffer(hex), Limits::ITEM), Ok(expected), "{hex}");
}

#[track_caller]
fn refuses(hex: &str, expected: Error) {
    assert_eq!(decode(&buffer(hex), Limits::ITEM), Err(expected), "{hex}");
}

#[test]
fn constants_and_numbers_decode() {
    decodes("D0", Value::Null);
    decodes("D1", Value::Bool(false));
    decodes("D2", Value::Bool(true));
    decodes("00", Value::Int64(0));
    decodes("1F", Value::Int64(31));
    decodes("C8 FF", Value::Int64(255));
    decodes("C9 18 FC", Value::Int64(-1000));
    decodes("CA 00 00 00 80", Value::Int64(i64::from(i32::MIN)));
    decodes("CB FF FF FF FF FF FF FF 7F", Value::Int64(i64::MAX));
    decodes("C7 FF FF FF FF FF FF FF 7F", Value::Int64(i64::MAX));
    decodes("C7 00 00 00 00 00 00 00 80", Value::Double(9_223_372_036_854_775_808.0));
    decodes("CC 00 00 00 00 00 00 04 40", Value::Double(2.5));
    decodes("CD 00 00 20 C0", Value::Double(-2.5));
    decodes("CE 00 00 00 00 00 00 04 40", Value::Double(2.5));
    decodes("D7 80", Value::Int64(128));
    decodes("D8 80", Value::Int64(-128));
    decodes("D9 00 80", Value::Int64(-32768));
    decodes("DA FE FF FF FF", Value::Int64(-2));
    decodes("DB FE FF FF FF FF FF FF FF", Value::Int64(-2));
    decodes("DC FF FF FF FF", Value::Int64(4_294_967_295));
}

#[test]
fn plain_strings_decode() {
    decodes("80", text(""));
    decodes("83 61 62 63", text("abc"));
    decodes("82 C3 BC", text("ü"));
    decodes("C0 02 68 69", text("hi"));
    decodes("C1 02 00 68 69", text("hi"));
    decodes("C2 02 00 00 00 68 69", text("hi"));
    decodes("20", text("$s"));
    decodes("2C", text("id"));
    decodes("3F", text("_id"));
}

#[test]
fn packed_strings_decode() {
    decodes("71 01 00 61 62 63", text("YWJj"));
    decodes("71 01 01 66 6F", text("Zm8="));
    decodes("71 01 02 66", text("Zg=="));
    decodes("71 01 FE 66 6F", text("Zm8"));
    decodes("71 01 FD 66", text("Zg"));
    decodes("71 00 00", text(""));
    decodes("72 01 00 00 FF EF BE", text("/+++"));
    decodes("73 01 00 FF EF BE", text("_---"));
    decodes("74 01 00 FD FF", text("_w"));
    let digits = "01 23 45 67 89 AB CD EF 01 23 45 67 89 AB CD EF";
    decodes(&format!("75 {digits}"), text("10325476-98ba-dcfe-1032-547698badcfe"));
    decodes(&format!("76 {digits}"), text("10325476-98BA-DCFE-1032-547698BADCFE"));
    decodes(&format!("77 {digits}"), text("\"10325476-98ba-dcfe-1032-547698badcfe\""));
    decodes(&format!("D3 {digits}"), text("67452301-ab89-efcd-0123-456789abcdef"));
    decodes("78 04 1C 0E", text("c1e0"));
    decodes("78 03 1C 0E", text("c1e"));
    decodes("79 02 FA", text("AF"));
    decodes("7A 07 13 53 1C 02", text("2024-01"));
    decodes("7A 04 BE DF", text("T:Z."));
    decodes("7B 03 61 20 01", text("acb"));
    decodes("7C 03 61 22 00", text("cba"));
    decodes("7D 02 30 4A 00", text(":1"));
    decodes("7E 02 C8 34", text("Hi"));
    decodes("7F 02 00 C8 34", text("Hi"));
    decodes("7E 00", text(""));
    decodes("DD 03 01 02 03", text("AQID"));
    decodes("DE 01 00 FF", text("/w=="));
    decodes("DF 00 00 00 00", text(""));
}

#[test]
fn containers_decode() {
    decodes("E0", ints(&[]));
    decodes("E1 05", ints(&[5]));
    decodes("E2 02 05 06", ints(&[5, 6]));
    decodes("E3 02 00 05 06", ints(&[5, 6]));
    decodes("E4 02 00 00 00 05 06", ints(&[5, 6]));
    decodes("E5 02 02 05 06", ints(&[5, 6]));
    decodes("E6 02 00 02 00 05 06", ints(&[5, 6]));
    decodes("E7 02 00 00 00 02 00 00 00 05 06", ints(&[5, 6]));
    decodes("E2 00", ints(&[]));
    let one = object(&[("id", Value::Int64(1))]);
    decodes("E8", object(&[]));
    decodes("E9 2C 01", one.clone());
    decodes("EA 02 2C 01", one.clone());
    decodes("EB 02 00 2C 01", one.clone());
    decodes("EC 02 00 00 00 2C 01", one.clone());
    decodes("ED 02 01 2C 01", one.clone());
    decodes("EE 02 00 01 00 2C 01", one.clone());
    decodes("EF 02 00 00 00 01 00 00 00 2C 01", one.clone());
    decodes("E2 04 E9 2C 01 E0", Value::Array(vec![one, ints(&[])]));
    decodes(
        "ED 0D 02 82 69 64 83 69 20 31 82 70 6B 82 C3 BC",
        object(&[("id", text("i 1")), ("pk", text("ü"))]),
    );
}

#[test]
fn uniform_arrays_decode() {
    decodes("F0 D7 02 01 FF", ints(&[1, 255]));
    decodes("F0 D8 02 01 FF", ints(&[1, -1]));
    decodes("F1 D9 01 00 FF FF", ints(&[-1]));
    decodes("F0 DA 01 FF FF FF FF", ints(&[-1]));
    decodes("F0 DB 01 FF FF FF FF FF FF FF FF", ints(&[-1]));
    decodes("F0 DC 01 FF FF FF FF", ints(&[4_294_967_295]));
    decodes("F0 CD 01 00 00 20 40", Value::Array(vec![Value::Double(2.5)]));
    decodes("F0 CE 01 00 00 00 00 00 00 04 40", Value::Array(vec![Value::Double(2.5)]));
    decodes("F0 DA 00", ints(&[]));
    let pairs = Value::Array(vec![ints(&[1, 2]), ints(&[3, 4])]);
    decodes("F2 F0 D7 02 02 01 02 03 04", pairs.clone());
    decodes("F3 F1 D7 02 00 02 00 01 02 03 04", pairs);
    decodes("F2 F0 D7 00 02", Value::Array(vec![ints(&[]), ints(&[])]));
}

#[test]
fn references_repeat_an_earlier_string() {
    let twice = Value::Array(vec![text("hi"), text("hi")]);
    decodes("E2 05 82 68 69 C3 03", twice.clone());
    decodes("E2 06 82 68 69 C4 03 00", twice.clone());
    decodes("E2 07 82 68 69 C5 03 00 00", twice.clone());
    decodes("E2 08 82 68 69 C6 03 00 00 00", twice);
    // A name can be repeated as a value, and a packed string too.
    decodes("E9 81 61 C3 02", object(&[("a", text("a"))]));
    decodes("E2 05 78 01 0F C3 03", Value::Array(vec![text("f"), text("f")]));
}

#[test]
fn the_last_of_repeated_names_wins() {
    decodes("EA 06 2C 01 3B 02 2C 03", object(&[("id", Value::Int64(3)), ("type", 2i64.into())]));
}

#[test]
fn bad_buffers_are_refused() {
    assert_eq!(decode(&[], Limits::ITEM), Err(Error::Truncated { at: 0 }));
    assert_eq!(decode(b"{}", Limits::ITEM), Err(Error::Marker { marker: b'{', at: 0 }));
    refuses("", Error::Truncated { at: 1 });
    refuses("D0 D0", Error::Trailing { at: 2 });
    for marker in ["40", "67", "68", "70", "CF", "D4", "D6", "F4", "FF"] {
        let byte = u8::from_str_radix(marker, 16).unwrap();
        refuses(&format!("{marker} 00 00 00"), Error::Marker { marker: byte, at: 1 });
    }
    refuses("CB 00 00", Error::Truncated { at: 4 });
    refuses("C0 05 68 69", Error::Truncated { at: 5 });
    refuses("C2 FF FF FF FF 68", Error::Truncated { at: 7 });
    refuses("82 FF FE", Error::Text { at: 1 });
    refuses("CC 00 00 00 00 00 00 F0 7F", Error::Number { at: 1 });
    refuses("CD 00 00 C0 7F", Error::Number { at: 1 });
    refuses("F0 CE 01 00 00 00 00 00 00 F8 7F", Error::Number { at: 2 });
    refuses("75 00 01", Error::Truncated { at: 4 });
    refuses("78 01 F0", Error::Length { at: 1 });
    refuses("71 00 01", Error::Length { at: 1 });
    refuses("71 01 03 66", Error::Length { at: 1 });
    refuses("7B 01 7F 01", Error::Text { at: 1 });
    refuses("7D 01 FF 01", Error::Text { at: 1 });
}

#[test]
fn bad_containers_are_refused() {
    refuses("E2 05 00", Error::Truncated { at: 4 });
    refuses("E5 02 01 05 06", Error::Length { at: 1 });
    refuses("E5 01 FF 05", Error::Length { at: 1 });
    refuses("ED 02 02 2C 01", Error::Length { at: 1 });
    refuses("E9 05 06", Error::Marker { marker: 0x05, at: 2 });
    refuses("E9 E0 06", Error::Marker { marker: 0xE0, at: 2 });
    // A child may not extend beyond the end of its container, nor a container beyond its parent's.
    refuses("E2 01 C8 05", Error::Truncated { at: 4 });
    refuses("E2 03 E2 04 05 06 07 08", Error::Truncated { at: 6 });
    // A name without a value.
    refuses("EA 01 2C", Error::Truncated { at: 4 });
    refuses("F0 D0 01 00", Error::Marker { marker: 0xD0, at: 2 });
    refuses("F0 C8 01 00", Error::Marker { marker: 0xC8, at: 2 });
    refuses("F2 F1 D7 01 00 01 00 05", Error::Marker { marker: 0xF1, at: 2 });
    refuses("F0 DA 02 01 00 00 00", Error::Truncated { at: 8 });
}

#[test]
fn references_to_nowhere_are_refused() {
    refuses("C3 C8", Error::Reference { at: 1 });
    refuses("C3 01", Error::Reference { at: 1 });
    // Invalid targets: forward, the middle of a string, a number, another reference.
    refuses("E2 05 C3 05 82 68 69", Error::Reference { at: 3 });
    refuses("E2 05 82 2C 69 C3 04", Error::Reference { at: 6 });
    refuses("E2 03 05 C3 03", Error::Reference { at: 4 });
    refuses("E2 07 82 68 69 C3 03 C3 06", Error::Reference { at: 8 });
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| {
        let mut bytes = vec![0x80];
        bytes.extend(std::iter::repeat_n(0xE1, levels));
        bytes.push(0x00);
        decode(&bytes, Limits::ITEM)
    };
    assert!(nested(128).is_ok());
    assert_eq!(nested(129), Err(Error::TooDeep { max: 128 }));
    assert_eq!(nested(100_000), Err(Error::TooDeep { max: 128 }));
    let limits = Limits { depth_max: 1, text_bytes_max: 100 };
    assert!(decode(&buffer("F0 D7 01 01"), limits).is_ok());
    assert_eq!(decode(&buffer("F2 F0 D7 01 01 01"), limits), Err(Error::TooDeep { max: 1 }));
}

#[test]
fn what_small_buffers_may_grow_into_is_bounded() {
    let limits = Limits { depth_max: 128, text_bytes_max: 1000 };
    let too_large = Err(Error::TooLarge { max: 1000 });
    // Ten references to a string of a hundred bytes.
    let mut strings = vec![0x80, 0xE3, 0, 0, 0xC0, 100];
    strings.extend([b'x'; 100]);
    for _ in 0..10 {
        strings.extend([0xC3, 4]);
    }
    let length = u8::try_from(strings.len() - 4).unwrap();
    strings[2] = length;
    assert_eq!(decode(&strings, limits), too_large);
    assert!(decode(&strings, Limits::ITEM).is_ok());
    // 65,535 empty arrays from eight bytes.
    let arrays = buffer("F3 F1 D7 00 00 FF FF");
    assert_eq!(decode(&arrays, limits), too_large);
    // The limit itself is fine: a string of 998 bytes and its quotes.
    let at_limit = encode(&text(&"x".repeat(998)));
    assert!(decode(&at_limit, limits).is_ok());
    assert_eq!(decode(&encode(&text(&"x".repeat(999))), limits), too_large);
}

#[test]
fn a_repeated_name_is_found_among_many() {
    let fields = 5_000u16;
    let mut content = Vec::new();
    for n in 0..fields {
        content.push(0x84);
        content.extend(format!("{n:04x}").bytes());
        content.push(0x00);
    }
    content.extend([0x84, b'0', b'0', b'0', b'0', 0x07]);
    let mut bytes = vec![0x80, 0xEC];
    bytes.extend(u32::try_from(content.len()).unwrap().to_be_bytes().iter().rev());
    bytes.extend(content);
    let decoded = decode(&bytes, Limits::ITEM).unwrap();
    assert_eq!(decoded.as_object().map(Object::len), Some(usize::from(fields)));
    assert_eq!(decoded.field("0000"), Some(&Value::Int64(7)));
}

#[track_caller]
fn encodes(value: Value, hex: &str) {
    let bytes = encode(&value);
    assert_eq!(bytes, buffer(hex), "{value:?}");
    assert!(is_binary(&bytes));
}

#[test]
fn the_narrowest_plain_form_is_written() {
    encodes(Value::Null, "D0");
    encodes(Value::Bool(true), "D2");
    encodes(Value::Bool(false), "D1");
    encodes(Value::Int64(31), "1F");
    encodes(Value::Int64(32), "C8 20");
    encodes(Value::Int64(255), "C8 FF");
    encodes(Value::Int64(256), "C9 00 01");
    encodes(Value::Int64(-1), "C9 FF FF");
    encodes(Value::Int64(-32_769), "CA FF 7F FF FF");
    encodes(Value::Int64(1 << 31), "CB 00 00 00 80 00 00 00 00");
    encodes(Value::Double(2.5), "CC 00 00 00 00 00 00 04 40");
    encodes(Value::Double(f64::NAN), "D0");
    encodes(text(""), "80");
    encodes(text("id"), "2C");
    encodes(text("FeatureCollection"), "3E");
    encodes(text("hi"), "82 68 69");
    encodes(ints(&[]), "E0");
    encodes(object(&[]), "E8");
    encodes(ints(&[5, 6]), "E5 02 02 05 06");
    encodes(object(&[("_ts", Value::Int64(1))]), "ED 02 01 27 01");
}

#[test]
fn lengths_take_the_width_they_need() {
    let string_header = |n: usize| encode(&text(&"x".repeat(n)))[1..4].to_vec();
    assert_eq!(string_header(63), [0xBF, b'x', b'x']);
    assert_eq!(string_header(64), [0xC0, 64, b'x']);
    assert_eq!(string_header(256), [0xC1, 0, 1]);
    assert_eq!(string_header(65_536), [0xC2, 0, 0]);
    let array_header = |n: usize| encode(&ints(&vec![1; n]))[1..6].to_vec();
    assert_eq!(array_header(255), [0xE5, 255, 255, 1, 1]);
    assert_eq!(array_header(256), [0xE6, 0, 1, 0, 1]);
    assert_eq!(array_header(65_536), [0xE7, 0, 0, 1, 0]);
}

fn plain_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int64),
        (-300i64..300).prop_map(Value::Int64),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Value::Double),
        ".{0,80}".prop_map(Value::String),
        prop::sample::select(&super::marker::SYSTEM_STRINGS[..]).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 200, 12, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..12).prop_map(Value::Array),
            prop::collection::vec((".{0,12}", inner), 0..12)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_the_same(value in plain_value()) {
        prop_assert_eq!(decode(&encode(&value), Limits::ITEM), Ok(value));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut buffer = vec![0x80];
        buffer.extend(bytes);
        if let Ok(value) = decode(&buffer, Limits::ITEM) {
            prop_assert_eq!(decode(&encode(&value), Limits::ITEM), Ok(value));
        }
    }

    #[test]
    fn damaged_buffers_never_panic(
        value in plain_value(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut buffer = encode(&value);
        let at = at.index(buffer.len());
        buffer[at] = byte;
        let _ = decode(&buffer, Limits::ITEM);
        buffer.truncate(cut.index(buffer.len()));
        let _ = decode(&buffer, Limits::ITEM);
    }
}
