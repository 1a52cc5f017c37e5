use proptest::prelude::*;
use smallvec::smallvec;

use super::*;
use crate::PropertyPath;
use crate::partition_key::tests::any_key;
use PartitionKeyComponent::{Bool, Null, Number, String as Text, Undefined};

fn definition(
    kind: PartitionKeyKind,
    version: PartitionKeyVersion,
    paths: usize,
) -> PartitionKeyDefinition {
    let path = |n| PropertyPath::parse(&format!("/path{n}")).unwrap();
    PartitionKeyDefinition {
        paths: (1..=paths).map(path).collect(),
        kind,
        version,
        is_system: false,
    }
}

fn v1() -> PartitionKeyDefinition {
    definition(PartitionKeyKind::Hash, PartitionKeyVersion::V1, 1)
}

fn v2() -> PartitionKeyDefinition {
    definition(PartitionKeyKind::Hash, PartitionKeyVersion::V2, 1)
}

fn multi(levels: usize) -> PartitionKeyDefinition {
    definition(PartitionKeyKind::MultiHash, PartitionKeyVersion::V2, levels)
}

fn text(s: &str) -> PartitionKeyComponent {
    Text(s.to_owned())
}

fn key(components: &[PartitionKeyComponent]) -> PartitionKey {
    PartitionKey(components.iter().cloned().collect())
}

#[test]
fn version_2_vectors() {
    let table = [
        (text(""), "32E9366E637A71B4E710384B2F4970A0"),
        (text("partitionKey"), "013AEFCF77FA271571CF665A58C933F1"),
        (text("redmond"), "22E342F38A486A088463DFF7838A5963"),
        (text("aa"), "05033626483AE80D00E44FBD35362B19"),
        (text("x"), "11E3F358618BE9AA5BAFF4C7C74F0716"),
        (text("1"), "3C80B1B7310BB39F29CC4EA05BDD461E"),
        (text("asdf"), "208BF1D598F5B63AD5520F04FE58C5E8"),
        (text("shoes"), "20FDC9EDBB8EE21C4F420AECF75DCFA6"),
        (text("ü"), "37D92BE2B32495A87CD16033AB6626B4"),
        (text("café 東京 🚀"), "389ED563F219577470F42691A5234A68"),
        (text(&"a".repeat(100)), "0DBD7D229437BB665DE6417747994D57"),
        (text(&"a".repeat(101)), "08042541D30C8BF90D7092B1519AE0BC"),
        (text(&"a".repeat(110)), "0BA3E9CA8EE4C14538828D1612A4B652"),
        (text(&"a".repeat(1024)), "332BDF5512AE49615F32C7D98C2DB86C"),
        (Null, "378867E4430E67857ACE5C908374FE16"),
        (Undefined, "11622DAA78F835834610ABE56EFF5CB5"),
        (Bool(true), "0E711127C5B5A8E4726AC6DD306A3E59"),
        (Bool(false), "2FE1BE91E90A3439635E0E9E37361EF2"),
        (Number(0.0), "155B95BEDAC4B1E9EC1CDC9BB0DDDE58"),
        (Number(-0.0), "3D018BB1DF3DB27235766E81FD10406E"),
        (Number(1.0), "20CD98B339BA78A5D0CF6953B87070B0"),
        (Number(5.0), "19C08621B135968252FB34B4CF66F811"),
        (Number(5.5), "0E2EE47829D1AF775EEFB6540FD1D0ED"),
        (Number(5.123124190509124), "0EF2E2D82460884AF0F6440BE4F726A8"),
        (Number(12313.1221), "27E7ECA8F2EE3E53424DE8D5220631C6"),
        (Number(123_456_789.0), "1F56D2538088EBA82CCF988F36E16760"),
        (Number(-128.0), "01DAEDABF913540367FE219B2AD06148"),
        (Number(127.0), "0C507ACAC853ECA7977BF4CEFB562A25"),
        (Number(-2_147_483_648.0), "0B1660D5233C3171725B30D4A5F4CC1F"),
        (Number(2_147_483_647.0), "2D9349D64712AEB5EB1406E2F0BE2725"),
        (Number(-9_223_372_036_854_775_808.0), "23D5C6395512BDFEAFADAD15328AD2BB"),
        (Number(9_223_372_036_854_775_807.0), "2EDB959178DFCCA18983F89384D1629B"),
        (Number(5e-324), "0E6CBA63A280927DE485DEF865800139"),
        (Number(f64::MAX), "31424D996457102634591FF245DBCC4D"),
    ];
    for (component, expected) in table {
        assert_eq!(
            effective_hex(&v2(), &key(std::slice::from_ref(&component))),
            expected,
            "{component:?}"
        );
    }
}

