//! The change feed, case by case.

#![expect(clippy::unwrap_used, reason = "a test that can not go on should stop")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::changes::{ChangesMode, ChangesPage, ChangesRequest, ChangesStart, ItemChange};
use engine::ops::{ItemOp, Scope};
use engine::repartition::{JobPhase, Progression, SplitPoint};
use engine::{
    Container, ContainerSpec, Error, InvalidRequest, RangeId, RequestContext, Settings, Throttling,
};
use model::{Epk, EpkRange, ErrorKind, PartitionId, PartitionKeyComponent};
use storage::faulty::FaultyStore;
use storage::{Dir, KeyRange, MemoryStore, View};
use testkit::harness::{
    Harness, START_SECONDS, body, key_of, spec, spec_with_paths, string_key, test_context,
};
use testkit::hooked::{HookedStore, Hooks};

use ChangesMode::{AllVersionsAndDeletes, LatestVersion};

const MANY: usize = 1_000;

/// A reader of one scope.
struct Reader<'h> {
    harness: &'h Harness,
    container: Arc<Container>,
    scope: Scope,
    mode: ChangesMode,
    start: ChangesStart,
}

impl<'h> Reader<'h> {
    fn new(
        harness: &'h Harness,
        container: &Arc<Container>,
        scope: Scope,
        mode: ChangesMode,
        start: ChangesStart,
    ) -> Self {
        Self { harness, container: Arc::clone(container), scope, mode, start }
    }

    async fn try_page(&mut self, items_max: usize) -> Result<ChangesPage, Error> {
        let (scope, start) = (self.scope.clone(), self.start.clone());
        let page =
            self.harness.changes(&self.container, scope, self.mode, start, items_max).await?;
        self.start = ChangesStart::After(page.position.clone());
        Ok(page)
    }

    async fn page(&mut self, items_max: usize) -> ChangesPage {
        self.try_page(items_max).await.unwrap()
    }

    /// All changes up to the end, as short texts.
    async fn drain(&mut self, items_max: usize) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let page = self.page(items_max).await;
            seen.extend(page.changes.iter().map(text));
            if page.changes.is_empty() && page.is_caught_up {
                return seen;
            }
        }
    }
}

fn text(change: &ItemChange) -> String {
    match change {
        ItemChange::Latest(item) => item.id().into_owned(),
        ItemChange::Put { item, previous } => {
            let kind = if previous.is_some() { "replace" } else { "create" };
            format!("{kind} {}", item.id())
        }
        ItemChange::Delete(deleted) => {
            let kind = if deleted.is_expired { "expire" } else { "delete" };
            format!("{kind} {}", deleted.id.as_text())
        }
    }
}

fn item(id: &str, key: &str) -> String {
    format!(r#"{{"id":"{id}","pk":"{key}"}}"#)
}

fn upsert(id: &str, key: &str) -> ItemOp {
    ItemOp::Upsert { body: body(&item(id, key)), if_match: None }
}

fn delete(id: &str) -> ItemOp {
    ItemOp::Delete { id: id.into(), if_match: None }
}

fn keeping_versions(minutes: u32) -> ContainerSpec {
    ContainerSpec { versions_minutes: minutes, ..spec("c") }
}

fn invalid(error: Error) -> InvalidRequest {
    let Error::InvalidRequest(why) = error else { panic!("{error}") };
    *why
}

fn kind_of<T>(result: Result<T, Error>) -> ErrorKind {
    result.err().unwrap().kind()
}

#[tokio::test]
async fn the_latest_version_of_each_item_comes_once_in_order() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    for id in ["1", "2", "3"] {
        h.create(&c, "a", &item(id, "a")).await.unwrap();
    }
    h.write(&c, "a", upsert("1", "a")).await.unwrap();
    h.write(&c, "a", delete("2")).await.unwrap();
    for items_max in [1, 2, MANY] {
        let mut reader = Reader::new(&h, &c, Scope::All, LatestVersion, ChangesStart::Beginning);
        assert_eq!(reader.drain(items_max).await, ["3", "1"], "pages of {items_max}");
    }
}

