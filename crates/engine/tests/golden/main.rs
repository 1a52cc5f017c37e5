//! Runs the queries of `golden/nosql` through the engine. However its items are partitioned, paged
//! and merged, no answer may change.

mod gather;
mod pages;
mod support;
