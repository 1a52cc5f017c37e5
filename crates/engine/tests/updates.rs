//! Updates that depend on the stored version, runs of them, statements that are sent again, and
//! commits over several logical partitions.

#![expect(clippy::unwrap_used, reason = "a test that can not go on should stop")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use engine::ops::{EtagCondition, ItemBody, ItemOp, ItemOutcome, OpResult, Scope};
use engine::repartition::{JobPhase, Progression, SplitPoint};
use engine::run::{RetrySession, Run, RunOp};
use engine::together::Part;
use engine::update::{Change, ItemView, Refusal, Update};
use engine::{Container, Error, RangeId, StoredItem};
use model::{ErrorKind, Value};
use storage::MemoryStore;
use testkit::harness::{Harness, body, string_key, test_context};
use testkit::hooked::{HookedStore, Hooks};

/// Adds to the property `n`, up to a limit at which items stay as they are.
#[derive(Debug)]
struct Add {
    by: i64,
    limit: i64,
    is_cheap: bool,
    applied: AtomicUsize,
}

impl Add {
    fn op(id: &str, by: i64) -> ItemOp {
        Self::op_of(id, by, i64::MAX, true)
    }

    fn op_of(id: &str, by: i64, limit: i64, is_cheap: bool) -> ItemOp {
        let update = Arc::new(Self { by, limit, is_cheap, applied: AtomicUsize::new(0) });
        ItemOp::Update { id: id.into(), update, if_match: None }
    }
}

impl Update for Add {
    fn apply(&self, old: Option<&ItemView<'_>>) -> Result<Change, Refusal> {
        self.applied.fetch_add(1, Ordering::Relaxed);
        let Some(old) = old else {
            let message = "there is nothing to count".to_owned();
            return Err(Refusal::Rule { code: 77, message });
        };
        let mut value = old.value()?;
        let n = value.field("n").and_then(Value::as_i64).unwrap_or(0);
        if n >= self.limit {
            return Ok(Change::Keep);
        }
        value.as_object_mut().unwrap().insert("n", Value::Int64(n + self.by));
        Ok(Change::Put(ItemBody::from_value(value)?))
    }

    fn is_cheap(&self) -> bool {
        self.is_cheap
    }
}

/// Does the same to every version.
#[derive(Debug)]
struct Always(Change);

impl Update for Always {
    fn apply(&self, _: Option<&ItemView<'_>>) -> Result<Change, Refusal> {
        Ok(self.0.clone())
    }

    fn is_cheap(&self) -> bool {
        true
    }
}

fn always(id: &str, change: Change) -> ItemOp {
    ItemOp::Update { id: id.into(), update: Arc::new(Always(change)), if_match: None }
}

fn item(id: &str, pk: &str, n: i64) -> String {
    format!(r#"{{"id":"{id}","pk":"{pk}","n":{n}}}"#)
}

fn n_of(item: &StoredItem) -> i64 {
    let value = item.to_value(&engine::item::NoSystemProperties).unwrap();
    value.field("n").and_then(Value::as_i64).unwrap()
}

fn updated(outcome: ItemOutcome) -> (Option<Box<StoredItem>>, Option<StoredItem>) {
    let ItemOutcome::Updated { before, after } = outcome else { panic!("{outcome:?}") };
    (before, after)
}

fn audit(h: &Harness) {
    assert_eq!(h.engine.audit().unwrap().findings, Vec::<String>::new());
}

#[tokio::test]
async fn an_update_is_told_the_item_and_tells_it_before_and_after() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    h.create(&c, "a", &item("1", "a", 1)).await.unwrap();
    for is_cheap in [true, false] {
        let op = Add::op_of("1", 10, i64::MAX, is_cheap);
        let (before, after) = updated(h.write(&c, "a", op).await.unwrap());
        assert_eq!(n_of(&after.unwrap()) - n_of(&before.unwrap()), 10);
    }
    let (before, after) = updated(
        h.write(&c, "a", always("2", Change::Put(body(&item("2", "a", 5))))).await.unwrap(),
    );
    assert!(before.is_none() && n_of(&after.unwrap()) == 5, "created");
    let (before, after) = updated(h.write(&c, "a", always("2", Change::Delete)).await.unwrap());
    assert!(n_of(&before.unwrap()) == 5 && after.is_none(), "deleted");
    for nothing in [Change::Delete, Change::Keep] {
        let (before, after) = updated(h.write(&c, "a", always("2", nothing)).await.unwrap());
        assert!(before.is_none() && after.is_none());
    }
    match h.write(&c, "a", Add::op("2", 1)).await {
        Err(Error::UpdateRefused { code: 77, message }) => {
            assert_eq!(&*message, "there is nothing to count");
        }
        other => panic!("{other:?}"),
    }
    for moved in [item("2", "a", 0), item("1", "b", 0)] {
        let refused = h.write(&c, "a", always("1", Change::Put(body(&moved)))).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::BadRequest, "{moved}");
    }
    let stale = ItemOp::Update {
        id: "1".into(),
        update: Arc::new(Always(Change::Delete)),
        if_match: Some(EtagCondition::Is("another".into())),
    };
    let refused = h.write(&c, "a", stale).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PreconditionFailed);
    assert_eq!(n_of(&h.read(&c, "a", "1").unwrap()), 21);
    audit(&h);
}

