//! The command line: what can be asked of the program, and how it explains itself.

mod cert;
mod client;
mod config;
mod keys;
mod partitions;
mod query;
mod serve;
mod text;
mod throughput;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::config::{KEYS, Key, Layers, Settings, explain, load};

/// Runs the command line and returns the exit code: 0 for success, 1 for a failure that was
/// explained on standard error, 2 for arguments that make no sense.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => {
            // Nothing better can be done when even the message can't be printed.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let outcome = match matches.subcommand() {
        Some(("cert", matches)) => cert::run(matches),
        Some(("config", _)) => config::run(),
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

fn command() -> Command {
    Command::new("planisphere")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A local server that speaks the Azure Cosmos DB APIs")
        .long_about(
            "A local server that speaks the Azure Cosmos DB APIs, so that unmodified Cosmos SDKs \
             work against it.\n\nWithout a subcommand it serves; `planisphere --memory` is \
             `planisphere serve --memory`.",
        )
        .after_help(serve::EXAMPLES)
        .args_conflicts_with_subcommands(true)
        .args(serve::args())
        .subcommand(serve::command())
        .subcommand(partitions::command())
        .subcommand(query::command())
        .subcommand(query::explain_command())
        .subcommand(throughput::command())
        .subcommand(keys::command())
        .subcommand(cert::command())
        .subcommand(config::command())
}

/// Runs a command that talks to a server.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}

/// One argument per settings key, and `--config`.
fn settings_args() -> Vec<Arg> {
    std::iter::once(config_arg()).chain(KEYS.iter().map(settings_arg)).collect()
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
        "engine" => "Engine",
        "limits" => "Limits",
        _ => "Logging",
    }
}

/// The settings that the arguments, the environment and the settings file make together.
fn load_settings(matches: &ArgMatches) -> anyhow::Result<Settings> {
    let given = |key: &'static Key| {
        // Not every command has every flag.
        let values = matches.try_get_many::<String>(key.flag).ok().flatten()?;
        Some((key, values.cloned().collect::<Vec<_>>().join(",")))
    };
    load(Layers {
        file: matches.get_one::<std::path::PathBuf>("config").cloned(),
        variable: &|name| std::env::var(name).ok(),
        flags: KEYS.iter().filter_map(given).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn flags_work_with_and_without_the_subcommand() {
        for arguments in [&["planisphere", "--memory"][..], &["planisphere", "serve", "--memory"]] {
            let matches = command().try_get_matches_from(arguments).unwrap();
            let matches = matches.subcommand().map_or(&matches, |(_, matches)| matches);
            assert!(load_settings(matches).unwrap().storage.memory);
        }
    }

    #[test]
    fn a_boolean_flag_takes_a_value_only_after_an_equals_sign() {
        let memory = |arguments: &[&str]| {
            let matches = command().try_get_matches_from(arguments).ok()?;
            Some(load_settings(&matches).unwrap().storage.memory)
        };
        assert_eq!(memory(&["planisphere", "--memory=false"]), Some(false));
        assert_eq!(memory(&["planisphere", "--memory", "--ports", "auto"]), Some(true));
    }

    #[test]
    fn the_help_explains_every_flag() {
        let help = command().render_long_help().to_string();
        for key in KEYS {
            assert!(help.contains(&format!("--{}", key.flag)), "{} is not in the help", key.flag);
            assert!(help.contains(&key.variable()), "{} is not in the help", key.variable());
        }
    }
}
