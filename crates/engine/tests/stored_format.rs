//! What a directory says of its format, and which directories are refused.

#![expect(clippy::unwrap_used, reason = "a test that can not go on should stop")]

use std::sync::Arc;

use bytes::Bytes;
use engine::components::{SystemRandom, TokioSpawner};
use engine::ops::ItemOp;
use engine::{Api, BodyFormat, CommitTime, Components, ContainerSpec, Engine, Error, Settings};
use model::PartitionId;
use model::order::TypeOrder;
use storage::{Durability, EmbeddedOptions, EmbeddedStore, LocalStore, Op, WriteBatch};
use testkit::clock::ManualClock;
use testkit::harness::{Harness, START_SECONDS, body, spec, test_context};

/// The key of the record that every build reads first.
const META: &[u8] = b"\0meta";

fn store(dir: &std::path::Path) -> Arc<dyn LocalStore> {
    Arc::new(EmbeddedStore::open(dir, EmbeddedOptions::new(engine::KEY_TAGS)).unwrap())
}

/// Why a store with this change of its `meta` record is refused, if it is.
async fn opened_with(replaced: &str, by: &str) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let h = Harness::on(store(dir.path()));
    h.container("c", 1).await;
    h.engine.close().await.unwrap();
    drop(h);
    let store = store(dir.path());
    let meta = store.view().get(PartitionId::CATALOG, META).unwrap().unwrap();
    let text = String::from_utf8(meta.to_vec()).unwrap();
    assert!(text.contains(replaced), "{text}");
    let v = Bytes::from(text.replace(replaced, by));
    let ops = vec![Op::Put { p: PartitionId::CATALOG, k: Bytes::from_static(META), v }];
    store.write(WriteBatch { ops }, Durability::Synced).unwrap();
    let components = Components {
        clock: Arc::new(ManualClock::at(START_SECONDS)),
        random: Arc::new(SystemRandom),
        spawner: Arc::new(TokioSpawner::new(tokio::runtime::Handle::current())),
    };
    match Engine::open(store, components, Settings::default()) {
        Ok(_) => None,
        Err(Error::Storage(reason)) => Some(reason),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_directory_of_another_format_is_refused_with_both_numbers() {
    for other in ["2", "4"] {
        let reason = opened_with(r#""format":3"#, &format!(r#""format":{other}"#)).await.unwrap();
        let expected = format!(
            "the data directory has format {other}, this version reads format 3; use the version \
             that wrote it to export the data"
        );
        assert_eq!(reason, expected);
    }
    // Other records of another format need not be readable.
    let shorter = opened_with(r#""format":3,"features":[],"#, r#""format":2,"#).await.unwrap();
    assert!(shorter.contains("has format 2"), "{shorter}");
    assert_eq!(opened_with(r#""format":3"#, r#""format":3"#).await, None);
}

#[tokio::test]
async fn a_directory_with_an_unknown_feature_is_refused_by_its_name() {
    let reason = opened_with(r#""features":[]"#, r#""features":["tides"]"#).await.unwrap();
    assert!(reason.contains(r#"the feature "tides""#), "{reason}");
}

#[tokio::test]
async fn what_a_container_is_stays_as_it_was_made() {
    let dir = tempfile::tempdir().unwrap();
    let h = Harness::on(store(dir.path()));
    let made = ContainerSpec {
        api: Api::Mongo,
        order: TypeOrder::Bson,
        body: BodyFormat::Bson,
        ..spec("c")
    };
    let c = h.container_with(made.clone(), 2).await;
    let other = ContainerSpec { default_ttl: Some(5), ..spec("c") };
    h.engine.replace_container(&test_context(), c.rid, other, None).await.unwrap();
    h.engine.close().await.unwrap();
    drop((h, c));
    let h = Harness::on(store(dir.path()));
    let spec = h.find("c").spec.clone();
    assert_eq!((spec.api, spec.order, spec.body), (Api::Mongo, TypeOrder::Bson, BodyFormat::Bson));
    assert_eq!(
        spec,
        ContainerSpec { default_ttl: Some(5), policies: spec.policies.clone(), ..made }
    );
}

#[tokio::test]
async fn the_commit_clock_goes_on_after_a_restart_with_an_earlier_clock() {
    let dir = tempfile::tempdir().unwrap();
    let ahead = ManualClock::at(START_SECONDS + 1_000);
    let h = Harness::at(ahead, store(dir.path()), Settings::default());
    let c = h.container("c", 2).await;
    assert_eq!(h.engine.commit_time(), CommitTime::default());
    let mut last = CommitTime::default();
    for id in 0..5 {
        h.create(&c, "a", &format!(r#"{{"id":"{id}","pk":"a"}}"#)).await.unwrap();
        assert!(h.engine.commit_time() > last);
        last = h.engine.commit_time();
    }
    h.engine.close().await.unwrap();
    drop((h, c));
    let h = Harness::on(store(dir.path()));
    let c = h.find("c");
    assert_eq!(h.engine.commit_time(), last);
    let op = ItemOp::Upsert { body: body(r#"{"id":"1","pk":"b"}"#), if_match: None };
    h.write(&c, "b", op).await.unwrap();
    assert_eq!(h.engine.commit_time(), CommitTime::of(last.seconds(), last.count() + 1));
    let told = CommitTime::of(last.seconds() + 60, 9);
    assert!(h.engine.advance_commit_clock(told));
    h.create(&c, "a", r#"{"id":"new","pk":"a"}"#).await.unwrap();
    assert_eq!(h.engine.commit_time(), CommitTime::of(told.seconds(), 10));
}
