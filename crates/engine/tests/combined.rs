//! Filters over several values, answered with composite indexes and without an index.

use std::sync::Arc;

use engine::index::{Composite, CompositeColumn};
use engine::ops::{PageReport, PageRequest, Row, Scope};
use engine::{Container, ContainerSpec, IndexingPolicy};
use proptest::prelude::*;
use proptest::sample::select;
use testkit::harness::{Harness, spec, string_key, test_context};

/// The texts below differ from each other only behind what an index keeps of a text.
const LONG: usize = 600;

fn composite(columns: &[(&str, bool)]) -> Composite {
    let column = |(name, is_descending): &(&str, bool)| CompositeColumn {
        path: vec![(*name).to_owned()],
        is_descending: *is_descending,
    };
    Composite { columns: columns.iter().map(column).collect() }
}

fn composites() -> IndexingPolicy {
    IndexingPolicy {
        composites: vec![
            composite(&[("pk", false), ("x", false)]),
            composite(&[("x", true), ("y", false)]),
            composite(&[("y", false), ("x", true), ("z", false)]),
            composite(&[("z", false), ("pk", true), ("y", true)]),
        ],
        ..IndexingPolicy::default()
    }
}

async fn container(
    h: &Harness,
    name: &str,
    ranges: u32,
    indexing: IndexingPolicy,
) -> Arc<Container> {
    h.container_with(ContainerSpec { indexing, ..spec(name) }, ranges).await
}

/// The rows of a query in text order, and how the first page found them.
async fn answer(
    h: &Harness,
    c: &Arc<Container>,
    text: &str,
    scope: &Scope,
) -> (Vec<String>, Option<PageReport>) {
    let plan = lang::nosql::compile(text, &[]).expect("a query");
    let (mut rows, mut report, mut continuation) = (Vec::new(), None, None);
    loop {
        let request = PageRequest {
            items_max: Some(3),
            continuation,
            wants_report: report.is_none(),
            ..PageRequest::default()
        };
        let mut ctx = test_context();
        let page = h.engine.query(&mut ctx, c, plan.clone(), scope.clone(), request).await;
        let page = page.expect("a page");
        report = report.or(page.report);
        rows.extend(page.rows.iter().map(|row| match row {
            Row::Json(text) => String::from_utf8_lossy(text).into_owned(),
            Row::Item(item) => item.id().into_owned(),
        }));
        continuation = page.continuation;
        if continuation.is_none() {
            rows.sort();
            return (rows, report);
        }
    }
}

fn any_value() -> impl Strategy<Value = String> {
    let long = |end: &str| format!("\"{}{end}\"", "l".repeat(LONG));
    let values =
        ["null", "false", "true", "-1", "0", "1.5", "2", "\"\"", "\"a\"", "\"ab\"", "\"b\""];
    let mut values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
    values.extend(["", "x", "y"].map(long));
    select(values)
}

fn any_item() -> impl Strategy<Value = Vec<Option<String>>> {
    let array = Just("[1,\"a\"]".to_owned());
    let field =
        prop_oneof![8 => any_value().prop_map(Some), 1 => Just(None), 1 => array.prop_map(Some)];
    prop::collection::vec(field, 3)
}

fn any_condition() -> impl Strategy<Value = String> {
    let path = || select(vec!["c.pk", "c.x", "c.y", "c.z"]);
    let value =
        || prop_oneof![4 => any_value(), 1 => select(vec!["\"0\"".to_owned(), "\"1\"".to_owned()])];
    let operator = select(vec!["=", "=", "=", "<", "<=", ">", ">=", "!="]);
    prop_oneof![
        6 => (path(), operator, value()).prop_map(|(p, o, v)| format!("{p} {o} {v}")),
        2 => (path(), prop::collection::vec(value(), 1..4))
            .prop_map(|(p, values)| format!("{p} IN ({})", values.join(", "))),
        1 => path().prop_map(|p| format!("STARTSWITH({p}, 'a')")),
        1 => path().prop_map(|p| format!("IS_STRING({p})")),
        1 => (path(), path()).prop_map(|(p, q)| format!("({p} = 'a' OR {q} > 0)")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn composite_indexes_answer_as_no_index_does(
        items in prop::collection::vec(any_item(), 1..40),
        filters in prop::collection::vec(prop::collection::vec(any_condition(), 1..4), 40),
        ranges in 1_u32..4,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let h = Harness::in_memory();
            let with = container(&h, "with", ranges, composites()).await;
            let without = container(&h, "without", ranges, IndexingPolicy::none()).await;
            for (n, item) in items.iter().enumerate() {
                let key = (n % 3).to_string();
                let fields = ["x", "y", "z"].iter().zip(item);
                let fields: String = fields
                    .filter_map(|(name, value)| Some(format!(r#","{name}":{}"#, value.as_ref()?)))
                    .collect();
                let text = format!(r#"{{"id":"{n}","pk":"{key}"{fields}}}"#);
                for c in [&with, &without] {
                    h.create(c, &key, &text).await.expect("an item");
                }
            }
            for filter in filters {
                let filter = filter.join(" AND ");
                for scope in [Scope::All, Scope::Key(string_key("1"))] {
                    for what in ["c.id", "COUNT(1)"] {
                        let text = format!("SELECT VALUE {what} FROM c WHERE {filter}");
                        let (rows, _) = answer(&h, &with, &text, &scope).await;
                        let (wanted, _) = answer(&h, &without, &text, &scope).await;
                        assert_eq!(rows, wanted, "{text} in {scope:?}");
                    }
                }
            }
            assert_eq!(h.engine.audit().expect("an audit").findings, Vec::<String>::new());
        });
    }
}

#[tokio::test]
async fn a_composite_index_names_only_what_all_its_columns_want() {
    let h = Harness::in_memory();
    let c = container(&h, "c", 1, composites()).await;
    for n in 0..200 {
        let key = (n % 2).to_string();
        let text =
            format!(r#"{{"id":"{n}","pk":"{key}","x":{},"y":{},"z":"{}"}}"#, n / 2, n % 10, n % 5);
        h.create(&c, &key, &text).await.expect("an item");
    }
    let within = Scope::Key(string_key("1"));
    let cases = [
        // The partition key of the query's scope is a column as well.
        ("c.x >= 10 AND c.x < 15", &within, 5, Some("pk")),
        ("c.y = 3 AND c.x > 90", &Scope::All, 2, Some("y")),
        ("c.x IN (3, 4, 5) AND c.y > 7", &Scope::All, 2, Some("x")),
        ("c.z = '1' AND c.y < 5", &within, 20, Some("z")),
        // One condition is served by the index of its path.
        ("c.x = 3", &Scope::All, 2, None),
    ];
    for (filter, scope, count, first) in cases {
        let text = format!("SELECT VALUE c.id FROM c WHERE {filter}");
        let (rows, report) = answer(&h, &c, &text, scope).await;
        let report = report.expect("a report");
        assert_eq!(rows.len(), count, "{filter}: {rows:?}");
        let used = report.ranges.iter().find_map(|range| range.composite.as_ref());
        let used = used.and_then(|composite| composite.columns.first());
        assert_eq!(used.map(|column| column.path[0].as_str()), first, "{filter}");
        let entries: u64 = report.ranges.iter().map(|range| range.entries).sum();
        assert!(first.is_none() || entries == count as u64, "{filter}: {entries} entries");
    }
}
