//! The shared algebra: what every query language is lowered to and what the evaluator runs.
//!
//! Operators here have the NoSQL dialect's rules for *undefined* and for types (a comparison of
//! different types is not an error). A language with other rules brings its own operators rather
//! than a mode flag.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::Value;

use crate::EvalError;
use crate::document::{DocumentFilter, SortValue};
use crate::functions::search::PreparedDistance;
use crate::functions::{Args, Function, Prepared};
use crate::like::Pattern;
use crate::plan::Select;

/// A scalar expression over the variables of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A value known at compile time, shared since parameters may be large; `None` is
    /// *undefined*.
    Constant(Option<Arc<Value>>),
    /// The value of a variable. Variables of surrounding queries come first. After them come those
    /// of the query itself, in the order of FROM, or those of the group once rows are grouped.
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
        /// The number or name.
        index: Box<Expr>,
    },
    /// An operator on one number.
    Unary {
        /// The operator.
        op: UnaryOp,
        /// Its operand.
        operand: Box<Expr>,
    },
    /// An operator on two values.
    Binary {
        /// The operator.
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
    /// The value of the entity data model that a tagged one stands for ([`model::edm`]);
    /// *undefined* if it is not one.
    Untag(Box<Expr>),
    /// Whether two values of one type are in a relation. Unlike the comparisons of [`BinaryOp`]
    /// this is never *undefined*: it is false for values of different types, for a missing value
    /// and for NaN, whatever the relation. Numbers are of one type.
    Typed {
        /// The relation.
        relation: Relation,
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
    },
    /// The first operand if it is defined (null is), else the second.
    Coalesce(Box<Expr>, Box<Expr>),
    /// `then` if the condition is exactly true, else `otherwise`.
    Conditional {
        /// The condition.
        condition: Box<Expr>,
        /// The result when it is true.
        then: Box<Expr>,
        /// The result otherwise.
        otherwise: Box<Expr>,
    },
    /// Whether `needle` equals a member of `list`.
    In {
        /// The value to find.
        needle: Box<Expr>,
        /// The values to compare it with.
        list: Vec<Expr>,
    },
    /// `operand >= low AND operand <= high`, with the operand evaluated once.
    Between {
        /// The value to test.
        operand: Box<Expr>,
        /// The lower bound, included.
        low: Box<Expr>,
        /// The upper bound, included.
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
        /// The function.
        function: &'static Function,
        /// Its arguments; their number fits the function's arity.
        args: Vec<Expr>,
        /// What was prepared from its constant arguments.
        prepared: Option<Prepared>,
    },
    /// A user-defined function of the container.
    UserFunction {
        /// Its name.
        name: String,
        /// Its arguments.
        args: Vec<Expr>,
        /// The functions of the container; `None` in plans that are not run.
        functions: Option<UserFunctions>,
    },
    /// A property that the container computes from items.
    Computed(ComputedProperty),
    /// Whether the item, which is variable 0, matches a filter on documents.
    Matches(DocumentFilter),
    /// A value by which the item, which is variable 0, is sorted as a document.
    SortValue(SortValue),
    /// A new random number from 0 up to 1 at each evaluation.
    Random(RandomSource),
    /// An array of the defined elements.
    Array(Vec<Expr>),
    /// An object of the defined fields. A repeated name takes its last defined value.
    Object(Vec<(String, Expr)>),
    /// The rows of a query over the variables of this one.
    Subquery {
        /// How its rows become a value.
        form: SubqueryForm,
        /// The query.
        select: Box<Select>,
    },
}

/// A property that is not stored but computed from the item, which is variable 0. All uses share
/// the definition.
#[derive(Clone, Debug)]
pub struct ComputedProperty {
    /// The name, unique in the container.
    pub name: Arc<str>,
    /// The expression that computes it.
    pub definition: Arc<Expr>,
}

/// Within a plan a name has one definition.
impl PartialEq for ComputedProperty {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// User-defined functions.
pub trait CallFunction: Send + Sync {
    /// Tells that a query may call functions.
    fn announce(&self);
    /// Calls a function; `None` is *undefined*. The callee keeps the reason why a call failed. One
    /// that does not exist fails when it is called, so that a query without rows has no error.
    fn call(&self, name: &str, args: &[Option<&Value>]) -> Result<Option<Value>, EvalError>;
}

/// The functions of a container, shared by all calls of them.
#[derive(Clone)]
pub struct UserFunctions(pub Arc<dyn CallFunction>);

impl std::fmt::Debug for UserFunctions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UserFunctions")
    }
}

