//! The engine: what it consists of, and the index of its operations.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use model::limits;
use storage::{Durability, LocalStore};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};

use crate::catalog::{self, Catalog, ThroughputLimits};
use crate::commit::{Command, CommitClock, CommitTime, Failure};
use crate::components::Ended;
use crate::continuation::TokenKey;
use crate::governor::{Governor, Throttling};
use crate::ordered_indexes::IndexFailures;
use crate::repartition::Jobs;
use crate::script_pool::ScriptPool;
use crate::task_tracker::TaskTracker;
use crate::transact::ConflictLocks;
use crate::{Components, Error};

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Request units per second a partition is planned for at creation.
    pub partition_ru_planned: u32,
    /// Which throughput limits requests. An engine by itself only counts; servers choose.
    pub throttling: Throttling,
    /// Which limits provisioned throughput has.
    pub throughput_limits: ThroughputLimits,
    /// Ranges of a container that was given no throughput.
    pub default_ranges: u32,
    /// Most request units per second that a partition serves; a container that is provisioned with
    /// more is split.
    pub partition_ru_max: u32,
    /// A partition that holds more bytes than this is split.
    pub partition_bytes_max: u64,
    /// Most bytes of one logical partition.
    pub logical_partition_bytes_max: u64,
    /// Most rows that one commit copies while a partition is split or merged. Fewer are copied
    /// while others write.
    pub copy_rows_max: usize,
    /// A query of a logical partition with no more items than this is answered inline, not on
    /// another thread.
    pub items_at_once_max: u64,
    /// What an overwritten or deleted version of at least this size has beside its row is computed
    /// before the committer needs it, which takes one more read.
    pub old_version_bytes_min: usize,
    /// Whether small neighbours are merged when the throughput allows it.
    pub auto_merge: bool,
    /// From this many items on, vectors of a container are put into cells, unless their index is
    /// exact.
    pub vectors_in_cells: u64,
    /// Whether acknowledged writes are on disk.
    pub durability: Durability,
    /// Most threads that run scripts.
    pub script_threads: usize,
    /// How often documents are removed whose date in an index says that they expire.
    pub expiry_interval: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            partition_ru_planned: limits::PARTITION_RU_PLANNED,
            throttling: Throttling::default(),
            throughput_limits: ThroughputLimits::default(),
            default_ranges: 1,
            partition_ru_max: limits::PARTITION_RU_MAX,
            partition_bytes_max: limits::PHYSICAL_PARTITION_BYTES_MAX,
            logical_partition_bytes_max: limits::LOGICAL_PARTITION_BYTES_MAX,
            copy_rows_max: usize::MAX,
            items_at_once_max: 128,
            old_version_bytes_min: 4 * 1024,
            auto_merge: false,
            vectors_in_cells: 10_000,
            durability: Durability::Synced,
            script_threads: 2,
            expiry_interval: Duration::from_secs(60),
        }
    }
}

impl Settings {
    /// Most bytes of a logical partition: it can't be split, so it can't outgrow a physical one.
    pub(crate) fn logical_partition_limit(&self) -> u64 {
        self.logical_partition_bytes_max.min(self.partition_bytes_max)
    }
}

