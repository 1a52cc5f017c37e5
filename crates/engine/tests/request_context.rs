//! Deadlines of requests, and clients that go away.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::changes::{ChangesMode, ChangesRequest, ChangesStart};
use engine::components::Clock;
use engine::gather::GatherRequest;
use engine::listing::{ItemKey, Listing};
use engine::ops::{ItemOp, PageRequest, Scope};
use engine::repartition::{Progression, SplitPoint};
use engine::transaction::Transaction;
use engine::{Container, Error, RangeId, RequestContext, Settings};
use storage::MemoryStore;
use testkit::harness::{Harness, body, string_key, test_context};

/// More than are read between two readings of a clock.
const ITEMS: usize = 300;

async fn filled() -> (Harness, Arc<Container>) {
    let harness = Harness::in_memory();
    let container = harness.container("c", 1).await;
    for n in 0..ITEMS {
        let text = format!(r#"{{"id":"{n:03}","pk":"k","n":{n}}}"#);
        harness.create(&container, "k", &text).await.expect("an item");
    }
    (harness, container)
}

/// A context whose deadline has passed.
fn late() -> RequestContext {
    RequestContext { deadline: Some(Duration::ZERO), ..test_context() }
}

fn page(continuation: Option<String>) -> PageRequest {
    PageRequest { items_max: Some(ITEMS + 1), continuation, ..PageRequest::default() }
}

#[tokio::test]
async fn a_page_that_can_be_continued_ends_at_the_deadline() {
    let (h, c) = filled().await;
    let first = h.engine.list_items(&mut late(), &c, Scope::All, page(None)).await.unwrap();
    assert!((1..ITEMS).contains(&first.rows.len()), "{}", first.rows.len());
    let rest = page(first.continuation);
    let rest = h.engine.list_items(&mut test_context(), &c, Scope::All, rest).await.unwrap();
    assert_eq!((first.rows.len() + rest.rows.len(), rest.continuation), (ITEMS, None));

    let request = ChangesRequest {
        mode: ChangesMode::LatestVersion,
        start: ChangesStart::Beginning,
        items_max: None,
    };
    let changes = h.engine.read_changes(&mut late(), &c, Scope::All, request).await.unwrap();
    assert!(!changes.is_caught_up && !changes.changes.is_empty());

    let from = ItemKey { key: "k".into(), id: String::new() };
    let end = Some(ItemKey::after_partition("k".into()));
    let listing = Listing { from, end, items_max: ITEMS, ..Listing::default() };
    let listed = h.engine.list_in_key_order(&mut late(), &c, listing.clone()).await.unwrap();
    assert!(listed.next.is_some() && !listed.items.is_empty());
    let listed = h.engine.list_in_key_order(&mut test_context(), &c, listing).await.unwrap();
    assert_eq!((listed.items.len(), listed.next), (ITEMS, None));
}

#[tokio::test]
async fn a_query_that_needs_all_rows_fails_at_the_deadline() {
    let (h, c) = filled().await;
    let plan = lang::nosql::compile("SELECT VALUE SUM(LENGTH(c.id)) FROM c", &[]).unwrap();
    let query =
        h.engine.query(&mut late(), &c, plan.clone(), Scope::All, PageRequest::default()).await;
    assert!(matches!(query, Err(Error::QueryLimit(_))), "{query:?}");
    let gather = GatherRequest::default();
    let gathered = h.engine.gather(&mut late(), &c, plan.clone(), Scope::All, gather.clone()).await;
    assert!(matches!(gathered, Err(Error::QueryLimit(_))), "{gathered:?}");
    h.engine.gather(&mut test_context(), &c, plan, Scope::All, gather).await.expect("a page");
}

#[tokio::test]
async fn a_script_whose_client_has_gone_is_not_begun() {
    let settings = Settings { script_threads: 1, ..Settings::default() };
    let h = Harness::with_settings(Arc::new(MemoryStore::new()), settings);
    let c = h.container("c", 1).await;
    let begun = Arc::new(AtomicUsize::new(0));
    let transact = |wait: Option<std::sync::mpsc::Receiver<()>>| {
        let (engine, c, begun) = (h.engine.clone(), Arc::clone(&c), Arc::clone(&begun));
        let wait = Mutex::new(wait);
        async move {
            let work = |tx: Transaction| {
                let (begun, wait) = (Arc::clone(&begun), wait.lock().unwrap().take());
                move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                    if let Some(wait) = wait {
                        let _ = wait.recv();
                    }
                    (tx, Ok::<_, Error>(()))
                }
            };
            engine.transact(&mut test_context(), &c, &string_key("k"), work).await.map(drop)
        }
    };
    let (release, wait) = std::sync::mpsc::channel();
    let mut first = Box::pin(transact(Some(wait)));
    let mut second = Box::pin(transact(None));
    // Each is polled once, so that its job is in the queue.
    assert!(is_pending(&mut first).await && is_pending(&mut second).await);
    drop(second);
    drop(release);
    first.await.expect("a commit");
    transact(None).await.expect("a commit");
    assert_eq!(begun.load(Ordering::SeqCst), 2);
}

