//! The outside world, passed in: clock, randomness, tasks and threads.
//!
//! Everything that could make a run differ from the one before comes through here, so that a
//! simulator can replace it.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use model::Timestamp;
use tokio::sync::oneshot;

use crate::fair_pool::{self, FairPool};

/// A boxed future without a result.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Time.
pub trait Clock: Send + Sync + 'static {
    /// Wall-clock time.
    fn now(&self) -> Timestamp;
    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> Task;
}

/// Randomness.
pub trait Random: Send + Sync + 'static {
    /// Fills `out` with unpredictable bytes.
    fn fill(&self, out: &mut [u8]);
}

/// Tasks and workers.
pub trait Spawner: Send + Sync + 'static {
    /// Runs a task in the background.
    fn spawn(&self, name: &'static str, task: Task);
    /// Runs blocking work where it disturbs no task.
    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>);
    /// Runs work that is usually short, where it disturbs no task, before work that turned out to
    /// be long. It must [give way](Spawner::give_way) now and then.
    fn run_fairly(&self, work: Box<dyn FnOnce() + Send>) {
        self.run_blocking(work);
    }
    /// Lets short work go first, if the caller's work runs fairly and has taken long.
    fn give_way(&self) {}
    /// Runs a worker until it has ended, and then drops it.
    fn work(&self, name: &'static str, worker: Box<dyn Worker>) -> std::io::Result<Ended>;
}

/// Work that continues for as long as the engine lives: it has a thread of its own, or a caller
/// that steps it.
pub trait Worker: Send + 'static {
    /// Works until there can be nothing more to do, and waits while there is nothing yet.
    fn run(&mut self);
    /// Does some of the pending work; never waits for more.
    fn try_step(&mut self) -> WorkerStep;
}

/// The outcome of a step of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerStep {
    /// It did something; there may be more.
    Worked,
    /// There was nothing to do.
    Idle,
    /// There can be nothing to do any more.
    Ended,
}

/// Completes when a worker has ended and is dropped; with an error if it panicked.
pub type Ended = oneshot::Receiver<()>;

/// The set handed to an engine.
#[derive(Clone)]
pub struct Components {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// Tasks and threads.
    pub spawner: Arc<dyn Spawner>,
}

/// The real clock.
#[derive(Debug)]
pub struct SystemClock {
    started: std::time::Instant,
}

#[expect(clippy::disallowed_methods, reason = "this is the one place where real time comes in")]
mod real_time {
    use super::*;

    impl SystemClock {
        /// A clock whose monotonic time starts now.
        pub fn start() -> Self {
            Self { started: std::time::Instant::now() }
        }
    }

    impl Clock for SystemClock {
        fn now(&self) -> Timestamp {
            let since = std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap_or_default();
            Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
        }

        fn monotonic(&self) -> Duration {
            self.started.elapsed()
        }

        fn sleep(&self, duration: Duration) -> Task {
            Box::pin(tokio::time::sleep(duration))
        }
    }
}

/// The operating system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, out: &mut [u8]) {
        // A failure here means that no secret can be made at all; carrying on would be unsafe.
        getrandom::fill(out).expect("the operating system provides random bytes");
    }
}

/// Tasks on a tokio runtime.
#[derive(Clone, Debug)]
pub struct TokioSpawner {
    runtime: tokio::runtime::Handle,
    fair_pool: Arc<FairPool>,
}

impl TokioSpawner {
    /// Spawns on `runtime`; tasks end when it shuts down.
    pub fn new(runtime: tokio::runtime::Handle) -> Self {
        Self { runtime, fair_pool: Arc::new(FairPool::new()) }
    }
}

impl Spawner for TokioSpawner {
    fn spawn(&self, _name: &'static str, task: Task) {
        self.runtime.spawn(task);
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.runtime.spawn_blocking(move || {
            lower_thread_priority(BackgroundPriority::Long);
            work();
        });
    }

    fn run_fairly(&self, work: Box<dyn FnOnce() + Send>) {
        self.fair_pool.run(work);
    }

    fn give_way(&self) {
        fair_pool::give_way();
    }

    fn work(&self, name: &'static str, mut worker: Box<dyn Worker>) -> std::io::Result<Ended> {
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            worker.run();
            drop(worker);
            let _ = end.send(());
        })?;
        Ok(ended)
    }
}

/// How far the priority of a thread is below those that answer directly or commit. Where both want
/// all of a processor, threads with long work get a tenth, those with short work a third.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub(crate) enum BackgroundPriority {
    Short = 5,
    Long = 10,
}

/// Lowers the priority of this thread for good: raising it again takes a privilege. However many
/// threads do long work, a short request waits for the end of one time slice of theirs, not for one
/// of each.
pub(crate) fn lower_thread_priority(how_far: BackgroundPriority) {
    thread_local!(static STANDS: Cell<Option<BackgroundPriority>> = const { Cell::new(None) });
    if STANDS.get() < Some(how_far) {
        STANDS.set(Some(how_far));
        lower_priority(how_far as i32);
    }
}

#[cfg(target_os = "linux")]
fn lower_priority(niceness: i32) {
    // Linux has a priority for every thread. Where it can't be lowered, all threads stay equal.
    let thread = rustix::thread::gettid();
    let _ = rustix::process::setpriority_process(Some(thread), niceness);
}

#[cfg(not(target_os = "linux"))]
fn lower_priority(_niceness: i32) {}

impl Components {
    /// Real time, randomness and threads, on `runtime`.
    pub fn system(runtime: tokio::runtime::Handle) -> Self {
        Self {
            clock: Arc::new(SystemClock::start()),
            random: Arc::new(SystemRandom),
            spawner: Arc::new(TokioSpawner::new(runtime)),
        }
    }
}
