//! The one worker that changes the store.
//!
//! Requests arrive checked and prepared. The committer takes what is waiting, lets each request
//! validate against committed state plus what the group has done so far, gives each its position,
//! writes everything as one atomic batch, makes it durable with one sync, and only then answers all
//! of them. So nothing is acknowledged before it is on disk, and two concurrent writers of one item
//! always see each other's writes.

mod apply;
mod clock;
mod clock_watch;
mod disk_space;
mod group;
mod mirror;
mod read_set;
mod reindex;
mod reopen;
mod retry;
mod run;
mod stamp;
mod state;
mod together;
mod trim;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use hashbrown::HashMap;
use model::{Charge, Lsn, PartitionId};
use storage::{Durability, LocalStore, Op, WriteBatch};
use tokio::sync::{OwnedMutexGuard, mpsc, oneshot};

use crate::catalog::record::MetaRecord;
use crate::catalog::{Catalog, Container, OfferTarget};
use crate::components::{Clock, Worker, WorkerStep};
use crate::governor::Governor;
use crate::item::Etag;
use crate::keys;
use crate::old_version::OldVersion;
use crate::ops::{AnswerLimit, EtagCondition, OpResult};
use crate::partition::{Partition, PartitionStatus};
use crate::patch::Patch;
use crate::planted::{Bug, is_planted};
use crate::prepare::{LogicalPartition, NewItem};
use crate::routing::PartitionRange;
use crate::update::Update;
use crate::{Error, RangeId, ResourceKind, RowKey, ru};

use disk_space::DiskNeed;
use reopen::key_of;
use run::WaitingRun;
use together::WaitingTogether;

pub(crate) use apply::{CommitContext, NUMBERS_LEASED};
pub(crate) use clock::CommitClock;
pub use clock::CommitTime;
pub(crate) use clock_watch::ClockWatch;
pub(crate) use disk_space::DiskSpaceWatch;
pub(crate) use group::Group;
pub(crate) use mirror::{
    ChunkOutcome, CopyChunk, CopyProgress, CutOver, Mirror, MirrorTarget, Mirrors, NewMirror,
};
pub(crate) use read_set::ReadSet;
pub(crate) use reindex::{ReindexPosition, ReindexProgress, ReindexStep};
pub(crate) use retry::{RetryRecord, RetryStatement};
pub(crate) use run::{RunCommit, RunCommitted, RunPart};
pub(crate) use stamp::{Stamp, Stamps};
pub(crate) use state::{LogicalCounters, NewPartition, PartitionState, logical_bytes};
pub(crate) use together::{TogetherCommit, TogetherPart};

/// Most requests of one group.
const GROUP_REQUESTS_MAX: usize = 256;
/// A group is closed once it holds this much.
const GROUP_BYTES_MAX: usize = 4 * 1024 * 1024;

/// One operation of a commit, as [`crate::ops::ItemOp`] after the checks that need no store.
#[derive(Debug)]
pub(crate) enum PreparedOp {
    Create(NewItem),
    Upsert(NewItem, Option<EtagCondition>),
    Replace {
        id: RowKey,
        item: NewItem,
        if_match: Option<EtagCondition>,
    },
    Patch(Box<PreparedPatch>),
    /// Replaces the version `made_from` by one that was made from it off this thread.
    Swap {
        id: RowKey,
        item: NewItem,
        made_from: Etag,
    },
    Update(Box<PreparedUpdate>),
    /// Stores what an update of the version `made_from` came to off this thread.
    Settle {
        id: RowKey,
        change: SettledChange,
        made_from: Etag,
    },
    Delete {
        id: RowKey,
        if_match: Option<EtagCondition>,
        /// What the version that it will probably delete has beside its row, if that was computed.
        old: Option<Arc<OldVersion>>,
    },
    Read {
        id: RowKey,
        if_none_match: Option<EtagCondition>,
    },
    /// Removes the item if it has not changed since `not_after` (delete by partition key).
    Erase {
        id: RowKey,
        not_after: Lsn,
    },
    /// Removes the item if it has expired.
    Expire {
        id: RowKey,
    },
}

