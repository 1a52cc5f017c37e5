//! Several operations on one logical partition as one commit.

use std::sync::Arc;

use model::{Charge, PartitionKey};

use crate::catalog::Container;
use crate::commit::{CommitTerms, PreparedOp};
use crate::ops::{AnswerLimit, ItemOp, OpResult};
use crate::prepare::{LogicalPartition, prepare_op};
use crate::read::check_session;
use crate::submit::charge_of;
use crate::{Engine, Error, RequestContext, ru};

impl Engine {
    /// Carries out all operations as one commit, or none. An error says that none of them was
    /// looked at.
    pub async fn write_batch(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        key: PartitionKey,
        ops: Vec<ItemOp>,
    ) -> Result<Vec<OpResult>, Error> {
        self.write_batch_within(ctx, container, key, ops, None).await
    }

    /// As [`Engine::write_batch`], unless the items that it returns are larger than the limit.
    pub async fn write_batch_within(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        key: PartitionKey,
        ops: Vec<ItemOp>,
        answer_limit: Option<AnswerLimit>,
    ) -> Result<Vec<OpResult>, Error> {
        let logical_partition = LogicalPartition::of(container, &key)?;
        let routing = container.routing();
        let range = routing.locate(&logical_partition.epk).clone();
        let at = range.partition.lsn();
        ctx.served.touch(range.id, at);
        // What writes alone do can't be older than what their caller has seen.
        if ops.iter().any(|op| matches!(op, ItemOp::Read { .. })) {
            check_session(&ctx.session, &range, at)?;
        }
        let total = ops.len();
        let mut prepared = Vec::with_capacity(total);
        for (index, op) in ops.into_iter().enumerate() {
            match prepare_op(container, Some(&logical_partition), op) {
                Ok((_, op)) => prepared.push(op),
                Err(error) => {
                    ctx.served.charge = ru::refused_write();
                    return Ok(failed_batch(total, index, error));
                }
            }
        }
        let least = prepared.iter().map(PreparedOp::least_charge).sum();
        let paid = self.admit(ctx, &range, least)?;
        let name = logical_partition.id();
        let answer_limit = answer_limit.map(Box::new);
        let terms = CommitTerms { answer_limit, ..CommitTerms::default() };
        let committed = self.commit(container, &range, logical_partition, prepared, terms).await;
        ctx.served.charge = charge_of(&committed);
        range.partition.meter.settle(paid, ctx.served.charge, Some(&name));
        let committed = committed?;
        ctx.served.touch_instead(range.id, committed.range, committed.lsn);
        Ok(committed.results)
    }
}

/// The results of a batch whose operation at this place is refused before any is carried out.
fn failed_batch(total: usize, at: usize, error: Error) -> Vec<OpResult> {
    let mut error = Some(error);
    let result = |index| match error.take_if(|_| index == at) {
        Some(error) => OpResult { outcome: Err(error), charge: ru::refused_write() },
        None => OpResult { outcome: Err(Error::FailedDependency), charge: Charge::ZERO },
    };
    (0..total).map(result).collect()
}
