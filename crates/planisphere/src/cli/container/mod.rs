//! `planisphere container`: create, list, show and delete containers.

mod description;
mod render;

use anyhow::bail;
use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};

use super::client::{self, Client};
use super::db::{if_exists_arg, if_not_exists_arg, parse_name};
use super::partitions::{ContainerPath, encoded, json_arg};
use super::text::{self, OutputStyle};
use crate::admin::types::{ContainerDetails, Containers};

const EXAMPLES: &str = "\
Examples:
  planisphere container create shop/orders --partition-key /customer
  planisphere container create shop/orders --partition-key /tenant --partition-key /user
                                               a hierarchical key
  planisphere container create shop/orders --partition-key /customer --throughput 1000 --ttl 3600
  planisphere container list shop
  planisphere container show shop/orders       its policies and size
  planisphere container delete shop/orders     with all its items; this cannot be undone

The database must exist: `planisphere db create shop`.";

const CREATE_EXAMPLES: &str = r#"Examples:
  planisphere container create shop/orders --partition-key /customer
  planisphere container create shop/orders --partition-key /tenant --partition-key /user
  planisphere container create shop/orders --partition-key /customer --autoscale 4000 --ttl -1
  planisphere container create shop/users --partition-key /tenant --unique /email --unique /first,/last
  planisphere container create shop/docs --partition-key /id --vectors vectors.json --indexing indexing.json

A file of --indexing holds the indexing policy, as in the NoSQL API:
  {"excludedPaths": [{"path": "/blob/*"}], "vectorIndexes": [{"path": "/v", "type": "quantizedFlat"}]}
one of --vectors the vector embedding policy:
  {"vectorEmbeddings": [{"path": "/v", "dataType": "float32", "dimensions": 1536, "distanceFunction": "cosine"}]}
and - stands for standard input."#;

pub(super) fn command() -> Command {
    let create = Command::new("create")
        .about("Create a container")
        .after_help(CREATE_EXAMPLES)
        .arg(path_arg())
        .args(description::args())
        .arg(if_not_exists_arg());
    let database = Arg::new("database")
        .value_name("DATABASE")
        .value_parser(parse_name)
        .help("Only those of this database");
    let list = Command::new("list")
        .about("List containers")
        .after_help("Examples:\n  planisphere container list\n  planisphere container list shop")
        .arg(database);
    let show = Command::new("show")
        .about("Show a container's policies and size")
        .after_help("Example:\n  planisphere container show shop/orders --json")
        .arg(path_arg());
    let delete = Command::new("delete")
        .about("Delete a container with all its items, without confirmation")
        .after_help("Example:\n  planisphere container delete shop/orders --if-exists")
        .args([path_arg(), if_exists_arg()]);
    let common = |command: Command| command.arg(json_arg()).args(client::args());
    Command::new("container")
        .about("Create, list, show and delete containers")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([create, list, show, delete].map(common))
}

fn path_arg() -> Arg {
    Arg::new("container")
        .value_name("DATABASE/CONTAINER")
        .required(true)
        .value_parser(ContainerPath::parse)
        .help("The container")
}

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let Some((verb, matches)) = matches.subcommand() else { return Ok(()) };
    let client = Client::of(matches)?;
    super::block_on(async {
        match (verb, matches.try_get_one::<ContainerPath>("container").ok().flatten()) {
            ("create", Some(path)) => create(&client, path, matches).await,
            ("show", Some(path)) => show(client.get(&path.url()).await?, matches),
            ("delete", Some(path)) => delete(&client, path, matches).await,
            _ => list(&client, matches).await,
        }
    })
}

async fn create(client: &Client, path: &ContainerPath, matches: &ArgMatches) -> anyhow::Result<()> {
    let description = description::of(path.container(), matches)?;
    let database = format!("/_admin/v1/containers/{}", encoded(path.database()));
    match client.post(&database, &description).await {
        Err(error) if client::is_taken(&error) && matches.get_flag("if-not-exists") => {
            let there: Value = client.get(&path.url()).await?;
            check_same_key(path, &there, &description)?;
            show(there, matches)
        }
        created => show(created?, matches),
    }
}

/// Programs that expect one partition key can't use a container that has another.
fn check_same_key(path: &ContainerPath, there: &Value, wanted: &Value) -> anyhow::Result<()> {
    let paths = |description: &Value| description["partitionKey"]["paths"].clone();
    let (there, wanted) = (paths(&there["definition"]), paths(wanted));
    if there != wanted {
        bail!("{path} already exists with the partition key {there}, not {wanted}");
    }
    Ok(())
}

fn show(answer: Value, matches: &ArgMatches) -> anyhow::Result<()> {
    if matches.get_flag("json") {
        return text::print(&format!("{answer:#}\n"));
    }
    let shown: ContainerDetails = serde_json::from_value(answer)?;
    text::print(&render::shown(&shown))
}

async fn delete(client: &Client, path: &ContainerPath, matches: &ArgMatches) -> anyhow::Result<()> {
    let answer: Value = match client.delete(&path.url()).await {
        Err(error) if client::is_missing(&error) && matches.get_flag("if-exists") => {
            json!({"database": path.database(), "container": path.container(), "deleted": false})
        }
        answer => answer?,
    };
    if matches.get_flag("json") {
        return text::print(&format!("{answer:#}\n"));
    }
    let name = text::shown(&path.to_string());
    text::print(&match answer["deleted"] == true {
        true => format!("Deleted {name}.\n"),
        false => format!("There is no {name}.\n"),
    })
}

async fn list(client: &Client, matches: &ArgMatches) -> anyhow::Result<()> {
    let answer: Value = match matches.get_one::<String>("database") {
        Some(database) => {
            client.get(&format!("/_admin/v1/containers/{}", encoded(database))).await?
        }
        None => client.get("/_admin/v1/containers").await?,
    };
    if matches.get_flag("json") {
        return text::print(&format!("{answer:#}\n"));
    }
    let Containers { containers } = serde_json::from_value(answer)?;
    text::print(&render::table(&containers, OutputStyle::of_stdout()))
}
