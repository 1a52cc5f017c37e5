//! The shared algebra: what every query language is lowered to and what the evaluator runs.
//!
//! Operators here carry the NoSQL dialect's rules for *undefined* and for types (a comparison of
//! unlike types is not an error). A language with other rules brings its own operators rather than
//! a mode flag.

use std::sync::Arc;

use model::Value;

use crate::eval::Scope;
use crate::functions::Function;
use crate::like::Pattern;
use crate::{Budget, EvalError};

/// A scalar expression over the variables of a row.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A value known at compile time, shared since parameters may be large; `None` is
    /// *undefined*.
    Constant(Option<Arc<Value>>),
    /// The value that a FROM source is bound to, by the position of that source.
    Variable(usize),
    /// Field `name` of an object.
    Property {
        /// The object.
        base: Box<Expr>,
        /// The field.
        name: String,
    },
    /// An element of an array by number, or a field of an object by name.
    Element {
        /// The array or object.
        base: Box<Expr>,
        /// Which one.
        index: Box<Expr>,
    },
    /// An operator on one number.
    Unary {
        /// Which one.
        op: UnaryOp,
        /// Its operand.
        operand: Box<Expr>,
    },
    /// An operator on two values.
    Binary {
        /// Which one.
        op: BinaryOp,
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
    },
    /// Three-valued AND of all operands.
    And(Vec<Expr>),
    /// Three-valued OR of all operands.
    Or(Vec<Expr>),
    /// Three-valued NOT.
    Not(Box<Expr>),
    /// The first operand if it is defined (null is), else the second.
    Coalesce(Box<Expr>, Box<Expr>),
    /// `then` if the condition is exactly true, else `otherwise`.
    Conditional {
        /// The condition.
        condition: Box<Expr>,
        /// Taken when it is true.
        then: Box<Expr>,
        /// Taken when it is anything else.
        otherwise: Box<Expr>,
    },
    /// Whether `needle` equals a member of `list`.
    In {
        /// The value looked for.
        needle: Box<Expr>,
        /// Where it is looked for.
        list: Vec<Expr>,
    },
    /// `operand >= low AND operand <= high`, with the operand evaluated once.
    Between {
        /// The value tested.
        operand: Box<Expr>,
        /// Least value.
        low: Box<Expr>,
        /// Greatest value.
        high: Box<Expr>,
    },
    /// Whether a text matches a LIKE pattern as a whole.
    Like {
        /// The text.
        operand: Box<Expr>,
        /// The pattern.
        pattern: LikePattern,
    },
    /// A built-in function.
    Call {
        /// Which one.
        function: &'static Function,
        /// Its arguments; their number fits the function's arity.
        args: Vec<Expr>,
    },
    /// An array of the defined elements.
    Array(Vec<Expr>),
    /// An object of the defined fields. A repeated name takes its last defined value.
    Object(Vec<(String, Expr)>),
}

/// Operators on one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-x`.
    Negate,
    /// `+x`: the number itself.
    Plus,
    /// `~x` on 32 bits.
    BitNot,
}

/// Operators on two values. Comparison with *undefined* is *undefined*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is the operator")]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Concat,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    ShiftRightUnsigned,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A LIKE pattern, compiled ahead when its text is known.
#[derive(Clone, Debug)]
pub enum LikePattern {
    /// Known at compile time.
    Compiled(Pattern),
    /// Computed for each row.
    Computed {
        /// The pattern's text.
        text: Box<Expr>,
        /// The escape character.
        escape: Option<char>,
    },
}

/// Where rows come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// No FROM: one row without variables, whatever the container holds.
    Nothing,
    /// Each item, as variable 0.
    Item,
    /// A part of each item, as variable 0; items without it give no row. The expression sees the
    /// item as its own variable 0.
    Part(Expr),
}

/// What a row yields.
#[derive(Clone, Debug)]
pub enum Projection {
    /// The value of an expression; an *undefined* one yields no row.
    Value(Expr),
    /// An object with these fields; *undefined* ones are left out.
    Fields(Vec<(String, Expr)>),
}

/// Rows skipped and then taken: `OFFSET o LIMIT l`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Rows to skip.
    pub offset: u64,
    /// Most rows to return after that.
    pub limit: u64,
}

/// The clauses of a compiled query.
#[derive(Clone, Debug)]
pub struct Clauses {
    /// Where rows come from.
    pub source: Source,
    /// Rows for which this is exactly true are kept.
    pub filter: Option<Expr>,
    /// What each kept row yields.
    pub projection: Projection,
    /// Most rows to return.
    pub top: Option<u64>,
    /// Which of the rows to return.
    pub window: Option<Window>,
}

/// A compiled query: immutable, shared by reference, evaluated item by item.
///
/// Counting rows (TOP, OFFSET, LIMIT) is the caller's part, since only it sees all rows.
#[derive(Clone, Debug)]
pub struct Plan(Arc<Clauses>);

impl Plan {
    /// A plan of these clauses.
    pub fn new(clauses: Clauses) -> Self {
        Self(Arc::new(clauses))
    }

    /// The clauses, for planners.
    pub fn clauses(&self) -> &Clauses {
        &self.0
    }

    /// Whether the FROM source and the filter keep `item`.
    pub fn matches(&self, item: &Value) -> Result<bool, EvalError> {
        let budget = Budget::per_item();
        match self.bind(item, &budget)? {
            Some(row) => self.accepts(row.scope(), &budget),
            None => Ok(false),
        }
    }

    /// What the projection yields for `item`, which the caller knows to match. `None` is
    /// *undefined*: such a row is dropped.
    pub fn project(&self, item: &Value) -> Result<Option<Value>, EvalError> {
        let budget = Budget::per_item();
        match self.bind(item, &budget)? {
            Some(row) => self.yields(row.scope(), &budget),
            None => Ok(None),
        }
    }

    /// [`Plan::matches`] and [`Plan::project`] in one: the row that `item` gives, if any.
    pub fn evaluate(&self, item: &Value) -> Result<Option<Value>, EvalError> {
        let budget = Budget::per_item();
        match self.bind(item, &budget)? {
            Some(row) if self.accepts(row.scope(), &budget)? => self.yields(row.scope(), &budget),
            _ => Ok(None),
        }
    }

    /// Whether each row is the item itself, so that the stored text can be returned unparsed.
    pub fn is_select_all(&self) -> bool {
        matches!(self.0.source, Source::Item)
            && matches!(self.0.projection, Projection::Value(Expr::Variable(0)))
    }

    /// Whether the rows depend on items at all. Without FROM there is one row, which evaluating
    /// against any value gives.
    pub fn reads_items(&self) -> bool {
        !matches!(self.0.source, Source::Nothing)
    }

    /// Whether there is a filter.
    pub fn has_filter(&self) -> bool {
        self.0.filter.is_some()
    }

    /// The count of TOP.
    pub fn top(&self) -> Option<u64> {
        self.0.top
    }

    /// The count of OFFSET.
    pub fn offset(&self) -> Option<u64> {
        self.0.window.map(|window| window.offset)
    }

    /// The count of LIMIT.
    pub fn limit(&self) -> Option<u64> {
        self.0.window.map(|window| window.limit)
    }

    fn accepts(&self, scope: Scope<'_>, budget: &Budget) -> Result<bool, EvalError> {
        match &self.0.filter {
            Some(filter) => filter.is_true(scope, budget),
            None => Ok(true),
        }
    }
}
