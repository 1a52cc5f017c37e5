//! The activity of one connection and its start time, in one atomic word.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Body;
use tokio::sync::Notify;

use super::stream::{READ_BYTES_MAX, READ_BYTES_MIN};

/// The activity of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Connected, nothing received yet.
    Fresh,
    /// Waiting for the rest of a request's head.
    Head,
    /// Receiving a request's body.
    Body,
    /// Receiving the unread rest of a request's body.
    Discarding,
    /// Carrying out a request.
    Working,
    /// Sending the reply.
    Replying,
    /// Nothing, between two requests.
    Idle,
}

impl Phase {
    /// Whether no request is in progress, so that ending the connection harms no client.
    pub(crate) fn is_between_requests(self) -> bool {
        matches!(self, Phase::Fresh | Phase::Idle)
    }
}

/// A phase and when it began, in milliseconds of the [`CoarseClock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CurrentPhase {
    pub(crate) phase: Phase,
    pub(crate) since: u64,
}

/// The current activity of one connection, and the memory that the server holds for it.
#[derive(Debug)]
pub(crate) struct Activity {
    /// Milliseconds in the upper bits, phase in the lowest three.
    word: AtomicU64,
    /// Bytes of a request that is not complete.
    incomplete: AtomicU64,
    /// Bytes of small replies that are not flushed. Sending a part of a reply releases no memory
    /// before its end.
    small_replies: AtomicU64,
    /// Bytes of larger replies that are still in memory.
    large_replies: AtomicU64,
    /// Total bytes received and sent.
    moved: AtomicU64,
    /// Whether the next bytes of a body must come from the client.
    awaits_body: AtomicBool,
    /// Whether what is written below TLS waits until it is flushed.
    gathers_writes: AtomicBool,
    end: Mutex<End>,
    common: Arc<Common>,
}

/// For a connection that ends itself.
#[derive(Debug, Default)]
struct End {
    /// When it was first asked to, in milliseconds of the clock.
    asked_at: Option<u64>,
    waker: Option<Waker>,
}

/// How long a connection that was asked to end may take for it, between two requests.
const ENDING_TIME_MAX: Duration = Duration::from_secs(1);

const PHASE_BITS: u32 = 3;

impl Activity {
    pub(crate) fn new(common: Arc<Common>) -> Self {
        let [word, incomplete, small_replies, large_replies, moved] =
            [(); 5].map(|()| AtomicU64::new(0));
        let [awaits_body, gathers_writes] = [(); 2].map(|()| AtomicBool::new(false));
        let end = Mutex::default();
        let activity = Self {
            word,
            incomplete,
            small_replies,
            large_replies,
            moved,
            awaits_body,
            gathers_writes,
            end,
            common,
        };
        activity.enter(Phase::Fresh);
        activity
    }

    /// Records that a phase begins now.
    pub(crate) fn enter(&self, phase: Phase) {
        // ORDERING: no other data depends on the word; a late read ends a connection a tick late.
        self.word.store((self.common.clock.now() << PHASE_BITS) | encode(phase), Ordering::Relaxed);
    }

    /// Moves from one phase to another; does nothing in any other phase.
    pub(crate) fn advance(&self, from: Phase, to: Phase) {
        if self.phase() == from {
            self.enter(to);
        }
    }

    /// Counts received bytes. Those of a request are held until it is complete, those of a TLS
    /// handshake until it ends.
    pub(crate) fn received(&self, bytes: usize) {
        // ORDERING: only the connection's own task writes, and readers need an estimate.
        self.moved.store(self.moved() + bytes as u64, Ordering::Relaxed);
        if matches!(self.phase(), Phase::Fresh | Phase::Head | Phase::Body) {
            self.hold(self.incomplete.load(Ordering::Relaxed) + bytes as u64);
        }
    }

    /// Counts sent bytes.
    pub(crate) fn sent(&self, bytes: usize) {
        self.moved.store(self.moved() + bytes as u64, Ordering::Relaxed);
    }

    /// Records how many bytes of an incomplete request are held from now on.
    pub(crate) fn hold(&self, bytes: u64) {
        self.incomplete.store(bytes, Ordering::Relaxed);
    }

