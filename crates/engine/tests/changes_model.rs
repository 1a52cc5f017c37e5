//! Random operations, splits and merges under readers of change feeds, compared with a list of
//! everything that happened.

#![expect(clippy::unwrap_used, reason = "a test that can not go on should stop")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::changes::{ChangesMode, ChangesStart, ItemChange};
use engine::ops::{ItemOp, ItemOutcome, Scope};
use engine::repartition::{JobPhase, Progression, SplitPoint};
use engine::{Container, ContainerSpec, RangeId};
use model::{Epk, EpkRange, Lsn};
use proptest::prelude::*;
use storage::faulty::FaultyStore;
use testkit::harness::{Harness, START_SECONDS, body, spec, string_key, test_context};

const KEYS: u8 = 6;
const IDS: u8 = 4;

#[derive(Clone, Debug)]
enum Step {
    Upsert { key: u8, id: u8, n: u8, ttl: Option<u8> },
    Delete { key: u8, id: u8 },
    Batch { key: u8, ids: Vec<u8>, n: u8 },
    Erase { key: u8 },
    Advance { seconds: u8 },
    Follow { who: u8, scope: u8, start: u8 },
    Page { who: u8, items_max: u8 },
    Split { range: u8 },
    Merge { range: u8 },
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (key, id, n) = (0..KEYS, 0..IDS, any::<u8>());
    let ttl = prop::option::weighted(0.2, 1..6u8);
    let upsert = (key.clone(), id.clone(), n, ttl);
    let batch = (key.clone(), prop::collection::vec(id.clone(), 1..4), n);
    let follow = (0..4u8, any::<u8>(), 0..3u8);
    let step = prop_oneof![
        10 => upsert.prop_map(|(key, id, n, ttl)| Step::Upsert { key, id, n, ttl }),
        4 => (key.clone(), id).prop_map(|(key, id)| Step::Delete { key, id }),
        3 => batch.prop_map(|(key, ids, n)| Step::Batch { key, ids, n }),
        1 => key.prop_map(|key| Step::Erase { key }),
        2 => (1..4u8).prop_map(|seconds| Step::Advance { seconds }),
        2 => follow.prop_map(|(who, scope, start)| Step::Follow { who, scope, start }),
        6 => (0..4u8, 1..6u8).prop_map(|(who, items_max)| Step::Page { who, items_max }),
        1 => any::<u8>().prop_map(|range| Step::Split { range }),
        1 => any::<u8>().prop_map(|range| Step::Merge { range }),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..60)
}

/// The expected events of an item in the log of versions, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Create(String),
    Replace(String),
    Delete,
    Expire,
}

/// The current state of an item, unless it has expired.
#[derive(Clone, Debug)]
struct Item {
    text: String,
    expires_at: Option<u64>,
}

type Name = (u8, u8);

/// A reader of a feed and what it has seen.
struct Follower {
    scope: Scope,
    mode: ChangesMode,
    start: ChangesStart,
    /// Per item, how many events had happened when the reader began.
    events_before: BTreeMap<Name, usize>,
    /// Items that had expired when the reader began: the sweep may have removed them before.
    due_before: BTreeSet<Name>,
    events: BTreeMap<Name, Vec<Event>>,
    /// Latest version: text and LSN of what was shown, in order.
    shown: BTreeMap<Name, Vec<(String, Lsn)>>,
    etags: BTreeSet<String>,
}

struct Run {
    harness: Harness,
    store: Arc<FaultyStore>,
    container: Arc<Container>,
    now: u64,
    items: BTreeMap<Name, Item>,
    events: BTreeMap<Name, Vec<Event>>,
    followers: BTreeMap<u8, Follower>,
}

