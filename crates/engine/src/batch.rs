//! Several operations on one logical partition as one commit.

use std::sync::Arc;

use model::{Charge, PartitionKey};

use crate::catalog::Container;
use crate::commit::PreparedOp;
use crate::ops::{ItemOp, OpResult};
use crate::prepare::{LogicalPartition, prepare_op};
use crate::read::check_session;
use crate::submit::charge_of;
use crate::{Engine, Error, RequestContext};

impl Engine {
    /// Carries out all operations as one commit, or none.
    pub async fn write_batch(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        key: PartitionKey,
        ops: Vec<ItemOp>,
    ) -> Result<Vec<OpResult>, Error> {
        let logical_partition = LogicalPartition::of(container, &key)?;
        let routing = container.routing();
        let range = routing.locate(&logical_partition.epk).clone();
        let at = range.partition.lsn();
        ctx.served.touch(range.id, at);
        check_session(&ctx.session, &range, at)?;
        let total = ops.len();
        let mut prepared = Vec::with_capacity(total);
        for (index, op) in ops.into_iter().enumerate() {
            match prepare_op(container, Some(&logical_partition), op) {
                Ok((_, op)) => prepared.push(op),
                Err(error) => return Ok(failed_batch(total, index, error)),
            }
        }
        let least = prepared.iter().map(PreparedOp::least_charge).sum();
        let paid = self.admit(ctx, &range, least)?;
        let name = logical_partition.id();
        let committed = self.commit(container, &range, logical_partition, prepared).await;
        ctx.served.charge = charge_of(&committed);
        range.partition.meter.settle(paid, ctx.served.charge, Some(&name));
        let committed = committed?;
        ctx.served.touch_instead(range.id, committed.range, committed.lsn);
        Ok(committed.results)
    }
}

fn failed_batch(total: usize, at: usize, error: Error) -> Vec<OpResult> {
    let mut error = Some(error);
    (0..total)
        .map(|index| {
            let own = if index == at { error.take() } else { None };
            OpResult { outcome: Err(own.unwrap_or(Error::FailedDependency)), charge: Charge::ZERO }
        })
        .collect()
}
