//! Compares filters with a model that does not use the algebra: it evaluates its own tree over
//! values in a map.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A filter in the model.
#[derive(Clone, Debug)]
enum Tree {
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
    Not(Box<Tree>),
    Compare { property: &'static str, operator: &'static str, literal: Value, is_mirrored: bool },
    Bare(&'static str),
}

const OPERATORS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
const PROPERTIES: [&str; 6] = ["PartitionKey", "RowKey", "a", "b", "id", "c"];

#[expect(clippy::wildcard_enum_match_arm, reason = "only some kinds are generated")]
fn literal_text(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Int32(value) => value.to_string(),
        Value::Int64(value) => format!("{value}L"),
        Value::Double(value) => format!("{value:?}"),
        Value::String(value) => format!("'{}'", value.replace('\'', "''")),
        Value::Binary { bytes, .. } => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("X'{hex}'")
        }
        Value::Guid(guid) => format!("guid'{}'", edm::guid_text(guid)),
        Value::Date(date) => {
            format!("datetime'{}'", edm::date_text(*date, edm::DateDigits::Seven))
        }
        _ => unreachable!("not generated"),
    }
}

impl Tree {
    fn text(&self) -> String {
        match self {
            Tree::And(a, b) => format!("({}) and ({})", a.text(), b.text()),
            Tree::Or(a, b) => format!("({} or {})", a.text(), b.text()),
            Tree::Not(a) => format!("not ({})", a.text()),
            Tree::Compare { property, operator, literal, is_mirrored } => {
                let literal = literal_text(literal);
                match is_mirrored {
                    true => format!("{literal} {operator} {property}"),
                    false => format!("{property} {operator} {literal}"),
                }
            }
            Tree::Bare(property) => (*property).to_owned(),
        }
    }

    fn holds(&self, entity: &BTreeMap<&str, Value>) -> bool {
        match self {
            Tree::And(a, b) => a.holds(entity) && b.holds(entity),
            Tree::Or(a, b) => a.holds(entity) || b.holds(entity),
            Tree::Not(a) => !a.holds(entity),
            Tree::Bare(property) => entity.get(property) == Some(&Value::Bool(true)),
            Tree::Compare { property, operator, literal, is_mirrored } => {
                let Some(value) = entity.get(property) else { return false };
                let order = match is_mirrored {
                    true => naive_order(literal, value),
                    false => naive_order(value, literal),
                };
                let Some(order) = order else { return false };
                match *operator {
                    "eq" => order == Ordering::Equal,
                    "ne" => order != Ordering::Equal,
                    "lt" => order == Ordering::Less,
                    "le" => order != Ordering::Greater,
                    "gt" => order == Ordering::Greater,
                    _ => order != Ordering::Less,
                }
            }
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "all others are no numbers")]
fn json_number(value: &Value) -> Option<f64> {
    match value {
        Value::Int32(n) => Some(f64::from(*n)),
        Value::Int64(n) => n.to_string().parse().ok(),
        Value::Double(n) => Some(*n),
        _ => None,
    }
}

/// Small numbers only, so that doubles are exact.
fn naive_order(a: &Value, b: &Value) -> Option<Ordering> {
    if let (Some(a), Some(b)) = (json_number(a), json_number(b)) {
        return a.partial_cmp(&b);
    }
    match (a, b) {
        (Value::String(a), Value::String(b)) => Some(a.chars().cmp(b.chars())),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Guid(a), Value::Guid(b)) => Some(edm::guid_text(a).cmp(&edm::guid_text(b))),
        (Value::Binary { bytes: a, .. }, Value::Binary { bytes: b, .. }) => Some(a.cmp(b)),
        (Value::Date(a), Value::Date(b)) => Some(edm::ticks_of(*a).cmp(&edm::ticks_of(*b))),
        _ => None,
    }
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-c]{1,2}", "['é\u{10000}\u{ff5e}]"]
}

