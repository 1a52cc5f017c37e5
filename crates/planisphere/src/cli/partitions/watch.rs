//! `planisphere partitions watch`.

use std::io::IsTerminal;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command, value_parser};

use super::{ContainerPath, Output, container_arg, render, stopped};
use crate::admin::types::{ContainerPartitions, Job, JobPhase, Jobs};
use crate::cli::client::{Client, Retries};
use crate::cli::text::{self, Tone};

/// Finished jobs that are still shown.
const OVER_SHOWN: usize = 5;

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
/// Moves to the first line and erases everything after it.
const START_OVER: &str = "\x1b[H\x1b[J";

pub(super) fn command() -> Command {
    let interval = Arg::new("interval")
        .long("interval")
        .value_name("SECONDS")
        .default_value("1")
        .value_parser(value_parser!(u32).range(1..=3600))
        .help("Seconds between updates");
    let count = Arg::new("count")
        .long("count")
        .value_name("N")
        .value_parser(value_parser!(u32).range(1..))
        .help("Stop after this many updates instead of at Ctrl-C");
    let top = Arg::new("top")
        .long("top")
        .value_name("N")
        .value_parser(value_parser!(u8).range(0..=100))
        .default_value("0")
        .help("Largest and busiest keys to show of each partition");
    Command::new("watch")
        .about("Show a container's partitions and jobs, refreshed periodically")
        .after_help("Example:\n  planisphere partitions watch shop/orders --interval 2 --top 3")
        .args([container_arg(), interval, count, top])
}

pub(super) async fn run(
    client: &Client,
    matches: &ArgMatches,
    output: Output,
) -> anyhow::Result<()> {
    let is_screen = std::io::stdout().is_terminal() && !output.is_json;
    if is_screen {
        text::print(HIDE_CURSOR)?;
    }
    let outcome = tokio::select! {
        outcome = poll_until_stopped(client, matches, output, is_screen) => outcome,
        stopped = stopped() => stopped,
    };
    if is_screen {
        text::print(SHOW_CURSOR)?;
    }
    outcome
}

async fn poll_until_stopped(
    client: &Client,
    matches: &ArgMatches,
    output: Output,
    is_screen: bool,
) -> anyhow::Result<()> {
    let Some(container) = matches.get_one::<ContainerPath>("container") else { return Ok(()) };
    let seconds = matches.get_one::<u32>("interval").copied().unwrap_or(1);
    let top = matches.get_one::<u8>("top").copied().unwrap_or(0);
    let path = format!("{}/partitions?top={top}", container.url());
    let mut left = matches.get_one::<u32>("count").copied();
    let interval = Duration::from_secs(u64::from(seconds));
    // Before the first response a failure ends the command.
    let mut retries: Option<Retries> = None;
    loop {
        let shown = match (fetch(client, &path).await, &mut retries) {
            (Ok(shown), _) => shown,
            (Err(error), None) => return Err(error),
            (Err(error), Some(retries)) => {
                print_notice(&retries.failed(error)?, is_screen);
                tokio::time::sleep(interval).await;
                continue;
            }
        };
        retries = Some(Retries::default());
        let frame = match output.is_json {
            true => format!("{}\n", serde_json::to_string(&shown)?),
            false => render::container(&shown, output.style),
        };
        let is_read = if is_screen {
            let hint = output.style.paint(Tone::Dim, "Ctrl-C stops watching.");
            text::print_to_reader(&format!("{START_OVER}{frame}\n{hint}\n"))?
        } else {
            text::print_to_reader(&frame)?
        };
        if !is_read {
            return Ok(());
        }
        left = left.map(|left| left - 1);
        if left == Some(0) {
            return Ok(());
        }
        tokio::time::sleep(interval).await;
        if !is_screen && !output.is_json {
            text::print("\n")?;
        }
    }
}

async fn fetch(client: &Client, path: &str) -> anyhow::Result<ContainerPartitions> {
    let mut shown: ContainerPartitions = client.get(path).await?;
    shown.jobs = jobs_of(&shown, client.get::<Jobs>("/_admin/v1/jobs").await?.jobs);
    Ok(shown)
}

/// Prints below the table that it is not current.
fn print_notice(line: &str, is_screen: bool) {
    match is_screen {
        true => eprint!("\r\x1b[K{line}"),
        false => eprintln!("{line}"),
    }
}

/// The container's jobs: all running ones and the last finished ones.
fn jobs_of(shown: &ContainerPartitions, mut jobs: Vec<Job>) -> Vec<Job> {
    let container = &shown.container;
    jobs.retain(|job| {
        job.database.as_ref() == Some(&container.database)
            && job.container.as_ref() == Some(&container.id)
    });
    let is_over = |job: &Job| !matches!(job.phase, JobPhase::Preparing | JobPhase::Swapping);
    let over = jobs.iter().filter(|job| is_over(job)).count();
    let mut skipped = over.saturating_sub(OVER_SHOWN);
    jobs.retain(|job| {
        let goes = skipped > 0 && is_over(job);
        skipped -= usize::from(goes);
        !goes
    });
    jobs
}
