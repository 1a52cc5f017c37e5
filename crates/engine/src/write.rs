//! Writing one item.

use std::sync::Arc;

use model::PartitionKey;

use crate::catalog::Container;
use crate::commit::{CommitTerms, PreparedOp};
use crate::ops::{ItemOp, ItemOutcome};
use crate::prepare::{LogicalPartition, prepare_op};
use crate::submit::charge_of;
use crate::{Engine, Error, RequestContext};

impl Engine {
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
        let timer = self.time_operation("write");
        let paid = self.admit(ctx, &range, op.least_charge())?;
        let name = logical_partition.id();
        let committed = match op {
            // Boxed, so that the futures of the other operations do not hold their state.
            PreparedOp::Patch(op) => {
                Box::pin(self.commit_patch(container, &range, logical_partition, op)).await
            }
            PreparedOp::Update(op) => {
                let terms = CommitTerms::default();
                let commit = self.commit_update(container, &range, logical_partition, op, terms);
                Box::pin(commit).await
            }
            other @ (PreparedOp::Create(_)
            | PreparedOp::Upsert(..)
            | PreparedOp::Replace { .. }
            | PreparedOp::Swap { .. }
            | PreparedOp::Settle { .. }
            | PreparedOp::Delete { .. }
            | PreparedOp::Read { .. }
            | PreparedOp::Erase { .. }
            | PreparedOp::Expire { .. }) => {
                let terms = CommitTerms::default();
                self.commit(container, &range, logical_partition, vec![other], terms).await
            }
        };
        range.partition.meter.settle(paid, charge_of(&committed), Some(&name));
        self.end_operation(timer, ctx, container, committed.as_ref().err());
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
}
