//! Runs a plan over items, a page at a time.
//!
//! An [`Execution`] pulls items from one [`Source`] after the other and then finishes the page. How
//! it works depends on what must be known before the first row is:
//!
//! | | rows are known | memory | resumes |
//! |---|---|---|---|
//! | [`stream`] | one by one | the page | after an item |
//! | [`ordered`] | one by one | the page | after a sort key and item |
//! | [`sort`] | when all items were seen | the keys of the page | after a sort key and item |
//! | [`table`] | when all items were seen | the groups or distinct rows of the page | after a key |
//! | [`materialized`] | when all items were seen | all groups or distinct rows | after a sort key |
//! | [`derived`] | when the inner query is done | the rows of the inner query | as the outer does |
//!
//! Those that see all items but keep no more than a page find the rest of the rows anew for each page. Positions
//! name keys and items, never sources, so they hold whatever the items are divided into.

mod derived;
mod materialized;
pub mod memory;
mod ordered;
mod output;
mod position;
mod seek;
mod sort;
mod sorted_groups;
mod stream;

use std::ops::ControlFlow;
use std::rc::Rc;

use model::Value;
use model::json::Pick;

use crate::budget::Watch;
use crate::eval::Scope;
use crate::required_fields::Needs;
use crate::select::{Grouping, Input, Plan, Projection};
use crate::stopwatch::Stopwatch;
use crate::{Budget, EvalError};

use derived::Derived;
pub(crate) use derived::outer_page;
use materialized::Whole;
pub(crate) use materialized::WholeMerge;
use ordered::Ordered;
pub(crate) use output::Output;
use sort::Sort;
use sorted_groups::Table;
pub(crate) use sorted_groups::{fits as table_fits, write_group};
use stream::Stream;

pub use crate::group::Group;
pub use output::Row;
pub use position::{At, CUT_BYTES, Position, ResumeValue};
pub use seek::IndexStart;

/// Most memory that the keys of a page take; with more, the page is shorter.
const PAGE_MEMORY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most memory that a query may take whose rows must all be known; with more, it fails.
pub(crate) const WHOLE_MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// An item as an execution sees it.
pub trait Item {
    /// The item as it is returned when a query selects all of it.
    type Whole;
    /// Why it can't be read.
    type Error: From<EvalError>;

    /// Tells it from all other items of its container; grows in the order of creation.
    fn number(&self) -> u64;
    /// Where it stands among the items of its container.
    fn place(&self) -> &[u8];
    /// Its value, of which only `pick` must be there.
    fn read(&self, pick: &Pick) -> Result<Value, Self::Error>;
    /// As [`Item::read`], perhaps in the memory of a value that was read before.
    fn read_again(&self, pick: &Pick, old: Value) -> Result<Value, Self::Error> {
        drop(old);
        self.read(pick)
    }
    /// Appends all of it as JSON.
    fn write_json(&self, out: &mut Vec<u8>);
    /// Roughly how long its JSON is.
    fn bytes(&self) -> usize;
    /// The item, to be returned.
    fn to_whole(&self) -> Self::Whole;
}

/// What a source has next.
#[derive(Debug)]
pub enum Next<I> {
    /// An item.
    Item(I),
    /// The source wants the page to end. Only for executions that [can pause](Execution::can_pause).
    Pause,
    /// There are no more.
    End,
}

/// Items in the order of their places, those before the position of the page left out; for an
/// [ordered execution](Execution::ordered) in the order of their sort keys.
pub trait Source {
    /// The item as it is returned when a query selects all of it.
    type Whole;
    /// Why the source can't go on.
    type Error: From<EvalError>;
    /// An item, as long as the source stands at it.
    type Item<'s>: Item<Whole = Self::Whole, Error = Self::Error>
    where
        Self: 's;

    /// Goes on to the next item.
    fn next(&mut self) -> Result<Next<Self::Item<'_>>, Self::Error>;

    /// Says that the item shown last lies before the place where the page begins, as all did so
    /// far. A source that pauses now would have the next page begin at the same place.
    fn note_passed_over(&mut self) {}
}

/// Where items that were seen before are found again.
pub trait Shelf {
    /// The item.
    type Item: Item;

    /// The item at a place that a source has shown.
    fn fetch(&mut self, place: &[u8]) -> Result<Option<Self::Item>, <Self::Item as Item>::Error>;
}

