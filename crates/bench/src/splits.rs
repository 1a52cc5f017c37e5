//! How long a split or merge of a partition delays requests, and how fast rows are copied.
//!
//! An engine in this process holds one container. It is split and merged again while clients write
//! and read. Then, without other clients, the time of a split is compared with that of a plain copy
//! of the same rows.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use engine::ops::{ItemBody, ItemOp};
use engine::repartition::{JobInfo, JobPhase, Progression, SplitPoint};
use engine::{Components, Container, Engine, RangeId, Settings, Throughput};
use model::{PartitionId, PartitionKey, PartitionKeyComponent};
use storage::{
    Dir, Durability, EmbeddedOptions, EmbeddedStore, KeyRange, LocalStore, Op, WriteBatch,
};
use testkit::harness::{self, test_context};

use crate::rng::Rng;

const ITEM_BYTES: usize = 1_000;
const ITEMS_PER_KEY: usize = 50;
const WRITERS: usize = 8;
const READERS: usize = 2;
/// As much as the engine copies at a time if there are no other writers.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Splits under load; each is followed by a merge.
    pub splits: u32,
    /// Size of the partition that is split.
    pub megabytes: u64,
}

/// The measurements.
#[derive(Debug, Default)]
pub struct Report {
    held: Vec<Duration>,
    took: Vec<Duration>,
    writes: u64,
    reads: u64,
    slowest_write: Duration,
    slowest_read: Duration,
    stalled_samples: u64,
    quiet_split: Duration,
    raw_copy: Duration,
    copied_bytes: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut held = self.held.clone();
        held.sort_unstable();
        let at = |part: usize| held.get(held.len() * part / 100).copied().unwrap_or_default();
        let max = held.last().copied().unwrap_or_default();
        writeln!(
            f,
            "{} splits and merges under load: requests held median {:.1?}, 95% {:.1?}, most {max:.1?}",
            held.len(),
            at(50),
            at(95)
        )?;
        let mean =
            self.took.iter().sum::<Duration>() / u32::try_from(self.took.len()).unwrap_or(1).max(1);
        writeln!(f, "each took {mean:.1?} on average beside the load")?;
        writeln!(
            f,
            "{} writes and {} reads meanwhile, none failed; slowest write {:.1?}, slowest read {:.1?}",
            self.writes, self.reads, self.slowest_write, self.slowest_read
        )?;
        writeln!(
            f,
            "the store itself held writers back in {} looks, one a millisecond",
            self.stalled_samples
        )?;
        let ratio = self.quiet_split.as_secs_f64() / self.raw_copy.as_secs_f64().max(f64::EPSILON);
        write!(
            f,
            "with no other load: {} MB split in {:.2?}, copied by the bare store in {:.2?}: {ratio:.2}x",
            self.copied_bytes >> 20,
            self.quiet_split,
            self.raw_copy
        )
    }
}

/// State that clients and the measuring task share.
struct Shared {
    engine: Engine,
    container: Arc<Container>,
    keys: usize,
    stop: AtomicBool,
    writes: AtomicU64,
    reads: AtomicU64,
    slowest_write_us: AtomicU64,
    slowest_read_us: AtomicU64,
    stalled: AtomicU64,
}

/// Runs the whole measurement in `directory`.
pub async fn run(
    directory: &Path,
    options: Options,
    mut tell: impl FnMut(&str),
) -> anyhow::Result<Report> {
    let store: Arc<dyn LocalStore> =
        Arc::new(EmbeddedStore::open(directory, EmbeddedOptions::new(engine::KEY_TAGS))?);
    let components = Components::system(tokio::runtime::Handle::current());
    let settings = Settings::default();
    let engine = Engine::open(Arc::clone(&store), components, settings)?;
    let database = engine.create_database(&test_context(), "db", None).await?;
    let throughput = Some(Throughput::Manual(6_000));
    let container = engine
        .create_container(&test_context(), database.rid, harness::spec("c"), throughput)
        .await?;
    let keys = usize::try_from(options.megabytes)? * 1_000_000 / (ITEM_BYTES * ITEMS_PER_KEY);
    fill(&engine, &container, keys).await?;
    tell(&format!("{} MB stored", container.routing().ranges()[0].bytes() >> 20));

    let mut report = Report::default();
    under_load(&engine, &store, &container, keys, options, &mut report, &mut tell).await?;
    alone(&engine, &store, &container, &mut report).await?;
    engine.close().await?;
    Ok(report)
}

