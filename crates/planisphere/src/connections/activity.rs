//! What one connection is doing and since when, in one atomic word.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// The current activity of one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    /// Milliseconds in the upper bits, phase in the lowest three.
    word: AtomicU64,
    clock: Arc<CoarseClock>,
}

const PHASE_BITS: u32 = 3;

impl Activity {
    pub(crate) fn new(clock: Arc<CoarseClock>) -> Self {
        let activity = Self { word: AtomicU64::new(0), clock };
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
    }
}

fn decode(bits: u64) -> Phase {
    match bits {
        0 => Phase::Fresh,
        1 => Phase::Head,
        2 => Phase::Body,
        3 => Phase::Working,
        4 => Phase::Replying,
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
        for phase in [Fresh, Head, Body, Working, Replying, Idle] {
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
}
