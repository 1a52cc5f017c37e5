//! Requests that were told to wait, in the order in which they are admitted.
//!
//! A refused request is promised a time. Its digest tells whether an arriving request is one that
//! was promised this time: clients send the same request again. Several requests with one digest
//! are interchangeable, so it does not matter which of them takes which position.
//!
//! A position in the queue is not a time but an amount: what the requests ahead pay when they are
//! admitted. Where requests cost more than expected, all of them are admitted later and keep their
//! positions.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use hashbrown::HashMap;
use model::limits;

/// Most requests that are queued. A request that comes later is told to wait all the same, but
/// comes back as one that never waited.
const QUEUED_MAX: usize = 16_384;
const QUEUED_MIN: usize = 64;
/// How many queued requests with the same digest are searched for one that is due.
const SAME_LOOKED_AT_MAX: usize = 16;
/// How much earlier than promised a request may come: timers of clients are not exact.
const EARLY_TOLERANCE: Duration = Duration::from_millis(2);
/// How long after its due time a queued request holds back those behind it.
const HOLD_AFTER_DUE: Duration = Duration::from_millis(300);
/// How often a request is told its true wait before it is told longer ones.
const TRUE_WAITS: u32 = 3;
/// By how many powers of two a wait is lengthened at most.
const LENGTHENED_MAX: u32 = 4;
/// How long after its due time a queued request is still known.
const KNOWN_AFTER_DUE: Duration = Duration::from_secs(5);
/// The maximum of [`Queue::trust`].
const TRUST: u64 = 1 << 16;
/// About how many refusals it takes until trust follows what clients do.
const TRUST_MEMORY: u64 = 16;
/// Not the number of a queued request.
const NONE: u64 = u64::MAX;

/// The requests that wait for one budget, first come, first served. Each holds an amount in
/// thousandths of request units.
#[derive(Debug)]
pub(super) struct Queue {
    requests: VecDeque<QueuedRequest>,
    /// The number of the first of `requests`; they are numbered without gaps.
    first: u64,
    sums: Sums,
    /// Per digest the first and the last of its requests.
    same: HashMap<u64, (u64, u64), foldhash::fast::FixedState>,
    /// The first open request that may still hold an amount although it is overdue.
    unchecked: u64,
    /// The proven requests in the order of their due times, which is not that of the queue.
    proven: BTreeSet<(Duration, u64)>,
    /// Which part, of [`TRUST`], of the requests that are told to wait comes back: a client that
    /// gives up at the first refusal must not make others wait for it.
    trust: u64,
}

