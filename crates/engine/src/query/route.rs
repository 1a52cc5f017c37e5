//! The ranges of a scope, in the order in which a query visits them.
//!
//! The rows of a query that has no order of its own come in the order of their items: where a range
//! is small in the order of item numbers, in which they were created, else in that of the hash line.
//! A *segment* is a part of the hash line that is visited in one order. A traversal that was begun in a
//! segment stays in its order, however the ranges change: the token has the bounds of the segment.
//! Behind them the order is chosen anew.
//!
//! A traversal begins somewhere on the hash line and goes round: what lies before its beginning comes
//! last. That is so only where a range was merged with the one before it meanwhile.

use std::cell::OnceCell;
use std::ops::Range;

use model::{Epk, EpkRange, Lsn};
use query::Plan;
use query::exec::{Execution, ItemOrder, Marks, RowOrder, RowPosition};
use storage::View;

use super::scope::{ScanRange, is_whole_key, scope_range};
use crate::catalog::Container;
use crate::continuation::{BOUND_BYTES_MAX, PagePosition, Traversal};
use crate::keys::{self, EpkForm};
use crate::ops::Scope;
use crate::prepare::LogicalPartition;
use crate::routing::{PartitionRange, RoutingMap};
use crate::{Error, StoredItem};

/// Ranges whose items are visited in one order.
pub(super) struct Segment {
    /// The part of the hash line that it covers, within the scope.
    bounds: EpkRange,
    /// The order of its items, if that is decided.
    order: Option<ItemOrder>,
    /// Which of the scan ranges it has.
    pub(super) ranges: Range<usize>,
    /// Whether the page begins within it.
    pub(super) is_begun: bool,
    /// What it is read for, if not for its rows.
    pub(super) marks: Option<Marks>,
}

/// The segments of a scope, and the ranges that are scanned for them.
pub(super) struct Route {
    pub(super) scan_ranges: Vec<ScanRange>,
    pub(super) segments: Vec<Segment>,
    /// Where the traversal began.
    from: Option<Epk>,
    row_order: RowOrder,
    is_derived: bool,
}

/// Where a scan ended before it was complete.
#[derive(Clone, Debug)]
pub(super) enum ScanStop {
    /// Where the execution is.
    AtRow,
    /// In a segment. All of its items up to there were read.
    In { segment: usize, last_read: Option<RowPosition> },
    /// At the end of a segment.
    Behind(usize),
}

impl Segment {
    pub(super) fn order(&self) -> ItemOrder {
        self.order.unwrap_or_default()
    }
}

impl Traversal {
    /// Whether the traversal has passed the end of the hash line.
    fn is_past_end(&self) -> bool {
        self.bounds.min < self.from
    }

    /// The parts of the hash line that come after its segment.
    fn ahead(&self) -> Vec<EpkRange> {
        let full = EpkRange::full();
        let until = |min: &Epk, max: &Epk| EpkRange { min: min.clone(), max: max.clone() };
        match self.is_past_end() {
            true => vec![until(&self.bounds.max, &self.from)],
            false => vec![until(&self.bounds.max, &full.max), until(&full.min, &self.from)],
        }
    }

    /// The parts of the hash line that came before its segment.
    fn passed(&self) -> Vec<EpkRange> {
        let full = EpkRange::full();
        let until = |min: &Epk, max: &Epk| EpkRange { min: min.clone(), max: max.clone() };
        match self.is_past_end() {
            true => vec![until(&self.from, &full.max), until(&full.min, &self.bounds.min)],
            false => vec![until(&self.from, &self.bounds.min)],
        }
    }
}

/// What a route is made for.
pub(super) struct Journey<'p> {
    pub(super) plan: &'p Plan,
    pub(super) position: &'p PagePosition,
    /// Whether rows are merged with those of other scopes. Then the scope is one segment.
    pub(super) is_part: bool,
}