fn text((key, id): Name, n: u8, ttl: Option<u8>) -> String {
    let ttl = ttl.map(|ttl| format!(r#","ttl":{ttl}"#)).unwrap_or_default();
    format!(r#"{{"id":"{id}","pk":"{key}","n":{n}{ttl}}}"#)
}

fn scope_of(choice: u8) -> Scope {
    let third = |n: u8| match n {
        0 => Epk::min(),
        3 => Epk::max(),
        n => Epk::from_bytes(&[0x15 * n]),
    };
    match choice % 8 {
        0..3 => Scope::All,
        n @ 3..6 => Scope::Epk(EpkRange { min: third(n - 3), max: third(n - 2) }),
        _ => Scope::Key(string_key(&(choice % KEYS).to_string())),
    }
}

impl Run {
    async fn start(splits: u8) -> Self {
        let store = Arc::new(FaultyStore::in_memory());
        let harness = Harness::on(Arc::<FaultyStore>::clone(&store));
        let spec = ContainerSpec { default_ttl: Some(-1), versions_minutes: 600, ..spec("c") };
        // The throughput is small, so that one partition is enough to merge to.
        let container = harness.container_with(spec, 1).await;
        let mut run = Self {
            harness,
            store,
            container,
            now: START_SECONDS,
            items: BTreeMap::new(),
            events: BTreeMap::new(),
            followers: BTreeMap::new(),
        };
        for range in 0..splits {
            run.split(range).await;
        }
        run
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Upsert { key, id, n, ttl } => {
                let text = text((key, id), n, ttl);
                let op = ItemOp::Upsert { body: body(&text), if_match: None };
                let outcome = self.harness.write(&self.container, &key.to_string(), op).await;
                let is_new = matches!(outcome.unwrap(), ItemOutcome::Created(_));
                assert_eq!(is_new, self.live((key, id)).is_none());
                self.put((key, id), text, ttl);
            }
            Step::Delete { key, id } => {
                let op = ItemOp::Delete { id: id.to_string().into(), if_match: None };
                let outcome = self.harness.write(&self.container, &key.to_string(), op).await;
                assert_eq!(outcome.is_ok(), self.live((key, id)).is_some());
                if outcome.is_ok() {
                    self.take((key, id), Event::Delete);
                }
            }
            Step::Batch { key, ids, n } => self.batch(key, &ids, n).await,
            Step::Erase { key } => {
                let ctx = &mut test_context();
                let name = string_key(&key.to_string());
                self.harness.engine.delete_partition_key(ctx, &self.container, name).await.unwrap();
                for id in 0..IDS {
                    if self.live((key, id)).is_some() {
                        self.take((key, id), Event::Delete);
                    }
                }
            }
            Step::Advance { seconds } => {
                self.harness.clock.advance(Duration::from_secs(seconds.into()));
                self.now += u64::from(seconds);
            }
            Step::Follow { who, scope, start } => self.follow(who, scope, start).await,
            Step::Page { who, items_max } => {
                if self.followers.contains_key(&who) {
                    self.page(who, items_max.into()).await;
                }
            }
            Step::Split { range } => self.split(range).await,
            Step::Merge { range } => self.merge(range).await,
            Step::Crash => self.crash(),
        }
    }

    fn live(&self, name: Name) -> Option<&Item> {
        self.items.get(&name).filter(|item| item.expires_at.is_none_or(|at| at > self.now))
    }

    fn note(&mut self, name: Name, event: Event) {
        self.events.entry(name).or_default().push(event);
    }

    fn put(&mut self, name: Name, text: String, ttl: Option<u8>) {
        let event = match (self.live(name), self.items.get(&name)) {
            (Some(_), _) => Event::Replace(text.clone()),
            (None, Some(_)) => {
                self.note(name, Event::Expire);
                Event::Create(text.clone())
            }
            (None, None) => Event::Create(text.clone()),
        };
        self.note(name, event);
        let expires_at = ttl.map(|ttl| self.now + u64::from(ttl));
        self.items.insert(name, Item { text, expires_at });
    }

    fn take(&mut self, name: Name, event: Event) {
        self.items.remove(&name);
        self.note(name, event);
    }

    /// Upserts in one transaction, the same item more than once at times.
    async fn batch(&mut self, key: u8, ids: &[u8], n: u8) {
        let op = |id: &u8| {
            let body = body(&text((key, *id), n, None));
            ItemOp::Upsert { body, if_match: None }
        };
        let ctx = &mut test_context();
        let name = string_key(&key.to_string());
        let ops = ids.iter().map(op).collect();
        let results =
            self.harness.engine.write_batch(ctx, &self.container, name, ops).await.unwrap();
        assert!(results.iter().all(|r| r.outcome.is_ok()));
        for id in ids {
            self.put((key, *id), text((key, *id), n, None), None);
        }
    }

    async fn follow(&mut self, who: u8, scope: u8, start: u8) {
        let (mode, start) = match start {
            0 => (ChangesMode::LatestVersion, ChangesStart::Beginning),
            1 => (ChangesMode::LatestVersion, ChangesStart::Now),
            _ => (ChangesMode::AllVersionsAndDeletes, ChangesStart::Now),
        };
        let is_now = start == ChangesStart::Now;
        let due = self.items.keys().filter(|name| self.live(**name).is_none()).copied();
        let follower = Follower {
            events_before: self.events.iter().map(|(n, events)| (*n, events.len())).collect(),
            due_before: due.collect(),
            ..Follower::new(scope_of(scope), mode, start)
        };
        self.followers.insert(who, follower);
        if is_now {
            // "Now" is the time of the first request.
            self.page(who, 1).await;
        }
    }

    async fn page(&mut self, who: u8, items_max: usize) -> bool {
        let follower = self.followers.get_mut(&who).unwrap();
        let (scope, start) = (follower.scope.clone(), follower.start.clone());
        let read = self.harness.changes(&self.container, scope, follower.mode, start, items_max);
        let page = read.await.unwrap();
        follower.start = ChangesStart::After(page.position);
        for change in &page.changes {
            follower.see(change);
        }
        page.changes.is_empty() && page.is_caught_up
    }

    async fn drain(&mut self, who: u8) {
        for _ in 0..1_000 {
            if self.page(who, 2).await {
                return;
            }
        }
        panic!("the feed does not end");
    }

    async fn split(&mut self, choice: u8) {
        let routing = self.container.routing();
        let range = routing.ranges()[usize::from(choice) % routing.ranges().len()].id;
        if routing.ranges().len() < 6 {
            let started = self
                .harness
                .engine
                .start_split(
                    &test_context(),
                    self.container.rid,
                    range,
                    SplitPoint::Midpoint,
                    Progression::Automatic,
                )
                .await;
            self.finish(started.unwrap().id).await;
        }
    }

    async fn merge(&mut self, choice: u8) {
        let routing = self.container.routing();
        let ranges = routing.ranges();
        if ranges.len() > 1 {
            let at = usize::from(choice) % (ranges.len() - 1);
            let pair: [RangeId; 2] = [ranges[at].id, ranges[at + 1].id];
            let how = Progression::Automatic;
            let started = self
                .harness
                .engine
                .start_merge(&test_context(), self.container.rid, &pair, how)
                .await;
            self.finish(started.unwrap().id).await;
        }
    }

    async fn finish(&self, job: engine::repartition::JobId) {
        let ended = self.harness.engine.finish_job(job).await.unwrap();
        assert_eq!(ended.phase, JobPhase::Succeeded);
    }

    fn crash(&mut self) {
        self.store = Arc::new(self.store.crash(0));
        self.harness = Harness::on(Arc::<FaultyStore>::clone(&self.store));
        self.harness.clock.advance(Duration::from_secs(self.now - START_SECONDS));
        self.container = self.harness.find("c");
    }

    /// Lets the sweep remove what has expired.
    async fn sweep(&mut self) {
        let is_swept = |run: &Self| {
            let counted = run.harness.engine.statistics(&run.container);
            counted.iter().map(|(_, items, _)| items).sum::<u64>() == run.items.len() as u64
        };
        for _ in 0..500 {
            self.harness.clock.advance(Duration::from_secs(1));
            self.now += 1;
            let due = self.items.keys().filter(|name| self.live(**name).is_none());
            let due: Vec<Name> = due.copied().collect();
            for name in due {
                self.take(name, Event::Expire);
            }
            for _ in 0..2_000 {
                if is_swept(self) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        }
        panic!("what has expired is still there");
    }

    /// Every reader reads to the end, and has seen the expected events.
    async fn check(&mut self) {
        self.sweep().await;
        let everyone: Vec<u8> = self.followers.keys().copied().collect();
        for who in everyone {
            self.drain(who).await;
            let follower = &self.followers[&who];
            match follower.mode {
                ChangesMode::AllVersionsAndDeletes => self.check_versions(follower),
                ChangesMode::LatestVersion => self.check_latest(follower),
            }
        }
        self.check_from_beginning().await;
    }

    fn is_in(&self, scope: &Scope, (key, _): Name) -> bool {
        let key = string_key(&key.to_string());
        let place = model::epk::effective_partition_key(&self.container.spec.partition_key, &key);
        match scope {
            Scope::All => true,
            Scope::Epk(range) => range.contains(&place),
            Scope::Key(wanted) => *wanted == key,
            Scope::Range { .. } => unreachable!("not among the scopes"),
        }
    }

    fn check_versions(&self, follower: &Follower) {
        for (name, events) in &self.events {
            let before = follower.events_before.get(name).copied().unwrap_or(0);
            let wanted = if self.is_in(&follower.scope, *name) { &events[before..] } else { &[] };
            let seen = follower.events.get(name).map_or(&[][..], Vec::as_slice);
            let has_gone_before = seen.len() < wanted.len()
                && follower.due_before.contains(name)
                && wanted.first() == Some(&Event::Expire);
            let wanted = if has_gone_before { &wanted[1..] } else { wanted };
            assert_eq!(seen, wanted, "{name:?} of {events:?}");
        }
    }

    fn check_latest(&self, follower: &Follower) {
        for (name, shown) in &follower.shown {
            assert!(self.is_in(&follower.scope, *name));
            let in_order = shown.windows(2).all(|pair| pair[0].1 <= pair[1].1);
            assert!(in_order, "{name:?}: {shown:?}");
        }
        for (name, item) in &self.items {
            let before = follower.events_before.get(name).copied().unwrap_or(0);
            let is_news = before < self.events[name].len()
                || follower.shown.contains_key(name)
                || follower.events_before.is_empty();
            if is_news && self.is_in(&follower.scope, *name) {
                let last = follower.shown.get(name).and_then(|shown| shown.last());
                assert_eq!(last.map(|(text, _)| text), Some(&item.text), "{name:?}");
            }
        }
    }

    /// A reader of a quiet container sees each item exactly once from the beginning.
    async fn check_from_beginning(&mut self) {
        let (mode, start) = (ChangesMode::LatestVersion, ChangesStart::Beginning);
        let follower = Follower::new(Scope::All, mode, start);
        self.followers.insert(u8::MAX, follower);
        self.drain(u8::MAX).await;
        let shown = self.followers[&u8::MAX].shown.iter();
        let shown: BTreeMap<Name, Vec<&String>> =
            shown.map(|(name, all)| (*name, all.iter().map(|(text, _)| text).collect())).collect();
        let items: BTreeMap<Name, Vec<&String>> =
            self.items.iter().map(|(name, item)| (*name, vec![&item.text])).collect();
        assert_eq!(shown, items);
    }
}

impl Follower {
    fn new(scope: Scope, mode: ChangesMode, start: ChangesStart) -> Self {
        Self {
            scope,
            mode,
            start,
            events_before: BTreeMap::new(),
            due_before: BTreeSet::new(),
            events: BTreeMap::new(),
            shown: BTreeMap::new(),
            etags: BTreeSet::new(),
        }
    }

    fn see(&mut self, change: &ItemChange) {
        let text = |item: &engine::StoredItem| String::from_utf8(item.body().to_vec()).unwrap();
        let name = |key: &model::PartitionKey, id: &str| {
            let Some(model::PartitionKeyComponent::String(key)) = key.0.first() else {
                panic!("keys are strings")
            };
            (key.parse().unwrap(), id.parse().unwrap())
        };
        match change {
            ItemChange::Latest(item) => {
                let is_first = self.etags.insert(item.etag().to_string());
                assert!(is_first, "a version is shown once");
                let shown = self.shown.entry(name(&item.partition_key(), &item.id())).or_default();
                shown.push((text(item), item.lsn()));
            }
            ItemChange::Put { item, previous } => {
                let event = match previous {
                    Some(_) => Event::Replace(text(item)),
                    None => Event::Create(text(item)),
                };
                self.events.entry(name(&item.partition_key(), &item.id())).or_default().push(event);
            }
            ItemChange::Delete(deleted) => {
                let event = if deleted.is_expired { Event::Expire } else { Event::Delete };
                let name = name(&deleted.partition_key(), &deleted.id.as_text());
                self.events.entry(name).or_default().push(event);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn readers_see_all_that_happened(steps in steps(), splits in 0..4u8) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut run = Run::start(splits).await;
            for step in steps {
                run.step(step).await;
            }
            run.check().await;
        });
    }
}
