//! Items in the order of their keys, against a sorted list, over splits and with every page size.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::listing::{ItemKey, ListedPage, Listing, key_order};
use engine::ops::{EtagCondition, ItemOp};
use engine::patch::Unfit;
use engine::repartition::{Progression, SplitPoint};
use engine::{
    Container, ContainerSpec, Error, IndexingPolicy, RangeId, Settings, Throttling, Throughput,
};
use model::{Charge, Value};
use storage::MemoryStore;
use testkit::harness::{Harness, body, spec, test_context};

fn ordered_spec() -> ContainerSpec {
    let spec = spec("c");
    let composites = key_order(&spec.partition_key).into_iter().collect();
    ContainerSpec {
        indexing: IndexingPolicy {
            is_on: true,
            is_lean: true,
            composites,
            ..IndexingPolicy::none()
        },
        ..spec
    }
}

/// With an index in the order of keys, and without.
fn both_specs() -> [ContainerSpec; 2] {
    [ordered_spec(), spec("c")]
}

fn at(key: &str, id: &str) -> ItemKey {
    ItemKey { key: key.to_owned(), id: id.to_owned() }
}

async fn page(h: &Harness, c: &Arc<Container>, listing: Listing) -> ListedPage {
    let mut ctx = test_context();
    h.engine.list_in_key_order(&mut ctx, c, listing).await.expect("a page")
}

/// All keys of a listing, page by page, and how many pages it took.
async fn keys(h: &Harness, c: &Arc<Container>, mut listing: Listing) -> (Vec<ItemKey>, usize) {
    let (mut keys, mut pages) = (Vec::new(), 0);
    loop {
        let page = page(h, c, listing.clone()).await;
        pages += 1;
        keys.extend(page.items.iter().filter_map(ItemKey::of));
        match page.next {
            Some(next) => listing.from = next,
            None => return (keys, pages),
        }
    }
}

/// Keys of all lengths, some longer than an index keeps.
async fn fill(h: &Harness, c: &Arc<Container>) -> BTreeMap<ItemKey, usize> {
    let mut all = BTreeMap::new();
    let mut names: Vec<String> =
        ["", "A", "B", "a", "a b", "ab", "é", "中"].map(String::from).into();
    // As long as ids may be, in bytes.
    names.push("中".repeat(512));
    for end in ["", "x", "y"] {
        names.push(format!("{}{end}", "long".repeat(200)));
    }
    for (n, key) in names.iter().enumerate() {
        for id in names.iter().skip(1) {
            let item = serde_json::json!({"id": id, "pk": key, "n": n % 3});
            h.create(c, key, &item.to_string()).await.expect("an item");
            all.insert(at(key, id), n % 3);
        }
    }
    all
}

#[tokio::test]
async fn items_come_in_the_order_of_their_keys_at_any_page_size() {
    for spec in both_specs() {
        let h = Harness::in_memory();
        let c = h.container_with(spec, 4).await;
        let all: Vec<ItemKey> = fill(&h, &c).await.into_keys().collect();
        for items_max in [1, 7, 1000] {
            let (found, pages) = keys(&h, &c, Listing { items_max, ..Listing::default() }).await;
            assert_eq!(found, all, "by {items_max}");
            assert_eq!(pages, all.len().div_ceil(items_max), "by {items_max}");
        }
        // Ranges from one key to another, within a partition and over several.
        for (from, end) in [(0, 5), (3, 40), (12, 13), (30, 30), (5, all.len())] {
            let (from_key, end_key) = (all[from].clone(), all.get(end).cloned());
            let listing =
                Listing { from: from_key, end: end_key, items_max: 3, ..Listing::default() };
            let (found, _) = keys(&h, &c, listing).await;
            assert_eq!(found, all[from..end], "from {from} to {end}");
        }
        let one = Listing {
            from: at("a", ""),
            end: Some(ItemKey::after_partition("a".into())),
            items_max: 1000,
            ..Listing::default()
        };
        let page = page(&h, &c, one).await;
        assert_eq!((page.items.len(), page.ranges), (11, 1));
    }
}

