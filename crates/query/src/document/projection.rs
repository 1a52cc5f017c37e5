//! Projections: which fields of a document are kept, dropped or computed.

mod tree;

use std::sync::Arc;

use model::json::FieldMask;
use model::{Object, Value};

use super::predicate::ValueTest;
use super::{Evaluate, Failure, Predicate, Variables};

pub use tree::{Child, Collision, ProjectionTree};

/// A compiled projection.
#[derive(Clone, Debug)]
pub struct Projection {
    /// Whether fields that are not named are left out.
    pub is_inclusion: bool,
    /// What becomes of the fields that are named.
    pub tree: ProjectionTree,
    /// The arrays of which a part is kept.
    pub slices: Vec<SliceOf>,
    /// The array of which the element that matched is kept.
    pub positional: Option<Positional>,
}

/// What computes the value of a field.
#[derive(Clone, Debug)]
pub enum Computed {
    /// An expression.
    Expression(Arc<dyn Evaluate>),
    /// The first element of the array in the field that passes a test of elements, as an array.
    FirstElement(Arc<ValueTest>),
    /// Nothing: the field is left out.
    Nothing,
}

/// The part of an array that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceOf {
    /// The names that lead to the array.
    pub path: Vec<String>,
    /// Elements that are skipped, from the end if negative; `None` if the limit alone counts.
    pub skip: Option<i64>,
    /// Elements that are kept; without `skip` from the end if negative.
    pub limit: i64,
}

/// An array of which only the element that matched is kept.
#[derive(Clone, Debug)]
pub struct Positional {
    /// The names that lead to the array.
    pub path: Vec<String>,
    /// The filter that decides which element matches.
    pub filter: Arc<Predicate>,
}

/// No array of the filter is where the positional projection is.
const NO_ELEMENT: i32 = 51246;
/// The array that is projected is shorter than the one that matched.
const ELEMENT_MISMATCH: i32 = 51247;

impl Projection {
    /// The projected form of a document.
    pub fn apply(&self, document: &Value, variables: &Variables) -> Result<Object, Failure> {
        let empty = Object::new();
        let object = document.as_object().unwrap_or(&empty);
        let evaluation = tree::Evaluation { document, variables };
        let mut output = match self.is_inclusion {
            true => evaluation.include(&self.tree, object)?,
            false => evaluation.exclude(&self.tree, object)?,
        };
        for slice in &self.slices {
            slice_in_object(&mut output, &slice.path, slice);
        }
        if let Some(positional) = &self.positional {
            let position = positional.filter.matched_position(document, variables)?.flatten();
            keep_element(&mut output, &positional.path, position)?;
        }
        Ok(output)
    }

    /// Adds to `mask` what has to be read of a document.
    pub fn require(&self, mask: &mut FieldMask) {
        if !self.is_inclusion {
            *mask = FieldMask::All;
            return;
        }
        self.tree.require(&mut Vec::new(), mask);
        if let Some(positional) = &self.positional {
            positional.filter.require(mask);
        }
    }

    /// Whether nothing is computed, so that included fields could be copied as they are stored.
    pub fn is_simple(&self) -> bool {
        self.slices.is_empty() && self.positional.is_none() && !self.tree.has_computed()
    }
}

fn slice_in_object(object: &mut Object, path: &[String], slice: &SliceOf) {
    let Some((name, rest)) = path.split_first() else { return };
    if let Some(value) = object.get_mut(name) {
        slice_in_value(value, rest, slice);
    }
}

fn slice_in_value(value: &mut Value, rest: &[String], slice: &SliceOf) {
    if let Value::Object(object) = value {
        return slice_in_object(object, rest, slice);
    }
    let Value::Array(elements) = value else { return };
    if rest.is_empty() {
        let (start, end) = slice.range(elements.len());
        elements.truncate(end);
        elements.drain(..start);
        return;
    }
    for element in elements {
        if let Value::Object(object) = element {
            slice_in_object(object, rest, slice);
        }
    }
}

impl SliceOf {
    /// The first position that is kept, and the first after those.
    fn range(&self, length: usize) -> (usize, usize) {
        let size = |n: i64| usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX);
        let from_start = |n: i64| match n < 0 {
            true => length.saturating_sub(size(n)),
            false => size(n).min(length),
        };
        match self.skip {
            Some(skip) => {
                let start = from_start(skip);
                (start, start.saturating_add(size(self.limit)).min(length))
            }
            None if self.limit < 0 => (from_start(self.limit), length),
            None => (0, from_start(self.limit)),
        }
    }
}

/// Keeps one element of the first array on a path.
fn keep_element(
    object: &mut Object,
    path: &[String],
    position: Option<usize>,
) -> Result<(), Failure> {
    let Some((name, rest)) = path.split_first() else { return Ok(()) };
    let Some(value) = object.get_mut(name) else { return Ok(()) };
    if let Value::Object(object) = value {
        return keep_element(object, rest, position);
    }
    let Value::Array(elements) = value else { return Ok(()) };
    let Some(position) = position else {
        let message = "Executor error during find command :: caused by :: positional operator \
                       '.$' couldn't find a matching element in the array";
        return Err(Failure::new(NO_ELEMENT, message));
    };
    if position >= elements.len() {
        let message = "Executor error during find command :: caused by :: positional operator \
                       '.$' element mismatch";
        return Err(Failure::new(ELEMENT_MISMATCH, message));
    }
    let kept = elements.swap_remove(position);
    *elements = vec![kept];
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_count_from_both_ends() {
        let range = |skip, limit| SliceOf { path: Vec::new(), skip, limit }.range(5);
        assert_eq!(range(None, 2), (0, 2));
        assert_eq!(range(None, 9), (0, 5));
        assert_eq!(range(None, -2), (3, 5));
        assert_eq!(range(None, -9), (0, 5));
        assert_eq!(range(None, 0), (0, 0));
        assert_eq!(range(Some(1), 2), (1, 3));
        assert_eq!(range(Some(-2), 1), (3, 4));
        assert_eq!(range(Some(-9), 2), (0, 2));
        assert_eq!(range(Some(9), 2), (5, 5));
        assert_eq!(range(Some(i64::MIN), i64::MAX), (0, 5));
    }
}
