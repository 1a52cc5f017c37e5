//! Our side: the real server with the documents, durable, over HTTP.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use testkit::server::{ServerBuilder, TestServer};

use crate::client::Connection;
use crate::load::drive::{Outcome, Source, one_connection};
use crate::process;
use crate::queries::data::{Data, PER_PARTITION};
use crate::queries::query_kind::{CONTAINER_LINK, Parameters, QueryInstance, QueryKind};
use crate::queries::report::Sample;
use crate::request::{Account, Draft};
use crate::rng::Rng;
use crate::server::account_of;

/// Connections that load.
const LOADERS: usize = 16;
/// Distinct queries of one interval, unless there are fewer.
const POOL: usize = 4_096;
const WARM_UP: Duration = Duration::from_millis(500);
const SETTLE: Duration = Duration::from_secs(2);
/// Flushes and compactions after a load of a million documents take a while.
const SETTLE_AFTER_LOAD: Duration = Duration::from_secs(120);

/// After this time the store has begun to compact the files of the load.
const UNTIL_REST: Duration = Duration::from_millis(1_500);

/// The lookup cache has room for as many documents as its index, which is in the cache.
const LOOKUP_CACHE_PER_CACHE: u64 = 24;

const HEALTH_AGE_MAX: Duration = Duration::from_millis(1_050);

/// A loaded server.
pub struct Ours {
    server: TestServer,
    account: Account,
    data: Data,
    range_id: String,
}

impl Ours {
    /// Starts a server in `directory`, with the default cache size if none is given.
    pub fn start(
        binary: &Path,
        directory: PathBuf,
        data: Data,
        cache_bytes: Option<u64>,
    ) -> anyhow::Result<Self> {
        let builder = ServerBuilder::new(binary).data_dir(directory).args(["--throttling", "off"]);
        let of_cache = |bytes: u64| {
            let lookup_cache_bytes = bytes * LOOKUP_CACHE_PER_CACHE;
            [
                "--cache-bytes".to_owned(),
                bytes.to_string(),
                "--lookup-cache-bytes".to_owned(),
                lookup_cache_bytes.to_string(),
            ]
        };
        let server = builder.args(cache_bytes.into_iter().flat_map(of_cache)).start()?;
        let account = account_of(&server)?;
        Ok(Self { server, account, data, range_id: String::new() })
    }

