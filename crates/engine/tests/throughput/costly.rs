//! Queries that cost more than ranges serve in a second.

use std::sync::Arc;
use std::time::Duration;

use engine::catalog::OfferTarget;
use engine::ops::{PageRequest, Scope};
use engine::{Container, RequestContext, Throughput};
use testkit::harness::Harness;

use super::{container, throttling};

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
    harness.engine.replace_offer(offer.rid, Throughput::Manual(400)).await.expect("an offer");
    c
}

#[tokio::test]
async fn every_page_of_an_ordered_query_comes_further() {
    let harness = throttling();
    let c = fill(&harness, 4, 1_900_000).await;
    // Where a page begins is found by looking at an item, which costs more than a page may cost.
    for text in ["SELECT VALUE c.id FROM c ORDER BY c.id", "SELECT VALUE c.id FROM c ORDER BY c.x"]
    {
        let (mut rows, mut continuation) = (0, None);
        for pages in 0.. {
            assert!(pages <= ITEMS, "{text} comes no further than {rows} rows");
            harness.clock.advance(Duration::from_secs(300));
            let plan = lang::nosql::compile(text, &[]).expect("a query");
            let request = PageRequest { continuation, ..PageRequest::default() };
            let mut ctx = RequestContext::default();
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
