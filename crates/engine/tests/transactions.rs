//! Transactions of one logical partition: what they read, when they are committed and when not.

#![expect(clippy::disallowed_methods, reason = "several commits at once need tasks")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::ops::{EtagCondition, ItemOp, ItemOutcome, PageRequest, Row, Scope};
use engine::repartition::{JobPhase, Progression, SplitPoint};
use engine::transaction::Transaction;
use engine::{Container, Error, RangeId, StoredItem};
use model::{ErrorKind, Value};
use testkit::harness::{Harness, body, string_key, test_context};
use testkit::properties::TestProperties;
use tokio::runtime::Handle;

fn begin(h: &Harness, c: &Arc<Container>, key: &str) -> Transaction {
    // A transaction ends with the context of its request, so this one is kept.
    let ctx = Box::leak(Box::new(test_context()));
    h.engine.begin(ctx, c, &string_key(key)).expect("a transaction")
}

fn create(text: &str) -> ItemOp {
    ItemOp::Create { body: body(text) }
}

fn read(id: &str) -> ItemOp {
    ItemOp::Read { id: id.into(), if_none_match: None }
}

fn rows(tx: &mut Transaction, query: &str) -> Vec<String> {
    let plan = lang::nosql::compile(query, &[]).expect("a query");
    let page = tx.query(plan, PageRequest::default()).expect("a page");
    let text = |row: &Row| match row {
        Row::Item(item) => item.id().into_owned(),
        Row::Json(text) => String::from_utf8(text.clone()).expect("a text"),
    };
    page.rows.iter().map(text).collect()
}

async fn commit(h: &Harness, tx: Transaction) -> Result<engine::transaction::Committed, Error> {
    h.engine.commit_transaction(&mut test_context(), tx).await
}

async fn overtaken(h: &Harness, tx: Transaction) -> bool {
    match commit(h, tx).await {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            true
        }
    }
}

fn item(outcome: ItemOutcome) -> StoredItem {
    outcome.item().expect("an item").clone()
}

