//! Rows in the order of sort keys: scans all items for the first ones after the position, then
//! reads those again and writes their rows.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::eval::{Flow, Scope};

use super::position::Start;
use super::stream::rows_of_item;
use super::{
    Item, Output, PAGE_MEMORY_BYTES_MAX, PageContext, PageEnd, Position, RowLookup, RowPosition,
};

/// The items of the page found so far.
pub(super) struct Sort {
    start: Start,
    /// A heap with the last item on top.
    found: BinaryHeap<Candidate>,
    found_max: usize,
    bytes: usize,
    /// Whether items after those found were left out.
    has_more: bool,
    reached: Option<RowPosition>,
    /// A buffer for building keys before it is known whether they are kept.
    scratch: Vec<u8>,
}

/// An item that may be on the page.
struct Candidate {
    key: Vec<u8>,
    tie: u64,
    identity: Vec<u8>,
}

impl Sort {
    pub(super) fn new(position: Position, rows_ahead: usize) -> Self {
        Self {
            start: Start::of(position),
            found: BinaryHeap::new(),
            found_max: rows_ahead,
            bytes: 0,
            has_more: false,
            reached: None,
            scratch: Vec::new(),
        }
    }

    pub(super) fn start(&self) -> &Start {
        &self.start
    }

    /// Builds the sort key of an item; false if the item has no rows.
    fn make_key<I: Item>(&mut self, context: &PageContext, item: &I) -> Result<bool, I::Error> {
        let budget = context.budget();
        let select = context.plan.select();
        let mut value = item.read(&context.required.to_match)?;
        let mut has_rows = false;
        select.for_each_row(&Scope::of_item(&value), &budget, &mut |_| {
            has_rows = true;
            Ok(Flow::Enough)
        })?;
        if !has_rows {
            return Ok(false);
        }
        if context.required.to_order != context.required.to_match {
            value = item.read(&context.required.to_order)?;
        }
        self.scratch.clear();
        context.sort_key(&Scope::of_item(&value), &budget, &mut self.scratch)?;
        Ok(true)
    }

    pub(super) fn look_up<I: Item>(
        &mut self,
        context: &PageContext,
        item: &I,
    ) -> Result<bool, I::Error> {
        // The position may be that of an item without rows, if an earlier page came no further.
        let value = item.read(&context.required.to_order)?;
        self.scratch.clear();
        context.sort_key(&Scope::of_item(&value), &context.budget(), &mut self.scratch)?;
        Ok(self.start.look_up(&self.scratch))
    }

    pub(super) fn take<I: Item>(
        &mut self,
        context: &PageContext,
        item: &I,
    ) -> Result<(), I::Error> {
        if !self.make_key(context, item)? {
            return Ok(());
        }
        let tie = context.plan.tie_of(item.number());
        if self.start.rows_done(&self.scratch, tie).is_none() {
            return Ok(());
        }
        let is_beyond =
            |last: &Candidate| (self.scratch.as_slice(), tie) > (last.key.as_slice(), last.tie);
        if self.is_complete() && self.found.peek().is_some_and(is_beyond) {
            self.has_more = true;
            return Ok(());
        }
        let found =
            Candidate { key: self.scratch.clone(), tie, identity: item.identity().to_vec() };
        self.bytes += found.bytes();
        self.found.push(found);
        while self.found.len() > 1 && self.is_over() {
            if let Some(last) = self.found.pop() {
                self.bytes -= last.bytes();
                self.has_more = true;
            }
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.found.len() >= self.found_max || self.bytes >= PAGE_MEMORY_BYTES_MAX
    }

    fn is_over(&self) -> bool {
        self.found.len() > self.found_max || self.bytes > PAGE_MEMORY_BYTES_MAX
    }

    pub(super) fn finish<S: RowLookup>(
        &mut self,
        context: &PageContext,
        out: &mut Output<<S::Item as Item>::WholeItem>,
        lookup: &mut S,
    ) -> Result<PageEnd, <S::Item as Item>::Error> {
        let found = std::mem::take(&mut self.found).into_sorted_vec();
        for Candidate { key, tie, identity } in found {
            if out.is_satisfied() {
                return Ok(PageEnd::Satisfied);
            }
            if out.is_full() {
                return Ok(PageEnd::Full);
            }
            let done = self.start.rows_done(&key, tie).unwrap_or(0);
            let at = |rows| RowPosition::Key { key: key.clone(), cut: None, tie, rows };
            let rest = match lookup.fetch(&identity)? {
                Some(item) => rows_of_item(context, out, &item, done, at)?,
                None => None,
            };
            let rows = rest.unwrap_or(u64::MAX);
            self.reached = Some(RowPosition::Key { key, cut: None, tie, rows });
            if rest.is_some() {
                return Ok(PageEnd::Full);
            }
        }
        Ok(match self.has_more {
            _ if out.is_satisfied() => PageEnd::Satisfied,
            true => PageEnd::Full,
            false => PageEnd::Exhausted,
        })
    }

    pub(super) fn position(&self) -> RowPosition {
        self.reached.clone().unwrap_or_else(|| self.start.to_at())
    }
}

impl Candidate {
    fn bytes(&self) -> usize {
        self.key.len() + self.identity.len() + size_of::<Self>()
    }

    fn order(&self) -> (&[u8], u64) {
        (&self.key, self.tie)
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Candidate {}
