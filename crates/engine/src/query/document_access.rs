//! How the documents of a page are found by ordered indexes.

use query::Plan;
use query::document::index_bounds::{IndexBounds, IndexState, IndexUse, choose};

use super::PageWork;
use super::access_path::{
    AccessPath, ENTRIES_MAX, ENTRIES_PER_PAGE_MAX, entries_worth_reading, has_sort_key,
};
use super::scan::Scan;
use crate::Error;
use crate::index::{CompiledIndex, Order, PostingList};
use crate::partition::ScanStats;

impl Scan<'_> {
    /// The name of the ordered index that serves the plan best, and the access path by it; `None` if
    /// reading all documents is as good.
    pub(super) fn document_access(
        &self,
        plan: &Plan,
        work: &PageWork,
        stats: &[ScanStats],
    ) -> Result<Option<(String, AccessPath)>, Error> {
        let hint = work.index_hint.as_ref();
        let is_used = |index: &&CompiledIndex| {
            !index.spec.is_hidden
                && hint.is_none_or(|name| *name == index.spec.name)
                && self.indexes.has_ordered(index)
        };
        let indexes: Vec<&CompiledIndex> =
            self.indexes.goal.ordered.iter().filter(is_used).collect();
        if indexes.is_empty() {
            return Ok(None);
        }
        let Some(query) = plan.document_query() else { return Ok(None) };
        let mut states = Vec::with_capacity(indexes.len());
        for index in &indexes {
            let mut multikey = 0;
            for scan_range in self.scan_ranges {
                multikey |= index.multikey(self.view, scan_range.range.partition.id)?;
            }
            states.push(IndexState { index: &index.index, multikey });
        }
        let sort = if has_sort_key(&work.position.query.at) { &query.sort[..] } else { &[] };
        let Some(IndexUse { index: at, bounds, sort: sort_use }) =
            choose(&states, query.filter, sort)
        else {
            return Ok(None);
        };
        let (Some(index), Some(state)) = (indexes.get(at), states.get(at)) else {
            return Ok(None);
        };
        if sort_use.is_some() {
            let rows = work.limits.rows_max as u64;
            let is_better = |scan_range| self.is_order_better(scan_range, rows);
            let order = Order::of_documents(index, state, &bounds, sort);
            if let Some(order) = order.filter(|_| self.scan_ranges.iter().all(is_better)) {
                return Ok(Some((index.spec.name.clone(), AccessPath::InIndexOrder(order))));
            }
        }
        if bounds.columns == 0 {
            return Ok(None);
        }
        let found = self.find_documents(index, &bounds, plan.is_stream(), stats)?;
        Ok(found.map(|found| (index.spec.name.clone(), AccessPath::PostingList(found))))
    }

    /// The documents of all ranges with keys within `bounds`; `None` if there are too many.
    fn find_documents(
        &self,
        index: &CompiledIndex,
        bounds: &IndexBounds,
        is_stream: bool,
        stats: &[ScanStats],
    ) -> Result<Option<Vec<Option<PostingList>>>, Error> {
        let max = if is_stream { ENTRIES_PER_PAGE_MAX } else { ENTRIES_MAX };
        let prefix = index.prefix();
        let mut all = Vec::with_capacity(self.scan_ranges.len());
        for (scan_range, stats) in self.scan_ranges.iter().zip(stats) {
            let items =
                self.items_of(scan_range)?.unwrap_or_else(|| scan_range.range.partition.items());
            let max = max.min(entries_worth_reading(false, items));
            let within = self.within(scan_range);
            let is_late = || self.is_late();
            let finder = self.finder(scan_range, within.as_ref(), stats, &is_late);
            let find = || finder.find_between(&prefix, &bounds.ranges, max);
            let Some(found) = self.timed_lookup(find)? else { return Ok(None) };
            all.push(Some(found));
        }
        Ok(Some(all))
    }
}
