//! The types that all other crates share: values, paths, keys, identities, charges and limits.
//!
//! This crate has *no* I/O, async code, clocks or wire formats: it holds what is true of data
//! whichever API wrote it and whichever store keeps it.
#![forbid(unsafe_code)]

pub mod bson;
pub mod calendar;
pub mod charge;
pub mod decimal;
pub mod edm;
pub mod epk;
pub mod error_kind;
pub mod hash;
pub mod ids;
pub mod json;
pub mod limits;
pub mod number;
pub mod order;
pub mod partition_key;
pub mod path;
pub mod rid;
pub mod value;

pub use charge::Charge;
pub use epk::{Epk, EpkRange};
pub use error_kind::ErrorKind;
pub use ids::{Lsn, PartitionId, Timestamp};
pub use partition_key::{
    PartitionKey, PartitionKeyComponent, PartitionKeyDefinition, PartitionKeyKind,
    PartitionKeyVersion,
};
pub use path::PropertyPath;
pub use rid::{ContainerRid, DatabaseRid, DocumentRid, EncryptionKeyRid, PermissionRid, UserRid};
pub use value::{Date, Object, Value};
