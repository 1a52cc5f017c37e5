//! The syntax tree, with source positions.
//!
//! The tree says nothing about meaning. Names are not resolved, and clauses that cannot be run are
//! included. Chains of AND and OR are kept flat, and
//! [`QUERY_DEPTH_MAX`](model::limits::QUERY_DEPTH_MAX) limits all other nesting, so that a traversal
//! of a tree never overflows the stack.

use model::Value;

/// A range of the text in bytes, end exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start, inclusive.
    pub start: usize,
    /// End, exclusive.
    pub end: usize,
}

impl Span {
    /// The range from `start` to `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// From the start of this to the end of `last`.
    pub fn to(self, last: Span) -> Span {
        Span { start: self.start, end: last.end }
    }
}

/// A word with its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    /// The word.
    pub text: String,
    /// Its position.
    pub span: Span,
}

/// A SELECT with its clauses.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// DISTINCT, if written.
    pub distinct: Option<Span>,
    /// TOP.
    pub top: Option<Count>,
    /// What is selected.
    pub select: Select,
    /// FROM and its JOINs.
    pub from: Vec<Source>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// GROUP BY.
    pub group_by: Vec<Expr>,
    /// ORDER BY.
    pub order_by: Option<OrderBy>,
    /// OFFSET and LIMIT.
    pub window: Option<Window>,
    /// The whole query.
    pub span: Span,
}

/// The number of rows of TOP, OFFSET or LIMIT.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// A number or a parameter.
    pub value: CountValue,
    /// Its position.
    pub span: Span,
}

/// How a count is given.
#[derive(Clone, Debug, PartialEq)]
pub enum CountValue {
    /// A number as written; it may turn out not to be a count.
    Number(Value),
    /// The name of a parameter, with its `@`.
    Parameter(String),
}

/// `OFFSET o LIMIT l`.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Rows to skip.
    pub offset: Count,
    /// Rows to take.
    pub limit: Count,
    /// The clause.
    pub span: Span,
}

/// What follows SELECT.
#[derive(Clone, Debug, PartialEq)]
pub enum Select {
    /// `*`.
    Star(Span),
    /// `VALUE expr`.
    Value(Expr),
    /// A list of expressions.
    List(Vec<SelectItem>),
}

/// One expression of a select list.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectItem {
    /// The expression.
    pub expr: Expr,
    /// The name given to it.
    pub alias: Option<Name>,
}

/// One source of FROM or JOIN.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The collection it ranges over.
    pub collection: Collection,
    /// The name given to it.
    pub alias: Option<Name>,
    /// Whether it iterates over the elements (`alias IN collection`) rather than binding the value.
    pub is_iteration: bool,
    /// Its position.
    pub span: Span,
}

/// The collection of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum Collection {
    /// A name and a path from it: identifiers, members and constant indexes.
    Path(Expr),
    /// A subquery.
    Subquery(Box<Query>),
}

/// ORDER BY.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderBy {
    /// Sort keys in order; for `ORDER BY RANK` the one scoring call.
    pub items: Vec<OrderItem>,
    /// Whether it is `ORDER BY RANK`.
    pub is_rank: bool,
    /// The clause's keywords.
    pub span: Span,
}

/// One sort key.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderItem {
    /// The key.
    pub expr: Expr,
    /// ASC or DESC, if written.
    pub direction: Option<Direction>,
}

/// The direction of a sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `ASC`.
    Ascending,
    /// `DESC`.
    Descending,
}

/// An expression with its position and depth.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The form of the expression.
    pub kind: ExprKind,
    /// Its position, parentheses included.
    pub span: Span,
    pub(super) depth: usize,
}

impl Expr {
    /// An expression that is only printed, so that its depth does not matter.
    pub(super) fn printed(kind: ExprKind, span: Span) -> Self {
        Self { kind, span, depth: 0 }
    }

    /// The text of a string literal.
    pub fn as_string_literal(&self) -> Option<&str> {
        if let ExprKind::Literal(Some(value)) = &self.kind { value.as_str() } else { None }
    }

    /// Whether this is a literal, a parameter or a name.
    pub fn is_leaf(&self) -> bool {
        matches!(self.kind, ExprKind::Literal(_) | ExprKind::Parameter(_) | ExprKind::Identifier(_))
    }

