//! Items in the order of their keys: partition key first, then id.
//!
//! Within one logical partition that is the order of its rows. Over all of them it is the order of
//! a composite index over partition key and id, which each range has of its own items; this module
//! merges the ranges. A page ends at a key and names no range, so splits between two pages change
//! nothing. As long as there is no such index, a full scan returns the same pages, if the container
//! is small enough.

mod cross_partition;
mod full_scan;
mod single_partition;

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

use model::json::FieldMask;

use model::{Charge, Date, PartitionKey, PartitionKeyComponent, Value, limits};
use query::Plan;

use crate::cancellation::StopSignal;
use crate::catalog::Container;
use crate::index::{Composite, CompositeColumn, Indexes};
use crate::partition::ScanStats;
use crate::{Engine, Error, RequestContext, StoredItem, ru};

/// Up to this many items are read on the calling thread; a page that needs more runs on another.
const INLINE_ITEMS_MAX: u64 = 128;
/// Items that are read between two checks of the clock.
const ITEMS_PER_CLOCK: u64 = 64;

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
                Some(Self { key: key.clone(), id: item.id().to_owned() })
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
    /// A plan whose filter items must also match.
    pub filter: Option<Plan>,
    /// The property under which the filter sees the time of an item's last change, as a date.
    pub time_property: Option<&'static str>,
    /// Most items of a page.
    pub items_max: usize,
}

impl Default for Listing {
    fn default() -> Self {
        Self {
            from: ItemKey::default(),
            end: None,
            ids: (Bound::Unbounded, Bound::Unbounded),
            filter: None,
            time_property: None,
            items_max: limits::PAGE_ITEMS_DEFAULT,
        }
    }
}

/// Where ids begin and where they end.
pub type IdBounds = (Bound<String>, Bound<String>);

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
    is_deferred: bool,
}

/// Whether a page takes more items.
enum PageState {
    /// There is room for another.
    More,
    /// The page is full, and the last one taken is the first of the next page.
    Full,
}

/// A page that is being filled.
struct PageBuilder<'l> {
    listing: &'l Listing,
    /// The filter, and the fields it reads.
    filter: Option<(&'l Plan, FieldMask)>,
    items: Vec<StoredItem>,
    bytes: usize,
    examined: u64,
    next: Option<ItemKey>,
    is_scanned: bool,
    is_deferred: bool,
}

impl<'l> PageBuilder<'l> {
    fn new(listing: &'l Listing) -> Self {
        let filter = listing.filter.as_ref().filter(|filter| filter.has_filter());
        let filter = filter.map(|filter| (filter, filter.fields_to_match()));
        Self {
            listing,
            filter,
            items: Vec::new(),
            bytes: 0,
            examined: 0,
            next: None,
            is_scanned: false,
            is_deferred: false,
        }
    }

    /// Adds an item if it matches the filter.
    fn take(
        &mut self,
        key: &ItemKey,
        item: StoredItem,
        stats: &ScanStats,
    ) -> Result<PageState, Error> {
        self.examined += 1;
        stats.note_row(item.body().len());
        if !self.is_wanted(&item)? {
            return Ok(PageState::More);
        }
        let is_full = self.items.len() >= self.listing.items_max
            || (self.bytes + item.body().len() > limits::PAGE_BYTES_MAX && !self.items.is_empty());
        if is_full {
            self.next = Some(key.clone());
            return Ok(PageState::Full);
        }
        self.bytes += item.body().len();
        self.items.push(item);
        Ok(PageState::More)
    }

    fn is_wanted(&self, item: &StoredItem) -> Result<bool, Error> {
        let (lower, upper) = &self.listing.ids;
        let ids = (lower.as_ref().map(String::as_str), upper.as_ref().map(String::as_str));
        if !RangeBounds::<str>::contains(&ids, item.id()) {
            return Ok(false);
        }
        let Some((filter, needed)) = &self.filter else { return Ok(true) };
        let mut value = item.part(needed)?;
        if let (Some(property), Value::Object(fields)) = (self.listing.time_property, &mut value)
            && needed.has_field(property)
        {
            fields.insert(property, Value::Date(date_of(item.ticks())));
        }
        Ok(filter.matches(&value)?)
    }

