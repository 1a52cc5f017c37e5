//! What the owner of a service can observe of each request: enough to count it, nothing of its
//! content.

use std::time::Duration;

/// An answered request: its kind and form, in the terms of its API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation<Operation, Format = ()> {
    /// Its operation.
    pub operation: Operation,
    /// The HTTP status it was answered with.
    pub status: u16,
    /// From its head to the reply's.
    pub elapsed: Duration,
    /// The wire format of the request and its reply.
    pub format: Format,
}

/// An observer that is called for every request. It runs on the request's own path, so it must not
/// block.
pub trait Observer<Observation>: Send + Sync {
    /// Called after a request was answered.
    fn answered(&self, observation: &Observation);
}
