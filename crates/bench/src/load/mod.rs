//! The load driver: what is sent ([`workload`]), how it is sent and timed ([`drive`]), against
//! whom ([`subject`]), and what came of it ([`report`]). [`run`] is the whole benchmark.
//!
//! Three things stand beside the server: [`do_nothing`] and [`raw`] bound from below what HTTP and
//! durable storage cost, [`rival`] is a peer.

pub mod do_nothing;
pub mod drive;
pub mod raw;
pub mod record;
pub mod report;
pub mod rival;
pub mod run;
pub mod subject;
pub mod template;
pub mod workload;
