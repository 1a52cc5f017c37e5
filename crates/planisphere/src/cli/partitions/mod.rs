//! `planisphere partitions`: show a container's partitions, split and merge them.

mod jobs;
mod render;
mod show;
mod wait;
mod watch;

use clap::{Arg, ArgAction, ArgMatches, Command};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

pub(super) use render::throughput as throughput_text;

use super::client::{self, Client};
use super::text::OutputStyle;

const EXAMPLES: &str = "\
Examples:
  planisphere partitions show shop/orders           how bytes and requests are spread, and over which keys
  planisphere partitions show                       all containers, most uneven first
  planisphere partitions split shop/orders 0        split partition 0 where half of its bytes lie
  planisphere partitions split shop/orders 0 --at midpoint
  planisphere partitions merge shop/orders 1 2      merge neighbouring partitions
  planisphere partitions watch shop/orders          refreshed every second, with jobs under way
  planisphere partitions jobs                       splits and merges, running and done
  planisphere partitions jobs 3 cancel              advance, cancel, pause or resume one

The skew of a partition is how many times its fair share of bytes it holds: 1.0 is even, 4.0 is all
of a container with four partitions. The mark in each bar shows an even share.
A container that is skewed because of one large key can't be fixed by splitting: all items
of a key stay in one partition. See docs/operations.md.";

/// A container and its database, as the command line names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerPath {
    database: String,
    container: String,
}

pub(super) fn command() -> Command {
    let commands = [
        show::command(),
        jobs::split_command(),
        jobs::merge_command(),
        watch::command(),
        jobs::command(),
    ];
    Command::new("partitions")
        .about("Show, split and merge the partitions of a container")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(commands.map(|command| command.args(client::args()).arg(json_arg())))
}

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let Some((name, matches)) = matches.subcommand() else { return Ok(()) };
    let client = Client::of(matches)?;
    let output = Output { style: OutputStyle::of_stdout(), is_json: matches.get_flag("json") };
    super::block_on(async {
        match name {
            "split" => jobs::split(&client, matches, output).await,
            "merge" => jobs::merge(&client, matches, output).await,
            "watch" => watch::run(&client, matches, output).await,
            "jobs" => jobs::run(&client, matches, output).await,
            _ => show::run(&client, matches, output).await,
        }
    })
}

/// Returns when the user stops the command.
async fn stopped() -> anyhow::Result<()> {
    let mut signals = crate::shutdown::Signals::listen()?;
    signals.next().await;
    Ok(())
}

/// How results are written.
#[derive(Clone, Copy, Debug)]
struct Output {
    style: OutputStyle,
    is_json: bool,
}

pub(super) fn json_arg() -> Arg {
    Arg::new("json")
        .long("json")
        .action(ArgAction::SetTrue)
        .help("Print the server's answer as JSON")
}

fn container_arg() -> Arg {
    Arg::new("container")
        .value_name("DATABASE/CONTAINER")
        .required(true)
        .value_parser(ContainerPath::parse)
        .help("The container")
}

impl ContainerPath {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((database, container))
                if !database.is_empty() && !container.is_empty() && !container.contains('/') =>
            {
                Ok(Self { database: database.to_owned(), container: container.to_owned() })
            }
            _ => Err("name the database and the container, such as shop/orders".to_owned()),
        }
    }

    pub(super) fn database(&self) -> &str {
        &self.database
    }

    pub(super) fn container(&self) -> &str {
        &self.container
    }

    /// Its address in the admin API.
    pub(super) fn url(&self) -> String {
        let Self { database, container } = self;
        format!("/_admin/v1/containers/{}/{}", encoded(database), encoded(container))
    }
}

impl std::fmt::Display for ContainerPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.database, self.container)
    }
}

/// A name as a segment of a path.
pub(super) fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_named_with_its_database() {
        let path = ContainerPath::parse("my shop/orders").unwrap();
        assert_eq!(path.url(), "/_admin/v1/containers/my%20shop/orders");
        for wrong in ["orders", "/orders", "shop/", "a/b/c", ""] {
            assert!(ContainerPath::parse(wrong).is_err(), "{wrong}");
        }
    }
}
