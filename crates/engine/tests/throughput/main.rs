//! Provisioned throughput, from the offer to the refused request.

mod costly;
mod offers;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use engine::catalog::{OfferChange, OfferTarget};
use engine::ops::{ItemOp, OpResult, Page, PageRequest, Row, Scope};
use engine::repartition::{Progression, SplitPoint};
use engine::{Container, Error, Priority, RequestContext, Settings, Throttling, Throughput, Usage};
use model::{Charge, PartitionKey};
use storage::MemoryStore;
use testkit::harness::{Harness, body, spec, string_key, test_context};
use testkit::hooked::{HookedStore, WriteGate};

fn throttling() -> Harness {
    let settings = Settings { throttling: Throttling::On, ..Settings::default() };
    Harness::with_settings(Arc::new(MemoryStore::new()), settings)
}

/// A container with this throughput, in a database of its own.
async fn container(harness: &Harness, throughput: Throughput) -> Arc<Container> {
    let database =
        harness.engine.create_database(&test_context(), "own", None).await.expect("a database");
    let made = harness
        .engine
        .create_container(&test_context(), database.rid, spec("c"), Some(throughput))
        .await;
    made.expect("a container")
}

fn is_throttled<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Throttled { .. }))
}

fn wait_told<T: std::fmt::Debug>(result: Result<T, Error>) -> Duration {
    match result {
        Err(Error::Throttled { retry_after }) => retry_after,
        other => panic!("not throttled: {other:?}"),
    }
}

