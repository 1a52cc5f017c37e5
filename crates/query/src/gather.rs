//! Merges the rows of several ranges of a container, as if it had only one.
//!
//! Each range runs the [plan for ranges](Gather::range_plan) by itself and delivers pages of
//! [partial results](PartialResult). How they are merged depends on the query:
//!
//! | | order | memory | resumes |
//! |---|---|---|---|
//! | rows without an order | range after range, a complete first page of each by item number | the page | after an item |
//! | ORDER BY | by sort key, equal ones range after range | a page of each range | after a sort key, a range and an item |
//! | groups, distinct rows | by key, in whose order all ranges deliver them | a page of each range | after a key |
//! | distinct rows in another order | by sort key | all of them | after a sort key |
//!
//! Client libraries merge the rows of ORDER BY in the same order. The order in which ranges answer
//! does not matter: a row is taken only once it is known that no range has an earlier one.

use std::collections::VecDeque;

use model::limits;

use crate::EvalError;
use crate::exec::{
    Group, Limits, MaterializedMerge, Output, PageEnd, PartialResult, Position, Row, RowOrGroup,
    RowPosition, can_order_by_key, outer_page, write_group,
};
use crate::plan::{Clauses, Input, Plan, Select, Window};

/// The position of a range relative to the range in which a page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSide {
    /// Its rows with equal sort keys come earlier.
    Before,
    /// It is that range, or was a part of it.
    Within,
    /// Its rows with equal sort keys come later.
    Behind,
}

/// How the rows of ranges are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeStrategy {
    /// Range after range.
    Concatenated,
    /// By sort key, equal ones range after range.
    Merged,
    /// By key, in whose order each range delivers its rows; rows or groups with equal keys become
    /// one.
    Keyed,
    /// By sort key, once all rows of all ranges are known.
    Materialized,
    /// By a further query over the merged rows.
    Derived,
}

/// A page in progress.
pub struct Gather<W> {
    plan: Plan,
    range_plan: Plan,
    state: MergeState<W>,
    start: Position,
    ranges: Vec<RangeInput<W>>,
    out: Output<W>,
    reached: Option<(usize, RowPosition)>,
    end: Option<PageEnd>,
}

enum MergeState<W> {
    /// Range after range.
    Concatenated,
    /// By sort key, then range.
    Merged,
    /// By key; rows or groups with equal keys become one.
    Keyed,
    /// By sort key, once all ranges are complete.
    Materialized(Box<MaterializedMerge>),
    /// By another query over the rows of this one.
    Derived(Box<Gather<W>>),
}

/// What a range has delivered and was not merged yet.
struct RangeInput<W> {
    partial_results: VecDeque<PartialResult<W>>,
    /// Where the range continues; `None` if it has no more.
    next: Option<RowPosition>,
    /// Whether the range has delivered a page.
    is_begun: bool,
}

impl<W> RangeInput<W> {
    fn is_exhausted(&self) -> bool {
        self.partial_results.is_empty() && self.next.is_none()
    }

    fn needs_page(&self) -> bool {
        self.partial_results.is_empty() && self.next.is_some()
    }
}

impl<W> Gather<W> {
    /// A page of a plan that reads items, from `position` on. `sides` gives the position of each
    /// range, in the order of the hash line.
    pub fn new(plan: &Plan, position: Position, limits: Limits, sides: &[RangeSide]) -> Self {
        let (state, range_plan) = Self::divide(plan, &position, sides);
        let start_of = |side: &RangeSide| match state {
            MergeState::Keyed => position.at.clone(),
            MergeState::Concatenated => match side {
                RangeSide::Before | RangeSide::Within => position.at.clone(),
                RangeSide::Behind => RowPosition::Start,
            },
            MergeState::Merged => start_of_range(&position.at, *side),
            MergeState::Materialized(_) | MergeState::Derived(_) => RowPosition::Start,
        };
        let range = |side| {
            let next = Some(start_of(side));
            RangeInput { partial_results: VecDeque::new(), next, is_begun: false }
        };
        let ranges = sides.iter().map(range).collect();
        let mut out = Output::new(plan, &position, limits);
        let clauses = plan.clauses();
        let takes_some = clauses.top.is_some() || clauses.window.is_some();
        let is_first = position.at == RowPosition::Start;
        let is_concatenation = matches!(state, MergeState::Concatenated);
        out.note_places(is_concatenation && is_first && !takes_some);
        let end = out.is_satisfied().then_some(PageEnd::Satisfied);
        let plan = plan.clone();
        Self { plan, range_plan, state, start: position, ranges, out, reached: None, end }
    }