/// A change of an item that depends on its stored version.
#[derive(Clone, Debug)]
pub(crate) struct PreparedPatch {
    pub(crate) id: RowKey,
    pub(crate) patch: Patch,
    pub(crate) if_match: Option<EtagCondition>,
    /// What is stored if the item does not exist.
    pub(crate) or_create: Option<NewItem>,
}

/// An update, whose outcome depends on the stored version.
#[derive(Clone, Debug)]
pub(crate) struct PreparedUpdate {
    pub(crate) id: RowKey,
    pub(crate) update: Arc<dyn Update>,
    pub(crate) if_match: Option<EtagCondition>,
}

/// What an update of a stored item came to.
#[derive(Debug)]
pub(crate) enum SettledChange {
    Keep,
    Put(Box<NewItem>),
    Delete,
}

impl PreparedOp {
    /// Row keys of the items that the operation concerns.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &RowKey> {
        let (first, second) = match self {
            PreparedOp::Create(item) | PreparedOp::Upsert(item, _) => (&item.id, None),
            PreparedOp::Replace { id, item, .. } | PreparedOp::Swap { id, item, .. } => {
                (id, Some(&item.id))
            }
            PreparedOp::Patch(patch) => (&patch.id, None),
            PreparedOp::Update(update) => (&update.id, None),
            PreparedOp::Settle { id, .. }
            | PreparedOp::Delete { id, .. }
            | PreparedOp::Read { id, .. }
            | PreparedOp::Erase { id, .. }
            | PreparedOp::Expire { id } => (id, None),
        };
        [Some(first), second].into_iter().flatten()
    }

    /// The row key whose version the operation probably replaces or deletes, and where to put what that
    /// version has beside its row. Of an item that is written with less than `bytes_min`, the old
    /// version is most likely small, too, and not worth a read.
    pub(crate) fn replaced(
        &mut self,
        bytes_min: usize,
    ) -> Option<(&RowKey, &mut Option<Arc<OldVersion>>)> {
        let (id, bytes, old) = match self {
            PreparedOp::Upsert(item, _) => (&item.id, item.body.len(), &mut item.replaces),
            PreparedOp::Replace { id, item, .. } | PreparedOp::Swap { id, item, .. } => {
                (&*id, item.body.len(), &mut item.replaces)
            }
            PreparedOp::Delete { id, old, .. } => (&*id, bytes_min, old),
            PreparedOp::Create(_)
            | PreparedOp::Patch(_)
            | PreparedOp::Update(_)
            | PreparedOp::Settle { .. }
            | PreparedOp::Read { .. }
            | PreparedOp::Erase { .. }
            | PreparedOp::Expire { .. } => return None,
        };
        (bytes >= bytes_min && old.is_none()).then_some((id, old))
    }

    /// About how many bytes it stores.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            PreparedOp::Create(item)
            | PreparedOp::Upsert(item, _)
            | PreparedOp::Replace { item, .. }
            | PreparedOp::Swap { item, .. } => item.body.len(),
            PreparedOp::Patch(_)
            | PreparedOp::Update(_)
            | PreparedOp::Settle { .. }
            | PreparedOp::Delete { .. }
            | PreparedOp::Read { .. }
            | PreparedOp::Erase { .. }
            | PreparedOp::Expire { .. } => 0,
        }
    }

    /// What it costs at least if it succeeds, as far as that is known without the store.
    pub(crate) fn least_charge(&self) -> Charge {
        match self {
            PreparedOp::Create(item) | PreparedOp::Upsert(item, _) => {
                ru::create(item.body.len(), item.indexed_values)
            }
            PreparedOp::Replace { item, .. } | PreparedOp::Swap { item, .. } => {
                ru::replace(0, item.body.len(), item.indexed_values)
            }
            PreparedOp::Patch(patch) => match &patch.or_create {
                Some(item) => ru::create(item.body.len(), item.indexed_values),
                None => ru::replace(0, 0, 0),
            },
            PreparedOp::Update(_) => ru::point_read(0),
            PreparedOp::Settle { change, .. } => match change {
                SettledChange::Keep => ru::point_read(0),
                SettledChange::Put(item) => ru::replace(0, item.body.len(), item.indexed_values),
                SettledChange::Delete => ru::delete(0),
            },
            PreparedOp::Delete { .. } => ru::delete(0),
            PreparedOp::Read { .. } => ru::point_read(0),
            PreparedOp::Erase { .. } | PreparedOp::Expire { .. } => Charge::ZERO,
        }
    }
}