/// Why an execution takes no more items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The source has no more.
    Exhausted,
    /// The page is full; there may be more.
    Full,
    /// The query wants no more rows.
    Satisfied,
}

/// A row or a group of some items, to be [merged](crate::gather) with those of others.
#[derive(Clone, Debug)]
pub struct Piece<W> {
    /// Where a page goes on behind it; pieces that have a key come in its order.
    pub at: At,
    /// The row or group.
    pub content: Content<W>,
    /// Roughly what it takes of memory.
    pub bytes: usize,
}

/// What is merged.
#[derive(Clone, Debug)]
pub enum Content<W> {
    /// A row.
    Row(Row<W>),
    /// A group, of which others may have more rows.
    Group(Group),
}

/// How much a page may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most rows.
    pub rows_max: usize,
    /// The page ends with the row that reaches this.
    pub bytes_max: usize,
}

/// A plan on its way through the items of a page.
pub struct Execution<W> {
    work: Work,
    out: Output<W>,
    mode: Mode<W>,
}

/// What does not change while a page is made.
struct Work {
    plan: Plan,
    needs: Needs,
    watch: Watch,
}

enum Mode<W> {
    /// Rows that depend on no item.
    Single {
        is_done: bool,
    },
    Stream(Stream),
    Ordered(Ordered),
    Sort(Sort),
    Table(Table),
    Whole(Whole),
    Derived(Box<Derived<W>>),
}

type Taken = ControlFlow<End>;

impl<W> Execution<W> {
    /// A page of `plan` from `position` on.
    pub fn new(plan: Plan, position: Position, limits: Limits) -> Self {
        let out = Output::new(&plan, &position, limits);
        let mode = Mode::of(&plan, position, &out);
        Self { work: Work::of(plan), out, mode }
    }

    /// The same, from sources whose items come in the order of their sort keys and, among those
    /// with equal keys, of their numbers. Items up to the position may be left out.
    ///
    /// For a query that is not ordered, or not row by row, this is [`Execution::new`].
    pub fn ordered(plan: Plan, position: Position, limits: Limits) -> Self {
        let clauses = plan.clauses();
        let is_ordered = matches!(clauses.input, Input::Items)
            && clauses.select.is_row_by_row()
            && !clauses.order.is_empty();
        let mut execution = Self::new(plan, position.clone(), limits);
        if is_ordered {
            execution.mode = Mode::Ordered(Ordered::new(position));
        }
        execution
    }

    /// Keeps rows and groups as [pieces](Execution::into_pieces).
    pub fn keep_pieces(&mut self) {
        self.out.keep_pieces();
    }

    /// Measures what functions take from here on.
    pub fn measure(&mut self, stopwatch: &Rc<Stopwatch>) {
        self.work.watch.stopwatch = Some(Rc::clone(stopwatch));
        if let Mode::Derived(derived) = &mut self.mode {
            derived.inner.measure(stopwatch);
        }
    }

    /// Calls `give_way` now and then while items are evaluated.
    pub fn give_way_by(&mut self, give_way: Rc<dyn Fn()>) {
        if let Mode::Derived(derived) = &mut self.mode {
            derived.inner.give_way_by(Rc::clone(&give_way));
        }
        self.work.watch.give_way = Some(give_way);
    }

    /// The sort key that an [ordered](Execution::ordered) page begins at or, if the second is true,
    /// the beginning of it. `None` for the first page.
    pub fn start_key(&self) -> Option<(&[u8], bool)> {
        let Mode::Ordered(ordered) = &self.mode else { return None };
        Some((ordered.start().key()?, ordered.start().is_cut()))
    }

    /// Where in an index the items of an [ordered](Execution::ordered) page begin. `None` for the
    /// first page.
    pub fn start_in_index(&self) -> Option<IndexStart> {
        let Mode::Ordered(ordered) = &self.mode else { return None };
        let start = ordered.start();
        let orders: Vec<_> = self.work.plan.clauses().order.iter().map(|key| key.order).collect();
        let number = if start.is_cut() { 0 } else { start.number() };
        Some(seek::index_start(start.key()?, number, &orders))
    }

    /// Whether the query wants no more rows, so that no item need be looked at.
    pub fn is_satisfied(&self) -> bool {
        self.out.is_satisfied()
    }

