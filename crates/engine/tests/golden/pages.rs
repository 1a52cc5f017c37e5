//! Runs the queries of `golden/nosql` through the engine: on memory and disk, over one, three and
//! eight ranges, in pages of every size, and with a split between two pages. None of it may change
//! an answer.

use std::sync::Arc;

use engine::ops::{PageRequest, Scope};
use engine::repartition::{JobPhase, Progression, SplitPoint};
use engine::{Container, RequestContext};
use query::Plan;
use storage::{EmbeddedOptions, EmbeddedStore};
use testkit::harness::Harness;

use crate::support::{Query, container, files, line, queries, sorted};

/// A page of lines, or the error; and the token of the next page.
async fn page(
    h: &Harness,
    c: &Arc<Container>,
    plan: &Plan,
    items_max: usize,
    continuation: Option<String>,
) -> (Vec<String>, Option<String>) {
    let request =
        PageRequest { items_max: Some(items_max), continuation, ..PageRequest::default() };
    let mut ctx = RequestContext::default();
    match h.engine.query(&mut ctx, c, plan.clone(), Scope::All, request).await {
        Ok(page) => {
            assert!(page.rows.len() <= items_max);
            assert!(page.continuation.as_ref().is_none_or(|token| token.len() <= 1024));
            (page.rows.iter().map(line).collect(), page.continuation)
        }
        Err(error) => (vec![format!("error {error}")], None),
    }
}

async fn drain(
    h: &Harness,
    c: &Arc<Container>,
    plan: &Plan,
    items_max: usize,
    start: (Vec<String>, Option<String>),
) -> Vec<String> {
    let (mut lines, mut token) = start;
    while token.is_some() {
        let (more, next) = page(h, c, plan, items_max, token).await;
        lines.extend(more);
        token = next;
    }
    lines
}

/// Compares as far as an answer is decided by more than the order of the hash line: rows without
/// ORDER BY come in any order, and of those TOP or a window takes any.
#[track_caller]
fn check(query: &Query<'_>, ranges: u32, lines: Vec<String>, what: &str) {
    let expected = query.case.expected.clone();
    let place = format!("{}: {} over {ranges} ranges, {what}", query.case.line, query.case.text);
    let clauses = query.plan.clauses();
    let takes_some = clauses.top.is_some() || clauses.window.is_some();
    if query.plan.is_row_by_row() && takes_some {
        return assert_eq!(lines.len(), expected.len(), "{place}");
    }
    // Items of different ranges have no order of age.
    if query.plan.is_row_by_row() || ranges > 1 {
        return assert_eq!(sorted(lines), sorted(expected), "{place}");
    }
    assert_eq!(lines, expected, "{place}");
}

async fn check_all(harness: impl Fn() -> Harness, ranges: u32) {
    for golden in files() {
        let h = harness();
        let c = container(&h, golden.setup(), ranges).await;
        for query in queries(&golden) {
            for items_max in [1, 2, 1000] {
                let start = page(&h, &c, &query.plan, items_max, None).await;
                let lines = drain(&h, &c, &query.plan, items_max, start).await;
                check(&query, ranges, lines, &format!("in pages of {items_max}"));
            }
        }
        h.engine.close().await.expect("the engine closes");
    }
}

#[tokio::test]
async fn answers_are_the_same_over_one_range() {
    check_all(Harness::in_memory, 1).await;
}

#[tokio::test]
async fn answers_are_the_same_over_three_ranges() {
    check_all(Harness::in_memory, 3).await;
}

#[tokio::test]
async fn answers_are_the_same_over_eight_ranges() {
    check_all(Harness::in_memory, 8).await;
}

#[tokio::test]
async fn answers_are_the_same_on_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let number = std::cell::Cell::new(0);
    let harness = || {
        number.set(number.get() + 1);
        let path = dir.path().join(number.get().to_string());
        let store = EmbeddedStore::open(&path, EmbeddedOptions::default()).expect("a store");
        Harness::on(Arc::new(store))
    };
    check_all(harness, 3).await;
}

#[tokio::test]
async fn answers_are_the_same_when_a_range_is_split_between_pages() {
    for golden in files() {
        if golden.setup().items.len() < 2 {
            continue;
        }
        let h = Harness::in_memory();
        let c = container(&h, golden.setup(), 1).await;
        let queries = queries(&golden);
        let mut starts = Vec::new();
        for query in &queries {
            starts.push(page(&h, &c, &query.plan, 1, None).await);
        }
        let range = c.routing().ranges()[0].id;
        let how = Progression::Automatic;
        let Ok(job) = h.engine.start_split(c.rid, range, SplitPoint::Midpoint, how).await else {
            continue;
        };
        let ended = h.engine.finish_job(job.id).await.expect("a job");
        assert_eq!(ended.phase, JobPhase::Succeeded);
        for (query, start) in queries.iter().zip(starts) {
            let lines = drain(&h, &c, &query.plan, 1, start).await;
            check(query, 2, lines, "with a split after the first page");
        }
    }
}