/// Operations on one logical partition that happen together or not at all.
pub(crate) struct ItemCommit {
    pub(crate) container: Arc<Container>,
    /// Where the caller found the logical partition; it may have moved since.
    pub(crate) located: PartitionRef,
    pub(crate) logical_partition: LogicalPartition,
    pub(crate) ops: Vec<PreparedOp>,
    pub(crate) terms: CommitTerms,
    pub(crate) reply: oneshot::Sender<Result<ItemCommitted, Error>>,
}

/// What a commit must satisfy besides the conditions of its operations.
#[derive(Default)]
pub(crate) struct CommitTerms {
    /// What must still be current; otherwise the commit fails as overtaken.
    pub(crate) read_set: Option<Box<ReadSet>>,
    /// How large the items may be that it returns.
    pub(crate) answer_limit: Option<Box<AnswerLimit>>,
    /// The statement that it is, where that may be sent again.
    pub(crate) retry: Option<Box<RetryStatement>>,
}

/// The outcome of an [`ItemCommit`].
#[derive(Debug)]
pub(crate) struct ItemCommitted {
    /// The range in which it happened.
    pub(crate) range: RangeId,
    /// The current position of that range.
    pub(crate) lsn: Lsn,
    /// One result per operation; when one failed, the others have `FailedDependency`.
    pub(crate) results: Vec<OpResult>,
}

/// A change of the catalog, and of the set of partitions with it. The committer publishes the new
/// catalog itself, so that a caller who drops its future can't leave a durable change unpublished.
pub(crate) struct CatalogCommit {
    pub(crate) ops: Vec<Op>,
    pub(crate) catalog: Arc<Catalog>,
    /// Containers that are new or have a new description.
    pub(crate) containers: Vec<Arc<Container>>,
    pub(crate) create: Vec<NewPartition>,
    pub(crate) retire: Vec<PartitionId>,
    /// The offer targets whose shares of throughput change.
    pub(crate) provisioned: Vec<OfferTarget>,
    /// Partitions whose rows are to be copied from now on.
    pub(crate) begin: Vec<NewMirror>,
    /// Partitions whose rows are no longer to be copied.
    pub(crate) cancel: Vec<PartitionId>,
    pub(crate) cut_over: Option<CutOver>,
    /// Held until the change is published: the next change builds on it.
    pub(crate) catalog_lock: OwnedMutexGuard<MetaRecord>,
    pub(crate) reply: oneshot::Sender<Result<(), Error>>,
}

/// Log entries and records of sessions that are no longer needed.
pub(crate) struct TrimLog {
    pub(crate) partition: PartitionId,
    pub(crate) keys: Vec<Bytes>,
    /// For every range that is trimmed by itself: the item of the last version among the entries,
    /// and that version's position.
    pub(crate) versions: Vec<(Bytes, Lsn)>,
}

/// The commands of the committer.
pub(crate) enum Command {
    Items(Box<ItemCommit>),
    Run(Box<RunCommit>),
    Together(Box<TogetherCommit>),
    Catalog(Box<CatalogCommit>),
    Trim(TrimLog),
    Copy(CopyChunk),
    Reindex(ReindexStep),
    /// Queries the disk and opens a store that has failed again, if there is room; replies whether
    /// the store takes writes.
    Reopen(oneshot::Sender<bool>),
    Stop,
}

