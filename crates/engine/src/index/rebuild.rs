//! Bringing the entries of stored items up to date after a container's policy has changed.
//!
//! A container keeps its former policies until that is done. Until then writes put the entries of
//! the new policy and remove those of all, and queries use the entries that all of them have. So
//! the entries that a query uses are complete at every moment, and an item that was brought up to
//! date stays so.
//!
//! The committer does the work, some rows at a time: no write can come between its reads and its
//! writes, and partitions being filled by a split or merge get the same entries as their source.
//! The progress is stored in the same batch.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use model::{ContainerRid, PartitionId};
use storage::View;
use tokio::sync::oneshot;

use crate::catalog::Container;
use crate::commit::{Command, ReindexPosition, ReindexProgress, ReindexStep};
use crate::components::Clock;
use crate::engine::Inner;
use crate::index::train::{Attempts, make_cells};
use crate::repartition::upgrade;
use crate::{Engine, Error, keys};

/// How often the task checks for work, besides when a policy changes: the caller that changed it
/// may have gone away before notifying the task.
const INTERVAL: Duration = Duration::from_secs(1);
/// The task retries after this long when it failed.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Pauses between two steps.
const REST_MIN: Duration = Duration::from_millis(1);
const REST_MAX: Duration = Duration::from_millis(50);

/// What follows the version in a stored [`Progress`]. The old form, which has no number of rows, is
/// not read: the rows are read again.
const ALL: u8 = 1;
const UP_TO: u8 = 2;

/// How far the entries of a partition are up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Version of the indexes that are built.
    pub(crate) version: u64,
    pub(crate) done: ReindexProgress,
}

impl Progress {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = self.version.to_be_bytes().to_vec();
        match &self.done {
            ReindexProgress::UpTo(ReindexPosition { after, rows }) => {
                out.push(UP_TO);
                out.extend_from_slice(&rows.to_be_bytes());
                out.extend_from_slice(after);
            }
            ReindexProgress::All => out.push(ALL),
        }
        out.into()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first_chunk()?;
        let done = match rest.split_first()? {
            (&UP_TO, reached) => {
                let (rows, after) = reached.split_first_chunk()?;
                let rows = u64::from_be_bytes(*rows);
                ReindexProgress::UpTo(ReindexPosition {
                    after: Bytes::copy_from_slice(after),
                    rows,
                })
            }
            (&ALL, []) => ReindexProgress::All,
            _ => return None,
        };
        Some(Self { version: u64::from_be_bytes(*version), done })
    }

    /// The stored progress of a partition; from the start if it is of another version.
    pub(crate) fn read(
        view: &dyn View,
        partition: PartitionId,
        version: u64,
    ) -> Result<ReindexProgress, Error> {
        let stored = view.get(partition, keys::INDEX_PROGRESS)?;
        let progress = stored.and_then(|bytes| Self::decode(&bytes));
        let same = progress.filter(|progress| progress.version == version);
        Ok(same.map_or(ReindexProgress::UpTo(ReindexPosition::default()), |progress| progress.done))
    }
}

/// Starts the task that rebuilds indexes; it ends with the engine.
pub(crate) fn start(engine: &Engine) {
    let weak = Arc::downgrade(&engine.inner);
    let components = engine.inner.components.clone();
    components.spawner.spawn("index", Box::pin(watch(weak, Arc::clone(&components.clock))));
}

async fn watch(engine: Weak<Inner>, clock: Arc<dyn Clock>) {
    let mut attempts = Attempts::default();
    loop {
        let done = match bring_all_up_to_date(&engine).await {
            Ok(()) => make_cells(&engine, &mut attempts).await,
            failed => failed,
        };
        let rest = match done {
            Ok(()) => INTERVAL,
            Err(error) => {
                tracing::warn!(%error, "an index can't be rebuilt now");
                RETRY_AFTER
            }
        };
        let Some(inner) = engine.upgrade() else { return };
        if inner.commits.is_closed() {
            return;
        }
        let notify = Arc::clone(&inner.index_changed);
        drop(inner);
        tokio::select! {
            biased;
            () = clock.sleep(rest) => {}
            () = notify.notified() => {}
        }
    }
}

