//! Values that the caller of an operator sets and no document holds.

use model::{Date, Value};

/// The variables of a command: its time, and its `let`, by slot. Operators never read a clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Variables {
    /// `$$NOW`, one value for a whole command.
    pub now: Date,
    /// `$$CLUSTER_TIME`, where the caller has one.
    pub cluster_time: Option<Value>,
    /// Values of `let`, in the order in which compilation gave out slots; `None` is missing.
    pub slots: Vec<Option<Value>>,
}

impl Variables {
    /// Variables of a command that runs at `now` and has no `let`.
    pub fn at(now: Date) -> Self {
        Self { now, cluster_time: None, slots: Vec::new() }
    }
}