#[derive(Debug)]
struct QueuedRequest {
    digest: u64,
    milli: u64,
    promised_at: Duration,
    /// How often it came back when due and had to wait again.
    returned: u32,
    /// The next request with the same digest.
    next_same: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is not known whether it comes back.
    Open,
    /// It came back once and had to wait again.
    Proven,
    /// It is overdue and no longer holds an amount.
    Lapsed,
    /// It was admitted.
    Gone,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            requests: VecDeque::new(),
            first: 0,
            sums: Sums::default(),
            same: HashMap::default(),
            unchecked: 0,
            proven: BTreeSet::new(),
            trust: TRUST,
        }
    }
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Releases what overdue requests hold.
    pub(super) fn go_on(&mut self, now: Duration) {
        self.unchecked = self.unchecked.max(self.first);
        while let Some(request) = self.at(self.unchecked) {
            let is_over = request.promised_at + HOLD_AFTER_DUE < now;
            match request.state {
                State::Open if is_over => {
                    self.hold_nothing(self.unchecked);
                    self.trust -= self.trust / TRUST_MEMORY;
                }
                State::Open => break,
                State::Proven | State::Lapsed | State::Gone => {}
            }
            self.unchecked += 1;
        }
        while let Some((promised_at, number)) = self.proven.first().copied()
            && promised_at + HOLD_AFTER_DUE < now
        {
            self.hold_nothing(number);
            // Removed even if no request has the number: otherwise the loop would not end.
            self.proven.remove(&(promised_at, number));
        }
        while let Some(front) = self.requests.front() {
            match front.state {
                State::Gone => self.drop_front(),
                State::Open | State::Proven | State::Lapsed
                    if front.promised_at + KNOWN_AFTER_DUE < now =>
                {
                    self.remove(self.first);
                }
                State::Open | State::Proven | State::Lapsed => break,
            }
        }
    }

    /// The number of a queued request with this digest that is due.
    pub(super) fn find(&mut self, digest: u64, now: Duration) -> Option<u64> {
        let mut number = self.same.get(&digest)?.0;
        for _ in 0..SAME_LOOKED_AT_MAX {
            let request = self.at(number)?;
            if request.promised_at <= now + EARLY_TOLERANCE {
                if matches!(request.state, State::Open | State::Lapsed) {
                    self.trust += (TRUST - self.trust).div_ceil(TRUST_MEMORY);
                }
                return Some(number);
            }
            number = request.next_same;
        }
        None
    }

    /// The number of the only queued request, when it is due. A client may come back when it was
    /// told to and send another request.
    pub(super) fn only(&self, now: Duration) -> Option<u64> {
        let is_due = |request: &QueuedRequest| request.promised_at <= now;
        (self.requests.len() == 1 && self.requests.front().is_some_and(is_due))
            .then_some(self.first)
    }

    /// What the requests ahead of this one pay when they are admitted; without a number, those
    /// ahead of a request that arrives now.
    pub(super) fn ahead_of(&self, number: Option<u64>) -> u64 {
        let (open, proven) = self.sums.before(self.first, number);
        let expected = u128::from(open) * u128::from(self.trust) / u128::from(TRUST);
        proven.saturating_add(u64::try_from(expected).unwrap_or(u64::MAX))
    }

    /// Appends a request that pays `milli` when it is admitted.
    pub(super) fn push(&mut self, digest: u64, milli: u64, promised_at: Duration) {
        if self.requests.len() >= QUEUED_MAX {
            return;
        }
        let number = self.first + self.requests.len() as u64;
        if self.requests.len() >= self.sums.len() {
            self.grow();
        }
        self.sums.add(number, State::Open, milli);
        let (returned, next_same, state) = (0, NONE, State::Open);
        let request = QueuedRequest { digest, milli, promised_at, returned, next_same, state };
        self.requests.push_back(request);
        let (_, last) = self.same.entry(digest).or_insert((number, number));
        let before = std::mem::replace(last, number);
        if let Some(before) = self.at_mut(before).filter(|_| before != number) {
            before.next_same = number;
        }
    }

    /// Has a request that came back wait again, for `wait` by its position, which it keeps. Returns
    /// the wait that the client is told. After some returns it is longer, because a queue that
    /// moves more slowly than expected would use up the few retries that clients make.
    pub(super) fn put_off(&mut self, number: u64, now: Duration, wait: Duration) -> Duration {
        let Some(request) = self.at_mut(number) else { return wait };
        let longer = request.returned.saturating_sub(TRUE_WAITS - 1).min(LENGTHENED_MAX);
        let wait = wait.saturating_mul(1 << longer).min(limits::RETRY_AFTER_MAX);
        if request.promised_at <= now {
            request.returned += 1;
        }
        let (milli, state, promised_at) = (request.milli, request.state, request.promised_at);
        request.promised_at = now + wait;
        request.state = State::Proven;
        self.proven.remove(&(promised_at, number));
        self.proven.insert((now + wait, number));
        self.sums.take(number, state, milli);
        self.sums.add(number, State::Proven, milli);
        wait
    }

    /// Removes a request that is admitted.
    pub(super) fn remove(&mut self, number: u64) {
        let Some(request) = self.at_mut(number) else { return };
        let (digest, milli, next) = (request.digest, request.milli, request.next_same);
        let promised_at = request.promised_at;
        let state = std::mem::replace(&mut request.state, State::Gone);
        self.proven.remove(&(promised_at, number));
        self.sums.take(number, state, milli);
        self.unlink(digest, number, next);
        while self.requests.front().is_some_and(|front| front.state == State::Gone) {
            self.drop_front();
        }
        if self.requests.is_empty() {
            // The memory that a burst needed is released.
            self.requests = VecDeque::new();
            self.same = HashMap::default();
            self.sums = Sums::default();
        }
    }

    fn hold_nothing(&mut self, number: u64) {
        let Some(request) = self.at_mut(number) else { return };
        let (milli, promised_at) = (request.milli, request.promised_at);
        let state = std::mem::replace(&mut request.state, State::Lapsed);
        self.proven.remove(&(promised_at, number));
        self.sums.take(number, state, milli);
    }

    fn drop_front(&mut self) {
        self.requests.pop_front();
        self.first += 1;
    }

    fn unlink(&mut self, digest: u64, number: u64, next: u64) {
        let Some(&(first, last)) = self.same.get(&digest) else { return };
        if first == number {
            match next {
                NONE => self.same.remove(&digest),
                next => self.same.insert(digest, (next, last)),
            };
            return;
        }
        let mut before = first;
        // `find` found it, so it is one of the first.
        for _ in 0..SAME_LOOKED_AT_MAX {
            let Some(request) = self.at_mut(before) else { return };
            if request.next_same == number {
                request.next_same = next;
                if last == number {
                    self.same.insert(digest, (first, before));
                }
                return;
            }
            before = request.next_same;
        }
    }

    fn grow(&mut self) {
        self.sums = Sums::of_len((self.sums.len() * 2).max(QUEUED_MIN));
        for (number, request) in (self.first..).zip(&self.requests) {
            self.sums.add(number, request.state, request.milli);
        }
    }

    fn at(&self, number: u64) -> Option<&QueuedRequest> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.requests.get(index)
    }

    fn at_mut(&mut self, number: u64) -> Option<&mut QueuedRequest> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.requests.get_mut(index)
    }
}

