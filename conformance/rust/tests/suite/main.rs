//! One test binary, so that the SDK is linked once; one module per theme.

mod account;
mod batch;
mod change_feed;
mod containers;
mod feeds;
mod items;
mod keys;
mod patch;
mod policies;
mod queries;
mod throttling;
mod values;
