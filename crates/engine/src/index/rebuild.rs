//! Bringing the entries of stored items up to date after a container's policy has changed.
//!
//! A container keeps its former policies until that is done. Until then writes put the entries of
//! the new policy and remove those of all, and queries use what all of them index. So whatever a
//! query uses is complete at every moment, and an item that was brought up to date stays so.
//!
//! The committer does the work, some rows at a time: what it finds can't change under it, and
//! partitions being filled by a split or merge get the same entries as their source. How far it is
//! is stored in the same batch.

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

/// How often it is looked whether there is something to do, besides when a policy changes: who
/// changed it may have gone away before saying so.
const INTERVAL: Duration = Duration::from_secs(1);
/// After a failure it is tried again after this long.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Rests between two steps.
const REST_MIN: Duration = Duration::from_millis(1);
const REST_MAX: Duration = Duration::from_millis(50);

/// What follows the version in a stored [`Progress`]. A key without the number of rows, which is
/// how it once was, is not read: the rows are looked through again.
const ALL: u8 = 1;
const UP_TO: u8 = 2;

/// How far a partition's entries are brought up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Version of the indexes that this is about.
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

    /// What is stored for a partition; from the start if that is about another version.
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

/// One container that can't be rebuilt does not keep others from it.
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

/// Goes on until all entries of a container fit its policy, whatever happens to it on the way.
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
            Some((partition, from)) => engine.reindex(&container, partition, from).await?,
            None => engine.complete_indexes(&container).await?,
        }
    }
}

impl Engine {
    /// Has indexes whose policy has changed brought up to date.
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
        // 100 is said only when all is done, the change of the catalog included.
        let percent = done.saturating_mul(100) / all.max(1);
        Ok(u8::try_from(percent.min(99)).unwrap_or(99))
    }

    /// The next partition of a container whose entries are not up to date, and how far it is.
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
        // Whoever else writes gets at least half of the time.
        if has_moved || self.commits_seen() != commits_before {
            let took = (clock.monotonic() - began).clamp(REST_MIN, REST_MAX);
            clock.sleep(took).await;
        }
        Ok(())
    }

    /// Forgets a container's former policies, if its entries are still up to date by now.
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
