//! Many actors on one thread; which one runs next is drawn at random.
//!
//! Actors are the tasks of clients and, of the simulated process, its requests, background tasks,
//! blocking work and workers. Each gets one turn at a time. Between two turns the process can be
//! killed, which drops all of its actors.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use engine::components::{Ended, Spawner, Task, Worker, WorkerStep};
use tokio::sync::oneshot;

use crate::random::Stream;

/// A future that stays on this thread.
pub(crate) type LocalTask = Pin<Box<dyn Future<Output = ()>>>;

/// Identifies an actor of a run.
pub(crate) type ActorId = u64;

/// How likely each kind of actor is to run next, in shares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub(crate) task: u64,
    pub(crate) blocking: u64,
    pub(crate) worker: u64,
}

/// Work of the process that becomes an actor.
enum ActorWork {
    Task(Task),
    Blocking(Box<dyn FnOnce() + Send>),
    Worker(Box<dyn Worker>, oneshot::Sender<()>),
}

struct NewActor {
    id: ActorId,
    name: String,
    process: u64,
    work: ActorWork,
}

/// Where the process puts its new actors. Shared by all processes of a run.
#[derive(Default)]
pub(crate) struct Inbox {
    new_actors: Mutex<Vec<NewActor>>,
    cancelled: Mutex<Vec<ActorId>>,
    ids: AtomicU64,
}

impl Inbox {
    fn add(&self, process: u64, name: &str, work: ActorWork) -> ActorId {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let new_actor = NewActor { id, name: name.to_owned(), process, work };
        self.new_actors.lock().unwrap_or_else(PoisonError::into_inner).push(new_actor);
        id
    }

    /// Runs a request in `process`.
    pub(crate) fn request(&self, process: u64, name: &str, task: Task) -> ActorId {
        self.add(process, name, ActorWork::Task(task))
    }

    /// Drops an actor before its next turn.
    pub(crate) fn cancel(&self, id: ActorId) {
        self.cancelled.lock().unwrap_or_else(PoisonError::into_inner).push(id);
    }
}

/// Runs the tasks of a process.
pub(crate) struct SimSpawner {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) process: u64,
}

impl Spawner for SimSpawner {
    fn spawn(&self, name: &'static str, task: Task) {
        self.inbox.add(self.process, name, ActorWork::Task(task));
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.inbox.add(self.process, "blocking work", ActorWork::Blocking(work));
    }

    fn work(&self, name: &'static str, worker: Box<dyn Worker>) -> std::io::Result<Ended> {
        let (end, ended) = oneshot::channel();
        self.inbox.add(self.process, name, ActorWork::Worker(worker, end));
        Ok(ended)
    }
}

/// Whether an actor is ready for a turn.
struct Signal(AtomicBool);

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

enum Body {
    Task(LocalTask),
    Blocking(Option<Box<dyn FnOnce() + Send>>),
    Worker(Box<dyn Worker>, Option<oneshot::Sender<()>>),
}

struct Actor {
    name: String,
    /// The process it belongs to; clients belong to none.
    process: Option<u64>,
    body: Body,
    signal: Arc<Signal>,
}

/// The result of a turn.
pub(crate) enum Step {
    /// This actor ran.
    Ran(String),
    /// A worker ran and found nothing to do.
    Idle,
    /// No actor is ready.
    NobodyReady,
    /// This actor panicked.
    Panicked(String),
}

/// The actors of a run.
pub(crate) struct Executor {
    actors: BTreeMap<ActorId, Actor>,
    inbox: Arc<Inbox>,
    shares: Shares,
    chance: Stream,
    /// Actors of earlier processes never run.
    process: u64,
}

impl Executor {
    pub(crate) fn new(inbox: Arc<Inbox>, shares: Shares, chance: Stream) -> Self {
        Self { actors: BTreeMap::new(), inbox, shares, chance, process: 0 }
    }

    /// Adds an actor that belongs to no process, such as a client.
    pub(crate) fn spawn_local(&mut self, name: String, task: LocalTask) {
        let id = self.inbox.ids.fetch_add(1, Ordering::Relaxed);
        self.add(id, name, None, Body::Task(task));
    }

