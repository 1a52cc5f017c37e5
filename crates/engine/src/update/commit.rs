//! An update as one commit: who computes the new version.

use std::sync::Arc;

use super::{Change, ItemView};
use crate::catalog::Container;
use crate::commit::{
    CommitTerms, ItemCommitted, PreparedOp, PreparedUpdate, RetryRecord, SettledChange,
};
use crate::ops::{ItemOutcome, OpResult};
use crate::partition;
use crate::patch::{BYTES_IN_COMMITTER, refused};
use crate::prepare::{self, LogicalPartition};
use crate::routing::PartitionRange;
use crate::{Engine, Error, StoredItem, ru};

/// How often an update is computed again because another writer was faster.
const ATTEMPTS_MAX: usize = 3;

impl Engine {
    /// An update as one commit. The committer works for all writers, so it computes new versions
    /// itself only if that is cheap and the item is small. Others are computed here from the stored
    /// version, and stored if that is still current. After some lost races the committer computes
    /// them after all.
    pub(crate) async fn commit_update(
        &self,
        container: &Arc<Container>,
        range: &PartitionRange,
        logical_partition: LogicalPartition,
        op: Box<PreparedUpdate>,
        terms: CommitTerms,
    ) -> Result<ItemCommitted, Error> {
        for _ in 0..ATTEMPTS_MAX {
            let Some(stored) = self.to_compute_here(container, range, &logical_partition, &op)?
            else {
                break;
            };
            // What was done before says nothing of the version that is there now.
            if self.is_noted(range, &logical_partition, &terms)? {
                break;
            }
            let settled =
                self.settle_update(container, range, &logical_partition, &op, stored, &terms);
            if let Some(committed) = settled.await? {
                return Ok(committed);
            }
        }
        let ops = vec![PreparedOp::Update(op)];
        self.commit(container, range, logical_partition, ops, terms).await
    }

    /// The version from which an update should be computed before it is handed over.
    pub(crate) fn to_compute_here(
        &self,
        container: &Container,
        range: &PartitionRange,
        logical_partition: &LogicalPartition,
        op: &PreparedUpdate,
    ) -> Result<Option<StoredItem>, Error> {
        let stored = partition::fetch(
            self.inner.store.view().as_ref(),
            range.partition.id,
            self.reader(container),
            &logical_partition.logical_key,
            op.id.as_bytes(),
        )?;
        // An update that the condition rules out is refused by the committer, in order with the
        // rest.
        let is_met = |item: &StoredItem| op.if_match.as_ref().is_none_or(|c| c.is_met_by(item));
        Ok(stored.filter(|stored| {
            is_met(stored) && !(op.update.is_cheap() && stored.body().len() <= BYTES_IN_COMMITTER)
        }))
    }

    /// Whether the session has noted something in the logical partition, which only the committer
    /// can judge.
    fn is_noted(
        &self,
        range: &PartitionRange,
        logical_partition: &LogicalPartition,
        terms: &CommitTerms,
    ) -> Result<bool, Error> {
        let Some(statement) = &terms.retry else { return Ok(false) };
        let key = logical_partition.logical_key.retry(&statement.session);
        let note = self.inner.store.view().get(range.partition.id, &key)?;
        Ok(note
            .and_then(|note| RetryRecord::decode(&note))
            .is_some_and(|record| record.rules_out(statement)))
    }

    /// Computes the new version of an item and stores it; `None` if another writer was faster.
    async fn settle_update(
        &self,
        container: &Arc<Container>,
        range: &PartitionRange,
        logical_partition: &LogicalPartition,
        op: &PreparedUpdate,
        stored: StoredItem,
        terms: &CommitTerms,
    ) -> Result<Option<ItemCommitted>, Error> {
        let (engine, making) = (self.clone(), Arc::clone(container));
        let (update, made_from) = (Arc::clone(&op.update), stored.etag());
        let bytes = stored.body().len();
        let compute = move || {
            let change = match update.apply(Some(&ItemView::of(&stored)))? {
                Change::Keep => SettledChange::Keep,
                Change::Delete => SettledChange::Delete,
                Change::Put(body) => {
                    let mut item = prepare::updated(&making, &stored, body)?;
                    let StoredItem { id, etag, ts, body, .. } = &stored;
                    item.replaces = engine.old_version(&making, id.as_bytes(), *etag, *ts, body);
                    SettledChange::Put(Box::new(item))
                }
            };
            Ok((change, stored))
        };
        let computed = self.run_blocking(move || Ok::<_, Error>(compute())).await?;
        let (change, before) = match computed {
            Ok(computed) => computed,
            Err(error) => return Ok(Some(refused(range, error))),
        };
        if matches!(change, SettledChange::Keep) && terms.retry.is_none() {
            let outcome = ItemOutcome::Updated {
                before: Some(Box::new(before.clone())),
                after: Some(before),
            };
            let result = OpResult { outcome: Ok(outcome), charge: ru::point_read(bytes) };
            let (range, lsn) = (range.id, range.partition.lsn());
            return Ok(Some(ItemCommitted { range, lsn, results: vec![result] }));
        }
        let ops = vec![PreparedOp::Settle { id: op.id.clone(), change, made_from }];
        let terms = CommitTerms { retry: terms.retry.clone(), ..CommitTerms::default() };
        let logical_partition = logical_partition.clone();
        let committed = self.commit(container, range, logical_partition, ops, terms).await?;
        let is_overtaken =
            committed.results.iter().any(|r| matches!(r.outcome, Err(Error::Overtaken)));
        Ok((!is_overtaken).then_some(committed))
    }
}
