//! What an engine has under way besides its committer, so that closing can wait for it.

use std::sync::Arc;

use tokio::sync::watch;

use crate::components::{Ended, Spawner, Task, Worker};

/// Tasks and blocking work of one engine. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Running {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Pieces that may hold views of the store.
    pieces: watch::Sender<usize>,
    is_closing: watch::Sender<bool>,
}

/// Counts a piece until it is dropped.
struct Piece {
    shared: Arc<Shared>,
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.shared.pieces.send_if_modified(|pieces| {
            *pieces -= 1;
            *pieces == 0
        });
    }
}

impl Running {
    /// A spawner whose tasks and blocking work are counted here.
    pub(crate) fn tracking(&self, spawner: Arc<dyn Spawner>) -> Arc<dyn Spawner> {
        Arc::new(Tracked { spawner, running: self.clone() })
    }

    /// Ends every task where it waits next, also those that are spawned from now on. Blocking work
    /// goes on.
    pub(crate) fn end_tasks(&self) {
        self.shared.is_closing.send_replace(true);
    }

    /// Waits until no task and no blocking work is left.
    pub(crate) async fn ended(&self) {
        // The sender lives as long as `self`.
        let _ = self.shared.pieces.subscribe().wait_for(|pieces| *pieces == 0).await;
    }

    fn begin(&self) -> Piece {
        // Who waits, waits for zero, so nobody needs to hear of more.
        self.shared.pieces.send_if_modified(|pieces| {
            *pieces += 1;
            false
        });
        Piece { shared: Arc::clone(&self.shared) }
    }
}

struct Tracked {
    spawner: Arc<dyn Spawner>,
    running: Running,
}

impl Spawner for Tracked {
    fn spawn(&self, name: &'static str, task: Task) {
        let piece = self.running.begin();
        let mut is_closing = self.running.shared.is_closing.subscribe();
        let until_closing = async move {
            // Locals go in reverse: the task and all it holds are gone before it counts as ended.
            let _piece = piece;
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
        let piece = self.running.begin();
        self.spawner.run_blocking(Box::new(move || {
            let _piece = piece;
            work();
        }));
    }

    fn run_in_turn(&self, work: Box<dyn FnOnce() + Send>) {
        let piece = self.running.begin();
        self.spawner.run_in_turn(Box::new(move || {
            let _piece = piece;
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
