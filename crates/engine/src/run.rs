//! Many operations of one request, in order, each on its own.

use std::sync::Arc;

use bytes::Bytes;
use model::{Charge, PartitionKey};
use tokio::sync::oneshot;

use crate::catalog::Container;
use crate::commit::{
    Command, CommitTerms, PartitionRef, PreparedOp, RetryStatement, RunCommit, RunCommitted,
    RunPart,
};
use crate::governor::Paid;
use crate::ops::{ItemOp, OpResult};
use crate::prepare::{LogicalPartition, LogicalPartitionId, prepare_op};
use crate::routing::PartitionRange;
use crate::submit::charge_of;
use crate::{Engine, Error, RequestContext};

/// Most operations that are handed over together.
const PART_OPS_MAX: usize = 1024;
/// They are handed over once they have this many bytes.
const PART_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Operations that are carried out in order, each as a commit of its own.
#[derive(Clone, Debug)]
pub struct Run {
    /// The operations. Reads are not among them.
    pub ops: Vec<RunOp>,
    /// Whether those after one that fails are not carried out.
    pub stops_at_error: bool,
    /// The session in which they may be sent again.
    pub retry: Option<RetrySession>,
}

/// An operation of a [`Run`].
#[derive(Clone, Debug)]
pub struct RunOp {
    /// The partition key; `None` takes it from the body, where the operation has one.
    pub key: Option<PartitionKey>,
    /// What to do.
    pub op: ItemOp,
    /// Which statement of the session's command it is.
    pub statement: i32,
}

/// A command of a session that the client may send again when it does not know the outcome. A
/// statement that was carried out is not carried out again; its outcome is what was noted of it
/// ([`ItemOutcome::Repeated`](crate::ops::ItemOutcome::Repeated)). What failed is not noted.
#[derive(Clone, Debug)]
pub struct RetrySession {
    /// Identifies the session; at most [`SESSION_BYTES_MAX`] bytes.
    pub session: Bytes,
    /// The number of the command, which grows within a session.
    pub number: i64,
    /// Notes what must be known of a statement's result when it is sent again.
    pub describe: fn(&[OpResult]) -> Vec<u8>,
}

/// Most bytes of the identity of a session.
pub const SESSION_BYTES_MAX: usize = 128;

impl RetrySession {
    pub(crate) fn statement(&self, statement: i32) -> Result<RetryStatement, Error> {
        let Self { session, number, describe } = self;
        if session.len() > SESSION_BYTES_MAX {
            return Err(Error::TooLarge { what: "the session", max_bytes: SESSION_BYTES_MAX });
        }
        let (session, number, describe) = (session.clone(), *number, *describe);
        Ok(RetryStatement { session, number, statement, describe })
    }
}

/// Operations that are about to be handed over, and what was paid for each.
#[derive(Default)]
struct Part {
    commits: Vec<RunPart>,
    paid: Vec<(PartitionRange, Paid, LogicalPartitionId)>,
    bytes: usize,
}

impl Part {
    fn is_full(&self) -> bool {
        self.commits.len() >= PART_OPS_MAX || self.bytes >= PART_BYTES_MAX
    }
}

/// A part that the committer has received.
struct PendingPart {
    paid: Vec<(PartitionRange, Paid, LogicalPartitionId)>,
    answer: oneshot::Receiver<Vec<RunCommitted>>,
}

/// The progress of a run.
struct Progress {
    results: Vec<OpResult>,
    stops_at_error: bool,
    has_stopped: bool,
}

impl Progress {
    fn push(&mut self, result: OpResult) {
        self.has_stopped |= self.stops_at_error && result.has_failed();
        self.results.push(result);
    }
}

impl Engine {
    /// Carries out operations in order, each on its own. Returns a result for each; where a failure
    /// ends the run, for those up to that one. The first thousand or 4 MB, and so on, are durable
    /// together.
    pub async fn run(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        run: Run,
    ) -> Result<Vec<OpResult>, Error> {
        let Run { ops, stops_at_error, retry } = run;
        let results = Vec::with_capacity(ops.len());
        let mut progress = Progress { results, stops_at_error, has_stopped: false };
        let mut part = Part::default();
        let mut pending: Option<PendingPart> = None;
        for RunOp { key, op, statement } in ops {
            let retry = retry.as_ref().map(|retry| retry.statement(statement)).transpose()?;
            let terms = CommitTerms { retry: retry.map(Box::new), ..CommitTerms::default() };
            let prepared = self.prepare_run_op(ctx, container, key, op, terms);
            let added = prepared.and_then(|(range, paid, commit)| {
                let here = if let PreparedOp::Update(update) = &commit.op {
                    let logical = &commit.logical_partition;
                    self.to_compute_here(container, &range, logical, update)?.is_some()
                } else {
                    false
                };
                Ok((range, paid, commit, here))
            });
            match added {
                Ok((range, paid, commit, false)) => {
                    part.bytes += commit.op.bytes();
                    part.paid.push((range, paid, commit.logical_partition.id()));
                    part.commits.push(commit);
                    if !part.is_full() {
                        continue;
                    }
                    // The next part is prepared while this one becomes durable.
                    self.finish_part(ctx, pending.take(), &mut progress).await;
                    if !progress.has_stopped {
                        pending = self.hand_over(container, &mut part, stops_at_error).await?;
                    }
                }
                Ok((range, paid, commit, true)) => {
                    self.finish_all(ctx, container, &mut pending, &mut part, &mut progress).await?;
                    if !progress.has_stopped {
                        let result = self.run_alone(ctx, container, range, paid, commit).await;
                        progress.push(result);
                    }
                }
                Err(error) => {
                    self.finish_all(ctx, container, &mut pending, &mut part, &mut progress).await?;
                    if !progress.has_stopped {
                        progress.push(OpResult { outcome: Err(error), charge: Charge::ZERO });
                    }
                }
            }
            if progress.has_stopped {
                self.give_back(&mut part);
                return Ok(progress.results);
            }
        }
        self.finish_all(ctx, container, &mut pending, &mut part, &mut progress).await?;
        Ok(progress.results)
    }

