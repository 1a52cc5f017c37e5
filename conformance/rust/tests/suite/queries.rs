//! Every clause of the language, within a partition key and over several ranges.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::options::{MaxItemCountHint, QueryOptions};
use azure_data_cosmos::{FeedScope, Query};
use conformance::{Account, query, refused, variants};
use futures::TryStreamExt;
use serde_json::{Value, json};

const ITEMS: u64 = 24;

fn id_of(n: u64) -> String {
    format!("{n:02}")
}

/// Items `00` to `23`, each under a key of its own or all under the same.
async fn filled(account: &Account, throughput: u64, key: Option<&str>) -> ContainerClient {
    let container = account.keyed("/pk", Some(throughput)).await;
    for n in 0..ITEMS {
        let (id, pk) = (id_of(n), key.map_or_else(|| format!("p{n}"), str::to_owned));
        let tags = if n % 3 == 0 { json!(["red", "blue"]) } else { json!(["blue"]) };
        let item = json!({"id": id, "pk": pk, "n": n % 6, "even": n % 2 == 0, "tags": tags});
        container.create_item(&pk, &id, &item, None).await.expect("created");
    }
    container
}

fn sorted(mut rows: Vec<Value>) -> Vec<String> {
    let mut rows: Vec<String> = rows.drain(..).map(|row| row.to_string()).collect();
    rows.sort();
    rows
}

/// Queries whose rows come in an order of their own.
fn ordered() -> Vec<(&'static str, Value)> {
    vec![
        ("SELECT TOP 3 VALUE c.id FROM c ORDER BY c.id DESC", json!(["23", "22", "21"])),
        ("SELECT VALUE c.id FROM c ORDER BY c.id OFFSET 3 LIMIT 2", json!(["03", "04"])),
        ("SELECT VALUE c.id FROM c WHERE c.n = 5 ORDER BY c.id", json!(["05", "11", "17", "23"])),
        (
            "SELECT VALUE c.id FROM c JOIN t IN c.tags WHERE t = 'red' AND c.n = 3 ORDER BY c.id",
            json!(["03", "09", "15", "21"]),
        ),
        (
            "SELECT VALUE (SELECT VALUE COUNT(1) FROM t IN c.tags) FROM c WHERE c.id < '03' \
             ORDER BY c.id",
            json!([2, 1, 1]),
        ),
    ]
}

/// Queries whose rows come in any order.
fn unordered() -> Vec<(&'static str, Value)> {
    vec![
        ("SELECT VALUE c.id FROM c WHERE c.n = 5", json!(["05", "11", "17", "23"])),
        ("SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.id = '03'", json!(["red", "blue"])),
        (
            "SELECT VALUE c.id FROM c WHERE c.n = 0 AND \
             EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 'red')",
            json!(["00", "06", "12", "18"]),
        ),
        (
            "SELECT VALUE ARRAY(SELECT VALUE UPPER(t) FROM t IN c.tags) FROM c WHERE c.id = '01'",
            json!([["BLUE"]]),
        ),
    ]
}

/// Queries that need all rows before they can return the first.
fn gathered() -> Vec<(&'static str, Value)> {
    vec![
        ("SELECT VALUE COUNT(1) FROM c", json!([24])),
        ("SELECT VALUE SUM(c.n) FROM c", json!([60])),
        ("SELECT VALUE AVG(c.n) FROM c", json!([2.5])),
        ("SELECT VALUE MIN(c.id) FROM c", json!(["00"])),
        ("SELECT VALUE MAX(c.n) FROM c WHERE c.even", json!([4])),
        ("SELECT DISTINCT VALUE c.n FROM c", json!([0, 1, 2, 3, 4, 5])),
        (
            "SELECT c.even, COUNT(1) AS k FROM c GROUP BY c.even",
            json!([{"even": true, "k": 12}, {"even": false, "k": 12}]),
        ),
    ]
}

