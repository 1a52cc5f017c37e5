//! The NoSQL REST front end: requests in, engine operations down, replies out.
//!
//! Start reading at [`Service::serve`], which takes every HTTP request through the same stages:
//! address ([`address`]), caller ([`auth`]), body, route ([`routes`]), handler, reply ([`reply`] or
//! [`errors`]). HTTP itself is in [`http`]: handlers see [`request::Request`] and [`reply::Reply`]. Only this crate knows HTTP status codes, sub-statuses and the `x-ms-*` headers; the
//! engine below deals in error kinds and values.
//!
//! Storage, partitioning and query evaluation do *not* belong here.
#![forbid(unsafe_code)]

mod access;
mod account;
mod address;
mod addresses;
mod admin_query;
mod auth;
mod batch;
mod batch_operations;
mod binary_json;
mod bulk;
mod change_feed;
mod change_filter;
mod conflicts;
mod containers;
mod databases;
mod encryption_keys;
mod errors;
mod execute;
mod faults;
mod feed;
pub mod fuzzing;
mod headers;
mod http;
mod hybrid_row;
mod index_metrics;
mod items;
mod manage;
mod merged_query;
mod observe;
mod offers;
mod opaque;
mod operation;

mod partition_key_header;
mod partition_key_ranges;
mod patch;
mod payload;
mod permissions;
mod policy;
mod query;
mod query_metrics;
mod query_plan;
mod query_text;
mod quota;
mod ranked_query;
mod replica;
mod reply;
mod request;
mod resolve;
mod resource;
mod resource_query;
mod rntbd;
mod routes;
mod scope;
mod script_functions;
mod script_guard;
mod script_host;
mod scripts;
mod service;
mod session;
mod system_procedures;
mod system_properties;
#[cfg(test)]
mod test_support;
mod users;

pub use self::account::{Account, Consistency, Direct};
pub use admin_query::{
    AdminQuery, AdminQueryError, AdminQueryPage, Condition, Explanation, Outcome,
    PartitionExplanation, PartitionWork, QueryErrorSpan,
};
pub use auth::sign;
pub use faults::{FaultInjector, FaultSubject, InjectedAnswer};
pub use manage::ManagementError;
pub use observe::{Observation, RequestedConsistency, Wire, WireFormat};
pub use operation::Operation;
pub use rntbd::{
    BadFrame, Demand, DirectClient, Frame, FrameAnswer, FrameId, Greeting, HEAD_BYTES_MAX,
    RefusedFrame, head_length, is_direct,
};
pub use script::Limits as ScriptLimits;
pub use service::{Denied, Hooks, Service};
