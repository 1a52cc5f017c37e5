//! Provisioned throughput: every partition has its share, and requests beyond it are refused.
//!
//! A share is a token bucket in the partition ([`meter::Meter`]). A request is admitted while the
//! bucket holds anything, pays at once what it will cost at least, and the rest when its charge is
//! known. What it overdraws is paid back before the next request is admitted, up to a few seconds'
//! worth. A request that is refused is queued ([`queue::Queue`]), and its client is told when to
//! come again. Shares follow from the offers and the live ranges; the code that changes either has
//! [`Governor::assign`] called.

mod bucket;
mod meter;
mod queue;
#[cfg(test)]
mod retries;
mod sketch;
mod tally;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use model::{Charge, ContainerRid, DatabaseRid, limits};

use crate::catalog::{Catalog, Container, Offer, OfferTarget, Throughput, sharing};
use crate::commit::CutOver;
use crate::components::Clock;
use crate::context::Admission;
use crate::partition::Partition;
use crate::routing::{PartitionRange, RoutingMap};
use crate::{Engine, Error, RangeId, RequestContext, ru};

use meter::{Debt, Share, Shared, ThroughputPool};

use meter::Refused;
pub use meter::Usage;
pub(crate) use meter::{Meter, Paid};
pub use sketch::KeyUsage;

/// Request units per minute that the extra budget adds for each request unit per second.
const PER_MINUTE_FACTOR: u32 = 10;
/// Autoscale never goes below this part of its maximum.
const AUTOSCALE_FLOOR_DIVISOR: u32 = 10;

/// The ranges of a container that shares are for.
type RoutingOf<'a> = dyn Fn(&Container) -> Arc<RoutingMap> + 'a;

/// Which throughput is a limit. Where it is none, requests are charged and counted all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Throttling {
    /// None.
    #[default]
    Off,
    /// What clients requested: when they created a container or its database, or later. Containers
    /// created without throughput are not limited.
    Provisioned,
    /// All, also the default throughput of what was created without any.
    On,
}

impl Throttling {
    /// Whether requests beyond what an offer provides are refused.
    fn enforces(self, offer: &Offer) -> bool {
        match self {
            Throttling::Off => false,
            Throttling::Provisioned => offer.was_requested,
            Throttling::On => true,
        }
    }
}

/// Hands out shares of throughput.
pub(crate) struct Governor {
    clock: Arc<dyn Clock>,
    throttling: Throttling,
    /// Thousandths of a request unit per second that a partition can serve.
    partition_rate_max: u64,
    /// What the containers of a database share, for databases with throughput of their own.
    pools: Mutex<HashMap<DatabaseRid, Arc<ThroughputPool>, foldhash::fast::FixedState>>,
    /// The containers whose first refusal was logged.
    logged: Mutex<HashSet<ContainerRid, foldhash::fast::FixedState>>,
}