/// A partition as the committer keeps it.
pub(crate) struct Slot {
    pub(crate) state: PartitionState,
    /// The newest description. Every commit is checked against it, whichever one its caller used.
    pub(crate) container: Arc<Container>,
    stamps: Stamps,
}

impl Slot {
    pub(crate) fn new(state: PartitionState, container: Arc<Container>) -> Self {
        Self { state, container, stamps: Stamps::default() }
    }
}

/// The partitions of a store.
pub(crate) type Slots = HashMap<PartitionId, Slot, foldhash::fast::FixedState>;

/// Why the committer takes no more writes; other threads read it.
pub(crate) type Failure = Arc<ArcSwapOption<String>>;

/// The worker and what it works on.
pub(crate) struct Committer {
    pub(crate) commands: mpsc::Receiver<Command>,
    /// Taken off the queue, but to be served next.
    pub(crate) left_over: Option<Command>,
    pub(crate) store: Arc<dyn LocalStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) watch: ClockWatch,
    pub(crate) commit_clock: Arc<CommitClock>,
    pub(crate) durability: Durability,
    pub(crate) logical_partition_bytes_max: u64,
    pub(crate) partition_bytes_max: u64,
    pub(crate) partitions: Slots,
    pub(crate) mirrors: Mirrors,
    pub(crate) published: Arc<ArcSwap<Catalog>>,
    pub(crate) governor: Arc<Governor>,
    /// Retires partitions.
    pub(crate) retire: Box<dyn Fn(Vec<PartitionId>) + Send>,
    /// Groups of item operations so far; background work reads it to make way for writers.
    pub(crate) groups: Arc<AtomicU64>,
    /// Whether the disk has room for more.
    pub(crate) room: DiskSpaceWatch,
    /// Set once a write failed: the journal's tail is unknown until the store is opened again.
    pub(crate) failure: Failure,
    /// Undoes what a failed change of the catalog may have left in the store.
    pub(crate) undo: Option<WriteBatch>,
    /// Starts to send `Reopen` until the store takes writes again.
    pub(crate) reopen_later: Box<dyn Fn() + Send>,
    /// Whether it is being sent.
    pub(crate) is_reopening: bool,
    /// How often the store was opened again.
    pub(crate) reopened: Arc<AtomicU64>,
}

/// A partition and the range that it serves.
pub(crate) struct PartitionRef {
    pub(crate) range: RangeId,
    pub(crate) partition: Arc<Partition>,
}

impl PartitionRef {
    /// That of a range.
    pub(crate) fn of(range: &PartitionRange) -> Self {
        Self { range: range.id, partition: Arc::clone(&range.partition) }
    }
}

/// A request that waits for its group to be durable.
struct Waiting {
    located: PartitionRef,
    /// An error if none of the operations was looked at.
    results: Result<Vec<OpResult>, Error>,
    reply: oneshot::Sender<Result<ItemCommitted, Error>>,
}

/// A chunk that waits for its group to be durable.
type WaitingChunk = (Result<ChunkOutcome, Error>, oneshot::Sender<Result<ChunkOutcome, Error>>);

impl Worker for Committer {
    /// Serves until `Stop` arrives or no sender is left.
    fn run(&mut self) {
        self.guarded((), |committer| {
            while let Some(command) = committer.wait_for_command() {
                if committer.serve(command) == WorkerStep::Ended {
                    return;
                }
            }
        });
    }

    fn try_step(&mut self) -> WorkerStep {
        self.guarded(WorkerStep::Ended, |committer| {
            let next = match committer.left_over.take() {
                Some(command) => Ok(command),
                None => committer.commands.try_recv(),
            };
            match next {
                Ok(command) => committer.serve(command),
                Err(mpsc::error::TryRecvError::Empty) => WorkerStep::Idle,
                Err(mpsc::error::TryRecvError::Disconnected) => WorkerStep::Ended,
            }
        })
    }
}

