//! Adds elements to an array, then sorts it and cuts it.

use std::cmp::Ordering;

use model::Value;

use crate::document::types;

/// What is added where, and what becomes of the array then.
#[derive(Clone, Debug, Default)]
pub struct Push {
    /// The elements.
    pub elements: Vec<Value>,
    /// Where they are inserted, from the end if negative; at the end if not given.
    pub position: Option<i64>,
    /// How the array is sorted, if it is.
    pub sort: Option<PushSort>,
    /// How many elements are kept, the last ones if negative; all if not given.
    pub slice: Option<i64>,
}

/// How an array is sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushSort {
    /// By the elements as a whole.
    Whole {
        /// Whether the greatest comes first.
        is_descending: bool,
    },
    /// By fields of the elements.
    Fields(Vec<(Vec<String>, bool)>),
}

impl Push {
    /// Whether it adds one element or few, and nothing else.
    pub(super) fn is_cheap(&self) -> bool {
        self.sort.is_none() && self.elements.len() <= 100
    }

    /// Changes an array. Whether it is another one afterwards.
    pub(super) fn apply(&self, elements: &mut Vec<Value>) -> bool {
        let may_be_same = self.slice.is_some() || self.elements.is_empty();
        let before = may_be_same.then(|| elements.clone());
        let position = self.position.map_or(elements.len(), |at| from_either_end(at, elements));
        elements.splice(position..position, self.elements.iter().cloned());
        if let Some(sort) = &self.sort {
            elements.sort_by(|a, b| sort.compare(a, b));
        }
        if let Some(slice) = self.slice {
            let kept = size(slice).min(elements.len());
            match slice < 0 {
                true => drop(elements.drain(..elements.len() - kept)),
                false => elements.truncate(kept),
            }
        }
        before.is_none_or(|before| {
            let are_same = |(a, b): (&Value, &Value)| types::identical(a, b);
            before.len() != elements.len() || !before.iter().zip(elements.iter()).all(are_same)
        })
    }
}

fn size(n: i64) -> usize {
    usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX)
}

fn from_either_end(position: i64, elements: &[Value]) -> usize {
    match position < 0 {
        true => elements.len().saturating_sub(size(position)),
        false => size(position).min(elements.len()),
    }
}

impl PushSort {
    fn compare(&self, a: &Value, b: &Value) -> Ordering {
        match self {
            PushSort::Whole { is_descending } => {
                directed(types::compare(Some(a), Some(b)), *is_descending)
            }
            PushSort::Fields(fields) => {
                let by_field = |(path, is_descending): &(Vec<String>, bool)| {
                    let (a, b) = (field(a, path), field(b, path));
                    directed(types::compare(Some(a), Some(b)), *is_descending)
                };
                fields.iter().map(by_field).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            }
        }
    }
}

fn directed(order: Ordering, is_descending: bool) -> Ordering {
    if is_descending { order.reverse() } else { order }
}

/// The field of an element; null if there is none.
fn field<'v>(element: &'v Value, path: &[String]) -> &'v Value {
    let found = path.iter().try_fold(element, |value, name| value.field(name));
    found.unwrap_or(&Value::Null)
}
