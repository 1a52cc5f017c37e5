//! The measured cost of searches.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use crate::load::report::{Verdict, median};

/// Least fraction of the nearest vectors that must be found.
const RECALL_MIN: f64 = 0.95;
/// Least speed-up over a scan of all vectors.
const SPEEDUP_MIN: f64 = 20.0;
/// Most processor time of the server to rank texts by two words.
const RANKED_CPU_MS_MAX: f64 = 10.0;

/// Searches that ran one after the other.
#[derive(Clone, Debug, Default, Serialize)]
pub struct QueryTimes {
    /// Latency of each in milliseconds.
    pub milliseconds: Vec<f64>,
    /// Processor time of the server per search in milliseconds, on average.
    pub cpu_milliseconds: f64,
}

impl QueryTimes {
    /// From the latencies of searches and the server's total processor time.
    pub fn new(milliseconds: Vec<f64>, spent: Duration) -> Self {
        let count = milliseconds.len().max(1) as f64;
        Self { cpu_milliseconds: spent.as_secs_f64() * 1000.0 / count, milliseconds }
    }

    fn median(&self) -> f64 {
        median(self.milliseconds.iter().copied())
    }

    fn line(&self, name: &str) -> String {
        let most = self.milliseconds.iter().copied().fold(0.0, f64::max);
        format!(
            "{name:<28} {:>6} asked  median {:>8.2} ms  most {most:>8.2} ms  server cpu {:>8.2} ms",
            self.milliseconds.len(),
            self.median(),
            self.cpu_milliseconds
        )
    }
}

/// Everything one run measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Items in each container.
    pub items: usize,
    /// Seconds to load the items with vectors.
    pub vectors_load_seconds: f64,
    /// Seconds until their vectors were assigned to cells, including the load.
    pub vectors_ready_seconds: f64,
    /// The nearest vectors, by cells.
    pub by_cells: QueryTimes,
    /// The nearest vectors, by a scan of all.
    pub by_all: QueryTimes,
    /// The fraction of the latter that the former found.
    pub recall: f64,
    /// Words that about 1% of the texts have.
    pub words: Vec<String>,
    /// The best texts for two of those words, including statistics.
    pub ranked: QueryTimes,
    /// Memory of the server at the end.
    pub resident_bytes: u64,
}

impl Report {
    /// The numbers as a table for people.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "{} items; loaded in {:.0} s, vectors in cells after {:.0} s; {} words in about 1% of \
             the texts; server holds {:.0} MB",
            self.items,
            self.vectors_load_seconds,
            self.vectors_ready_seconds,
            self.words.len(),
            self.resident_bytes as f64 / 1e6
        );
        for (name, times) in [
            ("10 nearest, by cells", &self.by_cells),
            ("10 nearest, all looked at", &self.by_all),
            ("10 best of two words", &self.ranked),
        ] {
            let _ = writeln!(out, "{}", times.line(name));
        }
        out
    }

    /// The bounds.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let speedup = self.by_all.median() / self.by_cells.median().max(f64::MIN_POSITIVE);
        let ranked = self.ranked.cpu_milliseconds;
        vec![
            Verdict {
                text: format!(
                    "{:.1}% of the nearest are found (at least {:.0}%)",
                    self.recall * 100.0,
                    RECALL_MIN * 100.0
                ),
                kept: self.recall >= RECALL_MIN,
            },
            Verdict {
                text: format!(
                    "{speedup:.0} times faster than looking at all vectors (at least \
                     {SPEEDUP_MIN:.0})"
                ),
                kept: speedup >= SPEEDUP_MIN,
            },
            Verdict {
                text: format!(
                    "{ranked:.2} ms of processor time to rank texts by two words (at most \
                     {RANKED_CPU_MS_MAX:.0})"
                ),
                kept: ranked <= RANKED_CPU_MS_MAX,
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_kept_or_missed() {
        let times = |ms: f64| QueryTimes::new(vec![ms; 4], Duration::from_millis(40));
        let mut report = Report {
            recall: 0.96,
            by_cells: times(5.0),
            by_all: times(110.0),
            ranked: times(3.0),
            ..Report::default()
        };
        assert!(report.verdicts().iter().all(|verdict| verdict.kept));
        report.recall = 0.9;
        report.by_all = times(50.0);
        report.ranked.cpu_milliseconds = 10.5;
        assert!(report.verdicts().iter().all(|verdict| !verdict.kept));
        assert!(report.table().contains("10 best of two words"));
    }
}