/// The amounts that requests hold, added up so that the sum of all ahead of one takes a dozen
/// steps: a Fenwick tree over a ring. Open and proven requests are summed apart.
#[derive(Debug, Default)]
struct Sums {
    /// Their number is a power of two.
    nodes: Vec<(u64, u64)>,
    total: (u64, u64),
}

impl Sums {
    fn of_len(len: usize) -> Self {
        Self { nodes: vec![(0, 0); len], total: (0, 0) }
    }

    fn len(&self) -> usize {
        self.nodes.len()
    }

    fn add(&mut self, number: u64, state: State, milli: u64) {
        self.change(number, state, |sum| sum.wrapping_add(milli));
    }

    fn take(&mut self, number: u64, state: State, milli: u64) {
        self.change(number, state, |sum| sum.wrapping_sub(milli));
    }

    fn change(&mut self, number: u64, state: State, by: impl Fn(u64) -> u64) {
        let change = |sum: &mut (u64, u64)| match state {
            State::Open => sum.0 = by(sum.0),
            State::Proven => sum.1 = by(sum.1),
            State::Lapsed | State::Gone => {}
        };
        change(&mut self.total);
        let mut at = self.slot(number) + 1;
        while let Some(node) = self.nodes.get_mut(at - 1) {
            change(node);
            at += at & at.wrapping_neg();
        }
    }

    /// The sums of all requests from `first` to before `end`, or to the last.
    fn before(&self, first: u64, end: Option<u64>) -> (u64, u64) {
        let Some(end) = end else { return self.total };
        let (first, end) = (self.slot(first), self.slot(end));
        let (from, to) = (self.prefix(first), self.prefix(end));
        // Slots outside the ring's live part hold nothing.
        let sum = |all: u64, from: u64, to: u64| match first <= end {
            true => to.wrapping_sub(from),
            false => all.wrapping_sub(from).wrapping_add(to),
        };
        (sum(self.total.0, from.0, to.0), sum(self.total.1, from.1, to.1))
    }

    fn prefix(&self, mut at: usize) -> (u64, u64) {
        let mut sum = (0u64, 0u64);
        while let Some(node) = at.checked_sub(1).and_then(|before| self.nodes.get(before)) {
            sum = (sum.0.wrapping_add(node.0), sum.1.wrapping_add(node.1));
            at &= at - 1;
        }
        sum
    }

