//! The Table front end: OData over HTTP in, engine operations down, HTTP responses out.
//!
//! It speaks two [flavours](Flavour) of the same protocol: that of the storage service and that of
//! Cosmos DB. Start reading at [`Service::serve`], which takes every request through the same
//! stages: address ([`address`]), caller ([`auth`]), body, route ([`routes`]), handler, reply
//! ([`reply`] or [`errors`]).
//!
//! Storage, partitioning and query evaluation do *not* belong here.
#![forbid(unsafe_code)]

mod acl;
mod address;
mod auth;
mod batch;
mod continuation;
mod cors;
pub mod edm;
mod entities;
mod errors;
pub mod fuzzing;
mod headers;
mod names;
mod observe;
mod options;
mod properties;
mod query;
mod reply;
mod request;
mod routes;
mod service;
mod stored;
mod tables;
mod xml;

pub use account::DEVELOPMENT_KEY;
pub use observe::{Observation, Operation};
pub use service::{Accounts, DEVELOPMENT_ACCOUNT, Hooks, Service};

/// The service whose rules, names and messages are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// The tables of a storage account.
    Storage,
    /// Cosmos DB for Table.
    Cosmos,
}
