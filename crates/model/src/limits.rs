//! Every public limit, with where it comes from.

/// Largest item, in bytes of UTF-8 JSON (service limits page: 2 MB).
pub const ITEM_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Deepest nesting of an item (service limits page: 128).
pub const ITEM_DEPTH_MAX: usize = 128;
/// Longest item id in bytes (service limits page: 1,023).
pub const ITEM_ID_BYTES_MAX: usize = 1023;
/// Longest id of any other resource, in characters (service limits page: 255).
pub const RESOURCE_ID_CHARS_MAX: usize = 255;
/// Longest partition-key value in bytes for version 2 keys (service limits page: 2,048).
pub const PARTITION_KEY_BYTES_MAX: usize = 2048;
/// Most levels of a hierarchical partition key (service limits page: 3).
pub const PARTITION_KEY_LEVELS_MAX: usize = 3;
/// Most operations of a transactional batch (service limits page: 100).
pub const BATCH_OPERATIONS_MAX: usize = 100;
/// Largest batch body (service limits page: 2 MB).
pub const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Most operations of a patch (partial document update FAQ: 10).
pub const PATCH_OPERATIONS_MAX: usize = 10;
/// Most unique keys of a container (unique keys page: 10).
pub const UNIQUE_KEYS_MAX: usize = 10;
/// Most paths of one unique key (unique keys page: 16).
pub const UNIQUE_KEY_PATHS_MAX: usize = 16;
/// Default page of a feed (REST reference: 100).
pub const PAGE_ITEMS_DEFAULT: usize = 100;
/// Most items of a page whatever the client asks (ours: bounds one response).
pub const PAGE_ITEMS_MAX: usize = 10_000;
/// Largest page in bytes (REST reference: 4 MB).
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest query text in bytes (account document: maxSqlQueryInputLength).
pub const QUERY_TEXT_BYTES_MAX: usize = 256 * 1024;
/// Planned request units per second of a physical partition at creation.
pub const PARTITION_RU_PLANNED: u32 = 6_000;
/// Most request units per second that a physical partition serves (service limits page: 10,000).
pub const PARTITION_RU_MAX: u32 = 10_000;
/// Least manual throughput (service limits page: 400).
pub const THROUGHPUT_MIN: u32 = 400;
/// Least autoscale maximum (service limits page: 1,000).
pub const AUTOSCALE_MAX_MIN: u32 = 1_000;
/// Most throughput of one resource without a support request (service limits page: 1,000,000).
pub const THROUGHPUT_MAX: u32 = 1_000_000;
/// Storage of one logical partition (ours, from the founding documents: 10 GB).
pub const LOGICAL_PARTITION_BYTES_MAX: u64 = 10 * 1024 * 1024 * 1024;
