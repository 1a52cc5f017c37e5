//! The bad-input test: input that no SDK sends, against a real server.
//!
//! [`cases`] are single requests with their documented status, [`noise`] is random and mutated
//! bytes, [`crowd`] is hundreds of clients that are silent, slow, or send too much. After each part
//! the server must still serve. At the end it must have no more open files than before and not much
//! more memory.

pub mod cases;
pub mod crowd;
pub mod noise;

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use testkit::server::TestServer;

use crate::process;
use crate::request::{Account, Draft};
use crate::rng::Rng;
use crate::server::account_of;

/// Arguments that the server must be started with: short time limits, so that slow clients are
/// disconnected while the test waits.
pub const SERVER_ARGUMENTS: [&str; 8] = [
    "--head-timeout-s",
    "2",
    "--body-timeout-s",
    "2",
    "--idle-timeout-s",
    "4",
    "--throttling",
    "off",
];

/// Most memory that the server may have gained at the end.
const GROWTH_BYTES_MAX: u64 = 128 << 20;
/// How long the server may take to release connections that ended or timed out.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Link of the container that the whole test uses.
pub const CONTAINER_LINK: &str = "dbs/hostile/colls/items";

/// The amount of each kind of bad input.
#[derive(Clone, Copy, Debug)]
pub struct HostileOptions {
    /// The seed of all random choices.
    pub seed: u64,
    /// Connections of noise.
    pub noise: u32,
    /// Connections of each kind of bad client at a time.
    pub crowd: usize,
}

/// Runs all parts against a server that was started with [`SERVER_ARGUMENTS`]. An error describes
/// the server's fault.
pub async fn run(server: &mut TestServer, options: HostileOptions) -> anyhow::Result<()> {
    let account = account_of(server)?;
    set_up(&account).await?;
    let files = process::open_files(server.pid())?;
    let memory = process::resident_bytes(server.pid())?;

    cases::run(&account).await.context("cases")?;
    still_serves(server, &account).await.context("after the cases")?;
    noise::run(&account, Rng::new(options.seed), options.noise).await.context("noise")?;
    still_serves(server, &account).await.context("after the noise")?;
    crowd::run(&account, options.crowd).await.context("crowd")?;
    still_serves(server, &account).await.context("after the crowd")?;

    files_return_to(server.pid(), files).await?;
    let grown = process::resident_bytes(server.pid())?.saturating_sub(memory);
    ensure!(grown <= GROWTH_BYTES_MAX, "the server has grown by {} MB", grown >> 20);
    Ok(())
}

/// The item that exists throughout.
pub fn good_read<'a>() -> Draft<'a> {
    Draft::one("GET", CONTAINER_LINK, "docs", "good").key("p")
}

async fn set_up(account: &Account) -> anyhow::Result<()> {
    let database = Draft::feed("POST", "", "dbs").body(r#"{"id":"hostile"}"#);
    account.expect(&database, &[201]).await?;
    let container = Draft::feed("POST", "dbs/hostile", "colls")
        .body(r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#);
    account.expect(&container, &[201]).await?;
    let item = Draft::feed("POST", CONTAINER_LINK, "docs").body(r#"{"id":"good","pk":"p"}"#);
    account.expect(&item, &[201]).await?;
    Ok(())
}

async fn still_serves(server: &mut TestServer, account: &Account) -> anyhow::Result<()> {
    ensure!(server.is_running(), "the server has ended: {}", server.stderr());
    account.expect(&good_read(), &[200]).await?;
    let said = server.stderr();
    ensure!(!said.contains("panicked"), "the server panicked: {said}");
    Ok(())
}

/// Waits until the process has as few open files as before; lingering connections of this test are
/// closed by then.
async fn files_return_to(pid: u32, before: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let now = process::open_files(pid)?;
        // The store may have opened a few tables.
        if now <= before + 4 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{now} files are open, {before} were before");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
