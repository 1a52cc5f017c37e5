//! The real server, as a child process on a free port.
//!
//! It is started with `serve --ports auto --ready-json` and identified by the one line it prints
//! when it is ready. Dropping a [`TestServer`] kills the process.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use tempfile::TempDir;

/// A server that is not ready by then never will be.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// How to start a server.
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    binary: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    data_dir: Option<PathBuf>,
}

/// A running server. Its data directory is temporary unless one was given.
pub struct TestServer {
    builder: ServerBuilder,
    child: Child,
    ready: Ready,
    home: TempDir,
}

/// The contents of the ready line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The NoSQL endpoint, with a slash at its end.
    pub endpoint: String,
    /// Where the endpoint listens.
    pub address: SocketAddr,
    /// Where the admin API listens, when it has a port of its own.
    pub admin: Option<SocketAddr>,
    /// Where the Table API of the Cosmos flavour listens, if it is enabled.
    pub table: Option<SocketAddr>,
    /// Where the Table API of the storage flavour listens, if it is enabled.
    pub table_storage: Option<SocketAddr>,
    /// The port for clients in Direct mode on this machine, if they are served.
    pub direct: Option<u16>,
    /// The account's primary key.
    pub key: String,
    /// The server's process id.
    pub pid: u32,
}

impl ServerBuilder {
    /// Starts `binary`, which is the path of a `planisphere` executable.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self { binary: binary.into(), arguments: Vec::new(), variables: Vec::new(), data_dir: None }
    }

    /// Adds arguments after `serve --ports auto --ready-json --data DIR`.
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable of the server.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Uses a data directory that outlives the server.
    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(dir.into());
        self
    }

    /// Starts the server and waits until it is ready. An error contains the server's output.
    pub fn start(self) -> anyhow::Result<TestServer> {
        let home = tempfile::tempdir()?;
        let (child, ready) = self.spawn(home.path())?;
        Ok(TestServer { builder: self, child, ready, home })
    }

    fn spawn(&self, home: &Path) -> anyhow::Result<(Child, Ready)> {
        let said = home.join("stderr");
        let mut child = Command::new(&self.binary)
            .args(["serve", "--ports", "auto", "--ready-json", "--data"])
            .arg(self.data_dir.clone().unwrap_or_else(|| home.join("data")))
            .args(&self.arguments)
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::options().create(true).append(true).open(&said)?)
            .spawn()
            .with_context(|| format!("can't start {}", self.binary.display()))?;
        let stdout = child.stdout.take().context("the server's output is piped")?;
        match first_line(stdout).and_then(|line| Ready::parse(&line)) {
            Ok(ready) => Ok((child, ready)),
            Err(error) => {
                let _ = child.kill();
                let status = child.wait()?;
                let said = std::fs::read_to_string(&said).unwrap_or_default();
                bail!("the server did not become ready: {error}; {status}; it said:\n{said}")
            }
        }
    }
}

/// The first line of a server's output; later lines are read and dropped, so that the server never
/// blocks on a full pipe.
#[expect(clippy::disallowed_methods, reason = "reading a pipe with a time limit takes a thread")]
fn first_line(stdout: ChildStdout) -> anyhow::Result<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            let Ok(line) = line else { break };
            let _ = sender.send(line);
        }
    });
    receiver.recv_timeout(READY_TIMEOUT).map_err(|error| match error {
        mpsc::RecvTimeoutError::Timeout => anyhow!("nothing printed within {READY_TIMEOUT:?}"),
        mpsc::RecvTimeoutError::Disconnected => anyhow!("it ended"),
    })
}

