//! How the rows of a page are found: by a full scan, by the entries of an index, in the order of an
//! index, or by counters alone.

use model::PartitionKey;
use model::order::Tag;
use model::order::bounds::ABOVE_ALL;
use query::Plan;
use query::access::{ByteRange, IndexSet, Step};
use query::exec::RowPosition;
use query::plan::SortOrder;
use query::stopwatch::Phase;

use super::scan::Scan;
use super::scope::ScanRange;
use super::{PageWork, SMALL_PARTITION_ITEMS};
use crate::commit::PartitionState;
use crate::index::{Finder, Order, PostingList, TERM_ORDER, known_values};
use crate::partition::ScanStats;
use crate::{Error, keys, ru};

/// Most index entries that are read for a page that can be continued. Reading that many again with
/// every page is still better than scanning all items.
pub(super) const ENTRIES_PER_PAGE_MAX: usize = 20_000;
/// Most index entries that are read for a page that needs all of its items.
pub(super) const ENTRIES_MAX: usize = 200_000;
/// At most this many items are sorted rather than read in the order of an index.
const SORTED_MAX: usize = 1_000;
/// An index lookup may cost this fraction of what a page may cost.
const CHARGE_PART: u64 = 16;
/// An index lookup may read this many entries in any case.
const ENTRIES_MIN: usize = 4;
/// Reading an item costs about as much as reading this many index entries.
const ENTRIES_PER_ROW: u64 = 8;
const ARRAY: u8 = Tag::Array.byte(TERM_ORDER);

/// How the rows of a page are found.
pub(super) enum AccessPath {
    /// In the order of the hash line; by the index entries that `IndexSet` names where that is
    /// cheaper.
    InStorageOrder(IndexSet),
    /// As [`AccessPath::InStorageOrder`], with the index entries of each range already looked up.
    PostingList(Vec<Option<PostingList>>),
    /// In the order of an index.
    InIndexOrder(Order),
    /// The first row that has a value, in the order of an index.
    FirstInIndexOrder(Order),
    /// No rows are read: the number of items of each range is enough.
    Counted(Vec<u64>),
    /// No rows are read: the totals over all items are known.
    Totals(Vec<u64>),
}

/// An access path, and the plan that runs on it.
pub(super) struct ScanPlan {
    pub(super) plan: Plan,
    pub(super) access_path: AccessPath,
    /// The name of the ordered index that it uses.
    pub(super) ordered_index: Option<String>,
    /// What was read to choose the access path, per range.
    pub(super) stats: Vec<ScanStats>,
}

