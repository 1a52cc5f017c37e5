//! Clients that make the server hold memory: they stall in the middle of a request, or do not
//! receive their reply.
//!
//! Each may do so within the time limits, but all together only up to a bound. Above the bound,
//! connections of stalled clients are ended, those first that have stalled longest. Above twice the
//! bound, connections are also ended whose clients receive their replies very slowly: the whole
//! reply stays in memory until its end, however little of it is left. Clients that wait for the
//! server are not affected.

use tracing::warn;

use super::OpenConnections;

/// A client that moves fewer bytes from one check to the next stalls.
const PROGRESS_BYTES_MIN: u64 = 16 << 10;
/// Checks for which a client may stall before its connection can be ended, and the number of checks
/// within which a client that is not slow receives its replies.
const STALLED_CHECKS_MIN: u32 = 4;

/// For how long a connection has stalled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stall {
    /// Total bytes received and sent at the last check.
    moved: u64,
    /// Recent bytes received and sent from one check to the next.
    rate: u64,
    /// Bytes of unsent replies at the last check but one, and at the last.
    unsent: (u64, u64),
    /// Checks since its last progress.
    stalled_checks: u32,
    /// Whether it was ended already, which takes effect when its thread polls it.
    is_ended: bool,
}

impl Stall {
    /// Records the progress of a connection that holds `held` bytes, `unsent` of them of replies.
    fn check(&mut self, moved: u64, held: u64, unsent: u64) {
        let progress = moved.saturating_sub(self.moved);
        // The rest of a reply may be less than the required progress.
        let due = PROGRESS_BYTES_MIN.min(held);
        let goes_on = held == 0 || progress >= due;
        self.stalled_checks = if goes_on { 0 } else { self.stalled_checks.saturating_add(1) };
        self.rate = if self.unsent.1 == 0 { progress } else { (self.rate + progress) / 2 };
        self.unsent = (self.unsent.1, unsent);
        self.moved = moved;
    }

    /// The number of checks that the client needs to receive its replies; `None` if it is fast
    /// enough, or if its replies have only just begun.
    fn slowness(&self) -> Option<u64> {
        let (before, now) = self.unsent;
        let stalled_checks = now / self.rate.max(1);
        let is_slow = before > 0
            && now >= PROGRESS_BYTES_MIN
            && stalled_checks > u64::from(STALLED_CHECKS_MIN);
        (is_slow && !self.is_ended).then_some(stalled_checks)
    }
}

impl OpenConnections {
    /// Ends stalled connections until the others hold no more than `held_max`. Far above that,
    /// clients get less time, and slow ones are ended too.
    pub(super) fn end_stalled(&mut self, held_max: u64) {
        let mut total = 0;
        for entry in self.by_id.values_mut().filter(|entry| !entry.stall.is_ended) {
            let held = entry.activity.held_for_client();
            entry.stall.check(entry.activity.moved(), held, entry.activity.unsent());
            total += held;
        }
        if total <= held_max {
            return;
        }
        let far_above = held_max.saturating_mul(2);
        let stalled_checks_min = if total > far_above { 1 } else { STALLED_CHECKS_MIN };
        let has_stalled = |stall: &Stall| {
            let stalled_checks = u64::from(stall.stalled_checks);
            (stall.stalled_checks >= stalled_checks_min && !stall.is_ended)
                .then_some(stalled_checks)
        };
        let (stalled, left) = self.end_most(has_stalled, total, held_max);
        let (slow, left) = self.end_most(Stall::slowness, left, far_above);
        if stalled + slow > 0 {
            warn!(
                stalled,
                slow,
                held_bytes = total,
                left_bytes = left,
                "closed connections: their clients stalled and together used too much memory"
            );
        }
    }

    /// Ends connections in descending order of rank, until the `held` bytes of all are no more than
    /// `held_max`. Returns how many, and the bytes that the others hold.
    fn end_most(
        &mut self,
        rank: impl Fn(&Stall) -> Option<u64>,
        mut held: u64,
        held_max: u64,
    ) -> (usize, u64) {
        if held <= held_max {
            return (0, held);
        }
        let ranked = self.by_id.values_mut().filter_map(|entry| {
            Some((rank(&entry.stall)?, entry.activity.held_for_client(), entry))
        });
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_by_key(|(rank, bytes, _)| std::cmp::Reverse((*rank, *bytes)));
        let mut ended = 0;
        for (_, bytes, entry) in ranked {
            if held <= held_max {
                break;
            }
            held = held.saturating_sub(bytes);
            entry.stall.is_ended = true;
            entry.task.abort();
            ended += 1;
        }
        (ended, held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_stalls_when_it_moves_little_of_what_is_held() {
        let mut stall = Stall::default();
        stall.check(1 << 20, 2 << 20, 0);
        assert_eq!(stall.stalled_checks, 0);
        for stalled_checks in 1..=3 {
            stall.check((1 << 20) + u64::from(stalled_checks), 2 << 20, 0);
            assert_eq!(stall.stalled_checks, stalled_checks, "a byte is no progress");
        }
        stall.check(2 << 20, 1 << 20, 0);
        assert_eq!(stall.stalled_checks, 0);
        stall.check((2 << 20) + 10, 10, 0);
        assert_eq!(stall.stalled_checks, 0, "the last bytes are few");
        stall.check((2 << 20) + 10, 0, 0);
        assert_eq!(stall.stalled_checks, 0, "it is not the client's turn");
    }
    #[test]
    fn a_client_is_slow_by_the_time_its_replies_would_take() {
        let reply = 4 << 20;
        let mut stall = Stall::default();
        stall.check(0, reply, reply);
        assert_eq!(stall.slowness(), None, "the reply has only just begun");
        stall.check(64 << 10, reply, reply);
        assert_eq!((stall.stalled_checks, stall.slowness()), (0, Some(128)));
        let mut fast = Stall::default();
        for check in 0..4 {
            fast.check(check * (2 << 20), reply, reply);
        }
        assert_eq!(fast.slowness(), None);
        let mut tail = Stall::default();
        for _ in 0..20 {
            tail.check(reply - 10_000, reply, reply);
        }
        assert!(tail.slowness() > stall.slowness(), "nothing is taken of what is left");
    }
}
