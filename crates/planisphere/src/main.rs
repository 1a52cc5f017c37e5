//! The planisphere server: command line, settings, listeners, TLS, start and end of the process.
//!
//! Start reading at [`serve::run`]. The path of a request after its connection is accepted is in
//! [`protocol`] and [`gateway`]; everything about the NoSQL protocol is in the `api-nosql` crate.
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "the process is where real time, tasks and threads come from"
)]

mod accept;
mod account_keys;
mod admin;
mod announce;
mod bind;
mod cli;
mod config;
mod connection_threads;
mod connections;
mod data_dir;
mod data_dir_check;
mod direct;
mod directory;
mod explorer;
mod faults;
mod gateway;
mod health;
mod http2;
mod key_store;
mod listen;
mod logging;
mod machine;
mod metrics;
mod mongo;
mod nearest;
mod open_files;
mod origins;
mod private_file;
mod protocol;
mod room;
mod serve;
mod shutdown;
mod tls;

use std::process::ExitCode;

/// Needs less memory than the system's allocator for many small values, returns memory to the
/// system, and is faster when several threads allocate.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