impl Scan<'_> {
    pub(super) fn choose_access_path(&self, work: &PageWork) -> Result<ScanPlan, Error> {
        let plan = &work.plan;
        let stats: Vec<ScanStats> = self.scan_ranges.iter().map(|_| ScanStats::default()).collect();
        let choice = |plan: Plan, access_path| ScanPlan {
            plan,
            access_path,
            ordered_index: None,
            stats: Vec::new(),
        };
        if !plan.reads_items() {
            return Ok(ScanPlan {
                stats,
                ..choice(plan.clone(), AccessPath::InStorageOrder(IndexSet::Everything))
            });
        }
        let index_set =
            self.once(Phase::Optimizing, || plan.index_set(&|path| self.indexes.includes(path)));
        if let Some(counts) = self.counts(plan, &index_set, &stats)? {
            let access_path = AccessPath::Counted(counts);
            return Ok(ScanPlan { stats, ..choice(plan.unfiltered(), access_path) });
        }
        if let Some(totals) = self.totals(plan, &stats)? {
            return Ok(ScanPlan { stats, ..choice(plan.clone(), AccessPath::Totals(totals)) });
        }
        if let Some((index, access_path)) = self.document_access(plan, work, &stats)? {
            let ordered_index = Some(index);
            return Ok(ScanPlan { stats, ordered_index, ..choice(plan.clone(), access_path) });
        }
        if let Some(found) = self.searched(plan, &index_set, &stats)? {
            return Ok(ScanPlan { stats, ..choice(plan.clone(), AccessPath::PostingList(found)) });
        }
        if let Some(order) = self.first_only(plan, &stats)? {
            return Ok(ScanPlan {
                stats,
                ..choice(plan.clone(), AccessPath::FirstInIndexOrder(order))
            });
        }
        let Some(order) = self.order(plan, &index_set, work, &stats)? else {
            return Ok(ScanPlan {
                stats,
                ..choice(plan.clone(), AccessPath::InStorageOrder(index_set))
            });
        };
        let access_path = match filters_beyond_sort_key(&index_set, plan) {
            true => self.find_all(&index_set, &stats)?.map(AccessPath::PostingList),
            false => None,
        };
        Ok(ScanPlan {
            stats,
            ..choice(plan.clone(), access_path.unwrap_or(AccessPath::InIndexOrder(order)))
        })
    }

    /// What full-text and vector indexes find, if they are better than other access paths.
    fn searched(
        &self,
        plan: &Plan,
        index_set: &IndexSet,
        stats: &[ScanStats],
    ) -> Result<Option<Vec<Option<PostingList>>>, Error> {
        let is_ranked = plan.ranking().is_some();
        if !is_ranked && plan.text_match().is_none() {
            return Ok(None);
        }
        // So few items are read rather than looked up by their words or ranks.
        if *index_set != IndexSet::Everything
            && let Some(found) = self.find_all(index_set, stats)?
        {
            return Ok(Some(found));
        }
        let max = match (is_ranked, plan.is_stream()) {
            (true, _) => SORTED_MAX,
            (false, true) => ENTRIES_PER_PAGE_MAX,
            (false, false) => ENTRIES_MAX,
        };
        self.timed_lookup(|| match self.find_words(plan, max, stats)? {
            Some(found) => Ok(Some(found)),
            None => self.find_best(plan, stats),
        })
    }

    /// The index order that the plan's rows have, if scanning in it is better than sorting.
    fn order(
        &self,
        plan: &Plan,
        index_set: &IndexSet,
        work: &PageWork,
        stats: &[ScanStats],
    ) -> Result<Option<Order>, Error> {
        if !has_sort_key(&work.position.query.at) {
            return Ok(None);
        }
        // The indexes of indexing policies are in one order in all containers.
        if plan.clauses().type_order != TERM_ORDER {
            return Ok(None);
        }
        let Some(columns) = plan.order_paths() else { return Ok(None) };
        let ranges = columns.first().and_then(|(first, _)| ranges_of(index_set, first));
        let Some(order) = Order::of(self.indexes, columns, ranges) else { return Ok(None) };
        let rows = work.limits.rows_max as u64;
        for (scan_range, stats) in self.scan_ranges.iter().zip(stats) {
            let partition = scan_range.range.partition.id;
            let is_better = self.is_order_better(scan_range, rows);
            let is_known = || order.is_known(self.view, partition, stats);
            if !is_better || !self.timed_lookup(is_known)? {
                return Ok(None);
            }
        }
        Ok(Some(order))
    }

    /// Whether scanning in the order of an index is better than sorting. In a part of a range, the
    /// scan skips the index entries of all other logical partitions.
    pub(super) fn is_order_better(&self, scan_range: &ScanRange, rows: u64) -> bool {
        if scan_range.logical_partition.is_none() {
            return scan_range.is_whole;
        }
        let here = self.items_of(scan_range).ok().flatten().unwrap_or(0).max(1);
        let all = scan_range.range.partition.items();
        let entries = rows.saturating_mul(all) / here;
        entries < here.saturating_mul(ENTRIES_PER_ROW)
    }

    /// The index entries of a set in all ranges, if they are few enough to be sorted.
    fn find_all(
        &self,
        index_set: &IndexSet,
        stats: &[ScanStats],
    ) -> Result<Option<Vec<Option<PostingList>>>, Error> {
        let mut all = Vec::with_capacity(self.scan_ranges.len());
        let mut total = 0;
        for (scan_range, stats) in self.scan_ranges.iter().zip(stats) {
            let found = self.find(scan_range, index_set, SORTED_MAX, stats)?;
            total += found.as_ref().map_or(0, |found| found.postings.len());
            if found.is_none() || total > SORTED_MAX {
                return Ok(None);
            }
            all.push(found);
        }
        Ok(Some(all))
    }

    /// The index entries of a set in a range, for a page that can be continued or not.
    pub(super) fn find_for_page(
        &self,
        scan_range: &ScanRange,
        index_set: &IndexSet,
        can_pause: bool,
        stats: &ScanStats,
    ) -> Result<Option<PostingList>, Error> {
        if !can_pause {
            return self.find(scan_range, index_set, ENTRIES_MAX, stats);
        }
        // Most of what the page may cost is left for items, so that every page makes progress.
        let charge_max = scan_range.range.partition.meter.page_charge_max();
        let affordable = charge_max.map_or(u64::MAX, |max| ru::entries_for(max) / CHARGE_PART);
        let affordable = usize::try_from(affordable).unwrap_or(usize::MAX);
        self.find(scan_range, index_set, ENTRIES_PER_PAGE_MAX.min(affordable), stats)
    }

    fn find(
        &self,
        scan_range: &ScanRange,
        index_set: &IndexSet,
        max: usize,
        stats: &ScanStats,
    ) -> Result<Option<PostingList>, Error> {
        if *index_set == IndexSet::Everything {
            return Ok(None);
        }
        let items =
            self.items_of(scan_range)?.unwrap_or_else(|| scan_range.range.partition.items());
        let composite_ranges = || self.find_by_composite(scan_range, index_set, max, items, stats);
        if let Some(found) = self.timed_lookup(composite_ranges)? {
            return Ok(Some(found));
        }
        // A report shows the client which indexes serve its query, although scanning a few items is
        // just as good.
        let is_small = scan_range.logical_partition.is_some() && !self.has_report;
        if is_small && items <= SMALL_PARTITION_ITEMS && !index_set.is_point_lookup() {
            return Ok(None);
        }
        let max = max.min(entries_worth_reading(is_small, items));
        let within = self.within(scan_range);
        let is_late = || self.is_late();
        let finder = self.finder(scan_range, within.as_ref(), stats, &is_late);
        self.timed_lookup(|| finder.find(index_set, max))
    }

    /// Runs an index lookup and measures it if the client asked for query metrics.
    pub(super) fn timed_lookup<T>(&self, look: impl FnOnce() -> T) -> T {
        self.once(Phase::IndexLookup, look)
    }

    /// The entries of a set in a range by a composite index, if one serves several conditions.
    fn find_by_composite(
        &self,
        scan_range: &ScanRange,
        index_set: &IndexSet,
        max: usize,
        items: u64,
        stats: &ScanStats,
    ) -> Result<Option<PostingList>, Error> {
        if self.indexes.goal.policy.composites.is_empty() {
            return Ok(None);
        }
        let known = scan_range
            .logical_partition
            .as_ref()
            .and_then(|logical_partition| PartitionKey::decode(&logical_partition.key_values));
        let known = known.map(|key| known_values(self.key_definition, &key)).unwrap_or_default();
        let Some(composite_ranges) = self.indexes.composite_ranges(index_set, &known) else {
            return Ok(None);
        };
        let max = max.min(entries_worth_reading(false, items));
        let within = self.within(scan_range);
        let is_late = || self.is_late();
        let finder = self.finder(scan_range, within.as_ref(), stats, &is_late);
        let found = finder.find_by_composite(&composite_ranges, max)?;
        if found.is_some() && self.has_report {
            stats.note_composite(composite_ranges.composite);
        }
        Ok(found)
    }

    pub(super) fn finder<'f>(
        &'f self,
        scan_range: &ScanRange,
        within: Option<&'f (Vec<u8>, Vec<u8>)>,
        stats: &'f ScanStats,
        is_late: &'f dyn Fn() -> bool,
    ) -> Finder<'f> {
        let partition = scan_range.range.partition.id;
        Finder { view: self.view, partition, within, entries: &stats.entries, is_late }
    }

    /// How many items each range has, if the plan only counts the items that its filter keeps.
    fn counts(
        &self,
        plan: &Plan,
        index_set: &IndexSet,
        stats: &[ScanStats],
    ) -> Result<Option<Vec<u64>>, Error> {
        // Expired items are still counted, and still have their index entries.
        let is_whole = *index_set == IndexSet::Everything && plan.select().filter().is_none();
        if self.reader.has_ttl() || !(is_whole || index_set.is_exact()) {
            return Ok(None);
        }
        if !plan.unfiltered().only_counts() {
            return Ok(None);
        }
        let mut counts = Vec::with_capacity(self.scan_ranges.len());
        for (scan_range, stats) in self.scan_ranges.iter().zip(stats) {
            let count = match is_whole {
                true => self.items_of(scan_range)?,
                false => self.count_of(scan_range, index_set, stats)?,
            };
            let Some(count) = count else { return Ok(None) };
            counts.push(count);
        }
        Ok(Some(counts))
    }

    fn count_of(
        &self,
        scan_range: &ScanRange,
        index_set: &IndexSet,
        stats: &ScanStats,
    ) -> Result<Option<u64>, Error> {
        let within = self.within(scan_range);
        if let IndexSet::Terms(terms) = index_set
            && within.is_none()
            && !terms.path.contains(&Step::Elements)
        {
            let is_late = || self.is_late();
            let finder = self.finder(scan_range, None, stats, &is_late);
            return self.timed_lookup(|| finder.count(terms)).map(Some);
        }
        let found = self.find(scan_range, index_set, ENTRIES_MAX, stats)?;
        Ok(found.filter(|found| found.is_exact).map(|found| found.postings.len() as u64))
    }

    /// How many items a range has, if a counter has that number.
    pub(super) fn items_of(&self, scan_range: &ScanRange) -> Result<Option<u64>, Error> {
        let partition = scan_range.range.partition.id;
        if scan_range.is_whole {
            let state = self.view.get(partition, keys::PARTITION_STATE)?;
            return Ok(state.and_then(|s| PartitionState::decode(&s)).map(|state| state.items));
        }
        if scan_range.logical_partition.is_some() {
            let counters = scan_range.counters(self.view)?;
            return Ok(Some(counters.map_or(0, |counters| counters.items)));
        }
        Ok(None)
    }

    /// The bounds of the identities in a range; `None` if it is the whole partition.
    pub(super) fn within(&self, scan_range: &ScanRange) -> Option<(Vec<u8>, Vec<u8>)> {
        (!scan_range.is_whole).then(|| keys::identity_bounds(&scan_range.lo, &scan_range.hi))
    }

    /// The order whose first value is all that the plan returns.
    fn first_only(&self, plan: &Plan, stats: &[ScanStats]) -> Result<Option<Order>, Error> {
        let Some((path, direction)) = plan.extreme() else { return Ok(None) };
        if plan.select().filter().is_some() {
            return Ok(None);
        }
        let defined = [ByteRange { lo: Vec::new(), hi: vec![ABOVE_ALL] }];
        let Some(order) = Order::of(self.indexes, vec![(path.clone(), direction)], Some(&defined))
        else {
            return Ok(None);
        };
        // An array or object among the values makes the result undefined.
        let inside = IndexSet::Terms(query::access::Terms {
            path,
            ranges: vec![ByteRange { lo: vec![ARRAY], hi: vec![ABOVE_ALL] }],
            is_exact: true,
        });
        for (scan_range, stats) in self.scan_ranges.iter().zip(stats) {
            // A scan that skips the entries of other logical partitions is no better than a full
            // scan.
            if !scan_range.is_whole {
                return Ok(None);
            }
            let is_late = || self.is_late();
            let finder = self.finder(scan_range, None, stats, &is_late);
            let found = self.timed_lookup(|| finder.find(&inside, 1))?;
            if found.is_none_or(|found| !found.postings.is_empty()) {
                return Ok(None);
            }
        }
        Ok(Some(order))
    }
}

