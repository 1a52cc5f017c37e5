//! The admin: creates, changes and deletes containers.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use engine::catalog::OfferTarget;
use engine::components::Clock;
use engine::{ContainerSpec, Error, Throughput};
use model::{ContainerRid, DatabaseRid};
use testkit::harness::{path, test_context};

use crate::random::Stream;
use crate::world::{Unanswered, World};

const DATABASE: &str = "db";
/// Names that containers get, again and again.
const CONTAINERS: [&str; 3] = ["plain", "unique", "fleeting"];

/// What is known of a container by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Absent,
    Present(ContainerRid),
    /// The last change got no answer from this process: it may have happened or not, and only the
    /// next process will show which.
    Unsure(u64),
}

pub(crate) struct Admin {
    world: Rc<World>,
    chance: Stream,
    /// How many clients are still at work.
    busy: Rc<Cell<u64>>,
    known: BTreeMap<&'static str, Known>,
}

/// The outcome of a call for which no answer and an error are treated alike.
type Answer<T> = Result<Result<T, Error>, Unanswered>;

impl Admin {
    pub(crate) fn new(world: Rc<World>, chance: Stream, busy: Rc<Cell<u64>>) -> Self {
        let known = CONTAINERS.iter().map(|name| (*name, Known::Absent)).collect();
        Self { world, chance, busy, known }
    }

    pub(crate) async fn run(mut self) {
        let Some(mut database) = self.create_database().await else { return };
        for name in CONTAINERS {
            self.create(database, name).await;
        }
        while self.busy.get() > 0 && !self.world.has_failed() {
            let pause = Duration::from_millis(self.chance.between(1, 1_500));
            self.world.clock.sleep(pause).await;
            if self.is_database_lost(database) {
                let Some(again) = self.create_database().await else { return };
                database = again;
            }
            let name = *self.chance.pick(&CONTAINERS);
            self.check(database, name);
            match self.chance.below(8) {
                0 => self.delete(database, name).await,
                1..4 => self.change_ttl(database, name).await,
                4..6 => self.change_throughput(database, name).await,
                _ => self.create(database, name).await,
            }
        }
    }

    /// Creates the database, with as many attempts as it takes.
    async fn create_database(&mut self) -> Option<DatabaseRid> {
        let shared = self.world.plan.scale.shared.map(Throughput::Manual);
        while !self.world.has_failed() {
            let asked = |engine: engine::Engine| async move {
                let made = engine.create_database(&test_context(), DATABASE, shared).await;
                made.map(|database| database.rid)
            };
            let made: Answer<DatabaseRid> = self.world.call("create database", None, asked).await;
            self.world.note(format_args!("admin: create database: {made:?}"));
            let catalog = self.world.catalog();
            if let Some(database) = catalog.as_ref().and_then(|c| c.database(DATABASE)) {
                return Some(database.rid);
            }
            self.world.clock.sleep(Duration::from_millis(20)).await;
        }
        None
    }

    /// Only a database that was never synced can be lost.
    fn is_database_lost(&self, database: DatabaseRid) -> bool {
        let Some(catalog) = self.world.catalog() else { return false };
        let is_lost = catalog.database_by_rid(database).is_none();
        if is_lost && !self.world.has_lost_writes() {
            self.world.fail("the database is gone".to_owned());
        }
        is_lost
    }

    /// Checks that the catalog shows every acknowledged change.
    fn check(&mut self, database: DatabaseRid, name: &'static str) {
        let Some(catalog) = self.world.catalog() else { return };
        let found = catalog.container(database, name).map(|container| container.rid);
        let known = self.known.entry(name).or_insert(Known::Absent);
        let fits = match known {
            Known::Absent => found.is_none(),
            Known::Present(rid) => found == Some(*rid),
            Known::Unsure(process) if *process == self.world.process_number() => return,
            Known::Unsure(_) => true,
        };
        let was = *known;
        *known = found.map_or(Known::Absent, Known::Present);
        if !fits && !self.world.has_lost_writes() {
            self.world.fail(format!("container {name} was {was:?}, but there is {found:?}"));
        }
    }

