//! A wall clock that is set: writes made with a wrong clock do no harm to later ones.

#![expect(clippy::unwrap_used, reason = "a test that can not go on should stop")]

use std::sync::Arc;
use std::time::Duration;

use engine::changes::{ChangesMode, ChangesStart, ItemChange};
use engine::ops::{EtagCondition, ItemOp, ItemOutcome, Scope};
use engine::repartition::{JobPhase, Progression, SplitPoint};
use engine::{Container, ContainerSpec, Error, InvalidRequest, RangeId, Settings, StoredItem};
use model::{ErrorKind, PartitionId};
use storage::{Dir, EmbeddedOptions, EmbeddedStore, KeyRange};
use testkit::clock::ManualClock;
use testkit::harness::{Harness, START_SECONDS, body, spec, test_context};

use ChangesMode::{AllVersionsAndDeletes, LatestVersion};

const DAY: u64 = 24 * 60 * 60;
/// The time of the clock that is wrong.
const AHEAD: u64 = START_SECONDS + 400 * DAY;
const MANY: usize = 1_000;

fn item(id: &str) -> String {
    format!(r#"{{"id":"{id}","pk":"a"}}"#)
}

async fn create(h: &Harness, c: &Arc<Container>, id: &str) -> StoredItem {
    h.create(c, "a", &item(id)).await.unwrap()
}

async fn upsert(h: &Harness, c: &Arc<Container>, id: &str) -> StoredItem {
    let op = ItemOp::Upsert { body: body(&item(id)), if_match: None };
    h.write(c, "a", op).await.unwrap().item().unwrap().clone()
}

async fn delete(h: &Harness, c: &Arc<Container>, id: &str) {
    let op = ItemOp::Delete { id: id.into(), if_match: None };
    h.write(c, "a", op).await.unwrap();
}

fn entries_of(h: &Harness, partition: u32, tag: u8) -> usize {
    let view = h.store.view();
    let (lo, hi) = ([tag], [tag + 1]);
    let range = KeyRange::half_open(&lo, &hi);
    let mut cursor = view.scan(PartitionId(partition), range, Dir::Fwd).unwrap();
    std::iter::from_fn(|| cursor.next().unwrap().map(|_| ())).count()
}

const CHANGES: u8 = 0x30;
const VERSIONS: u8 = 0x31;

/// Lets time pass, and the sweep run.
async fn pass(h: &Harness, seconds: u64) {
    for _ in 0..seconds.div_ceil(10) {
        h.clock.advance(Duration::from_secs(10));
        tokio::task::yield_now().await;
    }
}

/// Lets time pass until `is_done`, for at most `seconds`.
async fn pass_until(h: &Harness, seconds: u64, mut is_done: impl FnMut() -> bool) {
    for _ in 0..seconds {
        h.clock.advance(Duration::from_secs(1));
        for _ in 0..200 {
            if is_done() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
    panic!("the sweep did not do it");
}

fn keeping_versions(minutes: u32) -> ContainerSpec {
    ContainerSpec { versions_minutes: minutes, ..spec("c") }
}

#[tokio::test]
async fn one_run_with_a_clock_ahead_leaves_later_items_alone() {
    let directory = tempfile::tempdir().unwrap();
    let open = |seconds: u64| {
        let store = Arc::new(
            EmbeddedStore::open(directory.path(), EmbeddedOptions::new(engine::KEY_TAGS)).unwrap(),
        );
        Harness::at(ManualClock::at(seconds), store, Settings::default())
    };
    let expiring = ContainerSpec { default_ttl: Some(60), ..spec("c") };

    let h = open(AHEAD);
    let c = h.container_with(expiring, 1).await;
    create(&h, &c, "ahead").await;
    h.engine.close().await.unwrap();
    drop((h, c));

    let h = open(START_SECONDS);
    let c = h.find("c");
    let later = create(&h, &c, "later").await;
    assert_eq!(later.ts(), START_SECONDS);
    assert_eq!(later.ticks() / 10_000_000, START_SECONDS);
    h.clock.advance(Duration::from_secs(59));
    assert!(h.read(&c, "a", "later").is_ok());
    h.clock.advance(Duration::from_secs(1));
    assert_eq!(h.read(&c, "a", "later").unwrap_err().kind(), ErrorKind::NotFound);
    // An item with a time in the future keeps it, and its next version follows that time.
    let ahead = h.read(&c, "a", "ahead").unwrap();
    assert_eq!(ahead.ts(), AHEAD);
    let changed = upsert(&h, &c, "ahead").await;
    assert_eq!((changed.ts(), changed.ticks()), (AHEAD, ahead.ticks() + 1));
    h.engine.close().await.unwrap();
}

#[tokio::test]
async fn versions_of_an_item_have_growing_times_whatever_the_clock_does() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let mut last = create(&h, &c, "1").await;
    for seconds in [START_SECONDS, AHEAD, START_SECONDS - DAY, START_SECONDS + 5, AHEAD - 1, AHEAD]
    {
        h.clock.set(seconds);
        for _ in 0..3 {
            let next = upsert(&h, &c, "1").await;
            assert!(next.ticks() > last.ticks() && next.ts() >= last.ts());
            assert!(next.ts() <= seconds.max(last.ts()) + 1);
            last = next;
        }
        let beside = create(&h, &c, &format!("beside {seconds}")).await;
        assert_eq!(beside.ts(), seconds);
        delete(&h, &c, &format!("beside {seconds}")).await;
    }
}

/// The etag of the Table API is the time, so a stale one must not match a later version.
#[tokio::test]
async fn an_item_made_anew_never_has_the_time_of_a_version_before() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    let mut given = Vec::new();
    for round in 0..50 {
        // The clock goes back to the same millisecond, or stands still.
        if round % 3 == 0 {
            h.clock.set(START_SECONDS);
        }
        given.push(create(&h, &c, "1").await.ticks());
        for _ in 0..round % 4 {
            given.push(upsert(&h, &c, "1").await.ticks());
        }
        delete(&h, &c, "1").await;
    }
    let last = create(&h, &c, "1").await;
    assert!(!given.contains(&last.ticks()));
    for stale in &given {
        let if_match = Some(EtagCondition::ChangedAt(*stale));
        let op = ItemOp::Replace { id: "1".into(), body: body(&item("1")), if_match };
        let refused = h.write(&c, "a", op).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PreconditionFailed);
    }
    given.sort_unstable();
    given.dedup();
    let versions = 50 + (0..50).map(|round| round % 4).sum::<usize>();
    assert_eq!(given.len(), versions, "no time is given out twice");
    let if_match = Some(EtagCondition::ChangedAt(last.ticks()));
    let op = ItemOp::Replace { id: "1".into(), body: body(&item("1")), if_match };
    assert!(matches!(h.write(&c, "a", op).await.unwrap(), ItemOutcome::Replaced(_)));
}

