//! Filters of partial indexes, in a form that is stored.

use model::bson;
use model::{Object, Value};
use serde::{Deserialize, Serialize};

use crate::algebra::Relation;
use crate::document::predicate::{InList, ValueTest};
use crate::document::types::{TypeSet, type_of_number};
use crate::document::{FieldPath, Predicate};

/// A filter of the kinds that partial indexes may have: comparisons, lists of values, types and that
/// there is a value, all or one of several of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartialFilter {
    /// All of these.
    All(Vec<PartialFilter>),
    /// One of these.
    Any(Vec<PartialFilter>),
    /// A value in a relation to another, which is a field of a document in BSON.
    Compare(String, StoredRelation, Vec<u8>),
    /// A value that equals one of those in a document in BSON.
    In(String, Vec<u8>),
    /// Any value.
    Exists(String),
    /// A value of one of these types, by their numbers.
    Type(String, Vec<i32>),
}

/// A relation between values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredRelation {
    /// The same.
    Equal,
    /// Below it.
    Less,
    /// Below it or the same.
    LessOrEqual,
    /// Above it.
    Greater,
    /// Above it or the same.
    GreaterOrEqual,
}

impl PartialFilter {
    /// A filter in this form; `None` if partial indexes can't have it.
    pub fn of(filter: &Predicate) -> Option<Self> {
        let all = |parts: &[Predicate]| parts.iter().map(Self::of).collect::<Option<Vec<_>>>();
        match filter {
            Predicate::And(parts) => all(parts).map(Self::All),
            Predicate::Or(parts) => all(parts).map(Self::Any),
            Predicate::Constant(true) => Some(Self::All(Vec::new())),
            Predicate::Field { path, test } => Self::of_test(path.as_str().to_owned(), test),
            Predicate::Not(_)
            | Predicate::Constant(false)
            | Predicate::Expression(_)
            | Predicate::Script(_)
            | Predicate::Sample { .. }
            | Predicate::Schema(_) => None,
        }
    }

    fn of_test(path: String, test: &ValueTest) -> Option<Self> {
        match test {
            ValueTest::Compare { relation, operand } => {
                let relation = StoredRelation::of(*relation)?;
                Some(Self::Compare(path, relation, stored(std::slice::from_ref(operand))?))
            }
            ValueTest::In(list) if list.regexes().is_empty() => {
                Some(Self::In(path, stored(list.values())?))
            }
            ValueTest::Exists => Some(Self::Exists(path)),
            ValueTest::Type(types) => {
                Some(Self::Type(path, types.iter().map(|each| each.number()).collect()))
            }
            ValueTest::In(_)
            | ValueTest::Regex(_)
            | ValueTest::Mod { .. }
            | ValueTest::Size(_)
            | ValueTest::Bits(_)
            | ValueTest::ElementObject(_)
            | ValueTest::ElementValue(_) => None,
        }
    }

    /// The filter; `None` if what was stored can't be read.
    pub fn to_predicate(&self) -> Option<Predicate> {
        let all = |parts: &[Self]| parts.iter().map(Self::to_predicate).collect::<Option<_>>();
        let field = |path: &str, test| Predicate::Field { path: FieldPath::parse(path), test };
        Some(match self {
            Self::All(parts) => Predicate::And(all(parts)?),
            Self::Any(parts) => Predicate::Or(all(parts)?),
            Self::Compare(path, relation, operand) => {
                let operand = values_of(operand)?.into_iter().next()?;
                field(path, ValueTest::Compare { relation: relation.relation(), operand })
            }
            Self::In(path, operands) => {
                field(path, ValueTest::In(InList::new(values_of(operands)?, Vec::new())))
            }
            Self::Exists(path) => field(path, ValueTest::Exists),
            Self::Type(path, numbers) => {
                let mut types = TypeSet::default();
                for number in numbers {
                    types.add(type_of_number(i64::from(*number))?);
                }
                field(path, ValueTest::Type(types))
            }
        })
    }
}

impl StoredRelation {
    fn of(relation: Relation) -> Option<Self> {
        match relation {
            Relation::Equal => Some(Self::Equal),
            Relation::NotEqual => None,
            Relation::Less => Some(Self::Less),
            Relation::LessOrEqual => Some(Self::LessOrEqual),
            Relation::Greater => Some(Self::Greater),
            Relation::GreaterOrEqual => Some(Self::GreaterOrEqual),
        }
    }

    fn relation(self) -> Relation {
        match self {
            Self::Equal => Relation::Equal,
            Self::Less => Relation::Less,
            Self::LessOrEqual => Relation::LessOrEqual,
            Self::Greater => Relation::Greater,
            Self::GreaterOrEqual => Relation::GreaterOrEqual,
        }
    }
}

fn stored(values: &[Value]) -> Option<Vec<u8>> {
    let fields = values.iter().enumerate().map(|(at, value)| (at.to_string(), value.clone()));
    let mut out = Vec::new();
    bson::write(&fields.collect::<Object>(), &mut out).ok()?;
    Some(out)
}

fn values_of(bytes: &[u8]) -> Option<Vec<Value>> {
    Some(bson::read(bytes).ok()?.into_iter().map(|(_, value)| value).collect())
}
