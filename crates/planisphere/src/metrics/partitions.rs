//! Partitions: their size and use.
//!
//! The number of partitions with lines of their own is limited; the rest are summed up in lines
//! whose labels say `other`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use engine::{Container, Engine, PartitionStatus, RangeId};
use model::ContainerRid;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::admin::{ContainerSizes, RangeSize};

/// Partitions with lines of their own.
const SHOWN_MAX: usize = 500;
/// Containers with lines of their own.
const CONTAINERS_SHOWN_MAX: usize = 200;
/// The label for all partitions without lines of their own.
const OTHER: &str = "other";

/// Reads the engine on every collection.
pub(super) struct Partitions {
    engine: Engine,
    others: Mutex<Others>,
}

impl fmt::Debug for Partitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Partitions")
    }
}

/// Identifies a partition among those of all containers, including deleted containers of the same
/// name.
type Number = (ContainerRid, RangeId);

/// The metrics of a partition.
#[derive(Clone, Debug, Default, PartialEq)]
struct PartitionSample {
    database: String,
    container: String,
    partition: String,
    status: Option<&'static str>,
    bytes: u64,
    items: u64,
    counts: Counts,
    /// `None` if there is no limit.
    limit_milli_ru: Option<u64>,
}

/// Counters that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    requests: u64,
    throttled: u64,
    milli_ru: u64,
}

/// The metrics of a container.
struct ContainerSample {
    database: String,
    container: String,
    partitions: u64,
    skew: f64,
}

impl Counts {
    fn add(&mut self, more: Counts) {
        self.requests += more.requests;
        self.throttled += more.throttled;
        self.milli_ru += more.milli_ru;
    }

    /// The increase since `before`. Counters that restarted count in full.
    fn since(self, before: Counts) -> Counts {
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        Counts {
            requests: since(self.requests, before.requests),
            throttled: since(self.throttled, before.throttled),
            milli_ru: since(self.milli_ru, before.milli_ru),
        }
    }
}

/// Counts of partitions without lines of their own. The set of these partitions changes, so that
/// their sum could fall. Instead, each partition's increase since the last collection is added to a
/// total.
#[derive(Debug, Default)]
struct Others {
    sum: Counts,
    /// The counts of every partition at the last collection.
    last: BTreeMap<Number, Counts>,
}

impl Others {
    /// The first `shown` lines, and one more with the sum of the others.
    fn sum_up(
        &mut self,
        mut lines: Vec<(Number, PartitionSample)>,
        shown: usize,
    ) -> Vec<PartitionSample> {
        let last = lines.iter().map(|(number, line)| (*number, line.counts)).collect();
        let last = std::mem::replace(&mut self.last, last);
        let others = lines.split_off(shown.min(lines.len()));
        let mut out: Vec<PartitionSample> = lines.into_iter().map(|(_, line)| line).collect();
        if others.is_empty() {
            return out;
        }
        let [database, container, partition] = [(); 3].map(|()| OTHER.to_owned());
        let mut sum =
            PartitionSample { database, container, partition, ..PartitionSample::default() };
        for (number, line) in others {
            let before = last.get(&number).copied().unwrap_or_default();
            self.sum.add(line.counts.since(before));
            sum.bytes += line.bytes;
            sum.items += line.items;
            let limits = sum.limit_milli_ru.into_iter().chain(line.limit_milli_ru);
            sum.limit_milli_ru = limits.reduce(|a, b| a + b);
        }
        sum.counts = self.sum;
        out.push(sum);
        out
    }
}

impl Partitions {
    pub(super) fn new(engine: Engine) -> Self {
        Self { engine, others: Mutex::default() }
    }

    /// Oldest first, so that the same partitions keep their lines. Sizes are read once, so that
    /// figures agree.
    fn containers(&self) -> Vec<(Arc<Container>, ContainerSizes)> {
        let catalog = self.engine.catalog();
        let containers = catalog.databases().flat_map(|database| catalog.containers(database.rid));
        containers.map(|container| (Arc::clone(container), ContainerSizes::of(container))).collect()
    }

    fn lines(&self, containers: &[(Arc<Container>, ContainerSizes)]) -> Vec<PartitionSample> {
        let all = containers.iter().flat_map(|(container, sizes)| self.lines_of(container, sizes));
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.sum_up(all.collect(), SHOWN_MAX)
    }

