//! Runs the queries of `golden/nosql` through the engine. However its items are divided, paged and
//! put together, no answer may change.

mod gather;
mod pages;
mod support;
