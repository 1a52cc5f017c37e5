//! `cargo run --release -p bench -- COMMAND`; see `--help`.

#![expect(clippy::disallowed_methods, reason = "measures real processes in real time")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use bench::crash::link::Wire;
use bench::crash::rounds;
use bench::direct::compare;
use bench::load::report::Verdict;
use bench::load::run::Options;
use bench::load::workload::Workload;
use bench::load::{do_nothing, raw, run};
use bench::queries::query_kind::QueryKind;
use bench::server::find_binary;
use bench::{
    counts, hostile, index_cost, noisy_neighbours, queries, scripts, search, soak, splits, tables,
    throttle,
};
use clap::{Parser, Subcommand};
use testkit::server::ServerBuilder;

/// Drives a planisphere binary: load, crashes, bad input.
#[derive(Parser)]
#[command(name = "bench")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure throughput, latency and processor time per operation beside a do-nothing server,
    /// the bare store and @vercel/cosmosdb-server
    Run(RunArguments),
    /// Kill the server under 16 writers again and again and check what it acknowledged
    Crash(CrashArguments),
    /// Send bad requests, noise and hundreds of bad clients and check that the server withstands
    /// them
    Hostile(HostileArguments),
    /// Split and merge a partition under load and measure how long requests are held
    Splits(SplitsArguments),
    /// Request more throughput than partitions are provisioned with and add up what they serve
    Throttle(ThrottleArguments),
    /// Measure how long other clients wait while a client sends queries with unbounded cost
    Beside(NeighbourArguments),
    /// Write steadily for a long time and check for stalls and growth
    Soak(SoakArguments),
    /// Run the same queries on PostgreSQL and on the server, with the same documents, and compare
    /// the processor time
    Query(QueryArguments),
    /// Measure the cost of indexing every path for a write, and the memory and disk space of a
    /// loaded server
    IndexCost(IndexCostArguments),
    /// Count the documents of a container and of a partition key, and compare the processor time
    /// with that of point reads
    Counts(CountsArguments),
    /// Search for the nearest vectors and the best texts among many
    Search(SearchArguments),
    /// Send the same requests over HTTPS and in Direct mode, and compare the server's processor
    /// time
    Direct(DirectArguments),
    /// Insert by a stored procedure and by single requests, then read beside hostile scripts
    Scripts(ScriptsArguments),
    /// Send the same requests to Azurite and to the table listener, with the same entities, and
    /// compare processor time and memory
    Tables(TablesArguments),
    /// Serve the replies in a file (used by `run` itself)
    #[command(hide = true)]
    DoNothing {
        /// The replies as JSON.
        replies: PathBuf,
    },
    /// Replay what the engine commits on the bare store (used by `run` itself)
    #[command(hide = true)]
    RawStore {
        /// The recorded operations.
        recording: String,
        /// An empty directory.
        scratch: PathBuf,
    },
}

#[derive(clap::Args)]
struct RunArguments {
    /// The planisphere binary; by default the one beside this program
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Seconds of load per workload, server and round
    #[arg(long, default_value_t = 1.2)]
    seconds: f64,
    /// How often each measurement is repeated, servers taking turns; twice that for workloads with
    /// a bound
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Only these workloads (names as in the table, several separated by commas)
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Leave out the npm package
    #[arg(long)]
    no_rival: bool,
    /// How often the start is timed
    #[arg(long, default_value_t = 10)]
    starts: u32,
    /// Also write everything that was measured to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Fail if a bound is not met
    #[arg(long)]
    check: bool,
}

#[derive(clap::Args)]
struct CrashArguments {
    /// The planisphere binary; by default the one beside this program
    #[arg(long)]
    bin: Option<PathBuf>,
    /// How often the server is killed under load
    #[arg(long, default_value_t = 200)]
    rounds: u32,
    /// Repeats the choices of an earlier test; by default a new seed
    #[arg(long)]
    seed: Option<u64>,
    /// Change the throughput all the time, so that partitions are split and merged
    #[arg(long)]
    repartition: bool,
    /// Write as clients in Direct mode do
    #[arg(long)]
    direct: bool,
    /// A further argument of the server (may be repeated)
    #[arg(long = "serve-arg", allow_hyphen_values = true)]
    serve_args: Vec<String>,
}

