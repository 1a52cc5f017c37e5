//! The metrics of the process.
//!
//! The registry belongs to its owner, so that several servers in one process do not share counters.
//! Counts of requests are in [`requests`]; everything else is read from the engine when metrics are
//! requested. `docs/operations.md` lists all metrics.

mod direct;
mod formats;
mod jobs;
mod partitions;
mod process;
mod requests;

use std::sync::{Arc, PoisonError};

use engine::Engine;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use crate::connections::Connections;
use crate::health::Health;

pub(crate) use direct::DirectCounters;
pub(crate) use formats::{FormatCounters, FormatCounts};
use process::Process;
pub(crate) use process::resident_bytes;
pub(crate) use requests::Requests;

/// The type of what [`Metrics::text`] returns.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of a server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Arc<Requests>,
    process: Arc<Process>,
    health: Arc<Health>,
}

impl Metrics {
    pub(crate) fn new(
        engine: &Engine,
        requests: Arc<Requests>,
        connections: Connections,
        health: Arc<Health>,
    ) -> Self {
        let process = Arc::new(Process::new(connections));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Arc::clone(&process)));
        registry.register_collector(Box::new(Arc::clone(&requests)));
        registry.register_collector(Box::new(Arc::clone(&requests.direct)));
        registry.register_collector(Box::new(partitions::Partitions::new(engine.clone())));
        registry.register_collector(Box::new(jobs::Jobs { engine: engine.clone() }));
        Self { registry, requests, process, health }
    }

    /// Counts of requests.
    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// All metrics in the text form of OpenMetrics.
    pub(crate) async fn text(&self) -> Result<String, std::fmt::Error> {
        let store = self.health.get().await;
        *self.process.store.lock().unwrap_or_else(PoisonError::into_inner) = store;
        let mut out = String::with_capacity(16 << 10);
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::Components;
    use prometheus_client::collector::Collector;
    use storage::MemoryStore;

    use super::*;
    use crate::connections::ConnectionLimits;

    #[tokio::test]
    async fn every_metric_is_explained() {
        let components = Components::system(tokio::runtime::Handle::current());
        let settings = engine::Settings::default();
        let engine = Engine::open(Arc::new(MemoryStore::new()), components, settings).unwrap();
        let long = Duration::from_secs(3600);
        let limits = ConnectionLimits { open_max: 1, head: long, body: long };
        let health = Arc::new(Health::new(engine.clone()));
        let connections = Connections::new(limits);
        let metrics = Metrics::new(&engine, Arc::default(), connections, health);
        let text = metrics.text().await.unwrap();
        let explained = include_str!("../../../../docs/operations.md");
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let mut count = 0;
        for (name, kind) in types.filter_map(|line| line.split_once(' ')) {
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            assert!(explained.contains(&format!("`{name}{suffix}`")), "{name} is not explained");
            count += 1;
        }
        assert!(count > 20, "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    /// The text of a collector.
    pub(super) fn encoded(collector: impl Collector) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(collector));
        let mut out = String::new();
        text::encode(&mut out, &registry).unwrap();
        out
    }
}
