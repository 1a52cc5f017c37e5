//! What a request costs the server in Direct mode, beside the same one over HTTPS.
//!
//! The wires take turns, each with the same number of requests, and the processor time of the
//! server is divided by it. Everything is rendered and signed before.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use testkit::server::ServerBuilder;

use crate::client::Connection;
use crate::direct::connection::{DirectConnection, Tls};
use crate::direct::frames::{self, renumber};
use crate::direct::replicas::Replicas;
use crate::load::subject::Subject;
use crate::load::template::Template;
use crate::load::workload::{CONTAINER_LINK, ITEMS, item_and_key};
use crate::process;
use crate::request::{Account, Draft};
use crate::rng::Rng;
use crate::server::account_of;
use crate::sign::date_now;

/// Requests that are under way at once, on every wire.
const IN_FLIGHT: usize = 16;
/// How long background work may continue and still be counted.
const SETTLE: Duration = Duration::from_secs(2);

/// What is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server.
    pub binary: PathBuf,
    /// Requests of each measurement.
    pub requests: u64,
    /// How often each is repeated; the median counts.
    pub rounds: u32,
    /// The operations.
    pub operations: Vec<Operation>,
    /// The wires.
    pub wires: Vec<Wire>,
}

/// A measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read of one of the items by id.
    PointRead,
    /// Upsert of one that exists, with a value that changes.
    Upsert,
}

/// How requests get to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// 16 connections with one request each, as SDKs have in gateway mode.
    Https,
    /// Direct mode, one connection with 16 requests under way, as SDKs have.
    Direct,
    /// Direct mode, 16 connections with one request each.
    DirectApart,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::PointRead, Self::Upsert];

    /// The name in the report and in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::PointRead => "point-read",
            Self::Upsert => "upsert",
        }
    }

    /// The bound of what it costs in Direct mode, as a share of what it costs over HTTPS.
    fn share_max(self) -> f64 {
        match self {
            Self::PointRead => 0.8,
            Self::Upsert => 0.9,
        }
    }
}

impl Wire {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Https, Self::Direct, Self::DirectApart];

    /// The name in the report and in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Direct => "direct",
            Self::DirectApart => "direct-apart",
        }
    }

    /// Connections, and requests under way on each.
    fn shape(self) -> (usize, usize) {
        match self {
            Self::Https | Self::DirectApart => (IN_FLIGHT, 1),
            Self::Direct => (1, IN_FLIGHT),
        }
    }
}

/// The requests of one operation as both wires have them.
struct Requests {
    https: Vec<Template>,
    frames: Vec<Template>,
    revisions: AtomicU64,
}

