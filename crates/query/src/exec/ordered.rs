//! Rows in the order of sort keys, from items that already come in that order: each row is known as
//! soon as its item is read, and the page can end early.
//!
//! Positions are those of [`super::sort`], so a query may change between the two modes from page to
//! page.

use std::ops::ControlFlow;

use crate::eval::Scope;

use super::position::Start;
use super::stream::{joined_rows, write_item};
use super::{Item, Output, PageContext, PageEnd, PageFlow, Position, RowPosition};

/// The progress of an ordered page.
pub(super) struct Ordered {
    start: Start,
    /// Key and tie of the last item, and how many of its rows are done; `u64::MAX` = all.
    reached: Option<(Vec<u8>, u64, u64)>,
    /// A buffer for building keys.
    scratch: Vec<u8>,
}

impl Ordered {
    pub(super) fn new(position: Position) -> Self {
        Self { start: Start::of(position), reached: None, scratch: Vec::new() }
    }

    pub(super) fn start(&self) -> &Start {
        &self.start
    }

    /// Breaks once the position is found, or once it is certain not to come.
    pub(super) fn look_up<I: Item>(
        &mut self,
        context: &PageContext,
        item: &I,
    ) -> Result<ControlFlow<bool>, I::Error> {
        let value = item.read(&context.required.to_order)?;
        self.scratch.clear();
        context.sort_key(&Scope::of_item(&value), &context.budget(), &mut self.scratch)?;
        if self.start.look_up(&self.scratch) {
            return Ok(ControlFlow::Break(true));
        }
        Ok(match self.start.is_before(&self.scratch) {
            true => ControlFlow::Break(false),
            false => ControlFlow::Continue(()),
        })
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
        let budget = context.budget();
        let select = context.plan.select();
        let value = item.read(&context.required.to_order)?;
        let scope = Scope::of_item(&value);
        self.scratch.clear();
        context.sort_key(&scope, &budget, &mut self.scratch)?;
        let tie = context.plan.tie_of(item.number());
        let Some(done) = self.start.rows_done(&self.scratch, tie) else {
            return Ok(PageFlow::Continue(()));
        };
        let key = &self.scratch;
        let at = |rows| RowPosition::Key { key: key.clone(), cut: None, tie, rows };
        let rest = if !select.bindings().is_empty() {
            joined_rows(context, out, item, done, &budget, at)?
        } else if select.filter().map_or(Ok(true), |filter| filter.is_true(&scope, &budget))? {
            let is_read = context.required.to_write == context.required.to_order;
            write_item(context, out, item, is_read.then_some(&value), &budget, at)?;
            None
        } else {
            None
        };
        self.note_reached(tie, rest.unwrap_or(u64::MAX));
        Ok(match rest {
            _ if out.is_satisfied() => PageFlow::Break(PageEnd::Satisfied),
            Some(_) => PageFlow::Break(PageEnd::Full),
            None => PageFlow::Continue(()),
        })
    }

    /// Records the item whose key was built last.
    fn note_reached(&mut self, tie: u64, rows: u64) {
        let (key, reached_tie, reached_rows) = self.reached.get_or_insert_default();
        std::mem::swap(key, &mut self.scratch);
        *reached_tie = tie;
        *reached_rows = rows;
    }

    /// Whether an item at or after the start was read.
    pub(super) fn has_begun(&self) -> bool {
        self.reached.is_some()
    }

    pub(super) fn position(&self) -> RowPosition {
        match &self.reached {
            Some((key, tie, rows)) => {
                RowPosition::Key { key: key.clone(), cut: None, tie: *tie, rows: *rows }
            }
            None => self.start.to_at(),
        }
    }
}
