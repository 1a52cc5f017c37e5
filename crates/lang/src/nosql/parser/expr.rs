//! Expressions, by precedence climbing.
//!
//! Two techniques limit the use of the stack for deep texts: parentheses that open an operand are
//! counted in a list instead of by recursion, and chains of AND and OR are flat. So the left-nested
//! filters that query generators write parse at any length.

use model::Value;
use model::limits::QUERY_DEPTH_MAX;

use super::super::ast::{Expr, ExprKind, LogicalOp, Name, Span, SubqueryForm, UnaryOp};
use super::super::diagnostic::Diagnostic;
use super::super::lexer::{Keyword, Symbol, TokenKind};
use super::operators::{Infix, infix_of, level};
use super::{Parsed, Parser};

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.expr_from(level::LOOSEST)
    }

    /// An expression of operators that bind at least as tightly as `loosest`.
    fn expr_from(&mut self, loosest: u8) -> Parsed<Expr> {
        self.nested(|parser| {
            let mut loosest = loosest;
            let mut open: Vec<(Span, u8)> = Vec::new();
            while parser.is_group() {
                open.push((parser.bump().span, loosest));
                loosest = level::LOOSEST;
            }
            let mut expr = parser.operand()?;
            loop {
                expr = parser.operators(expr, loosest)?;
                let Some((start, outside)) = open.pop() else { return Ok(expr) };
                expr.span = start.to(parser.expect_symbol(Symbol::CloseParen)?);
                expr = parser.postfix(expr)?;
                loosest = outside;
            }
        })
    }

    /// Whether a parenthesis around an expression comes next, rather than one around a query.
    fn is_group(&self) -> bool {
        self.is_symbol(Symbol::OpenParen)
            && self.peek_second() != TokenKind::Keyword(Keyword::Select)
    }

    /// The operators that follow `left`, as long as they bind at least as tightly as `loosest`.
    fn operators(&mut self, mut left: Expr, loosest: u8) -> Parsed<Expr> {
        // IN, BETWEEN and LIKE do not chain, and cannot be operands of tighter operators.
        let mut tightest = level::UNARY;
        while let Some((infix, level)) = infix_of(self.peek()) {
            if level < loosest || level > tightest {
                break;
            }
            if level == level::PREDICATE {
                tightest = level::AND;
            }
            left = self.apply(infix, level, left)?;
        }
        Ok(left)
    }

    fn apply(&mut self, infix: Infix, level: u8, left: Expr) -> Parsed<Expr> {
        match infix {
            Infix::Binary(op) => {
                self.bump();
                let right = self.expr_from(level + 1)?;
                let span = left.span.to(right.span);
                Expr::new(
                    ExprKind::Binary { op, left: Box::new(left), right: Box::new(right) },
                    span,
                )
            }
            Infix::Logical(op) => {
                self.bump();
                let right = self.expr_from(level + 1)?;
                joined(op, left, right)
            }
            Infix::Conditional => self.conditional(left),
            Infix::Predicate => self.predicate(left),
        }
    }

    fn conditional(&mut self, condition: Expr) -> Parsed<Expr> {
        self.expect_symbol(Symbol::Question)?;
        let then = self.expr()?;
        self.expect_symbol(Symbol::Colon)?;
        let otherwise = self.expr_from(level::CONDITIONAL)?;
        let span = condition.span.to(otherwise.span);
        Expr::new(
            ExprKind::Conditional {
                condition: Box::new(condition),
                then: Box::new(then),
                otherwise: Box::new(otherwise),
            },
            span,
        )
    }

    fn predicate(&mut self, operand: Expr) -> Parsed<Expr> {
        let is_negated = self.eat_keyword(Keyword::Not).is_some();
        let start = operand.span;
        let operand = Box::new(operand);
        let kind = if self.eat_keyword(Keyword::In).is_some() {
            self.expect_symbol(Symbol::OpenParen)?;
            let list = self.comma_separated(Self::expr)?;
            self.expect_symbol(Symbol::CloseParen)?;
            ExprKind::In { needle: operand, list, is_negated }
        } else if self.eat_keyword(Keyword::Between).is_some() {
            let low = Box::new(self.expr_from(level::CONCAT)?);
            self.expect_keyword(Keyword::And)?;
            let high = Box::new(self.expr_from(level::CONCAT)?);
            ExprKind::Between { operand, low, high, is_negated }
        } else {
            self.expect_keyword(Keyword::Like)?;
            let pattern = Box::new(self.expr_from(level::CONCAT)?);
            ExprKind::Like { operand, pattern, escape: self.escape()?, is_negated }
        };
        Expr::new(kind, start.to(self.previous))
    }

    fn escape(&mut self) -> Parsed<Option<char>> {
        if self.eat_keyword(Keyword::Escape).is_none() {
            return Ok(None);
        }
        let Some(text) = self.eat_string() else { return Err(self.unexpected()) };
        let mut chars = text.text.chars();
        match (chars.next(), chars.next()) {
            (Some(only), None) => Ok(Some(only)),
            _ => Err(Diagnostic::unexpected(self.text_of(text.span), text.span)),
        }
    }

    /// Prefix operators and their operand.
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other token is a prefix operator")]
    fn operand(&mut self) -> Parsed<Expr> {
        let start = self.next_token().span;
        let (op, tightness) = match self.peek() {
            // NOT applies to a whole comparison, which is what users expect.
            TokenKind::Keyword(Keyword::Not) => (UnaryOp::Not, level::PREDICATE),
            TokenKind::Symbol(Symbol::Minus) => {
                if self.peek_second() == TokenKind::Number {
                    return self.negative_number();
                }
                (UnaryOp::Negate, level::UNARY)
            }
            TokenKind::Symbol(Symbol::Plus) => (UnaryOp::Plus, level::UNARY),
            TokenKind::Symbol(Symbol::Tilde) => (UnaryOp::BitNot, level::UNARY),
            _ => {
                let primary = self.primary()?;
                return self.postfix(primary);
            }
        };
        self.bump();
        let operand = Box::new(self.expr_from(tightness)?);
        let span = start.to(operand.span);
        match negative_literal(op, &operand) {
            Some(value) => literal(Some(value), span),
            None => Expr::new(ExprKind::Unary { op, operand }, span),
        }
    }

    fn negative_number(&mut self) -> Parsed<Expr> {
        let start = self.bump().span;
        let digits = self.bump().span;
        let value = number_value(&format!("-{}", self.text_of(digits)));
        Expr::new(ExprKind::Literal(Some(value)), start.to(digits))
    }

    /// Members and indexes after `base`.
    pub(super) fn postfix(&mut self, mut base: Expr) -> Parsed<Expr> {
        loop {
            let start = base.span;
            if self.eat_symbol(Symbol::Dot).is_some() {
                let name = self.property_name()?;
                let span = start.to(name.span);
                base = Expr::new(ExprKind::Member { base: Box::new(base), name }, span)?;
            } else if self.eat_symbol(Symbol::OpenBracket).is_some() {
                let index = Box::new(self.expr()?);
                let span = start.to(self.expect_symbol(Symbol::CloseBracket)?);
                base = Expr::new(ExprKind::Index { base: Box::new(base), index }, span)?;
            } else {
                return Ok(base);
            }
        }
    }

    /// A name after a dot: words that became reserved later, or that are reserved but unused, are
    /// allowed there.
    fn property_name(&mut self) -> Parsed<Name> {
        let is_late_word = matches!(
            self.peek(),
            TokenKind::Keyword(
                Keyword::Cross
                    | Keyword::For
                    | Keyword::Group
                    | Keyword::Having
                    | Keyword::Inner
                    | Keyword::Is
                    | Keyword::Let
                    | Keyword::Limit
                    | Keyword::Offset
                    | Keyword::Over
                    | Keyword::Rank
                    | Keyword::Set
            )
        );
        if is_late_word {
            return Ok(self.take_word());
        }
        self.eat_name().ok_or_else(|| self.unexpected())
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let span = self.next_token().span;
        match self.peek() {
            TokenKind::Number => {
                self.bump();
                literal(Some(number_value(self.text_of(span))), span)
            }
            TokenKind::String => match self.eat_string() {
                Some(text) => literal(Some(Value::String(text.text)), span),
                None => Err(self.unexpected()),
            },
            TokenKind::Parameter => {
                let name = self.take_word();
                Expr::new(ExprKind::Parameter(name.text), span)
            }
            TokenKind::Identifier => self.name_or_call(),
            TokenKind::Keyword(keyword) => self.keyword_operand(keyword),
            TokenKind::Symbol(Symbol::OpenParen) => self.subquery(SubqueryForm::Scalar),
            TokenKind::Symbol(Symbol::OpenBracket) => self.array(),
            TokenKind::Symbol(Symbol::OpenBrace) => self.object(),
            TokenKind::Symbol(_) | TokenKind::Invalid | TokenKind::End => Err(self.unexpected()),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "no other keyword begins an operand")]
    fn keyword_operand(&mut self, keyword: Keyword) -> Parsed<Expr> {
        match keyword {
            Keyword::True => self.constant(Some(Value::Bool(true))),
            Keyword::False => self.constant(Some(Value::Bool(false))),
            Keyword::Null => self.constant(Some(Value::Null)),
            Keyword::Undefined => self.constant(None),
            Keyword::Udf => self.user_defined_call(),
            Keyword::Exists => self.query_or_call(SubqueryForm::Exists),
            Keyword::Array => self.query_or_call(SubqueryForm::Array),
            Keyword::All => self.query_or_call(SubqueryForm::All),
            Keyword::First => self.query_or_call(SubqueryForm::First),
            Keyword::Last => self.query_or_call(SubqueryForm::Last),
            Keyword::Left | Keyword::Right if self.opens_call() => self.call(false),
            _ => Err(self.unexpected()),
        }
    }

    fn constant(&mut self, value: Option<Value>) -> Parsed<Expr> {
        let span = self.bump().span;
        literal(value, span)
    }

    fn opens_call(&self) -> bool {
        self.peek_second() == TokenKind::Symbol(Symbol::OpenParen)
    }

    /// A keyword before a subquery. Before other parentheses or alone most of them are names.
    fn query_or_call(&mut self, form: SubqueryForm) -> Parsed<Expr> {
        let has_query =
            self.opens_call() && self.peek_third() == TokenKind::Keyword(Keyword::Select);
        if has_query {
            let start = self.bump().span;
            let mut subquery = self.subquery(form)?;
            subquery.span = start.to(subquery.span);
            return Ok(subquery);
        }
        match form {
            SubqueryForm::All | SubqueryForm::First | SubqueryForm::Last => self.name_or_call(),
            SubqueryForm::Array if self.opens_call() => self.call(false),
            SubqueryForm::Exists | SubqueryForm::Array | SubqueryForm::Scalar => {
                self.bump();
                self.eat_symbol(Symbol::OpenParen);
                Err(self.unexpected())
            }
        }
    }

    fn subquery(&mut self, form: SubqueryForm) -> Parsed<Expr> {
        let start = self.expect_symbol(Symbol::OpenParen)?;
        let query = Box::new(self.nested(Self::query)?);
        let span = start.to(self.expect_symbol(Symbol::CloseParen)?);
        Expr::new(ExprKind::Subquery { form, query }, span)
    }

    fn name_or_call(&mut self) -> Parsed<Expr> {
        if self.opens_call() {
            return self.call(false);
        }
        let name = self.take_word();
        match name.text.as_str() {
            "NaN" => literal(Some(Value::Double(f64::NAN)), name.span),
            "Infinity" => literal(Some(Value::Double(f64::INFINITY)), name.span),
            _ => Expr::new(ExprKind::Identifier(name.text), name.span),
        }
    }

    fn user_defined_call(&mut self) -> Parsed<Expr> {
        let start = self.bump().span;
        self.expect_symbol(Symbol::Dot)?;
        if self.peek() != TokenKind::Identifier {
            return Err(self.unexpected());
        }
        let mut call = self.call(true)?;
        call.span = start.to(call.span);
        Ok(call)
    }

    fn call(&mut self, is_user_defined: bool) -> Parsed<Expr> {
        let name = self.take_word();
        self.expect_symbol(Symbol::OpenParen)?;
        let args = if self.is_symbol(Symbol::CloseParen) {
            Vec::new()
        } else {
            self.comma_separated(Self::expr)?
        };
        let span = name.span.to(self.expect_symbol(Symbol::CloseParen)?);
        Expr::new(ExprKind::Call { name, is_user_defined, args }, span)
    }

    fn array(&mut self) -> Parsed<Expr> {
        let start = self.expect_symbol(Symbol::OpenBracket)?;
        let elements = if self.is_symbol(Symbol::CloseBracket) {
            Vec::new()
        } else {
            self.comma_separated(Self::expr)?
        };
        let span = start.to(self.expect_symbol(Symbol::CloseBracket)?);
        Expr::new(ExprKind::Array(elements), span)
    }

    fn object(&mut self) -> Parsed<Expr> {
        let start = self.expect_symbol(Symbol::OpenBrace)?;
        let fields = if self.is_symbol(Symbol::CloseBrace) {
            Vec::new()
        } else {
            self.comma_separated(Self::field)?
        };
        let span = start.to(self.expect_symbol(Symbol::CloseBrace)?);
        Expr::new(ExprKind::Object(fields), span)
    }

    fn field(&mut self) -> Parsed<(Name, Expr)> {
        let name = self.eat_string().or_else(|| self.eat_name());
        let Some(name) = name else { return Err(self.unexpected()) };
        self.expect_symbol(Symbol::Colon)?;
        Ok((name, self.expr()?))
    }
}

