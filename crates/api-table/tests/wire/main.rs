//! The Table API on the wire: requests as clients send them, responses as they read them.

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