#[tokio::test]
async fn only_the_transaction_sees_its_writes_before_the_commit() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    h.create(&c, "k", r#"{"id":"old","pk":"k","n":1}"#).await.unwrap();
    h.create(&c, "k", r#"{"id":"gone","pk":"k","n":2}"#).await.unwrap();
    let mut tx = begin(&h, &c, "k");
    let made = item(tx.apply(create(r#"{"id":"new","pk":"k","n":3}"#)).unwrap());
    tx.apply(ItemOp::Delete { id: "gone".into(), if_match: None }).unwrap();
    let new = body(r#"{"id":"old","pk":"k","n":10}"#);
    let replaced = ItemOp::Replace { id: "old".into(), body: new, if_match: None };
    let replaced = item(tx.apply(replaced).unwrap());
    assert_eq!(item(tx.apply(read("new")).unwrap()).etag(), made.etag());
    assert_eq!(tx.apply(read("gone")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(rows(&mut tx, "SELECT VALUE c.n FROM c ORDER BY c.n"), ["3", "10"]);
    assert_eq!(rows(&mut tx, "SELECT VALUE c.id FROM c WHERE c.n = 10"), [r#""old""#]);
    assert_eq!(rows(&mut tx, "SELECT VALUE COUNT(1) FROM c"), ["2"]);
    assert_eq!(h.list(&c, Scope::All, 10).await, ["old", "gone"]);

    let text = format!("[{:?}, {:?}]", made.etag().unquoted(), made.rid().to_string());
    let committed = commit(&h, tx).await.unwrap();
    assert_eq!(h.list(&c, Scope::All, 10).await, ["old", "new"]);
    let stored = committed.outcomes[0].item().unwrap();
    let wanted = format!("[{:?}, {:?}]", stored.etag().unquoted(), stored.rid().to_string());
    assert_ne!(text, wanted);
    assert_eq!(committed.rename(&text), wanted);
    let renamed = committed.rename(&replaced.etag().unquoted());
    assert_eq!(renamed, committed.outcomes[2].item().unwrap().etag().unquoted());
    assert_eq!(committed.rename("CA== -4000- x"), "CA== -4000- x");
}

#[tokio::test]
async fn a_failed_operation_leaves_the_transaction_as_it_was() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let mut tx = begin(&h, &c, "k");
    let made = item(tx.apply(create(r#"{"id":"a","pk":"k"}"#)).unwrap());
    let again = tx.apply(create(r#"{"id":"a","pk":"k"}"#)).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let elsewhere = tx.apply(create(r#"{"id":"b","pk":"other"}"#)).unwrap_err();
    assert_eq!(elsewhere.kind(), ErrorKind::PartitionKeyMismatch);
    let wrong = EtagCondition::parse("\"wrong\"");
    let refused = ItemOp::Delete { id: "a".into(), if_match: Some(wrong) };
    assert_eq!(tx.apply(refused).unwrap_err().kind(), ErrorKind::PreconditionFailed);
    let right = EtagCondition::parse(&made.etag().to_string());
    let new = body(r#"{"id":"a","pk":"k","n":2}"#);
    tx.apply(ItemOp::Replace { id: "a".into(), body: new, if_match: Some(right) }).unwrap();
    commit(&h, tx).await.unwrap();
    assert_eq!(h.list(&c, Scope::All, 10).await, ["a"]);
}

#[tokio::test]
async fn what_is_dropped_never_happened() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let mut tx = begin(&h, &c, "k");
    tx.apply(create(r#"{"id":"a","pk":"k"}"#)).unwrap();
    drop(tx);
    assert!(h.list(&c, Scope::All, 10).await.is_empty());
}

#[tokio::test]
async fn only_what_was_looked_at_must_stay_as_it_was() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    h.create(&c, "k", r#"{"id":"a","pk":"k"}"#).await.unwrap();
    let write_new = |tx: &mut Transaction, id: &str| {
        tx.apply(create(&format!(r#"{{"id":"{id}","pk":"k"}}"#))).unwrap();
    };
    // A write to another logical partition does not matter, not even to a transaction that read all
    // of this one.
    let mut tx = begin(&h, &c, "k");
    rows(&mut tx, "SELECT * FROM c");
    write_new(&mut tx, "1");
    h.create(&c, "other", r#"{"id":"a","pk":"other"}"#).await.unwrap();
    assert!(!overtaken(&h, tx).await);
    // A write to another item does not matter to a transaction that read single items.
    let mut tx = begin(&h, &c, "k");
    tx.apply(read("a")).unwrap();
    write_new(&mut tx, "2");
    h.create(&c, "k", r#"{"id":"b","pk":"k"}"#).await.unwrap();
    assert!(!overtaken(&h, tx).await);
    // It does matter to a transaction that read all items.
    let mut tx = begin(&h, &c, "k");
    rows(&mut tx, "SELECT * FROM c");
    write_new(&mut tx, "3");
    h.create(&c, "k", r#"{"id":"c","pk":"k"}"#).await.unwrap();
    assert!(tx.check().is_err());
    assert!(overtaken(&h, tx).await);
    // A write to an item that was read does matter, also if the item did not exist.
    for (seen, written) in [("a", "a"), ("none", "none")] {
        let mut tx = begin(&h, &c, "k");
        let _ = tx.apply(read(seen));
        write_new(&mut tx, "4");
        let op = ItemOp::Upsert {
            body: body(&format!(r#"{{"id":"{written}","pk":"k","n":1}}"#)),
            if_match: None,
        };
        let ctx = &mut test_context();
        h.engine.write_item(ctx, &c, Some(string_key("k")), op).await.unwrap();
        assert!(tx.check().is_ok(), "single items are left to the committer");
        assert!(overtaken(&h, tx).await);
    }
    // A transaction without writes has seen one state, whatever happened since.
    let mut tx = begin(&h, &c, "k");
    rows(&mut tx, "SELECT * FROM c");
    h.create(&c, "k", r#"{"id":"d","pk":"k"}"#).await.unwrap();
    assert!(!overtaken(&h, tx).await);
    assert!(!h.list(&c, Scope::All, 100).await.contains(&"3".to_owned()));
}

#[tokio::test]
async fn two_transactions_that_count_never_lose_one() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    h.create(&c, "k", r#"{"id":"count","pk":"k","n":0}"#).await.unwrap();
    let add = |tx: &mut Transaction| {
        let item = item(tx.apply(read("count")).unwrap());
        let n = item.to_value(&TestProperties).unwrap().field("n").unwrap().as_i64().unwrap() + 1;
        let body = body(&format!(r#"{{"id":"count","pk":"k","n":{n}}}"#));
        tx.apply(ItemOp::Replace { id: "count".into(), body, if_match: None }).unwrap();
    };
    let mut committed = 0;
    for _ in 0..10 {
        let mut all: Vec<_> = (0..4).map(|_| begin(&h, &c, "k")).collect();
        all.iter_mut().for_each(add);
        let commits = all.into_iter().map(|tx| {
            let engine = h.engine.clone();
            tokio::spawn(
                async move { engine.commit_transaction(&mut test_context(), tx).await.is_ok() },
            )
        });
        for commit in commits.collect::<Vec<_>>() {
            committed += i64::from(commit.await.unwrap());
        }
    }
    assert!(committed >= 10);
    let mut tx = begin(&h, &c, "k");
    assert_eq!(rows(&mut tx, "SELECT VALUE c.n FROM c"), [committed.to_string()]);
}

#[tokio::test]
async fn a_split_in_between_is_noticed() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    for n in 0..20 {
        h.create(&c, &format!("{n}"), &format!(r#"{{"id":"a","pk":"{n}"}}"#)).await.unwrap();
    }
    let mut tx = begin(&h, &c, "3");
    tx.apply(read("a")).unwrap();
    tx.apply(create(r#"{"id":"b","pk":"3"}"#)).unwrap();
    let (range, how) = (RangeId(0), Progression::Automatic);
    let job = h
        .engine
        .start_split(&test_context(), c.rid, range, SplitPoint::ByteMedian, how)
        .await
        .unwrap();
    assert_eq!(h.engine.finish_job(job.id).await.unwrap().phase, JobPhase::Succeeded);
    assert_eq!(rows(&mut tx, "SELECT VALUE c.id FROM c"), [r#""a""#, r#""b""#]);
    assert!(overtaken(&h, tx).await);
    let c = &h.find("c");
    let mut tx = begin(&h, c, "3");
    tx.apply(create(r#"{"id":"b","pk":"3"}"#)).unwrap();
    assert!(!overtaken(&h, tx).await);
}

#[tokio::test]
async fn a_transaction_pays_for_what_it_does() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let ctx = &mut test_context();
    let mut tx = h.engine.begin(ctx, &c, &string_key("k")).unwrap();
    let before = tx.charge();
    tx.apply(create(r#"{"id":"a","pk":"k"}"#)).unwrap();
    let written = tx.charge();
    assert!(written > before);
    rows(&mut tx, "SELECT * FROM c");
    assert!(tx.charge() > written && tx.has_room());
    let charge = tx.charge();
    h.engine.commit_transaction(ctx, tx).await.unwrap();
    assert_eq!(ctx.served.charge, charge);
    let used = h.engine.usage(&c)[0].1.consumed;
    assert_eq!(used, charge);
}

#[tokio::test]
async fn work_that_conflicts_is_done_again_and_then_alone() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    h.create(&c, "k", r#"{"id":"n","pk":"k","n":0}"#).await.unwrap();
    let increments = (0..8).map(|_| {
        let (engine, c) = (h.engine.clone(), Arc::clone(&c));
        tokio::spawn(async move {
            let ctx = &mut test_context();
            let work = |mut tx: Transaction| {
                move || {
                    let done = increment(&mut tx);
                    (tx, done)
                }
            };
            engine.transact(ctx, &c, &string_key("k"), work).await.map(|(n, _)| n)
        })
    });
    let mut seen = Vec::new();
    for task in increments.collect::<Vec<_>>() {
        seen.push(task.await.unwrap().unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=8).collect::<Vec<_>>(), "each saw the one before");
}

/// Adds one to the item `n` and returns its new number.
fn increment(tx: &mut Transaction) -> Result<i64, Error> {
    let stored = item(tx.apply(read("n"))?).to_value(&TestProperties)?;
    let n = stored.field("n").and_then(Value::as_i64).expect("a number") + 1;
    let text = format!(r#"{{"id":"n","pk":"k","n":{n}}}"#);
    tx.apply(ItemOp::Upsert { body: body(&text), if_match: None })?;
    Ok(n)
}

#[tokio::test]
async fn work_that_conflicts_every_time_ends_as_a_conflict() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    h.create(&c, "k", r#"{"id":"n","pk":"k","n":0}"#).await.unwrap();
    let (attempts, runtime) = (Arc::new(AtomicUsize::new(0)), Handle::current());
    let ctx = &mut test_context();
    let work = |mut tx: Transaction| {
        let (attempts, runtime) = (Arc::clone(&attempts), runtime.clone());
        let (engine, c) = (h.engine.clone(), Arc::clone(&c));
        move || {
            attempts.fetch_add(1, Ordering::Relaxed);
            let done = increment(&mut tx);
            let other =
                ItemOp::Upsert { body: body(r#"{"id":"n","pk":"k","n":0}"#), if_match: None };
            let ctx = &mut test_context();
            let other = engine.write_item(ctx, &c, Some(string_key("k")), other);
            runtime.block_on(other).expect("a write");
            (tx, done)
        }
    };
    let result = h.engine.transact(ctx, &c, &string_key("k"), work).await;
    assert_eq!(result.map(|_| ()).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(attempts.load(Ordering::Relaxed), 10);
    let failed = |mut tx: Transaction| {
        move || {
            let done = tx.apply(read("missing")).map(drop);
            (tx, done)
        }
    };
    let result = h.engine.transact(ctx, &c, &string_key("k"), failed).await;
    assert_eq!(result.map(|_| ()).unwrap_err().kind(), ErrorKind::NotFound, "done once");
}
