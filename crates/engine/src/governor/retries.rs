//! Clients that retry as SDKs do by default, against meters and a simulated clock: all of them get
//! through, at the rate that was provisioned.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use model::Charge;

use super::meter::Meter;
use super::tests::{meter, own, sharing};
use crate::{Admission, Priority};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// Provisioned in all of these, in thousandths.
const RATE: u64 = 400_000;

/// When an SDK gives up.
#[derive(Clone, Copy, Debug)]
struct Policy {
    retries_max: u32,
    /// No further retry once it has waited for so long.
    wait_max: Duration,
    /// The longest wait that it follows.
    one_wait_max: Duration,
}

/// Python, JavaScript, Java and .NET.
const NINE: Policy =
    Policy { retries_max: 9, wait_max: Duration::from_secs(30), one_wait_max: Duration::MAX };
/// Rust.
const EIGHTEEN: Policy = Policy {
    retries_max: 18,
    wait_max: Duration::from_secs(270),
    one_wait_max: Duration::from_secs(15),
};
/// A client that never retries.
const NONE: Policy = Policy { retries_max: 0, ..NINE };

/// An operation: what it costs at least, and what it turns out to cost, in thousandths.
type Operation = (u64, u64);

const UPSERT: Operation = (5_060, 5_060);
const DELETE: Operation = (5_000, 5_000);
const QUERY: Operation = (2_250, 6_900);
/// Of 100 KB.
const LARGE: Operation = (49_600, 49_600);
/// An upsert of an item that is there.
const REPLACE: Operation = (5_060, 10_060);

/// Operations one after the other.
struct Client {
    at: usize,
    starts: Duration,
    /// Before this it is busy with other things, so that retries are late.
    retries_from: Duration,
    policy: Policy,
    priority: Priority,
    operations: Vec<Operation>,
}

impl Client {
    fn new(operations: impl IntoIterator<Item = Operation>) -> Self {
        Self {
            at: 0,
            starts: Duration::ZERO,
            retries_from: Duration::ZERO,
            policy: NINE,
            priority: Priority::High,
            operations: operations.into_iter().collect(),
        }
    }
}

#[derive(Debug, Default)]
struct Outcome {
    served_milli: u64,
    lasted: Duration,
    /// Clients that gave up an operation.
    failed: Vec<usize>,
    retries_most: u32,
    waits_longest: BTreeMap<usize, Duration>,
}

impl Outcome {
    /// Thousandths a second, without the first second's worth, which was there already.
    fn rate(&self) -> f64 {
        (self.served_milli - RATE) as f64 / self.lasted.as_secs_f64()
    }

    fn check(&self) {
        assert_eq!(self.failed, Vec::<usize>::new(), "{self:?}");
        let deviation = self.rate() / RATE as f64 - 1.0;
        assert!(deviation.abs() < 0.05, "{:+.1}% {self:?}", deviation * 100.0);
    }
}

/// Times that differ from run to run in reality, and not here.
struct Jitter(u64);

impl Jitter {
    fn up_to(&mut self, max: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_nanos(self.0 % u64::try_from(max.as_nanos()).unwrap().max(1))
    }

    /// How much later than told a client comes: a busy process is late now and then.
    fn late(&mut self) -> Duration {
        match self.0 % 50 {
            0 => self.up_to(MILLISECOND * 60),
            _ => self.up_to(MILLISECOND * 6),
        }
    }
}

/// How far a client is.
#[derive(Clone, Copy, Default)]
struct Progress {
    operation: usize,
    retries: u32,
    waited: Duration,
}

/// Runs all clients to their ends.
fn run(meters: &[Meter], clients: &[Client]) -> Outcome {
    let mut outcome = Outcome::default();
    let mut jitter = Jitter(0x9E37_79B9_7F4A_7C15);
    let mut progress = vec![Progress::default(); clients.len()];
    let begins = |(n, client): (usize, &Client)| Reverse((client.starts, n));
    let mut events: BinaryHeap<_> = clients.iter().enumerate().map(begins).collect();
    while let Some(Reverse((now, n))) = events.pop() {
        let (client, state) = (&clients[n], &mut progress[n]);
        let Some((least, charge)) = client.operations.get(state.operation).copied() else {
            continue;
        };
        let digest = (n as u64) << 32 | state.operation as u64;
        let priority = client.priority;
        let admission = Admission { priority, digest, ..Admission::default() };
        let meter = &meters[client.at];
        match meter.admit(now, admission, Charge::milli(least)) {
            Ok(paid) => {
                meter.settle(paid, Charge::milli(charge), None);
                outcome.served_milli += charge;
                outcome.lasted = outcome.lasted.max(now);
                let longest = outcome.waits_longest.entry(n).or_default();
                *longest = state.waited.max(*longest);
                outcome.retries_most = outcome.retries_most.max(state.retries);
            }
            Err(refused) => {
                let policy = client.policy;
                if state.retries < policy.retries_max && state.waited < policy.wait_max {
                    let millis = refused.retry_after.as_nanos().div_ceil(1_000_000);
                    let told = Duration::from_millis(u64::try_from(millis).unwrap());
                    let wait = told.min(policy.one_wait_max);
                    state.retries += 1;
                    state.waited += wait;
                    let comes = (now + wait).max(client.retries_from) + jitter.late();
                    events.push(Reverse((comes, n)));
                    continue;
                }
                if policy.retries_max > 0 {
                    outcome.failed.push(n);
                }
            }
        }
        *state = Progress { operation: state.operation + 1, ..Progress::default() };
        events.push(Reverse((now + MILLISECOND + jitter.up_to(MILLISECOND * 3), n)));
    }
    outcome
}

fn run_one(clients: &[Client]) -> Outcome {
    run(&[meter(&own(400))], clients)
}

