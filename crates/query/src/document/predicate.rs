//! Filters: whether a document matches, and at which position of an array.

mod bits;
mod candidates;
mod in_list;
mod schema;
mod schema_fields;
mod script;

use std::cell::Cell;
use std::sync::Arc;

use model::Value;
use model::json::FieldMask;

use crate::Budget;
use crate::algebra::{RandomSource, Relation};

use super::types::{self, BsonType, TypeSet};
use super::{DocumentTest, Evaluate, Failure, FieldPath, Regex, Variables};

pub use bits::{BitTest, Bits};
pub use in_list::InList;
pub use schema::Schema;
pub use schema_fields::{Additional, ArrayRules, Items, ObjectRules};
pub use script::WhereScript;

pub(in crate::document) use candidates::{LeafArray, find_candidate};

/// A filter.
#[derive(Clone, Debug)]
pub enum Predicate {
    /// Whether all match; true of none.
    And(Vec<Predicate>),
    /// Whether one matches; false of none.
    Or(Vec<Predicate>),
    /// Whether it does not match.
    Not(Box<Predicate>),
    /// Whether one of the values that a path leads to passes a test.
    Field {
        /// The path.
        path: FieldPath,
        /// The test.
        test: ValueTest,
    },
    /// The same for every document.
    Constant(bool),
    /// Whether an expression is true, as conditions are.
    Expression(Arc<dyn Evaluate>),
    /// Whether a script says so.
    Script(Arc<dyn DocumentTest>),
    /// Whether a random number from 0 up to 1 is less than this.
    Sample {
        /// The share of documents that match.
        rate: f64,
        /// Where the numbers come from.
        random: RandomSource,
    },
    /// Whether the document fits a schema.
    Schema(Arc<Schema>),
}

/// A test of one value.
#[derive(Clone, Debug)]
pub enum ValueTest {
    /// Whether the value is in a relation to another of its class; null equals what is missing.
    Compare {
        /// The relation.
        relation: Relation,
        /// The right operand.
        operand: Value,
    },
    /// Whether it equals one of several.
    In(InList),
    /// Whether there is one.
    Exists,
    /// Whether it has one of these types.
    Type(TypeSet),
    /// Whether it is text that matches, or the same regular expression.
    Regex(Arc<Regex>),
    /// Whether it is a number with this remainder.
    Mod {
        /// The divisor, not zero.
        divisor: i64,
        /// The remainder, with the sign of the dividend.
        remainder: i64,
    },
    /// Whether it is an array of this length.
    Size(i64),
    /// Whether bits of it are set or not.
    Bits(Bits),
    /// Whether it is an array with an element that is an object or array and matches.
    ElementObject(Box<Predicate>),
    /// Whether it is an array with an element that passes tests, which are those of the path
    /// without parts.
    ElementValue(Box<Predicate>),
}

/// What evaluation of a filter for one document shares.
pub(crate) struct Matching<'m> {
    variables: &'m Variables,
    budget: &'m Budget,
    /// The position in the first array that a path led through and that decided.
    position: Cell<Option<usize>>,
}

impl Matching<'_> {
    /// Calls `decide` with the means to evaluate for one document.
    pub(crate) fn with<T>(variables: &Variables, decide: impl FnOnce(&Matching<'_>) -> T) -> T {
        let budget = Budget::per_item();
        decide(&Matching { variables, budget: &budget, position: Cell::new(None) })
    }
}

impl Predicate {
    /// Whether `document` matches.
    pub fn matches(&self, document: &Value, variables: &Variables) -> Result<bool, Failure> {
        Matching::with(variables, |matching| self.decide(document, matching))
    }

    /// The position that `$` in an update or projection stands for: that of the array element which
    /// made `document` match. `None` if it does not match, `Some(None)` if no array was involved.
    pub fn matched_position(
        &self,
        document: &Value,
        variables: &Variables,
    ) -> Result<Option<Option<usize>>, Failure> {
        Matching::with(variables, |matching| {
            let is_match = self.decide(document, matching)?;
            Ok(is_match.then(|| matching.position.get()))
        })
    }