impl Committer {
    /// Runs `work`; after a panic, writes are refused and the outcome is `panicked`.
    fn guarded<T>(&mut self, panicked: T, work: impl FnOnce(&mut Self) -> T) -> T {
        catch_unwind(AssertUnwindSafe(|| work(self))).unwrap_or_else(|_| {
            tracing::error!("the committer panicked; refusing writes until restart");
            let reason = "writes are refused since the committer panicked".to_owned();
            self.failure.store(Some(Arc::new(reason)));
            panicked
        })
    }

    fn wait_for_command(&mut self) -> Option<Command> {
        self.left_over.take().or_else(|| self.commands.blocking_recv())
    }

    /// Carries out `command`, together with others that can share its group.
    fn serve(&mut self, command: Command) -> WorkerStep {
        match command {
            Command::Items(_)
            | Command::Run(_)
            | Command::Together(_)
            | Command::Trim(_)
            | Command::Copy(_) => self.commit_group(command),
            Command::Catalog(commit) => self.commit_catalog(*commit),
            Command::Reindex(step) => self.reindex(step),
            Command::Reopen(reply) => {
                let _ = reply.send(self.reopen());
            }
            Command::Stop => return WorkerStep::Ended,
        }
        WorkerStep::Worked
    }

    /// Commits `first` and the commands that wait, up to one that belongs to no group.
    fn commit_group(&mut self, first: Command) {
        self.room.refresh(self.store.as_ref(), self.clock.as_ref());
        let mut group = Group::new(self.store.view());
        let mut waiting = Vec::new();
        let mut chunks: Vec<WaitingChunk> = Vec::new();
        let mut runs: Vec<WaitingRun> = Vec::new();
        let mut together: Vec<WaitingTogether> = Vec::new();
        let mut command = Some(first);
        for _ in 0..GROUP_REQUESTS_MAX {
            match command.take() {
                Some(Command::Items(commit)) => {
                    let ItemCommit { container, located, logical_partition, ops, terms, reply } =
                        *commit;
                    let (located, results) =
                        self.join(&mut group, &container, located, &logical_partition, ops, terms);
                    waiting.push(Waiting { located, results, reply });
                }
                Some(Command::Run(run)) => runs.push(self.join_run(&mut group, *run)),
                Some(Command::Together(commit)) => {
                    together.push(self.join_together(&mut group, *commit));
                }
                Some(Command::Trim(trim)) => self.trim(&mut group, trim),
                Some(Command::Copy(chunk)) => chunks.push(self.join_chunk(&mut group, chunk)),
                Some(
                    other @ (Command::Catalog(_)
                    | Command::Reindex(_)
                    | Command::Reopen(_)
                    | Command::Stop),
                ) => {
                    command = Some(other);
                    break;
                }
                None => break,
            }
            if group.bytes() >= GROUP_BYTES_MAX {
                break;
            }
            command = self.commands.try_recv().ok();
        }
        // A command taken off the queue must not be lost, whatever ended the loop.
        self.left_over = command;
        if is_planted(Bug::AnswerBeforeWriting) {
            self.answer(std::mem::take(&mut waiting), Ok(true));
        }
        let stored = self.store_group(group);
        if !(waiting.is_empty() && runs.is_empty() && together.is_empty()) {
            self.groups.fetch_add(1, Ordering::Relaxed);
        }
        for (outcome, reply) in chunks {
            let _ = reply.send(match &stored {
                Ok(_) => outcome,
                Err(error) => Err(Error::Unavailable(error.to_string())),
            });
        }
        self.answer_runs(runs, &stored);
        self.answer_together(together, &stored);
        self.answer(waiting, stored);
    }