/// A running engine over one store. Clones share it.
///
/// Each operation is in the file, or below the folder, that is named after it:
///
/// | In | Operations |
/// |---|---|
/// | `open.rs` | [`open`](Self::open), [`close`](Self::close) |
/// | `health.rs` | [`health`](Self::health) |
/// | `engine.rs` | [`catalog`](Self::catalog), [`settings`](Self::settings) |
/// | | [`components`](Self::components), [`run_blocking`](Self::run_blocking) |
/// | | [`commit_time`](Self::commit_time), [`advance_commit_clock`](Self::advance_commit_clock) |
/// | | [`run_fairly`](Self::run_fairly) |
/// | `read.rs` | [`read_item`](Self::read_item) |
/// | `write.rs` | [`write_item`](Self::write_item) |
/// | `batch.rs` | [`write_batch`](Self::write_batch), [`write_batch_within`](Self::write_batch_within) |
/// | `bulk.rs` | [`bulk`](Self::bulk) |
/// | `run.rs` | [`run`](Self::run) |
/// | `together.rs` | [`write_together`](Self::write_together) |
/// | `erase.rs` | [`delete_partition_key`](Self::delete_partition_key) |
/// | `transact.rs` | [`transact`](Self::transact) |
/// | `transaction.rs` | [`begin`](Self::begin), [`commit_transaction`](Self::commit_transaction) |
/// | `query/` | [`query`](Self::query), [`list_items`](Self::list_items) |
/// | | [`token_after_rows`](Self::token_after_rows), [`rows_before`](Self::rows_before) |
/// | | [`statistics`](Self::statistics) |
/// | `gather/` | [`gather`](Self::gather), [`explain`](Self::explain) |
/// | `query/listing.rs` | [`list_in_key_order`](Self::list_in_key_order) |
/// | `changes/` | [`read_changes`](Self::read_changes) |
/// | `catalog/change.rs` | [`create_database`](Self::create_database) |
/// | | [`delete_database`](Self::delete_database) |
/// | | [`delete_all_databases`](Self::delete_all_databases) |
/// | | [`create_container`](Self::create_container) |
/// | | [`replace_container`](Self::replace_container) |
/// | | [`delete_container`](Self::delete_container), [`replace_offer`](Self::replace_offer) |
/// | `catalog/opaque.rs` | [`create_opaque`](Self::create_opaque) |
/// | | [`replace_opaque`](Self::replace_opaque), [`upsert_opaque`](Self::upsert_opaque) |
/// | | [`delete_opaque`](Self::delete_opaque), [`secret`](Self::secret) |
/// | `catalog/rules.rs` | [`bounds_of`](Self::bounds_of), [`bounds_of_new`](Self::bounds_of_new) |
/// | | [`stored_bytes`](Self::stored_bytes) |
/// | `catalog/scripts.rs` | [`create_script`](Self::create_script) |
/// | | [`replace_script`](Self::replace_script), [`delete_script`](Self::delete_script) |
/// | `index/rebuild.rs` | [`index_progress`](Self::index_progress) |
/// | `ordered_indexes.rs` | [`change_ordered_indexes`](Self::change_ordered_indexes) |
/// | | [`wait_for_ordered_indexes`](Self::wait_for_ordered_indexes) |
/// | | [`ordered_index_stats`](Self::ordered_index_stats) |
/// | `governor/` | [`usage`](Self::usage), [`current_throughput`](Self::current_throughput) |
/// | `distribution.rs` | [`largest_keys`](Self::largest_keys) |
/// | `repartition/` | [`start_split`](Self::start_split), [`start_merge`](Self::start_merge) |
/// | | [`advance_job`](Self::advance_job), [`pause_job`](Self::pause_job), [`serves_again`](Self::serves_again) |
/// | | [`cancel_job`](Self::cancel_job), [`finish_job`](Self::finish_job), [`job`](Self::job) |
/// | | [`jobs`](Self::jobs), [`job_tallies`](Self::job_tallies), [`is_scaling`](Self::is_scaling) |
/// | | [`needs_partitions`](Self::needs_partitions) |
/// | `audit/` | [`audit`](Self::audit) |
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