    async fn create(&mut self, database: DatabaseRid, name: &'static str) {
        let spec = self.spec_of(name);
        let ranges = *self.chance.pick(&[1, 2, 3]);
        let scale = self.world.plan.scale;
        let is_shared = scale.shared.is_some() && self.chance.percent(80);
        let throughput = (!is_shared).then_some(Throughput::Manual(ranges * scale.per_range));
        let (process, _) = self.world.up().await;
        let asked = |engine: engine::Engine| async move {
            let made = engine.create_container(&test_context(), database, spec, throughput).await;
            made.map(|container| container.rid)
        };
        let made: Answer<ContainerRid> = self.world.call("create container", None, asked).await;
        self.world.note(format_args!("admin: create {name} over {ranges}: {made:?}"));
        self.learn(name, process, made.map(|made| made.map(Known::Present)));
    }

    async fn delete(&mut self, database: DatabaseRid, name: &'static str) {
        let Some(rid) = self.find(database, name) else { return };
        let (process, _) = self.world.up().await;
        let asked = |engine: engine::Engine| async move {
            engine.delete_container(&test_context(), rid, None).await
        };
        let deleted: Answer<()> = self.world.call("delete container", None, asked).await;
        self.world.note(format_args!("admin: delete {name} ({rid}): {deleted:?}"));
        self.learn(name, process, deleted.map(|deleted| deleted.map(|()| Known::Absent)));
    }

    /// Notes the outcome of a change; without an answer it is not known.
    fn learn(&mut self, name: &'static str, process: u64, answer: Answer<Known>) {
        match answer {
            Ok(Ok(known)) => {
                self.known.insert(name, known);
                self.world.note_progress();
            }
            // Refused because of what exists: nothing has changed.
            Ok(Err(Error::AlreadyExists { .. } | Error::NotFound { .. })) => {}
            Ok(Err(_)) | Err(Unanswered) => {
                self.known.insert(name, Known::Unsure(process));
            }
        }
    }

    async fn change_ttl(&mut self, database: DatabaseRid, name: &'static str) {
        let Some(rid) = self.find(database, name) else { return };
        // Only one of them has a ttl, so that the others can be checked to keep every item.
        let default_ttl = match name {
            "fleeting" => *self.chance.pick(&[Some(-1), Some(1), Some(3), Some(30)]),
            _ => None,
        };
        let spec = ContainerSpec { default_ttl, ..self.spec_of(name) };
        let asked = |engine: engine::Engine| async move {
            engine.replace_container(&test_context(), rid, spec, None).await.map(|_| ())
        };
        let changed: Answer<()> = self.world.call("replace container", None, asked).await;
        self.world.note(format_args!("admin: ttl of {name} {default_ttl:?}: {changed:?}"));
    }

    async fn change_throughput(&mut self, database: DatabaseRid, name: &'static str) {
        let Some(rid) = self.find(database, name) else { return };
        let Some(catalog) = self.world.catalog() else { return };
        let Some(offer) = catalog.offer_of(OfferTarget::Container(rid)).map(|o| o.rid) else {
            return;
        };
        let throughput = self.chance.pick(&[1, 2, 3]) * self.world.plan.scale.per_range;
        let asked = |engine: engine::Engine| async move {
            engine
                .replace_offer(&test_context(), offer, Throughput::Manual(throughput))
                .await
                .map(|_| ())
        };
        let changed: Answer<()> = self.world.call("replace offer", None, asked).await;
        self.world.note(format_args!("admin: throughput of {name} {throughput}: {changed:?}"));
    }

    fn find(&self, database: DatabaseRid, name: &str) -> Option<ContainerRid> {
        let catalog = self.world.catalog()?;
        catalog.container(database, name).map(|container| container.rid)
    }

    fn spec_of(&self, name: &str) -> ContainerSpec {
        let mut spec = self.world.plan.spec(name);
        match name {
            "plain" => spec.versions_minutes = 60,
            "unique" => spec.unique_keys = vec![vec![path("/u")]],
            _ => spec.default_ttl = Some(-1),
        }
        spec
    }
}