#[tokio::test]
async fn now_is_after_everything_and_before_the_next() {
    let h = Harness::in_memory();
    let c = h.container("c", 3).await;
    h.create(&c, "a", &item("old", "a")).await.unwrap();
    let mut reader = Reader::new(&h, &c, Scope::All, LatestVersion, ChangesStart::Now);
    let first = reader.page(MANY).await;
    assert!(first.changes.is_empty() && first.is_caught_up);
    h.create(&c, "b", &item("new", "b")).await.unwrap();
    assert_eq!(reader.drain(MANY).await, ["new"]);
}

#[tokio::test]
async fn a_start_by_time_leaves_out_that_second_and_all_before() {
    let h = Harness::in_memory();
    let c = h.container("c", 2).await;
    for second in 0..6u64 {
        h.create(&c, &second.to_string(), &item(&second.to_string(), &second.to_string()))
            .await
            .unwrap();
        h.clock.advance(Duration::from_secs(1));
    }
    for items_max in [1, MANY] {
        let start = ChangesStart::Time(START_SECONDS + 2);
        let mut reader = Reader::new(&h, &c, Scope::All, LatestVersion, start);
        let mut seen = reader.drain(items_max).await;
        seen.sort();
        assert_eq!(seen, ["3", "4", "5"]);
    }
    let future = ChangesStart::Time(START_SECONDS + 1_000);
    let mut reader = Reader::new(&h, &c, Scope::All, LatestVersion, future);
    assert!(reader.drain(MANY).await.is_empty());
    h.create(&c, "x", &item("x", "x")).await.unwrap();
    assert_eq!(reader.drain(MANY).await, ["x"], "what comes after the start is always shown");
}

#[tokio::test]
async fn a_transaction_is_never_torn() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    h.create(&c, "a", &item("first", "a")).await.unwrap();
    let ops = (0..5).map(|n| ItemOp::Create { body: body(&item(&format!("t{n}"), "a")) });
    let ctx = &mut test_context();
    h.engine.write_batch(ctx, &c, string_key("a"), ops.collect()).await.unwrap();
    h.create(&c, "a", &item("last", "a")).await.unwrap();
    let mut reader = Reader::new(&h, &c, Scope::All, LatestVersion, ChangesStart::Beginning);
    let mut sizes = Vec::new();
    loop {
        let page = reader.page(2).await;
        if page.changes.is_empty() {
            break;
        }
        sizes.push(page.changes.len());
    }
    assert_eq!(sizes, [1, 5, 1]);
}

#[tokio::test]
async fn scopes_see_their_part_only() {
    let h = Harness::in_memory();
    let c = h.container("c", 4).await;
    for n in 0..40 {
        let key = n.to_string();
        h.create(&c, &key, &item(&key, &key)).await.unwrap();
    }
    let drain = async |scope: Scope| {
        let mut seen =
            Reader::new(&h, &c, scope, LatestVersion, ChangesStart::Beginning).drain(3).await;
        seen.sort();
        seen
    };
    assert_eq!(drain(Scope::Key(string_key("7"))).await, ["7"]);
    assert!(drain(Scope::Key(string_key("nobody"))).await.is_empty());
    let mut by_range = Vec::new();
    for id in 0..4 {
        by_range.extend(drain(Scope::Range { id: RangeId(id), epk: None }).await);
    }
    by_range.sort();
    let all = drain(Scope::All).await;
    assert_eq!(by_range, all);
    assert_eq!(all.len(), 40);
    // A range that begins and ends inside partition key ranges.
    let (min, max) = (Epk::from_hex("08").unwrap(), Epk::from_hex("30").unwrap());
    let middle = drain(Scope::Epk(EpkRange { min: min.clone(), max: max.clone() })).await;
    let mut outer = drain(Scope::Epk(EpkRange { min: Epk::min(), max: min })).await;
    outer.extend(drain(Scope::Epk(EpkRange { min: max, max: Epk::max() })).await);
    assert!(!middle.is_empty() && !outer.is_empty());
    outer.extend(middle);
    outer.sort();
    assert_eq!(outer, all);
    let gone = Scope::Range { id: RangeId(9), epk: None };
    let read = h.changes(&c, gone, LatestVersion, ChangesStart::Beginning, 1).await;
    assert_eq!(kind_of(read), ErrorKind::RangeGone);
}

