//! Placeholder.
#[derive(Debug)]
pub(crate) struct Partition {}