/// What a transaction does within its code.
type Steps = fn(&mut Transaction, &Harness) -> Result<(), Error>;

fn create(tx: &mut Transaction) -> Result<(), Error> {
    tx.apply(ItemOp::Create { body: body(r#"{"id":"new","pk":"k"}"#) }).map(drop)
}

#[tokio::test]
async fn a_transaction_ends_at_the_deadline_and_leaves_nothing() {
    let (h, c) = filled().await;
    let h = Arc::new(h);
    let is_late = |result: Result<_, Error>| matches!(result, Err(Error::DeadlinePassed));
    let transact = async |ctx: &mut RequestContext, steps: Steps| {
        let work = |mut tx: Transaction| {
            let h = Arc::clone(&h);
            move || {
                let done = steps(&mut tx, &h);
                (tx, done)
            }
        };
        h.engine.transact(ctx, &c, &string_key("k"), work).await.map(drop)
    };
    let soon = || {
        let deadline = Some(h.clock.monotonic() + Duration::from_secs(1));
        RequestContext { deadline, ..test_context() }
    };
    assert!(is_late(transact(&mut late(), |tx, _| create(tx)).await), "before it begins");
    let between: Steps = |tx, h| {
        h.clock.advance(Duration::from_secs(2));
        create(tx)
    };
    assert!(is_late(transact(&mut soon(), between).await), "before an operation");
    let query: Steps = |tx, h| {
        h.clock.advance(Duration::from_secs(2));
        tx.query(query::Plan::all_items(), PageRequest::default()).map(drop)
    };
    assert!(is_late(transact(&mut soon(), query).await), "before a query");
    let after: Steps = |tx, h| {
        create(tx)?;
        h.clock.advance(Duration::from_secs(2));
        Ok(())
    };
    assert!(is_late(transact(&mut soon(), after).await), "before the commit");
    assert!(matches!(h.read(&c, "k", "new"), Err(Error::NotFound { .. })));
    transact(&mut soon(), |tx, _| create(tx)).await.expect("a commit");
    h.read(&c, "k", "new").expect("the item");
}

#[tokio::test]
async fn plans_and_lists_of_keys_end_at_the_deadline() {
    let (h, c) = filled().await;
    let plan = query::Plan::all_items();
    let explained = h.engine.explain(&mut late(), &c, &plan, &Scope::All).await;
    assert!(matches!(explained, Err(Error::DeadlinePassed)), "{explained:?}");
    h.engine.explain(&mut test_context(), &c, &plan, &Scope::All).await.expect("a plan");
    for n in 0..1_100 {
        let key = format!("k{n}");
        let text = format!(r#"{{"id":"1","pk":"{key}"}}"#);
        h.create(&c, &key, &text).await.expect("an item");
    }
    let keys = h.engine.largest_keys(&mut late(), &c, RangeId(0), 3, 10_000).await;
    assert!(matches!(keys, Err(Error::DeadlinePassed)), "{keys:?}");
    h.engine.largest_keys(&mut test_context(), &c, RangeId(0), 3, 10_000).await.expect("keys");
}

#[tokio::test]
async fn a_change_of_the_catalog_is_not_made_after_the_deadline() {
    let (h, c) = filled().await;
    let created = h.engine.create_database(&late(), "d", None).await;
    assert!(matches!(created, Err(Error::DeadlinePassed)), "{created:?}");
    let deleted = h.engine.delete_container(&late(), c.rid, None).await;
    assert!(matches!(deleted, Err(Error::DeadlinePassed)), "{deleted:?}");
    let (ctx, at) = (late(), SplitPoint::Midpoint);
    let split = h.engine.start_split(&ctx, c.rid, RangeId(0), at, Progression::Manual);
    assert!(matches!(split.await, Err(Error::DeadlinePassed)));
    let catalog = h.engine.catalog();
    assert!(catalog.database("d").is_none() && catalog.container_by_rid(c.rid).is_some());
    assert!(h.engine.jobs().is_empty());
}

#[tokio::test]
async fn a_delete_of_a_partition_key_ends_at_the_deadline() {
    let (h, c) = filled().await;
    for n in ITEMS..2 * ITEMS {
        let text = format!(r#"{{"id":"{n:03}","pk":"k","n":{n}}}"#);
        h.create(&c, "k", &text).await.expect("an item");
    }
    let list = async || {
        let page = PageRequest { items_max: Some(2 * ITEMS), ..PageRequest::default() };
        let listed = h.engine.list_items(&mut test_context(), &c, Scope::All, page).await;
        listed.expect("a page").rows.len()
    };
    let deleted = h.engine.delete_partition_key(&mut late(), &c, string_key("k")).await;
    assert!(matches!(deleted, Err(Error::DeadlinePassed)), "{deleted:?}");
    assert!((1..2 * ITEMS).contains(&list().await));
    h.engine
        .delete_partition_key(&mut test_context(), &c, string_key("k"))
        .await
        .expect("a delete");
    assert_eq!(list().await, 0);
}

async fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_pending())
    })
    .await
}