#[tokio::test]
async fn a_prefix_of_a_hierarchical_key_is_a_scope() {
    let h = Harness::in_memory();
    let c = h.container_with(spec_with_paths("c", &["/a", "/b"]), 4).await;
    let text = |s: &str| PartitionKeyComponent::String(s.into());
    for (a, b) in [("x", "1"), ("x", "2"), ("y", "1")] {
        let json = format!(r#"{{"id":"{a}{b}","a":"{a}","b":"{b}"}}"#);
        let op = ItemOp::Create { body: body(&json) };
        let key = key_of([text(a), text(b)]);
        h.engine.write_item(&mut test_context(), &c, Some(key), op).await.unwrap();
    }
    let scope = Scope::Key(key_of([text("x")]));
    let mut reader = Reader::new(&h, &c, scope, LatestVersion, ChangesStart::Beginning);
    let mut seen = reader.drain(1).await;
    seen.sort();
    assert_eq!(seen, ["x1", "x2"]);
    let whole = Scope::Key(key_of([text("x"), text("2")]));
    let mut reader = Reader::new(&h, &c, whole, LatestVersion, ChangesStart::Beginning);
    assert_eq!(reader.drain(1).await, ["x2"]);
}

async fn split(h: &Harness, c: &Container, range: RangeId) {
    let how = Progression::Automatic;
    let job = h
        .engine
        .start_split(&test_context(), c.rid, range, SplitPoint::Midpoint, how)
        .await
        .unwrap();
    assert_eq!(h.engine.finish_job(job.id).await.unwrap().phase, JobPhase::Succeeded);
}

async fn merge_all(h: &Harness, c: &Container) {
    let ids: Vec<_> = c.routing().ranges().iter().map(|r| r.id).collect();
    let job =
        h.engine.start_merge(&test_context(), c.rid, &ids, Progression::Automatic).await.unwrap();
    assert_eq!(h.engine.finish_job(job.id).await.unwrap().phase, JobPhase::Succeeded);
}

/// A key that lies in `range`.
fn key_in(c: &Container, range: &EpkRange) -> String {
    let in_range = |key: &String| {
        let place = model::epk::effective_partition_key(&c.spec.partition_key, &string_key(key));
        range.contains(&place)
    };
    (0..).map(|n: u32| n.to_string()).find(in_range).unwrap()
}

/// Reads as SDKs do: one plain position per range, and after a merge the old ranges as parts of the
/// new.
#[tokio::test]
async fn positions_of_single_ranges_outlive_splits_and_merges() {
    for mode in [LatestVersion, AllVersionsAndDeletes] {
        let h = Harness::in_memory();
        let c = h.container_with(keeping_versions(10), 1).await;
        split(&h, &c, RangeId(0)).await;
        let halves: Vec<_> = c.routing().ranges().iter().map(|r| r.epk.clone()).collect();
        let keys: Vec<_> = halves.iter().map(|half| key_in(&c, half)).collect();
        let mut readers: Vec<_> = [RangeId(1), RangeId(2)]
            .into_iter()
            .map(|id| Reader::new(&h, &c, Scope::Range { id, epk: None }, mode, ChangesStart::Now))
            .collect();
        // The left half gets far ahead of the right one.
        for reader in &mut readers {
            reader.page(MANY).await;
        }
        for n in 0..20 {
            h.write(&c, &keys[0], upsert(&format!("l{n}"), &keys[0])).await.unwrap();
        }
        h.write(&c, &keys[1], upsert("r0", &keys[1])).await.unwrap();
        assert_eq!(readers[0].drain(7).await.len(), 20);
        // Not read yet when its range is merged.
        merge_all(&h, &c).await;
        h.write(&c, &keys[0], upsert("l20", &keys[0])).await.unwrap();
        h.write(&c, &keys[1], upsert("r1", &keys[1])).await.unwrap();
        let merged = c.routing().ranges()[0].id;
        let gone = readers[0].try_page(1).await;
        assert_eq!(kind_of(gone), ErrorKind::RangeGone);
        let prefix = if mode == LatestVersion { "" } else { "create " };
        let texts = |ids: &[&str]| ids.iter().map(|id| format!("{prefix}{id}")).collect::<Vec<_>>();
        for ((reader, half), news) in
            readers.iter_mut().zip(&halves).zip([texts(&["l20"]), texts(&["r0", "r1"])])
        {
            reader.scope = Scope::Range { id: merged, epk: Some(half.clone()) };
            assert_eq!(reader.drain(1).await, news);
        }
        // Another split at the same point; each reader continues with its own child.
        split(&h, &c, merged).await;
        h.write(&c, &keys[0], upsert("l21", &keys[0])).await.unwrap();
        h.write(&c, &keys[1], upsert("r2", &keys[1])).await.unwrap();
        let children: Vec<_> = c.routing().ranges().iter().map(|r| r.id).collect();
        for ((reader, child), news) in
            readers.iter_mut().zip(children).zip([texts(&["l21"]), texts(&["r2"])])
        {
            reader.scope = Scope::Range { id: child, epk: None };
            assert_eq!(reader.drain(1).await, news);
        }
    }
}

/// In a merged log times are not in the order of LSNs.
#[tokio::test]
async fn a_start_by_time_is_exact_in_a_merged_log() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    split(&h, &c, RangeId(0)).await;
    let halves: Vec<_> = c.routing().ranges().iter().map(|r| r.epk.clone()).collect();
    let (left, right) = (key_in(&c, &halves[0]), key_in(&c, &halves[1]));
    for n in 0..5 {
        h.write(&c, &left, upsert(&format!("old{n}"), &left)).await.unwrap();
    }
    h.clock.advance(Duration::from_secs(10));
    // The same LSNs as the old ones, in the other partition.
    for n in 0..3 {
        h.write(&c, &right, upsert(&format!("new{n}"), &right)).await.unwrap();
    }
    merge_all(&h, &c).await;
    for items_max in [1, MANY] {
        let start = ChangesStart::Time(START_SECONDS + 5);
        let mut reader = Reader::new(&h, &c, Scope::All, LatestVersion, start);
        assert_eq!(reader.drain(items_max).await, ["new0", "new1", "new2"]);
    }
}

