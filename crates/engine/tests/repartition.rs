//! Splits and merges, through the engine's public methods only.
#![expect(clippy::disallowed_methods, reason = "clients of a test run on the test's own runtime")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::components::Clock;
use engine::ops::{ItemOp, Scope};
use engine::repartition::{JobPhase, Progression, SplitPoint};
use engine::{Container, Error, PartitionStatus, RangeId, RequestContext, Settings, Throughput};
use model::{ErrorKind, Lsn};
use storage::{EmbeddedOptions, EmbeddedStore, LocalStore, MemoryStore};
use testkit::clock::ManualClock;
use testkit::harness::{Harness, body, spec, spec_with_paths, string_key, test_context};

const KEYS: usize = 40;

fn text(key: usize, id: usize, version: usize) -> String {
    format!(r#"{{"id":"{id}","pk":"{key}","version":{version}}}"#)
}

fn upsert(key: usize, id: usize, version: usize) -> ItemOp {
    ItemOp::Upsert { body: body(&text(key, id, version)), if_match: None }
}

async fn fill(h: &Harness, c: &Arc<Container>) {
    for key in 0..KEYS {
        for id in 0..5 {
            h.write(c, &key.to_string(), upsert(key, id, 0)).await.expect("an item");
        }
    }
}

async fn all_ids(h: &Harness, c: &Arc<Container>) -> usize {
    h.list(c, Scope::All, 17).await.len()
}

fn ids(c: &Container) -> Vec<u32> {
    c.routing().ranges().iter().map(|r| r.id.0).collect()
}

/// Checks that the store is consistent.
fn audit(h: &Harness) {
    assert_eq!(h.engine.audit().expect("an audit").findings, Vec::<String>::new());
}

fn counted(c: &Container) -> (u64, u64) {
    let routing = c.routing();
    let ranges = routing.ranges();
    (ranges.iter().map(|r| r.items()).sum(), ranges.iter().map(|r| r.bytes()).sum())
}

async fn split(h: &Harness, c: &Container, range: u32) -> engine::repartition::JobInfo {
    let (range, how) = (RangeId(range), Progression::Automatic);
    let job =
        h.engine.start_split(&test_context(), c.rid, range, SplitPoint::ByteMedian, how).await;
    let ended = h.engine.finish_job(job.expect("a split").id).await.expect("a job");
    assert_eq!(ended.phase, JobPhase::Succeeded);
    ended
}

async fn merge(h: &Harness, c: &Container, ranges: &[u32]) -> engine::repartition::JobInfo {
    let ranges: Vec<_> = ranges.iter().copied().map(RangeId).collect();
    let job = h.engine.start_merge(&test_context(), c.rid, &ranges, Progression::Automatic).await;
    let ended = h.engine.finish_job(job.expect("a merge").id).await.expect("a job");
    assert_eq!(ended.phase, JobPhase::Succeeded);
    ended
}

#[tokio::test]
async fn a_split_and_a_merge_keep_everything() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    fill(&h, &c).await;
    let (before, lsn) = (counted(&c), c.routing().ranges()[0].lsn());
    let list = h.list(&c, Scope::All, 1000).await;

    let job = split(&h, &c, 0).await;
    assert_eq!(ids(&c), [1, 2]);
    assert_eq!(job.children, [RangeId(1), RangeId(2)]);
    let routing = c.routing();
    let [left, right] = routing.ranges() else { panic!("two ranges") };
    assert_eq!((left.epk.min.to_hex(), right.epk.max.to_hex()), (String::new(), "FF".into()));
    assert_eq!(left.epk.max, right.epk.min);
    assert_eq!((left.lsn(), right.lsn()), (lsn, lsn));
    assert_eq!((&left.parents[..], &right.parents[..]), (&[RangeId(0)][..], &[RangeId(0)][..]));
    assert_eq!(counted(&c), before);
    let (small, large) = (left.bytes().min(right.bytes()), left.bytes().max(right.bytes()));
    assert!(large - small <= before.1 / 10, "about half of the bytes each: {small} {large}");
    assert_eq!(h.list(&c, Scope::All, 1000).await, list);
    h.read(&c, "7", "3").unwrap();
    h.write(&c, "7", upsert(7, 3, 1)).await.unwrap();
    let grown = c.routing().ranges().iter().map(|r| r.lsn()).max().unwrap();
    assert_eq!(grown, lsn.next());

    merge(&h, &c, &[1, 2]).await;
    assert_eq!(ids(&c), [3]);
    let routing = c.routing();
    assert_eq!(routing.ranges()[0].parents, [RangeId(0), RangeId(1), RangeId(2)]);
    assert_eq!(routing.ranges()[0].lsn(), grown);
    assert_eq!(counted(&c).0, before.0);
    assert_eq!(h.list(&c, Scope::All, 1000).await, list);
    assert_eq!(routing.version(), 3);
    audit(&h);
}

