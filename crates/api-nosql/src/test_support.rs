//! Shared helpers of unit tests.

use bytes::Bytes;
use model::{PartitionKeyDefinition, PartitionKeyKind, PartitionKeyVersion, PropertyPath};

use crate::address::Target;
use crate::headers::{HeaderName, Headers};
use crate::request::{Request, Verb};

/// A request of which only headers and body matter.
pub(crate) fn request_with(headers: &[(HeaderName, &str)], body: &'static [u8]) -> Request {
    let mut map = Headers::new();
    for (name, text) in headers {
        map.set(*name, text.as_bytes());
    }
    Request {
        verb: Verb::Post,
        target: Target::Databases,
        endpoint: None,
        headers: map,
        direct: None,
        body: Bytes::from_static(body),
    }
}

/// A partition key over these paths.
pub(crate) fn key_definition(paths: &[&str]) -> PartitionKeyDefinition {
    PartitionKeyDefinition {
        paths: paths.iter().map(|path| PropertyPath::parse(path).unwrap()).collect(),
        kind: if paths.len() > 1 { PartitionKeyKind::MultiHash } else { PartitionKeyKind::Hash },
        version: PartitionKeyVersion::V2,
        is_system: false,
    }
}
