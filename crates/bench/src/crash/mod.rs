//! The crash tester: writers on a real server that is killed without warning, again and again, on
//! one data directory, and a check of everything that was acknowledged after each restart.
//!
//! [`ledger`] holds the expected state; [`check`] compares it with the state of a restarted server;
//! both are plain data and know nothing of HTTP. [`writer`] makes the load, [`observe`] reads the
//! state back, [`rounds`] kills and restarts.

pub mod check;
pub mod item;
pub mod ledger;
pub mod link;
pub mod observe;
pub mod rounds;
pub mod writer;
