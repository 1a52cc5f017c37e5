//! The course of a run: clients work among disasters, then calm returns and everything is checked
//! once more, before and after a last restart.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use engine::components::Clock;
use model::ContainerRid;

use crate::admin::Admin;
use crate::client::Client;
use crate::executor::Executor;
use crate::item::ItemName;
use crate::random::Stream;
use crate::world::World;

/// How often the director looks whether all are done.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Sends everybody off.
pub(crate) fn start(world: &Rc<World>, root: &Stream, executor: &mut Executor) {
    let busy = Rc::new(Cell::new(world.plan.clients));
    let admin = Admin::new(Rc::clone(world), root.fork("admin"), Rc::clone(&busy));
    executor.spawn_local("admin".to_owned(), Box::pin(admin.run()));
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
    let director = Director { world: Rc::clone(world), chance: root.fork("director"), busy };
    executor.spawn_local("director".to_owned(), Box::pin(director.run()));
}

struct Director {
    world: Rc<World>,
    chance: Stream,
    busy: Rc<Cell<u64>>,
}

impl Director {
    async fn run(self) {
        while self.busy.get() > 0 {
            self.world.clock.sleep(LOOK_EVERY).await;
        }
        self.world.calm_down();
        self.world.note(format_args!("calm"));
        self.wait_for_good_disk().await;
        self.inspect("before the last restart").await;
        let number = self.world.process_number();
        self.world.restart_in_order();
        while self.world.process_number() == number {
            self.world.clock.sleep(LOOK_EVERY).await;
        }
        self.inspect("after the last restart").await;
        self.world.finish();
    }

    /// A disk that failed is repaired by a restart, which a crash may still have to bring.
    async fn wait_for_good_disk(&self) {
        while !storage::LocalStore::health(self.world.disk().as_ref()).writable {
            self.world.clock.sleep(LOOK_EVERY).await;
        }
        self.world.up().await;
    }

    /// Everything is as the record says, for clients and in the store.
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

    async fn inspect_container(&self, container: ContainerRid) {
        let name = format!("inspector of {container}");
        let mut inspector =
            Client::new(Rc::clone(&self.world), name, self.chance.fork(&container.to_string()));
        let items = self.world.record.borrow().items_now(container);
        for (name, _) in &items {
            inspector.read(name).await;
        }
        let shown: BTreeSet<ItemName> = inspector.walk(container, None).await;
        let unknown = shown.iter().find(|name| items.iter().all(|(known, _)| known != *name));
        if let Some(name) = unknown {
            self.world.fail(format!("{name} was shown, but is not stored"));
        }
    }
}
