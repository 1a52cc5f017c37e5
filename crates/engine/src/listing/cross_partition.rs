//! Items of several logical partitions, by the index that holds them in the order of their keys.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use model::Value;
use model::order::{self, TypeOrder};
use query::access::{ByteRange, Step};
use query::exec::IndexStart;
use query::plan::SortOrder;
use storage::View;

use super::full_scan::FullScan;
use super::{
    BudgetedPage, ItemKey, Listing, PageBuilder, PageState, ScanBudget, charge_of, key_order,
};
use crate::catalog::Container;
use crate::index::{Entry, Indexes, NextEntry, Order, OrderedScan, ScanContext, ScanStart};
use crate::keys::{self, EpkForm};
use crate::partition::{ScanStats, fetch_row};
use crate::routing::PartitionRange;
use crate::{Engine, Error, RequestContext, ru};

/// The scan of a range, and its context.
type RangeScan<'v> = (OrderedScan<'v>, ScanContext<'v>);

impl Engine {
    pub(super) fn list_cross_partition(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        listing: &Listing,
        budget: ScanBudget<'_>,
    ) -> Result<BudgetedPage, Error> {
        let (ranges, view, indexes) = self.ranges_in_view(container)?;
        let order = order_of(container, &indexes, listing);
        let mut paid = Vec::with_capacity(ranges.len());
        for range in &ranges {
            match self.try_admit(ctx.admission, range, ru::query(1, 0, 0)) {
                Ok(some) => paid.push(some),
                Err(refused) => {
                    for (range, paid) in ranges.iter().zip(paid) {
                        range.partition.meter.settle(paid, model::Charge::ZERO, None);
                    }
                    return Err(refused);
                }
            }
        }
        let stats: Vec<ScanStats> = ranges.iter().map(|_| ScanStats::default()).collect();
        let mut page = PageBuilder::new(listing);
        let is_costly = || {
            ranges.iter().zip(&stats).any(|(range, stats)| {
                let max = range.partition.meter.page_charge_max();
                max.is_some_and(|max| charge_of(stats) >= max)
            })
        };
        let filled = (|| {
            let reader = self.reader(container);
            let form = EpkForm::of(&container.spec.partition_key);
            let Some(order) = &order else {
                let (ranges, stats, view) = (&ranges, &stats, view.as_ref());
                let full_scan = FullScan { ranges, stats, view, form, reader };
                return self.fill_by_scan(&full_scan, &mut page, budget, &is_costly);
            };
            let start = start_of(listing);
            let mut merge = Merge::default();
            for (range, stats) in ranges.iter().zip(&stats) {
                let partition = range.partition.id;
                let view = view.as_ref();
                let context = ScanContext { view, partition, form, reader, within: None, stats };
                let scan = OrderedScan::new(
                    order,
                    context,
                    start.as_ref().map(ListingStart::as_start).as_ref(),
                )?;
                merge.open((scan, context))?;
            }
            self.fill(&mut merge, &mut page, budget, &is_costly)
        })();
        let mut charge = model::Charge::ZERO;
        for ((range, stats), paid) in ranges.iter().zip(&stats).zip(paid) {
            let part = charge_of(stats);
            range.partition.meter.settle(paid, part, None);
            charge += part;
            ctx.served.touch(range.id, range.partition.lsn());
        }
        filled?;
        Ok(Some((page.into_page(ranges.len()), charge)))
    }

    fn fill(
        &self,
        merge: &mut Merge<'_>,
        page: &mut PageBuilder<'_>,
        budget: ScanBudget<'_>,
        is_costly: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        let mut last: Option<ItemKey> = None;
        while let Some((entry, context)) = merge.next()? {
            let must_end =
                self.must_end(budget, page.examined) || (page.examined > 0 && is_costly());
            if must_end {
                page.next = last.map(ItemKey::successor);
                return Ok(());
            }
            let ScanContext { view, partition, form, reader, stats, .. } = *context;
            let row = fetch_row(view, partition, form, reader, &entry.identity)?;
            let Some(row) = row.filter(|row| !row.is_expired) else { continue };
            let Some(key) = ItemKey::of(&row.item) else { continue };
            if page.listing.covers(&key)
                && let PageState::Full = page.take(&key, row.item, stats)?
            {
                return Ok(());
            }
            last = Some(key);
        }
        if merge.is_cut_short {
            page.next = last.map(ItemKey::successor);
        }
        Ok(())
    }

