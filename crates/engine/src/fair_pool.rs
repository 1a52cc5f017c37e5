//! Threads for work that is usually short but may be long.
//!
//! Work begins at once, on one of a few threads. Work that is not done after a short time gives
//! way: its thread gets a lower priority for good and continues as one of a bounded number of
//! long-running threads, while another thread replaces it. So however many requests take long,
//! there is a thread for the short ones, and the number of long-running threads stays bounded.
//!
//! Nothing is stopped from outside. Work calls [`give_way`] now and then.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::components::{BackgroundPriority, lower_thread_priority};

/// Work is long once it has used this much processor time,
const SHORT_PROCESSOR_MAX: Duration = Duration::from_millis(1);
/// or has taken this long, waiting for the disk or for a processor.
const SHORT_TIME_MAX: Duration = Duration::from_millis(50);
/// Most threads for work that may be short.
const SHORT_MAX: usize = 16;
/// How many threads run long work at a time. Each may need much memory.
const LONG_MAX: usize = 16;
/// Most threads, including those that wait until they may continue.
const THREADS_MAX: usize = 256;
/// A thread ends when it has been idle for this long.
const IDLE_MAX: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

/// The threads. They end when it is dropped, each when its work is done.
#[derive(Debug)]
pub(crate) struct FairPool {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// There is work to begin.
    begin: Condvar,
}

/// A thread that waits until it may continue.
#[derive(Debug)]
struct Waiter {
    thread: Thread,
    goes_on: AtomicBool,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    idle: usize,
    /// Threads with work that may be short.
    short: usize,
    /// Threads that run long work.
    long: usize,
    threads: usize,
    /// Threads that wait to continue long work.
    going_on: VecDeque<Arc<Waiter>>,
    is_closed: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let State { idle, short, long, threads, .. } = self;
        write!(f, "{threads} threads: {idle} idle, {short} short, {long} long")
    }
}

/// The work of a thread.
struct RunningWork {
    shared: Arc<Shared>,
    began: Moment,
    is_long: bool,
}

thread_local!(static RUNNING: RefCell<Option<RunningWork>> = const { RefCell::new(None) });

impl FairPool {
    pub(crate) fn new() -> Self {
        Self { shared: Arc::default() }
    }

    /// Begins `work` as soon as there is a thread.
    pub(crate) fn run(&self, work: Work) {
        let mut state = self.shared.lock();
        state.waiting.push_back(work);
        let is_taken = state.idle >= state.waiting.len();
        let grows = state.grows();
        drop(state);
        if is_taken {
            self.shared.begin.notify_one();
        }
        if grows {
            self.shared.start_thread();
        }
    }
}

impl Drop for FairPool {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.begin.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread, which is counted already. The caller must not hold the lock meanwhile.
    fn start_thread(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name("turn".to_owned());
        if let Err(error) = thread.spawn(move || shared.work()) {
            // The existing threads do it later.
            tracing::warn!(%error, "no thread for work that waits");
            let mut state = self.lock();
            state.threads -= 1;
            state.short -= 1;
        }
    }

    /// The main loop of a thread.
    fn work(self: Arc<Self>) {
        lower_thread_priority(BackgroundPriority::Short);
        let mut state = self.lock();
        loop {
            if let Some(work) = state.waiting.pop_front() {
                drop(state);
                let is_long = self.run_work(work);
                state = self.lock();
                if is_long {
                    return self.leave(state);
                }
                continue;
            }
            let is_over = state.is_closed;
            state.short -= 1;
            if is_over {
                state.threads -= 1;
                return;
            }
            state.idle += 1;
            let (waited, timeout) =
                self.begin.wait_timeout(state, IDLE_MAX).unwrap_or_else(PoisonError::into_inner);
            state = waited;
            state.idle -= 1;
            if timeout.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return;
            }
            state.short += 1;
        }
    }

    /// Runs a piece of work; true if it was long. A panic ends the work only: its channel closes,
    /// which notifies the caller that waits for it.
    fn run_work(self: &Arc<Self>, work: Work) -> bool {
        let running =
            RunningWork { shared: Arc::clone(self), began: Moment::now(), is_long: false };
        RUNNING.set(Some(running));
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            tracing::error!("work panicked");
        }
        RUNNING.take().is_some_and(|running| running.is_long)
    }

    /// Frees this thread's slot for short work; the thread waits then until it may continue.
    fn make_room(self: &Arc<Self>) -> Option<Arc<Waiter>> {
        let mut state = self.lock();
        state.short -= 1;
        let grows = state.grows();
        let waiter = match state.long < LONG_MAX {
            true => {
                state.long += 1;
                None
            }
            false => {
                let thread = std::thread::current();
                let waiter = Arc::new(Waiter { thread, goes_on: AtomicBool::new(false) });
                state.going_on.push_back(Arc::clone(&waiter));
                Some(waiter)
            }
        };
        drop(state);
        if grows {
            self.start_thread();
        }
        waiter
    }

    /// Ends a thread that has done long work; the thread that waits longest continues instead.
    fn leave(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let next = state.going_on.pop_front();
        if next.is_none() {
            state.long -= 1;
        }
        state.threads -= 1;
        let grows = state.grows();
        drop(state);
        if let Some(next) = next {
            next.goes_on.store(true, Ordering::Release);
            next.thread.unpark();
        }
        if grows {
            self.start_thread();
        }
    }
}