#[test]
fn one_hash_over_several_components() {
    let five = key(&[Number(5.0), text("redmond"), Bool(true), Null]);
    assert_eq!(effective_hex(&v2(), &five), "3032DECBE2AB1768D8E0AEDEA35881DF");
    let eight = key(&[
        text("redmond"),
        Number(50.0),
        Number(5.5),
        Bool(true),
        Bool(false),
        Null,
        text(""),
        Number(12313.1221),
    ]);
    assert_eq!(effective_hex(&v2(), &eight), "1A5E512F591E980E07A6D8AD5BD5AB2F");
}

#[test]
fn hierarchical_vectors() {
    let table = [
        (
            [text("redmond"), Number(5.0)],
            "22E342F38A486A088463DFF7838A596319C08621B135968252FB34B4CF66F811",
        ),
        (
            [text(""), Bool(true)],
            "32E9366E637A71B4E710384B2F4970A00E711127C5B5A8E4726AC6DD306A3E59",
        ),
        (
            [text("/path1"), text("/path2")],
            "3499FD5198AE0F1EB6B77F6E428D2FF027A1848BD1102A3B65AFF266874D0FF5",
        ),
        (
            [text("tenant1"), text("u7")],
            "0DAE0B8467B011E957BC0B8B0DEB5ACA2057FA7926CFE22300999FE68BBBF7AE",
        ),
    ];
    for (components, expected) in table {
        assert_eq!(effective_hex(&multi(2), &key(&components)), expected, "{components:?}");
    }
}

#[test]
fn version_1_vectors() {
    let many = format!("05C1EB5921F70608{}00", "62".repeat(100));
    let table = [
        (text(""), "05C1CF33970FF80800"),
        (text("partitionKey"), "05C1E1B3D9CD2608716273756A756A706F4C667A00"),
        (text("redmond"), "05C1EFE313830C087366656E706F6500"),
        (text("aa"), "05C1C7B7270FE008626200"),
        (text("café 東京 🚀"), "05C1DF0501C73008646267C4AA21E79EB2E5BBAD21F1A09B8100"),
        (text(&"a".repeat(100)), many.as_str()),
        (text(&"a".repeat(101)), many.as_str()),
        (text(&"a".repeat(1024)), many.as_str()),
        (Null, "05C1ED45D7475601"),
        (Undefined, "05C1D529E345DC00"),
        (Bool(true), "05C1D7C5A903D803"),
        (Bool(false), "05C1DB857D857C02"),
        (Number(0.0), "05C1BF6DA115600580"),
        (Number(1.0), "05C1ED172B6B2605BFF0"),
        (Number(5.0), "05C1D9C1C5517C05C014"),
        (Number(5.5), "05C1D7A771716C05C016"),
        (Number(12313.1221), "05C1ED154D592E05C0C90723F50FC925D8"),
        (Number(123_456_789.0), "05C1D9E1A5311C05C19DB7CD8B40"),
        (Number(-128.0), "05C1D73349F54C053FA0"),
        (Number(127.0), "05C1DD539DDFCC05C05FE0"),
        (Number(-2_147_483_648.0), "05C1DFBF252BCC053E20"),
        (Number(2_147_483_647.0), "05C1E1F503DFB205C1DFFFFFFFFC"),
        (Number(-9_223_372_036_854_775_808.0), "05C1DB35F33D1C053C20"),
        (Number(9_223_372_036_854_775_807.0), "05C1B799AB2DD005C3E0"),
        (Number(5e-324), "05C1E5C91F4D3005800101010101010102"),
        (Number(f64::MAX), "05C1CBE367C53005FFEFFFFFFFFFFFFFFE"),
    ];
    for (component, expected) in table {
        assert_eq!(
            effective_hex(&v1(), &key(std::slice::from_ref(&component))),
            expected,
            "{component:?}"
        );
    }
}