    /// The direct operands; a subquery has none.
    pub fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Literal(_)
            | ExprKind::Parameter(_)
            | ExprKind::Identifier(_)
            | ExprKind::Subquery { .. } => Vec::new(),
            ExprKind::Member { base: only, .. } | ExprKind::Unary { operand: only, .. } => {
                vec![only]
            }
            ExprKind::Index { base: first, index: second }
            | ExprKind::Binary { left: first, right: second, .. }
            | ExprKind::Like { operand: first, pattern: second, .. } => vec![first, second],
            ExprKind::Conditional { condition: first, then: second, otherwise: third }
            | ExprKind::Between { operand: first, low: second, high: third, .. } => {
                vec![first, second, third]
            }
            ExprKind::In { needle, list, .. } => std::iter::once(&**needle).chain(list).collect(),
            ExprKind::Logical { operands: all, .. }
            | ExprKind::Call { args: all, .. }
            | ExprKind::Array(all) => all.iter().collect(),
            ExprKind::Object(fields) => fields.iter().map(|(_, field)| field).collect(),
        }
    }

    /// The base of a member or index access.
    pub fn path_base(&self) -> Option<&Expr> {
        if let ExprKind::Member { base, .. } | ExprKind::Index { base, .. } = &self.kind {
            Some(base)
        } else {
            None
        }
    }
}

/// The forms of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A literal; `None` is `undefined`.
    Literal(Option<Value>),
    /// The name of a parameter, with its `@`.
    Parameter(String),
    /// A bare name.
    Identifier(String),
    /// `base.name`.
    Member {
        /// The object.
        base: Box<Expr>,
        /// The property.
        name: Name,
    },
    /// `base[index]`.
    Index {
        /// The array or object.
        base: Box<Expr>,
        /// The index or name.
        index: Box<Expr>,
    },
    /// A prefix operator.
    Unary {
        /// The operator.
        op: UnaryOp,
        /// Its operand.
        operand: Box<Expr>,
    },
    /// An infix operator other than AND and OR.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
    },
    /// Two or more operands of AND or OR, read from left to right.
    Logical {
        /// The operator.
        op: LogicalOp,
        /// The operands.
        operands: Vec<Expr>,
    },
    /// `condition ? then : otherwise`.
    Conditional {
        /// The condition.
        condition: Box<Expr>,
        /// The result when it is true.
        then: Box<Expr>,
        /// The result otherwise.
        otherwise: Box<Expr>,
    },
    /// `needle [NOT] IN (list)`.
    In {
        /// The value to find.
        needle: Box<Expr>,
        /// The values to compare it with.
        list: Vec<Expr>,
        /// Whether NOT was written.
        is_negated: bool,
    },
    /// `operand [NOT] BETWEEN low AND high`.
    Between {
        /// The value to test.
        operand: Box<Expr>,
        /// The lower bound, included.
        low: Box<Expr>,
        /// The upper bound, included.
        high: Box<Expr>,
        /// Whether NOT was written.
        is_negated: bool,
    },
    /// `operand [NOT] LIKE pattern [ESCAPE 'c']`.
    Like {
        /// The text to test.
        operand: Box<Expr>,
        /// The pattern.
        pattern: Box<Expr>,
        /// The escape character.
        escape: Option<char>,
        /// Whether NOT was written.
        is_negated: bool,
    },
    /// `name(args)` or `udf.name(args)`.
    Call {
        /// The function.
        name: Name,
        /// Whether it is a user-defined function of the container.
        is_user_defined: bool,
        /// The arguments.
        args: Vec<Expr>,
    },
    /// `[elements]`.
    Array(Vec<Expr>),
    /// `{name: value}`.
    Object(Vec<(Name, Expr)>),
    /// A query in place of a value.
    Subquery {
        /// How its rows become a value.
        form: SubqueryForm,
        /// The query.
        query: Box<Query>,
    },
}

/// Prefix operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is the operator")]
pub enum UnaryOp {
    Negate,
    Plus,
    BitNot,
    Not,
}

/// Infix operators that join two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is the operator")]
pub enum BinaryOp {
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    ShiftLeft,
    ShiftRight,
    ShiftRightUnsigned,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    BitAnd,
    BitXor,
    BitOr,
    Concat,
    Coalesce,
}

/// Infix operators whose chains are kept flat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is the operator")]
pub enum LogicalOp {
    And,
    Or,
}

/// How the rows of a subquery become a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is the keyword; the first has none")]
pub enum SubqueryForm {
    Scalar,
    Exists,
    Array,
    All,
    First,
    Last,
}
