//! The results of a run of queries.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use crate::load::drive::Outcome;
use crate::load::report::{Verdict, line, median};

/// Most processor time of a query, relative to PostgreSQL.
const RATIO_MAX: f64 = 3.0;
/// Most growth of a query's processor time with more documents and as many results.
const GROWTH_MAX: f64 = 1.5;

/// One measured interval.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sample {
    /// Completed queries.
    pub operations: u64,
    /// Queries per second.
    pub per_second: f64,
    /// Processor time of the server per query in microseconds.
    pub cpu_us: f64,
    /// Mean latency in microseconds.
    pub mean_us: f64,
}

impl Sample {
    /// Combines the client's measurements with the server's resource use.
    pub fn new(outcome: &Outcome, spent: Duration) -> Self {
        Self {
            operations: outcome.operations,
            per_second: outcome.rate(),
            cpu_us: spent.as_secs_f64() * 1e6 / outcome.operations.max(1) as f64,
            mean_us: outcome.mean().as_secs_f64() * 1e6,
        }
    }
}

/// All rounds of one kind of query for one number of documents and connections.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The name of the kind of query.
    pub question: &'static str,
    /// Connections.
    pub clients: usize,
    /// Documents.
    pub documents: u64,
    /// Our samples, one per round.
    pub ours: Vec<Sample>,
    /// PostgreSQL's.
    pub theirs: Vec<Sample>,
}

/// Load time, memory and disk space for a number of documents.
#[derive(Clone, Debug, Serialize)]
pub struct Holding {
    /// Number of documents.
    pub documents: u64,
    /// Seconds to load them, indexes included.
    pub load_seconds: f64,
    /// The same for PostgreSQL.
    pub load_seconds_theirs: f64,
    /// Our resident memory after the load.
    pub resident_loaded: u64,
    /// Our resident memory after all queries.
    pub resident_end: u64,
    /// Peak of our resident memory.
    pub resident_most: u64,
    /// Bytes of PostgreSQL's table and indexes.
    pub size_theirs: u64,
}

/// Everything one run measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// PostgreSQL's version.
    pub version: String,
    /// PostgreSQL's plan for each kind of query, at the largest size.
    pub plans: Vec<String>,
    /// One per number of documents.
    pub holdings: Vec<Holding>,
    /// One per kind of query, connections and documents.
    pub cells: Vec<Cell>,
}

impl Cell {
    fn ours_us(&self) -> f64 {
        median(self.ours.iter().map(|sample| sample.cpu_us))
    }

    fn theirs_us(&self) -> f64 {
        median(self.theirs.iter().map(|sample| sample.cpu_us))
    }

    fn ratio(&self) -> f64 {
        self.ours_us() / self.theirs_us()
    }

    fn columns(&self) -> [String; 8] {
        let mean = |samples: &[Sample]| median(samples.iter().map(|sample| sample.mean_us));
        [
            self.question.to_owned(),
            self.documents.to_string(),
            self.clients.to_string(),
            with_range(&self.ours),
            with_range(&self.theirs),
            format!("{:.2}x", self.ratio()),
            format!("{:.0}", mean(&self.ours)),
            format!("{:.0}", mean(&self.theirs)),
        ]
    }
}

/// The median of the processor times and their range.
fn with_range(samples: &[Sample]) -> String {
    let cpu = || samples.iter().map(|sample| sample.cpu_us);
    let (least, most) = (cpu().fold(f64::INFINITY, f64::min), cpu().fold(0.0, f64::max));
    format!("{:.1} ({least:.1}-{most:.1})", median(cpu()))
}

