//! Readers of change feeds beside writers, while ranges split and merge under both.

#![expect(clippy::unwrap_used, reason = "a test that can not go on should stop")]
#![expect(clippy::disallowed_methods, reason = "clients of a test run on the test's own runtime")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::changes::{ChangesMode, ChangesStart, ItemChange};
use engine::ops::{ItemOp, Scope};
use engine::repartition::{JobPhase, Progression, SplitPoint};
use engine::{Container, ContainerSpec};
use model::Lsn;
use storage::MemoryStore;
use testkit::harness::{Harness, body, spec, string_key, test_context};
use testkit::properties::TestProperties;

const WRITERS: u64 = 4;
const ITEMS_PER_WRITER: u64 = 8;
const VERSIONS: u64 = 40;

/// Writes its items round after round, each version one higher.
async fn write(h: Arc<Harness>, c: Arc<Container>, writer: u64) {
    for version in 0..VERSIONS {
        for item in 0..ITEMS_PER_WRITER {
            let key = format!("{writer}-{item}");
            let text = format!(r#"{{"id":"x","pk":"{key}","version":{version}}}"#);
            let op = ItemOp::Upsert { body: body(&text), if_match: None };
            h.write(&c, &key, op).await.unwrap();
        }
    }
}

/// Splits and merges until `is_over` is set.
async fn reshape(h: Arc<Harness>, c: Arc<Container>, is_over: Arc<AtomicBool>) -> usize {
    let mut jobs = 0;
    while !is_over.load(Ordering::SeqCst) || jobs < 6 {
        let routing = c.routing();
        let ids: Vec<_> = routing.ranges().iter().map(|r| r.id).collect();
        let how = Progression::Automatic;
        let job = if ids.len() < 4 && jobs % 5 != 4 {
            let range = ids[jobs % ids.len()];
            h.engine.start_split(&test_context(), c.rid, range, SplitPoint::Midpoint, how).await
        } else {
            let at = jobs % (ids.len() - 1).max(1);
            h.engine.start_merge(&test_context(), c.rid, &ids[at..ids.len().min(at + 2)], how).await
        };
        let ended = h.engine.finish_job(job.unwrap().id).await.unwrap();
        assert_eq!(ended.phase, JobPhase::Succeeded);
        jobs += 1;
    }
    jobs
}

/// Versions and LSNs as the reader saw them, per key.
type ObservedChanges = BTreeMap<String, Vec<(u64, Lsn)>>;

/// Reads a feed until the writers are done and no changes are left.
async fn follow(
    h: Arc<Harness>,
    c: Arc<Container>,
    scope: Scope,
    mode: ChangesMode,
    mut start: ChangesStart,
    is_over: Arc<AtomicBool>,
) -> ObservedChanges {
    let mut seen = ObservedChanges::new();
    loop {
        let is_last_round = is_over.load(Ordering::SeqCst);
        let page = h.changes(&c, scope.clone(), mode, start, 7).await.unwrap();
        for change in &page.changes {
            let (ItemChange::Latest(item) | ItemChange::Put { item, .. }) = change else {
                panic!("nothing is deleted")
            };
            let value = item.to_value(&TestProperties).unwrap();
            let key = value.field("pk").and_then(|v| v.as_str()).unwrap().to_owned();
            let version = value.field("version").and_then(|v| v.as_i64()).unwrap();
            let version = u64::try_from(version).unwrap();
            seen.entry(key).or_default().push((version, item.lsn()));
        }
        start = ChangesStart::After(page.position);
        if page.changes.is_empty() && page.is_caught_up {
            if is_last_round {
                return seen;
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn readers_miss_nothing_while_ranges_split_and_merge() {
    let h = Arc::new(Harness::on(Arc::new(MemoryStore::new())));
    let kept = ContainerSpec { versions_minutes: 60, ..spec("c") };
    let c = h.container_with(kept, 1).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let position = async |scope: &Scope, mode| {
        let page = h.changes(&c, scope.clone(), mode, ChangesStart::Now, 1).await.unwrap();
        ChangesStart::After(page.position)
    };
    let mut readers = Vec::new();
    for scope in [Scope::All, Scope::Key(string_key("2-3"))] {
        for mode in [ChangesMode::LatestVersion, ChangesMode::AllVersionsAndDeletes] {
            let start = position(&scope, mode).await;
            let (h, c, is_over) = (Arc::clone(&h), Arc::clone(&c), Arc::clone(&is_over));
            let task = tokio::spawn(follow(h, c, scope.clone(), mode, start, is_over));
            readers.push((scope.clone(), mode, task));
        }
    }
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(Arc::clone(&h), Arc::clone(&c), writer)))
        .collect();
    let reshaping = tokio::spawn(reshape(Arc::clone(&h), Arc::clone(&c), Arc::clone(&is_over)));
    for writer in writers {
        writer.await.unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    assert!(reshaping.await.unwrap() >= 6);
    for (scope, mode, task) in readers {
        let seen = task.await.unwrap();
        let keys = if let Scope::All = scope { WRITERS * ITEMS_PER_WRITER } else { 1 };
        assert_eq!(seen.len() as u64, keys);
        for (key, versions) in seen {
            let is_growing = versions.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1);
            assert!(is_growing, "{mode:?} of {key}: {versions:?}");
            assert_eq!(versions.last().unwrap().0, VERSIONS - 1, "{mode:?} of {key}");
            if mode == ChangesMode::AllVersionsAndDeletes {
                assert_eq!(versions.len() as u64, VERSIONS, "{key}: {versions:?}");
            }
        }
    }
}
