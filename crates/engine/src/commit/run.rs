//! Many commits that are handed over at once, each on its own.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::group::Group;
use super::{CommitTerms, Committer, PartitionRef, PreparedOp};
use crate::catalog::Container;
use crate::ops::OpResult;
use crate::prepare::LogicalPartition;
use crate::{Error, RangeId};

/// Commits that are carried out in order and made durable together.
pub(crate) struct RunCommit {
    pub(crate) container: Arc<Container>,
    pub(crate) commits: Vec<RunPart>,
    /// Whether those after one that fails are not carried out.
    pub(crate) stops_at_error: bool,
    pub(crate) reply: oneshot::Sender<Vec<RunCommitted>>,
}

/// One commit of a run.
pub(crate) struct RunPart {
    pub(crate) located: PartitionRef,
    pub(crate) logical_partition: LogicalPartition,
    pub(crate) op: PreparedOp,
    pub(crate) terms: CommitTerms,
}

/// The outcome of a commit of a run.
#[derive(Debug)]
pub(crate) struct RunCommitted {
    pub(crate) range: RangeId,
    /// The current position of that range.
    pub(crate) lsn: model::Lsn,
    /// Why it was not looked at, or its result.
    pub(crate) result: Result<OpResult, Error>,
}

/// A run that waits for its group to be durable.
pub(super) struct WaitingRun {
    results: Vec<(PartitionRef, Result<OpResult, Error>)>,
    reply: oneshot::Sender<Vec<RunCommitted>>,
}

impl Committer {
    /// Applies the commits of a run to the group, each or nothing of it.
    pub(super) fn join_run(&mut self, group: &mut Group, run: RunCommit) -> WaitingRun {
        let RunCommit { container, commits, stops_at_error, reply } = run;
        let mut results = Vec::with_capacity(commits.len());
        for part in commits {
            let RunPart { located, logical_partition, op, terms } = part;
            let (located, outcome) =
                self.join(group, &container, located, &logical_partition, vec![op], terms);
            let result = outcome.and_then(|results| {
                let first = results.into_iter().next();
                first.ok_or_else(|| Error::Internal("a commit without a result".into()))
            });
            let has_failed = result.as_ref().map_or(true, OpResult::has_failed);
            results.push((located, result));
            if has_failed && stops_at_error {
                break;
            }
        }
        WaitingRun { results, reply }
    }

    /// Answers runs whose group was stored, or was not.
    pub(super) fn answer_runs(&self, runs: Vec<WaitingRun>, stored: &Result<bool, Error>) {
        for WaitingRun { results, reply } in runs {
            let answer = results.into_iter().map(|(located, result)| {
                let result = self.outcome_of(&located.partition, stored, result);
                let lsn = located.partition.lsn();
                RunCommitted { range: located.range, lsn, result }
            });
            // A caller that dropped its receiver does not need the answer.
            let _ = reply.send(answer.collect());
        }
    }
}
