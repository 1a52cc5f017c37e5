//! Tree to algebra: names are resolved, parameters bound, clauses checked, constants folded.
//!
//! Whatever the executor cannot run yet ends here with a "not supported" error at its place, so
//! that no query gets a wrong answer. Mistakes in the text are reported before that.

mod expr;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::Value;
use query::algebra::{Clauses, Expr, Projection, Source, Window};
use query::{Budget, Plan};

use super::ast;
use super::ast::{Collection, CountValue, ExprKind, Select, SelectItem, Span};
use super::diagnostic::Diagnostic;

type Lowered<T> = Result<T, Diagnostic>;

/// The plan of `query` with these parameters.
pub(super) fn lower_query(query: &ast::Query, parameters: &[(String, Value)]) -> Lowered<Plan> {
    let mut lowering = Lowering::new(parameters);
    let source = lowering.source(&query.from)?;
    let filter = match &query.filter {
        Some(filter) => Some(lowering.expr(filter)?),
        None => None,
    };
    let projection = lowering.projection(&query.select, &source)?;
    let top = match &query.top {
        Some(count) => Some(lowering.count(count, &TOP)?),
        None => None,
    };
    let window = lowering.window(query)?;
    lowering.refuse_unsupported(query)?;
    Ok(Plan::new(Clauses { source, filter, projection, top, window }))
}

struct Lowering<'a> {
    parameters: BTreeMap<&'a str, Arc<Value>>,
    /// Visible names, by the position of their source.
    variables: Vec<String>,
    /// Work granted to folding constants in the whole query.
    budget: Budget,
}

/// A clause that takes a count, and what its errors are.
struct CountClause {
    name: &'static str,
    too_large_code: &'static str,
    too_large: &'static str,
}

const TOP: CountClause = CountClause {
    name: "TOP",
    too_large_code: "SC2060",
    too_large: "The count value provided for a TOP clause must be an integer.",
};
const OFFSET: CountClause = CountClause {
    name: "OFFSET",
    too_large_code: "SC2062",
    too_large: "The OFFSET count value exceeds the maximum allowed value.",
};
const LIMIT: CountClause = CountClause {
    name: "LIMIT",
    too_large_code: "SC2061",
    too_large: "The LIMIT count value exceeds the maximum allowed value.",
};

impl<'a> Lowering<'a> {
    fn new(parameters: &'a [(String, Value)]) -> Self {
        let parameters = parameters.iter();
        Self {
            parameters: parameters.map(|(name, v)| (name.as_str(), Arc::new(v.clone()))).collect(),
            variables: Vec::new(),
            budget: Budget::per_item(),
        }
    }

    fn source(&mut self, from: &[ast::Source]) -> Lowered<Source> {
        let (source, joins) = match from {
            [] => return Ok(Source::Nothing),
            [source, joins @ ..] => (source, joins),
        };
        if let Some(join) = joins.first() {
            return Err(Diagnostic::not_supported("JOIN", join.span));
        }
        if source.is_iteration {
            return Err(Diagnostic::not_supported("IN in the FROM clause", source.span));
        }
        let path = match &source.collection {
            Collection::Path(path) => path,
            Collection::Subquery(query) => {
                return Err(Diagnostic::not_supported("a subquery", query.span));
            }
        };
        // The root of a path names the container, whatever it is called.
        self.variables = vec![root_name(path).to_owned()];
        let part = self.expr(path)?;
        let alias = source.alias.as_ref().map(|alias| alias.text.as_str());
        self.variables =
            alias.or_else(|| output_name(path)).map(str::to_owned).into_iter().collect();
        Ok(if matches!(part, Expr::Variable(_)) { Source::Item } else { Source::Part(part) })
    }

