//! The names of the protocol's headers, and checks of the headers that any request may carry.

use bytes::Bytes;
use front::{RequestIds, Scheme};
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;

use crate::Consistency;
use crate::errors::ApiError;
use crate::observe::{RequestedConsistency, WireFormat};

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
        CHANGE_FEED_WIRE_FORMAT = "x-ms-cosmos-changefeed-wire-format-version";
        CONSISTENCY_LEVEL = "x-ms-consistency-level";
        CONTENT_PATH = "x-ms-content-path";
        CONTINUATION = "x-ms-continuation";
        CONTINUATION_LIMIT_KB = "x-ms-documentdb-responsecontinuationtokenlimitinkb";
        ENABLE_CROSS_PARTITION = "x-ms-documentdb-query-enablecrosspartition";
        ENABLE_SCAN = "x-ms-documentdb-query-enable-scan";
        END_EPK = "x-ms-end-epk";
        EXPIRY_SECONDS = "x-ms-documentdb-expiry-seconds";
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
        OFFER_REPLACE_PENDING = "x-ms-offer-replace-pending";
        MIN_THROUGHPUT = "x-ms-cosmos-min-throughput";
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
        READ_CONSISTENCY_STRATEGY = "x-ms-cosmos-read-consistency-strategy";
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

/// The requested page size: `None` when absent, -1 or 0, which leave it to the server.
pub(crate) fn page_size(headers: &HeaderMap) -> Result<Option<usize>, ApiError> {
    let Some(value) = headers.get(name::MAX_ITEM_COUNT) else { return Ok(None) };
    let text = value.to_str().unwrap_or("").trim();
    match text.parse::<i32>() {
        Ok(-1 | 0) => Ok(None),
        Ok(n) if n > 0 => Ok(usize::try_from(n).ok()),
        Ok(_) | Err(_) => Err(ApiError::bad_request(format!(
            "The input PageSize {text} is invalid. Ensure to pass a valid page size which must be \
             a positive integer or -1 for a dynamic page size."
        ))),
    }
}

/// The address a client used, for `Content-Location`; `None` when the request names no host.
pub(crate) fn location(head: &Parts, scheme: Scheme) -> Option<HeaderValue> {
    let host = match head.uri.authority() {
        Some(authority) => authority.as_str().as_bytes(),
        None => head.headers.get(HOST)?.as_bytes(),
    };
    let path = head.uri.path().as_bytes();
    let mut out = Vec::with_capacity(8 + host.len() + path.len());
    out.extend_from_slice(scheme.as_str().as_bytes());
    out.extend_from_slice(b"://");
    out.extend_from_slice(host);
    out.extend_from_slice(path);
    HeaderValue::from_maybe_shared(Bytes::from(out)).ok()
}

/// The client's activity id if it sent one that can be echoed, else a new one.
pub(crate) fn activity_id(ids: &RequestIds, headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(name::ACTIVITY_ID).filter(|v| {
        let bytes = v.as_bytes();
        !bytes.is_empty() && bytes.len() <= ACTIVITY_ID_BYTES_MAX && bytes.is_ascii()
    });
    given.cloned().unwrap_or_else(|| ids.make())
}

/// Refuses known headers with values that the protocol does not have. Returns the wire format that
/// the valid ones describe, so that they are not parsed again.
pub(crate) fn validate(headers: &HeaderMap, account: Consistency) -> Result<WireFormat, ApiError> {
    let mut format = WireFormat::default();
    page_size(headers)?;
    if let Some(version) = value(headers, &name::VERSION)
        && !is_api_version(version)
    {
        return Err(ApiError::bad_request(
            "Invalid API version. Ensure a valid x-ms-version header value is passed. Please \
             update to the latest version of Azure Cosmos DB SDK.",
        ));
    }
    if let Some(level) = value(headers, &name::CONSISTENCY_LEVEL) {
        check_consistency(level, account)?;
        format.consistency = RequestedConsistency::of(level);
    }
    if let Some(strategy) = value(headers, &name::READ_CONSISTENCY_STRATEGY) {
        format.consistency = RequestedConsistency::of(strategy);
    }
    for (header, allowed) in &CLOSED_HEADERS {
        if let Some(text) = value(headers, header)
            && !allowed.iter().any(|a| a.eq_ignore_ascii_case(text))
        {
            return Err(invalid_value(text, header));
        }
    }
    if let Some(formats) = value(headers, &name::SERIALIZATION_FORMATS) {
        let known = |f: &str| SERIALIZATION_FORMATS.iter().any(|k| k.eq_ignore_ascii_case(f));
        if !formats.split(',').all(|f| known(f.trim())) {
            return Err(invalid_value(formats, &name::SERIALIZATION_FORMATS));
        }
        let is_binary = |f: &str| f.trim().eq_ignore_ascii_case("CosmosBinary");
        format.accepts_binary = formats.split(',').any(is_binary);
    }
    Ok(format)
}

