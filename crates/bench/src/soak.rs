//! A long steady load on the real server: does it stall, grow or fill the disk?
//!
//! First sixteen connections send as much as they can, which measures the peak. Then they send a
//! fraction of that for a long time, while partitions split as they grow. Memory, disk and the
//! slowest write are measured throughout.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use testkit::server::{ServerBuilder, TestServer};

use crate::client::Connection;
use crate::process;
use crate::request::{Account, Draft};
use crate::rng::Rng;
use crate::server::account_of;

const CONNECTIONS: usize = 16;
const ITEM_BYTES: usize = 1_000;
/// Different partition keys; each has a hundred items.
const KEYS: u64 = 3_000;
const ITEMS_PER_KEY: u64 = 100;
/// Small enough that the container splits a few times during the test.
const SERVER_ARGUMENTS: [&str; 4] = ["--throttling", "off", "--partition-bytes-max", "100000000"];
/// Stored bytes of one item: its row (the text, 47 bytes of head, key values and key), its entry in
/// the change log, and six index entries, of which that of the filler has 512 bytes of it.
const STORED_BYTES: u64 = ITEM_BYTES as u64 + 110 + 90 + 590 + 5 * 65;
const CONTAINER_LINK: &str = "dbs/soak/colls/items";
const STALL: Duration = Duration::from_secs(1);

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server.
    pub binary: PathBuf,
    /// How long the steady load lasts.
    pub steady: Duration,
    /// How long the peak is measured.
    pub peak: Duration,
    /// The steady load in percent of the peak.
    pub percent: u64,
}

/// The measurements.
#[derive(Clone, Debug, Default)]
pub struct Report {
    peak_per_second: u64,
    writes: u64,
    seconds: f64,
    slowest: Duration,
    stalls: u64,
    resident_start: u64,
    resident_most: u64,
    resident_end: u64,
    disk_most: u64,
    disk_end: u64,
    logical: u64,
    ranges: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mega = |bytes: u64| bytes / 1_000_000;
        writeln!(f, "peak {} writes/s", self.peak_per_second)?;
        writeln!(
            f,
            "then {} writes in {:.0} s ({:.0}/s), none failed; slowest {:.0?}, {} slower than {STALL:?}",
            self.writes,
            self.seconds,
            self.writes as f64 / self.seconds.max(1.0),
            self.slowest,
            self.stalls
        )?;
        writeln!(
            f,
            "memory {} MB at the start of it, {} MB at most, {} MB at the end",
            mega(self.resident_start),
            mega(self.resident_most),
            mega(self.resident_end)
        )?;
        write!(
            f,
            "{} MB of keys and values in {} partitions; on disk {} MB at most, {} MB at the end ({:.2}x)",
            mega(self.logical),
            self.ranges,
            mega(self.disk_most),
            mega(self.disk_end),
            self.disk_end as f64 / self.logical.max(1) as f64
        )
    }
}

/// State that the clients share.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    writes: AtomicU64,
    slowest_us: AtomicU64,
    stalls: AtomicU64,
}

/// Runs the whole test. `tell` receives a progress line every half minute.
pub async fn run(options: &Options, tell: impl FnMut(String)) -> anyhow::Result<Report> {
    let server = ServerBuilder::new(&options.binary).args(SERVER_ARGUMENTS).start()?;
    let outcome = run_on(&server, options, tell).await;
    outcome.with_context(|| format!("the server said:\n{}", server.stderr()))
}

