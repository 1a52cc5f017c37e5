//! Runs a plan over items, a page at a time.
//!
//! An [`Execution`] pulls items from one [`Source`] after the other and then finishes the page. Its
//! mode depends on when rows are known:
//!
//! | | rows are known | memory | resumes |
//! |---|---|---|---|
//! | [`stream`] | one by one | the page | after an item |
//! | [`ordered`] | one by one | the page | after a sort key and item |
//! | [`sort`] | when all items were read | the keys of the page | after a sort key and item |
//! | [`sorted_groups`] | when all items were read | the groups or distinct rows of the page | after a key |
//! | [`first_met`] | when all items were read | the groups or distinct rows of the page, and keys of earlier ones | after an item |
//! | [`materialized`] | when all items were read | all groups or distinct rows | after a sort key |
//! | [`derived`] | when the inner query is done | the rows of the inner query | as the outer does |
//!
//! A mode that reads all items but keeps only a page finds the remaining rows again for each page.
//! Positions name keys and items, never sources, so they stay valid however the items are divided.

mod derived;
mod first_met;
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

use model::json::FieldMask;
use model::{Value, limits};

use crate::budget::EvalHooks;
use crate::eval::Scope;
use crate::plan::{Grouping, Input, Plan, Projection};
use crate::required_fields::RequiredFields;
use crate::stopwatch::Stopwatch;
use crate::{Budget, EvalError};

use derived::Derived;
pub(crate) use derived::outer_page;
use first_met::FirstMet;
use materialized::Materialized;
pub(crate) use materialized::MaterializedMerge;
use ordered::Ordered;
pub(crate) use output::Output;
use sort::Sort;
use sorted_groups::SortedGroups;
pub(crate) use sorted_groups::{can_order_by_key, write_group};
use stream::Stream;

pub use crate::group::Group;
pub use first_met::Marks;
pub use output::Row;
pub use position::{CUT_BYTES, Position, ResumeValue, RowPosition};
pub use seek::IndexStart;

/// Limit of the memory for the keys of a page; beyond it, the page is shorter.
const PAGE_MEMORY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// An item as an execution sees it.
pub trait Item {
    /// The item as it is returned when a query selects all of it.
    type WholeItem;
    /// Why the item cannot be read.
    type Error: From<EvalError>;

    /// Identifies the item among all items of its container; grows in the order of creation.
    fn number(&self) -> u64;
    /// Its identity: the items of a container are in the order of these.
    fn identity(&self) -> &[u8];
    /// Its value. Only the fields of `field_mask` must be present.
    fn read(&self, field_mask: &FieldMask) -> Result<Value, Self::Error>;
    /// As [`Item::read`], but may reuse the memory of a value that was read before.
    fn read_again(&self, field_mask: &FieldMask, old: Value) -> Result<Value, Self::Error> {
        drop(old);
        self.read(field_mask)
    }
    /// Appends the whole item as JSON.
    fn write_json(&self, out: &mut Vec<u8>);
    /// The approximate length of its JSON.
    fn bytes(&self) -> usize;
    /// The item, to be returned.
    fn to_whole_item(&self) -> Self::WholeItem;
}

/// What a source has next.
#[derive(Debug)]
pub enum Next<I> {
    /// An item.
    Item(I),
    /// The source asks for the page to end. Only for executions that [can
    /// pause](Execution::can_pause).
    Pause,
    /// There are no more.
    End,
}

/// The order in which an execution takes items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ItemOrder {
    /// The order of their identities.
    #[default]
    Identity,
    /// The order of their numbers, in which they were created.
    Number,
}

/// Items in the [order](ItemOrder) of the execution, without those before the position of the page.
/// For an [ordered execution](Execution::ordered), items in the order of their sort keys.
pub trait Source {
    /// The item as it is returned when a query selects all of it.
    type WholeItem;
    /// Why the source cannot continue.
    type Error: From<EvalError>;
    /// An item, valid while the source stands at it.
    type Item<'s>: Item<WholeItem = Self::WholeItem, Error = Self::Error>
    where
        Self: 's;

    /// Moves to the next item.
    fn next(&mut self) -> Result<Next<Self::Item<'_>>, Self::Error>;

    /// Called when the last item, like all before it, lies before the position where the page
    /// begins. If the source paused now, the next page would begin at the same position.
    fn note_passed_over(&mut self) {}
}

