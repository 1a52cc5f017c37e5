//! Connections of clients in Direct mode and their frames.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use api_nosql::BadFrame;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Substatuses of 410 with their own counter; all others share the last one.
const GONE: [u32; 4] = [0, 1000, 1002, 1007];

/// Counts of all connections since the start.
#[derive(Debug, Default)]
pub(crate) struct DirectCounters {
    connections: AtomicU64,
    open: AtomicU64,
    handshakes: AtomicU64,
    refused: AtomicU64,
    in_flight: AtomicU64,
    gone: [AtomicU64; GONE.len() + 1],
    bad: [AtomicU64; BadFrame::ALL.len()],
    received: AtomicU64,
    sent: AtomicU64,
}

/// Counters are independent: no other data depends on them.
fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl DirectCounters {
    /// A connection opened.
    pub(crate) fn opened(&self) {
        add(&self.connections, 1);
        add(&self.open, 1);
    }

    /// A connection ended.
    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// A handshake succeeded.
    pub(crate) fn greeted(&self) {
        add(&self.handshakes, 1);
    }

    /// A handshake was refused.
    pub(crate) fn refused(&self) {
        add(&self.refused, 1);
    }

    /// A request began.
    pub(crate) fn begun(&self) {
        add(&self.in_flight, 1);
    }

    /// So many requests end without an answer, with their connection.
    pub(crate) fn abandoned(&self, requests: usize) {
        self.in_flight.fetch_sub(requests as u64, Ordering::Relaxed);
    }

    /// A request was answered with this status and substatus.
    pub(crate) fn answered(&self, (status, substatus): (u16, u32)) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if status == 410 {
            add(&self.gone[GONE.binary_search(&substatus).unwrap_or(GONE.len())], 1);
        }
    }

    /// A connection ends because of a bad frame.
    pub(crate) fn bad(&self, reason: BadFrame) {
        add(&self.bad[reason as usize], 1);
    }

    /// Bytes were received.
    pub(crate) fn received(&self, bytes: usize) {
        add(&self.received, bytes as u64);
    }

    /// Bytes were sent.
    pub(crate) fn sent(&self, bytes: usize) {
        if bytes > 0 {
            add(&self.sent, bytes as u64);
        }
    }
}

impl Collector for DirectCounters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counters = self;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (name, help, counter) in [
            ("connections", "Connections of clients in Direct mode", &counters.connections),
            ("handshakes", "Handshakes in Direct mode", &counters.handshakes),
            ("refused_handshakes", "Refused handshakes in Direct mode", &counters.refused),
            ("received_bytes", "Bytes received in Direct mode", &counters.received),
            ("sent_bytes", "Bytes sent in Direct mode", &counters.sent),
        ] {
            let name = format!("planisphere_direct_{name}");
            let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&load(counter), None)?;
        }
        for (name, help, gauge) in [
            ("connections_open", "Open connections of clients in Direct mode", &counters.open),
            ("in_flight", "Requests in Direct mode that are not answered", &counters.in_flight),
        ] {
            let name = format!("planisphere_direct_{name}");
            let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
            metric.encode_gauge(&load(gauge))?;
        }
        let help = "Answers in Direct mode by which a client learns that a range is gone";
        let name = "planisphere_direct_gone";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (at, counter) in counters.gone.iter().enumerate().filter(|(_, c)| load(c) > 0) {
            let substatus = GONE.get(at).map_or("other".to_owned(), ToString::to_string);
            let labels = [("substatus", substatus)];
            let mut metric = family.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&load(counter), None)?;
        }
        let help = "Connections in Direct mode that ended because of a bad frame";
        let name = "planisphere_direct_bad_frames";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (reason, counter) in BadFrame::ALL.iter().zip(&counters.bad) {
            if load(counter) > 0 {
                let labels = [("reason", reason.name())];
                let mut metric = family.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, _, u64>(&load(counter), None)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_order() {
        assert!(GONE.is_sorted());
        assert!(BadFrame::ALL.iter().enumerate().all(|(at, reason)| at == *reason as usize));
    }

    #[test]
    fn frames_are_counted() {
        let counters = DirectCounters::default();
        counters.opened();
        counters.opened();
        counters.closed();
        (0..3).for_each(|_| counters.begun());
        counters.answered((410, 1007));
        counters.answered((200, 0));
        counters.bad(BadFrame::Duplicate);
        let text = super::super::tests::encoded(counters);
        for line in [
            "planisphere_direct_connections_total 2",
            "planisphere_direct_connections_open 1",
            "planisphere_direct_in_flight 1",
            r#"planisphere_direct_gone_total{substatus="1007"} 1"#,
            r#"planisphere_direct_bad_frames_total{reason="duplicate"} 1"#,
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line} is not in\n{text}");
        }
    }
}