impl Report {
    /// Adds a round.
    pub fn add(&mut self, at: (&'static str, usize, u64), ours: Sample, theirs: Sample) {
        let (question, clients, documents) = at;
        let known = self.cells.iter_mut().find(|cell| {
            (cell.question, cell.clients, cell.documents) == (question, clients, documents)
        });
        match known {
            Some(cell) => {
                cell.ours.push(ours);
                cell.theirs.push(theirs);
            }
            None => self.cells.push(Cell {
                question,
                clients,
                documents,
                ours: vec![ours],
                theirs: vec![theirs],
            }),
        }
    }

    /// Processor time per query and latency, medians over the rounds.
    pub fn table(&self) -> String {
        let mut out = String::new();
        line(
            &mut out,
            [
                "query",
                "documents",
                "clients",
                "planisphere CPU us (range)",
                "PostgreSQL CPU us (range)",
                "ratio",
                "planisphere mean us",
                "PostgreSQL mean us",
            ],
        );
        line(&mut out, ["---", "--:", "--:", "--:", "--:", "--:", "--:", "--:"]);
        for cell in &self.cells {
            line(&mut out, cell.columns().each_ref().map(String::as_str));
        }
        out
    }

    /// The growth of processor time per query with the number of documents.
    pub fn growth(&self) -> String {
        let mut out = String::new();
        line(&mut out, ["query", "clients", "from", "to", "planisphere", "PostgreSQL"]);
        line(&mut out, ["---", "--:", "--:", "--:", "--:", "--:"]);
        for (few, many) in self.pairs() {
            line(
                &mut out,
                [
                    few.question,
                    &few.clients.to_string(),
                    &few.documents.to_string(),
                    &many.documents.to_string(),
                    &format!("{:.2}x", many.ours_us() / few.ours_us()),
                    &format!("{:.2}x", many.theirs_us() / few.theirs_us()),
                ],
            );
        }
        out
    }

    /// Load time, memory and disk space for the documents.
    pub fn memory(&self) -> String {
        let mut out = String::new();
        for holding in &self.holdings {
            let mega = |bytes: u64| bytes as f64 / 1e6;
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "{} documents: loaded in {:.1} s (PostgreSQL {:.1} s), resident {:.1} MB then, \
                 {:.1} MB at the end, {:.1} MB at most (PostgreSQL's relation has {:.0} MB)",
                holding.documents,
                holding.load_seconds,
                holding.load_seconds_theirs,
                mega(holding.resident_loaded),
                mega(holding.resident_end),
                mega(holding.resident_most),
                mega(holding.size_theirs)
            );
        }
        out
    }

    /// The bounds: relative to PostgreSQL for the fewest documents, and the growth with the most.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let fewest = self.cells.iter().map(|cell| cell.documents).min().unwrap_or_default();
        let few = self.cells.iter().filter(|cell| cell.documents == fewest);
        let compared = few.map(|cell| Verdict {
            text: format!(
                "{} over {} connections among {} documents: {:.2}x PostgreSQL (at most {RATIO_MAX})",
                cell.question,
                cell.clients,
                cell.documents,
                cell.ratio()
            ),
            kept: cell.ratio() <= RATIO_MAX,
        });
        let grown = self.pairs().map(|(few, many)| {
            let growth = many.ours_us() / few.ours_us();
            Verdict {
                text: format!(
                    "{} over {} connections among {} instead of {} documents: {growth:.2}x (at most {GROWTH_MAX})",
                    few.question, few.clients, many.documents, few.documents
                ),
                kept: growth <= GROWTH_MAX,
            }
        });
        compared.chain(grown).collect()
    }

    /// The cells of the same query for the fewest and for the most documents.
    fn pairs(&self) -> impl Iterator<Item = (&Cell, &Cell)> {
        let fewest = self.cells.iter().map(|cell| cell.documents).min();
        let most = self.cells.iter().map(|cell| cell.documents).max();
        let few = self.cells.iter().filter(move |cell| Some(cell.documents) == fewest);
        few.filter_map(move |few| {
            let many = self.cells.iter().find(|cell| {
                (cell.question, cell.clients) == (few.question, few.clients)
                    && Some(cell.documents) == most
                    && most != fewest
            });
            many.map(|many| (few, many))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(cpu_us: f64) -> Sample {
        Sample { cpu_us, ..Sample::default() }
    }

    #[test]
    fn the_ratio_is_judged_among_few_and_growth_among_many() {
        let mut report = Report::default();
        report.add(("q", 1, 10), cpu(30.0), cpu(10.0));
        assert_eq!(report.verdicts().len(), 1);
        assert!(report.verdicts()[0].kept);
        report.add(("q", 1, 1_000), cpu(45.0), cpu(1.0));
        let verdicts = report.verdicts();
        assert_eq!(verdicts.len(), 2);
        assert!(verdicts.iter().all(|verdict| verdict.kept));
        assert!(report.growth().contains("| 1.50x | 0.10x |"));
        for _ in 0..2 {
            report.add(("q", 1, 1_000), cpu(46.0), cpu(1.0));
            report.add(("q", 1, 10), cpu(31.0), cpu(10.0));
        }
        report.add(("q", 1, 1_000), cpu(90.0), cpu(1.0));
        assert!(!report.verdicts()[0].kept);
        assert!(report.table().contains("31.0 (30.0-31.0)"));
    }
}