    /// How a query is divided, and what each range runs.
    fn divide(plan: &Plan, position: &Position, sides: &[RangeSide]) -> (MergeState<W>, Plan) {
        let clauses = plan.clauses();
        let select = &clauses.select;
        if let Input::Rows(inner) = &clauses.input {
            let limits = Limits { rows_max: usize::MAX, bytes_max: limits::QUERY_KEPT_BYTES_MAX };
            let inner = Self::new(inner, Position::default(), limits, sides);
            let range_plan = inner.range_plan.clone();
            return (MergeState::Derived(Box::new(inner)), range_plan);
        }
        if select.is_row_by_row() {
            let state = if clauses.order.is_empty() {
                MergeState::Concatenated
            } else {
                MergeState::Merged
            };
            return (state, unskipped(plan));
        }
        let uncounted = Clauses { top: None, window: None, ..clauses.clone() };
        let materialized =
            || MergeState::Materialized(Box::new(MaterializedMerge::new(plan, position.clone())));
        match (can_order_by_key(plan), select.grouping()) {
            // Every distinct row counts, but not every group becomes a row.
            (true, None) => (MergeState::Keyed, unskipped(plan)),
            (true, Some(_)) => (MergeState::Keyed, Plan::new(uncounted)),
            (false, None) => (materialized(), Plan::new(uncounted)),
            (false, Some(grouping)) => {
                let groups = Select::new(
                    select.outer(),
                    select.bindings().to_vec(),
                    select.filter().cloned(),
                    select.projection().clone(),
                );
                let select = groups.grouped(Some(grouping.clone()));
                let range_plan = Plan::new(Clauses { select, order: Vec::new(), ..uncounted });
                (materialized(), range_plan)
            }
        }
    }

    /// How rows are merged.
    pub fn merge_strategy(&self) -> MergeStrategy {
        match self.state {
            MergeState::Concatenated => MergeStrategy::Concatenated,
            MergeState::Merged => MergeStrategy::Merged,
            MergeState::Keyed => MergeStrategy::Keyed,
            MergeState::Materialized(_) => MergeStrategy::Materialized,
            MergeState::Derived(_) => MergeStrategy::Derived,
        }
    }

    /// What each range runs.
    pub fn range_plan(&self) -> &Plan {
        &self.range_plan
    }

    /// Whether ranges are visited one after the other, as far as the page needs.
    pub fn is_concatenation(&self) -> bool {
        matches!(self.state, MergeState::Concatenated)
    }

    /// How many rows of a range are needed at most, if that is known.
    pub fn rows_wanted(&self) -> usize {
        match &self.state {
            MergeState::Concatenated | MergeState::Merged | MergeState::Keyed => {
                self.out.rows_ahead()
            }
            MergeState::Materialized(_) | MergeState::Derived(_) => usize::MAX,
        }
    }

    /// The ranges whose next page is needed before there can be more rows, and where it begins.
    /// Ranges that are visited one after the other are read ahead, `ahead` of them at a time.
    pub fn pages_needed(&self, ahead: usize) -> Vec<(usize, RowPosition)> {
        if self.end.is_some() {
            return Vec::new();
        }
        if let MergeState::Derived(inner) = &self.state {
            return inner.pages_needed(ahead);
        }
        let waiting = self.ranges.iter().enumerate().filter(|(_, range)| range.needs_page());
        let pages_needed = waiting.filter_map(|(at, range)| Some((at, range.next.clone()?)));
        match self.state {
            MergeState::Concatenated => pages_needed.take(ahead.max(1)).collect(),
            MergeState::Merged
            | MergeState::Keyed
            | MergeState::Materialized(_)
            | MergeState::Derived(_) => pages_needed.collect(),
        }
    }

    /// Accepts a page of a range. `next` is where the range continues, if it has more.
    pub fn accept_page(
        &mut self,
        range: usize,
        partial_results: Vec<PartialResult<W>>,
        next: Option<RowPosition>,
    ) {
        if let MergeState::Derived(inner) = &mut self.state {
            return inner.accept_page(range, partial_results, next);
        }
        if let Some(range) = self.ranges.get_mut(range) {
            range.partial_results.extend(partial_results);
            range.next = next;
            range.is_begun = true;
        }
    }