/// Looks up items that a source has shown before.
pub trait RowLookup {
    /// The item.
    type Item: Item;

    /// The item with an identity that a source has shown.
    fn fetch(&mut self, identity: &[u8])
    -> Result<Option<Self::Item>, <Self::Item as Item>::Error>;
}

/// Why an execution accepts no more items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageEnd {
    /// The source has no more items.
    Exhausted,
    /// The page is full; there may be more.
    Full,
    /// The query needs no more rows.
    Satisfied,
}

/// A row or group of some items, to be [merged](crate::gather) with those of other items.
#[derive(Clone, Debug)]
pub struct PartialResult<W> {
    /// Where a page continues after it; partial results with a key come in key order.
    pub at: RowPosition,
    /// The row or group.
    pub content: RowOrGroup<W>,
    /// Roughly how much memory it takes.
    pub bytes: usize,
    /// The number of its first item.
    pub number: u64,
}

/// What a partial result holds.
#[derive(Clone, Debug)]
pub enum RowOrGroup<W> {
    /// A row.
    Row(Row<W>),
    /// A group, which may have further rows elsewhere.
    Group(Group),
}

/// The limits of a page.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest number of rows.
    pub rows_max: usize,
    /// The page ends with the row that reaches this.
    pub bytes_max: usize,
}

/// A plan that is executed over the items of a page.
pub struct Execution<W> {
    context: PageContext,
    out: Output<W>,
    mode: Mode<W>,
}

/// What does not change during a page.
struct PageContext {
    plan: Plan,
    required: RequiredFields,
    hooks: EvalHooks,
}

enum Mode<W> {
    /// Rows that depend on no item.
    Single {
        is_done: bool,
    },
    Stream(Stream),
    Ordered(Ordered),
    Sort(Sort),
    SortedGroups(SortedGroups),
    FirstMet(FirstMet),
    Materialized(Materialized),
    Derived(Box<Derived<W>>),
}

type PageFlow = ControlFlow<PageEnd>;

impl<W> Execution<W> {
    /// A page of `plan` that starts at `position`, from items in the order of their identities.
    pub fn new(plan: Plan, position: Position, limits: Limits) -> Self {
        Self::in_order(ItemOrder::Identity, plan, position, limits)
    }

    /// The same, from items in this order.
    pub fn in_order(order: ItemOrder, plan: Plan, position: Position, limits: Limits) -> Self {
        let out = Output::new(&plan, &position, limits);
        let mode = Mode::of(&plan, position, &out, order);
        Self { context: PageContext::of(plan), out, mode }
    }

    /// Begins the items of the next range, which come in this order if rows have the [order of their
    /// items](Plan::row_order). The position of the page is in the first range. If the page has `all`
    /// of the range from its beginning, [`Execution::end_range`] puts the rows into the order of item numbers.
    pub fn begin_range(&mut self, order: ItemOrder, all: bool) {
        match &mut self.mode {
            Mode::Stream(stream) => {
                stream.begin_range(order);
                let clauses = self.context.plan.clauses();
                let takes_some = clauses.top.is_some() || clauses.window.is_some();
                self.out.note_places(all && !takes_some && order == ItemOrder::Identity);
            }
            Mode::FirstMet(first_met) => first_met.begin_range(!all),
            Mode::Derived(derived) => derived.inner.begin_range(order, all),
            Mode::Single { .. }
            | Mode::Ordered(_)
            | Mode::Sort(_)
            | Mode::SortedGroups(_)
            | Mode::Materialized(_) => {}
        }
    }

    /// Begins items of which only the groups matter that earlier pages have returned.
    pub fn begin_marks(&mut self, marks: Marks) {
        if let Mode::FirstMet(first_met) = &mut self.mode {
            first_met.begin_marks(marks);
        }
    }

    /// Ends a range of which all items were taken.
    pub fn end_range(&mut self) {
        self.out.sort_by_place();
    }

    /// Whether the position of the page is in the range that was begun last.
    pub fn has_begun_range(&self) -> bool {
        match &self.mode {
            Mode::Stream(stream) => stream.has_begun_range(),
            Mode::Single { .. }
            | Mode::Ordered(_)
            | Mode::Sort(_)
            | Mode::SortedGroups(_)
            | Mode::FirstMet(_)
            | Mode::Materialized(_)
            | Mode::Derived(_) => true,
        }
    }

