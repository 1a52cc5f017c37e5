//! Puts the rows of several parts of a container together, as if it were one.
//!
//! Each part runs the [plan for parts](Gather::part_plan) by itself and hands in pages of
//! [pieces](Piece). What becomes of them depends on the query:
//!
//! | | order | memory | resumes |
//! |---|---|---|---|
//! | rows without an order | part after part | the page | after an item |
//! | ORDER BY | by sort key, equal ones part after part | a page of each part | after a sort key, a part and an item |
//! | groups, distinct rows | by key, which all parts have them in | a page of each part | after a key |
//! | distinct rows in another order | by sort key | all of them | after a sort key |
//!
//! Client libraries put the rows of ORDER BY together in the same order. Which part answers first
//! makes no difference: a row is taken only once it is known that no part has an earlier one.

use std::collections::VecDeque;

use crate::EvalError;
use crate::exec::{
    At, Content, End, Group, Limits, Output, Piece, Position, Row, WHOLE_MEMORY_BYTES_MAX,
    WholeMerge, outer_page, table_fits, write_group,
};
use crate::select::{Clauses, Input, Plan, Select, Window};

/// Where a part lies, seen from the part that a page begins in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Its rows with equal sort keys come earlier.
    Before,
    /// It is that part, or was a part of it.
    Within,
    /// Its rows with equal sort keys come later.
    Behind,
}

/// How the rows of parts are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// Part after part.
    Concatenated,
    /// By sort key, equal ones part after part.
    Merged,
    /// By key, of which parts have their rows in order; equal ones become one.
    Keyed,
    /// By sort key, once all rows of all parts are known.
    Whole,
    /// As a further query over the rows that are put together.
    Derived,
}

/// A page under way.
pub struct Gather<W> {
    plan: Plan,
    part_plan: Plan,
    kind: Kind<W>,
    start: Position,
    parts: Vec<Part<W>>,
    out: Output<W>,
    reached: Option<(usize, At)>,
    end: Option<End>,
}

enum Kind<W> {
    /// Part after part.
    Concatenated,
    /// By sort key, then part.
    Merged,
    /// By key; what has the same key becomes one.
    Keyed,
    /// By sort key, once all parts are known to the end.
    Whole(Box<WholeMerge>),
    /// What another query makes of the rows of this one.
    Derived(Box<Gather<W>>),
}

/// What a part has handed in and was not taken yet.
struct Part<W> {
    pieces: VecDeque<Piece<W>>,
    /// Where it goes on; `None` if there is no more.
    next: Option<At>,
    /// Whether it has handed in anything.
    is_begun: bool,
}

impl<W> Part<W> {
    fn is_exhausted(&self) -> bool {
        self.pieces.is_empty() && self.next.is_none()
    }

    fn is_hungry(&self) -> bool {
        self.pieces.is_empty() && self.next.is_some()
    }
}

impl<W> Gather<W> {
    /// A page of a plan that reads items, from `position` on. `sides` says of each part, in the
    /// order of the hash line, where it lies.
    pub fn new(plan: &Plan, position: Position, limits: Limits, sides: &[Side]) -> Self {
        let (kind, part_plan) = Self::divide(plan, &position, sides);
        let start_of = |side: &Side| match kind {
            Kind::Concatenated | Kind::Keyed => position.at.clone(),
            Kind::Merged => sided(&position.at, *side),
            Kind::Whole(_) | Kind::Derived(_) => At::Start,
        };
        let part = |side| {
            let next = Some(start_of(side));
            Part { pieces: VecDeque::new(), next, is_begun: false }
        };
        let parts = sides.iter().map(part).collect();
        let out = Output::new(plan, &position, limits);
        let end = out.is_satisfied().then_some(End::Satisfied);
        let plan = plan.clone();
        Self { plan, part_plan, kind, start: position, parts, out, reached: None, end }
    }

