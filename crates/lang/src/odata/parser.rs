//! Parses the tokens of a filter to its condition.

use model::Value;
use model::limits::{FILTER_BYTES_MAX, FILTER_COMPARISONS_MAX, FILTER_DEPTH_MAX};
use query::algebra::Relation;

use super::Condition;
use super::lexer::{Lexed, Lexer, Token, TokenKind};
use crate::SyntaxErrorKind;

/// The condition of a text; `None` if the text has only white space.
pub(super) fn parse(text: &str) -> Lexed<Option<Condition>> {
    let mut lexer = Lexer::new(text);
    if text.len() > FILTER_BYTES_MAX {
        return Err(lexer.error("it is too long.", 0, text.len()));
    }
    let token = lexer.next()?;
    if token.kind == TokenKind::End {
        return Ok(None);
    }
    let mut parser = Parser { lexer, token, depth: 0, comparisons: 0 };
    let condition = parser.any()?;
    if parser.token.kind == TokenKind::End { Ok(Some(condition)) } else { Err(parser.unexpected()) }
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    /// The next token.
    token: Token,
    depth: usize,
    comparisons: usize,
}

/// One side of a comparison.
enum Operand {
    Property(String),
    Literal(Value),
}

impl Parser<'_> {
    fn advance(&mut self) -> Lexed<Token> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn takes(&mut self, kind: &TokenKind) -> Lexed<bool> {
        let is_next = self.token.kind == *kind;
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    fn unexpected(&self) -> crate::SyntaxError {
        let message = match self.token.kind {
            TokenKind::End => "the filter ends too early.",
            TokenKind::Arithmetic => return self.unsupported("arithmetic."),
            TokenKind::Open
            | TokenKind::Close
            | TokenKind::Comma
            | TokenKind::And
            | TokenKind::Or
            | TokenKind::Not
            | TokenKind::Relation(_)
            | TokenKind::Name(_)
            | TokenKind::Literal(_) => "this is not expected here.",
        };
        self.lexer.error(message, self.token.start, self.token.end)
    }

    fn unsupported(&self, message: &str) -> crate::SyntaxError {
        let kind = SyntaxErrorKind::NotSupported;
        self.lexer.error_of(kind, message, self.token.start, self.token.end)
    }

    fn any(&mut self) -> Lexed<Condition> {
        self.chain(&TokenKind::Or, Self::all, Condition::Any)
    }

    fn all(&mut self) -> Lexed<Condition> {
        self.chain(&TokenKind::And, Self::negation, Condition::All)
    }

    /// One part, or several with an operator between them.
    fn chain(
        &mut self,
        word: &TokenKind,
        part: fn(&mut Self) -> Lexed<Condition>,
        join: fn(Vec<Condition>) -> Condition,
    ) -> Lexed<Condition> {
        let mut parts = vec![part(self)?];
        while self.takes(word)? {
            parts.push(part(self)?);
        }
        Ok(joined(parts, join))
    }

    fn negation(&mut self) -> Lexed<Condition> {
        if !self.takes(&TokenKind::Not)? {
            return self.primary();
        }
        let operand = self.nested(Self::negation)?;
        Ok(Condition::Not(Box::new(operand)))
    }

    fn nested(&mut self, body: fn(&mut Self) -> Lexed<Condition>) -> Lexed<Condition> {
        if self.depth == FILTER_DEPTH_MAX {
            let (start, end) = (self.token.start, self.token.end);
            return Err(self.lexer.error("it is nested too deeply.", start, end));
        }
        self.depth += 1;
        let condition = body(self)?;
        self.depth -= 1;
        Ok(condition)
    }

    fn primary(&mut self) -> Lexed<Condition> {
        if self.takes(&TokenKind::Open)? {
            let condition = self.nested(Self::any)?;
            return match self.takes(&TokenKind::Close)? {
                true => Ok(condition),
                false => Err(self.unexpected()),
            };
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Lexed<Condition> {
        let start = self.token.start;
        if self.comparisons == FILTER_COMPARISONS_MAX {
            let end = self.token.end;
            return Err(self.lexer.error("it has too many comparisons.", start, end));
        }
        self.comparisons += 1;
        let left = self.operand()?;
        let TokenKind::Relation(relation) = self.token.kind else {
            return self.bare(left, start);
        };
        self.advance()?;
        let end = self.token.end;
        match (left, self.operand()?) {
            (Operand::Property(property), Operand::Literal(literal)) => {
                Ok(Condition::Compare { property, relation, literal })
            }
            (Operand::Literal(literal), Operand::Property(property)) => {
                Ok(Condition::Compare { property, relation: relation.mirrored(), literal })
            }
            (Operand::Property(_), Operand::Property(_)) => Err(self.lexer.error_of(
                SyntaxErrorKind::NotSupported,
                "properties can be compared with constants only.",
                start,
                end,
            )),
            (Operand::Literal(_), Operand::Literal(_)) => {
                Err(self.lexer.error("a comparison needs a property.", start, end))
            }
        }
    }

    /// A property alone tests whether it is true.
    fn bare(&self, operand: Operand, start: usize) -> Lexed<Condition> {
        match operand {
            Operand::Property(property) => match self.token.kind {
                TokenKind::End | TokenKind::Close | TokenKind::And | TokenKind::Or => {
                    let literal = Value::Bool(true);
                    Ok(Condition::Compare { property, relation: Relation::Equal, literal })
                }
                TokenKind::Open => Err(self.unsupported("functions.")),
                TokenKind::Arithmetic
                | TokenKind::Comma
                | TokenKind::Not
                | TokenKind::Relation(_)
                | TokenKind::Name(_)
                | TokenKind::Literal(_) => Err(self.unexpected()),
            },
            Operand::Literal(_) if self.token.kind == TokenKind::Arithmetic => {
                Err(self.unexpected())
            }
            // A conjunction of nothing is true, a disjunction of nothing is false.
            Operand::Literal(Value::Bool(true)) => Ok(Condition::All(Vec::new())),
            Operand::Literal(Value::Bool(false)) => Ok(Condition::Any(Vec::new())),
            Operand::Literal(_) => {
                let message = "a constant alone is not a condition.";
                Err(self.lexer.error(message, start, self.token.start))
            }
        }
    }

    fn operand(&mut self) -> Lexed<Operand> {
        let is_operand = matches!(self.token.kind, TokenKind::Name(_) | TokenKind::Literal(_));
        if !is_operand {
            return Err(self.unexpected());
        }
        let token = self.advance()?;
        if let TokenKind::Literal(literal) = token.kind {
            return Ok(Operand::Literal(literal));
        }
        if self.token.kind == TokenKind::Open {
            return Err(self.unsupported("functions."));
        }
        let TokenKind::Name(name) = token.kind else { return Err(self.unexpected()) };
        Ok(Operand::Property(name))
    }
}

/// The parts as one condition; a single part as it is. Nested conditions of the same kind are
/// flattened, so that long chains are flat however they are parenthesized.
fn joined(mut parts: Vec<Condition>, join: fn(Vec<Condition>) -> Condition) -> Condition {
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return only;
    }
    let is_any = matches!(join(Vec::new()), Condition::Any(_));
    let mut flat = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Condition::Any(inner) if is_any => flat.extend(inner),
            Condition::All(inner) if !is_any => flat.extend(inner),
            other @ (Condition::Any(_)
            | Condition::All(_)
            | Condition::Not(_)
            | Condition::Compare { .. }) => flat.push(other),
        }
    }
    join(flat)
}
