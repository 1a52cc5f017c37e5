//! Groups and distinct rows in the order of their keys. Only as many are kept as the page needs, so
//! memory is limited whatever the number of groups; the others are left to later pages.

use std::collections::BTreeMap;

use model::{Value, json};

use crate::algebra::Expr;
use crate::eval::{Flow, Scope, is_finite};
use crate::group::{Group, group_key};
use crate::plan::{Grouping, Plan, Projection};
use crate::value_keys::push_equality_key;
use crate::write::WriteItem;
use crate::{Budget, EvalError};

use super::position::Start;
use super::{
    Item, Output, PAGE_MEMORY_BYTES_MAX, PageContext, PageEnd, Position, RowPosition, check_kept,
};

/// The groups or rows of the page so far.
pub(super) struct SortedGroups {
    start: Start,
    entries: BTreeMap<Vec<u8>, (RowOrdinal, Entry)>,
    entries_max: usize,
    bytes: usize,
    has_more: bool,
    reached: Option<RowPosition>,
}

/// Where a group or row was first met: the number of the item, and which of its rows.
pub(super) type RowOrdinal = (u64, u64);

enum Entry {
    Group(Group),
    /// JSON text.
    Row(Vec<u8>),
}

/// Whether a plan's groups or distinct rows can be ordered by the keys that make them distinct.
pub(crate) fn can_order_by_key(plan: &Plan) -> bool {
    let select = plan.select();
    match (select.grouping(), select.is_distinct()) {
        (Some(_), is_distinct) => !is_distinct,
        (None, _) => {
            let is_in_row = |expr: &Expr| match select.projection() {
                Projection::Value(value) => value == expr,
                Projection::Fields(fields) => fields.iter().any(|(_, field)| field == expr),
            };
            plan.clauses().order.iter().all(|key| is_in_row(&key.expr))
        }
    }
}

impl SortedGroups {
    pub(super) fn new(position: Position, rows_ahead: usize) -> Self {
        Self {
            start: Start::of(position),
            entries: BTreeMap::new(),
            entries_max: rows_ahead,
            bytes: 0,
            has_more: false,
            reached: None,
        }
    }

    pub(super) fn start(&self) -> &Start {
        &self.start
    }

    pub(super) fn look_up<I: Item>(
        &mut self,
        context: &PageContext,
        item: &I,
    ) -> Result<bool, I::Error> {
        let mut is_found = false;
        let value = item.read(&context.required.to_order)?;
        for_each_key(context, (&value, None), &mut |key, _, _| {
            is_found |= self.start.look_up(&key);
            Ok(())
        })?;
        Ok(is_found)
    }

    pub(super) fn take<I: Item>(
        &mut self,
        context: &PageContext,
        item: &I,
    ) -> Result<(), I::Error> {
        let value = item.read(&context.required.to_order)?;
        let text = |out: &mut Vec<u8>| item.write_json(out);
        Ok(self.take_rows(context, item.number(), (&value, Some(&text)))?)
    }

    pub(super) fn take_value(
        &mut self,
        context: &PageContext,
        item: &Value,
    ) -> Result<(), EvalError> {
        self.take_rows(context, 0, (item, None))
    }

