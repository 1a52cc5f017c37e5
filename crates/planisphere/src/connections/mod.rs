//! The open connections: their maximum number, the activity of each, and their time limits.
//!
//! A connection records its activity in one atomic word ([`Activity`]); a single task checks all of
//! them a few times per second and ends those that exceeded their time. So a request costs a few
//! relaxed stores, and no timer is armed or disarmed on its behalf.

mod activity;
mod body;
mod stalled;
mod stream;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tracing::debug;

pub(crate) use activity::{Activity, Phase};
use activity::{Common, CurrentPhase};
pub(crate) use body::{UNWANTED_BYTES_MAX, UnreadBody, WatchedBody, discard_unread};
use stalled::Stall;
pub(crate) use stream::{GreetedStream, WatchedStream};

/// How often time limits are checked, which is also their precision.
const TICK: Duration = Duration::from_millis(250);
/// Most bytes of all incomplete requests and unsent replies together, before connections of stalled
/// clients are ended.
const HELD_BYTES_MAX: u64 = 64 << 20;
/// Above this many bytes of unsent replies, requests with large replies wait.
const LARGE_REPLIES_BYTES_MAX: u64 = 2 * HELD_BYTES_MAX;
/// Above this many, replies to reads are dropped instead of being kept for sending.
const UNSENT_BYTES_MAX: u64 = 4 * HELD_BYTES_MAX;
const ROOM_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection with several requests at a time is idle before it ends while the server
/// stops. A client that sends more in the meantime is told to go elsewhere; at a connection that
/// ends unannounced its writes would fail.
const LINGER: Duration = Duration::from_millis(500);

/// Limits on connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// Connections open at a time.
    pub(crate) open_max: usize,
    /// From connecting, or a request's first byte, to the end of its head.
    pub(crate) head: Duration,
    /// Sending a reply, or discarding the unread rest of a body.
    pub(crate) body: Duration,
}

/// All connections of the process. Clones share them.
#[derive(Clone)]
pub(crate) struct Connections {
    shared: Arc<Shared>,
}

struct Shared {
    limits: ConnectionLimits,
    common: Arc<Common>,
    closing: AtomicBool,
    open: Mutex<OpenConnections>,
    /// Notified when the first connection opens.
    opened: Notify,
}

#[derive(Default)]
struct OpenConnections {
    next_id: u64,
    by_id: BTreeMap<u64, Entry>,
}

struct Entry {
    activity: Arc<Activity>,
    /// How long it may be idle between two requests.
    idle: Duration,
    stall: Stall,
    task: AbortHandle,
}

impl Entry {
    /// Ends the connection. One that has several requests at a time ends itself if it is idle,
    /// because a request can have begun in the meantime. Returns whether it is at its end.
    fn end(&self) -> bool {
        let is_idle = self.activity.phase().is_between_requests();
        let ends_itself = is_idle && self.activity.ask_to_end();
        if !ends_itself {
            self.task.abort();
        }
        !ends_itself
    }
}

impl Connections {
    /// An empty set; a task that ends overdue connections runs on the current runtime.
    pub(crate) fn new(limits: ConnectionLimits) -> Self {
        let connections = Self {
            shared: Arc::new(Shared {
                limits,
                common: Arc::new(Common::start()),
                closing: AtomicBool::new(false),
                open: Mutex::new(OpenConnections::default()),
                opened: Notify::new(),
            }),
        };
        tokio::spawn(end_overdue(Arc::clone(&connections.shared)));
        connections
    }

    /// Runs a connection in a task of its own on `runtime`, which may be `idle` for so long. If too
    /// many are open, the one that was idle longest is closed; if none is idle, the new one is
    /// refused, and `serve` dropped unpolled.
    pub(crate) fn admit<F>(
        &self,
        runtime: &Handle,
        idle: Duration,
        serve: impl FnOnce(Arc<Activity>) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let shared = &self.shared;
        let mut open = shared.lock();
        if open.by_id.len() >= shared.limits.open_max && !open.end_longest_idle() {
            debug!(open = open.by_id.len(), "connection refused, too many are open and busy");
            return;
        }
        // While no connection was open, the clock was not advanced.
        shared.common.clock.advance();
        shared.common.share_among(open.by_id.len() + 1);
        let id = open.next_id;
        open.next_id += 1;
        let activity = Arc::new(Activity::new(Arc::clone(&shared.common)));
        let ended = RemoveOnDrop { id, shared: Arc::clone(shared) };
        let serving = serve(Arc::clone(&activity));
        let task = runtime.spawn(async move {
            let _ended = ended;
            serving.await;
        });
        open.by_id.insert(
            id,
            Entry { activity, idle, stall: Stall::default(), task: task.abort_handle() },
        );
        if open.by_id.len() == 1 {
            shared.opened.notify_waiters();
        }
    }