fn clients(count: usize, operations: &[Operation]) -> Vec<Client> {
    (0..count).map(|_| Client::new(operations.iter().copied())).collect()
}

#[test]
fn sixteen_threads_get_through() {
    let outcome = run_one(&clients(16, &[UPSERT; 40]));
    outcome.check();
    assert!(outcome.retries_most <= 3, "{outcome:?}");
}

#[test]
fn a_thousand_at_once_get_through() {
    for policy in [NINE, EIGHTEEN] {
        let mut all = clients(1000, &[UPSERT]);
        all.iter_mut().for_each(|client| client.policy = policy);
        let outcome = run_one(&all);
        outcome.check();
        assert!(outcome.retries_most <= 3, "{outcome:?}");
    }
}

#[test]
fn nothing_is_lost_while_a_client_is_busy_sending_a_thousand() {
    let mut all = clients(1000, &[UPSERT]);
    for (n, client) in (0u32..).zip(&mut all) {
        client.starts = MILLISECOND * 2 * n;
        client.retries_from = SECOND * 2;
    }
    let outcome = run_one(&all);
    outcome.check();
    assert!(outcome.retries_most <= 5, "{outcome:?}");
}

#[test]
fn fifty_with_everything_mixed_get_through() {
    let all: Vec<_> = (0..50)
        .map(|n| {
            let turn = [UPSERT, QUERY, REPLACE, DELETE];
            Client::new((0..12).map(|at| turn[(n + at) % turn.len()]))
        })
        .collect();
    run_one(&all).check();
}

#[test]
fn what_costs_more_than_expected_delays_others_and_fails_none() {
    let mut all = clients(300, &[UPSERT]);
    all.extend(clients(150, &[REPLACE]));
    all.extend(clients(100, &[QUERY]));
    run_one(&all).check();
    run_one(&clients(500, &[REPLACE])).check();
}

#[test]
fn a_large_item_gets_its_turn_among_small_ones() {
    let mut all = clients(16, &[UPSERT; 40]);
    all.extend(clients(1, &[LARGE; 20]));
    let outcome = run_one(&all);
    outcome.check();
    // All that wait, and another large one.
    assert!(outcome.waits_longest[&16] < SECOND, "{outcome:?}");
}

#[test]
fn who_never_waits_does_not_go_ahead_of_who_does() {
    // 2,000 requests a second of clients that never retry.
    let mut all = clients(6, &[UPSERT; 3_000]);
    all.iter_mut().for_each(|client| client.policy = NONE);
    all.extend(clients(8, &[UPSERT; 20]));
    let outcome = run_one(&all);
    assert_eq!(outcome.failed, Vec::<usize>::new(), "{outcome:?}");
    assert!(outcome.retries_most <= 5, "{outcome:?}");
}

#[test]
fn places_of_clients_that_are_gone_do_not_hold_others_back() {
    let mut all = clients(1000, &[UPSERT]);
    all.iter_mut().for_each(|client| client.policy = NONE);
    let mut late = clients(4, &[UPSERT; 10]);
    late.iter_mut().for_each(|client| client.starts = SECOND * 2);
    all.extend(late);
    let outcome = run_one(&all);
    assert_eq!(outcome.failed, Vec::<usize>::new(), "{outcome:?}");
    let waited = (1000..1004).map(|n| outcome.waits_longest[&n]).max().unwrap();
    assert!(waited < SECOND, "{waited:?}");
}

#[test]
fn a_client_that_waits_and_then_asks_for_something_else_is_served() {
    let meter = meter(&own(400));
    let ask = |now, digest| {
        let admission = Admission { digest, ..Admission::default() };
        meter.admit(now, admission, Charge::units(5))
    };
    let refused = (0u64..).find_map(|n| ask(Duration::ZERO, n).err()).unwrap();
    assert!(ask(refused.retry_after, 1_000).is_ok());
    // Two requests that wait can't be told from a third.
    let first = ask(refused.retry_after, 1).unwrap_err().retry_after;
    ask(refused.retry_after, 2).unwrap_err();
    ask(refused.retry_after + first, 3).unwrap_err();
    assert!(ask(refused.retry_after + first, 1).is_ok());
}

#[test]
fn low_priority_waits_for_all_others_and_gets_through() {
    let mut all = clients(16, &[UPSERT; 20]);
    all.iter_mut().for_each(|client| client.priority = Priority::Low);
    let outcome = run_one(&all);
    assert_eq!(outcome.failed, Vec::<usize>::new(), "{outcome:?}");
    all.extend(clients(16, &[UPSERT; 20]));
    let outcome = run_one(&all);
    let high = outcome.failed.iter().filter(|n| **n >= 16).count();
    assert_eq!(high, 0, "{outcome:?}");
    let longest = (16..32).map(|n| outcome.waits_longest[&n]).max().unwrap();
    assert!(longest < SECOND / 2, "{outcome:?}");
}

#[test]
fn all_that_share_get_through_beside_a_greedy_one() {
    let mut all = clients(800, &[UPSERT]);
    for at in 1..5 {
        let mut neighbours = clients(2, &[UPSERT; 20]);
        neighbours.iter_mut().for_each(|client| client.at = at);
        all.extend(neighbours);
    }
    let outcome = run(&sharing(400, 5), &all);
    assert_eq!(outcome.failed, Vec::<usize>::new(), "{outcome:?}");
    let longest = (800..808).map(|n| outcome.waits_longest[&n]).max().unwrap();
    assert!(longest < SECOND, "neighbours have their part: {longest:?}");
    // A single partition has all of it.
    run(&sharing(400, 1), &clients(16, &[UPSERT; 40])).check();
    run(&sharing(400, 1), &clients(600, &[UPSERT])).check();
}