#[tokio::test]
async fn a_busy_range_does_not_keep_others_from_being_read() {
    let h = Harness::in_memory();
    let c = h.container("c", 2).await;
    let routing = c.routing();
    let [busy, quiet] = [0, 1].map(|at| key_in(&c, &routing.ranges()[at].epk));
    let mut reader = Reader::new(&h, &c, Scope::All, LatestVersion, ChangesStart::Now);
    reader.page(1).await;
    h.create(&c, &quiet, &item("quiet", &quiet)).await.unwrap();
    let mut seen = Vec::new();
    for n in 0..6 {
        for part in ["a", "b"] {
            let id = format!("{part}{n}");
            h.create(&c, &busy, &item(&id, &busy)).await.unwrap();
        }
        seen.extend(reader.page(1).await.changes.iter().map(text));
    }
    assert!(seen.contains(&"quiet".to_owned()), "{seen:?}");
}

/// Counts how often a view of a store is taken.
#[derive(Default)]
struct Views {
    count: AtomicUsize,
}

impl Hooks for Views {
    fn view(&self, take: &dyn Fn() -> Arc<dyn View>) -> Arc<dyn View> {
        self.count.fetch_add(1, Ordering::SeqCst);
        take()
    }
}

#[tokio::test]
async fn a_poll_without_news_costs_the_least_and_reads_nothing() {
    let store = HookedStore::new(MemoryStore::new(), Views::default());
    let h = Harness::on(Arc::<HookedStore<_, _>>::clone(&store));
    let c = h.container("c", 5).await;
    for n in 0..20 {
        let key = n.to_string();
        h.create(&c, &key, &item(&key, &key)).await.unwrap();
    }
    let mut reader = Reader::new(&h, &c, Scope::All, LatestVersion, ChangesStart::Beginning);
    reader.drain(MANY).await;
    let views = store.hooks.count.load(Ordering::SeqCst);
    assert!(views > 0);
    let request =
        ChangesRequest { mode: LatestVersion, start: reader.start.clone(), items_max: None };
    let mut ctx = test_context();
    let page = h.engine.read_changes(&mut ctx, &c, Scope::All, request).await.unwrap();
    assert!(page.changes.is_empty() && page.is_caught_up);
    assert_eq!(reader.start, ChangesStart::After(page.position));
    assert_eq!(ctx.served.charge.to_string(), "1");
    assert_eq!(ctx.served.ranges.len(), 5);
    assert_eq!(store.hooks.count.load(Ordering::SeqCst), views, "no view was taken");
}

