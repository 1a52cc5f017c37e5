//! Lowers expressions to algebra.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::Value;
use model::limits::{QUERY_AGGREGATES_MAX, QUERY_UDFS_MAX};
use query::algebra::{BinaryOp, Expr, LikePattern, SubqueryForm, UnaryOp};
use query::functions::{self, date::CurrentTime};
use query::like::Pattern;
use query::plan::AggregateCall;

use super::super::ast::{self, ExprKind, LogicalOp, Name, Span};
use super::super::diagnostic::Diagnostic;
use super::{AggregateUse, Lowered, Lowering, Purpose, aggregate_call, has_aggregate, search};

impl Lowering<'_> {
    /// Lowers an expression. Deep expressions recurse here, so this must use little stack: operands
    /// are lowered first, and combined by functions that have returned by the next recursion.
    pub(super) fn expr(&mut self, expr: &ast::Expr) -> Lowered<Expr> {
        let lowered = if expr.is_leaf() {
            self.leaf(expr)?
        } else if let ExprKind::Subquery { .. } = expr.kind {
            self.subquery(expr)?
        } else if aggregate_call(expr).is_some() {
            self.aggregate(expr)?
        } else {
            let mut operands = Vec::new();
            for operand in expr.children() {
                operands.push(self.expr(operand)?);
            }
            self.combine(expr, operands)?
        };
        Ok(lowered.folded(&self.budget))
    }

    fn leaf(&self, expr: &ast::Expr) -> Lowered<Expr> {
        if let ExprKind::Identifier(name) = &expr.kind {
            return self.variable(name, expr.span);
        }
        if let ExprKind::Parameter(name) = &expr.kind {
            return Ok(Expr::Constant(self.parameters.get(name.as_str()).cloned()));
        }
        let value = if let ExprKind::Literal(value) = &expr.kind { value.clone() } else { None };
        Ok(Expr::Constant(value.map(Arc::new)))
    }

    fn subquery(&mut self, expr: &ast::Expr) -> Lowered<Expr> {
        let ExprKind::Subquery { form, query } = &expr.kind else { return self.leaf(expr) };
        let select = Box::new(self.subselect(query)?);
        Ok(Expr::Subquery { form: subquery_form(*form), select })
    }

    /// An operation on its operands, in the order of [`ast::Expr::children`].
    pub(super) fn combine(&mut self, expr: &ast::Expr, operands: Vec<Expr>) -> Lowered<Expr> {
        let ExprKind::Call { name, is_user_defined, .. } = &expr.kind else {
            return self.with_computed(operation(expr, operands));
        };
        match is_user_defined {
            true => self.user_call(name, operands, expr.span),
            false => self.call(name, operands, expr.span),
        }
    }

    fn user_call(&mut self, name: &Name, args: Vec<Expr>, span: Span) -> Lowered<Expr> {
        self.user_calls += 1;
        if self.user_calls > QUERY_UDFS_MAX {
            let message = format!(
                "The SQL query exceeded the maximum number of user-defined function calls. The \
                 allowed limit is {QUERY_UDFS_MAX}."
            );
            return Err(Diagnostic::syntax("SC3005", message, span));
        }
        match self.purpose {
            Purpose::Planning => {
                Ok(Expr::UserFunction { name: name.text.clone(), args, functions: None })
            }
            Purpose::Running => {
                let name = name.text.clone();
                let Some(functions) = self.environment.user_functions.clone() else {
                    let message =
                        format!("'udf.{name}' is not a recognized user-defined function name.");
                    return Err(Diagnostic::syntax("SC2005", message, span));
                };
                functions.0.announce();
                Ok(Expr::UserFunction { name, args, functions: Some(functions) })
            }
        }
    }

    fn call(&self, name: &Name, mut args: Vec<Expr>, span: Span) -> Lowered<Expr> {
        if let Some(value) = self.environment_call(name, &args, span)? {
            return Ok(value);
        }
        let Some(function) = functions::lookup_in(&name.text, self.environment.geospatial) else {
            return Err(unknown_function(name));
        };
        check_arity(function.name(), function.args_min(), function.args_max(), &args, span)?;
        if search::is_search(function) {
            return self.search(function, args, span);
        }
        if function.name() == "DocumentId" {
            args = vec![rid_of(args)];
        }
        Expr::call(function, args).map_err(|reason| {
            let name = function.name();
            let message = format!("The pattern of the {name} function can't be used: {reason}.");
            Diagnostic::syntax("SC2990", message, span)
        })
    }

    /// A function of the environment in which the query runs.
    fn environment_call(&self, name: &Name, args: &[Expr], span: Span) -> Lowered<Option<Expr>> {
        if name.text.eq_ignore_ascii_case("RAND") {
            check_arity("RAND", 0, Some(0), args, span)?;
            return Ok(Some(Expr::Random(self.random.clone())));
        }
        let Some((current_time, min, max)) = CurrentTime::lookup(&name.text) else {
            return Ok(None);
        };
        check_arity(&name.text, min, Some(max), args, span)?;
        let constant = |at: usize| {
            if let Some(Expr::Constant(Some(value))) = args.get(at) { Some(&**value) } else { None }
        };
        let is_constant = |arg: &Expr| matches!(arg, Expr::Constant(_));
        if !args.iter().all(is_constant) {
            let what = format!("arguments of {} that depend on a row", name.text);
            return Err(Diagnostic::not_supported(&what, span));
        }
        let part = constant(0).and_then(Value::as_str);
        let count = constant(1).and_then(Value::as_i64);
        // A single argument does not determine a moment.
        let value = if args.len() == 1 { None } else { current_time.value(self.now, part, count) };
        Ok(Some(Expr::Constant(value.map(Arc::new))))
    }

    /// An aggregate: a variable of the group, if rows are grouped.
    fn aggregate(&mut self, expr: &ast::Expr) -> Lowered<Expr> {
        let Some((aggregate, args)) = aggregate_call(expr) else { return self.expr(expr) };
        let [arg] = args else {
            let message = arity_message(aggregate.function(), 1, Some(1));
            return Err(Diagnostic::syntax("SC2050", message, expr.span));
        };
        let (start, mut calls) = match std::mem::replace(&mut self.aggregates, AggregateUse::Nested)
        {
            AggregateUse::Refused(clause) => {
                let message =
                    format!("Aggregate functions are not allowed in the {clause} clause.");
                return Err(Diagnostic::syntax("SC2100", message, expr.span));
            }
            AggregateUse::Nested => return Err(nested_aggregate(expr.span)),
            AggregateUse::Collected { start, calls } => (start, calls),
        };
        if has_aggregate(arg) || (!self.is_nested && has_subquery(arg)) {
            return Err(nested_aggregate(expr.span));
        }
        let call = AggregateCall { aggregate, operand: self.expr(arg)? };
        let at = calls.iter().position(|known| *known == call).unwrap_or(calls.len());
        if at == QUERY_AGGREGATES_MAX {
            let what = format!("more than {QUERY_AGGREGATES_MAX} aggregates");
            return Err(Diagnostic::not_supported(&what, expr.span));
        }
        if at == calls.len() {
            calls.push(call);
        }
        self.aggregates = AggregateUse::Collected { start, calls };
        Ok(Expr::Variable(start + at))
    }
}