#[tokio::test]
async fn a_start_by_time_looks_at_each_time_and_not_at_their_order() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    for (id, seconds) in [
        ("before", START_SECONDS),
        ("ahead", AHEAD),
        ("back", START_SECONDS + 10),
        ("behind", START_SECONDS - DAY),
        ("after", START_SECONDS + 20),
    ] {
        h.clock.set(seconds);
        create(&h, &c, id).await;
    }
    for items_max in [1, 2, MANY] {
        let mut start = ChangesStart::Time(START_SECONDS + 5);
        let mut seen = Vec::new();
        loop {
            let page = h.changes(&c, Scope::All, LatestVersion, start, items_max).await.unwrap();
            seen.extend(page.changes.iter().map(|change| match change {
                ItemChange::Latest(item) => item.id().into_owned(),
                other @ (ItemChange::Put { .. } | ItemChange::Delete(_)) => panic!("{other:?}"),
            }));
            start = ChangesStart::After(page.position);
            if page.is_caught_up {
                break;
            }
        }
        assert_eq!(seen, ["ahead", "back", "after"], "pages of {items_max}");
    }
}

#[tokio::test]
async fn tombstones_of_a_clock_that_was_ahead_keep_none_waiting_for_long() {
    let h = Harness::in_memory();
    let c = h.container("c", 1).await;
    h.clock.set(AHEAD);
    for id in ["1", "2", "stays"] {
        create(&h, &c, id).await;
    }
    delete(&h, &c, "1").await;
    h.clock.set(START_SECONDS);
    delete(&h, &c, "2").await;
    assert_eq!(entries_of(&h, 1, CHANGES), 3);
    // The sweep finds them once, and an hour later they are old enough.
    pass(&h, 3_500).await;
    assert_eq!(entries_of(&h, 1, CHANGES), 3, "they are kept for an hour");
    pass_until(&h, 3_700, || entries_of(&h, 1, CHANGES) == 1).await;
    assert!(h.read(&c, "a", "stays").is_ok());
}

#[tokio::test]
async fn versions_of_a_clock_that_was_ahead_are_trimmed_with_those_after_them() {
    let h = Harness::in_memory();
    let c = h.container_with(keeping_versions(5), 1).await;
    h.clock.set(AHEAD);
    for n in 0..10 {
        create(&h, &c, &format!("ahead {n}")).await;
    }
    h.clock.set(START_SECONDS);
    create(&h, &c, "right").await;
    assert_eq!(entries_of(&h, 1, VERSIONS), 11);
    pass(&h, 350).await;
    assert_eq!(entries_of(&h, 1, VERSIONS), 11, "they are kept for as long as was promised");
    pass_until(&h, 60, || entries_of(&h, 1, VERSIONS) == 0).await;
    // Without later versions, they are trimmed by the time at which the sweep found them.
    h.clock.set(AHEAD);
    create(&h, &c, "ahead again").await;
    h.clock.set(START_SECONDS + DAY);
    pass_until(&h, 500, || entries_of(&h, 1, VERSIONS) == 0).await;
}

