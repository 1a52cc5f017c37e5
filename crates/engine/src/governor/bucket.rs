//! Token buckets: how much of a rate is left right now.

use std::time::Duration;

use model::Charge;

use crate::context::Priority;

/// Balances are kept in billionths of a thousandth of a request unit. A bucket that gets `r`
/// thousandths a second gets exactly `r` of these a nanosecond, so no division ever rounds.
const GRAINS_PER_MILLI: i64 = 1_000_000_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Four million request units per second; keeps a second's worth well within a balance.
const RATE_MILLI_MAX: u64 = 4_000_000_000;
/// The largest debt, in nanoseconds of the rate. Many requests that are admitted at once can each
/// turn out to cost a thousand times what they paid at first, and clients give up after half a
/// minute of waiting.
pub(super) const DEBT_NANOS_MAX: u64 = 5 * NANOS_PER_SECOND;

/// A bucket that fills at a steady rate and holds at most one second's worth. Requests are served
/// while it holds anything and may overdraw it by what they turn out to cost; the debt is paid
/// back at the same rate, so that in the long run exactly the rate is served. What a debt would
/// be beyond [`DEBT_NANOS_MAX`] is forgiven.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// Thousandths of a request unit per second.
    rate: u64,
    /// What it holds at most, in nanoseconds of its rate.
    span: u64,
    /// In grains.
    balance: i64,
    /// When the balance was last updated, in nanoseconds of the monotonic clock.
    at: u64,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn full(rate_milli: u64, now: Duration) -> Self {
        Self::with_span(rate_milli, NANOS_PER_SECOND, now)
    }

    /// A full bucket that holds `span_nanos` of its rate.
    pub(super) fn with_span(rate_milli: u64, span_nanos: u64, now: Duration) -> Self {
        let rate = clamped(rate_milli);
        let mut out = Self { rate, span: span_nanos, balance: 0, at: nanos(now) };
        out.balance = out.capacity();
        out
    }

    /// Thousandths of a request unit per second.
    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    /// Continues at another rate with the balance it has.
    pub(super) fn set_rate(&mut self, rate_milli: u64, now: Duration) {
        self.refill(now);
        self.rate = clamped(rate_milli);
        self.balance = self.balance.clamp(self.floor(), self.capacity());
    }

    /// Thousandths of a request unit by which it is overdrawn.
    pub(super) fn debt(&self) -> i64 {
        -(self.balance.min(0) / GRAINS_PER_MILLI)
    }

    /// Adds what has accrued since the last call.
    pub(super) fn refill(&mut self, now: Duration) {
        let now = nanos(now);
        // Callers read the clock before they come here, so some come with an older time.
        let Some(elapsed) = now.checked_sub(self.at) else { return };
        self.at = now;
        let brought = i64::try_from(elapsed.saturating_mul(self.rate)).unwrap_or(i64::MAX);
        self.balance = self.balance.saturating_add(brought).min(self.capacity());
    }

    /// Whether it holds more than `reserve`, and `held` thousandths on top of that.
    pub(super) fn is_above(&self, reserve: Reserve, held: i64) -> bool {
        i128::from(self.balance) > self.threshold(reserve, held)
    }

    /// How long until it holds more than that, if nothing is taken meanwhile.
    pub(super) fn wait(&self, reserve: Reserve, held: i64) -> Duration {
        let missing = self.threshold(reserve, held) - i128::from(self.balance) + 1;
        let missing = u128::try_from(missing).unwrap_or(0);
        Duration::from_nanos(
            u64::try_from(missing.div_ceil(u128::from(self.rate))).unwrap_or(u64::MAX),
        )
    }

    /// Takes `milli`, or gives it back when negative.
    pub(super) fn take(&mut self, milli: i64) {
        let grains = milli.saturating_mul(GRAINS_PER_MILLI);
        self.balance = self.balance.saturating_sub(grains).clamp(self.floor(), self.capacity());
    }

    /// Thousandths that it holds at most.
    pub(super) fn capacity_milli(&self) -> i64 {
        self.capacity() / GRAINS_PER_MILLI
    }

    /// How long it takes to accrue `milli`.
    pub(super) fn time_for(&self, milli: u64) -> Duration {
        let grains = u128::from(milli) * u128::from(NANOS_PER_SECOND);
        let wait = grains / u128::from(self.rate);
        Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// The balance of the largest debt.
    fn floor(&self) -> i64 {
        -i64::try_from(self.rate.saturating_mul(DEBT_NANOS_MAX)).unwrap_or(i64::MAX)
    }

    fn capacity(&self) -> i64 {
        i64::try_from(self.rate.saturating_mul(self.span)).unwrap_or(i64::MAX)
    }

    fn threshold(&self, reserve: Reserve, held: i64) -> i128 {
        let reserve = match reserve {
            Reserve::None => 0,
            Reserve::Fifth => self.capacity() / 5,
        };
        i128::from(reserve) + i128::from(held) * i128::from(GRAINS_PER_MILLI)
    }
}

