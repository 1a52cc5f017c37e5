//! Logs, on standard error.

use anyhow::anyhow;
use tracing_subscriber::EnvFilter;

use crate::config::Settings;

/// Starts logging. `RUST_LOG` applies if the settings leave the filter at its default.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<()> {
    let chosen = &settings.log.filter;
    let from_environment =
        std::env::var("RUST_LOG").ok().filter(|_| *chosen == Settings::default().log.filter);
    let (text, flag) = match &from_environment {
        Some(text) => (text, "RUST_LOG"),
        None => (chosen, "--log"),
    };
    let filter = EnvFilter::try_new(text).map_err(|error| anyhow!("{flag}: {error}"))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .try_init()
        .map_err(|error| anyhow!("can't start logging: {error}"))
}
