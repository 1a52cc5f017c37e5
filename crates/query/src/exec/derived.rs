//! A query over the rows of another query that must be complete first:
//! `SELECT ... FROM (SELECT DISTINCT ...)`.

use model::{Value, json, limits};

use crate::EvalError;
use crate::plan::{Clauses, Input, Plan};

use super::memory::Values;
use super::{
    Execution, Item, ItemOrder, Limits, Output, PageEnd, Position, Row, RowLookup, RowPosition,
};

/// The inner query in progress.
pub(super) struct Derived<W> {
    pub(super) inner: Execution<W>,
    /// The outer query over the rows of the inner query.
    outer: Plan,
    start: Position,
    reached: Option<RowPosition>,
}

impl<W> Derived<W> {
    pub(super) fn new(inner: &Plan, plan: &Plan, start: Position, order: ItemOrder) -> Self {
        let limits = Limits { rows_max: usize::MAX, bytes_max: limits::QUERY_KEPT_BYTES_MAX };
        let inner = Execution::in_order(order, inner.clone(), Position::default(), limits);
        Self { inner, outer: plan.clone(), start, reached: None }
    }

    pub(super) fn finish<S>(
        &mut self,
        out: &mut Output<W>,
        lookup: &mut S,
    ) -> Result<PageEnd, <S::Item as Item>::Error>
    where
        S: RowLookup<Item: Item<WholeItem = W>>,
    {
        if self.inner.finish(lookup)? == PageEnd::Full {
            return Err(EvalError::MemoryExceeded.into());
        }
        let rows = self.inner.out.take_rows();
        let Position { at, floor, .. } = self.start.clone();
        let start = Position { floor, ..out.position(at) };
        let (end, reached) = outer_page(&self.outer, rows, &start, out)?;
        self.reached = Some(reached);
        Ok(end)
    }

    pub(super) fn position(&self) -> RowPosition {
        self.reached.clone().unwrap_or_else(|| self.start.at.clone())
    }
}

/// A page of a plan over the rows of its inner query: how it ended, and its position.
pub(crate) fn outer_page<W>(
    plan: &Plan,
    rows: Vec<Row<W>>,
    start: &Position,
    out: &mut Output<W>,
) -> Result<(PageEnd, RowPosition), EvalError> {
    let plan = Plan::new(Clauses { input: Input::Items, ..plan.clauses().clone() });
    let mut values = Values::new(rows.into_iter().filter_map(value_of).collect());
    let limits = out.limits_left();
    let mut outer = Execution::in_order(ItemOrder::Number, plan, start.clone(), limits);
    let end = values.run(&mut outer, &start.at)?;
    let reached = outer.position(None);
    out.append_counted(&reached, outer.into_rows().into_iter().map(text_of));
    Ok((end, reached.at))
}

/// The rows of an inner query are never whole items: such queries are not row by row.
fn value_of<W>(row: Row<W>) -> Option<Value> {
    match row {
        Row::Json(text) => json::parse(&text, limits::JSON_DEPTH_MAX).ok().map(|p| p.value),
        Row::WholeItem(_) => None,
    }
}

fn text_of(row: Row<Value>) -> Vec<u8> {
    match row {
        Row::Json(text) => text,
        Row::WholeItem(value) => json::to_string(&value).into_bytes(),
    }
}
