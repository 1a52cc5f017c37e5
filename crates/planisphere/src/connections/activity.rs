//! What one connection is doing and since when, in one atomic word.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Connected, nothing received yet.
    Fresh,
    /// Waiting for the rest of a request's head.
    Head,
    /// Receiving a request's body.
    Body,
    /// Receiving what nobody wants of a request's body.
    Discarding,
    /// Carrying out a request.
    Working,
    /// Sending the reply.
    Replying,
    /// Nothing, between two requests.
    Idle,
}

impl Phase {
    /// Whether no request is under way, so that ending the connection harms nobody.
    pub(crate) fn is_between_requests(self) -> bool {
        matches!(self, Phase::Fresh | Phase::Idle)
    }
}

/// A phase and when it began, in milliseconds of the [`CoarseClock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) phase: Phase,
    pub(crate) since: u64,
}

/// The current activity of one connection, and what it makes the server hold in memory.
#[derive(Debug)]
pub(crate) struct Activity {
    /// Milliseconds in the upper bits, phase in the lowest three.
    word: AtomicU64,
    /// Bytes of a request that is not complete, or of a reply that the client has not taken.
    held: AtomicU64,
    /// Bytes that came and went, ever.
    moved: AtomicU64,
    /// Whether the next bytes of a body are for the client to send.
    awaits_body: AtomicBool,
    clock: Arc<CoarseClock>,
}

const PHASE_BITS: u32 = 3;

impl Activity {
    pub(crate) fn new(clock: Arc<CoarseClock>) -> Self {
        let (held, moved) = (AtomicU64::new(0), AtomicU64::new(0));
        let awaits_body = AtomicBool::new(false);
        let activity = Self { word: AtomicU64::new(0), held, moved, awaits_body, clock };
        activity.enter(Phase::Fresh);
        activity
    }

    /// Notes that a phase begins now.
    pub(crate) fn enter(&self, phase: Phase) {
        // ORDERING: the word stands alone; whoever reads it late ends a connection a tick late.
        self.word.store((self.clock.now() << PHASE_BITS) | encode(phase), Ordering::Relaxed);
    }

    /// Moves from one phase to another; does nothing in any other phase.
    pub(crate) fn advance(&self, from: Phase, to: Phase) {
        if self.phase() == from {
            self.enter(to);
        }
    }

    /// Notes bytes that came. Those of a request are held until it is complete.
    pub(crate) fn received(&self, bytes: usize) {
        // ORDERING: only the connection's own task writes, and readers estimate.
        self.moved.store(self.moved() + bytes as u64, Ordering::Relaxed);
        if matches!(self.phase(), Phase::Head | Phase::Body) {
            let held = self.held.load(Ordering::Relaxed) + bytes as u64;
            self.held.store(held, Ordering::Relaxed);
        }
    }

    /// Notes bytes that went.
    pub(crate) fn sent(&self, bytes: usize) {
        self.moved.store(self.moved() + bytes as u64, Ordering::Relaxed);
        let left = self.held.load(Ordering::Relaxed).saturating_sub(bytes as u64);
        self.held.store(left, Ordering::Relaxed);
    }

    /// Notes that this much is held from now on.
    pub(crate) fn hold(&self, bytes: usize) {
        self.held.store(bytes as u64, Ordering::Relaxed);
    }

    /// Notes whether the next bytes of a body are for the client to send.
    pub(crate) fn await_body(&self, awaits: bool) {
        self.awaits_body.store(awaits, Ordering::Relaxed);
    }

    /// Bytes that are held until the client sends or takes some; 0 while it can do nothing.
    pub(crate) fn held_for_client(&self) -> u64 {
        let is_its_turn = match self.phase() {
            Phase::Head | Phase::Replying => true,
            Phase::Body => self.awaits_body.load(Ordering::Relaxed),
            Phase::Fresh | Phase::Discarding | Phase::Working | Phase::Idle => false,
        };
        if is_its_turn { self.held.load(Ordering::Relaxed) } else { 0 }
    }

    /// Bytes that came and went, ever.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.snapshot().phase
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let word = self.word.load(Ordering::Relaxed);
        Snapshot { phase: decode(word & ((1 << PHASE_BITS) - 1)), since: word >> PHASE_BITS }
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

/// A clock that stands still between calls of [`CoarseClock::advance`], and so costs a load.
#[derive(Debug)]
pub(crate) struct CoarseClock {
    started: Instant,
    milliseconds: AtomicU64,
}

impl CoarseClock {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), milliseconds: AtomicU64::new(0) }
    }

    /// Catches up with real time.
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
        let clock = Arc::new(CoarseClock::start());
        clock.milliseconds.store(123_456, Ordering::Relaxed);
        let activity = Activity::new(Arc::clone(&clock));
        use Phase::*;
        for phase in [Fresh, Head, Body, Discarding, Working, Replying, Idle] {
            activity.enter(phase);
            assert_eq!(activity.snapshot(), Snapshot { phase, since: 123_456 });
        }
    }

    #[test]
    fn advancing_happens_only_from_the_expected_phase() {
        let activity = Activity::new(Arc::new(CoarseClock::start()));
        activity.advance(Phase::Idle, Phase::Body);
        assert_eq!(activity.phase(), Phase::Fresh);
        activity.advance(Phase::Fresh, Phase::Body);
        assert_eq!(activity.phase(), Phase::Body);
    }

    #[test]
    fn what_is_held_is_what_the_client_keeps_the_server_waiting_for() {
        let activity = Activity::new(Arc::new(CoarseClock::start()));
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
        activity.enter(Phase::Replying);
        activity.hold(500);
        activity.sent(200);
        assert_eq!((activity.held_for_client(), activity.moved()), (300, 1350));
        activity.sent(400);
        assert_eq!(activity.held_for_client(), 0);
    }
}
