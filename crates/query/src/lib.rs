//! Query semantics for all languages: the algebra, its functions and its evaluator.
//!
//! A [`Plan`] is compiled by the `lang` crate and run by an [`exec::Execution`], which pulls items
//! from a source. *Undefined* is never a value: expressions yield `Option<Value>`.
//!
//! This crate is *not* a parser, knows no store and no wire format, and never blocks.
#![forbid(unsafe_code)]

pub mod access;
mod aggregate;
pub mod algebra;
mod budget;
mod compare;
pub mod document;
mod error;
mod eval;
pub mod exec;
pub mod explain;
pub mod fulltext;
pub mod functions;
pub mod fusion;
pub mod gather;
mod group;
pub mod key_scope;
pub mod like;
pub mod plan;
mod required_fields;
pub mod stopwatch;
mod text;
mod value_keys;
pub mod vector;
mod visit;
mod write;

pub use algebra::Expr;
pub use budget::Budget;
pub use error::EvalError;
pub use key_scope::KeyScope;
pub use plan::{Plan, Projection};