    /// Applies a commit to the group, or leaves the group unchanged. Returns where that happened.
    fn join(
        &mut self,
        group: &mut Group,
        container: &Container,
        located: PartitionRef,
        logical_partition: &LogicalPartition,
        ops: Vec<PreparedOp>,
        terms: CommitTerms,
    ) -> (PartitionRef, Result<Vec<OpResult>, Error>) {
        let CommitTerms { read_set, answer_limit, retry } = terms;
        if let Some(reason) = &*self.failure.load() {
            return (located, Err(Error::Unavailable(reason.to_string())));
        }
        let need = DiskNeed::of_items(&ops);
        if let Err(room) = self.room.check(need) {
            return (located, Err(room.refusal()));
        }
        let located = match self.partitions.contains_key(&located.partition.id) {
            true => located,
            false => match self.locate_anew(container, logical_partition) {
                Some(found) => PartitionRef::of(&found),
                None => {
                    let missing = Error::OwnerNotFound {
                        kind: ResourceKind::Container,
                        id: container.spec.id.clone(),
                    };
                    return (located, Err(missing));
                }
            },
        };
        let partition = &located.partition;
        let results = match (partition.check_serving(), self.partitions.get_mut(&partition.id)) {
            (Ok(_), Some(slot)) => {
                let is_current = read_set.map_or(Ok(true), |read_set| {
                    read_set.is_current(group, &slot.state, partition.id, logical_partition)
                });
                match is_current {
                    Ok(true) => {}
                    Ok(false) => {
                        return (located, Err(Error::Overtaken));
                    }
                    Err(error) => {
                        return (located, Err(Error::Unavailable(error.to_string())));
                    }
                }
                let now = self.clock.now();
                self.watch.look(now.seconds(), slot.state.ts, self.clock.as_ref());
                let commit_time = self.commit_clock.next(now);
                let now = slot.stamps.next(now, slot.state.lsn.next());
                let context = CommitContext {
                    container: &slot.container,
                    partition: partition.id,
                    logical_partition,
                    now,
                    commit_time,
                    logical_partition_bytes_max: self.logical_partition_bytes_max,
                    partition_bytes_max: self.partition_bytes_max,
                    answer_limit: answer_limit.as_deref(),
                };
                Ok(apply_or_undo(group, &mut slot.state, &context, ops, retry.as_deref()))
            }
            _ => Err(Error::RangeMoving),
        };
        (located, results)
    }

    /// The range that holds a logical partition now that its former partition is gone.
    fn locate_anew(
        &self,
        container: &Container,
        logical_partition: &LogicalPartition,
    ) -> Option<PartitionRange> {
        if is_planted(Bug::NotLocatedAnew) {
            return None;
        }
        let catalog = self.published.load();
        let container = catalog.container_by_rid(container.rid)?;
        Some(container.routing().locate(&logical_partition.epk).clone())
    }

    fn join_chunk(&mut self, group: &mut Group, mut chunk: CopyChunk) -> WaitingChunk {
        let (unused, _) = oneshot::channel();
        let reply = std::mem::replace(&mut chunk.reply, unused);
        if let Err(room) = self.room.check(DiskNeed::Room) {
            return (Err(room.refusal()), reply);
        }
        let outcome = self.mirrors.take_chunk(group, chunk);
        match outcome {
            Ok(_) => group.accept(),
            Err(_) => group.reject(),
        }
        (outcome, reply)
    }

    /// Writes the group. Returns whether anything was written.
    fn store_group(&mut self, mut group: Group) -> Result<bool, Error> {
        self.mirrors.repeat(&mut group);
        let batch = group.into_batch();
        if batch.ops.is_empty() {
            return Ok(false);
        }
        self.write(batch).map(|()| true)
    }

    fn write(&mut self, batch: WriteBatch) -> Result<(), Error> {
        if let Some(reason) = &*self.failure.load() {
            return Err(Error::Unavailable(reason.to_string()));
        }
        let written = self.store.write(batch, self.durability).map_err(Error::from);
        written.inspect_err(|error| self.give_up(error))
    }

    /// Takes no more writes for now. The counters in memory are ahead of the store and the
    /// journal's tail is unknown; only opening the store again, which reads both back, lets writes
    /// continue.
    fn give_up(&mut self, error: &Error) {
        let way_out = match self.store.can_reopen() {
            true => "the store is reopened when disk space is free",
            false => "restart the server",
        };
        tracing::error!(%error, "a write failed; refusing writes: {way_out}");
        self.failed(format!("writes are refused since one failed: {error}; {way_out}"));
    }

