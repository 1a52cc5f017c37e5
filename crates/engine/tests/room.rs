//! A disk that gets full, and a store that is opened again after a failed write.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use engine::catalog::{NewSmall, ScriptKind, ScriptSpec, SmallKind, SmallOwner};
use engine::ops::{ItemOp, Scope};
use engine::{Error, RequestContext};
use model::{ErrorKind, PartitionId, Value};
use storage::faulty::{Fault, FaultyStore};
use storage::{
    Durability, Health, LocalStore, ReclaimProgress, Room, StoreError, View, WriteBatch,
};
use testkit::harness::{Harness, body, spec, string_key};

const FLOOR: u64 = 96 << 20;

fn with_free(free_bytes: u64) -> Option<Room> {
    Some(Room { free_bytes, floor_bytes: FLOOR })
}

fn item(id: &str) -> String {
    format!(r#"{{"id":"{id}","pk":"k"}}"#)
}

/// More than the time for which a look at the disk counts.
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
    let delete = |id: &str| ItemOp::Delete { id: id.to_owned(), if_match: None };
    let rid = h.engine.catalog().database("db").unwrap().rid;

    store.set_room(with_free(FLOOR - 1));
    look_again(&h);
    let refused = h.create(&c, "k", &item("4")).await.unwrap_err();
    assert!(matches!(refused, Error::DiskAlmostFull { .. }), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert!(refused.to_string().contains("95 MB are free, writes need 96 MB"), "{refused}");
    let refused = h.engine.create_container(rid, spec("d"), None).await.unwrap_err();
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
    h.engine.delete_container(c.rid, None).await.unwrap();
}

/// Every change of the catalog writes something, those that remove something too.
#[tokio::test]
async fn what_holds_nothing_can_be_deleted_where_nothing_can_be_written() {
    let store = Arc::new(FaultyStore::in_memory());
    store.set_room(with_free(FLOOR));
    let h = Harness::on(Arc::<FaultyStore>::clone(&store));
    let c = h.container("c", 1).await;
    let empty = h.engine.create_database("empty", None).await.unwrap();
    let user = NewSmall { id: "u".into(), alias: None, body: Value::Null };
    let owner = SmallOwner::Database(empty.rid);
    let user = h.engine.create_small(owner, SmallKind::User, user).await.unwrap();
    let spec = ScriptSpec { id: "s".into(), body: "function() {}".into(), trigger: None };
    let script = h.engine.create_script(c.rid, ScriptKind::StoredProcedure, spec).await.unwrap();
    store.set_room(with_free(FLOOR / 2));
    look_again(&h);
    let refused = h.engine.create_database("other", None).await.unwrap_err();
    assert!(matches!(refused, Error::DiskAlmostFull { .. }), "{refused}");
    h.engine.delete_small(user.key, None).await.unwrap();
    h.engine.delete_script(script.rid, None).await.unwrap();
    h.engine.delete_database(empty.rid, None).await.unwrap();
}

#[tokio::test]
async fn a_transaction_is_told_that_the_disk_is_almost_full() {
    let store = Arc::new(FaultyStore::in_memory());
    store.set_room(with_free(FLOOR));
    let h = Harness::on(Arc::<FaultyStore>::clone(&store));
    let c = h.container("c", 1).await;
    let ctx = &mut RequestContext::default();
    let mut tx = h.engine.begin(ctx, &c, &string_key("k")).unwrap();
    tx.apply(ItemOp::Create { body: body(&item("1")) }).unwrap();
    store.set_room(with_free(FLOOR - 1));
    look_again(&h);
    let refused = h.engine.commit_transaction(ctx, tx).await.unwrap_err();
    assert!(matches!(refused, Error::DiskAlmostFull { .. }), "{refused}");
}

/// Goes on from what a crash would leave.
struct Reopening(ArcSwap<FaultyStore>);

impl Reopening {
    fn new() -> Arc<Self> {
        Arc::new(Self(ArcSwap::from_pointee(FaultyStore::in_memory())))
    }
}

impl LocalStore for Reopening {
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError> {
        self.0.load().write(batch, durability)
    }

    fn view(&self) -> Arc<dyn View> {
        self.0.load().view()
    }

    fn retire(&self, p: PartitionId) -> Result<(), StoreError> {
        self.0.load().retire(p)
    }

    fn reclaim(&self, budget: Duration) -> Result<ReclaimProgress, StoreError> {
        self.0.load().reclaim(budget)
    }

    fn approximate_bytes(&self, p: PartitionId) -> Result<u64, StoreError> {
        self.0.load().approximate_bytes(p)
    }

    fn health(&self) -> Health {
        self.0.load().health()
    }

    fn room(&self) -> Option<Room> {
        self.0.load().room()
    }

    fn can_reopen(&self) -> bool {
        true
    }

    fn reopen(&self) -> Result<(), StoreError> {
        self.0.store(Arc::new(self.0.load().crash(0)));
        Ok(())
    }

    fn close(&self) -> Result<(), StoreError> {
        self.0.load().close()
    }
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

#[tokio::test]
async fn writes_go_on_after_one_has_failed() {
    for fault in [Fault::DiskFull, Fault::SyncFailed, Fault::SyncFailedLate] {
        let store = Reopening::new();
        let h = Harness::on(Arc::<Reopening>::clone(&store));
        let c = h.container("c", 2).await;
        h.create(&c, "k", &item("1")).await.unwrap();
        store.0.load().fail_after(0, fault);
        let refused = h.create(&c, "k", &item("2")).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert!(!h.engine.health().writable);
        wait_until_writable(&h).await;
        // Whether it is there or not is not known to who was refused, but it is there whole.
        let is_there = h.read(&c, "k", "2").is_ok();
        assert_eq!(is_there, fault == Fault::SyncFailedLate, "{fault:?}");
        h.create(&c, "k", &item("3")).await.unwrap();
        let wanted: &[&str] = if is_there { &["1", "2", "3"] } else { &["1", "3"] };
        assert_eq!(h.list(&c, Scope::All, 10).await, wanted, "{fault:?}");
        h.engine.close().await.unwrap();
        let h = Harness::on(Arc::new(store.0.load().crash(0)));
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
        store.0.load().fail_after(0, fault);
        h.engine.create_container(rid, spec("d"), None).await.unwrap_err();
        wait_until_writable(&h).await;
        h.create(&c, "k", &item("1")).await.unwrap();
        let d = h.container("d", 1).await;
        h.create(&d, "k", &item("1")).await.unwrap();
        h.engine.close().await.unwrap();
        let h = Harness::on(Arc::new(store.0.load().crash(0)));
        assert_eq!(h.list(&h.find("c"), Scope::All, 10).await, ["1"], "{fault:?}");
        assert_eq!(h.list(&h.find("d"), Scope::All, 10).await, ["1"], "{fault:?}");
    }
}
