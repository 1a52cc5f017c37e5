//! Expressions to algebra.

use std::sync::Arc;

use query::algebra::{BinaryOp, Expr, LikePattern, UnaryOp};
use query::functions;
use query::like::Pattern;

use super::super::ast::{self, ExprKind, LogicalOp, Name, Span};
use super::super::diagnostic::Diagnostic;
use super::{Lowered, Lowering};

/// Functions of the dialect that cannot be called yet. Their names are known so that using one is
/// told apart from a misspelling.
const NOT_YET: &[&str] = &[
    "AGO",
    "AVG",
    "COUNT",
    "COUNTIF",
    "DateTimeAdd",
    "DateTimeBin",
    "DateTimeDiff",
    "DateTimeFormat",
    "DateTimeFromParts",
    "DateTimePart",
    "DateTimeToTicks",
    "DateTimeToTimestamp",
    "DAY",
    "DocumentId",
    "FullTextContains",
    "FullTextContainsAll",
    "FullTextContainsAny",
    "FullTextScore",
    "GetCurrentDateTime",
    "GetCurrentDateTimeStatic",
    "GetCurrentTicks",
    "GetCurrentTicksStatic",
    "GetCurrentTimestamp",
    "GetCurrentTimestampStatic",
    "IS_DATETIME",
    "MAKELIST",
    "MAKESET",
    "MAX",
    "MIN",
    "MONTH",
    "NOW",
    "RAND",
    "RegexExtract",
    "RegexExtractAll",
    "RegexMatch",
    "RegexReplace",
    "RegexReplaceAll",
    "ST_AREA",
    "ST_DISTANCE",
    "ST_INTERSECTS",
    "ST_ISVALID",
    "ST_ISVALIDDETAILED",
    "ST_WITHIN",
    "SUM",
    "TicksToDateTime",
    "TimestampToDateTime",
    "VectorDistance",
    "YEAR",
    "_FullTextScore",
    "_FullTextWordCount",
    "_TRY_ARRAY_CONTAINS",
    "_VectorScore",
];

impl Lowering<'_> {
    pub(super) fn expr(&self, expr: &ast::Expr) -> Lowered<Expr> {
        Ok(self.unfolded(expr)?.folded(&self.budget))
    }

    fn boxed(&self, expr: &ast::Expr) -> Lowered<Box<Expr>> {
        self.expr(expr).map(Box::new)
    }

    fn exprs(&self, exprs: &[ast::Expr]) -> Lowered<Vec<Expr>> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    fn unfolded(&self, expr: &ast::Expr) -> Lowered<Expr> {
        match &expr.kind {
            ExprKind::Literal(value) => Ok(Expr::Constant(value.clone().map(Arc::new))),
            ExprKind::Parameter(name) => {
                Ok(Expr::Constant(self.parameters.get(name.as_str()).cloned()))
            }
            ExprKind::Identifier(name) => self.variable(name, expr.span),
            ExprKind::Member { base, name } => {
                Ok(Expr::Property { base: self.boxed(base)?, name: name.text.clone() })
            }
            ExprKind::Index { base, index } => self.index(base, index),
            ExprKind::Unary { op, operand } => Ok(unary(*op, self.boxed(operand)?)),
            ExprKind::Binary { op, left, right } => {
                Ok(binary(*op, self.boxed(left)?, self.boxed(right)?))
            }
            ExprKind::Logical { op, operands } => {
                let operands = self.exprs(operands)?;
                Ok(match op {
                    LogicalOp::And => Expr::And(operands),
                    LogicalOp::Or => Expr::Or(operands),
                })
            }
            ExprKind::Conditional { condition, then, otherwise } => Ok(Expr::Conditional {
                condition: self.boxed(condition)?,
                then: self.boxed(then)?,
                otherwise: self.boxed(otherwise)?,
            }),
            ExprKind::In { needle, list, is_negated } => {
                let found = Expr::In { needle: self.boxed(needle)?, list: self.exprs(list)? };
                Ok(negated_if(*is_negated, found))
            }
            ExprKind::Between { operand, low, high, is_negated } => {
                let (operand, low, high) =
                    (self.boxed(operand)?, self.boxed(low)?, self.boxed(high)?);
                Ok(negated_if(*is_negated, Expr::Between { operand, low, high }))
            }
            ExprKind::Like { operand, pattern, escape, is_negated } => {
                let pattern = like_pattern(self.expr(pattern)?, *escape);
                let like = Expr::Like { operand: self.boxed(operand)?, pattern };
                Ok(negated_if(*is_negated, like))
            }
            ExprKind::Call { name, is_user_defined: true, .. } => Err(Diagnostic::not_supported(
                &format!("the user-defined function {}", name.text),
                expr.span,
            )),
            ExprKind::Call { name, args, .. } => self.call(name, args, expr.span),
            ExprKind::Array(elements) => Ok(Expr::Array(self.exprs(elements)?)),
            ExprKind::Object(fields) => {
                let field =
                    |(name, value): &(Name, ast::Expr)| Ok((name.text.clone(), self.expr(value)?));
                Ok(Expr::Object(fields.iter().map(field).collect::<Lowered<_>>()?))
            }
            ExprKind::Subquery { .. } => Err(Diagnostic::not_supported("a subquery", expr.span)),
        }
    }

    fn index(&self, base: &ast::Expr, index: &ast::Expr) -> Lowered<Expr> {
        let (base, index) = (self.boxed(base)?, self.expr(index)?);
        if let Expr::Constant(Some(name)) = &index
            && let Some(name) = name.as_str()
        {
            return Ok(Expr::Property { base, name: name.to_owned() });
        }
        Ok(Expr::Element { base, index: Box::new(index) })
    }

    fn call(&self, name: &Name, args: &[ast::Expr], span: Span) -> Lowered<Expr> {
        let Some(function) = functions::lookup(&name.text) else {
            return Err(unknown_function(name));
        };
        let fits = args.len() >= function.args_min()
            && function.args_max().is_none_or(|max| args.len() <= max);
        if !fits {
            return Err(Diagnostic::syntax("SC2050", arity_message(function), span));
        }
        Ok(Expr::Call { function, args: self.exprs(args)? })
    }
}

fn unknown_function(name: &Name) -> Diagnostic {
    let text = &name.text;
    if let Some(known) = NOT_YET.iter().find(|known| known.eq_ignore_ascii_case(text)) {
        return Diagnostic::not_supported(&format!("the {known} function"), name.span);
    }
    let message = format!("'{text}' is not a recognized built-in function name.");
    Diagnostic::syntax("SC2005", message, name.span)
}

fn arity_message(function: &functions::Function) -> String {
    let (name, min) = (function.name(), function.args_min());
    match function.args_max() {
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