    /// How a query is divided, and what each part runs.
    fn divide(plan: &Plan, position: &Position, sides: &[Side]) -> (Kind<W>, Plan) {
        let clauses = plan.clauses();
        let select = &clauses.select;
        if let Input::Rows(inner) = &clauses.input {
            let limits = Limits { rows_max: usize::MAX, bytes_max: WHOLE_MEMORY_BYTES_MAX };
            let inner = Self::new(inner, Position::default(), limits, sides);
            let part_plan = inner.part_plan.clone();
            return (Kind::Derived(Box::new(inner)), part_plan);
        }
        if select.is_row_by_row() {
            let kind = if clauses.order.is_empty() { Kind::Concatenated } else { Kind::Merged };
            return (kind, unskipped(plan));
        }
        let uncounted = Clauses { top: None, window: None, ..clauses.clone() };
        let whole = || Kind::Whole(Box::new(WholeMerge::new(plan, position.clone())));
        match (table_fits(plan), select.grouping()) {
            // Every distinct row counts, but not every group becomes a row.
            (true, None) => (Kind::Keyed, unskipped(plan)),
            (true, Some(_)) => (Kind::Keyed, Plan::new(uncounted)),
            (false, None) => (whole(), Plan::new(uncounted)),
            (false, Some(grouping)) => {
                let groups = Select::new(
                    select.outer(),
                    select.bindings().to_vec(),
                    select.filter().cloned(),
                    select.projection().clone(),
                );
                let select = groups.grouped(Some(grouping.clone()));
                let part_plan = Plan::new(Clauses { select, order: Vec::new(), ..uncounted });
                (whole(), part_plan)
            }
        }
    }

    /// How rows are put together.
    pub fn merging(&self) -> Merging {
        match self.kind {
            Kind::Concatenated => Merging::Concatenated,
            Kind::Merged => Merging::Merged,
            Kind::Keyed => Merging::Keyed,
            Kind::Whole(_) => Merging::Whole,
            Kind::Derived(_) => Merging::Derived,
        }
    }

    /// What each part runs.
    pub fn part_plan(&self) -> &Plan {
        &self.part_plan
    }

    /// Whether parts are visited one after the other, as far as the page needs.
    pub fn is_concatenation(&self) -> bool {
        matches!(self.kind, Kind::Concatenated)
    }

    /// How many rows of a part are of use at most, if that is known.
    pub fn rows_wanted(&self) -> usize {
        match &self.kind {
            Kind::Concatenated | Kind::Merged | Kind::Keyed => self.out.rows_ahead(),
            Kind::Whole(_) | Kind::Derived(_) => usize::MAX,
        }
    }

    /// The parts whose next page is needed before there can be more rows, and where it begins.
    /// Parts that are visited one after the other are asked ahead, `ahead` of them at a time.
    pub fn wanted(&self, ahead: usize) -> Vec<(usize, At)> {
        if self.end.is_some() {
            return Vec::new();
        }
        if let Kind::Derived(inner) = &self.kind {
            return inner.wanted(ahead);
        }
        let hungry = self.parts.iter().enumerate().filter(|(_, part)| part.is_hungry());
        let wanted = hungry.filter_map(|(at, part)| Some((at, part.next.clone()?)));
        match self.kind {
            Kind::Concatenated => wanted.take(ahead.max(1)).collect(),
            Kind::Merged | Kind::Keyed | Kind::Whole(_) | Kind::Derived(_) => wanted.collect(),
        }
    }

    /// Takes a page of a part. `next` is where the part goes on, if it does.
    pub fn feed(&mut self, part: usize, pieces: Vec<Piece<W>>, next: Option<At>) {
        if let Kind::Derived(inner) = &mut self.kind {
            return inner.feed(part, pieces, next);
        }
        if let Some(part) = self.parts.get_mut(part) {
            part.pieces.extend(pieces);
            part.next = next;
            part.is_begun = true;
        }
    }