/// 100 characters of two bytes are 200 bytes: 101 are written without an end mark.
#[test]
fn version_1_strings_of_many_bytes_have_no_end() {
    let bytes = effective_bytes(&v1(), &key(&[text(&"ü".repeat(100))]));
    let marker = bytes.iter().position(|b| *b == 0x08).unwrap();
    assert_eq!(bytes.len() - marker - 1, 101);
    assert_ne!(bytes.last(), Some(&0));
}

/// Only the first 100 UTF-16 code units count, and half a pair counts as U+FFFD.
#[test]
fn version_1_cuts_by_utf16_code_units() {
    let place = |s: String| effective_bytes(&v1(), &key(&[Text(s)]));
    let filler = "a".repeat(98);
    assert_eq!(place(format!("{filler}🚀")), place(format!("{filler}🚀tail")));
    assert_ne!(place(format!("{filler}🚀")), place(format!("{filler}🚁")));
    let filler = "a".repeat(99);
    assert_eq!(place(format!("{filler}🚀")), place(format!("{filler}\u{FFFD}")));
}

#[test]
fn missing_components_are_undefined() {
    let full = key(&[text("x"), Undefined]);
    assert_eq!(effective_bytes(&multi(2), &key(&[text("x")])), effective_bytes(&multi(2), &full));
    assert_eq!(effective_bytes(&v2(), &key(&[])), effective_bytes(&v2(), &key(&[Undefined])));
    assert_eq!(effective_bytes(&v1(), &key(&[])), effective_bytes(&v1(), &key(&[Undefined])));
}

#[test]
fn equal_ranges_have_the_boundaries_of_the_service() {
    let five_v2 = [
        "0CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC",
        "19999999999999999999999999999998",
        "26666666666666666666666666666664",
        "33333333333333333333333333333330",
    ];
    let table: &[(PartitionKeyDefinition, u32, &[&str])] = &[
        (v2(), 0, &[]),
        (v2(), 1, &[]),
        (v2(), 2, &["1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"]),
        (multi(3), 2, &["1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"]),
        (v2(), 5, &five_v2),
        (multi(2), 5, &five_v2),
        (v1(), 1, &[]),
        (v1(), 2, &["05C1DFFFFFFFFC"]),
        (v1(), 4, &["05C1CFFFFFFFF8", "05C1DFFFFFFFF8", "05C1E7FFFFFFFA"]),
        (v1(), 5, &["05C1C9CD673398", "05C1D9CD673398", "05C1E399CD6732", "05C1E9CD673398"]),
    ];
    for (definition, n, boundaries) in table {
        let ranges = equal_ranges(definition, *n);
        let mut shown: Vec<String> = vec![ranges[0].min.to_hex()];
        shown.extend(ranges.iter().map(|r| r.max.to_hex()));
        let mut expected = vec![""];
        expected.extend(*boundaries);
        expected.push("FF");
        assert_eq!(shown, expected, "{n}");
    }
}

