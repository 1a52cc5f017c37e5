//! Threads for scripts of clients: slow or endless, they must not delay other requests.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::components::{
    BackgroundPriority, Ended, Spawner, Worker, WorkerStep, lower_thread_priority,
};
use crate::{Engine, Error};

/// Jobs that may wait before others are refused.
const JOBS_WAITING_MAX: usize = 512;
/// When a refused job should be sent again.
const RETRY_AFTER: Duration = Duration::from_millis(100);

type Job = Box<dyn FnOnce() + Send>;

/// A bounded number of threads, started when they are first needed.
pub(crate) struct ScriptPool {
    queue: Arc<Queue>,
    spawner: Arc<dyn Spawner>,
    threads_max: usize,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: Vec<Ended>,
    is_closed: bool,
}

impl ScriptPool {
    pub(crate) fn new(spawner: Arc<dyn Spawner>, threads_max: usize) -> Self {
        Self { queue: Arc::default(), spawner, threads_max: threads_max.max(1) }
    }

    fn submit(&self, job: Job) -> Result<(), Error> {
        let mut state = self.queue.lock();
        if state.is_closed {
            return Err(Error::Unavailable("the server is shutting down".into()));
        }
        if state.jobs.len() >= JOBS_WAITING_MAX {
            return Err(Error::Throttled { retry_after: RETRY_AFTER });
        }
        if state.idle <= state.jobs.len() && state.threads.len() < self.threads_max {
            let worker = ScriptWorker(Arc::clone(&self.queue));
            let thread = self.spawner.work("script", Box::new(worker));
            let thread = thread.map_err(|e| Error::Unavailable(format!("no thread: {e}")))?;
            state.threads.push(thread);
        }
        state.jobs.push_back(job);
        drop(state);
        self.queue.changed.notify_one();
        Ok(())
    }

    /// Takes no more jobs and waits for those under way.
    pub(crate) async fn close(&self) {
        let threads = {
            let mut state = self.queue.lock();
            state.is_closed = true;
            state.jobs.clear();
            std::mem::take(&mut state.threads)
        };
        self.queue.changed.notify_all();
        for thread in threads {
            let _ = thread.await;
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, once there is one; `None` when there will be none.
    fn wait(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

struct ScriptWorker(Arc<Queue>);

impl Worker for ScriptWorker {
    fn run(&mut self) {
        lower_thread_priority(BackgroundPriority::Long);
        while let Some(job) = self.0.wait() {
            run(job);
        }
    }

    fn try_step(&mut self) -> WorkerStep {
        let (job, is_closed) = {
            let mut state = self.0.lock();
            (state.jobs.pop_front(), state.is_closed)
        };
        match job {
            Some(job) => {
                run(job);
                WorkerStep::Worked
            }
            None if is_closed => WorkerStep::Ended,
            None => WorkerStep::Idle,
        }
    }
}

/// A panic ends its job only: the job's channel closes, which notifies the caller that waits for
/// it.
fn run(job: Job) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("a script panicked");
    }
}

impl Engine {
    /// Runs `work`, which may take as long as its own limits let it, beside everything else. Where
    /// too many jobs wait already, the result is [`Error::Throttled`].
    pub(crate) async fn run_script<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (done, answer) = oneshot::channel();
        self.inner.scripts.submit(Box::new(move || {
            // A caller that has gone while the job waited needs no result.
            if !done.is_closed() {
                let _ = done.send(work());
            }
        }))?;
        answer.await.map_err(|_| Error::Internal("a script panicked".into()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::components::TokioSpawner;

    fn pool(threads: usize) -> ScriptPool {
        let spawner = TokioSpawner::new(tokio::runtime::Handle::current());
        ScriptPool::new(Arc::new(spawner), threads)
    }

    #[tokio::test]
    async fn jobs_run_on_a_bounded_number_of_threads() {
        let (pool, most) = (pool(3), Arc::new((AtomicUsize::new(0), AtomicUsize::new(0))));
        let (done, mut ended) = tokio::sync::mpsc::channel(100);
        for _ in 0..100 {
            let (most, done) = (Arc::clone(&most), done.clone());
            let job = Box::new(move || {
                most.1.fetch_max(most.0.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                most.0.fetch_sub(1, Ordering::SeqCst);
                done.blocking_send(()).unwrap();
            });
            pool.submit(job).unwrap();
        }
        for _ in 0..100 {
            ended.recv().await.unwrap();
        }
        assert!((1..=3).contains(&most.1.load(Ordering::SeqCst)));
        assert!(pool.queue.lock().threads.len() <= 3);
        pool.close().await;
        assert!(matches!(pool.submit(Box::new(|| ())), Err(Error::Unavailable(_))));
    }

    #[tokio::test]
    async fn a_panic_ends_no_thread_and_a_full_queue_turns_away() {
        let pool = pool(1);
        pool.submit(Box::new(|| panic!("on purpose"))).unwrap();
        let (done, ended) = oneshot::channel();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        pool.submit(Box::new(move || {
            done.send(()).unwrap();
            let _ = wait.recv();
        }))
        .unwrap();
        ended.await.unwrap();
        for _ in 0..JOBS_WAITING_MAX {
            pool.submit(Box::new(|| ())).unwrap();
        }
        let refused = pool.submit(Box::new(|| ()));
        assert!(matches!(refused, Err(Error::Throttled { .. })));
        drop(release);
        pool.close().await;
    }
}
