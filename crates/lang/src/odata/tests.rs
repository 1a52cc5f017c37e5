use model::edm;
use model::limits::{FILTER_BYTES_MAX, FILTER_COMPARISONS_MAX, FILTER_DEPTH_MAX};

use super::*;
use crate::SyntaxErrorKind;

mod model_tests;

/// An item that holds an entity with these properties.
fn item(partition_key: &str, row_key: &str, properties: &[(&str, Value)]) -> Value {
    let mut text = b"{\"id\":".to_vec();
    model::json::write_str(&edm::item_id_of(row_key), &mut text);
    for (name, key) in [("$id", row_key), ("$pk", partition_key)] {
        text.extend_from_slice(format!(",\"{name}\":").as_bytes());
        model::json::write_str(key, &mut text);
    }
    for (name, value) in properties {
        text.push(b',');
        model::json::write_str(&edm::field_of(name), &mut text);
        text.push(b':');
        edm::write_tagged(value, &mut text);
    }
    text.push(b'}');
    model::json::parse(&text, 4).expect("an item").value
}

fn compile(text: &str) -> EntityFilter {
    EntityFilter::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Whether the filter accepts an entity with keys `p` and `r`.
fn passes(text: &str, properties: &[(&str, Value)]) -> bool {
    let filter = compile(text);
    let is_in_range = filter.keys().contains("p", "r");
    is_in_range && filter.plan().matches(&item("p", "r", properties)).expect("within the budget")
}

fn refusal(text: &str) -> SyntaxError {
    EntityFilter::compile(text).err().unwrap_or_else(|| panic!("{text} was compiled"))
}

fn date(text: &str) -> Value {
    Value::Date(edm::parse_date(text).expect("a date"))
}

#[test]
fn every_type_compares_with_its_literal() {
    let guid = Value::Guid(edm::parse_guid("c9da6455-213d-42c9-9a79-3e9149a57833").expect("guid"));
    let bytes = Value::Binary { subtype: 0, bytes: vec![0x00, 0xab] };
    let properties = [
        ("s", Value::from("it's")),
        ("i", Value::Int32(5)),
        ("l", Value::Int64(1 << 40)),
        ("d", Value::Double(2.5)),
        ("b", Value::Bool(true)),
        ("t", date("2013-08-22T01:12:06.2608595Z")),
        ("g", guid),
        ("x", bytes),
        ("id", Value::from("not the row key")),
        ("größe", Value::Int32(1)),
    ];
    for text in [
        "s eq 'it''s'",
        "'it''s' eq s",
        "s gt 'it'",
        "i eq 5",
        "5 eq i",
        "4 lt i",
        "i eq 5L",
        "i eq 5.0",
        "i lt 5.5",
        "l eq 1099511627776",
        "l eq 1099511627776L",
        "l gt 1",
        "d eq 2.5",
        "d eq 25e-1",
        "d gt 2",
        "d ge 2.5d",
        "b eq true",
        "b",
        "not (b eq false)",
        "t eq datetime'2013-08-22T01:12:06.2608595Z'",
        "t lt datetime'2013-08-22T01:12:06.2608596'",
        "g eq guid'C9DA6455-213d-42c9-9a79-3e9149a57833'",
        "x eq X'00AB'",
        "x lt binary'00ac'",
        "id eq 'not the row key'",
        "größe eq 1",
        "PartitionKey eq 'p' and RowKey eq 'r'",
        "i ne 6",
        "I NE 6 OR i EQ 5",
        "not i eq 6 and b",
        "(i eq 5)and(b)",
        "not(i eq 6)",
    ] {
        assert!(passes(text, &properties), "{text}");
    }
    for text in [
        "s eq 5",
        "i eq '5'",
        "i ne '5'",
        "s ne 5",
        "g eq 'c9da6455-213d-42c9-9a79-3e9149a57833'",
        "t eq '2013-08-22T01:12:06.2608595Z'",
        "s",
        "missing eq 1",
        "missing ne 1",
        "missing",
        "I eq 5",
        "b eq 1",
        "PartitionKey eq 1",
    ] {
        assert!(!passes(text, &properties), "{text}");
        assert!(passes(&format!("not ({text})"), &properties), "not ({text})");
    }
}

#[test]
fn nan_is_in_no_relation() {
    let properties = [("d", Value::Double(f64::NAN))];
    for operator in ["eq", "ne", "lt", "le", "gt", "ge"] {
        assert!(!passes(&format!("d {operator} 1.0"), &properties), "{operator}");
    }
}

#[test]
fn and_binds_closer_than_or_and_not_closest() {
    let properties = [("a", Value::Int32(1)), ("b", Value::Int32(0)), ("c", Value::Int32(0))];
    assert!(passes("a eq 1 or b eq 2 and c eq 3", &properties));
    assert!(!passes("(a eq 1 or b eq 2) and c eq 3", &properties));
    assert!(passes("not a eq 2 and b eq 0", &properties));
    assert!(passes("not not a eq 1", &properties));
}

#[test]
fn true_and_false_are_conditions() {
    assert!(passes("true", &[]) && !passes("false", &[]));
    assert!(passes("(true and RowKey eq 'r') or false", &[]));
    assert!(!passes("not true or (false or PartitionKey eq 'x')", &[]));
    assert!(compile("true").is_exact() && compile("false").keys().is_empty());
}

#[test]
fn an_empty_filter_filters_nothing() {
    for text in ["", "   "] {
        let filter = compile(text);
        assert!(filter.is_exact() && filter.keys().is_everything());
    }
}

#[test]
fn wrong_texts_are_refused_at_their_place() {
    for (text, start) in [
        ("a", None),
        ("a eq", Some(4)),
        ("a eq 1 or", Some(9)),
        ("a eq 1 b eq 2", Some(7)),
        ("(a eq 1", Some(7)),
        ("a eq 1)", Some(6)),
        ("a eq 'open", Some(5)),
        ("ä eq 'ö' & b", Some(9)),
        ("a eq 1x", Some(5)),
        ("a eq 99999999999999999999", Some(5)),
        ("a eq 1e999", Some(5)),
        ("a eq guid'no'", Some(5)),
        ("a eq datetime'yesterday'", Some(5)),
        ("a eq X'abc'", Some(5)),
        ("a eq time'1'", Some(5)),
        ("1 eq 1", Some(0)),
        ("1", Some(0)),
        ("'a'", Some(0)),
        ("a == 1", Some(2)),
        ("a eq -", Some(5)),
        ("eq 1", Some(0)),
        ("a b", Some(2)),
    ] {
        let Some(start) = start else {
            compile(text);
            continue;
        };
        let error = refusal(text);
        assert_eq!((error.kind, error.start), (SyntaxErrorKind::Syntax, start), "{text}: {error}");
        assert!(error.end >= error.start && error.end <= text.encode_utf16().count());
        assert!(error.message.starts_with("A syntax error occurred"), "{error}");
    }
}

#[test]
fn what_the_service_lacks_is_told_apart_from_what_is_wrong() {
    for text in [
        "startswith(a, 'x')",
        "substringof('x', a)",
        "length(a) eq 1",
        "a eq tolower(b)",
        "a add 1 eq 2",
        "1 add a eq 2",
        "a eq b",
        "contains(a,'x') and b eq 1",
    ] {
        let error = refusal(text);
        assert_eq!(error.kind, SyntaxErrorKind::NotSupported, "{text}: {error}");
    }
    for option in ["$orderby", "$skip", "$count", "$expand", "$inlinecount"] {
        assert!(check_option(option).is_err_and(|e| e.kind == SyntaxErrorKind::NotSupported));
    }
    for option in ["$filter", "$select", "$top", "$format", "timeout"] {
        assert!(check_option(option).is_ok());
    }
}

#[test]
fn filters_are_bounded() {
    let nested = |depth: usize| format!("{}a eq 1{}", "(".repeat(depth), ")".repeat(depth));
    compile(&nested(FILTER_DEPTH_MAX));
    assert!(refusal(&nested(FILTER_DEPTH_MAX + 1)).message.contains("nested"));
    refusal(&"not ".repeat(5_000));
    let chained = |count: usize| vec!["a eq 1"; count].join(" or ");
    compile(&chained(FILTER_COMPARISONS_MAX));
    assert!(refusal(&chained(FILTER_COMPARISONS_MAX + 1)).message.contains("comparisons"));
    refusal(&format!("a eq '{}'", "x".repeat(FILTER_BYTES_MAX)));
}

/// Ranges as text, for tables of expectations.
fn shown(ranges: &KeyRanges) -> String {
    use std::ops::Bound;
    let bounds = |bounds: &Bounds| {
        if let Some(point) = bounds.point() {
            return point.to_owned();
        }
        let lower = match &bounds.lower {
            Bound::Included(text) => format!("[{text}"),
            Bound::Excluded(text) => format!("({text}"),
            Bound::Unbounded => "(".to_owned(),
        };
        match &bounds.upper {
            Bound::Included(text) => format!("{lower}..{text}]"),
            Bound::Excluded(text) => format!("{lower}..{text})"),
            Bound::Unbounded => format!("{lower}..)"),
        }
    };
    let range = |range: &KeyRange| format!("{}/{}", bounds(&range.partition), bounds(&range.row));
    ranges.as_slice().iter().map(range).collect::<Vec<_>>().join(" ")
}

#[test]
fn keys_are_found_in_filters() {
    for (text, expected, is_exact) in [
        ("PartitionKey eq 'a' and RowKey eq '1'", "a/1", true),
        ("PartitionKey eq 'a'", "a/(..)", true),
        ("PartitionKey eq 'a' and RowKey ge '1' and RowKey lt '5'", "a/[1..5)", true),
        ("PartitionKey eq 'a' and RowKey ge '1' and n eq 1", "a/[1..)", false),
        ("PartitionKey ge 'a' and PartitionKey lt 'c'", "[a..c)/(..)", true),
        ("PartitionKey eq 'b' or PartitionKey eq 'a'", "a/(..) b/(..)", true),
        ("PartitionKey eq 'a' and (RowKey eq '2' or RowKey eq '1')", "a/1 a/2", true),
        ("RowKey eq '1'", "(..)/1", false),
        ("PartitionKey gt 'a' and RowKey eq '1'", "(a..)/1", false),
        ("PartitionKey eq 'a' or n eq 1", "(..)/(..)", false),
        ("not (PartitionKey ne 'a')", "a/(..)", true),
        ("not (PartitionKey lt 'a' or PartitionKey gt 'b')", "[a..b]/(..)", true),
        ("PartitionKey ne 'a'", "(..a)/(..) (a..)/(..)", true),
        ("PartitionKey eq 'a' and PartitionKey eq 'b'", "", true),
        ("PartitionKey eq 1", "", true),
        ("not (PartitionKey eq 1)", "(..)/(..)", true),
        ("PartitionKey ge 'a' and PartitionKey le 'a'", "a/(..)", true),
        ("PartitionKey lt 'c' or PartitionKey ge 'b'", "(..)/(..)", true),
        (
            "PartitionKey eq 'a' and RowKey lt '3' or PartitionKey eq 'a' and RowKey ge '2'",
            "a/(..)",
            true,
        ),
        ("PartitionKey eq 'a' and n eq 1 or PartitionKey eq 'b'", "a/(..) b/(..)", false),
        ("PartitionKey ge 'a' and (RowKey eq '2' or RowKey eq '4')", "[a..)/[2..4]", false),
        ("Timestamp ge datetime'2020-01-01'", "(..)/(..)", false),
    ] {
        let filter = compile(text);
        assert_eq!(shown(filter.keys()), expected, "{text}");
        assert_eq!(filter.is_exact(), is_exact, "{text}");
    }
}

#[test]
fn ranges_are_cut_at_pairs_of_keys() {
    let keys = |text: &str| compile(text).keys().clone();
    let all = KeyRanges::everything();
    assert_eq!(shown(&all.starting_at("b", "2")), "b/[2..) (b..)/(..)");
    assert_eq!(shown(&keys("PartitionKey eq 'b'").starting_at("b", "2")), "b/[2..)");
    assert_eq!(shown(&keys("PartitionKey eq 'a'").starting_at("b", "2")), "");
    let rows = keys("PartitionKey ge 'a' and RowKey ge '4' and RowKey lt '6'");
    assert_eq!(shown(&rows.starting_at("b", "5")), "b/[5..6) (b..)/[4..6)");
    let between = |first, last| shown(&KeyRanges::between(first, last));
    assert_eq!(
        between(Some(("a", Some("1"))), Some(("c", Some("9")))),
        "a/[1..) (a..c)/(..) c/(..9]"
    );
    assert_eq!(between(Some(("a", Some("1"))), Some(("a", Some("9")))), "a/[1..9]");
    assert_eq!(between(Some(("a", None)), None), "a/(..) (a..)/(..)");
    assert_eq!(between(None, Some(("c", None))), "(..c)/(..) c/(..)");
    assert_eq!(between(Some(("c", None)), Some(("a", None))), "");
}

#[test]
fn many_keys_stay_separate_up_to_a_point() {
    let keys = |count: usize| {
        let one = |n: usize| format!("PartitionKey eq '{n:04}'");
        compile(&(0..count).map(one).collect::<Vec<_>>().join(" or "))
    };
    let many = keys(1_000);
    assert!(many.is_exact());
    assert_eq!(many.keys().as_slice().len(), 1_000);
    let more = keys(1_001);
    assert!(!more.is_exact());
    assert_eq!(shown(more.keys()), "[0000..1000]/(..)");
}

#[test]
fn tables_are_filtered_by_name() {
    let matches = |text: &str, name: &str| {
        TableFilter::compile(text).unwrap_or_else(|error| panic!("{text}: {error}")).matches(name)
    };
    assert!(matches("", "a"));
    assert!(matches("TableName eq 'abc'", "abc"));
    assert!(!matches("TableName eq 'abc'", "abd"));
    assert!(matches("TableName ge 'abc' and TableName lt 'abd'", "abcx"));
    assert!(matches("not (TableName eq 'x')", "abc"));
    assert!(!matches("Other eq 'abc'", "abc"));
    assert!(!matches("TableName eq 1", "1"));
    assert!(TableFilter::compile("TableName eq").is_err());
}

#[test]
fn selections_name_properties() {
    let parse = |text: &str| Selection::parse(text).expect("a selection");
    for text in ["", "*", " , ", "a,*"] {
        assert_eq!(parse(text), Selection::All);
    }
    let some = parse("a, b ,a");
    assert_eq!(some, Selection::Names(vec!["a".to_owned(), "b".to_owned()]));
    assert!(some.includes("a") && !some.includes("A"));
    assert!(Selection::parse(&"a,".repeat(1_001)).is_err());
}
