//! Whether a real server serves the provisioned throughput: clients request more than that, and the
//! charges that the server reports are added up.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use testkit::server::{ServerBuilder, TestServer};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::client::Connection;
use crate::request::{Account, Draft};
use crate::server::account_of;

/// Provisioned per partition in every scenario.
const SHARE: u64 = 400;
/// Requested throughput of a busy partition, in request units per second.
const DEMAND: u64 = 2_000;
/// Cost of three requests of [`Client::next`]: a small read, a small write, a large read.
const ROUND_MILLI: u64 = 1_000 + 5_040 + 10_009;
const CLIENTS: u32 = 8;
const LARGE_BYTES: usize = 100 * 1024 - 40;

/// Measurements of one scenario.
#[derive(Debug, Default)]
pub struct LoadStats {
    lasted: Duration,
    served: AtomicU64,
    served_milli: AtomicU64,
    throttled: AtomicU64,
}

/// Measurements of all scenarios.
#[derive(Debug)]
pub struct Report {
    /// One partition with five times its share requested, whose clients do not wait.
    pub busy: LoadStats,
    /// The partition of a hot key.
    pub hot: LoadStats,
    /// Its neighbour, with few requests.
    pub cold: LoadStats,
    /// One client that waits as the server says.
    pub obedient: LoadStats,
    /// How often that client was refused again right after its wait.
    pub refused_again: u64,
}

impl LoadStats {
    /// Its duration, from before the first request to after the last.
    pub fn seconds(&self) -> f64 {
        self.lasted.as_secs_f64()
    }

    /// Request units served.
    pub fn units(&self) -> f64 {
        self.served_milli.load(Ordering::Relaxed) as f64 / 1000.0
    }

    /// Requests refused.
    pub fn throttled(&self) -> u64 {
        self.throttled.load(Ordering::Relaxed)
    }

    /// Requests served.
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// The most a partition can have served: its share, one second of burst, and the overdraft of
    /// each client's last request.
    fn ceiling(&self) -> f64 {
        SHARE as f64 * (self.seconds() + 1.0) + f64::from(CLIENTS) * 10.0
    }

    /// Records a reply; returns the requested wait if it is a refusal.
    fn note(
        &self,
        status: u16,
        charge: Option<&str>,
        wait_ms: Option<&str>,
    ) -> anyhow::Result<u64> {
        match status {
            429 => {
                self.throttled.fetch_add(1, Ordering::Relaxed);
                let wait = wait_ms.context("a refusal names no time to wait")?;
                return wait.parse().context("a time to wait is no number");
            }
            200 | 201 | 404 => {}
            other => anyhow::bail!("a request was answered with {other}"),
        }
        let charge: f64 = charge.context("a reply has no charge")?.parse()?;
        #[expect(clippy::cast_possible_truncation, reason = "charges are small")]
        #[expect(clippy::cast_sign_loss, reason = "charges are not negative")]
        let milli = (charge * 1000.0).round() as u64;
        self.served_milli.fetch_add(milli, Ordering::Relaxed);
        self.served.fetch_add(1, Ordering::Relaxed);
        Ok(0)
    }
}

impl Report {
    /// The relative deviation of the busy partition's served throughput from its share.
    pub fn deviation(&self) -> f64 {
        self.busy.units() / (SHARE as f64 * self.busy.seconds()) - 1.0
    }

    /// Checks the bounds that hold on a machine of any speed.
    pub fn check(&self) -> anyhow::Result<()> {
        for (name, stats) in [("busy", &self.busy), ("hot", &self.hot), ("one", &self.obedient)] {
            ensure!(stats.units() <= stats.ceiling(), "{name}: {} RU are too many", stats.units());
            ensure!(stats.throttled() > 0, "{name}: nothing was throttled");
        }
        ensure!(self.cold.throttled() == 0, "the cold partition was throttled");
        ensure!(self.refused_again == 0, "a wait as told was too short: {}", self.refused_again);
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{SHARE} RU/s per partition")?;
        for (name, stats) in [
            ("busy (2,000 RU/s asked)", &self.busy),
            ("hot (2,000 RU/s asked)", &self.hot),
            ("cold (100 RU/s asked)", &self.cold),
            ("waits as told", &self.obedient),
        ] {
            writeln!(
                f,
                "{name:<26} {:>8.1} RU/s over {:.1} s in {:>6} requests, {:>6} answered 429",
                stats.units() / stats.seconds(),
                stats.seconds(),
                stats.served(),
                stats.throttled()
            )?;
        }
        writeln!(f, "the busy partition served its share {:+.1}%", self.deviation() * 100.0)?;
        write!(f, "waits that were too short: {}", self.refused_again)
    }
}

