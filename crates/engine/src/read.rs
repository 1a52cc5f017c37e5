//! Reading one item, and what all reads have in common.

use std::sync::Arc;

use model::{Charge, Lsn, PartitionKey};
use storage::View;

use crate::catalog::Container;
use crate::ops::EtagCondition;
use crate::partition::{self, Reader, Serving};
use crate::planted::{Bug, is_planted};
use crate::prepare::{LogicalPartition, check_addressed_id};
use crate::routing::PartitionRange;
use crate::{Engine, Error, RangeId, RequestContext, StoredItem, ru};

impl Engine {
    /// Reads one item. If `if_none_match` is met, the result is [`Error::NotModified`].
    pub fn read_item(
        &self,
        ctx: &mut RequestContext,
        container: &Container,
        key: &PartitionKey,
        id: impl AsRef<[u8]>,
        if_none_match: Option<&EtagCondition>,
    ) -> Result<StoredItem, Error> {
        let id = id.as_ref();
        check_addressed_id(container.spec.body, id)?;
        let logical_partition = LogicalPartition::of(container, key)?;
        loop {
            let routing = container.routing.load();
            let range = routing.locate(&logical_partition.epk);
            let paid = self.admit(ctx, range, ru::point_read(0))?;
            ctx.served.charge = ru::point_read(0);
            let at = range.partition.lsn();
            let Some(view) = self.view_of([range])? else {
                range.partition.meter.settle(paid, Charge::ZERO, None);
                continue;
            };
            ctx.served.touch(range.id, at);
            let (p, reader) = (range.partition.id, self.reader(container));
            let found = check_session(&ctx.session, range, at).and_then(|()| {
                partition::fetch(view.as_ref(), p, reader, &logical_partition.logical_key, id)
            });
            let read = found_item(ctx, found, id, if_none_match);
            range.partition.meter.settle(
                paid,
                ctx.served.charge,
                Some(&logical_partition.into_id()),
            );
            return read;
        }
    }

    /// A view in which these ranges are current; `None` when one of them is gone and the routing
    /// map must be read again.
    pub(crate) fn view_of<'r>(
        &self,
        ranges: impl IntoIterator<Item = &'r PartitionRange>,
    ) -> Result<Option<Arc<dyn View>>, Error> {
        let view = self.inner.store.view();
        for range in ranges {
            let serving = range.partition.check_serving()?;
            if serving == Serving::Gone && !is_planted(Bug::GoneNotNoticed) {
                return Ok(None);
            }
        }
        Ok(Some(view))
    }

    pub(crate) fn reader(&self, container: &Container) -> Reader {
        Reader::new(container, self.inner.components.clock.now().seconds())
    }
}

/// Ends a read with the item that was found, if any, which decides the charge.
fn found_item(
    ctx: &mut RequestContext,
    found: Result<Option<StoredItem>, Error>,
    id: &[u8],
    if_none_match: Option<&EtagCondition>,
) -> Result<StoredItem, Error> {
    let item = found?.ok_or_else(|| Error::item_not_found(id))?;
    ctx.served.item_lsn = Some(item.lsn());
    if if_none_match.is_some_and(|c| c.is_met_by(&item)) {
        return Err(Error::NotModified { etag: item.etag() });
    }
    ctx.served.charge = ru::point_read(item.body().len());
    Ok(item)
}

/// Refuses to read from a partition that is behind what the caller has already seen.
pub(crate) fn check_session(
    session: &[(RangeId, Lsn)],
    range: &PartitionRange,
    at: Lsn,
) -> Result<(), Error> {
    let is_behind =
        |(id, seen): &(RangeId, Lsn)| (*id == range.id || range.parents.contains(id)) && *seen > at;
    if session.iter().any(is_behind) && !is_planted(Bug::SessionNotChecked) {
        return Err(Error::SessionNotAvailable);
    }
    Ok(())
}
