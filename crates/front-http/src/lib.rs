//! Shared parts of the front ends that speak HTTP: bounded bodies, heads, ids of requests.
//!
//! Nothing here knows a protocol's routes, statuses or error bodies: errors are plain values that
//! each front end turns into its own messages.
#![forbid(unsafe_code)]

mod body;
mod head;
mod panics;

pub use body::{Bodies, BodyError, BufferedBody, RequestLimits};
pub use head::{RequestIds, ascii, decimal, head_bytes};
pub use panics::catch_panic;