/// Runs all scenarios, each for `seconds`, against `binary`.
pub async fn run(binary: &Path, seconds: f64) -> anyhow::Result<Report> {
    let arguments = ["--memory", "--throttling", "on", "--partition-ru-planned", "400"];
    let server = ServerBuilder::new(binary).args(arguments).start()?;
    let lasts = Duration::try_from_secs_f64(seconds)?;
    let busy = busy(&server, lasts).await?;
    let (hot, cold) = hot_and_cold(&server, lasts).await?;
    let (obedient, refused_again) = obedient(&server, lasts).await?;
    Ok(Report { busy, hot, cold, obedient, refused_again })
}

async fn busy(server: &TestServer, lasts: Duration) -> anyhow::Result<LoadStats> {
    let account = account_of(server)?;
    let container = container(&account, "busy", SHARE).await?;
    create_items(&account, &container, "a").await?;
    let stats = Arc::new(LoadStats::default());
    let began = Instant::now();
    finish(crowd(&account, &container, "a", DEMAND, lasts, &stats)).await?;
    unshared(stats, began)
}

async fn hot_and_cold(
    server: &TestServer,
    lasts: Duration,
) -> anyhow::Result<(LoadStats, LoadStats)> {
    let account = account_of(server)?;
    let container = container(&account, "hot", 2 * SHARE).await?;
    let (hot_key, cold_key) = keys_of_two_ranges(&account, &container).await?;
    for key in [&hot_key, &cold_key] {
        create_items(&account, &container, key).await?;
    }
    let hot = Arc::new(LoadStats::default());
    let cold = Arc::new(LoadStats::default());
    let began = Instant::now();
    let many = crowd(&account, &container, &hot_key, DEMAND, lasts, &hot);
    let few = crowd(&account, &container, &cold_key, 100, lasts, &cold);
    tokio::try_join!(finish(many), finish(few))?;
    Ok((unshared(hot, began)?, unshared(cold, began)?))
}

/// One client sends requests as fast as it can and waits when the server says so.
async fn obedient(server: &TestServer, lasts: Duration) -> anyhow::Result<(LoadStats, u64)> {
    let account = account_of(server)?;
    let container = container(&account, "one", SHARE).await?;
    create_items(&account, &container, "a").await?;
    let mut stats = LoadStats::default();
    let mut client = Client::open(&account, &container, "a", 0).await?;
    let (mut refused_again, mut has_waited) = (0, false);
    let began = Instant::now();
    while began.elapsed() < lasts {
        let wait_ms = client.next(&stats).await?;
        refused_again += u64::from(has_waited && wait_ms > 0);
        has_waited = wait_ms > 0;
        if has_waited {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        }
    }
    stats.lasted = began.elapsed();
    Ok((stats, refused_again))
}

/// Clients that together request `demand` request units per second, whatever the responses.
fn crowd(
    account: &Account,
    container: &str,
    key: &str,
    demand: u64,
    lasts: Duration,
    stats: &Arc<LoadStats>,
) -> JoinSet<anyhow::Result<()>> {
    let requests_per_second = demand as f64 * 1000.0 * 3.0 / ROUND_MILLI as f64;
    let gap = Duration::from_secs_f64(f64::from(CLIENTS) / requests_per_second);
    let mut clients = JoinSet::new();
    for n in 0..CLIENTS {
        let (account, stats) = (account.clone(), Arc::clone(stats));
        let (container, key) = (container.to_owned(), key.to_owned());
        clients.spawn(async move {
            let mut client = Client::open(&account, &container, &key, n).await?;
            let end = Instant::now() + lasts;
            let mut ticks = tokio::time::interval(gap);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            while Instant::now() < end {
                ticks.tick().await;
                client.next(&stats).await?;
            }
            Ok(())
        });
    }
    clients
}

