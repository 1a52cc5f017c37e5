//! Queries while the index they use changes, and what must not harm an index: callers that go away,
//! items that have expired, a step of a rebuild that panics.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use engine::index::PathPattern;
use engine::ops::{EtagCondition, ItemOp, Page, PageRequest, Row, Scope};
use engine::{Container, ContainerSpec, Error, IndexingPolicy, Settings};
use model::PartitionId;
use storage::{Cursor, Dir, KeyRange, MemoryStore, StoreError, View};
use testkit::harness::{Harness, body, path, spec, string_key, test_context};
use testkit::hooked::{HookedStore, Hooks, WriteGate};

const ITEMS: usize = 60;

async fn fill(h: &Harness, spec: ContainerSpec) -> Arc<Container> {
    let c = h.container_with(spec, 2).await;
    for n in 0..ITEMS {
        let text = format!(r#"{{"id":"{n}","pk":"{}","n":{n},"third":{}}}"#, n % 7, n % 3);
        h.create(&c, &(n % 7).to_string(), &text).await.expect("an item");
    }
    c
}

/// Indexes everything but `n` and `third`.
fn other_policy() -> IndexingPolicy {
    let path = |name: &str| PathPattern { steps: vec![Some(name.to_owned())], is_subtree: true };
    IndexingPolicy { excluded: vec![path("n"), path("third")], ..IndexingPolicy::default() }
}

async fn change_policy(h: &Harness, c: &Container, indexing: IndexingPolicy) {
    let spec = ContainerSpec { indexing, ..c.spec.clone() };
    h.engine.replace_container(&test_context(), c.rid, spec, None).await.expect("a new policy");
}

/// Longer than any rebuild of a few items takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until the entries fit the policy.
#[expect(clippy::disallowed_methods, reason = "only a test that fails waits for so long")]
async fn rebuilt(h: &Harness, c: &Container) {
    let waiting = until_rebuilt(h, c);
    tokio::time::timeout(PATIENCE, waiting).await.expect("the index is rebuilt some time");
}

async fn until_rebuilt(h: &Harness, c: &Container) {
    loop {
        let now = h.engine.catalog().container_by_rid(c.rid).expect("the container").clone();
        if h.engine.index_progress(&now).expect("a percentage") == 100 {
            return;
        }
        h.clock.advance(Duration::from_millis(100));
        tokio::task::yield_now().await;
    }
}

async fn page(h: &Harness, c: &Arc<Container>, text: &str, token: Option<String>) -> Page {
    let plan = lang::nosql::compile(text, &[]).expect("a query");
    let request = PageRequest { items_max: Some(7), continuation: token, ..PageRequest::default() };
    let mut ctx = test_context();
    h.engine.query(&mut ctx, c, plan, Scope::All, request).await.expect("a page")
}

fn numbers(page: &Page) -> Vec<usize> {
    let number = |row: &Row| match row {
        Row::Json(text) => std::str::from_utf8(text).expect("text").parse().expect("a number"),
        Row::Item(_) => panic!("only numbers are asked for"),
    };
    page.rows.iter().map(number).collect()
}

/// The rest of the rows, page by page.
async fn rest(h: &Harness, c: &Arc<Container>, text: &str, first: Page) -> Vec<usize> {
    let mut all = numbers(&first);
    let mut token = first.continuation;
    while token.is_some() {
        let next = page(h, c, text, token).await;
        all.extend(numbers(&next));
        token = next.continuation;
    }
    all
}

#[tokio::test]
async fn pages_after_a_change_of_policy_miss_nothing() {
    let ordered = "SELECT VALUE c.n FROM c ORDER BY c.n DESC";
    let filtered = "SELECT VALUE c.n FROM c WHERE c.third = 1";
    let counted = "SELECT VALUE COUNT(1) FROM c WHERE c.third = 1";
    for policy in [other_policy(), IndexingPolicy::none()] {
        let h = Harness::in_memory();
        let c = fill(&h, spec("c")).await;
        let first_ordered = page(&h, &c, ordered, None).await;
        let first_filtered = page(&h, &c, filtered, None).await;
        change_policy(&h, &c, policy).await;
        rebuilt(&h, &c).await;
        // The caller still has the old state of the container, whose entries are gone.
        let all = rest(&h, &c, ordered, first_ordered).await;
        assert_eq!(all, (0..ITEMS).rev().collect::<Vec<_>>());
        let mut all = rest(&h, &c, filtered, first_filtered).await;
        all.sort_unstable();
        assert_eq!(all, (0..ITEMS).filter(|n| n % 3 == 1).collect::<Vec<_>>());
        assert_eq!(numbers(&page(&h, &c, counted, None).await), [ITEMS / 3]);
    }
}

/// Holds up the next call that takes a view until the test releases it.
#[derive(Default)]
struct ViewGate {
    /// Signals that a call waits, and receives when it may continue.
    armed: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Hooks for ViewGate {
    fn view(&self, take: &dyn Fn() -> Arc<dyn View>) -> Arc<dyn View> {
        let is_committer = std::thread::current().name() == Some("committer");
        let armed = match is_committer {
            true => None,
            false => self.armed.lock().expect("no panic holds it").take(),
        };
        if let Some((waits, go_on)) = armed {
            waits.send(()).expect("the test is there");
            go_on.recv().expect("the test lets it go on");
        }
        take()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "the test itself waits and lets others wait")]
async fn a_view_is_not_read_by_a_policy_that_was_replaced_before_it() {
    let text = "SELECT VALUE c.n FROM c WHERE c.third = 2";
    let store = HookedStore::new(MemoryStore::new(), ViewGate::default());
    let h = Arc::new(Harness::on(store.clone()));
    let c = fill(&h, spec("c")).await;
    let (waits, waiting) = channel();
    let (let_go, go_on) = channel();
    // From here on only the query takes a view: the engine's own tasks sleep by a clock that stands
    // still.
    *store.hooks.armed.lock().expect("no panic holds it") = Some((waits, go_on));
    let query = {
        let (h, c) = (Arc::clone(&h), Arc::clone(&c));
        tokio::spawn(async move { page(&h, &c, text, None).await })
    };
    let waiting = tokio::task::spawn_blocking(move || waiting.recv());
    waiting.await.expect("no panic").expect("the query wants a view");
    change_policy(&h, &c, other_policy()).await;
    rebuilt(&h, &c).await;
    let_go.send(()).expect("the query waits");
    let mut all = rest(&h, &c, text, query.await.expect("no panic")).await;
    all.sort_unstable();
    assert_eq!(all, (0..ITEMS).filter(|n| n % 3 == 2).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_applied_though_its_caller_went_away() {
    let store = HookedStore::new(MemoryStore::new(), WriteGate::opened());
    let h = Harness::on(store.clone());
    let c = fill(&h, spec("c")).await;
    let spec = ContainerSpec { indexing: other_policy(), ..c.spec.clone() };
    store.hooks.set_open(false);
    let ctx = &test_context();
    let mut change = Box::pin(h.engine.replace_container(ctx, c.rid, spec, None));
    let mut context = Context::from_waker(Waker::noop());
    assert!(change.as_mut().poll(&mut context).is_pending());
    drop(change);
    store.hooks.set_open(true);
    while h.find("c").spec.indexing != other_policy() {
        tokio::task::yield_now().await;
    }
    rebuilt(&h, &c).await;
    assert_eq!(h.engine.audit().expect("an audit").findings, Vec::<String>::new());
}

#[tokio::test]
async fn expired_items_are_on_no_page_of_an_index() {
    let h = Harness::in_memory();
    let expiring = ContainerSpec { default_ttl: Some(-1), ..spec("c") };
    let c = h.container_with(expiring, 2).await;
    for n in 0..ITEMS {
        let ttl = if n % 4 == 0 { "" } else { r#","ttl":5"# };
        let text = format!(r#"{{"id":"{n}","pk":"{}","n":{n},"one":1{ttl}}}"#, n % 7);
        let op = ItemOp::Create { body: body(&text) };
        h.write(&c, &(n % 7).to_string(), op).await.expect("an item");
    }
    let live: Vec<_> = (0..ITEMS).filter(|n| n % 4 == 0).collect();
    // Only the clock has moved: rows and entries of expired items are still there.
    h.clock.advance(Duration::from_secs(6));
    for (text, expected) in [
        ("SELECT VALUE c.n FROM c ORDER BY c.n", live.clone()),
        ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", live.iter().rev().copied().collect()),
        ("SELECT VALUE c.n FROM c WHERE c.n >= 7 ORDER BY c.n", live[2..].to_vec()),
        ("SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n", live[..3].to_vec()),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.one = 1", vec![live.len()]),
        ("SELECT VALUE COUNT(1) FROM c", vec![live.len()]),
        ("SELECT VALUE MAX(c.n) FROM c", vec![56]),
        ("SELECT VALUE MIN(c.n) FROM c WHERE c.n > 4", vec![8]),
    ] {
        let first = page(&h, &c, text, None).await;
        assert_eq!(rest(&h, &c, text, first).await, expected, "{text}");
    }
    let text = "SELECT VALUE c.n FROM c WHERE c.one = 1";
    let first = page(&h, &c, text, None).await;
    let mut found = rest(&h, &c, text, first).await;
    found.sort_unstable();
    assert_eq!(found, live);
}

/// Panics once, when the committer scans rows, which only a rebuild makes it do.
#[derive(Default)]
struct PanicOnce {
    is_armed: Arc<AtomicBool>,
}

struct PanickingView {
    inner: Arc<dyn View>,
    is_armed: Arc<AtomicBool>,
}

impl View for PanickingView {
    fn get(&self, p: PartitionId, k: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.inner.get(p, k)
    }

    fn scan<'v>(
        &'v self,
        p: PartitionId,
        range: KeyRange<'_>,
        dir: Dir,
    ) -> Result<Box<dyn Cursor + Send + 'v>, StoreError> {
        assert!(!self.is_armed.swap(false, Ordering::SeqCst), "this panic is part of the test");
        self.inner.scan(p, range, dir)
    }
}

impl Hooks for PanicOnce {
    fn view(&self, take: &dyn Fn() -> Arc<dyn View>) -> Arc<dyn View> {
        match std::thread::current().name() {
            Some("committer") => {
                Arc::new(PanickingView { inner: take(), is_armed: Arc::clone(&self.is_armed) })
            }
            _ => take(),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_a_rebuild_that_panics_harms_nobody_and_is_done_again() {
    let store = HookedStore::new(MemoryStore::new(), PanicOnce::default());
    let h = Harness::on(store.clone());
    let c = fill(&h, spec("c")).await;
    store.hooks.is_armed.store(true, Ordering::SeqCst);
    change_policy(&h, &c, IndexingPolicy::none()).await;
    rebuilt(&h, &c).await;
    assert!(!store.hooks.is_armed.load(Ordering::SeqCst), "nothing panicked");
    h.create(&c, "1", r#"{"id":"new","pk":"1","n":1}"#).await.expect("writes go on");
    assert_eq!(h.engine.audit().expect("an audit").findings, Vec::<String>::new());
}

/// Lets the test see each write before it is done, once it is armed.
#[derive(Default)]
struct StepByStep {
    /// Signals that a write waits, and receives when it may continue.
    armed: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Hooks for StepByStep {
    fn before_write(&self) {
        if let Some((waits, go_on)) = &*self.armed.lock().expect("no panic holds it") {
            // Once the test has seen enough, writes continue without it.
            let _ = waits.send(()).map(|()| go_on.recv());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "the test itself waits and lets others wait")]
async fn progress_is_told_by_items_within_a_partition_too() {
    let store = HookedStore::new(MemoryStore::new(), StepByStep::default());
    let h = Arc::new(Harness::on(store.clone()));
    let c = h.container_with(spec("c"), 1).await;
    for n in 0..500 {
        let text = format!(r#"{{"id":"{n}","pk":"same","n":{n}}}"#);
        h.create(&c, "same", &text).await.expect("an item");
    }
    let (waits, waiting) = channel();
    let (let_go, go_on) = channel();
    *store.hooks.armed.lock().expect("no panic holds it") = Some((waits, go_on));
    let changed = {
        let (h, c) = (Arc::clone(&h), Arc::clone(&c));
        tokio::spawn(async move { change_policy(&h, &c, other_policy()).await })
    };
    // The write of the new policy, those of three steps, and that of the policy as the only one.
    let seen = tokio::task::spawn_blocking({
        let h = Arc::clone(&h);
        move || {
            let step = |_| {
                waiting.recv_timeout(PATIENCE).expect("a write");
                let percent = h.engine.index_progress(&h.find("c")).expect("a percentage");
                let_go.send(()).expect("the write waits");
                percent
            };
            (0..5).map(step).collect::<Vec<_>>()
        }
    });
    assert_eq!(seen.await.expect("no panic"), [100, 0, 40, 80, 99]);
    changed.await.expect("no panic");
    rebuilt(&h, &c).await;
}

/// An item with so many values that its size is at least `bytes`.
fn large(key: &str, id: &str, stamp: usize, bytes: usize) -> String {
    let list: Vec<String> =
        (0..bytes / 16).map(|n| format!("\"value {}\"", stamp * 7 + n)).collect();
    let list = list.join(",");
    format!(r#"{{"id":"{id}","pk":"{key}","n":{stamp},"third":{},"list":[{list}]}}"#, stamp % 3)
}

/// Many write a few items at once while the policy changes: what was computed from a version read
/// before the commit is used only if that version is removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn old_versions_that_were_replaced_meanwhile_are_not_used() {
    for old_version_bytes_min in [0, 4 * 1024] {
        let settings = Settings { old_version_bytes_min, ..Settings::default() };
        let h = Arc::new(Harness::with_settings(Arc::new(MemoryStore::new()), settings));
        let unique_keys = vec![vec![path("/n")]];
        let c = h.container_with(ContainerSpec { unique_keys, ..spec("c") }, 1).await;
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..8 {
            let h = Arc::clone(&h);
            writers.spawn(async move {
                for round in 0..40 {
                    let stamp = round * 8 + writer;
                    let (key, id) = (["a", "b"][stamp % 2], ["1", "2", "3"][stamp % 3]);
                    let bytes = if stamp % 5 == 0 { 10 } else { 6 * 1024 };
                    let text = large(key, id, stamp, bytes);
                    let (id, if_match) = (id.to_owned(), None);
                    let ops = match stamp % 7 {
                        0 => vec![ItemOp::Delete { id: id.into(), if_match }],
                        1 => vec![ItemOp::Replace { id: id.into(), body: body(&text), if_match }],
                        2 => {
                            // The version that the delete removes is made by the same commit.
                            let upsert = ItemOp::Upsert { body: body(&text), if_match: None };
                            vec![upsert, ItemOp::Delete { id: id.into(), if_match }]
                        }
                        _ => vec![ItemOp::Upsert { body: body(&text), if_match }],
                    };
                    let mut ctx = test_context();
                    let c = h.find("c");
                    let written = h.engine.write_batch(&mut ctx, &c, string_key(key), ops).await;
                    for result in written.expect("a commit") {
                        let outcome = result.outcome.map(drop);
                        let is_race = matches!(
                            outcome,
                            Ok(()) | Err(Error::NotFound { .. } | Error::FailedDependency)
                        );
                        assert!(is_race, "{outcome:?}");
                    }
                }
            });
        }
        for policy in [other_policy(), IndexingPolicy::none(), IndexingPolicy::default()] {
            change_policy(&h, &c, policy).await;
            rebuilt(&h, &c).await;
        }
        while let Some(ended) = writers.join_next().await {
            ended.expect("a writer");
        }
        rebuilt(&h, &c).await;
        assert_eq!(h.engine.audit().expect("an audit").findings, Vec::<String>::new());
    }
}

/// Versions are large enough here to be read before the commit.
#[tokio::test]
async fn an_expired_version_that_was_read_before_leaves_nothing() {
    let settings = Settings { old_version_bytes_min: 0, ..Settings::default() };
    let h = Harness::with_settings(Arc::new(MemoryStore::new()), settings);
    let unique_keys = vec![vec![path("/n")]];
    let c =
        h.container_with(ContainerSpec { unique_keys, default_ttl: Some(5), ..spec("c") }, 1).await;
    for stamp in 0..6 {
        let op = ItemOp::Upsert { body: body(&large("a", "1", stamp, 200)), if_match: None };
        h.write(&c, "a", op).await.expect("an item");
        // Every other version has expired when it is replaced.
        h.clock.advance(Duration::from_secs(stamp as u64 % 2 * 10));
        assert_eq!(h.engine.audit().expect("an audit").findings, Vec::<String>::new());
    }
    let stale = EtagCondition::parse("\"00000000-0000-0000-0000-000000000000\"");
    let op = ItemOp::Delete { id: "1".into(), if_match: Some(stale) };
    let _ = h.write(&c, "a", op).await.expect_err("another version or none");
    assert_eq!(h.engine.audit().expect("an audit").findings, Vec::<String>::new());
}
