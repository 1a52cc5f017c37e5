//! Opening and closing an engine.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use model::PartitionId;
use storage::LocalStore;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};

use crate::catalog;
use crate::commit::{
    ClockWatch, Command, CommitClock, Committer, DiskSpaceWatch, Failure, TrimLog,
};
use crate::continuation::TokenKey;
use crate::engine::Inner;
use crate::governor::Governor;
use crate::repartition::{self, Jobs};
use crate::script_pool::ScriptPool;
use crate::submit::COMMITS_QUEUED_MAX;
use crate::task_tracker::TaskTracker;
use crate::transact::ConflictLocks;
use crate::{Components, Engine, Error, Settings, keys, old_version, ttl};

/// How long closing waits for reads under way.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(5);
/// How often opening a failed store again is tried.
const REOPEN_EVERY: Duration = Duration::from_secs(1);

impl Engine {
    /// Opens the engine on `store`, recovering what it holds, and starts its background work.
    pub fn open(
        store: Arc<dyn LocalStore>,
        components: Components,
        settings: Settings,
    ) -> Result<Self, Error> {
        let tasks = TaskTracker::default();
        let spawner = tasks.tracking(Arc::clone(&components.spawner));
        let components = Components { spawner, ..components };
        let loaded = catalog::load(store.as_ref(), components.random.as_ref())?;
        let (commits, queue) = mpsc::channel(COMMITS_QUEUED_MAX);
        let governor = Arc::new(Governor::new(
            Arc::clone(&components.clock),
            settings.throttling,
            settings.partition_ru_max,
        ));
        governor.assign_all(&loaded.catalog);
        let catalog = Arc::new(ArcSwap::from_pointee(loaded.catalog));
        let newest = loaded.partitions.values().map(|slot| slot.state.ts).max();
        let mut watch = ClockWatch::default();
        let clock = components.clock.as_ref();
        watch.look(clock.now().seconds(), newest.unwrap_or_default(), clock);
        let last = loaded.partitions.values().map(|slot| slot.state.clock).max();
        let commit_clock = Arc::new(CommitClock::starting_at(last.unwrap_or_default()));
        let failure = Failure::default();
        let (is_low, reopened) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let groups = Arc::new(AtomicU64::new(0));
        let committer = Committer {
            commands: queue,
            left_over: None,
            store: Arc::clone(&store),
            clock: Arc::clone(&components.clock),
            watch,
            commit_clock: Arc::clone(&commit_clock),
            durability: settings.durability,
            logical_partition_bytes_max: settings.logical_partition_limit(),
            partition_bytes_max: settings.partition_bytes_max,
            partitions: loaded.partitions,
            mirrors: loaded.mirrors,
            groups: Arc::clone(&groups),
            published: Arc::clone(&catalog),
            governor: Arc::clone(&governor),
            retire: retire_in_background(&store, &components, &commits),
            room: DiskSpaceWatch::new(Arc::clone(&is_low)),
            failure: Arc::clone(&failure),
            undo: None,
            reopen_later: reopen_in_background(&components, &commits),
            is_reopening: false,
            reopened: Arc::clone(&reopened),
        };
        let committer = components
            .spawner
            .work("committer", Box::new(committer))
            .map_err(|e| Error::Unavailable(format!("can't start the committer: {e}")))?;
        let engine = Engine {
            inner: Arc::new(Inner {
                store,
                catalog,
                token_key: TokenKey::new(loaded.meta.token_key),
                catalog_lock: Arc::new(tokio::sync::Mutex::new(loaded.meta)),
                commits,
                commit_clock,
                governor,
                jobs: Jobs::default(),
                scripts: ScriptPool::new(Arc::clone(&components.spawner), settings.script_threads),
                settings,
                conflicts: ConflictLocks::default(),
                monitor: Arc::new(Notify::new()),
                index_changed: Arc::new(Notify::new()),
                index_completed: Notify::new(),
                index_failures: Mutex::default(),
                groups,
                committer: Mutex::new(Some(committer)),
                tasks,
                old_version_room: Arc::new(Semaphore::new(old_version::WAITING_BYTES_MAX)),
                failure,
                reopened,
                is_low,
                components,
            }),
        };
        ttl::start_sweep(&engine);
        ttl::start_expiry(&engine);
        engine.resume_jobs();
        repartition::start_monitor(&engine);
        crate::index::start_rebuilding(&engine);
        Ok(engine)
    }

