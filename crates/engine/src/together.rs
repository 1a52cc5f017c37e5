//! Operations on several logical partitions as one commit.

use std::sync::Arc;

use model::PartitionKey;
use tokio::sync::oneshot;

use crate::catalog::Container;
use crate::commit::{Command, PartitionRef, PreparedOp, TogetherCommit, TogetherPart};
use crate::ops::{ItemOp, OpResult};
use crate::prepare::{LogicalPartition, prepare_op};
use crate::run::RetrySession;
use crate::{Engine, Error, RequestContext, ru};

/// Operations on one logical partition of several.
#[derive(Clone, Debug)]
pub struct Part {
    /// The container.
    pub container: Arc<Container>,
    /// The full key of the logical partition.
    pub key: PartitionKey,
    /// The operations.
    pub ops: Vec<ItemOp>,
}

impl Engine {
    /// Carries out the operations of all parts, or none. They are checked against the versions of
    /// what they write, by their conditions. The results of the parts in order; of a statement that
    /// was carried out before, one part with one result. A statement is noted in the first part.
    pub async fn write_together(
        &self,
        ctx: &mut RequestContext,
        parts: Vec<Part>,
        retry: Option<(RetrySession, i32)>,
    ) -> Result<Vec<Vec<OpResult>>, Error> {
        let retry = retry.map(|(session, statement)| session.statement(statement)).transpose()?;
        let mut prepared = Vec::with_capacity(parts.len());
        let mut paid = Vec::with_capacity(parts.len());
        for Part { container, key, ops } in parts {
            let logical_partition = LogicalPartition::of(&container, &key)?;
            let routing = container.routing();
            let range = routing.locate(&logical_partition.epk).clone();
            let mut ops = ops
                .into_iter()
                .map(|op| Ok(prepare_op(&container, Some(&logical_partition), op)?.1))
                .collect::<Result<Vec<_>, Error>>()?;
            let logical = &logical_partition.logical_key;
            self.compute_old_versions(&container, range.partition.id, logical, &mut ops);
            let least = ops.iter().map(PreparedOp::least_charge).sum();
            paid.push((range.clone(), least, logical_partition.id()));
            let located = PartitionRef::of(&range);
            prepared.push(TogetherPart { container, located, logical_partition, ops });
        }
        let mut admitted = Vec::with_capacity(paid.len());
        for (range, least, name) in paid {
            match self.admit(ctx, &range, least) {
                Ok(paid) => admitted.push((range, paid, name)),
                Err(error) => {
                    for (range, paid, _) in admitted {
                        range.partition.meter.settle(paid, model::Charge::ZERO, None);
                    }
                    return Err(error);
                }
            }
        }
        let (reply, answer) = oneshot::channel();
        let commit = TogetherCommit { parts: prepared, retry, reply };
        let sent = self.inner.commits.send(Command::Together(Box::new(commit))).await;
        let committed = match sent {
            Ok(()) => answer.await.unwrap_or_else(|_| Err(self.stopped())),
            Err(_) => Err(self.stopped()),
        };
        let mut answers = committed.as_ref().ok().map(|parts| parts.iter());
        for (range, paid, name) in admitted {
            let part = answers.as_mut().and_then(Iterator::next);
            let charge = part
                .map(|part| part.results.iter().map(|result| result.charge).sum())
                .unwrap_or_else(ru::refused_write);
            range.partition.meter.settle(paid, charge, Some(&name));
            ctx.served.charge += charge;
            if let Some(part) = part {
                ctx.served.touch_instead(range.id, part.range, part.lsn);
            }
        }
        Ok(committed?.into_iter().map(|part| part.results).collect())
    }
}