impl Route {
    /// The route of a query over a scope.
    pub(super) fn of(
        container: &Container,
        routing: &RoutingMap,
        scope: &Scope,
        journey: &Journey<'_>,
    ) -> Result<Self, Error> {
        let mut route = Self::empty(journey);
        if let Scope::Key(key) = scope
            && is_whole_key(container, key)
        {
            let logical_partition = LogicalPartition::of(container, key)?;
            let range = routing.locate(&logical_partition.epk);
            let at = range.partition.lsn();
            route.add_logical_partition(range, at, &logical_partition, journey);
            return Ok(route);
        }
        let Some(wanted) = scope_range(container, routing, scope)? else { return Ok(route) };
        let form = EpkForm::of(&container.spec.partition_key);
        let traversal = journey.position.traversal.as_ref();
        let full = EpkRange::full();
        let fits = |bounds: &EpkRange| {
            bounds.min.as_bytes().len().max(bounds.max.as_bytes().len()) <= BOUND_BYTES_MAX
        };
        let mut draft = Draft { route: &mut route, routing, form, wanted: &wanted };
        match (journey.plan.row_order(), traversal) {
            (RowOrder::Keys, _) => draft.add(&full, Some(ItemOrder::Identity), None),
            (RowOrder::Items, None) if journey.is_part => draft.add(&full, None, None),
            (RowOrder::Items, None) => draft.add_ranges(&full),
            (RowOrder::Items, Some(traversal)) => {
                draft.add_begun(traversal, &journey.position.query.at);
                traversal.ahead().iter().for_each(|area| draft.add_ranges(area));
            }
            (RowOrder::FirstItems, None) => {
                // Merged groups have to come by their keys.
                let by_key = journey.is_part || !fits(&wanted);
                draft.add(&full, by_key.then_some(ItemOrder::Identity), None);
            }
            (RowOrder::FirstItems, Some(traversal))
                if traversal.order == ItemOrder::Identity || journey.plan.is_derived() =>
            {
                draft.add(&full, Some(traversal.order), None);
            }
            (RowOrder::FirstItems, Some(traversal)) => {
                for area in traversal.passed() {
                    draft.add_marks(&area, Marks::All);
                }
                for area in outside(&traversal.bounds, &wanted) {
                    draft.add_marks(&area, Marks::Elsewhere);
                }
                draft.add_begun(traversal, &RowPosition::Start);
                for area in traversal.ahead() {
                    draft.add(&area, Some(ItemOrder::Number), None);
                }
            }
        }
        Ok(route)
    }

    /// The route of a query over one logical partition. With provisional item numbers, those of a
    /// transaction that is not committed, no position can be one of them.
    pub(super) fn of_logical_partition(
        range: &PartitionRange,
        at: Lsn,
        logical_partition: &LogicalPartition,
        journey: &Journey<'_>,
        has_provisional: bool,
    ) -> Self {
        let mut route = Self::empty(journey);
        route.add_logical_partition(range, at, logical_partition, journey);
        if has_provisional {
            for segment in &mut route.segments {
                segment.order = segment.order.or(Some(ItemOrder::Identity));
            }
        }
        route
    }

    fn empty(journey: &Journey<'_>) -> Self {
        Self {
            scan_ranges: Vec::new(),
            segments: Vec::new(),
            from: journey.position.traversal.as_ref().map(|traversal| traversal.from.clone()),
            row_order: journey.plan.row_order(),
            is_derived: journey.plan.is_derived(),
        }
    }

    fn add_logical_partition(
        &mut self,
        range: &PartitionRange,
        at: Lsn,
        logical_partition: &LogicalPartition,
        journey: &Journey<'_>,
    ) {
        let place = &logical_partition.epk;
        let (mut order, mut is_begun, mut bounds) = (None, false, range.epk.clone());
        match (self.row_order, &journey.position.traversal) {
            (RowOrder::Keys, _) => order = Some(ItemOrder::Identity),
            (RowOrder::Items | RowOrder::FirstItems, None) => {}
            (RowOrder::FirstItems, Some(traversal)) => {
                (order, is_begun) = (Some(traversal.order), !self.is_derived);
                bounds = traversal.bounds.clone();
            }
            (RowOrder::Items, Some(traversal)) if traversal.bounds.contains(place) => {
                (order, is_begun) = (Some(traversal.order), true);
                bounds = traversal.bounds.clone();
            }
            (RowOrder::Items, Some(traversal)) => {
                if traversal.passed().iter().any(|area| area.contains(place)) {
                    return;
                }
            }
        }
        if self.row_order == RowOrder::FirstItems && journey.is_part {
            order = Some(ItemOrder::Identity);
        }
        self.scan_ranges.push(ScanRange::of_logical_partition(range, at, logical_partition));
        self.segments.push(Segment { bounds, order, ranges: 0..1, is_begun, marks: None });
    }

