//! Copying the rows of a partition, some at a time.

use std::ops::Bound;
use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use model::PartitionId;
use storage::{Dir, KeyRange, View};
use tokio::sync::oneshot;

use crate::commit::{ChunkOutcome, Command, CopyChunk, CopyProgress};
use crate::engine::Inner;
use crate::{Engine, Error, keys};

use super::JobId;
use super::job::{Job, Stop};
use super::volume::is_counted;

/// How much is copied by one commit.
#[derive(Clone, Copy)]
struct ChunkSize {
    rows: usize,
    bytes: usize,
}

/// While others write: they wait for the commit they share with a chunk.
const CHUNK_BESIDE_OTHERS: ChunkSize = ChunkSize { rows: 2_000, bytes: 512 * 1024 };
/// While no other writer is active.
const CHUNK_ALONE: ChunkSize = ChunkSize { rows: 16_000, bytes: 4 * 1024 * 1024 };
/// The longest pause between two chunks.
const REST_MAX: Duration = Duration::from_millis(100);

/// While the disk has too little room for a copy, it is checked again after this long.
const SPACE_CHECK_EVERY: Duration = Duration::from_millis(500);

/// Rows read from one view.
struct Rows {
    rows: Vec<(Bytes, Bytes)>,
    up_to: CopyProgress,
    bytes: usize,
    /// Bytes of those rows that are part of the job's volume.
    counted: usize,
}

/// Copies the remaining rows of a partition.
pub(super) async fn copy_partition(
    engine: &Weak<Inner>,
    job: &Job,
    source: PartitionId,
) -> Result<(), Stop> {
    let mut copied = upgrade(engine)?.copied_so_far(source).await?;
    let mut size = CHUNK_BESIDE_OTHERS;
    loop {
        job.may_go_on().await?;
        let engine = upgrade(engine)?;
        let CopyProgress::UpTo(after) = &copied else { return Ok(()) };
        let clock = &engine.inner.components.clock;
        if engine.inner.store.room().is_some_and(|room| !room.is_enough()) {
            clock.sleep(SPACE_CHECK_EVERY).await;
            continue;
        }
        let (began, commits_before) = (clock.monotonic(), engine.commits_seen());
        let read = engine.read_rows(source, after.clone(), size).await?;
        let (rows, bytes, counted) = (read.rows.len(), read.bytes, read.counted);
        let up_to = read.up_to.clone();
        match engine.store_rows(job.spec.id, source, after.clone(), read).await? {
            ChunkOutcome::Stored => copied = up_to,
            ChunkOutcome::Stale => continue,
            ChunkOutcome::Cancelled => return Err(Stop::Cancelled),
        }
        job.count(rows, bytes, counted);
        // Other writers get at least half of the time.
        size = CHUNK_ALONE;
        if engine.commits_seen() != commits_before {
            size = CHUNK_BESIDE_OTHERS;
            clock.sleep((clock.monotonic() - began).min(REST_MAX)).await;
        }
    }
}

pub(crate) fn upgrade(engine: &Weak<Inner>) -> Result<Engine, Error> {
    let inner = engine.upgrade();
    inner.map(|inner| Engine { inner }).ok_or_else(|| Error::Unavailable("shutting down".into()))
}

impl Engine {
    async fn copied_so_far(&self, source: PartitionId) -> Result<CopyProgress, Error> {
        let store = std::sync::Arc::clone(&self.inner.store);
        self.run_blocking(move || progress_of(store.view().as_ref(), source)).await
    }

    async fn read_rows(
        &self,
        source: PartitionId,
        after: Bytes,
        size: ChunkSize,
    ) -> Result<Rows, Error> {
        let store = std::sync::Arc::clone(&self.inner.store);
        let rows = size.rows.min(self.inner.settings.copy_rows_max.max(1));
        let size = ChunkSize { rows, ..size };
        self.run_blocking(move || read_rows(store.view().as_ref(), source, &after, size)).await
    }

    async fn store_rows(
        &self,
        job: JobId,
        source: PartitionId,
        after: Bytes,
        read: Rows,
    ) -> Result<ChunkOutcome, Error> {
        let (reply, answer) = oneshot::channel();
        let chunk = CopyChunk { job, source, after, rows: read.rows, up_to: read.up_to, reply };
        self.inner.commits.send(Command::Copy(chunk)).await.map_err(|_| self.stopped())?;
        answer.await.map_err(|_| self.stopped())?
    }
}

/// How far the rows of a partition were copied before.
pub(crate) fn progress_of(view: &dyn View, source: PartitionId) -> Result<CopyProgress, Error> {
    let Some(stored) = view.get(source, keys::COPY_PROGRESS)? else {
        return Ok(CopyProgress::NONE);
    };
    CopyProgress::decode(&stored)
        .ok_or_else(|| Error::Storage(format!("the progress of partition {source} can't be read")))
}

fn read_rows(
    view: &dyn View,
    source: PartitionId,
    after: &[u8],
    size: ChunkSize,
) -> Result<Rows, Error> {
    let lo = match after {
        [] => Bound::Included(keys::ITEMS_START),
        after => Bound::Excluded(after),
    };
    let mut cursor = view.scan(source, KeyRange { lo, hi: Bound::Unbounded }, Dir::Fwd)?;
    let mut read = Rows { rows: Vec::new(), up_to: CopyProgress::All, bytes: 0, counted: 0 };
    while let Some((key, value)) = cursor.next()? {
        let row = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        let bytes = key.len() + value.len();
        read.bytes += bytes;
        if is_counted(key) {
            read.counted += bytes;
        }
        let last = row.0.clone();
        read.rows.push(row);
        if read.rows.len() >= size.rows || read.bytes >= size.bytes {
            read.up_to = CopyProgress::UpTo(last);
            break;
        }
    }
    Ok(read)
}
