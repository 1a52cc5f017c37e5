//! The MongoDB front end: messages of its wire protocol in, engine operations down, replies out.
//!
//! Start reading at [`Service::serve`], which takes every message through the same stages: framing
//! ([`wire`]), command ([`command`]), caller ([`rights`]), fields ([`fields`]), route ([`routes`]),
//! the function of the command ([`commands`]), reply ([`reply`] or [`errors`]). A program in the
//! same process makes a [`Client`] and calls [`Service::run`], which knows no socket.
//!
//! Storage, partitioning and query evaluation do *not* belong here.
#![forbid(unsafe_code)]

mod client;
mod cluster_time;
mod collections;
mod command;
mod commands;
mod cursors;
mod document;
mod errors;
mod fail_points;
mod fields;
mod find;
pub mod fuzzing;
mod observe;
mod output;
mod reply;
mod retries;
mod rights;
mod routes;
mod scram;
mod service;
mod sessions;
mod sort;
mod stored_users;
mod temporary_files;
mod throttle_wait;
pub mod wire;

pub use client::{Client, Entry, Personality, REPLICA_SET};
pub use command::{Command, Documents};
pub use errors::MongoError;
pub use observe::{Observation, Operation};
pub use reply::{Batch, Reply};
pub use service::{Hooks, Host, Next, Served, Service, Settings};
pub use temporary_files::TemporaryFiles;