    /// Which of the ranges the position of the page is in, for groups and distinct rows in the order
    /// in which they are first met.
    pub fn range_reached(&self) -> usize {
        match &self.mode {
            Mode::FirstMet(first_met) => first_met.range_reached(),
            Mode::Single { .. }
            | Mode::Stream(_)
            | Mode::Ordered(_)
            | Mode::Sort(_)
            | Mode::SortedGroups(_)
            | Mode::Materialized(_)
            | Mode::Derived(_) => 0,
        }
    }

    /// The same, for sources whose items come in the order of their sort keys and, among equal
    /// keys, of their [ties](Plan::tie_of). Sources may leave out items up to the position.
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

    /// Keeps rows and groups as [partial results](Execution::into_partial_results).
    pub fn keep_partial_results(&mut self) {
        self.out.keep_partial_results();
    }

    /// Measures the time of functions from here on.
    pub fn measure(&mut self, stopwatch: &Rc<Stopwatch>) {
        self.context.hooks.stopwatch = Some(Rc::clone(stopwatch));
        if let Mode::Derived(derived) = &mut self.mode {
            derived.inner.measure(stopwatch);
        }
    }

    /// Calls `give_way` now and then while items are evaluated.
    pub fn give_way_by(&mut self, give_way: Rc<dyn Fn()>) {
        if let Mode::Derived(derived) = &mut self.mode {
            derived.inner.give_way_by(Rc::clone(&give_way));
        }
        self.context.hooks.give_way = Some(give_way);
    }

    /// The sort key at which an [ordered](Execution::ordered) page begins or, if the second value
    /// is true, a prefix of it. `None` for the first page.
    pub fn start_key(&self) -> Option<(&[u8], bool)> {
        let Mode::Ordered(ordered) = &self.mode else { return None };
        Some((ordered.start().key()?, ordered.start().is_cut()))
    }

    /// The index position at which the items of an [ordered](Execution::ordered) page begin. `None`
    /// for the first page.
    pub fn start_in_index(&self) -> Option<IndexStart> {
        let Mode::Ordered(ordered) = &self.mode else { return None };
        let start = ordered.start();
        let orders: Vec<_> =
            self.context.plan.clauses().order.iter().map(|key| key.order).collect();
        let tie = if start.is_cut() { 0 } else { start.tie() };
        Some(seek::index_start(start.key()?, tie, &orders))
    }

    /// Whether the query needs no more rows, so that no item need be read.
    pub fn is_satisfied(&self) -> bool {
        self.out.is_satisfied()
    }

    /// Whether rows depend on items at all.
    pub fn reads_items(&self) -> bool {
        self.context.plan.reads_items()
    }

    /// Whether a page may end before all items were read.
    pub fn can_pause(&self) -> bool {
        matches!(self.mode, Mode::Stream(_) | Mode::Ordered(_))
    }

    /// Whether only a prefix of the position's key is known. Then all sources must be passed to
    /// [`Execution::look_up`] before the first pull. An ordered source is passed from that prefix
    /// on.
    pub fn must_look_up(&self) -> bool {
        match &self.mode {
            Mode::Ordered(ordered) => ordered.start().is_cut(),
            Mode::Sort(sort) => sort.start().is_cut(),
            Mode::SortedGroups(sorted_groups) => sorted_groups.start().is_cut(),
            // These look it up once all rows are known.
            Mode::Materialized(_) | Mode::Derived(_) => false,
            Mode::Single { .. } | Mode::Stream(_) | Mode::FirstMet(_) => false,
        }
    }