    fn add(&mut self, id: ActorId, name: String, process: Option<u64>, body: Body) {
        let signal = Arc::new(Signal(AtomicBool::new(true)));
        self.actors.insert(id, Actor { name, process, body, signal });
    }

    /// Drops all actors of earlier processes; from now on only `next` may have actors.
    pub(crate) fn kill_processes_before(&mut self, next: u64) {
        self.process = next;
        self.take_new_actors();
        self.actors.retain(|_, actor| actor.process.is_none_or(|process| process >= next));
        // The dropped actors may have spawned others, which are dropped as well.
        self.take_new_actors();
    }

    fn take_new_actors(&mut self) {
        let new_actors = std::mem::take(
            &mut *self.inbox.new_actors.lock().unwrap_or_else(PoisonError::into_inner),
        );
        for NewActor { id, name, process, work } in new_actors {
            if process < self.process {
                continue;
            }
            let body = match work {
                ActorWork::Task(task) => Body::Task(task),
                ActorWork::Blocking(work) => Body::Blocking(Some(work)),
                ActorWork::Worker(worker, end) => Body::Worker(worker, Some(end)),
            };
            self.add(id, name, Some(process), body);
        }
        let cancelled = std::mem::take(
            &mut *self.inbox.cancelled.lock().unwrap_or_else(PoisonError::into_inner),
        );
        for id in cancelled {
            self.actors.remove(&id);
        }
    }

    /// Gives one actor a turn.
    pub(crate) fn step(&mut self) -> Step {
        self.take_new_actors();
        let Some(id) = self.draw() else { return Step::NobodyReady };
        let Some(mut actor) = self.actors.remove(&id) else { return Step::NobodyReady };
        actor.signal.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&actor.signal));
        let turn = catch_unwind(AssertUnwindSafe(|| actor.body.take_turn(&waker)));
        let Ok(turn) = turn else { return Step::Panicked(actor.name) };
        let name = actor.name.clone();
        if turn != WorkerStep::Ended {
            self.actors.insert(id, actor);
        } else {
            actor.end();
        }
        if turn == WorkerStep::Idle {
            return Step::Idle;
        }
        self.wake_workers();
        Step::Ran(name)
    }

    /// Workers do not signal that there is work for them, so all of them become ready after every
    /// turn that may have made some.
    fn wake_workers(&self) {
        for actor in self.actors.values().filter(|a| matches!(a.body, Body::Worker(..))) {
            actor.signal.0.store(true, Ordering::SeqCst);
        }
    }

    /// Draws one of the actors that are ready.
    fn draw(&mut self) -> Option<ActorId> {
        let shares = self.shares;
        let ready = self.actors.iter().filter(|(_, a)| a.signal.0.load(Ordering::SeqCst));
        let entries: Vec<_> = ready.map(|(id, a)| (*id, a.body.share(shares))).collect();
        let total: u64 = entries.iter().map(|(_, share)| share).sum();
        if total == 0 {
            return None;
        }
        let mut at = self.chance.below(total);
        for (id, share) in entries {
            if at < share {
                return Some(id);
            }
            at -= share;
        }
        None
    }
}

impl Body {
    fn share(&self, shares: Shares) -> u64 {
        match self {
            Body::Task(_) => shares.task,
            Body::Blocking(_) => shares.blocking,
            Body::Worker(..) => shares.worker,
        }
    }

    fn take_turn(&mut self, waker: &Waker) -> WorkerStep {
        match self {
            Body::Task(task) => match task.as_mut().poll(&mut Context::from_waker(waker)) {
                Poll::Ready(()) => WorkerStep::Ended,
                Poll::Pending => WorkerStep::Worked,
            },
            Body::Blocking(work) => {
                if let Some(work) = work.take() {
                    work();
                }
                WorkerStep::Ended
            }
            Body::Worker(worker, _) => worker.try_step(),
        }
    }
}

impl Actor {
    /// Notifies the waiting task that a worker has ended.
    fn end(self) {
        if let Body::Worker(worker, end) = self.body {
            drop(worker);
            if let Some(end) = end {
                let _ = end.send(());
            }
        }
    }
}
