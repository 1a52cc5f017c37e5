//! What a partition may use, what it uses, and who is let in.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::Charge;

use super::bucket::{Bucket, MinuteBudget, Reserve, signed};
use super::sketch::{KeyUsage, TopKeys};
use super::tally::Tally;
use crate::context::Priority;
use crate::partition::Partition;
use crate::prepare::LogicalName;

/// How long a partition's part of shared throughput is kept for it: it can go unused for this long
/// before others get it. Short, because what is kept is served on top of what others used.
const KEPT_NANOS: u64 = 100_000_000;

/// What a partition is given.
#[derive(Clone, Debug)]
pub(super) struct Share {
    /// Thousandths of a request unit per second.
    pub(super) rate: u64,
    /// An extra budget per minute.
    pub(super) per_minute: Option<Charge>,
    /// Throughput shared with other partitions, of which this one is kept a part.
    pub(super) shared: Option<Shared>,
    /// Whether requests beyond it are refused; they are counted in any case.
    pub(super) is_enforced: bool,
}

/// A partition's part of shared throughput.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) pool: Arc<Pool>,
    /// Thousandths of a request unit per second that are this partition's whatever others do.
    pub(super) kept_rate: u64,
}

/// Throughput that several partitions share.
#[derive(Debug)]
pub(super) struct Pool {
    state: Mutex<Account>,
}

/// A bucket with its extra budget.
#[derive(Debug)]
struct Account {
    bucket: Bucket,
    minute: Option<MinuteBudget>,
}