    /// Checks an operation and admits it.
    fn prepare_run_op(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        key: Option<PartitionKey>,
        op: ItemOp,
        terms: CommitTerms,
    ) -> Result<(PartitionRange, Paid, RunPart), Error> {
        let named = key.as_ref().map(|key| LogicalPartition::of(container, key)).transpose()?;
        let (logical_partition, op) = prepare_op(container, named.as_ref(), op)?;
        let routing = container.routing();
        let range = routing.locate(&logical_partition.epk).clone();
        let mut ops = [op];
        let logical = &logical_partition.logical_key;
        self.compute_old_versions(container, range.partition.id, logical, &mut ops);
        let [op] = ops;
        let id = op.ids().next().map_or(&[][..], crate::RowKey::as_bytes);
        let digest = logical_partition.id().digest.to_be_bytes();
        let admission = ctx.admission.of_part(&[&digest, id]);
        let paid = self.try_admit(admission, &range, op.least_charge())?;
        let located = PartitionRef::of(&range);
        Ok((range, paid, RunPart { located, logical_partition, op, terms }))
    }

    /// Hands over what is collected.
    async fn hand_over(
        &self,
        container: &Arc<Container>,
        part: &mut Part,
        stops_at_error: bool,
    ) -> Result<Option<PendingPart>, Error> {
        let Part { commits, paid, bytes: _ } = std::mem::take(part);
        if commits.is_empty() {
            return Ok(None);
        }
        let (reply, answer) = oneshot::channel();
        let container = Arc::clone(container);
        let commit = RunCommit { container, commits, stops_at_error, reply };
        let command = Command::Run(Box::new(commit));
        self.inner.commits.send(command).await.map_err(|_| self.stopped())?;
        Ok(Some(PendingPart { paid, answer }))
    }

    /// Hands over what is collected, and waits for all that was handed over.
    async fn finish_all(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        pending: &mut Option<PendingPart>,
        part: &mut Part,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        self.finish_part(ctx, pending.take(), progress).await;
        if !progress.has_stopped {
            let last = self.hand_over(container, part, progress.stops_at_error).await?;
            self.finish_part(ctx, last, progress).await;
        }
        Ok(())
    }

    /// Waits for a part.
    async fn finish_part(
        &self,
        ctx: &mut RequestContext,
        pending: Option<PendingPart>,
        progress: &mut Progress,
    ) {
        let Some(PendingPart { paid, answer }) = pending else { return };
        let mut answers = answer.await.ok().map(Vec::into_iter);
        for (range, paid, name) in paid {
            let committed = match &mut answers {
                Some(answers) => answers.next(),
                None => Some(RunCommitted {
                    range: range.id,
                    lsn: range.partition.lsn(),
                    result: Err(self.stopped()),
                }),
            };
            let Some(RunCommitted { range: at, lsn, result }) = committed else {
                // Not carried out, because one before it failed.
                range.partition.meter.settle(paid, Charge::ZERO, None);
                continue;
            };
            let failed = |error| OpResult { outcome: Err(error), charge: Charge::ZERO };
            let result = result.unwrap_or_else(failed);
            range.partition.meter.settle(paid, result.charge, Some(&name));
            ctx.served.touch_instead(range.id, at, lsn);
            ctx.served.charge += result.charge;
            progress.push(result);
        }
    }

    /// Carries out an update that takes long.
    async fn run_alone(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        range: PartitionRange,
        paid: Paid,
        commit: RunPart,
    ) -> OpResult {
        let RunPart { logical_partition, op, terms, .. } = commit;
        let name = logical_partition.id();
        let committed = if let PreparedOp::Update(op) = op {
            self.commit_update(container, &range, logical_partition, op, terms).await
        } else {
            let ops = vec![op];
            self.commit(container, &range, logical_partition, ops, terms).await
        };
        let charge = charge_of(&committed);
        range.partition.meter.settle(paid, charge, Some(&name));
        ctx.served.charge += charge;
        let failed = |error| OpResult { outcome: Err(error), charge: Charge::ZERO };
        match committed {
            Ok(committed) => {
                ctx.served.touch_instead(range.id, committed.range, committed.lsn);
                let first = committed.results.into_iter().next();
                first.unwrap_or_else(|| failed(Error::Internal("a commit without a result".into())))
            }
            Err(error) => failed(error),
        }
    }

    /// Settles what was paid for operations that are not carried out.
    fn give_back(&self, part: &mut Part) {
        for (range, paid, _) in std::mem::take(part).paid {
            range.partition.meter.settle(paid, Charge::ZERO, None);
        }
    }
}
