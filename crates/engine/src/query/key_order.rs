//! Filling a page of items in the order of their keys.
//!
//! The page is that of a plan for the first items that match, which runs over one of three sources:
//!
//! * the rows of one logical partition, which lie in the order of their ids;
//! * the rows of all ranges in the order of a composite index over partition key and id;
//! * without that index, all rows of all ranges, which the plan then sorts. Such a page costs as
//!   much as the container is large, so a large container has an empty page, and the next one
//!   begins at the same key: its index is being built.

use std::ops::Bound;
use std::sync::Arc;

use model::order::{self, TypeOrder};
use model::{Charge, Value, limits};
use query::Plan;
use query::access::{ByteRange, Step};
use query::algebra::Expr;
use query::exec::{
    Execution, IndexStart, Limits, PageEnd, Position, ResumeValue, Row, RowLookup as _, RowPosition,
};
use query::plan::{SortKey, SortOrder};

use super::listing::{ItemKey, ListedPage, Listing, key_order};
use super::scan::Scan;
use super::scope::ScanRange;
use super::{PageWork, ScanSnapshot};
use crate::cancellation::StopSignal;
use crate::catalog::Container;
use crate::index::{Composite, Order, OrderedRows, OrderedScan, ScanStart};
use crate::ops::Scope;
use crate::partition::{Reader, RowBounds, RowScan, ScanLimits, ScanStats};
use crate::{Engine, Error, RequestContext, StoredItem, keys, ru};

/// Most rows of a container that is scanned for a page.
const SCANNED_ROWS_MAX: u64 = 100_000;

/// What a source had for a page.
struct PulledRows {
    execution: Execution<StoredItem>,
    end: PageEnd,
    /// Identity of the row read last, if the source asked for the page to end.
    last_read: Option<Vec<u8>>,
}

impl Engine {
    /// A page of a listing; `None`, at no charge, if it needs more than `rows_max` rows of the
    /// listing's one logical partition.
    pub(super) fn list_page(
        &self,
        ctx: &mut RequestContext,
        container: &Arc<Container>,
        listing: &Listing,
        rows_max: u64,
        stop: &StopSignal,
    ) -> Result<Option<ListedPage>, Error> {
        let Some(columns) = key_order(&container.spec.partition_key) else {
            return Ok(Some(ListedPage::default()));
        };
        let is_within = listing.is_within_one_partition();
        let scope = match is_within {
            true => Scope::Key(listing.from.partition_key()),
            false => Scope::All,
        };
        let mut work =
            PageWork { admission: ctx.admission, ..PageWork::of(plan_of(listing, Vec::new())) };
        let mut snapshot = self.snapshot(container, &scope, &work)?;
        if let ([rows], true) = (&mut snapshot.route.scan_ranges[..], is_within) {
            rows.narrow(listing);
        }
        let ScanSnapshot { view, route, indexes } = &snapshot;
        let scan_ranges = &route.scan_ranges;
        let scan = self.scan_over(container, indexes, view.as_ref(), route);
        let reader = Reader { system: ctx.system, ..scan.reader };
        let scan = Scan { reader, stop: stop.clone(), ..scan };
        let mut prepayments = scan.prepay(scan_ranges, &work).inspect_err(|error| {
            if let Error::Throttled { .. } = error {
                ctx.served.charge = ru::throttled();
            }
        })?;
        let stats: Vec<ScanStats> = scan_ranges.iter().map(|_| ScanStats::default()).collect();
        let order = match is_within {
            true => None,
            false => order_of(&scan, &columns, listing),
        };
        let pulled = match (&order, is_within) {
            (_, true) => scan.pull_rows_of_partition(&work.plan, listing, rows_max, &stats),
            (Some(order), false) => scan.pull_in_order(&work.plan, listing, order, &stats),
            (None, false) if is_too_large(scan_ranges) => Ok(None),
            (None, false) => scan.pull_sorted(&columns, listing, &stats),
        };
        if is_within && let Ok(None) = &pulled {
            return Ok(None);
        }
        scan.settle_all(scan_ranges, &mut work, &mut prepayments, &stats);
        for scan_range in scan_ranges {
            ctx.served.touch(scan_range.range.id, scan_range.at);
        }
        let page = match pulled? {
            Some(pulled) => scan.page_of(pulled, listing)?,
            None => ListedPage {
                next: Some(listing.from.clone()),
                is_deferred: true,
                ..ListedPage::default()
            },
        };
        ctx.served.charge = work.charge;
        let is_scanned = !is_within && order.is_none();
        Ok(Some(ListedPage { ranges: scan_ranges.len(), is_scanned, ..page }))
    }
}

impl ScanRange {
    /// Leaves only the rows between the ids of a listing within one logical partition.
    fn narrow(&mut self, listing: &Listing) {
        let Listing { from, end, .. } = listing;
        if let Some(end) = end
            && end.key == from.key
        {
            self.hi = [self.lo.as_slice(), end.id.as_bytes()].concat();
        }
        self.lo.extend_from_slice(from.id.as_bytes());
    }
}

