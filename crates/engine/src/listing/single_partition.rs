//! Items of one logical partition: its rows lie in the order of their ids.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use storage::{Dir, KeyRange};

use super::{
    BudgetedPage, ItemKey, Listing, PageBuilder, PageState, ScanBudget, charge_of, partition_key,
};
use crate::catalog::Container;
use crate::keys::{self, EpkForm};
use crate::partition::ScanStats;
use crate::prepare::LogicalPartition;
use crate::row::Row;
use crate::{Engine, Error, RequestContext, ru};

impl Engine {
    pub(super) fn list_single_partition(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        listing: &Listing,
        budget: ScanBudget<'_>,
    ) -> Result<BudgetedPage, Error> {
        let key = &listing.from.key;
        let logical_partition = LogicalPartition::of(container, &partition_key(key))?;
        let (lo, hi) = row_bounds(&logical_partition, listing);
        let (range, view) = loop {
            let range = container.routing().locate(&logical_partition.epk).clone();
            if let Some(view) = self.view_of([&range])? {
                break (range, view);
            }
        };
        let at = range.partition.lsn();
        let paid = self.try_admit(ctx.admission, &range, ru::query(1, 0, 0))?;
        ctx.served.touch(range.id, at);
        let (form, reader) = (EpkForm::of(&container.spec.partition_key), self.reader(container));
        let charge_max = range.partition.meter.page_charge_max();
        let stats = ScanStats::default();
        let mut page = PageBuilder::new(listing);
        let mut is_over_budget = false;
        let filled = (|| {
            let bounds = KeyRange { lo: Bound::Included(&lo), hi: Bound::Excluded(&hi) };
            let mut cursor = view.scan(range.partition.id, bounds, Dir::Fwd)?;
            while let Some((row_key, value)) = cursor.next()? {
                let id = keys::row_id(form, row_key)
                    .ok_or_else(|| Error::Internal("a row's key can't be read".into()))?;
                let row = Row::read(Bytes::copy_from_slice(value), id)?;
                if reader.is_expired(&row.head) {
                    continue;
                }
                if page.examined >= budget.examined_max {
                    is_over_budget = true;
                    break;
                }
                let item_key = ItemKey { key: key.clone(), id: id.to_owned() };
                let is_costly = charge_max.is_some_and(|max| charge_of(&stats) >= max);
                if self.must_end(budget, page.examined) || (is_costly && page.examined > 0) {
                    page.next = Some(item_key);
                    break;
                }
                let item = row.into_item(reader.container, id);
                if let PageState::Full = page.take(&item_key, item, &stats)? {
                    break;
                }
            }
            Ok::<(), Error>(())
        })();
        let charge = if is_over_budget { model::Charge::ZERO } else { charge_of(&stats) };
        range.partition.meter.settle(paid, charge, Some(&logical_partition.into_id()));
        filled?;
        Ok((!is_over_budget).then(|| (page.into_page(1), charge)))
    }
}

/// The bounds of a listing's rows within its logical partition.
fn row_bounds(logical_partition: &LogicalPartition, listing: &Listing) -> (Vec<u8>, Vec<u8>) {
    let (_, hi) = logical_partition.logical_key.row_bounds();
    let lo = logical_partition.logical_key.row(&listing.from.id).to_vec();
    let hi = match &listing.end {
        Some(end) if end.key == listing.from.key => {
            logical_partition.logical_key.row(&end.id).to_vec()
        }
        _ => hi,
    };
    (lo, hi)
}