/// Few values, so that they are often equal.
fn any_value() -> impl Strategy<Value = Value> {
    let ticks = 637_135_310_456_789_010_i64;
    prop_oneof![
        key().prop_map(Value::String),
        key().prop_map(Value::String),
        (-2..3_i32).prop_map(Value::Int32),
        (-2..3_i64).prop_map(Value::Int64),
        (-4..5_i32).prop_map(|n| Value::Double(f64::from(n) / 2.0)),
        any::<bool>().prop_map(Value::Bool),
        (0..3_u8).prop_map(|n| Value::Guid([n; 16])),
        (0..3_u8).prop_map(|n| Value::Binary { subtype: 0, bytes: vec![n; usize::from(n)] }),
        (0..3_i64).prop_map(move |n| Value::Date(edm::date_from_ticks(ticks + n))),
    ]
}

fn any_tree() -> impl Strategy<Value = Tree> {
    let compare = (
        prop::sample::select(&PROPERTIES[..]),
        prop::sample::select(&OPERATORS[..]),
        any_value(),
        any::<bool>(),
    );
    let leaf = prop_oneof![
        8 => compare.prop_map(|(property, operator, literal, is_mirrored)| Tree::Compare {
            property,
            operator,
            literal,
            is_mirrored
        }),
        1 => prop::sample::select(&PROPERTIES[2..]).prop_map(Tree::Bare),
    ];
    leaf.prop_recursive(5, 24, 2, |inner| {
        prop_oneof![
            3 => (inner.clone(), inner.clone())
                .prop_map(|(a, b)| Tree::And(Box::new(a), Box::new(b))),
            3 => (inner.clone(), inner.clone())
                .prop_map(|(a, b)| Tree::Or(Box::new(a), Box::new(b))),
            1 => inner.prop_map(|a| Tree::Not(Box::new(a))),
        ]
    })
}

type Entity = (String, String, BTreeMap<&'static str, Value>);

fn any_entity() -> impl Strategy<Value = Entity> {
    let properties = prop::collection::btree_map(
        prop::sample::select(&PROPERTIES[2..]),
        any_value(),
        0..PROPERTIES.len(),
    );
    (key(), key(), properties)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn filters_pass_what_the_model_passes(
        tree in any_tree(),
        entities in prop::collection::vec(any_entity(), 1..12),
    ) {
        let text = tree.text();
        let filter = EntityFilter::compile(&text)
            .map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        for (partition_key, row_key, properties) in &entities {
            let mut all = properties.clone();
            all.insert("PartitionKey", Value::from(partition_key.as_str()));
            all.insert("RowKey", Value::from(row_key.as_str()));
            let expected = tree.holds(&all);
            let given: Vec<_> = properties.iter().map(|(name, v)| (*name, v.clone())).collect();
            let is_in_range = filter.keys().contains(partition_key, row_key);
            let is_kept = filter.plan().matches(&item(partition_key, row_key, &given))
                .expect("within the budget");
            prop_assert_eq!(is_in_range && is_kept, expected, "{} of {:?}", text, all);
            if filter.is_exact() {
                prop_assert_eq!(is_in_range, expected, "{} is not exact for {:?}", text, all);
            }
        }
    }

    #[test]
    fn ranges_are_in_the_order_of_keys(
        tree in any_tree(),
        start in (key(), key()),
        mut keys in prop::collection::vec((key(), key()), 0..16),
    ) {
        let filter = EntityFilter::compile(&tree.text()).expect("the model writes filters");
        keys.sort();
        let mut at = 0;
        let ranges = filter.keys().as_slice();
        for (partition_key, row_key) in &keys {
            let places: Vec<usize> = (0..ranges.len())
                .filter(|at| ranges[*at].contains(partition_key, row_key))
                .collect();
            prop_assert!(places.len() <= 1, "ranges overlap");
            if let [place] = places[..] {
                prop_assert!(place >= at, "ranges are not in order");
                at = place;
            }
            let is_left = (partition_key, row_key) >= (&start.0, &start.1) && places.len() == 1;
            let rest = filter.keys().starting_at(&start.0, &start.1);
            prop_assert_eq!(rest.contains(partition_key, row_key), is_left);
        }
    }

    #[test]
    fn no_text_makes_the_compiler_panic(text in "[a-c '()0-9.eqornandtL-]{0,60}") {
        if let Err(error) = EntityFilter::compile(&text) {
            prop_assert!(error.start <= error.end && error.end <= text.encode_utf16().count());
        }
    }
}