    fn slot(&self, number: u64) -> usize {
        usize::try_from(number).unwrap_or(usize::MAX) & self.len().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_request_finds_its_place_when_its_time_has_come() {
        let mut queue = Queue::default();
        queue.push(1, 5_000, SECOND);
        queue.push(2, 7_000, SECOND * 2);
        assert_eq!(queue.find(2, SECOND), None);
        let second = queue.find(2, SECOND * 2);
        assert_eq!((second, queue.ahead_of(second)), (Some(1), 5_000));
        assert_eq!(queue.ahead_of(None), 12_000);
        queue.remove(1);
        assert_eq!(queue.find(2, SECOND * 2), None);
        assert_eq!(queue.ahead_of(None), 5_000);
    }

    #[test]
    fn equal_requests_have_a_place_each() {
        let mut queue = Queue::default();
        for n in 1..=3u32 {
            queue.push(9, 1_000, SECOND * n);
        }
        queue.put_off(0, SECOND, SECOND * 4);
        assert_eq!(queue.find(9, SECOND * 2), Some(1));
        queue.remove(1);
        assert_eq!(queue.find(9, SECOND * 2), None);
        assert_eq!(queue.find(9, SECOND * 3), Some(2));
        queue.remove(2);
        queue.push(9, 1_000, SECOND * 4);
        assert_eq!(queue.find(9, SECOND * 4), Some(3));
        assert_eq!(queue.ahead_of(Some(3)), 1_000);
    }

    #[test]
    fn who_does_not_come_back_holds_nothing_for_long_and_is_trusted_less() {
        let mut queue = Queue::default();
        for n in 0..100u64 {
            queue.push(n, 5_000, Duration::from_millis(12 * n));
        }
        assert_eq!(queue.ahead_of(None), 500_000);
        queue.go_on(SECOND);
        assert!(queue.ahead_of(None) < 10_000, "{}", queue.ahead_of(None));
        assert_eq!(queue.find(3, SECOND), Some(3), "late is not too late");
        queue.go_on(SECOND * 7);
        assert!(queue.is_empty());
    }

    /// A request that came back is skipped by the search for open ones behind it.
    #[test]
    fn who_came_back_and_then_does_not_holds_nothing_for_long() {
        let mut queue = Queue::default();
        for n in 0..3u64 {
            queue.push(n, 5_000, SECOND);
        }
        let request = queue.find(0, SECOND).unwrap();
        queue.put_off(request, SECOND, SECOND);
        // The second is removed, too, so that the search skips the first; the third is never late.
        queue.remove(1);
        queue.go_on(SECOND);
        queue.put_off(request, SECOND * 2, SECOND / 2);
        queue.put_off(2, SECOND, SECOND * 3);
        queue.go_on(SECOND * 2);
        assert_eq!(queue.ahead_of(None), 10_000);
        queue.go_on(Duration::from_millis(2_800));
        assert_eq!(queue.ahead_of(None), 10_000, "it is held for a while");
        queue.go_on(Duration::from_millis(2_801));
        assert_eq!(queue.ahead_of(None), 5_000);
        assert_eq!(queue.find(0, SECOND * 3), Some(0), "late is not too late");
        assert_eq!(queue.proven.len(), 1);
    }

    #[test]
    fn there_is_a_most_of_places_and_the_memory_is_given_back() {
        let mut queue = Queue::default();
        for n in 0..2 * QUEUED_MAX as u64 {
            queue.push(n, 1, SECOND);
        }
        assert_eq!(queue.ahead_of(None), QUEUED_MAX as u64);
        queue.go_on(SECOND * 10);
        assert!(queue.is_empty());
        assert_eq!((queue.requests.capacity(), queue.same.capacity(), queue.sums.len()), (0, 0, 0));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(u64, u64),
        Remove(usize),
        PutOff(usize),
        Lapse(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u64..9, 1u64..9_000).prop_map(|(digest, milli)| Step::Push(digest, milli)),
            (0usize..300).prop_map(Step::Remove),
            (0usize..300).prop_map(Step::PutOff),
            (0usize..300).prop_map(Step::Lapse),
        ]
    }

    proptest! {
        /// Sums are those of a plain list, whatever is added and removed.
        #[test]
        fn sums_are_exact(steps in vec(step(), 1..600)) {
            let mut queue = Queue::default();
            // What each request holds, by number.
            let mut model: Vec<(u64, bool)> = Vec::new();
            for step in steps {
                match step {
                    Step::Push(digest, milli) => {
                        // Numbers continue where an emptied queue stopped.
                        queue.push(digest, milli, Duration::ZERO);
                        model.push((milli, true));
                    }
                    Step::Remove(n) | Step::PutOff(n) | Step::Lapse(n) => {
                        let Some((held, is_there)) = model.get_mut(n) else { continue };
                        if !*is_there {
                            continue;
                        }
                        match step {
                            Step::Remove(_) => {
                                // As `find` would have found it: the first of its digest.
                                let Some(digest) = queue.at(n as u64).map(|p| p.digest) else {
                                    continue;
                                };
                                if queue.same.get(&digest).map(|same| same.0) != Some(n as u64) {
                                    continue;
                                }
                                queue.remove(n as u64);
                                (*held, *is_there) = (0, false);
                            }
                            Step::PutOff(_) => {
                                queue.put_off(n as u64, Duration::ZERO, Duration::ZERO);
                                *held = queue.at(n as u64).map_or(0, |p| p.milli);
                            }
                            Step::Lapse(_) => {
                                queue.hold_nothing(n as u64);
                                *held = 0;
                            }
                            Step::Push(..) => unreachable!(),
                        }
                    }
                }
                let all: u64 = model.iter().map(|(held, _)| held).sum();
                prop_assert_eq!(queue.ahead_of(None), all);
                for n in (0..model.len()).filter(|n| queue.at(*n as u64).is_some()) {
                    let ahead: u64 = model[..n].iter().map(|(held, _)| held).sum();
                    prop_assert_eq!(queue.ahead_of(Some(n as u64)), ahead);
                }
            }
        }
    }
}
