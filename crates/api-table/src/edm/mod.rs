//! Entities in the terms of the Entity Data Model: typed properties, and their JSON forms.
//!
//! | From | To | By |
//! |---|---|---|
//! | a request's body | [`SentEntity`]: what a client sent | [`SentEntity::parse`] |
//! | [`SentEntity`] and keys | [`Entity`]: what is stored | [`Entity::new`] |
//! | [`Entity`] | the item's JSON ([`model::edm`]) | [`Entity::write_item`] |
//! | an item | [`Entity`] | [`Entity::from_item`] |
//! | [`Entity`] | a response's JSON | [`Output::write`] |
//!
//! All errors here are answered with 400; [`EntityError`] has the service's code and message.

mod entity;
mod entity_error;
mod etag;
mod input;
mod keys;
mod output;
mod rules;

pub use entity::Entity;
pub use entity_error::EntityError;
pub use etag::{Condition, etag_of, parse_condition};
pub use input::{SentEntity, SentKey};
pub use keys::check_key;
pub use output::{Form, Metadata, Output, write_list_end, write_list_start};
pub use rules::Rules;

#[cfg(test)]
mod tests;