/// A container that can't be rebuilt does not keep the task from rebuilding others.
async fn bring_all_up_to_date(engine: &Weak<Inner>) -> Result<(), Error> {
    let unfinished: Vec<_> = {
        let catalog = upgrade(engine)?.catalog();
        let containers = catalog.containers.values();
        containers.filter(|c| !c.indexes.former.is_empty()).map(|c| c.rid).collect()
    };
    let mut outcome = Ok(());
    for container in unfinished {
        outcome = bring_up_to_date(engine, container).await.and(outcome);
    }
    outcome
}

/// Continues until all entries of a container fit its policy, whatever happens to it meanwhile.
async fn bring_up_to_date(engine: &Weak<Inner>, rid: ContainerRid) -> Result<(), Error> {
    loop {
        let engine = upgrade(engine)?;
        let Some(container) = engine.catalog().container_by_rid(rid).cloned() else {
            return Ok(());
        };
        if container.indexes.former.is_empty() {
            return Ok(());
        }
        match engine.partition_to_index(&container)? {
            Some((partition, from)) => match engine.reindex(&container, partition, from).await {
                Err(Error::IndexViolation(violation)) => {
                    engine.take_back(&container, *violation).await?;
                }
                done => done?,
            },
            None => engine.complete_indexes(&container).await?,
        }
    }
}

impl Engine {
    /// Notifies the task that the policy of an index has changed.
    pub(crate) fn rebuild_indexes(&self) {
        self.inner.index_changed.notify_one();
    }

    /// How much of a container's index is up to date, in percent.
    pub fn index_progress(&self, container: &Container) -> Result<u8, Error> {
        if container.indexes.former.is_empty() {
            return Ok(100);
        }
        let view = self.inner.store.view();
        let (mut done, mut all) = (0, 0);
        for range in container.routing().ranges() {
            let partition = &range.partition;
            let items = partition.items();
            all += items;
            done += match Progress::read(view.as_ref(), partition.id, container.indexes.version)? {
                ReindexProgress::UpTo(reached) => reached.rows.min(items),
                ReindexProgress::All => items,
            };
        }
        // 100 is reported only when all is done, the change of the catalog included.
        let percent = done.saturating_mul(100) / all.max(1);
        Ok(u8::try_from(percent.min(99)).unwrap_or(99))
    }

    /// The next partition of a container whose entries are not up to date, and its progress.
    fn partition_to_index(
        &self,
        container: &Container,
    ) -> Result<Option<(PartitionId, ReindexPosition)>, Error> {
        let view = self.inner.store.view();
        for range in container.routing().ranges() {
            let id = range.partition.id;
            match Progress::read(view.as_ref(), id, container.indexes.version)? {
                ReindexProgress::UpTo(reached) => return Ok(Some((id, reached))),
                ReindexProgress::All => {}
            }
        }
        Ok(None)
    }

    /// Brings some more entries of a partition up to date.
    async fn reindex(
        &self,
        container: &Container,
        partition: PartitionId,
        from: ReindexPosition,
    ) -> Result<(), Error> {
        let clock = &self.inner.components.clock;
        let (began, commits_before) = (clock.monotonic(), self.commits_seen());
        let (reply, answer) = oneshot::channel();
        let (container, version) = (container.rid, container.indexes.version);
        let step = ReindexStep { container, partition, version, from, reply };
        self.inner.commits.send(Command::Reindex(step)).await.map_err(|_| self.stopped())?;
        let has_moved = answer.await.map_err(|_| self.stopped())??.is_none();
        // Other writers get at least half of the time.
        if has_moved || self.commits_seen() != commits_before {
            let took = (clock.monotonic() - began).clamp(REST_MIN, REST_MAX);
            clock.sleep(took).await;
        }
        Ok(())
    }

    /// Removes a container's former policies, if its entries are still up to date by now.
    async fn complete_indexes(&self, container: &Container) -> Result<(), Error> {
        let mut change = self.begin_change().await;
        let Some(now) = change.catalog.container_by_rid(container.rid).cloned() else {
            return Ok(());
        };
        let is_other = now.indexes.version != container.indexes.version;
        if is_other || self.partition_to_index(&now)?.is_some() {
            return Ok(());
        }
        let indexes = Arc::new(now.indexes.completed());
        change.put_container(Arc::new(Container { indexes, ..now.same() }));
        self.finish_change(change).await?;
        self.inner.index_completed.notify_waiters();
        Ok(())
    }
}
