//! Counts of the wire formats of requests and replies.

use std::sync::atomic::{AtomicU64, Ordering};

use api_nosql::{RequestedConsistency, WireFormat};
use serde::Serialize;

/// Running counts.
#[derive(Debug, Default)]
pub(crate) struct FormatCounters {
    accepts_binary: AtomicU64,
    request_is_binary: AtomicU64,
    reply_is_binary: AtomicU64,
    consistency: [AtomicU64; 5],
}

/// The counts at one moment, with the names of the management API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FormatCounts {
    binary_negotiated_requests: u64,
    binary_payload_requests: u64,
    binary_response_payloads: u64,
    default_consistency_requests: u64,
    eventual_consistency_requests: u64,
    session_consistency_requests: u64,
    latest_committed_consistency_requests: u64,
    global_strong_consistency_requests: u64,
}

impl FormatCounters {
    pub(super) fn count(&self, format: &WireFormat) {
        // Counters are independent: no other data depends on them.
        let add = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        if format.accepts_binary {
            add(&self.accepts_binary);
        }
        if format.request_is_binary {
            add(&self.request_is_binary);
        }
        if format.reply_is_binary {
            add(&self.reply_is_binary);
        }
        add(self.counter_of(format.consistency));
    }

    pub(crate) fn counts(&self) -> FormatCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counter_of = |consistency| load(self.counter_of(consistency));
        FormatCounts {
            binary_negotiated_requests: load(&self.accepts_binary),
            binary_payload_requests: load(&self.request_is_binary),
            binary_response_payloads: load(&self.reply_is_binary),
            default_consistency_requests: counter_of(RequestedConsistency::Default),
            eventual_consistency_requests: counter_of(RequestedConsistency::Eventual),
            session_consistency_requests: counter_of(RequestedConsistency::Session),
            latest_committed_consistency_requests: counter_of(
                RequestedConsistency::LatestCommitted,
            ),
            global_strong_consistency_requests: counter_of(RequestedConsistency::GlobalStrong),
        }
    }

    fn counter_of(&self, consistency: RequestedConsistency) -> &AtomicU64 {
        &self.consistency[consistency as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_counted_by_itself() {
        let formats = FormatCounters::default();
        let binary =
            WireFormat { accepts_binary: true, request_is_binary: true, ..WireFormat::default() };
        formats.count(&binary);
        formats.count(&WireFormat {
            reply_is_binary: true,
            consistency: RequestedConsistency::GlobalStrong,
            ..WireFormat::default()
        });
        let counts = formats.counts();
        assert_eq!((counts.binary_negotiated_requests, counts.binary_payload_requests), (1, 1));
        assert_eq!(counts.binary_response_payloads, 1);
        assert_eq!(counts.default_consistency_requests, 1);
        assert_eq!(counts.global_strong_consistency_requests, 1);
        assert_eq!(counts.session_consistency_requests, 0);
    }
}
