//! Users, permissions and client encryption keys: names, owners, restarts.

use std::sync::Arc;

use engine::Throughput;
use engine::catalog::{Deleted, NewOpaque, OpaqueKind, OpaqueOwner, OpaqueResource};
use engine::ops::EtagCondition;
use model::{DatabaseRid, ErrorKind, PermissionRid, UserRid, json};
use storage::{EmbeddedOptions, EmbeddedStore, LocalStore, MemoryStore};
use testkit::harness::{Harness, test_context};

fn new(id: &str) -> NewOpaque {
    let body = json::parse(br#"{"x":[1,null]}"#, 9).expect("JSON").value;
    NewOpaque { id: id.into(), alias: None, body }
}

fn aliased(id: &str, alias: &str) -> NewOpaque {
    NewOpaque { alias: Some(alias.into()), ..new(id) }
}

async fn database(h: &Harness, id: &str) -> DatabaseRid {
    h.engine.create_database(&test_context(), id, None).await.expect("a database").rid
}

async fn user(h: &Harness, database: DatabaseRid, id: &str) -> UserRid {
    let owner = OpaqueOwner::Database(database);
    let user = h
        .engine
        .create_opaque(&test_context(), owner, OpaqueKind::User, new(id))
        .await
        .expect("a user");
    user.key.user().expect("the id of a user")
}

fn names(h: &Harness, owner: OpaqueOwner, kind: OpaqueKind) -> Vec<String> {
    h.engine.catalog().opaque_of(owner, kind).map(|r| r.spec.id.clone()).collect()
}

fn embedded(dir: &std::path::Path) -> Arc<dyn LocalStore> {
    Arc::new(
        EmbeddedStore::open(dir, EmbeddedOptions::new(engine::KEY_TAGS)).expect("the store opens"),
    )
}

#[tokio::test]
async fn names_are_unique_per_owner_and_kind() {
    let ctx = &test_context();
    let h = Harness::in_memory();
    let (a, b) = (database(&h, "a").await, database(&h, "b").await);
    let create =
        |db, kind, id| h.engine.create_opaque(ctx, OpaqueOwner::Database(db), kind, new(id));
    create(a, OpaqueKind::User, "u").await.unwrap();
    create(a, OpaqueKind::EncryptionKey, "u").await.unwrap();
    create(b, OpaqueKind::User, "u").await.unwrap();
    let taken = create(a, OpaqueKind::User, "u").await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    assert_eq!(create(a, OpaqueKind::User, "u/v").await.unwrap_err().kind(), ErrorKind::BadRequest);
    let nowhere = create(DatabaseRid(1), OpaqueKind::User, "u").await.unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::OwnerNotFound);
}

#[tokio::test]
async fn a_second_name_is_unique_too_and_goes_with_a_replacement() {
    let ctx = &test_context();
    let h = Harness::in_memory();
    let user = user(&h, database(&h, "d").await, "u").await;
    let owner = OpaqueOwner::User(user);
    let create = |spec| h.engine.create_opaque(ctx, owner, OpaqueKind::Permission, spec);
    let first = create(aliased("p", "x")).await.unwrap();
    let taken = create(aliased("q", "x")).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    let renamed = h.engine.replace_opaque(ctx, first.key, aliased("r", "y"), None).await.unwrap();
    assert_eq!((renamed.key, renamed.version), (first.key, 2));
    assert_eq!(names(&h, owner, OpaqueKind::Permission), ["r"]);
    let second = create(aliased("p", "x")).await.unwrap();
    let clash =
        h.engine.replace_opaque(ctx, second.key, aliased("r", "z"), None).await.unwrap_err();
    assert_eq!(clash.kind(), ErrorKind::AlreadyExists);
    assert_eq!(h.engine.catalog().opaque(owner, OpaqueKind::Permission, "p"), Some(&second));
    let rid = PermissionRid { user, number: u64::from(second.key.number) };
    assert_eq!(second.key.rid(), rid.to_string());
}

#[tokio::test]
async fn upserts_create_and_replace_under_their_condition() {
    let ctx = &test_context();
    let h = Harness::in_memory();
    let owner = OpaqueOwner::Database(database(&h, "d").await);
    let upsert =
        |if_match| h.engine.upsert_opaque(ctx, owner, OpaqueKind::User, new("u"), if_match);
    let (created, is_new) = upsert(None).await.unwrap();
    assert!(is_new);
    let stale = EtagCondition::parse(&created.etag());
    let (replaced, is_new) = upsert(Some(stale.clone())).await.unwrap();
    assert_eq!((replaced.key, replaced.version, is_new), (created.key, 2, false));
    let failed = upsert(Some(stale.clone())).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::PreconditionFailed);
    let failed = h.engine.delete_opaque(ctx, created.key, Some(stale)).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::PreconditionFailed);
    h.engine.delete_opaque(ctx, created.key, None).await.unwrap();
    let gone = h.engine.delete_opaque(ctx, created.key, None).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn what_belongs_to_a_user_or_database_goes_with_it() {
    let ctx = &test_context();
    let h = Harness::in_memory();
    let (a, b) = (database(&h, "a").await, database(&h, "b").await);
    let (first, second) = (user(&h, a, "first").await, user(&h, a, "second").await);
    let other = user(&h, b, "first").await;
    let permit = |user| {
        h.engine.create_opaque(ctx, OpaqueOwner::User(user), OpaqueKind::Permission, new("p"))
    };
    let one: Arc<OpaqueResource> = permit(first).await.unwrap();
    let two = permit(second).await.unwrap();
    let three = permit(other).await.unwrap();
    let user_key =
        h.engine.catalog().opaque(OpaqueOwner::Database(a), OpaqueKind::User, "first").unwrap().key;
    h.engine.delete_opaque(ctx, user_key, None).await.unwrap();
    let is_there = |r: &OpaqueResource| h.engine.catalog().opaque_by_number(r.key).is_some();
    assert_eq!((is_there(&one), is_there(&two), is_there(&three)), (false, true, true));
    assert_eq!(permit(first).await.unwrap_err().kind(), ErrorKind::OwnerNotFound);
    h.engine.delete_database(ctx, a, None).await.unwrap();
    assert_eq!((is_there(&two), is_there(&three)), (false, true));
}

