//! Lowers FROM and JOIN to variables.

use model::limits::QUERY_JOINS_MAX;
use query::algebra::Expr;
use query::plan::{Binding, Input};

use super::super::ast::{self, Collection, ExprKind, Source};
use super::super::diagnostic::Diagnostic;
use super::{AggregateUse, Lowered, Lowering, grouping, output_name};

impl Lowering<'_> {
    /// The sources of a whole query. The first one names the container, or is a query over it.
    pub(super) fn input(&mut self, from: &[Source]) -> Lowered<(Input, Vec<Binding>)> {
        let Some(first) = from.first() else { return Ok((Input::Nothing, Vec::new())) };
        if let Collection::Subquery(query) = &first.collection
            && !is_row_by_row(query)
        {
            return self.derived(first, query, from);
        }
        if is_of_whole_items(first) {
            self.items.push(self.variables.len());
            self.variables.push(None);
            let filter = self.filter_of_items(first)?;
            let bindings = self.joins(from)?;
            self.source_filter = filter;
            return Ok((Input::Items, bindings));
        }
        // IN iterates over its elements for each item, even if they are the same for all.
        if !reads_container(first) && !first.is_iteration {
            return Ok((Input::Nothing, self.bindings(from)?));
        }
        let container = self.variables.len();
        self.items.push(container);
        self.variables.push(None);
        self.container = Some(container);
        Ok((Input::Items, self.bindings(from)?))
    }

    /// Names the variable of items by a source of whole items, and returns the condition that the
    /// queries in it have on them.
    fn filter_of_items(&mut self, source: &Source) -> Lowered<Option<Expr>> {
        let filter = match &source.collection {
            Collection::Path(_) => None,
            Collection::Subquery(query) => {
                let inner = query.from.first().map(|inner| self.filter_of_items(inner));
                let inner = inner.transpose()?.flatten();
                self.aggregates = AggregateUse::Refused("WHERE");
                let own = query.filter.as_ref().map(|filter| self.expr(filter)).transpose()?;
                // Its rows have no computed properties.
                self.items.clear();
                both(inner, own)
            }
        };
        if let Some(item) = self.variables.last_mut() {
            *item = source_name(source).map(str::to_owned);
        }
        Ok(filter)
    }

    /// A query whose rows must be complete before the rest begins.
    fn derived(
        &mut self,
        source: &Source,
        query: &ast::Query,
        from: &[Source],
    ) -> Lowered<(Input, Vec<Binding>)> {
        super::order::refuse_in_subquery(query)?;
        let inner = self.plan(query)?;
        self.variables.clear();
        self.items.clear();
        let alias = source.alias.as_ref().map(|alias| alias.text.clone());
        let mut bindings = Vec::new();
        if source.is_iteration {
            bindings.push(self.elements_of_rows());
        }
        self.variables.push(alias);
        bindings.extend(self.joins(from)?);
        Ok((Input::Rows(Box::new(inner)), bindings))
    }

    /// The sources of a query inside another one.
    pub(super) fn bindings(&mut self, from: &[Source]) -> Lowered<Vec<Binding>> {
        let Some(first) = from.first() else { return Ok(Vec::new()) };
        let mut bindings = self.source(first, &[])?;
        self.container = None;
        bindings.extend(self.joins(from)?);
        Ok(bindings)
    }

    /// The sources after the first.
    fn joins(&mut self, from: &[Source]) -> Lowered<Vec<Binding>> {
        if let Some(excess) = from.get(1 + QUERY_JOINS_MAX) {
            let message = format!(
                "The SQL query exceeded the maximum number of joins. The allowed limit is \
                 {QUERY_JOINS_MAX}."
            );
            return Err(Diagnostic::syntax("SC3003", message, excess.span));
        }
        let mut bindings = Vec::new();
        for (at, join) in from.iter().enumerate().skip(1) {
            bindings.extend(self.source(join, &from[..at])?);
        }
        Ok(bindings)
    }

    /// Lowers one source; its variable is visible from then on. IN over a subquery takes two
    /// bindings: its rows, which have no name, and the elements of those rows.
    fn source(&mut self, source: &Source, earlier: &[Source]) -> Lowered<Vec<Binding>> {
        let name = source_name(source);
        let is_taken = |other: &Source| name.is_some() && source_name(other) == name;
        if earlier.iter().any(is_taken) {
            let message = format!(
                "The input alias '{}' is specified more than once in the FROM clause.",
                name.unwrap_or_default()
            );
            return Err(Diagnostic::syntax("SC2022", message, source.span));
        }
        let bindings = match &source.collection {
            Collection::Path(path) if source.is_iteration => {
                vec![Binding::Elements(self.path(path)?)]
            }
            Collection::Path(path) => vec![Binding::Value(self.path(path)?)],
            Collection::Subquery(query) => {
                let container = self.container;
                let select = self.subselect(query)?;
                self.container = container;
                let rows = Binding::Rows(Box::new(select));
                match source.is_iteration {
                    true => vec![rows, self.elements_of_rows()],
                    false => vec![rows],
                }
            }
        };
        if let [Binding::Value(Expr::Variable(slot))] = bindings.as_slice()
            && self.items.contains(slot)
        {
            self.items.push(self.variables.len());
        }
        self.variables.push(name.map(str::to_owned));
        Ok(bindings)
    }

    /// The elements of the rows that come next, in a variable without a name. A row that is not an
    /// array has none.
    fn elements_of_rows(&mut self) -> Binding {
        let rows = self.variables.len();
        self.variables.push(None);
        Binding::Elements(Expr::Variable(rows))
    }

    /// A path whose root is a variable or, in the first source, the container.
    fn path(&mut self, path: &ast::Expr) -> Lowered<Expr> {
        let root = root_name(path);
        match self.container {
            Some(slot) if self.slot_of(root).is_none() => {
                let before = self.variables.get_mut(slot).map(|name| name.replace(root.to_owned()));
                let lowered = self.expr(path);
                if let (Some(name), Some(before)) = (self.variables.get_mut(slot), before) {
                    *name = before;
                }
                lowered
            }
            _ => self.expr(path),
        }
    }
}

