//! Queries: where rows come from, how they are filtered and grouped, and what they yield.
//!
//! A [`Select`] is what a subquery can be: rows in no particular order. A [`Plan`] is a whole
//! query, which reads the items of a container and may also order and limit its rows.

use std::sync::Arc;

use model::Value;
use model::order::TypeOrder;

use crate::algebra::Expr;
use crate::eval::{Flow, Scope, is_finite};
use crate::{Budget, EvalError};

/// How a FROM source extends the variables of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Binding {
    /// One row with the value; none if it is *undefined*.
    Value(Expr),
    /// A row for each element; none if the value is not an array.
    Elements(Expr),
    /// A row for each row of a query.
    Rows(Box<Select>),
}

/// How rows are grouped and what is computed for each group.
///
/// The variables of a group replace those of its rows: first its keys, then the results of its
/// aggregates. Without keys there is one group, even without rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouping {
    /// Rows with equal keys are in one group; *undefined* equals itself.
    pub keys: Vec<Expr>,
    /// What is computed over the rows of a group.
    pub aggregates: Vec<AggregateCall>,
}

/// A function of all rows of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is the function")]
pub enum Aggregate {
    Average,
    Count,
    CountIf,
    Max,
    Min,
    Sum,
    MakeList,
    MakeSet,
}

/// An aggregate and its operand.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateCall {
    /// The aggregate.
    pub aggregate: Aggregate,
    /// Its operand, evaluated for each row.
    pub operand: Expr,
}

/// What a row or a group yields.
#[derive(Clone, Debug, PartialEq)]
pub enum Projection {
    /// The value of an expression; an *undefined* one yields no row.
    Value(Expr),
    /// An object with these fields; *undefined* ones are left out.
    Fields(Vec<(String, Expr)>),
}

/// The clauses that a subquery can have.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// Number of variables of the surrounding queries.
    outer: usize,
    bindings: Vec<Binding>,
    filter: Option<Expr>,
    /// The parts of the filter, indexed by how many of the bindings they need.
    filters: Vec<Option<Expr>>,
    grouping: Option<Grouping>,
    projection: Projection,
    is_distinct: bool,
}

impl Select {
    /// The query that binds `bindings` to the variables from `outer` on, keeps the rows for which
    /// `filter` is exactly true and yields `projection` of each.
    pub fn new(
        outer: usize,
        bindings: Vec<Binding>,
        filter: Option<Expr>,
        projection: Projection,
    ) -> Self {
        let filters = split_filter(outer, bindings.len(), conjuncts_of(filter.as_ref()));
        Self { outer, bindings, filter, filters, grouping: None, projection, is_distinct: false }
    }

    /// The same, with its rows grouped before they are projected.
    #[must_use]
    pub fn grouped(self, grouping: Option<Grouping>) -> Self {
        Self { grouping, ..self }
    }

    /// The same, with or without equal rows.
    #[must_use]
    pub fn distinct(self, is_distinct: bool) -> Self {
        Self { is_distinct, ..self }
    }

    /// How many variables the surrounding queries have; its own follow.
    pub fn outer(&self) -> usize {
        self.outer
    }

    /// The FROM sources.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// The filter: rows for which it is exactly true are kept.
    pub fn filter(&self) -> Option<&Expr> {
        self.filter.as_ref()
    }

    /// The conditions that must all be exactly true for the filter to be.
    pub(crate) fn conjuncts(&self) -> &[Expr] {
        conjuncts_of(self.filter.as_ref())
    }

    /// The filter's part that can be tested once `bound` sources are bound.
    pub(crate) fn filter_after(&self, bound: usize) -> Option<&Expr> {
        self.filters.get(bound)?.as_ref()
    }

    /// How rows are grouped.
    pub fn grouping(&self) -> Option<&Grouping> {
        self.grouping.as_ref()
    }

    /// What each row or group yields.
    pub fn projection(&self) -> &Projection {
        &self.projection
    }

