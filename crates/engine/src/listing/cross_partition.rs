//! Items of several logical partitions, by the index that has them in the order of their keys.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use model::Value;
use model::order::{self, TypeOrder};
use query::access::{ByteRange, Step};
use query::exec::IndexStart;
use query::plan::SortOrder;
use storage::View;

use super::full_scan::Haystack;
use super::{Attempt, Filling, ItemKey, Listing, Patience, Taken, charge_of, key_order};
use crate::catalog::Container;
use crate::index::{Entry, Ground, Indexes, Moved, Order, OrderWalk, Start};
use crate::keys::{self, EpkForm};
use crate::partition::{Seen, fetch_row};
use crate::routing::PartitionRange;
use crate::{Engine, Error, RequestContext, ru};

/// A range, what was seen of it, and its part of the order.
type Part<'v> = (OrderWalk<'v>, Ground<'v>);

impl Engine {
    pub(super) fn list_across(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        listing: &Listing,
        patience: Patience,
    ) -> Result<Attempt, Error> {
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
        let seen: Vec<Seen> = ranges.iter().map(|_| Seen::default()).collect();
        let mut filling = Filling::new(listing);
        let is_costly = || {
            ranges.iter().zip(&seen).any(|(range, seen)| {
                let max = range.partition.meter.page_charge_max();
                max.is_some_and(|max| charge_of(seen) >= max)
            })
        };
        let filled = (|| {
            let reader = self.reader(container);
            let form = EpkForm::of(&container.spec.partition_key);
            let Some(order) = &order else {
                let (ranges, seen, view) = (&ranges, &seen, view.as_ref());
                let hay = Haystack { ranges, seen, view, form, reader };
                return self.fill_by_scan(&hay, &mut filling, patience, &is_costly);
            };
            let start = start_of(listing);
            let mut merge = Merge::default();
            for (range, seen) in ranges.iter().zip(&seen) {
                let partition = range.partition.id;
                let view = view.as_ref();
                let ground = Ground { view, partition, form, reader, within: None, seen };
                let walk =
                    OrderWalk::new(order, ground, start.as_ref().map(StartAt::as_start).as_ref())?;
                merge.open((walk, ground))?;
            }
            self.fill(&mut merge, &mut filling, patience, &is_costly)
        })();
        let mut charge = model::Charge::ZERO;
        for ((range, seen), paid) in ranges.iter().zip(&seen).zip(paid) {
            let part = charge_of(seen);
            range.partition.meter.settle(paid, part, None);
            charge += part;
            ctx.served.touch(range.id, range.partition.lsn());
        }
        filled?;
        Ok(Some((filling.into_page(ranges.len()), charge)))
    }

    fn fill(
        &self,
        merge: &mut Merge<'_>,
        filling: &mut Filling<'_>,
        patience: Patience,
        is_costly: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        let mut last: Option<ItemKey> = None;
        while let Some((entry, ground)) = merge.next()? {
            let must_end = self.must_end(patience, filling.looked_at)
                || (filling.looked_at > 0 && is_costly());
            if must_end {
                filling.next = last.map(ItemKey::successor);
                return Ok(());
            }
            let Ground { view, partition, form, reader, seen, .. } = *ground;
            let row = fetch_row(view, partition, form, reader, &entry.place)?;
            let Some(row) = row.filter(|row| !row.is_expired) else { continue };
            let Some(key) = ItemKey::of(&row.item) else { continue };
            if filling.listing.covers(&key)
                && let Taken::Full = filling.take(&key, row.item, seen)?
            {
                return Ok(());
            }
            last = Some(key);
        }
        if merge.is_cut_short {
            filling.next = last.map(ItemKey::successor);
        }
        Ok(())
    }

    /// All ranges of a container in one view, and the indexes it shows.
    #[expect(clippy::type_complexity, reason = "named where it is taken apart")]
    fn ranges_in_view(
        &self,
        container: &Container,
    ) -> Result<(Vec<PartitionRange>, Arc<dyn View>, Arc<Indexes>), Error> {
        loop {
            // A view shows the entries that a policy wants only if the policy was known before the
            // view was taken and is the same after it.
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

/// Where walks begin.
struct StartAt {
    key: Vec<u8>,
    in_index: Vec<u8>,
}

impl StartAt {
    fn as_start(&self) -> Start<'_> {
        let in_index = IndexStart { key: self.in_index.clone(), number: 0 };
        Start { key: &self.key, number: 0, in_index }
    }
}

fn start_of(listing: &Listing) -> Option<StartAt> {
    if listing.from == ItemKey::default() {
        return None;
    }
    let texts = [&listing.from.key, &listing.from.id].map(|text| Value::from(text.as_str()));
    let (mut key, mut in_index) = (Vec::new(), Vec::new());
    for text in &texts {
        order::encode_whole(TypeOrder::NoSql, Some(text), &mut key);
        order::encode(TypeOrder::NoSql, Some(text), &mut in_index);
    }
    // What was cut tells nothing of the order; whoever begins like it may come first.
    let is_cut = key != in_index;
    if is_cut {
        let common = key.iter().zip(&in_index).take_while(|(a, b)| a == b).count();
        in_index.truncate(common.min(order::STRING_BYTES_MAX));
    }
    Some(StartAt { key, in_index })
}

/// The order of keys, from the first partition key that counts to the last, if an index has it.
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

/// The parts of all ranges in one order.
#[derive(Default)]
struct Merge<'v> {
    parts: Vec<Part<'v>>,
    heads: BinaryHeap<Reverse<(Entry, usize)>>,
    /// Whether a part has more, but not for this page.
    is_cut_short: bool,
}

impl<'v> Merge<'v> {
    fn open(&mut self, part: Part<'v>) -> Result<(), Error> {
        self.parts.push(part);
        self.advance(self.parts.len() - 1)
    }

    fn advance(&mut self, at: usize) -> Result<(), Error> {
        let Some((walk, _)) = self.parts.get_mut(at) else { return Ok(()) };
        match walk.next()? {
            Moved::Entry(entry) => self.heads.push(Reverse((entry, at))),
            Moved::CutShort => self.is_cut_short = true,
            Moved::End => {}
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(Entry, &Ground<'v>)>, Error> {
        // Behind a part that was cut short others may not run on.
        if self.is_cut_short {
            return Ok(None);
        }
        let Some(Reverse((entry, at))) = self.heads.pop() else { return Ok(None) };
        self.advance(at)?;
        Ok(self.parts.get(at).map(|(_, ground)| (entry, ground)))
    }
}
