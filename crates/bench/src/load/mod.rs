//! The load driver: what is sent ([`workload`]), how it is sent and timed ([`drive`]), against
//! whom ([`subject`]), and what came of it ([`report`]). [`run`] is the whole benchmark.

pub mod do_nothing;
pub mod drive;
pub mod report;
pub mod rival;
pub mod run;
pub mod subject;
pub mod template;
pub mod workload;
