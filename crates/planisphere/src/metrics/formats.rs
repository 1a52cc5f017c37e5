//! In which forms requests and replies were written.

use std::sync::atomic::{AtomicU64, Ordering};

use api_nosql::{AskedConsistency, WireForm};
use serde::Serialize;

/// Running counts.
#[derive(Debug, Default)]
pub(crate) struct Forms {
    takes_binary: AtomicU64,
    sends_binary: AtomicU64,
    gets_binary: AtomicU64,
    consistency: [AtomicU64; 5],
}

/// The counts at one moment, named as the management API names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FormCounts {
    binary_negotiated_requests: u64,
    binary_payload_requests: u64,
    binary_response_payloads: u64,
    default_consistency_requests: u64,
    eventual_consistency_requests: u64,
    session_consistency_requests: u64,
    latest_committed_consistency_requests: u64,
    global_strong_consistency_requests: u64,
}

impl Forms {
    pub(super) fn count(&self, form: &WireForm) {
        // Counts stand alone: nothing is read by way of them.
        let add = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        if form.takes_binary {
            add(&self.takes_binary);
        }
        if form.sends_binary {
            add(&self.sends_binary);
        }
        if form.gets_binary {
            add(&self.gets_binary);
        }
        add(self.asked(form.consistency));
    }

    pub(crate) fn counts(&self) -> FormCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let asked = |consistency| load(self.asked(consistency));
        FormCounts {
            binary_negotiated_requests: load(&self.takes_binary),
            binary_payload_requests: load(&self.sends_binary),
            binary_response_payloads: load(&self.gets_binary),
            default_consistency_requests: asked(AskedConsistency::Default),
            eventual_consistency_requests: asked(AskedConsistency::Eventual),
            session_consistency_requests: asked(AskedConsistency::Session),
            latest_committed_consistency_requests: asked(AskedConsistency::LatestCommitted),
            global_strong_consistency_requests: asked(AskedConsistency::GlobalStrong),
        }
    }

    fn asked(&self, consistency: AskedConsistency) -> &AtomicU64 {
        &self.consistency[consistency as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_counted_by_itself() {
        let forms = Forms::default();
        let binary = WireForm { takes_binary: true, sends_binary: true, ..WireForm::default() };
        forms.count(&binary);
        forms.count(&WireForm {
            gets_binary: true,
            consistency: AskedConsistency::GlobalStrong,
            ..WireForm::default()
        });
        let counts = forms.counts();
        assert_eq!((counts.binary_negotiated_requests, counts.binary_payload_requests), (1, 1));
        assert_eq!(counts.binary_response_payloads, 1);
        assert_eq!(counts.default_consistency_requests, 1);
        assert_eq!(counts.global_strong_consistency_requests, 1);
        assert_eq!(counts.session_consistency_requests, 0);
    }
}
