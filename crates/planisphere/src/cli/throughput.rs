//! `planisphere throughput`: the throughput of a database or container.

use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::Value;

use super::client::{self, Client};
use super::partitions::{ContainerPath, encoded, json_arg, throughput_text};
use super::text;
use crate::admin::types::{ThroughputDetails, ThroughputRequest};

const EXAMPLES: &str = "\
Examples:
  planisphere throughput show shop/orders              provisioned throughput and its allowed range
  planisphere throughput set shop/orders manual 1000   1,000 RU/s, whatever is used
  planisphere throughput set shop/orders autoscale 4000
                                                       400 to 4,000 RU/s, as it is used
  planisphere throughput set shop manual 800           what the containers of a database share

Throughput is divided evenly over the partitions of a container; more than they can serve
(--partition-ru-max each) makes the server split them. See docs/operations.md.";

/// A database, or a container of one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Database(String),
    Container(ContainerPath),
}

pub(super) fn command() -> Command {
    let target = Arg::new("target")
        .value_name("DATABASE[/CONTAINER]")
        .required(true)
        .value_parser(Target::parse)
        .help("The database or container");
    let kind = Arg::new("kind")
        .value_name("KIND")
        .required(true)
        .value_parser(["manual", "autoscale"])
        .help("manual: a fixed amount; autoscale: 10% to 100% of a maximum");
    let amount = Arg::new("ru")
        .value_name("RU")
        .required(true)
        .value_parser(value_parser!(u32))
        .help("Request units per second");
    let show = Command::new("show")
        .about("Show provisioned throughput and its allowed range")
        .after_help("Example:\n  planisphere throughput show shop/orders");
    let set = Command::new("set").about("Change the provisioned throughput").after_help(
        "Examples:\n  planisphere throughput set shop/orders manual 1000\n  planisphere throughput \
         set shop/orders autoscale 4000",
    );
    let common = |command: Command| command.args(client::args()).arg(json_arg());
    Command::new("throughput")
        .about("Show and set the throughput of databases and containers")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(common(show.arg(target.clone())))
        .subcommand(common(set.args([target, kind, amount])))
}

/// Arguments for the throughput of a new resource.
pub(super) fn new_args(manual: &'static str) -> [Arg; 2] {
    let manual = Arg::new("throughput")
        .long("throughput")
        .value_name("RU")
        .value_parser(value_parser!(u32))
        .help(manual);
    let autoscale = Arg::new("autoscale")
        .long("autoscale")
        .value_name("RU")
        .value_parser(value_parser!(u32))
        .conflicts_with("throughput")
        .help("Autoscale maximum; it scales from a tenth of it");
    [manual, autoscale]
}

/// The throughput in those arguments, if given.
pub(super) fn throughput_of_new(matches: &ArgMatches) -> Option<ThroughputRequest> {
    let number = |name: &str| matches.get_one::<u32>(name).copied();
    let (manual, autoscale_max) = (number("throughput"), number("autoscale"));
    (manual.is_some() || autoscale_max.is_some())
        .then_some(ThroughputRequest { manual, autoscale_max })
}

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let Some((name, matches)) = matches.subcommand() else { return Ok(()) };
    let Some(target) = matches.get_one::<Target>("target") else { return Ok(()) };
    let client = Client::of(matches)?;
    let answer: Value = super::block_on(async {
        match name {
            "set" => client.put(&target.url(), &params(matches)).await,
            _ => client.get(&target.url()).await,
        }
    })?;
    if matches.get_flag("json") {
        return text::print(&format!("{answer:#}\n"));
    }
    text::print(&details_text(&serde_json::from_value(answer)?))
}

fn params(matches: &ArgMatches) -> ThroughputRequest {
    let amount = matches.get_one::<u32>("ru").copied();
    match matches.get_one::<String>("kind").map(String::as_str) {
        Some("autoscale") => ThroughputRequest { manual: None, autoscale_max: amount },
        _ => ThroughputRequest { manual: amount, autoscale_max: None },
    }
}

fn details_text(shown: &ThroughputDetails) -> String {
    let name = match &shown.container {
        Some(container) => text::shown(&format!("{}/{container}", shown.database)),
        None => text::shown(&shown.database),
    };
    let mut out = format!("{name}: {}\n", throughput_text(&shown.throughput));
    if let (Some(least), Some(most), Some(step)) =
        (shown.minimum_ru, shown.maximum_ru, shown.step_ru)
    {
        let number = |number: u32| text::number(u64::from(number));
        let bounds = (number(least), number(most), number(step));
        out.push_str(&format!(
            "  allowed: {} to {} in steps of {}\n",
            bounds.0, bounds.1, bounds.2
        ));
    }
    out
}

impl Target {
    fn parse(text: &str) -> Result<Self, String> {
        match text.contains('/') {
            true => ContainerPath::parse(text).map(Target::Container),
            false if text.is_empty() => Err("name a database, or a container of one".to_owned()),
            false => Ok(Target::Database(text.to_owned())),
        }
    }

    fn url(&self) -> String {
        match self {
            Target::Database(id) => format!("/_admin/v1/databases/{}/throughput", encoded(id)),
            Target::Container(path) => format!("{}/throughput", path.url()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_database_and_a_container_are_told_apart() {
        let url = |text: &str| Target::parse(text).unwrap().url();
        assert_eq!(url("shop"), "/_admin/v1/databases/shop/throughput");
        assert_eq!(url("shop/orders"), "/_admin/v1/containers/shop/orders/throughput");
        assert!(Target::parse("").is_err() && Target::parse("shop/").is_err());
    }

    #[test]
    fn throughput_is_told_with_what_it_could_be() {
        let shown = json!({
            "database": "shop", "container": "orders", "mode": "autoscale", "ru": 4000,
            "currentRu": 400, "pending": true, "minimumRu": 1000, "maximumRu": 1_000_000,
            "stepRu": 1000,
        });
        assert_eq!(
            details_text(&serde_json::from_value(shown).unwrap()),
            "shop/orders: autoscale to 4,000 RU/s, now 400; partitions are being split for it\n  \
             allowed: 1,000 to 1,000,000 in steps of 1,000\n"
        );
        let shared = json!({"database": "shop", "container": "orders", "mode": "shared"});
        assert_eq!(
            details_text(&serde_json::from_value(shared).unwrap()),
            "shop/orders: shares its database's throughput\n"
        );
    }
}
