//! The one thread that changes the store.
//!
//! Requests arrive checked and prepared. The committer takes what is waiting, lets each request
//! validate against committed state plus what the group has done so far, gives each its position,
//! writes everything as one atomic batch, makes it durable with one sync, and only then answers
//! all of them. So nothing is acknowledged before it is on disk, and two writers of one item can
//! never miss each other.

mod apply;
mod group;
mod state;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use model::{Lsn, PartitionId};
use storage::{Durability, LocalStore, Op, WriteBatch};
use tokio::sync::{mpsc, oneshot};

use crate::catalog::Container;
use crate::components::Clock;
use crate::keys;
use crate::ops::{EtagCondition, OpResult};
use crate::partition::Partition;
use crate::patch::Patch;
use crate::prepare::{NewItem, Place};
use crate::{Error, ResourceKind};

use group::Group;
pub(crate) use state::{NewPartition, PartitionState};

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
        id: String,
        item: NewItem,
        if_match: Option<EtagCondition>,
    },
    Patch {
        id: String,
        patch: Patch,
        if_match: Option<EtagCondition>,
    },
    Delete {
        id: String,
        if_match: Option<EtagCondition>,
    },
    Read {
        id: String,
        if_none_match: Option<EtagCondition>,
    },
    /// Removes the item if it has not changed since `not_after` (delete by partition key).
    Erase {
        id: String,
        not_after: Lsn,
    },
    /// Removes the item if its time is over.
    Expire {
        id: String,
    },
}

/// Operations on one logical partition that happen together or not at all.
pub(crate) struct ItemCommit {
    pub(crate) container: Arc<Container>,
    pub(crate) partition: Arc<Partition>,
    pub(crate) place: Place,
    pub(crate) ops: Vec<PreparedOp>,
    pub(crate) reply: oneshot::Sender<Result<ItemCommitted, Error>>,
}

/// What became of an [`ItemCommit`].
#[derive(Debug)]
pub(crate) struct ItemCommitted {
    /// Where the partition stands now.
    pub(crate) lsn: Lsn,
    /// One result per operation; when one failed, the others have `FailedDependency`.
    pub(crate) results: Vec<OpResult>,
}

/// A change of the catalog, and of the set of partitions with it.
pub(crate) struct CatalogCommit {
    pub(crate) ops: Vec<Op>,
    pub(crate) create: Vec<NewPartition>,
    pub(crate) retire: Vec<PartitionId>,
    pub(crate) reply: oneshot::Sender<Result<(), Error>>,
}

/// Log entries nobody needs any more.
pub(crate) struct TrimLog {
    pub(crate) partition: PartitionId,
    pub(crate) keys: Vec<Bytes>,
}

/// What the committer can be asked.
pub(crate) enum Command {
    Items(Box<ItemCommit>),
    Catalog(CatalogCommit),
    Trim(TrimLog),
    Stop,
}

/// State of the thread.
pub(crate) struct Committer {
    pub(crate) store: Arc<dyn LocalStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) durability: Durability,
    pub(crate) logical_partition_bytes_max: u64,
    pub(crate) partitions: HashMap<PartitionId, PartitionState, foldhash::fast::FixedState>,
    /// Why writes are refused until the next start: a failed write leaves the journal unknown.
    pub(crate) failed: Option<String>,
}

/// A request that waits for its group to be durable.
struct Waiting {
    partition: Arc<Partition>,
    results: Vec<OpResult>,
    reply: oneshot::Sender<Result<ItemCommitted, Error>>,
}

