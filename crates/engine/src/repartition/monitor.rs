//! Splitting what has grown too large, and merging what has become too small.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use model::PartitionId;

use crate::catalog::{Container, Offer, OfferTarget};
use crate::components::Clock;
use crate::engine::Inner;
use crate::routing::PartitionRange;
use crate::{Engine, Error, RangeId};

use super::{JobReason, Progression, SplitPoint};

const INTERVAL: Duration = Duration::from_secs(1);
/// Jobs that the monitor keeps under way at once.
const JOBS_MAX: usize = 2;
/// Neighbours are merged when together they hold less than this fraction of a partition's limit.
const MERGE_BYTES_PART: u64 = 4;

/// Partitions that could not be split or merged are retried after this long. The others are
/// replaced.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Partitions that were tried, with the monotonic time until which they are left alone.
type RetryTimes = BTreeMap<PartitionId, Duration>;

/// Starts the monitor; it ends with the engine.
pub(crate) fn start(engine: &Engine) {
    let weak = Arc::downgrade(&engine.inner);
    let components = engine.inner.components.clone();
    components.spawner.spawn("monitor", Box::pin(watch(weak, Arc::clone(&components.clock))));
}

async fn watch(engine: Weak<Inner>, clock: Arc<dyn Clock>) {
    let mut retry_times = RetryTimes::new();
    loop {
        let Some(inner) = engine.upgrade() else { return };
        let notify = Arc::clone(&inner.monitor);
        drop(inner);
        tokio::select! {
            biased;
            () = clock.sleep(INTERVAL) => {}
            () = notify.notified() => {}
        }
        let Some(inner) = engine.upgrade() else { return };
        let engine = Engine { inner };
        if engine.inner.commits.is_closed() {
            return;
        }
        engine.inner.jobs.cancel_orphaned(|| engine.catalog());
        engine.check_partitions(&mut retry_times).await;
    }
}

/// What a container needs.
enum RepartitionAction {
    Split(RangeId, JobReason),
    Merge(Vec<RangeId>),
}

impl RepartitionAction {
    fn ranges(&self) -> &[RangeId] {
        match self {
            RepartitionAction::Split(range, _) => std::slice::from_ref(range),
            RepartitionAction::Merge(pair) => pair,
        }
    }
}

impl Engine {
    async fn check_partitions(&self, retry_times: &mut RetryTimes) {
        let now = self.inner.components.clock.monotonic();
        retry_times.retain(|_, until| *until > now);
        let catalog = self.catalog();
        for container in catalog.containers.values() {
            let jobs = self.catalog();
            let own = jobs.jobs.values().filter(|job| job.reason != JobReason::Asked).count();
            if own >= JOBS_MAX {
                return;
            }
            if jobs.jobs.values().any(|job| job.container == container.rid) {
                continue;
            }
            let routing = container.routing();
            let free: Vec<_> = routing
                .ranges()
                .iter()
                .filter(|r| !retry_times.contains_key(&r.partition.id))
                .collect();
            let Some(action) = self.needed_action(container, &free) else { continue };
            for range in action.ranges().iter().filter_map(|id| routing.by_id(*id)) {
                retry_times.insert(range.partition.id, now + RETRY_AFTER);
            }
            if let Err(error) = self.start_action(container, action).await {
                tracing::warn!(container = container.spec.id, %error, "not split or merged");
            }
        }
    }

    async fn start_action(
        &self,
        container: &Container,
        action: RepartitionAction,
    ) -> Result<(), Error> {
        let (rid, how) = (container.rid, Progression::Automatic);
        match action {
            RepartitionAction::Split(range, reason) => {
                self.split_for(rid, range, SplitPoint::ByteMedian, how, reason).await?;
            }
            RepartitionAction::Merge(pair) => {
                self.merge_for(rid, &pair, how, JobReason::Surplus).await?;
            }
        }
        Ok(())
    }

    /// What to do about a container, given those of its ranges that may be changed.
    fn needed_action(
        &self,
        container: &Container,
        free: &[&PartitionRange],
    ) -> Option<RepartitionAction> {
        if container.is_fixed() {
            return None;
        }
        let settings = &self.inner.settings;
        let largest = free.iter().max_by_key(|r| (r.partition.bytes(), u32::MAX - r.id.0))?;
        if largest.partition.bytes() > settings.partition_bytes_max {
            return Some(RepartitionAction::Split(largest.id, JobReason::Storage));
        }
        if self.needs_partitions(container) {
            return Some(RepartitionAction::Split(largest.id, JobReason::Throughput));
        }
        if settings.auto_merge {
            return self.pair_to_merge(container, free).map(RepartitionAction::Merge);
        }
        None
    }

    /// Whether partitions are still to be split for the throughput of an offer.
    pub fn is_scaling(&self, offer: &Offer) -> bool {
        let catalog = self.catalog();
        match offer.target {
            OfferTarget::Container(rid) => {
                catalog.container_by_rid(rid).is_some_and(|c| self.needs_partitions(c))
            }
            OfferTarget::Database(_) => false,
        }
    }

    /// Whether more throughput is provisioned for a container than its partitions can serve.
    pub fn needs_partitions(&self, container: &Container) -> bool {
        if container.is_fixed() {
            return false;
        }
        let served = u64::from(self.inner.settings.partition_ru_max)
            * container.routing().ranges().len() as u64;
        self.provisioned(container.rid) > served
    }

    /// The two neighbours that hold least, if one partition fewer is enough for the throughput.
    fn pair_to_merge(
        &self,
        container: &Container,
        free: &[&PartitionRange],
    ) -> Option<Vec<RangeId>> {
        let settings = &self.inner.settings;
        let left = container.routing().ranges().len() as u64 - 1;
        if self.provisioned(container.rid) > u64::from(settings.partition_ru_planned) * left {
            return None;
        }
        let bytes =
            |pair: &[&PartitionRange]| -> u64 { pair.iter().map(|r| r.partition.bytes()).sum() };
        free.windows(2)
            .filter(|pair| pair[0].epk.max == pair[1].epk.min)
            .filter(|pair| bytes(pair) < settings.partition_bytes_max / MERGE_BYTES_PART)
            .min_by_key(|pair| bytes(pair))
            .map(|pair| pair.iter().map(|r| r.id).collect())
    }
}
