//! The operators of updates: what each does to a value, and where there is none.

use model::Value;

use crate::document::types::{self, BsonType};
use crate::document::{Failure, Variables};

use super::arithmetic;
use super::array::{self, PullCondition};
use super::push::Push;

/// An operator with its argument.
#[derive(Clone, Debug)]
pub enum Modifier {
    /// Sets a value.
    Set(Value),
    /// Sets a value in new documents.
    SetOnInsert(Value),
    /// Removes the field.
    Unset,
    /// Adds a number.
    Increment(Value),
    /// Multiplies by a number.
    Multiply(Value),
    /// Sets a value that is less.
    Min(Value),
    /// Sets a value that is greater.
    Max(Value),
    /// Sets the time of the command.
    CurrentDate {
        /// Whether as a timestamp rather than a date.
        is_timestamp: bool,
    },
    /// Combines bits with those of integers, one after the other.
    Bits(Vec<(BitOperation, Value)>),
    /// Adds elements.
    Push(Push),
    /// Adds those elements that are not there.
    AddToSet(Vec<Value>),
    /// Removes an element at one of the ends.
    Pop {
        /// Whether the first one.
        is_first: bool,
    },
    /// Removes the elements that match.
    Pull(PullCondition),
    /// Removes the elements that equal one of these.
    PullAll(Vec<Value>),
    /// Sets the value that another field had, by its number.
    RenameTo(usize),
    /// Removes that other field.
    RenameFrom(usize),
}

/// How bits are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is the operator")]
pub enum BitOperation {
    And,
    Or,
    Xor,
}

/// What an operator did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Unchanged,
    Changed,
    /// The field is to be removed.
    Removed,
}

/// Where an operator is applied.
pub(super) struct Target<'t> {
    pub(super) variables: &'t Variables,
    pub(super) is_insert: bool,
    pub(super) renamed: &'t [Option<Value>],
    pub(super) path: &'t [String],
    pub(super) id: Option<&'t Value>,
}

impl Target<'_> {
    /// The name of the field or the position of the element.
    pub(super) fn name(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    /// The `_id` of the document as messages have it.
    pub(super) fn printed_id(&self) -> String {
        match self.id {
            Some(id) => format!("_id: {}", crate::document::print::Printed(id)),
            None => "no id".to_owned(),
        }
    }

    fn renamed(&self, number: usize) -> Option<&Value> {
        self.renamed.get(number).and_then(Option::as_ref)
    }

    fn now(&self, is_timestamp: bool) -> Value {
        let now = self.variables.now;
        if !is_timestamp {
            return Value::Date(now);
        }
        let seconds = u32::try_from(now.millis.div_euclid(1000)).unwrap_or_default();
        let at_now = Value::Timestamp { seconds, increment: 1 };
        self.variables.cluster_time.clone().unwrap_or(at_now)
    }
}

impl Modifier {
    pub(super) fn is_cheap(&self) -> bool {
        match self {
            Modifier::Push(push) => push.is_cheap(),
            Modifier::AddToSet(_) | Modifier::Pull(_) | Modifier::PullAll(_) => false,
            Modifier::Set(_)
            | Modifier::SetOnInsert(_)
            | Modifier::Unset
            | Modifier::Increment(_)
            | Modifier::Multiply(_)
            | Modifier::Min(_)
            | Modifier::Max(_)
            | Modifier::CurrentDate { .. }
            | Modifier::Bits(_)
            | Modifier::Pop { .. }
            | Modifier::RenameTo(_)
            | Modifier::RenameFrom(_) => true,
        }
    }

    /// Whether it creates the field where there is none.
    pub(super) fn creates(&self, is_insert: bool) -> bool {
        match self {
            Modifier::SetOnInsert(_) => is_insert,
            Modifier::Unset
            | Modifier::Pop { .. }
            | Modifier::Pull(_)
            | Modifier::PullAll(_)
            | Modifier::RenameFrom(_) => false,
            Modifier::Set(_)
            | Modifier::Increment(_)
            | Modifier::Multiply(_)
            | Modifier::Min(_)
            | Modifier::Max(_)
            | Modifier::CurrentDate { .. }
            | Modifier::Bits(_)
            | Modifier::Push(_)
            | Modifier::AddToSet(_)
            | Modifier::RenameTo(_) => true,
        }
    }