    fn projection(&self, select: &Select, source: &Source) -> Lowered<Projection> {
        match select {
            Select::Star(span) if matches!(source, Source::Nothing) => {
                let message = "'SELECT *' is not valid if FROM clause is omitted.".to_owned();
                Err(Diagnostic::syntax("SC2040", message, *span))
            }
            Select::Star(_) => Ok(Projection::Value(Expr::Variable(0))),
            Select::Value(value) => Ok(Projection::Value(self.expr(value)?)),
            Select::List(items) => self.fields(items),
        }
    }

    fn fields(&self, items: &[SelectItem]) -> Lowered<Projection> {
        let mut names = BTreeSet::new();
        let mut fields = Vec::with_capacity(items.len());
        for (name, item) in select_names(items).into_iter().zip(items) {
            if !names.insert(name.clone()) {
                let message = format!("Property name '{name}' is specified more than once.");
                let span = item.alias.as_ref().map_or(item.expr.span, |alias| alias.span);
                return Err(Diagnostic::syntax("SC2022", message, span));
            }
            fields.push((name, self.expr(&item.expr)?));
        }
        Ok(Projection::Fields(fields))
    }

    fn window(&self, query: &ast::Query) -> Lowered<Option<Window>> {
        let Some(window) = &query.window else { return Ok(None) };
        if query.top.is_some() {
            let keyword = Span::new(window.span.start, window.span.start + "OFFSET".len());
            return Err(Diagnostic::unexpected("OFFSET", keyword));
        }
        let offset = self.count(&window.offset, &OFFSET)?;
        let limit = self.count(&window.limit, &LIMIT)?;
        Ok(Some(Window { offset, limit }))
    }

    /// A count of rows: a whole number below 2^32.
    fn count(&self, count: &ast::Count, clause: &CountClause) -> Lowered<u64> {
        let value = match &count.value {
            CountValue::Number(value) => Some(value),
            CountValue::Parameter(name) => self.parameters.get(name.as_str()).map(|value| &**value),
        };
        let is_count = value.and_then(Value::as_f64).is_some_and(|n| n >= 0.0 && n.fract() == 0.0);
        let number = value.and_then(Value::as_i64).and_then(|n| u32::try_from(n).ok());
        match number {
            Some(number) => Ok(u64::from(number)),
            None if is_count => Err(Diagnostic::syntax(
                clause.too_large_code,
                clause.too_large.to_owned(),
                count.span,
            )),
            None => {
                let name = clause.name;
                let message =
                    format!("The count value provided for a {name} clause must be an integer.");
                Err(Diagnostic::syntax("SC2060", message, count.span))
            }
        }
    }

    /// Fails on the first clause that the executor does not run yet, once their names resolve.
    fn refuse_unsupported(&self, query: &ast::Query) -> Lowered<()> {
        if let Some(span) = query.distinct {
            return Err(Diagnostic::not_supported("DISTINCT", span));
        }
        if let Some(key) = query.group_by.first() {
            self.expr(key)?;
            return Err(Diagnostic::not_supported("GROUP BY", key.span));
        }
        if let Some(order_by) = &query.order_by {
            for item in &order_by.items {
                self.expr(&item.expr)?;
            }
            let clause = if order_by.is_rank { "ORDER BY RANK" } else { "ORDER BY" };
            return Err(Diagnostic::not_supported(clause, order_by.span));
        }
        Ok(())
    }

    fn variable(&self, name: &str, span: Span) -> Lowered<Expr> {
        match self.variables.iter().position(|variable| variable == name) {
            Some(slot) => Ok(Expr::Variable(slot)),
            None => {
                let message = format!("Identifier '{name}' could not be resolved.");
                Err(Diagnostic::syntax("SC2001", message, span))
            }
        }
    }
}

/// The output names of a select list: as given, else the last step of a path, else numbered.
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

/// The identifier that a path begins with.
fn root_name(path: &ast::Expr) -> &str {
    let mut root = path;
    while let Some(base) = root.path_base() {
        root = base;
    }
    output_name(root).unwrap_or_default()
}
