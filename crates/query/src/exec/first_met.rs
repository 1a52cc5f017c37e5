//! Groups and distinct rows in the order in which they are first met, from items in the order of
//! their numbers. A page has the first ones behind its position. What earlier pages returned is
//! known by its keys, which each page collects again.
//!
//! Where a group is first met is decided by all items of the range in which the walk is, also by
//! those outside the scope of this page: a client continues the walk in parts of that range, and no
//! part may return a group again that was returned for all of it.

use std::collections::BTreeMap;

use crate::group::Group;
use crate::plan::Grouping;
use crate::{Budget, EvalError};

use super::sorted_groups::{KeyedRow, RowOrdinal, for_each_key, text_of, write_group};
use super::{
    Item, Output, PAGE_MEMORY_BYTES_MAX, PageContext, PageEnd, Position, RowPosition, check_kept,
};

/// The groups or rows of the page so far.
pub(super) struct FirstMet {
    /// The first that earlier pages have not seen, in the range in which the page begins.
    start: Option<RowOrdinal>,
    at: RowPosition,
    /// The number of the range that items are taken from; `None` before the first.
    range: Option<usize>,
    /// Whether earlier pages have begun it.
    is_begun: bool,
    marks: Option<Marks>,
    known: BTreeMap<Vec<u8>, Known>,
    entries: Vec<Entry>,
    entries_max: usize,
    bytes: usize,
    has_more: bool,
    /// Whether entries do not come in the order of their places.
    keeps_all: bool,
    reached: Option<(usize, RowPosition)>,
}

/// Which rows of an item belong to groups that earlier pages have returned, where all that matters
/// of an item is that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// All of them.
    All,
    /// Those before the position of the page. The others decide where groups are first met: the
    /// items are in the range in which the page begins, but outside its scope.
    Elsewhere,
}

enum Known {
    /// An earlier page has returned it.
    Returned,
    /// It is first met outside the scope.
    Elsewhere(RowOrdinal),
    /// It is this entry of the page.
    Entry(usize),
}

struct Entry {
    range: usize,
    ordinal: RowOrdinal,
    content: Content,
}

enum Content {
    Group(Group),
    /// JSON text.
    Row(Vec<u8>),
}

impl FirstMet {
    pub(super) fn new(position: Position, rows_ahead: usize) -> Self {
        let start = match position.at {
            RowPosition::Number { number, rows } => Some((number, rows)),
            RowPosition::Start | RowPosition::Item { .. } | RowPosition::Key { .. } => None,
        };
        Self {
            start,
            at: position.at,
            range: None,
            is_begun: true,
            marks: None,
            known: BTreeMap::new(),
            entries: Vec::new(),
            entries_max: rows_ahead,
            bytes: 0,
            has_more: false,
            keeps_all: false,
            reached: None,
        }
    }

    /// Begins the items of the next range.
    pub(super) fn begin_range(&mut self, is_begun: bool) {
        self.is_begun = is_begun;
        self.range = Some(self.range.map_or(0, |range| range + 1));
        self.marks = None;
    }

    /// Begins items of which only the groups matter that earlier pages have returned.
    pub(super) fn begin_marks(&mut self, marks: Marks) {
        self.marks = Some(marks);
    }

    pub(super) fn take<I: Item>(
        &mut self,
        context: &PageContext,
        item: &I,
    ) -> Result<(), I::Error> {
        let number = item.number();
        let grouping = context.plan.select().grouping();
        let mut row = 0;
        let value = item.read(&context.required.to_order)?;
        let text = |out: &mut Vec<u8>| item.write_json(out);
        for_each_key(context, (&value, Some(&text)), &mut |key, content, budget| {
            let ordinal = (number, row);
            row += 1;
            self.add(grouping, ordinal, key, content, budget)
        })?;
        Ok(())
    }

