//! Partial updates: the operations and how they change a value.
//!
//! [`Patch::apply`] is pure; its callers check which paths may be touched at all, and whether the
//! result is still a valid item of the same logical partition.

use model::Value;

use crate::item::SystemProperties;

mod commit;
#[cfg(test)]
mod tests;

pub(crate) use commit::{BYTES_IN_COMMITTER, refused};

/// A list of changes, applied in order, all or none.
#[derive(Clone, Debug, Default)]
pub struct Patch {
    /// The changes. Clients of the NoSQL API may send up to 10.
    pub operations: Vec<PatchOp>,
    /// Must be true of the item before the change, when given.
    pub condition: Option<PatchCondition>,
    /// Must accept the item after the change, when given.
    pub check: Option<Check>,
}

/// What must be true of an item before it is changed.
#[derive(Clone, Debug)]
pub struct PatchCondition {
    /// A plan over the item alone.
    pub plan: query::Plan,
    /// The properties that it sees beside those of the item.
    pub system: &'static dyn SystemProperties,
}

/// A front end's rule for items. Receives the item without system properties.
pub type Check = fn(&Value) -> Result<(), Unfit>;

/// Why an item violates a front end's rule, by a number that the front end defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit(pub u16);

/// Where a change applies: the unescaped segments of a JSON pointer.
pub type Pointer = Vec<String>;

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum PatchOp {
    /// Sets a member, or inserts an array element (`-` appends).
    Add {
        /// Where.
        path: Pointer,
        /// What.
        value: Value,
    },
    /// Sets a member or overwrites an array element.
    Set {
        /// Where.
        path: Pointer,
        /// What.
        value: Value,
    },
    /// Overwrites what is there.
    Replace {
        /// Where.
        path: Pointer,
        /// What.
        value: Value,
    },
    /// Removes what is there.
    Remove {
        /// Where.
        path: Pointer,
    },
    /// Adds to a number; creates it when missing.
    Increment {
        /// Where.
        path: Pointer,
        /// How much: `Value::Int64` or `Value::Double`.
        by: Value,
    },
    /// Removes at `from` and sets at `path`; within one array, inserts there.
    Move {
        /// Where from.
        from: Pointer,
        /// Where to.
        path: Pointer,
    },
}

/// Why a patch can't be applied to an item.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("operation {operation} of the patch: {reason}")]
pub struct PatchError {
    /// Which change, counted from 1.
    pub operation: usize,
    /// What prevents it.
    pub reason: PatchFailure,
}

/// What prevents a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchFailure {
    /// The parent of the new value is missing or can't hold children.
    #[error("{operation} finds no parent beyond '{segment}'")]
    NoParent {
        /// Name of the change.
        operation: &'static str,
        /// The part of the path that is not there.
        segment: String,
    },
    /// The array is too short for the index.
    #[error("index {index} is out of the bounds of the array")]
    OutOfBounds {
        /// The index as written in the path.
        index: String,
    },
    /// There is nothing to replace.
    #[error("there is nothing to replace at '{path}'")]
    ReplacedIsAbsent {
        /// Where.
        path: String,
    },
    /// There is nothing to remove or move away.
    #[error("there is nothing to remove at '{path}'")]
    RemovedIsAbsent {
        /// Where.
        path: String,
    },
    /// The target is not a number, or the sum is beyond the range of numbers.
    #[error("'{path}' is not a number")]
    NotANumber {
        /// Where.
        path: String,
    },
    /// A value can't be moved into itself.
    #[error("'{path}' lies inside '{from}', which is moved")]
    MoveIntoItself {
        /// Where from.
        from: String,
        /// Where to.
        path: String,
    },
}

impl Patch {
    /// Sets every property of `item`.
    pub(crate) fn laying_over(item: &Value) -> Self {
        let fields = item.as_object().into_iter().flat_map(|object| object.iter());
        let set = |(name, value): (&str, &Value)| PatchOp::Set {
            path: vec![name.to_owned()],
            value: value.clone(),
        };
        Self { operations: fields.map(set).collect(), ..Self::default() }
    }