/// An operation other than a call on its operands, in the order of [`ast::Expr::children`].
fn operation(expr: &ast::Expr, operands: Vec<Expr>) -> Expr {
    let mut operands = operands.into_iter();
    let mut next = || Box::new(operands.next().unwrap_or(Expr::Constant(None)));
    match &expr.kind {
        ExprKind::Member { name, .. } => Expr::Property { base: next(), name: name.text.clone() },
        ExprKind::Index { .. } => element(next(), *next()),
        ExprKind::Unary { op, .. } => unary(*op, next()),
        ExprKind::Binary { op, .. } => binary(*op, next(), next()),
        ExprKind::Conditional { .. } => {
            Expr::Conditional { condition: next(), then: next(), otherwise: next() }
        }
        ExprKind::Between { is_negated, .. } => {
            let between = Expr::Between { operand: next(), low: next(), high: next() };
            negated_if(*is_negated, between)
        }
        ExprKind::Like { escape, is_negated, .. } => {
            let (operand, text) = (next(), *next());
            negated_if(*is_negated, Expr::Like { operand, pattern: like_pattern(text, *escape) })
        }
        ExprKind::In { is_negated, .. } => {
            let needle = next();
            negated_if(*is_negated, Expr::In { needle, list: operands.collect() })
        }
        ExprKind::Logical { op: LogicalOp::And, .. } => Expr::And(operands.collect()),
        ExprKind::Logical { op: LogicalOp::Or, .. } => Expr::Or(operands.collect()),
        ExprKind::Array(_) => Expr::Array(operands.collect()),
        ExprKind::Object(fields) => {
            object(fields.iter().map(|(name, _)| name.text.clone()).zip(operands).collect())
        }
        ExprKind::Call { .. }
        | ExprKind::Literal(_)
        | ExprKind::Parameter(_)
        | ExprKind::Identifier(_)
        | ExprKind::Subquery { .. } => *next(),
    }
}

fn has_subquery(expr: &ast::Expr) -> bool {
    matches!(expr.kind, ExprKind::Subquery { .. }) || expr.children().into_iter().any(has_subquery)
}

fn nested_aggregate(span: Span) -> Diagnostic {
    let message = "Cannot perform an aggregate function on an expression containing an aggregate \
                   or a subquery.";
    Diagnostic::syntax("SC2101", message.to_owned(), span)
}

fn element(base: Box<Expr>, index: Expr) -> Expr {
    if let Expr::Constant(Some(name)) = &index
        && let Some(name) = name.as_str()
    {
        return Expr::Property { base, name: name.to_owned() };
    }
    Expr::Element { base, index: Box::new(index) }
}