    /// Records that a reply begins, and returns its body. A large body is counted until it is
    /// dropped: hyper keeps all of it until its last byte is written.
    pub(crate) fn reply(self: &Arc<Self>, body: Full<Bytes>) -> Full<Bytes> {
        self.enter(Phase::Replying);
        self.hold(0);
        let size = body.size_hint().exact().unwrap_or_default();
        if is_small(size) {
            self.count_small(size);
            return body;
        }
        Full::new(self.keep(bytes_of(body)))
    }

    /// Counts bytes of a small reply until all is sent.
    pub(crate) fn count_small(&self, size: u64) {
        let unsent = self.small_replies.load(Ordering::Relaxed) + size;
        self.small_replies.store(unsent, Ordering::Relaxed);
    }

    /// Counts the bytes of a large reply until they are dropped.
    pub(crate) fn keep(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Kept::new(bytes, Arc::clone(self)))
    }

    /// For connections that end themselves: whether this one is asked to, once no request is in
    /// progress. `cx` is woken when it is asked.
    pub(crate) fn poll_asked_to_end(&self, cx: &Context<'_>) -> bool {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let End { asked_at, waker } = &mut *end;
        match waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
        asked_at.is_some()
    }

    /// Whether the connection ends itself when it is asked to.
    pub(super) fn ends_itself(&self) -> bool {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).waker.is_some()
    }

    /// Asks a connection to end itself. Returns false if it can't, or has not done so in time: its
    /// client takes nothing, not even the end.
    pub(super) fn ask_to_end(&self) -> bool {
        let clock = &self.common.clock;
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let asked_at = *end.asked_at.get_or_insert_with(|| clock.now());
        let waker = end.waker.clone();
        drop(end);
        let can = waker.is_some();
        waker.into_iter().for_each(Waker::wake);
        can && clock.since(asked_at) <= ENDING_TIME_MAX
    }

    /// Records that all small replies so far were sent.
    pub(crate) fn all_sent(&self) {
        self.small_replies.store(0, Ordering::Relaxed);
    }

    /// Records that all data so far was sent.
    pub(crate) fn flushed(&self) {
        self.all_sent();
        // A pipelined reply may be queued without having been started.
        if self.large_replies.load(Ordering::Relaxed) == 0 {
            self.advance(Phase::Replying, Phase::Idle);
        }
    }

    /// The most bytes of one read.
    pub(crate) fn read_bytes_max(&self) -> usize {
        self.common.read_bytes_max.load(Ordering::Relaxed)
    }

    /// Records whether the next bytes of a body must come from the client.
    pub(crate) fn await_body(&self, awaits: bool) {
        self.awaits_body.store(awaits, Ordering::Relaxed);
    }

    /// Makes what is written below TLS wait until it is flushed, from now on.
    pub(crate) fn gather_writes(&self) {
        // ORDERING: only the connection's own task writes and reads it.
        self.gathers_writes.store(true, Ordering::Relaxed);
    }

    pub(super) fn gathers_writes(&self) -> bool {
        self.gathers_writes.load(Ordering::Relaxed)
    }

    /// Bytes that are held until the client sends or receives data.
    pub(crate) fn held_for_client(&self) -> u64 {
        let awaits_request = match self.phase() {
            Phase::Fresh | Phase::Head => true,
            Phase::Body => self.awaits_body.load(Ordering::Relaxed),
            Phase::Discarding | Phase::Working | Phase::Replying | Phase::Idle => false,
        };
        let request = if awaits_request { self.incomplete.load(Ordering::Relaxed) } else { 0 };
        request + self.unsent()
    }

    /// Bytes of replies that are held until the client has received them.
    pub(crate) fn unsent(&self) -> u64 {
        self.small_replies.load(Ordering::Relaxed) + self.large_replies.load(Ordering::Relaxed)
    }

    /// Total bytes received and sent.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.current().phase
    }

    pub(crate) fn current(&self) -> CurrentPhase {
        let word = self.word.load(Ordering::Relaxed);
        CurrentPhase { phase: decode(word & ((1 << PHASE_BITS) - 1)), since: word >> PHASE_BITS }
    }
}

/// The bytes of a large reply, counted until dropped.
struct Kept {
    bytes: Bytes,
    activity: Arc<Activity>,
}

impl Kept {
    fn new(bytes: Bytes, activity: Arc<Activity>) -> Self {
        let size = bytes.len() as u64;
        // ORDERING: readers need an estimate.
        activity.large_replies.fetch_add(size, Ordering::Relaxed);
        activity.common.large_replies.fetch_add(size, Ordering::Relaxed);
        Self { bytes, activity }
    }
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let size = self.bytes.len() as u64;
        self.activity.large_replies.fetch_sub(size, Ordering::Relaxed);
        self.activity.common.large_replies.fetch_sub(size, Ordering::Relaxed);
        self.activity.common.room.notify_waiters();
    }
}

