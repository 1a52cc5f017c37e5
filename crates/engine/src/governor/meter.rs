//! What a partition may use, what it uses, and which requests are admitted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{Charge, ContainerRid, limits};

use super::bucket::{Bucket, MinuteBudget, Reserve, signed};
use super::queue::Queue;
use super::sketch::{KeyUsage, TopKeys};
use super::tally::Tally;
use crate::context::{Admission, Priority};
use crate::partition::Partition;
use crate::prepare::LogicalPartitionId;

/// How long a partition's part of shared throughput is kept for it: it can go unused for this long
/// before other partitions get it. Short, because what is kept is served on top of what they used.
const KEPT_NANOS: u64 = 100_000_000;
/// The longest wait for which a request is queued. SDKs give up after 30 s in all.
const QUEUED_WAIT_MAX: Duration = Duration::from_secs(27);
/// When requests have paid this much at admission, older ones count half as much.
const FACTOR_MILLI: u64 = 400_000;
/// Requests that paid less than this in all say nothing about what others cost.
const FACTOR_MILLI_MIN: u64 = 20_000;
/// Only factors from a fourth to 64 times what was paid in advance are believed.
const FACTOR_QUARTERS_MAX: u128 = 256;

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
    /// Whether a client asked for this throughput.
    pub(super) was_requested: bool,
    /// The container it is for.
    pub(super) container: ContainerRid,
}

/// A partition's part of shared throughput.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) pool: Arc<ThroughputPool>,
    /// Thousandths of a request unit per second that are this partition's, whatever others use.
    pub(super) kept_rate: u64,
}

/// Throughput that several partitions share.
#[derive(Debug)]
pub(super) struct ThroughputPool {
    state: Mutex<Budget>,
}

/// A bucket with its extra budget, and the requests that wait for them.
#[derive(Debug)]
struct Budget {
    bucket: Bucket,
    minute: Option<MinuteBudget>,
    factor: Factor,
    /// Created when the first request is refused: most partitions never refuse any.
    queues: Option<Box<Queues>>,
}

#[derive(Debug, Default)]
struct Queues {
    high: Queue,
    /// Served after all of `high`.
    low: Queue,
}

/// The position of an arriving request.
#[derive(Clone, Copy, Debug)]
struct QueueStanding {
    priority: Priority,
    /// The number it has been queued under, if it is due.
    queue_number: Option<u64>,
    /// What has to be left for the requests ahead of it, in thousandths.
    ahead: i64,
}

/// A refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// When to come again.
    pub(crate) retry_after: Duration,
    /// The container, if it is the first refusal of this partition.
    pub(crate) first_of: Option<ContainerRid>,
}