impl Governor {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        throttling: Throttling,
        partition_ru_max: u32,
    ) -> Self {
        Self {
            clock,
            throttling,
            partition_rate_max: per_second(partition_ru_max),
            pools: Mutex::default(),
            logged: Mutex::default(),
        }
    }

    /// Gives everything that exists its share.
    pub(crate) fn assign_all(&self, catalog: &Catalog) {
        let targets = catalog.offers().map(|offer| offer.target).collect();
        self.assign(catalog, targets);
    }

    /// Gives the partitions that `targets` provision the shares they have by `catalog` and by the
    /// ranges that are live now. A target may have lost its offer or may be gone.
    pub(crate) fn assign(&self, catalog: &Catalog, targets: Vec<OfferTarget>) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        logged.retain(|rid| catalog.container_by_rid(*rid).is_some());
        drop(logged);
        self.assign_routed(catalog, targets, &Container::routing);
    }

    /// Gives the partitions that are about to replace others their shares, and each its part of the
    /// debts of the old ones, including those that requests under way will leave. Runs before any
    /// request can reach the new partitions: without a share everything is admitted.
    pub(crate) fn hand_over(&self, catalog: &Catalog, cut_over: &CutOver) {
        let rid = cut_over.container.rid;
        let routing_of = |container: &Container| match container.rid == rid {
            true => Arc::clone(&cut_over.routing),
            false => container.routing(),
        };
        self.assign_routed(catalog, vec![OfferTarget::Container(rid)], &routing_of);
        let now = self.clock.monotonic();
        let successors = &cut_over.targets;
        let sources = cut_over.sources.iter();
        let debt = sources.map(|source| source.meter.hand_over(now, successors)).sum::<Debt>();
        for successor in successors {
            successor.meter.inherit(debt.divided_by(successors.len()));
        }
    }

    fn assign_routed(
        &self,
        catalog: &Catalog,
        mut targets: Vec<OfferTarget>,
        routing_of: &RoutingOf<'_>,
    ) {
        let now = self.clock.monotonic();
        for target in &mut targets {
            // A container without an offer of its own uses its database's.
            if let OfferTarget::Container(rid) = *target
                && catalog.offer_of(*target).is_none()
            {
                *target = OfferTarget::Database(rid.database);
            }
        }
        targets.sort_unstable();
        targets.dedup();
        for target in targets {
            match (target, catalog.offer_of(target)) {
                (OfferTarget::Container(rid), Some(offer)) => {
                    if let Some(container) = catalog.container_by_rid(rid) {
                        self.assign_own((rid, &routing_of(container)), offer, now);
                    }
                }
                (OfferTarget::Database(rid), Some(offer)) => {
                    let members: Vec<_> =
                        sharing(catalog, rid).map(|c| (c.rid, routing_of(c))).collect();
                    self.assign_shared(&members, rid, offer, now);
                }
                (OfferTarget::Database(rid), None) => self.forget_pool(rid),
                (OfferTarget::Container(_), None) => {}
            }
        }
    }

    /// Divides a container's own throughput evenly.
    fn assign_own(
        &self,
        (container, routing): (ContainerRid, &RoutingMap),
        offer: &Offer,
        now: Duration,
    ) {
        let count = (routing.ranges().len() as u64).max(1);
        let share = Share {
            rate: (per_second(offer.throughput.peak()) / count).min(self.partition_rate_max),
            per_minute: per_minute(offer).map(|c| Charge::milli(c.as_milli() / count)),
            shared: None,
            is_enforced: self.throttling.enforces(offer),
            was_requested: offer.was_requested,
            container,
        };
        for range in routing.ranges() {
            range.partition.meter.assign(&share, now);
        }
    }

    /// Lets all containers of a database that have no offer of their own draw from one pool.
    fn assign_shared(
        &self,
        members: &[(ContainerRid, Arc<RoutingMap>)],
        rid: DatabaseRid,
        offer: &Offer,
        now: Duration,
    ) {
        let rate = per_second(offer.throughput.peak());
        let pool = self.pool(rid, rate, per_minute(offer), now);
        let count = members.iter().map(|(_, m)| m.ranges().len() as u64).sum::<u64>().max(1);
        for (container, routing) in members {
            let share = Share {
                rate: self.partition_rate_max,
                per_minute: None,
                shared: Some(Shared { pool: Arc::clone(&pool), kept_rate: rate / count }),
                is_enforced: self.throttling.enforces(offer),
                was_requested: offer.was_requested,
                container: *container,
            };
            for range in routing.ranges() {
                range.partition.meter.assign(&share, now);
            }
        }
    }

    fn pool(
        &self,
        rid: DatabaseRid,
        rate: u64,
        per_minute: Option<Charge>,
        now: Duration,
    ) -> Arc<ThroughputPool> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(&rid) {
            pool.change(rate, per_minute, now);
            return Arc::clone(pool);
        }
        let pool = Arc::new(ThroughputPool::full(rate, per_minute, now));
        pools.insert(rid, Arc::clone(&pool));
        pool
    }

    fn forget_pool(&self, rid: DatabaseRid) {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).remove(&rid);
    }
}

/// What partitions have reserved for a request. It is given back in the end, because the request
/// pays for each of its parts by itself.
#[derive(Default)]
pub(crate) struct Reserved {
    paid: Vec<(Arc<Partition>, Paid)>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        for (partition, paid) in self.paid.drain(..) {
            partition.meter.settle(paid, Charge::ZERO, None);
        }
    }
}

impl Engine {
    /// Admits a request that will cost at least `least`, or refuses it with the small charge that a
    /// refusal reports. An admitted request must be settled with [`Meter::settle`].
    pub(crate) fn admit(
        &self,
        ctx: &mut RequestContext,
        range: &PartitionRange,
        least: Charge,
    ) -> Result<Paid, Error> {
        let admitted = self.try_admit(ctx.admission, range, least);
        if admitted.is_err() {
            ctx.served.charge = ru::throttled();
        }
        admitted
    }

    /// As [`Engine::admit`], for one part of a request, which has a charge already.
    pub(crate) fn try_admit(
        &self,
        admission: Admission,
        range: &PartitionRange,
        least: Charge,
    ) -> Result<Paid, Error> {
        self.admit_by(Meter::admit, admission, range, least)
    }