/// The bytes of a body that was not polled yet.
fn bytes_of(mut body: Full<Bytes>) -> Bytes {
    let mut cx = Context::from_waker(Waker::noop());
    match Pin::new(&mut body).poll_frame(&mut cx) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        Poll::Ready(Some(Err(never))) => match never {},
        Poll::Ready(None) | Poll::Pending => Bytes::new(),
    }
}

/// State that all connections share.
#[derive(Debug)]
pub(crate) struct Common {
    pub(super) clock: CoarseClock,
    /// Bytes of all large replies in memory.
    large_replies: AtomicU64,
    /// Notified when one is dropped.
    room: Notify,
    read_bytes_max: AtomicUsize,
}

/// Replies below this size are not counted individually, which spares most requests that cost.
const LARGE_REPLY_BYTES_MIN: u64 = 16 << 10;
/// Whether a reply of so many bytes is not counted.
pub(super) fn is_small(bytes: u64) -> bool {
    bytes < LARGE_REPLY_BYTES_MIN
}

/// The target for the read buffers of all connections together. Half of it is used by buffers that
/// grew while there were few connections.
const READ_BUFFERS_BYTES: usize = 32 << 20;

impl Common {
    pub(super) fn start() -> Self {
        Self {
            clock: CoarseClock::start(),
            large_replies: AtomicU64::new(0),
            room: Notify::new(),
            read_bytes_max: AtomicUsize::new(READ_BYTES_MAX),
        }
    }

    /// Adjusts the read size to the number of open connections. Buffers of hyper grow to twice the
    /// size of a read, and a stalled client keeps its buffer.
    pub(super) fn share_among(&self, open: usize) {
        let share = READ_BUFFERS_BYTES / open.max(1);
        self.read_bytes_max.store(share.clamp(READ_BYTES_MIN, READ_BYTES_MAX), Ordering::Relaxed);
    }

    /// Waits while the large replies that clients have not received exceed `bytes_max`, for at most
    /// `timeout`: by then connections of stalled clients are ended.
    pub(super) async fn wait_for_room(&self, bytes_max: u64, timeout: Duration) {
        let wait = async {
            loop {
                let room = self.room.notified();
                // ORDERING: an estimate is good enough, and a missed change is followed by another
                // notification.
                if self.large_replies.load(Ordering::Relaxed) <= bytes_max {
                    return;
                }
                room.await;
            }
        };
        // After the timeout the request continues, because its client does nothing wrong. A reply
        // that is too much even then is dropped.
        let _is_late = tokio::time::timeout(timeout, wait).await;
    }

    /// Bytes of all large replies in memory.
    pub(super) fn large_replies(&self) -> u64 {
        self.large_replies.load(Ordering::Relaxed)
    }
}

fn encode(phase: Phase) -> u64 {
    match phase {
        Phase::Fresh => 0,
        Phase::Head => 1,
        Phase::Body => 2,
        Phase::Working => 3,
        Phase::Replying => 4,
        Phase::Idle => 5,
        Phase::Discarding => 6,
    }
}

fn decode(bits: u64) -> Phase {
    match bits {
        0 => Phase::Fresh,
        1 => Phase::Head,
        2 => Phase::Body,
        3 => Phase::Working,
        4 => Phase::Replying,
        6 => Phase::Discarding,
        _ => Phase::Idle,
    }
}

/// A clock that changes only in [`CoarseClock::advance`], so that a read costs one load.
#[derive(Debug)]
pub(crate) struct CoarseClock {
    started: Instant,
    milliseconds: AtomicU64,
}