    fn lines_of(
        &self,
        container: &Container,
        sizes: &ContainerSizes,
    ) -> Vec<(Number, PartitionSample)> {
        let usage: BTreeMap<_, _> = self.engine.usage(container).into_iter().collect();
        let line = |RangeSize { range, bytes, items }: &RangeSize| {
            let used = usage.get(&range.id);
            let line = PartitionSample {
                database: container.database_id.clone(),
                container: container.spec.id.clone(),
                partition: range.id.to_string(),
                status: Some(status(range.status())),
                bytes: *bytes,
                items: *items,
                counts: used.map_or_else(Counts::default, |used| Counts {
                    requests: used.served,
                    throttled: used.throttled,
                    milli_ru: used.consumed.as_milli(),
                }),
                limit_milli_ru: used.and_then(|used| used.limit).map(|limit| limit.as_milli()),
            };
            ((container.rid, range.id), line)
        };
        sizes.ranges.iter().map(line).collect()
    }
}

fn status(status: PartitionStatus) -> &'static str {
    match status {
        PartitionStatus::Online => "online",
        PartitionStatus::Splitting => "splitting",
        PartitionStatus::Merging => "merging",
        PartitionStatus::Swapping => "swapping",
        PartitionStatus::Gone => "gone",
    }
}

impl Collector for Partitions {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let containers = self.containers();
        encode_containers(&mut encoder, &containers)?;
        let lines = self.lines(&containers);
        let gauges: [Gauge; 3] = [
            ("planisphere_partition_bytes", "Bytes that a partition holds", |line| {
                Some(line.bytes as f64)
            }),
            ("planisphere_partition_items", "Items that a partition holds", |line| {
                Some(line.items as f64)
            }),
            (
                "planisphere_partition_request_units_limit",
                "Request units per second that a partition may use, if it is limited",
                |line| line.limit_milli_ru.map(|limit| limit as f64 / 1000.0),
            ),
        ];
        for (name, help, value) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for line in &lines {
                let Some(value) = value(line) else { continue };
                family.encode_family(&labels(line))?.encode_gauge(&value)?;
            }
        }
        let counters: [Counter; 3] = [
            (
                "planisphere_partition_request_units",
                "Request units that a partition used",
                |counts| counts.milli_ru as f64 / 1000.0,
            ),
            ("planisphere_partition_requests", "Requests that a partition served", |counts| {
                counts.requests as f64
            }),
            (
                "planisphere_partition_throttled_requests",
                "Requests that a partition refused with 429",
                |counts| counts.throttled as f64,
            ),
        ];
        for (name, help, value) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for line in &lines {
                let labels = labels(line);
                let mut metric = family.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, _, f64>(&value(&line.counts), None)?;
            }
        }
        encode_statuses(&mut encoder, &lines)
    }
}

/// Name, explanation and value of a metric; without a value there is no line.
type Gauge = (&'static str, &'static str, fn(&PartitionSample) -> Option<f64>);
type Counter = (&'static str, &'static str, fn(&Counts) -> f64);