    fn take_rows(
        &mut self,
        context: &PageContext,
        number: u64,
        item: (&Value, Option<&WriteItem<'_>>),
    ) -> Result<(), EvalError> {
        let grouping = context.plan.select().grouping();
        let mut row = 0;
        for_each_key(context, item, &mut |key, content, budget| {
            let ordinal = (number, row);
            row += 1;
            self.add(grouping, ordinal, key, content, budget)
        })
    }

    /// Adds totals for a query without keys.
    pub(super) fn take_totals(&mut self, context: &PageContext, totals: &[u64]) {
        if let Some(group) = self.only_group(context) {
            group.add_totals(totals);
        }
    }

    /// Adds `rows` rows of a query without keys, where [all rows are the
    /// same](Grouping::is_of_constants).
    pub(super) fn take_constants(
        &mut self,
        context: &PageContext,
        rows: u64,
    ) -> Result<(), EvalError> {
        let budget = context.budget();
        match (context.plan.select().grouping(), self.only_group(context)) {
            (Some(grouping), Some(group)) if rows > 0 => {
                group.add_constants(grouping, rows, &budget)
            }
            _ => Ok(()),
        }
    }

    /// The group of a query without keys, unless an earlier page has returned it.
    fn only_group(&mut self, context: &PageContext) -> Option<&mut Group> {
        let grouping = context.plan.select().grouping()?;
        self.start.rows_done(&[], 0)?;
        let new = || ((0, 0), Entry::Group(Group::new(grouping, Vec::new())));
        match self.entries.entry(Vec::new()).or_insert_with(new) {
            (_, Entry::Group(group)) => Some(group),
            (_, Entry::Row(_)) => None,
        }
    }

    fn add(
        &mut self,
        grouping: Option<&Grouping>,
        ordinal: RowOrdinal,
        key: Vec<u8>,
        content: KeyedRow<'_>,
        budget: &Budget,
    ) -> Result<(), EvalError> {
        if self.start.rows_done(&key, 0).is_none() {
            return Ok(());
        }
        let is_beyond = || self.entries.last_key_value().is_some_and(|(last, _)| key > *last);
        if self.is_complete() && is_beyond() {
            self.has_more = true;
            return Ok(());
        }
        let known = self.entries.get_mut(&key).map(|(first, entry)| {
            *first = ordinal.min(*first);
            entry
        });
        match (known, content, grouping) {
            (Some(Entry::Group(group)), KeyedRow::Group { row, .. }, Some(grouping)) => {
                let before = group.bytes();
                group.add(grouping, row, budget)?;
                self.bytes += group.bytes() - before;
            }
            (None, KeyedRow::Group { keys, row }, Some(grouping)) => {
                let mut group = Group::new(grouping, keys);
                group.add(grouping, row, budget)?;
                self.bytes += group.bytes() + key.len();
                self.entries.insert(key, (ordinal, Entry::Group(group)));
            }
            (None, KeyedRow::Row(value, text), _) => {
                let row = text_of(&value, text);
                self.bytes += row.len() + key.len();
                self.entries.insert(key, (ordinal, Entry::Row(row)));
            }
            _ => {}
        }
        self.shrink()
    }

    fn is_complete(&self) -> bool {
        self.entries.len() >= self.entries_max || self.bytes >= PAGE_MEMORY_BYTES_MAX
    }

    /// Leaves entries to later pages until the rest fits this one.
    fn shrink(&mut self) -> Result<(), EvalError> {
        let is_over = |sorted_groups: &Self| {
            sorted_groups.entries.len() > sorted_groups.entries_max
                || sorted_groups.bytes > PAGE_MEMORY_BYTES_MAX
        };
        while self.entries.len() > 1 && is_over(self) {
            if let Some((key, (_, entry))) = self.entries.pop_last() {
                self.bytes -= key.len() + entry.bytes();
                self.has_more = true;
            }
        }
        check_kept(self.bytes)
    }

    pub(super) fn finish<W>(
        &mut self,
        context: &PageContext,
        out: &mut Output<W>,
    ) -> Result<PageEnd, EvalError> {
        let select = context.plan.select();
        if let Some(grouping) = select.grouping()
            && grouping.keys.is_empty()
            && self.entries.is_empty()
            && self.start.rows_done(&[], 0).is_some()
        {
            let group = Entry::Group(Group::new(grouping, Vec::new()));
            self.entries.insert(Vec::new(), ((0, 0), group));
        }
        // A result that is complete on its first page comes in the order in which it is first met.
        let clauses = context.plan.clauses();
        let takes_some = clauses.top.is_some() || clauses.window.is_some();
        let is_all = !self.start.is_set() && !self.has_more && !takes_some;
        out.note_places(is_all && clauses.order.is_empty());
        for (key, (ordinal, entry)) in std::mem::take(&mut self.entries) {
            out.set_place(ordinal);
            if out.is_satisfied() {
                return Ok(PageEnd::Satisfied);
            }
            if out.is_full() {
                return Ok(PageEnd::Full);
            }
            let at = RowPosition::Key { key, cut: None, tie: 0, rows: u64::MAX };
            match entry {
                Entry::Group(group) if out.keeps_partial_results() => {
                    out.push_group(group, at.clone())
                }
                Entry::Group(group) => write_group(&context.plan, out, group, &at)?,
                Entry::Row(row) => {
                    if !out.skips() {
                        out.push_json(row, || at.clone());
                    }
                }
            }
            self.reached = Some(at);
        }
        out.sort_by_place();
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

/// Writes the row of a group that is complete.
pub(crate) fn write_group<W>(
    plan: &Plan,
    out: &mut Output<W>,
    group: Group,
    at: &RowPosition,
) -> Result<(), EvalError> {
    let values = group.into_values();
    let scope = Scope::EMPTY.with_group(plan.select().outer(), &values);
    out.write(plan, &scope, None, &Budget::per_item(), || at.clone())
}

impl Entry {
    fn bytes(&self) -> usize {
        match self {
            Entry::Group(group) => group.bytes(),
            Entry::Row(row) => row.len(),
        }
    }
}

/// The row or group of a key.
pub(super) enum KeyedRow<'r> {
    /// A row of the group with these keys.
    Group { keys: Vec<Option<Value>>, row: &'r Scope<'r> },
    /// A row, and its text if that is known.
    Row(Value, Option<&'r WriteItem<'r>>),
}

/// The text of a row.
pub(super) fn text_of(row: &Value, text: Option<&WriteItem<'_>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    match text {
        Some(text) => text(&mut out),
        None => json::write(row, &mut out),
    }
    out
}

pub(super) type VisitKey<'v> =
    dyn FnMut(Vec<u8>, KeyedRow<'_>, &Budget) -> Result<(), EvalError> + 'v;

/// Calls `visit` with the key of each row of an item: its sort keys, then its equality key or that
/// of its group. With the text of the item, rows that are the item have that text.
pub(super) fn for_each_key(
    context: &PageContext,
    (item, text): (&Value, Option<&WriteItem<'_>>),
    visit: &mut VisitKey<'_>,
) -> Result<(), EvalError> {
    let select = context.plan.select();
    let text = text.filter(|_| context.plan.selects_distinct_items());
    let budget = context.budget();
    select.for_each_row(&Scope::of_item(item), &budget, &mut |row| {
        match select.grouping() {
            Some(grouping) => {
                let keys = grouping.keys_of(row, &budget)?;
                let mut key = Vec::new();
                context.sort_key(&row.with_group(select.outer(), &keys), &budget, &mut key)?;
                key.extend_from_slice(&group_key(&keys));
                visit(key, KeyedRow::Group { keys, row }, &budget)?;
            }
            None => {
                if let Some(value) = select.projection().eval(row, &budget)? {
                    let key = row_key(context, row, &value, &budget)?;
                    visit(key, KeyedRow::Row(value, text), &budget)?;
                }
            }
        }
        Ok(Flow::More)
    })?;
    Ok(())
}

fn row_key(
    context: &PageContext,
    row: &Scope<'_>,
    value: &Value,
    budget: &Budget,
) -> Result<Vec<u8>, EvalError> {
    if !is_finite(value) {
        return Err(EvalError::NonFiniteNumber);
    }
    budget.spend_copy_of(value)?;
    let mut key = Vec::new();
    context.sort_key(row, budget, &mut key)?;
    push_equality_key(Some(value), &mut key);
    Ok(key)
}
