//! The cases of `cases.txt`.

use super::*;
use crate::json;

const CASES: &str = include_str!("../cases.txt");

fn cases(kind: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = CASES.lines().map(|line| line.split('|').collect::<Vec<_>>());
    lines.filter(move |parts| parts[0] == kind)
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[track_caller]
fn check_case(name: &str, bytes: &[u8], text: &str, written_as: &[u8]) {
    let document =
        check(bytes, BsonLimits::DOCUMENT).unwrap_or_else(|error| panic!("{name}: {error}"));
    let object = document.to_object().unwrap();
    assert_eq!(written(&object), written_as, "{name}");
    let whole = Value::Object(object);
    assert_eq!(json::to_string(&whole), text, "{name}");
    assert_eq!(exact(&read_part(bytes, &FieldMask::All).unwrap()), exact(&whole), "{name}");
    read_whatever(bytes);
    // Every cut is noticed.
    for length in 0..bytes.len() {
        assert!(check(&bytes[..length], BsonLimits::DOCUMENT).is_err(), "{name}, {length} bytes");
        read_whatever(&bytes[..length]);
    }
}

#[test]
fn valid_cases() {
    let mut types: Vec<ElementType> = Vec::new();
    for parts in cases("valid") {
        let [_, name, hex, text] = parts[..] else { panic!("{parts:?}") };
        let bytes = bytes_of(hex);
        check_case(name, &bytes, text, &bytes);
        types.extend(
            RawDocument::of_stored(&bytes).iter().map(|field| field.value().element_type()),
        );
    }
    assert!(cases("valid").count() >= 100);
    for element_type in ElementType::ALL {
        assert!(types.contains(&element_type), "no case has {element_type:?}");
    }
}

#[test]
fn cases_that_are_written_otherwise() {
    for parts in cases("loose") {
        let [_, name, hex, text, again] = parts[..] else { panic!("{parts:?}") };
        check_case(name, &bytes_of(hex), text, &bytes_of(again));
    }
}

#[test]
fn invalid_cases() {
    for parts in cases("invalid") {
        let [_, name, hex, reason] = parts[..] else { panic!("{parts:?}") };
        let bytes = bytes_of(hex);
        let error = check(&bytes, BsonLimits::DOCUMENT).expect_err(name);
        assert_eq!(error.to_string(), reason, "{name}");
        read_whatever(&bytes);
    }
    assert!(cases("invalid").count() >= 60);
}

/// Small documents with one or several bytes changed, put in or left out, always the same ones.
#[test]
fn sixty_thousand_damaged_documents_are_read_or_refused() {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % u64::try_from(below).unwrap()).unwrap()
    };
    let seeds: Vec<Vec<u8>> = cases("valid").map(|parts| bytes_of(parts[2])).collect();
    let mut refused = 0;
    for round in 0..60_000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..=next(3) {
            let at = next(bytes.len());
            match next(6) {
                0 => bytes[at] = 0,
                1 => bytes[at] = 0xFF,
                2 => bytes[at] ^= 1 << next(8),
                3 => bytes[at] = u8::try_from(next(20)).unwrap(),
                4 => bytes.insert(at, u8::try_from(next(256)).unwrap()),
                _ => drop(bytes.remove(at)),
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        refused += usize::from(check(&bytes, BsonLimits::DOCUMENT).is_err());
        read_whatever(&bytes);
    }
    assert!((20_000..60_000).contains(&refused), "{refused} of 60,000 were refused");
}
