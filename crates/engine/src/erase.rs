//! Deleting all items of a logical partition, some at a time.

use std::sync::Arc;

use model::{Charge, Lsn, PartitionKey};

use crate::catalog::Container;
use crate::commit::{CommitTerms, PreparedOp};
use crate::keys::EpkForm;
use crate::partition::{self, ScanRequest};
use crate::prepare::LogicalPartition;
use crate::routing::PartitionRange;
use crate::{Engine, Error, RequestContext, RowKey, StoredItem, ru};

/// Items erased by one commit.
const ITEMS_MAX: usize = 500;
/// Rows read for them: a view is not held for long where most rows are not to be erased.
const ROWS_MAX: usize = 10_000;

/// What one commit is to erase.
struct Step {
    not_after: Lsn,
    charge_max: Option<Charge>,
    ids: Vec<RowKey>,
    rows: usize,
    charge: Charge,
}

impl Step {
    fn new(not_after: Lsn, charge_max: Option<Charge>) -> Self {
        Self { not_after, charge_max, ids: Vec::new(), rows: 0, charge: Charge::ZERO }
    }

    /// Takes in a row, which holds no item if that has expired. Returns whether there is room for
    /// another.
    fn take(&mut self, item: Option<&StoredItem>) -> bool {
        if let Some(item) = item.filter(|item| item.lsn() <= self.not_after) {
            self.ids.push(item.row_key().clone());
            self.charge += ru::delete(item.body().len());
        }
        self.rows += 1;
        let is_costly = self.charge_max.is_some_and(|max| self.charge >= max);
        self.ids.len() < ITEMS_MAX && self.rows < ROWS_MAX && !is_costly
    }
}

impl Engine {
    /// Deletes every item that a logical partition has now, or as many as the deadline allows.
    pub async fn delete_partition_key(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        key: PartitionKey,
    ) -> Result<(), Error> {
        let logical_partition = LogicalPartition::of(container, &key)?;
        let mut range = container.routing().locate(&logical_partition.epk).clone();
        let not_after = range.partition.lsn();
        ctx.served.touch(range.id, not_after);
        let mut paid = self.admit(ctx, &range, ru::point_read(0))?;
        let mut charge = ru::point_read(0);
        let mut after = None;
        loop {
            let erased =
                self.erase_some(ctx, container, &range, &logical_partition, not_after, after).await;
            if let Ok((deletes, _)) = &erased {
                charge += *deletes;
            }
            ctx.served.charge += charge;
            range.partition.meter.settle(paid, charge, Some(&logical_partition.id()));
            after = erased?.1;
            if after.is_none() {
                return Ok(());
            }
            // The partition that holds the items now pays for the rest.
            let now = container.routing().locate(&logical_partition.epk).clone();
            ctx.served.touch_instead(range.id, now.id, now.partition.lsn());
            range = now;
            // What is deleted stays deleted: a client that is refused here sends the request again
            // for the rest.
            self.check_deadline(ctx)?;
            paid = self.try_admit(ctx.admission, &range, Charge::ZERO)?;
            charge = Charge::ZERO;
        }
    }

    /// Deletes the next items of a logical partition after the key `after`. Returns the cost and
    /// the key to continue after.
    async fn erase_some(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        range: &PartitionRange,
        logical_partition: &LogicalPartition,
        not_after: Lsn,
        after: Option<Vec<u8>>,
    ) -> Result<(Charge, Option<Vec<u8>>), Error> {
        let (ids, last) = self.ids_to_erase(container, logical_partition, not_after, after).await?;
        let ops = ids.into_iter().map(|id| PreparedOp::Erase { id, not_after }).collect();
        let (logical_partition, terms) = (logical_partition.clone(), CommitTerms::default());
        let committed = self.commit(container, range, logical_partition, ops, terms).await?;
        ctx.served.touch_instead(range.id, committed.range, committed.lsn);
        let mut charge = Charge::ZERO;
        for result in committed.results {
            charge += result.charge;
            result.outcome?;
        }
        Ok((charge, last))
    }

    /// Ids of the next items of a logical partition to erase, after the key `after`, which is
    /// advanced.
    async fn ids_to_erase(
        &self,
        container: &Arc<Container>,
        logical_partition: &LogicalPartition,
        not_after: Lsn,
        after: Option<Vec<u8>>,
    ) -> Result<(Vec<RowKey>, Option<Vec<u8>>), Error> {
        let (lo, hi) = logical_partition.logical_key.row_bounds();
        let form = EpkForm::of(&container.spec.partition_key);
        let reader = self.reader(container);
        let (engine, container, epk) =
            (self.clone(), Arc::clone(container), logical_partition.epk.clone());
        self.run_blocking(move || {
            let (view, partition, charge_max) = loop {
                let routing = container.routing();
                let range = routing.locate(&epk);
                if let Some(view) = engine.view_of([range])? {
                    break (view, range.partition.id, range.partition.meter.page_charge_max());
                }
            };
            let request = ScanRequest { partition, form, lo, hi, after };
            let mut step = Step::new(not_after, charge_max);
            let mut last = None;
            partition::scan(view.as_ref(), &request, reader, &mut |key, item| {
                if !step.take(item.as_ref()) {
                    last = Some(key.to_vec());
                }
                Ok(last.is_none())
            })?;
            Ok((step.ids, last))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use model::{ContainerRid, DatabaseRid, PartitionId};

    use super::*;
    use crate::{BodyFormat, Etag};

    fn item(lsn: u64) -> StoredItem {
        StoredItem {
            container: ContainerRid { database: DatabaseRid(1), number: 1 },
            number: 1,
            etag: Etag { origin: PartitionId(1), lsn: Lsn(lsn), seq: 0 },
            ts: 0,
            ticks: 0,
            partition_key: Bytes::new(),
            id: "1".into(),
            format: BodyFormat::Json,
            body: Bytes::from_static(b"{}"),
        }
    }

    /// How many of these rows fit a step, and how many items it erases.
    fn filled(charge_max: Option<Charge>, row: Option<&StoredItem>) -> (usize, usize) {
        let mut step = Step::new(Lsn(5), charge_max);
        while step.take(row) {}
        (step.rows, step.ids.len())
    }

    #[test]
    fn a_step_ends_with_items_rows_or_charge() {
        assert_eq!(filled(None, Some(&item(5))), (ITEMS_MAX, ITEMS_MAX));
        assert_eq!(filled(None, Some(&item(6))), (ROWS_MAX, 0), "written since");
        assert_eq!(filled(None, None), (ROWS_MAX, 0), "expired");
        assert_eq!(filled(Some(Charge::units(8)), Some(&item(5))), (2, 2), "5 each");
        assert_eq!(filled(Some(Charge::units(8)), None), (ROWS_MAX, 0));
    }
}
