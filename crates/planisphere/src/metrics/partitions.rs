//! Partitions: what they hold and use.
//!
//! Each has some lines of its own, so only so many are shown; the rest are summed up in lines whose
//! labels say `other`.

use std::fmt;
use std::sync::Arc;

use engine::{Container, Engine, PartitionStatus};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::admin::Held;

/// Partitions with lines of their own.
const SHOWN_MAX: usize = 500;
/// Containers with lines of their own.
const CONTAINERS_SHOWN_MAX: usize = 200;
/// Stands for all that are not shown by themselves.
const OTHER: &str = "other";

/// Reads the engine whenever it is asked.
pub(super) struct Partitions {
    pub(super) engine: Engine,
}

impl fmt::Debug for Partitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Partitions")
    }
}

/// What is told of a partition.
#[derive(Clone, Debug, Default, PartialEq)]
struct Line {
    database: String,
    container: String,
    partition: String,
    status: Option<&'static str>,
    bytes: u64,
    items: u64,
    requests: u64,
    throttled: u64,
    milli_ru: u64,
    limit_milli_ru: u64,
}

/// What is told of a container.
struct ContainerLine {
    database: String,
    container: String,
    partitions: u64,
    skew: f64,
}

impl Partitions {
    fn containers(&self) -> Vec<Arc<Container>> {
        let catalog = self.engine.catalog();
        let containers = catalog.databases().flat_map(|database| catalog.containers(database.rid));
        containers.cloned().collect()
    }

    /// Oldest first, so that the same partitions keep their lines.
    fn lines(&self, containers: &[Arc<Container>]) -> Vec<Line> {
        let all = containers.iter().flat_map(|container| self.lines_of(container));
        summed_up(all, SHOWN_MAX)
    }

    fn lines_of(&self, container: &Container) -> Vec<Line> {
        let routing = container.routing();
        let usage = self.engine.usage(container);
        let line = |range: &engine::PartitionRange| {
            let used = usage.iter().find(|(id, _)| *id == range.id).map(|(_, used)| used);
            Line {
                database: container.database_id.clone(),
                container: container.spec.id.clone(),
                partition: range.id.to_string(),
                status: Some(status(range.status())),
                bytes: range.bytes(),
                items: range.items(),
                requests: used.map_or(0, |used| used.served),
                throttled: used.map_or(0, |used| used.throttled),
                milli_ru: used.map_or(0, |used| used.consumed.as_milli()),
                limit_milli_ru: used.and_then(|used| used.limit).map_or(0, |l| l.as_milli()),
            }
        };
        routing.ranges().iter().map(line).collect()
    }
}

/// The first `shown` lines, and one more that sums up the others.
fn summed_up(lines: impl Iterator<Item = Line>, shown: usize) -> Vec<Line> {
    let mut out: Vec<Line> = Vec::new();
    for line in lines {
        if out.len() < shown {
            out.push(line);
            continue;
        }
        if out.len() == shown {
            let named = OTHER.to_owned();
            let (database, container) = (named.clone(), named.clone());
            out.push(Line { database, container, partition: named, ..Line::default() });
        }
        if let Some(sum) = out.last_mut() {
            sum.bytes += line.bytes;
            sum.items += line.items;
            sum.requests += line.requests;
            sum.throttled += line.throttled;
            sum.milli_ru += line.milli_ru;
            sum.limit_milli_ru += line.limit_milli_ru;
        }
    }
    out
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
                line.bytes as f64
            }),
            ("planisphere_partition_items", "Items that a partition holds", |line| {
                line.items as f64
            }),
            (
                "planisphere_partition_request_units_limit",
                "Request units per second that a partition may use; 0 when nothing limits it",
                |line| line.limit_milli_ru as f64 / 1000.0,
            ),
        ];
        for (name, help, value) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for line in &lines {
                family.encode_family(&labels(line))?.encode_gauge(&value(line))?;
            }
        }
        let counters: [Gauge; 3] = [
            (
                "planisphere_partition_request_units",
                "Request units that a partition used",
                |line| line.milli_ru as f64 / 1000.0,
            ),
            ("planisphere_partition_requests", "Requests that a partition served", |line| {
                line.requests as f64
            }),
            (
                "planisphere_partition_throttled_requests",
                "Requests that a partition refused with 429",
                |line| line.throttled as f64,
            ),
        ];
        for (name, help, value) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for line in &lines {
                let labels = labels(line);
                let mut metric = family.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, _, f64>(&value(line), None)?;
            }
        }
        encode_statuses(&mut encoder, &lines)
    }
}

/// Name, explanation and value of a metric.
type Gauge = (&'static str, &'static str, fn(&Line) -> f64);

fn labels(line: &Line) -> [(&'static str, &str); 3] {
    [("database", &line.database), ("container", &line.container), ("partition", &line.partition)]
}

/// One line for the status that each partition has; the others are 0 and left out.
fn encode_statuses(encoder: &mut DescriptorEncoder<'_>, lines: &[Line]) -> fmt::Result {
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
    containers: &[Arc<Container>],
) -> fmt::Result {
    let mut total = encoder.encode_descriptor(
        "planisphere_containers",
        "Containers there are",
        None,
        MetricType::Gauge,
    )?;
    total.encode_gauge(&(containers.len() as u64))?;
    let lines: Vec<ContainerLine> =
        containers.iter().take(CONTAINERS_SHOWN_MAX).map(|c| container_line(c)).collect();
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
    let help = "How many times its fair share of bytes a container's largest partition holds";
    let mut family =
        encoder.encode_descriptor("planisphere_container_skew", help, None, MetricType::Gauge)?;
    for line in &lines {
        let labels = [("database", line.database.as_str()), ("container", &line.container)];
        family.encode_family(&labels)?.encode_gauge(&line.skew)?;
    }
    Ok(())
}

fn container_line(container: &Container) -> ContainerLine {
    let held = Held::by(container);
    ContainerLine {
        database: container.database_id.clone(),
        container: container.spec.id.clone(),
        partitions: held.ranges.len() as u64,
        skew: held.skew(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_shown_is_summed_up() {
        let line = |n: u64| Line {
            partition: n.to_string(),
            status: Some("online"),
            bytes: n,
            throttled: 1,
            milli_ru: 1000,
            ..Line::default()
        };
        let all = summed_up((0..5).map(line), 5);
        assert_eq!(all.len(), 5);
        let some = summed_up((0..5).map(line), 2);
        assert_eq!(some[..2], all[..2]);
        let [.., sum] = &some[..] else { panic!("a sum") };
        assert_eq!((some.len(), sum.partition.as_str(), sum.status), (3, OTHER, None));
        assert_eq!((sum.bytes, sum.throttled, sum.milli_ru), (2 + 3 + 4, 3, 3000));
    }
}