    /// Makes the changes in order. On failure `item` is left half changed: callers work on a copy.
    pub fn apply(&self, item: &mut Value) -> Result<(), PatchError> {
        for (at, operation) in self.operations.iter().enumerate() {
            operation.apply(item).map_err(|reason| PatchError { operation: at + 1, reason })?;
        }
        Ok(())
    }
}

impl PatchOp {
    fn apply(&self, item: &mut Value) -> Result<(), PatchFailure> {
        match self {
            PatchOp::Add { path, value } => add(item, path, value.clone(), "Add"),
            PatchOp::Set { path, value } => set(item, path, value.clone(), "Set"),
            PatchOp::Replace { path, value } => {
                let absent = || PatchFailure::ReplacedIsAbsent { path: shown(path) };
                *existing(item, path, absent)? = value.clone();
                Ok(())
            }
            PatchOp::Remove { path } => remove(item, path).map(drop),
            PatchOp::Increment { path, by } => increment(item, path, by),
            PatchOp::Move { from, path } => {
                if path.len() > from.len() && path.starts_with(from) {
                    let (from, path) = (shown(from), shown(path));
                    return Err(PatchFailure::MoveIntoItself { from, path });
                }
                let moved = remove(item, from)?;
                // Within an array an element moves to another index, and no other is lost.
                let (_, parent) = from.split_last().unzip();
                let (_, new_parent) = path.split_last().unzip();
                match parent == new_parent {
                    true => add(item, path, moved, "Move"),
                    false => set(item, path, moved, "Move"),
                }
            }
        }
    }
}

/// A value that can hold children.
enum Parent<'v> {
    Object(&'v mut model::Object),
    Array(&'v mut Vec<Value>),
}

impl<'v> Parent<'v> {
    fn of(value: &'v mut Value) -> Option<Self> {
        if let Value::Object(object) = value {
            Some(Parent::Object(object))
        } else if let Value::Array(array) = value {
            Some(Parent::Array(array))
        } else {
            None
        }
    }
}

/// An index into an array.
enum Index {
    At(usize),
    /// `-`: one past the end.
    End,
}

/// Reads an index: decimal, without sign or leading zeros, as JSON pointers have it.
fn index(text: &str) -> Option<Index> {
    if text == "-" {
        return Some(Index::End);
    }
    let is_plain = text == "0" || text.bytes().next().is_some_and(|b| (b'1'..=b'9').contains(&b));
    if !is_plain || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // A number that overflows is out of every array's bounds.
    Some(Index::At(text.parse().unwrap_or(usize::MAX)))
}

fn child<'v>(value: &'v mut Value, name: &str) -> Option<&'v mut Value> {
    match Parent::of(value)? {
        Parent::Object(object) => object.get_mut(name),
        Parent::Array(array) => match index(name)? {
            Index::At(at) => array.get_mut(at),
            Index::End => None,
        },
    }
}

fn descend<'v>(item: &'v mut Value, path: &[String]) -> Result<&'v mut Value, usize> {
    let mut at = item;
    for (depth, name) in path.iter().enumerate() {
        at = child(at, name).ok_or(depth)?;
    }
    Ok(at)
}

/// The array or object that `path` ends in, and the last part of the path.
fn parent_to_create_in<'v, 'p>(
    item: &'v mut Value,
    path: &'p [String],
    operation: &'static str,
) -> Result<(Parent<'v>, &'p str), PatchFailure> {
    let no_parent = |at: usize| {
        let segment = path.get(at).cloned().unwrap_or_default();
        PatchFailure::NoParent { operation, segment }
    };
    let (name, before) = path.split_last().ok_or_else(|| no_parent(0))?;
    let parent = descend(item, before).map_err(no_parent)?;
    match Parent::of(parent) {
        Some(Parent::Array(_)) if index(name).is_none() => Err(no_parent(before.len())),
        Some(parent) => Ok((parent, name)),
        None => Err(no_parent(before.len().saturating_sub(1))),
    }
}

fn insertion_index(array: &[Value], text: &str) -> Result<usize, PatchFailure> {
    match index(text) {
        Some(Index::End) => Ok(array.len()),
        Some(Index::At(at)) if at <= array.len() => Ok(at),
        Some(Index::At(_)) | None => Err(PatchFailure::OutOfBounds { index: text.to_owned() }),
    }
}

