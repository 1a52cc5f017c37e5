//! `cargo run --release -p bench -- COMMAND`; see `--help`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use bench::load::run::Options;
use bench::load::workload::Workload;
use bench::load::{do_nothing, run};
use bench::server::find_binary;
use clap::{Parser, Subcommand};

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
    /// Serve the replies in a file (used by `run` itself)
    #[command(hide = true)]
    DoNothing {
        /// The replies as JSON.
        replies: PathBuf,
    },
}

#[derive(clap::Args)]
struct RunArguments {
    /// The planisphere binary; the one beside this program if not given
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Seconds of load per workload, server and round
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// How often each measurement is repeated, servers taking turns
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
    /// Fail when a bound is not kept
    #[arg(long)]
    check: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Run(arguments) => measure(&arguments),
        Command::DoNothing { replies } => do_nothing::serve(&replies).map(|()| ExitCode::SUCCESS),
    }
}

#[expect(clippy::print_stdout, reason = "the report is the output")]
fn measure(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let options = Options {
        binary: find_binary(arguments.bin.as_deref())?,
        stretch: Duration::try_from_secs_f64(arguments.seconds).context("--seconds")?,
        rounds: arguments.rounds,
        workloads: chosen(&arguments.only)?,
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
    let verdicts = report.verdicts();
    for verdict in &verdicts {
        println!("{}: {}", if verdict.kept { "kept" } else { "MISSED" }, verdict.text);
    }
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)
            .with_context(|| format!("could not write {}", path.display()))?;
    }
    let failed = arguments.check && verdicts.iter().any(|verdict| !verdict.kept);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<Workload>> {
    if names.is_empty() {
        return Ok(Workload::ALL.to_vec());
    }
    names
        .iter()
        .map(|name| {
            Workload::ALL.into_iter().find(|w| w.name() == name).with_context(|| {
                let known: Vec<_> = Workload::ALL.iter().map(|w| w.name()).collect();
                format!("there is no workload {name}; there are {}", known.join(", "))
            })
        })
        .collect()
}