#[derive(clap::Args)]
struct DirectArguments {
    /// The planisphere binary; by default the one beside this program
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Requests of each measurement
    #[arg(long, default_value_t = 40_000)]
    requests: u64,
    /// How often each measurement is repeated, the wires taking turns
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Only these operations (point-read, upsert)
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these wires (https, direct, direct-apart)
    #[arg(long, value_delimiter = ',')]
    wires: Vec<String>,
    /// Fail if Direct mode costs more than its share
    #[arg(long)]
    check: bool,
}

#[derive(clap::Args)]
struct HostileArguments {
    /// The planisphere binary; by default the one beside this program
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Repeats the choices of an earlier test; by default a new seed
    #[arg(long)]
    seed: Option<u64>,
    /// Connections of noise
    #[arg(long, default_value_t = 5_000)]
    noise: u32,
    /// Connections of each kind of bad client
    #[arg(long, default_value_t = 100)]
    crowd: usize,
}

#[derive(clap::Args)]
struct SplitsArguments {
    /// Splits under load; as many merges are made between them
    #[arg(long, default_value_t = 50)]
    splits: u32,
    /// Size of the partition in MB
    #[arg(long, default_value_t = 100)]
    megabytes: u64,
    /// Directory for the data; by default a temporary one
    #[arg(long)]
    data: Option<PathBuf>,
}

#[derive(clap::Args)]
struct ThrottleArguments {
    /// The planisphere binary; by default the one beside this program
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Seconds per scenario
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
}

#[derive(clap::Args)]
struct NeighbourArguments {
    /// The planisphere binary; by default the one beside this program
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Seconds per number of hostile clients
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Numbers of hostile clients, several separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 4, 16, 64])]
    hostile: Vec<usize>,
}

#[derive(clap::Args)]
struct SoakArguments {
    /// The planisphere binary; by default the one beside this program
    #[arg(long)]
    bin: Option<PathBuf>,
    /// How long the steady load lasts
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Seconds for measuring the peak
    #[arg(long, default_value_t = 20)]
    peak_seconds: u64,
    /// The steady load in percent of the peak
    #[arg(long, default_value_t = 80)]
    percent: u64,
}

#[derive(clap::Args)]
struct QueryArguments {
    /// The planisphere binary; by default the one beside this program
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Numbers of documents, several separated by commas; multiples of 1,000
    #[arg(long, value_delimiter = ',', default_values_t = [10_000])]
    documents: Vec<u64>,
    /// Also measure one million documents (takes minutes to load and some 6 GB of disk)
    #[arg(long)]
    million: bool,
    /// Use as many different parameters as the fewest documents have; by default the parameters
    /// cover all documents
    #[arg(long)]
    alike: bool,
    /// Give both sides 4 GB of cache instead of 1 and read all documents before the measurement
    #[arg(long)]
    warm: bool,
    /// Give the container a composite index over partition key and seq, as PostgreSQL has one; by
    /// default it has the default policy
    #[arg(long)]
    composite: bool,
    /// MiB of cache for each side, instead of 1,024 or, with --warm, 4,096
    #[arg(long)]
    cache_mib: Option<u64>,
    /// Numbers of connections, several separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8])]
    clients: Vec<usize>,
    /// Only these queries (names as in the table, several separated by commas)
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Seconds of load per query, server and round
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// How often each measurement is repeated, both sides taking turns
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Directory for the data, which all users must be able to enter; by default a temporary one
    #[arg(long)]
    data: Option<PathBuf>,
    /// Also write everything that was measured to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Fail if a bound is not met
    #[arg(long)]
    check: bool,
}

