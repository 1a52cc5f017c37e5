//! Groups and distinct rows that are ordered by other values than their own: all of them are kept
//! until the last item was read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use model::{json, limits};

use crate::eval::{Flow, Scope, is_finite};
use crate::group::{Group, group_key};
use crate::plan::Plan;
use crate::value_keys::equality_key_of;
use crate::write::WriteItem;
use crate::{Budget, EvalError};

use super::position::Start;
use super::sorted_groups::text_of;
use super::{
    Item, Output, PageContext, PageEnd, PartialResult, Position, Row, RowOrGroup, RowPosition,
    check_kept,
};

/// The groups and rows so far.
pub(super) struct Materialized {
    start: Start,
    /// With where each was first met: the number of the item, and which of its rows.
    groups: BTreeMap<Vec<u8>, ((u64, u64), Group)>,
    /// Keyed by what makes a row distinct.
    rows: BTreeMap<Vec<u8>, FirstRow>,
    bytes: usize,
    reached: Option<RowPosition>,
}

/// Groups and rows of several executions over different items, merged.
pub(crate) struct MaterializedMerge {
    plan: Plan,
    materialized: Materialized,
}

impl MaterializedMerge {
    pub(crate) fn new(plan: &Plan, position: Position) -> Self {
        Self { plan: plan.clone(), materialized: Materialized::new(position) }
    }

    /// Adds a partial result of an execution.
    pub(crate) fn add_partial_result<W>(
        &mut self,
        partial: PartialResult<W>,
    ) -> Result<(), EvalError> {
        self.materialized.add_partial_result(partial)
    }

    /// Makes rows of all groups and rows: how the page ended, and its position.
    pub(crate) fn finish<W>(
        &mut self,
        out: &mut Output<W>,
    ) -> Result<(PageEnd, RowPosition), EvalError> {
        let end = self.materialized.finish(&PageContext::of(self.plan.clone()), out)?;
        Ok((end, self.materialized.position()))
    }
}

/// A distinct row, at its first occurrence.
struct FirstRow {
    key: Vec<u8>,
    tie: u64,
    /// JSON text.
    row: Vec<u8>,
}

impl Materialized {
    pub(super) fn new(position: Position) -> Self {
        Self {
            start: Start::of(position),
            groups: BTreeMap::new(),
            rows: BTreeMap::new(),
            bytes: 0,
            reached: None,
        }
    }

    pub(super) fn take<I: Item>(
        &mut self,
        context: &PageContext,
        item: &I,
    ) -> Result<(), I::Error> {
        let select = context.plan.select();
        let budget = context.budget();
        let value = item.read(&context.required.to_order)?;
        let text = |out: &mut Vec<u8>| item.write_json(out);
        let text: Option<&WriteItem<'_>> =
            if context.plan.selects_distinct_items() { Some(&text) } else { None };
        let mut ordinal = 0;
        select.for_each_row(&Scope::of_item(&value), &budget, &mut |row| {
            match select.grouping() {
                Some(grouping) => {
                    let keys = grouping.keys_of(row, &budget)?;
                    let group = self.groups.entry(group_key(&keys));
                    let place = (item.number(), ordinal);
                    ordinal += 1;
                    let (first, group) =
                        group.or_insert_with(|| (place, Group::new(grouping, keys)));
                    *first = place.min(*first);
                    let before = group.bytes();
                    group.add(grouping, row, &budget)?;
                    self.bytes += group.bytes() - before + 1;
                    check_kept(self.bytes)?;
                }
                None => {
                    let tie = context.plan.tie_of(item.number());
                    self.add_row(context, row, (tie, text), &budget)?;
                }
            }
            Ok(Flow::More)
        })?;
        Ok(())
    }