#[tokio::test]
async fn a_range_that_is_gone_says_so_and_everything_else_goes_on() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    fill(&h, &c).await;
    split(&h, &c, 0).await;
    let stale = Scope::Range { id: RangeId(0), epk: None };
    let mut ctx = test_context();
    let page = h.engine.list_items(&mut ctx, &c, stale, Default::default()).await;
    assert_eq!(page.unwrap_err().kind(), ErrorKind::RangeGone);
    assert_eq!(all_ids(&h, &c).await, KEYS * 5);
    // A session token of the parent is valid for the children, but no later position is.
    let lsn = c.routing().ranges()[0].lsn();
    for (seen, is_good) in [(lsn, true), (lsn.next(), false)] {
        let session = vec![(RangeId(0), seen)];
        let mut ctx = RequestContext { session, ..test_context() };
        let read = h.engine.read_item(&mut ctx, &c, &string_key("1"), "1", None);
        assert_eq!(read.is_ok(), is_good);
        assert!(ctx.served.ranges.iter().all(|(id, _)| *id != RangeId(0)));
    }
}

#[tokio::test]
async fn a_page_goes_on_across_splits_and_merges() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    fill(&h, &c).await;
    let expected = h.list(&c, Scope::All, 1000).await;
    let mut found = Vec::new();
    let mut continuation = None;
    let mut steps = 0;
    loop {
        let request = engine::ops::PageRequest {
            items_max: Some(20),
            continuation,
            ..engine::ops::PageRequest::default()
        };
        let mut ctx = test_context();
        let page = h.engine.list_items(&mut ctx, &c, Scope::All, request).await.unwrap();
        found.extend(page.rows.iter().map(|row| match row {
            engine::ops::Row::Item(item) => item.id().into_owned(),
            engine::ops::Row::Json(_) => unreachable!("a feed has items"),
        }));
        continuation = page.continuation;
        if continuation.is_none() {
            break;
        }
        steps += 1;
        let live = ids(&c);
        match steps % 3 {
            0 => drop(merge(&h, &c, &live[..2]).await),
            _ => drop(split(&h, &c, live[live.len() - 1]).await),
        }
    }
    assert_eq!(found, expected);
    audit(&h);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_and_readers_notice_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store =
        Arc::new(EmbeddedStore::open(dir.path(), EmbeddedOptions::new(engine::KEY_TAGS)).unwrap());
    let h = Arc::new(Harness::on(store));
    let c = h.container("c", 1).await;
    fill(&h, &c).await;
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let clients: Vec<_> = (0..8usize)
        .map(|client| {
            let (h, c, stop) = (Arc::clone(&h), Arc::clone(&c), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut last = BTreeMap::new();
                let mut version = 0;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    version += 1;
                    let key = (client + 8 * (version % 5)) % KEYS;
                    h.write(&c, &key.to_string(), upsert(key, 100 + client, version))
                        .await
                        .unwrap();
                    last.insert(key, version);
                    let other = (key + 8) % KEYS;
                    let read = h.read(&c, &other.to_string(), &(100 + client).to_string());
                    match (last.get(&other), read) {
                        (None, read) => assert_eq!(read.unwrap_err().kind(), ErrorKind::NotFound),
                        (Some(version), read) => {
                            let expected = text(other, 100 + client, *version);
                            assert_eq!(read.unwrap().body(), expected.as_bytes());
                        }
                    }
                    if version % 7 == 0 {
                        let id = (100 + client).to_string();
                        let delete = ItemOp::Delete { id: id.into(), if_match: None };
                        h.write(&c, &key.to_string(), delete).await.unwrap();
                        last.remove(&key);
                    }
                }
                (client, last)
            })
        })
        .collect();
    for round in 0..12 {
        let live = ids(&c);
        match live.len() {
            n if n >= 4 => drop(merge(&h, &c, &live[round % 3..round % 3 + 2]).await),
            n => drop(split(&h, &c, live[round % n]).await),
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut expected = KEYS * 5;
    for client in clients {
        let (client, last) = client.await.unwrap();
        expected += last.len();
        for (key, version) in last {
            let read = h.read(&c, &key.to_string(), &(100 + client).to_string()).unwrap();
            assert_eq!(read.body(), text(key, 100 + client, version).as_bytes());
        }
    }
    assert_eq!(all_ids(&h, &c).await, expected);
    assert_eq!(counted(&c).0, expected as u64);
    audit(&h);
    h.engine.close().await.unwrap();
}

#[tokio::test]
async fn a_job_driven_by_hand_stands_between_old_and_new() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    fill(&h, &c).await;
    let ctx = &test_context();
    let start = || {
        let how = Progression::Manual;
        h.engine.start_split(ctx, c.rid, RangeId(ids(&c)[0]), SplitPoint::Midpoint, how)
    };
    let job = start().await.unwrap();
    assert_eq!(c.routing().ranges()[0].status(), PartitionStatus::Splitting);
    assert_eq!(start().await.unwrap_err().kind(), ErrorKind::Locked);
    h.read(&c, "1", "1").unwrap();
    assert_eq!(
        h.engine.advance_job(&test_context(), job.id).await.unwrap().phase,
        JobPhase::Swapping
    );
    assert_eq!(h.read(&c, "1", "1").unwrap_err().kind(), ErrorKind::RangeMoving);
    let refused = h.write(&c, "1", upsert(1, 1, 1)).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::RangeMoving);
    // After the job is cancelled, everything is as it was.
    assert_eq!(
        h.engine.cancel_job(&test_context(), job.id).await.unwrap().phase,
        JobPhase::Cancelled
    );
    h.write(&c, "1", upsert(1, 1, 1)).await.unwrap();
    assert_eq!((ids(&c), c.routing().ranges()[0].status()), (vec![0], PartitionStatus::Online));

    let job = start().await.unwrap();
    h.engine.advance_job(&test_context(), job.id).await.unwrap();
    assert_eq!(
        h.engine.advance_job(&test_context(), job.id).await.unwrap().phase,
        JobPhase::Succeeded
    );
    assert_eq!(ids(&c), [3, 4]);
    assert_eq!(h.read(&c, "1", "1").unwrap().body(), text(1, 1, 1).as_bytes());
}