    /// All ranges of a container in one view, and the indexes whose entries the view has.
    #[expect(clippy::type_complexity, reason = "named where it is taken apart")]
    fn ranges_in_view(
        &self,
        container: &Container,
    ) -> Result<(Vec<PartitionRange>, Arc<dyn View>, Arc<Indexes>), Error> {
        loop {
            // A view has all entries of a policy only if the policy was known before the view was
            // taken and is the same after it.
            let indexes = self.indexes_of(container);
            let ranges = container.routing().ranges().to_vec();
            if let Some(view) = self.view_of(&ranges)?
                && self.indexes_of(container).version == indexes.version
            {
                return Ok((ranges, view, indexes));
            }
        }
    }
}

/// Where scans begin.
struct ListingStart {
    key: Vec<u8>,
    in_index: Vec<u8>,
}

impl ListingStart {
    fn as_start(&self) -> ScanStart<'_> {
        let in_index = IndexStart { key: self.in_index.clone(), number: 0 };
        ScanStart { key: &self.key, number: 0, in_index }
    }
}

fn start_of(listing: &Listing) -> Option<ListingStart> {
    if listing.from == ItemKey::default() {
        return None;
    }
    let texts = [&listing.from.key, &listing.from.id].map(|text| Value::from(text.as_str()));
    let (mut key, mut in_index) = (Vec::new(), Vec::new());
    for text in &texts {
        order::encode_whole(TypeOrder::NoSql, Some(text), &mut key);
        order::encode(TypeOrder::NoSql, Some(text), &mut in_index);
    }
    // The order of what was cut off is not known; an item whose key begins with the same bytes may
    // come first.
    let is_cut = key != in_index;
    if is_cut {
        let common = key.iter().zip(&in_index).take_while(|(a, b)| a == b).count();
        in_index.truncate(common.min(order::STRING_BYTES_MAX));
    }
    Some(ListingStart { key, in_index })
}

/// The order of keys, from the first partition key of the listing to the last, if an index has it.
fn order_of(container: &Container, indexes: &Indexes, listing: &Listing) -> Option<Order> {
    let composite = key_order(&container.spec.partition_key);
    let columns = composite.into_iter().flat_map(|composite| composite.columns);
    let columns = columns
        .map(|column| (column.path.into_iter().map(Step::Name).collect(), SortOrder::Ascending));
    let mut lo = Vec::new();
    let first = Value::from(listing.from.key.as_str());
    order::encode(TypeOrder::NoSql, Some(&first), &mut lo);
    lo.truncate(order::STRING_BYTES_MAX);
    let mut hi = vec![order::tag(TypeOrder::NoSql, Some(&first)) + 1];
    if let Some(end) = &listing.end {
        hi.clear();
        order::encode(TypeOrder::NoSql, Some(&Value::from(end.key.as_str())), &mut hi);
        hi.truncate(order::STRING_BYTES_MAX);
        hi = keys::successor(&hi);
    }
    Order::of(indexes, columns.collect(), Some(&[ByteRange { lo, hi }]))
}

/// Merges the scans of all ranges into one order.
#[derive(Default)]
struct Merge<'v> {
    scans: Vec<RangeScan<'v>>,
    heads: BinaryHeap<Reverse<(Entry, usize)>>,
    /// Whether a scan has more entries, but not for this page.
    is_cut_short: bool,
}

impl<'v> Merge<'v> {
    fn open(&mut self, part: RangeScan<'v>) -> Result<(), Error> {
        self.scans.push(part);
        self.advance(self.scans.len() - 1)
    }

    fn advance(&mut self, at: usize) -> Result<(), Error> {
        let Some((scan, _)) = self.scans.get_mut(at) else { return Ok(()) };
        match scan.next()? {
            NextEntry::Entry(entry) => self.heads.push(Reverse((entry, at))),
            NextEntry::CutShort => self.is_cut_short = true,
            NextEntry::End => {}
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(Entry, &ScanContext<'v>)>, Error> {
        // Behind a scan that was cut short, entries of other ranges may be out of order.
        if self.is_cut_short {
            return Ok(None);
        }
        let Some(Reverse((entry, at))) = self.heads.pop() else { return Ok(None) };
        self.advance(at)?;
        Ok(self.scans.get(at).map(|(_, context)| (entry, context)))
    }
}