/// The condition that both conditions hold.
pub(super) fn both(first: Option<Expr>, second: Option<Expr>) -> Option<Expr> {
    let operands = |condition: Expr| {
        if let Expr::And(operands) = condition { operands } else { vec![condition] }
    };
    match (first, second) {
        (Some(first), Some(second)) => {
            Some(Expr::And([operands(first), operands(second)].concat()))
        }
        (first, second) => first.or(second),
    }
}

/// Whether a first source is the container's items as they are, through queries that at most leave
/// some out: a query over such a source is one over the container.
fn is_of_whole_items(source: &Source) -> bool {
    let query = match &source.collection {
        Collection::Path(path) => return !source.is_iteration && path.path_base().is_none(),
        Collection::Subquery(query) => query,
    };
    let [inner] = query.from.as_slice() else { return false };
    let is_whole = match &query.select {
        ast::Select::Star(_) => true,
        ast::Select::Value(value) => {
            let name = if let ExprKind::Identifier(name) = &value.kind { Some(name) } else { None };
            name.is_some_and(|name| source_name(inner) == Some(name.as_str()))
        }
        ast::Select::List(_) => false,
    };
    is_whole
        && !source.is_iteration
        && query.distinct.is_none()
        && query.group_by.is_empty()
        && query.top.is_none()
        && query.order_by.is_none()
        && query.window.is_none()
        && is_of_whole_items(inner)
}

/// Whether the rows of a query depend on one item at a time.
fn is_row_by_row(query: &ast::Query) -> bool {
    let is_source_row_by_row = match query.from.first().map(|source| &source.collection) {
        Some(Collection::Subquery(inner)) => is_row_by_row(inner),
        Some(Collection::Path(_)) | None => true,
    };
    query.distinct.is_none() && !grouping::is_grouped(query) && is_source_row_by_row
}

/// Whether a first source ranges over items, directly or through queries.
fn reads_container(source: &Source) -> bool {
    match &source.collection {
        Collection::Path(_) => true,
        Collection::Subquery(query) => query.from.first().is_some_and(reads_container),
    }
}

/// The name of a source: its alias, else the last step of its path.
fn source_name(source: &Source) -> Option<&str> {
    let alias = source.alias.as_ref().map(|alias| alias.text.as_str());
    match &source.collection {
        Collection::Path(path) => alias.or_else(|| output_name(path)),
        Collection::Subquery(_) => alias,
    }
}

/// The identifier that a path begins with.
fn root_name(path: &ast::Expr) -> &str {
    let mut root = path;
    while let Some(base) = root.path_base() {
        root = base;
    }
    if let ExprKind::Identifier(name) = &root.kind { name } else { "" }
}
