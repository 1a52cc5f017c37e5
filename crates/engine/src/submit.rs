//! Handing commits to the committer.

use std::sync::Arc;

use model::Charge;
use tokio::sync::oneshot;

use crate::catalog::Container;
use crate::commit::{Command, CommitTerms, ItemCommit, ItemCommitted, PartitionRef, PreparedOp};
use crate::prepare::LogicalPartition;
use crate::routing::PartitionRange;
use crate::{Engine, Error};

/// Requests that may wait for the committer before callers have to.
pub(crate) const COMMITS_QUEUED_MAX: usize = 1024;

/// The answer to a commit, once it is durable.
pub(crate) type PendingCommit = oneshot::Receiver<Result<ItemCommitted, Error>>;

impl Engine {
    /// Prepared operations as one commit.
    pub(crate) async fn commit(
        &self,
        container: &Arc<Container>,
        range: &PartitionRange,
        logical_partition: LogicalPartition,
        ops: Vec<PreparedOp>,
        terms: CommitTerms,
    ) -> Result<ItemCommitted, Error> {
        let answer = self.submit(container, range, logical_partition, ops, terms).await?;
        answer.await.unwrap_or_else(|_| Err(self.stopped()))
    }

    /// Queues prepared operations as one commit.
    pub(crate) async fn submit(
        &self,
        container: &Arc<Container>,
        range: &PartitionRange,
        logical_partition: LogicalPartition,
        mut ops: Vec<PreparedOp>,
        terms: CommitTerms,
    ) -> Result<PendingCommit, Error> {
        // A transaction has up to thousands of operations, too many for this thread.
        if terms.read_set.is_none() {
            let logical = &logical_partition.logical_key;
            self.compute_old_versions(container, range.partition.id, logical, &mut ops);
        }
        let (reply, answer) = oneshot::channel();
        let commit = ItemCommit {
            container: Arc::clone(container),
            located: PartitionRef::of(range),
            logical_partition,
            ops,
            terms,
            reply,
        };
        let command = Command::Items(Box::new(commit));
        self.inner.commits.send(command).await.map_err(|_| self.stopped())?;
        Ok(answer)
    }
}

/// The cost of a commit, whatever its outcome.
pub(crate) fn charge_of(committed: &Result<ItemCommitted, Error>) -> Charge {
    committed.as_ref().map_or(Charge::ZERO, |c| c.results.iter().map(|r| r.charge).sum())
}
