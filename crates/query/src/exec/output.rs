//! The rows of a page, with their number and size.

use model::Value;
use model::json;

use crate::eval::{Flow, Scope, is_finite};
use crate::group::Group;
use crate::plan::Plan;
use crate::write::{RowWriter, WriteItem};
use crate::{Budget, EvalError};

use super::{Limits, PageContext, PartialResult, Position, RowOrGroup, RowPosition};

/// One row of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Row<W> {
    /// An item that is returned unchanged.
    WholeItem(W),
    /// JSON text.
    Json(Vec<u8>),
}

/// The page under construction, and the progress of OFFSET, TOP and LIMIT.
pub(crate) struct Output<W> {
    rows: Vec<Row<W>>,
    /// The partial results, if they are kept.
    partial_results: Option<Vec<PartialResult<W>>>,
    bytes: usize,
    limits: Limits,
    offset: u64,
    wanted: u64,
    skipped: u64,
    returned: u64,
    /// Where the rows after the first `places_from` were met, if they are to be sorted by that.
    places: Option<Vec<(u64, u64)>>,
    places_from: usize,
    /// Where the next row is met: the number of its item, and which of the rows of that item.
    place: (u64, u64),
    /// The value read for the last item that the filter was tested on; its memory is reused.
    scratch: Value,
}

impl<W> Output<W> {
    pub(crate) fn new(plan: &Plan, position: &Position, limits: Limits) -> Self {
        Self {
            rows: Vec::new(),
            partial_results: None,
            bytes: 0,
            limits,
            offset: plan.offset().unwrap_or(0),
            wanted: plan.rows_max(),
            skipped: position.skipped,
            returned: position.returned,
            places: None,
            places_from: 0,
            place: (0, 0),
            scratch: Value::Null,
        }
    }

    /// Takes a value whose memory can be reused.
    pub(super) fn take_scratch(&mut self) -> Value {
        std::mem::replace(&mut self.scratch, Value::Null)
    }

    /// Keeps a value so that its memory can be reused.
    pub(super) fn keep_scratch(&mut self, value: Value) {
        self.scratch = value;
    }

    /// Keeps rows and groups as partial results, with the positions to merge them by.
    pub(super) fn keep_partial_results(&mut self) {
        self.partial_results = Some(Vec::new());
    }

    /// Notes where rows are met from here on, if they are to be [sorted](Self::sort_by_place).
    pub(crate) fn note_places(&mut self, wanted: bool) {
        self.places = (wanted && self.partial_results.is_none()).then(Vec::new);
        self.places_from = self.rows.len();
    }

    /// Begins the rows of an item.
    pub(super) fn begin_item(&mut self, number: u64) {
        self.place = (number, 0);
    }

    /// Where the next row is met.
    pub(crate) fn set_place(&mut self, place: (u64, u64)) {
        self.place = place;
    }

    /// Sorts rows by where they were met, if that was noted.
    pub(crate) fn sort_by_place(&mut self) {
        let Some(places) = self.places.take() else { return };
        if places.is_sorted() {
            return;
        }
        let rows = self.rows.split_off(self.places_from.min(self.rows.len()));
        let mut placed: Vec<_> = places.into_iter().zip(rows).collect();
        placed.sort_by_key(|(place, _)| *place);
        self.rows.extend(placed.into_iter().map(|(_, row)| row));
    }

    /// Whether it keeps partial results, with groups that are not yet rows.
    pub(super) fn keeps_partial_results(&self) -> bool {
        self.partial_results.is_some()
    }

