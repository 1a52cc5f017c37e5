//! Scripts: the saving of a procedure over single requests, and the effect of hostile ones on other
//! clients.
//!
//! The second part reads items at a steady rate, alone and then beside scripts that never end, eat
//! memory, recurse, spoil built-in objects or flood the queue of promises. The processor time of
//! the server's other threads per read must stay about the same.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use testkit::server::{ServerBuilder, TestServer};
use tokio::task::JoinSet;

use crate::client::Connection;
use crate::process;
use crate::request::{Account, Draft};
use crate::server::account_of;

/// Link of the container for all measurements.
pub const CONTAINER: &str = "dbs/scripts/colls/items";
/// Documents that are inserted by one call and by single requests.
pub const DOCUMENTS: usize = 1_000;
/// Connections that read, which is also the number of items they read.
const READERS: usize = 16;
const ITEMS: usize = 64;
/// Scripts that are requested at a time.
const CALLERS: usize = 8;
/// Most of the machine's processor time that the reads may use when they run alone.
const READ_SHARE_MAX: f64 = 0.20;
/// Most processor time of a read beside scripts, compared with reads alone.
const COST_RATIO_MAX: f64 = 1.2;
/// Least speed-up of a procedure over single requests.
const BULK_RATIO_MIN: f64 = 5.0;

/// A procedure that inserts its documents until its limits stop it.
pub const BULK: &str = "function (documents) {
    var collection = getContext().getCollection(), link = collection.getSelfLink(), count = 0;
    if (documents.length === 0) getContext().getResponse().setBody(0);
    else create();
    function create() {
        if (!collection.createDocument(link, documents[count], created)) {
            getContext().getResponse().setBody(count);
        }
    }
    function created(err) {
        if (err) throw err;
        count++;
        if (count < documents.length) create();
        else getContext().getResponse().setBody(count);
    }
}";

/// Hostile scripts, each with the allowed statuses.
const HOSTILE: [(&str, &str, &[u16]); 6] = [
    ("endless", "function () { for (;;) {} }", &[408]),
    ("gigabyte", "function () { var s = 'x'; for (;;) s += s; }", &[400, 408]),
    ("recursion", "function f() { f(); f(); }", &[400, 408]),
    (
        "tampering",
        "function () { Object.prototype.toJSON = Array.prototype.push = JSON.parse = null; \
         Object.defineProperty(Object.prototype, 'number', { get() { throw 1; } }); \
         globalThis.getContext = null; throw {}; }",
        &[400, 408],
    ),
    (
        "promises",
        "function f() { Promise.resolve().then(f); Promise.resolve().then(f); }",
        &[400, 408],
    ),
    (
        "catching",
        "function () { for (;;) try { [].fill.call({ length: 1e15 }); } catch (e) {} }",
        &[408],
    ),
];

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Hostile scripts in all.
    pub scripts: usize,
    /// Reads per second.
    pub rate: u32,
    /// Duration of the reads without scripts.
    pub alone: Duration,
}

/// Measurements of reads at a steady rate.
#[derive(Clone, Debug, Default)]
struct Reads {
    latencies: Vec<Duration>,
    failed: u64,
    /// Processor time of all threads except those that run scripts.
    cpu: Duration,
    wall: Duration,
}

impl Reads {
    fn percentile(&self, percent: usize) -> Duration {
        let at = (self.latencies.len() * percent / 100).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(at).copied().unwrap_or_default()
    }

    fn cost(&self) -> Duration {
        self.cpu / u32::try_from(self.latencies.len()).unwrap_or(u32::MAX).max(1)
    }

    /// The used fraction of the machine's processor time.
    fn share(&self) -> f64 {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.cpu.as_secs_f64() / self.wall.as_secs_f64() / processors as f64
    }
}

/// The measurements.
#[derive(Clone, Debug)]
pub struct Report {
    single: Duration,
    bulk: Duration,
    alone: Reads,
    beside: Reads,
    scripts: usize,
    grown_bytes: u64,
}

impl Report {
    fn bulk_ratio(&self) -> f64 {
        self.single.as_secs_f64() / self.bulk.as_secs_f64()
    }

    fn cost_ratio(&self) -> f64 {
        self.beside.cost().as_secs_f64() / self.alone.cost().as_secs_f64()
    }