impl Scan<'_> {
    /// Rows of one logical partition; `None` if they are not enough for the page although
    /// `rows_max` were read.
    fn pull_rows_of_partition(
        &self,
        plan: &Plan,
        listing: &Listing,
        rows_max: u64,
        stats: &[ScanStats],
    ) -> Result<Option<PulledRows>, Error> {
        let costs_enough = self.cost_limit(stats);
        let is_over =
            |stats: &ScanStats| stats.scanned.get().rows >= rows_max || costs_enough(stats);
        let limits = self.limits(true, &is_over);
        let mut execution = Execution::new(plan.clone(), Position::default(), page_limits(listing));
        let (mut end, mut last_read) = (PageEnd::Exhausted, None);
        for (scan_range, stats) in self.scan_ranges.iter().zip(stats) {
            let mut rows = self.rows_of(scan_range, listing, limits, stats)?;
            end = execution.pull(&mut rows)?;
            last_read = rows.identity().map(<[u8]>::to_vec);
            if end == PageEnd::Full && stats.scanned.get().rows >= rows_max {
                return Ok(None);
            }
        }
        Ok(Some(PulledRows { execution, end, last_read }))
    }

    /// Rows of all ranges in the order of an index.
    fn pull_in_order(
        &self,
        plan: &Plan,
        listing: &Listing,
        order: &Order,
        stats: &[ScanStats],
    ) -> Result<Option<PulledRows>, Error> {
        let costs_enough = self.cost_limit(stats);
        let limits = self.limits(true, &costs_enough);
        let start = IndexBound::of(&listing.from);
        let start = (listing.from != ItemKey::default()).then(|| ScanStart {
            key: &start.whole,
            tie: 0,
            in_index: IndexStart { key: start.in_index.clone(), tie: 0 },
        });
        let mut scans = Vec::with_capacity(self.scan_ranges.len());
        for (scan_range, stats) in self.scan_ranges.iter().zip(stats) {
            let context = self.context(scan_range, stats, None);
            scans.push((OrderedScan::new(order, context, start.as_ref())?, context));
        }
        let mut rows = OrderedRows::new(scans, limits, u64::MAX)?.with_ids(&listing.ids);
        let mut execution = Execution::new(plan.clone(), Position::default(), page_limits(listing));
        let end = execution.pull(&mut rows)?;
        let last_read = rows.identity().map(<[u8]>::to_vec);
        Ok(Some(PulledRows { execution, end, last_read }))
    }

    /// All rows of all ranges, to be sorted; `None` if that takes or costs too much.
    fn pull_sorted(
        &self,
        columns: &Composite,
        listing: &Listing,
        stats: &[ScanStats],
    ) -> Result<Option<PulledRows>, Error> {
        let costs_enough = self.cost_limit(stats);
        let limits = self.limits(true, &costs_enough);
        let plan = plan_of(listing, columns.columns.iter().map(|c| sort_key(&c.path)).collect());
        let ItemKey { key, id } = &listing.from;
        let from = [key, id].map(|text| ResumeValue::Value(Some(Value::from(text.as_str()))));
        let at = RowPosition::resume(&plan, &from, None, false).unwrap_or_default();
        let position = Position { at, ..Position::default() };
        let mut execution = Execution::new(plan, position, page_limits(listing));
        for (scan_range, stats) in self.scan_ranges.iter().zip(stats) {
            let mut rows = self.rows_of(scan_range, listing, limits, stats)?;
            if execution.pull(&mut rows)? == PageEnd::Full {
                return Ok(None);
            }
        }
        // The rows were paid for when they were scanned.
        let end = execution.finish(&mut self.row_lookup(&ScanStats::default()))?;
        Ok(Some(PulledRows { execution, end, last_read: None }))
    }

    /// The rows of a range.
    fn rows_of<'l>(
        &'l self,
        scan_range: &ScanRange,
        listing: &'l Listing,
        limits: ScanLimits<'l>,
        stats: &'l ScanStats,
    ) -> Result<RowScan<'l>, Error> {
        let (lo, partition) =
            (Bound::Included(scan_range.lo.as_slice()), scan_range.range.partition.id);
        let bounds = RowBounds { partition, lo, hi: &scan_range.hi };
        let rows = RowScan::new(self.view, &bounds, self.form, self.reader, limits, stats)?;
        Ok(rows.with_ids(&listing.ids))
    }

    /// Makes a page of what was pulled. The row behind a full page shows where the next one begins.
    fn page_of(&self, pulled: PulledRows, listing: &Listing) -> Result<ListedPage, Error> {
        let PulledRows { execution, end, last_read } = pulled;
        let last_taken = match (end, execution.position(None).at) {
            (PageEnd::Full, RowPosition::Item { identity, .. }) => Some(identity),
            (PageEnd::Full | PageEnd::Exhausted | PageEnd::Satisfied, _) => None,
        };
        let rows = execution.into_rows().into_iter();
        let mut items: Vec<StoredItem> = rows
            .filter_map(|row| match row {
                Row::WholeItem(item) => Some(item),
                Row::Json(_) => None,
            })
            .collect();
        let mut next = match (end, last_read.or(last_taken)) {
            (PageEnd::Full, Some(identity)) => {
                let row = self.row_lookup(&ScanStats::default()).fetch(&identity)?;
                row.and_then(|row| ItemKey::of(&row.item)).map(ItemKey::successor)
            }
            (PageEnd::Full, None) => items.last().and_then(ItemKey::of).map(ItemKey::successor),
            (PageEnd::Exhausted | PageEnd::Satisfied, _) => None,
        };
        // An index keeps only the beginning of long keys, and a sorted page has no end.
        let is_behind = |item: &StoredItem| {
            ItemKey::of(item).is_none_or(|key| listing.end.as_ref().is_some_and(|end| key >= *end))
        };
        while items.pop_if(|item| is_behind(item)).is_some() {
            next = None;
        }
        let bytes: usize = items.iter().map(|item| item.body().len()).sum();
        let is_over =
            items.len() > listing.items_max || (items.len() > 1 && bytes > limits::PAGE_BYTES_MAX);
        if is_over && let Some(behind) = items.pop() {
            next = ItemKey::of(&behind);
        }
        Ok(ListedPage { items, next, ..ListedPage::default() })
    }
}