#[tokio::test]
async fn what_is_kept_takes_no_position_and_no_place_in_the_change_feed() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let created = h.create(&c, "a", &item("1", "a", 9)).await.unwrap();
    let lsn = c.routing().ranges()[0].lsn();
    for is_cheap in [true, false] {
        let (before, after) =
            updated(h.write(&c, "a", Add::op_of("1", 1, 9, is_cheap)).await.unwrap());
        assert_eq!(before.unwrap().etag(), created.etag());
        assert_eq!(after.unwrap().etag(), created.etag());
    }
    assert_eq!(c.routing().ranges()[0].lsn(), lsn);
    assert_eq!(h.read(&c, "a", "1").unwrap().etag(), created.etag());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_that_count_never_lose_one_however_large_the_item_is() {
    for (padding, is_cheap) in [(0, true), (0, false), (20_000, true)] {
        let h = Arc::new(Harness::in_memory());
        let c = h.container("c", 1).await;
        let padding = "x".repeat(padding);
        let text = format!(r#"{{"id":"1","pk":"a","n":0,"padding":"{padding}"}}"#);
        h.create(&c, "a", &text).await.unwrap();
        let mut counters = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let (h, c) = (Arc::clone(&h), Arc::clone(&c));
            counters.spawn(async move {
                for _ in 0..10 {
                    h.write(&c, "a", Add::op_of("1", 1, i64::MAX, is_cheap)).await.unwrap();
                }
            });
        }
        counters.join_all().await;
        assert_eq!(n_of(&h.read(&c, "a", "1").unwrap()), 160);
        audit(&h);
    }
}

/// Counts the batches, each of which is one sync.
#[derive(Default)]
struct Syncs(AtomicU64);