/// A partition's account: admits requests while there is something left, and counts.
///
/// The lock is held for a few dozen instructions and never across anything that waits.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    state: Mutex<State>,
    top_keys: Mutex<TopKeys>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` until a share is assigned; until then everything is admitted.
    allowance: Option<Allowance>,
    tally: Tally,
    /// The partitions that have replaced this one. From then on they pay what requests cost that
    /// were admitted here.
    successors: Vec<Arc<Partition>>,
}

#[derive(Debug)]
struct Allowance {
    is_enforced: bool,
    was_requested: bool,
    container: ContainerRid,
    own: Budget,
    shared: Option<SharedAllowance>,
}

/// How much more requests turn out to cost than they pay at admission.
#[derive(Clone, Copy, Debug, Default)]
struct Factor {
    paid_milli: u64,
    extra_milli: i64,
}

#[derive(Debug)]
struct SharedAllowance {
    pool: Arc<ThroughputPool>,
    kept: Bucket,
    /// Until when what is kept is promised to requests that wait.
    kept_until: Duration,
    /// When the last waiting request of this partition comes back.
    queued_until: Duration,
}

/// What a partition has to pay back of its own budgets, in thousandths. What it owes to the
/// partitions that share throughput with it stays in their pool.
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
    /// None: nothing limits it.
    Unlimited,
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
    /// Admits a request that will cost at least `least`, or says how long to wait.
    pub(crate) fn admit(
        &self,
        now: Duration,
        admission: Admission,
        least: Charge,
    ) -> Result<Paid, Refused> {
        let mut state = lock(&self.state);
        let paid = state.admit(now, admission, least)?;
        state.tally.serve(paid.milli);
        Ok(paid)
    }

    /// As [`Meter::admit`], for a request that is later [admitted in parts](Self::admit_further),
    /// which serve it. What is reserved is given back by settling it.
    pub(crate) fn reserve(
        &self,
        now: Duration,
        admission: Admission,
        least: Charge,
    ) -> Result<Paid, Refused> {
        let mut state = lock(&self.state);
        let paid = state.admit(now, admission, least)?;
        state.tally.correct(signed(paid.milli));
        Ok(paid)
    }

    /// Admits a further part of a request that is admitted already. It is never refused: the
    /// request would have to begin again, and would come to the same point.
    pub(crate) fn admit_further(&self, now: Duration, admission: Admission, least: Charge) -> Paid {
        let mut state = lock(&self.state);
        let State { allowance, tally, successors } = &mut *state;
        let least = if successors.is_empty() { least } else { Charge::ZERO };
        tally.go_on(now.as_secs());
        let from = match allowance {
            Some(allowance) if allowance.limits(admission) => {
                allowance.take(Source::Provisioned, signed(least.as_milli()));
                Source::Provisioned
            }
            Some(_) | None => Source::Unlimited,
        };
        tally.serve(least.as_milli());
        Paid { milli: least.as_milli(), from, second: now.as_secs() }
    }

    /// Accounts for what an admitted request really cost.
    pub(crate) fn settle(&self, paid: Paid, charge: Charge, about: Option<&LogicalPartitionId>) {
        let difference = signed(charge.as_milli()) - signed(paid.milli);
        if difference != 0 {
            self.bear(paid.from, difference);
        }
        // A request does not wait while another is counting: the list is an estimate anyway.
        if let Some(LogicalPartitionId { digest, key_values }) = about
            && let Ok(mut top) = self.top_keys.try_lock()
        {
            top.note(*digest, key_values, charge, paid.second);
        }
    }

    /// Takes what a request cost beyond what it has paid, or has the successors take it: evenly,
    /// because which of them hold its items is not known here. Successors may have successors.
    fn bear(&self, from: Source, difference: i64) {
        let successors = {
            let mut state = lock(&self.state);
            if state.successors.is_empty() {
                state.tally.correct(difference);
                if let Some(allowance) = &mut state.allowance {
                    allowance.correct(from, difference);
                }
                return;
            }
            state.successors.clone()
        };
        let mut left = difference;
        for (at, successor) in successors.iter().enumerate() {
            let count = i64::try_from(successors.len() - at).unwrap_or(i64::MAX);
            let part = left / count;
            left -= part;
            successor.meter.bear(from, part);
        }
    }

    /// Gives the partition its share from now on. Its debts stay; a first share is available in
    /// full.
    pub(super) fn assign(&self, share: &Share, now: Duration) {
        let mut state = lock(&self.state);
        match &mut state.allowance {
            Some(allowance) => allowance.change(share, now),
            none => *none = Some(Allowance::new(share, now)),
        }
    }

    /// Leaves what is still to be paid to `successors`. Returns what has to be paid back already.
    pub(super) fn hand_over(&self, now: Duration, successors: &[Arc<Partition>]) -> Debt {
        let mut state = lock(&self.state);
        state.successors = successors.to_vec();
        let Some(allowance) = &mut state.allowance else { return Debt::default() };
        allowance.own.bucket.refill(now);
        let minute = allowance.own.minute.as_mut().map_or(0, |minute| {
            minute.refill(now);
            minute.debt()
        });
        Debt { bucket: allowance.own.bucket.debt(), minute }
    }

    /// Takes over a debt of a partition that this one replaces.
    pub(super) fn inherit(&self, debt: Debt) {
        let mut state = lock(&self.state);
        if let Some(allowance) = state.allowance.as_mut().filter(|allowance| allowance.is_enforced)
        {
            allowance.own.bucket.take(debt.bucket);
            if let Some(minute) = &mut allowance.own.minute {
                minute.take(debt.minute);
            }
        }
    }

    /// The most that one page of a query or feed should cost, so that no request leaves a debt that
    /// others have to wait for: what is provisioned for a second.
    pub(crate) fn page_charge_max(&self) -> Option<Charge> {
        let state = lock(&self.state);
        let allowance = state.allowance.as_ref().filter(|allowance| allowance.is_enforced)?;
        Some(Charge::milli(allowance.rate()))
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

impl State {
    fn admit(
        &mut self,
        now: Duration,
        admission: Admission,
        least: Charge,
    ) -> Result<Paid, Refused> {
        let Self { allowance, tally, successors } = self;
        // Successors pay when it is settled, and only then.
        let least = if successors.is_empty() { least } else { Charge::ZERO };
        tally.go_on(now.as_secs());
        let from = match allowance {
            Some(allowance) => allowance.admit(now, admission, least).map_err(|retry_after| {
                tally.refuse();
                let first_of = (tally.throttled == 1).then_some(allowance.container);
                Refused { retry_after, first_of }
            })?,
            None => Source::Unlimited,
        };
        Ok(Paid { milli: least.as_milli(), from, second: now.as_secs() })
    }
}

impl Allowance {
    fn new(share: &Share, now: Duration) -> Self {
        Self {
            is_enforced: share.is_enforced,
            was_requested: share.was_requested,
            container: share.container,
            own: Budget::full(share.rate, share.per_minute, now),
            shared: share.shared.as_ref().map(|shared| SharedAllowance::new(shared, now)),
        }
    }

    fn change(&mut self, share: &Share, now: Duration) {
        self.is_enforced = share.is_enforced;
        self.was_requested = share.was_requested;
        self.own.change(share.rate, share.per_minute, now);
        match (&mut self.shared, &share.shared) {
            (Some(allowance), Some(shared)) if Arc::ptr_eq(&allowance.pool, &shared.pool) => {
                allowance.kept.set_rate(shared.kept_rate, now);
            }
            (allowance, shared) => {
                *allowance = shared.as_ref().map(|shared| SharedAllowance::new(shared, now));
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
        admission: Admission,
        least: Charge,
    ) -> Result<Source, Duration> {
        if !self.limits(admission) {
            return Ok(Source::Unlimited);
        }
        let milli = least.as_milli();
        let standing = self.own.standing(now, admission);
        let own = self.own.choose(now, standing);
        match (&mut self.shared, own) {
            (None, Ok(from)) => {
                self.own.let_in(standing, from, milli);
                Ok(from)
            }
            (None, Err(wait)) => Err(self.own.put_off(now, admission, standing, milli, wait)),
            // Shared throughput is the pool's; the partition itself only has a ceiling.
            (Some(shared), Ok(_)) => {
                let from = shared.admit(now, admission, milli)?;
                self.own.take(Source::Provisioned, signed(milli));
                Ok(from)
            }
            (Some(shared), Err(wait)) => {
                Err(wait.max(shared.wait(now, admission)).max(admission.wait_min))
            }
        }
    }

    /// Whether a request is limited at all.
    fn limits(&self, admission: Admission) -> bool {
        self.is_enforced && (self.was_requested || !admission.is_free_by_default)
    }

    /// Takes what a request cost beyond what it has paid.
    fn correct(&mut self, from: Source, milli: i64) {
        self.take(from, milli);
        if from != Source::Unlimited {
            match &self.shared {
                None => self.own.factor.correct(milli),
                Some(shared) => lock(&shared.pool.state).factor.correct(milli),
            }
        }
    }

    fn take(&mut self, from: Source, milli: i64) {
        if !self.is_enforced || from == Source::Unlimited {
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

impl Factor {
    /// Notes what a request pays at admission.
    fn note(&mut self, milli: u64) {
        self.paid_milli += milli;
        if self.paid_milli > FACTOR_MILLI {
            self.paid_milli /= 2;
            self.extra_milli /= 2;
        }
    }

    /// Notes what a request cost beyond that.
    fn correct(&mut self, milli: i64) {
        self.extra_milli = self.extra_milli.saturating_add(milli);
    }

    /// What a request that pays `milli` at admission can be expected to cost.
    fn expected(self, milli: u64) -> u64 {
        if self.paid_milli < FACTOR_MILLI_MIN {
            return milli;
        }
        let (paid, in_all) = (u128::from(self.paid_milli), self.extra_milli);
        let in_all = u128::from(self.paid_milli.saturating_add_signed(in_all));
        let quarters = (in_all * 4 / paid).clamp(1, FACTOR_QUARTERS_MAX);
        let expected = match quarters {
            1 | FACTOR_QUARTERS_MAX => u128::from(milli) * quarters / 4,
            _ => u128::from(milli) * in_all / paid,
        };
        u64::try_from(expected).unwrap_or(u64::MAX)
    }
}

impl SharedAllowance {
    fn new(shared: &Shared, now: Duration) -> Self {
        let kept = Bucket::with_span(shared.kept_rate, KEPT_NANOS, now);
        let pool = Arc::clone(&shared.pool);
        Self { pool, kept, kept_until: Duration::ZERO, queued_until: Duration::ZERO }
    }

    /// Takes `milli` from the part that is kept, so that no neighbour can be in the way, or else
    /// from what all share. The pool pays in both cases: it lends to a partition only what the
    /// others have not used of their parts.
    fn admit(
        &mut self,
        now: Duration,
        admission: Admission,
        milli: u64,
    ) -> Result<Source, Duration> {
        self.kept.refill(now);
        let mut pool = lock(&self.pool.state);
        let standing = pool.standing(now, admission);
        let is_high = standing.priority == Priority::High;
        // While others of this partition wait, a request that arrives now gets only what they
        // leave.
        let is_next = standing.queue_number.is_some() || self.queued_until < now;
        let left = if is_next { 0 } else { self.kept.capacity_milli() / 2 };
        let wait = match pool.choose(now, standing) {
            _ if is_high && self.kept.is_above(Reserve::None, left) => {
                pool.let_in(standing, Source::Kept, milli);
                self.kept.take(signed(milli));
                return Ok(Source::Kept);
            }
            Ok(from) => {
                pool.let_in(standing, from, milli);
                return Ok(from);
            }
            Err(wait) => wait,
        };
        let slot = self.kept_until.max(now + self.kept.wait(Reserve::None, 0));
        let is_sooner = is_high && slot - now < wait;
        let wait = if is_sooner { slot - now } else { wait };
        if is_sooner && !admission.is_silent {
            self.kept_until = slot.saturating_add(self.kept.time_for(pool.factor.expected(milli)));
        }
        let retry_after = pool.put_off(now, admission, standing, milli, wait);
        if !admission.is_silent {
            self.queued_until = self.queued_until.max(now + retry_after);
        }
        Err(retry_after)
    }

    /// How long until the pool could admit a request that the partition itself can't.
    fn wait(&mut self, now: Duration, admission: Admission) -> Duration {
        self.kept.refill(now);
        let mut pool = lock(&self.pool.state);
        let standing = pool.standing(now, admission);
        let Err(wait) = pool.choose(now, standing) else { return Duration::ZERO };
        match standing.priority {
            Priority::High => wait.min(self.kept.wait(Reserve::None, 0)),
            Priority::Low => wait,
        }
    }
}

impl ThroughputPool {
    pub(super) fn full(rate: u64, per_minute: Option<Charge>, now: Duration) -> Self {
        Self { state: Mutex::new(Budget::full(rate, per_minute, now)) }
    }

    pub(super) fn change(&self, rate: u64, per_minute: Option<Charge>, now: Duration) {
        lock(&self.state).change(rate, per_minute, now);
    }
}

impl Budget {
    fn full(rate: u64, per_minute: Option<Charge>, now: Duration) -> Self {
        Self {
            bucket: Bucket::full(rate, now),
            minute: per_minute.map(|size| MinuteBudget::whole(size, now)),
            factor: Factor::default(),
            queues: None,
        }
    }

    fn change(&mut self, rate: u64, per_minute: Option<Charge>, now: Duration) {
        if rate != self.bucket.rate() {
            // What was promised at another rate does not hold for the requests that arrive now.
            self.queues = None;
        }
        self.bucket.set_rate(rate, now);
        match (&mut self.minute, per_minute) {
            (Some(minute), Some(size)) => minute.resize(size),
            (minute, size) => *minute = size.map(|size| MinuteBudget::whole(size, now)),
        }
    }

    /// The position of an arriving request.
    fn standing(&mut self, now: Duration, admission: Admission) -> QueueStanding {
        self.bucket.refill(now);
        let priority = admission.priority;
        let none = QueueStanding { priority, queue_number: None, ahead: 0 };
        let Some(queues) = &mut self.queues else { return none };
        let Queues { high, low } = &mut **queues;
        if high.is_empty() && low.is_empty() {
            return none;
        }
        high.go_on(now);
        low.go_on(now);
        let (own, before) = match priority {
            Priority::High => (high, 0),
            Priority::Low => (low, high.ahead_of(None)),
        };
        let queue_number = own.find(admission.digest, now).or_else(|| {
            let is_enough = self.bucket.is_above(Reserve::of(priority), signed(before));
            own.only(now).filter(|_| is_enough)
        });
        let ahead = own.ahead_of(queue_number).saturating_add(before);
        let ahead = signed(self.factor.expected(ahead));
        QueueStanding { priority, queue_number, ahead }
    }

    /// Which budget has something left, or how long until one has.
    fn choose(&mut self, now: Duration, standing: QueueStanding) -> Result<Source, Duration> {
        let reserve = Reserve::of(standing.priority);
        // If the bucket fills up, the requests ahead are late. What it can't hold would be lost, so
        // from half full on it serves requests as they come.
        let left = standing.ahead.min(self.bucket.capacity_milli() / 2);
        if self.bucket.is_above(reserve, left) {
            return Ok(Source::Provisioned);
        }
        let wait = self.bucket.wait(reserve, standing.ahead);
        let is_high = standing.priority == Priority::High;
        let Some(minute) = self.minute.as_mut().filter(|_| is_high) else {
            return Err(wait);
        };
        minute.refill(now);
        match minute.has_some() {
            true => Ok(Source::Minute),
            false => Err(wait.min(minute.wait(now))),
        }
    }

    /// Admits a request at the expense of `from`.
    fn let_in(&mut self, standing: QueueStanding, from: Source, milli: u64) {
        self.take(from, signed(milli));
        self.factor.note(milli);
        if let (Some(queue_number), Some(queues)) = (standing.queue_number, &mut self.queues) {
            queues.of(standing.priority).remove(queue_number);
        }
    }

    /// Has a request wait, at the position it has or at the end. Returns the wait the client is
    /// told.
    fn put_off(
        &mut self,
        now: Duration,
        admission: Admission,
        standing: QueueStanding,
        milli: u64,
        wait: Duration,
    ) -> Duration {
        let wait = wait.max(admission.wait_min);
        let retry_after = wait.min(limits::RETRY_AFTER_MAX);
        if admission.is_silent {
            return retry_after;
        }
        let queue = self.queues.get_or_insert_default().of(standing.priority);
        match standing.queue_number {
            Some(queue_number) => return queue.put_off(queue_number, now, wait),
            None if wait <= QUEUED_WAIT_MAX => {
                queue.push(admission.digest, milli, now + retry_after)
            }
            None => {}
        }
        retry_after
    }

    fn take(&mut self, from: Source, milli: i64) {
        match (from, &mut self.minute) {
            (Source::Unlimited, _) => {}
            (Source::Minute, Some(minute)) => minute.take(milli),
            (Source::Minute | Source::Provisioned | Source::Kept, _) => self.bucket.take(milli),
        }
    }
}

impl Queues {
    fn of(&mut self, priority: Priority) -> &mut Queue {
        match priority {
            Priority::High => &mut self.high,
            Priority::Low => &mut self.low,
        }
    }
}

/// No code panics while it holds one of these locks, and what they guard is consistent at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