    fn add_row(
        &mut self,
        context: &PageContext,
        scope: &Scope<'_>,
        (tie, text): (u64, Option<&WriteItem<'_>>),
        budget: &Budget,
    ) -> Result<(), EvalError> {
        let Some(value) = context.projection().eval(scope, budget)? else { return Ok(()) };
        if !is_finite(&value) {
            return Err(EvalError::NonFiniteNumber);
        }
        budget.spend_copy_of(&value)?;
        let mut key = Vec::new();
        context.sort_key(scope, budget, &mut key)?;
        let equality_key = equality_key_of(Some(&value));
        let is_known = match self.rows.get_mut(&equality_key) {
            Some(first) => {
                if (&key, tie) < (&first.key, first.tie) {
                    first.key = key.clone();
                    first.tie = tie;
                }
                true
            }
            None => false,
        };
        if !is_known {
            let row = text_of(&value, text);
            self.bytes += equality_key.len() + key.len() + row.len();
            self.rows.insert(equality_key, FirstRow { key, tie, row });
        }
        check_kept(self.bytes)
    }

    /// Merges a row that is a first occurrence in another execution.
    fn merge_row(&mut self, text: Vec<u8>, key: Vec<u8>, tie: u64) -> Result<(), EvalError> {
        let Ok(parsed) = json::parse(&text, limits::JSON_DEPTH_MAX) else { return Ok(()) };
        let equality_key = equality_key_of(Some(&parsed.value));
        match self.rows.get_mut(&equality_key) {
            Some(first) if (&key, tie) < (&first.key, first.tie) => {
                first.key = key;
                first.tie = tie;
            }
            Some(_) => {}
            None => {
                self.bytes += equality_key.len() + key.len() + text.len();
                self.rows.insert(equality_key, FirstRow { key, tie, row: text });
            }
        }
        check_kept(self.bytes)
    }

    /// Adds a partial result of another execution over other items.
    fn add_partial_result<W>(&mut self, partial: PartialResult<W>) -> Result<(), EvalError> {
        let (key, tie) = match partial.at {
            RowPosition::Key { key, tie, .. } => (key, tie),
            RowPosition::Start | RowPosition::Item { .. } | RowPosition::Number { .. } => {
                (Vec::new(), 0)
            }
        };
        match partial.content {
            // The key of a group without an order is its equality key.
            RowOrGroup::Group(group) => {
                self.bytes += group.bytes();
                match self.groups.entry(key) {
                    Entry::Occupied(known) => known.into_mut().1.merge(group),
                    Entry::Vacant(vacant) => {
                        vacant.insert(((0, 0), group));
                    }
                }
                check_kept(self.bytes)
            }
            RowOrGroup::Row(Row::Json(text)) => self.merge_row(text, key, tie),
            // Rows of these queries are never whole items.
            RowOrGroup::Row(Row::WholeItem(_)) => Ok(()),
        }
    }

    pub(super) fn finish<W>(
        &mut self,
        context: &PageContext,
        out: &mut Output<W>,
    ) -> Result<PageEnd, EvalError> {
        let select = context.plan.select();
        if let Some(grouping) = select.grouping()
            && grouping.keys.is_empty()
            && self.groups.is_empty()
        {
            self.groups.insert(Vec::new(), ((0, 0), Group::new(grouping, Vec::new())));
        }
        let mut groups: Vec<_> = std::mem::take(&mut self.groups).into_values().collect();
        groups.sort_by_key(|(first, _)| *first);
        for (tie, (_, group)) in (0..).zip(groups) {
            let values = group.into_values();
            let scope = Scope::EMPTY.with_group(select.outer(), &values);
            self.add_row(context, &scope, (tie, None), &context.budget())?;
        }
        let mut rows: Vec<(Vec<u8>, FirstRow)> =
            std::mem::take(&mut self.rows).into_iter().collect();
        // Sort keys of groups are known only now, so those of other rows are looked up here too.
        if self.start.is_cut() {
            rows.iter().any(|(_, row)| self.start.look_up(&row.key));
        }
        rows.sort_by(|(a, x), (b, y)| (&x.key, x.tie, a).cmp(&(&y.key, y.tie, b)));
        // Rows of one item share key and tie, and differ by their position among those rows.
        let mut ordinal = 0;
        let mut before: Option<(Vec<u8>, u64)> = None;
        for (_, FirstRow { key, tie, row }) in rows {
            let is_same = before.as_ref().is_some_and(|(k, t)| *k == key && *t == tie);
            ordinal = if is_same { ordinal + 1 } else { 0 };
            if self.start.rows_done(&key, tie).is_none_or(|done| ordinal < done) {
                before = Some((key, tie));
                continue;
            }
            if out.is_satisfied() {
                return Ok(PageEnd::Satisfied);
            }
            if out.is_full() {
                return Ok(PageEnd::Full);
            }
            let at = RowPosition::Key { key: key.clone(), cut: None, tie, rows: ordinal + 1 };
            if !out.skips() {
                out.push_json(row, || at.clone());
            }
            self.reached = Some(at);
            before = Some((key, tie));
        }
        Ok(PageEnd::Exhausted)
    }

    pub(super) fn position(&self) -> RowPosition {
        self.reached.clone().unwrap_or_else(|| self.start.to_at())
    }
}