impl CoarseClock {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), milliseconds: AtomicU64::new(0) }
    }

    /// Sets it to the real time.
    pub(crate) fn advance(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.milliseconds.store(now, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> u64 {
        self.milliseconds.load(Ordering::Relaxed)
    }

    pub(crate) fn since(&self, milliseconds: u64) -> Duration {
        Duration::from_millis(self.now().saturating_sub(milliseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_and_its_beginning_are_read_back() {
        let common = Arc::new(Common::start());
        common.clock.milliseconds.store(123_456, Ordering::Relaxed);
        let activity = Activity::new(Arc::clone(&common));
        use Phase::*;
        for phase in [Fresh, Head, Body, Discarding, Working, Replying, Idle] {
            activity.enter(phase);
            assert_eq!(activity.current(), CurrentPhase { phase, since: 123_456 });
        }
    }

    #[test]
    fn advancing_happens_only_from_the_expected_phase() {
        let activity = Activity::new(Arc::new(Common::start()));
        activity.advance(Phase::Idle, Phase::Body);
        assert_eq!(activity.phase(), Phase::Fresh);
        activity.advance(Phase::Fresh, Phase::Body);
        assert_eq!(activity.phase(), Phase::Body);
    }

    #[test]
    fn what_is_held_is_what_the_client_keeps_the_server_waiting_for() {
        let activity = Arc::new(Activity::new(Arc::new(Common::start())));
        activity.enter(Phase::Head);
        activity.received(100);
        assert_eq!(activity.held_for_client(), 100);
        activity.enter(Phase::Body);
        activity.received(50);
        assert_eq!(activity.held_for_client(), 0, "the server has not asked for more");
        activity.await_body(true);
        assert_eq!(activity.held_for_client(), 150);
        activity.enter(Phase::Discarding);
        activity.received(1000);
        assert_eq!(activity.held_for_client(), 0);
        let small = activity.reply(body(500));
        activity.sent(200);
        assert_eq!((activity.held_for_client(), activity.moved()), (500, 1350));
        activity.enter(Phase::Working);
        assert_eq!(activity.held_for_client(), 500, "it has not taken the last reply");
        drop(small);
        activity.flushed();
        assert_eq!(activity.held_for_client(), 0);
    }

    fn body(bytes: u64) -> Full<Bytes> {
        Full::new(vec![b'x'; usize::try_from(bytes).unwrap()].into())
    }

    #[test]
    fn what_came_of_a_handshake_is_held() {
        let activity = Activity::new(Arc::new(Common::start()));
        activity.received(60_000);
        assert_eq!((activity.phase(), activity.held_for_client()), (Phase::Fresh, 60_000));
    }

    #[test]
    fn large_replies_count_until_they_are_gone() {
        let common = Arc::new(Common::start());
        let [first, second] = [(); 2].map(|()| Arc::new(Activity::new(Arc::clone(&common))));
        let kept = first.reply(body(LARGE_REPLY_BYTES_MIN));
        let small = second.reply(body(LARGE_REPLY_BYTES_MIN - 1));
        assert_eq!(common.large_replies(), LARGE_REPLY_BYTES_MIN);
        assert_eq!(small.size_hint().exact(), Some(LARGE_REPLY_BYTES_MIN - 1));
        second.flushed();
        assert_eq!((second.phase(), second.unsent()), (Phase::Idle, 0));
        let pipelined = second.reply(body(1 << 20));
        second.flushed();
        assert_eq!((second.phase(), second.unsent()), (Phase::Replying, 1 << 20));
        assert_eq!(bytes_of(kept), bytes_of(body(LARGE_REPLY_BYTES_MIN)));
        first.flushed();
        assert_eq!((common.large_replies(), first.phase()), (1 << 20, Phase::Idle));
        drop(pipelined);
        assert_eq!(common.large_replies(), 0);
    }

    #[tokio::test]
    async fn room_is_waited_for_but_not_for_ever() {
        let common = Arc::new(Common::start());
        let activity = Arc::new(Activity::new(Arc::clone(&common)));
        let reply = activity.reply(body(1 << 20));
        let (short, long) = (Duration::from_millis(10), Duration::from_secs(3600));
        common.wait_for_room(1 << 20, long).await;
        let begin = Instant::now();
        common.wait_for_room(1000, short).await;
        assert!(begin.elapsed() >= short, "there was no room");
        let take = async { drop(reply) };
        let ((), ()) = tokio::join!(common.wait_for_room(1000, long), take);
        assert_eq!(common.large_replies(), 0);
    }

    #[test]
    fn many_connections_read_less_at_once() {
        let common = Common::start();
        let share = |open| {
            common.share_among(open);
            common.read_bytes_max.load(Ordering::Relaxed)
        };
        assert_eq!([0, 1, 256].map(share), [READ_BYTES_MAX; 3]);
        assert_eq!([1024, 2048, 4096].map(share), [32 << 10, READ_BYTES_MIN, READ_BYTES_MIN]);
    }
}
