//! Parsers of client input, made public for fuzz targets and their saved inputs. Not an API.

pub use crate::binary_json::{BinaryJsonError, Limits, decode, encode};

pub use crate::hybrid_row::{crc32, rewrite_operations, rewrite_results};

/// Reads the operations of a batch or bulk request. Returns their number, if they are valid.
pub fn operations(body: &[u8]) -> Option<usize> {
    crate::batch_operations::parse(body).ok().map(|operations| operations.len())
}

/// Parses a URL path; true if it names a resource.
pub fn path(text: &str) -> bool {
    crate::address::segments(text).and_then(|s| crate::address::target(&s)).is_ok()
}

/// Parses an authorization header; true if it has the protocol's form.
pub fn authorization(text: &str) -> bool {
    crate::auth::parse_authorization(text).is_some()
}
