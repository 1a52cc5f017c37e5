//! A disk that gets full, and a store that is opened again after a failed write.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use engine::catalog::{NewOpaque, OpaqueKind, OpaqueOwner, ScriptKind, ScriptSpec};
use engine::ops::{ItemOp, Scope};
use engine::repartition::{JobPhase, Progression, SplitPoint};
use engine::{Error, RangeId, Settings};
use model::{ErrorKind, Value};
use storage::faulty::{Fault, FaultyStore};
use storage::{Health, LocalStore, Room, StoreError, forward_store};
use testkit::harness::{Harness, body, spec, string_key, test_context};

const FLOOR: u64 = 96 << 20;

fn with_free(free_bytes: u64) -> Option<Room> {
    Some(Room { free_bytes, floor_bytes: FLOOR })
}

fn item(id: &str) -> String {
    format!(r#"{{"id":"{id}","pk":"k"}}"#)
}

/// Lets more time pass than a check of the free space stays valid.
fn look_again(h: &Harness) {
    h.clock.advance(Duration::from_millis(100));
}

#[tokio::test]
async fn writes_stop_before_the_disk_is_full_and_go_on_by_themselves() {
    let store = Arc::new(FaultyStore::in_memory());
    store.set_room(with_free(FLOOR));
    let h = Harness::on(Arc::<FaultyStore>::clone(&store));
    let c = h.container("c", 1).await;
    for id in ["1", "2", "3"] {
        h.create(&c, "k", &item(id)).await.unwrap();
    }
    let delete = |id: &str| ItemOp::Delete { id: id.into(), if_match: None };
    let rid = h.engine.catalog().database("db").unwrap().rid;

    store.set_room(with_free(FLOOR - 1));
    look_again(&h);
    let refused = h.create(&c, "k", &item("4")).await.unwrap_err();
    assert!(matches!(refused, Error::DiskAlmostFull { .. }), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert!(refused.to_string().contains("95 MB are free, writes need 96 MB"), "{refused}");
    let refused =
        h.engine.create_container(&test_context(), rid, spec("d"), None).await.unwrap_err();
    assert!(matches!(refused, Error::DiskAlmostFull { .. }), "{refused}");
    h.read(&c, "k", "1").unwrap();
    h.write(&c, "k", delete("1")).await.unwrap();
    let health = h.engine.health();
    assert!(!health.writable && health.reason.unwrap().contains("almost full"));

    store.set_room(with_free(FLOOR / 2 - 1));
    look_again(&h);
    let refused = h.write(&c, "k", delete("2")).await.unwrap_err();
    assert!(matches!(refused, Error::DiskAlmostFull { .. }), "{refused}");

    store.set_room(with_free(FLOOR));
    look_again(&h);
    h.create(&c, "k", &item("4")).await.unwrap();
    h.write(&c, "k", delete("2")).await.unwrap();
    assert!(h.engine.health().writable);
    assert_eq!(h.list(&c, Scope::All, 10).await, ["3", "4"]);
}

#[tokio::test]
async fn a_container_can_be_deleted_where_nothing_can_be_written() {
    let store = Arc::new(FaultyStore::in_memory());
    store.set_room(with_free(FLOOR));
    let h = Harness::on(Arc::<FaultyStore>::clone(&store));
    let c = h.container("c", 1).await;
    store.set_room(with_free(FLOOR / 2));
    look_again(&h);
    h.engine.delete_container(&test_context(), c.rid, None).await.unwrap();
}

/// Every change of the catalog writes something, a removal too.
#[tokio::test]
async fn what_holds_nothing_can_be_deleted_where_nothing_can_be_written() {
    let store = Arc::new(FaultyStore::in_memory());
    store.set_room(with_free(FLOOR));
    let h = Harness::on(Arc::<FaultyStore>::clone(&store));
    let c = h.container("c", 1).await;
    let empty = h.engine.create_database(&test_context(), "empty", None).await.unwrap();
    let user = NewOpaque { id: "u".into(), alias: None, body: Value::Null };
    let owner = OpaqueOwner::Database(empty.rid);
    let user =
        h.engine.create_opaque(&test_context(), owner, OpaqueKind::User, user).await.unwrap();
    let spec = ScriptSpec { id: "s".into(), body: "function() {}".into(), trigger: None };
    let script = h
        .engine
        .create_script(&test_context(), c.rid, ScriptKind::StoredProcedure, spec)
        .await
        .unwrap();
    store.set_room(with_free(FLOOR / 2));
    look_again(&h);
    let refused = h.engine.create_database(&test_context(), "other", None).await.unwrap_err();
    assert!(matches!(refused, Error::DiskAlmostFull { .. }), "{refused}");
    h.engine.delete_opaque(&test_context(), user.key, None).await.unwrap();
    h.engine.delete_script(&test_context(), script.rid, None).await.unwrap();
    h.engine.delete_database(&test_context(), empty.rid, None).await.unwrap();
}

#[tokio::test]
async fn a_transaction_is_told_that_the_disk_is_almost_full() {
    let store = Arc::new(FaultyStore::in_memory());
    store.set_room(with_free(FLOOR));
    let h = Harness::on(Arc::<FaultyStore>::clone(&store));
    let c = h.container("c", 1).await;
    let ctx = &mut test_context();
    let mut tx = h.engine.begin(ctx, &c, &string_key("k")).unwrap();
    tx.apply(ItemOp::Create { body: body(&item("1")) }).unwrap();
    store.set_room(with_free(FLOOR - 1));
    look_again(&h);
    let refused = h.engine.commit_transaction(ctx, tx).await.unwrap_err();
    assert!(matches!(refused, Error::DiskAlmostFull { .. }), "{refused}");
}

/// A cut-over removes what was copied, so it may continue for longer than other writes, but not for
/// ever.
#[expect(clippy::disallowed_methods, reason = "the committer's thread works in real time")]
#[tokio::test]
async fn a_split_waits_for_room_with_its_last_step() {
    let store = Arc::new(FaultyStore::in_memory());
    store.set_room(with_free(FLOOR));
    let h = Harness::on(Arc::<FaultyStore>::clone(&store));
    let c = h.container("c", 1).await;
    h.create(&c, "k", &item("1")).await.unwrap();
    let split = h
        .engine
        .start_split(&test_context(), c.rid, RangeId(0), SplitPoint::Midpoint, Progression::Manual)
        .await;
    let job = split.unwrap().id;
    moving(&h, h.engine.advance_job(&test_context(), job)).await.unwrap();
    store.set_room(with_free(FLOOR / 2 - 1));
    look_again(&h);
    let ctx = test_context();
    let mut advancing = pin!(h.engine.advance_job(&ctx, job));
    for _ in 0..20 {
        tokio::select! {
            biased;
            ended = &mut advancing => panic!("there is no room: {ended:?}"),
            () = tokio::time::sleep(Duration::from_millis(1)) => {
                h.clock.advance(Duration::from_secs(1));
            }
        }
    }
    store.set_room(with_free(FLOOR));
    moving(&h, advancing).await.unwrap();
    let ended = moving(&h, h.engine.finish_job(job)).await.unwrap();
    assert_eq!(ended.phase, JobPhase::Succeeded);
    assert_eq!(h.list(&c, Scope::All, 10).await, ["1"]);
}

/// A store that is opened again with the contents that a crash would leave.
#[derive(Default)]
struct Reopening {
    store: ArcSwapOption<FaultyStore>,
    /// Whether it takes no writes although no write has failed.
    is_broken: AtomicBool,
    /// How many attempts to open it again fail.
    failing: AtomicU32,
}

impl Reopening {
    fn new() -> Arc<Self> {
        let store = ArcSwapOption::from_pointee(FaultyStore::in_memory());
        Arc::new(Self { store, ..Self::default() })
    }

    fn now(&self) -> Arc<FaultyStore> {
        self.store.load_full().expect("a store")
    }
}

impl LocalStore for Reopening {
    fn health(&self) -> Health {
        let health = self.now().health();
        Health { writable: health.writable && !self.is_broken.load(Ordering::SeqCst), ..health }
    }

    fn can_reopen(&self) -> bool {
        true
    }

    fn reopen(&self) -> Result<(), StoreError> {
        let fails = |left: u32| left.checked_sub(1);
        if self.failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok() {
            return Err(StoreError::Locked);
        }
        self.store.store(Some(Arc::new(self.now().crash(0))));
        self.is_broken.store(false, Ordering::SeqCst);
        Ok(())
    }

    forward_store!(self => self.now(); write, view, retire, reclaim, approximate_bytes, room);
    forward_store!(self => self.now(); close);
}

#[expect(clippy::disallowed_methods, reason = "the committer's thread works in real time")]
async fn wait_until_writable(h: &Harness) {
    for _ in 0..10_000 {
        if h.engine.health().writable {
            return;
        }
        h.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("writes are still refused");
}

/// The result of `task` while time passes.
#[expect(clippy::disallowed_methods, reason = "the committer's thread works in real time")]
async fn moving<T>(h: &Harness, task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    for _ in 0..10_000 {
        tokio::select! {
            biased;
            outcome = &mut task => return outcome,
            () = tokio::time::sleep(Duration::from_millis(1)) => h.clock.advance(Duration::from_secs(1)),
        }
    }
    panic!("it never ends");
}

#[tokio::test]
async fn writes_go_on_after_one_has_failed() {
    for fault in [Fault::DiskFull, Fault::SyncFailed, Fault::SyncFailedLate] {
        let store = Reopening::new();
        let h = Harness::on(Arc::<Reopening>::clone(&store));
        let c = h.container("c", 2).await;
        h.create(&c, "k", &item("1")).await.unwrap();
        store.now().fail_after(0, fault);
        let refused = h.create(&c, "k", &item("2")).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert!(!h.engine.health().writable);
        wait_until_writable(&h).await;
        // The refused caller does not know whether the item is stored, but it is stored whole.
        let is_there = h.read(&c, "k", "2").is_ok();
        assert_eq!(is_there, fault == Fault::SyncFailedLate, "{fault:?}");
        h.create(&c, "k", &item("3")).await.unwrap();
        let wanted: &[&str] = if is_there { &["1", "2", "3"] } else { &["1", "3"] };
        assert_eq!(h.list(&c, Scope::All, 10).await, wanted, "{fault:?}");
        h.engine.close().await.unwrap();
        let h = Harness::on(Arc::new(store.now().crash(0)));
        assert_eq!(h.list(&h.find("c"), Scope::All, 10).await, wanted, "{fault:?}");
    }
}

#[tokio::test]
async fn a_change_of_the_catalog_that_failed_is_not_there_later() {
    for fault in [Fault::DiskFull, Fault::SyncFailed, Fault::SyncFailedLate] {
        let store = Reopening::new();
        let h = Harness::on(Arc::<Reopening>::clone(&store));
        let c = h.container("c", 1).await;
        let rid = h.engine.catalog().database("db").unwrap().rid;
        store.now().fail_after(0, fault);
        h.engine.create_container(&test_context(), rid, spec("d"), None).await.unwrap_err();
        wait_until_writable(&h).await;
        h.create(&c, "k", &item("1")).await.unwrap();
        let d = h.container("d", 1).await;
        h.create(&d, "k", &item("1")).await.unwrap();
        h.engine.close().await.unwrap();
        let h = Harness::on(Arc::new(store.now().crash(0)));
        assert_eq!(h.list(&h.find("c"), Scope::All, 10).await, ["1"], "{fault:?}");
        assert_eq!(h.list(&h.find("d"), Scope::All, 10).await, ["1"], "{fault:?}");
    }
}

/// A flush in the background failed, and the first attempts to open the store again fail too. A
/// caller that checks the health triggers an attempt; further ones follow without a caller.
#[tokio::test]
async fn a_store_that_fails_by_itself_is_opened_again_until_that_succeeds() {
    let store = Reopening::new();
    let h = Harness::on(Arc::<Reopening>::clone(&store));
    let c = h.container("c", 1).await;
    h.create(&c, "k", &item("1")).await.unwrap();
    store.failing.store(3, Ordering::SeqCst);
    store.is_broken.store(true, Ordering::SeqCst);
    assert!(!h.engine.health().writable);
    wait_until_writable(&h).await;
    assert_eq!(store.failing.load(Ordering::SeqCst), 0);
    h.create(&c, "k", &item("2")).await.unwrap();
    assert_eq!(h.list(&c, Scope::All, 10).await, ["1", "2"]);
}

/// Whichever of its writes fails, a split continues once the store is open again, and what other
/// callers wrote meanwhile is in the new partitions.
#[tokio::test]
async fn a_split_goes_on_after_a_write_has_failed() {
    for fault in [Fault::DiskFull, Fault::SyncFailedLate] {
        for writes in 0..12 {
            let store = Reopening::new();
            let settings = Settings { copy_rows_max: 7, ..Settings::default() };
            let h = Harness::with_settings(Arc::<Reopening>::clone(&store), settings);
            let c = h.container("c", 1).await;
            let key = |n: u32| format!("k{n}");
            let text = |n: u32, v: u32| format!(r#"{{"id":"{n}","pk":"k{n}","v":{v}}}"#);
            for n in 0..20 {
                h.create(&c, &key(n), &text(n, 0)).await.unwrap();
            }
            store.now().fail_after(writes, fault);
            let ctx = &test_context();
            let split = || {
                let way = (SplitPoint::Midpoint, Progression::Automatic);
                h.engine.start_split(ctx, c.rid, RangeId(0), way.0, way.1)
            };
            let job = match split().await {
                Ok(job) => job,
                Err(_) => {
                    wait_until_writable(&h).await;
                    split().await.unwrap()
                }
            };
            let mut acknowledged = Vec::new();
            for n in (0..20).rev() {
                let upsert = ItemOp::Upsert { body: body(&text(n, 1)), if_match: None };
                if h.write(&c, &key(n), upsert).await.is_ok() {
                    acknowledged.push(n);
                }
            }
            wait_until_writable(&h).await;
            let ended = h.engine.finish_job(job.id);
            let ended = moving(&h, ended).await.unwrap().phase;
            assert_eq!(ended, JobPhase::Succeeded, "{fault:?} after {writes}");
            assert_eq!(h.list(&c, Scope::All, 100).await.len(), 20, "{fault:?} after {writes}");
            for n in acknowledged {
                let found = h.read(&c, &key(n), &n.to_string()).unwrap();
                let found = String::from_utf8_lossy(found.body()).into_owned();
                assert!(found.contains(r#""v":1"#), "{fault:?} after {writes}: {found}");
            }
            assert_eq!(h.engine.audit().unwrap().findings, Vec::<String>::new());
        }
    }
}
