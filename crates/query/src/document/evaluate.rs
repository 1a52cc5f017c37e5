//! What operators need of things that are compiled elsewhere.

use std::fmt::Debug;

use model::Value;
use model::json::FieldMask;

use super::{Failure, Variables};

/// An aggregation expression inside of a filter, a projection or an update.
pub trait Evaluate: Debug + Send + Sync {
    /// The value of the expression for a document; `None` is missing.
    fn evaluate(&self, document: &Value, variables: &Variables) -> Result<Option<Value>, Failure>;

    /// Adds to `mask` what the expression reads of a document.
    fn require(&self, mask: &mut FieldMask);
}

/// A test that is not part of this language: JavaScript in `$where`.
pub trait DocumentTest: Debug + Send + Sync {
    /// Whether a document passes.
    fn matches(&self, document: &Value, variables: &Variables) -> Result<bool, Failure>;
}
