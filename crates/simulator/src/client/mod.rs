//! Clients: each executes a list of operations on a few items that all of them share, remembers
//! what it has seen, and checks every answer.

mod batch;
mod point;
mod scan;

use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::components::Clock;
use engine::context::Served;
use engine::{Container, Engine, Error, Etag, RangeId, RequestContext, ResourceKind, StoredItem};
use model::{ContainerRid, Lsn};
use testkit::harness::test_context;

pub(crate) use scan::ScanScope;

use crate::item::{Extras, ItemName, WriteId};
use crate::random::Stream;
use crate::record::{Moment, Wait};
use crate::world::World;

/// No throttled client waits longer than this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(15);

/// A client and what it remembers.
pub(crate) struct Client {
    world: Rc<World>,
    name: String,
    chance: Stream,
    /// What it has seen of each range, per container: its session.
    sessions: BTreeMap<ContainerRid, BTreeMap<RangeId, Lsn>>,
    /// The newest version it has seen of each item.
    known_versions: BTreeMap<ItemName, (Lsn, Etag)>,
    /// Whether it never abandons a request, and retries when it is throttled.
    retries_throttled: bool,
}

/// An answer, with the time it took.
pub(crate) struct Reply<T> {
    pub(crate) result: Result<T, Error>,
    pub(crate) served: Served,
    pub(crate) wait: Wait,
}

impl Client {
    pub(crate) fn new(world: Rc<World>, name: String, chance: Stream) -> Self {
        let (sessions, known_versions) = (BTreeMap::new(), BTreeMap::new());
        Self { world, name, chance, sessions, known_versions, retries_throttled: false }
    }

    /// A client that retries throttled requests.
    pub(crate) fn retrying(world: Rc<World>, name: String, chance: Stream) -> Self {
        Self { retries_throttled: true, ..Self::new(world, name, chance) }
    }

    /// Whether to retry after this error; waits before that as the error says.
    async fn should_retry(&self, error: &Error) -> bool {
        match error {
            Error::Throttled { retry_after } if self.retries_throttled => {
                self.world.clock.sleep(*retry_after).await;
                true
            }
            _ => false,
        }
    }

    pub(crate) async fn run(mut self) {
        for _ in 0..self.world.plan.operations {
            let Some(container) = self.choose_container().await else { return };
            self.operate(container).await;
            self.world.note_progress();
            if self.chance.percent(self.world.plan.rest_percent) {
                let pause = Duration::from_micros(self.chance.below(900_000));
                self.world.clock.sleep(pause).await;
            }
        }
    }

    pub(crate) async fn operate(&mut self, container: ContainerRid) {
        let name = self.choose_item(container);
        match self.chance.below(100) {
            0..22 => self.read(&name).await,
            22..62 => self.write(&name).await,
            62..74 => self.write_batch(container).await,
            74..84 => self.write_bulk(container).await,
            84..98 => {
                let scan_scope = self.choose_scan_scope(container);
                self.scan(container, scan_scope).await;
            }
            _ => self.erase_key(&name).await,
        }
    }

    /// One of the existing containers; waits until there is one, or none will come.
    pub(crate) async fn choose_container(&mut self) -> Option<ContainerRid> {
        while !self.world.has_failed() {
            self.world.up().await;
            if let Some(catalog) = self.world.catalog() {
                let databases = catalog.databases();
                let all: Vec<_> = databases.flat_map(|d| catalog.containers(d.rid)).collect();
                if !all.is_empty() {
                    return Some(self.chance.pick(&all).rid);
                }
            }
            if self.world.is_calm() {
                return None;
            }
            self.world.clock.sleep(Duration::from_millis(30)).await;
        }
        None
    }

    pub(crate) fn choose_key(&mut self) -> String {
        format!("k{}", self.chance.below(self.world.plan.keys))
    }

    fn choose_item(&mut self, container: ContainerRid) -> ItemName {
        let (key, id) = (self.choose_key(), self.chance.below(self.world.plan.ids));
        ItemName { container, key, id: format!("i{id}") }
    }

    fn choose_extras(&mut self) -> Extras {
        Extras {
            unique: self.chance.percent(60).then(|| self.chance.below(4)),
            ttl: self.chance.percent(25).then(|| self.chance.between(1, 4)),
            // Items over 16 KB are patched outside the committer.
            padding: match self.chance.percent(self.world.plan.large_percent) {
                true => 17_000,
                false => self.chance.index(40),
            },
        }
    }

