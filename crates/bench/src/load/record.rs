//! Records the batches that the engine commits, for replay.
//!
//! An engine in this process runs operations on a store that copies every batch of the committer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use account::{Key, KeyRing, Scheme, WELL_KNOWN_KEY};
use anyhow::{Context, ensure};
use api_nosql::{Account, Consistency, Service};
use bytes::Bytes;
use engine::Container;
use engine::ops::ItemOp;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use storage::{Durability, LocalStore, MemoryStore, StoreError, WriteBatch, forward_store};
use testkit::harness::{Harness, START_SECONDS, body};

use crate::index_cost::upserts::{Upserts, document};
use crate::load::workload::item_and_key;

const CREATES: u64 = 30_000;
/// Nearly as many as a replay needs, so that its store grows as the server's does.
const UPSERTS: u64 = 60_000;
/// Documents that exist before an upsert is recorded, as on the server.
const LOADED: u64 = crate::index_cost::LOADED;

/// Operations to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Creates of the items of the benchmark.
    Create,
    /// Upserts of documents into a container that indexes them, or one that does not.
    Upsert {
        /// Whether the documents are new or exist already.
        upserts: Upserts,
        /// Whether every path is indexed.
        is_indexed: bool,
    },
}

impl Recording {
    const ALL: [Self; 5] = [
        Self::Create,
        Self::Upsert { upserts: Upserts::New, is_indexed: true },
        Self::Upsert { upserts: Upserts::New, is_indexed: false },
        Self::Upsert { upserts: Upserts::Rewrite, is_indexed: true },
        Self::Upsert { upserts: Upserts::Rewrite, is_indexed: false },
    ];

    /// A name for command lines and directories.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Upsert { upserts: Upserts::New, is_indexed: true } => "new-indexed",
            Self::Upsert { upserts: Upserts::New, is_indexed: false } => "new-plain",
            Self::Upsert { upserts: Upserts::Rewrite, is_indexed: true } => "rewrite-indexed",
            Self::Upsert { upserts: Upserts::Rewrite, is_indexed: false } => "rewrite-plain",
        }
    }

    /// The recording with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|recording| recording.name() == name)
    }

    /// One batch per operation, as the committer makes them.
    pub fn record(self) -> anyhow::Result<Vec<WriteBatch>> {
        match self {
            Self::Create => self.record_some(CREATES),
            Self::Upsert { .. } => self.record_some(UPSERTS),
        }
    }

    fn record_some(self, count: u64) -> anyhow::Result<Vec<WriteBatch>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let recorder = Arc::new(Recorder::default());
        runtime.block_on(async {
            let harness = Harness::on(Arc::<Recorder>::clone(&recorder));
            self.carry_out(&harness, &recorder, count).await
        })?;
        let batches = recorder.take();
        let found = batches.len() as u64;
        ensure!(found == count, "{found} batches for {count} operations");
        Ok(batches)
    }

    /// Fills the recorder with the batches of `count` operations.
    async fn carry_out(
        self,
        harness: &Harness,
        recorder: &Recorder,
        count: u64,
    ) -> anyhow::Result<()> {
        match self {
            Self::Create => {
                let container = harness.container("items", 1).await;
                recorder.take();
                for number in 0..count {
                    let (text, key) = item_and_key(number);
                    harness.write(&container, &key, ItemOp::Create { body: body(&text) }).await?;
                }
            }
            Self::Upsert { upserts, is_indexed } => {
                let container = indexed_or_not(harness, is_indexed).await?;
                upsert_all(harness, &container, (0..LOADED).map(|number| (number, number))).await?;
                recorder.take();
                let fresh = LOADED..LOADED + count;
                match upserts {
                    Upserts::New => {
                        upsert_all(harness, &container, fresh.map(|number| (number, number))).await
                    }
                    Upserts::Rewrite => {
                        let rewrites = fresh.map(|values| (values % LOADED, values));
                        upsert_all(harness, &container, rewrites).await
                    }
                }?;
            }
        }
        Ok(())
    }
}

/// Upserts documents by number, each with the values of another number.
async fn upsert_all(
    harness: &Harness,
    container: &Arc<Container>,
    documents: impl Iterator<Item = (u64, u64)>,
) -> anyhow::Result<()> {
    for (number, values) in documents {
        let (text, key) = document(number, values);
        let upsert = ItemOp::Upsert { body: body(&text), if_match: None };
        harness.write(container, &key, upsert).await?;
    }
    Ok(())
}

/// A container created through the API, so that it indexes like a client's.
async fn indexed_or_not(harness: &Harness, is_indexed: bool) -> anyhow::Result<Arc<Container>> {
    let account = Account {
        name: "bench".to_owned(),
        keys: KeyRing::single(Key::well_known()),
        public_endpoint: None,
        region: "Local".to_owned(),
        consistency: Consistency::Session,
        local_auth: true,
        direct: api_nosql::Direct::default(),
    };
    let service = Service::new(harness.engine.clone(), account);
    post(&service, "/dbs", r#"{"id":"db"}"#.to_owned()).await?;
    post(&service, "/dbs/db/colls", crate::index_cost::container("items", is_indexed)).await?;
    let catalog = harness.engine.catalog();
    let database = catalog.database("db").context("no database")?.rid;
    Ok(Arc::clone(catalog.container(database, "items").context("no container")?))
}

async fn post(service: &Arc<Service>, path: &'static str, text: String) -> anyhow::Result<()> {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(START_SECONDS);
    let (date, authorization) = api_nosql::sign(WELL_KNOWN_KEY, "POST", path, now)
        .context("the request can't be signed")?;
    let request = Request::post(path)
        .header("host", "localhost")
        .header("x-ms-date", date)
        .header("x-ms-version", "2020-07-15")
        .header("authorization", authorization)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(text)))?;
    let response = service.serve(request, Scheme::Http).await;
    let status = response.status();
    let said = response.into_body().collect().await?.to_bytes();
    ensure!(status == 201, "{path} answered {status}: {}", String::from_utf8_lossy(&said));
    Ok(())
}

/// A store that keeps a copy of every batch.
#[derive(Default)]
struct Recorder {
    store: MemoryStore,
    batches: Mutex<Vec<WriteBatch>>,
}

impl Recorder {
    /// Takes the recorded batches.
    fn take(&self) -> Vec<WriteBatch> {
        std::mem::take(&mut self.batches.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl LocalStore for Recorder {
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).push(batch.clone());
        self.store.write(batch, durability)
    }

    forward_store!(self => self.store; view, retire, reclaim, approximate_bytes, health, close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_known_by_their_names() {
        for recording in Recording::ALL {
            assert_eq!(Recording::named(recording.name()), Some(recording));
        }
        assert_eq!(Recording::named("other"), None);
    }

    #[test]
    fn an_upsert_is_one_batch_and_never_has_fewer_keys_when_indexed() {
        let keys = |is_indexed| {
            let recording = Recording::Upsert { upserts: Upserts::Rewrite, is_indexed };
            recording.record_some(100).unwrap().iter().map(|batch| batch.ops.len()).sum::<usize>()
        };
        assert!(keys(true) >= keys(false));
    }
}