    fn into_page(self, ranges: usize) -> ListedPage {
        let Self { items, next, is_scanned, is_deferred, .. } = self;
        ListedPage { items, next, ranges, is_scanned, is_deferred }
    }
}

/// What a page may take.
#[derive(Clone, Copy)]
struct ScanBudget<'s> {
    until: Duration,
    examined_max: u64,
    /// Ends the page earlier.
    stop: &'s StopSignal,
}

/// A page, unless it needs a larger budget.
type BudgetedPage = Option<(ListedPage, Charge)>;

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
        let is_empty = listing.end.as_ref().is_some_and(|end| *end <= listing.from);
        if is_empty {
            return Ok(ListedPage::default());
        }
        let is_within = listing.is_within_one_partition();
        let stop = ctx.stop_signal();
        if is_within
            && let Some(page) =
                self.try_page(ctx, container, &listing, (INLINE_ITEMS_MAX, &stop))?
        {
            return Ok(page);
        }
        let page = self.fill_in_background(ctx, container, listing.clone()).await?;
        if !page.is_deferred || !self.wait_for_key_order(container, &stop).await {
            return Ok(page);
        }
        let charge = ctx.served.charge;
        let page = self.fill_in_background(ctx, container, listing).await;
        ctx.served.charge += charge;
        page
    }

    /// A page, however long it takes, on a background thread.
    async fn fill_in_background(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        listing: Listing,
    ) -> Result<ListedPage, Error> {
        let (engine, listed) = (self.clone(), Arc::clone(container));
        let (mut own, stop) = (ctx.part(), ctx.stop_signal());
        let (own, page) = self
            .run_blocking(move || {
                let page = engine.try_page(&mut own, &listed, &listing, (u64::MAX, &stop));
                Ok((own, page))
            })
            .await?;
        ctx.served = own.served;
        let over_budget = || Error::Internal("a page without an end".into());
        page?.ok_or_else(over_budget)
    }

    fn try_page(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        listing: &Listing,
        (examined_max, stop): (u64, &StopSignal),
    ) -> Result<Option<ListedPage>, Error> {
        let started = self.inner.components.clock.monotonic();
        let budget = ScanBudget { until: started + limits::PAGE_TIME_MAX, examined_max, stop };
        let try_page = match listing.is_within_one_partition() {
            true => self.list_single_partition(ctx, container, listing, budget),
            false => self.list_cross_partition(ctx, container, listing, budget),
        };
        if let Err(Error::Throttled { .. }) = &try_page {
            ctx.served.charge = ru::throttled();
        }
        Ok(try_page?.map(|(page, charge)| {
            ctx.served.charge = charge;
            page
        }))
    }

    /// Whether the page must end here, after `examined` items.
    fn must_end(&self, budget: ScanBudget<'_>, examined: u64) -> bool {
        examined > 0
            && examined.is_multiple_of(ITEMS_PER_CLOCK)
            && budget.stop.is_due(budget.until, self.inner.components.clock.monotonic())
    }
}

impl Listing {
    /// Whether all keys of the listing have one partition key.
    pub fn is_within_one_partition(&self) -> bool {
        let next = ItemKey::after_partition(self.from.key.clone());
        self.end.as_ref().is_some_and(|end| *end <= next)
    }

    fn covers(&self, key: &ItemKey) -> bool {
        *key >= self.from && self.end.as_ref().is_none_or(|end| key < end)
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

/// The date that many 100 ns ticks after the Unix epoch.
fn date_of(ticks: u64) -> Date {
    const TICKS_PER_MILLI: u64 = 10_000;
    // Both fit: one is a quotient of an unsigned number, the other less than its divisor.
    Date {
        millis: i64::try_from(ticks / TICKS_PER_MILLI).unwrap_or(i64::MAX),
        ticks: u16::try_from(ticks % TICKS_PER_MILLI).unwrap_or_default(),
    }
}

fn partition_key(key: &str) -> PartitionKey {
    PartitionKey([PartitionKeyComponent::String(key.to_owned())].into_iter().collect())
}

/// The charge for reading items of one range.
fn charge_of(stats: &ScanStats) -> Charge {
    let scanned = stats.scanned.get();
    ru::query(1, scanned.rows, scanned.bytes) + ru::index_entries(stats.entries.get())
}
