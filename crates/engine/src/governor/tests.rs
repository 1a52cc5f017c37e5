//! What the meter promises, for any pattern of arrivals.

use std::sync::Arc;
use std::time::Duration;

use model::{Charge, ContainerRid, DatabaseRid, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;

use super::bucket::DEBT_NANOS_MAX;
use super::meter::{Meter, Paid, Share, Shared, ThroughputPool};
use super::{Governor, Throttling};
use crate::catalog::Catalog;
use crate::components::{Clock, Task};
use crate::{Admission, Priority};

const SECOND: Duration = Duration::from_secs(1);

pub(super) fn own(rate_units: u64) -> Share {
    Share {
        rate: rate_units * 1000,
        per_minute: None,
        shared: None,
        is_enforced: true,
        was_requested: true,
        container: ContainerRid { database: DatabaseRid(1), number: 1 },
    }
}

pub(super) fn meter(share: &Share) -> Meter {
    let meter = Meter::default();
    meter.assign(share, Duration::ZERO);
    meter
}

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> Task {
        Box::pin(std::future::pending())
    }
}

#[test]
fn containers_that_are_gone_are_forgotten() {
    let governor = Governor::new(Arc::new(Still), Throttling::On, 10_000);
    governor.logged.lock().unwrap().insert(own(400).container);
    governor.assign(&Catalog::default(), Vec::new());
    assert!(governor.logged.lock().unwrap().is_empty());
}

/// Requests something; how long to wait, if it is refused.
fn admit(
    meter: &Meter,
    now: Duration,
    priority: Priority,
    least: Charge,
) -> Result<Paid, Duration> {
    let admission = Admission { priority, ..Admission::default() };
    meter.admit(now, admission, least).map_err(|refused| refused.retry_after)
}

/// Requests `milli`; what was served, if it was.
fn ask(meter: &Meter, now: Duration, least: u64, milli: u64) -> Result<u64, Duration> {
    let paid = admit(meter, now, Priority::High, Charge::milli(least))?;
    meter.settle(paid, Charge::milli(milli), None);
    Ok(milli)
}

/// Serves as much as is admitted, at a demand of `per_second` requests of `milli`, for `seconds`.
fn served_over(meter: &Meter, seconds: u64, per_second: u64, milli: u64) -> u64 {
    let gap = SECOND / u32::try_from(per_second).unwrap();
    let arrivals = u32::try_from(seconds * per_second).unwrap();
    (0..arrivals).filter_map(|n| ask(meter, gap * n, milli, milli).ok()).sum()
}

#[test]
fn a_busy_partition_serves_its_share_within_five_percent() {
    // 2,000 RU/s of demand in requests of 5.3 RU on 400 RU/s.
    let served = served_over(&meter(&own(400)), 30, 377, 5_300);
    let wanted = 400_000 * 30;
    assert!(served.abs_diff(wanted) * 20 <= wanted, "{served} of {wanted}");
}

#[test]
fn a_request_larger_than_a_second_is_served_and_paid_off() {
    let meter = meter(&own(400));
    assert!(ask(&meter, Duration::ZERO, 2_250, 2_000_000).is_ok());
    let wait = ask(&meter, Duration::ZERO, 1_000, 1_000).unwrap_err();
    assert_eq!(wait, Duration::from_secs(4) + Duration::from_nanos(1));
    assert!(ask(&meter, wait, 1_000, 1_000).is_ok());
}

#[test]
fn what_was_paid_too_much_is_given_back() {
    let meter = meter(&own(400));
    let mut paid = Vec::new();
    while let Ok(one) = admit(&meter, Duration::ZERO, Priority::High, Charge::units(10)) {
        paid.push(one);
    }
    assert_eq!(paid.len(), 40);
    for one in paid {
        meter.settle(one, Charge::milli(1_240), None);
    }
    let usage = meter.usage(Duration::ZERO);
    assert_eq!(usage.consumed, Charge::milli(40 * 1_240));
    assert_eq!((usage.served, usage.throttled), (40, 1));
    assert!(ask(&meter, Duration::ZERO, 1_000, 1_000).is_ok());
}

#[test]
fn low_priority_leaves_a_fifth_to_others() {
    let meter = meter(&own(100));
    let low = |now| admit(&meter, now, Priority::Low, Charge::units(1));
    let served = std::iter::from_fn(|| low(Duration::ZERO).ok()).count();
    assert_eq!(served, 80);
    let wait = low(Duration::ZERO).unwrap_err();
    assert_eq!(wait, Duration::from_nanos(1));
    let high = || admit(&meter, Duration::ZERO, Priority::High, Charge::units(1)).ok();
    assert_eq!(std::iter::from_fn(high).count(), 20);
    let wait = low(Duration::ZERO).unwrap_err();
    assert!(low(wait - Duration::from_nanos(1)).is_err());
    assert!(low(wait).is_ok());
}

