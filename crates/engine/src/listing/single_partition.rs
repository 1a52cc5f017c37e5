//! Items of one logical partition: its rows lie in the order of their ids.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use storage::{Dir, KeyRange};

use super::{Attempt, Filling, ItemKey, Listing, Patience, Taken, charge_of, partition_key};
use crate::catalog::Container;
use crate::keys::{self, EpkForm};
use crate::partition::Seen;
use crate::prepare::Place;
use crate::row::Row;
use crate::{Engine, Error, RequestContext, ru};

impl Engine {
    pub(super) fn list_within(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        listing: &Listing,
        patience: Patience,
    ) -> Result<Attempt, Error> {
        let key = &listing.from.key;
        let place = Place::of(container, &partition_key(key))?;
        let (lo, hi) = row_bounds(&place, listing);
        let (range, view) = loop {
            let range = container.routing().locate(&place.epk).clone();
            if let Some(view) = self.view_of([&range])? {
                break (range, view);
            }
        };
        let at = range.partition.lsn();
        let paid = self.try_admit(ctx.admission, &range, ru::query(1, 0, 0))?;
        ctx.served.touch(range.id, at);
        let (form, reader) = (EpkForm::of(&container.spec.partition_key), self.reader(container));
        let charge_max = range.partition.meter.page_charge_max();
        let seen = Seen::default();
        let mut filling = Filling::new(listing);
        let mut is_impatient = false;
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
                if filling.looked_at >= patience.looked_at_max {
                    is_impatient = true;
                    break;
                }
                let item_key = ItemKey { key: key.clone(), id: id.to_owned() };
                let is_costly = charge_max.is_some_and(|max| charge_of(&seen) >= max);
                if self.must_end(patience, filling.looked_at)
                    || (is_costly && filling.looked_at > 0)
                {
                    filling.next = Some(item_key);
                    break;
                }
                let item = row.into_item(reader.container, id);
                if let Taken::Full = filling.take(&item_key, item, &seen)? {
                    break;
                }
            }
            Ok::<(), Error>(())
        })();
        let charge = if is_impatient { model::Charge::ZERO } else { charge_of(&seen) };
        range.partition.meter.settle(paid, charge, Some(&place.into_name()));
        filled?;
        Ok((!is_impatient).then(|| (filling.into_page(1), charge)))
    }
}

/// The rows of a logical partition that a listing is about.
fn row_bounds(place: &Place, listing: &Listing) -> (Vec<u8>, Vec<u8>) {
    let (_, hi) = place.logical.row_bounds();
    let lo = place.logical.row(&listing.from.id).to_vec();
    let hi = match &listing.end {
        Some(end) if end.key == listing.from.key => place.logical.row(&end.id).to_vec(),
        _ => hi,
    };
    (lo, hi)
}