fn item(id: &str, pk: &str) -> ItemOp {
    ItemOp::Create { body: body(&format!(r#"{{"id":"{id}","pk":"{pk}"}}"#)) }
}

fn usage_of(harness: &Harness, container: &Container) -> Usage {
    harness.engine.usage(container).remove(0).1
}

/// Uses up the rest of the only partition's throughput.
fn drain(harness: &Harness, container: &Arc<Container>, key: &str) -> u64 {
    let reads = || !is_throttled(&harness.read(container, key, "none"));
    std::iter::repeat_with(reads).take(1_000_000).take_while(|served| *served).count() as u64
}

/// Two keys in different ranges of a container with two ranges.
fn keys_of_two_ranges(harness: &Harness, container: &Arc<Container>) -> (String, String) {
    let range_of = |key: &str| {
        let mut ctx = test_context();
        let read = harness.engine.read_item(&mut ctx, container, &string_key(key), "none", None);
        assert!(read.is_err());
        ctx.served.ranges[0].0
    };
    let first = range_of("k0");
    let other = (1..100).map(|n| format!("k{n}")).find(|key| range_of(key) != first);
    ("k0".into(), other.expect("keys spread over both ranges"))
}

#[tokio::test]
async fn four_hundred_units_are_served_of_two_thousand_asked_for() {
    let harness = throttling();
    let container = container(&harness, Throughput::Manual(400)).await;
    let (mut served, mut throttled) = (Charge::ZERO, 0);
    // A write of 5.04 RU and a read of 1 RU every 3 ms: 2,013 RU/s, for 30 s.
    for n in 0..10_000 {
        let mut ctx = test_context();
        let key = Some(string_key("a"));
        let op = item(&n.to_string(), "a");
        let write = harness.engine.write_item(&mut ctx, &container, key, op).await;
        match write {
            Ok(_) => served += ctx.served.charge,
            Err(Error::Throttled { .. }) => {
                throttled += 1;
                assert_eq!(ctx.served.charge, Charge::milli(380));
            }
            Err(other) => panic!("{other}"),
        }
        let mut ctx = test_context();
        match harness.engine.read_item(&mut ctx, &container, &string_key("a"), "0", None) {
            Ok(_) => served += ctx.served.charge,
            Err(Error::Throttled { .. }) => throttled += 1,
            Err(other) => panic!("{other}"),
        }
        harness.clock.advance(Duration::from_millis(3));
    }
    let wanted = Charge::units(400 * 30).as_milli();
    assert!(served.as_milli().abs_diff(wanted) * 20 <= wanted, "{served} RU in 30 s");
    let usage = usage_of(&harness, &container);
    assert_eq!((usage.consumed, usage.throttled), (served, throttled));
    assert_eq!(usage.limit, Some(Charge::units(400)));
}

#[tokio::test]
async fn a_hot_key_is_throttled_and_the_other_partition_is_not() {
    let harness = throttling();
    let container = container(&harness, Throughput::Manual(12_000)).await;
    let (hot, cold) = keys_of_two_ranges(&harness, &container);
    assert!(drain(&harness, &container, &hot) >= 5_000);
    for _ in 0..100 {
        assert!(is_throttled(&harness.read(&container, &hot, "none")));
        assert!(!is_throttled(&harness.read(&container, &cold, "none")));
    }
    let usage = harness.engine.usage(&container);
    let busy = usage.iter().find(|(_, u)| u.throttled > 0).expect("a busy range");
    let top = PartitionKey::decode(&busy.1.top_keys[0].key).expect("key values");
    assert_eq!(top, string_key(&hot));
    assert_eq!(usage.iter().filter(|(_, u)| u.throttled == 0).count(), 1);
}

#[tokio::test]
async fn who_waits_as_told_is_served() {
    let harness = throttling();
    let container = container(&harness, Throughput::Manual(400)).await;
    harness.create(&container, "a", r#"{"id":"1","pk":"a"}"#).await.unwrap();
    drain(&harness, &container, "a");
    let wait = wait_told(harness.read(&container, "a", "1"));
    assert!(wait > Duration::ZERO && wait <= Duration::from_millis(3), "{wait:?}");
    // The clock of tests counts milliseconds, as the header does.
    let millis = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap();
    harness.clock.advance(Duration::from_millis(millis));
    assert!(harness.read(&container, "a", "1").is_ok());
}

#[tokio::test]
async fn a_refused_request_does_nothing() {
    let harness = throttling();
    let container = container(&harness, Throughput::Manual(400)).await;
    harness.create(&container, "a", r#"{"id":"old","pk":"a"}"#).await.unwrap();
    drain(&harness, &container, "a");
    let engine = &harness.engine;
    let key = || string_key("a");
    let mut ctx = test_context();

    let write = engine.write_item(&mut ctx, &container, Some(key()), item("new", "a")).await;
    assert!(is_throttled(&write));
    let delete = ItemOp::Delete { id: "old".into(), if_match: None };
    assert!(is_throttled(&engine.write_item(&mut ctx, &container, Some(key()), delete).await));
    let batch = vec![item("b1", "a"), item("b2", "a")];
    assert!(is_throttled(&engine.write_batch(&mut ctx, &container, key(), batch).await));
    assert!(is_throttled(&engine.delete_partition_key(&mut ctx, &container, key()).await));
    let page = engine.list_items(&mut ctx, &container, Scope::All, PageRequest::default()).await;
    assert!(is_throttled(&page));
    assert_eq!(ctx.served.charge, Charge::milli(380));

    harness.clock.advance(Duration::from_secs(2));
    assert_eq!(harness.list(&container, Scope::All, 10).await, ["old"]);
}

#[tokio::test]
async fn operations_of_a_bulk_request_are_refused_one_by_one() {
    let harness = throttling();
    let container = container(&harness, Throughput::Manual(400)).await;
    let ops: Vec<_> =
        (0..100).map(|n| (Some(string_key("a")), item(&n.to_string(), "a"))).collect();
    let mut ctx = test_context();
    let results = harness.engine.bulk(&mut ctx, &container, None, ops).await.unwrap();
    let is_refused = |r: &OpResult| is_throttled(&r.outcome);
    let refused = results.iter().filter(|r| is_refused(r)).count();
    assert_eq!(refused, 20, "80 creates of 5.04 RU fit into 400 RU");
    assert!(results[..80].iter().all(|r| r.outcome.is_ok()));
    assert!(results[80..].iter().all(|r| is_refused(r) && r.charge == Charge::milli(380)));
    assert_eq!(usage_of(&harness, &container).consumed, Charge::milli(80 * 5_040));
}

#[tokio::test]
async fn another_offer_counts_at_once() {
    let harness = throttling();
    let container = container(&harness, Throughput::Manual(400)).await;
    drain(&harness, &container, "a");
    let target = OfferTarget::Container(container.rid);
    let offer = Arc::clone(harness.engine.catalog().offer_of(target).unwrap());
    harness
        .engine
        .replace_offer(&test_context(), offer.rid, Throughput::Manual(5_000))
        .await
        .unwrap();
    harness.clock.advance(Duration::from_secs(1));
    assert_eq!(drain(&harness, &container, "a"), 5_000);
    harness
        .engine
        .replace_offer(&test_context(), offer.rid, Throughput::Manual(400))
        .await
        .unwrap();
    harness.clock.advance(Duration::from_secs(10));
    assert_eq!(drain(&harness, &container, "a"), 400);
}

#[tokio::test]
async fn containers_of_a_database_share_its_offer() {
    let harness = throttling();
    let engine = &harness.engine;
    let shared = Some(Throughput::Manual(1_000));
    let database = engine.create_database(&test_context(), "shared", shared).await.unwrap();
    let mut members = Vec::new();
    for id in ["a", "b"] {
        members.push(
            engine.create_container(&test_context(), database.rid, spec(id), None).await.unwrap(),
        );
    }
    let own = Some(Throughput::Manual(400));
    let apart =
        engine.create_container(&test_context(), database.rid, spec("own"), own).await.unwrap();
    let first = drain(&harness, &members[0], "k");
    assert!((1_000..=1_050).contains(&first), "one can use all: {first}");
    let second = drain(&harness, &members[1], "k");
    assert!((1..=51).contains(&second), "a part is kept for the other: {second}");
    assert_eq!(drain(&harness, &apart, "k"), 400);

    harness.clock.advance(Duration::from_secs(1));
    let both = drain(&harness, &members[0], "k") + drain(&harness, &members[1], "k");
    assert!((900..=1_051).contains(&both), "{both}");
    engine.delete_container(&test_context(), members[1].rid, None).await.unwrap();
    harness.clock.advance(Duration::from_secs(10));
    assert!((1_000..=1_101).contains(&drain(&harness, &members[0], "k")));
}

#[tokio::test]
async fn a_partition_serves_at_most_its_maximum() {
    let harness = throttling();
    let database = harness.engine.create_database(&test_context(), "d", None).await.unwrap();
    let mut keyless = spec("fixed");
    keyless.partition_key.is_system = true;
    let throughput = Some(Throughput::Manual(10_000));
    let container = harness
        .engine
        .create_container(&test_context(), database.rid, keyless, throughput)
        .await
        .unwrap();
    assert_eq!(container.routing().ranges().len(), 1);
    assert_eq!(usage_of(&harness, &container).limit, Some(Charge::units(10_000)));
}

#[tokio::test]
async fn low_priority_is_refused_first() {
    let harness = throttling();
    let container = container(&harness, Throughput::Manual(400)).await;
    let read = |priority| {
        let mut ctx = RequestContext {
            admission: engine::Admission { priority, ..Default::default() },
            ..test_context()
        };
        let key = string_key("a");
        !is_throttled(&harness.engine.read_item(&mut ctx, &container, &key, "none", None))
    };
    let low = (0..1_000).take_while(|_| read(Priority::Low)).count();
    let high = (0..1_000).take_while(|_| read(Priority::High)).count();
    assert_eq!((low, high), (320, 80));
}

#[tokio::test]
async fn a_query_that_would_cost_more_than_a_second_comes_in_pages() {
    let harness = throttling();
    let container = container(&harness, Throughput::Manual(400)).await;
    let padding = "x".repeat(100_000);
    for n in 0..60 {
        let text = format!(r#"{{"id":"{n}","pk":"a","x":"{padding}"}}"#);
        harness.create(&container, "a", &text).await.unwrap();
        harness.clock.advance(Duration::from_secs(1));
    }
    let list = lang::nosql::compile("SELECT VALUE 1 FROM c WHERE c.none + 0 = 1", &[]).unwrap();
    let mut request = PageRequest::default();
    let mut pages = 0;
    loop {
        let mut ctx = test_context();
        let scope = Scope::All;
        let page = harness.engine.query(&mut ctx, &container, list.clone(), scope, request).await;
        let page = page.unwrap();
        assert!(page.rows.is_empty());
        assert!(ctx.served.charge <= Charge::units(410), "{}", ctx.served.charge);
        pages += 1;
        request = PageRequest { continuation: page.continuation, ..PageRequest::default() };
        if request.continuation.is_none() {
            break;
        }
        harness.clock.advance(Duration::from_secs(2));
    }
    assert_eq!(pages, 2);
}

#[tokio::test]
async fn autoscale_reports_what_it_scaled_to() {
    let harness = throttling();
    let autoscale = Throughput::Autoscale { max: 4_000, increment_percent: 0 };
    let container = container(&harness, autoscale).await;
    let catalog = harness.engine.catalog();
    let offer = catalog.offer_of(OfferTarget::Container(container.rid)).unwrap();
    assert_eq!(harness.engine.current_throughput(offer), 400);
    for _ in 0..1_250 {
        assert!(!is_throttled(&harness.read(&container, "a", "none")));
    }
    assert_eq!(harness.engine.current_throughput(offer), 1_300);
    drain(&harness, &container, "a");
    assert_eq!(harness.engine.current_throughput(offer), 4_000);
    harness.clock.advance(Duration::from_secs(120));
    assert_eq!(harness.engine.current_throughput(offer), 400);
}

#[tokio::test]
async fn nothing_is_refused_while_throttling_is_off() {
    let harness = Harness::in_memory();
    let container = container(&harness, Throughput::Manual(400)).await;
    for _ in 0..5_000 {
        assert!(!is_throttled(&harness.read(&container, "a", "none")));
    }
    assert_eq!(usage_of(&harness, &container).consumed, Charge::units(5_000));
}

#[tokio::test]
async fn shares_are_there_again_after_a_restart() {
    let store = Arc::new(MemoryStore::new());
    let settings = || Settings { throttling: Throttling::On, ..Settings::default() };
    let harness = Harness::with_settings(Arc::<MemoryStore>::clone(&store), settings());
    container(&harness, Throughput::Manual(400)).await;
    let again = Harness::with_settings(store, settings());
    let database = again.engine.catalog().database("own").unwrap().rid;
    let container = Arc::clone(again.engine.catalog().container(database, "c").unwrap());
    assert_eq!(drain(&again, &container, "a"), 400);
}

fn provisioned_over(store: &Arc<MemoryStore>) -> Harness {
    let settings = Settings { throttling: Throttling::Provisioned, ..Settings::default() };
    Harness::with_settings(Arc::<MemoryStore>::clone(store), settings)
}

/// The container of the database `own`.
fn found(harness: &Harness) -> Arc<Container> {
    let catalog = harness.engine.catalog();
    let database = catalog.database("own").expect("the test made it").rid;
    Arc::clone(catalog.container(database, "c").expect("the test made it"))
}

#[tokio::test]
async fn throughput_that_was_not_asked_for_limits_nothing_until_it_is() {
    let store = Arc::new(MemoryStore::new());
    let harness = provisioned_over(&store);
    let database = harness.engine.create_database(&test_context(), "own", None).await.unwrap().rid;
    let made =
        harness.engine.create_container(&test_context(), database, spec("c"), None).await.unwrap();
    let offer = |harness: &Harness| {
        let catalog = harness.engine.catalog();
        Arc::clone(catalog.offer_of(OfferTarget::Container(made.rid)).unwrap())
    };
    let is_limited = |harness: &Harness| {
        let container = found(harness);
        let refused = (0..2_000).any(|_| is_throttled(&harness.read(&container, "a", "none")));
        assert_eq!(usage_of(harness, &container).limit.is_some(), refused);
        refused
    };
    assert_eq!(offer(&harness).throughput, Throughput::Manual(400));
    assert!(!offer(&harness).was_requested && !is_limited(&harness));
    assert_eq!(usage_of(&harness, &made).consumed, Charge::units(2_000), "counted all the same");
    let again = provisioned_over(&store);
    assert!(!is_limited(&again), "nor after a restart");
    drop(again);
    // Also when it is set to the value that it has.
    harness
        .engine
        .replace_offer(&test_context(), offer(&harness).rid, Throughput::Manual(400))
        .await
        .unwrap();
    assert!(offer(&harness).was_requested && is_limited(&harness));
    assert!(is_limited(&provisioned_over(&store)));
}

#[tokio::test]
async fn throughput_that_was_asked_for_limits_a_container_and_those_that_share_it() {
    let harness = provisioned_over(&Arc::new(MemoryStore::new()));
    let own = container(&harness, Throughput::Manual(400)).await;
    assert_eq!(drain(&harness, &own, "a"), 400);
    let shared = Some(Throughput::Manual(400));
    let database =
        harness.engine.create_database(&test_context(), "shared", shared).await.unwrap().rid;
    let first =
        harness.engine.create_container(&test_context(), database, spec("c"), None).await.unwrap();
    assert_eq!(drain(&harness, &first, "a"), 400);
    let second =
        harness.engine.create_container(&test_context(), database, spec("d"), None).await.unwrap();
    assert!(drain(&harness, &second, "a") < 400);
}

#[tokio::test]
async fn the_default_throughput_limits_where_all_of_it_does() {
    let harness = throttling();
    let database = harness.engine.create_database(&test_context(), "own", None).await.unwrap().rid;
    let made =
        harness.engine.create_container(&test_context(), database, spec("c"), None).await.unwrap();
    // Requests of an API without throughput are admitted, others are throttled.
    let free = engine::Admission { is_free_by_default: true, ..Default::default() };
    for _ in 0..2_000 {
        let mut ctx = RequestContext { admission: free, ..test_context() };
        let read = harness.engine.read_item(&mut ctx, &made, &string_key("a"), "none", None);
        assert!(!is_throttled(&read));
    }
    assert_eq!(drain(&harness, &made, "a"), 400);
}

#[tokio::test]
async fn a_script_that_was_let_in_is_not_refused_on_its_way() {
    let harness = throttling();
    let container = container(&harness, Throughput::Manual(400)).await;
    let mut ctx = test_context();
    let mut transaction = harness.engine.begin(&mut ctx, &container, &string_key("a")).unwrap();
    drain(&harness, &container, "a");
    let plan = lang::nosql::compile("SELECT * FROM c", &[]).unwrap();
    transaction.query(plan, PageRequest::default()).unwrap();
}

#[tokio::test]
async fn a_minutes_budget_serves_more_than_the_second_has() {
    let harness = throttling();
    let container = container(&harness, Throughput::Manual(400)).await;
    let catalog = harness.engine.catalog();
    let offer = catalog.offer_of(OfferTarget::Container(container.rid)).unwrap();
    let change =
        OfferChange { throughput: offer.throughput, has_minute_budget: Some(true), if_match: None };
    harness.engine.replace_offer(&test_context(), offer.rid, change).await.unwrap();
    assert_eq!(drain(&harness, &container, "a"), 400 + 4_000);
    harness.clock.advance(Duration::from_secs(1));
    assert_eq!(drain(&harness, &container, "a"), 400);
    harness.clock.advance(Duration::from_secs(60));
    assert_eq!(drain(&harness, &container, "a"), 400 + 4_000);
    // A later change without this setting leaves it as it is.
    harness
        .engine
        .replace_offer(&test_context(), offer.rid, Throughput::Manual(500))
        .await
        .unwrap();
    let catalog = harness.engine.catalog();
    assert!(catalog.offer(offer.rid).unwrap().has_minute_budget);
}

#[tokio::test]
async fn a_page_ends_where_the_next_range_refuses() {
    let harness = throttling();
    let container = container(&harness, Throughput::Manual(12_000)).await;
    let (one, other) = keys_of_two_ranges(&harness, &container);
    for key in [&one, &other] {
        let text = format!(r#"{{"id":"of-{key}","pk":"{key}"}}"#);
        harness.create(&container, key, &text).await.unwrap();
    }
    let ids = |page: Page| -> Vec<String> {
        let id = |row: &Row| match row {
            Row::Item(item) => item.id().into_owned(),
            Row::Json(_) => panic!("not an item"),
        };
        page.rows.iter().map(id).collect()
    };
    let list = |continuation| {
        let request = PageRequest { continuation, ..PageRequest::default() };
        let (engine, container) = (&harness.engine, &container);
        async move {
            let mut ctx = test_context();
            let page = engine.list_items(&mut ctx, container, Scope::All, request).await;
            (page, ctx.served.charge)
        }
    };
    let all = ids(list(None).await.0.unwrap());
    assert_eq!(all.len(), 2);
    let later = all[1].strip_prefix("of-").unwrap().to_owned();
    drain(&harness, &container, &later);

    let (page, charge) = list(None).await;
    let page = page.unwrap();
    assert_eq!(charge, Charge::milli(2_280), "one range and one item");
    let continuation = page.continuation.clone();
    assert_eq!(ids(page), all[..1]);
    let (refused, _) = list(continuation.clone()).await;
    assert!(is_throttled(&refused));
    harness.clock.advance(Duration::from_secs(1));
    let rest = list(continuation).await.0.unwrap();
    assert_eq!((rest.continuation.is_none(), ids(rest)), (true, all[1..].to_vec()));
}

/// Thousandths of request units that all ranges of a container counted.
fn consumed(harness: &Harness, container: &Container) -> u64 {
    harness.engine.usage(container).iter().map(|(_, usage)| usage.consumed.as_milli()).sum()
}

#[tokio::test]
async fn a_page_ends_after_empty_ranges_where_the_next_one_refuses() {
    let harness = throttling();
    let container = container(&harness, Throughput::Manual(24_000)).await;
    let last = container.routing().ranges().last().unwrap().id;
    let lies_last = |key: &String| {
        let mut ctx = test_context();
        let _ = harness.engine.read_item(&mut ctx, &container, &string_key(key), "none", None);
        ctx.served.ranges[0].0 == last
    };
    let key = (0..100).map(|n| format!("k{n}")).find(lies_last).unwrap();
    harness.create(&container, &key, &format!(r#"{{"id":"1","pk":"{key}"}}"#)).await.unwrap();
    drain(&harness, &container, &key);
    let list = |text: &str, continuation| {
        let plan = lang::nosql::compile(text, &[]).unwrap();
        let request = PageRequest { continuation, ..PageRequest::default() };
        let (harness, container) = (&harness, &container);
        async move {
            let mut ctx = test_context();
            let before = consumed(harness, container);
            let page = harness.engine.query(&mut ctx, container, plan, Scope::All, request).await;
            let counted = consumed(harness, container) - before;
            (page, ctx.served.charge.as_milli(), counted)
        }
    };
    let row_by_row = "SELECT * FROM c";
    let (page, told, counted) = list(row_by_row, None).await;
    let page = page.unwrap();
    assert_eq!((page.rows.len(), page.continuation.is_some()), (0, true));
    assert_eq!((told, counted), (3 * 2_250, told));

    // At the start of a page, and where all rows must be read, a refusal costs nothing.
    let sorted = "SELECT * FROM c ORDER BY c.id";
    for (text, from) in [(row_by_row, page.continuation.clone()), (sorted, None)] {
        let (page, told, counted) = list(text, from).await;
        assert!(is_throttled(&page));
        assert_eq!((told, counted), (380, 0), "{text}");
    }

    harness.clock.advance(Duration::from_secs(1));
    // The order comes from an index, whose entries cost a little.
    let (first, second) = ((row_by_row, page.continuation, 1, 0), (sorted, None, 4, 3));
    for (text, from, ranges, entries) in [first, second] {
        let (page, told, counted) = list(text, from).await;
        let page = page.unwrap();
        assert_eq!((page.rows.len(), page.continuation), (1, None), "{text}");
        assert_eq!((told, counted), (ranges * 2_250 + 30 + entries, told), "{text}");
    }
}

#[tokio::test]
async fn deleting_a_large_logical_partition_goes_on_after_every_refusal() {
    let harness = throttling();
    let container = container(&harness, Throughput::Manual(400)).await;
    let padding = "x".repeat(100_000);
    for n in 0..20 {
        let text = format!(r#"{{"id":"{n}","pk":"a","x":"{padding}"}}"#);
        harness.create(&container, "a", &text).await.unwrap();
        harness.clock.advance(Duration::from_secs(1));
    }
    let (mut rounds, mut charge) = (0, Charge::ZERO);
    loop {
        let mut ctx = test_context();
        let key = string_key("a");
        let erased = harness.engine.delete_partition_key(&mut ctx, &container, key).await;
        charge += ctx.served.charge;
        rounds += 1;
        assert!(ctx.served.charge < Charge::units(500), "{}", ctx.served.charge);
        match erased {
            Ok(()) => break,
            Err(_) => harness.clock.advance(wait_told(erased) + Duration::from_millis(1)),
        }
    }
    assert!(rounds > 1, "20 items cost 980 RU");
    assert_eq!(charge, Charge::milli(20 * 48_650 + rounds * 1_000));
    harness.clock.advance(Duration::from_secs(2));
    assert!(harness.list(&container, Scope::All, 10).await.is_empty());
}

#[tokio::test]
async fn children_of_a_split_share_what_their_parent_had() {
    let harness = throttling();
    let container = container(&harness, Throughput::Manual(4_000)).await;
    drain(&harness, &container, "k0");
    let (first, how) = (container.routing().ranges()[0].id, Progression::Automatic);
    let job = harness
        .engine
        .start_split(&test_context(), container.rid, first, SplitPoint::Midpoint, how)
        .await;
    harness.engine.finish_job(job.unwrap().id).await.unwrap();
    let limits = || -> Vec<_> {
        harness.engine.usage(&container).into_iter().map(|(_, u)| u.limit).collect()
    };
    assert_eq!(limits(), [Some(Charge::units(2_000)); 2]);
    let (one, other) = keys_of_two_ranges(&harness, &container);
    assert!((1_900..=2_000).contains(&drain(&harness, &container, &one)), "a fresh bucket");
    assert!((1_900..=2_000).contains(&drain(&harness, &container, &other)));

    let both: Vec<_> = container.routing().ranges().iter().map(|r| r.id).collect();
    let job = harness.engine.start_merge(&test_context(), container.rid, &both, how).await.unwrap();
    harness.engine.finish_job(job.id).await.unwrap();
    assert_eq!(limits(), [Some(Charge::units(4_000))]);
}

#[tokio::test]
async fn children_of_a_split_pay_their_parents_debt_back() {
    let harness = throttling();
    let container = container(&harness, Throughput::Manual(400)).await;
    let padding = "x".repeat(1_900_000);
    let large = format!(r#"{{"id":"1","pk":"k0","x":"{padding}"}}"#);
    harness.create(&container, "k0", &large).await.unwrap();
    let debt = wait_told(harness.read(&container, "k0", "1"));
    assert!(debt > Duration::from_secs(1), "{debt:?}");
    let (first, how) = (container.routing().ranges()[0].id, Progression::Automatic);
    let job = harness
        .engine
        .start_split(&test_context(), container.rid, first, SplitPoint::Midpoint, how)
        .await;
    harness.engine.finish_job(job.unwrap().id).await.unwrap();
    for range in container.routing().ranges() {
        let is_there = |key: &String| {
            let definition = &container.spec.partition_key;
            range.epk.contains(&model::epk::effective_partition_key(definition, &string_key(key)))
        };
        let key = (0..).map(|n: u32| n.to_string()).find(is_there).unwrap();
        // The children begin with the budget of one second, as all ranges do.
        let wait = wait_told(harness.read(&container, &key, "none"));
        assert!((debt - Duration::from_secs(1)).abs_diff(wait) < Duration::from_millis(1));
    }
}

#[tokio::test]
async fn children_of_a_split_pay_for_what_was_under_way() {
    let store = HookedStore::new(MemoryStore::new(), WriteGate::opened());
    let settings = Settings { throttling: Throttling::On, ..Settings::default() };
    let harness = Harness::with_settings(Arc::<HookedStore<_, _>>::clone(&store), settings);
    let container = container(&harness, Throughput::Manual(400)).await;
    let padding = "x".repeat(100_000);
    let large = format!(r#"{{"id":"1","pk":"k0","x":"{padding}"}}"#);
    harness.create(&container, "k0", &large).await.unwrap();
    harness.clock.advance(Duration::from_secs(10));
    // The committer answers this before the split; the answer is read after it.
    let mut ctx = test_context();
    let delete = ItemOp::Delete { id: "1".into(), if_match: None };
    let key = Some(string_key("k0"));
    let mut deleting = Box::pin(harness.engine.write_item(&mut ctx, &container, key, delete));
    let waker = std::task::Waker::noop();
    store.hooks.set_open(false);
    assert!(deleting.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    store.hooks.set_open(true);
    let (first, how) = (container.routing().ranges()[0].id, Progression::Automatic);
    let job = harness
        .engine
        .start_split(&test_context(), container.rid, first, SplitPoint::Midpoint, how)
        .await;
    harness.engine.finish_job(job.unwrap().id).await.unwrap();
    assert_eq!(consumed(&harness, &container), 0);
    deleting.await.unwrap();
    assert_eq!(ctx.served.charge, Charge::milli(48_650));
    // All but the charge taken at admission.
    assert_eq!(consumed(&harness, &container), 43_650);
    let (one, other) = keys_of_two_ranges(&harness, &container);
    for key in [one, other] {
        let served = drain(&harness, &container, &key);
        assert!((130..=178).contains(&served), "{served} of 200 less 21.8 and some");
    }
}

#[tokio::test]
async fn there_is_no_limit_where_nothing_is_refused() {
    let harness = Harness::in_memory();
    let container = container(&harness, Throughput::Manual(400)).await;
    assert_eq!(usage_of(&harness, &container).limit, None);
}
