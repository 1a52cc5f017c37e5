//! The command line: the commands of the program, and its help.

mod cert;
mod client;
mod config;
mod container;
mod db;
mod health;
mod keys;
mod partitions;
mod query;
mod query_error;
mod reset;
mod serve;
mod text;
mod throughput;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::Resettable::Reset;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::config::{EVERYDAY, KEYS, Key, Layers, PREFIX, REPLACED, Settings, explain, load};

/// Advice for a command that stands behind a server's flags.
const MISPLACED: &str = "\
Flags stand behind the command, as in `planisphere serve --memory`, and the value of a switch behind
an equals sign, as in `--memory=true`.";

/// Runs the command line and returns the exit code: 0 for success, 1 for a failure that was
/// explained on standard error, 2 for invalid arguments.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = match command(HelpLevel::Everyday).try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => {
            // If even the message can't be printed, nothing more can be done.
            let _ = error.print();
            if error.kind() == ErrorKind::ArgumentConflict
                && error.to_string().contains("the subcommand")
            {
                eprintln!("{MISPLACED}");
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    if asks_for_all_help(&matches) {
        return print_all_help(matches.subcommand_name());
    }
    let outcome = match matches.subcommand() {
        Some(("cert", matches)) => cert::run(matches),
        Some(("config", _)) => config::run(),
        Some(("container", matches)) => container::run(matches),
        Some(("db", matches)) => db::run(matches),
        Some(("health", matches)) => health::run(matches),
        Some(("reset", matches)) => reset::run(matches),
        Some(("keys", matches)) => keys::run(matches),
        Some(("partitions", matches)) => partitions::run(matches),
        Some(("query", matches)) => query::run(matches),
        Some(("explain", matches)) => query::run_explain(matches),
        Some(("throughput", matches)) => throughput::run(matches),
        Some((_, matches)) => serve::run(matches),
        None => serve::run(&matches),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("planisphere: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Which flags of settings the help shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HelpLevel {
    /// Those for everyday use.
    Everyday,
    /// All of them.
    All,
}

fn asks_for_all_help(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some(("serve", matches)) => matches.get_flag("help-all"),
        Some(_) => false,
        None => matches.get_flag("help-all"),
    }
}

fn print_all_help(subcommand: Option<&str>) -> ExitCode {
    let mut command = command(HelpLevel::All);
    command.build();
    let command = match subcommand {
        Some(name) => command.find_subcommand_mut(name),
        None => Some(&mut command),
    };
    match command.map(Command::print_long_help) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(_)) | None => ExitCode::FAILURE,
    }
}

fn command(shown: HelpLevel) -> Command {
    Command::new("planisphere")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A local server that speaks the Azure Cosmos DB APIs")
        .long_about(
            "A local server that speaks the Azure Cosmos DB APIs, so that unmodified Cosmos SDKs \
             work against it.\n\nWithout a subcommand it runs `serve`: `planisphere --memory` \
             is `planisphere serve --memory`.",
        )
        .after_help(serve::EXAMPLES)
        .args_conflicts_with_subcommands(true)
        .args(serve::args(shown))
        .subcommand(serve::command(shown))
        .subcommand(db::command())
        .subcommand(container::command())
        .subcommand(partitions::command())
        .subcommand(query::command())
        .subcommand(query::explain_command())
        .subcommand(throughput::command())
        .subcommand(health::command())
        .subcommand(reset::command())
        .subcommand(keys::command())
        .subcommand(cert::command())
        .subcommand(config::command())
}

/// Runs a command that talks to a server.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}

/// One argument per settings key: everyday ones, and the others.
fn settings_args(shown: HelpLevel) -> (Vec<Arg>, Vec<Arg>) {
    let is_everyday = |key: &&Key| EVERYDAY.contains(&key.flag);
    let rank = |key: &&Key| EVERYDAY.iter().position(|flag| *flag == key.flag);
    let (mut everyday, rest): (Vec<&Key>, Vec<&Key>) = KEYS.iter().partition(is_everyday);
    everyday.sort_by_key(rank);
    let everyday = everyday.into_iter().map(|key| settings_arg(key).help_heading(Reset));
    let is_hidden = shown == HelpLevel::Everyday;
    let hidden = |arg: Arg| arg.hide_short_help(is_hidden).hide_long_help(is_hidden);
    let rest = rest.into_iter().map(settings_arg).map(hidden);
    (everyday.collect(), rest.chain(REPLACED.iter().map(replaced_arg)).collect())
}

/// Refuses the flag of an earlier version with what says the same now.
fn replaced_arg((key, text): &'static (Key, &'static str)) -> Arg {
    Arg::new(key.flag)
        .long(key.flag)
        .hide(true)
        .value_parser(move |_: &str| Err::<String, _>(*text))
}

fn config_arg() -> Arg {
    Arg::new("config")
        .long("config")
        .value_name("FILE")
        .env("PLANISPHERE_CONFIG")
        .value_parser(value_parser!(std::path::PathBuf))
        .help("Settings file (TOML); `planisphere config` prints one with all defaults")
}

