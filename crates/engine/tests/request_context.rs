//! Deadlines of requests, and clients that go away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::changes::{ChangesMode, ChangesRequest, ChangesStart};
use engine::gather::GatherRequest;
use engine::listing::{ItemKey, Listing};
use engine::ops::{PageRequest, Scope};
use engine::transaction::Transaction;
use engine::{Container, Error, RequestContext, Settings};
use storage::MemoryStore;
use testkit::harness::{Harness, string_key, test_context};

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
        let wait = std::sync::Mutex::new(wait);
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

async fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_pending())
    })
    .await
}
