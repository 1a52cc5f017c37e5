//! What runs in an engine besides its committer, so that closing can wait for it.

use std::sync::Arc;

use tokio::sync::watch;

use crate::components::{Ended, Spawner, Task, Worker};

/// Tasks and blocking work of one engine. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct TaskTracker {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Number of tasks and blocking jobs that may hold views of the store.
    tasks: watch::Sender<usize>,
    is_closing: watch::Sender<bool>,
}

/// Counts a task or blocking job until it is dropped.
struct TaskGuard {
    shared: Arc<Shared>,
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.shared.tasks.send_if_modified(|tasks| {
            *tasks -= 1;
            *tasks == 0
        });
    }
}

impl TaskTracker {
    /// A spawner whose tasks and blocking work are counted here.
    pub(crate) fn tracking(&self, spawner: Arc<dyn Spawner>) -> Arc<dyn Spawner> {
        Arc::new(TrackingSpawner { spawner, tasks: self.clone() })
    }

    /// Ends every task where it waits next, also those that are spawned from now on. Blocking work
    /// continues.
    pub(crate) fn end_tasks(&self) {
        self.shared.is_closing.send_replace(true);
    }

    /// Waits until no task and no blocking work is left.
    pub(crate) async fn ended(&self) {
        // The sender lives as long as `self`.
        let _ = self.shared.tasks.subscribe().wait_for(|tasks| *tasks == 0).await;
    }

    fn begin(&self) -> TaskGuard {
        // The waiter waits for zero, so increments need no notification.
        self.shared.tasks.send_if_modified(|tasks| {
            *tasks += 1;
            false
        });
        TaskGuard { shared: Arc::clone(&self.shared) }
    }
}

struct TrackingSpawner {
    spawner: Arc<dyn Spawner>,
    tasks: TaskTracker,
}

impl Spawner for TrackingSpawner {
    fn spawn(&self, name: &'static str, task: Task) {
        let guard = self.tasks.begin();
        let mut is_closing = self.tasks.shared.is_closing.subscribe();
        let until_closing = async move {
            // Locals drop in reverse order: the task and all it holds are gone before it counts as
            // ended.
            let _guard = guard;
            let mut task = task;
            tokio::select! {
                biased;
                _ = is_closing.wait_for(|is_closing| *is_closing) => {}
                () = &mut task => {}
            }
        };
        self.spawner.spawn(name, Box::pin(until_closing));
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        let guard = self.tasks.begin();
        self.spawner.run_blocking(Box::new(move || {
            let _guard = guard;
            work();
        }));
    }

    fn run_fairly(&self, work: Box<dyn FnOnce() + Send>) {
        let guard = self.tasks.begin();
        self.spawner.run_fairly(Box::new(move || {
            let _guard = guard;
            work();
        }));
    }

    fn give_way(&self) {
        self.spawner.give_way();
    }

    fn work(&self, name: &'static str, worker: Box<dyn Worker>) -> std::io::Result<Ended> {
        self.spawner.work(name, worker)
    }
}