impl PartialEq for UserFunctions {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// How the rows of a subquery become a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubqueryForm {
    /// The only row; *undefined* without one, an error with several.
    Scalar,
    /// Whether there is a row.
    Exists,
    /// All rows as an array.
    Array,
    /// Whether every row is exactly true.
    All,
    /// The first row.
    First,
    /// The last row.
    Last,
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

/// The relations of two values of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is the relation")]
pub enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Relation {
    /// Whether two values in this order are in the relation.
    pub fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Relation::Equal => order.is_eq(),
            Relation::NotEqual => order.is_ne(),
            Relation::Less => order.is_lt(),
            Relation::LessOrEqual => order.is_le(),
            Relation::Greater => order.is_gt(),
            Relation::GreaterOrEqual => order.is_ge(),
        }
    }

    /// The relation with its operands exchanged.
    #[must_use]
    pub fn mirrored(self) -> Self {
        match self {
            Relation::Equal | Relation::NotEqual => self,
            Relation::Less => Relation::Greater,
            Relation::LessOrEqual => Relation::GreaterOrEqual,
            Relation::Greater => Relation::Less,
            Relation::GreaterOrEqual => Relation::LessOrEqual,
        }
    }

    /// The relation that holds of comparable values exactly where this one does not.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Relation::Equal => Relation::NotEqual,
            Relation::NotEqual => Relation::Equal,
            Relation::Less => Relation::GreaterOrEqual,
            Relation::LessOrEqual => Relation::Greater,
            Relation::Greater => Relation::LessOrEqual,
            Relation::GreaterOrEqual => Relation::Less,
        }
    }
}

/// A LIKE pattern, compiled ahead of time when its text is known.
#[derive(Clone, Debug, PartialEq)]
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

/// A source of random numbers: a sequence that is determined by a seed.
#[derive(Clone, Debug)]
pub struct RandomSource(Arc<AtomicU64>);

impl RandomSource {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }

    /// The next number from 0 up to 1.
    pub(crate) fn next(&self) -> f64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut bits = self.0.fetch_add(STEP, Ordering::Relaxed);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        // As many bits as the mantissa of a double has.
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Random numbers are never known to be equal.
impl PartialEq for RandomSource {
    fn eq(&self, _: &Self) -> bool {
        false
    }
}

impl Expr {
    /// A call of a function with a valid number of arguments. An error says what is wrong with
    /// constant arguments.
    pub fn call(function: &'static Function, args: Vec<Expr>) -> Result<Self, String> {
        let constants: Vec<_> = args.iter().map(Expr::as_constant).collect();
        let is_known = constants.iter().skip(1).all(Option::is_some);
        let prepared = if is_known {
            let values: Vec<_> = constants.into_iter().map(Option::flatten).collect();
            function.prepare(&Args::new(&values, None))?
        } else {
            None
        };
        Ok(Expr::Call { function, args, prepared })
    }

    /// The value of a constant; *undefined* is one too.
    fn as_constant(&self) -> Option<Option<Cow<'_, Value>>> {
        if let Expr::Constant(value) = self {
            Some(value.as_deref().map(Cow::Borrowed))
        } else {
            None
        }
    }
}

impl Expr {
    /// Whether it is a score by which rows are ranked, or a constant where that is missing.
    pub(crate) fn is_score(&self) -> bool {
        let expr = if let Expr::Coalesce(score, _) = self { score } else { self };
        let Expr::Call { prepared, .. } = expr else { return false };
        matches!(prepared, Some(Prepared::Score(_) | Prepared::Distance(_)))
    }

    /// The vector expression and the measure of a call that measures vectors.
    pub fn as_distance(&self) -> Option<(&Expr, &PreparedDistance)> {
        if let Expr::Call { args, prepared: Some(Prepared::Distance(distance)), .. } = self {
            return Some((args.first()?, distance));
        }
        None
    }
}