    /// Makes rows of what there is. True when the page is complete.
    pub fn advance(&mut self) -> Result<bool, EvalError> {
        while self.end.is_none() {
            let is_stuck = match self.kind {
                Kind::Concatenated => self.take_first()?,
                Kind::Merged => self.take_least()?,
                Kind::Keyed => self.take_keyed()?,
                Kind::Whole(_) => self.take_all()?,
                Kind::Derived(_) => self.take_derived()?,
            };
            if is_stuck {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How the page ended, as far as it has.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Where the next page begins, and the part that is in.
    pub fn position(&self) -> (Position, Option<usize>) {
        match &self.reached {
            Some((part, at)) => (self.out.position(at.clone()), Some(*part)),
            None => (self.out.position(self.start.at.clone()), None),
        }
    }

    /// Ends a page of parts that are visited one after the other before its time, if it has come
    /// further than where it began. `end_of` is the place beyond all items of a part.
    pub fn pause(&mut self, end_of: impl FnOnce(usize) -> Vec<u8>) -> bool {
        let Kind::Concatenated = self.kind else { return false };
        let Some(first) = self.parts.iter().position(|part| !part.is_exhausted()) else {
            return false;
        };
        let is_begun = self.reach(first);
        if !is_begun && let Some(before) = first.checked_sub(1) {
            let at = At::Item { place: end_of(before), rows: u64::MAX };
            self.reached = Some((before, at));
        }
        self.end = (is_begun || first > 0).then_some(End::Full);
        self.end.is_some()
    }

    /// Goes on from where a part is, which may be further than its last row; false if it has not
    /// begun.
    fn reach(&mut self, part: usize) -> bool {
        let begun = self.parts.get(part).filter(|part| part.is_begun);
        let next = begun.and_then(|part| part.next.clone());
        let has_begun = next.is_some();
        self.reached = next.map(|at| (part, at)).or_else(|| self.reached.take());
        has_begun
    }

    /// The rows.
    pub fn into_rows(self) -> Vec<Row<W>> {
        self.out.into_rows()
    }

    /// Whether the page takes no more, which is noted then.
    fn is_over(&mut self) -> bool {
        self.end = match (self.out.is_satisfied(), self.out.is_full()) {
            (true, _) => Some(End::Satisfied),
            (false, true) => Some(End::Full),
            (false, false) => None,
        };
        self.end.is_some()
    }

    /// Takes the next piece of the first part that has one; true if that must come first.
    fn take_first(&mut self) -> Result<bool, EvalError> {
        let Some(first) = self.parts.iter().position(|part| !part.is_exhausted()) else {
            self.end = Some(End::Exhausted);
            return Ok(false);
        };
        if self.parts.get(first).is_some_and(Part::is_hungry) {
            if self.is_over() {
                self.reach(first);
                return Ok(false);
            }
            return Ok(true);
        }
        self.take_row(first);
        Ok(false)
    }

    /// Takes a row of a part, unless the page is over.
    fn take_row(&mut self, part: usize) {
        if self.is_over() {
            return;
        }
        let Some(piece) = self.parts.get_mut(part).and_then(|part| part.pieces.pop_front()) else {
            return;
        };
        let Piece { at, content, bytes } = piece;
        if let Content::Row(row) = content
            && !self.out.skips()
        {
            self.out.push(row, bytes, || at.clone());
        }
        self.reached = Some((part, at));
    }

    /// The part with the least key, the first of several; `None` if a part must be asked first.
    fn least(&self) -> Option<Option<usize>> {
        if self.parts.iter().any(Part::is_hungry) {
            return None;
        }
        let heads = self.parts.iter().enumerate();
        let heads = heads.filter_map(|(at, part)| Some((key_of(part.pieces.front()?), at)));
        Some(heads.min().map(|(_, at)| at))
    }

    fn take_least(&mut self) -> Result<bool, EvalError> {
        match self.least() {
            None => return Ok(!self.is_over()),
            Some(None) => self.end = Some(End::Exhausted),
            Some(Some(part)) => self.take_row(part),
        }
        Ok(false)
    }

    /// Takes the least key of all parts, and all there is to it.
    fn take_keyed(&mut self) -> Result<bool, EvalError> {
        let first = match self.least() {
            None => return Ok(!self.is_over()),
            Some(None) => {
                self.end = Some(End::Exhausted);
                return Ok(false);
            }
            Some(Some(first)) => first,
        };
        if self.is_over() {
            return Ok(false);
        }
        let Some(piece) = self.parts.get_mut(first).and_then(|part| part.pieces.pop_front()) else {
            return Ok(false);
        };
        let Piece { at, content, bytes } = piece;
        match content {
            Content::Row(row) => {
                self.take_equal(&at);
                if !self.out.skips() {
                    self.out.push(row, bytes, || at.clone());
                }
            }
            Content::Group(mut group) => {
                self.take_equal(&at).into_iter().for_each(|other| group.absorb(other));
                write_group(&self.plan, &mut self.out, group, &at)?;
            }
        }
        self.reached = Some((first, at));
        Ok(false)
    }

    /// Takes the pieces with this key off all parts, and returns those that are groups.
    fn take_equal(&mut self, at: &At) -> Vec<Group> {
        let mut groups = Vec::new();
        for part in &mut self.parts {
            let is_equal = part.pieces.front().is_some_and(|piece| piece.at == *at);
            let Some(piece) = is_equal.then(|| part.pieces.pop_front()).flatten() else { continue };
            match piece.content {
                Content::Group(group) => groups.push(group),
                Content::Row(_) => {}
            }
        }
        groups
    }

    /// Takes everything there is, and makes rows of it once nothing more comes.
    fn take_all(&mut self) -> Result<bool, EvalError> {
        let Kind::Whole(whole) = &mut self.kind else { return Ok(false) };
        for part in &mut self.parts {
            for piece in part.pieces.drain(..) {
                whole.adopt(piece)?;
            }
        }
        if self.parts.iter().any(Part::is_hungry) {
            return Ok(true);
        }
        let (end, at) = whole.finish(&mut self.out)?;
        self.end = Some(end);
        self.reached = Some((0, at));
        Ok(false)
    }

    /// Lets the inner query come to its end, and runs this one over its rows.
    fn take_derived(&mut self) -> Result<bool, EvalError> {
        let Kind::Derived(inner) = &mut self.kind else { return Ok(false) };
        if !inner.advance()? {
            return Ok(true);
        }
        if inner.end == Some(End::Full) {
            return Err(EvalError::MemoryExceeded);
        }
        let rows = inner.out.take_rows();
        let (end, at) = outer_page(&self.plan, rows, &self.start, &mut self.out)?;
        self.end = Some(end);
        self.reached = Some((0, at));
        Ok(false)
    }
}

fn key_of<W>(piece: &Piece<W>) -> &[u8] {
    match &piece.at {
        At::Key { key, .. } => key,
        At::Start | At::Item { .. } => &[],
    }
}

/// Where a part begins, if the page begins at `at` in another one.
fn sided(at: &At, side: Side) -> At {
    match (at, side) {
        (At::Key { key, cut, .. }, Side::Before) => {
            At::Key { key: key.clone(), cut: *cut, number: u64::MAX, rows: u64::MAX }
        }
        (At::Key { key, cut, .. }, Side::Behind) => {
            At::Key { key: key.clone(), cut: *cut, number: 0, rows: 0 }
        }
        (at, Side::Before | Side::Within | Side::Behind) => at.clone(),
    }
}

/// The same plan without skipping: which rows are skipped is known only when all parts are there.
fn unskipped(plan: &Plan) -> Plan {
    let clauses = plan.clauses();
    let window = clauses
        .window
        .map(|window| Window { offset: 0, limit: window.offset.saturating_add(window.limit) });
    let top = clauses.top.map(|top| top.saturating_add(plan.offset().unwrap_or(0)));
    Plan::new(Clauses { window, top, ..clauses.clone() })
}
