//! `planisphere db`: create, list and delete databases.

use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};

use super::client::{self, Client};
use super::partitions::{encoded, json_arg, throughput_text};
use super::text::{self, Cell, OutputStyle, Table};
use super::throughput;
use crate::admin::types::{DatabaseRequest, DatabaseSummary, Databases};

const URL: &str = "/_admin/v1/databases";

const EXAMPLES: &str = "\
Examples:
  planisphere db create shop                   containers have their own throughput
  planisphere db create shop --throughput 800  its containers share 800 RU/s
  planisphere db create shop --if-not-exists   for scripts that run again
  planisphere db list --json
  planisphere db delete shop                   with all its containers; this cannot be undone

Containers are made with `planisphere container create`.";

pub(super) fn command() -> Command {
    let name = Arg::new("name")
        .value_name("DATABASE")
        .required(true)
        .value_parser(parse_name)
        .help("Name of the database");
    let create = Command::new("create")
        .about("Create a database")
        .after_help(
            "Examples:\n  planisphere db create shop\n  planisphere db create shop --autoscale 4000",
        )
        .arg(name.clone())
        .args(throughput::new_args("Request units per second that its containers share"))
        .arg(if_not_exists_arg());
    let list =
        Command::new("list").about("List databases").after_help("Example:\n  planisphere db list");
    let delete = Command::new("delete")
        .about("Delete a database with all its containers and items, without confirmation")
        .after_help("Example:\n  planisphere db delete shop --if-exists")
        .args([name, if_exists_arg()]);
    let common = |command: Command| command.arg(json_arg()).args(client::args());
    Command::new("db")
        .visible_alias("database")
        .about("Create, list and delete databases")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([create, list, delete].map(common))
}

/// The flag that accepts an existing resource.
pub(super) fn if_not_exists_arg() -> Arg {
    Arg::new("if-not-exists")
        .long("if-not-exists")
        .action(clap::ArgAction::SetTrue)
        .help("Succeed if the database or container already exists")
}

/// The flag that accepts a missing resource as deleted.
pub(super) fn if_exists_arg() -> Arg {
    Arg::new("if-exists")
        .long("if-exists")
        .action(clap::ArgAction::SetTrue)
        .help("Succeed if the database or container does not exist")
}

pub(super) fn parse_name(text: &str) -> Result<String, String> {
    match text.is_empty() || text.contains('/') {
        true => Err("name a database alone, such as shop".to_owned()),
        false => Ok(text.to_owned()),
    }
}

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let Some((verb, matches)) = matches.subcommand() else { return Ok(()) };
    let client = Client::of(matches)?;
    super::block_on(async {
        match (verb, matches.try_get_one::<String>("name").ok().flatten()) {
            ("create", Some(name)) => create(&client, name, matches).await,
            ("delete", Some(name)) => delete(&client, name, matches).await,
            _ => list(&client, matches).await,
        }
    })
}

async fn create(client: &Client, name: &str, matches: &ArgMatches) -> anyhow::Result<()> {
    let params =
        DatabaseRequest { id: name.to_owned(), throughput: throughput::throughput_of_new(matches) };
    let answer: Value = match client.post(URL, &params).await {
        Err(error) if client::is_taken(&error) && matches.get_flag("if-not-exists") => {
            client.get(&format!("{URL}/{}", encoded(name))).await?
        }
        answer => answer?,
    };
    if matches.get_flag("json") {
        return text::print(&format!("{answer:#}\n"));
    }
    let created: DatabaseSummary = serde_json::from_value(answer)?;
    let shown = throughput_text(&created.throughput);
    text::print(&format!("{}: {shown}\n", text::shown(&created.id)))
}

async fn delete(client: &Client, name: &str, matches: &ArgMatches) -> anyhow::Result<()> {
    let answer: Value = match client.delete(&format!("{URL}/{}", encoded(name))).await {
        Err(error) if client::is_missing(&error) && matches.get_flag("if-exists") => {
            json!({"database": name, "deleted": false})
        }
        answer => answer?,
    };
    if matches.get_flag("json") {
        return text::print(&format!("{answer:#}\n"));
    }
    let name = text::shown(name);
    text::print(&match answer["deleted"] == true {
        true => format!("Deleted {name}.\n"),
        false => format!("There is no {name}.\n"),
    })
}

async fn list(client: &Client, matches: &ArgMatches) -> anyhow::Result<()> {
    let answer: Value = client.get(URL).await?;
    if matches.get_flag("json") {
        return text::print(&format!("{answer:#}\n"));
    }
    let Databases { databases } = serde_json::from_value(answer)?;
    if databases.is_empty() {
        return text::print(
            "There are no databases yet. Create one with `planisphere db create NAME`.\n",
        );
    }
    text::print(&table(&databases, OutputStyle::of_stdout()))
}

fn table(databases: &[DatabaseSummary], style: OutputStyle) -> String {
    let mut table = Table::new(style, &["DATABASE", ">CONTAINERS", "THROUGHPUT"]);
    for database in databases {
        table.row(vec![
            Cell::plain(&*database.id),
            Cell::plain(text::number(database.containers as u64)),
            Cell::plain(throughput_text(&database.throughput)),
        ]);
    }
    table.lines().iter().flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_listed_with_what_their_containers_share() {
        let databases = json!({"databases": [
            {"id": "shop", "rid": "a", "containers": 12, "throughput": {"mode": "none"}},
            {"id": "a", "rid": "b", "containers": 0, "throughput": {"mode": "manual", "ru": 1000}},
        ]});
        let databases: Databases = serde_json::from_value(databases).unwrap();
        let style = OutputStyle { has_colour: false, has_blocks: false, columns: 100 };
        assert_eq!(
            table(&databases.databases, style),
            "  DATABASE  CONTAINERS  THROUGHPUT\n  \
               shop              12  no provisioned throughput\n  \
               a                  0  1,000 RU/s\n"
        );
    }

    #[test]
    fn a_database_has_no_slash() {
        assert!(parse_name("shop/orders").is_err() && parse_name("").is_err());
        assert_eq!(parse_name("my shop").as_deref(), Ok("my shop"));
    }
}
