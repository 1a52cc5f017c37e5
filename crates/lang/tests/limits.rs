//! Hostile queries over the largest item fail with an error instead of exhausting the server's
//! memory or time.

use std::sync::LazyLock;

use lang::nosql;
use model::{Object, PropertyPath, Value, limits};
use query::{EvalError, KeyScope};

/// An item of about the largest size: a long text, many elements, many fields.
static LARGE_ITEM: LazyLock<Value> = LazyLock::new(|| {
    let fields = (0..5000).map(|n| (format!("field{n}"), Value::Int64(n)));
    let mut item = Object::new();
    item.insert("s", Value::String("a".repeat(limits::ITEM_BYTES_MAX / 2)));
    item.insert("a", Value::Array((0..40_000).map(Value::Int64).collect()));
    item.insert("o", Value::Object(fields.collect()));
    Value::Object(item)
});

fn evaluate(text: &str) -> Result<Option<Value>, EvalError> {
    nosql::compile(text, &[]).expect(text).rows_of(&LARGE_ITEM).map(|mut rows| rows.pop())
}

#[test]
fn queries_that_grow_or_search_without_end_are_stopped() {
    let repeated = |part: &str, join: &str, n: usize| vec![part; n].join(join);
    for text in [
        format!("SELECT VALUE {} FROM c", repeated("c.s", " || ", 150)),
        format!("SELECT VALUE [{}] FROM c", repeated("c", ", ", 1000)),
        format!("SELECT VALUE {{{}}} FROM c", repeated("\"x\": c.s", ", ", 1000)),
        format!("SELECT VALUE CONCAT({}) FROM c", repeated("c.s", ", ", 1000)),
        format!("SELECT VALUE LENGTH(c.s) + {} FROM c", repeated("LENGTH(UPPER(c.s))", " + ", 100)),
        "SELECT VALUE REPLACE(c.s, 'a', c.s) FROM c".to_owned(),
        "SELECT VALUE StringJoin(StringSplit(c.s, 'a'), c.s) FROM c".to_owned(),
        "SELECT VALUE SetUnion(c.a, c.a) FROM c".to_owned(),
        "SELECT VALUE SetIntersect(c.a, c.a) FROM c".to_owned(),
        format!("SELECT VALUE {} FROM c", repeated("ARRAY_CONTAINS([c.o], c.o, true)", " AND ", 2)),
        format!("SELECT * FROM c WHERE c.s LIKE '%{}b%'", "a".repeat(100_000)),
    ] {
        let short: String = text.chars().take(60).collect();
        assert_eq!(evaluate(&text), Err(EvalError::BudgetExceeded), "{short}");
    }
}

#[test]
fn ordinary_queries_over_the_largest_item_are_within_budget() {
    for text in [
        "SELECT VALUE LENGTH(LOWER(c.s)) FROM c",
        "SELECT VALUE CONTAINS(c.s, 'b', true) FROM c",
        "SELECT VALUE c.s LIKE '%b%' FROM c",
        "SELECT VALUE ARRAY_CONTAINS(c.a, 39999) FROM c",
        "SELECT VALUE c.o = c.o FROM c",
        "SELECT VALUE REPLACE(c.s, 'a', 'b') FROM c",
        "SELECT VALUE ARRAY_LENGTH(ObjectToArray(c.o)) FROM c",
        "SELECT * FROM c",
        "SELECT c.s, c.a, c.o FROM c",
    ] {
        assert!(matches!(evaluate(text), Ok(Some(_))), "{text}");
    }
}

#[test]
fn large_parameters_are_shared_by_their_uses() {
    let parameter = Value::String("a".repeat(1 << 20));
    let uses = vec!["c.x = @p"; 2000].join(" OR ");
    let text = format!("SELECT * FROM c WHERE {uses}");
    let plan = nosql::compile(&text, &[("@p".to_owned(), parameter)]).expect("compiles");
    assert_eq!(plan.matches(&Value::Null), Ok(false));
}