async fn fill(engine: &Engine, container: &Arc<Container>, keys: usize) -> anyhow::Result<()> {
    for key in 0..keys {
        let ops = (0..ITEMS_PER_KEY).map(|id| ItemOp::Create { body: item(key, id, 0) }).collect();
        let mut ctx = test_context();
        for result in engine.write_batch(&mut ctx, container, key_of(key), ops).await? {
            result.outcome?;
        }
    }
    Ok(())
}

fn item(key: usize, id: usize, version: u64) -> ItemBody {
    let filler = "x".repeat(ITEM_BYTES - 180);
    let text = format!(r#"{{"id":"{id}","pk":"{key}","version":{version},"filler":"{filler}"}}"#);
    harness::body(&text)
}

fn key_of(key: usize) -> PartitionKey {
    PartitionKey([PartitionKeyComponent::String(key.to_string())].into_iter().collect())
}

async fn under_load(
    engine: &Engine,
    store: &Arc<dyn LocalStore>,
    container: &Arc<Container>,
    keys: usize,
    options: Options,
    report: &mut Report,
    tell: &mut impl FnMut(&str),
) -> anyhow::Result<()> {
    let shared = Arc::new(Shared {
        engine: engine.clone(),
        container: Arc::clone(container),
        keys,
        stop: AtomicBool::new(false),
        writes: AtomicU64::new(0),
        reads: AtomicU64::new(0),
        slowest_write_us: AtomicU64::new(0),
        slowest_read_us: AtomicU64::new(0),
        stalled: AtomicU64::new(0),
    });
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..WRITERS + READERS {
        let shared = Arc::clone(&shared);
        clients.spawn(async move {
            match client < WRITERS {
                true => write_until_stopped(&shared, client as u64).await,
                false => read_until_stopped(&shared, client as u64).await,
            }
        });
    }
    let (watched, looker) = (Arc::clone(store), Arc::clone(&shared));
    let sampler = tokio::task::spawn_blocking(move || {
        while !looker.stop.load(Ordering::Relaxed) {
            looker.stalled.fetch_add(u64::from(watched.health().stalled), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    for round in 1..=options.splits {
        let split = split(engine, container).await?;
        let merge = merge(engine, container).await?;
        for job in [split, merge] {
            report.held.push(job.held.unwrap_or_default());
            report.took.push(job.took.unwrap_or_default());
        }
        if round % 10 == 0 {
            tell(&format!("{round} of {} splits, as many merges", options.splits));
        }
    }
    shared.stop.store(true, Ordering::Relaxed);
    while let Some(ended) = clients.join_next().await {
        ended.context("a client ended badly")??;
    }
    sampler.await?;
    report.writes = shared.writes.load(Ordering::Relaxed);
    report.reads = shared.reads.load(Ordering::Relaxed);
    report.slowest_write = Duration::from_micros(shared.slowest_write_us.load(Ordering::Relaxed));
    report.slowest_read = Duration::from_micros(shared.slowest_read_us.load(Ordering::Relaxed));
    report.stalled_samples = shared.stalled.load(Ordering::Relaxed);
    Ok(())
}

async fn write_until_stopped(shared: &Shared, seed: u64) -> anyhow::Result<()> {
    let mut random = Rng::new(seed);
    let mut version = 0;
    while !shared.stop.load(Ordering::Relaxed) {
        version += 1;
        let key = random.index(shared.keys);
        let body = item(key, random.index(ITEMS_PER_KEY), version);
        let op = ItemOp::Upsert { body, if_match: None };
        let mut ctx = test_context();
        let began = Instant::now();
        shared.engine.write_item(&mut ctx, &shared.container, Some(key_of(key)), op).await?;
        note(&shared.writes, &shared.slowest_write_us, began);
    }
    Ok(())
}

async fn read_until_stopped(shared: &Shared, seed: u64) -> anyhow::Result<()> {
    let mut random = Rng::new(seed);
    while !shared.stop.load(Ordering::Relaxed) {
        let key = random.index(shared.keys);
        let id = random.index(ITEMS_PER_KEY).to_string();
        let mut ctx = test_context();
        let began = Instant::now();
        shared.engine.read_item(&mut ctx, &shared.container, &key_of(key), &id, None)?;
        note(&shared.reads, &shared.slowest_read_us, began);
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    Ok(())
}

fn note(count: &AtomicU64, slowest_us: &AtomicU64, began: Instant) {
    let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    count.fetch_add(1, Ordering::Relaxed);
    slowest_us.fetch_max(took, Ordering::Relaxed);
}

async fn split(engine: &Engine, container: &Container) -> anyhow::Result<JobInfo> {
    let range = container.routing().ranges()[0].id;
    let how = Progression::Automatic;
    let job = engine
        .start_split(&test_context(), container.rid, range, SplitPoint::ByteMedian, how)
        .await?;
    finish(engine, job).await
}

async fn merge(engine: &Engine, container: &Container) -> anyhow::Result<JobInfo> {
    let ranges: Vec<RangeId> = container.routing().ranges().iter().map(|r| r.id).collect();
    let job =
        engine.start_merge(&test_context(), container.rid, &ranges, Progression::Automatic).await?;
    finish(engine, job).await
}

async fn finish(engine: &Engine, job: JobInfo) -> anyhow::Result<JobInfo> {
    let job = engine.finish_job(job.id).await?;
    anyhow::ensure!(job.phase == JobPhase::Succeeded, "a job ended with {:?}", job.phase);
    Ok(job)
}

/// A split without other clients, compared with a plain copy of the same rows.
async fn alone(
    engine: &Engine,
    store: &Arc<dyn LocalStore>,
    container: &Arc<Container>,
    report: &mut Report,
) -> anyhow::Result<()> {
    settle(store).await;
    let job = split(engine, container).await?;
    report.quiet_split = job.took.unwrap_or_default();
    report.copied_bytes = job.bytes_copied;
    settle(store).await;
    let store = Arc::clone(store);
    // Ids are assigned in order, so the children of the last job are the last two.
    let last = (1..10_000)
        .rev()
        .map(PartitionId)
        .find(|p| store.approximate_bytes(*p).is_ok_and(|bytes| bytes > 1_000_000));
    let last = last.context("nothing is stored")?;
    report.raw_copy =
        tokio::task::spawn_blocking(move || copy_by_hand(store.as_ref(), last)).await??;
    Ok(())
}

/// Waits until earlier flushes and compactions are done.
async fn settle(store: &Arc<dyn LocalStore>) {
    let mut before = 0;
    for _ in 0..60 {
        let now = store.health().disk_bytes;
        if now == before {
            return;
        }
        before = now;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
    }
}

/// Copies the last two partitions to new ones with chunks and syncs like those of the engine.
fn copy_by_hand(store: &dyn LocalStore, last: PartitionId) -> anyhow::Result<Duration> {
    let began = Instant::now();
    for from in [PartitionId(last.0 - 1), last] {
        let to = PartitionId(1_000_000 + from.0);
        let view = store.view();
        let mut cursor = view.scan(from, KeyRange::ALL, Dir::Fwd)?;
        let (mut ops, mut bytes) = (Vec::new(), 0);
        while let Some((key, value)) = cursor.next()? {
            bytes += key.len() + value.len();
            let (k, v) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
            ops.push(Op::Put { p: to, k, v });
            if bytes >= CHUNK_BYTES {
                store.write(WriteBatch { ops: std::mem::take(&mut ops) }, Durability::Synced)?;
                bytes = 0;
            }
        }
        store.write(WriteBatch { ops }, Durability::Synced)?;
    }
    Ok(began.elapsed())
}