    /// Stops taking writes, lets those under way finish, and closes the store. The engine does not
    /// use the store afterwards, so it can be opened again at once, unless a query runs on for
    /// seconds or another thread is just reading an item.
    pub async fn close(&self) -> Result<(), Error> {
        self.inner.tasks.end_tasks();
        // The queue may be closed already; then the committer has ended or is about to.
        let _ = self.inner.commits.send(Command::Stop).await;
        let committer = self.inner.committer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = match committer {
            Some(committer) => committer.await,
            None => Ok(()),
        };
        tokio::select! {
            biased;
            () = self.inner.all_ended() => {}
            () = self.inner.components.clock.sleep(CLOSE_WAIT_MAX) => {
                tracing::warn!("closing while the store is still being read");
            }
        }
        let store = Arc::clone(&self.inner.store);
        self.run_blocking(move || Ok(store.close()?)).await?;
        ended.map_err(|_| Error::Internal("the committer panicked".into()))
    }
}

impl Inner {
    /// Completes when no task or script reads the store any more.
    async fn all_ended(&self) {
        self.scripts.close().await;
        self.tasks.ended().await;
    }
}

/// Sends `Reopen` from time to time until the store takes writes.
fn reopen_in_background(
    components: &Components,
    commits: &mpsc::Sender<Command>,
) -> Box<dyn Fn() + Send> {
    let (clock, spawner) = (Arc::clone(&components.clock), Arc::clone(&components.spawner));
    // A strong sender would keep the committer's queue open for ever.
    let commits = commits.downgrade();
    Box::new(move || {
        let (clock, commits) = (Arc::clone(&clock), commits.clone());
        let task = async move {
            loop {
                clock.sleep(REOPEN_EVERY).await;
                let (reply, is_open) = oneshot::channel();
                let Some(sender) = commits.upgrade() else { return };
                let sent = sender.send(Command::Reopen(reply)).await;
                drop(sender);
                if sent.is_err() || is_open.await.unwrap_or(true) {
                    return;
                }
            }
        };
        spawner.spawn("reopen", Box::pin(task));
    })
}

/// Has the store drop partitions in the background. If the process ends first, the next start does
/// it: the catalog has a note for each until it is done.
fn retire_in_background(
    store: &Arc<dyn LocalStore>,
    components: &Components,
    commits: &mpsc::Sender<Command>,
) -> Box<dyn Fn(Vec<PartitionId>) + Send> {
    let (store, spawner) = (Arc::clone(store), Arc::clone(&components.spawner));
    // A strong sender would keep the committer's queue open for ever.
    let commits = commits.downgrade();
    Box::new(move |partitions| {
        let (store, commits) = (Arc::clone(&store), commits.clone());
        spawner.run_blocking(Box::new(move || {
            let mut done = Vec::with_capacity(partitions.len());
            for p in partitions {
                match store.retire(p) {
                    Ok(()) => done.push(keys::catalog::retiring(p)),
                    Err(error) => {
                        tracing::warn!(partition = %p, %error, "a partition is retired later");
                    }
                }
            }
            let trim =
                TrimLog { partition: PartitionId::CATALOG, keys: done, versions: Vec::new() };
            if let Some(commits) = commits.upgrade() {
                // A closed queue leaves the notes for the next start.
                let _ = commits.blocking_send(Command::Trim(trim));
            }
        }));
    })
}
