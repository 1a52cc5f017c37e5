//! Helpers that several test modules share.

use std::env;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::{EmbeddedOptions, KeyTags};

/// Keys that are looked up.
pub(crate) const LOOKED_UP_KEYS: Range<u8> = 0x10..0x11;

impl Default for EmbeddedOptions {
    /// Options for keys as the engine has them.
    fn default() -> Self {
        let scanned = [0x20..0x25, 0x30..0x31];
        Self::new(KeyTags { scanned, looked_up: LOOKED_UP_KEYS })
    }
}

/// How much more than the usual number of rounds the long tests run: `PLANISPHERE_TEST_SCALE`.
pub(crate) fn scale() -> u64 {
    env::var("PLANISPHERE_TEST_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// A small generator of numbers, the same for the same seed everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let n = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        n ^ (n >> 31)
    }

    /// A number below `end`, or zero when there is none.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_be_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

/// What the log says at `warn` while `work` runs on this thread: the message and all fields.
pub(crate) fn warnings_of(work: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    let lines = Arc::clone(&log.0);
    tracing::subscriber::with_default(log, work);
    std::mem::take(&mut *lines.lock().unwrap())
}

/// Collects log lines.
#[derive(Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!("{field}={value:?} "));
    }
}