    /// Sends a request about one container and waits for the answer; `None` if there is none.
    pub(crate) async fn ask<T, F>(
        &mut self,
        what: &str,
        container: ContainerRid,
        request: impl FnOnce(Engine, Arc<Container>, RequestContext) -> F + Send + 'static,
    ) -> Option<Reply<T>>
    where
        T: Send + 'static,
        F: Future<Output = (Result<T, Error>, RequestContext)> + Send,
    {
        let percent = if self.retries_throttled { 0 } else { self.world.plan.hang_up_percent };
        let hangs_up = self.chance.percent(percent);
        let timeout = hangs_up.then(|| Duration::from_micros(self.chance.below(20_000)));
        let session = self.session(container);
        let name = format!("{}: {what}", self.name);
        let (process, _) = self.world.up().await;
        let from = self.world.now();
        self.world.note(format_args!("{name} ..."));
        let world = Rc::clone(&self.world);
        let asked = |engine: Engine| async move {
            let ctx = RequestContext { session, ..test_context() };
            let found = engine.catalog().container_by_rid(container).cloned();
            match found {
                Some(found) => request(engine, found, ctx).await,
                None => {
                    let (kind, id) = (ResourceKind::Container, container.to_string());
                    (Err(Error::OwnerNotFound { kind, id }), ctx)
                }
            }
        };
        let answer = world.call(&name, timeout, asked).await;
        let Ok((result, ctx)) = answer else {
            self.world.note(format_args!("{name}: no answer"));
            self.world.accounts.borrow_mut().lose_track(container);
            return None;
        };
        // The answer of a process that has died since was counted by that process.
        if process == self.world.process_number() {
            self.world.accounts.borrow_mut().charge(container, ctx.served.charge);
        }
        let wait = Wait { from, to: self.world.now() };
        Some(Reply { result, served: ctx.served, wait })
    }

    fn session(&mut self, container: ContainerRid) -> Vec<(RangeId, Lsn)> {
        if self.chance.percent(15) {
            return Vec::new();
        }
        let session = self.sessions.entry(container).or_default();
        session.iter().map(|(range, lsn)| (*range, *lsn)).collect()
    }

    /// Notes the LSNs of the ranges that an answer came from.
    pub(crate) fn learn_session(&mut self, container: ContainerRid, served: &Served) {
        let session = self.sessions.entry(container).or_default();
        for (range, lsn) in &served.ranges {
            let seen = session.entry(*range).or_default();
            *seen = (*seen).max(*lsn);
        }
    }

    /// Notes a version that the client has seen. After that it must never see an older one.
    fn learn_version(&mut self, name: &ItemName, item: &StoredItem, asked: Moment) {
        let (lsn, etag) = (item.lsn(), item.etag());
        if let Some((seen, _)) = self.known_versions.get(name).filter(|(seen, _)| lsn < *seen)
            && !self.world.has_lost_writes()
        {
            let name = format!("{} saw {name} at {seen:?} and then at {lsn:?}", self.name);
            self.world.fail(format!("{name}, asked at turn {}", asked.step));
        }
        self.known_versions.insert(name.clone(), (lsn, etag));
    }

    /// Handles an error that says nothing about the item.
    pub(crate) fn take_error(&mut self, container: ContainerRid, error: &Error, wait: Wait) {
        match error {
            Error::SessionNotAvailable => {
                if !self.world.has_lost_writes() {
                    self.world.fail(format!("{} is ahead of the server", self.name));
                }
                self.forget(container);
            }
            Error::OwnerNotFound { .. } => {
                let life = self.world.record.borrow();
                if life.was_alive_throughout(container, wait) {
                    self.world.fail(format!("{container} was not found, but it was there"));
                }
            }
            Error::Throttled { retry_after } if self.world.plan.scale.is_enforced => {
                if *retry_after > RETRY_AFTER_MAX {
                    self.world.fail(format!("{} is to retry after {retry_after:?}", self.name));
                }
            }
            Error::PartitionKeyFull { .. } if self.world.plan.has_small_partitions() => {}
            Error::RangeMoving if self.world.may_be_moving(container) => {}
            Error::Unavailable(_) => {}
            other => self.world.fail(format!("{} got an error: {other:?}", self.name)),
        }
    }

    /// Starts a new session.
    pub(crate) fn forget(&mut self, container: ContainerRid) {
        self.sessions.remove(&container);
        self.known_versions.retain(|name, _| name.container != container);
    }

    /// Notes the outcome of a write in the record.
    fn conclude(
        &mut self,
        id: WriteId,
        container: ContainerRid,
        outcome: Result<Option<&StoredItem>, &Error>,
        wait: Wait,
    ) {
        let world = Rc::clone(&self.world);
        let mut record = world.record.borrow_mut();
        let checked = match outcome {
            Ok(item) => {
                let left = item.map(|item| (item.etag(), item.lsn()));
                record.acknowledge(id, left, wait.to)
            }
            // Whether it happened is not known, or will show after the next restart.
            Err(Error::Unavailable(_)) => {
                record.leave_unanswered(id);
                Ok(())
            }
            Err(
                error @ (Error::AlreadyExists { .. }
                | Error::NotFound { .. }
                | Error::PreconditionFailed
                | Error::UniqueKeyViolation),
            ) => record.refuse(id).and_then(|()| record.check_refusal(id, error, wait)),
            Err(Error::FailedDependency) => record.refuse(id),
            Err(error) => {
                let refused = record.refuse(id);
                drop(record);
                self.take_error(container, error, wait);
                refused
            }
        };
        world.fail_on_violation(checked);
    }
}
