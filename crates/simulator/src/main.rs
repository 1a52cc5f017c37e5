//! Runs many seeds and prints the result: `simulator [--seeds N] [--from S]`.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "printing is what a command line tool does")]

use std::process::ExitCode;

use simulator::campaign::{self, Summary};

const SEEDS_DEFAULT: u64 = 1_000;
/// A line is printed after so many runs.
const PROGRESS_EVERY: u64 = 100;

struct Arguments {
    seeds: u64,
    from: u64,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("{why}\nusage: simulator [--seeds N] [--from SEED]");
            return ExitCode::from(2);
        }
    };
    let end = arguments.from.saturating_add(arguments.seeds);
    let summary = campaign::run(arguments.from..end, |so_far| {
        if so_far.runs.is_multiple_of(PROGRESS_EVERY) {
            println!("{}", line(so_far));
        }
    });
    if let Some(failed) = &summary.failed {
        println!("{}", campaign::explain(failed));
        return ExitCode::FAILURE;
    }
    println!("all well: {}", line(&summary));
    ExitCode::SUCCESS
}

fn line(summary: &Summary) -> String {
    let Summary { runs, turns, operations, acknowledged, processes, cut_overs, failed: _ } =
        summary;
    format!(
        "{runs} seeds, {turns} turns, {operations} operations, {acknowledged} writes \
         acknowledged, {processes} processes, {cut_overs} splits and merges"
    )
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut parsed = Arguments { seeds: SEEDS_DEFAULT, from: 0 };
    while let Some(name) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse().ok());
        let value = value.ok_or_else(|| format!("{name} needs a number"))?;
        match name.as_str() {
            "--seeds" => parsed.seeds = value,
            "--from" => parsed.from = value,
            other => return Err(format!("there is no {other}")),
        }
    }
    Ok(parsed)
}