fn rows_of(expected: Value) -> Vec<Value> {
    expected.as_array().cloned().unwrap_or_default()
}

async fn every_clause_within_a_key(account: &Account) {
    let container = filled(account, 12_000, Some("same")).await;
    for (text, expected) in ordered() {
        let found = query(&container, text, FeedScope::partition("same")).await.expect(text);
        assert_eq!(found, rows_of(expected), "{text}");
    }
    for (text, expected) in unordered().into_iter().chain(gathered()) {
        let found = query(&container, text, FeedScope::partition("same")).await.expect(text);
        assert_eq!(sorted(found), sorted(rows_of(expected)), "{text}");
    }
}

async fn every_clause_over_ranges(account: &Account) {
    for throughput in [400, 30_000] {
        let container = filled(account, throughput, None).await;
        for (text, expected) in ordered() {
            let found = query(&container, text, FeedScope::full_container()).await.expect(text);
            assert_eq!(found, rows_of(expected), "{text}");
        }
        for (text, expected) in unordered() {
            let found = query(&container, text, FeedScope::full_container()).await.expect(text);
            assert_eq!(sorted(found), sorted(rows_of(expected)), "{text}");
        }
        // The SDK declares that it can't merge the rows of these queries, so it is refused a plan.
        for (text, _) in gathered() {
            refused(query(&container, text, FeedScope::full_container()).await, 400);
        }
    }
}

async fn parameters(account: &Account) {
    let container = filled(account, 30_000, None).await;
    let text = "SELECT VALUE c.id FROM c WHERE c.n = @n AND c.even = @even AND c.tags = @tags";
    let parameterized = Query::from(text)
        .with_parameter("@n", 2)
        .and_then(|query| query.with_parameter("@even", true))
        .and_then(|query| query.with_parameter("@tags", ["blue"]))
        .expect("parameters");
    let found = query(&container, parameterized, FeedScope::full_container()).await;
    let expected = rows_of(json!(["02", "08", "14", "20"]));
    assert_eq!(sorted(found.expect("an answer")), sorted(expected));
}

async fn items_come_and_go_between_pages(account: &Account) {
    for (throughput, tail) in [(400, ""), (30_000, ""), (400, " ORDER BY c.id")] {
        let container = filled(account, throughput, None).await;
        let size = MaxItemCountHint::Limit(NonZeroU32::new(2).expect("not zero"));
        let options = QueryOptions::default().with_max_item_count(size);
        let text = format!("SELECT VALUE c.id FROM c{tail}");
        let pages = container
            .query_items::<String>(text, FeedScope::full_container(), Some(options))
            .await
            .expect("the query runs");
        let mut pages = pages.into_pages();
        let (mut seen, mut gone) = (Vec::new(), BTreeSet::new());
        let mut round = 0;
        while let Some(page) = pages.try_next().await.expect("a page") {
            seen.extend(page.items().iter().cloned());
            // One item after the other is deleted, wherever the query stands; others are inserted
            // before and behind its position.
            if round < ITEMS / 3 {
                let n = 3 * round;
                gone.insert(id_of(n));
                container.delete_item(&format!("p{n}"), &id_of(n), None).await.expect("deleted");
                for id in [format!("!{round}"), format!("z{round}")] {
                    let (pk, item) =
                        (format!("new {id}"), json!({"id": id, "pk": format!("new {id}")}));
                    container.create_item(&pk, &id, &item, None).await.expect("created");
                }
            }
            round += 1;
        }
        let distinct: BTreeSet<&String> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len(), "an item was shown twice: {seen:?}");
        for id in (0..ITEMS).map(id_of).filter(|id| !gone.contains(id)) {
            assert!(distinct.contains(&id), "{id} is missing in {seen:?}");
        }
        assert!(tail.is_empty() || seen.is_sorted(), "{seen:?}");
    }
}

variants![
    every_clause_within_a_key,
    every_clause_over_ranges,
    parameters,
    items_come_and_go_between_pages,
];
