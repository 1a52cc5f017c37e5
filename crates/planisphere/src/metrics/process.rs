//! The process itself and its store.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::connections::Connections;

/// Metrics of the process and the health of its store.
pub(super) struct Process {
    started: SystemTime,
    connections: Connections,
    /// The last known health, because a collector can't wait for a new one.
    pub(super) store: Mutex<storage::Health>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Process")
    }
}

impl Process {
    pub(super) fn new(connections: Connections) -> Self {
        let store = Mutex::new(storage::Health::default());
        Self { started: SystemTime::now(), connections, store }
    }

    fn encode_process(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let uptime = self.started.elapsed().unwrap_or(Duration::ZERO);
        gauge(
            encoder,
            "process_start_time_seconds",
            "When the server started, in seconds since 1970",
            started.as_secs_f64(),
        )?;
        gauge(
            encoder,
            "planisphere_uptime_seconds",
            "How long the server has run",
            uptime.as_secs_f64(),
        )?;
        if let Some(bytes) = resident_bytes() {
            let help = "Memory that the server takes";
            gauge(encoder, "process_resident_memory_bytes", help, bytes as f64)?;
        }
        let open = self.connections.open() as f64;
        gauge(encoder, "planisphere_connections_open", "Open connections", open)
    }

    fn encode_store(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let flag = |is: bool| if is { 1.0 } else { 0.0 };
        gauge(
            encoder,
            "planisphere_store_writable",
            "1 while the store accepts writes",
            flag(store.writable),
        )?;
        gauge(
            encoder,
            "planisphere_store_stalled",
            "1 while the store slows writes down",
            flag(store.stalled),
        )?;
        let bytes = store.disk_bytes as f64;
        let help = "Bytes on disk, journals and the lookup cache included";
        gauge(encoder, "planisphere_store_disk_bytes", help, bytes)?;
        gauge(
            encoder,
            "planisphere_store_journal_bytes",
            "Bytes in journals",
            store.journal_bytes as f64,
        )?;
        let (name, help) = ("planisphere_store_lookup_cache_bytes", "Bytes of the lookup cache");
        gauge(encoder, name, help, store.lookup_cache_bytes as f64)?;
        if let Some(room) = store.room {
            let (free, floor) = (room.free_bytes as f64, room.floor_bytes as f64);
            let help = "Bytes that are free on the disk of the store";
            gauge(encoder, "planisphere_store_disk_free_bytes", help, free)?;
            let help = "Free bytes required to accept writes";
            gauge(encoder, "planisphere_store_disk_floor_bytes", help, floor)?;
        }
        let (name, help) = ("planisphere_store_batches", "Batches that the store has written");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&store.batches, None)
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let build = [("version", env!("CARGO_PKG_VERSION"))];
        let help = "What is running";
        let mut info =
            encoder.encode_descriptor("planisphere_build", help, None, MetricType::Info)?;
        info.encode_info(&build)?;
        self.encode_process(&mut encoder)?;
        self.encode_store(&mut encoder)
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

/// Resident memory in bytes, if the system reports it.
#[cfg(target_os = "linux")]
pub(crate) fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn resident_bytes() -> Option<u64> {
    None
}