    /// Waits while clients keep too many reply bytes from being sent.
    pub(crate) async fn wait_for_room(&self) {
        if self.shared.common.large_replies() > LARGE_REPLIES_BYTES_MAX {
            // Boxed, so that other requests do not carry its state along.
            Box::pin(self.shared.common.wait_for_room(LARGE_REPLIES_BYTES_MAX, ROOM_TIMEOUT)).await;
        }
    }

    /// Whether there is memory for a reply of so many bytes. Small replies are always allowed.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        activity::is_small(bytes) || self.shared.common.large_replies() + bytes <= UNSENT_BYTES_MAX
    }

    /// Number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.shared.lock().by_id.len()
    }

    /// Time limit for discarding the unread rest of a body.
    pub(crate) fn body_time(&self) -> Duration {
        self.shared.limits.body
    }

    /// Makes every connection end with the reply to its current request.
    pub(crate) fn close_after_replies(&self) {
        self.shared.closing.store(true, Ordering::SeqCst);
    }

    /// Whether the server is stopping, so that replies should ask clients to close.
    pub(crate) fn is_closing(&self) -> bool {
        self.shared.closing.load(Ordering::SeqCst)
    }

    /// Ends idle connections, lets running requests finish for at most `timeout`, then ends the
    /// rest. Returns how many requests were aborted.
    pub(crate) async fn drain(&self, timeout: Duration) -> usize {
        self.close_after_replies();
        let deadline = Instant::now() + timeout;
        let clock = &self.shared.common.clock;
        loop {
            let left = self.shared.lock().end_where(|entry, current| {
                let has_lingered = clock.since(current.since) >= LINGER;
                current.phase.is_between_requests()
                    && (has_lingered || !entry.activity.ends_itself())
            });
            if left == 0 {
                return 0;
            }
            if Instant::now() >= deadline {
                let open = self.shared.lock();
                let current = open.by_id.values().map(|entry| entry.activity.current());
                let cut_short = current.filter(|at| !at.phase.is_between_requests()).count();
                open.end_where(|_, _| true);
                return cut_short;
            }
            // A connection becomes idle when its reply is flushed, without a notification.
            let pause = TICK.min(deadline - Instant::now()) / 10;
            tokio::time::sleep(pause.max(Duration::from_millis(1))).await;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        // Nothing that holds the lock can leave the table half opened.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_overdue(&self, entry: &Entry, current: CurrentPhase) -> bool {
        let limit = match current.phase {
            Phase::Fresh | Phase::Head => self.limits.head,
            Phase::Replying => self.limits.body,
            Phase::Idle => entry.idle,
            // The reader of the body enforces its time limit and reports it to the client; the
            // engine limits the time of the work itself.
            Phase::Body | Phase::Discarding | Phase::Working => return false,
        };
        self.common.clock.since(current.since) > limit
    }
}

impl OpenConnections {
    /// Ends all connections that match, and returns the number of those that are not at their end.
    fn end_where(&self, ends: impl Fn(&Entry, CurrentPhase) -> bool) -> usize {
        let stays = |entry: &&Entry| !(ends(entry, entry.activity.current()) && entry.end());
        self.by_id.values().filter(stays).count()
    }

    fn end_longest_idle(&mut self) -> bool {
        let longest = self
            .by_id
            .iter()
            .map(|(id, entry)| (entry.activity.current(), *id))
            .filter(|(current, _)| current.phase.is_between_requests())
            .min_by_key(|(current, _)| current.since);
        let Some((_, id)) = longest else { return false };
        if let Some(entry) = self.by_id.remove(&id) {
            entry.end();
        }
        true
    }
}

/// Removes a connection from the list when its task ends, also by a panic.
struct RemoveOnDrop {
    id: u64,
    shared: Arc<Shared>,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        self.shared.lock().by_id.remove(&self.id);
    }
}

/// Ends connections that exceeded their time. Sleeps without ticking while no connection is open.
async fn end_overdue(shared: Arc<Shared>) {
    loop {
        let opened = shared.opened.notified();
        if shared.lock().by_id.is_empty() {
            opened.await;
        }
        tokio::time::sleep(TICK).await;
        shared.common.clock.advance();
        shared.lock().end_where(|entry, current| {
            let overdue = shared.is_overdue(entry, current);
            if overdue {
                debug!(phase = ?current.phase, "connection ended, it took too long");
            }
            overdue
        });
        shared.lock().end_stalled(HELD_BYTES_MAX);
    }
}

#[cfg(test)]
mod tests;
