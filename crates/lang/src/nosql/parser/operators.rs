//! Infix operators: their tokens and their precedence.

use super::super::ast::{BinaryOp, LogicalOp};
use super::super::lexer::{Keyword, Symbol, TokenKind};

/// Precedence levels, loosest first.
pub(super) mod level {
    pub(in super::super) const LOOSEST: u8 = 0;
    pub(in super::super) const CONDITIONAL: u8 = 1;
    pub(in super::super) const COALESCE: u8 = 2;
    pub(in super::super) const OR: u8 = 3;
    pub(in super::super) const AND: u8 = 4;
    pub(in super::super) const PREDICATE: u8 = 5;
    pub(in super::super) const CONCAT: u8 = 6;
    pub(in super::super) const BIT_OR: u8 = 7;
    pub(in super::super) const BIT_XOR: u8 = 8;
    pub(in super::super) const BIT_AND: u8 = 9;
    pub(in super::super) const EQUALITY: u8 = 10;
    pub(in super::super) const ORDER: u8 = 11;
    pub(in super::super) const SHIFT: u8 = 12;
    pub(in super::super) const SUM: u8 = 13;
    pub(in super::super) const PRODUCT: u8 = 14;
    pub(in super::super) const UNARY: u8 = 15;
}

/// A construct that may follow an operand.
#[derive(Clone, Copy)]
pub(super) enum Infix {
    Binary(BinaryOp),
    Logical(LogicalOp),
    Conditional,
    /// IN, BETWEEN or LIKE, or NOT before one of them.
    Predicate,
}

/// The operator that a token is after an operand, and its precedence.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other keyword is an operator")]
pub(super) fn infix_of(token: TokenKind) -> Option<(Infix, u8)> {
    let binary = |op, level| Some((Infix::Binary(op), level));
    match token {
        TokenKind::Keyword(keyword) => match keyword {
            Keyword::And => Some((Infix::Logical(LogicalOp::And), level::AND)),
            Keyword::Or => Some((Infix::Logical(LogicalOp::Or), level::OR)),
            Keyword::In | Keyword::Between | Keyword::Like | Keyword::Not => {
                Some((Infix::Predicate, level::PREDICATE))
            }
            _ => None,
        },
        TokenKind::Symbol(symbol) => match symbol {
            Symbol::Star => binary(BinaryOp::Multiply, level::PRODUCT),
            Symbol::Slash => binary(BinaryOp::Divide, level::PRODUCT),
            Symbol::Percent => binary(BinaryOp::Remainder, level::PRODUCT),
            Symbol::Plus => binary(BinaryOp::Add, level::SUM),
            Symbol::Minus => binary(BinaryOp::Subtract, level::SUM),
            Symbol::ShiftLeft => binary(BinaryOp::ShiftLeft, level::SHIFT),
            Symbol::ShiftRight => binary(BinaryOp::ShiftRight, level::SHIFT),
            Symbol::ShiftRightUnsigned => binary(BinaryOp::ShiftRightUnsigned, level::SHIFT),
            Symbol::Less => binary(BinaryOp::Less, level::ORDER),
            Symbol::LessOrEqual => binary(BinaryOp::LessOrEqual, level::ORDER),
            Symbol::Greater => binary(BinaryOp::Greater, level::ORDER),
            Symbol::GreaterOrEqual => binary(BinaryOp::GreaterOrEqual, level::ORDER),
            Symbol::Equal => binary(BinaryOp::Equal, level::EQUALITY),
            Symbol::NotEqual | Symbol::NotEqualC => binary(BinaryOp::NotEqual, level::EQUALITY),
            Symbol::Ampersand => binary(BinaryOp::BitAnd, level::BIT_AND),
            Symbol::Caret => binary(BinaryOp::BitXor, level::BIT_XOR),
            Symbol::Pipe => binary(BinaryOp::BitOr, level::BIT_OR),
            Symbol::Concat => binary(BinaryOp::Concat, level::CONCAT),
            Symbol::Coalesce => binary(BinaryOp::Coalesce, level::COALESCE),
            Symbol::Question => Some((Infix::Conditional, level::CONDITIONAL)),
            Symbol::Colon
            | Symbol::Dot
            | Symbol::Comma
            | Symbol::Tilde
            | Symbol::OpenParen
            | Symbol::CloseParen
            | Symbol::OpenBracket
            | Symbol::CloseBracket
            | Symbol::OpenBrace
            | Symbol::CloseBrace => None,
        },
        TokenKind::Identifier
        | TokenKind::Parameter
        | TokenKind::Number
        | TokenKind::String
        | TokenKind::Invalid
        | TokenKind::End => None,
    }
}
