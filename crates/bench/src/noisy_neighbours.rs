//! How long other clients wait while some clients send queries with unbounded cost.
//!
//! Every few milliseconds a client reads an item, or sends a small query within a partition key or
//! over all partitions, whether or not the previous response has arrived. Meanwhile a growing
//! number of other clients send hostile queries, each the next one as soon as the last was cut off.
//! Waits count from the moment at which each request was due. As SDKs do, the client has several
//! connections, so that one slow response does not hold up the requests behind it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use testkit::server::ServerBuilder;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::client::Connection;
use crate::request::{Account, Draft};
use crate::server::account_of;

const CONTAINER: &str = "dbs/beside/colls/items";
/// Time between two requests of the watched client.
const GAP: Duration = Duration::from_millis(4);
/// Connections of the watched client.
const CONNECTIONS: u32 = 8;
const SMALL_ITEMS: usize = 100;
/// Bound on the wait, for the 99th percentile.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// Measurements of the watched client beside a number of hostile ones.
#[derive(Debug)]
pub struct NeighbourReport {
    /// Number of hostile clients.
    pub hostile: usize,
    /// How many of their queries were cut off or refused.
    pub cut: u64,
    /// Waits by kind of request.
    waits: BTreeMap<Kind, Vec<Duration>>,
}

/// The kinds of requests of the watched client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Read,
    WithinKey,
    AcrossPartitions,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Read, Kind::WithinKey, Kind::AcrossPartitions];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Read => "read",
            Kind::WithinKey => "query within a key",
            Kind::AcrossPartitions => "query across partitions",
        })
    }
}

/// A percentile of sorted waits.
fn wait(waits: &[Duration], of_hundred: usize) -> Duration {
    let at = waits.len() * of_hundred / 100;
    waits.get(at).or(waits.last()).copied().unwrap_or_default()
}

impl NeighbourReport {
    /// Whether the waits of all kinds of requests are within the bound.
    pub fn is_within_bound(&self) -> bool {
        self.waits.values().all(|waits| wait(waits, 99) < WAIT_MAX)
    }
}

impl fmt::Display for NeighbourReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "beside {} hostile clients ({} queries cut off)", self.hostile, self.cut)?;
        for (kind, waits) in &self.waits {
            let [median, most_of_them, most] = [50, 99, 100].map(|part| wait(waits, part));
            let count = waits.len();
            write!(
                f,
                "\n  {kind:<24} {count:>5} times, median {median:.1?}, 99% {most_of_them:.1?}, \
                 most {most:.1?}"
            )?;
        }
        Ok(())
    }
}

/// Measures a client of `binary` for `lasts` beside each of these numbers of hostile ones.
pub async fn run(
    binary: &Path,
    lasts: Duration,
    crowds: &[usize],
) -> anyhow::Result<Vec<NeighbourReport>> {
    let server = ServerBuilder::new(binary).args(["--throttling", "off"]).start()?;
    let account = account_of(&server)?;
    create_items(&account).await?;
    let mut reports = Vec::with_capacity(crowds.len());
    for crowd in crowds {
        reports.push(watch(&account, *crowd, lasts).await?);
    }
    Ok(reports)
}

