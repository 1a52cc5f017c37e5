//! State that all actors of a run share: the process, the clock, the record and the trace.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use engine::components::{Clock, Components};
use engine::{Catalog, Engine};
use model::ContainerRid;
use storage::LocalStore;
use tokio::sync::oneshot;

use crate::accounts::Accounts;
use crate::clock::VirtualClock;
use crate::disk::Disk;
use crate::executor::{Inbox, SimSpawner};
use crate::plan::Plan;
use crate::random::{SeededRandom, Stream};
use crate::record::{Moment, Record, Violation};
use crate::trace::Trace;

/// A request got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered;

/// The simulated process.
struct Process {
    /// Counts up with every start.
    number: u64,
    /// `None` while it is down.
    engine: Option<Engine>,
    disk: Arc<Disk>,
    /// Batches that the last crash lost.
    lost: usize,
}

/// Shared by all actors of a run.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) clock: VirtualClock,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) record: RefCell<Record>,
    pub(crate) accounts: RefCell<Accounts>,
    seed: Stream,
    process: RefCell<Process>,
    waiting: RefCell<Vec<Waker>>,
    step: Cell<u64>,
    /// When the current turn began.
    turn_began: Cell<Moment>,
    progress_micros: Cell<u64>,
    operations: Cell<u64>,
    is_calm: Cell<bool>,
    is_finished: Cell<bool>,
    is_restart_requested: Arc<AtomicBool>,
    /// How often acknowledged writes were lost.
    losses: Cell<u64>,
    /// Containers of which ranges may report that they are moving, since a job is driven by hand.
    moving: RefCell<BTreeSet<ContainerRid>>,
    trace: RefCell<Trace>,
    violation: RefCell<Option<Violation>>,
}

impl World {
    pub(crate) fn new(seed: &Stream, keeps_trace: bool) -> Rc<Self> {
        let plan = Plan::of(seed);
        let clock = VirtualClock::default();
        let disk = Disk::new(clock.clone(), plan.slowness, seed.fork("disk"));
        let process = Process { number: 0, engine: None, disk: Arc::new(disk), lost: 0 };
        let began = Moment { step: 0, seconds: clock.now().seconds() };
        Rc::new(Self {
            plan,
            clock,
            inbox: Arc::default(),
            record: RefCell::default(),
            accounts: RefCell::default(),
            seed: seed.clone(),
            process: RefCell::new(process),
            waiting: RefCell::default(),
            step: Cell::new(0),
            turn_began: Cell::new(began),
            progress_micros: Cell::new(0),
            operations: Cell::new(0),
            is_calm: Cell::new(false),
            is_finished: Cell::new(false),
            is_restart_requested: Arc::default(),
            losses: Cell::new(0),
            moving: RefCell::default(),
            trace: RefCell::new(Trace::new(keeps_trace)),
            violation: RefCell::new(None),
        })
    }

