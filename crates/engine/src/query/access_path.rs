//! How the rows of a page are found: by looking at all, by what an index names, in the order that
//! an index has, or by counting alone.

use model::order::{self, TypeOrder};
use model::{PartitionKey, Value};
use query::Plan;
use query::access::{Access, ByteRange, Step};
use query::exec::At;
use query::plan::SortOrder;
use query::stopwatch::Phase;

use super::scan::Walk;
use super::{LITTLE_ITEMS, PageWork, Stretch};
use crate::commit::PartitionState;
use crate::index::{Finder, Found, Order, known_of};
use crate::partition::Seen;
use crate::{Error, keys, ru};

/// Most index entries that are looked at for a page that can be continued. Looking for that many
/// again with every page is still better than looking at all items.
const ENTRIES_PER_PAGE_MAX: usize = 20_000;
/// Most index entries that are looked at for a page that needs all of its items.
const ENTRIES_MAX: usize = 200_000;
/// So few items are sorted rather than looked for in the order of an index.
const SORTED_MAX: usize = 1_000;
/// Looking for items may cost this part of what a page may.
const CHARGE_PART: u64 = 16;
/// So few index entries are looked at in any case.
const ENTRIES_MIN: usize = 4;
/// Reading an item costs about as much as looking at this many index entries.
const ENTRIES_PER_ROW: u64 = 8;

/// How the rows of a page are found.
pub(super) enum Way {
    /// In the order of the hash line, those that `Access` names where that helps.
    ByPlace(Access),
    /// As [`Way::ByPlace`], where it is known already what there is.
    Found(Vec<Option<Found>>),
    /// In the order of an index.
    ByOrder(Order),
    /// The first in the order of an index that has a value.
    First(Order),
    /// They are not: it is enough to know how many each stretch has.
    Counted(Vec<u64>),
    /// They are not: what is counted over all of them is known.
    Totals(Vec<u64>),
}

/// A way, and the plan to be run on it.
pub(super) struct Choice {
    pub(super) plan: Plan,
    pub(super) way: Way,
    /// What was looked at to choose it, per stretch.
    pub(super) seen: Vec<Seen>,
}