/// The plan for the items of a page, and for one more, which shows whether there is another page.
fn plan_of(listing: &Listing, order: Vec<SortKey>) -> Plan {
    let rows = u64::try_from(listing.items_max).unwrap_or(u64::MAX).saturating_add(1);
    let filter = listing.filter.as_ref().and_then(|plan| plan.select().filter()).cloned();
    Plan::first_items(filter, order, rows)
}

fn page_limits(listing: &Listing) -> Limits {
    let rows_max = listing.items_max.saturating_add(1);
    Limits { rows_max, bytes_max: limits::PAGE_BYTES_MAX }
}

fn sort_key(path: &[String]) -> SortKey {
    let property =
        |base, name: &String| Expr::Property { base: Box::new(base), name: name.clone() };
    let expr = path.iter().fold(Expr::Variable(0), property);
    SortKey { expr, order: SortOrder::Ascending }
}

/// Whether scanning all ranges costs more than a page may, by the counters.
fn is_too_large(scan_ranges: &[ScanRange]) -> bool {
    let partitions = || scan_ranges.iter().map(|scan_range| &scan_range.range.partition);
    let rows: u64 = partitions().map(|partition| partition.items()).sum();
    rows > SCANNED_ROWS_MAX
        || partitions().any(|partition| {
            let all: Charge = ru::query(1, partition.items(), partition.bytes());
            partition.meter.page_charge_max().is_some_and(|max| all > max)
        })
}

/// The order of keys up to the end of a listing, if an index has it.
fn order_of(scan: &Scan<'_>, columns: &Composite, listing: &Listing) -> Option<Order> {
    let string = order::tag(TypeOrder::NoSql, Some(&Value::from("")));
    let hi = match listing.end.as_ref().map(IndexBound::of) {
        None => vec![string + 1],
        Some(IndexBound { in_index, is_cut: false, .. }) => in_index,
        // Items whose keys begin with the same bytes may come before the end.
        Some(IndexBound { in_index, is_cut: true, .. }) => keys::successor(&in_index),
    };
    let path = |path: &Vec<String>| -> Vec<Step> { path.iter().cloned().map(Step::Name).collect() };
    let columns = columns.columns.iter().map(|c| (path(&c.path), SortOrder::Ascending)).collect();
    Order::of(scan.indexes, columns, Some(&[ByteRange { lo: vec![string], hi }]))
}

/// A key as sort keys have it, and where it is in the index.
struct IndexBound {
    whole: Vec<u8>,
    in_index: Vec<u8>,
    /// Whether `in_index` is only the beginning of what the index has.
    is_cut: bool,
}

impl IndexBound {
    fn of(key: &ItemKey) -> Self {
        let (mut whole, mut in_index) = (Vec::new(), Vec::new());
        for text in [&key.key, &key.id] {
            let value = Value::from(text.as_str());
            order::encode_whole(TypeOrder::NoSql, Some(&value), &mut whole);
            order::encode(TypeOrder::NoSql, Some(&value), &mut in_index);
        }
        // The order of what was cut off is not known.
        let is_cut = whole != in_index;
        if is_cut {
            let common = whole.iter().zip(&in_index).take_while(|(a, b)| a == b).count();
            in_index.truncate(common.min(order::STRING_BYTES_MAX));
        }
        Self { whole, in_index, is_cut }
    }
}
