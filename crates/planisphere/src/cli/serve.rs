//! `planisphere serve`.

use clap::{Arg, ArgAction, ArgMatches, Command};
use tracing::warn;

use super::{HelpLevel, config_arg, load_settings, settings_args};
use crate::serve::AnnounceAs;
use crate::{logging, serve};

/// Examples below the help.
pub(super) const EXAMPLES: &str = "\
Examples:
  planisphere                            serve on 8081, data in ./planisphere-data
  planisphere serve --memory             in memory only; data is lost when the server stops
  planisphere serve --data /srv/cosmos --durability relaxed
  planisphere serve --port-offset 100    run a second server: 8181 instead of 8081, and so on
  planisphere serve --bind 0.0.0.0 --key-file key.txt
                                         for other machines; the well-known key is refused there
  planisphere serve --memory --ports auto --ready-json
                                         for scripts: a free port, one JSON line when ready

Probes without a key:  GET /ready   GET /healthz   GET /_explorer/emulator.pem
`planisphere serve --help-all` shows all flags, under a heading for each group.
Flags override environment variables, which override the settings file, which overrides the
defaults.";

pub(super) fn command(shown: HelpLevel) -> Command {
    Command::new("serve").about("Serve until Ctrl-C").after_help(EXAMPLES).args(args(shown))
}

/// Everyday flags come first, without a heading.
pub(super) fn args(shown: HelpLevel) -> Vec<Arg> {
    let ready_json = Arg::new("ready-json")
        .long("ready-json")
        .action(ArgAction::SetTrue)
        .help("Print one line of JSON with endpoints, key and pid when ready, instead of a banner");
    let help_all = Arg::new("help-all")
        .long("help-all")
        .action(ArgAction::SetTrue)
        .help("Print help with the flags of all settings");
    let (mut everyday, rest) = settings_args(shown);
    everyday.extend([config_arg(), ready_json, help_all]);
    everyday.into_iter().chain(rest).collect()
}

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let settings = load_settings(matches)?;
    logging::start(&settings)?;
    if !settings.other_variables.is_empty() {
        let variables = settings.other_variables.join(", ");
        warn!(variables, "environment variables that are not settings are ignored");
    }
    let announce_as =
        if matches.get_flag("ready-json") { AnnounceAs::Json } else { AnnounceAs::Banner };
    serve::run(settings, announce_as)
}
