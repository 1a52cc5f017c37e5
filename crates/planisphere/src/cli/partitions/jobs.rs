//! `planisphere partitions split`, `merge` and `jobs`.

use anyhow::bail;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Value, json};

use super::{ContainerPath, Output, container_arg, render, wait};
use crate::admin::types::{
    Job, JobKind, JobPhase, Jobs, MergeRequest, PartitionNumber, SplitRequest,
};
use crate::cli::client::Client;
use crate::cli::text;

pub(super) fn split_command() -> Command {
    let id = Arg::new("id")
        .value_name("PARTITION")
        .required(true)
        .value_parser(value_parser!(u32))
        .help("Id of the partition, as `partitions show` prints it");
    let at =
        Arg::new("at").long("at").value_name("median|midpoint|EPK").default_value("median").help(
            "Split point: `median` halves the bytes, `midpoint` halves the range, EPK is an \
             effective partition key",
        );
    Command::new("split")
        .about("Split a partition in two, online")
        .after_help("Example:\n  planisphere partitions split shop/orders 0")
        .args([container_arg(), id, at, manual_arg(), no_wait_arg()])
}

pub(super) fn merge_command() -> Command {
    let ids = Arg::new("ids")
        .value_name("PARTITION")
        .required(true)
        .num_args(2..)
        .value_parser(value_parser!(u32))
        .help("Ids of neighbouring partitions");
    Command::new("merge")
        .about("Merge neighbouring partitions, online")
        .after_help("Example:\n  planisphere partitions merge shop/orders 1 2")
        .args([container_arg(), ids, manual_arg(), no_wait_arg()])
}

pub(super) fn command() -> Command {
    let id = Arg::new("id").value_name("JOB").value_parser(value_parser!(u32)).help("One job only");
    let step = Arg::new("step")
        .value_name("STEP")
        .requires("id")
        .value_parser(["advance", "cancel", "pause", "resume"])
        .help("Action on the job");
    Command::new("jobs")
        .about("List splits and merges, and advance, cancel, pause or resume one")
        .after_help(
            "Examples:\n  planisphere partitions jobs\n  planisphere partitions jobs 3 pause",
        )
        .args([id, step])
}

fn manual_arg() -> Arg {
    Arg::new("manual").long("manual").action(ArgAction::SetTrue).help(
        "Stop before the change-over, and run its steps with `jobs ID advance`: the first makes \
         the partition answer 410/1007, the second activates the new partitions",
    )
}

fn no_wait_arg() -> Arg {
    Arg::new("no-wait")
        .long("no-wait")
        .action(ArgAction::SetTrue)
        .help("Return as soon as the job has started")
}

pub(super) async fn split(
    client: &Client,
    matches: &ArgMatches,
    output: Output,
) -> anyhow::Result<()> {
    let Some(container) = matches.get_one::<ContainerPath>("container") else { return Ok(()) };
    let id = matches.get_one::<u32>("id").copied().unwrap_or_default();
    let at = matches.get_one::<String>("at").cloned();
    let params = SplitRequest { at, manual: matches.get_flag("manual") };
    let path = format!("{}/partitions/{id}/split", container.url());
    let job: Job = client.post(&path, &params).await?;
    follow(client, matches, output, job).await
}

pub(super) async fn merge(
    client: &Client,
    matches: &ArgMatches,
    output: Output,
) -> anyhow::Result<()> {
    let Some(container) = matches.get_one::<ContainerPath>("container") else { return Ok(()) };
    let ids = matches.get_many::<u32>("ids").unwrap_or_default();
    let ids = ids.copied().map(PartitionNumber::Number).collect();
    let params = MergeRequest { ids, manual: matches.get_flag("manual") };
    let path = format!("{}/partitions/merge", container.url());
    let job: Job = client.post(&path, &params).await?;
    follow(client, matches, output, job).await
}