#[tokio::test]
async fn a_feed_pays_for_what_it_reads_where_it_reads_it() {
    let settings = Settings { throttling: Throttling::On, ..Settings::default() };
    let h = Harness::with_settings(Arc::new(MemoryStore::new()), settings);
    let c = h.container_with(spec("c"), 1).await;
    for n in 0..400 {
        h.create(&c, "a", &item(&n.to_string(), "a")).await.unwrap();
    }
    let used = || h.engine.usage(&c)[0].1.consumed;
    let mut reader = Reader::new(&h, &c, Scope::All, LatestVersion, ChangesStart::Beginning);
    let mut seen = 0;
    while seen < 400 {
        let mut ctx = test_context();
        let (before, start) = (used(), reader.start.clone());
        let request = ChangesRequest { mode: LatestVersion, start, items_max: Some(10) };
        let page = h.engine.read_changes(&mut ctx, &c, Scope::All, request).await.unwrap();
        assert_eq!(ctx.served.charge.to_string(), "1.31");
        assert_eq!(used(), before + ctx.served.charge, "what it says is what it pays");
        seen += page.changes.len();
        reader.start = ChangesStart::After(page.position);
    }
    // Polls are charged as well, until the budget is used up.
    let refused = loop {
        match reader.try_page(1).await {
            Ok(page) => assert!(page.is_caught_up),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Throttled);
    h.clock.advance(Duration::from_secs(1));
    reader.page(1).await;
}

#[tokio::test]
async fn what_expired_is_not_shown() {
    let h = Harness::in_memory();
    let c = h.container_with(ContainerSpec { default_ttl: Some(-1), ..spec("c") }, 1).await;
    h.create(&c, "a", r#"{"id":"short","pk":"a","ttl":5}"#).await.unwrap();
    h.create(&c, "a", r#"{"id":"long","pk":"a"}"#).await.unwrap();
    h.clock.advance(Duration::from_secs(5));
    let mut reader = Reader::new(&h, &c, Scope::All, LatestVersion, ChangesStart::Beginning);
    assert_eq!(reader.drain(1).await, ["long"]);
}

#[tokio::test]
async fn a_request_that_waited_goes_by_the_ttl_there_is_now() {
    let h = Harness::in_memory();
    let short = ContainerSpec { default_ttl: Some(1), ..spec("c") };
    let before = h.container_with(short.clone(), 1).await;
    let long = ContainerSpec { default_ttl: Some(30), ..short };
    h.engine.replace_container(&test_context(), before.rid, long, None).await.unwrap();
    h.create(&before, "a", &item("1", "a")).await.unwrap();
    h.clock.advance(Duration::from_secs(5));
    let mut reader = Reader::new(&h, &before, Scope::All, LatestVersion, ChangesStart::Beginning);
    assert_eq!(reader.drain(1).await, ["1"]);
}

#[tokio::test]
async fn a_reader_behind_its_session_is_refused() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let mut ctx =
        RequestContext { session: vec![(RangeId(0), model::Lsn(1_000_000))], ..test_context() };
    let request = ChangesRequest { mode: LatestVersion, start: ChangesStart::Now, items_max: None };
    let read = h.engine.read_changes(&mut ctx, &c, Scope::All, request).await;
    assert_eq!(kind_of(read), ErrorKind::SessionNotAvailable);
    assert_eq!(ctx.served.charge, model::Charge::ZERO, "no meter counted it");
}

#[tokio::test]
async fn a_position_from_the_future_goes_back_to_the_present() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let start = ChangesStart::After("99999999".into());
    let mut reader = Reader::new(&h, &c, Scope::All, LatestVersion, start);
    assert!(reader.page(1).await.is_caught_up);
    h.create(&c, "a", &item("1", "a")).await.unwrap();
    assert_eq!(reader.drain(1).await, ["1"]);
}

#[tokio::test]
async fn all_versions_and_deletes_come_in_order() {
    let h = Harness::in_memory();
    let c = h.container_with(keeping_versions(10), 1).await;
    h.create(&c, "a", &item("before", "a")).await.unwrap();
    let mut reader = Reader::new(&h, &c, Scope::All, AllVersionsAndDeletes, ChangesStart::Now);
    assert!(reader.page(MANY).await.changes.is_empty());
    h.create(&c, "a", &item("1", "a")).await.unwrap();
    h.write(&c, "a", upsert("1", "a")).await.unwrap();
    h.write(&c, "a", delete("1")).await.unwrap();
    h.create(&c, "a", &item("1", "a")).await.unwrap();
    let rename = ItemOp::Replace { id: "1".into(), body: body(&item("2", "a")), if_match: None };
    h.write(&c, "a", rename).await.unwrap();
    let start = reader.start.clone();
    let expected = ["create 1", "replace 1", "delete 1", "create 1", "delete 1", "create 2"];
    assert_eq!(reader.drain(1).await, expected);
    reader.start = start;
    let page = reader.page(MANY).await;
    let [
        ItemChange::Put { item: created, previous: None },
        ItemChange::Put { previous, .. },
        ItemChange::Delete(deleted),
        ..,
    ] = page.changes.as_slice()
    else {
        panic!("{:?}", page.changes)
    };
    assert_eq!(*previous, Some(created.lsn()));
    assert_eq!(deleted.previous.unwrap().0, created.lsn().0 + 1);
    assert_eq!(deleted.partition_key(), string_key("a"));
    assert_eq!((deleted.ts, deleted.is_expired), (START_SECONDS, false));
    let last = deleted.last.as_ref().unwrap();
    assert_eq!((Some(last.lsn()), last.rid()), (deleted.previous, created.rid()));
    assert_eq!((&*last.id(), last.body()), ("1", created.body()));
    assert_eq!(created.body(), item("1", "a").as_bytes());
    assert_eq!(created.partition_key(), string_key("a"));
}

#[tokio::test]
async fn all_versions_are_there_only_where_they_are_kept_and_from_now_on() {
    let h = Harness::in_memory();
    let plain = h.container("plain", 1).await;
    let refused = h.changes(&plain, Scope::All, AllVersionsAndDeletes, ChangesStart::Now, 1).await;
    assert_eq!(invalid(refused.err().unwrap()), InvalidRequest::VersionsNotKept);
    let c = h.container_with(keeping_versions(10), 1).await;
    let latest =
        Reader::new(&h, &c, Scope::All, LatestVersion, ChangesStart::Now).page(1).await.position;
    for start in
        [ChangesStart::Beginning, ChangesStart::Time(START_SECONDS), ChangesStart::After(latest)]
    {
        let read = h.changes(&c, Scope::All, AllVersionsAndDeletes, start, 1).await;
        assert_eq!(kind_of(read), ErrorKind::BadRequest);
    }
}

#[tokio::test]
async fn positions_older_than_the_retention_are_refused_and_polls_keep_them_young() {
    let h = Harness::in_memory();
    let c = h.container_with(keeping_versions(5), 2).await;
    let mut polling = Reader::new(&h, &c, Scope::All, AllVersionsAndDeletes, ChangesStart::Now);
    polling.page(MANY).await;
    let mut sleeping = Reader::new(&h, &c, Scope::All, AllVersionsAndDeletes, ChangesStart::Now);
    sleeping.page(MANY).await;
    for _ in 0..3 {
        h.clock.advance(Duration::from_secs(120));
        assert!(polling.page(MANY).await.changes.is_empty());
    }
    h.create(&c, "a", &item("1", "a")).await.unwrap();
    let refused = sleeping.try_page(MANY).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::BadRequest);
    assert_eq!(invalid(refused), InvalidRequest::VersionsRemoved);
    assert_eq!(polling.drain(MANY).await, ["create 1"]);
}

