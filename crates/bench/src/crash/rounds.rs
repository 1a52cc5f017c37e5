//! Kills and restarts.

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use testkit::server::{ServerBuilder, TestServer};

use crate::crash::check::{Violation, check};
use crate::crash::item::Version;
use crate::crash::ledger::Ledger;
use crate::crash::link::Wire;
use crate::crash::observe::observe;
use crate::crash::writer::{
    CONTAINER_LINK, OWNED_PER_WRITER, SharedLedger, WRITERS, Writer, contended_keys, counter_keys,
    create, lock, owned_key,
};
use crate::request::{Account, Draft};
use crate::rng::Rng;
use crate::server::account_of;

/// Provisioned so that the container has three ranges.
const THROUGHPUT: &str = "18000";
const RANGES: usize = 3;
/// Small memtables, so that kills also meet the store while it writes files and merges them.
const SERVER_ARGUMENTS: [&str; 4] = ["--throttling", "off", "--memtable-bytes", "131072"];
/// With these, a change of the throughput soon splits or merges partitions.
const REPARTITION_ARGUMENTS: [&str; 6] =
    ["--partition-ru-planned", "6000", "--partition-ru-max", "6000", "--auto-merge", "on"];
/// An interval of load ends after this time even if few writes were acknowledged.
const LOAD_MAX: Duration = Duration::from_millis(1_500);

/// Options of a crash test.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server.
    pub binary: PathBuf,
    /// Its data directory; must be empty or absent.
    pub data: PathBuf,
    /// How often it is killed.
    pub rounds: u32,
    /// The seed of all random choices.
    pub seed: u64,
    /// Further arguments of the server.
    pub arguments: Vec<String>,
    /// Whether partitions are split and merged all the time.
    pub repartition: bool,
    /// How the writers reach the server.
    pub wire: Wire,
}

/// The result of a crash test.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Kills under load.
    pub kills: u32,
    /// Kills while the server was starting.
    pub kills_at_start: u32,
    /// Orderly stops under load.
    pub stops: u32,
    /// Acknowledged writes.
    pub acknowledged: u64,
    /// Writes whose outcome was unknown when the server went down.
    pub in_doubt: u64,
    /// Changes of the throughput that made the server split or merge.
    pub rescaled: u64,
    /// Violations, with the round in which they were found. The test ends at the first such round.
    pub violations: Vec<(u32, Violation)>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} kills under load, {} while starting, {} orderly stops; {} acknowledged writes kept, \
             {} in doubt",
            self.kills, self.kills_at_start, self.stops, self.acknowledged, self.in_doubt
        )?;
        match self.rescaled {
            0 => Ok(()),
            times => write!(f, "; throughput changed {times} times, with splits and merges"),
        }
    }
}

/// How the server goes down at the end of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Down {
    Killed,
    Stopped,
}

/// Runs the whole test. `progress` receives a line for each round. Fails only if the test itself
/// cannot continue; violations are in the summary.
pub async fn run(options: &Options, progress: impl Fn(&str)) -> anyhow::Result<Summary> {
    let mut test = Test::new(options);
    let mut server = test.set_up().await.context("setting up")?;
    while test.summary.kills < options.rounds && test.summary.violations.is_empty() {
        test.round += 1;
        let number = test.round;
        let (again, line) =
            test.round(server).await.with_context(|| format!("in round {number}"))?;
        server = again;
        progress(&line);
    }
    test.summary.acknowledged = lock(&test.ledger).acknowledged();
    Ok(test.summary)
}

struct Test<'a> {
    options: &'a Options,
    rng: Rng,
    ledger: SharedLedger,
    round: u32,
    summary: Summary,
}

impl<'a> Test<'a> {
    fn new(options: &'a Options) -> Self {
        let mut ledger = Ledger::default();
        for writer in 0..WRITERS {
            (0..OWNED_PER_WRITER).for_each(|index| ledger.own(owned_key(writer, index)));
        }
        contended_keys().for_each(|key| ledger.contend(key));
        counter_keys().for_each(|key| ledger.count(key));
        Self {
            options,
            rng: Rng::new(options.seed),
            ledger: Arc::new(Mutex::new(ledger)),
            round: 0,
            summary: Summary::default(),
        }
    }

    fn arguments(&self) -> impl Iterator<Item = &str> {
        let repartition = self.options.repartition.then_some(REPARTITION_ARGUMENTS);
        let own = repartition.into_iter().flatten();
        own.chain(self.options.arguments.iter().map(String::as_str))
    }

    fn start(&self) -> anyhow::Result<(TestServer, Account)> {
        let server = ServerBuilder::new(&self.options.binary)
            .data_dir(&self.options.data)
            .args(SERVER_ARGUMENTS)
            .args(self.arguments())
            .start()?;
        let account = account_of(&server)?;
        Ok((server, account))
    }

