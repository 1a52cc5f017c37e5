//! The peer: the npm package `@vercel/cosmosdb-server`, which keeps everything in memory.
//!
//! It runs with keep-alive over clear text, which its own command line does not offer, so that it
//! is measured at its best.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use crate::npm::Package;
use crate::request::Account;

/// The version that is installed.
pub const VERSION: &str = "1.0.1";
const PACKAGE: Package =
    Package { name: "@vercel/cosmosdb-server", version: VERSION, file: "lib/index.js" };
/// It never checks signatures, so any key is accepted.
const KEY: &str = "AAAA";

const START: &str = "const {createHttpServer} = require('@vercel/cosmosdb-server'); \
    const server = createHttpServer({keepAlive: true}).listen(0, '127.0.0.1', \
    () => console.log(server.address().port)); \
    process.stdin.on('end', () => process.exit()).resume();";

/// A running peer; killed when dropped.
pub struct Rival {
    child: Child,
    /// Its address and key.
    pub account: Account,
}

impl Rival {
    /// Installs the package if necessary, and starts it. Needs node and npm.
    pub fn start() -> anyhow::Result<Self> {
        let home = PACKAGE.install()?;
        let mut child = Command::new("node")
            .args(["-e", START])
            .current_dir(&home)
            // The child ends when the pipe closes, so that it never outlives this program.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("could not start node")?;
        let stdout = child.stdout.take().context("the child's output was not piped")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let endpoint = format!("http://127.0.0.1:{}/", line.trim());
        match Account::new(&endpoint, KEY) {
            Ok(account) => Ok(Self { child, account }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error.context("the peer named no port"))
            }
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // Killing a child that has already ended may fail.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
