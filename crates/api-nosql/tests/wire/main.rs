//! The front end through its wire: requests in, responses out, an engine in memory underneath.
//!
//! One binary for all of it, since linking is what tests of this size cost most.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod batches;
mod gateway;
mod items;
mod queries;
mod resources;
mod support;
