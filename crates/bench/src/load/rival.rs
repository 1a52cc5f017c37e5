//! The peer: the npm package `@vercel/cosmosdb-server`, which keeps everything in memory.
//!
//! It is run with keep-alive over cleartext, which is more than its own command line offers, so
//! that it is measured at its best.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use crate::request::Account;

/// The version that is installed.
pub const VERSION: &str = "1.0.1";
const PACKAGE: &str = "@vercel/cosmosdb-server";
/// It never checks signatures; any key will do.
const KEY: &str = "AAAA";

const START: &str = "const {createHttpServer} = require('@vercel/cosmosdb-server'); \
    const server = createHttpServer({keepAlive: true}).listen(0, '127.0.0.1', \
    () => console.log(server.address().port)); \
    process.stdin.on('end', () => process.exit()).resume();";

/// A running peer; killed when dropped.
pub struct Rival {
    child: Child,
    /// Where it answers.
    pub account: Account,
}

impl Rival {
    /// Installs the package if that has not been done before, and starts it. Needs node and npm.
    pub fn start() -> anyhow::Result<Self> {
        let home = install()?;
        let mut child = Command::new("node")
            .args(["-e", START])
            .current_dir(&home)
            // Ends when the pipe does, so that it never outlives this program.
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
        // Nothing to do about a child that is already gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory that has the package, kept between runs because installing takes a minute.
fn install() -> anyhow::Result<PathBuf> {
    let home = std::env::temp_dir().join(format!("planisphere-bench-rival-{VERSION}"));
    if is_installed(&home) {
        return Ok(home);
    }
    std::fs::create_dir_all(&home)?;
    std::fs::write(home.join("package.json"), r#"{"name":"rival","private":true}"#)?;
    let status = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error"])
        .arg(format!("{PACKAGE}@{VERSION}"))
        .current_dir(&home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("could not run npm")?;
    anyhow::ensure!(status.success() && is_installed(&home), "npm install {PACKAGE} failed");
    Ok(home)
}

fn is_installed(home: &Path) -> bool {
    home.join("node_modules").join(PACKAGE).join("lib/index.js").exists()
        && home.join("node_modules/.package-lock.json").exists()
}
