//! Lowers the tree to algebra: resolves names, binds parameters, checks clauses, folds constants.
//!
//! Anything that the executor cannot run ends here with a "not supported" error at its position, so
//! that no query returns a wrong result. Mistakes in the text are reported before that.

mod computed;
mod count;
mod expr;
mod from;
mod grouping;
mod order;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::Value;
use model::order::TypeOrder;
use query::algebra::{ComputedProperty, Expr, RandomSource};
use query::functions::date::Ticks;
use query::plan::{AggregateCall, Binding, Clauses, Input, Plan, Projection, Select, SortKey};
use query::{Budget, plan::Aggregate};

use super::ast::{ExprKind, SelectItem, Span};
use super::diagnostic::Diagnostic;
use super::{Environment, ast};

pub(super) use grouping::{aggregates_in, has_aggregate};

type Lowered<T> = Result<T, Diagnostic>;

/// The plan of `query` with these parameters.
pub(super) fn lower_query(
    query: &ast::Query,
    parameters: &[(String, Value)],
    environment: &Environment,
    purpose: Purpose,
) -> Lowered<Plan> {
    Lowering::new(parameters, environment, purpose).plan(query)
}

/// The purpose of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be run by this server.
    Running,
    /// To be returned to a client that runs it.
    Planning,
}

struct Lowering<'a> {
    parameters: BTreeMap<&'a str, Arc<Value>>,
    /// Names of variables; variables of groups and unnamed ones have none.
    variables: Vec<Option<String>>,
    /// The item's variable, in places where a FROM may use any name for it.
    container: Option<usize>,
    /// The variables that are the item itself.
    items: Vec<usize>,
    /// The condition that a first source of whole items has on them.
    source_filter: Option<Expr>,
    /// Computed properties that were used so far.
    computed: BTreeMap<&'a str, ComputedProperty>,
    /// Calls of user-defined functions so far.
    user_calls: usize,
    environment: &'a Environment,
    given: &'a [(String, Value)],
    purpose: Purpose,
    aggregates: AggregateUse,
    /// Whether this is inside a subquery, whose aggregates may be over subqueries.
    is_nested: bool,
    now: Ticks,
    random: RandomSource,
    /// Work granted to folding constants in the whole query.
    budget: Budget,
}

/// How to treat an aggregate.
enum AggregateUse {
    /// It is not allowed in this clause.
    Refused(&'static str),
    /// It is inside another aggregate.
    Nested,
    /// It is added to these, which are the variables of a group from `start` on.
    Collected { start: usize, calls: Vec<AggregateCall> },
}

impl<'a> Lowering<'a> {
    fn new(
        parameters: &'a [(String, Value)],
        environment: &'a Environment,
        purpose: Purpose,
    ) -> Self {
        Self {
            given: parameters,
            parameters: parameters
                .iter()
                .map(|(name, v)| (name.as_str(), Arc::new(v.clone())))
                .collect(),
            variables: Vec::new(),
            container: None,
            items: Vec::new(),
            source_filter: None,
            computed: BTreeMap::new(),
            user_calls: 0,
            environment,
            purpose,
            aggregates: AggregateUse::Refused("FROM"),
            is_nested: false,
            now: Ticks(environment.now_ticks),
            random: RandomSource::new(environment.seed),
            budget: Budget::per_item(),
        }
    }

    /// A whole query, or one in FROM whose rows must be complete before the rest begins.
    fn plan(&mut self, query: &ast::Query) -> Lowered<Plan> {
        let (input, bindings) = self.input(&query.from)?;
        let source_filter = self.source_filter.take();
        let outer = match input {
            Input::Nothing => 0,
            Input::Items | Input::Rows(_) => 1,
        };
        let (select, order) = self.clauses(query, (0, outer), bindings, source_filter)?;
        let top = query.top.as_ref().map(|count| self.count(count, &count::TOP)).transpose()?;
        let window = self.window(query)?;
        Ok(Plan::new(Clauses { input, select, order, top, window, type_order: TypeOrder::NoSql }))
    }

    /// A query inside another one, over the variables that are visible at its position.
    fn subselect(&mut self, query: &ast::Query) -> Lowered<Select> {
        order::refuse_in_subquery(query)?;
        let outer = self.variables.len();
        let aggregates = std::mem::replace(&mut self.aggregates, AggregateUse::Refused("FROM"));
        let was_nested = std::mem::replace(&mut self.is_nested, true);
        let bindings = self.bindings(&query.from)?;
        let (select, _) = self.clauses(query, (outer, outer), bindings, None)?;
        self.is_nested = was_nested;
        self.aggregates = aggregates;
        self.variables.truncate(outer);
        self.items.retain(|slot| *slot < outer);
        Ok(select)
    }

