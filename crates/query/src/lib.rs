//! The shared query algebra and its evaluator.
#![forbid(unsafe_code)]

/// A compiled query.
#[derive(Clone, Debug)]
pub struct Plan {}
