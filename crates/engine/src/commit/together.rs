//! Operations on several logical partitions that happen together or not at all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use model::{Charge, PartitionId};
use tokio::sync::oneshot;

use super::apply::{CommitContext, apply_all};
use super::disk_space::DiskNeed;
use super::group::Group;
use super::retry::{RetryNote, RetryStatement};
use super::state::PartitionState;
use super::{Committer, PartitionRef, PreparedOp};
use crate::catalog::Container;
use crate::ops::OpResult;
use crate::prepare::LogicalPartition;
use crate::{Error, RangeId, ResourceKind, keys};

/// Operations on several logical partitions. Each part has a position of its own.
pub(crate) struct TogetherCommit {
    pub(crate) parts: Vec<TogetherPart>,
    /// The statement that they are, which is noted in the first logical partition.
    pub(crate) retry: Option<RetryStatement>,
    pub(crate) reply: oneshot::Sender<Result<Vec<TogetherCommitted>, Error>>,
}

/// The operations on one of the logical partitions.
pub(crate) struct TogetherPart {
    pub(crate) container: Arc<Container>,
    pub(crate) located: PartitionRef,
    pub(crate) logical_partition: LogicalPartition,
    pub(crate) ops: Vec<PreparedOp>,
}

/// The outcome in one of the logical partitions.
pub(crate) struct TogetherCommitted {
    pub(crate) range: RangeId,
    pub(crate) lsn: model::Lsn,
    pub(crate) results: Vec<OpResult>,
}

/// A commit that waits for its group to be durable.
pub(super) struct WaitingTogether {
    located: Vec<PartitionRef>,
    results: Result<Vec<Vec<OpResult>>, Error>,
    reply: oneshot::Sender<Result<Vec<TogetherCommitted>, Error>>,
}

/// The counters of partitions before a commit.
type Before = Vec<(PartitionId, PartitionState)>;

impl Committer {
    /// Applies all parts of a commit to the group, or leaves the group unchanged.
    pub(super) fn join_together(
        &mut self,
        group: &mut Group,
        commit: TogetherCommit,
    ) -> WaitingTogether {
        let TogetherCommit { mut parts, retry, reply } = commit;
        let located = match self.locate_all(&mut parts) {
            Ok(located) => located,
            Err(error) => {
                return WaitingTogether { located: Vec::new(), results: Err(error), reply };
            }
        };
        let mut before = Before::new();
        let applied = catch_unwind(AssertUnwindSafe(|| {
            self.apply_together(group, parts, retry.as_ref(), &mut before)
        }));
        let applied = applied.unwrap_or_else(|_| {
            tracing::error!("a commit panicked");
            Err(Error::Internal("the commit panicked".into()))
        });
        let is_done = applied
            .as_ref()
            .is_ok_and(|results| results.iter().flatten().all(|result| !result.has_failed()));
        for (id, state) in before {
            let Some(slot) = self.partitions.get_mut(&id) else { continue };
            match is_done {
                true if slot.state != state => {
                    group.put(id, keys::PARTITION_STATE.into(), slot.state.encode());
                }
                true => {}
                false => slot.state = state,
            }
        }
        match is_done {
            true => group.accept(),
            false => group.reject(),
        }
        WaitingTogether { located, results: applied, reply }
    }

    /// Where each part is now. Refuses what can't be served.
    fn locate_all(&self, parts: &mut [TogetherPart]) -> Result<Vec<PartitionRef>, Error> {
        if let Some(reason) = &*self.failure.load() {
            return Err(Error::Unavailable(reason.to_string()));
        }
        let mut located = Vec::with_capacity(parts.len());
        for part in parts {
            self.room.check(DiskNeed::of_items(&part.ops)).map_err(|room| room.refusal())?;
            if !self.partitions.contains_key(&part.located.partition.id) {
                let found = self.locate_anew(&part.container, &part.logical_partition);
                let found = found.ok_or_else(|| Error::OwnerNotFound {
                    kind: ResourceKind::Container,
                    id: part.container.spec.id.clone(),
                })?;
                part.located = PartitionRef::of(&found);
            }
            let PartitionRef { range, partition } = &part.located;
            partition.check_serving()?;
            if !self.partitions.contains_key(&partition.id) {
                return Err(Error::RangeMoving);
            }
            located.push(PartitionRef { range: *range, partition: Arc::clone(partition) });
        }
        Ok(located)
    }

