//! Parses tokens to a tree by recursive descent: clauses here, expressions in [`expr`].

mod expr;
mod operators;

use model::Value;
use model::limits::{QUERY_DEPTH_MAX, QUERY_NESTING_MAX};

use super::ast::{
    Collection, Count, CountValue, Direction, Expr, ExprKind, Name, OrderBy, OrderItem, Query,
    Select, SelectItem, Source, Span, Window,
};
use super::diagnostic::Diagnostic;
use super::lexer::{Keyword, Symbol, Token, TokenKind, Tokens, unescape};

type Parsed<T> = Result<T, Diagnostic>;

/// Parses a text that is one SELECT.
pub(super) fn parse_query(text: &str) -> Parsed<Query> {
    let mut parser = Parser::new(text);
    let query = parser.query()?;
    parser.expect_end()?;
    Ok(query)
}

/// Parses `FROM source [WHERE expr]` as the query that selects everything.
pub(super) fn parse_condition(text: &str) -> Parsed<Query> {
    let mut parser = Parser::new(text);
    let start = parser.expect_keyword(Keyword::From)?;
    let from = vec![parser.source()?];
    let filter = parser.filter()?;
    parser.expect_end()?;
    Ok(Query {
        distinct: None,
        top: None,
        select: Select::Star(start),
        from,
        filter,
        group_by: Vec::new(),
        order_by: None,
        window: None,
        span: start.to(parser.previous),
    })
}

