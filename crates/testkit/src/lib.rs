//! Helpers that tests of several crates share. Never part of the product.

pub mod clock;
pub mod harness;
pub mod hooked;
pub mod http;
pub mod properties;
pub mod rntbd;
pub mod server;
pub mod spawner;
