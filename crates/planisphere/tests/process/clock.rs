//! A server whose clock is behind the times in its store.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use engine::Settings;
use storage::{EmbeddedOptions, EmbeddedStore};
use testkit::clock::ManualClock;
use testkit::harness::Harness;
use testkit::http::Request;

use crate::support::builder;

#[expect(clippy::disallowed_methods, reason = "the server runs in real time")]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Fills a directory with an engine whose clock is ahead.
fn fill(dir: &std::path::Path, seconds: u64) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = EmbeddedStore::open(dir, EmbeddedOptions::new(engine::KEY_TAGS)).unwrap();
        let h = Harness::at(ManualClock::at(seconds), Arc::new(store), Settings::default());
        let c = h.container("c", 1).await;
        h.create(&c, "a", r#"{"id":"ahead","pk":"a"}"#).await.unwrap();
        h.engine.close().await.unwrap();
    });
}

#[test]
fn a_directory_of_a_clock_that_was_ahead_is_warned_of_and_harms_nothing() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    std::fs::create_dir(&dir).unwrap();
    let ahead = now() + 400 * 24 * 60 * 60;
    fill(&dir, ahead);
    let server = builder().data_dir(&dir).start().unwrap();
    let warned = server.stderr();
    assert!(warned.contains("the clock is behind the newest time in the store"), "{warned}");
    let created = Request::new("POST", "/dbs/db/colls/c/docs")
        .header("x-ms-documentdb-partitionkey", r#"["a"]"#)
        .body(r#"{"id":"later","pk":"a"}"#)
        .signed(server.key(), "docs", "dbs/db/colls/c")
        .send(&mut server.connect().unwrap())
        .unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    let time = created.json()["_ts"].as_u64().unwrap();
    assert!(time.abs_diff(now()) < 60, "{time} is not now");
}
