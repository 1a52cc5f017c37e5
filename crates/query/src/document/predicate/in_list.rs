//! Values to which another is compared for equality, found by binary search.

use std::sync::Arc;

use model::Value;

use crate::Budget;
use crate::document::{Failure, Regex, types};

/// The values and regular expressions of `$in`.
#[derive(Clone, Debug, Default)]
pub struct InList {
    /// Sorted, without repetitions.
    values: Vec<Value>,
    regexes: Vec<Arc<Regex>>,
    has_null: bool,
}

impl InList {
    /// A list of these values and regular expressions.
    pub fn new(mut values: Vec<Value>, regexes: Vec<Arc<Regex>>) -> Self {
        values.sort_by(|a, b| types::compare(Some(a), Some(b)));
        values.dedup_by(|a, b| types::equal(a, b));
        let has_null = values.iter().any(|value| matches!(value, Value::Null));
        Self { values, regexes, has_null }
    }

    /// The values, sorted and without repetitions.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The regular expressions.
    pub fn regexes(&self) -> &[Arc<Regex>] {
        &self.regexes
    }

    pub(super) fn contains(&self, value: Option<&Value>, budget: &Budget) -> Result<bool, Failure> {
        let Some(value) = value else { return Ok(self.has_null) };
        let found = self.values.binary_search_by(|each| types::compare(Some(each), Some(value)));
        if found.is_ok() {
            return Ok(true);
        }
        for regex in &self.regexes {
            if super::regex_matches(regex, value, budget)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
