//! Index entries follow their items: the audit compares every entry with the items.

use std::sync::Arc;

use engine::index::{Composite, CompositeColumn, PathPattern};
use engine::ops::{ItemOp, PageRequest, Row, Scope};
use engine::repartition::{Progression, SplitPoint};
use engine::{Container, ContainerSpec, IndexingPolicy, RangeId};
use testkit::harness::{Harness, body, spec, test_context};

const KEYS: usize = 8;

fn text(key: usize, id: usize, version: usize) -> String {
    format!(
        r#"{{"id":"{id}","pk":"{key}","n":{version},"tags":["a","b{id}","a"],"deep":{{"x":[{{"y":{key}}},null],"s":"{}"}},"only{id}":true}}"#,
        "long".repeat(version * 200)
    )
}

async fn fill(h: &Harness, c: &Arc<Container>, version: usize) {
    for key in 0..KEYS {
        for id in 0..5 {
            let op = ItemOp::Upsert { body: body(&text(key, id, version)), if_match: None };
            h.write(c, &key.to_string(), op).await.expect("an item");
        }
    }
}

fn audit(h: &Harness) {
    assert_eq!(h.engine.audit().expect("an audit").findings, Vec::<String>::new());
}

fn policy(included: &[&[&str]], excluded: &[&[&str]], composites: &[&[&str]]) -> IndexingPolicy {
    let pattern = |steps: &&[&str]| PathPattern {
        steps: steps.iter().map(|s| (*s != "[]").then(|| (*s).to_owned())).collect(),
        is_subtree: true,
    };
    let column = |(at, name): (usize, &&str)| CompositeColumn {
        path: vec![(*name).to_owned()],
        is_descending: at % 2 == 1,
    };
    let composite =
        |names: &&[&str]| Composite { columns: names.iter().enumerate().map(column).collect() };
    IndexingPolicy {
        is_on: true,
        included: included.iter().map(pattern).collect(),
        excluded: excluded.iter().map(pattern).collect(),
        composites: composites.iter().map(composite).collect(),
        ..IndexingPolicy::none()
    }
}

async fn change_policy(h: &Harness, c: &Container, indexing: IndexingPolicy) -> Arc<Container> {
    let spec = ContainerSpec { indexing, ..c.spec.clone() };
    h.engine.replace_container(&test_context(), c.rid, spec, None).await.expect("a new policy")
}

