//! Many operations of one request, each on its own.

use std::sync::Arc;

use model::{Charge, ErrorKind, PartitionKey};

use crate::catalog::Container;
use crate::commit::{CommitTerms, PreparedOp};
use crate::context::Admission;
use crate::governor::Paid;
use crate::ops::{EtagCondition, ItemOp, ItemOutcome, OpResult};
use crate::prepare::{LogicalPartition, LogicalPartitionId, prepare_op};
use crate::read::check_session;
use crate::routing::PartitionRange;
use crate::submit::{PendingCommit, charge_of};
use crate::{Engine, Error, RangeId, RequestContext, RowKey, ru};

impl Engine {
    /// Carries out each operation on its own. With `range`, operations outside it fail with
    /// [`Error::RangeGone`].
    pub async fn bulk(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        range: Option<RangeId>,
        ops: Vec<(Option<PartitionKey>, ItemOp)>,
    ) -> Result<Vec<OpResult>, Error> {
        let routing = container.routing();
        if let Some(id) = range {
            // Also if no operation comes as far as to a range.
            let range = routing.by_id(id).ok_or(Error::RangeGone)?;
            ctx.served.touch(id, range.partition.lsn());
        }
        // All are handed to the committer before the first answer is awaited, so that they share
        // group commits.
        let mut waiting = Vec::with_capacity(ops.len());
        let mut written = false;
        for (key, op) in ops {
            let is_read = matches!(op, ItemOp::Read { .. });
            let started = self.start_bulk_op(ctx, container, range, key, op, written).await;
            waiting.push(started);
            written |= !is_read;
        }
        let mut results = Vec::with_capacity(waiting.len());
        for started in waiting {
            let result = match started {
                Ok(BulkOp::PendingWrite(writing)) => self.finish_bulk_op(ctx, writing).await,
                Ok(BulkOp::Done(result)) => result,
                Err(error) => OpResult { charge: charge_of_refusal(&error), outcome: Err(error) },
            };
            ctx.served.charge += result.charge;
            results.push(result);
        }
        Ok(results)
    }

    async fn start_bulk_op(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        wanted: Option<RangeId>,
        key: Option<PartitionKey>,
        op: ItemOp,
        is_behind_writes: bool,
    ) -> Result<BulkOp, Error> {
        let named = key.as_ref().map(|key| LogicalPartition::of(container, key)).transpose()?;
        let (logical_partition, op) = prepare_op(container, named.as_ref(), op)?;
        let routing = container.routing();
        let range = routing.locate(&logical_partition.epk).clone();
        if wanted.is_some_and(|id| id != range.id) {
            return Err(Error::RangeGone);
        }
        // Earlier writes of this request may concern the same item and not be committed yet; then
        // the committer reads, in order.
        let name = logical_partition.id();
        // The client may repeat it in another request, with other operations.
        let id = op.ids().next().map_or(&[][..], RowKey::as_bytes);
        let admission = ctx.admission.of_part(&[&name.digest.to_be_bytes(), id]);
        if let (PreparedOp::Read { id, if_none_match }, Some(key), false) =
            (&op, &key, is_behind_writes)
        {
            let condition = if_none_match.as_ref();
            return Ok(self.read_in_bulk((ctx, admission), container, key, id, condition));
        }
        if let PreparedOp::Read { .. } = &op {
            check_session(&ctx.session, &range, range.partition.lsn())?;
        }
        let paid = self.try_admit(admission, &range, op.least_charge())?;
        let terms = CommitTerms::default();
        match self.submit(container, &range, logical_partition, vec![op], terms).await {
            Ok(answer) => {
                Ok(BulkOp::PendingWrite(Box::new(PendingWrite { range, paid, name, answer })))
            }
            Err(error) => {
                range.partition.meter.settle(paid, Charge::ZERO, None);
                Err(error)
            }
        }
    }

    /// A read that waits for no commit.
    fn read_in_bulk(
        &self,
        (ctx, admission): (&mut RequestContext, Admission),
        container: &Container,
        key: &PartitionKey,
        id: &RowKey,
        if_none_match: Option<&EtagCondition>,
    ) -> BulkOp {
        let mut own = RequestContext { admission, ..ctx.part() };
        let read = self.read_item(&mut own, container, key, id, if_none_match);
        for (range, at) in own.served.ranges {
            ctx.served.touch(range, at);
        }
        BulkOp::Done(OpResult { outcome: read.map(ItemOutcome::Read), charge: own.served.charge })
    }

    async fn finish_bulk_op(
        &self,
        ctx: &mut RequestContext,
        writing: Box<PendingWrite>,
    ) -> OpResult {
        let PendingWrite { range, paid, name, answer } = *writing;
        let committed = answer.await.unwrap_or_else(|_| Err(self.stopped()));
        range.partition.meter.settle(paid, charge_of(&committed), Some(&name));
        let failed = |error| OpResult { outcome: Err(error), charge: Charge::ZERO };
        match committed {
            Ok(committed) => {
                ctx.served.touch(committed.range, committed.lsn);
                let first = committed.results.into_iter().next();
                first.unwrap_or_else(|| failed(Error::Internal("a commit without a result".into())))
            }
            Err(error) => failed(error),
        }
    }
}

/// An operation of a bulk request under way.
enum BulkOp {
    PendingWrite(Box<PendingWrite>),
    Done(OpResult),
}

/// A write of a bulk request that the committer has received.
struct PendingWrite {
    range: PartitionRange,
    paid: Paid,
    name: LogicalPartitionId,
    answer: PendingCommit,
}

/// What an operation reports that was refused before any work was done.
fn charge_of_refusal(error: &Error) -> Charge {
    match error.kind() == ErrorKind::Throttled {
        true => ru::throttled(),
        false => Charge::ZERO,
    }
}
