//! Compiles several query languages to one algebra.
//!
//! Each language has a lexer, a syntax tree with positions, a parser and a lowering to
//! [`query::Plan`]. Texts come from clients: length, nesting and work are limited, and no text
//! makes the compiler panic.
//!
//! This crate is *not* an executor, and knows no container: names of properties are not checked.
#![forbid(unsafe_code)]

mod error;
pub mod mongo;
pub mod nosql;
pub mod odata;

pub use error::{SyntaxError, SyntaxErrorKind};
