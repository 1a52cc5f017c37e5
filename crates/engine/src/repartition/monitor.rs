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
/// Neighbours are merged when together they hold less than this part of what one may.
const MERGE_BYTES_PART: u64 = 4;

/// Partitions found to hold one key only, with the bytes they held then.
type Unsplittable = BTreeMap<PartitionId, u64>;

/// Starts the monitor; it ends with the engine.
pub(crate) fn start(engine: &Engine) {
    let weak = Arc::downgrade(&engine.inner);
    let components = engine.inner.components.clone();
    components.spawner.spawn("monitor", Box::pin(watch(weak, Arc::clone(&components.clock))));
}

async fn watch(engine: Weak<Inner>, clock: Arc<dyn Clock>) {
    let mut unsplittable = Unsplittable::new();
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
        engine.look_after_partitions(&mut unsplittable).await;
    }
}

/// What a container needs.
enum Need {
    Split(RangeId, JobReason),
    Merge(Vec<RangeId>),
}

impl Engine {
    async fn look_after_partitions(&self, unsplittable: &mut Unsplittable) {
        let catalog = self.catalog();
        for container in catalog.containers.values() {
            let jobs = self.catalog();
            let own = jobs.jobs.values().filter(|job| job.reason != JobReason::Asked).count();
            if own >= JOBS_MAX {
                return;
            }
            let is_busy = catalog.jobs.values().any(|job| job.container == container.rid);
            if is_busy {
                continue;
            }
            let Some(need) = self.need_of(container, unsplittable) else { continue };
            let begun = match &need {
                Need::Split(range, reason) => {
                    let (point, progression) = (SplitPoint::ByteMedian, Progression::Automatic);
                    self.split_for(container.rid, *range, point, progression, *reason).await
                }
                Need::Merge(ranges) => {
                    let (rid, reason) = (container.rid, JobReason::Surplus);
                    self.merge_for(rid, ranges, Progression::Automatic, reason).await
                }
            };
            match (begun, need) {
                (Err(Error::NotPartitionable(why)), Need::Split(range, _)) => {
                    let routing = container.routing();
                    let Some(range) = routing.by_id(range) else { continue };
                    tracing::warn!(container = container.spec.id, range = %range.id, why, "not split");
                    unsplittable.insert(range.partition.id, range.partition.bytes());
                }
                (Err(error), _) => {
                    tracing::warn!(container = container.spec.id, %error, "not split or merged");
                }
                (Ok(_), _) => {}
            }
        }
        let is_live = |p: &PartitionId| {
            let ranges = |c: &Arc<Container>| {
                c.routing().ranges().iter().any(|r: &PartitionRange| r.partition.id == *p)
            };
            catalog.containers.values().any(ranges)
        };
        unsplittable.retain(|p, _| is_live(p));
    }

    fn need_of(&self, container: &Container, unsplittable: &Unsplittable) -> Option<Need> {
        if container.is_fixed() {
            return None;
        }
        let settings = &self.inner.settings;
        let routing = container.routing();
        let ranges = routing.ranges();
        // One that could not be split is looked at again when a tenth more has come.
        let is_tried = |r: &PartitionRange| {
            let before = unsplittable.get(&r.partition.id);
            before.is_some_and(|bytes| r.partition.bytes() < bytes + bytes / 10)
        };
        let largest = ranges.iter().max_by_key(|r| (r.partition.bytes(), u32::MAX - r.id.0))?;
        let full = ranges
            .iter()
            .filter(|r| r.partition.bytes() > settings.partition_bytes_max && !is_tried(r))
            .max_by_key(|r| r.partition.bytes());
        if let Some(full) = full {
            return Some(Need::Split(full.id, JobReason::Storage));
        }
        if self.needs_partitions(container) {
            return Some(Need::Split(largest.id, JobReason::Throughput));
        }
        if settings.auto_merge {
            return self.pair_to_merge(container, ranges).map(Need::Merge);
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

    /// Whether a container was promised more than its partitions can serve.
    pub fn needs_partitions(&self, container: &Container) -> bool {
        if container.is_fixed() {
            return false;
        }
        let served = u64::from(self.inner.settings.partition_ru_max)
            * container.routing().ranges().len() as u64;
        self.provisioned(container.rid) > served
    }

    /// The two neighbours that hold least, if one partition fewer is enough for everything.
    fn pair_to_merge(
        &self,
        container: &Container,
        ranges: &[PartitionRange],
    ) -> Option<Vec<RangeId>> {
        let settings = &self.inner.settings;
        let planned = u64::from(settings.partition_ru_planned) * (ranges.len() as u64 - 1);
        if self.provisioned(container.rid) > planned {
            return None;
        }
        let bytes =
            |pair: &[PartitionRange]| -> u64 { pair.iter().map(|r| r.partition.bytes()).sum() };
        ranges
            .windows(2)
            .filter(|pair| bytes(pair) < settings.partition_bytes_max / MERGE_BYTES_PART)
            .min_by_key(|pair| bytes(pair))
            .map(|pair| pair.iter().map(|r| r.id).collect())
    }
}
