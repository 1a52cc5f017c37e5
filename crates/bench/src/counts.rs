//! The cost of counting items compared with reading one. The server keeps counters, so the number
//! of items must not matter.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;

use crate::index_cost;
use crate::load::report::{Verdict, median};
use crate::queries::data::{Data, PER_PARTITION};
use crate::queries::ours::Ours;
use crate::queries::query_kind::CONTAINER_LINK;
use crate::request::Draft;
use crate::rng::Rng;

/// Counting may cost this many point reads.
const RATIO_MAX: f64 = 2.0;
/// Distinct requests of one interval, if the kind has distinct ones.
const POOL: usize = 1_024;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server to measure.
    pub binary: PathBuf,
    /// Where the data goes, in a directory that is removed afterwards.
    pub scratch: PathBuf,
    /// Numbers of documents.
    pub sizes: Vec<u64>,
    /// Connections at a time.
    pub connections: usize,
    /// Length of one interval.
    pub interval: Duration,
    /// How often every interval is repeated, interleaved with the others.
    pub rounds: u32,
}

/// The measured kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MeasuredRequest {
    /// One document, by its id.
    PointRead,
    /// A count of the container's documents.
    CountAll,
    /// A count of a partition key's documents.
    CountKey,
}

impl MeasuredRequest {
    const ALL: [Self; 3] = [Self::PointRead, Self::CountAll, Self::CountKey];

    fn name(self) -> &'static str {
        match self {
            Self::PointRead => "point-read",
            Self::CountAll => "count-all",
            Self::CountKey => "count-key",
        }
    }

    fn draft(self, data: Data, number: u64, range_id: &str) -> Draft<'static> {
        let key = data.key(number);
        match self {
            Self::PointRead => {
                Draft::one("GET", CONTAINER_LINK, "docs", &data.id(number)).key(&key)
            }
            Self::CountAll => count()
                .header("x-ms-documentdb-query-enablecrosspartition", "True")
                .header("x-ms-documentdb-partitionkeyrangeid", range_id),
            Self::CountKey => count().key(&key),
        }
    }

    /// The expected count.
    fn counted(self, data: Data) -> Option<u64> {
        match self {
            Self::PointRead => None,
            Self::CountAll => Some(data.documents()),
            Self::CountKey => Some(PER_PARTITION),
        }
    }
}

fn count() -> Draft<'static> {
    Draft::feed("POST", CONTAINER_LINK, "docs")
        .header("Content-Type", "application/query+json")
        .header("x-ms-documentdb-isquery", "True")
        .body(r#"{"query":"SELECT VALUE COUNT(1) FROM c"}"#)
}

/// Microseconds of processor time of one kind of request among so many documents, per round.
#[derive(Clone, Debug, serde::Serialize)]
struct Cell {
    ask: &'static str,
    documents: u64,
    cpu_us: Vec<f64>,
}

/// Everything one run measured.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Report {
    cells: Vec<Cell>,
}

/// Measures everything in `options`. Servers and data are removed when it returns.
pub async fn run(options: &Options) -> anyhow::Result<Report> {
    let mut report = Report::default();
    for &documents in &options.sizes {
        eprintln!("loading {documents} documents");
        let scratch = tempfile::tempdir_in(&options.scratch)?;
        let data = Data::of(documents)?;
        let directory = scratch.path().join("data");
        let mut server = Ours::start(&options.binary, directory, data, None)?;
        server.load(&index_cost::container("doc", true)).await?;
        for ask in MeasuredRequest::ALL {
            check(&server, ask).await?;
            report.cells.push(Cell { ask: ask.name(), documents, cpu_us: Vec::new() });
        }
        let first = report.cells.len() - MeasuredRequest::ALL.len();
        for round in 1..=options.rounds {
            eprintln!("round {round}/{}", options.rounds);
            for (ask, cell) in MeasuredRequest::ALL.into_iter().zip(&mut report.cells[first..]) {
                let mut random = Rng::new(u64::from(round));
                let pool = (0..POOL).map(|_| {
                    let number = random.below(documents);
                    server.account().render(&ask.draft(data, number, server.range_id()))
                });
                let pool = pool.collect();
                let (connections, interval) = (options.connections, options.interval);
                let sample =
                    server.measure_requests(ask.name(), pool, connections, interval).await?;
                cell.cpu_us.push(sample.cpu_us);
            }
        }
    }
    Ok(report)
}

/// Fails unless the count is right.
async fn check(server: &Ours, ask: MeasuredRequest) -> anyhow::Result<()> {
    let Some(wanted) = ask.counted(server.data()) else { return Ok(()) };
    let draft = ask.draft(server.data(), 0, server.range_id());
    let reply = server.account().expect(&draft, &[200]).await?.json()?;
    let counted = &reply["Documents"][0];
    ensure!(counted.as_u64() == Some(wanted), "{} is {counted}, not {wanted}", ask.name());
    Ok(())
}

impl Report {
    /// The cost of `ask` relative to a point read among as many documents.
    fn ratio(&self, cell: &Cell) -> f64 {
        let reads = self.cells.iter().find(|other| {
            other.documents == cell.documents && other.ask == MeasuredRequest::PointRead.name()
        });
        let of = |cell: &Cell| median(cell.cpu_us.iter().copied());
        of(cell) / reads.map_or(f64::NAN, of)
    }

    /// The bounds on the cost of counting.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let counts = self.cells.iter().filter(|cell| cell.ask != MeasuredRequest::PointRead.name());
        let verdicts = counts.map(|cell| {
            let ratio = self.ratio(cell);
            Verdict {
                text: format!(
                    "{} among {} documents: {ratio:.2} point reads (at most {RATIO_MAX})",
                    cell.ask, cell.documents
                ),
                kept: ratio <= RATIO_MAX,
            }
        });
        verdicts.collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| request | documents | CPU us (range) | point reads |")?;
        writeln!(f, "| --- | --: | --: | --: |")?;
        for cell in &self.cells {
            let least = cell.cpu_us.iter().copied().fold(f64::INFINITY, f64::min);
            let most = cell.cpu_us.iter().copied().fold(0.0, f64::max);
            let middle = median(cell.cpu_us.iter().copied());
            let (ask, documents, ratio) = (cell.ask, cell.documents, self.ratio(cell));
            writeln!(
                f,
                "| {ask} | {documents} | {middle:.1} ({least:.1}-{most:.1}) | {ratio:.2} |"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_judged_by_reads_among_as_many_documents() {
        let cell = |ask: MeasuredRequest, documents, us| Cell {
            ask: ask.name(),
            documents,
            cpu_us: vec![us],
        };
        let report = Report {
            cells: vec![
                cell(MeasuredRequest::PointRead, 10, 10.0),
                cell(MeasuredRequest::CountAll, 10, 20.0),
                cell(MeasuredRequest::PointRead, 1_000, 30.0),
                cell(MeasuredRequest::CountAll, 1_000, 61.0),
            ],
        };
        let kept: Vec<_> = report.verdicts().iter().map(|verdict| verdict.kept).collect();
        assert_eq!(kept, [true, false]);
        assert!(report.to_string().contains("| count-all | 1000 | 61.0 (61.0-61.0) | 2.03 |"));
    }
}
