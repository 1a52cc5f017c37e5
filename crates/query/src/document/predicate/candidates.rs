//! The values that a path leads to: each element of the arrays on its way is followed.

use model::{Object, Value};

use crate::document::Failure;
use crate::document::path::{FieldPath, PathPart};

/// What is tested of an array at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::document) enum LeafArray {
    /// Its elements one by one, then the array.
    ElementsAndWhole,
    /// The array alone.
    Whole,
}

/// Tests a value, or that there is none. The position is that in the outermost array whose elements
/// were followed without being named.
type Test<'t, 'v> = &'t mut dyn FnMut(Option<&'v Value>, Option<usize>) -> Result<bool, Failure>;

/// Whether one of the values that `path` leads to passes. A path that ends early leads to a missing
/// value, but elements of arrays that cannot have fields lead to nothing.
pub(in crate::document) fn find_candidate<'v>(
    root: &'v Value,
    path: &FieldPath,
    leaf: LeafArray,
    test: Test<'_, 'v>,
) -> Result<bool, Failure> {
    let mut traversal = Traversal { leaf, test };
    match (path.parts(), root) {
        ([], _) => (traversal.test)(Some(root), None),
        (parts, Value::Object(object)) => traversal.object(object, parts, None),
        (parts, Value::Array(elements)) => traversal.array_as_object(elements, parts),
        _ => (traversal.test)(None, None),
    }
}

struct Traversal<'t, 'v> {
    leaf: LeafArray,
    test: Test<'t, 'v>,
}

impl<'v> Traversal<'_, 'v> {
    fn object(
        &mut self,
        object: &'v Object,
        parts: &[PathPart],
        position: Option<usize>,
    ) -> Result<bool, Failure> {
        let Some((part, rest)) = parts.split_first() else { return Ok(false) };
        self.value(object.get(&part.name), rest, position)
    }

    /// An array that is tested like an object whose names are positions.
    fn array_as_object(
        &mut self,
        elements: &'v [Value],
        parts: &[PathPart],
    ) -> Result<bool, Failure> {
        let Some((part, rest)) = parts.split_first() else { return Ok(false) };
        let element = part.position.and_then(|position| elements.get(position));
        self.value(element, rest, None)
    }

    fn value(
        &mut self,
        value: Option<&'v Value>,
        rest: &[PathPart],
        position: Option<usize>,
    ) -> Result<bool, Failure> {
        match (value, rest) {
            (Some(Value::Array(elements)), []) => {
                if self.leaf == LeafArray::ElementsAndWhole {
                    for (at, element) in elements.iter().enumerate() {
                        if (self.test)(Some(element), position.or(Some(at)))? {
                            return Ok(true);
                        }
                    }
                }
                (self.test)(value, position)
            }
            (_, []) => (self.test)(value, position),
            (Some(Value::Object(object)), _) => self.object(object, rest, position),
            (Some(Value::Array(elements)), _) => self.elements(elements, rest, position),
            (Some(_) | None, _) => (self.test)(None, position),
        }
    }

    /// The elements of an array on the way: objects are followed, and so is the element at the
    /// position that the next part names.
    fn elements(
        &mut self,
        elements: &'v [Value],
        parts: &[PathPart],
        position: Option<usize>,
    ) -> Result<bool, Failure> {
        let Some((part, rest)) = parts.split_first() else { return Ok(false) };
        for (at, element) in elements.iter().enumerate() {
            let outermost = position.or(Some(at));
            if let Value::Object(object) = element
                && self.object(object, parts, outermost)?
            {
                return Ok(true);
            }
            if part.position != Some(at) {
                continue;
            }
            let is_found = match (element, rest) {
                (_, []) => (self.test)(Some(element), position)?,
                (Value::Object(object), _) => self.object(object, rest, position)?,
                (Value::Array(inner), _) => self.elements(inner, rest, position)?,
                _ => false,
            };
            if is_found {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