    fn add(
        &mut self,
        grouping: Option<&Grouping>,
        ordinal: RowOrdinal,
        key: Vec<u8>,
        content: KeyedRow<'_>,
        budget: &Budget,
    ) -> Result<(), EvalError> {
        let range = self.range.unwrap_or(0);
        let is_before_start = self.start.is_some_and(|start| ordinal < start);
        let is_returned = match self.marks {
            Some(Marks::All) => true,
            Some(Marks::Elsewhere) if !is_before_start => return self.note_elsewhere(ordinal, key),
            Some(Marks::Elsewhere) => true,
            None => self.is_begun && is_before_start,
        };
        if is_returned {
            self.bytes += key.len();
            self.known.insert(key, Known::Returned);
            return check_kept(self.bytes);
        }
        let elsewhere = match self.known.get(&key) {
            Some(Known::Elsewhere(elsewhere)) => Some(*elsewhere),
            Some(Known::Returned | Known::Entry(_)) | None => None,
        };
        let known = self.known.get(&key).filter(|_| elsewhere.is_none());
        let ordinal = match elsewhere {
            Some(elsewhere) if self.is_begun => ordinal.min(elsewhere),
            Some(_) | None => ordinal,
        };
        match (known, content, grouping) {
            (Some(Known::Returned | Known::Elsewhere(_)), ..) => {}
            (Some(Known::Entry(at)), KeyedRow::Group { row, .. }, Some(grouping)) => {
                if let Some(Entry { content: Content::Group(group), .. }) =
                    self.entries.get_mut(*at)
                {
                    let before = group.bytes();
                    group.add(grouping, row, budget)?;
                    self.bytes += group.bytes() - before;
                }
            }
            (Some(Known::Entry(_)), ..) => {}
            (None, ..) if self.is_complete() => self.has_more = true,
            (None, KeyedRow::Group { keys, row }, Some(grouping)) => {
                let mut group = Group::new(grouping, keys);
                group.add(grouping, row, budget)?;
                self.bytes += group.bytes();
                self.insert(range, ordinal, key, Content::Group(group));
            }
            (None, KeyedRow::Row(value, text), _) => {
                let row = text_of(&value, text);
                self.bytes += row.len();
                self.insert(range, ordinal, key, Content::Row(row));
            }
            (None, KeyedRow::Group { .. }, None) => {}
        }
        check_kept(self.bytes)
    }

    fn note_elsewhere(&mut self, ordinal: RowOrdinal, key: Vec<u8>) -> Result<(), EvalError> {
        self.keeps_all = true;
        let bytes = key.len();
        match self.known.entry(key).or_insert_with(|| {
            self.bytes += bytes;
            Known::Elsewhere(ordinal)
        }) {
            Known::Elsewhere(first) => *first = ordinal.min(*first),
            Known::Returned | Known::Entry(_) => {}
        }
        check_kept(self.bytes)
    }

    fn insert(&mut self, range: usize, ordinal: RowOrdinal, key: Vec<u8>, content: Content) {
        self.bytes += key.len();
        self.known.insert(key, Known::Entry(self.entries.len()));
        self.entries.push(Entry { range, ordinal, content });
    }

    fn is_complete(&self) -> bool {
        let is_large = !self.entries.is_empty() && self.bytes >= PAGE_MEMORY_BYTES_MAX;
        !self.keeps_all && (self.entries.len() >= self.entries_max || is_large)
    }

    pub(super) fn finish<W>(
        &mut self,
        context: &PageContext,
        out: &mut Output<W>,
    ) -> Result<PageEnd, EvalError> {
        let mut entries = std::mem::take(&mut self.entries);
        if self.keeps_all {
            entries.sort_by_key(|entry| (entry.range, entry.ordinal));
        }
        for Entry { range, ordinal: (number, row), content } in entries {
            if out.is_satisfied() {
                return Ok(PageEnd::Satisfied);
            }
            if out.is_full() {
                return Ok(PageEnd::Full);
            }
            let at = RowPosition::Number { number, rows: row + 1 };
            match content {
                Content::Group(group) => write_group(&context.plan, out, group, &at)?,
                Content::Row(row) => {
                    if !out.skips() {
                        out.push_json(row, || at.clone());
                    }
                }
            }
            self.reached = Some((range, at));
        }
        Ok(match self.has_more {
            _ if out.is_satisfied() => PageEnd::Satisfied,
            true => PageEnd::Full,
            false => PageEnd::Exhausted,
        })
    }

    pub(super) fn position(&self) -> RowPosition {
        self.reached.as_ref().map_or_else(|| self.at.clone(), |(_, at)| at.clone())
    }

    /// The range of the position.
    pub(super) fn range_reached(&self) -> usize {
        self.reached.as_ref().map_or(0, |(range, _)| *range)
    }
}