    /// Applies the parts until one fails. Notes the counters that they change in `before`.
    fn apply_together(
        &mut self,
        group: &mut Group,
        parts: Vec<TogetherPart>,
        retry: Option<&RetryStatement>,
        before: &mut Before,
    ) -> Result<Vec<Vec<OpResult>>, Error> {
        let lengths: Vec<usize> = parts.iter().map(|part| part.ops.len()).collect();
        let mut done: Vec<Vec<OpResult>> = Vec::with_capacity(parts.len());
        let mut note = None;
        for part in parts {
            let id = part.located.partition.id;
            let now = self.clock.now();
            let commit_time = self.commit_clock.next(now);
            let slot = self.partitions.get_mut(&id).ok_or(Error::RangeMoving)?;
            self.watch.look(now.seconds(), slot.state.ts, self.clock.as_ref());
            let now = slot.stamps.next(now, slot.state.lsn.next());
            if !before.iter().any(|(known, _)| *known == id) {
                before.push((id, slot.state));
            }
            let context = CommitContext {
                container: &slot.container,
                partition: id,
                logical_partition: &part.logical_partition,
                now,
                commit_time,
                logical_partition_bytes_max: self.logical_partition_bytes_max,
                partition_bytes_max: self.partition_bytes_max,
                answer_limit: None,
            };
            if let (true, Some(statement)) = (done.is_empty(), retry) {
                match RetryNote::begin(group, &context, statement) {
                    Ok(begun) => note = Some(begun),
                    Err(outcome) => {
                        let result = OpResult { outcome: *outcome, charge: Charge::ZERO };
                        return Ok(vec![vec![result]]);
                    }
                }
            }
            let results = apply_all(group, &mut slot.state, &context, part.ops);
            let has_failed = results.iter().any(OpResult::has_failed);
            done.push(results);
            if has_failed {
                return Ok(with_others_failed(done, &lengths));
            }
        }
        if let (Some(note), Some(statement)) = (note, retry) {
            let all: Vec<OpResult> = done.iter_mut().flat_map(std::mem::take).collect();
            note.put(group, statement, &all);
            let mut all = all.into_iter();
            for (results, length) in done.iter_mut().zip(&lengths) {
                results.extend(all.by_ref().take(*length));
            }
        }
        Ok(done)
    }

    /// Answers commits whose group was stored, or was not.
    pub(super) fn answer_together(
        &self,
        waiting: Vec<WaitingTogether>,
        stored: &Result<bool, Error>,
    ) {
        for WaitingTogether { located, results, reply } in waiting {
            let mut results = results;
            for PartitionRef { partition, .. } in &located {
                results = self.outcome_of(partition, stored, results);
            }
            let answer = results.map(|parts| {
                let parts = located.into_iter().zip(parts);
                parts
                    .map(|(PartitionRef { range, partition }, results)| TogetherCommitted {
                        range,
                        lsn: partition.lsn(),
                        results,
                    })
                    .collect()
            });
            // A caller that dropped its receiver does not need the answer.
            let _ = reply.send(answer);
        }
    }
}

/// The results of a commit whose last part in `done` failed.
fn with_others_failed(mut done: Vec<Vec<OpResult>>, lengths: &[usize]) -> Vec<Vec<OpResult>> {
    let not_done = || OpResult { outcome: Err(Error::FailedDependency), charge: Charge::ZERO };
    let failed_at = done.len() - 1;
    for (results, length) in done[..failed_at].iter_mut().zip(lengths) {
        *results = std::iter::repeat_with(not_done).take(*length).collect();
    }
    for length in &lengths[done.len()..] {
        done.push(std::iter::repeat_with(not_done).take(*length).collect());
    }
    done
}
