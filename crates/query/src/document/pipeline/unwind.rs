//! `$unwind`: a document for each element of an array.

use std::sync::Arc;

use model::Value;

use super::Documents;
use super::fields::{remove, set};
use crate::document::Failure;
use crate::document::values::is_nullish;

/// `$unwind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwind {
    /// The names that lead to the array.
    pub path: Vec<String>,
    /// Where the position of the element is stored.
    pub index: Option<Vec<String>>,
    /// Whether documents without elements are kept.
    pub keeps_empty: bool,
}

/// A document whose array is being unwound.
struct Current {
    /// Without the array.
    document: Value,
    elements: std::vec::IntoIter<Value>,
    position: i64,
}

/// The documents of an unwind.
pub(super) struct Unwinding {
    unwind: Arc<Unwind>,
    source: Box<dyn Documents>,
    current: Option<Current>,
}

impl Unwinding {
    pub(super) fn new(unwind: Arc<Unwind>, source: Box<dyn Documents>) -> Self {
        Self { unwind, source, current: None }
    }

    /// The next element of the current array.
    fn element(&mut self) -> Option<Value> {
        let current = self.current.as_mut()?;
        let element = current.elements.next()?;
        let position = current.position;
        current.position += 1;
        let is_last = current.elements.len() == 0;
        let mut document = match is_last {
            true => self.current.take()?.document,
            false => current.document.clone(),
        };
        set(&mut document, &self.unwind.path, element);
        if let Some(index) = &self.unwind.index {
            set(&mut document, index, Value::Int64(position));
        }
        Some(document)
    }
}

impl Documents for Unwinding {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        loop {
            if let Some(document) = self.element() {
                return Ok(Some(document));
            }
            let Some(mut document) = self.source.next()? else { return Ok(None) };
            let path = &self.unwind.path;
            let found = value_at(&mut document, path).map(|value| {
                if let Value::Array(elements) = value {
                    return Some(std::mem::take(elements));
                }
                None
            });
            let is_nothing = match &found {
                None => true,
                Some(Some(elements)) => elements.is_empty(),
                Some(None) => is_nullish(value_at(&mut document, path).as_deref()),
            };
            match found {
                Some(Some(elements)) if !is_nothing => {
                    set(&mut document, path, Value::Null);
                    self.current =
                        Some(Current { document, elements: elements.into_iter(), position: 0 });
                }
                _ if is_nothing && !self.unwind.keeps_empty => {}
                other => {
                    if matches!(other, Some(Some(_))) {
                        remove(&mut document, path);
                    }
                    if let Some(index) = &self.unwind.index {
                        set(&mut document, index, Value::Null);
                    }
                    return Ok(Some(document));
                }
            }
        }
    }
}

/// The value at a path through objects.
fn value_at<'v>(value: &'v mut Value, path: &[String]) -> Option<&'v mut Value> {
    let Some((name, rest)) = path.split_first() else { return Some(value) };
    value_at(value.as_object_mut()?.get_mut(name)?, rest)
}