impl Committer {
    /// Serves until told to stop or until nobody can ask any more.
    pub(crate) fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut next = commands.blocking_recv();
        while let Some(command) = next.take() {
            match command {
                Command::Items(_) | Command::Trim(_) => {
                    next = self.commit_group(command, &mut commands);
                }
                Command::Catalog(commit) => self.commit_catalog(commit),
                Command::Stop => return,
            }
            if next.is_none() {
                next = commands.blocking_recv();
            }
        }
    }

    /// Commits `first` and what else is waiting. Returns a command that belongs to no group.
    fn commit_group(
        &mut self,
        first: Command,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Option<Command> {
        let mut group = Group::new(self.store.view());
        let mut waiting = Vec::new();
        let mut left_over = None;
        let mut command = Some(first);
        for _ in 0..GROUP_REQUESTS_MAX {
            match command.take() {
                Some(Command::Items(commit)) => waiting.push(self.join(&mut group, *commit)),
                Some(Command::Trim(trim)) => self.trim(&mut group, trim),
                Some(other @ (Command::Catalog(_) | Command::Stop)) => {
                    left_over = Some(other);
                    break;
                }
                None => break,
            }
            if group.bytes() >= GROUP_BYTES_MAX {
                break;
            }
            command = commands.try_recv().ok();
        }
        // A command taken off the queue when the request limit ended the loop must not be lost.
        left_over = left_over.or(command);
        let stored = self.store_group(group);
        self.answer(waiting, stored);
        left_over
    }

    /// Applies one request to the group, or leaves the group as it was.
    fn join(&mut self, group: &mut Group, commit: ItemCommit) -> Waiting {
        let ItemCommit { container, partition, place, ops, reply } = commit;
        let total = ops.len();
        let results = match self.partitions.get_mut(&partition.id) {
            None => failed_all(total, &|| Error::OwnerNotFound {
                kind: ResourceKind::Container,
                id: container.spec.id.clone(),
            }),
            Some(state) => {
                let before = *state;
                let rules = apply::Rules {
                    container: &container,
                    partition: partition.id,
                    place: &place,
                    now_seconds: self.clock.now().seconds(),
                    logical_partition_bytes_max: self.logical_partition_bytes_max,
                };
                let applied =
                    catch_unwind(AssertUnwindSafe(|| apply::all(group, state, &rules, ops)));
                let applied = applied.unwrap_or_else(|_| {
                    tracing::error!(partition = %partition.id, "a commit panicked");
                    failed_all(total, &|| Error::Internal("the commit panicked".into()))
                });
                if applied.iter().all(|r| r.outcome.is_ok()) {
                    if *state != before {
                        let encoded = state.encode();
                        group.put(partition.id, keys::PARTITION_STATE.into(), encoded);
                    }
                    group.accept();
                } else {
                    *state = before;
                    group.reject();
                }
                applied
            }
        };
        Waiting { partition, results, reply }
    }

    fn trim(&self, group: &mut Group, trim: TrimLog) {
        if self.partitions.contains_key(&trim.partition) {
            for key in trim.keys {
                group.delete(trim.partition, key);
            }
            group.accept();
        }
    }

    fn store_group(&mut self, group: Group) -> Result<(), Error> {
        let batch = group.into_batch();
        if batch.ops.is_empty() {
            return Ok(());
        }
        self.write(batch)
    }

    fn write(&mut self, batch: WriteBatch) -> Result<(), Error> {
        if let Some(reason) = &self.failed {
            return Err(Error::Unavailable(reason.clone()));
        }
        self.store.write(batch, self.durability).map_err(|error| {
            // The counters in memory are ahead of the store now and the journal's tail is unknown;
            // only a restart, which reads both back, can go on safely.
            let reason = format!("writes are refused since one failed: {error}; restart to go on");
            tracing::error!(%error, "a write failed; refusing writes until restart");
            self.failed = Some(reason);
            Error::from(error)
        })
    }

    fn answer(&self, waiting: Vec<Waiting>, stored: Result<(), Error>) {
        let failure = stored.err().map(|e| e.to_string());
        for Waiting { partition, results, reply } in waiting {
            let answer = match &failure {
                Some(reason) => Err(Error::Unavailable(reason.clone())),
                None => {
                    if let Some(state) = self.partitions.get(&partition.id) {
                        partition.publish(state);
                    }
                    Ok(ItemCommitted { lsn: partition.lsn(), results })
                }
            };
            // A caller that went away does not need its answer.
            let _ = reply.send(answer);
        }
    }

    fn commit_catalog(&mut self, commit: CatalogCommit) {
        let mut ops = commit.ops;
        for new in &commit.create {
            ops.push(Op::Put { p: new.id, k: keys::PARTITION_STATE.into(), v: new.state.encode() });
        }
        let stored = self.write(WriteBatch { ops });
        if stored.is_ok() {
            self.partitions.extend(commit.create.iter().map(|new| (new.id, new.state)));
            for p in &commit.retire {
                self.partitions.remove(p);
            }
        }
        let _ = commit.reply.send(stored);
    }
}

fn failed_all(total: usize, error: &dyn Fn() -> Error) -> Vec<OpResult> {
    let failed = || OpResult { outcome: Err(error()), charge: model::Charge::ZERO };
    std::iter::repeat_with(failed).take(total).collect()
}
