//! Operators on documents with MongoDB's rules: paths that broadcast over arrays, the BSON order,
//! comparisons within a type, null that equals what is missing.
//!
//! `lang::mongo` compiles BSON trees to them. They are separate from the SQL evaluator, whose rules
//! for types and *undefined* differ in every detail. A missing value is `None`.

pub mod accumulator;
mod condition;
mod evaluate;
pub mod expression;
mod failure;
mod find;
pub mod index_bounds;
pub mod index_keys;
mod path;
pub mod pipeline;
pub mod predicate;
pub mod print;
pub mod projection;
mod regex;
mod scope;
pub mod sort;
pub mod types;
pub mod update;
pub mod values;
mod variables;

pub use condition::{DocumentFilter, FirstFailure, SortValue};
pub use evaluate::{DocumentTest, Evaluate};
pub use expression::Expression;
pub use failure::{Failure, code};
pub use find::{FindClauses, find_plan};
pub use path::{FieldPath, PathPart};
pub use pipeline::Pipeline;
pub use predicate::Predicate;
pub use projection::Projection;
pub use regex::Regex;
pub use scope::Scope;
pub use types::{BsonType, TypeSet};
pub use update::{Update, UpdateContext};
pub use variables::{Scripts, Variables};
