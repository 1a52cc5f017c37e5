//! Rows in the order of their items, each known as soon as its item is read.

use std::borrow::Cow;

use model::Value;

use crate::eval::{Flow, Scope};
use crate::{Budget, EvalError};

use super::{Item, Output, PageContext, PageEnd, PageFlow, Row, RowPosition};

/// The progress of the stream.
pub(super) struct Stream {
    identity: Vec<u8>,
    /// How many rows of the item at `identity` are done; `u64::MAX` = all.
    rows: u64,
    is_started: bool,
}

impl Stream {
    pub(super) fn new(at: RowPosition) -> Self {
        match at {
            RowPosition::Item { identity, rows } => Self { identity, rows, is_started: true },
            RowPosition::Start | RowPosition::Key { .. } => {
                Self { identity: Vec::new(), rows: 0, is_started: false }
            }
        }
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
        let done = if item.identity() == self.identity { self.rows } else { 0 };
        let at = |rows| RowPosition::Item { identity: item.identity().to_vec(), rows };
        let rest = rows_of_item(context, out, item, done, at)?;
        self.identity.clear();
        self.identity.extend_from_slice(item.identity());
        self.rows = rest.unwrap_or(u64::MAX);
        self.is_started = true;
        Ok(match rest {
            _ if out.is_satisfied() => PageFlow::Break(PageEnd::Satisfied),
            Some(_) => PageFlow::Break(PageEnd::Full),
            None => PageFlow::Continue(()),
        })
    }

    pub(super) fn position(&self) -> RowPosition {
        match self.is_started {
            true => RowPosition::Item { identity: self.identity.clone(), rows: self.rows },
            false => RowPosition::Start,
        }
    }

    /// The position once all items up to `identity` were read.
    pub(super) fn position_beyond(&self, identity: &[u8]) -> RowPosition {
        match self.is_started && self.identity.as_slice() >= identity {
            true => self.position(),
            false => RowPosition::Item { identity: identity.to_vec(), rows: u64::MAX },
        }
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