fn literal(value: Option<Value>, span: Span) -> Parsed<Expr> {
    Expr::new(ExprKind::Literal(value), span)
}

/// The literal that a minus before a parenthesized literal makes, as it does without parentheses.
fn negative_literal(op: UnaryOp, operand: &Expr) -> Option<Value> {
    let ExprKind::Literal(Some(value)) = &operand.kind else { return None };
    if op != UnaryOp::Negate {
        return None;
    }
    if let Value::Int64(integer) = value {
        return integer.checked_neg().map(Value::Int64);
    }
    if let Value::Double(number) = value {
        return number.is_finite().then_some(Value::Double(-number));
    }
    None
}

/// `left op right`, as one flat chain if `left` is such a chain already.
fn joined(op: LogicalOp, left: Expr, right: Expr) -> Parsed<Expr> {
    let span = left.span.to(right.span);
    let depth = left.depth.max(right.depth + 1);
    let mut chain = left;
    if let ExprKind::Logical { op: chain_op, operands } = &mut chain.kind
        && *chain_op == op
        && depth <= QUERY_DEPTH_MAX
    {
        operands.push(right);
        return Ok(Expr { kind: chain.kind, span, depth });
    }
    Expr::new(ExprKind::Logical { op, operands: vec![chain, right] }, span)
}

/// The value of a number's text: an int64 where it is an integer in range, else a double.
pub(super) fn number_value(text: &str) -> Value {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        return match i64::from_str_radix(&format!("{sign}{hex}"), 16) {
            Ok(integer) => Value::Int64(integer),
            Err(_) => Value::Double(hex_double(hex) * if sign.is_empty() { 1.0 } else { -1.0 }),
        };
    }
    match text.parse::<i64>() {
        Ok(integer) => Value::Int64(integer),
        Err(_) => Value::Double(text.parse().unwrap_or(f64::NAN)),
    }
}

fn hex_double(hex: &str) -> f64 {
    let digits = hex.chars().filter_map(|c| c.to_digit(16));
    digits.fold(0.0, |value, digit| value * 16.0 + f64::from(digit))
}
