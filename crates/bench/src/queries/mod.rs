//! Queries compared with PostgreSQL: the same documents and queries ([`query_kind`]), on our server
//! over HTTP ([`ours`]) and on a separate cluster ([`postgres`], [`pgbench`]).

pub mod data;
pub mod ours;
pub mod pgbench;
pub mod postgres;
pub mod query_kind;
pub mod report;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::index_cost;
use crate::process;
use crate::rng::Rng;
use data::Data;
use ours::Ours;
use postgres::Postgres;
use query_kind::{COMPOSITE_POLICY, Parameters, QueryKind};
use report::{Holding, Report};

/// Size of each side's cache: it holds all of the smaller set of documents and half of the larger.
const CACHE_MIB: u64 = 1 << 10;
/// Size of each side's cache if it holds all documents.
const WARM_CACHE_MIB: u64 = 4 << 10;
/// Queries of each kind whose results are compared before the measurement.
const COMPARED: u32 = 5;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server to measure.
    pub binary: PathBuf,
    /// Where the data goes, in a directory that is removed afterwards.
    pub scratch: PathBuf,
    /// Numbers of documents.
    pub sizes: Vec<u64>,
    /// Numbers of connections.
    pub clients: Vec<usize>,
    /// The measured kinds of queries.
    pub questions: Vec<QueryKind>,
    /// Length of one interval.
    pub interval: Duration,
    /// How often every interval is repeated, both sides taking turns.
    pub rounds: u32,
    /// Whether queries cover as many documents as the smallest set has, instead of all.
    pub is_alike: bool,
    /// Whether caches hold all documents before the measurement.
    pub is_warm: bool,
    /// Whether our container has a composite index where PostgreSQL has one of two columns.
    pub is_composite: bool,
    /// The cache size of each side, if it is not the default for the documents.
    pub cache_mib: Option<u64>,
}

impl Options {
    fn cache_mib(&self) -> u64 {
        self.cache_mib.unwrap_or(if self.is_warm { WARM_CACHE_MIB } else { CACHE_MIB })
    }

    fn parameters(&self, data: Data) -> anyhow::Result<Parameters> {
        let fewest = self.sizes.iter().min().copied().filter(|_| self.is_alike);
        Ok(Parameters::new(data, fewest.map_or(Ok(data), Data::of)?))
    }
}

/// One set of documents, loaded on both sides.
struct Pair<'a> {
    ours: Ours,
    parameters: Parameters,
    postgres: &'a Postgres,
    database: String,
}

/// Measures everything in `options`. Servers and data are removed when it returns.
pub async fn run(options: &Options) -> anyhow::Result<Report> {
    let scratch = open_directory(&options.scratch)?;
    let postgres = Postgres::start(scratch.path(), options.cache_mib())?;
    let mut report = Report { version: postgres.version()?, ..Report::default() };
    let mut pairs = Vec::new();
    for &documents in &options.sizes {
        let (pair, holding) = load(options, scratch.path(), &postgres, documents).await?;
        report.holdings.push(holding);
        pairs.push(pair);
    }
    for pair in &pairs {
        for &question in &options.questions {
            compare(pair, question).await?;
        }
    }
    if let Some(largest) = pairs.last() {
        for &question in &options.questions {
            report.plans.push(largest.plan(question)?);
        }
    }
    for round in 1..=options.rounds {
        eprintln!("round {round}/{}", options.rounds);
        for &question in &options.questions {
            for &clients in &options.clients {
                for pair in &pairs {
                    take_turns(options, pair, question, clients, round, &mut report).await?;
                }
            }
        }
    }
    for (pair, holding) in pairs.iter().zip(&mut report.holdings) {
        holding.resident_end = process::resident_bytes(pair.ours.pid())?;
        holding.resident_most = process::resident_bytes_most(pair.ours.pid())?;
    }
    Ok(report)
}

/// A directory that the owner of the cluster can also enter.
fn open_directory(parent: &Path) -> anyhow::Result<tempfile::TempDir> {
    Ok(tempfile::Builder::new()
        .prefix("planisphere-bench-")
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir_in(parent)?)
}

async fn load<'a>(
    options: &Options,
    scratch: &Path,
    postgres: &'a Postgres,
    documents: u64,
) -> anyhow::Result<(Pair<'a>, Holding)> {
    let data = Data::of(documents)?;
    eprintln!("loading {documents} documents");
    let begin = Instant::now();
    let directory = scratch.join(documents.to_string());
    let cache_bytes = Some(options.cache_mib() << 20);
    let mut ours = Ours::start(&options.binary, directory, data, cache_bytes)?;
    let policy = options.is_composite.then_some(COMPOSITE_POLICY);
    ours.load(&index_cost::container_with("doc", policy)).await?;
    let load_seconds = begin.elapsed().as_secs_f64();
    let resident_loaded = process::resident_bytes(ours.pid())?;
    let begin = Instant::now();
    let database = format!("docs{documents}");
    postgres.load(&database, data)?;
    let load_seconds_theirs = begin.elapsed().as_secs_f64();
    if options.is_warm {
        postgres.read_all(&database)?;
        ours.rest_and_read_all().await?;
    }
    let holding = Holding {
        documents,
        load_seconds,
        load_seconds_theirs,
        resident_loaded,
        resident_end: 0,
        resident_most: 0,
        size_theirs: postgres.size(&database)?,
    };
    Ok((Pair { ours, parameters: options.parameters(data)?, postgres, database }, holding))
}

/// Fails unless both sides return the same results, in the expected number.
async fn compare(pair: &Pair<'_>, question: QueryKind) -> anyhow::Result<()> {
    let mut random = Rng::new(0xC0FFEE);
    for _ in 0..COMPARED {
        let asked = question.pick(pair.parameters, &mut random);
        let what = || format!("{} among {}", asked.sql(true), pair.ours.data().documents());
        let ours = pair.ours.answer(&asked).await.with_context(what)?;
        let theirs = pair.postgres.ask(&pair.database, &asked.sql(true))?;
        let theirs = asked.in_order(theirs.lines().map(str::to_owned).collect());
        ensure!(
            ours == theirs && ours.len() as u64 == question.rows(),
            "{}: {} rows of ours, {} of PostgreSQL, {} wanted: {ours:?} and {theirs:?}",
            what(),
            ours.len(),
            theirs.len(),
            question.rows()
        );
    }
    Ok(())
}

impl Pair<'_> {
    /// PostgreSQL's plan for a query.
    fn plan(&self, question: QueryKind) -> anyhow::Result<String> {
        let asked = question.pick(self.parameters, &mut Rng::new(1));
        let sql = format!("EXPLAIN (COSTS OFF) {}", asked.sql(false));
        let plan = self.postgres.ask(&self.database, &sql)?;
        let steps: Vec<_> = plan.lines().map(str::trim).collect();
        Ok(format!("{}: {}", question.name(), steps.join("; ")))
    }
}

async fn take_turns(
    options: &Options,
    pair: &Pair<'_>,
    question: QueryKind,
    clients: usize,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    let data = pair.ours.data();
    let seed = u64::from(round);
    let asked = (question, pair.parameters);
    let ours = pair.ours.measure(asked, clients, options.interval, seed).await?;
    let script = question.script(pair.parameters);
    let theirs =
        pgbench::measure(pair.postgres, &pair.database, &script, clients, options.interval).await?;
    report.add((question.name(), clients, data.documents()), ours, theirs);
    Ok(())
}
