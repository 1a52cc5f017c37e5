//! Starting, stopping and killing a server process under test.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::process;
use crate::request::Account;

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program.
    pub binary: PathBuf,
    /// Its data directory.
    pub data: PathBuf,
    /// Further arguments after `serve --data DIR --ports auto --ready-json`.
    pub arguments: Vec<String>,
    /// Environment on top of this process's own.
    pub environment: Vec<(String, String)>,
}

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    // Held so that the server never writes into a closed pipe.
    _stdout: BufReader<ChildStdout>,
    /// Where it answers.
    pub account: Account,
}

#[derive(Deserialize)]
struct ReadyLine {
    ready: bool,
    endpoints: Endpoints,
    key: String,
}

#[derive(Deserialize)]
struct Endpoints {
    nosql: String,
}

impl Launch {
    /// `binary` on `data` with nothing else said.
    pub fn new(binary: impl Into<PathBuf>, data: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            data: data.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Adds an argument.
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds an environment variable.
    pub fn environment(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Starts the process without waiting for it.
    pub fn spawn(&self) -> anyhow::Result<Child> {
        Command::new(&self.binary)
            .arg("serve")
            .args([OsStr::new("--data"), self.data.as_os_str()])
            .args(["--ports", "auto", "--ready-json"])
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(n, v)| (n, v)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("could not start {}", self.binary.display()))
    }

    /// Starts the server and returns when it has said that it can serve.
    pub fn start(&self) -> anyhow::Result<Server> {
        Server::when_ready(self.spawn()?)
    }
}

impl Server {
    /// Takes over a child that prints a ready line, once it has done so.
    fn when_ready(mut child: Child) -> anyhow::Result<Self> {
        let stdout = child.stdout.take().context("the child's output was not piped")?;
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        let read = stdout.read_line(&mut line);
        match read.map_err(anyhow::Error::from).and_then(|_| parse_ready(&line)) {
            Ok(account) => Ok(Self { child, _stdout: stdout, account }),
            Err(error) => {
                // The child is of no use; its status tells more than a missing line.
                let _ = child.kill();
                let status = child.wait()?;
                Err(error.context(format!("the server never got ready ({status})")))
            }
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as a crash would (SIGKILL) and waits until it is gone.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to stop and waits up to `limit` for it to do so.
    pub fn stop(mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        process::terminate(self.child.id())?;
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!("the server ignored SIGTERM for {limit:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the process still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing to do about a child that is already gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary to test: `given`, else `PLANISPHERE_BIN`, else the one built beside this program.
pub fn find_binary(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    if let Some(path) = std::env::var_os("PLANISPHERE_BIN") {
        return Ok(path.into());
    }
    let beside = std::env::current_exe()?.with_file_name("planisphere");
    if !beside.exists() {
        bail!(
            "{} does not exist; build it with `cargo build --release -p planisphere` or name one \
             with --bin",
            beside.display()
        );
    }
    Ok(beside)
}

fn parse_ready(line: &str) -> anyhow::Result<Account> {
    let ready: ReadyLine =
        serde_json::from_str(line).with_context(|| format!("not a ready line: {line:?}"))?;
    anyhow::ensure!(ready.ready, "the ready line says it is not ready");
    Account::new(&ready.endpoints.nosql, &ready.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_names_endpoint_and_key() {
        let line =
            r#"{"ready":true,"endpoints":{"nosql":"http://127.0.0.1:4711/"},"key":"AAAA","pid":1}"#;
        assert_eq!(parse_ready(line).unwrap().address.port(), 4711);
        assert!(parse_ready("").is_err());
    }

    #[test]
    fn a_program_that_is_no_server_is_reported_with_its_status() {
        let launch = Launch::new("/bin/false", "/nonexistent");
        let error = launch.start().err().expect("no ready line can come").to_string();
        assert!(error.contains("never got ready"), "{error}");
    }
}