#[tokio::test]
async fn versions_that_were_let_go_are_not_taken_for_kept_ones() {
    let h = Harness::in_memory();
    let c = h.container_with(keeping_versions(5), 1).await;
    let mut reader = Reader::new(&h, &c, Scope::All, AllVersionsAndDeletes, ChangesStart::Now);
    reader.page(MANY).await;
    h.clock.advance(Duration::from_secs(60));
    let replace = async |minutes: u32| {
        h.engine
            .replace_container(&test_context(), c.rid, keeping_versions(minutes), None)
            .await
            .unwrap()
    };
    let off = replace(0).await;
    h.create(&off, "a", &item("unseen", "a")).await.unwrap();
    reader.container = replace(5).await;
    assert_eq!(kind_of(reader.try_page(MANY).await), ErrorKind::BadRequest);
    reader.start = ChangesStart::Now;
    reader.page(MANY).await;
    h.create(&reader.container, "a", &item("seen", "a")).await.unwrap();
    assert_eq!(reader.drain(MANY).await, ["create seen"]);
    // Versions removed by a shorter retention stay removed when it becomes longer again.
    h.create(&reader.container, "a", &item("let go", "a")).await.unwrap();
    h.clock.advance(Duration::from_secs(120));
    replace(1).await;
    reader.container = replace(60).await;
    assert_eq!(kind_of(reader.try_page(MANY).await), ErrorKind::BadRequest);
}