/// How much of a bucket is kept for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserve {
    /// Nothing.
    None,
    /// A fifth.
    Fifth,
}

impl Reserve {
    /// What requests of a priority leave to others.
    pub(super) fn of(priority: Priority) -> Self {
        match priority {
            Priority::High => Reserve::None,
            Priority::Low => Reserve::Fifth,
        }
    }
}

/// An extra budget for each minute of the clock, for the moments when a bucket is empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinuteBudget {
    size_milli: i64,
    left_milli: i64,
    minute: u64,
}

impl MinuteBudget {
    /// A whole budget of `size` for this minute.
    pub(super) fn whole(size: Charge, now: Duration) -> Self {
        let size_milli = signed(size.as_milli());
        Self { size_milli, left_milli: size_milli, minute: minute_of(now) }
    }

    /// Continues with another size; what was used of this minute's budget stays used.
    pub(super) fn resize(&mut self, size: Charge) {
        let size_milli = signed(size.as_milli());
        self.left_milli = self.left_milli.saturating_add(size_milli - self.size_milli);
        self.size_milli = size_milli;
    }

    /// Gives out the budget of a new minute. An overdraft is taken from it.
    pub(super) fn refill(&mut self, now: Duration) {
        let minute = minute_of(now);
        if minute > self.minute {
            let given = signed(minute - self.minute).saturating_mul(self.size_milli);
            self.minute = minute;
            self.left_milli = self.left_milli.min(0).saturating_add(given).min(self.size_milli);
        }
    }

    /// Thousandths of a request unit by which it is overdrawn.
    pub(super) fn debt(&self) -> i64 {
        self.left_milli.min(0).saturating_neg()
    }

    /// Whether anything is left.
    pub(super) fn has_some(&self) -> bool {
        self.left_milli > 0
    }

    /// How long until the minute in which something is left, with an overdraft paid back.
    pub(super) fn wait(&self, now: Duration) -> Duration {
        let overdraft = self.left_milli.min(0).unsigned_abs();
        let Some(whole) = overdraft.checked_div(self.size_milli.unsigned_abs()) else {
            return Duration::MAX;
        };
        let minute = self.minute.saturating_add(whole).saturating_add(1);
        Duration::from_secs(minute.saturating_mul(60)).saturating_sub(now)
    }

    /// Takes `milli`, or gives it back when negative.
    pub(super) fn take(&mut self, milli: i64) {
        self.left_milli = self.left_milli.saturating_sub(milli).min(self.size_milli);
    }
}

fn minute_of(now: Duration) -> u64 {
    now.as_secs() / 60
}

fn clamped(rate_milli: u64) -> u64 {
    rate_milli.clamp(1, RATE_MILLI_MAX)
}

