//! The peer: the table service of the npm package `azurite`.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

use crate::npm::Package;

/// The installed package.
pub(super) const PACKAGE: Package =
    Package { name: "azurite", version: "3.37.0", file: "dist/src/table/main.js" };

/// A running peer; killed when dropped.
pub(super) struct Azurite {
    child: Child,
    address: SocketAddr,
}

impl Azurite {
    /// Installs the package if necessary, and starts it. Needs node and npm.
    pub(super) fn start() -> anyhow::Result<Self> {
        let home = PACKAGE.install()?;
        // It can't choose a free port itself, so one is bound and released again.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let program = home.join("node_modules").join(PACKAGE.name).join(PACKAGE.file);
        let mut child = Command::new("node")
            .arg(program)
            .args(["--inMemoryPersistence", "--silent", "--disableTelemetry"])
            .args(["--tableHost", "127.0.0.1", "--tablePort", &address.port().to_string()])
            .current_dir(&home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("could not start node")?;
        let stdout = child.stdout.take().context("the child's output was not piped")?;
        let peer = Self { child, address };
        for line in BufReader::new(stdout).lines() {
            if line?.contains("successfully") {
                return Ok(peer);
            }
        }
        bail!("azurite ended before it was ready")
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        // Killing a child that has already ended may fail.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
