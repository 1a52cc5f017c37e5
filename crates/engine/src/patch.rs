//! Partial updates: the operations and how they change a value.

use model::Value;

/// A list of changes, applied in order, all or none.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The changes; 1 to 10 of them.
    pub operations: Vec<PatchOp>,
    /// Must be true of the item before the change, when given.
    pub condition: Option<query::Plan>,
}

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
    /// Removes at `from` and sets at `path`.
    Move {
        /// Where from.
        from: Pointer,
        /// Where to.
        path: Pointer,
    },
}
