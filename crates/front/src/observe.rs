//! What the owner of a service can learn of each request: enough to count, nothing of its content.

use std::time::Duration;

/// A request that was answered: of which kind, and in which form, in the words of its API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation<Operation, Format = ()> {
    /// What it asked for.
    pub operation: Operation,
    /// The HTTP status it was answered with.
    pub status: u16,
    /// From its head to the reply's.
    pub elapsed: Duration,
    /// The forms it and its reply came in.
    pub format: Format,
}

/// Somebody who wants to know of every request. Called on the request's own path: must not wait.
pub trait Observer<Observation>: Send + Sync {
    /// A request was answered.
    fn answered(&self, observation: &Observation);
}