    pub(crate) fn now(&self) -> Moment {
        Moment { step: self.step.get(), seconds: self.clock.now().seconds() }
    }

    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        self.trace.borrow_mut().note(self.step.get(), self.clock.micros(), what);
    }

    /// Ends the run with a violation, unless there was one before.
    pub(crate) fn fail(&self, violation: Violation) {
        self.note(format_args!("VIOLATION {violation}"));
        self.violation.borrow_mut().get_or_insert(violation);
    }

    /// Ends the run if a check failed.
    pub(crate) fn fail_on_violation(&self, checked: Result<(), Violation>) {
        if let Err(violation) = checked {
            self.fail(violation);
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.violation.borrow().is_some()
    }

    /// Notes that a client completed an operation.
    pub(crate) fn note_progress(&self) {
        self.progress_micros.set(self.clock.micros());
        self.operations.set(self.operations.get() + 1);
    }

    /// Microseconds since a client completed an operation, or the process started.
    pub(crate) fn micros_without_progress(&self) -> u64 {
        self.clock.micros() - self.progress_micros.get()
    }

    /// No more disasters from now on.
    pub(crate) fn calm_down(&self) {
        self.is_calm.set(true);
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.is_calm.get()
    }

    pub(crate) fn finish(&self) {
        self.is_finished.set(true);
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished.get()
    }

    /// Whether acknowledged writes were lost, as they may be when they are not synced.
    pub(crate) fn has_lost_writes(&self) -> bool {
        self.losses.get() > 0
    }

    /// How often acknowledged writes were lost.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.get()
    }

    /// From now on requests for a container may fail because its ranges are moving.
    pub(crate) fn expect_moving(&self, container: ContainerRid) {
        self.moving.borrow_mut().insert(container);
    }

    /// Whether requests for a container may fail because its ranges are moving.
    pub(crate) fn may_be_moving(&self, container: ContainerRid) -> bool {
        self.moving.borrow().contains(&container)
    }

    pub(crate) fn process_number(&self) -> u64 {
        self.process.borrow().number
    }

    pub(crate) fn engine(&self) -> Option<Engine> {
        self.process.borrow().engine.clone()
    }

    pub(crate) fn disk(&self) -> Arc<Disk> {
        Arc::clone(&self.process.borrow().disk)
    }

    /// The catalog, while the process is up.
    pub(crate) fn catalog(&self) -> Option<Arc<Catalog>> {
        self.engine().map(|engine| engine.catalog())
    }

    /// Waits for the process to be up.
    pub(crate) async fn up(&self) -> (u64, Engine) {
        poll_fn(|cx| match self.engine() {
            Some(engine) => Poll::Ready((self.process_number(), engine)),
            None => {
                self.waiting.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    /// Sends a request to the process and waits for its answer, for at most `timeout`.
    pub(crate) async fn call<T, F>(
        &self,
        name: &str,
        timeout: Option<Duration>,
        request: impl FnOnce(Engine) -> F,
    ) -> Result<T, Unanswered>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (number, engine) = self.up().await;
        let (reply, mut answer) = oneshot::channel();
        let answering = request(engine);
        let task = Box::pin(async move {
            let _ = reply.send(answering.await);
        });
        let actor = self.inbox.request(number, name, task);
        let mut timeout = timeout.map(|duration| self.clock.sleep(duration));
        poll_fn(|cx| {
            if let Poll::Ready(answered) = std::pin::Pin::new(&mut answer).poll(cx) {
                return Poll::Ready(answered.map_err(|_| Unanswered));
            }
            match timeout.as_mut().map(|sleep| sleep.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => {
                    self.inbox.cancel(actor);
                    Poll::Ready(Err(Unanswered))
                }
                Some(Poll::Pending) | None => Poll::Pending,
            }
        })
        .await
    }

    /// Closes the process in good order and requests a new one.
    pub(crate) fn restart_in_order(&self) {
        let Some(engine) = self.engine() else { return };
        let wanted = Arc::clone(&self.is_restart_requested);
        let task = Box::pin(async move {
            // On a disk that fails, closing fails as well, and the restart is requested all the
            // same.
            let _ = engine.close().await;
            wanted.store(true, Ordering::SeqCst);
        });
        self.inbox.request(self.process_number(), "close", task);
    }

    /// Requests a crash.
    pub(crate) fn request_restart(&self) {
        self.is_restart_requested.store(true, Ordering::SeqCst);
    }

    /// Whether a restart was requested; clears the request.
    pub(crate) fn take_restart_request(&self) -> bool {
        self.is_restart_requested.swap(false, Ordering::SeqCst)
    }

    /// Sets the wall clock sometimes, until the disasters end.
    pub(crate) fn set_clock(&self, chance: &mut Stream) {
        if self.is_calm() {
            return;
        }
        let Some(seconds) = self.plan.clock_set(chance) else { return };
        let before = self.now();
        self.clock.set(seconds);
        self.note(format_args!("the clock is set to {seconds} s from where it began"));
        self.record.borrow_mut().note_clock_set(before, self.now().seconds);
    }

    pub(crate) fn begin_turn(&self) {
        self.turn_began.set(self.now());
        self.step.set(self.step.get() + 1);
    }

    /// Records what the turn wrote to the store.
    pub(crate) fn end_turn(&self) {
        let events = self.disk().take_events();
        if events.is_empty() {
            return;
        }
        let Some(catalog) = self.catalog() else { return };
        for event in &events {
            self.note(format_args!("  {event}"));
        }
        let (before, now) = (self.turn_began.get(), self.now());
        let settled = self.record.borrow_mut().settle(events, &catalog, before, now);
        self.fail_on_violation(settled);
    }

    /// Stops the process; all that was not on the disk is lost.
    pub(crate) fn go_down(&self) {
        let mut process = self.process.borrow_mut();
        let was_up = process.engine.take().is_some();
        process.number += 1;
        let (disk, lost) = process.disk.crash();
        process.disk = Arc::new(disk);
        // A process that never started has written nothing that counts.
        if was_up {
            process.lost = lost;
        }
    }

    /// Starts a process on the contents of the disk. False if the disk prevented it.
    pub(crate) fn come_up(&self) -> bool {
        let (number, disk) = (self.process_number(), self.disk());
        let components = Components {
            clock: Arc::new(self.clock.clone()),
            random: Arc::new(SeededRandom::new(self.seed.fork(&format!("process {number}")))),
            spawner: Arc::new(SimSpawner { inbox: Arc::clone(&self.inbox), process: number }),
        };
        let store: Arc<dyn LocalStore> = Arc::<Disk>::clone(&disk);
        let engine = match Engine::open(store, components, self.plan.settings.clone()) {
            Ok(engine) => engine,
            Err(error) => {
                self.note(format_args!("the process can't start: {error}"));
                return false;
            }
        };
        let lost = if self.plan.is_relaxed() { self.process.borrow().lost } else { 0 };
        self.losses.set(self.losses.get() + u64::from(lost > 0));
        self.note(format_args!("process {number} is up, {lost} batches are lost"));
        // Opening writes to the catalog alone, which is read back with the rest.
        drop(disk.take_events());
        let (view, catalog, now) = (disk.view(), engine.catalog(), self.now());
        let taken = self.record.borrow_mut().restarted(view.as_ref(), &catalog, lost, now);
        self.fail_on_violation(taken);
        self.process.borrow_mut().engine = Some(engine);
        self.accounts.replace(Accounts::open(&catalog));
        self.progress_micros.set(self.clock.micros());
        self.audit();
        self.waiting.take().into_iter().for_each(Waker::wake);
        true
    }

    /// Checks that the charges of requests add up. Only while no request is under way, and not
    /// where requests are throttled: the charge that a refusal reports is not counted.
    pub(crate) fn check_accounts(&self) {
        let (Some(engine), false) = (self.engine(), self.plan.scale.is_enforced) else { return };
        let catalog = engine.catalog();
        let accounts = self.accounts.borrow();
        for container in catalog.databases().flat_map(|d| catalog.containers(d.rid)) {
            self.fail_on_violation(accounts.check(&engine, container));
        }
    }

    /// Checks that everything in the store is consistent.
    pub(crate) fn audit(&self) {
        let Some(engine) = self.engine() else { return };
        match engine.audit() {
            Ok(audit) => {
                if let Some(finding) = audit.findings.first() {
                    self.fail(format!("audit: {finding}"));
                }
            }
            Err(error) => self.fail(format!("audit: {error}")),
        }
    }

    /// The result of the run.
    pub(crate) fn outcome(&self, seed: u64) -> crate::Outcome {
        let trace = self.trace.replace(Trace::new(false));
        crate::Outcome {
            seed,
            digest: trace.digest(),
            turns: self.step.get(),
            operations: self.operations.get(),
            acknowledged: self.record.borrow().acknowledged() as u64,
            processes: self.process_number() + 1,
            cut_overs: self.record.borrow().cut_overs(),
            violation: self.violation.take(),
            trace: trace.into_lines(),
        }
    }
}
