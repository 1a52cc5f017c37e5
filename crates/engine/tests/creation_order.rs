//! Without ORDER BY items come in the order in which they were created: in small ranges at any page
//! size, in large ones where the result ends within its first page.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::gather::GatherRequest;
use engine::ops::{ItemOp, PageRequest, Row, Scope};
use engine::repartition::{JobPhase, Progression, SplitPoint};
use engine::{Container, RangeId};
use model::{PartitionKey, Value, json};
use proptest::prelude::*;
use testkit::harness::{Harness, string_key, test_context};

/// More items than are put in order at any page size.
const MANY: usize = 520;

fn key_of(n: usize) -> String {
    (n * 7 % 5).to_string()
}

/// Returns the number that the item has got.
async fn create(h: &Harness, c: &Arc<Container>, n: usize) -> u64 {
    let (pk, id) = (key_of(n), id_of(n));
    let text = format!(r#"{{"id":"{id}","pk":"{pk}","n":{n},"g":{},"a":[1,2]}}"#, n * 3 % 4);
    let item = h.create(c, &pk, &text).await.expect("an item");
    item.rid().number
}

/// Ids whose order is not that of their creation.
fn id_of(n: usize) -> String {
    format!("{:04}-{n}", n * 7919 % 1000)
}

async fn filled(h: &Harness, ranges: u32, items: usize) -> Arc<Container> {
    let c = h.container("c", ranges).await;
    for n in 0..items {
        create(h, &c, n).await;
    }
    c
}

fn plan(text: &str) -> query::Plan {
    lang::nosql::compile(text, &[]).expect(text)
}

fn line(row: &Row) -> String {
    match row {
        Row::Item(item) => item.id().into_owned(),
        Row::Json(text) => String::from_utf8_lossy(text).into_owned(),
    }
}

async fn page(
    h: &Harness,
    c: &Arc<Container>,
    text: &str,
    scope: &Scope,
    (items_max, continuation): (usize, Option<String>),
) -> (Vec<String>, Option<String>) {
    let request =
        PageRequest { items_max: Some(items_max), continuation, ..PageRequest::default() };
    let mut ctx = test_context();
    let page = h.engine.query(&mut ctx, c, plan(text), scope.clone(), request).await;
    let page = page.expect("a page");
    assert!(page.rows.len() <= items_max);
    (page.rows.iter().map(line).collect(), page.continuation)
}

async fn rest(
    h: &Harness,
    c: &Arc<Container>,
    text: &str,
    scope: &Scope,
    (items_max, mut token): (usize, Option<String>),
) -> Vec<String> {
    let mut rows = Vec::new();
    while token.is_some() {
        let (more, next) = page(h, c, text, scope, (items_max, token)).await;
        rows.extend(more);
        token = next;
    }
    rows
}

async fn all(
    h: &Harness,
    c: &Arc<Container>,
    text: &str,
    scope: &Scope,
    size: usize,
) -> Vec<String> {
    let (mut rows, token) = page(h, c, text, scope, (size, None)).await;
    rows.extend(rest(h, c, text, scope, (size, token)).await);
    rows
}

fn numbers(of: impl Iterator<Item = usize>) -> Vec<String> {
    of.map(|n| n.to_string()).collect()
}

async fn split(h: &Harness, c: &Container, range: RangeId) {
    let how = Progression::Automatic;
    let job = h
        .engine
        .start_split(&test_context(), c.rid, range, SplitPoint::Midpoint, how)
        .await
        .expect("a split");
    assert_eq!(h.engine.finish_job(job.id).await.expect("a job").phase, JobPhase::Succeeded);
}

async fn merge(h: &Harness, c: &Container, ranges: &[RangeId]) {
    let job = h
        .engine
        .start_merge(&test_context(), c.rid, ranges, Progression::Automatic)
        .await
        .expect("a merge");
    assert_eq!(h.engine.finish_job(job.id).await.expect("a job").phase, JobPhase::Succeeded);
}

fn ranges(c: &Container) -> Vec<RangeId> {
    c.routing().ranges().iter().map(|range| range.id).collect()
}

fn range(id: RangeId) -> Scope {
    Scope::Range { id, epk: None }
}

#[tokio::test]
async fn a_small_range_is_read_in_the_order_of_creation_whatever_is_asked_of_it() {
    let h = Harness::in_memory();
    let c = filled(&h, 1, 60).await;
    for size in [1, 2, 7, 1000] {
        let ids = (0..60).map(id_of).collect::<Vec<_>>();
        assert_eq!(h.list(&c, Scope::All, size).await, ids);
        for (text, expected) in [
            ("SELECT VALUE c.n FROM c", numbers(0..60)),
            ("SELECT VALUE c.n FROM c WHERE c.n % 2 = 0", numbers((0..60).step_by(2))),
            ("SELECT VALUE c.n FROM c WHERE c.n IN (40, 3, 17)", numbers([3, 17, 40].into_iter())),
            ("SELECT TOP 9 VALUE c.n FROM c", numbers(0..9)),
            ("SELECT VALUE c.n FROM c OFFSET 5 LIMIT 6", numbers(5..11)),
            ("SELECT DISTINCT VALUE c.g FROM c", numbers([0, 3, 2, 1].into_iter())),
            ("SELECT VALUE c.g FROM c GROUP BY c.g", numbers([0, 3, 2, 1].into_iter())),
            (
                "SELECT VALUE [c.g, COUNT(1)] FROM c GROUP BY c.g",
                vec!["[0,15]".into(), "[3,15]".into(), "[2,15]".into(), "[1,15]".into()],
            ),
            (
                "SELECT VALUE a FROM c JOIN a IN c.a WHERE c.n < 2",
                numbers([1, 2, 1, 2].into_iter()),
            ),
        ] {
            assert_eq!(all(&h, &c, text, &Scope::All, size).await, expected, "{text} {size}");
            let gathered = gathered(&h, &c, text, size).await;
            assert_eq!(gathered, expected, "{text} in pages of {size}, gathered");
        }
        let key = Scope::Key(string_key("2"));
        let own = numbers((0..60).filter(|n| key_of(*n) == "2"));
        assert_eq!(all(&h, &c, "SELECT VALUE c.n FROM c", &key, size).await, own);
    }
}

async fn gathered(h: &Harness, c: &Arc<Container>, text: &str, size: usize) -> Vec<String> {
    let mut request = GatherRequest { items_max: Some(size), ..GatherRequest::default() };
    let mut rows = Vec::new();
    loop {
        let mut ctx = test_context();
        let page = h.engine.gather(&mut ctx, c, plan(text), Scope::All, request.clone()).await;
        let page = page.expect("a page");
        rows.extend(page.rows.iter().map(line));
        request.continuation = page.continuation;
        if request.continuation.is_none() {
            return rows;
        }
    }
}

#[tokio::test]
async fn a_large_range_puts_what_fits_a_page_in_order_and_logical_partitions_at_any_size() {
    let h = Harness::in_memory();
    let c = filled(&h, 1, MANY).await;
    let text = "SELECT VALUE c.n FROM c";
    assert_eq!(all(&h, &c, text, &Scope::All, 1000).await, numbers(0..MANY));
    assert_eq!(gathered(&h, &c, text, 1000).await, numbers(0..MANY));
    let few = "SELECT VALUE c.n FROM c WHERE c.n % 50 = 3";
    assert_eq!(all(&h, &c, few, &Scope::All, 100).await, numbers((3..MANY).step_by(50)));
    let groups = "SELECT VALUE c.g FROM c GROUP BY c.g";
    assert_eq!(all(&h, &c, groups, &Scope::All, 4).await, numbers([0, 3, 2, 1].into_iter()));
    for size in [7, 100] {
        let walked = all(&h, &c, text, &Scope::All, size).await;
        let once: BTreeSet<_> = walked.iter().collect();
        assert_eq!((walked.len(), once.len()), (MANY, MANY));
        assert_ne!(walked, numbers(0..MANY), "rows are chosen as they lie");
        let again = gathered(&h, &c, text, size).await;
        assert_eq!(again, walked);
        let key = Scope::Key(string_key("2"));
        let own = numbers((0..MANY).filter(|n| key_of(*n) == "2"));
        assert_eq!(all(&h, &c, text, &key, size).await, own);
        let groups = all(&h, &c, groups, &Scope::All, 3).await;
        assert_eq!(groups, numbers(0..4), "groups of several pages come by key");
    }
    // A first page that was cut off is not sorted, nor is one of TOP.
    let (first, _) = page(&h, &c, text, &Scope::All, (500, None)).await;
    assert!(!first.is_sorted_by_key(|n| n.parse::<usize>().ok()));
    let top = all(&h, &c, "SELECT TOP 500 VALUE c.n FROM c", &Scope::All, 1000).await;
    assert_eq!(top, first);
}

#[tokio::test]
async fn a_walk_stays_in_its_order_while_the_range_grows_shrinks_and_is_split() {
    let h = Harness::in_memory();
    let c = filled(&h, 1, 40).await;
    let text = "SELECT VALUE c.n FROM c";
    let small = page(&h, &c, text, &Scope::All, (10, None)).await;
    for n in 40..MANY {
        create(&h, &c, n).await;
    }
    let large = page(&h, &c, text, &Scope::All, (10, None)).await;
    let go_on = |start: (Vec<String>, Option<String>), size| {
        let (h, c) = (&h, &c);
        async move {
            let (mut rows, token) = start;
            rows.extend(rest(h, c, text, &Scope::All, (size, token)).await);
            rows
        }
    };
    assert_eq!(go_on(small.clone(), 50).await, numbers(0..MANY));
    let hashed = go_on(large.clone(), 50).await;
    assert_eq!(hashed, all(&h, &c, text, &Scope::All, 9).await);
    split(&h, &c, ranges(&c)[0]).await;
    assert_eq!(go_on(small.clone(), 50).await, numbers(0..MANY));
    assert_eq!(go_on(large.clone(), 50).await, hashed);
    for n in 30..MANY {
        let delete = ItemOp::Delete { id: id_of(n).into(), if_match: None };
        h.write(&c, &key_of(n), delete).await.expect("a delete");
    }
    let left: Vec<_> =
        hashed.iter().filter(|n| n.parse::<usize>().is_ok_and(|n| n < 30)).cloned().collect();
    let (first, token) = large;
    let rows = rest(&h, &c, text, &Scope::All, (3, token)).await;
    let ahead: Vec<_> = left.into_iter().filter(|n| !first.contains(n)).collect();
    assert_eq!(rows, ahead);
    merge(&h, &c, &ranges(&c)).await;
    assert_eq!(rest(&h, &c, text, &Scope::All, (3, small.1)).await, numbers(10..30));
}

/// Both children of a range are asked with its token, as clients do.
#[tokio::test]
async fn children_of_a_split_continue_the_walk_of_their_parent() {
    let h = Harness::in_memory();
    let c = filled(&h, 1, 50).await;
    let parent = range(ranges(&c)[0]);
    let queries = ["SELECT VALUE c.n FROM c", "SELECT VALUE [c.g, COUNT(1)] FROM c GROUP BY c.g"];
    let mut starts = Vec::new();
    for text in queries {
        starts.push(page(&h, &c, text, &parent, (2, None)).await);
    }
    let whole = all(&h, &c, queries[1], &parent, 2).await;
    split(&h, &c, ranges(&c)[0]).await;
    let mut rows = starts[0].0.clone();
    let mut groups = Vec::new();
    for id in ranges(&c) {
        rows.extend(rest(&h, &c, queries[0], &range(id), (2, starts[0].1.clone())).await);
        groups.extend(rest(&h, &c, queries[1], &range(id), (1, starts[1].1.clone())).await);
    }
    rows.sort_by_key(|n| n.parse::<usize>().ok());
    assert_eq!(rows, numbers(0..50));
    // No group that the parent returned is returned again, and the others add up.
    let counts = |rows: &[String]| {
        let mut counts = std::collections::BTreeMap::new();
        for row in rows {
            let row = json::parse(row.as_bytes(), 5).expect("a row").value;
            let [key, count] = row.as_array().expect("a pair") else { panic!("{row:?}") };
            *counts.entry(json::to_string(key)).or_insert(0) += count.as_i64().expect("a count");
        }
        counts
    };
    let together = [starts[1].0.clone(), groups].concat();
    assert_eq!(counts(&together), counts(&whole));
}

/// A merged range is asked with the token of one of those that it was made of.
#[tokio::test]
async fn a_merged_range_goes_on_in_the_old_bounds_and_has_all_beyond_them() {
    let h = Harness::in_memory();
    let c = filled(&h, 1, 60).await;
    split(&h, &c, ranges(&c)[0]).await;
    let [low, high] = ranges(&c)[..] else { panic!("two ranges") };
    let text = "SELECT VALUE c.n FROM c";
    let (of_low, of_high) =
        (all(&h, &c, text, &range(low), 100).await, all(&h, &c, text, &range(high), 100).await);
    let (_, token_low) = page(&h, &c, text, &range(low), (5, None)).await;
    let (_, token_high) = page(&h, &c, text, &range(high), (5, None)).await;
    let across = page(&h, &c, text, &Scope::All, (5, None)).await;
    merge(&h, &c, &[low, high]).await;
    let merged = range(ranges(&c)[0]);
    for size in [1, 4, 1000] {
        let low_first = rest(&h, &c, text, &merged, (size, token_low.clone())).await;
        assert_eq!(low_first, [&of_low[5..], &of_high[..]].concat(), "pages of {size}");
        let high_first = rest(&h, &c, text, &merged, (size, token_high.clone())).await;
        assert_eq!(high_first, [&of_high[5..], &of_low[..]].concat(), "pages of {size}");
        let rows = rest(&h, &c, text, &Scope::All, (size, across.1.clone())).await;
        assert_eq!([across.0.clone(), rows].concat(), [&of_low[..], &of_high[..]].concat());
    }
}

#[tokio::test]
async fn the_order_costs_nothing() {
    let h = Harness::in_memory();
    let c = filled(&h, 1, 100).await;
    let charge = |text: &'static str, size: usize| {
        let (h, c) = (&h, &c);
        async move {
            let mut ctx = test_context();
            let request = PageRequest { items_max: Some(size), ..PageRequest::default() };
            h.engine.query(&mut ctx, c, plan(text), Scope::All, request).await.expect("a page");
            ctx.served.charge
        }
    };
    // By as much as rows are read: the page and the row that shows that there is more.
    let ten = charge("SELECT * FROM c", 10).await;
    assert!(ten < charge("SELECT * FROM c", 20).await);
    assert_eq!(charge("SELECT * FROM c", 99).await, charge("SELECT * FROM c", 100).await);
}

