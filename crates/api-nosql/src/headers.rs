//! The names of the protocol's headers, and the checks of those that any request may carry.

use hyper::header::HeaderMap;

use crate::errors::ApiError;

/// Header names, request and response.
pub(crate) mod name {
    use hyper::header::HeaderName;

    macro_rules! names {
        ($($constant:ident = $text:literal;)*) => {
            $(pub(crate) const $constant: HeaderName = HeaderName::from_static($text);)*
        };
    }

    names! {
        A_IM = "a-im";
        ACTIVITY_ID = "x-ms-activity-id";
        ALT_CONTENT_PATH = "x-ms-alt-content-path";
        AUTOPILOT_SETTINGS = "x-ms-cosmos-offer-autopilot-settings";
        BATCH_ATOMIC = "x-ms-cosmos-batch-atomic";
        BATCH_CONTINUE_ON_ERROR = "x-ms-cosmos-batch-continue-on-error";
        CONSISTENCY_LEVEL = "x-ms-consistency-level";
        CONTENT_PATH = "x-ms-content-path";
        CONTINUATION = "x-ms-continuation";
        CONTINUATION_LIMIT_KB = "x-ms-documentdb-responsecontinuationtokenlimitinkb";
        ENABLE_CROSS_PARTITION = "x-ms-documentdb-query-enablecrosspartition";
        ENABLE_SCAN = "x-ms-documentdb-query-enable-scan";
        END_EPK = "x-ms-end-epk";
        GATEWAY_VERSION = "x-ms-gatewayversion";
        INDEXING_DIRECTIVE = "x-ms-indexing-directive";
        INDEX_TRANSFORMATION_PROGRESS = "x-ms-documentdb-collection-index-transformation-progress";
        INTENDED_COLLECTION_RID = "x-ms-cosmos-intended-collection-rid";
        IS_BATCH = "x-ms-cosmos-is-batch-request";
        IS_QUERY = "x-ms-documentdb-isquery";
        IS_QUERY_PLAN = "x-ms-cosmos-is-query-plan-request";
        IS_UPSERT = "x-ms-documentdb-is-upsert";
        ITEM_COUNT = "x-ms-item-count";
        ITEM_LSN = "x-ms-item-lsn";
        LAST_STATE_CHANGE = "x-ms-last-state-change-utc";
        LSN = "lsn";
        MAX_ITEM_COUNT = "x-ms-max-item-count";
        MIGRATE_TO_AUTOPILOT = "x-ms-cosmos-migrate-offer-to-autopilot";
        MIGRATE_TO_MANUAL = "x-ms-cosmos-migrate-offer-to-manual-throughput";
        OFFER_THROUGHPUT = "x-ms-offer-throughput";
        PARTITION_KEY = "x-ms-documentdb-partitionkey";
        PARTITION_KEY_RANGE_ID = "x-ms-documentdb-partitionkeyrangeid";
        POPULATE_PARTITION_STATISTICS = "x-ms-documentdb-populatepartitionstatistics";
        POPULATE_QUERY_METRICS = "x-ms-documentdb-populatequerymetrics";
        POPULATE_QUOTA_INFO = "x-ms-documentdb-populatequotainfo";
        PREFER = "prefer";
        PRIORITY_LEVEL = "x-ms-cosmos-priority-level";
        QUERY_METRICS = "x-ms-documentdb-query-metrics";
        QUERY_VERSION = "x-ms-cosmos-query-version";
        READ_KEY_TYPE = "x-ms-read-key-type";
        REQUEST_CHARGE = "x-ms-request-charge";
        REQUEST_DURATION = "x-ms-request-duration-ms";
        RESOURCE_QUOTA = "x-ms-resource-quota";
        RESOURCE_USAGE = "x-ms-resource-usage";
        RETRY_AFTER_MS = "x-ms-retry-after-ms";
        SCHEMA_VERSION = "x-ms-schemaversion";
        SERIALIZATION_FORMATS = "x-ms-cosmos-supported-serialization-formats";
        SERVICE_VERSION = "x-ms-serviceversion";
        SESSION_TOKEN = "x-ms-session-token";
        START_EPK = "x-ms-start-epk";
        SUBSTATUS = "x-ms-substatus";
        SUPPORTED_QUERY_FEATURES = "x-ms-cosmos-supported-query-features";
        THROUGHPUT_BUCKET = "x-ms-cosmos-throughput-bucket";
        VERSION = "x-ms-version";
        XMS_DATE = "x-ms-date";
    }
}

/// The page size asked for: `None` when absent or -1, which leave it to the server.
pub(crate) fn page_size(headers: &HeaderMap) -> Result<Option<usize>, ApiError> {
    let Some(value) = headers.get(name::MAX_ITEM_COUNT) else { return Ok(None) };
    let text = value.to_str().unwrap_or("").trim();
    match text.parse::<i32>() {
        Ok(-1) => Ok(None),
        Ok(n) if n > 0 => Ok(usize::try_from(n).ok()),
        Ok(_) | Err(_) => Err(ApiError::bad_request(format!(
            "The input PageSize {text} is invalid. Ensure to pass a valid page size which must be \
             a positive integer or -1 for a dynamic page size."
        ))),
    }
}