    /// All clauses after FROM. The variables of rows start at `rows`; from `outer` on they are
    /// bound by `bindings`, under the condition of the source.
    fn clauses(
        &mut self,
        query: &ast::Query,
        (rows, outer): (usize, usize),
        bindings: Vec<Binding>,
        source_filter: Option<Expr>,
    ) -> Lowered<(Select, Vec<SortKey>)> {
        self.container = None;
        self.aggregates = AggregateUse::Refused("WHERE");
        let filter = query.filter.as_ref().map(|filter| self.expr(filter)).transpose()?;
        let filter = from::both(source_filter, filter);
        let is_distinct = query.distinct.is_some();
        if grouping::is_grouped(query) {
            let (grouping, projection, order) = self.grouped(query, rows, outer)?;
            let select = Select::new(outer, bindings, filter, projection);
            return Ok((select.grouped(Some(grouping)).distinct(is_distinct), order));
        }
        let projection = self.projection(&query.select, &query.from)?;
        let order = self.order(query, &bindings, outer)?;
        let select = Select::new(outer, bindings, filter, projection);
        Ok((select.distinct(is_distinct), order))
    }

    fn projection(&mut self, select: &ast::Select, from: &[ast::Source]) -> Lowered<Projection> {
        match select {
            ast::Select::Star(span) => {
                let message = match from.len() {
                    0 => "'SELECT *' is not valid if FROM clause is omitted.",
                    1 => {
                        let last = self.variables.len().saturating_sub(1);
                        return Ok(Projection::Value(Expr::Variable(last)));
                    }
                    _ => "'SELECT *' is only valid with a single input set.",
                };
                Err(Diagnostic::syntax("SC2040", message.to_owned(), *span))
            }
            ast::Select::Value(value) => Ok(Projection::Value(self.expr(value)?)),
            ast::Select::List(items) => {
                let names = unique_names(items)?;
                let fields = names.into_iter().zip(items);
                let field =
                    |(name, item): (String, &SelectItem)| Ok((name, self.expr(&item.expr)?));
                Ok(Projection::Fields(fields.map(field).collect::<Lowered<_>>()?))
            }
        }
    }

    fn variable(&self, name: &str, span: Span) -> Lowered<Expr> {
        match self.slot_of(name) {
            Some(slot) => Ok(Expr::Variable(slot)),
            None => {
                let message = format!("Identifier '{name}' could not be resolved.");
                Err(Diagnostic::syntax("SC2001", message, span))
            }
        }
    }

    /// The innermost variable of this name.
    fn slot_of(&self, name: &str) -> Option<usize> {
        self.variables.iter().rposition(|variable| variable.as_deref() == Some(name))
    }
}

/// The output names of a select list, which must be unique.
fn unique_names(items: &[SelectItem]) -> Lowered<Vec<String>> {
    let names = select_names(items);
    let mut seen = BTreeSet::new();
    for (name, item) in names.iter().zip(items) {
        if !seen.insert(name) {
            let message = format!("Property name '{name}' is specified more than once.");
            let span = item.alias.as_ref().map_or(item.expr.span, |alias| alias.span);
            return Err(Diagnostic::syntax("SC2022", message, span));
        }
    }
    Ok(names)
}

/// The output names of a select list: the alias, else the last step of a path, else a number.
pub(super) fn select_names(items: &[SelectItem]) -> Vec<String> {
    let mut unnamed = 0;
    let name = |item: &SelectItem| {
        let alias = item.alias.as_ref().map(|alias| alias.text.as_str());
        match alias.or_else(|| output_name(&item.expr)) {
            Some(name) => name.to_owned(),
            None => {
                unnamed += 1;
                format!("${unnamed}")
            }
        }
    };
    items.iter().map(name).collect()
}

/// The name that an expression gives its value: that of a variable or of the last step of a path.
fn output_name(expr: &ast::Expr) -> Option<&str> {
    if let ExprKind::Identifier(name) = &expr.kind {
        return Some(name);
    }
    if let ExprKind::Member { name, .. } = &expr.kind {
        return Some(&name.text);
    }
    if let ExprKind::Index { index, .. } = &expr.kind {
        return index.as_string_literal();
    }
    None
}

/// The aggregate that an expression calls, with its arguments.
pub(super) fn aggregate_call(expr: &ast::Expr) -> Option<(Aggregate, &[ast::Expr])> {
    if let ExprKind::Call { name, is_user_defined: false, args } = &expr.kind {
        return Aggregate::lookup(&name.text).map(|aggregate| (aggregate, args.as_slice()));
    }
    None
}