fn nanos(now: Duration) -> u64 {
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn signed(milli: u64) -> i64 {
    i64::try_from(milli).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_bucket_holds_one_second_and_no_more() {
        let mut bucket = Bucket::full(400_000, Duration::ZERO);
        bucket.refill(SECOND * 100);
        bucket.take(400_000);
        assert!(!bucket.is_above(Reserve::None, 0));
        assert_eq!(bucket.wait(Reserve::None, 0), Duration::from_nanos(1));
    }

    #[test]
    fn a_debt_is_paid_back_at_the_rate() {
        let mut bucket = Bucket::full(400_000, Duration::ZERO);
        bucket.take(800_000);
        assert_eq!(bucket.wait(Reserve::None, 0), SECOND + Duration::from_nanos(1));
        bucket.refill(SECOND);
        assert!(!bucket.is_above(Reserve::None, 0));
        bucket.refill(SECOND + Duration::from_nanos(1));
        assert!(bucket.is_above(Reserve::None, 0));
    }

    #[test]
    fn rates_that_do_not_divide_a_second_lose_nothing() {
        let mut bucket = Bucket::full(133_333, Duration::ZERO);
        bucket.take(133_333);
        for step in 1..=1_000_000_000u64 / 99_991 {
            bucket.refill(Duration::from_nanos(step * 99_991));
        }
        bucket.refill(SECOND);
        bucket.take(133_333);
        assert_eq!(bucket.wait(Reserve::None, 0), Duration::from_nanos(1));
    }

    #[test]
    fn an_older_time_changes_nothing() {
        let mut bucket = Bucket::full(1_000, SECOND);
        bucket.take(1_000);
        bucket.refill(Duration::ZERO);
        assert_eq!(bucket.wait(Reserve::None, 0), Duration::from_nanos(1));
        bucket.refill(SECOND + Duration::from_nanos(1));
        assert!(bucket.is_above(Reserve::None, 0));
    }

    #[test]
    fn the_largest_rates_and_debts_do_not_overflow() {
        let mut bucket = Bucket::full(u64::MAX, Duration::ZERO);
        bucket.refill(Duration::from_secs(u64::MAX / 2));
        assert!(bucket.is_above(Reserve::Fifth, 0));
        for _ in 0..3 {
            bucket.take(i64::MAX);
        }
        assert!(!bucket.is_above(Reserve::None, 0));
        assert!(bucket.wait(Reserve::None, 0) > SECOND);
        bucket.take(i64::MIN);
        let _ = bucket.wait(Reserve::Fifth, 0);
    }

    #[test]
    fn a_debt_is_never_more_than_five_seconds() {
        let mut bucket = Bucket::full(400_000, Duration::ZERO);
        for _ in 0..100 {
            bucket.take(900_000);
        }
        assert_eq!(bucket.wait(Reserve::None, 0), SECOND * 5 + Duration::from_nanos(1));
        bucket.set_rate(100_000, Duration::ZERO);
        assert_eq!(bucket.wait(Reserve::None, 0), SECOND * 5 + Duration::from_nanos(1));
    }

    #[test]
    fn an_overdraft_of_several_minutes_is_waited_for_and_paid_back_while_idle() {
        let mut budget = MinuteBudget::whole(Charge::units(10), SECOND);
        budget.take(35_000);
        assert_eq!(budget.wait(SECOND), SECOND * 179);
        for seconds in [60, 120, 179] {
            budget.refill(SECOND * seconds);
            assert!(!budget.has_some());
            assert_eq!(budget.wait(SECOND * seconds), SECOND * (180 - seconds));
        }
        let mut idle = MinuteBudget::whole(Charge::units(10), SECOND);
        idle.take(35_000);
        for one in [&mut budget, &mut idle] {
            one.refill(SECOND * 180);
            one.take(4_999);
            assert!(one.has_some());
            one.take(1);
            assert!(!one.has_some());
            assert_eq!(one.wait(SECOND * 180), SECOND * 60);
        }
        assert_eq!(idle.debt(), 0);
        idle.refill(SECOND * 6_000);
        idle.take(10_001);
        assert_eq!(idle.debt(), 1);
    }

    #[test]
    fn a_minute_gives_its_budget_once_and_an_overdraft_is_taken_from_the_next() {
        let mut budget = MinuteBudget::whole(Charge::units(10), SECOND * 59);
        budget.take(12_000);
        assert!(!budget.has_some());
        assert_eq!(budget.wait(SECOND * 59), SECOND);
        budget.refill(SECOND * 60);
        budget.take(7_999);
        assert!(budget.has_some());
        budget.take(1);
        assert!(!budget.has_some());
        budget.resize(Charge::units(20));
        assert!(budget.has_some());
    }
}