impl State {
    /// Whether there is work for one more thread, which is counted then.
    fn grows(&mut self) -> bool {
        let grows = self.waiting.len() > self.idle
            && self.short + self.idle < SHORT_MAX
            && self.threads < THREADS_MAX;
        self.threads += usize::from(grows);
        self.short += usize::from(grows);
        grows
    }
}

/// Lets short work go first, if the work of this thread is long. Returns once it may continue. Work
/// that runs elsewhere continues at once.
pub(crate) fn give_way() {
    let became_long = RUNNING.with_borrow_mut(|running| {
        let running =
            running.as_mut().filter(|running| !running.is_long && running.began.is_long_ago())?;
        running.is_long = true;
        Some(Arc::clone(&running.shared))
    });
    let Some(shared) = became_long else { return };
    // Lowered only afterwards: a thread of low priority must not hold the lock while others need
    // it.
    let waiter = shared.make_room();
    lower_thread_priority(BackgroundPriority::Long);
    if let Some(waiter) = waiter {
        while !waiter.goes_on.load(Ordering::Acquire) {
            std::thread::park();
        }
    }
}

/// When work began: the wall time and the processor time of its thread.
struct Moment {
    time: Instant,
    processor: Duration,
}

#[expect(clippy::disallowed_methods, reason = "only real threads are here, in real time")]
impl Moment {
    fn now() -> Self {
        Self { time: Instant::now(), processor: processor_time() }
    }

    fn is_long_ago(&self) -> bool {
        processor_time().saturating_sub(self.processor) >= SHORT_PROCESSOR_MAX
            || self.time.elapsed() >= SHORT_TIME_MAX
    }
}

/// The processor time of this thread.
#[cfg(target_os = "linux")]
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.try_into().unwrap_or_default()
}

/// Elsewhere the elapsed time decides alone.
#[cfg(not(target_os = "linux"))]
fn processor_time() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Works until the returned sender is dropped.
    fn long(fair_pool: &FairPool) -> mpsc::Sender<()> {
        let (end, ended) = mpsc::channel();
        fair_pool.run(Box::new(move || {
            while ended.try_recv() == Err(mpsc::TryRecvError::Empty) {
                give_way();
            }
        }));
        end
    }

    fn short(fair_pool: &FairPool) -> mpsc::Receiver<()> {
        let (done, is_done) = mpsc::channel();
        fair_pool.run(Box::new(move || {
            give_way();
            let _ = done.send(());
        }));
        is_done
    }

    fn wait_until(fair_pool: &FairPool, holds: impl Fn(&State) -> bool) {
        while !holds(&fair_pool.shared.lock()) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn short_work_finds_a_thread_among_any_number_of_long_ones() {
        let fair_pool = FairPool::new();
        let long: Vec<_> = (0..4 * LONG_MAX).map(|_| long(&fair_pool)).collect();
        // All of it has been found to be long, and no more than the limit continues.
        wait_until(&fair_pool, |state| state.long + state.going_on.len() == long.len());
        assert_eq!(fair_pool.shared.lock().long, LONG_MAX);
        short(&fair_pool).recv().unwrap();
        assert_eq!(fair_pool.shared.lock().long, LONG_MAX);
        // The waiting threads continue, and every thread with a lowered priority ends.
        drop(long);
        wait_until(&fair_pool, |state| state.long == 0 && state.going_on.is_empty());
        wait_until(&fair_pool, |state| state.threads == state.idle);
        short(&fair_pool).recv().unwrap();
    }

    #[test]
    fn there_are_no_more_threads_than_short_work_needs() {
        let fair_pool = FairPool::new();
        let done: Vec<_> = (0..500).map(|_| short(&fair_pool)).collect();
        done.iter().for_each(|done| done.recv().unwrap());
        assert!(fair_pool.shared.lock().threads <= SHORT_MAX);
    }

    #[test]
    fn a_panic_ends_its_work_only() {
        let fair_pool = FairPool::new();
        for _ in 0..SHORT_MAX {
            fair_pool.run(Box::new(|| panic!("on purpose")));
        }
        short(&fair_pool).recv().unwrap();
    }

    #[test]
    fn threads_end_with_their_owner() {
        let fair_pool = FairPool::new();
        short(&fair_pool).recv().unwrap();
        let shared = Arc::clone(&fair_pool.shared);
        drop(fair_pool);
        while shared.lock().threads > 0 {
            std::thread::yield_now();
        }
    }
}