#[derive(Clone, Debug)]
enum Step {
    Create(usize),
    Delete(usize),
    Split(usize),
    Merge(usize),
    Page,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1_usize..6).prop_map(Step::Create),
        2 => any::<usize>().prop_map(Step::Delete),
        1 => any::<usize>().prop_map(Step::Split),
        1 => any::<usize>().prop_map(Step::Merge),
        5 => Just(Step::Page),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// One walk that begins in a container of one range, against a model that has the items in a
    /// list: a page has the first of them behind the last one, by number, whatever was created and
    /// deleted and however the range was divided since.
    #[test]
    fn walks_are_those_of_a_list(
        first in 1_usize..40,
        steps in prop::collection::vec(any_step(), 1..24),
        size in 1_usize..9,
        filter in prop::sample::select(vec!["", " WHERE c.n % 3 = 1", " WHERE c.n > 4"]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let h = Harness::in_memory();
            let c = h.container("c", 1).await;
            let mut live: Vec<(u64, usize)> = Vec::new();
            for n in 0..first {
                live.push((create(&h, &c, n).await, n));
            }
            let text = format!("SELECT VALUE c.n FROM c{filter}");
            let matches = |n: usize| match filter {
                "" => true,
                " WHERE c.n > 4" => n > 4,
                _ => n % 3 == 1,
            };
            let mut created = first;
            let mut at = 0;
            let mut token = None;
            let mut is_over = false;
            let pages = std::iter::repeat_n(Step::Page, 60);
            for step in std::iter::once(Step::Page).chain(steps).chain(pages) {
                match step {
                    Step::Create(count) => for _ in 0..count {
                        live.push((create(&h, &c, created).await, created));
                        created += 1;
                    },
                    Step::Delete(which) if !live.is_empty() => {
                        let (_, n) = live.remove(which % live.len());
                        let delete = ItemOp::Delete { id: id_of(n).into(), if_match: None };
                        h.write(&c, &key_of(n), delete).await.expect("a delete");
                    }
                    Step::Split(which) => {
                        let ids = ranges(&c);
                        let (id, how) = (ids[which % ids.len()], Progression::Automatic);
                        let job = h.engine.start_split(&test_context(), c.rid, id, SplitPoint::Midpoint, how).await;
                        if let Ok(job) = job {
                            h.engine.finish_job(job.id).await.expect("a job");
                        }
                    }
                    Step::Merge(which) if ranges(&c).len() > 1 => {
                        let ids = ranges(&c);
                        let low = which % (ids.len() - 1);
                        merge(&h, &c, &ids[low..low + 2]).await;
                    }
                    Step::Page if !is_over => {
                        let (rows, next) = page(&h, &c, &text, &Scope::All, (size, token)).await;
                        live.sort_unstable();
                        let ahead = live.iter().filter(|(number, n)| *number > at && matches(*n));
                        let expected: Vec<_> = ahead.take(size).copied().collect();
                        assert_eq!(rows, numbers(expected.iter().map(|(_, n)| *n)));
                        at = expected.last().map_or(at, |(number, _)| *number);
                        is_over = next.is_none();
                        token = next;
                    }
                    Step::Delete(_) | Step::Merge(_) | Step::Page => {}
                }
            }
        });
    }
}

#[tokio::test]
async fn hierarchical_prefixes_are_parts_of_a_range_in_its_order() {
    let h = Harness::in_memory();
    let c = h.container_with(testkit::harness::spec_with_paths("c", &["/a", "/b"]), 1).await;
    for n in 0..40 {
        let text = format!(r#"{{"id":"{}","a":"{}","b":"{n}","n":{n}}}"#, 100 - n, n % 2);
        let key = c.spec.partition_key.extract(&parsed(&text)).expect("a key");
        let op = ItemOp::Create { body: testkit::harness::body(&text) };
        h.engine.write_item(&mut test_context(), &c, Some(key), op).await.expect("an item");
    }
    let prefix: PartitionKey = PartitionKey(string_key("1").0);
    for size in [1, 3, 100] {
        let rows = all(&h, &c, "SELECT VALUE c.n FROM c", &Scope::Key(prefix.clone()), size).await;
        assert_eq!(rows, numbers((1..40).step_by(2)));
    }
}

fn parsed(text: &str) -> Value {
    json::parse(text.as_bytes(), 5).expect(text).value
}