impl Ready {
    /// Reads a ready line.
    pub fn parse(line: &str) -> anyhow::Result<Self> {
        let value: serde_json::Value =
            serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
        let text = |pointer: &str| {
            let text = value.pointer(pointer).and_then(|value| value.as_str());
            text.map(str::to_owned).with_context(|| format!("no {pointer} in {line}"))
        };
        if value["ready"] != serde_json::Value::Bool(true) {
            bail!("not ready: {line}");
        }
        let address_of = |endpoint: &str| {
            endpoint
                .strip_prefix("http://")
                .and_then(|rest| rest.strip_suffix('/'))
                .and_then(|address| address.parse().ok())
                .with_context(|| format!("unexpected endpoint in {line}"))
        };
        let endpoint = text("/endpoints/nosql")?;
        let address = address_of(&endpoint)?;
        let admin = text("/endpoints/admin").ok().map(|admin| address_of(&admin)).transpose()?;
        let pid = value["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        let pid = pid.with_context(|| format!("no pid in {line}"))?;
        let tables =
            |name: &str| text(name).ok().and_then(|url| url.split('/').nth(2)?.parse().ok());
        let (table, table_storage) =
            (tables("/endpoints/table"), tables("/endpoints/table_storage"));
        let direct = value["direct"].as_u64().and_then(|port| u16::try_from(port).ok());
        let key = text("/key")?;
        Ok(Self { endpoint, address, admin, table, table_storage, direct, key, pid })
    }
}

impl TestServer {
    /// Starts `binary` with its defaults: durable, in a temporary directory.
    pub fn start(binary: impl Into<PathBuf>) -> anyhow::Result<Self> {
        ServerBuilder::new(binary).start()
    }

    /// The contents of its ready line.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// The NoSQL endpoint in clear text, with a slash at its end.
    pub fn endpoint(&self) -> &str {
        &self.ready.endpoint
    }

    /// The account's primary key.
    pub fn key(&self) -> &str {
        &self.ready.key
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.ready.pid
    }

    /// The data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.builder.data_dir.clone().unwrap_or_else(|| self.home.path().join("data"))
    }

    /// What the server has written to standard error so far.
    pub fn stderr(&self) -> String {
        std::fs::read_to_string(self.home.path().join("stderr")).unwrap_or_default()
    }

    /// A new connection to the NoSQL port.
    pub fn connect(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect(self.ready.address)
    }

    /// A new connection to the admin port.
    pub fn connect_admin(&self) -> std::io::Result<TcpStream> {
        let none = || std::io::Error::from(std::io::ErrorKind::NotConnected);
        TcpStream::connect(self.ready.admin.ok_or_else(none)?)
    }

    /// Whether the process is still running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the process without warning, as a crash would, and waits for its end.
    pub fn kill(&mut self) -> anyhow::Result<ExitStatus> {
        // A process that has ended already needs no kill.
        let _ = self.child.kill();
        Ok(self.child.wait()?)
    }

    /// Asks the process to stop (SIGTERM).
    #[cfg(unix)]
    pub fn terminate(&self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.ready.pid).ok().and_then(rustix::process::Pid::from_raw);
        let pid = pid.context("the pid is a pid")?;
        Ok(rustix::process::kill_process(pid, rustix::process::Signal::TERM)?)
    }

    /// Waits for the process to end by itself.
    pub fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        Ok(self.child.wait()?)
    }

    /// Starts the server again on the same data and the same port. Ends it first if it runs.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        let port = self.ready.address.port().to_string();
        let again = self.builder.clone().args(["--nosql-port", &port]);
        (self.child, self.ready) = again.spawn(self.home.path())?;
        Ok(())
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_line_is_read() {
        let line =
            r#"{"ready":true,"endpoints":{"nosql":"http://127.0.0.1:81/"},"key":"k","pid":7}"#;
        let ready = Ready::parse(line).unwrap();
        assert_eq!((ready.address.port(), ready.admin), (81, None));
        assert_eq!((ready.key.as_str(), ready.pid), ("k", 7));
        assert!(Ready::parse("{}").is_err());
        assert!(Ready::parse(&line.replace("true", "false")).is_err());
    }
}