#[tokio::test]
async fn a_request_that_waited_goes_by_the_retention_there_is_now() {
    let h = Harness::in_memory();
    let before = h.container_with(keeping_versions(60), 1).await;
    let mut reader = Reader::new(&h, &before, Scope::All, AllVersionsAndDeletes, ChangesStart::Now);
    reader.page(MANY).await;
    h.create(&before, "a", &item("1", "a")).await.unwrap();
    h.clock.advance(Duration::from_secs(300));
    h.engine
        .replace_container(&test_context(), before.rid, keeping_versions(1), None)
        .await
        .unwrap();
    assert_eq!(kind_of(reader.try_page(MANY).await), ErrorKind::BadRequest);
}

#[tokio::test]
async fn a_reader_of_a_quiet_container_may_sleep_as_long_as_it_likes() {
    let h = Harness::in_memory();
    let c = h.container_with(keeping_versions(1), 1).await;
    let mut reader = Reader::new(&h, &c, Scope::All, AllVersionsAndDeletes, ChangesStart::Now);
    reader.page(MANY).await;
    h.clock.advance(Duration::from_secs(3_600));
    assert!(reader.page(MANY).await.is_caught_up);
    h.create(&c, "a", &item("1", "a")).await.unwrap();
    assert_eq!(reader.drain(MANY).await, ["create 1"]);
}

