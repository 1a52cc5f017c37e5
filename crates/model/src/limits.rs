//! The limits that clients can notice, with their sources.
//!
//! Constants for tuning, which change no answer, stay where they are used, and so do the rules of
//! names and texts beside the code that checks them.

use std::time::Duration;

/// Largest item, in bytes of UTF-8 JSON (service limits page: 2 MB).
pub const ITEM_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Deepest nesting of an item (service limits page: 128).
pub const ITEM_DEPTH_MAX: usize = 128;
/// Deepest nesting of any JSON the server reads, whatever limit the caller of the parser passes
/// (our limit, and the depth limit of the client libraries' binary JSON): it keeps every traversal
/// of a value within a small stack.
pub const JSON_DEPTH_MAX: usize = 256;
/// Largest document of a MongoDB collection, in bytes of BSON (MongoDB's limits: 16 MB).
pub const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Deepest nesting of a document of a MongoDB collection (MongoDB's limits: 100 levels).
pub const DOCUMENT_DEPTH_MAX: usize = 100;
/// Deepest nesting of any BSON the server reads, whatever limit the caller of the reader passes
/// (our limit, as that of JSON): commands nest documents deeper.
pub const BSON_DEPTH_MAX: usize = JSON_DEPTH_MAX;
/// Longest row key of a document of a MongoDB collection: the encoding of its `_id` (our limit;
/// MongoDB's is that of the document).
pub const ROW_KEY_BYTES_MAX: usize = 16 * 1024;
/// Longest item id in bytes, whatever the API (data model of the Table service: row keys of 1 KB
/// in UTF-16, which are up to 1,536 bytes of UTF-8).
pub const ITEM_ID_BYTES_MAX: usize = 1536;
/// Longest item id in bytes that the NoSQL API writes (service limits page: 1,023).
pub const NOSQL_ITEM_ID_BYTES_MAX: usize = 1023;
/// Longest id of any other resource, in characters (service limits page: 255).
pub const RESOURCE_ID_CHARS_MAX: usize = 255;
/// Longest partition-key value in bytes (service limits page: 2,048 with large keys). Version 1
/// keys, too: the service takes longer values than the 101 bytes it hashes of them.
pub const PARTITION_KEY_BYTES_MAX: usize = 2048;
/// Characters (UTF-16 code units) of a string that a version 1 key hashes (client libraries).
pub const PARTITION_KEY_V1_CHARS_HASHED: usize = 100;
/// Most levels of a hierarchical partition key (service limits page: 3).
pub const PARTITION_KEY_LEVELS_MAX: usize = 3;
/// Most segments of a property path (our limit: an item cannot nest deeper).
pub const PROPERTY_PATH_SEGMENTS_MAX: usize = ITEM_DEPTH_MAX;
/// Longest text of an effective partition key that is read (our limit: twice what any key needs).
pub const EPK_HEX_CHARS_MAX: usize = 1024;
/// Largest body of a request (our limit: the largest item, with extra space for white space, escapes
/// and an envelope).
pub const REQUEST_BYTES_MAX: usize = ITEM_BYTES_MAX + 512 * 1024;
/// Largest body of a request to the Table API (REST reference of the Table service: 4 MB).
pub const TABLE_REQUEST_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most operations of a transactional batch (service limits page, and REST reference of the Table
/// service: 100).
pub const BATCH_OPERATIONS_MAX: usize = 100;
/// Largest batch body (service limits page: 2 MB).
pub const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Largest batch body in HybridRow (client libraries: 2 MB and 5 %), so that the rows around the
/// largest item do not make it too large.
pub const BATCH_ROWS_BYTES_MAX: usize = 2_202_010;
/// Most bytes of items in the answer to a batch (comments in client libraries: 4 MB).
pub const BATCH_ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most operations of a script's transaction (our limit: all are committed at once).
pub const TRANSACTION_OPERATIONS_MAX: usize = 10_000;
/// Most bytes that a script's transaction writes (our limit: all are committed at once).
pub const TRANSACTION_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most operations of a patch (partial document update FAQ: 10).
pub const PATCH_OPERATIONS_MAX: usize = 10;
/// Most unique keys of a container (unique keys page: 10).
pub const UNIQUE_KEYS_MAX: usize = 10;
/// Most paths of one unique key (unique keys page: 16).
pub const UNIQUE_KEY_PATHS_MAX: usize = 16;
/// Most paths of one list of an indexing policy (our limit: bounds the work of every write).
pub const INDEXING_PATHS_MAX: usize = 1_000;
/// Most composite indexes of a container (service limits page: 100).
pub const COMPOSITE_INDEXES_MAX: usize = 100;
/// Most paths of one composite index (service limits page: 8).
pub const COMPOSITE_INDEX_PATHS_MAX: usize = 8;
/// Most paths of a vector or full-text policy (our limit: bounds the work of every write).
pub const SEARCH_PATHS_MAX: usize = 100;
/// Most dimensions of a vector (vector search page: 4,096).
pub const VECTOR_DIMENSIONS_MAX: i64 = 4096;
/// Most bytes of a quantized vector (vector search page: 512).
pub const VECTOR_QUANTIZED_BYTES_MAX: i64 = 512;
/// Most dimensions of vectors whose index is exact (vector search page: 505).
pub const FLAT_VECTOR_DIMENSIONS_MAX: usize = 505;
/// Most computed properties of a container (computed properties page: 20).
pub const COMPUTED_PROPERTIES_MAX: usize = 20;
/// Longest definition of a computed property in bytes (our limit: every query that uses it compiles
/// it).
pub const COMPUTED_PROPERTY_BYTES_MAX: usize = 16 * 1024;
/// Deepest definition of a computed property (our limit: it is evaluated inside of expressions that
/// may be deep themselves).
pub const COMPUTED_PROPERTY_DEPTH_MAX: usize = 50;
/// Longest time to live in seconds (time to live page: 2,147,483,647).
pub const TIME_TO_LIVE_SECONDS_MAX: u32 = 2_147_483_647;
/// Default page of a feed (REST reference: 100).
pub const PAGE_ITEMS_DEFAULT: usize = 100;
/// Most items of a page whatever the client requests (our limit: bounds one response).
pub const PAGE_ITEMS_MAX: usize = 10_000;
/// Largest page in bytes (REST reference: 4 MB).
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Default and largest page of the Table API, in entities or tables (REST reference of the Table
/// service: 1,000).
pub const TABLE_PAGE_ITEMS_MAX: usize = 1_000;
/// Longest continuation token in bytes (client libraries announce 1 KB on every request).
pub const CONTINUATION_BYTES_MAX: usize = 1024;
/// Longest continuation token that is read, in characters (our limit: longer than any token of this
/// server, as a row key has at most about 1.7 KB).
pub const CONTINUATION_READ_CHARS_MAX: usize = 8 * 1024;
/// Longest continuation token of the Table API that is read, in bytes (our limit: the longest key in
/// base64, with room).
pub const TABLE_CONTINUATION_BYTES_MAX: usize = 8 * 1024;
/// Longest continuation token of a page that the server gathers, in characters (our limit: longer
/// than any token with the longest key that a token holds).
pub const GATHERED_CONTINUATION_CHARS_MAX: usize = 256 * 1024;
/// Longest position in a change feed, in characters (our limit: it is sent in a header).
pub const FEED_POSITION_CHARS_MAX: usize = 60 * 1024;
/// A page ends after this time: a page of a query over given ranges, of items in the order of their
/// keys, or of changes (our limit: it holds a view of the store, and one client waits for it).
pub const PAGE_TIME_MAX: Duration = Duration::from_secs(1);
/// A client of the Table API waits at most this long for a page, whatever its `timeout` says.
pub const TABLE_TIMEOUT_MAX: Duration = Duration::from_secs(30);
/// A page of changes that is still empty ends after this time (our limit, and the reason for one of
/// its own: some clients take an empty page for the end of the feed).
pub const EMPTY_FEED_PAGE_TIME_MAX: Duration = Duration::from_secs(5);
/// A page that the server gathers from partitions one after the other ends after this time (our
/// limit: above [`PAGE_TIME_MAX`], since each partition's part has a view of its own).
pub const GATHERED_PAGE_TIME_MAX: Duration = Duration::from_secs(5);
/// A query that must read all rows before it returns the first fails after this time (our limit).
pub const QUERY_TIME_MAX: Duration = Duration::from_secs(30);
/// A page that the server gathers, and that needs all of its parts, fails after this time (our
/// limit: above [`QUERY_TIME_MAX`], which each part has).
pub const GATHERED_QUERY_TIME_MAX: Duration = Duration::from_secs(60);
/// Longest wait that a throttled client is told (client libraries: they cut longer ones, and would
/// come back too early).
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(15);
/// How far the date of a signed request may be from the server's clock (REST reference: 15 minutes).
pub const SIGNED_DATE_SKEW_MAX: Duration = Duration::from_secs(15 * 60);
/// Most bytes of rows that a query may keep until it has read all of them; with more it fails (our
/// limit: bounds the memory of one query).
pub const QUERY_KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest query text in bytes (service limits page: 512 KB; account document:
/// maxSqlQueryInputLength).
pub const QUERY_TEXT_BYTES_MAX: usize = 512 * 1024;
/// Deepest tree of a query (our limit: its traversals recurse on a stack of no more than 1 MB).
pub const QUERY_DEPTH_MAX: usize = 200;
/// Deepest nesting of brackets, calls and subqueries in a query's text (our limit: the parser needs
/// more stack for each level than traversals of the tree).
pub const QUERY_NESTING_MAX: usize = 100;
/// Longest text of all queries that a client runs for one ranked query, in bytes (our limit: each of
/// them contains all scores).
pub const REWRITTEN_TEXT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most JOINs of a query (account document: maxJoinsPerSqlQuery).
pub const QUERY_JOINS_MAX: usize = 10;
/// Most user-defined functions that a query refers to (account document: maxUdfRefPerSqlQuery).
pub const QUERY_UDFS_MAX: usize = 10;
/// Most keys of ORDER BY (our limit: a composite index has no more paths).
pub const ORDER_BY_KEYS_MAX: usize = COMPOSITE_INDEX_PATHS_MAX;
/// Most keys of GROUP BY (our limit: every expression of the select list is compared with each).
pub const GROUP_BY_KEYS_MAX: usize = 64;
/// Most aggregates of a query (our limit: each is compared with all others).
pub const QUERY_AGGREGATES_MAX: usize = 64;
/// Most phrases of one call of a full-text function (our limit: each is compared with every word).
pub const SEARCH_PHRASES_MAX: usize = 100;
/// Most scores of a ranking (account document: queryMaxRrfArgumentCount).
pub const RANK_SCORES_MAX: usize = 100;
/// Most terms of a full-text score (account document: queryMaxFullTextScoreSearchTerms).
pub const SCORE_TERMS_MAX: usize = 30;
/// Longest regular expression in bytes (our limit: compiling one may cost the square of its length).
pub const REGEX_BYTES_MAX: usize = 4096;
/// Longest result of REPLICATE in UTF-16 units (function reference: 10,000 characters).
pub const REPLICATE_UNITS_MAX: usize = 10_000;
/// Longest `$filter` in bytes (our limit: more than fits a URL).
pub const FILTER_BYTES_MAX: usize = 64 * 1024;
/// Deepest nesting of a `$filter` (our limit: as for queries).
pub const FILTER_DEPTH_MAX: usize = 200;
/// Most comparisons of a `$filter` (our limit; REST reference of the Table service: 15).
pub const FILTER_COMPARISONS_MAX: usize = 2_000;
/// Most names of a `$select` (our limit: an entity has at most 255 properties).
pub const SELECTED_NAMES_MAX: usize = 1_000;
/// Largest text of a stored procedure, trigger or function in bytes (our limit: parsing cannot be
/// interrupted).
pub const SCRIPT_BYTES_MAX: usize = 512 * 1024;
/// Most stored procedures of a container (service limits page: 100).
pub const STORED_PROCEDURES_MAX: usize = 100;
/// Most triggers of a container (our limit, as for stored procedures).
pub const TRIGGERS_MAX: usize = 100;
/// Most user-defined functions of a container (service limits page: 50).
pub const USER_DEFINED_FUNCTIONS_MAX: usize = 50;
/// Most databases and containers of a server (our limit: the catalog is kept in memory).
pub const RESOURCES_MAX: usize = 100_000;
/// Most users, permissions and client encryption keys of a server (our limit: the catalog is kept in
/// memory).
pub const OPAQUE_RESOURCES_MAX: usize = 100_000;
/// Most ranges of a container (our limit).
pub const CONTAINER_RANGES_MAX: u32 = 1_000;
/// Planned request units per second of a physical partition at creation (client test suites:
/// 12,000 make two ranges, 30,000 five).
pub const PARTITION_RU_PLANNED: u32 = 6_000;
/// Most request units per second that a physical partition serves (service limits page: 10,000).
pub const PARTITION_RU_MAX: u32 = 10_000;
/// Least manual throughput (service limits page: 400).
pub const THROUGHPUT_MIN: u32 = 400;
/// Manual throughput is a multiple of this (service limits page: 100).
pub const THROUGHPUT_STEP: u32 = 100;
/// Least autoscale maximum (service limits page: 1,000).
pub const AUTOSCALE_MAX_MIN: u32 = 1_000;
/// An autoscale maximum is a multiple of this (service limits page: 1,000).
pub const AUTOSCALE_MAX_STEP: u32 = 1_000;
/// Most throughput of one resource without a support request (service limits page: 1,000,000).
pub const THROUGHPUT_MAX: u32 = 1_000_000;
/// Most containers that share a database's throughput (service limits page: 25).
pub const SHARED_THROUGHPUT_CONTAINERS_MAX: usize = 25;
/// Storage of one logical partition (our limit, from the founding documents: 10 GB).
pub const LOGICAL_PARTITION_BYTES_MAX: u64 = 10 * 1024 * 1024 * 1024;
/// Storage of one physical partition (our limit, from the founding documents: 10 GB).
pub const PHYSICAL_PARTITION_BYTES_MAX: u64 = 10 * 1024 * 1024 * 1024;
