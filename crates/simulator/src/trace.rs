//! The events of a run, as text for readers and as one number to compare runs by.

use std::collections::VecDeque;
use std::fmt;

use xxhash_rust::xxh3::Xxh3;

/// Lines kept unless the caller asked for all of them.
const TAIL_LINES: usize = 40;

/// The events of a run in order.
pub(crate) struct Trace {
    digest: Xxh3,
    lines: VecDeque<String>,
    keeps_all: bool,
}

impl Trace {
    pub(crate) fn new(keeps_all: bool) -> Self {
        Self { digest: Xxh3::new(), lines: VecDeque::new(), keeps_all }
    }

    pub(crate) fn note(&mut self, step: u64, micros: u64, what: fmt::Arguments<'_>) {
        let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
        let line = format!("{step:>6} {seconds:>4}.{rest:06} {what}");
        self.digest.update(line.as_bytes());
        if !self.keeps_all && self.lines.len() == TAIL_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Two runs with the same number did the same.
    pub(crate) fn digest(&self) -> u64 {
        self.digest.digest()
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}
