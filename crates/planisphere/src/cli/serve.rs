//! `planisphere serve`.

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::{load_settings, settings_args};
use crate::serve::AnnounceAs;
use crate::{logging, serve};

/// Shown below the help.
pub(super) const EXAMPLES: &str = "\
Examples:
  planisphere                            serve on 8081, data in ./planisphere-data
  planisphere serve --memory             nothing on disk, gone afterwards
  planisphere serve --data /srv/cosmos --durability relaxed
  planisphere serve --nosql-port 9000
  planisphere serve --bind 0.0.0.0 --key-file key.txt
                                         for other machines; the well-known key is refused there
  planisphere serve --memory --ports auto --ready-json
                                         for scripts: a free port, one JSON line when ready

Probes without a key:  GET /ready   GET /healthz   GET /_explorer/emulator.pem
A flag beats the environment, which beats the settings file, which beats the defaults.";

pub(super) fn command() -> Command {
    Command::new("serve").about("Serve until Ctrl-C").after_help(EXAMPLES).args(args())
}

pub(super) fn args() -> Vec<Arg> {
    let ready_json = Arg::new("ready-json")
        .long("ready-json")
        .action(ArgAction::SetTrue)
        .help("Print one line of JSON with endpoints, key and pid when ready, instead of a banner");
    std::iter::once(ready_json).chain(settings_args()).collect()
}

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let settings = load_settings(matches)?;
    logging::start(&settings)?;
    let announce_as =
        if matches.get_flag("ready-json") { AnnounceAs::Json } else { AnnounceAs::Banner };
    serve::run(settings, announce_as)
}