/// Headers with a fixed list of values, compared without case.
static CLOSED_HEADERS: [(HeaderName, &[&str]); 4] = [
    (name::ENABLE_SCAN, &["true", "false"]),
    (name::INDEXING_DIRECTIVE, &["default", "include", "exclude", "0", "1", "2"]),
    (name::PRIORITY_LEVEL, &["high", "low"]),
    (name::THROUGHPUT_BUCKET, &["1", "2", "3", "4", "5"]),
];

const SERIALIZATION_FORMATS: &[&str] = &["JsonText", "CosmosBinary", "HybridRow"];

const ACTIVITY_ID_BYTES_MAX: usize = 128;

/// The oldest supported version of the protocol.
const API_VERSION_MIN: &str = "2015-12-16";

fn value<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).map(|v| v.to_str().unwrap_or("").trim())
}

/// Versions are dates, so texts of the right form compare correctly.
fn is_api_version(text: &str) -> bool {
    let shaped = text.len() == 10
        && text.bytes().enumerate().all(|(i, b)| match i {
            4 | 7 => b == b'-',
            _ => b.is_ascii_digit(),
        });
    shaped && text >= API_VERSION_MIN
}

fn check_consistency(text: &str, account: Consistency) -> Result<(), ApiError> {
    let Some(level) = Consistency::parse(text) else {
        return Err(invalid_value(text, &name::CONSISTENCY_LEVEL));
    };
    if level.strength() > account.strength() {
        return Err(ApiError::bad_request(format!(
            "ConsistencyLevel {} specified in the request is invalid when service is configured \
             with consistency level {}. Ensure the request consistency level is not stronger than \
             the service consistency level.",
            level.name(),
            account.name()
        )));
    }
    Ok(())
}

pub(crate) fn invalid_value(text: &str, header: &HeaderName) -> ApiError {
    ApiError::bad_request(format!(
        "The value '{text}' specified for the header '{header}' is invalid."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: HeaderName, text: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header, HeaderValue::from_static(text));
        validate(&headers, Consistency::Session).is_ok()
    }

    #[test]
    fn page_sizes_are_numbers_or_left_to_the_server() {
        for good in ["1", "100", "-1", "0", "2147483647"] {
            assert!(check(name::MAX_ITEM_COUNT, good), "{good}");
        }
        for bad in ["-2", "abc", "", "2147483648", "1.5"] {
            assert!(!check(name::MAX_ITEM_COUNT, bad), "{bad}");
        }
    }

    #[test]
    fn old_and_garbled_versions_are_refused() {
        for good in ["2020-07-15", "2018-12-31", "2018-06-18"] {
            assert!(check(name::VERSION, good), "{good}");
        }
        for bad in ["2015-01-01", "latest", "", "2018/06/18", "2018-06-181"] {
            assert!(!check(name::VERSION, bad), "{bad}");
        }
    }

    #[test]
    fn a_request_may_ask_for_less_consistency_but_not_for_more() {
        for good in ["Session", "session", "Eventual", "ConsistentPrefix"] {
            assert!(check(name::CONSISTENCY_LEVEL, good), "{good}");
        }
        for bad in ["Strong", "BoundedStaleness", "Perfect", ""] {
            assert!(!check(name::CONSISTENCY_LEVEL, bad), "{bad}");
        }
    }

    #[test]
    fn closed_lists_are_closed() {
        assert!(check(name::ENABLE_SCAN, "True"));
        assert!(!check(name::ENABLE_SCAN, "maybe"));
        assert!(check(name::INDEXING_DIRECTIVE, "exclude"));
        assert!(check(name::INDEXING_DIRECTIVE, "1"));
        assert!(!check(name::INDEXING_DIRECTIVE, "3"));
        assert!(check(name::PRIORITY_LEVEL, "High"));
        assert!(!check(name::PRIORITY_LEVEL, "Medium"));
        assert!(check(name::THROUGHPUT_BUCKET, "5"));
        assert!(!check(name::THROUGHPUT_BUCKET, "-1"));
        assert!(check(name::SERIALIZATION_FORMATS, "JsonText,CosmosBinary"));
        assert!(!check(name::SERIALIZATION_FORMATS, "Yaml"));
    }

    #[test]
    fn a_bad_bucket_is_named() {
        let mut headers = HeaderMap::new();
        headers.insert(name::THROUGHPUT_BUCKET, HeaderValue::from_static("-1"));
        let error = validate(&headers, Consistency::Session).unwrap_err();
        let wanted = "specified for the header 'x-ms-cosmos-throughput-bucket' is invalid.";
        assert!(error.message().contains(wanted), "{}", error.message());
    }

    #[test]
    fn activity_ids_are_echoed_or_made() {
        struct Sevens;
        impl engine::components::Random for Sevens {
            fn fill(&self, out: &mut [u8]) {
                out.fill(0x77);
            }
        }
        let ids = RequestIds::new(&Sevens);
        let mut headers = HeaderMap::new();
        assert_eq!(activity_id(&ids, &headers).len(), 36);
        headers.insert(name::ACTIVITY_ID, HeaderValue::from_static("mine"));
        assert_eq!(activity_id(&ids, &headers), "mine");
    }
}