    fn answer(&self, waiting: Vec<Waiting>, stored: Result<bool, Error>) {
        for Waiting { located, results, reply } in waiting {
            let PartitionRef { range, partition } = located;
            let answer = self.outcome_of(&partition, &stored, results).map(|results| {
                let lsn = partition.lsn();
                ItemCommitted { range, lsn, results }
            });
            // A caller that dropped its receiver does not need the answer.
            let _ = reply.send(answer);
        }
    }

    /// The outcome of a commit in `partition` whose group was stored, or was not.
    fn outcome_of<T>(
        &self,
        partition: &Partition,
        stored: &Result<bool, Error>,
        outcome: Result<T, Error>,
    ) -> Result<T, Error> {
        match stored {
            Err(error) => {
                if is_planted(Bug::UnwrittenPublished)
                    && let Some(slot) = self.partitions.get(&partition.id)
                {
                    partition.publish(&slot.state);
                }
                Err(Error::Unavailable(error.to_string()))
            }
            Ok(is_written) => {
                // Only what is on disk is published: positions of a group that was not written must
                // never reach a session token.
                if *is_written && let Some(slot) = self.partitions.get(&partition.id) {
                    partition.publish(&slot.state);
                    self.commit_clock.reach(slot.state.clock);
                    slot.container.changes.tell();
                }
                outcome
            }
        }
    }

