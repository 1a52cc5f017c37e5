//! The threads that serve connections.
//!
//! A connection stays on its thread for life. Threads that share their work would wake each other
//! for every request, just in case, which takes a tenth of what a small one costs. What may take
//! long runs elsewhere, so nobody waits long for whom it shares a thread with.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tracing::warn;

/// Threads of one lane for work that waits for the disk, such as a look at the store's health.
const BLOCKING_THREADS_MAX: usize = 4;

/// The threads, at least one. Those who were served are gone when it is dropped.
pub(crate) struct Lanes {
    first: Lane,
    more: Vec<Lane>,
}

struct Lane {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
    /// Dropped to end the thread.
    open: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A connection's place on a lane, which it leaves when this is dropped.
pub(crate) struct Seat {
    connections: Arc<AtomicUsize>,
}

impl Lanes {
    /// One for each processor.
    pub(crate) fn start() -> io::Result<Self> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let more = (1..processors).map(|_| Lane::start()).collect::<io::Result<_>>()?;
        Ok(Self { first: Lane::start()?, more })
    }

    /// A place on the lane with the fewest connections, and where to run what is served there.
    pub(crate) fn seat(&self) -> (Handle, Seat) {
        // ORDERING: an estimate is good enough.
        let busy = |lane: &&Lane| lane.connections.load(Ordering::Relaxed);
        let lane = self.more.iter().chain([&self.first]).min_by_key(busy).unwrap_or(&self.first);
        lane.connections.fetch_add(1, Ordering::Relaxed);
        (lane.runtime.clone(), Seat { connections: Arc::clone(&lane.connections) })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Lane {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .thread_name("planisphere")
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .enable_all()
            .build()?;
        let (open, closed) = oneshot::channel::<()>();
        let handle = runtime.handle().clone();
        let thread = thread::Builder::new().name("lane".to_owned()).spawn(move || {
            // An error is what says that nothing more will come.
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

impl Drop for Lane {
    fn drop(&mut self) {
        self.open = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            warn!("a thread that served connections had panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_spread_over_lanes_and_stay_there() {
        let lanes = Lanes { first: Lane::start().unwrap(), more: vec![Lane::start().unwrap()] };
        let counts =
            || [&lanes.first, &lanes.more[0]].map(|lane| lane.connections.load(Ordering::Relaxed));
        let seats: Vec<_> = (0..6).map(|_| lanes.seat().1).collect();
        assert_eq!(counts(), [3, 3]);
        drop(seats);
        assert_eq!(counts(), [0, 0]);

        let (runtime, _seat) = lanes.seat();
        let thread_name = || thread::current().name().map(str::to_owned);
        let (tell, told) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            tokio::task::yield_now().await;
            tell.send(thread_name()).unwrap();
        });
        assert_eq!(told.recv().unwrap().as_deref(), Some("lane"));
    }

    #[test]
    fn what_is_under_way_ends_with_the_lanes() {
        let lanes = Lanes::start().unwrap();
        let (runtime, seat) = lanes.seat();
        let (held, mut ended) = oneshot::channel::<()>();
        runtime.spawn(async move {
            let _held = (held, seat);
            std::future::pending::<()>().await;
        });
        drop(lanes);
        assert_eq!(ended.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