    /// Creates the container and the counters, and inspects the initial state.
    async fn set_up(&mut self) -> anyhow::Result<TestServer> {
        let (server, account) = self.start()?;
        let database = Draft::feed("POST", "", "dbs").body(r#"{"id":"crash"}"#);
        account.expect(&database, &[201]).await?;
        let container = Draft::feed("POST", "dbs/crash", "colls")
            .header("x-ms-offer-throughput", THROUGHPUT)
            .body(r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#);
        account.expect(&container, &[201]).await?;
        let ranges =
            account.expect(&Draft::feed("GET", CONTAINER_LINK, "pkranges"), &[200]).await?;
        let count = ranges.json()?["PartitionKeyRanges"].as_array().map_or(0, Vec::len);
        anyhow::ensure!(count == RANGES, "the container has {count} ranges, not {RANGES}");
        for key in counter_keys() {
            account.expect(&create(&key, Version { stamp: 0, count: 0 }), &[201]).await?;
        }
        self.inspect(&account).await?;
        Ok(server)
    }

    /// One round: load, crash, perhaps crashes during recovery, restart, check.
    async fn round(&mut self, server: TestServer) -> anyhow::Result<(TestServer, String)> {
        let down = if self.rng.percent(10) { Down::Stopped } else { Down::Killed };
        let before = lock(&self.ledger).acknowledged();
        self.load_until_down(server, down).await?;
        let (acknowledged, in_doubt) = {
            let ledger = lock(&self.ledger);
            (ledger.acknowledged() - before, ledger.in_doubt())
        };
        self.summary.in_doubt += in_doubt as u64;
        while self.rng.percent(30) {
            self.kill_while_starting().await?;
        }
        let (server, account) = self.start()?;
        self.inspect(&account).await?;
        let line = format!(
            "round {}: {down:?} after {acknowledged} acknowledged writes, {in_doubt} in doubt: {}",
            self.round,
            if self.summary.violations.is_empty() { "all kept" } else { "VIOLATIONS" }
        );
        Ok((server, line))
    }

    async fn load_until_down(&mut self, mut server: TestServer, down: Down) -> anyhow::Result<()> {
        let account = account_of(&server)?;
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let rng = self.rng.fork(u64::from(self.round) << 16 | number as u64);
                let ledger = Arc::clone(&self.ledger);
                let writer = Writer::new(account.clone(), ledger, number, rng);
                tokio::spawn(writer.run(self.options.wire))
            })
            .collect();
        let rescaling = self.options.repartition.then(|| {
            let rng = self.rng.fork(u64::from(self.round) << 16 | 0xFFFF);
            tokio::spawn(rescale_until_down(account.clone(), rng))
        });
        let wanted = lock(&self.ledger).acknowledged() + 1 + self.rng.below(1_500);
        let deadline = Instant::now() + LOAD_MAX;
        while lock(&self.ledger).acknowledged() < wanted && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if !server.is_running() {
            self.summary.violations.push((self.round, Violation::Died));
        }
        match down {
            Down::Killed => {
                self.summary.kills += 1;
                server.kill()?;
            }
            Down::Stopped => {
                self.summary.stops += 1;
                server.terminate()?;
                wait_for_end(&mut server).await?;
            }
        }
        for writer in writers {
            writer.await?;
        }
        if let Some(rescaling) = rescaling {
            self.summary.rescaled += rescaling.await?;
        }
        Ok(())
    }

    /// Starts the server and kills it during the start, when it may be recovering.
    async fn kill_while_starting(&mut self) -> anyhow::Result<()> {
        let mut child = Command::new(&self.options.binary)
            .args(["serve", "--ports", "auto", "--data"])
            .arg(&self.options.data)
            .args(SERVER_ARGUMENTS)
            .args(self.arguments())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        tokio::time::sleep(Duration::from_micros(self.rng.below(80_000))).await;
        child.kill()?;
        child.wait()?;
        self.summary.kills_at_start += 1;
        Ok(())
    }

    /// Compares the server with the ledger and continues from the server's state.
    async fn inspect(&mut self, account: &Account) -> anyhow::Result<()> {
        let keys = lock(&self.ledger).keys();
        let observed = observe(account, keys).await?;
        let mut ledger = lock(&self.ledger);
        let mut violations = ledger.take_violations();
        violations.extend(check(&ledger, &observed));
        ledger.adopt(&observed.items, &observed.lsns);
        self.summary.violations.extend(violations.into_iter().map(|v| (self.round, v)));
        Ok(())
    }
}

/// Raises and lowers the container's throughput, which makes the server split and merge. Returns
/// how often it did.
async fn rescale_until_down(account: Account, mut rng: Rng) -> u64 {
    let mut times = 0;
    loop {
        let Ok(offers) = account.send(&Draft::feed("GET", "", "offers")).await else {
            return times;
        };
        let Ok(offers) = offers.json() else { return times };
        let mut offer = offers["Offers"][0].clone();
        let wanted = 6_000 * (1 + rng.below(6));
        offer["content"]["offerThroughput"] = wanted.into();
        let rid = offer["_rid"].as_str().unwrap_or_default().to_owned();
        let replace = Draft::offer("PUT", &rid).body(offer.to_string());
        // While an earlier change is under way another is refused.
        if account.send(&replace).await.is_ok_and(|reply| reply.status == 200) {
            times += 1;
        }
        tokio::time::sleep(Duration::from_millis(20 + rng.below(150))).await;
    }
}

async fn wait_for_end(server: &mut TestServer) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while server.is_running() {
        anyhow::ensure!(Instant::now() < deadline, "the server ignored SIGTERM");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let status = server.wait()?;
    anyhow::ensure!(status.success(), "the server stopped with {status}: {}", server.stderr());
    Ok(())
}