/// What clones share.
pub(crate) struct Inner {
    pub(crate) store: Arc<dyn LocalStore>,
    pub(crate) components: Components,
    pub(crate) settings: Settings,
    pub(crate) catalog: Arc<ArcSwap<Catalog>>,
    /// Held while the catalog changes, so that changes are serialized; it holds the numbers that
    /// the catalog assigns next.
    pub(crate) catalog_lock: Arc<tokio::sync::Mutex<catalog::record::MetaRecord>>,
    pub(crate) token_key: TokenKey,
    pub(crate) commits: mpsc::Sender<Command>,
    pub(crate) commit_clock: Arc<CommitClock>,
    pub(crate) governor: Arc<Governor>,
    pub(crate) jobs: Jobs,
    /// Runs scripts of clients.
    pub(crate) scripts: ScriptPool,
    /// Held by transactions that run again after a conflict.
    pub(crate) conflicts: ConflictLocks,
    /// Wakes the partition monitor.
    pub(crate) monitor: Arc<Notify>,
    /// Wakes the task that rebuilds indexes.
    pub(crate) index_changed: Arc<Notify>,
    /// Wakes the tasks that wait for an index that is being rebuilt.
    pub(crate) index_completed: Notify,
    /// Why ordered indexes were taken back.
    pub(crate) index_failures: Mutex<IndexFailures>,
    pub(crate) groups: Arc<AtomicU64>,
    pub(crate) committer: Mutex<Option<Ended>>,
    pub(crate) tasks: TaskTracker,
    /// Room for old versions that wait for the committer, in bytes.
    pub(crate) old_version_room: Arc<Semaphore>,
    pub(crate) failure: Failure,
    /// How often the store was opened again.
    pub(crate) reopened: Arc<AtomicU64>,
    /// Whether the disk had too little room at the committer's last check.
    pub(crate) is_low: Arc<AtomicBool>,
}

impl Engine {
    /// The current catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.inner.catalog.load_full()
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// The components it runs with.
    pub fn components(&self) -> &Components {
        &self.inner.components
    }

    /// The time of the last durable commit on the commit clock, or a later one that it was
    /// [told](Engine::advance_commit_clock).
    pub fn commit_time(&self) -> CommitTime {
        self.inner.commit_clock.reached()
    }

    /// Lets all later commits have later times than `to`. Refuses a time that is more than a year
    /// ahead.
    pub fn advance_commit_clock(&self, to: CommitTime) -> bool {
        self.inner.commit_clock.advance(to, self.inner.components.clock.now())
    }

    pub(crate) fn logical_partition_bytes_max(&self) -> u64 {
        self.inner.settings.logical_partition_limit()
    }

    /// Why the committer takes no commands.
    pub(crate) fn stopped(&self) -> Error {
        let reason = self.inner.failure.load().as_ref().map(ToString::to_string);
        Error::Unavailable(reason.unwrap_or_else(|| "the server is shutting down".into()))
    }

    /// Grows with every group commit of item operations.
    pub(crate) fn commits_seen(&self) -> u64 {
        self.inner.groups.load(Ordering::Relaxed)
    }

    /// Runs `work`, which may wait for the disk or take long, where it blocks no other request.
    pub fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> impl Future<Output = Result<T, Error>> {
        let (work, answer) = answered(work);
        self.inner.components.spawner.run_blocking(work);
        answer
    }

    /// Runs `work`, which is usually short, where it blocks no other request and need not wait for
    /// long work. It must [give way](Engine::give_way) now and then.
    pub fn run_fairly<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> impl Future<Output = Result<T, Error>> {
        let (work, answer) = answered(work);
        self.inner.components.spawner.run_fairly(work);
        answer
    }

    /// Lets short work go first, if the caller's work runs fairly and has taken long.
    pub(crate) fn give_way(&self) {
        self.inner.components.spawner.give_way();
    }
}

/// Work that sends its result, and the future that waits for it.
fn answered<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> (Box<dyn FnOnce() + Send>, impl Future<Output = Result<T, Error>>) {
    let (done, answer) = oneshot::channel();
    let work = Box::new(move || {
        let _ = done.send(work());
    });
    let answer = async move {
        answer.await.unwrap_or_else(|_| Err(Error::Internal("blocking work panicked".into())))
    };
    (work, answer)
}