#[test]
fn the_minutes_budget_serves_what_the_second_can_not() {
    let share = Share { per_minute: Some(Charge::units(4_000)), ..own(400) };
    let meter = meter(&share);
    let minute = served_over(&meter, 60, 1_000, 1_000);
    assert_eq!(minute, 400_000 + 400_000 * 60 + 4_000_000);
    assert!(ask(&meter, SECOND * 60, 1_000, 1_000).is_ok(), "a new minute has a new budget");
    let low = admit(&meter, SECOND * 60, Priority::Low, Charge::units(1));
    assert!(low.is_err(), "the budget is for those who can't wait");
}

#[test]
fn another_share_applies_at_once_and_debts_stay() {
    let meter = meter(&own(400));
    ask(&meter, Duration::ZERO, 1_000, 800_000).unwrap();
    meter.assign(&own(4_000), Duration::ZERO);
    let wait = ask(&meter, Duration::ZERO, 1_000, 1_000).unwrap_err();
    assert_eq!(wait, Duration::from_millis(100) + Duration::from_nanos(1));
    meter.assign(&Share { is_enforced: false, ..own(4_000) }, Duration::ZERO);
    assert!(ask(&meter, Duration::ZERO, 1_000, 1_000).is_ok());
}

/// `count` partitions that share `rate` request units per second.
pub(super) fn sharing(rate: u64, count: u64) -> Vec<Meter> {
    let pool = Arc::new(ThroughputPool::full(rate * 1000, None, Duration::ZERO));
    let share =
        Share { shared: Some(Shared { pool, kept_rate: rate * 1000 / count }), ..own(10_000) };
    (0..count).map(|_| meter(&share)).collect()
}

#[test]
fn one_of_many_can_use_all_that_is_shared() {
    let meters = sharing(1_000, 25);
    let served = served_over(&meters[7], 30, 2_000, 1_000);
    let wanted = 1_000_000 * 30;
    assert!(served.abs_diff(wanted) * 20 <= wanted, "{served} of {wanted}");
}

#[test]
fn shared_throughput_does_not_lift_a_partitions_ceiling() {
    let meters = sharing(50_000, 5);
    let served = served_over(&meters[0], 20, 20_000, 1_000);
    assert_eq!(served, 10_000_000 * 21, "20 s and the second it began with");
}

#[test]
fn a_greedy_neighbour_leaves_everybody_his_part() {
    let meters = sharing(1_000, 4);
    let mut served = [0u64; 4];
    for millis in 0..30_000u32 {
        let now = Duration::from_millis(1) * millis;
        // One requests ten times all there is, the others about their part.
        for _ in 0..10 {
            served[0] += ask(&meters[0], now, 1_000, 1_000).unwrap_or(0);
        }
        for n in 1..4 {
            if millis % 4 == 0 {
                served[n] += ask(&meters[n], now, 1_000, 1_000).unwrap_or(0);
            }
        }
    }
    let total: u64 = served.iter().sum();
    assert!(total <= 1_000_000 * 31 + 200_000, "{total}");
    for other in &served[1..] {
        assert!(*other >= 250_000 * 30 * 95 / 100, "{served:?}");
    }
}

#[test]
fn priority_holds_for_what_is_shared_too() {
    let meters = sharing(100, 1);
    let low = || admit(&meters[0], Duration::ZERO, Priority::Low, Charge::units(1)).ok();
    assert_eq!(std::iter::from_fn(low).count(), 80);
    assert!(ask(&meters[0], Duration::ZERO, 1_000, 1_000).is_ok());
}

#[derive(Clone, Debug)]
struct Arrival {
    gap_micros: u64,
    least: u64,
    charge: u64,
}

fn arrival() -> impl Strategy<Value = Arrival> {
    let gap = prop_oneof![Just(0u64), 0u64..2_000, 0u64..3_000_000];
    (gap, 1u64..20_000, 1u64..50_000).prop_map(|(gap_micros, least, charge)| Arrival {
        gap_micros,
        least,
        charge,
    })
}

/// Admitted requests and what they will cost; each is settled when some more have come.
#[derive(Default)]
struct UnderWay(Vec<(Paid, u64)>);

impl UnderWay {
    /// Adds one, and settles the oldest while there are more than `max`. Returns what was settled,
    /// in thousandths.
    fn push(&mut self, meter: &Meter, paid: Paid, charge: u64, max: usize) -> u64 {
        self.0.push((paid, charge));
        let over = self.0.len().saturating_sub(max);
        self.settle(meter, over)
    }

    fn settle(&mut self, meter: &Meter, count: usize) -> u64 {
        let settled = self.0.drain(..count).map(|(paid, charge)| {
            meter.settle(paid, Charge::milli(charge), None);
            charge
        });
        settled.sum()
    }
}

