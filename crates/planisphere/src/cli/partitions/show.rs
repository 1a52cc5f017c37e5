//! `planisphere partitions show`.

use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::Value;

use super::render;
use super::{ContainerPath, Output, container_arg};
use crate::admin::types::{ContainerPartitions, Containers};
use crate::cli::client::Client;
use crate::cli::text;

pub(super) fn command() -> Command {
    let top = Arg::new("top")
        .long("top")
        .value_name("N")
        .value_parser(value_parser!(u8).range(0..=100))
        .default_value("5")
        .help("Largest and busiest keys to show of each partition");
    Command::new("show")
        .about("Show how bytes and requests are spread over partitions and keys")
        .after_help("Example:\n  planisphere partitions show shop/orders --top 10")
        .args([container_arg().required(false), top])
}

pub(super) async fn run(
    client: &Client,
    matches: &ArgMatches,
    output: Output,
) -> anyhow::Result<()> {
    let Some(container) = matches.get_one::<ContainerPath>("container") else {
        return list(client, output).await;
    };
    let top = matches.get_one::<u8>("top").copied().unwrap_or(0);
    let path = format!("{}/partitions?top={top}", container.url());
    if output.is_json {
        let shown: Value = client.get(&path).await?;
        return text::print(&format!("{shown:#}\n"));
    }
    let shown: ContainerPartitions = client.get(&path).await?;
    text::print(&render::container(&shown, output.style))
}

async fn list(client: &Client, output: Output) -> anyhow::Result<()> {
    const PATH: &str = "/_admin/v1/containers";
    if output.is_json {
        let shown: Value = client.get(PATH).await?;
        return text::print(&format!("{shown:#}\n"));
    }
    let mut shown: Containers = client.get(PATH).await?;
    shown.containers.sort_by(|a, b| b.skew.total_cmp(&a.skew));
    text::print(&render::containers(&shown.containers, output.style))
}