/// Whether rows behind a position can be found in the order of an index. Those behind one whose
/// whole sort key is not known are found by a full scan.
pub(super) fn has_sort_key(position: &RowPosition) -> bool {
    !matches!(
        position,
        RowPosition::Item { .. }
            | RowPosition::Number { .. }
            | RowPosition::Key { cut: Some(_), .. }
    )
}

/// How many entries may be read before scanning all items is better.
pub(super) fn entries_worth_reading(is_small: bool, items: u64) -> usize {
    let worth = match is_small {
        // Most entries belong to other logical partitions, so the lookup is often in vain. It must
        // cost little compared with reading the few items there are.
        true => items / ENTRIES_PER_ROW,
        false => items.saturating_mul(ENTRIES_PER_ROW) / 2,
    };
    usize::try_from(worth).unwrap_or(usize::MAX).max(ENTRIES_MIN)
}

/// The values that a set allows at a path, if it restricts them.
fn ranges_of<'a>(index_set: &'a IndexSet, path: &[Step]) -> Option<&'a [ByteRange]> {
    match index_set {
        IndexSet::Terms(terms) if terms.path == path => Some(&terms.ranges),
        IndexSet::All(parts) => parts.iter().find_map(|part| match part {
            IndexSet::Terms(terms) if terms.path == path => Some(terms.ranges.as_slice()),
            IndexSet::Everything
            | IndexSet::Nothing
            | IndexSet::Terms(_)
            | IndexSet::All(_)
            | IndexSet::Any(_) => None,
        }),
        IndexSet::Everything | IndexSet::Nothing | IndexSet::Terms(_) | IndexSet::Any(_) => None,
    }
}

/// Whether a set restricts more than the values that rows are sorted by.
fn filters_beyond_sort_key(index_set: &IndexSet, plan: &Plan) -> bool {
    let first: Option<(Vec<Step>, SortOrder)> = plan.order_paths().and_then(|c| c.first().cloned());
    match index_set {
        IndexSet::Everything => false,
        IndexSet::Terms(terms) => first.is_none_or(|(path, _)| path != terms.path),
        IndexSet::Nothing | IndexSet::All(_) | IndexSet::Any(_) => true,
    }
}