    /// Looks for the rest of the position's key among the items of a source; true once it is found.
    pub fn look_up<S: Source<WholeItem = W>>(&mut self, source: &mut S) -> Result<bool, S::Error> {
        while let Next::Item(item) = source.next()? {
            let is_found = match &mut self.mode {
                Mode::Ordered(ordered) => match ordered.look_up(&self.context, &item)? {
                    ControlFlow::Break(is_found) => return Ok(is_found),
                    ControlFlow::Continue(()) => false,
                },
                Mode::Sort(sort) => sort.look_up(&self.context, &item)?,
                Mode::SortedGroups(sorted_groups) => sorted_groups.look_up(&self.context, &item)?,
                Mode::Single { .. }
                | Mode::Stream(_)
                | Mode::FirstMet(_)
                | Mode::Materialized(_)
                | Mode::Derived(_) => true,
            };
            if is_found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads items from `source` until it has no more or the page is complete.
    pub fn pull<S: Source<WholeItem = W>>(&mut self, source: &mut S) -> Result<PageEnd, S::Error> {
        loop {
            let taken = match source.next()? {
                Next::End => return Ok(PageEnd::Exhausted),
                Next::Pause => return Ok(PageEnd::Full),
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

    fn take<I: Item<WholeItem = W>>(&mut self, item: &I) -> Result<PageFlow, I::Error> {
        match &mut self.mode {
            Mode::Single { .. } => Ok(PageFlow::Break(PageEnd::Satisfied)),
            Mode::Stream(stream) => stream.take(&self.context, &mut self.out, item),
            Mode::Ordered(ordered) => ordered.take(&self.context, &mut self.out, item),
            Mode::Sort(sort) => sort.take(&self.context, item).map(PageFlow::Continue),
            Mode::SortedGroups(sorted_groups) => {
                sorted_groups.take(&self.context, item).map(PageFlow::Continue)
            }
            Mode::FirstMet(first_met) => {
                first_met.take(&self.context, item).map(PageFlow::Continue)
            }
            Mode::Materialized(materialized) => {
                materialized.take(&self.context, item).map(PageFlow::Continue)
            }
            Mode::Derived(derived) => derived.inner.take(item),
        }
    }

    /// Whether [counted items](Execution::take_counted) are added in one step, however many.
    pub fn counts_at_once(&self) -> bool {
        self.context.plan.counts_at_once()
    }

    /// Adds this many items, if [only their number matters](Plan::only_counts).
    pub fn take_counted(&mut self, items: u64) -> Result<(), EvalError> {
        let at_once = self.counts_at_once();
        if let Mode::SortedGroups(sorted_groups) = &mut self.mode {
            if at_once {
                return sorted_groups.take_constants(&self.context, items);
            }
            let item = Value::Object(model::Object::new());
            for _ in 0..items {
                sorted_groups.take_value(&self.context, &item)?;
            }
        }
        Ok(())
    }

    /// Adds [totals](Plan::totals) that were counted without reading items.
    pub fn take_totals(&mut self, totals: &[u64]) {
        if let Mode::SortedGroups(sorted_groups) = &mut self.mode {
            sorted_groups.take_totals(&self.context, totals);
        }
    }

    /// Completes the page once every source is exhausted.
    pub fn finish<S>(&mut self, lookup: &mut S) -> Result<PageEnd, <S::Item as Item>::Error>
    where
        S: RowLookup<Item: Item<WholeItem = W>>,
    {
        match &mut self.mode {
            Mode::Single { is_done } => {
                if !std::mem::replace(is_done, true) {
                    self.out.write_single(&self.context)?;
                }
                Ok(PageEnd::Exhausted)
            }
            Mode::Stream(_) | Mode::Ordered(_) => Ok(PageEnd::Exhausted),
            Mode::Sort(sort) => sort.finish(&self.context, &mut self.out, lookup),
            Mode::SortedGroups(sorted_groups) => {
                Ok(sorted_groups.finish(&self.context, &mut self.out)?)
            }
            Mode::FirstMet(first_met) => Ok(first_met.finish(&self.context, &mut self.out)?),
            Mode::Materialized(materialized) => {
                Ok(materialized.finish(&self.context, &mut self.out)?)
            }
            Mode::Derived(derived) => derived.finish(&mut self.out, lookup),
        }
    }

    /// Where the next page continues. A paused source has read all items up to `looked_at`.
    pub fn position(&self, looked_at: Option<&RowPosition>) -> Position {
        let at = match (&self.mode, looked_at) {
            (Mode::Stream(stream), Some(looked_at)) => stream.position_beyond(looked_at),
            (Mode::Stream(stream), None) => stream.position(),
            (Mode::Ordered(ordered), _) => ordered.position(),
            (Mode::Sort(sort), _) => sort.position(),
            (Mode::SortedGroups(sorted_groups), _) => sorted_groups.position(),
            (Mode::FirstMet(first_met), _) => first_met.position(),
            (Mode::Materialized(materialized), _) => materialized.position(),
            (Mode::Derived(derived), _) => derived.position(),
            (Mode::Single { .. }, _) => RowPosition::Start,
        };
        self.out.position(at)
    }

    /// Where the next page continues, if that is at the beginning of a range.
    pub fn position_between_ranges(&self) -> Position {
        self.out.position(RowPosition::Start)
    }

    /// The page to be merged with others, if partial results were
    /// [kept](Execution::keep_partial_results).
    pub fn into_partial_results(self) -> Vec<PartialResult<W>> {
        self.out.into_partial_results()
    }

    /// The rows of the page.
    pub fn into_rows(self) -> Vec<Row<W>> {
        self.out.into_rows()
    }
}

/// What the rows of a query are in the order of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// Their items.
    Items,
    /// The first item of each group or distinct row.
    FirstItems,
    /// Keys of their own.
    Keys,
}

impl Plan {
    /// What rows are in the order of.
    pub fn row_order(&self) -> RowOrder {
        let clauses = self.clauses();
        match &clauses.input {
            Input::Nothing => return RowOrder::Keys,
            Input::Items => {}
            Input::Rows(inner) => return inner.row_order(),
        }
        if !clauses.order.is_empty() {
            return RowOrder::Keys;
        }
        if clauses.select.is_row_by_row() {
            return RowOrder::Items;
        }
        let is_one_group =
            clauses.select.grouping().is_some_and(|grouping| grouping.keys.is_empty());
        match can_order_by_key(self) && !is_one_group {
            true => RowOrder::FirstItems,
            false => RowOrder::Keys,
        }
    }

    /// Whether the query runs over the rows of another one, among which its positions are.
    pub fn is_derived(&self) -> bool {
        matches!(self.clauses().input, Input::Rows(_))
    }

    /// Whether rows are known one by one, in the order of their items.
    pub fn is_stream(&self) -> bool {
        let clauses = self.clauses();
        matches!(clauses.input, Input::Items)
            && clauses.select.is_row_by_row()
            && clauses.order.is_empty()
    }

    /// Whether every item adds the same to one row, so that any number can be added at once.
    pub(crate) fn counts_at_once(&self) -> bool {
        let select = self.select();
        let is_one_row = select.bindings().is_empty() && select.filter().is_none();
        is_one_row && select.grouping().is_some_and(Grouping::is_of_constants)
    }

    /// Whether only the number of items matters.
    pub fn only_counts(&self) -> bool {
        let required = RequiredFields::of(self);
        let clauses = self.clauses();
        matches!(clauses.input, Input::Items)
            && clauses.select.grouping().is_some()
            && clauses.order.is_empty()
            && can_order_by_key(self)
            && required.to_match.is_nothing()
            && required.to_order.is_nothing()
    }
}

impl<W> Mode<W> {
    fn of(plan: &Plan, position: Position, out: &Output<W>, order: ItemOrder) -> Self {
        let clauses = plan.clauses();
        let select = &clauses.select;
        match &clauses.input {
            Input::Nothing => return Mode::Single { is_done: false },
            Input::Items => {}
            Input::Rows(inner) => {
                return Mode::Derived(Box::new(Derived::new(inner, plan, position, order)));
            }
        }
        if select.is_row_by_row() {
            return match clauses.order.is_empty() {
                true => Mode::Stream(Stream::new(position.at, order)),
                false => Mode::Sort(Sort::new(position, out.rows_ahead())),
            };
        }
        if order == ItemOrder::Number && plan.row_order() == RowOrder::FirstItems {
            return Mode::FirstMet(FirstMet::new(position, out.rows_ahead()));
        }
        match can_order_by_key(plan) {
            true => Mode::SortedGroups(SortedGroups::new(position, out.rows_ahead())),
            false => Mode::Materialized(Materialized::new(position)),
        }
    }
}

impl PageContext {
    fn of(plan: Plan) -> Self {
        let required = RequiredFields::of(&plan);
        Self { plan, required, hooks: EvalHooks::default() }
    }

    /// The budget of one item.
    fn budget(&self) -> Budget {
        Budget::with_hooks(&self.hooks)
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
        let clauses = self.plan.clauses();
        for key in &clauses.order {
            let value = key.expr.eval(scope, budget)?;
            if let Some(text) = value.as_ref().and_then(|value| value.as_str()) {
                budget.spend_bytes(text.len())?;
            }
            crate::value_keys::push_sort_key(clauses.type_order, value.as_deref(), key.order, out);
        }
        Ok(())
    }
}

/// Fails once a query keeps more than it may.
fn check_kept(bytes: usize) -> Result<(), EvalError> {
    match bytes > limits::QUERY_KEPT_BYTES_MAX {
        true => Err(EvalError::MemoryExceeded),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