struct Parser<'t> {
    text: &'t str,
    /// The tokens after `ahead`.
    tokens: Tokens<'t>,
    /// As many tokens as are needed to decide which construct begins here.
    ahead: [Token; 3],
    previous: Span,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Self {
        let mut tokens = Tokens::of(text);
        let ahead = std::array::from_fn(|_| tokens.next());
        Self { text, tokens, ahead, previous: Span::new(0, 0), depth: 0 }
    }

    fn next_token(&self) -> Token {
        let [next, ..] = self.ahead;
        next
    }

    fn peek(&self) -> TokenKind {
        self.next_token().kind
    }

    /// The token after the next one.
    fn peek_second(&self) -> TokenKind {
        let [_, second, _] = self.ahead;
        second.kind
    }

    fn peek_third(&self) -> TokenKind {
        let [.., third] = self.ahead;
        third.kind
    }

    fn is_keyword(&self, keyword: Keyword) -> bool {
        self.peek() == TokenKind::Keyword(keyword)
    }

    fn is_symbol(&self, symbol: Symbol) -> bool {
        self.peek() == TokenKind::Symbol(symbol)
    }

    fn bump(&mut self) -> Token {
        let [token, next, after] = self.ahead;
        self.ahead = [next, after, self.tokens.next()];
        self.previous = token.span;
        token
    }

    fn text_of(&self, span: Span) -> &'t str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }

    /// The error that the next token is not allowed here.
    fn unexpected(&self) -> Diagnostic {
        let token = self.next_token();
        match token.kind {
            TokenKind::End => Diagnostic::end_of_text(token.span),
            TokenKind::Invalid => Diagnostic::invalid_token(self.text_of(token.span), token.span),
            TokenKind::Identifier
            | TokenKind::Keyword(_)
            | TokenKind::Parameter
            | TokenKind::Number
            | TokenKind::String
            | TokenKind::Symbol(_) => Diagnostic::unexpected(self.text_of(token.span), token.span),
        }
    }

    fn eat_keyword(&mut self, keyword: Keyword) -> Option<Span> {
        self.is_keyword(keyword).then(|| self.bump().span)
    }

    fn eat_symbol(&mut self, symbol: Symbol) -> Option<Span> {
        self.is_symbol(symbol).then(|| self.bump().span)
    }

    fn expect_keyword(&mut self, keyword: Keyword) -> Parsed<Span> {
        self.eat_keyword(keyword).ok_or_else(|| self.unexpected())
    }

    fn expect_symbol(&mut self, symbol: Symbol) -> Parsed<Span> {
        self.eat_symbol(symbol).ok_or_else(|| self.unexpected())
    }

    fn expect_end(&self) -> Parsed<()> {
        if self.peek() == TokenKind::End { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Adds a level of nesting during `parse`.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == QUERY_NESTING_MAX {
            return Err(too_deep(QUERY_NESTING_MAX, self.next_token().span));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn query(&mut self) -> Parsed<Query> {
        let start = self.expect_keyword(Keyword::Select)?;
        let distinct = self.eat_keyword(Keyword::Distinct);
        let top = match self.eat_keyword(Keyword::Top) {
            Some(_) => Some(self.count()?),
            None => None,
        };
        let select = self.select()?;
        let from = self.from()?;
        let filter = self.filter()?;
        let group_by = self.group_by()?;
        let order_by = self.order_by()?;
        let window = self.window()?;
        let span = start.to(self.previous);
        Ok(Query { distinct, top, select, from, filter, group_by, order_by, window, span })
    }

    fn count(&mut self) -> Parsed<Count> {
        let token = self.next_token();
        let text = self.text_of(token.span);
        let value = match token.kind {
            TokenKind::Number => CountValue::Number(expr::number_value(text)),
            TokenKind::Parameter => CountValue::Parameter(text.to_owned()),
            TokenKind::Identifier
            | TokenKind::Keyword(_)
            | TokenKind::String
            | TokenKind::Symbol(_)
            | TokenKind::Invalid
            | TokenKind::End => return Err(self.unexpected()),
        };
        self.bump();
        Ok(Count { value, span: token.span })
    }

    fn select(&mut self) -> Parsed<Select> {
        if let Some(star) = self.eat_symbol(Symbol::Star) {
            return Ok(Select::Star(star));
        }
        if self.eat_keyword(Keyword::Value).is_some() {
            return Ok(Select::Value(self.expr()?));
        }
        Ok(Select::List(self.comma_separated(Self::select_item)?))
    }

    fn select_item(&mut self) -> Parsed<SelectItem> {
        let expr = self.expr()?;
        let has_as = self.eat_keyword(Keyword::As).is_some();
        let alias = match self.eat_name().or_else(|| self.eat_string()) {
            None if has_as => return Err(self.unexpected()),
            alias => alias,
        };
        Ok(SelectItem { expr, alias })
    }

    fn from(&mut self) -> Parsed<Vec<Source>> {
        let mut sources = Vec::new();
        if self.eat_keyword(Keyword::From).is_some() {
            sources.push(self.source()?);
            while self.eat_keyword(Keyword::Join).is_some() {
                sources.push(self.source()?);
            }
        }
        Ok(sources)
    }

    fn source(&mut self) -> Parsed<Source> {
        let start = self.next_token().span;
        let iterates = self.peek_second() == TokenKind::Keyword(Keyword::In);
        let element = if iterates { self.eat_name() } else { None };
        if element.is_some() {
            self.expect_keyword(Keyword::In)?;
        }
        let collection = self.collection()?;
        let is_iteration = element.is_some();
        let alias = if is_iteration { element } else { self.source_alias()? };
        Ok(Source { collection, alias, is_iteration, span: start.to(self.previous) })
    }

    fn source_alias(&mut self) -> Parsed<Option<Name>> {
        let has_as = self.eat_keyword(Keyword::As).is_some();
        match self.eat_name() {
            None if has_as => Err(self.unexpected()),
            alias => Ok(alias),
        }
    }

    fn collection(&mut self) -> Parsed<Collection> {
        if self.eat_symbol(Symbol::OpenParen).is_some() {
            let query = self.nested(Self::query)?;
            self.expect_symbol(Symbol::CloseParen)?;
            return Ok(Collection::Subquery(Box::new(query)));
        }
        let Some(root) = self.eat_name() else { return Err(self.unexpected()) };
        let root = Expr::new(ExprKind::Identifier(root.text), root.span)?;
        let path = self.postfix(root)?;
        match first_computed_step(&path) {
            None => Ok(Collection::Path(path)),
            Some(span) => Err(Diagnostic::unexpected(self.text_of(span), span)),
        }
    }

    fn filter(&mut self) -> Parsed<Option<Expr>> {
        match self.eat_keyword(Keyword::Where) {
            Some(_) => self.expr().map(Some),
            None => Ok(None),
        }
    }

    fn group_by(&mut self) -> Parsed<Vec<Expr>> {
        if self.eat_keyword(Keyword::Group).is_none() {
            return Ok(Vec::new());
        }
        self.expect_keyword(Keyword::By)?;
        self.comma_separated(Self::expr)
    }

    fn order_by(&mut self) -> Parsed<Option<OrderBy>> {
        let Some(start) = self.eat_keyword(Keyword::Order) else { return Ok(None) };
        let span = start.to(self.expect_keyword(Keyword::By)?);
        let is_rank = self.eat_keyword(Keyword::Rank).is_some();
        let items = if is_rank {
            vec![self.order_item()?]
        } else {
            self.comma_separated(Self::order_item)?
        };
        Ok(Some(OrderBy { items, is_rank, span }))
    }

    fn order_item(&mut self) -> Parsed<OrderItem> {
        let expr = self.expr()?;
        let direction = if self.eat_keyword(Keyword::Asc).is_some() {
            Some(Direction::Ascending)
        } else if self.eat_keyword(Keyword::Desc).is_some() {
            Some(Direction::Descending)
        } else {
            None
        };
        Ok(OrderItem { expr, direction })
    }

    fn window(&mut self) -> Parsed<Option<Window>> {
        let Some(start) = self.eat_keyword(Keyword::Offset) else { return Ok(None) };
        let offset = self.count()?;
        self.expect_keyword(Keyword::Limit)?;
        let limit = self.count()?;
        let span = start.to(limit.span);
        Ok(Some(Window { offset, limit, span }))
    }

    fn comma_separated<T>(&mut self, item: fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat_symbol(Symbol::Comma).is_some() {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// The name of a variable, an alias or a key: an identifier, or a word that is reserved only
    /// before a parenthesis.
    fn eat_name(&mut self) -> Option<Name> {
        let is_name = match self.peek() {
            TokenKind::Identifier => true,
            TokenKind::Keyword(keyword) => {
                matches!(keyword, Keyword::All | Keyword::First | Keyword::Last)
            }
            TokenKind::Parameter
            | TokenKind::Number
            | TokenKind::String
            | TokenKind::Symbol(_)
            | TokenKind::Invalid
            | TokenKind::End => false,
        };
        is_name.then(|| self.take_word())
    }

    fn take_word(&mut self) -> Name {
        let span = self.bump().span;
        Name { text: self.text_of(span).to_owned(), span }
    }

    fn eat_string(&mut self) -> Option<Name> {
        if self.peek() != TokenKind::String {
            return None;
        }
        let span = self.bump().span;
        let inner = self.text.get(span.start + 1..span.end.checked_sub(1)?)?;
        Some(Name { text: unescape(inner)?, span })
    }
}

fn too_deep(max: usize, span: Span) -> Diagnostic {
    Diagnostic::not_supported(&format!("nesting of more than {max} levels"), span)
}

/// A step of a FROM path that is not a constant: only names, numbers and parameters are allowed
/// there.
fn first_computed_step(path: &Expr) -> Option<Span> {
    let mut at = path;
    while let Some(base) = at.path_base() {
        if let ExprKind::Index { index, .. } = &at.kind
            && !is_path_index(index)
        {
            return Some(index.span);
        }
        at = base;
    }
    None
}

fn is_path_index(index: &Expr) -> bool {
    matches!(
        index.kind,
        ExprKind::Literal(Some(Value::String(_) | Value::Int64(0..))) | ExprKind::Parameter(_)
    )
}

impl Expr {
    /// An expression, if it is not nested too deeply.
    fn new(kind: ExprKind, span: Span) -> Parsed<Self> {
        let depth = 1 + deepest_child(&kind);
        if depth > QUERY_DEPTH_MAX {
            Err(too_deep(QUERY_DEPTH_MAX, span))
        } else {
            Ok(Self { kind, span, depth })
        }
    }
}

fn deepest_child(kind: &ExprKind) -> usize {
    let deepest = |exprs: &[Expr]| exprs.iter().map(|expr| expr.depth).max().unwrap_or(0);
    match kind {
        ExprKind::Literal(_) | ExprKind::Parameter(_) | ExprKind::Identifier(_) => 0,
        ExprKind::Member { base, .. } => base.depth,
        ExprKind::Index { base, index } => base.depth.max(index.depth),
        ExprKind::Unary { operand, .. } => operand.depth,
        ExprKind::Binary { left, right, .. } => left.depth.max(right.depth),
        ExprKind::Logical { operands, .. } => deepest(operands),
        ExprKind::Conditional { condition, then, otherwise } => {
            condition.depth.max(then.depth).max(otherwise.depth)
        }
        ExprKind::In { needle, list, .. } => needle.depth.max(deepest(list)),
        ExprKind::Between { operand, low, high, .. } => {
            operand.depth.max(low.depth).max(high.depth)
        }
        ExprKind::Like { operand, pattern, .. } => operand.depth.max(pattern.depth),
        ExprKind::Call { args, .. } => deepest(args),
        ExprKind::Array(elements) => deepest(elements),
        ExprKind::Object(fields) => fields.iter().map(|(_, field)| field.depth).max().unwrap_or(0),
        ExprKind::Subquery { query, .. } => deepest_of_query(query),
    }
}

fn deepest_of_query(query: &Query) -> usize {
    let selected = match &query.select {
        Select::Star(_) => 0,
        Select::Value(value) => value.depth,
        Select::List(items) => items.iter().map(|item| item.expr.depth).max().unwrap_or(0),
    };
    let sources = query.from.iter().map(|source| match &source.collection {
        Collection::Path(path) => path.depth,
        Collection::Subquery(query) => 1 + deepest_of_query(query),
    });
    let sorted = query.order_by.iter().flat_map(|order_by| &order_by.items);
    let others = query.filter.iter().chain(&query.group_by).chain(sorted.map(|item| &item.expr));
    others.map(|expr| expr.depth).chain(sources).fold(selected, usize::max)
}

#[cfg(test)]
mod tests;