async fn finish(mut clients: JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    Ok(())
}

fn unshared(stats: Arc<LoadStats>, began: Instant) -> anyhow::Result<LoadStats> {
    let stats = Arc::into_inner(stats).context("a client is still running")?;
    Ok(LoadStats { lasted: began.elapsed(), ..stats })
}

/// A connection and the next request.
struct Client {
    account: Account,
    connection: Connection,
    container: String,
    key: String,
    number: u32,
    turn: u32,
}

impl Client {
    async fn open(
        account: &Account,
        container: &str,
        key: &str,
        number: u32,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            account: account.clone(),
            connection: Connection::open(account.address).await?,
            container: container.to_owned(),
            key: key.to_owned(),
            number,
            turn: number,
        })
    }

    /// Sends the next request; returns the wait in milliseconds, if it was refused.
    async fn next(&mut self, stats: &LoadStats) -> anyhow::Result<u64> {
        self.turn += 1;
        let draft = match self.turn % 3 {
            0 => Draft::one("GET", &self.container, "docs", "small"),
            1 => {
                let id = format!("{}-{}", self.number, self.turn);
                let body = format!(r#"{{"id":"{id}","pk":"{}"}}"#, self.key);
                Draft::feed("POST", &self.container, "docs").body(body)
            }
            _ => Draft::one("GET", &self.container, "docs", "large"),
        };
        let bytes = self.account.render(&draft.key(&self.key));
        let reply = self.connection.exchange(&bytes).await?;
        let (charge, wait) =
            (reply.header("x-ms-request-charge"), reply.header("x-ms-retry-after-ms"));
        stats.note(reply.status, charge, wait)
    }
}

/// A container with this throughput in a database of its own.
async fn container(account: &Account, id: &str, throughput: u64) -> anyhow::Result<String> {
    let database = format!(r#"{{"id":"{id}"}}"#);
    account.expect(&Draft::feed("POST", "", "dbs").body(database), &[201]).await?;
    let parent = format!("dbs/{id}");
    let body =
        format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}}}}"#);
    let create = Draft::feed("POST", &parent, "colls").body(body);
    let create = create.header("x-ms-offer-throughput", throughput.to_string());
    account.expect(&create, &[201]).await?;
    Ok(format!("{parent}/colls/{id}"))
}

/// The two items that clients read. They cost a fraction of one second's throughput.
async fn create_items(account: &Account, container: &str, key: &str) -> anyhow::Result<()> {
    let large = format!(r#"{{"id":"large","pk":"{key}","x":"{}"}}"#, "x".repeat(LARGE_BYTES));
    let small = format!(r#"{{"id":"small","pk":"{key}"}}"#);
    for body in [small, large] {
        let create = Draft::feed("POST", container, "docs").key(key).body(body);
        account.expect(&create, &[201]).await?;
    }
    Ok(())
}

/// Two keys in different ranges.
async fn keys_of_two_ranges(
    account: &Account,
    container: &str,
) -> anyhow::Result<(String, String)> {
    let mut first: Option<(String, String)> = None;
    for n in 0..30 {
        let key = format!("k{n}");
        let read = Draft::one("GET", container, "docs", "none").key(&key);
        let reply = account.expect(&read, &[404]).await?;
        let token = reply.header("x-ms-session-token").context("no session token")?;
        let range = token.split(':').next().unwrap_or_default().to_owned();
        match &first {
            Some((hot, of)) if *of != range => return Ok((hot.clone(), key)),
            Some(_) => {}
            None => first = Some((key, range)),
        }
    }
    anyhow::bail!("thirty keys live in one range")
}
