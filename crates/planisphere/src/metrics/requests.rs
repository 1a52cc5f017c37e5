//! Requests by kind, status and latency.
//!
//! Every request is counted here, so the cost matters: a search in a small table and four relaxed
//! additions, nothing allocated and nothing locked.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use account::Observer;
use api_nosql::{Observation, Operation, Wire};
use api_table::Operation as TableOperation;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::{DirectCounters, FormatCounters};

/// Upper bounds of the latency buckets, in nanoseconds.
const BOUNDS: [u64; 17] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Statuses with their own counter; all others share the last one.
const STATUSES: [u16; 25] = [
    200, 201, 202, 204, 207, 304, 400, 401, 403, 404, 405, 408, 409, 410, 412, 413, 415, 423, 424,
    429, 431, 449, 500, 501, 503,
];

/// Counts of all requests since the start.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pub(crate) formats: FormatCounters,
    pub(crate) direct: Arc<DirectCounters>,
    operations: [[OperationCounters; Operation::ALL.len()]; Wire::ALL.len()],
    of_tables: [OperationCounters; TableOperation::ALL.len()],
    of_mongo: OfMongo,
}

/// Commands of the MongoDB API, of which most are never used.
#[derive(Debug)]
struct OfMongo(Box<[OperationCounters]>);

impl Default for OfMongo {
    fn default() -> Self {
        Self(api_mongo::Operation::all().map(|_| OperationCounters::default()).collect())
    }
}

/// Requests of one kind. Kinds do not share cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct OperationCounters {
    statuses: [AtomicU64; STATUSES.len() + 1],
    times: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
}

impl OperationCounters {
    fn count(&self, status: u16, elapsed: Duration) {
        // Counters are independent: no other data depends on them.
        let add = |counter: &AtomicU64, amount| counter.fetch_add(amount, Ordering::Relaxed);
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let status = STATUSES.binary_search(&status).unwrap_or(STATUSES.len());
        add(&self.statuses[status], 1);
        add(&self.times[BOUNDS.partition_point(|bound| *bound < nanos)], 1);
        add(&self.nanos, nanos);
    }
}

impl Observer<Observation> for Requests {
    fn answered(&self, observation: &Observation) {
        let operations = &self.operations[observation.format.wire as usize];
        let counts = &operations[observation.operation as usize];
        counts.count(observation.status, observation.elapsed);
        self.formats.count(&observation.format);
    }
}

impl Observer<api_table::Observation> for Requests {
    fn answered(&self, observation: &api_table::Observation) {
        let counts = &self.of_tables[observation.operation as usize];
        counts.count(observation.status, observation.elapsed);
    }
}

impl Observer<api_mongo::Observation> for Requests {
    fn answered(&self, observation: &api_mongo::Observation) {
        if let Some(counts) = self.of_mongo.0.get(observation.operation.index()) {
            counts.count(observation.status, observation.elapsed);
        }
    }
}

impl Requests {
    /// Counts with the labels of their API, wire and operation.
    fn each(
        &self,
    ) -> impl Iterator<Item = ([(&'static str, &'static str); 3], &OperationCounters)> {
        let labels = |api, wire: Wire, operation| {
            [("api", api), ("wire", wire.name()), ("operation", operation)]
        };
        let mongo = api_mongo::Operation::all().zip(&self.of_mongo.0);
        let mongo = mongo.map(|(operation, counts)| {
            let labels = [("api", "mongo"), ("wire", "mongo"), ("operation", operation.name())];
            (labels, counts)
        });
        let nosql = Wire::ALL.into_iter().zip(&self.operations).flat_map(move |(wire, counts)| {
            let operations = Operation::ALL.into_iter().zip(counts);
            operations
                .map(move |(operation, counts)| (labels("nosql", wire, operation.name()), counts))
        });
        let tables = TableOperation::ALL.into_iter().zip(&self.of_tables);
        let tables = tables.map(move |(operation, counts)| {
            (labels("table", Wire::Http, operation.name()), counts)
        });
        nosql.chain(tables).chain(mongo)
    }

    fn encode_counts(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests answered";
        let mut family =
            encoder.encode_descriptor("planisphere_requests", help, None, MetricType::Counter)?;
        for ([api, wire, operation], counts) in self.each() {
            for (at, counter) in counts.statuses.iter().enumerate() {
                let count = counter.load(Ordering::Relaxed);
                if count == 0 {
                    continue;
                }
                let status = STATUSES.get(at).map_or("other".to_owned(), ToString::to_string);
                let labels = [api, wire, operation, ("status", &status)];
                let mut metric = family.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
            }
        }
        Ok(())
    }