#[test]
fn many_large_requests_at_once_leave_a_debt_of_seconds_and_no_more() {
    let meter = meter(&own(400));
    let delete = || admit(&meter, Duration::ZERO, Priority::High, Charge::units(5)).ok();
    let under_way: Vec<_> = std::iter::from_fn(delete).collect();
    assert_eq!(under_way.len(), 80);
    for paid in under_way {
        meter.settle(paid, Charge::units(926), None);
    }
    let wait = ask(&meter, Duration::ZERO, 1_000, 1_000).unwrap_err();
    assert_eq!(wait, Duration::from_nanos(DEBT_NANOS_MAX + 1));
}

#[test]
fn there_is_no_limit_where_nothing_is_refused() {
    let meter = meter(&own(400));
    assert_eq!(meter.usage(Duration::ZERO).limit, Some(Charge::units(400)));
    meter.assign(&Share { is_enforced: false, ..own(400) }, Duration::ZERO);
    assert_eq!(meter.usage(Duration::ZERO).limit, None);
}

proptest! {
    /// Over any arrivals and any window: no more than the share, a second's worth and the last
    /// request's overdraft, as long as that is a debt of five seconds at most.
    #[test]
    fn no_window_gets_more_than_its_share(
        rate in 10u64..3_000,
        arrivals in vec(arrival(), 1..120),
    ) {
        let meter = meter(&own(rate));
        let mut now = Duration::ZERO;
        let mut served: Vec<(Duration, u64)> = Vec::new();
        for Arrival { gap_micros, least, charge } in arrivals {
            now += Duration::from_micros(gap_micros);
            if let Ok(charge) = ask(&meter, now, least, charge) {
                served.push((now, charge));
            }
        }
        for (first, (from, _)) in served.iter().enumerate() {
            let mut total = 0u128;
            for (at, charge) in &served[first..] {
                // Everything but the last request was within what had come in.
                let window = (*at - *from).as_nanos();
                let brought = u128::from(rate) * 1000 * (window + 1_000_000_000);
                prop_assert!(total * 1_000_000_000 < brought, "{total} in {window} ns");
                total += u128::from(*charge);
            }
        }
    }

    /// A client that waits as long as it was told is served, if no other comes; earlier it is not.
    #[test]
    fn a_retry_after_the_time_told_is_served(
        rate in 1u64..3_000,
        count in 1u64..6,
        is_shared in any::<bool>(),
        priority in prop_oneof![Just(Priority::High), Just(Priority::Low)],
        arrivals in vec(arrival(), 1..100),
        under_way_max in 0usize..20,
    ) {
        let meters = match is_shared {
            true => sharing(rate, count),
            false => vec![meter(&own(rate))],
        };
        // A debt and the part that is left to others.
        let wait_max = Duration::from_nanos(DEBT_NANOS_MAX + 200_000_001);
        let mut under_way: Vec<_> = meters.iter().map(|_| UnderWay::default()).collect();
        let mut now = Duration::ZERO;
        for (n, Arrival { gap_micros, least, charge }) in arrivals.into_iter().enumerate() {
            now += Duration::from_micros(gap_micros);
            let at = n % meters.len();
            let meter = &meters[at];
            match admit(meter, now, priority, Charge::milli(least)) {
                Ok(paid) => {
                    under_way[at].push(meter, paid, charge, under_way_max);
                }
                Err(wait) => {
                    prop_assert!(wait > Duration::ZERO && wait <= wait_max, "{wait:?}");
                    let early = now + wait - Duration::from_nanos(1);
                    // What others that share the throughput give back comes sooner than was
                    // promised.
                    for digest in (0..2).filter(|_| !is_shared) {
                        let silent =
                            Admission { priority, digest, is_silent: true, ..Admission::default() };
                        prop_assert!(meter.admit(early, silent, Charge::ZERO).is_err());
                    }
                    now += wait;
                    prop_assert!(admit(meter, now, priority, Charge::ZERO).is_ok());
                }
            }
        }
    }

    /// Counters are the sums of what was served.
    #[test]
    fn charges_add_up(arrivals in vec(arrival(), 1..100), under_way_max in 0usize..20) {
        let meter = meter(&own(400));
        let (mut total, mut served, mut throttled) = (0, 0, 0);
        let mut under_way = UnderWay::default();
        let mut now = Duration::ZERO;
        for Arrival { gap_micros, least, charge } in arrivals {
            now += Duration::from_micros(gap_micros);
            match admit(&meter, now, Priority::High, Charge::milli(least)) {
                Ok(paid) => {
                    total += under_way.push(&meter, paid, charge, under_way_max);
                    served += 1;
                }
                Err(_) => throttled += 1,
            }
        }
        let left = under_way.0.len();
        total += under_way.settle(&meter, left);
        let usage = meter.usage(now);
        prop_assert_eq!(usage.consumed, Charge::milli(total));
        prop_assert_eq!((usage.served, usage.throttled), (served, throttled));
    }
}