    /// Whether equal rows are returned once.
    pub fn is_distinct(&self) -> bool {
        self.is_distinct
    }

    /// Whether each row depends on one item only.
    pub fn is_row_by_row(&self) -> bool {
        self.grouping.is_none() && !self.is_distinct
    }
}

fn conjuncts_of(filter: Option<&Expr>) -> &[Expr] {
    match filter {
        Some(Expr::And(operands)) => operands,
        Some(other) => std::slice::from_ref(other),
        None => &[],
    }
}

/// Sorts the conjuncts of a filter by the number of bindings they need. A row passes if every
/// conjunct is exactly true, so each may be tested as soon as its variables are bound.
fn split_filter(outer: usize, bindings: usize, conjuncts: &[Expr]) -> Vec<Option<Expr>> {
    let mut parts: Vec<Vec<Expr>> = vec![Vec::new(); bindings + 1];
    for conjunct in conjuncts {
        let needed = conjunct.variables_end().saturating_sub(outer).min(bindings);
        if let Some(part) = parts.get_mut(needed) {
            part.push(conjunct.clone());
        }
    }
    let joined = |mut part: Vec<Expr>| match part.len() {
        0 | 1 => part.pop(),
        _ => Some(Expr::And(part)),
    };
    parts.into_iter().map(joined).collect()
}

/// Where the rows of a whole query come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// No FROM: one row without variables, whatever the container holds.
    Nothing,
    /// Each item, as variable 0.
    Items,
    /// Each row of another query, as variable 0. Only for queries that are not
    /// [row by row](Select::is_row_by_row); others are bindings.
    Rows(Box<Plan>),
}

/// The direction of a sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortOrder {
    /// Least first.
    Ascending,
    /// Greatest first.
    Descending,
}

/// A key that rows are ordered by.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    /// The key, over the same variables as the projection.
    pub expr: Expr,
    /// Its direction.
    pub order: SortOrder,
}

/// The rows to skip and then to return: `OFFSET o LIMIT l`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Rows to skip.
    pub offset: u64,
    /// Most rows to return after that.
    pub limit: u64,
}

/// The clauses of a whole query.
#[derive(Clone, Debug, PartialEq)]
pub struct Clauses {
    /// Where rows come from.
    pub input: Input,
    /// How rows are filtered, grouped and projected.
    pub select: Select,
    /// What rows are ordered by, first key first.
    pub order: Vec<SortKey>,
    /// Most rows to return.
    pub top: Option<u64>,
    /// Which of the rows to return.
    pub window: Option<Window>,
    /// The order of the values that rows are ordered by: that of the container.
    pub type_order: TypeOrder,
}

/// A compiled query: immutable, shared by reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan(Arc<Clauses>);

impl Plan {
    /// A plan of these clauses.
    pub fn new(clauses: Clauses) -> Self {
        Self(Arc::new(clauses))
    }

    /// The same for a container whose values are in this order.
    #[must_use]
    pub fn in_type_order(mut self, type_order: TypeOrder) -> Self {
        if self.0.type_order != type_order {
            Arc::make_mut(&mut self.0).type_order = type_order;
        }
        self
    }

    /// The plan that returns every item as it is.
    pub fn all_items() -> Self {
        Self::items(None, Vec::new(), None)
    }

    /// The plan that returns the first `rows` of the items for which `filter` is exactly true, by
    /// `order`.
    pub fn first_items(filter: Option<Expr>, order: Vec<SortKey>, rows: u64) -> Self {
        Self::items(filter, order, Some(rows))
    }

    fn items(filter: Option<Expr>, order: Vec<SortKey>, top: Option<u64>) -> Self {
        let select = Select::new(1, Vec::new(), filter, Projection::Value(Expr::Variable(0)));
        let type_order = TypeOrder::NoSql;
        Self::new(Clauses { input: Input::Items, select, order, top, window: None, type_order })
    }

