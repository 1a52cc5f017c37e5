//! The Table front end: OData over HTTP in, engine operations down, HTTP responses out.
//!
//! It speaks two flavours of the same protocol: that of the storage service and that of Cosmos DB.
//!
//! It is *not* a place for storage, partitioning or query evaluation.
#![forbid(unsafe_code)]

pub mod edm;
