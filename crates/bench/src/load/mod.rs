//! The load driver: the requests ([`workload`]), the sending and timing ([`drive`]), the servers
//! ([`subject`]), and the results ([`report`]). [`run`] is the whole benchmark.
//!
//! The server is compared with three others: [`do_nothing`] and [`raw`] are lower bounds on the
//! cost of HTTP and durable storage, [`rival`] is a peer.

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
