//! MongoDB's language: compiles BSON trees to the operators of [`query::document`].
//!
//! The trees come from clients: their depth and size are limited by the reader of BSON, and every
//! mistake has the number and text of a server of version 7.0.

pub mod expression;
mod field_names;
pub mod filter;
pub mod find;
pub mod fuzzing;
mod integers;
mod options;
pub mod pipeline;
pub mod projection;
pub mod update;
pub mod upsert;

#[cfg(test)]
mod test_support;

pub use options::CompileOptions;