/// Waits for the end of a started job, unless the user asked not to wait or the job is driven
/// manually.
async fn follow(
    client: &Client,
    matches: &ArgMatches,
    output: Output,
    mut job: Job,
) -> anyhow::Result<()> {
    let waits = !matches.get_flag("no-wait") && !job.manual;
    if waits && !wait::is_over(&job) {
        job = wait::until_over(client, job, output.style).await?;
    }
    if output.is_json {
        text::print(&format!("{:#}\n", serde_json::to_value(&job)?))?;
    }
    match job.phase {
        JobPhase::Failed => {
            bail!("job {} failed: {}", job.id, job.error.as_deref().unwrap_or("unknown reason"))
        }
        JobPhase::Cancelled => bail!("job {} was cancelled", job.id),
        JobPhase::Preparing | JobPhase::Swapping | JobPhase::Succeeded if output.is_json => Ok(()),
        JobPhase::Preparing | JobPhase::Swapping | JobPhase::Succeeded => {
            let id = job.id;
            let then = match job.manual {
                true => {
                    format!(
                        "is waiting. `planisphere partitions jobs {id} advance` runs its \
                         next step."
                    )
                }
                false => format!(
                    "is running. `planisphere partitions jobs {id}` shows its \
                         progress."
                ),
            };
            text::print(&format!("{}\n", job_text(&job, &then)))
        }
    }
}

/// A job as text; one that has not ended is described with `then`.
pub(super) fn job_text(job: &Job, then: &str) -> String {
    let (sources, children) = (job.sources.join(" and "), job.children.join(" and "));
    let what = match job.kind {
        JobKind::Split => format!("partition {sources} into {children}"),
        JobKind::Merge => format!("partitions {sources} into {children}"),
    };
    let verb = |present: &'static str, past: &'static str| match job.phase {
        JobPhase::Succeeded => past,
        JobPhase::Preparing | JobPhase::Swapping | JobPhase::Failed | JobPhase::Cancelled => {
            present
        }
    };
    let verb = match job.kind {
        JobKind::Split => verb("Splitting", "Split"),
        JobKind::Merge => verb("Merging", "Merged"),
    };
    let id = job.id;
    match (job.took_ms, job.held_ms) {
        (Some(took), Some(held)) => format!(
            "{verb} {what} in {}; writers were blocked for {}.",
            text::duration(took),
            text::duration(held)
        ),
        (None, _) | (_, None) => format!("{verb} {what}: job {id} {then}"),
    }
}

pub(super) async fn run(
    client: &Client,
    matches: &ArgMatches,
    output: Output,
) -> anyhow::Result<()> {
    let step = matches.get_one::<String>("step");
    let answer: Value = match (matches.get_one::<u32>("id"), step) {
        (Some(id), Some(step)) => {
            client.post(&format!("/_admin/v1/jobs/{id}/{step}"), &json!({})).await?
        }
        (Some(id), None) => client.get(&format!("/_admin/v1/jobs/{id}")).await?,
        (None, _) => client.get("/_admin/v1/jobs").await?,
    };
    if output.is_json {
        return text::print(&format!("{answer:#}\n"));
    }
    let jobs = match matches.contains_id("id") {
        true => vec![serde_json::from_value(answer)?],
        false => serde_json::from_value::<Jobs>(answer)?.jobs,
    };
    if jobs.is_empty() {
        return text::print("No partition has been split or merged since the server started.\n");
    }
    text::print(&render::joined(&render::jobs(&jobs, output.style).lines()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(phase: &str) -> Job {
        let mut job = json!({
            "id": 3, "kind": "merge", "reason": "asked", "manual": false, "phase": phase,
            "paused": false, "sources": ["1", "2"], "children": ["3"], "rowsCopied": 0,
            "bytesCopied": 0, "progress": 0.0, "started": 1,
        });
        if phase == "succeeded" {
            job["tookMs"] = json!(35.4);
            job["heldMs"] = json!(0.42);
        }
        serde_json::from_value(job).unwrap()
    }

    #[test]
    fn a_job_is_told_in_a_sentence() {
        assert_eq!(
            job_text(&job("succeeded"), "is running."),
            "Merged partitions 1 and 2 into 3 in 35 ms; writers were blocked for 0.4 ms."
        );
        assert_eq!(
            job_text(&job("preparing"), "is running."),
            "Merging partitions 1 and 2 into 3: job 3 is running."
        );
    }
}
