//! One public method per operation.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use model::{Charge, ErrorKind, Lsn, PartitionId, PartitionKey, limits};
use storage::{Durability, LocalStore, Room, View};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::catalog::{self, Catalog, Container, ThroughputLimits};
use crate::commit::{
    ClockWatch, Command, Committer, DiskSpaceWatch, Failure, ItemCommit, ItemCommitted, PreparedOp,
    PreparedPatch, ReadSet, TrimLog,
};
use crate::components::Ended;
use crate::context::Admission;
use crate::continuation::TokenKey;
use crate::governor::{Governor, Paid, Throttling};
use crate::ops::{EtagCondition, ItemOp, ItemOutcome, OpResult};
use crate::partition::{self, Reader, Serving};
use crate::patch::Patch;
use crate::planted::{Bug, is_planted};
use crate::prepare::{self, LogicalPartition, LogicalPartitionId};
use crate::repartition::{self, Jobs};
use crate::routing::PartitionRange;
use crate::script_pool::ScriptPool;
use crate::task_tracker::TaskTracker;
use crate::transact::ConflictLocks;
use crate::{Components, Error, RangeId, RequestContext, StoredItem, keys, ru, ttl};

/// Requests that may wait for the committer before callers have to.
pub(crate) const COMMITS_QUEUED_MAX: usize = 1024;

/// Largest item that the committer patches itself.
const PATCH_BYTES_IN_COMMITTER: usize = 16 * 1024;
/// How often a patch is computed again because another writer was faster.
const PATCH_ATTEMPTS_MAX: usize = 3;
/// How long closing waits for reads under way.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(5);
/// How often opening a failed store again is tried.
const REOPEN_EVERY: Duration = Duration::from_secs(1);

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
    /// Whether small neighbours are merged when the throughput allows it.
    pub auto_merge: bool,
    /// From this many items on, vectors of a container are put into cells, unless their index is
    /// exact.
    pub vectors_in_cells: u64,
    /// Whether acknowledged writes are on disk.
    pub durability: Durability,
    /// Most threads that run scripts.
    pub script_threads: usize,
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
            auto_merge: false,
            vectors_in_cells: 10_000,
            durability: Durability::Synced,
            script_threads: 2,
        }
    }
}

impl Settings {
    /// Most bytes of a logical partition: it can't be split, so it can't outgrow a physical one.
    fn logical_partition_limit(&self) -> u64 {
        self.logical_partition_bytes_max.min(self.partition_bytes_max)
    }
}

/// A running engine over one store. Clones share it.
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
    groups: Arc<AtomicU64>,
    committer: Mutex<Option<Ended>>,
    tasks: TaskTracker,
    pub(crate) failure: Failure,
    /// How often the store was opened again.
    pub(crate) reopened: Arc<AtomicU64>,
    /// Whether the disk had too little room at the committer's last check.
    is_low: Arc<AtomicBool>,
}