#[derive(clap::Args)]
struct CountsArguments {
    /// The planisphere binary; by default the one beside this program
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Numbers of documents, several separated by commas; multiples of 1,000
    #[arg(long, value_delimiter = ',', default_values_t = [10_000])]
    documents: Vec<u64>,
    /// Also measure one million documents (takes minutes to load)
    #[arg(long)]
    million: bool,
    /// Seconds of load per kind of request and round
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// How often each measurement is repeated, interleaved with the others
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Connections at a time
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Directory for the data; by default a temporary one
    #[arg(long)]
    data: Option<PathBuf>,
    /// Also write everything that was measured to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Fail if a bound is not met
    #[arg(long)]
    check: bool,
}

#[derive(clap::Args)]
struct IndexCostArguments {
    /// The planisphere binary; by default the one beside this program
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Numbers of documents for which memory is measured, several separated by commas; multiples of
    /// 1,000
    #[arg(long, value_delimiter = ',', default_values_t = [10_000])]
    documents: Vec<u64>,
    /// Also measure one million documents (takes minutes to load)
    #[arg(long)]
    million: bool,
    /// Seconds of load per container and round
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// How often each measurement is repeated, interleaved with the others
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Directory for the data; by default a temporary one
    #[arg(long)]
    data: Option<PathBuf>,
    /// Also write everything that was measured to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Fail if a bound is not met
    #[arg(long)]
    check: bool,
}

#[derive(clap::Args)]
struct SearchArguments {
    /// The planisphere binary; by default the one beside this program
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Where `search/make_data.py` has put sentences and embeddings
    #[arg(long, env = "SEARCH_BENCH_CACHE")]
    cache: PathBuf,
    /// How many of them are loaded
    #[arg(long, default_value_t = 100_000)]
    items: usize,
    /// How many vectors and pairs of words are searched for
    #[arg(long, default_value_t = 100)]
    questions: usize,
    /// Directory for the server's data; by default a temporary one
    #[arg(long)]
    data: Option<PathBuf>,
    /// Also write everything that was measured to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Fail if a bound is not met
    #[arg(long)]
    check: bool,
}

#[derive(clap::Args)]
struct ScriptsArguments {
    /// The planisphere binary; by default the one beside this program
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Hostile scripts in all
    #[arg(long, default_value_t = 1_000)]
    scripts: usize,
    /// Reads per second
    #[arg(long, default_value_t = 1_000)]
    rate: u32,
    /// Seconds of reads without scripts
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
}

#[derive(clap::Args)]
struct TablesArguments {
    /// The planisphere binary; by default the one beside this program
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Entities in the table
    #[arg(long, default_value_t = 35_000)]
    entities: usize,
    /// Seconds of load per kind of request, server and round
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// How often each measurement is repeated, servers taking turns
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Connections at a time
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Only these requests (names as in the table, several separated by commas)
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Fail if a bound is not met
    #[arg(long)]
    check: bool,
}