/// One median.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    operation: Operation,
    wire: Wire,
    cpu_us: f64,
    per_second: f64,
    /// Processor time as a share of that over HTTPS, if that was measured.
    share: Option<f64>,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    /// Whether Direct mode keeps its bounds.
    pub fn is_within_bounds(&self) -> bool {
        self.rows.iter().all(|row| {
            row.wire != Wire::Direct
                || row.share.is_none_or(|share| share <= row.operation.share_max())
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| operation | wire | ops/s | CPU us/op | of HTTPS |")?;
        writeln!(f, "| --- | --- | --: | --: | --: |")?;
        for Row { operation, wire, cpu_us, per_second, share } in &self.rows {
            let share = share.map_or_else(|| "-".to_owned(), |share| format!("{share:.2}"));
            let (operation, wire) = (operation.name(), wire.name());
            writeln!(f, "| {operation} | {wire} | {per_second:.0} | {cpu_us:.1} | {share} |")?;
        }
        Ok(())
    }
}

/// Measures.
pub async fn run(options: &Options) -> anyhow::Result<Report> {
    let server = ServerBuilder::new(&options.binary).args(["--throttling", "off"]).start()?;
    let account = account_of(&server)?;
    Subject::load("the server", &account, server.pid(), &[]).await?;
    let tls = Tls::trusting(account.address).await?;
    let replicas = Replicas::read(&account, CONTAINER_LINK).await?;
    let mut report = Report::default();
    for &operation in &options.operations {
        let requests = Arc::new(Requests::prepare(operation, &account, &replicas)?);
        let mut measured = vec![Vec::new(); options.wires.len()];
        for round in 0..options.rounds {
            for (wire, measured) in options.wires.iter().zip(&mut measured) {
                eprintln!("{} {} {}", operation.name(), wire.name(), round + 1);
                process::settle(server.pid(), SETTLE).await?;
                let (before, begin) = (process::cpu_time(server.pid())?, Instant::now());
                send(*wire, &tls, &requests, options.requests).await?;
                let elapsed = begin.elapsed();
                process::settle(server.pid(), SETTLE).await?;
                measured.push((process::cpu_time(server.pid())? - before, elapsed));
            }
        }
        report.add(options, operation, &mut measured);
    }
    Ok(report)
}

impl Report {
    fn add(
        &mut self,
        options: &Options,
        operation: Operation,
        measured: &mut [Vec<(Duration, Duration)>],
    ) {
        let first = self.rows.len();
        for (&wire, rounds) in options.wires.iter().zip(measured) {
            rounds.sort_unstable();
            let (spent, elapsed) = rounds.get(rounds.len() / 2).copied().unwrap_or_default();
            let cpu_us = spent.as_secs_f64() * 1e6 / options.requests as f64;
            let per_second = options.requests as f64 / elapsed.as_secs_f64();
            self.rows.push(Row { operation, wire, cpu_us, per_second, share: None });
        }
        let rows = &mut self.rows[first..];
        let https = rows.iter().find(|row| row.wire == Wire::Https).map(|row| row.cpu_us);
        for row in rows.iter_mut().filter(|row| row.wire != Wire::Https) {
            row.share = https.map(|https| row.cpu_us / https);
        }
    }
}

impl Requests {
    fn prepare(
        operation: Operation,
        account: &Account,
        replicas: &Replicas,
    ) -> anyhow::Result<Self> {
        let date = date_now();
        let mut requests =
            Self { https: Vec::new(), frames: Vec::new(), revisions: AtomicU64::default() };
        for number in 0..ITEMS {
            let (body, key) = item_and_key(number);
            let draft = match operation {
                Operation::PointRead => {
                    let id = format!("i{number:012}");
                    Draft::one("GET", CONTAINER_LINK, "docs", &id)
                        .header("x-ms-session-token", "0:-1#1")
                }
                Operation::Upsert => {
                    Draft::feed("POST", CONTAINER_LINK, "docs").upsert().body(body)
                }
            };
            let draft = draft.key(&key);
            requests.https.push(Template::new(account.render_at(&draft, &date)));
            let frame = frames::frame(account, &draft, replicas, (1, &date))?;
            requests.frames.push(Template::new(frame));
        }
        Ok(requests)
    }

    /// One of the requests, with a revision that none had before.
    fn pick(&self, from: &[Template], rng: &mut Rng, out: &mut Vec<u8>) {
        let revision = self.revisions.fetch_add(1, Ordering::Relaxed);
        from[rng.index(from.len())].stamp_into(revision, out);
    }
}

/// Sends a number of requests and awaits their answers.
async fn send(wire: Wire, tls: &Tls, requests: &Arc<Requests>, count: u64) -> anyhow::Result<()> {
    let (connections, in_flight) = wire.shape();
    let each = count / connections as u64;
    let tasks: Vec<_> = (0..connections)
        .map(|worker| {
            let (tls, requests) = (tls.clone(), Arc::clone(requests));
            let rng = Rng::new(0x5EED).fork(worker as u64);
            tokio::spawn(async move {
                match wire {
                    Wire::Https => send_https(&tls, &requests, each, rng).await,
                    Wire::Direct | Wire::DirectApart => {
                        send_frames(&tls, &requests, (each, in_flight as u64), rng).await
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn send_https(
    tls: &Tls,
    requests: &Requests,
    count: u64,
    mut rng: Rng,
) -> anyhow::Result<()> {
    let mut connection = Connection::over(tls.open().await?);
    let mut bytes = Vec::new();
    for _ in 0..count {
        requests.pick(&requests.https, &mut rng, &mut bytes);
        let reply = connection.exchange(&bytes).await?;
        anyhow::ensure!(reply.status == 200, "answered {}", reply.status);
    }
    Ok(())
}

async fn send_frames(
    tls: &Tls,
    requests: &Requests,
    (count, in_flight): (u64, u64),
    mut rng: Rng,
) -> anyhow::Result<()> {
    let mut connection = DirectConnection::open(tls).await?;
    let mut bytes = Vec::new();
    let (mut sent, mut answered) = (0, 0);
    while answered < count {
        // Each frame is sent on its own, as by an SDK whose requests know nothing of each other.
        while sent < count && sent - answered < in_flight {
            requests.pick(&requests.frames, &mut rng, &mut bytes);
            sent += 1;
            renumber(&mut bytes, u32::try_from(sent).context("fewer requests")?)?;
            connection.send(&bytes).await?;
        }
        let answer = connection.next_answer().await?;
        anyhow::ensure!(answer.status == 200, "answered {:?}: {}", answer.outcome(), answer.json());
        answered += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_direct_mode_is_compared_with_that_of_https() {
        let options = Options {
            binary: PathBuf::new(),
            requests: 1_000,
            rounds: 3,
            operations: Operation::ALL.to_vec(),
            wires: Wire::ALL.to_vec(),
        };
        let second = Duration::from_secs(1);
        let round = |ms| (Duration::from_millis(ms), second);
        let mut measured = [
            vec![round(90), round(20), round(20)],
            vec![round(1), round(17), round(80)],
            vec![round(9)],
        ];
        let mut report = Report::default();
        report.add(&options, Operation::Upsert, &mut measured);
        assert!(report.is_within_bounds());
        assert!(
            report.to_string().contains("| upsert | direct | 1000 | 17.0 | 0.85 |"),
            "{report}"
        );
        report.add(&options, Operation::PointRead, &mut measured);
        assert!(!report.is_within_bounds(), "0.85 is too much of a read");
    }
}
