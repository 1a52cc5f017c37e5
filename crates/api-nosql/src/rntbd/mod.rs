//! The API over RNTBD, the protocol of clients in Direct mode: the only module that knows its
//! frames. It does for them what [`crate::http`] does for HTTP, and no more.
//!
//! A connection begins with a handshake ([`context`]). Every later frame of a client is a request
//! ([`frame`]); the connection's owner reads it, passes it to [`crate::Service::serve_frame`] and
//! sends the answer, in any order.

mod answer;
mod bad_frame;
mod context;
mod fields;
mod frame;
mod operations;
mod request_tokens;
mod response_tokens;
mod serve;
#[cfg(test)]
mod tests;
mod token;

pub use answer::FrameAnswer;
pub use bad_frame::{BadFrame, RefusedFrame};
pub use context::{DirectClient, Greeting};
pub use frame::{Demand, Frame, FrameId, HEAD_BYTES_MAX, head_length, is_direct};
