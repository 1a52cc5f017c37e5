//! Rows in the order of their items, each known as soon as its item is read.

use std::borrow::Cow;

use model::Value;

use crate::eval::{Flow, Scope};
use crate::{Budget, EvalError};

use super::{Item, ItemOrder, Output, PageContext, PageEnd, PageFlow, Row, RowPosition};

/// The progress of the stream within a range.
pub(super) struct Stream {
    order: ItemOrder,
    /// Where the page begins in this range.
    start: RowPosition,
    /// Whether `start` is behind this range.
    is_next_range: bool,
    /// Whether an item of this range was taken.
    has_begun: bool,
    /// The last item.
    identity: Vec<u8>,
    number: u64,
    /// How many of its rows are done; `u64::MAX` = all.
    rows: u64,
}

impl Stream {
    pub(super) fn new(start: RowPosition, order: ItemOrder) -> Self {
        let (is_next_range, has_begun) = (false, false);
        Self { order, start, is_next_range, has_begun, identity: Vec::new(), number: 0, rows: 0 }
    }

    /// Begins the items of a range. The position of the page is in the first one.
    pub(super) fn begin_range(&mut self, order: ItemOrder) {
        if std::mem::replace(&mut self.is_next_range, true) {
            self.start = RowPosition::Start;
        }
        self.order = order;
        self.has_begun = false;
    }

    pub(super) fn take<I: Item>(
        &mut self,
        context: &PageContext,
        out: &mut Output<I::WholeItem>,
        item: &I,
    ) -> Result<PageFlow, I::Error> {
        if out.is_full() {
            return Ok(PageFlow::Break(PageEnd::Full));
        }
        let (order, number) = (self.order, item.number());
        let done = self.rows_done(item);
        let at = |rows| position_of(order, item.identity(), number, rows);
        out.begin_item(number);
        let rest = rows_of_item(context, out, item, done, at)?;
        match order {
            ItemOrder::Identity => {
                self.identity.clear();
                self.identity.extend_from_slice(item.identity());
            }
            ItemOrder::Number => self.number = number,
        }
        self.rows = rest.unwrap_or(u64::MAX);
        self.has_begun = true;
        Ok(match rest {
            _ if out.is_satisfied() => PageFlow::Break(PageEnd::Satisfied),
            Some(_) => PageFlow::Break(PageEnd::Full),
            None => PageFlow::Continue(()),
        })
    }

    /// How many rows of an item earlier pages have returned.
    fn rows_done<I: Item>(&self, item: &I) -> u64 {
        match &self.start {
            _ if self.has_begun => 0,
            RowPosition::Item { identity, rows } if item.identity() == identity => *rows,
            RowPosition::Number { number, rows } if item.number() == *number => *rows,
            RowPosition::Start
            | RowPosition::Item { .. }
            | RowPosition::Number { .. }
            | RowPosition::Key { .. } => 0,
        }
    }

    /// Whether the position is one in this range.
    pub(super) fn has_begun_range(&self) -> bool {
        self.has_begun
    }

    pub(super) fn position(&self) -> RowPosition {
        match self.has_begun {
            true => position_of(self.order, &self.identity, self.number, self.rows),
            false => self.start.clone(),
        }
    }

    /// The position once all items of the range up to `looked_at` were read.
    pub(super) fn position_beyond(&self, looked_at: &RowPosition) -> RowPosition {
        let is_further = self.has_begun
            && match looked_at {
                RowPosition::Item { identity, .. } => self.identity >= *identity,
                RowPosition::Number { number, .. } => self.number >= *number,
                RowPosition::Start | RowPosition::Key { .. } => true,
            };
        if is_further { self.position() } else { looked_at.clone() }
    }
}

fn position_of(order: ItemOrder, identity: &[u8], number: u64, rows: u64) -> RowPosition {
    match order {
        ItemOrder::Identity => RowPosition::Item { identity: identity.to_vec(), rows },
        ItemOrder::Number => RowPosition::Number { number, rows },
    }
}

/// Writes the rows of an item after the first `done`. If the page was full before the last row,
/// returns how many are done. `at` returns the position for a number of finished rows.
pub(super) fn rows_of_item<I: Item>(
    context: &PageContext,
    out: &mut Output<I::WholeItem>,
    item: &I,
    done: u64,
    at: impl Fn(u64) -> RowPosition,
) -> Result<Option<u64>, I::Error> {
    let select = context.plan.select();
    let budget = context.budget();
    if !select.bindings().is_empty() {
        return joined_rows(context, out, item, done, &budget, at);
    }
    if let Some(filter) = select.filter() {
        let value = item.read_again(&context.required.to_match, out.take_scratch())?;
        let is_kept = filter.is_true(&Scope::of_item(&value), &budget)?;
        out.keep_scratch(value);
        if !is_kept {
            return Ok(None);
        }
    }
    write_item(context, out, item, None, &budget, at)?;
    Ok(None)
}

/// Writes the row of an item that the filter keeps, in a query without further sources. `read`
/// holds all required fields of the item, if they were read already.
pub(super) fn write_item<I: Item>(
    context: &PageContext,
    out: &mut Output<I::WholeItem>,
    item: &I,
    read: Option<&Value>,
    budget: &Budget,
    at: impl Fn(u64) -> RowPosition,
) -> Result<(), I::Error> {
    let plan = &context.plan;
    if plan.is_select_all() {
        if !out.skips() {
            out.push(Row::WholeItem(item.to_whole_item()), item.bytes(), || at(u64::MAX));
        }
        return Ok(());
    }
    let value = match read {
        Some(value) => Cow::Borrowed(value),
        None => Cow::Owned(item.read(&context.required.to_write)?),
    };
    let scope = Scope::of_item(&value);
    out.write(plan, &scope, Some(&|out| item.write_json(out)), budget, || at(u64::MAX))?;
    Ok(())
}

/// Writes the rows of an item in a query with further sources, as [`rows_of_item`] does.
pub(super) fn joined_rows<I: Item>(
    context: &PageContext,
    out: &mut Output<I::WholeItem>,
    item: &I,
    done: u64,
    budget: &Budget,
    at: impl Fn(u64) -> RowPosition,
) -> Result<Option<u64>, I::Error> {
    let value = item.read(&context.required.to_write)?;
    let text = |out: &mut Vec<u8>| item.write_json(out);
    let mut row = 0;
    let mut rest = None;
    context.plan.select().for_each_row(&Scope::of_item(&value), budget, &mut |scope| {
        if row >= done {
            if out.is_full() {
                rest = Some(row);
                return Ok::<_, EvalError>(Flow::Enough);
            }
            out.write(&context.plan, scope, Some(&text), budget, || at(row + 1))?;
        }
        row += 1;
        Ok(if out.is_satisfied() { Flow::Enough } else { Flow::More })
    })?;
    Ok(rest)
}