/// Waits until the entries fit the policy.
async fn rebuilt(h: &Harness, c: &Container) -> Arc<Container> {
    loop {
        let now = h.engine.catalog().container_by_rid(c.rid).expect("the container").clone();
        if h.engine.index_progress(&now).expect("a percentage") == 100 {
            return now;
        }
        // The rebuild pauses between two steps when others write.
        h.clock.advance(std::time::Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn entries_follow_writes() {
    let h = Harness::in_memory();
    let all = policy(&[&[]], &[&["deep", "s"]], &[&["n", "id"], &["pk", "_ts", "n"]]);
    let c = h.container_with(ContainerSpec { indexing: all, ..spec("c") }, 2).await;
    for version in [1, 2, 2, 0] {
        fill(&h, &c, version).await;
        audit(&h);
        h.clock.advance(std::time::Duration::from_secs(3));
    }
    let rename = |id: &str| ItemOp::Replace {
        id: id.into(),
        body: body(r#"{"id":"renamed","pk":"1","n":null}"#),
        if_match: None,
    };
    h.write(&c, "1", rename("2")).await.expect("another name");
    audit(&h);
    for id in ["0", "1", "renamed"] {
        let delete = ItemOp::Delete { id: id.into(), if_match: None };
        h.write(&c, "1", delete).await.expect("a delete");
    }
    audit(&h);
}

#[tokio::test]
async fn a_new_policy_is_applied_to_what_is_stored() {
    let h = Harness::in_memory();
    let c = h.container("c", 3).await;
    fill(&h, &c, 1).await;
    let policies = [
        IndexingPolicy::none(),
        policy(&[&[]], &[&["deep"]], &[&["n", "id"]]),
        policy(&[&["deep", "x", "[]"], &["tags"]], &[&[]], &[&["id", "n"]]),
        IndexingPolicy::default(),
    ];
    for (version, policy) in policies.into_iter().enumerate() {
        let now = change_policy(&h, &c, policy).await;
        // Written while the rebuild is under way.
        fill(&h, &now, version).await;
        rebuilt(&h, &c).await;
        audit(&h);
    }
}

#[tokio::test]
async fn policies_that_follow_each_other_at_once_end_with_the_last() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    fill(&h, &c, 1).await;
    for _ in 0..3 {
        change_policy(&h, &c, policy(&[&["n"]], &[&[]], &[])).await;
        change_policy(&h, &c, IndexingPolicy::none()).await;
        change_policy(&h, &c, policy(&[&["tags"]], &[&[]], &[&["n", "pk"]])).await;
    }
    let now = rebuilt(&h, &c).await;
    assert_eq!(now.spec.indexing, policy(&[&["tags"]], &[&[]], &[&["n", "pk"]]));
    audit(&h);
}

#[tokio::test]
async fn entries_move_with_their_items() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    fill(&h, &c, 1).await;
    let how = Progression::Automatic;
    let job =
        h.engine.start_split(&test_context(), c.rid, RangeId(0), SplitPoint::ByteMedian, how).await;
    let changed =
        change_policy(&h, &c, policy(&[&["tags"], &["n"]], &[&[]], &[&["n", "id"]])).await;
    fill(&h, &changed, 2).await;
    h.engine.finish_job(job.expect("a split").id).await.expect("a job");
    rebuilt(&h, &c).await;
    audit(&h);
    let ranges: Vec<_> = c.routing().ranges().iter().map(|r| r.id).collect();
    assert_eq!(ranges.len(), 2);
    let job = h.engine.start_merge(&test_context(), c.rid, &ranges, how).await.expect("a merge");
    fill(&h, &changed, 3).await;
    h.engine.finish_job(job.id).await.expect("a job");
    audit(&h);
    assert_eq!(h.list(&c, Scope::All, 10).await.len(), KEYS * 5);
}

#[tokio::test]
async fn a_rebuild_that_is_overtaken_goes_on_with_the_newest_policy() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    for version in 0..12 {
        for key in 0..KEYS {
            for id in 0..5 {
                let id = version * 5 + id;
                let op = ItemOp::Upsert { body: body(&text(key, id, 0)), if_match: None };
                h.write(&c, &key.to_string(), op).await.expect("an item");
            }
        }
    }
    let other = h.container("other", 1).await;
    fill(&h, &other, 1).await;
    change_policy(&h, &c, policy(&[&["n"]], &[&[]], &[])).await;
    // More rows than one step rebuilds: the next policy comes while it is under way.
    tokio::task::yield_now().await;
    change_policy(&h, &c, policy(&[&["tags"]], &[&[]], &[])).await;
    rebuilt(&h, &c).await;
    audit(&h);
    change_policy(&h, &c, IndexingPolicy::default()).await;
    tokio::task::yield_now().await;
    h.engine.delete_container(&test_context(), c.rid, None).await.expect("a delete");
    change_policy(&h, &other, IndexingPolicy::none()).await;
    rebuilt(&h, &other).await;
    audit(&h);
}

/// Ids of all rows of a query, page by page.
async fn ids(h: &Harness, c: &Arc<Container>, text: &str, items_max: usize) -> Vec<String> {
    let plan = lang::nosql::compile(text, &[]).expect("a query");
    let mut ids = Vec::new();
    let mut continuation = None;
    loop {
        let items_max = Some(items_max);
        let request = PageRequest { items_max, continuation, ..PageRequest::default() };
        let mut ctx = test_context();
        let page = h.engine.query(&mut ctx, c, plan.clone(), Scope::All, request).await;
        let page = page.expect("a page");
        ids.extend(page.rows.iter().map(|row| match row {
            Row::Item(item) => item.id().into_owned(),
            Row::Json(text) => String::from_utf8_lossy(text).replace('"', ""),
        }));
        continuation = page.continuation;
        if continuation.is_none() {
            return ids;
        }
    }
}

/// `count` items, which `text` makes from their numbers.
async fn filled(
    h: &Harness,
    ranges: u32,
    count: usize,
    text: impl Fn(usize) -> String,
) -> Arc<Container> {
    let c = h.container("c", ranges).await;
    fill_with(h, &c, count, text).await;
    c
}

async fn fill_with(h: &Harness, c: &Arc<Container>, count: usize, text: impl Fn(usize) -> String) {
    for n in 0..count {
        let text = format!(r#"{{"id":"{n}","pk":"{}",{}}}"#, n % 7, text(n));
        h.create(c, &(n % 7).to_string(), &text).await.expect("an item");
    }
}

fn numbers(from: impl Iterator<Item = usize>) -> Vec<String> {
    from.map(|n| n.to_string()).collect()
}

#[tokio::test]
async fn equal_values_rise_with_the_age_of_their_items_and_fall_in_a_descending_order() {
    let h = Harness::in_memory();
    // More than are reversed at once, and some on either side.
    let text = |n: usize| match n {
        10 => r#""s":"a""#.to_owned(),
        20 => r#""s":"z""#.to_owned(),
        _ => r#""s":"m""#.to_owned(),
    };
    let c = filled(&h, 1, 600, text).await;
    let rest = || (0..600).filter(|n| ![10, 20].contains(n));
    for page in [7, 255, 1000] {
        let up = ids(&h, &c, "SELECT VALUE c.id FROM c ORDER BY c.s", page).await;
        assert_eq!(up, numbers([10].into_iter().chain(rest()).chain([20])), "pages of {page}");
        let down = ids(&h, &c, "SELECT VALUE c.id FROM c ORDER BY c.s DESC", page).await;
        let falling = [20].into_iter().chain(rest().rev()).chain([10]);
        assert_eq!(down, numbers(falling), "pages of {page}");
    }
}

/// A composite index whose first column is stored in descending order is read against its ties.
#[tokio::test]
async fn ties_do_not_depend_on_how_an_index_is_stored() {
    let h = Harness::in_memory();
    let column =
        |name: &str, is_descending| CompositeColumn { path: vec![name.to_owned()], is_descending };
    let columns = vec![column("s", true), column("t", false)];
    let composites = vec![Composite { columns }];
    let text = |n: usize| match n {
        10 => r#""s":"a","t":1"#.to_owned(),
        20 => r#""s":"z","t":1"#.to_owned(),
        30 => r#""s":"m","t":0"#.to_owned(),
        40 => r#""s":"m","t":2"#.to_owned(),
        _ => r#""s":"m","t":1"#.to_owned(),
    };
    let indexing = IndexingPolicy { composites, ..IndexingPolicy::default() };
    let c = h.container_with(ContainerSpec { indexing, ..spec("c") }, 1).await;
    fill_with(&h, &c, 600, text).await;
    let ties = || (0..600).filter(|n| ![10, 20, 30, 40].contains(n));
    for page in [7, 255, 1000] {
        let up = "SELECT VALUE c.id FROM c ORDER BY c.s ASC, c.t DESC";
        let rising = [10, 40].into_iter().chain(ties()).chain([30, 20]);
        assert_eq!(ids(&h, &c, up, page).await, numbers(rising), "pages of {page}");
        let down = "SELECT VALUE c.id FROM c ORDER BY c.s DESC, c.t ASC";
        let falling = [20, 30].into_iter().chain(ties().rev()).chain([40, 10]);
        assert_eq!(ids(&h, &c, down, page).await, numbers(falling), "pages of {page}");
    }
}

#[tokio::test]
async fn values_that_an_index_can_not_tell_apart_are_put_in_order() {
    let h = Harness::in_memory();
    let prefix = "p".repeat(600);
    let text = |n: usize| match n % 3 {
        // Long strings that differ at their end, in the opposite order of their creation.
        0 => format!(r#""s":"{prefix}{:04}""#, 1000 - n),
        1 => r#""other":1"#.to_owned(),
        _ => format!(r#""s":{n}"#),
    };
    let c = filled(&h, 1, 90, text).await;
    let of = |kind: usize| (0..90).filter(move |n| n % 3 == kind);
    let up = numbers(of(1).chain(of(2)).chain(of(0).rev()));
    let down = numbers(of(0).chain(of(2).rev()).chain(of(1).rev()));
    for page in [1, 4, 1000] {
        assert_eq!(ids(&h, &c, "SELECT VALUE c.id FROM c ORDER BY c.s", page).await, up);
        assert_eq!(ids(&h, &c, "SELECT VALUE c.id FROM c ORDER BY c.s DESC", page).await, down);
    }
}

#[tokio::test]
async fn items_of_many_shapes_are_found_without_a_value() {
    let h = Harness::in_memory();
    for (container_ranges, shapes) in [(1, 10), (3, 200)] {
        let h = if container_ranges == 1 { &h } else { &Harness::in_memory() };
        let text = |n: usize| match n % 2 {
            0 => format!(r#""x":{n}"#),
            _ => format!(r#""p{}":0"#, n % (2 * shapes)),
        };
        let c = filled(h, container_ranges, 200, text).await;
        let order = "SELECT VALUE c.id FROM c ORDER BY c.x";
        let mut rows = ids(h, &c, order, 9).await;
        let with = rows.split_off(100);
        assert_eq!(with, numbers((0..200).filter(|n| n % 2 == 0)), "{shapes} shapes");
        rows.sort_by_key(|id| id.parse::<usize>().ok());
        assert_eq!(rows, numbers((0..200).filter(|n| n % 2 == 1)), "{shapes} shapes");
    }
}

#[tokio::test]
async fn composites_without_entries_are_not_relied_on() {
    let h = Harness::in_memory();
    let c = filled(&h, 1, 20, |n| format!(r#""a":{},"b":{n}"#, n % 2)).await;
    let composite = |is_on| IndexingPolicy {
        is_on,
        ..policy(&[&[]], &[], &[&["a", "b"], &["a", "_etag"], &["a", "_ts", "b"]])
    };
    let order = "SELECT VALUE c.id FROM c ORDER BY c.a, c.b DESC";
    let expected =
        numbers((0..20).rev().filter(|n| n % 2 == 0).chain((0..20).rev().filter(|n| n % 2 == 1)));
    for is_on in [false, true, true] {
        let now = change_policy(&h, &c, composite(is_on)).await;
        assert_eq!(ids(&h, &now, order, 3).await, expected);
        let now = rebuilt(&h, &c).await;
        assert_eq!(ids(&h, &now, order, 3).await, expected);
        let by_tag = ids(&h, &now, "SELECT VALUE c.id FROM c ORDER BY c.a, c._etag DESC", 3).await;
        assert_eq!(by_tag.len(), 20);
    }
}

/// Points all over the globe, and a square around every fifth.
fn place_text(number: usize) -> String {
    let (x, y) = ((number * 37 % 360) as f64 - 180.0, (number * 17 % 160) as f64 - 80.0);
    let square = |(w, s): (f64, f64)| {
        let (e, n) = (w + 1.0, s + 1.0);
        format!(
            r#"{{"type":"Polygon","coordinates":[[[{w},{s}],[{e},{s}],[{e},{n}],[{w},{n}],[{w},{s}]]]}}"#
        )
    };
    let at = match number.is_multiple_of(5) {
        true => square((x.min(178.0), y)),
        false => format!(r#"{{"type":"Point","coordinates":[{x},{y}]}}"#),
    };
    format!(r#"{{"id":"{number}","pk":"{}","at":{at},"near":[{at},7]}}"#, number % 4)
}

#[tokio::test]
async fn geometries_are_found_by_where_they_are() {
    let h = Harness::in_memory();
    let c = h.container("c", 2).await;
    let put = async |c: &Arc<Container>, number: usize| {
        let op = ItemOp::Upsert { body: body(&place_text(number)), if_match: None };
        h.write(c, &(number % 4).to_string(), op).await.expect("an item");
    };
    for number in 0..600 {
        put(&c, number).await;
    }
    let ring = "[[0,0],[40,0],[40,30],[0,30],[0,0]]";
    let conditions = [
        "ST_DISTANCE(c.at, {'type':'Point','coordinates':[-180,-80]}) < 2000000".to_owned(),
        "500000 >= ST_DISTANCE({'type':'Point','coordinates':[20.5,17]}, c.at)".to_owned(),
        "NOT (ST_DISTANCE(c.at, {'type':'Point','coordinates':[179.5,3]}) > 900000)".to_owned(),
        format!("ST_WITHIN(c.at, {{'type':'Polygon','coordinates':[{ring}]}})"),
        format!("ST_INTERSECTS({{'type':'Polygon','coordinates':[{ring}]}}, c.near[0])"),
        "ST_WITHIN({'type':'Point','coordinates':[5.5,-74.5]}, c.at)".to_owned(),
        "ST_WITHIN(c.at, {'type':'Nothing'})".to_owned(),
    ];
    let mut before = Vec::new();
    for condition in &conditions {
        let text = format!("SELECT VALUE c.id FROM c WHERE {condition}");
        let (found, looked_at) = looked_up(&h, &c, &text).await;
        assert_eq!(looked_at, 600, "{condition}");
        before.push(found);
    }
    assert!(before[..5].iter().all(|found| found.len() > 1), "{before:?}");
    let pattern = |steps: &[Option<&str>]| PathPattern {
        steps: steps.iter().map(|step| step.map(str::to_owned)).collect(),
        is_subtree: false,
    };
    let spatial = vec![pattern(&[Some("at")]), pattern(&[Some("near"), None])];
    change_policy(&h, &c, IndexingPolicy { spatial, ..IndexingPolicy::default() }).await;
    let c = rebuilt(&h, &c).await;
    audit(&h);
    for (condition, before) in conditions.iter().zip(&before) {
        let text = format!("SELECT VALUE c.id FROM c WHERE {condition}");
        let (found, looked_at) = looked_up(&h, &c, &text).await;
        assert_eq!(&found, before, "{condition}");
        assert!(looked_at < 100, "{condition} looks at {looked_at} items for {}", found.len());
    }
    for number in 0..600 {
        let moved = place_text(number + 1).replace(
            &format!(r#""id":"{}","pk":"{}""#, number + 1, (number + 1) % 4),
            &format!(r#""id":"{number}","pk":"{}""#, number % 4),
        );
        let op = ItemOp::Upsert { body: body(&moved), if_match: None };
        h.write(&c, &(number % 4).to_string(), op).await.expect("an item that moves");
    }
    audit(&h);
}

/// The values of a query over all items, and how many items it read.
async fn looked_up(h: &Harness, c: &Arc<Container>, text: &str) -> (Vec<String>, u64) {
    let plan = lang::nosql::compile(text, &[]).expect("a query");
    let request = PageRequest { items_max: Some(1000), ..PageRequest::default() };
    let mut ctx = test_context();
    let page = h.engine.query(&mut ctx, c, plan, Scope::All, request).await.expect("a page");
    let rows = page.rows.into_iter().map(|row| match row {
        Row::Json(text) => String::from_utf8_lossy(&text).into_owned(),
        Row::Item(_) => panic!("a value was asked for"),
    });
    (rows.collect(), page.retrieved.rows)
}
