//! Tests of the real binary: start, requests, bad clients and stop.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic")]

mod abuse;
mod access;
mod admin;
mod clock;
mod commands;
mod data_directory;
mod direct;
mod direct_connections;
mod direct_listener;
mod directory;
mod explorer;
mod faults;
#[cfg(target_os = "linux")]
mod full_disk;
mod health;
mod keys;
mod manage;
mod reset;
mod settings;
mod sites;
mod split_stages;
mod stalled;
mod start;
mod stop;
mod support;
mod transport;
mod waiting;
