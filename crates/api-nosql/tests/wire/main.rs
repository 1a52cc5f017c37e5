//! The front end through its wire: requests in, responses out, an engine in memory underneath.
//!
//! One binary for all of it, since linking is what tests of this size cost most.

mod batches;
mod change_feed;
mod containers;
mod direct;
mod dotnet;
mod gateway;
mod hostile_queries;
mod index_metrics;
mod items;
mod moving_ranges;
mod observed;
mod older_clients;
mod procedures;
mod queries;
mod query_merge;
mod query_policies;
mod resources;
mod rows;
mod scripts;
mod search;
mod support;
mod throughput;
mod users;
