//! What a container may hold and what it holds, as replies say it.

use engine::Container;

/// The quota of a container in KB that replies name (10 GB).
const QUOTA_KB: u64 = 10 * 1024 * 1024;

/// What a container holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub items: u64,
    pub kilobytes: u64,
}

impl Usage {
    pub(crate) fn of(container: &Container) -> Self {
        let (items, bytes) = container.stored();
        Self { items, kilobytes: kilobytes(bytes) }
    }

    /// The value of `x-ms-resource-usage`.
    pub(crate) fn to_text(self) -> String {
        list(i64::try_from(self.items).unwrap_or(i64::MAX), self.kilobytes)
    }
}

/// The value of `x-ms-resource-quota`.
pub(crate) fn quota_text() -> String {
    list(-1, QUOTA_KB)
}

pub(crate) fn kilobytes(bytes: u64) -> u64 {
    bytes.div_ceil(1024)
}

fn list(items: i64, size_kb: u64) -> String {
    format!(
        "documentSize={};documentsSize={size_kb};documentsCount={items};collectionSize={size_kb};",
        QUOTA_KB / 1024
    )
}
