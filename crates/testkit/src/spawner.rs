//! A spawner that counts tasks and threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::components::{Ended, Spawner, Task, TokioSpawner, Worker};

/// Counts what is passed to other threads, and how often work yields to other work.
#[derive(Debug)]
pub struct CountingSpawner {
    inner: TokioSpawner,
    begun: AtomicU64,
    ended: Arc<AtomicU64>,
    given_way: AtomicU64,
}

impl CountingSpawner {
    /// Spawns through `inner`.
    pub fn new(inner: TokioSpawner) -> Self {
        Self {
            inner,
            begun: AtomicU64::new(0),
            ended: Arc::default(),
            given_way: AtomicU64::new(0),
        }
    }

    /// How many blocking tasks were started so far.
    pub fn blocking(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// How many of them have ended.
    pub fn blocking_ended(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    /// How often work yielded.
    pub fn given_way(&self) -> u64 {
        self.given_way.load(Ordering::SeqCst)
    }

    fn counted(&self, work: Box<dyn FnOnce() + Send>) -> Box<dyn FnOnce() + Send> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let ended = Arc::clone(&self.ended);
        Box::new(move || {
            work();
            ended.fetch_add(1, Ordering::SeqCst);
        })
    }
}

impl Spawner for CountingSpawner {
    fn spawn(&self, name: &'static str, task: Task) {
        self.inner.spawn(name, task);
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.inner.run_blocking(self.counted(work));
    }

    fn run_fairly(&self, work: Box<dyn FnOnce() + Send>) {
        self.inner.run_fairly(self.counted(work));
    }

    fn give_way(&self) {
        self.given_way.fetch_add(1, Ordering::SeqCst);
        self.inner.give_way();
    }

    fn work(&self, name: &'static str, worker: Box<dyn Worker>) -> std::io::Result<Ended> {
        self.inner.work(name, worker)
    }
}