    /// Decides in which order segments are visited that no page has begun.
    pub(super) fn decide(&mut self, view: &dyn View) -> Result<(), Error> {
        for segment in self.segments.iter_mut().filter(|segment| segment.order.is_none()) {
            let mut order = ItemOrder::Number;
            for scan_range in &self.scan_ranges[segment.ranges.clone()] {
                if !scan_range.is_small(view)? {
                    order = ItemOrder::Identity;
                    break;
                }
            }
            segment.order = Some(order);
        }
        Ok(())
    }

    /// The order in which an execution takes items, until it is told another one.
    pub(super) fn item_order(&self) -> ItemOrder {
        let first = self.segments.iter().find(|segment| segment.marks.is_none());
        first.map_or(ItemOrder::Identity, Segment::order)
    }

    /// Where the page begins among the items of a segment.
    pub(super) fn start_in<'a>(
        &self,
        segment: &Segment,
        position: &'a PagePosition,
    ) -> &'a RowPosition {
        match segment.is_begun && self.row_order == RowOrder::Items {
            true => &position.query.at,
            false => &RowPosition::Start,
        }
    }

    /// Where the execution of a page begins.
    pub(super) fn start(&self, position: &PagePosition) -> query::exec::Position {
        let mut start = position.query.clone();
        // The traversal has gone past the segment of the position.
        if self.row_order == RowOrder::Items && !self.segments.iter().any(|s| s.is_begun) {
            start.at = RowPosition::Start;
        }
        start
    }

    /// Where the next page begins.
    pub(super) fn next_position(
        &self,
        execution: &Execution<StoredItem>,
        stop: &ScanStop,
        before: &PagePosition,
    ) -> PagePosition {
        let query = |last_read: Option<&RowPosition>| execution.position(last_read);
        let of = |query, traversal| PagePosition { query, cut: None, traversal };
        match self.row_order {
            RowOrder::Keys => of(query(None), None),
            RowOrder::FirstItems => {
                let rows = || self.segments.iter().filter(|segment| segment.marks.is_none());
                let reached = rows().nth(execution.range_reached()).or_else(|| rows().next());
                of(query(None), reached.map(|segment| self.traversal_in(segment)))
            }
            RowOrder::Items => {
                let (segment, last_read) = match stop {
                    ScanStop::AtRow => return of(query(None), before.traversal.clone()),
                    ScanStop::Behind(segment) => return self.position_behind(*segment, execution),
                    ScanStop::In { segment, last_read } => (*segment, last_read.as_ref()),
                };
                let is_at_start = last_read.is_none() && !execution.has_begun_range();
                let Some(reached) = self.segments.get(segment) else {
                    return of(query(last_read), before.traversal.clone());
                };
                match segment.checked_sub(1) {
                    Some(behind) if is_at_start => self.position_behind(behind, execution),
                    None if is_at_start && !reached.is_begun => {
                        of(execution.position_between_ranges(), before.traversal.clone())
                    }
                    Some(_) | None => of(query(last_read), Some(self.traversal_in(reached))),
                }
            }
        }
    }

    fn traversal_in(&self, segment: &Segment) -> Traversal {
        let (order, mut bounds) = (segment.order(), segment.bounds.clone());
        // Keys of groups say by themselves how far the traversal is.
        if self.row_order == RowOrder::FirstItems && order == ItemOrder::Identity {
            bounds = EpkRange { min: Epk::min(), max: Epk::min() };
        }
        let from = self.from.clone().unwrap_or_else(|| self.first_bound(&bounds));
        Traversal { from, bounds, order }
    }

    /// Where a traversal that is begun on this page begins.
    fn first_bound(&self, bounds: &EpkRange) -> Epk {
        match self.row_order {
            RowOrder::Items => self.segments.first().map(|first| first.bounds.min.clone()),
            RowOrder::FirstItems | RowOrder::Keys => None,
        }
        .unwrap_or_else(|| bounds.min.clone())
    }

    /// Between two segments a traversal has no order.
    fn position_behind(&self, segment: usize, execution: &Execution<StoredItem>) -> PagePosition {
        let traversal = self.segments.get(segment).map(|segment| {
            let traversal = self.traversal_in(segment);
            let end = traversal.bounds.max;
            let bounds = EpkRange { min: end.clone(), max: end };
            Traversal { bounds, order: ItemOrder::Identity, ..traversal }
        });
        PagePosition { query: execution.position_between_ranges(), cut: None, traversal }
    }
}