fn labels(line: &PartitionSample) -> [(&'static str, &str); 3] {
    [("database", &line.database), ("container", &line.container), ("partition", &line.partition)]
}

/// One line for the current status of each partition; other statuses would be 0 and are left out.
fn encode_statuses(encoder: &mut DescriptorEncoder<'_>, lines: &[PartitionSample]) -> fmt::Result {
    let (name, help) = ("planisphere_partition_status", "1 for the status that a partition has");
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for line in lines {
        let Some(status) = line.status else { continue };
        let [database, container, partition] = labels(line);
        let labels = [database, container, partition, ("status", status)];
        family.encode_family(&labels)?.encode_gauge(&1u64)?;
    }
    Ok(())
}

fn encode_containers(
    encoder: &mut DescriptorEncoder<'_>,
    containers: &[(Arc<Container>, ContainerSizes)],
) -> fmt::Result {
    let mut total = encoder.encode_descriptor(
        "planisphere_containers",
        "Containers there are",
        None,
        MetricType::Gauge,
    )?;
    total.encode_gauge(&(containers.len() as u64))?;
    let lines: Vec<ContainerSample> =
        containers.iter().take(CONTAINERS_SHOWN_MAX).map(container_line).collect();
    let help = "Partitions of a container";
    let mut family = encoder.encode_descriptor(
        "planisphere_container_partitions",
        help,
        None,
        MetricType::Gauge,
    )?;
    for line in &lines {
        let labels = [("database", line.database.as_str()), ("container", &line.container)];
        family.encode_family(&labels)?.encode_gauge(&line.partitions)?;
    }
    let help = "Bytes of a container's largest partition divided by the average of its partitions";
    let mut family =
        encoder.encode_descriptor("planisphere_container_skew", help, None, MetricType::Gauge)?;
    for line in &lines {
        let labels = [("database", line.database.as_str()), ("container", &line.container)];
        family.encode_family(&labels)?.encode_gauge(&line.skew)?;
    }
    Ok(())
}

fn container_line((container, sizes): &(Arc<Container>, ContainerSizes)) -> ContainerSample {
    ContainerSample {
        database: container.database_id.clone(),
        container: container.spec.id.clone(),
        partitions: sizes.ranges.len() as u64,
        skew: sizes.skew(),
    }
}

#[cfg(test)]
mod tests {
    use engine::{Components, Settings, Throughput};
    use model::DatabaseRid;
    use storage::MemoryStore;
    use testkit::harness::test_context;

    use super::*;

    const CONTAINER: ContainerRid = ContainerRid { database: DatabaseRid(1), number: 1 };

    /// Partition `n` with this count of requests.
    fn line(n: u32, requests: u64) -> (Number, PartitionSample) {
        let line = PartitionSample {
            partition: n.to_string(),
            status: Some("online"),
            bytes: u64::from(n),
            counts: Counts { requests, throttled: 1, milli_ru: 1000 },
            limit_milli_ru: (n != 3).then_some(400),
            ..PartitionSample::default()
        };
        ((CONTAINER, RangeId(n)), line)
    }

    #[test]
    fn what_is_not_shown_is_summed_up() {
        let lines = || (0..5).map(|n| line(n, 7)).collect();
        let all = Others::default().sum_up(lines(), 5);
        assert_eq!(all.len(), 5);
        let some = Others::default().sum_up(lines(), 2);
        assert_eq!(some[..2], all[..2]);
        let [.., sum] = &some[..] else { panic!("a sum") };
        assert_eq!((some.len(), sum.partition.as_str(), sum.status), (3, OTHER, None));
        assert_eq!((sum.bytes, sum.limit_milli_ru), (2 + 3 + 4, Some(800)));
        assert_eq!(sum.counts, Counts { requests: 21, throttled: 3, milli_ru: 3000 });
    }

    #[test]
    fn the_sum_never_falls_whichever_partitions_it_is_of() {
        let mut others = Others::default();
        let mut looked = |lines: &[(u32, u64)]| {
            let lines = lines.iter().map(|(n, requests)| line(*n, *requests)).collect();
            others.sum_up(lines, 2).get(2).map(|sum| sum.counts.requests)
        };
        assert_eq!(looked(&[(0, 10), (1, 10), (2, 10), (3, 10)]), Some(20));
        assert_eq!(looked(&[(0, 10), (1, 10), (2, 15), (3, 10)]), Some(25));
        // Partition 0 is removed, so that 2 gets lines of its own.
        assert_eq!(looked(&[(1, 10), (2, 16), (3, 11)]), Some(26));
        // Partition 4 is added, and the counter of 3 restarts.
        assert_eq!(looked(&[(1, 10), (2, 16), (3, 2), (4, 3)]), Some(26 + 2 + 3));
        assert_eq!(looked(&[(3, 2), (4, 3)]), None);
        // Partition 4 had lines of its own in the meantime.
        assert_eq!(looked(&[(3, 2), (5, 0), (4, 9)]), Some(31 + 6));
    }

    #[tokio::test]
    async fn only_what_is_limited_has_a_limit() {
        for (throttling, lines) in [
            (engine::Throttling::On, 1),
            (engine::Throttling::Provisioned, 1),
            (engine::Throttling::Off, 0),
        ] {
            let components = Components::system(tokio::runtime::Handle::current());
            let settings = Settings { throttling, ..Settings::default() };
            let engine = Engine::open(Arc::new(MemoryStore::new()), components, settings).unwrap();
            let database = engine.create_database(&test_context(), "db", None).await.unwrap();
            let spec = testkit::harness::spec("c");
            let throughput = Some(Throughput::Manual(400));
            engine.create_container(&test_context(), database.rid, spec, throughput).await.unwrap();
            let text = super::super::tests::encoded(Partitions::new(engine));
            let limits = "planisphere_partition_request_units_limit{";
            let found: Vec<_> = text.lines().filter(|line| line.starts_with(limits)).collect();
            assert_eq!(found.len(), lines, "{found:?}");
            assert!(found.iter().all(|line| line.ends_with(" 400.0")), "{found:?}");
        }
    }
}
