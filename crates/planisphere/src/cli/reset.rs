//! `planisphere reset`: empty the server for the next test.

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::Value;

use super::client::{self, Client};
use super::partitions::json_arg;
use super::text;
use crate::admin::types::{ResetRequest, ResetSummary};

const EXAMPLES: &str = "\
Examples:
  planisphere reset          empties a server that was started with --memory
  planisphere reset --yes    empties any server; its data is deleted from disk too

Deletes all databases with their containers, users, permissions and throughput, and all injected
faults; the account's keys and open connections stay. If it is interrupted, run it again.";

pub(super) fn command() -> Command {
    let yes = Arg::new("yes")
        .long("yes")
        .action(ArgAction::SetTrue)
        .help("Also reset a server that stores data on disk");
    Command::new("reset")
        .about("Delete all data of a server, for tests")
        .after_help(EXAMPLES)
        .args([yes, json_arg()])
        .args(client::args())
}

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let client = Client::of(matches)?;
    let params = ResetRequest { yes: matches.get_flag("yes") };
    let answer: Value = super::block_on(client.post("/_admin/v1/reset", &params))?;
    if matches.get_flag("json") {
        return text::print(&format!("{answer:#}\n"));
    }
    let ResetSummary { databases, containers, faults } = serde_json::from_value(answer)?;
    let count = |n: usize, what: &str| {
        format!("{} {what}{}", text::number(n as u64), if n == 1 { "" } else { "s" })
    };
    let ended =
        if faults == 0 { String::new() } else { format!(", ended {}", count(faults, "fault")) };
    let (databases, containers) = (count(databases, "database"), count(containers, "container"));
    text::print(&format!("Deleted {databases} with {containers}{ended}.\n"))
}
