//! The partitioned engine: catalog, routing, partitions, the single-writer commit path.
//!
//! Front ends pass in plain values ([`ops`]) and get plain values back; nothing here knows HTTP,
//! BSON or any dialect's error codes. Start reading at [`Engine`], whose public methods are the
//! whole list of operations, then follow one of them through `routing` and `partition`.
#![forbid(unsafe_code)]

pub mod audit;
mod batch;
mod body;
mod bulk;
mod cancellation;
pub mod catalog;
pub mod changes;
mod commit;
pub mod components;
pub mod context;
pub mod continuation;
mod distribution;
mod engine;
mod erase;
pub mod error;
mod fair_pool;
pub mod gather;
pub mod governor;
mod health;
pub mod index;
pub mod invalid_request;
pub mod item;
mod keys;
mod old_version;
mod open;
mod operation_log;
pub mod ops;
mod ordered_indexes;
mod overlay;
mod partition;
pub mod patch;
pub mod planted;
mod prepare;
mod query;
mod read;
pub mod repartition;
mod routing;
mod row;
mod row_key;
pub mod ru;
pub mod run;
mod script_pool;
mod submit;
mod task_tracker;
pub mod together;
mod transact;
pub mod transaction;
mod ttl;
pub mod update;
mod version;
mod write;

pub use body::BodyFormat;
pub use cancellation::{Cancellation, StopSignal};
pub use catalog::{Api, Catalog, Container, ContainerSpec, Database, Offer, Throughput};
pub use commit::CommitTime;
pub use components::Components;
pub use context::{Admission, Caller, Priority, RequestContext, Served, Source};
pub use distribution::{KeySize, LargestKeys};
pub use engine::{Engine, Settings};
pub use error::{Busy, Error, IndexViolation, QueryLimit, ResourceKind};
pub use governor::{KeyUsage, Throttling, Usage};
pub use index::IndexingPolicy;
pub use invalid_request::{InvalidRequest, KeyMismatch, UnsupportedStart};
pub use item::{Etag, StoredItem};
pub use keys::KEY_TAGS;
pub use ordered_indexes::OrderedIndexStats;
pub use partition::PartitionStatus;
pub use query::listing;
pub use routing::{PartitionRange, RangeId, RoutingMap};
pub use row_key::RowKey;