    /// Whether rows depend on items at all.
    pub fn reads_items(&self) -> bool {
        self.work.plan.reads_items()
    }

    /// Whether a page may end before all items were seen.
    pub fn can_pause(&self) -> bool {
        matches!(self.mode, Mode::Stream(_) | Mode::Ordered(_))
    }

    /// Whether the position of the page is known by its beginning only. Then all sources must be
    /// shown to [`Execution::look_up`] before the first is pulled from. What comes in order is
    /// shown from that beginning on.
    pub fn must_look_up(&self) -> bool {
        match &self.mode {
            Mode::Ordered(ordered) => ordered.start().is_cut(),
            Mode::Sort(sort) => sort.start().is_cut(),
            Mode::Table(table) => table.start().is_cut(),
            // These look for it once all rows are known.
            Mode::Whole(_) | Mode::Derived(_) => false,
            Mode::Single { .. } | Mode::Stream(_) => false,
        }
    }

    /// Looks for the rest of the position among the items of a source; true once it is found.
    pub fn look_up<S: Source<Whole = W>>(&mut self, source: &mut S) -> Result<bool, S::Error> {
        while let Next::Item(item) = source.next()? {
            let is_found = match &mut self.mode {
                Mode::Ordered(ordered) => match ordered.look_up(&self.work, &item)? {
                    ControlFlow::Break(is_found) => return Ok(is_found),
                    ControlFlow::Continue(()) => false,
                },
                Mode::Sort(sort) => sort.look_up(&self.work, &item)?,
                Mode::Table(table) => table.look_up(&self.work, &item)?,
                Mode::Single { .. } | Mode::Stream(_) | Mode::Whole(_) | Mode::Derived(_) => true,
            };
            if is_found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes items from `source` until it has no more or the page is complete.
    pub fn pull<S: Source<Whole = W>>(&mut self, source: &mut S) -> Result<End, S::Error> {
        loop {
            let taken = match source.next()? {
                Next::End => return Ok(End::Exhausted),
                Next::Pause => return Ok(End::Full),
                Next::Item(item) => self.take(&item)?,
            };
            if let ControlFlow::Break(end) = taken {
                return Ok(end);
            }
            if let Mode::Ordered(ordered) = &self.mode
                && !ordered.has_begun()
            {
                source.note_passed_over();
            }
        }
    }

    fn take<I: Item<Whole = W>>(&mut self, item: &I) -> Result<Taken, I::Error> {
        match &mut self.mode {
            Mode::Single { .. } => Ok(Taken::Break(End::Satisfied)),
            Mode::Stream(stream) => stream.take(&self.work, &mut self.out, item),
            Mode::Ordered(ordered) => ordered.take(&self.work, &mut self.out, item),
            Mode::Sort(sort) => sort.take(&self.work, item).map(Taken::Continue),
            Mode::Table(table) => table.take(&self.work, item).map(Taken::Continue),
            Mode::Whole(whole) => whole.take(&self.work, item).map(Taken::Continue),
            Mode::Derived(derived) => derived.inner.take(item),
        }
    }

    /// Whether [counted items](Execution::take_counted) are taken in one step, however many.
    pub fn counts_at_once(&self) -> bool {
        self.work.plan.counts_at_once()
    }

    /// Takes this many items, if [that is all that matters](Plan::only_counts).
    pub fn take_counted(&mut self, items: u64) -> Result<(), EvalError> {
        let at_once = self.counts_at_once();
        if let Mode::Table(table) = &mut self.mode {
            if at_once {
                return table.take_constants(&self.work, items);
            }
            let item = Value::Object(model::Object::new());
            for _ in 0..items {
                table.take_value(&self.work, &item)?;
            }
        }
        Ok(())
    }

    /// Takes what [is counted](Plan::totals) over items that were not looked at.
    pub fn take_totals(&mut self, totals: &[u64]) {
        if let Mode::Table(table) = &mut self.mode {
            table.take_totals(&self.work, totals);
        }
    }

    /// Completes the page once every source is exhausted.
    pub fn finish<S>(&mut self, shelf: &mut S) -> Result<End, <S::Item as Item>::Error>
    where
        S: Shelf<Item: Item<Whole = W>>,
    {
        match &mut self.mode {
            Mode::Single { is_done } => {
                if !std::mem::replace(is_done, true) {
                    self.out.write_single(&self.work)?;
                }
                Ok(End::Exhausted)
            }
            Mode::Stream(_) | Mode::Ordered(_) => Ok(End::Exhausted),
            Mode::Sort(sort) => sort.finish(&self.work, &mut self.out, shelf),
            Mode::Table(table) => Ok(table.finish(&self.work, &mut self.out)?),
            Mode::Whole(whole) => Ok(whole.finish(&self.work, &mut self.out)?),
            Mode::Derived(derived) => derived.finish(&mut self.out, shelf),
        }
    }

    /// Where the next page goes on. A paused source has looked at all items up to `looked_at`.
    pub fn position(&self, looked_at: Option<&[u8]>) -> Position {
        let at = match (&self.mode, looked_at) {
            (Mode::Stream(stream), Some(place)) => stream.position_beyond(place),
            (Mode::Stream(stream), None) => stream.position(),
            (Mode::Ordered(ordered), _) => ordered.position(),
            (Mode::Sort(sort), _) => sort.position(),
            (Mode::Table(table), _) => table.position(),
            (Mode::Whole(whole), _) => whole.position(),
            (Mode::Derived(derived), _) => derived.position(),
            (Mode::Single { .. }, _) => At::Start,
        };
        self.out.position(at)
    }

    /// The page to be merged with others, if pieces were [kept](Execution::keep_pieces).
    pub fn into_pieces(self) -> Vec<Piece<W>> {
        self.out.into_pieces()
    }

    /// The rows of the page.
    pub fn into_rows(self) -> Vec<Row<W>> {
        self.out.into_rows()
    }
}

impl Plan {
    /// Whether rows are known one by one, in the order of their items.
    pub fn is_stream(&self) -> bool {
        let clauses = self.clauses();
        matches!(clauses.input, Input::Items)
            && clauses.select.is_row_by_row()
            && clauses.order.is_empty()
    }

    /// Whether any number of items makes the same row but for their number.
    pub(crate) fn counts_at_once(&self) -> bool {
        let select = self.select();
        let is_one_row = select.bindings().is_empty() && select.filter().is_none();
        is_one_row && select.grouping().is_some_and(Grouping::is_of_constants)
    }

    /// Whether all that matters of items is how many there are.
    pub fn only_counts(&self) -> bool {
        let needs = Needs::of(self);
        let clauses = self.clauses();
        matches!(clauses.input, Input::Items)
            && clauses.select.grouping().is_some()
            && clauses.order.is_empty()
            && sorted_groups::fits(self)
            && needs.to_match.is_nothing()
            && needs.to_order.is_nothing()
    }
}

impl<W> Mode<W> {
    fn of(plan: &Plan, position: Position, out: &Output<W>) -> Self {
        let clauses = plan.clauses();
        let select = &clauses.select;
        match &clauses.input {
            Input::Nothing => return Mode::Single { is_done: false },
            Input::Items => {}
            Input::Rows(inner) => {
                return Mode::Derived(Box::new(Derived::new(inner, plan, position)));
            }
        }
        if select.is_row_by_row() {
            return match clauses.order.is_empty() {
                true => Mode::Stream(Stream::new(position.at)),
                false => Mode::Sort(Sort::new(position, out.rows_ahead())),
            };
        }
        match sorted_groups::fits(plan) {
            true => Mode::Table(Table::new(position, out.rows_ahead())),
            false => Mode::Whole(Whole::new(position)),
        }
    }
}

impl Work {
    fn of(plan: Plan) -> Self {
        let needs = Needs::of(&plan);
        Self { plan, needs, watch: Watch::default() }
    }

    /// What may be done for one item.
    fn budget(&self) -> Budget {
        Budget::watched(&self.watch)
    }

    fn projection(&self) -> &Projection {
        self.plan.select().projection()
    }

    /// The sort key of a row, or of a group when `scope` has its variables.
    fn sort_key(
        &self,
        scope: &Scope<'_>,
        budget: &Budget,
        out: &mut Vec<u8>,
    ) -> Result<(), EvalError> {
        for key in &self.plan.clauses().order {
            let value = key.expr.eval(scope, budget)?;
            if let Some(text) = value.as_ref().and_then(|value| value.as_str()) {
                budget.spend_bytes(text.len())?;
            }
            crate::value_keys::push_sort_key(value.as_deref(), key.order, out);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
