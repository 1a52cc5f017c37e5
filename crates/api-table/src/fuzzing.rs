//! Entry points for fuzz targets.

use crate::batch::multipart;

/// Parses a batch whose boundary is `b`. Returns the number of its requests, if it is valid.
pub fn multipart(body: &[u8]) -> Option<usize> {
    multipart::parse(body, "b").map(|batch| match batch {
        multipart::Batch::Changeset(parts) | multipart::Batch::Individual(parts) => parts.len(),
    })
}

/// Parses the path of a request; true if it is an address.
pub fn path(path: &str) -> bool {
    crate::address::Address::parse(crate::Flavour::Storage, "h", path).is_ok()
}