async fn run_on(
    server: &TestServer,
    options: &Options,
    mut tell: impl FnMut(String),
) -> anyhow::Result<Report> {
    let account = account_of(server)?;
    account.expect(&Draft::feed("POST", "", "dbs").body(r#"{"id":"soak"}"#), &[201]).await?;
    let container = Draft::feed("POST", "dbs/soak", "colls")
        .body(r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#);
    account.expect(&container, &[201]).await?;

    let mut report = Report::default();
    let peak = load(&account, server, options.peak, None, &mut report, &mut tell).await?;
    report.peak_per_second = peak.writes.load(Ordering::Relaxed) / options.peak.as_secs().max(1);
    let rate = report.peak_per_second * options.percent / 100;
    tell(format!("peak {}/s, going on with {rate}/s", report.peak_per_second));
    report.resident_start = process::resident_bytes(server.pid())?;
    let began = Instant::now();
    let steady = load(&account, server, options.steady, Some(rate), &mut report, &mut tell).await?;
    report.seconds = began.elapsed().as_secs_f64();
    report.writes = steady.writes.load(Ordering::Relaxed);
    report.slowest = Duration::from_micros(steady.slowest_us.load(Ordering::Relaxed));
    report.stalls = steady.stalls.load(Ordering::Relaxed);
    process::settle(server.pid(), Duration::from_secs(60)).await?;
    report.resident_end = process::resident_bytes(server.pid())?;
    report.disk_end = directory_bytes(&server.data_dir())?;
    let ranges = account.expect(&Draft::feed("GET", CONTAINER_LINK, "pkranges"), &[200]).await?;
    report.ranges = ranges.json()?["PartitionKeyRanges"].as_array().map_or(0, Vec::len);
    report.logical = KEYS * ITEMS_PER_KEY * STORED_BYTES;
    Ok(report)
}

async fn load(
    account: &Account,
    server: &TestServer,
    duration: Duration,
    rate: Option<u64>,
    report: &mut Report,
    tell: &mut impl FnMut(String),
) -> anyhow::Result<Arc<Shared>> {
    let shared = Arc::new(Shared::default());
    let period = rate.map(|rate| Duration::from_secs_f64(CONNECTIONS as f64 / rate.max(1) as f64));
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CONNECTIONS {
        clients.spawn(write_until_stopped(
            account.clone(),
            Arc::clone(&shared),
            client as u64,
            period,
        ));
    }
    let began = Instant::now();
    let mut told = Instant::now();
    while began.elapsed() < duration && clients.len() == CONNECTIONS {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let resident = process::resident_bytes(server.pid())?;
        let disk = directory_bytes(&server.data_dir())?;
        report.resident_most = report.resident_most.max(resident);
        report.disk_most = report.disk_most.max(disk);
        if told.elapsed() > Duration::from_secs(30) {
            told = Instant::now();
            tell(format!(
                "{:4.0} s: {} writes, slowest {} ms, memory {} MB, disk {} MB",
                began.elapsed().as_secs_f64(),
                shared.writes.load(Ordering::Relaxed),
                shared.slowest_us.load(Ordering::Relaxed) / 1_000,
                resident / 1_000_000,
                disk / 1_000_000
            ));
        }
        if let Some(ended) = clients.try_join_next() {
            ended??;
        }
    }
    shared.stop.store(true, Ordering::Relaxed);
    while let Some(ended) = clients.join_next().await {
        ended.context("a client ended badly")??;
    }
    Ok(shared)
}

async fn write_until_stopped(
    account: Account,
    shared: Arc<Shared>,
    seed: u64,
    period: Option<Duration>,
) -> anyhow::Result<()> {
    let mut random = Rng::new(seed);
    let filler = "x".repeat(ITEM_BYTES - 100);
    let mut connection = Connection::open(account.address).await?;
    let mut next = Instant::now();
    while !shared.stop.load(Ordering::Relaxed) {
        if let Some(period) = period {
            next += period;
            tokio::time::sleep_until(next.into()).await;
        }
        let (key, id) = (random.below(KEYS), random.below(ITEMS_PER_KEY));
        let item = format!(
            r#"{{"id":"{id}","pk":"{key}","stamp":{},"filler":"{filler}"}}"#,
            random.next_u64()
        );
        let upsert =
            Draft::feed("POST", CONTAINER_LINK, "docs").key(&key.to_string()).upsert().body(item);
        let began = Instant::now();
        let reply = account.send_on(&mut connection, &upsert).await?;
        anyhow::ensure!(matches!(reply.status, 200 | 201), "{}: {}", reply.status, reply.text());
        let took = began.elapsed();
        shared.writes.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        shared.slowest_us.fetch_max(micros, Ordering::Relaxed);
        shared.stalls.fetch_add(u64::from(took > STALL), Ordering::Relaxed);
    }
    Ok(())
}

/// Disk space of the files below a directory.
fn directory_bytes(directory: &Path) -> anyhow::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut total = 0;
    for entry in std::fs::read_dir(directory)? {
        // Files are created and deleted while the server runs.
        let Ok(entry) = entry else { continue };
        let Ok(metadata) = entry.metadata() else { continue };
        total += match metadata.is_dir() {
            true => directory_bytes(&entry.path()).unwrap_or_default(),
            false => metadata.blocks() * 512,
        };
    }
    Ok(total)
}
