//! Item operations on the engine, through its public methods only.

use std::sync::Arc;
use std::time::Duration;

use engine::changes::{ChangesMode, ChangesStart, ItemChange};
use engine::ops::{EtagCondition, ItemOp, ItemOutcome, PageRequest, Row, Scope};
use engine::patch::{Patch, PatchOp};
use engine::{Error, RequestContext};
use model::{ErrorKind, PartitionKeyComponent, Value};
use testkit::harness::{
    Harness, body, key_of, path, spec, spec_with_paths, string_key, test_context,
};
use testkit::properties::TestProperties;

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.expect_err("the operation must fail").kind()
}

fn delete(id: &str) -> ItemOp {
    ItemOp::Delete { id: id.into(), if_match: None }
}

fn replace(id: &str, text: &str) -> ItemOp {
    ItemOp::Replace { id: id.into(), body: body(text), if_match: None }
}

fn upsert(text: &str) -> ItemOp {
    ItemOp::Upsert { body: body(text), if_match: None }
}

#[tokio::test]
async fn an_item_lives_from_create_to_delete() {
    let h = Harness::in_memory();
    let c = h.container("c", 3).await;
    let created = h.create(&c, "a", r#"{"id":"1","pk":"a","n":1}"#).await.unwrap();
    assert_eq!(kind(h.create(&c, "a", r#"{"id":"1","pk":"a"}"#).await), ErrorKind::AlreadyExists);
    let read = h.read(&c, "a", "1").unwrap();
    assert_eq!((read.body(), read.etag()), (created.body(), created.etag()));
    assert_eq!(kind(h.read(&c, "b", "1")), ErrorKind::NotFound);

    let outcome = h.write(&c, "a", replace("1", r#"{"id":"1","pk":"a","n":2}"#)).await.unwrap();
    let ItemOutcome::Replaced(second) = outcome else { panic!("{outcome:?}") };
    assert_ne!(second.etag(), created.etag());
    assert_eq!(second.rid(), created.rid());

    let outcome = h.write(&c, "a", upsert(r#"{"id":"2","pk":"a"}"#)).await.unwrap();
    assert!(matches!(outcome, ItemOutcome::Created(_)));
    let outcome = h.write(&c, "a", upsert(r#"{"id":"2","pk":"a","x":1}"#)).await.unwrap();
    assert!(matches!(outcome, ItemOutcome::Replaced(_)));

    assert!(matches!(h.write(&c, "a", delete("1")).await, Ok(ItemOutcome::Deleted)));
    assert_eq!(kind(h.write(&c, "a", delete("1")).await), ErrorKind::NotFound);
    assert_eq!(kind(h.read(&c, "a", "1")), ErrorKind::NotFound);
    assert_eq!(
        kind(h.write(&c, "a", replace("1", r#"{"id":"1","pk":"a"}"#)).await),
        ErrorKind::NotFound
    );
    let recreated = h.create(&c, "a", r#"{"id":"1","pk":"a"}"#).await.unwrap();
    assert_ne!(recreated.rid(), created.rid());
    assert_eq!(h.list(&c, Scope::All, 1).await.len(), 2);
}

#[tokio::test]
async fn replace_with_another_id_renames() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    h.create(&c, "a", r#"{"id":"1","pk":"a"}"#).await.unwrap();
    h.create(&c, "a", r#"{"id":"3","pk":"a"}"#).await.unwrap();
    h.write(&c, "a", replace("1", r#"{"id":"2","pk":"a"}"#)).await.unwrap();
    assert_eq!(kind(h.read(&c, "a", "1")), ErrorKind::NotFound);
    h.read(&c, "a", "2").unwrap();
    let taken = h.write(&c, "a", replace("2", r#"{"id":"3","pk":"a"}"#)).await;
    assert_eq!(kind(taken), ErrorKind::AlreadyExists);
    h.read(&c, "a", "2").unwrap();
}

#[tokio::test]
async fn conditions_decide_by_version() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let first = h.create(&c, "a", r#"{"id":"1","pk":"a"}"#).await.unwrap();
    let current = Some(EtagCondition::parse(&first.etag().to_string()));
    let ctx = &mut test_context();
    let read = h.engine.read_item(ctx, &c, &string_key("a"), "1", current.as_ref());
    assert_eq!(kind(read), ErrorKind::NotModified);

    let op =
        ItemOp::Upsert { body: body(r#"{"id":"1","pk":"a","n":1}"#), if_match: current.clone() };
    h.write(&c, "a", op.clone()).await.unwrap();
    assert_eq!(kind(h.write(&c, "a", op).await), ErrorKind::PreconditionFailed);
    let op = ItemOp::Delete { id: "1".into(), if_match: current.clone() };
    assert_eq!(kind(h.write(&c, "a", op).await), ErrorKind::PreconditionFailed);
    let op = ItemOp::Upsert { body: body(r#"{"id":"new","pk":"a"}"#), if_match: current };
    assert!(matches!(h.write(&c, "a", op).await, Ok(ItemOutcome::Created(_))));
    let any = ItemOp::Delete { id: "1".into(), if_match: Some(EtagCondition::Any) };
    h.write(&c, "a", any).await.unwrap();
}

#[tokio::test]
async fn the_key_named_must_be_the_key_of_the_item() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let wrong = h.create(&c, "b", r#"{"id":"1","pk":"a"}"#).await;
    assert_eq!(kind(wrong), ErrorKind::PartitionKeyMismatch);
    h.create(&c, "a", r#"{"id":"1","pk":"a"}"#).await.unwrap();
    let moved = h.write(&c, "a", replace("1", r#"{"id":"1","pk":"b"}"#)).await;
    assert_eq!(kind(moved), ErrorKind::PartitionKeyMismatch);
    let two = h.container_with(spec_with_paths("two", &["/a", "/b"]), 1).await;
    let prefix = h.create(&two, "x", r#"{"id":"1","a":"x","b":"y"}"#).await;
    assert_eq!(kind(prefix), ErrorKind::PartitionKeyMismatch);
}

#[tokio::test]
async fn a_batch_happens_wholly_or_not_at_all() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    h.create(&c, "a", r#"{"id":"0","pk":"a"}"#).await.unwrap();
    let ctx = &mut test_context();
    let ops = vec![
        ItemOp::Create { body: body(r#"{"id":"1","pk":"a"}"#) },
        replace("1", r#"{"id":"1","pk":"a","n":2}"#),
        ItemOp::Read { id: "1".into(), if_none_match: None },
        delete("0"),
    ];
    let results = h.engine.write_batch(ctx, &c, string_key("a"), ops).await.unwrap();
    assert!(results.iter().all(|r| r.outcome.is_ok()), "{results:?}");
    let ItemOutcome::Read(seen) = results[2].outcome.as_ref().unwrap() else { panic!() };
    assert_eq!(&seen.body()[..], br#"{"id":"1","pk":"a","n":2}"#);
    let lsn = ctx.served.ranges[0].1;

    let ops = vec![
        ItemOp::Create { body: body(r#"{"id":"5","pk":"a"}"#) },
        delete("missing"),
        ItemOp::Create { body: body(r#"{"id":"6","pk":"a"}"#) },
    ];
    let ctx = &mut test_context();
    let results = h.engine.write_batch(ctx, &c, string_key("a"), ops).await.unwrap();
    let kinds: Vec<_> = results.into_iter().map(|r| kind(r.outcome)).collect();
    assert_eq!(
        kinds,
        [ErrorKind::FailedDependency, ErrorKind::NotFound, ErrorKind::FailedDependency]
    );
    assert_eq!(kind(h.read(&c, "a", "5")), ErrorKind::NotFound);
    assert_eq!(ctx.served.ranges[0].1, lsn, "a failed batch takes no position");
}

#[tokio::test]
async fn patches_change_parts_and_keep_identity() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    h.create(&c, "a", r#"{"id":"1","pk":"a","n":1,"old":true}"#).await.unwrap();
    let patch = |operations| ItemOp::Patch {
        id: "1".into(),
        patch: Patch { operations, ..Patch::default() },
        if_match: None,
    };
    let ops = vec![
        PatchOp::Increment { path: vec!["n".into()], by: Value::Int64(41) },
        PatchOp::Remove { path: vec!["old".into()] },
        PatchOp::Set { path: vec!["new".into()], value: "x".into() },
    ];
    h.write(&c, "a", patch(ops)).await.unwrap();
    let read = h.read(&c, "a", "1").unwrap();
    assert_eq!(&read.body()[..], br#"{"id":"1","pk":"a","n":42,"new":"x"}"#);
    let moves_key = vec![PatchOp::Set { path: vec!["pk".into()], value: "b".into() }];
    assert_eq!(kind(h.write(&c, "a", patch(moves_key)).await), ErrorKind::BadRequest);
    let half = vec![
        PatchOp::Set { path: vec!["n".into()], value: Value::Int64(0) },
        PatchOp::Remove { path: vec!["missing".into()] },
    ];
    assert_eq!(kind(h.write(&c, "a", patch(half)).await), ErrorKind::BadRequest);
    assert_eq!(h.read(&c, "a", "1").unwrap().etag(), read.etag());
}

#[tokio::test]
async fn unique_keys_hold_within_a_logical_partition() {
    let h = Harness::in_memory();
    let mut with_unique = spec("c");
    with_unique.unique_keys = vec![vec![path("/email")], vec![path("/a"), path("/b")]];
    let c = h.container_with(with_unique, 2).await;
    let item = |id: &str, pk: &str, email: &str, a: &str| {
        format!(r#"{{"id":"{id}","pk":"{pk}","email":"{email}","a":{a}}}"#)
    };
    h.create(&c, "p", &item("1", "p", "x", "1")).await.unwrap();
    let same_email = h.create(&c, "p", &item("2", "p", "x", "2")).await;
    assert_eq!(kind(same_email), ErrorKind::UniqueKeyViolation);
    let same_pair = h.create(&c, "p", &item("2", "p", "y", "1.0")).await;
    assert_eq!(kind(same_pair), ErrorKind::UniqueKeyViolation);
    h.create(&c, "q", &item("1", "q", "x", "1")).await.unwrap();
    h.create(&c, "p", &item("2", "p", "y", "2")).await.unwrap();
    let onto = h.write(&c, "p", replace("2", &item("2", "p", "x", "2"))).await;
    assert_eq!(kind(onto), ErrorKind::UniqueKeyViolation);
    h.write(&c, "p", replace("2", &item("2", "p", "z", "2"))).await.unwrap();
    h.create(&c, "p", &item("3", "p", "y", "3")).await.unwrap();
    h.write(&c, "p", delete("1")).await.unwrap();
    h.create(&c, "p", &item("4", "p", "x", "1")).await.unwrap();
    h.write(&c, "p", replace("4", &item("5", "p", "x", "1"))).await.unwrap();
    assert_eq!(
        kind(h.create(&c, "p", &item("6", "p", "x", "6")).await),
        ErrorKind::UniqueKeyViolation
    );
}

#[tokio::test]
async fn expired_items_are_gone_at_once_and_purged_later() {
    let h = Harness::in_memory();
    let mut expiring = spec("c");
    expiring.default_ttl = Some(10);
    expiring.unique_keys = vec![vec![path("/u")]];
    let c = h.container_with(expiring, 1).await;
    h.create(&c, "a", r#"{"id":"default","pk":"a","u":1}"#).await.unwrap();
    h.create(&c, "a", r#"{"id":"short","pk":"a","u":2,"ttl":2}"#).await.unwrap();
    h.create(&c, "a", r#"{"id":"never","pk":"a","u":3,"ttl":-1}"#).await.unwrap();
    for bad in ["0", "-2", "null", "1.5", "\"5\"", "99999999999"] {
        let text = format!(r#"{{"id":"bad","pk":"a","ttl":{bad}}}"#);
        assert_eq!(kind(h.create(&c, "a", &text).await), ErrorKind::BadRequest, "{bad}");
    }
    h.clock.advance(Duration::from_secs(2));
    assert_eq!(kind(h.read(&c, "a", "short")), ErrorKind::NotFound);
    assert_eq!(h.list(&c, Scope::All, 10).await, ["default", "never"]);
    // An expired item holds neither its id nor its unique values.
    h.create(&c, "a", r#"{"id":"other","pk":"a","u":2,"ttl":-1}"#).await.unwrap();
    h.create(&c, "a", r#"{"id":"short","pk":"a","u":4,"ttl":-1}"#).await.unwrap();
    h.clock.advance(Duration::from_secs(8));
    assert_eq!(h.list(&c, Scope::All, 10).await, ["never", "other", "short"]);
    // The sweep removes the row.
    while h.engine.statistics(&c)[0].1 > 3 {
        h.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn sessions_never_read_the_past() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let ctx = &mut test_context();
    let op = ItemOp::Create { body: body(r#"{"id":"1","pk":"a"}"#) };
    h.engine.write_item(ctx, &c, None, op).await.unwrap();
    let (range, lsn) = ctx.served.ranges[0];
    let mut next = RequestContext { session: vec![(range, lsn)], ..test_context() };
    h.engine.read_item(&mut next, &c, &string_key("a"), "1", None).unwrap();
    assert_eq!(next.served.ranges, [(range, lsn)]);
    let mut future = RequestContext { session: vec![(range, lsn.next())], ..test_context() };
    let read = h.engine.read_item(&mut future, &c, &string_key("a"), "1", None);
    assert_eq!(kind(read), ErrorKind::SessionNotAvailable);
}

#[tokio::test]
async fn feeds_page_through_every_item_exactly_once() {
    for ranges in [1, 3, 8] {
        let h = Harness::in_memory();
        let c = h.container("c", ranges).await;
        for n in 0..50 {
            let text = format!(r#"{{"id":"{n}","pk":"{}"}}"#, n % 17);
            h.create(&c, &(n % 17).to_string(), &text).await.unwrap();
        }
        let whole = h.list(&c, Scope::All, 1000).await;
        assert_eq!(whole.len(), 50);
        for page in [1, 7, 50] {
            assert_eq!(h.list(&c, Scope::All, page).await, whole, "pages of {page}");
        }
        let mut by_range = Vec::new();
        for range in c.routing().ranges() {
            by_range.extend(h.list(&c, Scope::Range { id: range.id, epk: None }, 3).await);
        }
        assert_eq!(by_range, whole);
        let mut of_key = h.list(&c, Scope::Key(string_key("3")), 2).await;
        of_key.sort();
        assert_eq!(of_key, ["20", "3", "37"]);
    }
}

#[tokio::test]
async fn the_longest_id_is_like_any_other() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let (longest, longer) = ("x".repeat(1536), "x".repeat(1537));
    let item = |id: &str| format!(r#"{{"id":"{id}","pk":"k"}}"#);
    h.create(&c, "k", &item(&longest)).await.unwrap();
    assert_eq!(h.read(&c, "k", &longest).unwrap().id(), longest);
    assert!(matches!(h.create(&c, "k", &item(&longer)).await, Err(Error::InvalidRequest(_))));
    assert!(matches!(h.read(&c, "k", &longer), Err(Error::NotFound { .. })));
    let (mode, start) = (ChangesMode::LatestVersion, ChangesStart::Beginning);
    let page = h.changes(&c, Scope::All, mode, start, 10).await.unwrap();
    let [ItemChange::Latest(changed)] = page.changes.as_slice() else { panic!("{page:?}") };
    assert_eq!(changed.id(), longest);
    h.write(&c, "k", delete(&longest)).await.unwrap();
    assert!(matches!(h.read(&c, "k", &longest), Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn feeds_page_past_the_longest_ids() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let id = |n: usize| format!("{}{n:03}", "x".repeat(1533));
    for n in 0..5 {
        h.create(&c, "k", &format!(r#"{{"id":"{}","pk":"k"}}"#, id(n))).await.unwrap();
    }
    assert_eq!(h.list(&c, Scope::All, 1).await, (0..5).map(id).collect::<Vec<_>>());
    // A token fits the limit that clients announce, and stays valid when the item it names is gone.
    let request = PageRequest { items_max: Some(2), ..PageRequest::default() };
    let ctx = &mut test_context();
    let page = h.engine.list_items(ctx, &c, Scope::All, request).await.unwrap();
    let token = page.continuation.unwrap();
    assert!(token.len() <= 1024, "{} characters", token.len());
    h.write(&c, "k", delete(&id(1))).await.unwrap();
    let request = PageRequest { continuation: Some(token), ..PageRequest::default() };
    let rest = h.engine.list_items(ctx, &c, Scope::All, request).await.unwrap();
    let ids: Vec<_> = rest.rows.iter().map(row_id).collect();
    assert!(ids.ends_with(&[id(2), id(3), id(4)]), "{ids:?}");
}

fn row_id(row: &Row) -> String {
    match row {
        Row::Item(item) => item.id().into_owned(),
        Row::Json(text) => String::from_utf8_lossy(text).into_owned(),
    }
}

#[tokio::test]
async fn ids_longer_than_any_item_has_are_not_found() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let long = "x".repeat(70_000);
    assert_eq!(kind(h.read(&c, "k", &long)), ErrorKind::NotFound);
    assert_eq!(kind(h.write(&c, "k", delete(&long)).await), ErrorKind::NotFound);
}

#[tokio::test]
async fn zero_and_minus_zero_are_two_keys() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let key = |n: f64| Some(key_of([PartitionKeyComponent::Number(n)]));
    let create = |pk: &str| ItemOp::Create { body: body(&format!(r#"{{"id":"1","pk":{pk}}}"#)) };
    let ctx = &mut test_context();
    let mixed = h.engine.write_item(ctx, &c, key(0.0), create("-0.0")).await;
    assert_eq!(kind(mixed), ErrorKind::PartitionKeyMismatch);
    h.engine.write_item(ctx, &c, key(-0.0), create("-0.0")).await.unwrap();
    h.engine.write_item(ctx, &c, key(0.0), create("0")).await.unwrap();
    assert_eq!(h.list(&c, Scope::All, 10).await.len(), 2);
}

#[tokio::test]
async fn old_tombstones_are_trimmed_from_the_log() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    for n in 0..10 {
        h.create(&c, "k", &format!(r#"{{"id":"{n}","pk":"k"}}"#)).await.unwrap();
    }
    for n in 0..9 {
        h.write(&c, "k", delete(&n.to_string())).await.unwrap();
    }
    let entries = || {
        let view = h.store.view();
        let range = storage::KeyRange::half_open(&[0x30], &[0x31]);
        let mut cursor = view.scan(model::PartitionId(1), range, storage::Dir::Fwd).unwrap();
        std::iter::from_fn(|| cursor.next().unwrap().map(|_| ())).count()
    };
    assert_eq!(entries(), 10, "one live entry and nine tombstones");
    h.clock.advance(Duration::from_secs(3601));
    while entries() > 1 {
        h.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    h.read(&c, "k", "9").unwrap();
}

#[tokio::test]
async fn deleting_a_partition_key_spares_the_others() {
    let h = Harness::in_memory();
    let c = h.container("c", 2).await;
    for n in 0..1200 {
        let pk = if n % 2 == 0 { "even" } else { "odd" };
        h.create(&c, pk, &format!(r#"{{"id":"{n}","pk":"{pk}"}}"#)).await.unwrap();
    }
    let ctx = &mut test_context();
    h.engine.delete_partition_key(ctx, &c, string_key("even")).await.unwrap();
    let left = h.list(&c, Scope::All, 1000).await;
    assert_eq!(left.len(), 600);
    assert!(left.iter().all(|id| id.parse::<u32>().unwrap() % 2 == 1));
    let items: u64 = h.engine.statistics(&c).iter().map(|(_, items, _)| items).sum();
    assert_eq!(items, 600);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writers_of_the_same_items_never_miss_each_other() {
    let h = Arc::new(Harness::in_memory());
    let c = h.container("c", 3).await;
    for key in ["a", "b", "c"] {
        h.create(&c, key, &format!(r#"{{"id":"x","pk":"{key}","n":0}}"#)).await.unwrap();
    }
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..16 {
        let (h, c) = (Arc::clone(&h), Arc::clone(&c));
        writers.spawn(async move {
            for round in 0..50 {
                let key = ["a", "b", "c"][(writer + round) % 3];
                let text = format!(r#"{{"id":"x","pk":"{key}","w":{writer}}}"#);
                let op = match round % 3 {
                    0 => upsert(&text),
                    1 => replace("x", &text),
                    _ => ItemOp::Patch {
                        id: "x".into(),
                        patch: Patch {
                            operations: vec![PatchOp::Increment {
                                path: vec!["n".into()],
                                by: Value::Int64(1),
                            }],
                            ..Patch::default()
                        },
                        if_match: None,
                    },
                };
                h.write(&c, key, op).await.unwrap();
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    let total: u64 = h.engine.statistics(&c).iter().map(|(_, items, _)| items).sum();
    assert_eq!(total, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn patches_of_large_items_lose_no_update() {
    let h = Arc::new(Harness::in_memory());
    let c = h.container("c", 1).await;
    let pad = "x".repeat(40_000);
    h.create(&c, "a", &format!(r#"{{"id":"1","pk":"a","n":0,"pad":"{pad}"}}"#)).await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (h, c) = (Arc::clone(&h), Arc::clone(&c));
        writers.spawn(async move {
            for _ in 0..20 {
                let by = PatchOp::Increment { path: vec!["n".into()], by: Value::Int64(1) };
                let patch = Patch { operations: vec![by], ..Patch::default() };
                h.write(&c, "a", ItemOp::Patch { id: "1".into(), patch, if_match: None })
                    .await
                    .unwrap();
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    let item = h.read(&c, "a", "1").unwrap().to_value(&TestProperties).unwrap();
    assert_eq!(item.field("n"), Some(&Value::Int64(160)));
    let missing =
        Patch { operations: vec![PatchOp::Remove { path: vec!["no".into()] }], ..Patch::default() };
    let op = ItemOp::Patch { id: "1".into(), patch: missing, if_match: None };
    assert_eq!(kind(h.write(&c, "a", op).await), ErrorKind::BadRequest);
}

#[tokio::test]
async fn bodies_are_kept_as_written_except_system_properties() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let text = r#"{ "id" : "1", "pk":"a", "big":9007199254740993, "f":1.0 }"#;
    let item = h.create(&c, "a", text).await.unwrap();
    assert_eq!(&item.body()[..], text.as_bytes());
    let own = h.create(&c, "a", r#"{"id":"2","pk":"a","_etag":"mine","_ts":1,"_rid":"x"}"#).await;
    assert_eq!(&own.unwrap().body()[..], br#"{"id":"2","pk":"a"}"#);
    let mut shown = Vec::new();
    h.read(&c, "a", "1").unwrap().write_json(&TestProperties, &mut shown);
    let shown = model::json::parse(&shown, 128).unwrap().value;
    assert_eq!(shown, h.read(&c, "a", "1").unwrap().to_value(&TestProperties).unwrap());
    assert_eq!(shown.field("_etag"), Some(&item.etag().to_string().into()));
}