impl Walk<'_> {
    pub(super) fn choose(&self, work: &PageWork) -> Result<Choice, Error> {
        let plan = &work.plan;
        let seen: Vec<Seen> = self.stretches.iter().map(|_| Seen::default()).collect();
        let choice = |plan: Plan, way| Choice { plan, way, seen: Vec::new() };
        if !plan.reads_items() {
            return Ok(Choice { seen, ..choice(plan.clone(), Way::ByPlace(Access::Everything)) });
        }
        let access =
            self.once(Phase::Optimizing, || plan.access(&|path| self.indexes.includes(path)));
        if let Some(counts) = self.counts(plan, &access, &seen)? {
            let way = Way::Counted(counts);
            return Ok(Choice { seen, ..choice(plan.unfiltered(), way) });
        }
        if let Some(totals) = self.totals(plan, &seen)? {
            return Ok(Choice { seen, ..choice(plan.clone(), Way::Totals(totals)) });
        }
        if let Some(found) = self.searched(plan, &access, &seen)? {
            return Ok(Choice { seen, ..choice(plan.clone(), Way::Found(found)) });
        }
        if let Some(order) = self.first_only(plan, &seen)? {
            return Ok(Choice { seen, ..choice(plan.clone(), Way::First(order)) });
        }
        let Some(order) = self.order(plan, &access, work, &seen)? else {
            return Ok(Choice { seen, ..choice(plan.clone(), Way::ByPlace(access)) });
        };
        let way = match is_about_more(&access, plan) {
            true => self.find_all(&access, &seen)?.map(Way::Found),
            false => None,
        };
        Ok(Choice { seen, ..choice(plan.clone(), way.unwrap_or(Way::ByOrder(order))) })
    }

    /// What full-text and vector indexes find, if that is better than other ways.
    fn searched(
        &self,
        plan: &Plan,
        access: &Access,
        seen: &[Seen],
    ) -> Result<Option<Vec<Option<Found>>>, Error> {
        let is_ranked = plan.ranking().is_some();
        if !is_ranked && plan.searched().is_none() {
            return Ok(None);
        }
        // So few are looked at rather than looked for by their words or ranks.
        if *access != Access::Everything
            && let Some(found) = self.find_all(access, seen)?
        {
            return Ok(Some(found));
        }
        let max = match (is_ranked, plan.is_stream()) {
            (true, _) => SORTED_MAX,
            (false, true) => ENTRIES_PER_PAGE_MAX,
            (false, false) => ENTRIES_MAX,
        };
        self.looked_up(|| match self.find_words(plan, max, seen)? {
            Some(found) => Ok(Some(found)),
            None => self.find_best(plan, seen),
        })
    }

    /// The index order that the plan's rows have, if going by it is better than sorting.
    fn order(
        &self,
        plan: &Plan,
        access: &Access,
        work: &PageWork,
        seen: &[Seen],
    ) -> Result<Option<Order>, Error> {
        // Rows after one whose key is not known whole are found by looking at all.
        if matches!(work.position.query.at, At::Item { .. } | At::Key { cut: Some(_), .. }) {
            return Ok(None);
        }
        let Some(columns) = plan.order_paths() else { return Ok(None) };
        let ranges = columns.first().and_then(|(first, _)| ranges_of(access, first));
        let Some(order) = Order::of(self.indexes, columns, ranges) else { return Ok(None) };
        let rows = work.limits.rows_max as u64;
        for (stretch, seen) in self.stretches.iter().zip(seen) {
            let partition = stretch.range.partition.id;
            let is_better = self.is_order_better(stretch, rows);
            let is_known = || order.is_known(self.view, partition, seen);
            if !is_better || !self.looked_up(is_known)? {
                return Ok(None);
            }
        }
        Ok(Some(order))
    }

    /// In a part of a range all entries of others are passed over.
    fn is_order_better(&self, stretch: &Stretch, rows: u64) -> bool {
        if stretch.name.is_none() {
            return stretch.is_whole;
        }
        let here = self.items_of(stretch).ok().flatten().unwrap_or(0).max(1);
        let all = stretch.range.partition.items();
        let entries = rows.saturating_mul(all) / here;
        entries < here.saturating_mul(ENTRIES_PER_ROW)
    }

    /// What all stretches have of a set, if that is few enough to be sorted.
    fn find_all(
        &self,
        access: &Access,
        seen: &[Seen],
    ) -> Result<Option<Vec<Option<Found>>>, Error> {
        let mut all = Vec::with_capacity(self.stretches.len());
        let mut total = 0;
        for (stretch, seen) in self.stretches.iter().zip(seen) {
            let found = self.find(stretch, access, SORTED_MAX, seen)?;
            total += found.as_ref().map_or(0, |found| found.postings.len());
            if found.is_none() || total > SORTED_MAX {
                return Ok(None);
            }
            all.push(found);
        }
        Ok(Some(all))
    }

    /// What a stretch has of a set, for a page that can be continued or not.
    pub(super) fn find_for_page(
        &self,
        stretch: &Stretch,
        access: &Access,
        can_pause: bool,
        seen: &Seen,
    ) -> Result<Option<Found>, Error> {
        if !can_pause {
            return self.find(stretch, access, ENTRIES_MAX, seen);
        }
        // Most of what the page may cost is left for items, so that every page comes further.
        let charge_max = stretch.range.partition.meter.page_charge_max();
        let affordable = charge_max.map_or(u64::MAX, |max| ru::entries_for(max) / CHARGE_PART);
        let affordable = usize::try_from(affordable).unwrap_or(usize::MAX);
        self.find(stretch, access, ENTRIES_PER_PAGE_MAX.min(affordable), seen)
    }

    fn find(
        &self,
        stretch: &Stretch,
        access: &Access,
        max: usize,
        seen: &Seen,
    ) -> Result<Option<Found>, Error> {
        if *access == Access::Everything {
            return Ok(None);
        }
        let items = self.items_of(stretch)?.unwrap_or_else(|| stretch.range.partition.items());
        let combined = || self.find_combined(stretch, access, max, items, seen);
        if let Some(found) = self.looked_up(combined)? {
            return Ok(Some(found));
        }
        // Whoever asks which indexes serve a query is to be shown them, though walking over a few
        // items is as good.
        let is_small = stretch.name.is_some() && !self.has_report;
        if is_small && items <= LITTLE_ITEMS && !access.is_pointed() {
            return Ok(None);
        }
        let max = max.min(entries_worth_a_look(is_small, items));
        let within = self.within(stretch);
        let is_late = || self.is_late();
        let finder = self.finder(stretch, within.as_ref(), seen, &is_late);
        self.looked_up(|| finder.find(access, max))
    }

    /// Looks something up in an index.
    pub(super) fn looked_up<T>(&self, look: impl FnOnce() -> T) -> T {
        self.once(Phase::IndexLookup, look)
    }

    /// What a stretch has of a set by a composite index, if one serves several of its conditions.
    fn find_combined(
        &self,
        stretch: &Stretch,
        access: &Access,
        max: usize,
        items: u64,
        seen: &Seen,
    ) -> Result<Option<Found>, Error> {
        if self.indexes.goal.policy.composites.is_empty() {
            return Ok(None);
        }
        let known = stretch.name.as_ref().and_then(|name| PartitionKey::decode(&name.key_values));
        let known = known.map(|key| known_of(self.key_definition, &key)).unwrap_or_default();
        let Some(combined) = self.indexes.combined(access, &known) else { return Ok(None) };
        let max = max.min(entries_worth_a_look(false, items));
        let within = self.within(stretch);
        let is_late = || self.is_late();
        let finder = self.finder(stretch, within.as_ref(), seen, &is_late);
        let found = finder.find_combined(&combined, max)?;
        if found.is_some() && self.has_report {
            seen.note_composite(combined.composite);
        }
        Ok(found)
    }

    pub(super) fn finder<'f>(
        &'f self,
        stretch: &Stretch,
        within: Option<&'f (Vec<u8>, Vec<u8>)>,
        seen: &'f Seen,
        is_late: &'f dyn Fn() -> bool,
    ) -> Finder<'f> {
        let partition = stretch.range.partition.id;
        Finder { view: self.view, partition, within, entries: &seen.entries, is_late }
    }

    /// How many items each stretch has, if the plan wants to know nothing else of the items that
    /// its filter keeps.
    fn counts(
        &self,
        plan: &Plan,
        access: &Access,
        seen: &[Seen],
    ) -> Result<Option<Vec<u64>>, Error> {
        // Expired items are still counted and have their entries.
        let is_whole = *access == Access::Everything && plan.select().filter().is_none();
        if self.reader.default_ttl.is_some() || !(is_whole || access.is_exact()) {
            return Ok(None);
        }
        if !plan.unfiltered().only_counts() {
            return Ok(None);
        }
        let mut counts = Vec::with_capacity(self.stretches.len());
        for (stretch, seen) in self.stretches.iter().zip(seen) {
            let count = match is_whole {
                true => self.items_of(stretch)?,
                false => self.count_of(stretch, access, seen)?,
            };
            let Some(count) = count else { return Ok(None) };
            counts.push(count);
        }
        Ok(Some(counts))
    }

    fn count_of(
        &self,
        stretch: &Stretch,
        access: &Access,
        seen: &Seen,
    ) -> Result<Option<u64>, Error> {
        let within = self.within(stretch);
        if let Access::Terms(terms) = access
            && within.is_none()
            && !terms.path.contains(&Step::Elements)
        {
            let is_late = || self.is_late();
            let finder = self.finder(stretch, None, seen, &is_late);
            return self.looked_up(|| finder.count(terms)).map(Some);
        }
        let found = self.find(stretch, access, ENTRIES_MAX, seen)?;
        Ok(found.filter(|found| found.is_exact).map(|found| found.postings.len() as u64))
    }

    /// How many items a stretch has, if that is counted.
    pub(super) fn items_of(&self, stretch: &Stretch) -> Result<Option<u64>, Error> {
        let partition = stretch.range.partition.id;
        if stretch.is_whole {
            let state = self.view.get(partition, keys::PARTITION_STATE)?;
            return Ok(state.and_then(|s| PartitionState::decode(&s)).map(|state| state.items));
        }
        if stretch.name.is_some() {
            let counters = stretch.counters(self.view)?;
            return Ok(Some(counters.map_or(0, |counters| counters.items)));
        }
        Ok(None)
    }

    /// The places of a stretch; `None` if all of its partition's are.
    pub(super) fn within(&self, stretch: &Stretch) -> Option<(Vec<u8>, Vec<u8>)> {
        (!stretch.is_whole).then(|| keys::identity_bounds(&stretch.lo, &stretch.hi))
    }

    /// The order whose first value is all that the plan wants to know.
    fn first_only(&self, plan: &Plan, seen: &[Seen]) -> Result<Option<Order>, Error> {
        let Some((path, direction)) = plan.extreme() else { return Ok(None) };
        if plan.select().filter().is_some() {
            return Ok(None);
        }
        let defined = [ByteRange { lo: Vec::new(), hi: vec![0xFF] }];
        let Some(order) = Order::of(self.indexes, vec![(path.clone(), direction)], Some(&defined))
        else {
            return Ok(None);
        };
        // An array or object among the values makes the answer undefined.
        let inside = Access::Terms(query::access::Terms {
            path,
            ranges: vec![ByteRange { lo: vec![array_tag()], hi: vec![0xFF] }],
            is_exact: true,
        });
        for (stretch, seen) in self.stretches.iter().zip(seen) {
            // Where others' entries are passed over, looking at one's own is as good.
            if !stretch.is_whole {
                return Ok(None);
            }
            let is_late = || self.is_late();
            let finder = self.finder(stretch, None, seen, &is_late);
            let found = self.looked_up(|| finder.find(&inside, 1))?;
            if found.is_none_or(|found| !found.postings.is_empty()) {
                return Ok(None);
            }
        }
        Ok(Some(order))
    }
}