/// Puts a member into an object, replacing one of that name, or an element into an array, before
/// the one at that index.
fn add(
    item: &mut Value,
    path: &[String],
    value: Value,
    operation: &'static str,
) -> Result<(), PatchFailure> {
    let (parent, name) = parent_to_create_in(item, path, operation)?;
    match parent {
        Parent::Object(object) => {
            object.insert(name, value);
        }
        Parent::Array(array) => {
            let at = insertion_index(array, name)?;
            array.insert(at, value);
        }
    }
    Ok(())
}

fn set(
    item: &mut Value,
    path: &[String],
    value: Value,
    operation: &'static str,
) -> Result<(), PatchFailure> {
    let (parent, name) = parent_to_create_in(item, path, operation)?;
    match parent {
        Parent::Object(object) => {
            object.insert(name, value);
        }
        Parent::Array(array) => {
            let at = insertion_index(array, name)?;
            match array.get_mut(at) {
                Some(slot) => *slot = value,
                None if name == "-" => array.push(value),
                None => return Err(PatchFailure::OutOfBounds { index: name.to_owned() }),
            }
        }
    }
    Ok(())
}

/// The value at `path`. An index beyond an existing array has its own failure.
fn existing<'v>(
    item: &'v mut Value,
    path: &[String],
    absent: impl Fn() -> PatchFailure,
) -> Result<&'v mut Value, PatchFailure> {
    let (name, before) = path.split_last().ok_or_else(&absent)?;
    let parent = descend(item, before).map_err(|_| absent())?;
    let beyond = match (&*parent, index(name)) {
        (Value::Array(array), Some(Index::At(at))) => at >= array.len(),
        (Value::Array(_), Some(Index::End)) => true,
        _ => false,
    };
    match beyond {
        true => Err(PatchFailure::OutOfBounds { index: name.clone() }),
        false => child(parent, name).ok_or_else(absent),
    }
}

fn remove(item: &mut Value, path: &[String]) -> Result<Value, PatchFailure> {
    let absent = || PatchFailure::RemovedIsAbsent { path: shown(path) };
    existing(item, path, absent)?;
    let (name, before) = path.split_last().ok_or_else(absent)?;
    let parent = descend(item, before).map_err(|_| absent())?;
    let removed = match (Parent::of(parent), index(name)) {
        (Some(Parent::Object(object)), _) => object.remove(name),
        (Some(Parent::Array(array)), Some(Index::At(at))) => Some(array.remove(at)),
        _ => None,
    };
    removed.ok_or_else(absent)
}

fn increment(item: &mut Value, path: &[String], by: &Value) -> Result<(), PatchFailure> {
    let not_a_number = || PatchFailure::NotANumber { path: shown(path) };
    let (parent, name) = parent_to_create_in(item, path, "Increment")?;
    let slot = match parent {
        Parent::Object(object) => match object.get_mut(name) {
            Some(slot) => slot,
            None => {
                object.insert(name, by.clone());
                return Ok(());
            }
        },
        Parent::Array(array) => {
            let out_of_bounds = PatchFailure::OutOfBounds { index: name.to_owned() };
            let Some(Index::At(at)) = index(name) else { return Err(out_of_bounds) };
            array.get_mut(at).ok_or(out_of_bounds)?
        }
    };
    *slot = sum(slot, by).ok_or_else(not_a_number)?;
    Ok(())
}

/// Integers stay exact as long as the sum fits.
fn sum(a: &Value, b: &Value) -> Option<Value> {
    if let (Value::Int64(a), Value::Int64(b)) = (a, b)
        && let Some(sum) = a.checked_add(*b)
    {
        return Some(Value::Int64(sum));
    }
    let sum = a.as_f64()? + b.as_f64()?;
    sum.is_finite().then_some(Value::Double(sum))
}

/// A path as clients write it.
fn shown(path: &[String]) -> String {
    let mut text = String::new();
    for segment in path {
        text.push('/');
        text.push_str(&segment.replace('~', "~0").replace('/', "~1"));
    }
    text
}
