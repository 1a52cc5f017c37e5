//! Rows in the order of their items, each known as soon as its item is.

use std::borrow::Cow;

use model::Value;

use crate::eval::{Flow, Scope};
use crate::{Budget, EvalError};

use super::{At, End, Item, Output, Row, Taken, Work};

/// How far the stream has come.
pub(super) struct Stream {
    place: Vec<u8>,
    /// How many rows of the item at `place` are done; `u64::MAX` = all.
    rows: u64,
    is_started: bool,
}

impl Stream {
    pub(super) fn new(at: At) -> Self {
        match at {
            At::Item { place, rows } => Self { place, rows, is_started: true },
            At::Start | At::Key { .. } => Self { place: Vec::new(), rows: 0, is_started: false },
        }
    }

    pub(super) fn take<I: Item>(
        &mut self,
        work: &Work,
        out: &mut Output<I::Whole>,
        item: &I,
    ) -> Result<Taken, I::Error> {
        if out.is_full() {
            return Ok(Taken::Break(End::Full));
        }
        let done = if item.place() == self.place { self.rows } else { 0 };
        let at = |rows| At::Item { place: item.place().to_vec(), rows };
        let rest = rows_of_item(work, out, item, done, at)?;
        self.place.clear();
        self.place.extend_from_slice(item.place());
        self.rows = rest.unwrap_or(u64::MAX);
        self.is_started = true;
        Ok(match rest {
            _ if out.is_satisfied() => Taken::Break(End::Satisfied),
            Some(_) => Taken::Break(End::Full),
            None => Taken::Continue(()),
        })
    }

    pub(super) fn position(&self) -> At {
        match self.is_started {
            true => At::Item { place: self.place.clone(), rows: self.rows },
            false => At::Start,
        }
    }

    /// The position once all items up to `place` were looked at.
    pub(super) fn position_beyond(&self, place: &[u8]) -> At {
        match self.is_started && self.place.as_slice() >= place {
            true => self.position(),
            false => At::Item { place: place.to_vec(), rows: u64::MAX },
        }
    }
}

/// Writes the rows of an item after the first `done`. Returns how many are done when the page was
/// full before the last. `at` is the position once so many are done.
pub(super) fn rows_of_item<I: Item>(
    work: &Work,
    out: &mut Output<I::Whole>,
    item: &I,
    done: u64,
    at: impl Fn(u64) -> At,
) -> Result<Option<u64>, I::Error> {
    let select = work.plan.select();
    let budget = work.budget();
    if !select.bindings().is_empty() {
        return joined_rows(work, out, item, done, &budget, at);
    }
    if let Some(filter) = select.filter() {
        let value = item.read_again(&work.needs.to_match, out.take_scratch())?;
        let is_kept = filter.is_true(&Scope::of_item(&value), &budget)?;
        out.keep_scratch(value);
        if !is_kept {
            return Ok(None);
        }
    }
    write_item(work, out, item, None, &budget, at)?;
    Ok(None)
}

/// Writes the row of an item that the filter keeps, in a query without further sources. `read` is
/// all that must be read of it, if that was done.
pub(super) fn write_item<I: Item>(
    work: &Work,
    out: &mut Output<I::Whole>,
    item: &I,
    read: Option<&Value>,
    budget: &Budget,
    at: impl Fn(u64) -> At,
) -> Result<(), I::Error> {
    let plan = &work.plan;
    if plan.is_select_all() {
        if !out.skips() {
            out.push(Row::Whole(item.to_whole()), item.bytes(), || at(u64::MAX));
        }
        return Ok(());
    }
    let value = match read {
        Some(value) => Cow::Borrowed(value),
        None => Cow::Owned(item.read(&work.needs.to_write)?),
    };
    let scope = Scope::of_item(&value);
    out.write(plan, &scope, Some(&|out| item.write_json(out)), budget, || at(u64::MAX))?;
    Ok(())
}

/// Writes the rows of an item in a query with further sources, as [`rows_of_item`] does.
pub(super) fn joined_rows<I: Item>(
    work: &Work,
    out: &mut Output<I::Whole>,
    item: &I,
    done: u64,
    budget: &Budget,
    at: impl Fn(u64) -> At,
) -> Result<Option<u64>, I::Error> {
    let value = item.read(&work.needs.to_write)?;
    let text = |out: &mut Vec<u8>| item.write_json(out);
    let mut row = 0;
    let mut rest = None;
    work.plan.select().for_each_row(&Scope::of_item(&value), budget, &mut |scope| {
        if row >= done {
            if out.is_full() {
                rest = Some(row);
                return Ok::<_, EvalError>(Flow::Enough);
            }
            out.write(&work.plan, scope, Some(&text), budget, || at(row + 1))?;
        }
        row += 1;
        Ok(if out.is_satisfied() { Flow::Enough } else { Flow::More })
    })?;
    Ok(rest)
}