#[tokio::test]
async fn a_filter_leaves_no_page_behind_the_last_match() {
    for spec in both_specs() {
        let h = Harness::in_memory();
        let c = h.container_with(spec, 3).await;
        let all = fill(&h, &c).await;
        let wanted: Vec<ItemKey> =
            all.into_iter().filter(|(_, n)| *n == 1).map(|(key, _)| key).collect();
        let filter = lang::nosql::compile_condition("FROM c WHERE c.n = 1").expect("it compiles");
        for items_max in [1, 4, 1000] {
            let filter = Some(filter.clone());
            let listing = Listing { filter, items_max, ..Listing::default() };
            let (found, pages) = keys(&h, &c, listing).await;
            assert_eq!((found, pages), (wanted.clone(), wanted.len().div_ceil(items_max)));
        }
    }
}

#[tokio::test]
async fn a_split_between_two_pages_changes_nothing() {
    for spec in both_specs() {
        let h = Harness::in_memory();
        let c = h.container_with(spec, 1).await;
        let all: Vec<ItemKey> = fill(&h, &c).await.into_keys().collect();
        let listing = Listing { items_max: 11, ..Listing::default() };
        let first = page(&h, &c, listing.clone()).await;
        let job = h
            .engine
            .start_split(
                &test_context(),
                c.rid,
                RangeId(0),
                SplitPoint::ByteMedian,
                Progression::Automatic,
            )
            .await
            .expect("a split");
        h.engine.finish_job(job.id).await.expect("a job");
        let from = first.next.expect("there is more");
        let (rest, _) = keys(&h, &c, Listing { from, ..listing }).await;
        let found: Vec<ItemKey> = first.items.iter().filter_map(ItemKey::of).chain(rest).collect();
        assert_eq!(found, all);
        assert_eq!(c.routing().ranges().len(), 2);
        assert_eq!(h.engine.audit().expect("an audit").findings, Vec::<String>::new());
    }
}

/// Adds the index in the order of keys to the policy.
async fn ask_for_key_order(h: &Harness, c: &Container) {
    let mut spec = c.spec.clone();
    spec.indexing.is_on = true;
    spec.indexing.composites.extend(key_order(&spec.partition_key));
    h.engine.replace_container(&test_context(), c.rid, spec, None).await.expect("another policy");
}

#[tokio::test]
async fn pages_are_the_same_before_and_after_the_index_is_made() {
    let h = Harness::in_memory();
    let c = h.container("c", 3).await;
    let all: Vec<ItemKey> = fill(&h, &c).await.into_keys().collect();
    let mut listing = Listing { items_max: 7, ..Listing::default() };
    let (mut found, mut scans) = (Vec::new(), Vec::new());
    loop {
        let page = page(&h, &c, listing.clone()).await;
        found.extend(page.items.iter().filter_map(ItemKey::of));
        scans.push(page.is_scanned);
        // The second page is requested while the index is being built, later ones once it is
        // complete.
        match scans.len() {
            1 => ask_for_key_order(&h, &c).await,
            2 => {
                while h.engine.index_progress(&h.find("c")).expect("progress") < 100 {
                    h.clock.advance(std::time::Duration::from_millis(10));
                    tokio::task::yield_now().await;
                }
            }
            _ => {}
        }
        match page.next {
            Some(next) => listing.from = next,
            None => break,
        }
    }
    assert_eq!(found, all);
    assert!(scans[0]);
    assert!(scans[2..].iter().all(|is_scanned| !is_scanned), "{scans:?}");
}

/// A container with more items than its throughput can read for a page, and no index of keys.
async fn costly(h: &Harness) -> Arc<Container> {
    let database =
        h.engine.create_database(&test_context(), "db", None).await.expect("a database").rid;
    let throughput = Some(Throughput::Manual(400));
    let made = h.engine.create_container(&test_context(), database, spec("c"), throughput).await;
    let c = made.expect("a container");
    let filler = "x".repeat(100_000);
    for n in 0..60 {
        let item = serde_json::json!({"id": "1", "pk": n.to_string(), "x": filler}).to_string();
        while let Err(error) = h.create(&c, &n.to_string(), &item).await {
            assert!(matches!(error, Error::Throttled { .. }), "{error:?}");
            h.clock.advance(std::time::Duration::from_secs(1));
        }
    }
    h.clock.advance(std::time::Duration::from_secs(60));
    c
}

