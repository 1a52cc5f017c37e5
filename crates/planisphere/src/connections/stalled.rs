//! Clients that make the server hold memory: they stall in the middle of a request, or do not take
//! their reply.
//!
//! Each may do so for as long as the time limits allow, but all together only up to a bound. Above
//! it connections are ended, those first that have stalled longest. A client that goes on, however
//! many others there are, is left alone, and so is one that waits for the server.

use tracing::warn;

use super::Open;

/// A client that moves fewer bytes from one look to the next stalls.
const PROGRESS_BYTES_MIN: u64 = 16 << 10;
/// Looks for which a client may stall before it can be ended.
const LOOKS_MIN: u32 = 4;

/// For how long a connection has stalled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stall {
    /// Bytes that had come and gone at the last look.
    moved: u64,
    /// Looks since it last went on.
    looks: u32,
    /// Whether it was ended already, which takes effect when its thread comes to it.
    is_ended: bool,
}

impl Stall {
    /// Notes how far a connection is that holds `held` bytes.
    fn look(&mut self, moved: u64, held: u64) {
        // The rest of a reply is less than what is asked for.
        let due = PROGRESS_BYTES_MIN.min(held);
        let goes_on = held == 0 || moved.saturating_sub(self.moved) >= due;
        self.looks = if goes_on { 0 } else { self.looks.saturating_add(1) };
        self.moved = moved;
    }
}

impl Open {
    /// Ends stalled connections until the others hold no more than `held_max`. Far above that a
    /// client is given less time.
    pub(super) fn end_stalled(&mut self, held_max: u64) {
        let mut total = 0;
        for entry in self.by_id.values_mut().filter(|entry| !entry.stall.is_ended) {
            let held = entry.activity.held_for_client();
            entry.stall.look(entry.activity.moved(), held);
            total += held;
        }
        if total <= held_max {
            return;
        }
        let looks_min = if total > held_max.saturating_mul(2) { 1 } else { LOOKS_MIN };
        let has_stalled = |stall: &Stall| stall.looks >= looks_min && !stall.is_ended;
        let mut stalled: Vec<_> =
            self.by_id.values_mut().filter(|entry| has_stalled(&entry.stall)).collect();
        stalled.sort_by_key(|entry| {
            std::cmp::Reverse((entry.stall.looks, entry.activity.held_for_client()))
        });
        let (mut ended, mut left) = (0, total);
        for entry in stalled {
            if left <= held_max {
                break;
            }
            left = left.saturating_sub(entry.activity.held_for_client());
            entry.stall.is_ended = true;
            entry.task.abort();
            ended += 1;
        }
        if ended > 0 {
            warn!(
                connections = ended,
                held_bytes = total,
                "connections ended, their clients stalled and together held too much memory"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_stalls_when_it_moves_little_of_what_is_held() {
        let mut stall = Stall::default();
        stall.look(1 << 20, 2 << 20);
        assert_eq!(stall.looks, 0);
        for looks in 1..=3 {
            stall.look((1 << 20) + u64::from(looks), 2 << 20);
            assert_eq!(stall.looks, looks, "a byte is no progress");
        }
        stall.look(2 << 20, 1 << 20);
        assert_eq!(stall.looks, 0);
        stall.look((2 << 20) + 10, 10);
        assert_eq!(stall.looks, 0, "the last bytes are few");
        stall.look((2 << 20) + 10, 0);
        assert_eq!(stall.looks, 0, "it is not the client's turn");
    }
}