    /// Creates the container with this description, whose id must be `doc`, and loads it.
    pub async fn load(&mut self, container: &str) -> anyhow::Result<()> {
        let database = Draft::feed("POST", "", "dbs").body(r#"{"id":"bench"}"#);
        self.account.expect(&database, &[201]).await?;
        let container = Draft::feed("POST", "dbs/bench", "colls").body(container);
        self.account.expect(&container, &[201]).await?;
        create_all(&self.account, self.data).await?;
        process::settle(self.server.pid(), SETTLE_AFTER_LOAD).await?;
        self.range_id = self.only_range().await?;
        Ok(())
    }

    /// Lets the store compact its files and then reads every document once, to fill the cache.
    pub async fn rest_and_read_all(&self) -> anyhow::Result<()> {
        tokio::time::sleep(UNTIL_REST).await;
        process::settle(self.pid(), SETTLE_AFTER_LOAD).await?;
        let mut connection = Connection::open(self.account.address).await?;
        for asked in QueryKind::about_all(self.data) {
            let request = self.account.render(&asked.draft(&self.range_id));
            let reply = connection.exchange(&request).await?;
            ensure!(reply.status == 200, "reading all documents answered {}", reply.status);
        }
        Ok(())
    }

    /// The id of the range with all documents.
    async fn only_range(&self) -> anyhow::Result<String> {
        let feed = Draft::feed("GET", CONTAINER_LINK, "pkranges");
        let ranges = self.account.expect(&feed, &[200]).await?.json()?;
        let ranges = ranges["PartitionKeyRanges"].as_array().map(Vec::as_slice);
        match ranges.unwrap_or_default() {
            [range] => Ok(range["id"].as_str().context("a range without an id")?.to_owned()),
            several => anyhow::bail!("the container has {} ranges instead of one", several.len()),
        }
    }

    /// Its address and key.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The id of the range with all documents.
    pub fn range_id(&self) -> &str {
        &self.range_id
    }

    /// The documents it was loaded with.
    pub fn data(&self) -> Data {
        self.data
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Batches that its store has written so far. Takes a second.
    pub async fn batches(&self) -> anyhow::Result<u64> {
        // The server caches its health for a second.
        tokio::time::sleep(HEALTH_AGE_MAX).await;
        let mut connection = Connection::open(self.account.address).await?;
        let ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let health: serde_json::Value =
            serde_json::from_slice(connection.exchange(ask).await?.body)?;
        health["store"]["batches"].as_u64().context("the server does not tell of its batches")
    }

    /// The identities of the result rows; fails if they do not fit on one page.
    pub async fn answer(&self, asked: &QueryInstance) -> anyhow::Result<Vec<String>> {
        let reply = self.account.expect(&asked.draft(&self.range_id), &[200]).await?;
        ensure!(
            reply.header("x-ms-continuation").is_none(),
            "the answer takes more than one page, so it would not be measured as a whole"
        );
        Ok(asked.answer(&reply.json()?))
    }

    /// Runs a query over `connections` for `duration`.
    pub async fn measure(
        &self,
        (question, parameters): (QueryKind, Parameters),
        connections: usize,
        duration: Duration,
        seed: u64,
    ) -> anyhow::Result<Sample> {
        let mut random = Rng::new(seed);
        let pool: Vec<_> = (0..POOL)
            .map(|_| {
                self.account.render(&question.pick(parameters, &mut random).draft(&self.range_id))
            })
            .collect();
        self.measure_requests(question.name(), pool, connections, duration).await
    }

    /// Sends requests of `pool` over `connections` for `duration`.
    pub async fn measure_requests(
        &self,
        name: &str,
        pool: Vec<Vec<u8>>,
        connections: usize,
        duration: Duration,
    ) -> anyhow::Result<Sample> {
        let pool = Arc::new(pool);
        self.drive(&pool, connections, WARM_UP).await?;
        process::settle(self.pid(), SETTLE).await?;
        let before = process::cpu_time(self.pid())?;
        let outcome = self.drive(&pool, connections, duration).await?;
        let spent = process::cpu_time(self.pid())? - before;
        if let Some(refusal) = &outcome.refusal {
            anyhow::bail!("{name} was refused: {refusal}");
        }
        Ok(Sample::new(&outcome, spent))
    }

    async fn drive(
        &self,
        pool: &Arc<Vec<Vec<u8>>>,
        connections: usize,
        duration: Duration,
    ) -> anyhow::Result<Outcome> {
        let address = self.account.address;
        let workers: Vec<_> = (0..connections)
            .map(|worker| {
                let mut picks = Picks { pool: Arc::clone(pool), random: Rng::new(worker as u64) };
                tokio::spawn(async move {
                    one_connection(address, duration, |status| status == 200, &mut picks).await
                })
            })
            .collect();
        let mut total = Outcome::default();
        for worker in workers {
            total.absorb(worker.await??);
        }
        Ok(total)
    }
}

/// Requests picked at random from a pool.
struct Picks {
    pool: Arc<Vec<Vec<u8>>>,
    random: Rng,
}

impl Source for Picks {
    fn next_request(&mut self) -> &[u8] {
        &self.pool[self.random.index(self.pool.len())]
    }
}

/// Creates all documents, those of a partition key in one batch.
async fn create_all(account: &Account, data: Data) -> anyhow::Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let loaders: Vec<_> = (0..LOADERS)
        .map(|_| {
            let (next, account) = (Arc::clone(&next), account.clone());
            tokio::spawn(async move {
                let mut connection = Connection::open(account.address).await?;
                loop {
                    let partition = next.fetch_add(1, Ordering::Relaxed);
                    if partition >= data.partitions() {
                        return anyhow::Ok(());
                    }
                    let reply = account.send_on(&mut connection, &batch(data, partition)).await?;
                    ensure!(reply.status == 200, "loading answered {}", reply.text());
                }
            })
        })
        .collect();
    for loader in loaders {
        loader.await??;
    }
    Ok(())
}

/// Creates all documents of one partition key.
fn batch(data: Data, partition: u64) -> Draft<'static> {
    let first = partition * PER_PARTITION;
    let operations: Vec<_> = (first..first + PER_PARTITION)
        .map(|number| {
            let body = data.document(number);
            format!(r#"{{"operationType":"Create","resourceBody":{body}}}"#)
        })
        .collect();
    Draft::feed("POST", CONTAINER_LINK, "docs")
        .batch()
        .key(&data.key(first))
        .body(format!("[{}]", operations.join(",")))
}
