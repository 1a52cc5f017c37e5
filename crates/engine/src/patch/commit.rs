//! A patch as one commit: who computes the new version.

use std::sync::Arc;

use crate::catalog::Container;
use crate::commit::{CommitTerms, ItemCommitted, PreparedOp, PreparedPatch};
use crate::ops::OpResult;
use crate::partition;
use crate::prepare::{self, LogicalPartition};
use crate::routing::PartitionRange;
use crate::{Engine, Error, RowKey, StoredItem, ru};

/// Largest item that the committer changes itself.
pub(crate) const BYTES_IN_COMMITTER: usize = 16 * 1024;
/// How often a patch is computed again because another writer was faster.
const PATCH_ATTEMPTS_MAX: usize = 3;

impl Engine {
    /// A patch as one commit. The committer works for all writers, so it computes new versions
    /// itself only of small items. Those of larger items are computed here from the stored version,
    /// and stored if that is still current. After some lost races the committer computes them after
    /// all.
    pub(crate) async fn commit_patch(
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
            if stored.body().len() <= BYTES_IN_COMMITTER && patch.condition.is_none() {
                break;
            }
            let made_from = stored.etag();
            let (engine, making, patch) = (self.clone(), Arc::clone(container), patch.clone());
            let made = self
                .run_blocking(move || {
                    Ok(prepare::patched(&making, &stored, &patch).map(|mut item| {
                        let StoredItem { id, etag, ts, body, .. } = &stored;
                        item.replaces =
                            engine.old_version(&making, id.as_bytes(), *etag, *ts, body);
                        item
                    }))
                })
                .await?;
            let item = match made {
                Ok(item) => item,
                Err(error) => return Ok(refused(range, error)),
            };
            let op = PreparedOp::Swap { id: id.clone(), item, made_from };
            let (logical_partition, terms) = (logical_partition.clone(), CommitTerms::default());
            let committed =
                self.commit(container, range, logical_partition, vec![op], terms).await?;
            if !committed.results.iter().any(|r| matches!(r.outcome, Err(Error::Overtaken))) {
                return Ok(committed);
            }
        }
        let (ops, terms) = (vec![PreparedOp::Patch(op)], CommitTerms::default());
        self.commit(container, range, logical_partition, ops, terms).await
    }

    fn fetch(
        &self,
        container: &Container,
        range: &PartitionRange,
        logical_partition: &LogicalPartition,
        id: &RowKey,
    ) -> Result<Option<StoredItem>, Error> {
        let view = self.inner.store.view();
        let reader = self.reader(container);
        partition::fetch(
            view.as_ref(),
            range.partition.id,
            reader,
            &logical_partition.logical_key,
            id.as_bytes(),
        )
    }
}

/// The result of a write that was refused before it reached the committer.
pub(crate) fn refused(range: &PartitionRange, error: Error) -> ItemCommitted {
    let result = OpResult { outcome: Err(error), charge: ru::refused_write() };
    ItemCommitted { range: range.id, lsn: range.partition.lsn(), results: vec![result] }
}