#[tokio::test]
async fn progress_goes_with_everything_that_is_copied() {
    let settings = Settings { copy_rows_max: 8, ..Settings::default() };
    let h = Harness::with_settings(Arc::new(MemoryStore::new()), settings);
    let c = h.container("c", 1).await;
    fill(&h, &c).await;
    let how = Progression::Manual;
    let job = h
        .engine
        .start_split(&test_context(), c.rid, RangeId(0), SplitPoint::Midpoint, how)
        .await
        .unwrap();
    let mut seen = Vec::new();
    let all = loop {
        let now = h.engine.job(job.id).unwrap();
        if now.bytes_total > 0 && now.bytes_done == now.bytes_total {
            break now;
        }
        seen.push(now);
        tokio::task::yield_now().await;
    };
    // Rows of items and their log entries, once each; counters of keys; and for each item an index
    // entry for each of its three values, its shape and its time.
    assert_eq!(all.rows_copied, (KEYS * 5 * (2 + 5) + KEYS) as u64);
    seen.retain(|now| now.bytes_copied > 0);
    assert!(!seen.is_empty());
    for now in seen {
        let shown = now.bytes_done as f64 / now.bytes_total as f64;
        let truly = now.bytes_copied as f64 / all.bytes_copied as f64;
        assert!((shown - truly).abs() < 0.1, "{shown} is shown when {truly} is copied");
    }
}

