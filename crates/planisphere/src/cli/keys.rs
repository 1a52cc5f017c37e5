//! `planisphere keys`: list and regenerate the account's keys.

use account::KeyKind;
use clap::{Arg, ArgMatches, Command};
use serde_json::Value;

use super::client::{self, Client};
use super::partitions::json_arg;
use super::text;
use crate::admin::types::{KeyRequest, Keys, NewKey};

const EXAMPLES: &str = "\
Examples:
  planisphere keys show                    which keys the account has, by fingerprint
  planisphere keys regenerate secondary    a new secondary key; the old one stops working at once

To change the key that clients use without an outage: regenerate the secondary, give it to the
clients, then regenerate the primary. See docs/operations.md.";

pub(super) fn command() -> Command {
    let kind = Arg::new("kind")
        .value_name("KIND")
        .required(true)
        .ignore_case(true)
        .value_parser(KeyKind::ALL.map(KeyKind::name))
        .help("Which key");
    let common = |command: Command| command.args(client::args()).arg(json_arg());
    let show = Command::new("show")
        .about("List the account keys by fingerprint")
        .after_help("Example:\n  planisphere keys show");
    let regenerate = Command::new("regenerate")
        .about("Generate a new key and invalidate the old one")
        .after_help("Example:\n  planisphere keys regenerate secondary");
    Command::new("keys")
        .about("Show and regenerate the keys of the account")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(common(show))
        .subcommand(common(regenerate.arg(kind)))
}

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let Some((_, matches)) = matches.subcommand() else { return Ok(()) };
    let client = Client::of(matches)?;
    let kind = matches.try_get_one::<String>("kind").ok().flatten();
    let answer: Value = super::block_on(async {
        match kind {
            Some(kind) => {
                let params = KeyRequest { key_kind: kind.clone() };
                client.post("/_admin/v1/keys/regenerate", &params).await
            }
            None => client.get("/_admin/v1/keys").await,
        }
    })?;
    if matches.get_flag("json") {
        return text::print(&format!("{answer:#}\n"));
    }
    text::print(&match kind {
        Some(_) => new_key_text(&serde_json::from_value(answer)?),
        None => listed(&serde_json::from_value(answer)?),
    })
}

fn listed(keys: &Keys) -> String {
    let line = |key: &crate::admin::types::KeyInfo| {
        let shown = match (&key.fingerprint, key.well_known) {
            (None, _) => "none".to_owned(),
            (Some(fingerprint), true) => {
                format!("an emulator's well-known key (fingerprint {fingerprint})")
            }
            (Some(fingerprint), false) => format!("fingerprint {fingerprint}"),
        };
        format!("{:<18} {}\n", text::shown(&key.key_kind), text::shown(&shown))
    };
    keys.keys.iter().map(line).collect()
}

fn new_key_text(new: &NewKey) -> String {
    let life = if new.kept { "" } else { "It is lost when the server stops.\n" };
    format!(
        "The {} key is now\n  {}\nIt is not shown again. The old key no longer works.\n{life}",
        text::shown(&new.key_kind),
        text::shown(&new.key)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_listed_without_being_shown() {
        let keys = json!({"keys": [
            {"keyKind": "primary", "fingerprint": "00", "wellKnown": true},
            {"keyKind": "secondary", "fingerprint": "0123456789abcdef", "wellKnown": false},
            {"keyKind": "primaryReadonly", "wellKnown": false},
        ]});
        assert_eq!(
            listed(&serde_json::from_value(keys).unwrap()),
            "primary            an emulator's well-known key (fingerprint 00)\n\
             secondary          fingerprint 0123456789abcdef\n\
             primaryReadonly    none\n"
        );
    }
}