impl Hooks for Syncs {
    fn before_write(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn run_of(ops: impl IntoIterator<Item = ItemOp>, stops_at_error: bool) -> Run {
    let ops = (0..).zip(ops).map(|(statement, op)| RunOp { key: None, op, statement });
    Run { ops: ops.collect(), stops_at_error, retry: None }
}

fn create(id: usize) -> ItemOp {
    ItemOp::Create { body: body(&item(&id.to_string(), &(id % 7).to_string(), 0)) }
}

async fn run(h: &Harness, c: &Arc<Container>, run: Run) -> Vec<OpResult> {
    h.engine.run(&mut test_context(), c, run).await.unwrap()
}

#[tokio::test]
async fn a_run_needs_one_sync_for_hundreds_of_documents() {
    let store = HookedStore::new(MemoryStore::new(), Syncs::default());
    let h = Harness::on(Arc::<HookedStore<MemoryStore, Syncs>>::clone(&store));
    let c = h.container("c", 4).await;
    let before = store.hooks.0.load(Ordering::Relaxed);
    let results = run(&h, &c, run_of((0..5_000).map(create), true)).await;
    assert!(results.len() == 5_000 && results.iter().all(|result| !result.has_failed()));
    let syncs = store.hooks.0.load(Ordering::Relaxed) - before;
    assert!(syncs <= 5_000 / 256, "{syncs}");
    assert_eq!(h.list(&c, Scope::All, 1_000).await.len(), 5_000);
    audit(&h);
}

#[tokio::test]
async fn an_ordered_run_ends_at_its_first_failure_and_another_goes_on() {
    let h = Harness::in_memory();
    let c = h.container("c", 3).await;
    h.create(&c, "2", &item("1500", "2", 0)).await.unwrap();
    assert_eq!(1500 % 7, 2);
    let results = run(&h, &c, run_of((0..3_000).map(create), true)).await;
    assert_eq!(results.len(), 1_501);
    let error = results[1_500].outcome.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(results[..1_500].iter().all(|result| !result.has_failed()));
    assert_eq!(h.list(&c, Scope::All, 1_000).await.len(), 1_501);
    let results = run(&h, &c, run_of((1_499..3_000).map(create), false)).await;
    let failed: Vec<_> = (1_499..).zip(&results).filter(|(_, r)| r.has_failed()).collect();
    assert_eq!(failed.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1_499, 1_500]);
    assert_eq!(h.list(&c, Scope::All, 1_000).await.len(), 3_000);
    // What can't be prepared ends a run like anything else, after what is before it.
    let bad = ItemOp::Create { body: body(r#"{"pk":"a"}"#) };
    let ops = [create(10_000), bad, create(10_001)];
    let results = run(&h, &c, run_of(ops.clone(), true)).await;
    assert_eq!((results.len(), results[1].has_failed()), (2, true));
    let results = run(&h, &c, run_of(ops, false)).await;
    let failed: Vec<bool> = results.iter().map(OpResult::has_failed).collect();
    assert_eq!(failed, [true, true, false]);
    audit(&h);
}

#[tokio::test]
async fn each_operation_of_a_run_sees_those_before_it() {
    let h = Harness::in_memory();
    let c = h.container("c", 2).await;
    let add = |is_cheap| RunOp {
        key: Some(string_key("3")),
        op: Add::op_of("3", 1, i64::MAX, is_cheap),
        statement: 0,
    };
    let mut ops = vec![RunOp { key: None, op: create(3), statement: 0 }];
    ops.extend((0..40).map(|n| add(n % 5 != 0)));
    let all = Run { ops, stops_at_error: true, retry: None };
    let results = run(&h, &c, all).await;
    assert!(results.iter().all(|result| !result.has_failed()));
    assert_eq!(n_of(&h.read(&c, "3", "3").unwrap()), 40);
}

fn describe(results: &[OpResult]) -> Vec<u8> {
    let item =
        |result: &OpResult| result.outcome.as_ref().ok().and_then(ItemOutcome::item).cloned();
    let n =
        |result: &OpResult| item(result).map_or("gone".to_owned(), |item| n_of(&item).to_string());
    results.iter().map(n).collect::<Vec<_>>().join(" ").into_bytes()
}

fn session(number: i64) -> RetrySession {
    RetrySession { session: Bytes::from_static(b"session"), number, describe }
}

/// A run of one statement for each key, which adds to the item `1`.
fn add_once(number: i64, keys: &[&str], is_cheap: bool) -> Run {
    let op = |(statement, key): (i32, &&str)| RunOp {
        key: Some(string_key(key)),
        op: Add::op_of("1", 1, i64::MAX, is_cheap),
        statement,
    };
    let ops = (0..).zip(keys).map(op).collect();
    Run { ops, stops_at_error: false, retry: Some(session(number)) }
}

/// Whether each statement was carried out, or what was noted of it.
fn noted(results: Vec<OpResult>) -> Vec<Option<String>> {
    let noted = |result: OpResult| {
        let outcome = result.outcome.unwrap();
        let ItemOutcome::Repeated(note) = outcome else { return None };
        Some(String::from_utf8(note.to_vec()).unwrap())
    };
    results.into_iter().map(noted).collect()
}

#[tokio::test]
async fn a_statement_that_is_sent_again_is_carried_out_once() {
    let h = Harness::in_memory();
    let c = h.container("c", 3).await;
    let keys = ["a", "b", "c"];
    for key in keys {
        h.create(&c, key, &item("1", key, 5)).await.unwrap();
    }
    for is_cheap in [true, false] {
        let number = if is_cheap { 1 } else { 2 };
        let first = run(&h, &c, add_once(number, &keys[..2], is_cheap)).await;
        assert_eq!(noted(first), [None, None]);
        // The answer was lost; the third statement had not been sent.
        let again = noted(run(&h, &c, add_once(number, &keys, is_cheap)).await);
        let n = (5 + number).to_string();
        assert_eq!(again, [Some(n.clone()), Some(n), None]);
        for key in keys {
            assert_eq!(n_of(&h.read(&c, key, "1").unwrap()), 5 + number);
        }
    }
    let older = run(&h, &c, add_once(1, &keys[..1], true)).await;
    assert!(matches!(older[0].outcome, Err(Error::RetryTooOld { newest: 2 })), "{older:?}");
    // What failed is not noted: it may succeed when it is sent again.
    let missing = add_once(3, &["d"], true);
    assert!(run(&h, &c, missing.clone()).await[0].has_failed());
    h.create(&c, "d", &item("1", "d", 0)).await.unwrap();
    assert_eq!(noted(run(&h, &c, missing.clone()).await), [None]);
    assert_eq!(noted(run(&h, &c, missing).await), [Some("1".to_owned())]);
    audit(&h);
}

#[tokio::test]
async fn a_statement_that_changed_nothing_is_noted_too() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    h.create(&c, "a", &item("1", "a", 9)).await.unwrap();
    for (number, is_cheap) in [(1, true), (2, false)] {
        let op = Add::op_of("1", 1, 9, is_cheap);
        let ops = vec![RunOp { key: Some(string_key("a")), op, statement: 0 }];
        let keep = Run { ops, stops_at_error: true, retry: Some(session(number)) };
        assert_eq!(noted(run(&h, &c, keep.clone()).await), [None]);
        let lower = ItemOp::Upsert { body: body(&item("1", "a", 0)), if_match: None };
        h.write(&c, "a", lower).await.unwrap();
        assert_eq!(noted(run(&h, &c, keep).await), [Some("9".to_owned())]);
        assert_eq!(n_of(&h.read(&c, "a", "1").unwrap()), 0, "not applied to the later version");
        let raise = ItemOp::Upsert { body: body(&item("1", "a", 9)), if_match: None };
        h.write(&c, "a", raise).await.unwrap();
    }
}

#[tokio::test]
async fn what_was_noted_moves_with_a_split_and_a_merge() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let keys: Vec<String> = (0..20).map(|key| key.to_string()).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    for key in &keys {
        h.create(&c, key, &item("1", key, 0)).await.unwrap();
    }
    assert_eq!(noted(run(&h, &c, add_once(1, &keys, true)).await), vec![None; 20]);
    let automatic = Progression::Automatic;
    let job = h
        .engine
        .start_split(&test_context(), c.rid, RangeId(0), SplitPoint::ByteMedian, automatic)
        .await;
    let ended = h.engine.finish_job(job.unwrap().id).await.unwrap();
    assert_eq!(ended.phase, JobPhase::Succeeded);
    assert_eq!(c.routing().ranges().len(), 2);
    let all_noted = vec![Some("1".to_owned()); 20];
    assert_eq!(noted(run(&h, &c, add_once(1, &keys, true)).await), all_noted);
    let job =
        h.engine.start_merge(&test_context(), c.rid, &[RangeId(1), RangeId(2)], automatic).await;
    let ended = h.engine.finish_job(job.unwrap().id).await.unwrap();
    assert_eq!(ended.phase, JobPhase::Succeeded);
    assert_eq!(noted(run(&h, &c, add_once(1, &keys, true)).await), all_noted);
    audit(&h);
}

/// How many records of sessions a container's partitions hold.
fn records(h: &Harness, c: &Container) -> usize {
    let view = h.store.view();
    let bounds = storage::KeyRange::half_open(&[0x13], &[0x14]);
    let mut count = 0;
    for range in c.routing().ranges() {
        let mut cursor = view.scan(range.partition_id(), bounds, storage::Dir::Fwd).unwrap();
        while cursor.next().unwrap().is_some() {
            count += 1;
        }
    }
    count
}

#[tokio::test]
async fn records_of_sessions_go_when_no_client_asks_any_more() {
    let h = Harness::in_memory();
    let c = h.container("c", 2).await;
    for key in ["a", "b"] {
        h.create(&c, key, &item("1", key, 0)).await.unwrap();
    }
    run(&h, &c, add_once(1, &["a", "b"], true)).await;
    assert_eq!(records(&h, &c), 2);
    for _ in 0..29 {
        h.clock.advance(Duration::from_secs(60));
        tokio::task::yield_now().await;
    }
    assert_eq!(records(&h, &c), 2);
    let again = noted(run(&h, &c, add_once(1, &["a", "b"], true)).await);
    assert_eq!(again, vec![Some("1".to_owned()); 2]);
    while records(&h, &c) > 0 {
        h.clock.advance(Duration::from_secs(10));
        tokio::task::yield_now().await;
    }
    audit(&h);
}

fn part(c: &Arc<Container>, key: &str, ops: Vec<ItemOp>) -> Part {
    Part { container: Arc::clone(c), key: string_key(key), ops }
}

#[tokio::test]
async fn parts_of_one_commit_happen_together_or_not_at_all() {
    let h = Harness::in_memory();
    let c = h.container("c", 4).await;
    h.create(&c, "a", &item("1", "a", 7)).await.unwrap();
    let keys = ["a", "b", "c", "d", "e", "f"];
    let lsns = || c.routing().ranges().iter().map(|r| r.lsn()).collect::<Vec<_>>();
    for pair in keys.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let stored = h.read(&c, from, "1").unwrap();
        let if_match = Some(EtagCondition::Is(stored.etag().unquoted()));
        let delete = ItemOp::Delete { id: "1".into(), if_match };
        let create = ItemOp::Create { body: body(&item("1", to, 7)) };
        let parts = vec![part(&c, from, vec![delete]), part(&c, to, vec![create])];
        let ctx = &mut test_context();
        let moved = h.engine.write_together(ctx, parts.clone(), None).await.unwrap();
        assert!(moved.iter().flatten().all(|result| !result.has_failed()), "{moved:?}");
        assert!(h.read(&c, from, "1").is_err() && h.read(&c, to, "1").is_ok());
        let before = lsns();
        let again = h.engine.write_together(ctx, parts, None).await.unwrap();
        assert_eq!(again[0][0].outcome.as_ref().unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(again[1][0].outcome.as_ref().unwrap_err().kind(), ErrorKind::FailedDependency);
        assert_eq!(lsns(), before);
    }
    // The last part fails: what the others did is undone, in all partitions.
    let others = keys.iter().take(5);
    let mut parts: Vec<_> = others
        .map(|key| part(&c, key, vec![ItemOp::Create { body: body(&item("2", key, 0)) }]))
        .collect();
    parts.push(part(&c, "f", vec![ItemOp::Create { body: body(&item("1", "f", 0)) }]));
    let before = lsns();
    let failed = h.engine.write_together(&mut test_context(), parts, None).await.unwrap();
    assert_eq!(failed[5][0].outcome.as_ref().unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!((h.list(&c, Scope::All, 100).await.len(), lsns()), (1, before));
    audit(&h);
}

#[tokio::test]
async fn a_commit_over_several_partitions_is_noted_once() {
    let h = Harness::in_memory();
    let c = h.container("c", 4).await;
    for key in ["a", "b"] {
        h.create(&c, key, &item("1", key, 0)).await.unwrap();
    }
    let parts = || ["a", "b"].map(|key| part(&c, key, vec![Add::op("1", 1)])).to_vec();
    let retry = || Some((session(4), 0));
    let first = h.engine.write_together(&mut test_context(), parts(), retry()).await.unwrap();
    assert_eq!(first.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    let again = h.engine.write_together(&mut test_context(), parts(), retry()).await.unwrap();
    assert_eq!(noted(again.into_iter().flatten().collect()), [Some("1 1".to_owned())]);
    for key in ["a", "b"] {
        assert_eq!(n_of(&h.read(&c, key, "1").unwrap()), 1);
    }
    audit(&h);
}

#[tokio::test]
async fn who_waits_for_changes_is_told_when_they_are_there() {
    let h = Harness::in_memory();
    let c = h.container("c", 2).await;
    let other = h.container("other", 1).await;
    let mut changed = c.changed();
    h.create(&other, "a", &item("1", "a", 0)).await.unwrap();
    assert!(h.read(&c, "a", "1").is_err());
    assert!(!changed.has_changed().unwrap(), "nothing happened here");
    for key in ["a", "b", "c", "d"] {
        h.create(&c, key, &item("1", key, 0)).await.unwrap();
        assert!(changed.has_changed().unwrap(), "told with the answer at the latest");
        changed.borrow_and_update();
        assert!(h.create(&c, key, &item("1", key, 0)).await.is_err());
        assert!(h.write(&c, key, always("1", Change::Keep)).await.is_ok());
        changed.borrow_and_update();
    }
    let automatic = Progression::Automatic;
    let ctx = test_context();
    let job = h.engine.start_split(&ctx, c.rid, RangeId(0), SplitPoint::ByteMedian, automatic);
    h.engine.finish_job(job.await.unwrap().id).await.unwrap();
    changed.borrow_and_update();
    for key in ["a", "b", "c", "d"] {
        h.write(&c, key, Add::op("1", 1)).await.unwrap();
        assert!(changed.has_changed().unwrap(), "also in the new ranges");
        changed.borrow_and_update();
    }
}