#[tokio::test]
async fn a_restart_goes_on_with_a_job() {
    let dir = tempfile::tempdir().unwrap();
    let open = || -> Arc<dyn LocalStore> {
        Arc::new(EmbeddedStore::open(dir.path(), EmbeddedOptions::new(engine::KEY_TAGS)).unwrap())
    };
    let h = Harness::on(open());
    let c = h.container("c", 1).await;
    // More than one chunk.
    let filler = "x".repeat(50_000);
    for key in 0..30 {
        let item = format!(r#"{{"id":"1","pk":"{key}","filler":"{filler}"}}"#);
        h.create(&c, &key.to_string(), &item).await.unwrap();
    }
    let how = Progression::Manual;
    let job = h
        .engine
        .start_split(&test_context(), c.rid, RangeId(0), SplitPoint::ByteMedian, how)
        .await
        .unwrap();
    while h.engine.job(job.id).unwrap().rows_copied == 0 {
        tokio::task::yield_now().await;
    }
    h.engine.pause_job(&test_context(), job.id, true).await.unwrap();
    h.write(&c, "3", upsert(3, 9, 1)).await.unwrap();
    let before = counted(&c);
    h.engine.close().await.unwrap();
    let opened_again = ManualClock::at(h.clock.now().seconds() + 3600);
    drop(h);

    let h = Harness::at(opened_again, open(), Settings::default());
    let c = h.find("c");
    assert_eq!(c.routing().ranges()[0].status(), PartitionStatus::Splitting);
    h.write(&c, "4", upsert(4, 9, 1)).await.unwrap();
    assert!(h.engine.job(job.id).unwrap().is_paused);
    assert!(!h.engine.pause_job(&test_context(), job.id, false).await.unwrap().is_paused);
    h.engine.advance_job(&test_context(), job.id).await.unwrap();
    h.clock.advance(Duration::from_secs(60));
    let ended = h.engine.advance_job(&test_context(), job.id).await.unwrap();
    assert_eq!(ended.phase, JobPhase::Succeeded);
    // Counted from the start of the job, an hour before this start of the engine.
    assert_eq!(ended.took, Some(Duration::from_secs(3600 + 60)));
    assert_eq!(ended.bytes_done, ended.bytes_total);
    assert_eq!(ids(&c), [1, 2]);
    assert_eq!(counted(&c).0, before.0 + 1);
    for key in 0..30 {
        h.read(&c, &key.to_string(), "1").unwrap();
    }
    h.read(&c, "3", "9").unwrap();
    h.read(&c, "4", "9").unwrap();
    audit(&h);
    h.engine.close().await.unwrap();
}

#[tokio::test]
async fn a_job_that_is_called_off_leaves_the_next_one_alone() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let filler = "x".repeat(20_000);
    for key in 0..100 {
        let item = format!(r#"{{"id":"1","pk":"{key}","filler":"{filler}"}}"#);
        h.create(&c, &key.to_string(), &item).await.unwrap();
    }
    for round in 0..20 {
        let how = Progression::Manual;
        let ctx = &test_context();
        let split = || h.engine.start_split(ctx, c.rid, RangeId(0), SplitPoint::ByteMedian, how);
        let first = split().await.unwrap();
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        let ((), ended) = tokio::join!(
            async {
                for key in 0..5 {
                    h.write(&c, &key.to_string(), upsert(key, 7, round)).await.unwrap();
                }
            },
            h.engine.cancel_job(ctx, first.id)
        );
        assert_eq!(ended.unwrap().phase, JobPhase::Cancelled);
        assert_eq!(c.routing().ranges()[0].status(), PartitionStatus::Online);
        audit(&h);
    }
    split(&h, &c, 0).await;
    audit(&h);
    assert_eq!(all_ids(&h, &c).await, 105);
    for key in 0..5 {
        let read = h.read(&c, &key.to_string(), "7").unwrap();
        assert_eq!(read.body(), text(key, 7, 19).as_bytes());
    }
}

#[tokio::test]
async fn jobs_that_wait_end_with_their_container() {
    let h = Harness::in_memory();
    for is_paused in [false, true] {
        let c = h.container("c", 1).await;
        fill(&h, &c).await;
        let how = Progression::Manual;
        let job = h
            .engine
            .start_split(&test_context(), c.rid, RangeId(0), SplitPoint::ByteMedian, how)
            .await
            .unwrap();
        h.engine.pause_job(&test_context(), job.id, is_paused).await.unwrap();
        if !is_paused {
            assert_eq!(
                h.engine.advance_job(&test_context(), job.id).await.unwrap().phase,
                JobPhase::Swapping
            );
        }
        h.engine.delete_container(&test_context(), c.rid, None).await.unwrap();
        let ended = h.engine.finish_job(job.id).await.unwrap();
        assert_eq!(ended.phase, JobPhase::Cancelled);
        audit(&h);
    }
}

#[tokio::test]
async fn a_container_can_be_deleted_while_it_is_split() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    fill(&h, &c).await;
    let how = Progression::Manual;
    let job = h
        .engine
        .start_split(&test_context(), c.rid, RangeId(0), SplitPoint::ByteMedian, how)
        .await
        .unwrap();
    h.engine.delete_container(&test_context(), c.rid, None).await.unwrap();
    assert!(h.engine.finish_job(job.id).await.unwrap().phase.is_over());
    let write = h.write(&c, "1", upsert(1, 1, 1)).await;
    assert_eq!(write.unwrap_err().kind(), ErrorKind::OwnerNotFound);
}