    /// The value where there is none; `None` if the field is not created.
    pub(super) fn create(&self, target: &Target<'_>) -> Result<Option<Value>, Failure> {
        match self {
            Modifier::Set(value)
            | Modifier::Increment(value)
            | Modifier::Min(value)
            | Modifier::Max(value) => Ok(Some(value.clone())),
            Modifier::SetOnInsert(value) => Ok(target.is_insert.then(|| value.clone())),
            Modifier::Multiply(factor) => Ok(Some(arithmetic::zero_of(factor))),
            Modifier::CurrentDate { is_timestamp } => Ok(Some(target.now(*is_timestamp))),
            Modifier::Bits(operations) => {
                let mut value = Value::Int32(0);
                arithmetic::combine_bits(&mut value, operations, target)?;
                Ok(Some(value))
            }
            Modifier::Push(push) => {
                let mut elements = Vec::new();
                push.apply(&mut elements);
                Ok(Some(Value::Array(elements)))
            }
            Modifier::AddToSet(added) => {
                let mut elements = Vec::new();
                array::add_to_set(&mut elements, added);
                Ok(Some(Value::Array(elements)))
            }
            Modifier::RenameTo(number) => Ok(target.renamed(*number).cloned()),
            Modifier::Unset
            | Modifier::Pop { .. }
            | Modifier::Pull(_)
            | Modifier::PullAll(_)
            | Modifier::RenameFrom(_) => Ok(None),
        }
    }

    /// Changes a value that exists.
    pub(super) fn change(&self, value: &mut Value, target: &Target<'_>) -> Result<Change, Failure> {
        match self {
            Modifier::Set(new) => Ok(set(value, new)),
            Modifier::SetOnInsert(new) if target.is_insert => Ok(set(value, new)),
            Modifier::SetOnInsert(_) => Ok(Change::Unchanged),
            Modifier::Unset => Ok(Change::Removed),
            Modifier::Increment(operand) => arithmetic::increment(value, operand, target),
            Modifier::Multiply(operand) => arithmetic::multiply(value, operand, target),
            Modifier::Min(new) => Ok(match types::compare(Some(new), Some(value)).is_lt() {
                true => set(value, new),
                false => Change::Unchanged,
            }),
            Modifier::Max(new) => Ok(match types::compare(Some(new), Some(value)).is_gt() {
                true => set(value, new),
                false => Change::Unchanged,
            }),
            Modifier::CurrentDate { is_timestamp } => Ok(set(value, &target.now(*is_timestamp))),
            Modifier::Bits(operations) => arithmetic::combine_bits(value, operations, target),
            Modifier::Push(push) => {
                let of = BsonType::of(value);
                let Value::Array(elements) = value else {
                    return Err(array::not_an_array(target, of));
                };
                Ok(changed(push.apply(elements)))
            }
            Modifier::AddToSet(added) => array::add(value, added, target),
            Modifier::Pop { is_first } => array::pop(value, *is_first, target),
            Modifier::Pull(condition) => array::pull(value, condition, target),
            Modifier::PullAll(removed) => array::pull_all(value, removed),
            Modifier::RenameTo(number) => match target.renamed(*number) {
                Some(new) => Ok(set(value, new)),
                None => Ok(Change::Unchanged),
            },
            Modifier::RenameFrom(number) => match target.renamed(*number) {
                Some(_) => Ok(Change::Removed),
                None => Ok(Change::Unchanged),
            },
        }
    }
}

pub(super) fn changed(is_changed: bool) -> Change {
    if is_changed { Change::Changed } else { Change::Unchanged }
}

/// Sets a value, unless it is the same byte for byte.
pub(super) fn set(value: &mut Value, new: &Value) -> Change {
    if types::identical(value, new) {
        return Change::Unchanged;
    }
    value.clone_from(new);
    Change::Changed
}