impl Inner {
    /// Completes when no task or script reads the store any more.
    async fn all_ended(&self) {
        self.scripts.close().await;
        self.tasks.ended().await;
    }
}

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
        let failure = Failure::default();
        let (is_low, reopened) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let groups = Arc::new(AtomicU64::new(0));
        let committer = Committer {
            commands: queue,
            left_over: None,
            store: Arc::clone(&store),
            clock: Arc::clone(&components.clock),
            watch,
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
                governor,
                jobs: Jobs::default(),
                scripts: ScriptPool::new(Arc::clone(&components.spawner), settings.script_threads),
                settings,
                conflicts: ConflictLocks::default(),
                monitor: Arc::new(Notify::new()),
                index_changed: Arc::new(Notify::new()),
                index_completed: Notify::new(),
                groups,
                committer: Mutex::new(Some(committer)),
                tasks,
                failure,
                reopened,
                is_low,
                components,
            }),
        };
        ttl::start_sweep(&engine);
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

    /// The health of the store, and whether writes reach it. Queries the disk: not for an async
    /// thread.
    pub fn health(&self) -> storage::Health {
        let store = self.inner.store.health();
        let failure = self.inner.failure.load_full();
        let room = self.inner.store.room();
        let has_room = room.is_none_or(|room| room.is_enough());
        let failed_by_itself =
            !store.writable && failure.is_none() && self.inner.store.can_reopen();
        if failed_by_itself || (has_room && self.inner.is_low.load(Ordering::Relaxed)) {
            // No write would notice it. If the queue is full, there are writes that do.
            let (reply, _) = oneshot::channel();
            let _ = self.inner.commits.try_send(Command::Reopen(reply));
        }
        let takes_writes = failure.is_none() && !self.inner.commits.is_closed();
        let reason = match (failure, room) {
            (Some(failure), _) => Some(failure.to_string()),
            (None, Some(Room { free_bytes, floor_bytes })) if !has_room => {
                Some(Error::DiskAlmostFull { free_bytes, floor_bytes }.to_string())
            }
            (None, _) => store.reason,
        };
        let writable = store.writable && takes_writes && has_room;
        storage::Health { writable, reason, room, ..store }
    }

    pub(crate) fn logical_partition_bytes_max(&self) -> u64 {
        self.inner.settings.logical_partition_limit()
    }

    /// Why the committer takes no commands.
    pub(crate) fn stopped(&self) -> Error {
        let reason = self.inner.failure.load().as_ref().map(ToString::to_string);
        Error::Unavailable(reason.unwrap_or_else(|| "the server is shutting down".into()))
    }

    /// Reads one item. If `if_none_match` is met, the result is [`Error::NotModified`].
    pub fn read_item(
        &self,
        ctx: &mut RequestContext,
        container: &Container,
        key: &PartitionKey,
        id: &str,
        if_none_match: Option<&EtagCondition>,
    ) -> Result<StoredItem, Error> {
        check_addressed_id(id)?;
        let logical_partition = LogicalPartition::of(container, key)?;
        loop {
            let routing = container.routing.load();
            let range = routing.locate(&logical_partition.epk);
            let paid = self.admit(ctx, range, ru::point_read(0))?;
            ctx.served.charge = ru::point_read(0);
            let at = range.partition.lsn();
            let Some(view) = self.view_of([range])? else {
                range.partition.meter.settle(paid, Charge::ZERO, None);
                continue;
            };
            ctx.served.touch(range.id, at);
            let (p, reader) = (range.partition.id, self.reader(container));
            let found = check_session(&ctx.session, range, at).and_then(|()| {
                partition::fetch(view.as_ref(), p, reader, &logical_partition.logical_key, id)
            });
            let read = found_item(ctx, found, id, if_none_match);
            range.partition.meter.settle(
                paid,
                ctx.served.charge,
                Some(&logical_partition.into_id()),
            );
            return read;
        }
    }

    /// Carries out one operation as one commit. The key must have all components; `None` takes it
    /// from the body (not possible for patch, delete and read).
    pub async fn write_item(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        key: Option<PartitionKey>,
        op: ItemOp,
    ) -> Result<ItemOutcome, Error> {
        let named = key.map(|key| LogicalPartition::of(container, &key)).transpose()?;
        let (logical_partition, op) = prepare_op(container, named.as_ref(), op)?;
        let routing = container.routing();
        let range = routing.locate(&logical_partition.epk).clone();
        let paid = self.admit(ctx, &range, op.least_charge())?;
        let name = logical_partition.id();
        let committed = if let PreparedOp::Patch(op) = op {
            // Boxed, so that the futures of the other operations do not hold its state.
            Box::pin(self.commit_patch(container, &range, logical_partition, op)).await
        } else {
            self.commit(container, &range, logical_partition, vec![op]).await
        };
        range.partition.meter.settle(paid, charge_of(&committed), Some(&name));
        let committed = committed?;
        ctx.served.touch(committed.range, committed.lsn);
        let Some(result) = committed.results.into_iter().next() else {
            return Err(Error::Internal("a commit without a result".into()));
        };
        ctx.served.charge = result.charge;
        if let Ok(Some(item)) = result.outcome.as_ref().map(ItemOutcome::item) {
            ctx.served.item_lsn = Some(item.lsn());
        }
        result.outcome
    }

    /// Carries out all operations as one commit, or none.
    pub async fn write_batch(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        key: PartitionKey,
        ops: Vec<ItemOp>,
    ) -> Result<Vec<OpResult>, Error> {
        let logical_partition = LogicalPartition::of(container, &key)?;
        let routing = container.routing();
        let range = routing.locate(&logical_partition.epk).clone();
        let at = range.partition.lsn();
        ctx.served.touch(range.id, at);
        check_session(&ctx.session, &range, at)?;
        let total = ops.len();
        let mut prepared = Vec::with_capacity(total);
        for (index, op) in ops.into_iter().enumerate() {
            match prepare_op(container, Some(&logical_partition), op) {
                Ok((_, op)) => prepared.push(op),
                Err(error) => return Ok(failed_batch(total, index, error)),
            }
        }
        let least = prepared.iter().map(PreparedOp::least_charge).sum();
        let paid = self.admit(ctx, &range, least)?;
        let name = logical_partition.id();
        let committed = self.commit(container, &range, logical_partition, prepared).await;
        ctx.served.charge = charge_of(&committed);
        range.partition.meter.settle(paid, ctx.served.charge, Some(&name));
        let committed = committed?;
        ctx.served.touch_instead(range.id, committed.range, committed.lsn);
        Ok(committed.results)
    }

    /// Carries out each operation on its own. With `range`, operations outside it fail with
    /// [`Error::RangeGone`].
    pub async fn bulk(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        range: Option<RangeId>,
        ops: Vec<(Option<PartitionKey>, ItemOp)>,
    ) -> Result<Vec<OpResult>, Error> {
        let routing = container.routing();
        if range.is_some_and(|id| routing.by_id(id).is_none()) {
            return Err(Error::RangeGone);
        }
        // All are handed to the committer before the first answer is awaited, so that they share
        // group commits.
        let mut waiting = Vec::with_capacity(ops.len());
        let mut written = false;
        for (key, op) in ops {
            let is_read = matches!(op, ItemOp::Read { .. });
            let started = self.start_bulk_op(ctx, container, range, key, op, written).await;
            waiting.push(started);
            written |= !is_read;
        }
        let mut results = Vec::with_capacity(waiting.len());
        for started in waiting {
            let result = match started {
                Ok(BulkOp::PendingWrite(writing)) => self.finish_bulk_op(ctx, writing).await,
                Ok(BulkOp::Done(result)) => result,
                Err(error) => OpResult { charge: charge_of_refusal(&error), outcome: Err(error) },
            };
            ctx.served.charge += result.charge;
            results.push(result);
        }
        Ok(results)
    }

    async fn start_bulk_op(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        wanted: Option<RangeId>,
        key: Option<PartitionKey>,
        op: ItemOp,
        is_behind_writes: bool,
    ) -> Result<BulkOp, Error> {
        let named = key.as_ref().map(|key| LogicalPartition::of(container, key)).transpose()?;
        let (logical_partition, op) = prepare_op(container, named.as_ref(), op)?;
        let routing = container.routing();
        let range = routing.locate(&logical_partition.epk).clone();
        if wanted.is_some_and(|id| id != range.id) {
            return Err(Error::RangeGone);
        }
        // Earlier writes of this request may concern the same item and not be committed yet; then
        // the committer reads, in order.
        let name = logical_partition.id();
        // The client may repeat it in another request, with other operations.
        let id = op.ids().next().unwrap_or_default();
        let admission = ctx.admission.of_part(&[&name.digest.to_be_bytes(), id.as_bytes()]);
        if let (PreparedOp::Read { id, if_none_match }, Some(key), false) =
            (&op, &key, is_behind_writes)
        {
            let condition = if_none_match.as_ref();
            return Ok(self.read_in_bulk((ctx, admission), container, key, id, condition));
        }
        let paid = self.try_admit(admission, &range, op.least_charge())?;
        match self.submit(container, &range, logical_partition, vec![op]).await {
            Ok(answer) => {
                Ok(BulkOp::PendingWrite(Box::new(PendingWrite { range, paid, name, answer })))
            }
            Err(error) => {
                range.partition.meter.settle(paid, Charge::ZERO, None);
                Err(error)
            }
        }
    }

    /// A read that waits for no commit.
    fn read_in_bulk(
        &self,
        (ctx, admission): (&mut RequestContext, Admission),
        container: &Container,
        key: &PartitionKey,
        id: &str,
        if_none_match: Option<&EtagCondition>,
    ) -> BulkOp {
        let mut own =
            RequestContext { session: ctx.session.clone(), admission, ..Default::default() };
        let read = self.read_item(&mut own, container, key, id, if_none_match);
        for (range, at) in own.served.ranges {
            ctx.served.touch(range, at);
        }
        BulkOp::Done(OpResult { outcome: read.map(ItemOutcome::Read), charge: own.served.charge })
    }

    async fn finish_bulk_op(
        &self,
        ctx: &mut RequestContext,
        writing: Box<PendingWrite>,
    ) -> OpResult {
        let PendingWrite { range, paid, name, answer } = *writing;
        let committed = answer.await.unwrap_or_else(|_| Err(self.stopped()));
        range.partition.meter.settle(paid, charge_of(&committed), Some(&name));
        let failed = |error| OpResult { outcome: Err(error), charge: Charge::ZERO };
        match committed {
            Ok(committed) => {
                ctx.served.touch(committed.range, committed.lsn);
                let first = committed.results.into_iter().next();
                first.unwrap_or_else(|| failed(Error::Internal("a commit without a result".into())))
            }
            Err(error) => failed(error),
        }
    }

    /// Deletes every item that a logical partition has now.
    pub async fn delete_partition_key(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        key: PartitionKey,
    ) -> Result<(), Error> {
        let logical_partition = LogicalPartition::of(container, &key)?;
        let mut range = container.routing().locate(&logical_partition.epk).clone();
        let not_after = range.partition.lsn();
        ctx.served.touch(range.id, not_after);
        let mut paid = self.admit(ctx, &range, ru::point_read(0))?;
        let mut charge = ru::point_read(0);
        let mut after = None;
        loop {
            let erased =
                self.erase_some(ctx, container, &range, &logical_partition, not_after, after).await;
            if let Ok((deletes, _)) = &erased {
                charge += *deletes;
            }
            ctx.served.charge += charge;
            range.partition.meter.settle(paid, charge, Some(&logical_partition.id()));
            after = erased?.1;
            if after.is_none() {
                return Ok(());
            }
            // The partition that holds the items now pays for the rest.
            let now = container.routing().locate(&logical_partition.epk).clone();
            ctx.served.touch_instead(range.id, now.id, now.partition.lsn());
            range = now;
            // What is deleted stays deleted: a client that is refused here sends the request again
            // for the rest.
            paid = self.try_admit(ctx.admission, &range, Charge::ZERO)?;
            charge = Charge::ZERO;
        }
    }

    /// Deletes the next items of a logical partition after the key `after`. Returns the cost and
    /// the key to continue after.
    async fn erase_some(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        range: &PartitionRange,
        logical_partition: &LogicalPartition,
        not_after: Lsn,
        after: Option<Vec<u8>>,
    ) -> Result<(Charge, Option<Vec<u8>>), Error> {
        let (ids, last) = self.ids_to_erase(container, logical_partition, not_after, after).await?;
        let ops = ids.into_iter().map(|id| PreparedOp::Erase { id, not_after }).collect();
        let committed = self.commit(container, range, logical_partition.clone(), ops).await?;
        ctx.served.touch_instead(range.id, committed.range, committed.lsn);
        let mut charge = Charge::ZERO;
        for result in committed.results {
            charge += result.charge;
            result.outcome?;
        }
        Ok((charge, last))
    }

    /// A patch as one commit. The committer works for all writers, so it computes new versions
    /// itself only of small items. Those of larger items are computed here from the stored version,
    /// and stored if that is still current. After some lost races the committer computes them after
    /// all.
    async fn commit_patch(
        &self,
        container: &Arc<Container>,
        range: &PartitionRange,
        logical_partition: LogicalPartition,
        op: Box<PreparedPatch>,
    ) -> Result<ItemCommitted, Error> {
        let PreparedPatch { id, patch, if_match, .. } = &*op;
        for _ in 0..PATCH_ATTEMPTS_MAX {
            let stored = self.fetch(container, range, &logical_partition, id)?;
            let is_met = |item: &StoredItem| {
                if_match.as_ref().is_none_or(|condition| condition.is_met_by(item))
            };
            // An operation that the stored version rules out is refused by the committer, in order
            // with the rest.
            let Some(stored) = stored.filter(is_met) else { break };
            if stored.body().len() <= PATCH_BYTES_IN_COMMITTER && patch.condition.is_none() {
                break;
            }
            let made_from = stored.etag();
            let (making, patch) = (Arc::clone(container), patch.clone());
            let made =
                self.run_blocking(move || Ok(prepare::patched(&making, &stored, &patch))).await?;
            let item = match made {
                Ok(item) => item,
                Err(error) => return Ok(refused(range, error)),
            };
            let op = PreparedOp::Swap { id: id.clone(), item, made_from };
            let committed =
                self.commit(container, range, logical_partition.clone(), vec![op]).await?;
            if !committed.results.iter().any(|r| matches!(r.outcome, Err(Error::Overtaken))) {
                return Ok(committed);
            }
        }
        self.commit(container, range, logical_partition, vec![PreparedOp::Patch(op)]).await
    }

    fn fetch(
        &self,
        container: &Container,
        range: &PartitionRange,
        logical_partition: &LogicalPartition,
        id: &str,
    ) -> Result<Option<StoredItem>, Error> {
        let view = self.inner.store.view();
        let reader = self.reader(container);
        partition::fetch(
            view.as_ref(),
            range.partition.id,
            reader,
            &logical_partition.logical_key,
            id,
        )
    }

    /// Prepared operations as one commit.
    pub(crate) async fn commit(
        &self,
        container: &Arc<Container>,
        range: &PartitionRange,
        logical_partition: LogicalPartition,
        ops: Vec<PreparedOp>,
    ) -> Result<ItemCommitted, Error> {
        let answer = self.submit(container, range, logical_partition, ops).await?;
        answer.await.unwrap_or_else(|_| Err(self.stopped()))
    }

    pub(crate) async fn submit(
        &self,
        container: &Arc<Container>,
        range: &PartitionRange,
        logical_partition: LogicalPartition,
        ops: Vec<PreparedOp>,
    ) -> Result<PendingCommit, Error> {
        self.submit_validated(container, range, logical_partition, ops, None).await
    }

    /// As [`Engine::submit`], if `read_set` is still current by then.
    pub(crate) async fn submit_validated(
        &self,
        container: &Arc<Container>,
        range: &PartitionRange,
        logical_partition: LogicalPartition,
        ops: Vec<PreparedOp>,
        read_set: Option<Box<ReadSet>>,
    ) -> Result<PendingCommit, Error> {
        let (reply, answer) = oneshot::channel();
        let commit = ItemCommit {
            container: Arc::clone(container),
            range: range.id,
            partition: Arc::clone(&range.partition),
            logical_partition,
            ops,
            read_set,
            reply,
        };
        let command = Command::Items(Box::new(commit));
        self.inner.commits.send(command).await.map_err(|_| self.stopped())?;
        Ok(answer)
    }

    /// A view in which these ranges are current; `None` when one of them is gone and the routing
    /// map must be read again.
    pub(crate) fn view_of<'r>(
        &self,
        ranges: impl IntoIterator<Item = &'r PartitionRange>,
    ) -> Result<Option<Arc<dyn View>>, Error> {
        let view = self.inner.store.view();
        for range in ranges {
            let serving = range.partition.check_serving()?;
            if serving == Serving::Gone && !is_planted(Bug::GoneNotNoticed) {
                return Ok(None);
            }
        }
        Ok(Some(view))
    }

    /// Grows with every group commit of item operations.
    pub(crate) fn commits_seen(&self) -> u64 {
        self.inner.groups.load(Ordering::Relaxed)
    }

    pub(crate) fn reader(&self, container: &Container) -> Reader {
        Reader::new(container, self.inner.components.clock.now().seconds())
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

/// The answer to a commit, once it is durable.
pub(crate) type PendingCommit = oneshot::Receiver<Result<ItemCommitted, Error>>;

/// An operation of a bulk request under way.
enum BulkOp {
    PendingWrite(Box<PendingWrite>),
    Done(OpResult),
}

/// A write of a bulk request that the committer has received.
struct PendingWrite {
    range: PartitionRange,
    paid: Paid,
    name: LogicalPartitionId,
    answer: PendingCommit,
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

/// Checks what can be checked without the store, off the committer's thread.
pub(crate) fn prepare_op(
    container: &Container,
    named: Option<&LogicalPartition>,
    op: ItemOp,
) -> Result<(LogicalPartition, PreparedOp), Error> {
    let addressed = |id: &str| {
        check_addressed_id(id)?;
        named.cloned().ok_or_else(|| {
            Error::BadRequest("PartitionKey value must be supplied for this operation.".into())
        })
    };
    Ok(match op {
        ItemOp::Create { body } => {
            let logical_partition = prepare::logical_partition_of_item(container, named, &body)?;
            (logical_partition, PreparedOp::Create(prepare::new_item(container, body)?))
        }
        ItemOp::Upsert { body, if_match } => {
            let logical_partition = prepare::logical_partition_of_item(container, named, &body)?;
            (logical_partition, PreparedOp::Upsert(prepare::new_item(container, body)?, if_match))
        }
        ItemOp::Replace { id, body, if_match } => {
            check_addressed_id(&id)?;
            let logical_partition = prepare::logical_partition_of_item(container, named, &body)?;
            (
                logical_partition,
                PreparedOp::Replace { id, item: prepare::new_item(container, body)?, if_match },
            )
        }
        ItemOp::Patch { id, patch, if_match } => {
            let patch = PreparedPatch { id, patch, if_match, or_create: None };
            (addressed(&patch.id)?, PreparedOp::Patch(Box::new(patch)))
        }
        ItemOp::Merge { body, if_match, creates, check } => {
            let logical_partition = prepare::logical_partition_of_item(container, named, &body)?;
            let patch = Patch { check, ..Patch::laying_over(&body.value) };
            let item = prepare::new_item(container, body)?;
            let id = item.id.clone();
            let or_create = creates.then_some(item);
            (
                logical_partition,
                PreparedOp::Patch(Box::new(PreparedPatch { id, patch, if_match, or_create })),
            )
        }
        ItemOp::Delete { id, if_match } => (addressed(&id)?, PreparedOp::Delete { id, if_match }),
        ItemOp::Read { id, if_none_match } => {
            (addressed(&id)?, PreparedOp::Read { id, if_none_match })
        }
    })
}

/// No item has an id above the length limit, and stores have limits of their own for keys.
fn check_addressed_id(id: &str) -> Result<(), Error> {
    if id.len() > limits::ITEM_ID_BYTES_MAX {
        let shown: String = id.chars().take(64).collect();
        return Err(Error::item_not_found(&shown));
    }
    Ok(())
}

/// The result of a write that was refused before it reached the committer.
fn refused(range: &PartitionRange, error: Error) -> ItemCommitted {
    let result = OpResult { outcome: Err(error), charge: ru::refused_write() };
    ItemCommitted { range: range.id, lsn: range.partition.lsn(), results: vec![result] }
}

/// Ends a read with the item that was found, if any, which decides the charge.
fn found_item(
    ctx: &mut RequestContext,
    found: Result<Option<StoredItem>, Error>,
    id: &str,
    if_none_match: Option<&EtagCondition>,
) -> Result<StoredItem, Error> {
    let item = found?.ok_or_else(|| Error::item_not_found(id))?;
    ctx.served.item_lsn = Some(item.lsn());
    if if_none_match.is_some_and(|c| c.is_met_by(&item)) {
        return Err(Error::NotModified { etag: item.etag() });
    }
    ctx.served.charge = ru::point_read(item.body().len());
    Ok(item)
}

/// The cost of a commit, whatever its outcome.
fn charge_of(committed: &Result<ItemCommitted, Error>) -> Charge {
    committed.as_ref().map_or(Charge::ZERO, |c| c.results.iter().map(|r| r.charge).sum())
}

/// What an operation reports that was refused before any work was done.
fn charge_of_refusal(error: &Error) -> Charge {
    match error.kind() == ErrorKind::Throttled {
        true => ru::throttled(),
        false => Charge::ZERO,
    }
}

fn failed_batch(total: usize, at: usize, error: Error) -> Vec<OpResult> {
    let mut error = Some(error);
    (0..total)
        .map(|index| {
            let own = if index == at { error.take() } else { None };
            OpResult { outcome: Err(own.unwrap_or(Error::FailedDependency)), charge: Charge::ZERO }
        })
        .collect()
}

/// Refuses to read from a partition that is behind what the caller has already seen.
pub(crate) fn check_session(
    session: &[(RangeId, Lsn)],
    range: &PartitionRange,
    at: Lsn,
) -> Result<(), Error> {
    let is_behind =
        |(id, seen): &(RangeId, Lsn)| (*id == range.id || range.parents.contains(id)) && *seen > at;
    if session.iter().any(is_behind) && !is_planted(Bug::SessionNotChecked) {
        return Err(Error::SessionNotAvailable);
    }
    Ok(())
}