/// An object. Only an object with unique names may be written field by field, so an object that
/// repeats a name is hidden inside another expression.
fn object(fields: Vec<(String, Expr)>) -> Expr {
    let names: BTreeSet<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    let is_unique = names.len() == fields.len();
    let object = Expr::Object(fields);
    match is_unique {
        true => object,
        false => Expr::Coalesce(Box::new(object), Box::new(Expr::Constant(None))),
    }
}

fn subquery_form(form: ast::SubqueryForm) -> SubqueryForm {
    match form {
        ast::SubqueryForm::Scalar => SubqueryForm::Scalar,
        ast::SubqueryForm::Exists => SubqueryForm::Exists,
        ast::SubqueryForm::Array => SubqueryForm::Array,
        ast::SubqueryForm::All => SubqueryForm::All,
        ast::SubqueryForm::First => SubqueryForm::First,
        ast::SubqueryForm::Last => SubqueryForm::Last,
    }
}

fn unknown_function(name: &Name) -> Diagnostic {
    let text = &name.text;
    if text.eq_ignore_ascii_case("FullTextScore") {
        let message = "The FullTextScore function is only allowed in the ORDER BY RANK clause.";
        return Diagnostic::syntax("SC2240", message.to_owned(), name.span);
    }
    let message = format!("'{text}' is not a recognized built-in function name.");
    Diagnostic::syntax("SC2005", message, name.span)
}

fn check_arity(
    name: &str,
    min: usize,
    max: Option<usize>,
    args: &[Expr],
    span: Span,
) -> Lowered<()> {
    match args.len() >= min && max.is_none_or(|max| args.len() <= max) {
        true => Ok(()),
        false => Err(Diagnostic::syntax("SC2050", arity_message(name, min, max), span)),
    }
}

/// The resource id of the item, from which its number is read. Expressions other than the item have
/// none.
fn rid_of(args: Vec<Expr>) -> Expr {
    match args.into_iter().next() {
        Some(item @ Expr::Variable(0)) => {
            Expr::Property { base: Box::new(item), name: "_rid".to_owned() }
        }
        _ => Expr::Constant(None),
    }
}

fn arity_message(name: &str, min: usize, max: Option<usize>) -> String {
    match max {
        None => format!("The {name} function requires at least {min} argument(s)."),
        Some(max) if max == min => format!("The {name} function requires {min} argument(s)."),
        Some(max) => format!("The {name} function requires {min} to {max} argument(s)."),
    }
}

fn negated_if(is_negated: bool, expr: Expr) -> Expr {
    if is_negated { Expr::Not(Box::new(expr)) } else { expr }
}

fn like_pattern(text: Expr, escape: Option<char>) -> LikePattern {
    if let Expr::Constant(Some(constant)) = &text
        && let Some(known) = constant.as_str()
    {
        return LikePattern::Compiled(Pattern::compile(known, escape));
    }
    LikePattern::Computed { text: Box::new(text), escape }
}

fn unary(op: ast::UnaryOp, operand: Box<Expr>) -> Expr {
    let op = match op {
        ast::UnaryOp::Not => return Expr::Not(operand),
        ast::UnaryOp::Negate => UnaryOp::Negate,
        ast::UnaryOp::Plus => UnaryOp::Plus,
        ast::UnaryOp::BitNot => UnaryOp::BitNot,
    };
    Expr::Unary { op, operand }
}

fn binary(op: ast::BinaryOp, left: Box<Expr>, right: Box<Expr>) -> Expr {
    let op = match op {
        ast::BinaryOp::Coalesce => return Expr::Coalesce(left, right),
        ast::BinaryOp::Multiply => BinaryOp::Multiply,
        ast::BinaryOp::Divide => BinaryOp::Divide,
        ast::BinaryOp::Remainder => BinaryOp::Remainder,
        ast::BinaryOp::Add => BinaryOp::Add,
        ast::BinaryOp::Subtract => BinaryOp::Subtract,
        ast::BinaryOp::ShiftLeft => BinaryOp::ShiftLeft,
        ast::BinaryOp::ShiftRight => BinaryOp::ShiftRight,
        ast::BinaryOp::ShiftRightUnsigned => BinaryOp::ShiftRightUnsigned,
        ast::BinaryOp::Less => BinaryOp::Less,
        ast::BinaryOp::LessOrEqual => BinaryOp::LessOrEqual,
        ast::BinaryOp::Greater => BinaryOp::Greater,
        ast::BinaryOp::GreaterOrEqual => BinaryOp::GreaterOrEqual,
        ast::BinaryOp::Equal => BinaryOp::Equal,
        ast::BinaryOp::NotEqual => BinaryOp::NotEqual,
        ast::BinaryOp::BitAnd => BinaryOp::BitAnd,
        ast::BinaryOp::BitXor => BinaryOp::BitXor,
        ast::BinaryOp::BitOr => BinaryOp::BitOr,
        ast::BinaryOp::Concat => BinaryOp::Concat,
    };
    Expr::Binary { op, left, right }
}
