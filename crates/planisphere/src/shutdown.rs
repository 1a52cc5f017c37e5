//! Signals that ask the process to stop.

use anyhow::Context;

/// Exit code after a second signal, as shells report an interrupted process.
const FORCED: i32 = 130;

/// The signals SIGINT (Ctrl-C) and SIGTERM.
#[cfg(unix)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// From now on signals no longer end the process by themselves.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let install = |kind| signal(kind).context("can't listen for signals");
        Ok(Self {
            interrupt: install(SignalKind::interrupt())?,
            terminate: install(SignalKind::terminate())?,
        })
    }

    /// Waits for a signal and names it.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

/// Ctrl-C.
#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// From now on Ctrl-C no longer ends the process by itself.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        Ok(Self)
    }

    /// Waits for Ctrl-C.
    pub(crate) async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}

impl Signals {
    /// Lets the next signal end the process at once. Acknowledged writes are still safe: they were
    /// durable before they were acknowledged.
    pub(crate) fn force_exit_on_next(mut self) {
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(FORCED);
        });
    }
}