    /// The same without its filter.
    #[must_use]
    pub fn unfiltered(&self) -> Self {
        let clauses = self.clauses().clone();
        let Select { outer, bindings, projection, grouping, is_distinct, .. } = clauses.select;
        let select = Select::new(outer, bindings, None, projection);
        let select = select.grouped(grouping).distinct(is_distinct);
        Self::new(Clauses { select, ..clauses })
    }

    /// The clauses, for planners.
    pub fn clauses(&self) -> &Clauses {
        &self.0
    }

    /// How rows are filtered, grouped and projected.
    pub fn select(&self) -> &Select {
        &self.0.select
    }

    /// Whether `item` yields a row that the filter keeps.
    pub fn matches(&self, item: &Value) -> Result<bool, EvalError> {
        let budget = Budget::per_item();
        let mut is_match = false;
        self.select().for_each_row(&Scope::of_item(item), &budget, &mut |_| {
            is_match = true;
            Ok(Flow::Enough)
        })?;
        Ok(is_match)
    }

    /// The rows of `item` alone: these are all its rows if the plan is [row by
    /// row](Plan::is_row_by_row).
    pub fn rows_of(&self, item: &Value) -> Result<Vec<Value>, EvalError> {
        let budget = Budget::per_item();
        let mut rows = Vec::new();
        self.select().for_each_output(&Scope::of_item(item), &budget, &mut |row| {
            if !is_finite(&row) {
                return Err(EvalError::NonFiniteNumber);
            }
            rows.push(row);
            Ok(Flow::More)
        })?;
        Ok(rows)
    }

    /// Whether the rows of an item depend on no other item, and their order is that of the items.
    pub fn is_row_by_row(&self) -> bool {
        self.0.order.is_empty()
            && self.select().is_row_by_row()
            && !matches!(self.0.input, Input::Rows(_))
    }

    /// Whether each row is the item itself, so that the stored text can be returned unparsed.
    pub fn is_select_all(&self) -> bool {
        let select = self.select();
        matches!(self.0.input, Input::Items)
            && select.bindings.is_empty()
            && select.is_row_by_row()
            && matches!(select.projection, Projection::Value(Expr::Variable(0)))
    }

    /// Whether each row is an item, if it is not one that was returned already.
    pub(crate) fn selects_distinct_items(&self) -> bool {
        let select = self.select();
        matches!(self.0.input, Input::Items)
            && select.is_distinct
            && select.grouping.is_none()
            && matches!(select.projection, Projection::Value(Expr::Variable(0)))
    }

    /// Whether the rows depend on items at all. Without FROM there is one row.
    pub fn reads_items(&self) -> bool {
        match &self.0.input {
            Input::Nothing => false,
            Input::Items => true,
            Input::Rows(plan) => plan.reads_items(),
        }
    }

    /// Whether there is a filter.
    pub fn has_filter(&self) -> bool {
        self.select().filter.is_some()
    }

    /// Whether rows with equal sort keys come in falling order of their items' numbers: an index that
    /// is read backwards has them so. Scores have no index order; their ties are not reversed.
    pub fn has_falling_ties(&self) -> bool {
        let first = self.0.order.first();
        first.is_some_and(|key| key.order == SortOrder::Descending && !key.expr.is_score())
    }

    /// Orders items with equal sort keys: the lesser comes first.
    pub fn tie_of(&self, number: u64) -> u64 {
        match self.has_falling_ties() {
            true => !number,
            false => number,
        }
    }

    /// The count of TOP.
    pub fn top(&self) -> Option<u64> {
        self.0.top
    }

    /// The count of OFFSET.
    pub fn offset(&self) -> Option<u64> {
        self.0.window.map(|window| window.offset)
    }

    /// The count of LIMIT.
    pub fn limit(&self) -> Option<u64> {
        self.0.window.map(|window| window.limit)
    }

    /// Most rows to return, after those skipped.
    pub(crate) fn rows_max(&self) -> u64 {
        let counts = [self.top(), self.limit()];
        counts.into_iter().flatten().min().unwrap_or(u64::MAX)
    }
}
