//! A server under measurement and how one interval of load on it is measured.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::client::Connection;
use crate::load::drive::{Outcome, drive, send_all};
use crate::load::workload::{
    CONTAINER, DATABASE, FEED_CONTAINER, ITEMS, LARGE_CONTAINER, Requests, Workload,
};
use crate::process;
use crate::request::{Account, Draft};

/// How long background work may continue after the load and still be counted.
const SETTLE: Duration = Duration::from_secs(2);
/// Load before the measurement, so that connections and caches are warm.
const WARM_UP: Duration = Duration::from_millis(150);

/// One measured interval.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Accepted operations per second.
    pub per_second: f64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the latency in microseconds.
    pub p99_us: f64,
    /// Processor time of the server per accepted operation in microseconds, including background
    /// work that the load caused.
    pub cpu_us: f64,
    /// Operations per batch of the store, which is one sync, if the server reports batches.
    pub per_sync: Option<f64>,
    /// The server's resident memory afterwards.
    pub resident_bytes: u64,
    /// Replies that were not accepted, by status.
    pub refused: BTreeMap<u16, u64>,
    /// One of them, for the report.
    pub refusal: Option<String>,
}

/// A server with the requests to send to it.
pub struct Subject {
    /// Its name in reports.
    pub name: &'static str,
    pid: u32,
    targets: BTreeMap<Workload, Target>,
    /// Where it reports the state of its store.
    health: Option<SocketAddr>,
}

struct Target {
    address: SocketAddr,
    requests: Arc<Requests>,
}

impl Subject {
    /// A real server: creates the container, loads the items and prepares every workload.
    pub async fn load(
        name: &'static str,
        account: &Account,
        pid: u32,
        workloads: &[Workload],
    ) -> anyhow::Result<Self> {
        create_containers(account).await.with_context(|| format!("setting up {name}"))?;
        let mut items = Requests::preload(account);
        if workloads.contains(&Workload::OverwriteLarge) {
            items.extend(Requests::preload_large(account));
        }
        send_all(account.address, items, 16, |status| status == 201)
            .await
            .with_context(|| format!("loading {name}"))?;
        let numbers = Arc::new(AtomicU64::new(ITEMS));
        let targets = workloads
            .iter()
            .map(|&workload| {
                let requests = Requests::prepare(workload, account, Arc::clone(&numbers));
                (workload, Target { address: account.address, requests: Arc::new(requests) })
            })
            .collect();
        Ok(Self { name, pid, targets, health: None })
    }

    /// The same server, which reports the state of its store at `address`.
    pub fn with_health(mut self, address: SocketAddr) -> Self {
        self.health = Some(address);
        self
    }

    /// A stand-in server that receives the same requests at other addresses.
    pub fn stand_in(
        name: &'static str,
        pid: u32,
        original: &Self,
        address: impl Fn(Workload) -> SocketAddr,
    ) -> Self {
        let targets = original
            .targets
            .iter()
            .map(|(&workload, target)| {
                let requests = Arc::clone(&target.requests);
                (workload, Target { address: address(workload), requests })
            })
            .collect();
        Self { name, pid, targets, health: None }
    }

    /// The requests of `workload` and their address.
    pub fn requests(&self, workload: Workload) -> anyhow::Result<(SocketAddr, &Arc<Requests>)> {
        let target = self.targets.get(&workload).context("this workload was not prepared")?;
        Ok((target.address, &target.requests))
    }

    /// Loads the server for `duration` and returns the cost.
    pub async fn measure(
        &self,
        workload: Workload,
        duration: Duration,
    ) -> anyhow::Result<Measured> {
        let (address, requests) = self.requests(workload)?;
        let name = || format!("{} on {}", workload.name(), self.name);
        drive(address, workload, requests, WARM_UP).await.with_context(name)?;
        process::settle(self.pid, SETTLE).await?;
        let batches_before = self.batches().await?;
        let before = process::cpu_time(self.pid)?;
        let outcome = drive(address, workload, requests, duration).await.with_context(name)?;
        let resident_bytes = process::resident_bytes(self.pid)?;
        process::settle(self.pid, SETTLE).await?;
        let spent = process::cpu_time(self.pid)? - before;
        let batches = self.batches().await?.zip(batches_before).map(|(now, then)| now - then);
        let per_sync = batches.filter(|n| *n > 0).map(|n| outcome.operations as f64 / n as f64);
        Ok(Measured { per_sync, ..Measured::new(&outcome, spent, resident_bytes) })
    }

    /// Batches that the server's store has written so far, if the server reports them.
    async fn batches(&self) -> anyhow::Result<Option<u64>> {
        let Some(address) = self.health else { return Ok(None) };
        let mut connection = Connection::open(address).await?;
        let reply =
            connection.exchange(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
        let health: serde_json::Value = serde_json::from_slice(reply.body)?;
        Ok(health["store"]["batches"].as_u64())
    }
}

impl Measured {
    /// Combines the client's measurements with the server's resource use.
    pub fn new(outcome: &Outcome, spent: Duration, resident_bytes: u64) -> Self {
        let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
        Self {
            per_second: outcome.rate(),
            p50_us: micros(outcome.quantile(0.5)),
            p99_us: micros(outcome.quantile(0.99)),
            cpu_us: micros(spent) / outcome.operations.max(1) as f64,
            per_sync: None,
            resident_bytes,
            refused: outcome.refused.clone(),
            refusal: outcome.refusal.clone(),
        }
    }
}

async fn create_containers(account: &Account) -> anyhow::Result<()> {
    let database = Draft::feed("POST", "", "dbs").body(format!(r#"{{"id":"{DATABASE}"}}"#));
    account.expect(&database, &[201]).await?;
    for id in [CONTAINER, FEED_CONTAINER, LARGE_CONTAINER] {
        let container = Draft::feed("POST", "dbs/bench", "colls").body(format!(
            r#"{{"id":"{id}","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}}}}"#
        ));
        account.expect(&container, &[201]).await?;
    }
    Ok(())
}