    /// How many rows the page has.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() + self.partial_results.as_ref().map_or(0, Vec::len)
    }

    /// Whether TOP or LIMIT has been reached.
    pub(crate) fn is_satisfied(&self) -> bool {
        self.returned >= self.wanted
    }

    /// Whether the page is full.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.limits.rows_max || self.bytes >= self.limits.bytes_max
    }

    /// How many more rows matter to this page: those it skips, those it holds, and one that shows
    /// that there are more.
    pub(crate) fn rows_ahead(&self) -> usize {
        let skipped = self.offset.saturating_sub(self.skipped);
        let in_page = self.limits.rows_max.saturating_sub(self.len());
        let taken = self.wanted.saturating_sub(self.returned).min(in_page as u64);
        let ahead = skipped.saturating_add(taken).saturating_add(1);
        usize::try_from(ahead).unwrap_or(usize::MAX)
    }

    /// Whether OFFSET skips the next row; if so, counts it.
    pub(crate) fn skips(&mut self) -> bool {
        let skips = self.skipped < self.offset;
        self.skipped += u64::from(skips);
        skips
    }

    /// Appends a row. `at` returns where the page continues after it.
    pub(crate) fn push(&mut self, row: Row<W>, bytes: usize, at: impl FnOnce() -> RowPosition) {
        match &mut self.partial_results {
            Some(partial_results) => partial_results.push(PartialResult {
                at: at(),
                content: RowOrGroup::Row(row),
                bytes,
                number: self.place.0,
            }),
            None => self.rows.push(row),
        }
        if let Some(places) = &mut self.places {
            places.push(self.place);
        }
        self.bytes += bytes;
        self.returned += 1;
    }

    pub(super) fn push_json(&mut self, row: Vec<u8>, at: impl FnOnce() -> RowPosition) {
        let bytes = row.len();
        self.push(Row::Json(row), bytes, at);
    }

    /// Appends a group that is to be merged with others.
    pub(super) fn push_group(&mut self, group: Group, at: RowPosition) {
        let bytes = group.bytes();
        if let Some(partial_results) = &mut self.partial_results {
            let (content, number) = (RowOrGroup::Group(group), self.place.0);
            partial_results.push(PartialResult { at, content, bytes, number });
        }
        self.bytes += bytes;
        self.returned += 1;
    }

    /// Appends the result of the projection in `scope`, if that is a row and not skipped.
    pub(crate) fn write(
        &mut self,
        plan: &Plan,
        scope: &Scope<'_>,
        item: Option<&WriteItem<'_>>,
        budget: &Budget,
        at: impl FnOnce() -> RowPosition,
    ) -> Result<(), EvalError> {
        let mut out = Vec::with_capacity(64);
        let projection = plan.select().projection();
        let is_row = RowWriter { scope, budget, item, out: &mut out }.row(projection)?;
        if is_row && !self.skips() {
            self.push_json(out, at);
        }
        Ok(())
    }

    /// The rows of a query without FROM.
    pub(super) fn write_single(&mut self, context: &PageContext) -> Result<(), EvalError> {
        let budget = context.budget();
        context.plan.select().for_each_output(&Scope::EMPTY, &budget, &mut |row| {
            if self.is_satisfied() {
                return Ok(Flow::Enough);
            }
            if !is_finite(&row) {
                return Err(EvalError::NonFiniteNumber);
            }
            if !self.skips() {
                self.push_json(json::to_string(&row).into_bytes(), RowPosition::default);
            }
            Ok(Flow::More)
        })?;
        Ok(())
    }

    /// What is left of the page's limits.
    pub(crate) fn limits_left(&self) -> Limits {
        Limits {
            rows_max: self.limits.rows_max.saturating_sub(self.len()),
            bytes_max: self.limits.bytes_max.saturating_sub(self.bytes),
        }
    }

    /// Appends rows that were counted elsewhere.
    pub(super) fn append_counted(
        &mut self,
        position: &Position,
        rows: impl Iterator<Item = Vec<u8>>,
    ) {
        rows.for_each(|row| self.push_json(row, RowPosition::default));
        self.skipped = position.skipped;
        self.returned = position.returned;
    }

    pub(crate) fn position(&self, at: RowPosition) -> Position {
        Position { skipped: self.skipped, returned: self.returned, at, floor: None }
    }

    pub(super) fn into_partial_results(self) -> Vec<PartialResult<W>> {
        self.partial_results.unwrap_or_default()
    }

    pub(crate) fn take_rows(&mut self) -> Vec<Row<W>> {
        std::mem::take(&mut self.rows)
    }

    pub(crate) fn into_rows(self) -> Vec<Row<W>> {
        self.rows
    }
}