    /// Has all of `ranges` admit a request that will use each of them [later](Self::admit_further),
    /// or none of them: what one of them did would be lost when another refuses, and might be lost
    /// again and again.
    pub(crate) fn reserve(
        &self,
        admission: Admission,
        ranges: &[PartitionRange],
        least: Charge,
    ) -> Result<Reserved, Error> {
        let mut reserved = Reserved::default();
        for range in ranges {
            let paid = self.admit_by(Meter::reserve, admission, range, least)?;
            reserved.paid.push((Arc::clone(&range.partition), paid));
        }
        Ok(reserved)
    }

    fn admit_by(
        &self,
        admit: fn(&Meter, Duration, Admission, Charge) -> Result<Paid, Refused>,
        admission: Admission,
        range: &PartitionRange,
        least: Charge,
    ) -> Result<Paid, Error> {
        let now = self.inner.components.clock.monotonic();
        // Requests for several partitions may be queued in the same pool.
        let admission = Admission {
            digest: admission.digest.rotate_left(7) ^ u64::from(range.partition.id.0),
            ..admission
        };
        let admitted = admit(&range.partition.meter, now, admission, least);
        admitted.map_err(|Refused { retry_after, first_of }| {
            if let Some(container) = first_of {
                self.log_first_refusal(container);
            }
            Error::Throttled { retry_after }
        })
    }

    /// Admits a further part of a request that `range` has admitted already.
    pub(crate) fn admit_further(
        &self,
        admission: Admission,
        range: &PartitionRange,
        least: Charge,
    ) -> Paid {
        let now = self.inner.components.clock.monotonic();
        range.partition.meter.admit_further(now, admission, least)
    }

    /// Says once for each container what to do about refusals.
    fn log_first_refusal(&self, rid: ContainerRid) {
        let logged = &self.inner.governor.logged;
        if !logged.lock().unwrap_or_else(PoisonError::into_inner).insert(rid) {
            return;
        }
        let catalog = self.catalog();
        let Some(container) = catalog.container_by_rid(rid) else { return };
        let own = catalog.offer_of(OfferTarget::Container(rid));
        let (offer, of) = match own {
            Some(own) => (Some(own), "its own"),
            None => (catalog.offer_of(OfferTarget::Database(rid.database)), "its database's"),
        };
        let Some(offer) = offer else { return };
        tracing::warn!(
            database = container.database_id,
            container = container.spec.id,
            throughput = offer.throughput.peak(),
            of,
            "requests beyond the throughput of a container are answered with 429 and the time to \
             wait, which SDKs wait out by themselves; to serve more, raise its throughput, or \
             start the server with --throttling off (further refusals are counted, not logged)"
        );
    }

    /// What a container's ranges may use and did use.
    pub fn usage(&self, container: &Container) -> Vec<(RangeId, Usage)> {
        let now = self.inner.components.clock.monotonic();
        let routing = container.routing();
        routing.ranges().iter().map(|r| (r.id, r.partition.meter.usage(now))).collect()
    }

    /// The current throughput of an offer: what is provisioned, or for autoscale what it has scaled
    /// to, between a tenth of its maximum and all of it, by the use of the last minute.
    pub fn current_throughput(&self, offer: &Offer) -> u32 {
        let max = match offer.throughput {
            Throughput::Manual(throughput) => return throughput,
            Throughput::Autoscale { max, .. } => max,
        };
        let now = self.inner.components.clock.monotonic();
        let peaks = |container: &Container| -> Vec<u64> {
            let peak = |r: &PartitionRange| r.partition.meter.recent_peak(now);
            let routing = container.routing();
            routing.ranges().iter().map(|r| peak(r).as_milli().div_ceil(1000)).collect()
        };
        let catalog = self.catalog();
        let used = match offer.target {
            // Throughput is divided evenly, so the busiest range decides.
            OfferTarget::Container(rid) => catalog.container_by_rid(rid).map_or(0, |container| {
                let peaks = peaks(container);
                peaks.iter().max().copied().unwrap_or(0).saturating_mul(peaks.len() as u64)
            }),
            OfferTarget::Database(rid) => sharing(&catalog, rid).flat_map(|c| peaks(c)).sum(),
        };
        let used = u32::try_from(used).unwrap_or(u32::MAX);
        let used = used.checked_next_multiple_of(limits::THROUGHPUT_STEP).unwrap_or(u32::MAX);
        used.clamp(max / AUTOSCALE_FLOOR_DIVISOR, max)
    }
}

/// Request units as thousandths.
fn per_second(units: u32) -> u64 {
    u64::from(units) * 1000
}

fn per_minute(offer: &Offer) -> Option<Charge> {
    let size = u64::from(offer.throughput.peak()) * u64::from(PER_MINUTE_FACTOR);
    offer.has_minute_budget.then(|| Charge::units(size))
}
