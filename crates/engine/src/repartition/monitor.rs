//! Splitting what has grown too large, and merging what has become too small.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use model::PartitionId;

use crate::catalog::{Container, Offer, OfferTarget};
use crate::components::Clock;
use crate::engine::Inner;
use crate::routing::PartitionRange;
use crate::{Engine, RangeId};

use super::job::JobRequest;
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
            let Some(request) = self.needed_job(container, &free) else { continue };
            for range in request.sources.iter().filter_map(|id| routing.by_id(*id)) {
                retry_times.insert(range.partition.id, now + RETRY_AFTER);
            }
            if let Err(error) = self.begin_job(request).await {
                tracing::warn!(container = container.spec.id, %error, "not split or merged");
            }
        }
    }

    /// What to do about a container, given those of its ranges that may be changed.
    fn needed_job(&self, container: &Container, free: &[&PartitionRange]) -> Option<JobRequest> {
        if container.is_fixed() {
            return None;
        }
        let job = |sources, split_at, reason| {
            let (container, progression) = (container.rid, Progression::Automatic);
            Some(JobRequest { container, sources, split_at, progression, reason })
        };
        let settings = &self.inner.settings;
        let largest = free.iter().max_by_key(|r| (r.partition.bytes(), u32::MAX - r.id.0))?;
        if largest.partition.bytes() > settings.partition_bytes_max {
            return job(vec![largest.id], Some(SplitPoint::ByteMedian), JobReason::Storage);
        }
        if self.needs_partitions(container) {
            return job(vec![largest.id], Some(SplitPoint::ByteMedian), JobReason::Throughput);
        }
        if settings.auto_merge {
            return job(self.pair_to_merge(container, free)?, None, JobReason::Surplus);
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