    /// Adds to `mask` what has to be read of a document to decide.
    pub fn require(&self, mask: &mut FieldMask) {
        match self {
            Predicate::And(parts) | Predicate::Or(parts) => {
                parts.iter().for_each(|part| part.require(mask));
            }
            Predicate::Not(negated) => negated.require(mask),
            Predicate::Field { path, test: _ } => path.require(mask),
            Predicate::Constant(_) | Predicate::Sample { .. } => {}
            Predicate::Expression(expression) => expression.require(mask),
            Predicate::Script(_) | Predicate::Schema(_) => *mask = FieldMask::All,
        }
    }

    /// Whether a path is tested that begins with this field.
    pub fn tests_path(&self, begins_with: &str) -> bool {
        match self {
            Predicate::And(parts) | Predicate::Or(parts) => {
                parts.iter().any(|part| part.tests_path(begins_with))
            }
            Predicate::Not(negated) => negated.tests_path(begins_with),
            Predicate::Field { path, test: _ } => path_begins_with(path.as_str(), begins_with),
            Predicate::Constant(_)
            | Predicate::Sample { .. }
            | Predicate::Expression(_)
            | Predicate::Script(_)
            | Predicate::Schema(_) => false,
        }
    }

    pub(crate) fn decide(&self, value: &Value, matching: &Matching<'_>) -> Result<bool, Failure> {
        match self {
            Predicate::And(parts) => {
                let position = matching.position.get();
                for part in parts {
                    if !part.decide(value, matching)? {
                        matching.position.set(position);
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Predicate::Or(parts) => {
                for part in parts {
                    if part.decide(value, matching)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Predicate::Not(negated) => {
                // What does not match has no position.
                let position = matching.position.get();
                let is_match = negated.decide(value, matching)?;
                matching.position.set(position);
                Ok(!is_match)
            }
            Predicate::Field { path, test } => test.passes_at(value, path, matching),
            Predicate::Constant(value) => Ok(*value),
            Predicate::Expression(expression) => {
                let result = expression.evaluate(value, matching.variables)?;
                Ok(result.as_ref().is_some_and(types::is_truthy))
            }
            Predicate::Script(script) => script.matches(value, matching.variables),
            Predicate::Sample { rate, random } => Ok(random.next() < *rate),
            Predicate::Schema(schema) => schema.accepts(value, matching),
        }
    }
}

fn path_begins_with(path: &str, start: &str) -> bool {
    let rest = path.strip_prefix(start);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl ValueTest {
    /// Whether a value that `path` leads to passes.
    fn passes_at(
        &self,
        root: &Value,
        path: &FieldPath,
        matching: &Matching<'_>,
    ) -> Result<bool, Failure> {
        find_candidate(root, path, self.leaf_array(), &mut |candidate, position| {
            matching.variables.step()?;
            if !self.passes(candidate, matching)? {
                return Ok(false);
            }
            if let Some(position) = position {
                matching.position.set(Some(position));
            }
            Ok(true)
        })
    }

    /// The position of the first element of an array that passes, if this is a test of elements.
    pub(crate) fn position_in(
        &self,
        value: Option<&Value>,
        matching: &Matching<'_>,
    ) -> Result<Option<usize>, Failure> {
        let is_passed = self.passes(value, matching)?;
        Ok(matching.position.get().filter(|_| is_passed))
    }

    /// Whether the elements of an array at the end of a path are tested as well.
    fn leaf_array(&self) -> LeafArray {
        match self {
            ValueTest::Size(_) | ValueTest::ElementObject(_) | ValueTest::ElementValue(_) => {
                LeafArray::Whole
            }
            ValueTest::Compare { .. }
            | ValueTest::In(_)
            | ValueTest::Exists
            | ValueTest::Type(_)
            | ValueTest::Regex(_)
            | ValueTest::Mod { .. }
            | ValueTest::Bits(_) => LeafArray::ElementsAndWhole,
        }
    }

    fn passes(&self, value: Option<&Value>, matching: &Matching<'_>) -> Result<bool, Failure> {
        match self {
            ValueTest::Compare { relation, operand } => {
                Ok(is_in_relation(value, *relation, operand))
            }
            ValueTest::In(list) => list.contains(value, matching.budget),
            ValueTest::Exists => Ok(value.is_some()),
            ValueTest::Type(types) => {
                Ok(value.is_some_and(|value| types.contains(BsonType::of(value))))
            }
            ValueTest::Regex(regex) => match value {
                Some(value) => regex_matches(regex, value, matching.budget),
                None => Ok(false),
            },
            ValueTest::Mod { divisor, remainder } => {
                let dividend = value.and_then(truncated);
                Ok(dividend.is_some_and(|n| n.wrapping_rem(*divisor) == *remainder))
            }
            ValueTest::Size(size) => {
                let elements = value.and_then(Value::as_array);
                Ok(elements.is_some_and(|elements| i64::try_from(elements.len()) == Ok(*size)))
            }
            ValueTest::Bits(bits) => Ok(value.is_some_and(|value| bits.passes(value))),
            ValueTest::ElementObject(predicate) => {
                let is_composite =
                    |value: &Value| matches!(value, Value::Object(_) | Value::Array(_));
                find_element(value, predicate, is_composite, matching)
            }
            ValueTest::ElementValue(predicate) => {
                find_element(value, predicate, |_| true, matching)
            }
        }
    }
}

/// Whether an element of an array matches; then its position is that of the match.
fn find_element(
    value: Option<&Value>,
    predicate: &Predicate,
    is_tested: impl Fn(&Value) -> bool,
    matching: &Matching<'_>,
) -> Result<bool, Failure> {
    let elements = value.and_then(Value::as_array).unwrap_or_default();
    for (position, element) in elements.iter().enumerate() {
        if is_tested(element) && predicate.decide(element, matching)? {
            matching.position.set(Some(position));
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a value is in a relation. Values of different classes are not, except that null and what
/// is missing are equal, and that everything compares with the least and the greatest key.
pub(crate) fn is_in_relation(value: Option<&Value>, relation: Relation, operand: &Value) -> bool {
    if matches!(operand, Value::MinKey | Value::MaxKey) {
        let value = value.unwrap_or(&Value::Null);
        return relation.holds(types::compare(Some(value), Some(operand)));
    }
    let Some(value) = value else {
        return is_null_like(operand) && includes_equality(relation);
    };
    if !types::same_class(value, operand) {
        let are_both_null = is_null_like(value) && is_null_like(operand);
        return are_both_null && includes_equality(relation);
    }
    match (types::is_nan(value), types::is_nan(operand)) {
        (false, false) => relation.holds(types::compare(Some(value), Some(operand))),
        (true, true) => includes_equality(relation),
        _ => relation == Relation::NotEqual,
    }
}

fn is_null_like(value: &Value) -> bool {
    matches!(BsonType::of(value), BsonType::Null | BsonType::Undefined)
}

fn includes_equality(relation: Relation) -> bool {
    relation.holds(std::cmp::Ordering::Equal)
}

/// Whether a value is text that matches, or equals the regular expression.
fn regex_matches(regex: &Regex, value: &Value, budget: &Budget) -> Result<bool, Failure> {
    if let Value::String(text) | Value::Symbol(text) = value {
        return regex.is_match(text, budget);
    }
    let Value::Regex { pattern, options } = value else { return Ok(false) };
    Ok(pattern == regex.pattern() && options == regex.options())
}

/// A number without its fraction, if it is an int64 then.
pub(crate) fn truncated(value: &Value) -> Option<i64> {
    if let Value::Decimal128(bytes) = value {
        let decimal = model::decimal::Decimal::from_bson(bytes);
        let model::decimal::Decimal::Finite(finite) = decimal else { return None };
        return truncate_decimal(finite);
    }
    value.as_i64().or_else(|| value.as_f64().and_then(|n| model::number::f64_to_i64(n.trunc())))
}

fn truncate_decimal(mut finite: model::decimal::Finite) -> Option<i64> {
    while finite.exponent < 0 && finite.coefficient != 0 {
        finite.coefficient /= 10;
        finite.exponent += 1;
    }
    finite.to_i64()
}

#[cfg(test)]
mod tests;
