//! What a query means, whichever language wrote it: the algebra, its functions and its evaluator.
//!
//! A [`Plan`] is compiled by the `lang` crate and evaluated here against one item at a time.
//! *Undefined* is never a value: expressions yield `Option<Value>`.
//!
//! This crate is *not* a parser, knows no store and no wire, and never blocks.
#![forbid(unsafe_code)]

pub mod algebra;
mod budget;
mod compare;
mod error;
mod eval;
pub mod functions;
pub mod keys;
pub mod like;
pub mod plan;

pub use algebra::{Expr, Plan, Projection, Source};
pub use budget::Budget;
pub use error::EvalError;
pub use keys::KeyScope;