async fn until(h: &Harness, condition: impl Fn() -> bool) {
    for _ in 0..2000 {
        if condition() {
            return;
        }
        h.clock.advance(Duration::from_millis(500));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it did not come to that");
}

#[tokio::test]
async fn a_partition_that_grows_too_large_is_split() {
    let settings = Settings { partition_bytes_max: 20_000, ..Settings::default() };
    let h = Harness::with_settings(Arc::new(MemoryStore::new()), settings);
    let c = h.container("c", 1).await;
    let filler = "x".repeat(1_000);
    for key in 0..60 {
        let item = format!(r#"{{"id":"1","pk":"{key}","filler":"{filler}"}}"#);
        h.create(&c, &key.to_string(), &item).await.unwrap();
    }
    let is_split = || c.routing().ranges().iter().all(|r| r.bytes() <= 20_000);
    until(&h, is_split).await;
    assert!(c.routing().ranges().len() >= 4);
    assert_eq!(all_ids(&h, &c).await, 60);
}

#[tokio::test]
async fn one_key_is_never_split_and_can_be_full() {
    let settings = Settings { partition_bytes_max: 20_000, ..Settings::default() };
    let h = Harness::with_settings(Arc::new(MemoryStore::new()), settings);
    let c = h.container("c", 1).await;
    let filler = "x".repeat(1_000);
    let item = |id: usize| format!(r#"{{"id":"{id}","pk":"one","filler":"{filler}"}}"#);
    let mut stored = 0;
    let refused = loop {
        match h.create(&c, "one", &item(stored)).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 100, "it must be full at last");
    };
    assert!(matches!(refused, Error::PartitionKeyFull { limit_bytes: 20_000 }), "{refused}");
    assert!(stored > 10);
    // It can be split by hand, but that moves no item.
    split(&h, &c, 0).await;
    assert_eq!(counted(&c).0, stored as u64);
    let again = h.create(&c, "one", &item(stored)).await;
    assert_eq!(again.unwrap_err().kind(), ErrorKind::PartitionKeyFull);
    h.create(&c, "two", r#"{"id":"1","pk":"two"}"#).await.unwrap();
}

#[tokio::test]
async fn throughput_beyond_what_partitions_serve_splits_them() {
    let h = Harness::in_memory();
    let c = h.container_with(spec("c"), 4).await;
    fill(&h, &c).await;
    let catalog = h.engine.catalog();
    let target = engine::catalog::OfferTarget::Container(c.rid);
    let offer = catalog.offer_of(target).unwrap().rid;
    h.engine.replace_offer(&test_context(), offer, Throughput::Manual(45_000)).await.unwrap();
    assert!(h.engine.needs_partitions(&c));
    until(&h, || !h.engine.needs_partitions(&c)).await;
    assert_eq!(c.routing().ranges().len(), 5);
    assert_eq!(all_ids(&h, &c).await, KEYS * 5);
    let merged = h
        .engine
        .start_merge(
            &test_context(),
            c.rid,
            &c.routing().ranges()[..2].iter().map(|r| r.id).collect::<Vec<_>>(),
            Progression::Automatic,
        )
        .await;
    assert!(matches!(merged, Err(Error::NotPartitionable(_))));
}

#[tokio::test]
async fn neighbours_that_hold_little_are_merged_if_wanted() {
    let settings = Settings { auto_merge: true, ..Settings::default() };
    let h = Harness::with_settings(Arc::new(MemoryStore::new()), settings);
    let c = h.container_with(spec("c"), 4).await;
    fill(&h, &c).await;
    let catalog = h.engine.catalog();
    let target = engine::catalog::OfferTarget::Container(c.rid);
    let offer = catalog.offer_of(target).unwrap().rid;
    h.engine.replace_offer(&test_context(), offer, Throughput::Manual(7_000)).await.unwrap();
    until(&h, || c.routing().ranges().len() == 2).await;
    assert_eq!(all_ids(&h, &c).await, KEYS * 5);
}

#[tokio::test]
async fn bad_wishes_are_refused() {
    let h = Harness::in_memory();
    let c = h.container("c", 3).await;
    let how = Progression::Automatic;
    let kind = |result: Result<engine::repartition::JobInfo, Error>| result.unwrap_err().kind();
    let merge = |ranges: &[u32]| {
        let ranges: Vec<_> = ranges.iter().copied().map(RangeId).collect();
        let h = &h;
        let rid = c.rid;
        async move { h.engine.start_merge(&test_context(), rid, &ranges, how).await }
    };
    assert_eq!(kind(merge(&[0, 2]).await), ErrorKind::BadRequest);
    assert_eq!(kind(merge(&[0]).await), ErrorKind::BadRequest);
    assert_eq!(kind(merge(&[0, 0]).await), ErrorKind::BadRequest);
    assert_eq!(kind(merge(&[0, 9]).await), ErrorKind::RangeGone);
    let ctx = &test_context();
    let split = |range: u32, at| h.engine.start_split(ctx, c.rid, RangeId(range), at, how);
    assert_eq!(kind(split(9, SplitPoint::Midpoint).await), ErrorKind::RangeGone);
    let outside = SplitPoint::At(model::Epk::max());
    assert_eq!(kind(split(0, outside).await), ErrorKind::BadRequest);
    assert_eq!(h.engine.catalog().databases().count(), 1);
}

#[tokio::test]
async fn hierarchical_and_unique_keys_survive() {
    let h = Harness::in_memory();
    let mut hierarchical = spec_with_paths("c", &["/a", "/b"]);
    hierarchical.unique_keys = vec![vec![testkit::harness::path("/u")]];
    let c = h.container_with(hierarchical, 1).await;
    for n in 0..30 {
        let item = format!(r#"{{"id":"1","a":"{}","b":"{n}","u":{n}}}"#, n % 3);
        let mut ctx = test_context();
        h.engine
            .write_item(&mut ctx, &c, None, ItemOp::Create { body: body(&item) })
            .await
            .unwrap();
    }
    split(&h, &c, 0).await;
    split(&h, &c, 1).await;
    audit(&h);
    for n in 0..30 {
        let item = format!(r#"{{"id":"2","a":"{}","b":"{n}","u":{n}}}"#, n % 3);
        let mut ctx = test_context();
        let taken =
            h.engine.write_item(&mut ctx, &c, None, ItemOp::Create { body: body(&item) }).await;
        assert_eq!(taken.unwrap_err().kind(), ErrorKind::UniqueKeyViolation);
    }
    assert_eq!(all_ids(&h, &c).await, 30);
    assert!(Lsn(1) < c.routing().ranges()[0].lsn());
}
