//! What a partition used, counted.

/// Seconds after which a peak begins to be forgotten.
const PEAK_SECONDS: u64 = 30;

/// Counters of a partition. Amounts are thousandths of request units.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    consumed: u64,
    /// The most that [`Tally::consumed`] ever returned.
    reported: u64,
    pub(super) served: u64,
    pub(super) throttled: u64,
    second: u64,
    pub(super) this_second: u64,
    pub(super) last_second: u64,
    /// The busiest second of this period of [`PEAK_SECONDS`], and of the one before.
    peaks: [u64; 2],
}

impl Tally {
    /// Advances to `second`, if that is later.
    pub(super) fn go_on(&mut self, second: u64) {
        let passed = second.saturating_sub(self.second);
        if passed == 0 {
            return;
        }
        self.peaks[0] = self.peaks[0].max(self.this_second);
        match second / PEAK_SECONDS - self.second / PEAK_SECONDS {
            0 => {}
            1 => self.peaks = [0, self.peaks[0]],
            _ => self.peaks = [0; 2],
        }
        self.last_second = if passed == 1 { self.this_second } else { 0 };
        self.this_second = 0;
        self.second = second;
    }

    pub(super) fn serve(&mut self, milli: u64) {
        self.served += 1;
        self.consumed = self.consumed.saturating_add(milli);
        self.this_second = self.this_second.saturating_add(milli);
    }

    pub(super) fn refuse(&mut self) {
        self.throttled += 1;
    }

    /// All that was used. It never falls: while more was counted for requests under way than they
    /// cost in the end, it stays the same.
    pub(super) fn consumed(&mut self) -> u64 {
        self.reported = self.reported.max(self.consumed);
        self.reported
    }

    /// Adds what a request cost beyond what was counted when it arrived.
    pub(super) fn correct(&mut self, milli: i64) {
        self.consumed = self.consumed.saturating_add_signed(milli);
        self.this_second = self.this_second.saturating_add_signed(milli);
    }

    /// The busiest second lately.
    pub(super) fn recent_peak(&self) -> u64 {
        self.peaks[0].max(self.peaks[1]).max(self.this_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_follow_each_other() {
        let mut tally = Tally::default();
        tally.serve(700);
        tally.correct(-200);
        tally.go_on(1);
        tally.serve(300);
        assert_eq!((tally.last_second, tally.this_second), (500, 300));
        tally.go_on(1);
        tally.go_on(0);
        assert_eq!((tally.last_second, tally.this_second), (500, 300));
        tally.go_on(3);
        assert_eq!((tally.last_second, tally.this_second), (0, 0));
        assert_eq!((tally.consumed(), tally.served), (800, 2));
    }

    #[test]
    fn what_was_consumed_never_falls() {
        let mut tally = Tally::default();
        tally.serve(700);
        assert_eq!(tally.consumed(), 700);
        tally.correct(-200);
        assert_eq!(tally.consumed(), 700);
        tally.serve(300);
        assert_eq!(tally.consumed(), 800);
    }

    #[test]
    fn a_peak_is_remembered_for_half_a_minute_and_forgotten_after_a_minute() {
        let mut tally = Tally::default();
        tally.go_on(29);
        tally.serve(900);
        assert_eq!(tally.recent_peak(), 900);
        tally.go_on(59);
        assert_eq!(tally.recent_peak(), 900);
        tally.go_on(60);
        assert_eq!(tally.recent_peak(), 0);
    }
}
