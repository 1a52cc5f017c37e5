//! Queries, paging, continuation and ranges.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::feed::ContinuationToken;
use azure_data_cosmos::options::{MaxItemCountHint, QueryOptions};
use azure_data_cosmos::{FeedScope, Query};
use conformance::{Account, charge, ids, query, refused, variants};
use futures::TryStreamExt;
use serde_json::{Value, json};

async fn filled(account: &Account, throughput: u64) -> ContainerClient {
    let container = account.keyed("/pk", Some(throughput)).await;
    for n in 0..25 {
        let (id, pk) = (format!("{n:02}"), format!("p{n}"));
        let item = json!({"id": id, "pk": pk, "n": n, "odd": n % 2 == 1, "child": {"x": n}});
        container.create_item(&pk, &id, &item, None).await.expect("created");
    }
    container
}

fn pages_of(size: u32) -> QueryOptions {
    let size = NonZeroU32::new(size).expect("not zero");
    QueryOptions::default().with_max_item_count(MaxItemCountHint::Limit(size))
}

async fn filters_and_parameters(account: &Account) {
    for throughput in [400, 30_000] {
        let container = filled(account, throughput).await;
        for (condition, expected) in [
            ("true", 25),
            ("c.n = 3", 1),
            ("c.n >= 20", 5),
            ("c.odd AND c.n < 10", 5),
            ("c.id IN ('01', '02', '99')", 2),
            ("c.child.x = 7 OR c.pk = 'p8'", 2),
            ("NOT (c.n > 4)", 5),
            ("c.absent = null", 0),
        ] {
            let text = format!("SELECT * FROM c WHERE {condition}");
            let found = query(&container, text, FeedScope::full_container()).await;
            assert_eq!(found.expect(condition).len(), expected, "{condition}");
        }
        let by_parameter = Query::from("SELECT VALUE c.id FROM c WHERE c.n = @n")
            .with_parameter("@n", 12)
            .expect("a parameter");
        let found = query(&container, by_parameter, FeedScope::full_container()).await;
        assert_eq!(found.expect("an answer"), [json!("12")]);
        let found = query(&container, "SELECT * FROM c", FeedScope::partition("p5")).await;
        assert_eq!(found.expect("an answer").len(), 1);
    }
}

async fn pages_and_resumption(account: &Account) {
    for throughput in [400, 30_000] {
        let container = filled(account, throughput).await;
        let mut seen = Vec::new();
        let mut token: Option<ContinuationToken> = None;
        loop {
            let mut options = pages_of(4);
            if let Some(token) = token.take() {
                options = options.with_continuation_token(token);
            }
            let mut pages = container
                .query_items::<Value>("SELECT * FROM c", FeedScope::full_container(), Some(options))
                .await
                .expect("the query runs")
                .into_pages();
            let Some(page) = pages.try_next().await.expect("a page") else { break };
            assert!(page.items().len() <= 4);
            assert!(charge(page.headers()) > 0.0);
            seen.extend(page.items().iter().map(|item| item["id"].to_string()));
            token = Some(pages.to_continuation_token().expect("a token"));
        }
        assert_eq!(seen.len(), 25);
        assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 25);
    }
}

async fn ranges_partition_the_items(account: &Account) {
    for (throughput, count) in [(400, 1), (12_000, 2), (30_000, 5)] {
        let container = filled(account, throughput).await;
        let ranges = container.read_feed_ranges(None).await.expect("ranges");
        assert_eq!(ranges.len(), count);
        let mut seen = Vec::new();
        for range in ranges {
            let found = query(&container, "SELECT * FROM c", FeedScope::range(range)).await;
            let found = found.expect("the query answers");
            seen.extend(found.iter().map(|item| item["id"].as_str().expect("an id").to_owned()));
        }
        seen.sort();
        assert_eq!(seen, ids(&container).await);
        assert_eq!(seen.len(), 25);
    }
}

async fn broken_queries_are_refused(account: &Account) {
    let container = account.container().await;
    for text in ["SELEC * FROM c", "SELECT * FROM c WHERE"] {
        refused(query(&container, text, FeedScope::partition("a")).await, 400);
    }
}

variants![
    filters_and_parameters,
    pages_and_resumption,
    ranges_partition_the_items,
    broken_queries_are_refused,
];
