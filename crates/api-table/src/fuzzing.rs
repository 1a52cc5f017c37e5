//! Doors for fuzz targets.

use crate::batch::multipart;

/// Reads a batch whose boundary is `b`. Tells how many requests it holds, if it is one.
pub fn multipart(body: &[u8]) -> Option<usize> {
    multipart::parse(body, "b").map(|batch| match batch {
        multipart::Batch::Changeset(parts) | multipart::Batch::Individual(parts) => parts.len(),
    })
}

/// Reads the path of a request. Tells whether it is an address.
pub fn path(path: &str) -> bool {
    crate::address::Address::parse(crate::Flavour::Storage, "h", path).is_ok()
}