/// Lets the sweep run until `is_done`.
async fn sweep_until(h: &Harness, mut is_done: impl AsyncFnMut() -> bool) {
    for _ in 0..50 {
        h.clock.advance(Duration::from_secs(1));
        for _ in 0..5_000 {
            if is_done().await {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
    panic!("the sweep did not do it");
}

#[tokio::test]
async fn expiry_is_a_delete_that_says_so() {
    let h = Harness::in_memory();
    let kept = ContainerSpec { default_ttl: Some(5), ..keeping_versions(60) };
    let c = h.container_with(kept, 1).await;
    let mut reader = Reader::new(&h, &c, Scope::All, AllVersionsAndDeletes, ChangesStart::Now);
    reader.page(MANY).await;
    h.create(&c, "a", &item("swept", "a")).await.unwrap();
    h.create(&c, "a", &item("reused", "a")).await.unwrap();
    h.clock.advance(Duration::from_secs(5));
    h.write(&c, "a", upsert("reused", "a")).await.unwrap();
    let mut seen = Vec::new();
    sweep_until(&h, async || {
        seen.extend(reader.drain(MANY).await);
        seen.contains(&"expire swept".to_owned())
    })
    .await;
    let of = |id: &str| seen.iter().filter(|s| s.ends_with(id)).cloned().collect::<Vec<_>>();
    assert_eq!(of("swept"), ["create swept", "expire swept"]);
    assert_eq!(of("reused")[..3], ["create reused", "expire reused", "create reused"]);
}

#[tokio::test]
async fn versions_over_their_time_are_taken_away() {
    let h = Harness::in_memory();
    let c = h.container_with(keeping_versions(1), 1).await;
    for n in 0..10 {
        h.create(&c, "a", &item(&n.to_string(), "a")).await.unwrap();
    }
    let count = || {
        let view = h.store.view();
        let range = KeyRange::half_open(&[0x31], &[0x32]);
        let mut cursor = view.scan(PartitionId(1), range, Dir::Fwd).unwrap();
        let mut count = 0;
        while cursor.next().unwrap().is_some() {
            count += 1;
        }
        count
    };
    assert_eq!(count(), 10);
    h.clock.advance(Duration::from_secs(100));
    h.create(&c, "a", &item("young", "a")).await.unwrap();
    sweep_until(&h, async || count() == 1).await;
    h.engine.replace_container(&test_context(), c.rid, keeping_versions(0), None).await.unwrap();
    sweep_until(&h, async || count() == 0).await;
}

#[tokio::test]
async fn positions_and_versions_survive_a_restart() {
    let store = Arc::new(FaultyStore::in_memory());
    let h = Harness::on(Arc::<FaultyStore>::clone(&store));
    let c = h.container_with(keeping_versions(10), 3).await;
    let mut all = Reader::new(&h, &c, Scope::All, AllVersionsAndDeletes, ChangesStart::Now);
    all.page(MANY).await;
    let mut latest = Reader::new(&h, &c, Scope::All, LatestVersion, ChangesStart::Now);
    latest.page(MANY).await;
    for n in 0..6 {
        let key = n.to_string();
        h.create(&c, &key, &item(&key, &key)).await.unwrap();
    }
    let before = latest.page(2).await.changes.len();
    let (all, latest) = (all.start, latest.start);
    let again = Harness::on(Arc::new(store.crash(0)));
    let c = again.find("c");
    assert_eq!(c.spec.versions_minutes, 10);
    let mut all = Reader::new(&again, &c, Scope::All, AllVersionsAndDeletes, all);
    assert_eq!(all.drain(1).await.len(), 6);
    let mut latest = Reader::new(&again, &c, Scope::All, LatestVersion, latest);
    assert_eq!(latest.drain(1).await.len() + before, 6);
}