    fn commit_catalog(&mut self, commit: CatalogCommit) {
        let began = self.clock.monotonic();
        self.room.refresh(self.store.as_ref(), self.clock.as_ref());
        if let Err(room) = self.room.check(DiskNeed::of_catalog(&commit)) {
            let _ = commit.reply.send(Err(room.refusal()));
            return;
        }
        let CatalogCommit {
            mut ops,
            catalog,
            containers,
            mut create,
            retire,
            catalog_lock,
            reply,
            ..
        } = commit;
        if let Some(cut_over) = &commit.cut_over {
            match self.states_after(cut_over) {
                Ok(states) => create.extend(states),
                Err(error) => {
                    drop(catalog_lock);
                    let _ = reply.send(Err(error));
                    return;
                }
            }
        }
        let begun = commit.begin.iter().flat_map(|new| new.mirror.targets());
        let empty = begun.map(|id| NewPartition { id, state: PartitionState::default() });
        for new in create.iter().copied().chain(empty) {
            let value = new.state.encode();
            ops.push(Op::Put { p: new.id, k: keys::PARTITION_STATE.into(), v: value });
        }
        let cancelled = commit.cancel.iter();
        ops.extend(cancelled.map(|p| Op::Del { p: *p, k: keys::COPY_PROGRESS.into() }));
        match self.notes_of_trimming(commit.cut_over.as_ref(), &containers) {
            Ok(notes) => ops.extend(notes),
            Err(error) => {
                drop(catalog_lock);
                let _ = reply.send(Err(error));
                return;
            }
        }
        let changed: Vec<_> = ops.iter().map(key_of).collect();
        let stored = self.write(WriteBatch { ops });
        if stored.is_err() {
            self.note_undo(changed);
        }
        if stored.is_ok() {
            for NewMirror { source, mirror } in commit.begin {
                self.mirrors.attach(source, mirror, |_| PartitionState::default());
            }
            for source in &commit.cancel {
                self.mirrors.detach(*source);
            }
            let held_micros = commit.cut_over.as_ref().map(|c| Arc::clone(&c.held_micros));
            if let Some(cut_over) = commit.cut_over {
                self.governor.hand_over(&catalog, &cut_over);
                self.change_over(cut_over, &create);
            }
            if let Some(held_micros) = held_micros {
                let held = self.clock.monotonic().saturating_sub(began).as_micros();
                held_micros.store(u64::try_from(held).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
            self.adopt(containers, &create);
            for p in &retire {
                self.partitions.remove(p);
            }
            self.governor.assign(&catalog, commit.provisioned);
            self.published.store(catalog);
        }
        drop(catalog_lock);
        let is_stored = stored.is_ok();
        let _ = reply.send(stored);
        if is_stored && !retire.is_empty() {
            (self.retire)(retire);
        }
    }

    /// The counters that the new partitions of a split or merge begin with. Their position is that
    /// of the partitions they replace, so that session tokens and feeds stay valid.
    fn states_after(&self, cut_over: &CutOver) -> Result<Vec<NewPartition>, Error> {
        let sources: Vec<_> = cut_over.sources.iter().map(|p| p.id).collect();
        let before: Vec<_> =
            sources.iter().filter_map(|p| Some(self.partitions.get(p)?.state)).collect();
        let lsn = before.iter().map(|s| s.lsn).max().unwrap_or_default();
        let ts = before.iter().map(|s| s.ts).max().unwrap_or_default();
        let clock = before.iter().map(|s| s.clock).max().unwrap_or_default();
        let state_of = |target: &Arc<Partition>| {
            let copied = self
                .mirrors
                .finished(&sources, target.id)
                .ok_or_else(|| Error::Internal("changing over before all is copied".into()))?;
            let lsn = if is_planted(Bug::PositionNotInherited) { copied.lsn } else { lsn };
            Ok(NewPartition { id: target.id, state: PartitionState { lsn, ts, clock, ..copied } })
        };
        cut_over.targets.iter().map(state_of).collect()
    }

    /// Lets the new partitions of a split or merge replace the old ones. A reader that finds its
    /// partition gone reads the routing map again, so the map is published first.
    fn change_over(&mut self, cut_over: CutOver, create: &[NewPartition]) {
        let CutOver { sources, targets, container, routing, held_micros: _ } = cut_over;
        for target in &targets {
            if let Some(new) = create.iter().find(|new| new.id == target.id) {
                target.publish(&new.state);
            }
        }
        container.routing.store(routing);
        for source in sources {
            source.set_status(PartitionStatus::Gone);
            self.mirrors.detach(source.id);
            self.partitions.remove(&source.id);
        }
    }

    fn adopt(&mut self, containers: Vec<Arc<Container>>, create: &[NewPartition]) {
        for container in containers {
            for range in container.routing().ranges() {
                let id = range.partition.id;
                let new = create.iter().find(|new| new.id == id).map(|new| new.state);
                let container = Arc::clone(&container);
                match (self.partitions.get_mut(&id), new) {
                    (Some(slot), _) => slot.container = container,
                    (None, Some(state)) => {
                        self.partitions.insert(id, Slot::new(state, container));
                    }
                    (None, None) => {}
                }
            }
        }
    }
}

/// Runs a request's operations and keeps either all of what they did or nothing.
pub(crate) fn apply_or_undo(
    group: &mut Group,
    state: &mut PartitionState,
    context: &CommitContext<'_>,
    ops: Vec<PreparedOp>,
    retry: Option<&RetryStatement>,
) -> Vec<OpResult> {
    let (before, total) = (*state, ops.len());
    let applied = catch_unwind(AssertUnwindSafe(|| match retry {
        None => apply::apply_all(group, state, context, ops),
        Some(statement) => retry::apply_once(group, state, context, ops, statement),
    }));
    let results = applied.unwrap_or_else(|_| {
        tracing::error!(partition = %context.partition, "a commit panicked");
        let failed = || Err(Error::Internal("the commit panicked".into()));
        let failed = || OpResult { outcome: failed(), charge: Charge::ZERO };
        std::iter::repeat_with(failed).take(total).collect()
    });
    if results.iter().all(|result| !result.has_failed()) {
        if *state != before && !is_planted(Bug::StateLeftOut) {
            group.put(context.partition, keys::PARTITION_STATE.into(), state.encode());
        }
        group.accept();
    } else {
        if is_planted(Bug::CountersNotUndone) {
            *state = PartitionState { lsn: before.lsn, ts: before.ts, ..*state };
        } else {
            *state = before;
        }
        if is_planted(Bug::BatchNotUndone) && total > 1 {
            group.accept();
        } else {
            group.reject();
        }
    }
    results
}