/// Adds segments to a route.
struct Draft<'r> {
    route: &'r mut Route,
    routing: &'r RoutingMap,
    form: EpkForm,
    wanted: &'r EpkRange,
}

impl Draft<'_> {
    /// Each range of an area as a segment.
    fn add_ranges(&mut self, area: &EpkRange) {
        for range in self.routing.ranges() {
            if let Some(bounds) = range.epk.intersect(area) {
                self.add_segment(&bounds, self.wanted.clone(), None, None);
            }
        }
    }

    /// All of an area as one segment.
    fn add(&mut self, area: &EpkRange, order: Option<ItemOrder>, marks: Option<Marks>) {
        if let Some(bounds) = area.intersect(self.wanted) {
            self.add_segment(&bounds, self.wanted.clone(), order, marks);
        }
    }

    /// An area that may be outside the scope, for the groups that its items belong to.
    fn add_marks(&mut self, area: &EpkRange, marks: Marks) {
        self.add_segment(area, area.clone(), Some(ItemOrder::Identity), Some(marks));
    }

    /// The segment in which a page begins.
    fn add_begun(&mut self, traversal: &Traversal, at: &RowPosition) {
        let before = self.route.segments.len();
        self.add_segment(&traversal.bounds, self.wanted.clone(), Some(traversal.order), None);
        for segment in &mut self.route.segments[before..] {
            segment.is_begun = true;
            // What the page has passed is not scanned.
            if let (RowPosition::Item { identity, .. }, ItemOrder::Identity) = (at, traversal.order)
            {
                let done = keys::row_of_identity(identity);
                let ranges = &mut self.route.scan_ranges;
                let ahead =
                    ranges[segment.ranges.clone()].iter().map(|range| range.hi[..] > done[..]);
                let passed = ahead.take_while(|is_ahead| !is_ahead).count();
                ranges.drain(segment.ranges.start..segment.ranges.start + passed);
                segment.ranges.end -= passed;
            }
        }
    }

    fn add_segment(
        &mut self,
        bounds: &EpkRange,
        wanted: EpkRange,
        order: Option<ItemOrder>,
        marks: Option<Marks>,
    ) {
        let first = self.route.scan_ranges.len();
        for range in self.routing.ranges() {
            let common = range.epk.intersect(bounds).and_then(|part| part.intersect(&wanted));
            let Some(common) = common else { continue };
            let (lo, hi) = keys::row_bounds(self.form, &common);
            self.route.scan_ranges.push(ScanRange {
                is_whole: common == range.epk,
                at: range.partition.lsn(),
                range: range.clone(),
                lo,
                hi,
                logical_partition: None,
                counters: OnceCell::new(),
            });
        }
        let ranges = first..self.route.scan_ranges.len();
        if !ranges.is_empty() {
            let bounds = bounds.clone();
            let segment = Segment { bounds, order, ranges, is_begun: false, marks };
            self.route.segments.push(segment);
        }
    }
}

/// The parts of `area` that are not in `scope`.
fn outside(area: &EpkRange, scope: &EpkRange) -> Vec<EpkRange> {
    let full = EpkRange::full();
    let before = EpkRange { min: full.min, max: scope.min.clone() };
    let behind = EpkRange { min: scope.max.clone(), max: full.max };
    [before, behind].iter().filter_map(|part| area.intersect(part)).collect()
}
