//! Queries that cost more than ranges serve in a second.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use engine::catalog::OfferTarget;
use engine::gather::{GatherRequest, Gathered};
use engine::ops::{PageRequest, Row, Scope};
use engine::{Container, Error, Throughput};
use model::Charge;
use testkit::harness::{Harness, test_context};

use super::{consumed, container, drain, is_throttled, keys_of_two_ranges, throttling};

const ITEMS: usize = 24;

/// Items of this size in ranges that have 400 request units a second together.
async fn fill(harness: &Harness, ranges: usize, bytes: usize) -> Arc<Container> {
    let throughput = u32::try_from(ranges * 6_000).expect("few ranges");
    let c = container(harness, Throughput::Manual(throughput)).await;
    assert_eq!(c.routing().ranges().len(), ranges);
    let padding = "x".repeat(bytes);
    for n in 0..ITEMS {
        let text = format!(r#"{{"id":"{n}","pk":"{n}","half":{},"x":"{padding}"}}"#, n % 2);
        harness.create(&c, &n.to_string(), &text).await.expect("an item");
        harness.clock.advance(Duration::from_secs(60));
    }
    let catalog = harness.engine.catalog();
    let offer = catalog.offer_of(OfferTarget::Container(c.rid)).expect("an offer");
    harness
        .engine
        .replace_offer(&test_context(), offer.rid, Throughput::Manual(400))
        .await
        .expect("an offer");
    c
}

async fn gather(
    harness: &Harness,
    c: &Arc<Container>,
    text: &str,
    request: GatherRequest,
) -> (Result<Gathered, Error>, Charge) {
    let plan = lang::nosql::compile(text, &[]).expect("a query");
    let mut ctx = test_context();
    let page = harness.engine.gather(&mut ctx, c, plan, Scope::All, request).await;
    (page, ctx.served.charge)
}

fn texts(page: &Gathered) -> Vec<String> {
    let text = |row: &Row| match row {
        Row::Json(text) => String::from_utf8(text.clone()).expect("text"),
        Row::Item(item) => item.id().into_owned(),
    };
    page.rows.iter().map(text).collect()
}

/// All rows, waiting as each refusal says, and how many pages had them.
async fn all(harness: &Harness, c: &Arc<Container>, text: &str) -> (Vec<String>, usize) {
    let (mut rows, mut pages, mut continuation, mut refused) = (Vec::new(), 0, None, 0);
    loop {
        let request = GatherRequest { continuation: continuation.clone(), ..Default::default() };
        match gather(harness, c, text, request).await.0 {
            Ok(page) => {
                rows.extend(texts(&page));
                pages += 1;
                continuation = page.continuation;
                if continuation.is_none() {
                    return (rows, pages);
                }
            }
            Err(Error::Throttled { retry_after }) => {
                refused += 1;
                assert!(refused < 100, "{text} comes to no end after {pages} pages");
                // The clock has whole milliseconds.
                harness.clock.advance(retry_after + Duration::from_millis(1));
            }
            Err(error) => panic!("{text}: {error:?}"),
        }
    }
}

#[tokio::test]
async fn rows_that_cost_more_than_a_second_come_in_pages() {
    let harness = throttling();
    let c = fill(&harness, 2, 300_000).await;
    let (rows, pages) = all(&harness, &c, "SELECT VALUE c.pk FROM c").await;
    assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), ITEMS);
    assert_eq!(rows.len(), ITEMS);
    assert!(pages > 1, "{pages}");
    // Most pages have no row, but each of them makes progress.
    let (rows, pages) =
        all(&harness, &c, "SELECT VALUE c.pk FROM c WHERE CONCAT(c.pk, '') = '7'").await;
    assert_eq!(rows, [r#""7""#]);
    assert!(pages > 1, "{pages}");
}

#[tokio::test]
async fn a_page_that_needs_all_ranges_is_not_refused_half_way() {
    let harness = throttling();
    let c = fill(&harness, 2, 300_000).await;
    let mut sorted: Vec<String> = (0..ITEMS).map(|n| format!("\"{n}\"")).collect();
    sorted.sort();
    for text in [
        "SELECT VALUE c.pk FROM c ORDER BY c.pk",
        "SELECT DISTINCT VALUE c.pk FROM c ORDER BY c.pk",
    ] {
        assert_eq!(all(&harness, &c, text).await.0, sorted, "{text}");
    }
    for (text, rows) in [
        ("SELECT VALUE SUM(LENGTH(c.x)) FROM c", vec!["7200000"]),
        ("SELECT VALUE COUNT(1) FROM c GROUP BY c.half", vec!["12", "12"]),
        ("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.half FROM c) AS d", vec!["2"]),
        ("SELECT DISTINCT VALUE c.half FROM c ORDER BY c.pk", vec!["0", "1"]),
    ] {
        assert_eq!(all(&harness, &c, text).await.0, rows, "{text}");
    }
}

#[tokio::test]
async fn nothing_is_paid_where_one_of_the_ranges_that_are_needed_refuses() {
    let harness = throttling();
    let c = container(&harness, Throughput::Manual(12_000)).await;
    let (one, other) = keys_of_two_ranges(&harness, &c);
    for key in [&one, &other] {
        let text = format!(r#"{{"id":"1","pk":"{key}"}}"#);
        harness.create(&c, key, &text).await.expect("an item");
    }
    for text in ["SELECT * FROM c ORDER BY c.id", "SELECT VALUE MAX(c.pk) FROM c"] {
        for key in [&one, &other] {
            harness.clock.advance(Duration::from_secs(2));
            drain(&harness, &c, key);
            let before = consumed(&harness, &c);
            let (page, told) = gather(&harness, &c, text, GatherRequest::default()).await;
            assert!(is_throttled(&page), "{text}");
            assert_eq!((told.as_milli(), consumed(&harness, &c) - before), (380, 0), "{text}");
        }
    }
    harness.clock.advance(Duration::from_secs(2));
    let served = || harness.engine.usage(&c).iter().map(|(_, usage)| usage.served).sum::<u64>();
    let before = (consumed(&harness, &c), served());
    let text = "SELECT VALUE MAX(c.pk) FROM c";
    let (page, told) = gather(&harness, &c, text, GatherRequest::default()).await;
    assert_eq!(texts(&page.expect("a page")).len(), 1);
    assert_eq!((consumed(&harness, &c), served()), (before.0 + told.as_milli(), before.1 + 2));
}

#[tokio::test]
async fn a_query_that_was_let_in_before_is_not_refused() {
    let harness = throttling();
    let c = fill(&harness, 2, 300_000).await;
    let (mut rows, mut continuation, mut is_admitted) = (0, None, false);
    loop {
        let request = GatherRequest { continuation, is_admitted, ..GatherRequest::default() };
        let (page, _) = gather(&harness, &c, "SELECT VALUE c.pk FROM c", request).await;
        let page = page.expect("a page");
        rows += page.rows.len();
        (continuation, is_admitted) = (page.continuation, true);
        if continuation.is_none() {
            break;
        }
    }
    assert_eq!(rows, ITEMS);
}

#[tokio::test]
async fn every_page_of_an_ordered_query_comes_further() {
    let harness = throttling();
    let c = fill(&harness, 4, 1_900_000).await;
    // The start of a page is found by reading an item, which costs more than a page may cost.
    for text in ["SELECT VALUE c.id FROM c ORDER BY c.id", "SELECT VALUE c.id FROM c ORDER BY c.x"]
    {
        let (mut rows, mut continuation) = (0, None);
        for pages in 0.. {
            assert!(pages <= ITEMS, "{text} comes no further than {rows} rows");
            harness.clock.advance(Duration::from_secs(300));
            let plan = lang::nosql::compile(text, &[]).expect("a query");
            let request = PageRequest { continuation, ..PageRequest::default() };
            let mut ctx = test_context();
            let page = harness.engine.query(&mut ctx, &c, plan, Scope::All, request).await;
            let page = page.expect("a page");
            rows += page.rows.len();
            continuation = page.continuation;
            if continuation.is_none() {
                break;
            }
        }
        assert_eq!(rows, ITEMS, "{text}");
    }
}
