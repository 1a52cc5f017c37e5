//! What survives a restart, and what happens when the store fails.

use std::future::Future;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use engine::catalog::{ScriptKind, ScriptSpec, TriggerOperation, TriggerSpec, TriggerTime};
use engine::components::{Ended, Spawner, SystemRandom, Task, TokioSpawner, Worker};
use engine::ops::{ItemOp, PageRequest, Scope};
use engine::{Components, Engine, RequestContext, Settings, Throughput};
use model::{ErrorKind, Lsn, PartitionId};
use storage::faulty::{Fault, FaultyStore};
use storage::{EmbeddedOptions, EmbeddedStore, LocalStore};
use testkit::clock::ManualClock;
use testkit::harness::{Harness, body, path, spec, spec_with_paths, string_key, test_context};
use testkit::hooked::{HookedStore, WriteGate};

fn embedded(dir: &std::path::Path) -> Arc<dyn LocalStore> {
    Arc::new(
        EmbeddedStore::open(dir, EmbeddedOptions::new(engine::KEY_TAGS)).expect("the store opens"),
    )
}

#[tokio::test]
async fn a_restart_finds_catalog_items_and_positions() {
    let dir = tempfile::tempdir().unwrap();
    let (first_rid, lsn, listed) = {
        let h = Harness::on(embedded(dir.path()));
        let mut with_policies = spec_with_paths("c", &["/a", "/\"b c\""]);
        with_policies.unique_keys = vec![vec![path("/u")]];
        with_policies.default_ttl = Some(-1);
        with_policies.policies = model::json::parse(br#"{"x":[1,{"y":null}]}"#, 9).unwrap().value;
        let c = h.container_with(with_policies, 3).await;
        let mut lsn = Lsn(0);
        let mut rid = None;
        for n in 0..20 {
            let ctx = &mut test_context();
            let op = ItemOp::Create {
                body: body(&format!(r#"{{"id":"{n}","a":"x","b c":1,"u":{n}}}"#)),
            };
            let outcome = h.engine.write_item(ctx, &c, None, op).await.unwrap();
            lsn = ctx.served.ranges[0].1;
            rid = outcome.item().map(|i| i.rid());
        }
        let listed = h.list(&c, Scope::All, 100).await;
        h.engine.close().await.unwrap();
        (rid.unwrap(), lsn, listed)
    };
    let h = Harness::on(embedded(dir.path()));
    let c = &h.find("c");
    assert_eq!(c.spec.default_ttl, Some(-1));
    assert_eq!(c.routing().ranges().len(), 3);
    assert_eq!(model::json::to_string(&c.spec.policies), r#"{"x":[1,{"y":null}]}"#);
    assert_eq!(h.list(c, Scope::All, 7).await, listed);
    let ctx = &mut test_context();
    let op = ItemOp::Create { body: body(r#"{"id":"new","a":"x","b c":1,"u":"n"}"#) };
    let outcome = h.engine.write_item(ctx, c, None, op).await.unwrap();
    assert_eq!(ctx.served.ranges[0].1, lsn.next(), "positions go on without a gap");
    assert!(outcome.item().unwrap().rid() > first_rid, "item numbers are never given twice");
    let ctx = &mut test_context();
    let op = ItemOp::Create { body: body(r#"{"id":"dup","a":"x","b c":1,"u":3}"#) };
    let taken = h.engine.write_item(ctx, c, None, op).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::UniqueKeyViolation);
    h.engine.close().await.unwrap();
}

#[tokio::test]
async fn a_restart_finds_scripts() {
    let spec =
        |id: &str, body: &str| ScriptSpec { id: id.into(), body: body.into(), trigger: None };
    let (store, kind) = (Arc::new(FaultyStore::in_memory()), ScriptKind::StoredProcedure);
    let (kept, dropped) = {
        let h = Harness::on(Arc::<FaultyStore>::clone(&store));
        let (c, dropped) = (h.container("c", 1).await, h.container("dropped", 1).await);
        let trigger = TriggerSpec {
            time: TriggerTime::Post,
            operation: TriggerOperation::Delete,
            spelled: ["post".into(), "DELETE".into()],
        };
        let trigger = ScriptSpec { trigger: Some(trigger), ..spec("t", "y") };
        h.engine.create_script(&test_context(), c.rid, ScriptKind::Trigger, trigger).await.unwrap();
        let gone =
            h.engine.create_script(&test_context(), c.rid, kind, spec("gone", "x")).await.unwrap();
        let kept =
            h.engine.create_script(&test_context(), c.rid, kind, spec("s", "x")).await.unwrap();
        let kept = h
            .engine
            .replace_script(&test_context(), kept.rid, spec("kept", "y"), None)
            .await
            .unwrap();
        h.engine.delete_script(&test_context(), gone.rid, None).await.unwrap();
        let dead = h
            .engine
            .create_script(&test_context(), dropped.rid, kind, spec("s", "x"))
            .await
            .unwrap();
        h.engine.delete_container(&test_context(), dropped.rid, None).await.unwrap();
        (kept, dead)
    };
    let h = Harness::on(Arc::new(store.crash(0)));
    let catalog = h.engine.catalog();
    let c = h.find("c").rid;
    assert_eq!(catalog.scripts(c, kind).collect::<Vec<_>>(), [&kept]);
    assert_eq!(catalog.script_by_rid(dropped.rid), None);
    let trigger = catalog.script(c, ScriptKind::Trigger, "t").unwrap().spec.trigger.clone();
    assert_eq!(trigger.unwrap().spelled, ["post", "DELETE"]);
    let new = h.engine.create_script(&test_context(), c, kind, spec("new", "x")).await.unwrap();
    assert!(new.rid.number > dropped.rid.number, "numbers are never given twice");
}

#[tokio::test]
async fn acknowledged_writes_survive_a_crash_and_failed_ones_are_not_acknowledged() {
    for fault in [Fault::DiskFull, Fault::SyncFailed, Fault::SyncFailedLate] {
        let store = Arc::new(FaultyStore::in_memory());
        let h = Harness::on(Arc::<FaultyStore>::clone(&store));
        let c = h.container("c", 2).await;
        store.fail_after(5, fault);
        let mut acknowledged = Vec::new();
        let mut refused = 0;
        for n in 0..10 {
            match h.create(&c, "k", &format!(r#"{{"id":"{n}","pk":"k"}}"#)).await {
                Ok(item) => acknowledged.push(item.id().into_owned()),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unavailable);
                    refused += 1;
                }
            }
        }
        assert_eq!((acknowledged.len(), refused), (5, 5));
        // LSNs of writes that never happened must not show, not even with a refusal that needs no
        // write.
        let ctx = &mut test_context();
        let op = ItemOp::Create { body: body(r#"{"id":"0","pk":"k"}"#) };
        assert!(h.engine.write_item(ctx, &c, Some(string_key("k")), op).await.is_err());
        h.engine.read_item(ctx, &c, &string_key("k"), "0", None).unwrap();
        assert_eq!(ctx.served.ranges[0].1, Lsn(5));
        assert!(!h.engine.health().writable);
        // Reads still work on what is committed.
        assert!(h.read(&c, "k", "4").is_ok());
        let h = Harness::on(Arc::new(store.crash(0)));
        let c = &h.find("c");
        let found = h.list(c, Scope::All, 100).await;
        assert!(acknowledged.iter().all(|id| found.contains(id)), "{fault:?}: {found:?}");
        assert!(found.len() <= acknowledged.len() + 1, "{fault:?}: {found:?}");
        h.create(c, "k", r#"{"id":"after","pk":"k"}"#).await.unwrap();
    }
}

#[tokio::test]
async fn one_sync_serves_all_who_wait() {
    let store = HookedStore::new(FaultyStore::in_memory(), WriteGate::opened());
    let h = Harness::on(Arc::<HookedStore<_, _>>::clone(&store));
    let c = h.container("c", 2).await;
    let before = store.inner.syncs();
    store.hooks.set_open(false);
    let ops = (0..64)
        .map(|n| (None, ItemOp::Create { body: body(&format!(r#"{{"id":"{n}","pk":"{n}"}}"#)) }))
        .collect();
    let ctx = &mut test_context();
    // The first poll hands all 64 to the committer, which then waits at the gate with some of them;
    // the others must share the next group.
    let (results, ()) =
        tokio::join!(h.engine.bulk(ctx, &c, None, ops), async { store.hooks.set_open(true) });
    assert!(results.unwrap().iter().all(|r| r.outcome.is_ok()));
    let syncs = store.inner.syncs() - before;
    assert!(syncs <= 2, "{syncs} syncs for 64 writes");
}

#[tokio::test]
async fn a_caller_who_leaves_does_not_undo_a_change_of_the_catalog() {
    let store = HookedStore::new(FaultyStore::in_memory(), WriteGate::opened());
    let h = Harness::on(Arc::<HookedStore<_, _>>::clone(&store));
    let rid = h.engine.create_database(&test_context(), "d", None).await.unwrap().rid;
    store.hooks.set_open(false);
    let ctx = &test_context();
    {
        let mut leaving = Box::pin(h.engine.create_container(ctx, rid, spec("c"), None));
        let waker = std::task::Waker::noop();
        let polled = leaving.as_mut().poll(&mut std::task::Context::from_waker(waker));
        assert!(polled.is_pending(), "the change waits for the store");
    }
    store.hooks.set_open(true);
    // The next change waits until this one is done, so it sees the result.
    let again = h.engine.create_container(&test_context(), rid, spec("c"), None).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let catalog = h.engine.catalog();
    let c = catalog.container(rid, "c").unwrap();
    h.create(c, "k", r#"{"id":"1","pk":"k"}"#).await.unwrap();
}

/// Makes blocking work wait until a second piece is there, or for a while.
struct DawdlingSpawner {
    inner: TokioSpawner,
    pieces: Arc<(Mutex<Pieces>, Condvar)>,
}

#[derive(Default)]
struct Pieces {
    /// How many have not started yet.
    waiting: usize,
    most: usize,
}

impl Spawner for DawdlingSpawner {
    fn spawn(&self, name: &'static str, task: Task) {
        self.inner.spawn(name, task);
    }
    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        let shared = Arc::clone(&self.pieces);
        let mut pieces = shared.0.lock().expect("no panic holds the count");
        pieces.waiting += 1;
        pieces.most = pieces.most.max(pieces.waiting);
        drop(pieces);
        shared.1.notify_all();
        self.inner.run_blocking(Box::new(move || {
            let (pieces, changed) = &*shared;
            let waiting = pieces.lock().expect("no panic holds the count");
            let dawdling = Duration::from_millis(200);
            let (mut pieces, _) = changed
                .wait_timeout_while(waiting, dawdling, |pieces| pieces.most < 2)
                .expect("no panic holds the count");
            pieces.waiting -= 1;
            drop(pieces);
            work();
        }));
    }
    fn work(&self, name: &'static str, worker: Box<dyn Worker>) -> std::io::Result<Ended> {
        self.inner.work(name, worker)
    }
}

#[tokio::test]
async fn a_store_is_closed_when_nobody_reads_any_more() {
    let spawner = Arc::new(DawdlingSpawner {
        inner: TokioSpawner::new(tokio::runtime::Handle::current()),
        pieces: Arc::default(),
    });
    let components = Components {
        clock: Arc::new(ManualClock::at(1_700_000_000)),
        random: Arc::new(SystemRandom),
        spawner: Arc::<DawdlingSpawner>::clone(&spawner),
    };
    let store = Arc::new(storage::MemoryStore::new());
    let engine = Engine::open(store, components, Settings::default()).unwrap();
    let rid = engine.create_database(&test_context(), "db", None).await.unwrap().rid;
    let c = engine.create_container(&test_context(), rid, spec("c"), None).await.unwrap();
    {
        let ctx = &mut test_context();
        let page = engine.list_items(ctx, &c, Scope::All, PageRequest::default());
        let polled = Box::pin(page)
            .as_mut()
            .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        assert!(polled.is_pending(), "the page is being read");
    }
    engine.close().await.unwrap();
    let most = spawner.pieces.0.lock().unwrap().most;
    assert_eq!(most, 1, "the store was closed while it was being read");
}

#[tokio::test]
async fn deleted_containers_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let store = embedded(dir.path());
    let h = Harness::on(Arc::clone(&store));
    for n in 0..500 {
        let c = h.container(&format!("c{}", n % 7), 2).await;
        h.create(&c, "k", r#"{"id":"1","pk":"k"}"#).await.unwrap();
        h.engine.delete_container(&test_context(), c.rid, None).await.unwrap();
        assert!(h.create(&c, "k", r#"{"id":"2","pk":"k"}"#).await.is_err());
    }
    assert_eq!(h.engine.catalog().offers().count(), 0);
    // Retiring continues after the caller has its answer; every partition is retired in the end,
    // and then reclaiming finds nothing more.
    let retired_and_freed = || {
        let left = store.reclaim(Duration::from_millis(50)).unwrap().partitions_left;
        let view = store.view();
        let mut live = 0;
        for p in 1..=1000 {
            let mut cursor =
                view.scan(PartitionId(p), storage::KeyRange::ALL, storage::Dir::Fwd).unwrap();
            live += usize::from(cursor.next().unwrap().is_some());
        }
        left == 0 && live == 0
    };
    while !retired_and_freed() {
        tokio::task::yield_now().await;
    }
    h.engine.close().await.unwrap();
}

#[tokio::test]
async fn a_container_deleted_and_made_again_is_another_one() {
    let h = Harness::in_memory();
    let old = h.container("c", 1).await;
    h.create(&old, "k", r#"{"id":"1","pk":"k"}"#).await.unwrap();
    h.engine.delete_container(&test_context(), old.rid, None).await.unwrap();
    let new = h.container("c", 1).await;
    assert_ne!(old.rid, new.rid);
    assert!(h.read(&new, "k", "1").is_err());
    let stale = h.create(&old, "k", r#"{"id":"2","pk":"k"}"#).await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::OwnerNotFound);
}

#[tokio::test]
async fn a_session_of_a_deleted_container_is_served_by_its_successor() {
    let h = Harness::in_memory();
    let old = h.container("c", 1).await;
    let ctx = &mut test_context();
    for n in 0..10 {
        let op = ItemOp::Create { body: body(&format!(r#"{{"id":"{n}","pk":"k"}}"#)) };
        h.engine.write_item(ctx, &old, None, op).await.unwrap();
    }
    let session = ctx.served.ranges.clone();
    h.engine.delete_container(&test_context(), old.rid, None).await.unwrap();
    let new = h.container("c", 1).await;
    let mut ctx = RequestContext { session, ..test_context() };
    let read = h.engine.read_item(&mut ctx, &new, &string_key("k"), "1", None).unwrap_err();
    assert_eq!(read.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn throughput_decides_the_number_of_ranges() {
    let h = Harness::in_memory();
    let database = h.engine.create_database(&test_context(), "d", None).await.unwrap().rid;
    for (throughput, ranges) in [(400, 1), (6_000, 1), (6_100, 2), (12_000, 2), (30_000, 5)] {
        let id = format!("c{throughput}");
        let throughput = Some(Throughput::Manual(throughput));
        let c = h
            .engine
            .create_container(&test_context(), database, spec(&id), throughput)
            .await
            .unwrap();
        assert_eq!(c.routing().ranges().len(), ranges);
    }
    let c = h.engine.create_container(&test_context(), database, spec("none"), None).await.unwrap();
    assert_eq!(c.routing().ranges().len(), 1);
}

#[tokio::test]
async fn a_full_logical_partition_refuses_to_grow() {
    let settings = Settings { logical_partition_bytes_max: 2_000, ..Settings::default() };
    let h = Harness::with_settings(Arc::new(storage::MemoryStore::new()), settings);
    let c = h.container("c", 1).await;
    let text =
        |n: usize, len: usize| format!(r#"{{"id":"{n}","pk":"k","x":"{}"}}"#, "y".repeat(len));
    h.create(&c, "k", &text(1, 1_500)).await.unwrap();
    let full = h.create(&c, "k", &text(2, 1_500)).await.unwrap_err();
    assert_eq!(full.kind(), ErrorKind::PartitionKeyFull);
    let shrink = ItemOp::Upsert { body: body(&text(1, 10)), if_match: None };
    h.write(&c, "k", shrink).await.unwrap();
    h.create(&c, "k", &text(2, 1_000)).await.unwrap();
    let ctx = &mut test_context();
    assert!(h.engine.read_item(ctx, &c, &string_key("k"), "2", None).is_ok());
}
