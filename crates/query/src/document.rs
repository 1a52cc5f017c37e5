//! Operators on documents with MongoDB's rules: paths that broadcast over arrays, the BSON order,
//! comparisons within a type, null that equals what is missing.
//!
//! `lang::mongo` compiles BSON trees to them. They are separate from the SQL evaluator, whose rules
//! for types and *undefined* differ in every detail. A missing value is `None`.

mod failure;
mod variables;

pub use failure::{Failure, code};
pub use variables::Variables;