    /// Reads that did not return an item.
    pub fn failed_reads(&self) -> u64 {
        self.alone.failed + self.beside.failed
    }

    /// Fails if a bound is not met.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(self.bulk_ratio() >= BULK_RATIO_MIN, "a procedure is too slow");
        ensure!(self.failed_reads() == 0, "reads failed");
        ensure!(self.alone.share() <= READ_SHARE_MAX, "the load is too high to compare");
        ensure!(self.cost_ratio() <= COST_RATIO_MAX, "reads cost more beside scripts");
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{DOCUMENTS} documents: {:.1?} by single creates, {:.1?} by one procedure: {:.1} times",
            self.single,
            self.bulk,
            self.bulk_ratio()
        )?;
        for (name, reads) in [("alone", &self.alone), ("beside scripts", &self.beside)] {
            writeln!(
                f,
                "reads {name}: {} in {:.1?}, {} failed, {:.1?} of processor each ({:.0}% of the \
                 machine), median {:.2?}, 99% {:.2?}",
                reads.latencies.len(),
                reads.wall,
                reads.failed,
                reads.cost(),
                100.0 * reads.share(),
                reads.percentile(50),
                reads.percentile(99)
            )?;
        }
        write!(
            f,
            "{} hostile scripts: a read costs {:.2} times as much, the server grew by {} MB",
            self.scripts,
            self.cost_ratio(),
            self.grown_bytes >> 20
        )
    }
}