fn throttling() -> Harness {
    let settings = Settings { throttling: Throttling::On, ..Settings::default() };
    Harness::with_settings(Arc::new(MemoryStore::new()), settings)
}

#[tokio::test]
async fn a_page_that_costs_too_much_without_an_index_is_empty_and_goes_on() {
    let h = throttling();
    let c = costly(&h).await;
    let listing = Listing { from: at("3", "1"), items_max: 2, ..Listing::default() };
    let mut ctx = test_context();
    let mut asked = Box::pin(h.engine.list_in_key_order(&mut ctx, &c, listing));
    let page = loop {
        tokio::select! {
            biased;
            page = &mut asked => break page.expect("a page"),
            () = tokio::task::yield_now() => h.clock.advance(std::time::Duration::from_millis(10)),
        }
    };
    drop(asked);
    assert_eq!((page.items.len(), page.next), (0, Some(at("3", "1"))));
    assert!(page.is_scanned);
    assert!(ctx.served.charge < Charge::milli(10_000), "{:?}", ctx.served.charge);
}

#[tokio::test]
async fn a_page_that_costs_too_much_without_an_index_waits_for_it() {
    let h = throttling();
    let c = costly(&h).await;
    let listing = Listing { items_max: 2, ..Listing::default() };
    ask_for_key_order(&h, &c).await;
    // Time stands still, so only the index ends the wait.
    let page = page(&h, &c, listing).await;
    let found: Vec<ItemKey> = page.items.iter().filter_map(ItemKey::of).collect();
    assert_eq!((found, page.next), (vec![at("0", "1"), at("1", "1")], Some(at("10", "1"))));
    assert!(!page.is_scanned);
}

fn merge(text: &str, if_match: Option<EtagCondition>, creates: bool) -> ItemOp {
    fn few_fields(item: &Value) -> Result<(), Unfit> {
        match item.as_object().is_some_and(|object| object.len() <= 4) {
            true => Ok(()),
            false => Err(Unfit(7)),
        }
    }
    ItemOp::Merge { body: body(text), if_match, creates, check: Some(few_fields) }
}

#[tokio::test]
async fn a_merge_lays_properties_over_an_item() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let missing = h.write(&c, "a", merge(r#"{"id":"1","pk":"a"}"#, None, false)).await;
    assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
    let first = r#"{"id":"1","pk":"a","x":1}"#;
    h.write(&c, "a", merge(first, None, true)).await.expect("a new item");
    assert_eq!(h.read(&c, "a", "1").expect("it").body(), first.as_bytes());
    h.write(&c, "a", merge(r#"{"id":"1","pk":"a","y":2,"x":3}"#, None, true)).await.expect("it");
    let now = h.read(&c, "a", "1").expect("it");
    assert_eq!(now.body(), r#"{"id":"1","pk":"a","x":3,"y":2}"#.as_bytes());
    let unfit = h.write(&c, "a", merge(r#"{"id":"1","pk":"a","z":0}"#, None, true)).await;
    assert!(matches!(unfit, Err(Error::Unfit(7))), "{unfit:?}");
    assert_eq!(h.read(&c, "a", "1").expect("it").etag(), now.etag());
}

#[tokio::test]
async fn versions_are_told_apart_by_their_time() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let mut ticks = h.create(&c, "a", r#"{"id":"1","pk":"a"}"#).await.expect("an item").ticks();
    // The clock of tests stands still.
    for n in 0..5 {
        let text = format!(r#"{{"id":"1","pk":"a","n":{n}}}"#);
        let replace = |ticks| ItemOp::Replace {
            id: "1".into(),
            body: body(&text),
            if_match: Some(EtagCondition::ChangedAt(ticks)),
        };
        let stale = h.write(&c, "a", replace(ticks + 1)).await;
        assert!(matches!(stale, Err(Error::PreconditionFailed)), "{stale:?}");
        h.write(&c, "a", replace(ticks)).await.expect("the right version");
        let now = h.read(&c, "a", "1").expect("it");
        assert!(now.ticks() > ticks);
        assert_eq!(now.ticks() / 10_000_000, now.ts());
        ticks = now.ticks();
    }
}
