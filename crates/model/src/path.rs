//! Property paths such as `/a/b` and `/"le/vel"/'x'`, used by partition keys and unique keys.

use std::fmt;

use crate::Value;

/// A list of property names from the root of an item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PropertyPath {
    text: String,
    segments: Vec<String>,
}

/// Why a path text is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the path '{path}' is invalid: {reason}")]
pub struct PathError {
    /// The text as given.
    pub path: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl PropertyPath {
    /// Parses `/a/"b c"/'d'`. A backslash before a matching quote stays part of the name.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        todo!("{text}")
    }

    /// The property names, outermost first.
    pub fn segments(&self) -> &[String] {
        &self.segments
    }

    /// The value at this path; `None` (*undefined*) when a step is missing or not an object.
    pub fn get<'v>(&self, root: &'v Value) -> Option<&'v Value> {
        todo!("{root:?}")
    }
}

/// The text exactly as it was parsed.
impl fmt::Display for PropertyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