#[test]
fn folding_that_would_grow_is_left_to_the_budget_of_a_row() {
    let parameter = Value::String("a".repeat(1 << 20));
    let text = format!("SELECT VALUE {}", vec!["(@p || @p)"; 150].join(" || "));
    let plan = nosql::compile(&text, &[("@p".to_owned(), parameter)]).expect("compiles");
    assert_eq!(plan.rows_of(&Value::Null), Err(EvalError::BudgetExceeded));
}

#[test]
fn keys_of_a_read_of_many_are_found_and_too_many_restrict_nothing() {
    let paths = [PropertyPath::parse("/pk").unwrap(), PropertyPath::parse("/id").unwrap()];
    let keys_of = |n: usize| {
        let pairs: Vec<_> =
            (0..n).map(|i| format!("(c.id = '{i}' AND c.pk = 'p{}')", i % 7)).collect();
        let text = format!("SELECT * FROM c WHERE ( {} )", pairs.join(" OR "));
        nosql::compile(&text, &[]).expect("compiles").key_scope(&paths)
    };
    assert!(matches!(keys_of(1000), KeyScope::Keys(keys) if keys.len() == 1000));
    assert_eq!(keys_of(5000), KeyScope::All);
}

#[test]
fn a_filter_on_one_full_key_pins_it() {
    let paths = [PropertyPath::parse("/pk").unwrap(), PropertyPath::parse("/a").unwrap()];
    let filter_of = |filter: &str| {
        let text = format!("SELECT * FROM c WHERE {filter}");
        nosql::compile(&text, &[]).expect("compiles").partition_key_filter(&paths)
    };
    let pinned = Some(vec![Some(Value::from("x")), None]);
    assert_eq!(filter_of("c.pk IN ('x') AND NOT IS_DEFINED(c.a)"), pinned);
    assert_eq!(filter_of("c.pk = 'x'"), None);
    assert_eq!(filter_of("c.pk = 'x' AND c.a IN (1, 2)"), None);
    assert_eq!(filter_of("c.pk = 'x' AND c.pk = 'y' AND c.a = 1"), None);
}

#[test]
fn analysing_keys_of_a_long_conjunction_is_bounded() {
    let paths = [PropertyPath::parse("/pk").unwrap(), PropertyPath::parse("/a").unwrap()];
    let values: Vec<_> = (0..4000).map(|i| i.to_string()).collect();
    let same = vec!["c.a = 1"; 20_000].join(" AND ");
    let text = format!("SELECT * FROM c WHERE c.pk IN ({}) AND {same}", values.join(", "));
    let scope = nosql::compile(&text, &[]).expect("compiles").key_scope(&paths);
    assert!(matches!(scope, KeyScope::Keys(keys) if keys.len() == 4000));
}

#[test]
fn only_queries_that_look_at_a_value_here_and_there_are_light() {
    let is_light = |text: &str| nosql::compile(text, &[]).expect(text).is_light();
    let long: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    for text in [
        "SELECT * FROM c",
        "SELECT * FROM c WHERE c.seq >= 1 AND c.seq < 11",
        "SELECT c.id, c.a.b AS b, [c.x] AS x FROM c WHERE c.a IN (1, 2, 3) OR NOT c.b",
    ] {
        assert!(is_light(text), "{text}");
    }
    for text in [
        "SELECT * FROM c ORDER BY c.x",
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT DISTINCT c.x FROM c",
        "SELECT VALUE t FROM c JOIN t IN c.tags",
        "SELECT * FROM c WHERE CONTAINS(c.name, 'x')",
        "SELECT * FROM c WHERE c.name LIKE '%x'",
        "SELECT * FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags)",
        &format!("SELECT * FROM c WHERE c.x IN ({})", long.join(",")),
    ] {
        assert!(!is_light(text), "{text}");
    }
}
