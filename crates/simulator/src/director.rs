//! The course of a run: clients work among disasters. Then the disasters end and everything is
//! checked once more, before and after a last restart.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use engine::Engine;
use engine::components::Clock;
use engine::repartition::Progression;
use model::ContainerRid;
use testkit::harness::test_context;

use crate::admin::Admin;
use crate::client::{Client, ScanScope};
use crate::executor::{Executor, LocalTask};
use crate::feed_reader::FeedReader;
use crate::item::ItemName;
use crate::operator::Operator;
use crate::random::Stream;
use crate::world::World;

/// Operations of the last client.
const OPERATIONS_ALONE: u64 = 15;
/// How often the director checks whether all actors are done.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Starts all actors.
pub(crate) fn start(world: &Rc<World>, root: &Stream, executor: &mut Executor) {
    let busy = Rc::new(Cell::new(world.plan.clients));
    let helping = Rc::new(Cell::new(0));
    let mut help = |name: &str, work: LocalTask| {
        helping.set(helping.get() + 1);
        let helping = Rc::clone(&helping);
        let task = Box::pin(async move {
            work.await;
            helping.set(helping.get() - 1);
        });
        executor.spawn_local(name.to_owned(), task);
    };
    let admin = Admin::new(Rc::clone(world), root.fork("admin"), Rc::clone(&busy));
    help("admin", Box::pin(admin.run()));
    if world.plan.operator_pause_millis > 0 {
        let operator = Operator::new(Rc::clone(world), root.fork("operator"), Rc::clone(&busy));
        help("operator", Box::pin(operator.run()));
    }
    let following = Rc::new(Cell::new(world.plan.followers));
    for number in 0..world.plan.followers {
        let name = format!("follower {number}");
        let feed_reader = FeedReader::new(Rc::clone(world), name.clone(), root.fork(&name));
        let following = Rc::clone(&following);
        let task = Box::pin(async move {
            feed_reader.run().await;
            following.set(following.get() - 1);
        });
        executor.spawn_local(name, task);
    }
    for number in 0..world.plan.clients {
        let name = format!("client {number}");
        let client = Client::new(Rc::clone(world), name.clone(), root.fork(&name));
        let busy = Rc::clone(&busy);
        let task = Box::pin(async move {
            client.run().await;
            busy.set(busy.get() - 1);
        });
        executor.spawn_local(name, task);
    }
    let chance = root.fork("director");
    let director = Director { world: Rc::clone(world), chance, busy, helping, following };
    executor.spawn_local("director".to_owned(), Box::pin(director.run()));
}

struct Director {
    world: Rc<World>,
    chance: Stream,
    /// Clients still at work.
    busy: Rc<Cell<u64>>,
    /// Other actors that work for as long as clients do.
    helping: Rc<Cell<u64>>,
    /// Followers that have not read to the end yet.
    following: Rc<Cell<u64>>,
}

impl Director {
    async fn run(self) {
        while self.busy.get() + self.helping.get() > 0 {
            self.world.clock.sleep(LOOK_EVERY).await;
        }
        self.world.calm_down();
        self.world.note(format_args!("calm"));
        self.start_anew().await;
        self.finish_jobs().await;
        while self.following.get() > 0 {
            self.world.clock.sleep(LOOK_EVERY).await;
        }
        self.inspect("before the last restart").await;
        self.work_alone().await;
        self.world.check_accounts();
        let number = self.world.process_number();
        self.world.restart_in_order();
        self.wait_for_process_after(number).await;
        self.finish_jobs().await;
        self.inspect("after the last restart").await;
        self.world.finish();
    }

    /// Crashes the process once more. After that the disk is good and no actor is about to close
    /// the process.
    async fn start_anew(&self) {
        let (number, _) = self.world.up().await;
        self.world.request_restart();
        self.wait_for_process_after(number).await;
    }

    async fn wait_for_process_after(&self, number: u64) {
        while self.world.process_number() == number {
            self.world.clock.sleep(LOOK_EVERY).await;
        }
        self.world.up().await;
    }

    /// Automatic jobs are finished; jobs that are driven by hand are cancelled.
    async fn finish_jobs(&self) {
        let (_, engine) = self.world.up().await;
        for job in engine.jobs().into_iter().filter(|job| !job.phase.is_over()) {
            let asked = move |engine: Engine| async move {
                engine.pause_job(&test_context(), job.id, false).await?;
                match job.progression {
                    Progression::Automatic => engine.finish_job(job.id).await,
                    Progression::Manual => engine.cancel_job(&test_context(), job.id).await,
                }
            };
            let ended = self.world.call("finish job", None, asked).await;
            self.world.note(format_args!("director: finish {:?}: {ended:?}", job.id));
            if !matches!(&ended, Ok(Ok(job)) if job.phase.is_over()) {
                self.world.fail(format!("{:?} does not come to an end: {ended:?}", job.id));
            }
        }
    }

    /// Checks that everything is as the record says, for clients and in the store.
    async fn inspect(&self, when: &str) {
        self.world.note(format_args!("inspection {when}"));
        self.world.audit();
        let Some(catalog) = self.world.catalog() else { return };
        let databases: Vec<_> = catalog.databases().map(|database| database.rid).collect();
        for rid in databases {
            let containers: Vec<_> = catalog.containers(rid).map(|c| c.rid).collect();
            for container in containers {
                self.inspect_container(container).await;
            }
        }
    }

    /// Some more operations, by one client without competitors.
    async fn work_alone(&self) {
        let name = "lone client".to_owned();
        let mut client = Client::new(Rc::clone(&self.world), name, self.chance.fork("alone"));
        for _ in 0..OPERATIONS_ALONE {
            let Some(container) = client.choose_container().await else { return };
            client.operate(container).await;
        }
    }

    async fn inspect_container(&self, container: ContainerRid) {
        let name = format!("inspector of {container}");
        let mut inspector = Client::retrying(
            Rc::clone(&self.world),
            name,
            self.chance.fork(&container.to_string()),
        );
        let items = self.world.record.borrow().items_now(container);
        for (name, _) in &items {
            inspector.read(name).await;
        }
        let shown: BTreeSet<ItemName> = inspector.scan(container, ScanScope::All).await;
        let unknown = shown.iter().find(|name| items.iter().all(|(known, _)| known != *name));
        if let Some(name) = unknown {
            self.world.fail(format!("{name} was shown, but is not stored"));
        }
    }
}
