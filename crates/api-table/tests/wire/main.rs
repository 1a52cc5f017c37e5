//! The Table API on the wire: requests and responses in the form that clients use.

mod access;
mod batches;
mod concurrency;
mod cosmos;
mod entities;
mod gaps;
mod multi_model;
mod queries;
mod service;
mod support;
mod tables;
mod throughput;