#[tokio::test]
async fn a_restart_finds_all_of_it_and_gives_no_number_twice() {
    let ctx = &test_context();
    let dir = tempfile::tempdir().unwrap();
    let (user, permission, key, secret) = {
        let h = Harness::on(embedded(dir.path()));
        let db = database(&h, "d").await;
        let user = user(&h, db, "u").await;
        let owner = OpaqueOwner::User(user);
        let create = |spec| h.engine.create_opaque(ctx, owner, OpaqueKind::Permission, spec);
        let kept = create(aliased("kept", "x")).await.unwrap();
        let dropped = create(new("dropped")).await.unwrap();
        h.engine.delete_opaque(ctx, dropped.key, None).await.unwrap();
        let owner = OpaqueOwner::Database(db);
        let key =
            h.engine.create_opaque(ctx, owner, OpaqueKind::EncryptionKey, new("k")).await.unwrap();
        h.engine.close().await.unwrap();
        (user, kept, key, h.engine.secret("tokens"))
    };
    let h = Harness::on(embedded(dir.path()));
    let owner = OpaqueOwner::User(user);
    assert_eq!(h.engine.catalog().opaque_by_number(permission.key), Some(&permission));
    assert_eq!(h.engine.catalog().opaque_by_number(key.key), Some(&key));
    assert_eq!(names(&h, owner, OpaqueKind::Permission), ["kept"]);
    let taken =
        h.engine.create_opaque(ctx, owner, OpaqueKind::Permission, aliased("new", "x")).await;
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AlreadyExists);
    let new = h.engine.create_opaque(ctx, owner, OpaqueKind::Permission, new("new")).await.unwrap();
    assert!(new.key.number > key.key.number);
    assert_eq!(h.engine.secret("tokens"), secret);
    assert_ne!(h.engine.secret("other"), secret);
    assert_ne!(Harness::on(Arc::new(MemoryStore::new())).engine.secret("tokens"), secret);
}

#[tokio::test]
async fn all_databases_are_deleted_however_many_there_are() {
    let h = Harness::in_memory();
    for name in 0..1_200 {
        database(&h, &format!("d{name}")).await;
    }
    let deleted = h.engine.delete_all_databases(&test_context()).await.unwrap();
    assert_eq!(deleted, Deleted { databases: 1_200, containers: 0 });
    assert_eq!(h.engine.delete_all_databases(&test_context()).await.unwrap(), Deleted::default());
}

#[tokio::test]
async fn what_was_deleted_with_all_databases_is_gone_after_a_restart() {
    let ctx = &test_context();
    let dir = tempfile::tempdir().unwrap();
    {
        let h = Harness::on(embedded(dir.path()));
        let shared = Some(Throughput::Manual(400));
        let db = h.engine.create_database(ctx, "shared", shared).await.unwrap().rid;
        user(&h, db, "u").await;
        for id in ["a", "b"] {
            let spec = testkit::harness::spec(id);
            h.engine.create_container(ctx, db, spec, None).await.unwrap();
        }
        let own = database(&h, "own").await;
        h.engine.create_container(ctx, own, testkit::harness::spec("a"), shared).await.unwrap();
        let deleted = h.engine.delete_all_databases(ctx).await.unwrap();
        assert_eq!(deleted, Deleted { databases: 2, containers: 3 });
        assert_empty(&h, db);
        database(&h, "new").await;
        h.engine.close().await.unwrap();
    }
    let h = Harness::on(embedded(dir.path()));
    let names: Vec<_> = h.engine.catalog().databases().map(|found| found.id.clone()).collect();
    assert_eq!(names, ["new"]);
    assert_eq!(h.engine.catalog().offers().count(), 0);
}

fn assert_empty(h: &Harness, database: DatabaseRid) {
    let catalog = h.engine.catalog();
    assert_eq!(catalog.databases().count(), 0);
    assert_eq!(catalog.containers(database).count(), 0);
    assert_eq!(catalog.offers().count(), 0);
    assert_eq!(catalog.opaque_of(OpaqueOwner::Database(database), OpaqueKind::User).count(), 0);
}