/// How many entries may be looked at before looking at all items is better.
fn entries_worth_a_look(is_small: bool, items: u64) -> usize {
    let worth = match is_small {
        // Most entries are of other logical partitions, so that the look is often in vain. It must
        // cost little beside looking at the few items that there are.
        true => items / ENTRIES_PER_ROW,
        false => items.saturating_mul(ENTRIES_PER_ROW) / 2,
    };
    usize::try_from(worth).unwrap_or(usize::MAX).max(ENTRIES_MIN)
}

fn array_tag() -> u8 {
    order::tag(TypeOrder::NoSql, Some(&Value::Array(Vec::new())))
}

/// The values at a path that a set is confined to, if it is confined to some.
fn ranges_of<'a>(access: &'a Access, path: &[Step]) -> Option<&'a [ByteRange]> {
    match access {
        Access::Terms(terms) if terms.path == path => Some(&terms.ranges),
        Access::All(parts) => parts.iter().find_map(|part| match part {
            Access::Terms(terms) if terms.path == path => Some(terms.ranges.as_slice()),
            Access::Everything
            | Access::Nothing
            | Access::Terms(_)
            | Access::All(_)
            | Access::Any(_) => None,
        }),
        Access::Everything | Access::Nothing | Access::Terms(_) | Access::Any(_) => None,
    }
}

/// Whether a set depends on more than what rows are sorted by.
fn is_about_more(access: &Access, plan: &Plan) -> bool {
    let first: Option<(Vec<Step>, SortOrder)> = plan.order_paths().and_then(|c| c.first().cloned());
    match access {
        Access::Everything => false,
        Access::Terms(terms) => first.is_none_or(|(path, _)| path != terms.path),
        Access::Nothing | Access::All(_) | Access::Any(_) => true,
    }
}