#[test]
fn ranges_of_keys_and_prefixes() {
    let range = |d: &PartitionKeyDefinition, c: &[PartitionKeyComponent]| {
        let range = key_range(d, &key(c));
        (range.min.to_hex(), range.max.to_hex())
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(
        range(&v2(), &[text("1")]),
        pair("3C80B1B7310BB39F29CC4EA05BDD461E", "3C80B1B7310BB39F29CC4EA05BDD461F")
    );
    assert_eq!(
        range(&multi(2), &[text("tenant1")]),
        pair("0DAE0B8467B011E957BC0B8B0DEB5ACA", "0DAE0B8467B011E957BC0B8B0DEB5ACAFF")
    );
    assert_eq!(range(&multi(2), &[]), pair("", "FF"));
    assert_eq!(range(&v1(), &[Null]), pair("05C1ED45D7475601", "05C1ED45D7475602"));
    let (min, max) = range(&multi(2), &[text("tenant1"), text("u7")]);
    assert!(min.ends_with("F7AE") && max.ends_with("F7AF"), "{min} {max}");
}

#[test]
fn increment_carries() {
    let mut bytes = [0x01, 0xFF, 0xFF];
    increment(&mut bytes);
    assert_eq!(bytes, [0x02, 0, 0]);
}

#[test]
fn hex_is_strict_but_takes_either_case() {
    assert_eq!(Epk::from_hex("05c1DF").unwrap(), Epk::from_hex("05C1df").unwrap());
    assert_eq!(Epk::from_hex("05C10000").unwrap(), Epk::from_hex("05C1").unwrap());
    assert_eq!(Epk::from_hex("").unwrap(), Epk::min());
    assert_eq!(Epk::from_hex("00").unwrap(), Epk::min());
    assert_eq!(Epk::from_hex("ff").unwrap(), Epk::max());
    for bad in ["F", "0x", "GG", "05 C", "ü", "0", "05C1D"] {
        assert!(Epk::from_hex(bad).is_err(), "{bad}");
    }
    assert!(Epk::from_hex(&"0".repeat(EPK_HEX_CHARS_MAX)).is_ok());
    assert!(Epk::from_hex(&"0".repeat(EPK_HEX_CHARS_MAX + 2)).is_err());
}

#[test]
fn ranges_intersect_half_open() {
    let at = |s: &str| Epk::from_hex(s).unwrap();
    let range = |a: &str, b: &str| EpkRange { min: at(a), max: at(b) };
    assert_eq!(range("10", "30").intersect(&range("20", "40")), Some(range("20", "30")));
    assert_eq!(range("10", "20").intersect(&range("20", "40")), None);
    assert_eq!(EpkRange::full().intersect(&range("10", "20")), Some(range("10", "20")));
    assert!(range("10", "20").contains(&at("10")) && !range("10", "20").contains(&at("20")));
    assert!(range("10", "20").contains(&at("1000")), "trailing zeros are not significant");
}

proptest! {
    #[test]
    fn hex_round_trips(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let epk = Epk::from_bytes(&bytes);
        prop_assert_eq!(Epk::from_hex(&epk.to_hex()), Ok(epk.clone()));
        prop_assert_eq!(Epk::from_hex(&epk.to_hex().to_lowercase()), Ok(epk));
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".*") {
        let _ = Epk::from_hex(&text);
    }

    /// Every key lies in exactly one of the equal ranges, and in the range of each of its prefixes.
    #[test]
    fn keys_lie_in_one_range_and_in_their_prefixes(key in any_key(), n in 1_u32..20) {
        for definition in [v1(), v2(), multi(3)] {
            let place = effective_partition_key(&definition, &key);
            let ranges = equal_ranges(&definition, n);
            prop_assert_eq!(ranges.iter().filter(|r| r.contains(&place)).count(), 1);
            prop_assert!(ranges.windows(2).all(|w| w[0].max == w[1].min && w[0].min < w[0].max));
            prop_assert!(key_range(&definition, &key).contains(&place));
        }
        let place = effective_partition_key(&multi(3), &key);
        for length in 0..=key.0.len() {
            let prefix = PartitionKey(key.0[..length].iter().cloned().collect());
            prop_assert!(key_range(&multi(3), &prefix).contains(&place));
        }
    }
}

#[test]
fn a_key_of_one_component_is_kept_inline() {
    let one: PartitionKey = PartitionKey(smallvec![Null]);
    assert!(!one.0.spilled());
}

#[test]
fn the_midpoint_halves_the_hashes() {
    let of = |definition: &PartitionKeyDefinition, min: &str, max: &str| {
        let range = EpkRange { min: Epk::from_hex(min).unwrap(), max: Epk::from_hex(max).unwrap() };
        midpoint(definition, &range).map(|half| half.to_hex())
    };
    for definition in [v1(), v2(), multi(2)] {
        let halves = equal_ranges(&definition, 2);
        assert_eq!(midpoint(&definition, &EpkRange::full()), Some(halves[0].max.clone()));
        // Halving twice gives the same as quartering, except for the last digit.
        let quarter = midpoint(&definition, &halves[0]).unwrap().to_hex();
        assert_eq!(quarter[..9], equal_ranges(&definition, 4)[0].max.to_hex()[..9]);
    }
    assert_eq!(of(&v2(), "10", "12").as_deref(), Some("11"));
    let (low, high) = ("0F".repeat(16), format!("{}10", "0F".repeat(15)));
    assert_eq!(of(&v2(), &low, &high), Some(format!("{low}80")));
    assert_eq!(of(&v1(), "05C1CF33970FF80800", "05C1CF33970FF80801"), None);
}

proptest! {
    #[test]
    fn the_midpoint_lies_between(a in any::<[u8; 20]>(), b in any::<[u8; 20]>(), cut in 1..20usize) {
        let (a, b) = (Epk::from_bytes(&a), Epk::from_bytes(&b[..cut]));
        let range = EpkRange { min: a.clone().min(b.clone()), max: a.max(b) };
        for definition in [v1(), v2(), multi(2)] {
            if let Some(half) = midpoint(&definition, &range) {
                prop_assert!(range.min < half && half < range.max);
            }
        }
    }
}

/// The 99.9% quantile of chi-square with `degrees` degrees of freedom, after Wilson and Hilferty.
fn chi_square_limit(degrees: f64) -> f64 {
    let spread = 2.0 / (9.0 * degrees);
    degrees * (1.0 - spread + 3.09 * spread.sqrt()).powi(3)
}

#[test]
fn keys_spread_evenly_over_equal_ranges() {
    const KEYS: u32 = 100_000;
    // Scattered numbers, the same in every run.
    let scattered = |n: u32| f64::from(n.wrapping_mul(2_654_435_761) ^ 0x5EED);
    let kinds: [fn(f64) -> PartitionKeyComponent; 2] = [|n| text(&format!("device-{n}")), Number];
    for (definition, kind) in
        [(v1(), kinds[0]), (v2(), kinds[0]), (v1(), kinds[1]), (v2(), kinds[1])]
    {
        let place = |n| effective_partition_key(&definition, &key(&[kind(scattered(n))]));
        let places: Vec<Epk> = (0..KEYS).map(place).collect();
        for ranges in [2, 5, 16, 100] {
            let bounds = equal_ranges(&definition, ranges);
            let mut counts = vec![0f64; bounds.len()];
            for place in &places {
                counts[bounds.partition_point(|range| range.max <= *place)] += 1.0;
            }
            let expected = f64::from(KEYS) / f64::from(ranges);
            let chi_square: f64 = counts.iter().map(|n| (n - expected).powi(2) / expected).sum();
            let limit = chi_square_limit(f64::from(ranges - 1));
            assert!(chi_square < limit, "{ranges} ranges: {chi_square} is over {limit}");
        }
    }
}