/// A partition's account: lets requests in while there is something left, and counts.
///
/// The lock is held for a few dozen instructions and never across anything that waits.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    state: Mutex<State>,
    top_keys: Mutex<TopKeys>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` until a share is assigned; everything is let in till then.
    terms: Option<Terms>,
    tally: Tally,
    /// Who has taken the partition's place. From then on what requests cost that were let in here
    /// is theirs to pay.
    heirs: Vec<Arc<Partition>>,
}

#[derive(Debug)]
struct Terms {
    is_enforced: bool,
    own: Account,
    shared: Option<SharedTerms>,
}

#[derive(Debug)]
struct SharedTerms {
    pool: Arc<Pool>,
    kept: Bucket,
}

/// What a partition has to pay back of its own budgets, in thousandths. What it owes to others
/// that it shares with stays in their pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Debt {
    bucket: i64,
    minute: i64,
}

impl Debt {
    pub(super) fn divided_by(self, count: usize) -> Self {
        let count = i64::try_from(count).unwrap_or(i64::MAX).max(1);
        Self { bucket: self.bucket / count, minute: self.minute / count }
    }
}

impl std::iter::Sum for Debt {
    fn sum<I: Iterator<Item = Self>>(debts: I) -> Self {
        debts.fold(Self::default(), |sum, one| Self {
            bucket: sum.bucket.saturating_add(one.bucket),
            minute: sum.minute.saturating_add(one.minute),
        })
    }
}

/// What a request has paid in advance.
#[derive(Clone, Copy, Debug)]
#[must_use = "a request that was let in is settled when its charge is known"]
pub(crate) struct Paid {
    milli: u64,
    from: Source,
    second: u64,
}

/// Which budget a request is served from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// What is provisioned per second.
    Provisioned,
    /// The part of shared throughput that is kept for the partition.
    Kept,
    /// The extra budget of the minute.
    Minute,
}

/// What a partition may use and did use. Amounts and counts begin with the partition or with the
/// process, whichever is younger: those of a split or merge begin with zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What it may use per second; `None` before anything was provisioned and where requests
    /// beyond it are not refused.
    pub limit: Option<Charge>,
    /// All it used. Never falls.
    pub consumed: Charge,
    /// What it used in the current second so far.
    pub this_second: Charge,
    /// What it used in the second before.
    pub last_second: Charge,
    /// The most it used in one second lately (half a minute to a minute).
    pub recent_peak: Charge,
    /// Requests that were served.
    pub served: u64,
    /// Requests that were refused.
    pub throttled: u64,
    /// The logical partitions that used most, busiest first.
    pub top_keys: Vec<KeyUsage>,
}

impl Meter {
    /// Lets a request in that will cost at least `least`, or says how long to wait.
    pub(crate) fn admit(
        &self,
        now: Duration,
        priority: Priority,
        least: Charge,
    ) -> Result<Paid, Duration> {
        let mut state = lock(&self.state);
        let State { terms, tally, heirs } = &mut *state;
        // Heirs pay when it is settled, and only then.
        let least = if heirs.is_empty() { least } else { Charge::ZERO };
        tally.go_on(now.as_secs());
        let from = match terms {
            Some(terms) => terms.admit(now, priority, least).inspect_err(|_| tally.refuse())?,
            None => Source::Provisioned,
        };
        tally.serve(least.as_milli());
        Ok(Paid { milli: least.as_milli(), from, second: now.as_secs() })
    }

    /// Accounts for what a request that was let in really cost.
    pub(crate) fn settle(&self, paid: Paid, charge: Charge, about: Option<&LogicalName>) {
        let difference = signed(charge.as_milli()) - signed(paid.milli);
        if difference != 0 {
            self.bear(paid.from, difference);
        }
        // Who is counting at the same moment does not wait: the list is an estimate anyway.
        if let Some(LogicalName { digest, key_values }) = about
            && let Ok(mut top) = self.top_keys.try_lock()
        {
            top.note(*digest, key_values, charge, paid.second);
        }
    }

    /// Takes what a request cost beyond what it has paid, or has the heirs take it: evenly, since
    /// which of them have what it was about is not known here. Heirs may have heirs.
    fn bear(&self, from: Source, difference: i64) {
        let heirs = {
            let mut state = lock(&self.state);
            if state.heirs.is_empty() {
                state.tally.correct(difference);
                if let Some(terms) = &mut state.terms {
                    terms.take(from, difference);
                }
                return;
            }
            state.heirs.clone()
        };
        let mut left = difference;
        for (at, heir) in heirs.iter().enumerate() {
            let count = i64::try_from(heirs.len() - at).unwrap_or(i64::MAX);
            let part = left / count;
            left -= part;
            heir.meter.bear(from, part);
        }
    }

    /// Gives the partition its share from now on. Its debts stay; a first share comes in full.
    pub(super) fn assign(&self, share: &Share, now: Duration) {
        let mut state = lock(&self.state);
        match &mut state.terms {
            Some(terms) => terms.change(share, now),
            none => *none = Some(Terms::new(share, now)),
        }
    }

    /// Leaves what is still to be paid to `heirs`. Returns what has to be paid back already.
    pub(super) fn hand_over(&self, now: Duration, heirs: &[Arc<Partition>]) -> Debt {
        let mut state = lock(&self.state);
        state.heirs = heirs.to_vec();
        let Some(terms) = &mut state.terms else { return Debt::default() };
        terms.own.bucket.refill(now);
        let minute = terms.own.minute.as_mut().map_or(0, |minute| {
            minute.refill(now);
            minute.debt()
        });
        Debt { bucket: terms.own.bucket.debt(), minute }
    }

    /// Takes over a debt of a partition that this one takes the place of.
    pub(super) fn inherit(&self, debt: Debt) {
        let mut state = lock(&self.state);
        if let Some(terms) = state.terms.as_mut().filter(|terms| terms.is_enforced) {
            terms.own.bucket.take(debt.bucket);
            if let Some(minute) = &mut terms.own.minute {
                minute.take(debt.minute);
            }
        }
    }

    /// The most that one page of a feed or query should cost, so that no request leaves a debt
    /// that others have to wait for: what is provisioned for a second.
    pub(crate) fn page_charge_max(&self) -> Option<Charge> {
        let state = lock(&self.state);
        let terms = state.terms.as_ref().filter(|terms| terms.is_enforced)?;
        Some(Charge::milli(terms.rate()))
    }

    /// The most it used in one second lately.
    pub(super) fn recent_peak(&self, now: Duration) -> Charge {
        let mut state = lock(&self.state);
        state.tally.go_on(now.as_secs());
        Charge::milli(state.tally.recent_peak())
    }

    /// What the partition may use and did use.
    pub(crate) fn usage(&self, now: Duration) -> Usage {
        let limit = self.page_charge_max();
        let (consumed, tally) = {
            let mut state = lock(&self.state);
            state.tally.go_on(now.as_secs());
            (state.tally.consumed(), state.tally)
        };
        let top_keys = lock(&self.top_keys).busiest(now.as_secs());
        Usage {
            limit,
            consumed: Charge::milli(consumed),
            this_second: Charge::milli(tally.this_second),
            last_second: Charge::milli(tally.last_second),
            recent_peak: Charge::milli(tally.recent_peak()),
            served: tally.served,
            throttled: tally.throttled,
            top_keys,
        }
    }
}

impl Terms {
    fn new(share: &Share, now: Duration) -> Self {
        Self {
            is_enforced: share.is_enforced,
            own: Account::full(share.rate, share.per_minute, now),
            shared: share.shared.as_ref().map(|shared| SharedTerms::new(shared, now)),
        }
    }

    fn change(&mut self, share: &Share, now: Duration) {
        self.is_enforced = share.is_enforced;
        self.own.change(share.rate, share.per_minute, now);
        match (&mut self.shared, &share.shared) {
            (Some(terms), Some(shared)) if Arc::ptr_eq(&terms.pool, &shared.pool) => {
                terms.kept.set_rate(shared.kept_rate, now);
            }
            (terms, shared) => {
                *terms = shared.as_ref().map(|shared| SharedTerms::new(shared, now));
            }
        }
    }

    /// Thousandths of a request unit per second that the partition can use at most.
    fn rate(&self) -> u64 {
        let own = self.own.bucket.rate();
        match &self.shared {
            Some(shared) => own.min(lock(&shared.pool.state).bucket.rate()),
            None => own,
        }
    }

    fn admit(
        &mut self,
        now: Duration,
        priority: Priority,
        least: Charge,
    ) -> Result<Source, Duration> {
        if !self.is_enforced {
            return Ok(Source::Provisioned);
        }
        let milli = signed(least.as_milli());
        let ceiling = self.own.choose(now, priority);
        let Some(shared) = &mut self.shared else {
            let from = ceiling?;
            self.own.take(from, milli);
            return Ok(from);
        };
        // Shared throughput is the pool's; the partition itself only has a ceiling.
        let from = shared.admit(now, priority, ceiling.is_ok().then_some(milli));
        match (ceiling, from) {
            (Ok(_), Ok(from)) => {
                self.own.take(Source::Provisioned, milli);
                Ok(from)
            }
            (Ok(_), Err(wait)) | (Err(wait), Ok(_)) => Err(wait),
            (Err(one), Err(other)) => Err(one.max(other)),
        }
    }

    fn take(&mut self, from: Source, milli: i64) {
        if !self.is_enforced {
            return;
        }
        match &mut self.shared {
            None => self.own.take(from, milli),
            Some(shared) => {
                self.own.take(Source::Provisioned, milli);
                if from == Source::Kept {
                    shared.kept.take(milli);
                }
                lock(&shared.pool.state).take(from, milli);
            }
        }
    }
}

impl SharedTerms {
    fn new(shared: &Shared, now: Duration) -> Self {
        let kept = Bucket::with_span(shared.kept_rate, KEPT_NANOS, now);
        Self { pool: Arc::clone(&shared.pool), kept }
    }

    /// Takes `milli`, if given, from the part that is kept, so that no neighbour can be in the
    /// way, or else from what all share. The pool pays in both cases: it lends to others only
    /// what nobody has used of his part.
    fn admit(
        &mut self,
        now: Duration,
        priority: Priority,
        milli: Option<i64>,
    ) -> Result<Source, Duration> {
        self.kept.refill(now);
        let may_use_kept = priority == Priority::High;
        let mut pool = lock(&self.pool.state);
        let from = match pool.choose(now, priority) {
            _ if may_use_kept && self.kept.is_above(Reserve::None) => Source::Kept,
            Ok(from) => from,
            Err(wait) if may_use_kept => return Err(wait.min(self.kept.wait(Reserve::None))),
            Err(wait) => return Err(wait),
        };
        if let Some(milli) = milli {
            pool.take(from, milli);
            if from == Source::Kept {
                self.kept.take(milli);
            }
        }
        Ok(from)
    }
}

impl Pool {
    pub(super) fn full(rate: u64, per_minute: Option<Charge>, now: Duration) -> Self {
        Self { state: Mutex::new(Account::full(rate, per_minute, now)) }
    }

    pub(super) fn change(&self, rate: u64, per_minute: Option<Charge>, now: Duration) {
        lock(&self.state).change(rate, per_minute, now);
    }
}

impl Account {
    fn full(rate: u64, per_minute: Option<Charge>, now: Duration) -> Self {
        Self {
            bucket: Bucket::full(rate, now),
            minute: per_minute.map(|size| MinuteBudget::whole(size, now)),
        }
    }

    fn change(&mut self, rate: u64, per_minute: Option<Charge>, now: Duration) {
        self.bucket.set_rate(rate, now);
        match (&mut self.minute, per_minute) {
            (Some(minute), Some(size)) => minute.resize(size),
            (minute, size) => *minute = size.map(|size| MinuteBudget::whole(size, now)),
        }
    }

    /// Which budget has something left, or how long until one has.
    fn choose(&mut self, now: Duration, priority: Priority) -> Result<Source, Duration> {
        self.bucket.refill(now);
        let reserve = match priority {
            Priority::High => Reserve::None,
            Priority::Low => Reserve::Fifth,
        };
        if self.bucket.is_above(reserve) {
            return Ok(Source::Provisioned);
        }
        let wait = self.bucket.wait(reserve);
        let Some(minute) = self.minute.as_mut().filter(|_| priority == Priority::High) else {
            return Err(wait);
        };
        minute.refill(now);
        match minute.has_some() {
            true => Ok(Source::Minute),
            false => Err(wait.min(minute.wait(now))),
        }
    }

    fn take(&mut self, from: Source, milli: i64) {
        match (from, &mut self.minute) {
            (Source::Minute, Some(minute)) => minute.take(milli),
            (Source::Minute | Source::Provisioned | Source::Kept, _) => self.bucket.take(milli),
        }
    }
}

/// Nothing panics while it holds one of these locks, and what they guard is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
