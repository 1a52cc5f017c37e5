//! Updates: from a document the next version of it, or nothing if nothing changes.

mod apply;
mod arithmetic;
mod array;
mod limits;
mod modifier;
mod names;
mod push;
mod rename;
mod tree;

use std::fmt::Debug;
use std::sync::Arc;

use model::{Object, Value};

use super::print::Printed;
use super::types::{self, BsonType};
use super::{Failure, Variables, code};

pub use array::PullCondition;
pub use limits::{check_limits, encoded_bytes};
pub use modifier::{BitOperation, Modifier};
pub use push::{Push, PushSort};
pub use rename::Rename;
pub use tree::{ArrayFilter, UpdateTree};

/// A compiled update.
#[derive(Clone, Debug)]
pub enum Update {
    /// Operators on fields.
    Modifiers(Modifiers),
    /// Another document, which keeps the `_id`.
    Replacement(Object),
    /// Stages that compute the next version.
    Pipeline(Arc<dyn Transform>),
}

/// Computes the next version of a document: the stages of an update by pipeline.
pub trait Transform: Debug + Send + Sync {
    /// The next version of `document`.
    fn apply(&self, document: &Object, variables: &Variables) -> Result<Object, Failure>;
}

/// Operators on fields, none of which conflict.
#[derive(Clone, Debug, Default)]
pub struct Modifiers {
    /// The operators by the paths that they change.
    pub tree: UpdateTree,
    /// Fields that change their names; the tree refers to them by number.
    pub renames: Vec<Rename>,
    /// The filters on elements of arrays that paths refer to.
    pub array_filters: Vec<ArrayFilter>,
    /// How many operators there are.
    pub count: usize,
}

/// What an update is applied with.
#[derive(Clone, Copy, Debug)]
pub struct UpdateContext<'u> {
    /// Values that the caller sets.
    pub variables: &'u Variables,
    /// The position of the array element that made the document match, for the positional operator.
    pub position: Option<usize>,
    /// Whether the document is a new one.
    pub is_insert: bool,
}

impl<'u> UpdateContext<'u> {
    /// The context of an update of a document that exists.
    pub fn new(variables: &'u Variables, position: Option<usize>) -> Self {
        Self { variables, position, is_insert: false }
    }
}

/// Operators that a cheap update has at most.
const CHEAP_OPERATORS_MAX: usize = 32;

impl Update {
    /// The next version of `document`; `None` if it would be the same.
    pub fn apply(
        &self,
        document: &Object,
        context: &UpdateContext<'_>,
    ) -> Result<Option<Object>, Failure> {
        let next = match self {
            Update::Modifiers(modifiers) => modifiers.apply(document, context)?,
            Update::Replacement(replacement) => replaced(document, replacement)?,
            Update::Pipeline(pipeline) => {
                replaced(document, &pipeline.apply(document, context.variables)?)?
            }
        };
        if let Some(next) = &next {
            check_limits(next)?;
        }
        Ok(next)
    }

    /// Whether it takes so little time that another thread would not pay.
    pub fn is_cheap(&self) -> bool {
        match self {
            Update::Modifiers(modifiers) => {
                modifiers.count <= CHEAP_OPERATORS_MAX
                    && modifiers.array_filters.is_empty()
                    && modifiers.tree.is_cheap()
            }
            Update::Replacement(_) => true,
            Update::Pipeline(_) => false,
        }
    }

    /// Whether a path has the positional operator, so that the position of the match is needed.
    pub fn needs_position(&self) -> bool {
        match self {
            Update::Modifiers(modifiers) => modifiers.tree.has_positional(),
            Update::Replacement(_) | Update::Pipeline(_) => false,
        }
    }
}

/// The document that replaces another, with its `_id` in front.
fn replaced(document: &Object, replacement: &Object) -> Result<Option<Object>, Failure> {
    let id = document.get("_id");
    if let (Some(id), Some(new)) = (id, replacement.get("_id"))
        && !types::equal(id, new)
    {
        let message = format!(
            "After applying the update, the (immutable) field '_id' was found to have been \
             altered to _id: {}",
            Printed(new)
        );
        return Err(Failure::new(code::IMMUTABLE_FIELD, message));
    }
    let id = id.or_else(|| replacement.get("_id")).cloned();
    let others = replacement.iter().filter(|(name, _)| *name != "_id");
    let others = others.map(|(name, value)| (name.to_owned(), value.clone()));
    let next: Object = id.map(|id| ("_id".to_owned(), id)).into_iter().chain(others).collect();
    let is_same = types::identical_objects(document, &next);
    Ok((!is_same).then_some(next))
}

impl Modifiers {
    fn apply(
        &self,
        document: &Object,
        context: &UpdateContext<'_>,
    ) -> Result<Option<Object>, Failure> {
        let renamed = rename::values(&self.renames, document)?;
        let id = document.get("_id");
        let mut application = apply::Application {
            modifiers: self,
            context,
            renamed: &renamed,
            id,
            path: Vec::new(),
        };
        let mut next = Value::Object(document.clone());
        let is_changed = application.tree(&self.tree, &mut next)?;
        let Value::Object(next) = next else { return Ok(None) };
        // A new document may be given the `_id` that the filter has not.
        if let Some(id) = id
            && !next.get("_id").is_some_and(|new| types::equal(id, new))
        {
            let path = self.tree.first_path_in("_id");
            let message = format!(
                "Performing an update on the path '{path}' would modify the immutable field '_id'"
            );
            return Err(Failure::new(code::IMMUTABLE_FIELD, message));
        }
        Ok(is_changed.then_some(next))
    }
}

/// Fails unless a value may be an `_id`.
pub fn check_id(id: &Value) -> Result<(), Failure> {
    let of = BsonType::of(id);
    match matches!(of, BsonType::Array | BsonType::Regex | BsonType::Undefined) {
        true => {
            let message = format!("The '_id' value cannot be of type {}", of.alias());
            Err(Failure::new(code::INVALID_ID_FIELD, message))
        }
        false => Ok(()),
    }
}