#[expect(clippy::print_stdout, reason = "the report is what this program is for")]
fn run_tables(arguments: &TablesArguments) -> anyhow::Result<ExitCode> {
    let is_wanted = |work: &tables::Work| {
        arguments.only.is_empty() || arguments.only.iter().any(|name| name == work.name())
    };
    anyhow::ensure!(arguments.entities >= 200, "two partitions of 100 entities are the least");
    let options = tables::Options {
        entities: arguments.entities,
        duration: Duration::from_secs_f64(arguments.seconds),
        rounds: arguments.rounds,
        connections: arguments.connections,
        works: tables::Work::ALL.into_iter().filter(is_wanted).collect(),
    };
    let binary = find_binary(arguments.bin.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(tables::run(&binary, &options))?;
    print!("{report}");
    let broken = report.broken();
    broken.iter().for_each(|bound| println!("BROKEN: {bound}"));
    Ok(if arguments.check && !broken.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Run(arguments) => measure(&arguments),
        Command::Crash(arguments) => crash(arguments),
        Command::Direct(arguments) => measure_direct(&arguments),
        Command::Hostile(arguments) => hammer(&arguments),
        Command::Soak(arguments) => write_steadily(&arguments),
        Command::Splits(arguments) => measure_splits(&arguments),
        Command::Throttle(arguments) => measure_throttling(&arguments),
        Command::Beside(arguments) => measure_noisy_neighbours(&arguments),
        Command::Query(arguments) => ask(&arguments),
        Command::IndexCost(arguments) => measure_index(&arguments),
        Command::Counts(arguments) => measure_counts(&arguments),
        Command::Search(arguments) => measure_search(&arguments),
        Command::Scripts(arguments) => run_scripts(&arguments),
        Command::Tables(arguments) => run_tables(&arguments),
        Command::RawStore { recording, scratch } => {
            raw::serve(&recording, &scratch).map(|()| ExitCode::SUCCESS)
        }
        Command::DoNothing { replies } => do_nothing::serve(&replies).map(|()| ExitCode::SUCCESS),
    }
}

#[expect(clippy::print_stdout, reason = "the report is the output")]
fn measure(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let options = Options {
        binary: find_binary(arguments.bin.as_deref())?,
        interval: Duration::try_from_secs_f64(arguments.seconds).context("--seconds")?,
        rounds: arguments.rounds,
        workloads: named(&arguments.only, &Workload::ALL, |workload| workload.name())?,
        with_rival: !arguments.no_rival,
        starts: arguments.starts,
    };
    // One thread: the client must leave the other core to the server.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(run::run(&options))?;
    println!("{}\n{}", report.table(), report.ratios());
    for remark in &report.remarks {
        println!("note: {remark}");
    }
    if let Some(told) = report.durable_create_full_groups() {
        println!("note: {told}");
    }
    conclude(&report, &report.verdicts(), arguments.json.as_deref(), arguments.check)
}

#[expect(clippy::print_stdout, reason = "the report is the output")]
fn crash(arguments: CrashArguments) -> anyhow::Result<ExitCode> {
    let directory = tempfile::tempdir()?;
    let options = rounds::Options {
        binary: find_binary(arguments.bin.as_deref())?,
        data: directory.path().join("data"),
        rounds: arguments.rounds,
        seed: arguments.seed.unwrap_or_else(fresh_seed),
        arguments: arguments.serve_args,
        repartition: arguments.repartition,
        wire: if arguments.direct { Wire::Direct } else { Wire::Http },
    };
    println!("seed {}", options.seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let summary = match runtime.block_on(rounds::run(&options, |line| println!("{line}"))) {
        Ok(summary) if summary.violations.is_empty() => summary,
        outcome => {
            println!("the data directory is kept in {}", directory.keep().display());
            println!("repeat with: cargo xtask crash --seed {}", options.seed);
            let summary = outcome?;
            for (round, violation) in &summary.violations {
                println!("round {round}: {violation}");
            }
            return Ok(ExitCode::FAILURE);
        }
    };
    println!("{summary}");
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "the report is the output")]
fn measure_direct(arguments: &DirectArguments) -> anyhow::Result<ExitCode> {
    let options = compare::Options {
        binary: find_binary(arguments.bin.as_deref())?,
        requests: arguments.requests,
        rounds: arguments.rounds,
        operations: named(&arguments.only, &compare::Operation::ALL, |one| one.name())?,
        wires: named(&arguments.wires, &compare::Wire::ALL, |one| one.name())?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(compare::run(&options))?;
    println!("{report}");
    let fails = arguments.check && !report.is_within_bounds();
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[expect(clippy::print_stdout, reason = "the report is the output")]
fn hammer(arguments: &HostileArguments) -> anyhow::Result<ExitCode> {
    let seed = arguments.seed.unwrap_or_else(fresh_seed);
    println!("seed {seed}");
    let mut server = ServerBuilder::new(find_binary(arguments.bin.as_deref())?)
        .args(hostile::SERVER_ARGUMENTS)
        .start()?;
    let options = hostile::HostileOptions { seed, noise: arguments.noise, crowd: arguments.crowd };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(hostile::run(&mut server, options))?;
    println!(
        "every hostile request was answered or its connection closed, and the server still serves"
    );
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "the report is the output")]
fn write_steadily(arguments: &SoakArguments) -> anyhow::Result<ExitCode> {
    let options = soak::Options {
        binary: find_binary(arguments.bin.as_deref())?,
        steady: Duration::try_from_secs_f64(arguments.minutes * 60.0).context("--minutes")?,
        peak: Duration::from_secs(arguments.peak_seconds),
        percent: arguments.percent,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!("{}", runtime.block_on(soak::run(&options, |line| println!("{line}")))?);
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "the report is the output")]
fn measure_splits(arguments: &SplitsArguments) -> anyhow::Result<ExitCode> {
    let directory = match &arguments.data {
        Some(parent) => tempfile::tempdir_in(parent)?,
        None => tempfile::tempdir()?,
    };
    let options = splits::Options { splits: arguments.splits, megabytes: arguments.megabytes };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report =
        runtime.block_on(splits::run(directory.path(), options, |line| println!("{line}")))?;
    println!("{report}");
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "the report is the output")]
fn measure_throttling(arguments: &ThrottleArguments) -> anyhow::Result<ExitCode> {
    let binary = find_binary(arguments.bin.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(throttle::run(&binary, arguments.seconds))?;
    println!("{report}");
    report.check()?;
    let is_within_bound = report.deviation().abs() <= 0.05;
    println!("{}: within 5% of the share", if is_within_bound { "kept" } else { "MISSED" });
    Ok(if is_within_bound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[expect(clippy::print_stdout, reason = "the report is the output")]
fn measure_noisy_neighbours(arguments: &NeighbourArguments) -> anyhow::Result<ExitCode> {
    let binary = find_binary(arguments.bin.as_deref())?;
    let lasts = Duration::try_from_secs_f64(arguments.seconds).context("--seconds")?;
    // The watched client must not wait while the others build their requests.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let all = runtime.block_on(noisy_neighbours::run(&binary, lasts, &arguments.hostile))?;
    all.iter().for_each(|report| println!("{report}"));
    let is_within_bound = all.iter().all(noisy_neighbours::NeighbourReport::is_within_bound);
    println!("{}: 99% below 50 ms", if is_within_bound { "kept" } else { "MISSED" });
    Ok(if is_within_bound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[expect(clippy::print_stdout, reason = "the report is the output")]
fn ask(arguments: &QueryArguments) -> anyhow::Result<ExitCode> {
    let questions = named(&arguments.only, &QueryKind::ALL, |question| question.name())?;
    let options = queries::Options {
        binary: find_binary(arguments.bin.as_deref())?,
        scratch: arguments.data.clone().unwrap_or_else(std::env::temp_dir),
        sizes: sizes(&arguments.documents, arguments.million),
        clients: arguments.clients.clone(),
        questions,
        interval: Duration::try_from_secs_f64(arguments.seconds).context("--seconds")?,
        rounds: arguments.rounds,
        is_alike: arguments.alike,
        is_warm: arguments.warm,
        is_composite: arguments.composite,
        cache_mib: arguments.cache_mib,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(queries::run(&options))?;
    println!("PostgreSQL {}", report.version);
    for plan in &report.plans {
        println!("its plan of {plan}");
    }
    println!("\n{}\n{}\n{}", report.table(), report.growth(), report.memory());
    conclude(&report, &report.verdicts(), arguments.json.as_deref(), arguments.check)
}

#[expect(clippy::print_stdout, reason = "the report is the output")]
fn measure_index(arguments: &IndexCostArguments) -> anyhow::Result<ExitCode> {
    let options = index_cost::Options {
        binary: find_binary(arguments.bin.as_deref())?,
        scratch: arguments.data.clone().unwrap_or_else(std::env::temp_dir),
        sizes: sizes(&arguments.documents, arguments.million),
        interval: Duration::try_from_secs_f64(arguments.seconds).context("--seconds")?,
        rounds: arguments.rounds,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(index_cost::run(&options))?;
    println!("{}\n{}", report.table(), report.memory());
    conclude(&report, &report.verdicts(), arguments.json.as_deref(), arguments.check)
}

#[expect(clippy::print_stdout, reason = "the report is the output")]
fn measure_counts(arguments: &CountsArguments) -> anyhow::Result<ExitCode> {
    let options = counts::Options {
        binary: find_binary(arguments.bin.as_deref())?,
        scratch: arguments.data.clone().unwrap_or_else(std::env::temp_dir),
        sizes: sizes(&arguments.documents, arguments.million),
        connections: arguments.connections,
        interval: Duration::try_from_secs_f64(arguments.seconds).context("--seconds")?,
        rounds: arguments.rounds,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(counts::run(&options))?;
    println!("{report}");
    conclude(&report, &report.verdicts(), arguments.json.as_deref(), arguments.check)
}

#[expect(clippy::print_stdout, reason = "the report is the output")]
fn measure_search(arguments: &SearchArguments) -> anyhow::Result<ExitCode> {
    let options = search::Options {
        binary: find_binary(arguments.bin.as_deref())?,
        cache: arguments.cache.clone(),
        scratch: arguments.data.clone().unwrap_or_else(std::env::temp_dir),
        items: arguments.items,
        questions: arguments.questions,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(search::run(&options))?;
    println!("{}", report.table());
    conclude(&report, &report.verdicts(), arguments.json.as_deref(), arguments.check)
}

#[expect(clippy::print_stdout, reason = "the report is the output")]
fn run_scripts(arguments: &ScriptsArguments) -> anyhow::Result<ExitCode> {
    let options = scripts::Options {
        scripts: arguments.scripts,
        rate: arguments.rate,
        alone: Duration::try_from_secs_f64(arguments.seconds).context("--seconds")?,
    };
    let binary = find_binary(arguments.bin.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(scripts::run(&binary, options))?;
    println!("{report}");
    report.check()?;
    println!("kept: one call is 5 times as fast, and reads cost at most 1.2 times as much");
    Ok(ExitCode::SUCCESS)
}

fn sizes(given: &[u64], is_million_too: bool) -> Vec<u64> {
    let mut sizes = given.to_vec();
    sizes.extend(is_million_too.then_some(1_000_000));
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Prints whether the bounds are met and writes the measurements.
#[expect(clippy::print_stdout, reason = "the report is the output")]
fn conclude(
    report: &impl serde::Serialize,
    verdicts: &[Verdict],
    json: Option<&Path>,
    is_checked: bool,
) -> anyhow::Result<ExitCode> {
    for verdict in verdicts {
        println!("{}: {}", if verdict.kept { "kept" } else { "MISSED" }, verdict.text);
    }
    if let Some(path) = json {
        std::fs::write(path, serde_json::to_vec_pretty(report)?)
            .with_context(|| format!("could not write {}", path.display()))?;
    }
    let failed = is_checked && verdicts.iter().any(|verdict| !verdict.kept);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn fresh_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |since| since.as_secs())
}

/// The elements of `all` with one of `names`; all if there are no names.
fn named<T: Copy>(
    names: &[String],
    all: &[T],
    name_of: impl Fn(&T) -> &'static str,
) -> anyhow::Result<Vec<T>> {
    if names.is_empty() {
        return Ok(all.to_vec());
    }
    names
        .iter()
        .map(|name| {
            all.iter().copied().find(|one| name_of(one) == name).with_context(|| {
                let known: Vec<_> = all.iter().map(&name_of).collect();
                format!("there is no {name}; there are {}", known.join(", "))
            })
        })
        .collect()
}
