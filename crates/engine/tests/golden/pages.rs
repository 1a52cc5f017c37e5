//! Runs the queries of `golden/nosql` through the engine: in memory and on disk, over one, three
//! and eight ranges each, in pages of every size, and with a split between two pages. None of this
//! may change an answer.

use std::cell::Cell;
use std::sync::Arc;

use engine::Container;
use engine::ops::{PageRequest, Scope};
use engine::repartition::{JobPhase, Progression, SplitPoint};
use golden::Golden;
use query::Plan;
use query::exec::RowOrder;
use storage::{EmbeddedOptions, EmbeddedStore};
use testkit::harness::{Harness, test_context};

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
    let mut ctx = test_context();
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

/// Compares answers. Over one range items come in the order in which they were created, also when it
/// is split later. Items of several ranges have no common order of age: rows without ORDER BY come
/// in any order, and TOP or a window takes any of them.
#[track_caller]
fn check(query: &Query<'_>, ranges: u32, lines: Vec<String>, what: &str) {
    let expected = query.case.expected.clone();
    let place = format!("{}: {} over {ranges} ranges, {what}", query.case.line, query.case.text);
    if ranges == 1 {
        return assert_eq!(lines, expected, "{place}");
    }
    let clauses = query.plan.clauses();
    let takes_some = clauses.top.is_some() || clauses.window.is_some();
    if query.plan.row_order() != RowOrder::Keys && takes_some {
        return assert_eq!(lines.len(), expected.len(), "{place}");
    }
    assert_eq!(sorted(lines), sorted(expected), "{place}");
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

/// Engines on disk, each in a directory of its own.
struct Disk {
    directory: tempfile::TempDir,
    opened: Cell<u32>,
}

impl Disk {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory"), opened: Cell::new(0) }
    }

    fn harness(&self) -> Harness {
        self.opened.set(self.opened.get() + 1);
        let path = self.directory.path().join(self.opened.get().to_string());
        let store =
            EmbeddedStore::open(&path, EmbeddedOptions::new(engine::KEY_TAGS)).expect("a store");
        Harness::on(Arc::new(store))
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
async fn answers_are_the_same_on_disk_over_one_range() {
    let disk = Disk::new();
    check_all(|| disk.harness(), 1).await;
}

#[tokio::test]
async fn answers_are_the_same_on_disk_over_three_ranges() {
    let disk = Disk::new();
    check_all(|| disk.harness(), 3).await;
}

#[tokio::test]
async fn answers_are_the_same_on_disk_over_eight_ranges() {
    let disk = Disk::new();
    check_all(|| disk.harness(), 8).await;
}

/// Starts all queries, splits the range that has most items, and continues the queries.
async fn check_split(h: Harness, golden: &Golden, ranges: u32) {
    let c = container(&h, golden.setup(), ranges).await;
    let queries = queries(golden);
    let mut starts = Vec::new();
    for query in &queries {
        for items_max in [1, 2] {
            starts.push((query, items_max, page(&h, &c, &query.plan, items_max, None).await));
        }
    }
    let fullest = h.engine.statistics(&c).into_iter().max_by_key(|(_, items, _)| *items);
    let (range, ..) = fullest.expect("a range");
    let how = Progression::Automatic;
    // A range with a single key can't be split.
    if let Ok(job) =
        h.engine.start_split(&test_context(), c.rid, range, SplitPoint::Midpoint, how).await
    {
        let ended = h.engine.finish_job(job.id).await.expect("a job");
        assert_eq!(ended.phase, JobPhase::Succeeded);
        for (query, items_max, start) in starts {
            let lines = drain(&h, &c, &query.plan, items_max, start).await;
            let what = format!("in pages of {items_max} with a split after the first");
            check(query, ranges, lines, &what);
        }
    }
    h.engine.close().await.expect("the engine closes");
}

#[tokio::test]
async fn answers_are_the_same_when_a_range_is_split_between_pages() {
    for ranges in [1, 3, 8] {
        for golden in files() {
            check_split(Harness::in_memory(), &golden, ranges).await;
        }
    }
}

#[tokio::test]
async fn answers_are_the_same_when_a_range_is_split_between_pages_on_disk() {
    let disk = Disk::new();
    for ranges in [1, 3, 8] {
        for golden in files() {
            check_split(disk.harness(), &golden, ranges).await;
        }
    }
}
