//! The Table API compared with Azurite: the same entities and requests, processor time and memory.
//!
//! Our server is durable; Azurite keeps everything in memory, so that it is measured at its best.

mod azurite;
mod client;
mod report;
mod work;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use testkit::server::{ServerBuilder, TestServer};

use crate::load::drive::{self, Outcome};
use crate::process;
use crate::rng::Rng;

use azurite::Azurite;
use client::Account;

pub use report::{Figures, Report};
pub use work::Work;

/// How long a server may take to become idle.
const SETTLE_MAX: Duration = Duration::from_secs(20);
/// Entities of one transaction when tables are loaded.
const BATCH: usize = 100;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Entities in the table.
    pub entities: usize,
    /// Duration of the load per kind of request, server and round.
    pub duration: Duration,
    /// How often each measurement is repeated, servers taking turns.
    pub rounds: u32,
    /// Connections at a time.
    pub connections: usize,
    /// The measured kinds of requests.
    pub works: Vec<Work>,
}

/// A server with a loaded table.
struct Subject {
    account: Account,
    pid: u32,
    /// Memory at rest, after the load and after every entity was read.
    resident: (u64, u64),
    _running: RunningServer,
}

/// Keeps the server running.
enum RunningServer {
    Ours { _server: Box<TestServer> },
    Azurite { _server: Azurite },
}

/// Loads both servers, then measures them in turn.
pub async fn run(binary: &Path, options: &Options) -> anyhow::Result<Report> {
    let ours = ServerBuilder::new(binary).args(["--throttling", "off"]).start()?;
    let address = ours.ready().table_storage.context("the server has no table listener")?;
    let (pid, running) = (ours.pid(), RunningServer::Ours { _server: Box::new(ours) });
    let ours = Subject::load(Account::at(address)?, pid, running, options).await?;
    let azurite = Azurite::start()?;
    let (account, pid) = (Account::at(azurite.address())?, azurite.pid());
    let running = RunningServer::Azurite { _server: azurite };
    let azurite = Subject::load(account, pid, running, options).await?;

    // The larger value of ours against the smaller one of Azurite.
    let (ours_loaded, ours_read) = ours.resident;
    let (azurite_loaded, azurite_read) = azurite.resident;
    let mut report =
        Report::new(options, ours_loaded.max(ours_read), azurite_loaded.min(azurite_read));
    for work in &options.works {
        let mut figures = [Figures::default(), Figures::default()];
        for round in 0..options.rounds {
            for (subject, figures) in [&ours, &azurite].into_iter().zip(&mut figures) {
                let (outcome, cpu) = subject.measure(*work, round, options).await?;
                figures.absorb(outcome, cpu);
            }
        }
        let [ours, azurite] = figures;
        report.add(*work, ours, azurite);
    }
    Ok(report)
}

impl Subject {
    async fn load(
        account: Account,
        pid: u32,
        running: RunningServer,
        options: &Options,
    ) -> anyhow::Result<Self> {
        let address = account.address();
        drive::send_all(address, vec![account.create_table()], 1, |status| status == 201).await?;
        let batches = (0..options.entities).step_by(BATCH).map(|from| {
            let numbers = from..(from + BATCH).min(options.entities);
            account.batch(&work::partition_of(from), numbers)
        });
        drive::send_all(address, batches.collect(), 2, |status| status == 202).await?;
        process::settle(pid, SETTLE_MAX).await?;
        let loaded = process::resident_bytes_at_rest(pid, SETTLE_MAX).await?;
        let gets = (0..options.entities)
            .map(|number| account.get(&work::partition_of(number), &work::row_of(number)));
        drive::send_all(address, gets.collect(), 2, |status| status == 200).await?;
        process::settle(pid, SETTLE_MAX).await?;
        let read = process::resident_bytes_at_rest(pid, SETTLE_MAX).await?;
        let subject = Self { account, pid, resident: (loaded, read), _running: running };
        subject.check(options).await?;
        Ok(subject)
    }

    /// Checks the responses of both servers before the measurement.
    async fn check(&self, options: &Options) -> anyhow::Result<()> {
        let mut connection = crate::client::Connection::open(self.account.address()).await?;
        let from = options.entities / 2 / BATCH * BATCH;
        let reply = connection.exchange(&self.account.range(from)).await?;
        let value: serde_json::Value = serde_json::from_slice(reply.body)?;
        let found = value["value"].as_array().map_or(0, Vec::len);
        ensure!(found == work::RANGE, "a range of {} has {found} entities: {value}", work::RANGE);
        Ok(())
    }

    /// Measures a kind of request and its cost for the server.
    async fn measure(
        &self,
        work: Work,
        round: u32,
        options: &Options,
    ) -> anyhow::Result<(Outcome, Duration)> {
        process::settle(self.pid, SETTLE_MAX).await?;
        let (address, duration) = (self.account.address(), options.duration);
        let account = Arc::new(self.account.clone());
        let before = process::cpu_time(self.pid)?;
        let workers = (0..options.connections).map(|worker| {
            let rng = Rng::new(0x7AB1E5).fork((u64::from(round) << 8) + worker as u64);
            let mut sender = work::Sender::new(
                Arc::clone(&account),
                work,
                options.entities,
                rng,
                (round, worker),
            );
            tokio::spawn(async move {
                drive::one_connection(address, duration, |status| work.accepts(status), &mut sender)
                    .await
            })
        });
        let workers: Vec<_> = workers.collect();
        let mut total = Outcome::default();
        for worker in workers {
            total.absorb(worker.await??);
        }
        // Deferred work is part of the cost.
        process::settle(self.pid, SETTLE_MAX).await?;
        let cpu = process::cpu_time(self.pid)? - before;
        ensure!(
            total.refused.is_empty() && total.operations > 0,
            "{} was refused: {:?} {:?}",
            work.name(),
            total.refused,
            total.refusal
        );
        Ok((total, cpu))
    }
}
