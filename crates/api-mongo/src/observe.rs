//! What an observer is told about each command.

use crate::commands::COMMANDS;

/// A command, by its place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation(pub(crate) usize);

impl Operation {
    /// How many there are.
    pub const COUNT: usize = COMMANDS.len() + 1;
    /// A command that is none.
    pub(crate) const UNKNOWN: Operation = Operation(COMMANDS.len());

    /// All of them.
    pub fn all() -> impl Iterator<Item = Operation> {
        (0..Self::COUNT).map(Operation)
    }

    /// Its place among all.
    pub fn index(self) -> usize {
        self.0
    }

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        COMMANDS.get(self.0).map_or("unknown", |row| row.name)
    }
}

/// An answered command.
pub type Observation = account::Observation<Operation>;