fn settings_arg(key: &'static Key) -> Arg {
    let explanation = explain(key);
    let mut help = format!("{} [env: {}]", explanation.comment, key.variable());
    let default = explanation.default.trim_matches('"');
    if !default.is_empty() {
        help.push_str(&format!(" [default: {default}]"));
    }
    let arg = Arg::new(key.flag)
        .long(key.flag)
        .value_name(key.value_name)
        .action(if key.is_repeatable() { ArgAction::Append } else { ArgAction::Set })
        .help(help)
        .help_heading(heading(key.section));
    if key.value_name == "N" {
        // So that the error shows the valid range and not an unknown flag.
        return arg.allow_negative_numbers(true);
    }
    if key.value_name == "true|false" {
        return arg.num_args(0..=1).require_equals(true).default_missing_value("true");
    }
    arg
}

fn heading(section: &str) -> &'static str {
    match section {
        "listen" => "Listening",
        "storage" => "Storage",
        "account" => "Account keys",
        "directory" => "Directory tokens",
        "table" => "Tables",
        "mongo" => "MongoDB API",
        "engine" => "Throughput and partitions",
        "limits" => "Limits",
        "scripts" => "Scripts",
        "log" => "Logging",
        _ => "Other settings",
    }
}

/// The settings from arguments, environment and settings file.
fn load_settings(matches: &ArgMatches) -> anyhow::Result<Settings> {
    let given = |key: &'static Key| {
        // Not every command has every flag.
        let values = matches.try_get_many::<String>(key.flag).ok().flatten()?;
        Some((key, values.cloned().collect::<Vec<_>>().join(",")))
    };
    load(Layers {
        file: matches.get_one::<std::path::PathBuf>("config").cloned(),
        variables: variables(),
        flags: KEYS.iter().filter_map(given).collect(),
    })
}

/// Environment variables that begin with the prefix of settings.
fn variables() -> BTreeMap<String, String> {
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with(PREFIX))?;
        Some((name, value.to_string_lossy().into_owned()))
    });
    variables.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command(HelpLevel::Everyday).debug_assert();
    }

    #[test]
    fn every_command_teaches_with_examples() {
        fn check(command: &Command, path: &str) {
            let path = format!("{path}{}", command.get_name());
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "the help of `{path}` has no examples");
            assert!(help.contains("planisphere "), "{path}: {help}");
            command.get_subcommands().for_each(|command| check(command, &format!("{path} ")));
        }
        check(&command(HelpLevel::Everyday), "");
    }

    #[test]
    fn flags_work_with_and_without_the_subcommand() {
        for arguments in [&["planisphere", "--memory"][..], &["planisphere", "serve", "--memory"]] {
            let matches = command(HelpLevel::Everyday).try_get_matches_from(arguments).unwrap();
            let matches = matches.subcommand().map_or(&matches, |(_, matches)| matches);
            assert!(load_settings(matches).unwrap().storage.memory);
        }
    }

    #[test]
    fn a_flag_of_an_earlier_version_is_refused_with_what_replaced_it() {
        let arguments = ["planisphere", "--copies", "off"];
        let refused = command(HelpLevel::Everyday).try_get_matches_from(arguments).unwrap_err();
        assert!(refused.to_string().contains("`--lookup-cache-bytes 0`"), "{refused}");
    }

    #[test]
    fn a_boolean_flag_takes_a_value_only_after_an_equals_sign() {
        let memory = |arguments: &[&str]| {
            let matches = command(HelpLevel::Everyday).try_get_matches_from(arguments).ok()?;
            Some(load_settings(&matches).unwrap().storage.memory)
        };
        assert_eq!(memory(&["planisphere", "--memory=false"]), Some(false));
        assert_eq!(memory(&["planisphere", "--memory", "--ports", "auto"]), Some(true));
    }

    #[test]
    fn the_help_for_all_explains_every_flag_below_the_heading_of_its_group() {
        let help = command(HelpLevel::All).render_long_help().to_string();
        let mut heading = "";
        let mut headings = BTreeMap::new();
        for line in help.lines() {
            let words = line.trim_start();
            if words == line && line.ends_with(':') {
                heading = line.trim_end_matches(':');
            } else if let Some(flag) = words.strip_prefix("--") {
                headings.insert(flag.split([' ', '[']).next().unwrap_or_default(), heading);
            }
        }
        for key in KEYS {
            let is_everyday = EVERYDAY.contains(&key.flag);
            let group = if is_everyday { "Options" } else { super::heading(key.section) };
            assert_eq!(headings.get(key.flag), Some(&group), "{}", key.flag);
            assert_ne!(group, "Other settings", "{} has no heading", key.section);
            assert!(help.contains(&key.variable()), "{} is not in the help", key.variable());
        }
    }

    #[test]
    fn the_help_shows_what_is_used_every_day() {
        for help in [
            command(HelpLevel::Everyday).render_long_help().to_string(),
            command(HelpLevel::Everyday).render_help().to_string(),
        ] {
            let shows = |flag: &str| help.contains(&format!("      --{flag}"));
            for key in KEYS {
                assert_eq!(shows(key.flag), EVERYDAY.contains(&key.flag), "{}", key.flag);
            }
            assert!(shows("config") && shows("ready-json") && shows("help-all"), "{help}");
        }
        let known: Vec<&str> = KEYS.iter().map(|key| key.flag).collect();
        assert!(EVERYDAY.iter().all(|flag| known.contains(flag)));
    }
}