/// Measures a server.
pub async fn run(binary: &Path, options: Options) -> anyhow::Result<Report> {
    let (single, bulk) = measure_bulk(binary).await.context("bulk")?;
    let arguments = ["--throttling", "off", "--script-timeout-ms", "100"];
    let server = ServerBuilder::new(binary).args(arguments).start()?;
    let account = account_of(&server)?;
    set_up(&account).await?;
    for n in 0..ITEMS {
        let item = Draft::feed("POST", CONTAINER, "docs").body(item(n));
        account.expect(&item, &[201]).await?;
    }
    for (name, body, _) in HOSTILE {
        define(&account, name, body).await?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let alone = {
        let reading = read_steadily(&server, &account, options.rate, &stop);
        let waiting = async {
            tokio::time::sleep(options.alone).await;
            stop.store(true, Ordering::Relaxed);
        };
        tokio::join!(reading, waiting).0?
    };
    let memory = process::resident_bytes(server.pid())?;
    stop.store(false, Ordering::Relaxed);
    let beside = {
        let reading = read_steadily(&server, &account, options.rate, &stop);
        let calling = async {
            let called = call_hostile(&account, options.scripts).await;
            stop.store(true, Ordering::Relaxed);
            called
        };
        let (reads, called) = tokio::join!(reading, calling);
        called?;
        reads?
    };
    let grown_bytes = process::resident_bytes(server.pid())?.saturating_sub(memory);
    Ok(Report { single, bulk, alone, beside, scripts: options.scripts, grown_bytes })
}

/// Times the same inserts as single requests and as one call.
async fn measure_bulk(binary: &Path) -> anyhow::Result<(Duration, Duration)> {
    let server = ServerBuilder::new(binary).args(["--throttling", "off"]).start()?;
    let account = account_of(&server)?;
    set_up(&account).await?;
    define(&account, "bulk", BULK).await?;
    let mut connection = Connection::open(account.address).await?;
    // Once without measuring, so that both measurements find everything warm.
    let mut times = Vec::new();
    for round in 0..2 {
        let began = Instant::now();
        for n in 0..DOCUMENTS {
            let document = document(&format!("single{round}"), n);
            let create = Draft::feed("POST", CONTAINER, "docs").body(document);
            let reply = account.send_on(&mut connection, &create).await?;
            ensure!(reply.status == 201, "{}", reply.text());
        }
        let single = began.elapsed();
        let documents: Vec<_> =
            (0..DOCUMENTS).map(|n| document(&format!("bulk{round}"), n)).collect();
        let began = Instant::now();
        let call = Draft::one("POST", CONTAINER, "sprocs", "bulk").key("bulk");
        let call = call.body(format!("[[{}]]", documents.join(",").replace("single", "bulk")));
        let reply = account.send_on(&mut connection, &call).await?;
        let bulk = began.elapsed();
        ensure!(reply.text() == DOCUMENTS.to_string(), "{} {}", reply.status, reply.text());
        times.push((single, bulk));
    }
    times.pop().context("no round")
}

fn document(kind: &str, n: usize) -> String {
    let key = if kind.starts_with("bulk") { "bulk" } else { "single" };
    let text = "x".repeat(400);
    format!(r#"{{"id":"{kind}-{n}","pk":"{key}","n":{n},"text":"{text}"}}"#)
}

fn item(n: usize) -> String {
    format!(r#"{{"id":"{n}","pk":"p","text":"{}"}}"#, "y".repeat(900))
}

/// Makes the container.
pub async fn set_up(account: &Account) -> anyhow::Result<()> {
    let database = Draft::feed("POST", "", "dbs").body(r#"{"id":"scripts"}"#);
    account.expect(&database, &[201]).await?;
    let container = Draft::feed("POST", "dbs/scripts", "colls")
        .body(r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#);
    account.expect(&container, &[201]).await?;
    Ok(())
}

/// Stores a procedure.
pub async fn define(account: &Account, id: &str, body: &str) -> anyhow::Result<()> {
    let script = serde_json::json!({ "id": id, "body": body }).to_string();
    let script = Draft::feed("POST", CONTAINER, "sprocs").body(script);
    account.expect(&script, &[201]).await?;
    Ok(())
}

/// Reads at a steady rate until stopped. Each read is due at a fixed time, whether or not the
/// earlier ones are done.
async fn read_steadily(
    server: &TestServer,
    account: &Account,
    rate: u32,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Reads> {
    let (began, cpu) = (Instant::now(), other_cpu_time(server.pid())?);
    let pace = Duration::from_secs_f64(READERS as f64 / f64::from(rate));
    let mut readers = JoinSet::new();
    for reader in 0..READERS {
        let (account, stop) = (account.clone(), Arc::clone(stop));
        let first = began + pace.mul_f64(reader as f64 / READERS as f64);
        readers.spawn(async move { read_at_pace(&account, reader, first, pace, &stop).await });
    }
    let mut reads = Reads::default();
    while let Some(reader) = readers.join_next().await {
        let (latencies, failed) = reader??;
        reads.latencies.extend(latencies);
        reads.failed += failed;
    }
    reads.latencies.sort_unstable();
    reads.wall = began.elapsed();
    reads.cpu = other_cpu_time(server.pid())?.saturating_sub(cpu);
    Ok(reads)
}

async fn read_at_pace(
    account: &Account,
    reader: usize,
    first: Instant,
    pace: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<(Vec<Duration>, u64)> {
    let mut connection = Connection::open(account.address).await?;
    let (mut latencies, mut failed, mut due) = (Vec::new(), 0, first);
    for n in reader.. {
        tokio::time::sleep_until(due.into()).await;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let id = (n * 7 % ITEMS).to_string();
        let read = Draft::one("GET", CONTAINER, "docs", &id).key("p");
        let reply = connection.exchange(&account.render(&read)).await?;
        failed += u64::from(reply.status != 200);
        latencies.push(due.elapsed());
        due += pace;
    }
    Ok((latencies, failed))
}

async fn call_hostile(account: &Account, count: usize) -> anyhow::Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (account, next) = (account.clone(), Arc::clone(&next));
        callers.spawn(async move {
            let mut connection = Connection::open(account.address).await?;
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= count {
                    return anyhow::Ok(());
                }
                let (name, _, allowed) = HOSTILE[n % HOSTILE.len()];
                let call = Draft::one("POST", CONTAINER, "sprocs", name).key("p").body("[]");
                let reply = account.send_on(&mut connection, &call).await?;
                let status = reply.status;
                ensure!(allowed.contains(&status), "{name}: {status} {}", reply.text());
            }
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    Ok(())
}

/// Processor time of a server without the threads that run scripts.
fn other_cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let mut scripts = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = task?.path();
        // A thread that has just ended was not a script thread.
        let Ok(name) = fs::read_to_string(path.join("comm")) else { continue };
        if name.trim_end() == "script" {
            let times = fs::read_to_string(path.join("schedstat"))?;
            let nanos = times.split(' ').next().and_then(|nanos| nanos.parse().ok());
            scripts += Duration::from_nanos(nanos.context("unreadable schedstat")?);
        }
    }
    Ok(process::cpu_time(pid)?.saturating_sub(scripts))
}
