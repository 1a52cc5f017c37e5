//! The store's floor: the batches that the engine commits, replayed on the bare storage engine.
//!
//! An engine in this process creates items from as many writers as the workload has connections,
//! on a real store that notes every batch the committer hands it. Those very batches, groups and
//! all, are then written to a fresh database with one sync each and nothing else around them.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use engine::ops::ItemOp;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use model::PartitionId;
use storage::{
    Durability, EmbeddedOptions, EmbeddedStore, Health, LocalStore, Op, ReclaimProgress,
    StoreError, View, WriteBatch,
};
use testkit::harness::{Harness, body};

use crate::load::drive::Outcome;
use crate::load::subject::Measured;
use crate::load::workload::{ITEM_BYTES, item_and_key};
use crate::process;

/// Items that are recorded; when a replay has used all it starts over and overwrites.
const DOCUMENTS: u64 = 30_000;
const SETTLE: Duration = Duration::from_secs(2);

/// A process that replays batches; killed when dropped.
pub struct RawStore {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl RawStore {
    /// Starts this very program to record creates of `writers` writers below `scratch`.
    pub fn start(scratch: &Path, writers: usize) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["raw-store", &writers.to_string()])
            .arg(scratch.join(format!("raw-{writers}")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start the bare store")?;
        let stdin = child.stdin.take().context("the child's input was not piped")?;
        let stdout = child.stdout.take().context("the child's output was not piped")?;
        let mut raw = Self { child, stdin, stdout: BufReader::new(stdout) };
        raw.line()?;
        Ok(raw)
    }

    /// Replays for `duration`.
    pub fn measure(&mut self, duration: Duration) -> anyhow::Result<Measured> {
        writeln!(self.stdin, "{}", duration.as_secs_f64())?;
        Ok(serde_json::from_str(&self.line()?)?)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        anyhow::ensure!(!line.is_empty(), "the bare store ended");
        Ok(line)
    }
}

impl Drop for RawStore {
    fn drop(&mut self) {
        // Nothing to do about a child that is already gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child's side: records, says so, then replays for as many seconds as each line of standard
/// input says and answers with a line of JSON, until the input ends.
#[expect(clippy::print_stdout, reason = "the parent reads these lines")]
pub fn serve(writers: usize, scratch: &Path) -> anyhow::Result<()> {
    let groups = record(writers, &scratch.join("recorded"))?;
    let mut replay = Replay::open(&scratch.join("replayed"), groups)?;
    println!("recorded");
    for line in std::io::stdin().lines() {
        let seconds: f64 = line?.trim().parse().context("not a number of seconds")?;
        let measured = replay.run(Duration::try_from_secs_f64(seconds)?)?;
        println!("{}", serde_json::to_string(&measured)?);
    }
    Ok(())
}

/// Groups as the committer makes them while `writers` tasks create items.
fn record(writers: usize, directory: &Path) -> anyhow::Result<Vec<WriteBatch>> {
    let store = Arc::new(Recorder::open(directory)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let harness = Arc::new(Harness::on(Arc::<Recorder>::clone(&store)));
        let container = harness.container("items", 1).await;
        store.forget();
        let tasks: Vec<_> = (0..writers as u64)
            .map(|writer| {
                let (harness, container) = (Arc::clone(&harness), Arc::clone(&container));
                tokio::spawn(async move {
                    for number in (writer..DOCUMENTS).step_by(writers) {
                        let (text, key) = item_and_key(number);
                        let op = ItemOp::Create { body: body(&text) };
                        harness.write(&container, &key, op).await?;
                    }
                    Ok::<_, engine::Error>(())
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        anyhow::Ok(())
    })?;
    Ok(store.forget())
}

/// A store that keeps a copy of every batch.
struct Recorder {
    store: EmbeddedStore,
    batches: Mutex<Vec<WriteBatch>>,
}

impl Recorder {
    fn open(directory: &Path) -> anyhow::Result<Self> {
        let store = EmbeddedStore::open(directory, EmbeddedOptions::default())?;
        Ok(Self { store, batches: Mutex::default() })
    }

    /// What was recorded until now, which is then forgotten.
    fn forget(&self) -> Vec<WriteBatch> {
        std::mem::take(&mut self.batches.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl LocalStore for Recorder {
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).push(batch.clone());
        self.store.write(batch, durability)
    }
    fn view(&self) -> Arc<dyn View> {
        self.store.view()
    }
    fn retire(&self, p: PartitionId) -> Result<(), StoreError> {
        self.store.retire(p)
    }
    fn reclaim(&self, budget: Duration) -> Result<ReclaimProgress, StoreError> {
        self.store.reclaim(budget)
    }
    fn approximate_bytes(&self, p: PartitionId) -> Result<u64, StoreError> {
        self.store.approximate_bytes(p)
    }
    fn health(&self) -> Health {
        self.store.health()
    }
    fn close(&self) -> Result<(), StoreError> {
        self.store.close()
    }
}

/// Recorded groups and the bare database they are written to.
struct Replay {
    groups: Vec<WriteBatch>,
    at: usize,
    database: Database,
    data: Keyspace,
}

impl Replay {
    /// A database with the settings that the real store uses.
    fn open(directory: &Path, groups: Vec<WriteBatch>) -> anyhow::Result<Self> {
        anyhow::ensure!(!groups.is_empty(), "nothing was recorded");
        let options = EmbeddedOptions::default();
        let database = Database::builder(directory)
            .cache_size(options.cache_bytes)
            .max_journaling_size(options.journal_bytes_max)
            .worker_threads(options.worker_threads)
            .open()?;
        let create = || KeyspaceCreateOptions::default().max_memtable_size(options.memtable_bytes);
        let data = database.keyspace("data", create)?;
        Ok(Self { groups, at: 0, database, data })
    }

    fn run(&mut self, duration: Duration) -> anyhow::Result<Measured> {
        let me = std::process::id();
        let before = process::cpu_time(me)?;
        let mut outcome = Outcome::default();
        let begin = Instant::now();
        while begin.elapsed() < duration {
            let sent = Instant::now();
            outcome.operations += self.commit_next()?;
            outcome.latencies.push(sent.elapsed());
        }
        outcome.elapsed = begin.elapsed();
        let resident_bytes = process::resident_bytes(me)?;
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(process::settle(me, SETTLE))?;
        Ok(Measured::new(&outcome, process::cpu_time(me)? - before, resident_bytes))
    }

    /// Writes one group durably and says how many items it holds.
    fn commit_next(&mut self) -> anyhow::Result<u64> {
        let group = &self.groups[self.at];
        self.at = (self.at + 1) % self.groups.len();
        let mut batch = self.database.batch();
        for op in &group.ops {
            match op {
                Op::Put { p, k, v } => batch.insert(&self.data, prefixed(*p, k), v.clone()),
                Op::Del { p, k } => batch.remove(&self.data, prefixed(*p, k)),
            }
        }
        batch.durability(Some(PersistMode::SyncData)).commit()?;
        Ok(group.ops.iter().filter(|op| is_row(op)).count() as u64)
    }
}

fn prefixed(p: PartitionId, k: &[u8]) -> Vec<u8> {
    [&p.0.to_be_bytes()[..], k].concat()
}

/// Rows hold the body as it was sent; nothing else is nearly as large.
fn is_row(op: &Op) -> bool {
    matches!(op, Op::Put { v, .. } if v.len() >= ITEM_BYTES)
}