async fn create_items(account: &Account) -> anyhow::Result<()> {
    let database = Draft::feed("POST", "", "dbs").body(r#"{"id":"beside"}"#);
    account.expect(&database, &[201]).await?;
    let body = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    let container = Draft::feed("POST", "dbs/beside", "colls").body(body);
    let container = container.header("x-ms-offer-throughput", "18000");
    account.expect(&container, &[201]).await?;
    let numbers: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    let text = "a".repeat(500_000);
    let fat = format!(r#"{{"id":"fat","pk":"fat","s":"{text}","a":[{}]}}"#, numbers.join(","));
    account.expect(&Draft::feed("POST", CONTAINER, "docs").key("fat").body(fat), &[201]).await?;
    for n in 0..SMALL_ITEMS {
        let small = format!(r#"{{"id":"{n}","pk":"small","n":{n}}}"#);
        let create = Draft::feed("POST", CONTAINER, "docs").key("small").body(small);
        account.expect(&create, &[201]).await?;
        let key = format!("key {n}");
        let spread = format!(r#"{{"id":"{n}","pk":"{key}","group":{}}}"#, n % 20);
        let create = Draft::feed("POST", CONTAINER, "docs").key(&key).body(spread);
        account.expect(&create, &[201]).await?;
    }
    Ok(())
}

/// Queries that would never end.
fn hostile_texts() -> Vec<String> {
    let joins: String = (0..10).map(|n| format!(" JOIN j{n} IN c.a")).collect();
    vec![
        format!("SELECT VALUE COUNT(1) FROM c{joins}"),
        format!("SELECT VALUE c.id FROM c{joins} WHERE j9 + 0 = -1"),
        format!("SELECT DISTINCT VALUE j0 + j1 + j2 FROM c{joins}"),
        format!("SELECT j0, COUNT(1) AS n FROM c{joins} GROUP BY j0"),
        format!("SELECT * FROM c WHERE c.s LIKE '%{}b'", "a%".repeat(1000)),
        "SELECT VALUE RegexMatch(c.s, '(a*)*(a*)*(a*)*b') FROM c".to_owned(),
        "SELECT VALUE REPLACE(c.s, 'a', c.s) FROM c".to_owned(),
        format!("SELECT VALUE {}1{}", "(".repeat(200_000), ")".repeat(200_000)),
    ]
}

fn query(text: &str) -> Draft<'static> {
    Draft::feed("POST", CONTAINER, "docs")
        .header("x-ms-documentdb-isquery", "true")
        .header("content-type", "application/query+json")
        .body(serde_json::json!({ "query": text }).to_string())
}

async fn watch(
    account: &Account,
    hostile: usize,
    lasts: Duration,
) -> anyhow::Result<NeighbourReport> {
    let is_over = Arc::new(AtomicBool::new(false));
    let cut = Arc::new(AtomicU64::new(0));
    // No client begins before all are ready, because building their texts keeps this machine busy.
    let ready = Arc::new(Barrier::new(hostile + 1));
    let mut crowd = JoinSet::new();
    for number in 0..hostile {
        let (account, is_over, cut) = (account.clone(), Arc::clone(&is_over), Arc::clone(&cut));
        let ready = Arc::clone(&ready);
        crowd.spawn(async move {
            let connection = Connection::open(account.address).await;
            let texts = hostile_texts();
            ready.wait().await;
            let mut connection = connection?;
            for text in texts.iter().cycle().skip(number) {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let reply = account.send_on(&mut connection, &query(text).key("fat")).await?;
                ensure!(matches!(reply.status, 200 | 400), "{}: {}", reply.status, reply.text());
                cut.fetch_add(u64::from(reply.status == 400), Ordering::Relaxed);
            }
            Ok(())
        });
    }
    ready.wait().await;
    let waits = send_steadily(account, lasts).await;
    is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = crowd.join_next().await {
        ended??;
    }
    let mut waits = waits?;
    waits.values_mut().for_each(|waits| waits.sort_unstable());
    Ok(NeighbourReport { hostile, cut: cut.load(Ordering::Relaxed), waits })
}

/// Sends a small request every few milliseconds, due whether or not the previous response has
/// arrived.
async fn send_steadily(
    account: &Account,
    lasts: Duration,
) -> anyhow::Result<BTreeMap<Kind, Vec<Duration>>> {
    let began = Instant::now();
    let mut senders = JoinSet::new();
    for number in 0..CONNECTIONS {
        senders.spawn(send_on_connection(account.clone(), began, number, lasts));
    }
    let mut waits: BTreeMap<Kind, Vec<Duration>> = BTreeMap::new();
    while let Some(number) = senders.join_next().await {
        for (kind, wait) in number?? {
            waits.entry(kind).or_default().push(wait);
        }
    }
    Ok(waits)
}

/// Sends every [`CONNECTIONS`]th of the requests over one connection.
async fn send_on_connection(
    account: Account,
    began: Instant,
    number: u32,
    lasts: Duration,
) -> anyhow::Result<Vec<(Kind, Duration)>> {
    let mut connection = Connection::open(account.address).await?;
    let within = query("SELECT c.id, c.n FROM c WHERE c.n >= 10 AND c.n < 20").key("small");
    let across = query("SELECT * FROM c WHERE c['group'] = 7");
    let across = across.header("x-ms-documentdb-query-enablecrosspartition", "true");
    let mut waits = Vec::new();
    for round in 0.. {
        let due = began + GAP * (round * CONNECTIONS + number);
        if due >= began + lasts {
            break;
        }
        tokio::time::sleep_until(due.into()).await;
        let id = (round as usize % SMALL_ITEMS).to_string();
        let read = Draft::one("GET", CONTAINER, "docs", &id).key("small");
        let kind = Kind::ALL[round as usize % Kind::ALL.len()];
        let draft = match kind {
            Kind::Read => &read,
            Kind::WithinKey => &within,
            Kind::AcrossPartitions => &across,
        };
        let reply = account.send_on(&mut connection, draft).await?;
        ensure!(reply.status == 200, "{}: {}", reply.status, reply.text());
        waits.push((kind, due.elapsed()));
    }
    Ok(waits)
}
