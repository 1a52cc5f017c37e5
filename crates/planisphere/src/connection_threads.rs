//! The threads that serve connections.
//!
//! A connection stays on its thread for life. Threads that share their work would wake each other
//! for every request, just in case, which takes a tenth of what a small one costs. Long work runs
//! elsewhere, so no connection waits long for others on its thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tracing::warn;

/// Blocking threads of each runtime, for work that waits for the disk such as asking for the
/// store's health.
const BLOCKING_THREADS_MAX: usize = 4;

/// The threads, at least one. Dropping it ends their connections.
pub(crate) struct ConnectionThreads {
    first: ConnectionThread,
    more: Vec<ConnectionThread>,
}

struct ConnectionThread {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
    /// Dropped to end the thread.
    open: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A connection that counts on its thread until this is dropped.
pub(crate) struct AssignedConnection {
    connections: Arc<AtomicUsize>,
}

impl ConnectionThreads {
    /// Starts one thread per processor.
    pub(crate) fn start() -> io::Result<Self> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let more = (1..processors).map(|_| ConnectionThread::start()).collect::<io::Result<_>>()?;
        Ok(Self { first: ConnectionThread::start()?, more })
    }

    /// Counts a connection on the thread that has the fewest, and returns that thread's runtime.
    pub(crate) fn assign(&self) -> (Handle, AssignedConnection) {
        // ORDERING: an estimate is good enough.
        let busy = |worker: &&ConnectionThread| worker.connections.load(Ordering::Relaxed);
        let worker = self.more.iter().chain([&self.first]).min_by_key(busy).unwrap_or(&self.first);
        worker.connections.fetch_add(1, Ordering::Relaxed);
        (
            worker.runtime.clone(),
            AssignedConnection { connections: Arc::clone(&worker.connections) },
        )
    }
}

impl Drop for AssignedConnection {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ConnectionThread {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .thread_name("planisphere")
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .enable_all()
            .build()?;
        let (open, closed) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let thread = thread::Builder::new().name("connections".to_owned()).spawn(move || {
            // The error means that the sender was dropped.
            let _ = runtime.block_on(closed);
            runtime.shutdown_background();
        })?;
        Ok(Self {
            runtime: handle,
            connections: Arc::default(),
            open: Some(open),
            thread: Some(thread),
        })
    }
}

impl Drop for ConnectionThread {
    fn drop(&mut self) {
        self.open = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            warn!("a connection thread panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_spread_over_threads_and_stay_there() {
        let threads = ConnectionThreads {
            first: ConnectionThread::start().unwrap(),
            more: vec![ConnectionThread::start().unwrap()],
        };
        let counts = || {
            [&threads.first, &threads.more[0]]
                .map(|worker| worker.connections.load(Ordering::Relaxed))
        };
        let assigned: Vec<_> = (0..6).map(|_| threads.assign().1).collect();
        assert_eq!(counts(), [3, 3]);
        drop(assigned);
        assert_eq!(counts(), [0, 0]);

        let (runtime, _assigned) = threads.assign();
        let thread_name = || thread::current().name().map(str::to_owned);
        let (tell, told) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            tokio::task::yield_now().await;
            tell.send(thread_name()).unwrap();
        });
        assert_eq!(told.recv().unwrap().as_deref(), Some("connections"));
    }

    #[test]
    fn what_is_under_way_ends_with_the_threads() {
        let threads = ConnectionThreads::start().unwrap();
        let (runtime, assigned) = threads.assign();
        let (held, mut ended) = oneshot::channel::<()>();
        runtime.spawn(async move {
            let _held = (held, assigned);
            std::future::pending::<()>().await;
        });
        drop(threads);
        assert_eq!(ended.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
