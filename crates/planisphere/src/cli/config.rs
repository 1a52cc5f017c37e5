//! `planisphere config`.

use std::io::Write;

use clap::Command;

use crate::config::DEFAULT_TOML;

pub(super) fn command() -> Command {
    Command::new("config")
        .about("Print a settings file with every key, its default and meaning")
        .after_help(
            "Examples:\n  planisphere config > planisphere.toml\n  planisphere serve --config \
             planisphere.toml",
        )
}

pub(super) fn run() -> anyhow::Result<()> {
    std::io::stdout().write_all(DEFAULT_TOML.as_bytes())?;
    Ok(())
}