    fn encode_times(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) =
            ("planisphere_request_duration_seconds", "Time from a request's head to its reply");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, counts) in self.each() {
            let bounds = BOUNDS.iter().map(|nanos| seconds(*nanos)).chain([f64::INFINITY]);
            let times = counts.times.iter().map(|counter| counter.load(Ordering::Relaxed));
            let buckets: Vec<(f64, u64)> = bounds.zip(times).collect();
            let count = buckets.iter().map(|(_, count)| count).sum();
            if count == 0 {
                continue;
            }
            let sum = seconds(counts.nanos.load(Ordering::Relaxed));
            let mut metric = family.encode_family(&labels)?;
            metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}

impl Collector for Requests {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_counts(&mut encoder)?;
        self.encode_times(&mut encoder)
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use api_nosql::WireFormat;

    use super::*;

    fn observation(operation: Operation, status: u16, micros: u64) -> Observation {
        let elapsed = Duration::from_micros(micros);
        Observation { operation, status, elapsed, format: WireFormat::default() }
    }

    #[test]
    fn tables_are_in_order() {
        assert!(BOUNDS.is_sorted() && STATUSES.is_sorted());
    }

    /// Checks that operations are listed in the order of their numbers and have distinct names.
    fn check_operations(operations: &[(usize, &str)]) {
        let mut names: Vec<_> = operations.iter().map(|(_, name)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), operations.len());
        assert!(operations.iter().enumerate().all(|(at, (number, _))| at == *number));
    }

    #[test]
    fn operations_are_numbered_in_order_and_named_apart() {
        check_operations(&Operation::ALL.map(|operation| (operation as usize, operation.name())));
        check_operations(
            &TableOperation::ALL.map(|operation| (operation as usize, operation.name())),
        );
    }

    #[test]
    fn requests_are_counted_by_kind_status_and_time() {
        let requests = Requests::default();
        requests.answered(&observation(Operation::ReadItem, 200, 60));
        requests.answered(&observation(Operation::ReadItem, 200, 100));
        requests.answered(&observation(Operation::ReadItem, 418, 20_000_000));
        requests.answered(&observation(Operation::Other, 401, 1));
        let text = super::super::tests::encoded(requests);
        for line in [
            r#"planisphere_requests_total{api="nosql",wire="http",operation="read_item",status="200"} 2"#,
            r#"planisphere_requests_total{api="nosql",wire="http",operation="read_item",status="other"} 1"#,
            r#"planisphere_requests_total{api="nosql",wire="http",operation="other",status="401"} 1"#,
            r#"planisphere_request_duration_seconds_bucket{le="0.00005",api="nosql",wire="http",operation="read_item"} 0"#,
            r#"planisphere_request_duration_seconds_bucket{le="0.0001",api="nosql",wire="http",operation="read_item"} 2"#,
            r#"planisphere_request_duration_seconds_bucket{le="10.0",api="nosql",wire="http",operation="read_item"} 2"#,
            r#"planisphere_request_duration_seconds_bucket{le="+Inf",api="nosql",wire="http",operation="read_item"} 3"#,
            r#"planisphere_request_duration_seconds_sum{api="nosql",wire="http",operation="read_item"} 20.00016"#,
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line} is not in\n{text}");
        }
        // Counters that are zero have no lines.
        assert!(!text.contains("patch_item"));
    }

    #[test]
    fn requests_for_tables_are_counted_apart() {
        let requests = Requests::default();
        let (operation, elapsed) = (TableOperation::GetEntity, Duration::from_micros(60));
        let observation = api_table::Observation { operation, status: 404, elapsed, format: () };
        requests.answered(&observation);
        let text = super::super::tests::encoded(requests);
        let line = r#"planisphere_requests_total{api="table",wire="http",operation="get_entity",status="404"} 1"#;
        assert!(text.contains(line), "{text}");
        assert!(!text.contains("nosql"));
    }

    #[test]
    fn nothing_is_lost_when_many_count_at_once() {
        const THREADS: u64 = 4;
        const EACH: u64 = 2_000;
        let requests = Requests::default();
        let count = |status| {
            (0..EACH)
                .for_each(|_| requests.answered(&observation(Operation::ReadItem, status, 80)));
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || count(if thread == 0 { 404 } else { 200 }));
            }
        });
        let text = super::super::tests::encoded(requests);
        let labels = r#"api="nosql",wire="http",operation="read_item""#;
        for (line, expected) in [
            (format!(r#"requests_total{{{labels},status="404"}}"#), EACH),
            (format!(r#"requests_total{{{labels},status="200"}}"#), (THREADS - 1) * EACH),
            (format!("request_duration_seconds_count{{{labels}}}"), THREADS * EACH),
        ] {
            let line = format!("planisphere_{line} {expected}\n");
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
}