    /// Makes rows of what was delivered. True when the page is complete.
    pub fn advance(&mut self) -> Result<bool, EvalError> {
        while self.end.is_none() {
            let is_stuck = match self.state {
                MergeState::Concatenated => self.take_first()?,
                MergeState::Merged => self.take_least()?,
                MergeState::Keyed => self.take_keyed()?,
                MergeState::Materialized(_) => self.take_all()?,
                MergeState::Derived(_) => self.take_derived()?,
            };
            if is_stuck {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How the page ended, if it has.
    pub fn end(&self) -> Option<PageEnd> {
        self.end
    }

    /// Where the next page begins, and in which range.
    pub fn position(&self) -> (Position, Option<usize>) {
        match &self.reached {
            Some((range, at)) => (self.out.position(at.clone()), Some(*range)),
            None => (self.out.position(self.start.at.clone()), None),
        }
    }

    /// Ends a page of ranges that are visited one after the other early, if it has moved past its
    /// start. `end_of` returns an identity after those of all items of a range.
    pub fn pause(&mut self, end_of: impl FnOnce(usize) -> Vec<u8>) -> bool {
        let MergeState::Concatenated = self.state else { return false };
        let Some(first) = self.ranges.iter().position(|range| !range.is_exhausted()) else {
            return false;
        };
        let is_begun = self.continue_from(first);
        if !is_begun && let Some(before) = first.checked_sub(1) {
            let at = RowPosition::Item { identity: end_of(before), rows: u64::MAX };
            self.reached = Some((before, at));
        }
        self.end = (is_begun || first > 0).then_some(PageEnd::Full);
        self.end.is_some()
    }

    /// Continues from the position of a range, which may be further than its last row; false if the
    /// range has not begun.
    fn continue_from(&mut self, range: usize) -> bool {
        let begun = self.ranges.get(range).filter(|range| range.is_begun);
        let next = begun.and_then(|range| range.next.clone());
        let has_begun = next.is_some();
        self.reached = next.map(|at| (range, at)).or_else(|| self.reached.take());
        has_begun
    }

    /// The rows.
    pub fn into_rows(self) -> Vec<Row<W>> {
        self.out.into_rows()
    }

    /// Whether the page accepts no more rows; records how it ended.
    fn is_over(&mut self) -> bool {
        self.end = match (self.out.is_satisfied(), self.out.is_full()) {
            (true, _) => Some(PageEnd::Satisfied),
            (false, true) => Some(PageEnd::Full),
            (false, false) => None,
        };
        self.end.is_some()
    }

    /// Takes the next partial result of the first range that has one; true if that range must
    /// deliver one first.
    fn take_first(&mut self) -> Result<bool, EvalError> {
        let Some(first) = self.ranges.iter().position(|range| !range.is_exhausted()) else {
            self.end = Some(PageEnd::Exhausted);
            self.out.sort_by_place();
            return Ok(false);
        };
        if self.ranges.get(first).is_some_and(RangeInput::needs_page) {
            if self.is_over() {
                self.continue_from(first);
                return Ok(false);
            }
            return Ok(true);
        }
        self.take_row(first);
        Ok(false)
    }

    /// Takes a row of a range, unless the page is over.
    fn take_row(&mut self, range: usize) {
        if self.is_over() {
            return;
        }
        let Some(partial) =
            self.ranges.get_mut(range).and_then(|range| range.partial_results.pop_front())
        else {
            return;
        };
        let PartialResult { at, content, bytes, number } = partial;
        self.out.set_place((range as u64, number));
        if let RowOrGroup::Row(row) = content
            && !self.out.skips()
        {
            self.out.push(row, bytes, || at.clone());
        }
        self.reached = Some((range, at));
    }

    /// The range with the least key, the first of several; `None` if a range must deliver a page
    /// first.
    fn least(&self) -> Option<Option<usize>> {
        if self.ranges.iter().any(RangeInput::needs_page) {
            return None;
        }
        let heads = self.ranges.iter().enumerate();
        let heads =
            heads.filter_map(|(at, range)| Some((key_of(range.partial_results.front()?), at)));
        Some(heads.min().map(|(_, at)| at))
    }

    fn take_least(&mut self) -> Result<bool, EvalError> {
        match self.least() {
            None => return Ok(!self.is_over()),
            Some(None) => self.end = Some(PageEnd::Exhausted),
            Some(Some(range)) => self.take_row(range),
        }
        Ok(false)
    }

    /// Takes the least key of all ranges, with all its partial results.
    fn take_keyed(&mut self) -> Result<bool, EvalError> {
        let first = match self.least() {
            None => return Ok(!self.is_over()),
            Some(None) => {
                self.end = Some(PageEnd::Exhausted);
                return Ok(false);
            }
            Some(Some(first)) => first,
        };
        if self.is_over() {
            return Ok(false);
        }
        let Some(partial) =
            self.ranges.get_mut(first).and_then(|range| range.partial_results.pop_front())
        else {
            return Ok(false);
        };
        let PartialResult { at, content, bytes, .. } = partial;
        match content {
            RowOrGroup::Row(row) => {
                self.take_equal(&at);
                if !self.out.skips() {
                    self.out.push(row, bytes, || at.clone());
                }
            }
            RowOrGroup::Group(mut group) => {
                self.take_equal(&at).into_iter().for_each(|other| group.merge(other));
                write_group(&self.plan, &mut self.out, group, &at)?;
            }
        }
        self.reached = Some((first, at));
        Ok(false)
    }

    /// Removes the partial results with this key from all ranges, and returns those that are
    /// groups.
    fn take_equal(&mut self, at: &RowPosition) -> Vec<Group> {
        let mut groups = Vec::new();
        for range in &mut self.ranges {
            let is_equal = range.partial_results.front().is_some_and(|partial| partial.at == *at);
            let Some(partial) = is_equal.then(|| range.partial_results.pop_front()).flatten()
            else {
                continue;
            };
            match partial.content {
                RowOrGroup::Group(group) => groups.push(group),
                RowOrGroup::Row(_) => {}
            }
        }
        groups
    }

    /// Takes everything that was delivered, and makes rows of it once all ranges are complete.
    fn take_all(&mut self) -> Result<bool, EvalError> {
        let MergeState::Materialized(materialized) = &mut self.state else { return Ok(false) };
        for range in &mut self.ranges {
            for partial in range.partial_results.drain(..) {
                materialized.add_partial_result(partial)?;
            }
        }
        if self.ranges.iter().any(RangeInput::needs_page) {
            return Ok(true);
        }
        let (end, at) = materialized.finish(&mut self.out)?;
        self.end = Some(end);
        self.reached = Some((0, at));
        Ok(false)
    }

    /// Completes the inner query, then runs this one over its rows.
    fn take_derived(&mut self) -> Result<bool, EvalError> {
        let MergeState::Derived(inner) = &mut self.state else { return Ok(false) };
        if !inner.advance()? {
            return Ok(true);
        }
        if inner.end == Some(PageEnd::Full) {
            return Err(EvalError::MemoryExceeded);
        }
        let rows = inner.out.take_rows();
        let (end, at) = outer_page(&self.plan, rows, &self.start, &mut self.out)?;
        self.end = Some(end);
        self.reached = Some((0, at));
        Ok(false)
    }
}

fn key_of<W>(partial: &PartialResult<W>) -> &[u8] {
    match &partial.at {
        RowPosition::Key { key, .. } => key,
        RowPosition::Start | RowPosition::Item { .. } | RowPosition::Number { .. } => &[],
    }
}

/// Where a range begins, if the page begins at `at` in another range.
fn start_of_range(at: &RowPosition, side: RangeSide) -> RowPosition {
    match (at, side) {
        (RowPosition::Key { key, cut, .. }, RangeSide::Before) => {
            RowPosition::Key { key: key.clone(), cut: *cut, tie: u64::MAX, rows: u64::MAX }
        }
        (RowPosition::Key { key, cut, .. }, RangeSide::Behind) => {
            RowPosition::Key { key: key.clone(), cut: *cut, tie: 0, rows: 0 }
        }
        (at, RangeSide::Before | RangeSide::Within | RangeSide::Behind) => at.clone(),
    }
}

/// The same plan without OFFSET: which rows are skipped is known only after merging.
fn unskipped(plan: &Plan) -> Plan {
    let clauses = plan.clauses();
    let window = clauses
        .window
        .map(|window| Window { offset: 0, limit: window.offset.saturating_add(window.limit) });
    let top = clauses.top.map(|top| top.saturating_add(plan.offset().unwrap_or(0)));
    Plan::new(Clauses { window, top, ..clauses.clone() })
}
