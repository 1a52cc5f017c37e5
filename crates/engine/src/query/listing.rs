//! Items in the order of their keys: partition key first, then id.
//!
//! A page ends at a key and names no range, so splits between two pages change nothing.
//! [`super::key_order`] fills it.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use model::{Charge, PartitionKey, PartitionKeyComponent, limits};
use query::Plan;

use crate::cancellation::StopSignal;
use crate::catalog::Container;
use crate::index::{Composite, CompositeColumn, Indexes};
use crate::{Engine, Error, RequestContext, StoredItem};

/// Up to this many rows are read on the calling thread; a page that needs more runs on another.
const INLINE_ROWS_MAX: u64 = 128;

/// The sort key of items whose partition key is one string.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemKey {
    /// The partition key.
    pub key: String,
    /// The id.
    pub id: String,
}

impl ItemKey {
    /// The key of an item; `None` if its partition key is not one string.
    pub fn of(item: &StoredItem) -> Option<Self> {
        match item.partition_key().0.as_slice() {
            [PartitionKeyComponent::String(key)] => {
                Some(Self { key: key.clone(), id: item.id().into_owned() })
            }
            _ => None,
        }
    }

    /// The least key that is greater.
    #[must_use]
    pub fn successor(mut self) -> Self {
        self.id.push('\0');
        self
    }

    /// The least key of the next logical partition.
    #[must_use]
    pub fn after_partition(mut key: String) -> Self {
        key.push('\0');
        Self { key, id: String::new() }
    }

    /// The logical partition it is in.
    pub(super) fn partition_key(&self) -> PartitionKey {
        PartitionKey([PartitionKeyComponent::String(self.key.clone())].into_iter().collect())
    }
}

/// Which items are listed.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The first key that is listed.
    pub from: ItemKey,
    /// The first key behind the listing; `None` lists to the end.
    pub end: Option<ItemKey>,
    /// The ids that are listed, in all logical partitions.
    pub ids: IdBounds,
    /// A plan over items alone, whose filter items must also match.
    pub filter: Option<Plan>,
    /// Most items of a page.
    pub items_max: usize,
}

impl Default for Listing {
    fn default() -> Self {
        Self {
            from: ItemKey::default(),
            end: None,
            ids: IdBounds::default(),
            filter: None,
            items_max: limits::PAGE_ITEMS_DEFAULT,
        }
    }
}

/// Where ids begin and where they end.
#[derive(Clone, Debug)]
pub struct IdBounds(pub Bound<String>, pub Bound<String>);

impl Default for IdBounds {
    fn default() -> Self {
        Self(Bound::Unbounded, Bound::Unbounded)
    }
}

impl IdBounds {
    pub(crate) fn contain(&self, id: &[u8]) -> bool {
        let Self(lower, upper) = self;
        let bounds = (lower.as_ref().map(String::as_bytes), upper.as_ref().map(String::as_bytes));
        RangeBounds::<[u8]>::contains(&bounds, id)
    }
}

/// A page of items in the order of their keys.
#[derive(Clone, Debug, Default)]
pub struct ListedPage {
    /// The items.
    pub items: Vec<StoredItem>,
    /// Where the next page begins; absent when there is no more.
    pub next: Option<ItemKey>,
    /// How many ranges were scanned.
    pub ranges: usize,
    /// Whether all of their items were read because no index has the order of keys.
    pub is_scanned: bool,
    /// Whether that was too much, so that the page is empty and the next one begins at the same
    /// key.
    pub(super) is_deferred: bool,
}

impl Engine {
    /// A page of items in the order of their keys. Over several logical partitions the container
    /// should have the index that [`key_order`] describes. Without it all items are read, and where
    /// there are too many the page is empty and the next one begins at the same key.
    pub async fn list_in_key_order(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        listing: Listing,
    ) -> Result<ListedPage, Error> {
        if listing.end.as_ref().is_some_and(|end| *end <= listing.from) {
            return Ok(ListedPage::default());
        }
        let stop = ctx.stop_signal();
        if listing.is_within_one_partition()
            && let Some(page) = self.list_page(ctx, container, &listing, INLINE_ROWS_MAX, &stop)?
        {
            return Ok(page);
        }
        let timer = self.time_operation("list");
        let (mut charge, mut has_waited) = (Charge::ZERO, false);
        loop {
            let (engine, listed) = (self.clone(), Arc::clone(container));
            let (mut own, wanted, until) = (ctx.part(), listing.clone(), stop.clone());
            let fill = move || {
                let page = engine.list_page(&mut own, &listed, &wanted, u64::MAX, &until);
                Ok((own.served, page))
            };
            let (served, page) = self.run_fairly(fill).await?;
            ctx.served = served;
            ctx.served.charge += charge;
            let page = page?.ok_or_else(|| Error::Internal("a page without an end".into()))?;
            if !page.is_deferred || has_waited || !self.wait_for_key_order(container, &stop).await {
                self.end_operation(timer, ctx, container, None);
                return Ok(page);
            }
            (charge, has_waited) = (ctx.served.charge, true);
        }
    }

    /// Waits until an index has a container's items in the order of their keys, but no longer than
    /// a page may take. Returns whether one has.
    async fn wait_for_key_order(&self, container: &Container, stop: &StopSignal) -> bool {
        let clock = &self.inner.components.clock;
        let until = stop.earlier(clock.monotonic() + limits::PAGE_TIME_MAX);
        loop {
            let completed = self.inner.index_completed.notified();
            if has_key_order(container, &self.indexes_of(container)) {
                return true;
            }
            let now = clock.monotonic();
            if now >= until {
                return false;
            }
            tokio::select! {
                biased;
                () = completed => {}
                () = clock.sleep(until - now) => {}
            }
        }
    }
}

impl Listing {
    /// Whether all keys of the listing have one partition key.
    pub fn is_within_one_partition(&self) -> bool {
        let next = ItemKey::after_partition(self.from.key.clone());
        self.end.as_ref().is_some_and(|end| *end <= next)
    }
}

/// The index by which items of several logical partitions are listed in the order of their keys;
/// `None` for containers whose key is not one property of items.
pub fn key_order(definition: &model::PartitionKeyDefinition) -> Option<Composite> {
    let [path] = definition.paths.as_slice() else { return None };
    let column = |path: Vec<String>| CompositeColumn { path, is_descending: false };
    let key = path.segments().to_vec();
    Some(Composite { columns: vec![column(key), column(vec!["id".to_owned()])] })
}

/// Whether an index has all items of a container in the order of their keys by now.
fn has_key_order(container: &Container, indexes: &Indexes) -> bool {
    let order = key_order(&container.spec.partition_key);
    order.is_some_and(|order| indexes.has_composite(&order))
}