/// A reader of all versions that has caught up.
async fn reader_at_the_end(h: &Harness, c: &Arc<Container>) -> ChangesStart {
    let page = h.changes(c, Scope::All, AllVersionsAndDeletes, ChangesStart::Now, MANY).await;
    ChangesStart::After(page.unwrap().position)
}

async fn versions_after(
    h: &Harness,
    c: &Arc<Container>,
    start: &ChangesStart,
) -> Result<usize, Error> {
    let page = h.changes(c, Scope::All, AllVersionsAndDeletes, start.clone(), MANY).await?;
    Ok(page.changes.len())
}

#[tokio::test]
async fn a_reader_is_told_of_versions_that_a_clock_that_was_ahead_let_go() {
    let h = Harness::in_memory();
    let c = h.container_with(keeping_versions(60), 1).await;
    let reader = reader_at_the_end(&h, &c).await;
    create(&h, &c, "unseen").await;
    let young = reader_at_the_end(&h, &c).await;
    h.clock.set(AHEAD);
    pass_until(&h, 60, || entries_of(&h, 1, VERSIONS) == 0).await;
    h.clock.set(START_SECONDS + 10);
    create(&h, &c, "later").await;
    let refused = versions_after(&h, &c, &reader).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BadRequest);
    let Error::InvalidRequest(why) = refused else { panic!("{refused}") };
    assert_eq!(*why, InvalidRequest::VersionsRemoved);
    assert_eq!(versions_after(&h, &c, &young).await.unwrap(), 1, "this one missed nothing");
}

#[tokio::test]
async fn a_reader_of_a_clock_that_was_ahead_is_told_of_what_was_trimmed_since() {
    let h = Harness::in_memory();
    let c = h.container_with(keeping_versions(5), 1).await;
    h.clock.set(AHEAD);
    let reader = reader_at_the_end(&h, &c).await;
    h.clock.set(START_SECONDS);
    create(&h, &c, "1").await;
    assert_eq!(versions_after(&h, &c, &reader).await.unwrap(), 1);
    pass_until(&h, 420, || entries_of(&h, 1, VERSIONS) == 0).await;
    create(&h, &c, "2").await;
    let refused = versions_after(&h, &c, &reader).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BadRequest);
    // Versions written while none were kept do not count as kept either.
    let reader = {
        h.clock.set(AHEAD);
        let reader = reader_at_the_end(&h, &c).await;
        h.clock.set(START_SECONDS + DAY);
        reader
    };
    let off = h
        .engine
        .replace_container(&test_context(), c.rid, keeping_versions(0), None)
        .await
        .unwrap();
    create(&h, &off, "3").await;
    let on = h
        .engine
        .replace_container(&test_context(), c.rid, keeping_versions(5), None)
        .await
        .unwrap();
    create(&h, &on, "4").await;
    let refused = versions_after(&h, &on, &reader).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BadRequest);
}

async fn finish(h: &Harness, job: engine::repartition::JobId) {
    assert_eq!(h.engine.finish_job(job).await.unwrap().phase, JobPhase::Succeeded);
}

#[tokio::test]
async fn what_was_trimmed_is_known_after_a_split_and_a_merge() {
    let h = Harness::in_memory();
    let c = h.container_with(keeping_versions(60), 1).await;
    let reader = reader_at_the_end(&h, &c).await;
    create(&h, &c, "unseen").await;
    let young = reader_at_the_end(&h, &c).await;
    h.clock.set(AHEAD);
    pass_until(&h, 60, || entries_of(&h, 1, VERSIONS) == 0).await;
    h.clock.set(START_SECONDS + 10);
    let whole = Progression::Automatic;
    let job = h
        .engine
        .start_split(&test_context(), c.rid, RangeId(0), SplitPoint::Midpoint, whole)
        .await
        .unwrap();
    finish(&h, job.id).await;
    create(&h, &h.find("c"), "later").await;
    assert!(versions_after(&h, &c, &reader).await.is_err());
    assert_eq!(versions_after(&h, &c, &young).await.unwrap(), 1);
    let c = h.find("c");
    let ranges: Vec<_> = c.routing().ranges().iter().map(|range| range.id).collect();
    let job = h.engine.start_merge(&test_context(), c.rid, &ranges, whole).await.unwrap();
    finish(&h, job.id).await;
    assert!(versions_after(&h, &c, &reader).await.is_err());
    assert_eq!(versions_after(&h, &c, &young).await.unwrap(), 1);
}
