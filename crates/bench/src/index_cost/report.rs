//! The measured cost of indexing.

use std::fmt::Write;

use serde::Serialize;

use crate::load::report::{Verdict, line, median};
use crate::load::subject::Measured;

/// An indexed upsert may cost this many times a plain one plus the store's part of the index.
const RATIO_MAX: f64 = 1.5;
/// Most memory of a server with few documents.
const RESIDENT_MAX: u64 = 80_000_000;
/// The number of documents that counts as few.
const FEW: u64 = 10_000;

/// All rounds of one kind of upserts.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cell {
    /// The kind's name.
    pub upserts: &'static str,
    /// Keys that an upsert writes or removes when every path is indexed, on average.
    pub keys_indexed: f64,
    /// The same without an index.
    pub keys_plain: f64,
    /// With every path indexed.
    pub indexed: Vec<Measured>,
    /// With indexing mode none.
    pub plain: Vec<Measured>,
    /// The batches of `indexed` on the bare store.
    pub raw_indexed: Vec<Measured>,
    /// The batches of `plain` on the bare store, in groups as large as those of `indexed`.
    pub raw_plain: Vec<Measured>,
}

/// Memory and disk space of a loaded server.
#[derive(Clone, Debug, Serialize)]
pub struct Holding {
    /// Number of documents.
    pub documents: u64,
    /// Seconds to load them.
    pub load_seconds: f64,
    /// Resident memory after the load.
    pub resident_loaded: u64,
    /// Resident memory after reads of documents in random positions.
    pub resident_read: u64,
    /// Peak of the resident memory.
    pub resident_most: u64,
    /// Bytes of the data directory.
    pub disk: u64,
}

/// Everything one run measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Per kind of upserts.
    pub cells: Vec<Cell>,
    /// Per number of documents.
    pub holdings: Vec<Holding>,
    /// Bytes of the store's cache.
    pub cache_bytes: u64,
}

impl Cell {
    /// Processor time of the bare store for the index keys.
    fn store_us(&self) -> f64 {
        (cpu(&self.raw_indexed) - cpu(&self.raw_plain)).max(0.0)
    }

    fn ratio(&self) -> f64 {
        cpu(&self.indexed) / (cpu(&self.plain) + self.store_us())
    }

    fn rows(&self) -> [(&'static str, f64, &[Measured]); 4] {
        [
            ("every path indexed", self.keys_indexed, &self.indexed),
            ("indexing mode none", self.keys_plain, &self.plain),
            ("raw fjall, batches of every path indexed", self.keys_indexed, &self.raw_indexed),
            ("raw fjall, batches of indexing mode none", self.keys_plain, &self.raw_plain),
        ]
    }
}

fn cpu(rounds: &[Measured]) -> f64 {
    median(rounds.iter().map(|measured| measured.cpu_us))
}

impl Report {
    /// Processor time per upsert, medians over the rounds.
    pub fn table(&self) -> String {
        let mut out = String::new();
        line(
            &mut out,
            ["workload", "what", "keys/op", "ops/s", "CPU us/op (range)", "ops/sync", "p99 us"],
        );
        line(&mut out, ["---", "---", "--:", "--:", "--:", "--:", "--:"]);
        for cell in &self.cells {
            for (what, keys, rounds) in cell.rows() {
                let of = |value: fn(&Measured) -> f64| median(rounds.iter().map(value));
                let all = || rounds.iter().map(|measured| measured.cpu_us);
                let (least, most) =
                    (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
                line(
                    &mut out,
                    [
                        cell.upserts,
                        what,
                        &format!("{keys:.1}"),
                        &format!("{:.0}", of(|measured| measured.per_second)),
                        &format!("{:.1} ({least:.1}-{most:.1})", cpu(rounds)),
                        &format!("{:.1}", of(|measured| measured.per_sync.unwrap_or_default())),
                        &format!("{:.0}", of(|measured| measured.p99_us)),
                    ],
                );
            }
        }
        out
    }

    /// Memory and disk space of the loaded servers.
    pub fn memory(&self) -> String {
        let mega = |bytes: u64| bytes as f64 / 1e6;
        let mut out = String::new();
        for holding in &self.holdings {
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "{} documents: loaded in {:.1} s; resident {:.1} MB then, {:.1} MB after reads, \
                 {:.1} MB at most, with a cache of {:.1} MB; {:.0} MB on disk",
                holding.documents,
                holding.load_seconds,
                mega(holding.resident_loaded),
                mega(holding.resident_read),
                mega(holding.resident_most),
                mega(self.cache_bytes),
                mega(holding.disk)
            );
        }
        out
    }

    /// The bounds.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let costs = self.cells.iter().map(|cell| {
            let extra = cell.keys_indexed - cell.keys_plain;
            // Without index keys there is no index to measure.
            let is_indexed = extra > 0.0;
            let remark = if is_indexed { "" } else { "; nothing was indexed" };
            Verdict {
                text: format!(
                    "{} with every path indexed CPU per op {:.1} us = {:.2}x (indexing mode none {:.1} us + raw fjall for {extra:.1} keys {:.1} us) (at most {RATIO_MAX}){remark}",
                    cell.upserts,
                    cpu(&cell.indexed),
                    cell.ratio(),
                    cpu(&cell.plain),
                    cell.store_us()
                ),
                kept: cell.ratio() <= RATIO_MAX && is_indexed,
            }
        });
        let few = self.holdings.iter().filter(|holding| holding.documents == FEW);
        let sizes = few.map(|holding| {
            let most = holding.resident_loaded.max(holding.resident_read);
            Verdict {
                text: format!(
                    "resident memory with {FEW} documents {:.1} MB (at most {:.0})",
                    most as f64 / 1e6,
                    RESIDENT_MAX as f64 / 1e6
                ),
                kept: most <= RESIDENT_MAX,
            }
        });
        costs.chain(sizes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(cpu_us: f64) -> Vec<Measured> {
        vec![Measured { cpu_us, ..Measured::default() }]
    }

    fn cell(indexed: f64) -> Cell {
        Cell {
            upserts: "u",
            keys_indexed: 20.0,
            keys_plain: 5.0,
            indexed: rounds(indexed),
            plain: rounds(80.0),
            raw_indexed: rounds(50.0),
            raw_plain: rounds(30.0),
        }
    }

    #[test]
    fn the_bound_adds_the_store_s_part_to_the_plain_upsert() {
        let verdict = |cell| {
            let report = Report { cells: vec![cell], ..Report::default() };
            report.verdicts().remove(0)
        };
        assert!(verdict(cell(150.0)).kept);
        assert!(!verdict(cell(150.1)).kept);
        assert!(!verdict(Cell { keys_indexed: 5.0, ..cell(80.0) }).kept);
        // Noise must not make the bound looser than it is without an index.
        let noisy = Cell { raw_plain: rounds(60.0), ..cell(120.0) };
        assert!((noisy.ratio() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn memory_is_judged_with_few_documents() {
        let holding = |documents, resident| Holding {
            documents,
            load_seconds: 1.0,
            resident_loaded: 1,
            resident_read: resident,
            resident_most: resident,
            disk: 1,
        };
        let report = Report {
            holdings: vec![holding(FEW, 80_000_001), holding(1_000_000, 300_000_000)],
            ..Report::default()
        };
        let verdicts = report.verdicts();
        assert_eq!(verdicts.len(), 1);
        assert!(!verdicts[0].kept);
    }
}
