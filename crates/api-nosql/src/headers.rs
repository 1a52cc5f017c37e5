//! The headers of requests that the API reads, and checks of those that any request may carry.
//!
//! They belong to the API, not to HTTP: another wire fills [`Headers`] from its own fields.

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;

use crate::Consistency;
use crate::errors::ApiError;
use crate::observe::{RequestedConsistency, WireFormat};

macro_rules! header_names {
    ($($variant:ident = $text:literal;)*) => {
        /// The headers that the API reads. All others are dropped where a request arrives.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum HeaderName {
            $($variant,)*
        }

        const NAMES: &[(HeaderName, &str)] = &[$((HeaderName::$variant, $text),)*];
    };
}

header_names! {
    AIm = "a-im";
    ActivityId = "x-ms-activity-id";
    Authorization = "authorization";
    AutopilotSettings = "x-ms-cosmos-offer-autopilot-settings";
    BatchAtomic = "x-ms-cosmos-batch-atomic";
    BatchContinueOnError = "x-ms-cosmos-batch-continue-on-error";
    ChangeFeedWireFormat = "x-ms-cosmos-changefeed-wire-format-version";
    ConsistencyLevel = "x-ms-consistency-level";
    ContentType = "content-type";
    Continuation = "x-ms-continuation";
    ContinuationLimitKb = "x-ms-documentdb-responsecontinuationtokenlimitinkb";
    Date = "date";
    EnableCrossPartition = "x-ms-documentdb-query-enablecrosspartition";
    EnableScan = "x-ms-documentdb-query-enable-scan";
    EnableScriptLogging = "x-ms-documentdb-script-enable-logging";
    EndEpk = "x-ms-end-epk";
    ExcludeSystemProperties = "x-ms-exclude-system-properties";
    ExpirySeconds = "x-ms-documentdb-expiry-seconds";
    IfMatch = "if-match";
    IfModifiedSince = "if-modified-since";
    IfNoneMatch = "if-none-match";
    IndexingDirective = "x-ms-indexing-directive";
    IntendedCollectionRid = "x-ms-cosmos-intended-collection-rid";
    IsBatch = "x-ms-cosmos-is-batch-request";
    IsContinuationExpected = "x-ms-documentdb-query-iscontinuationexpected";
    IsQuery = "x-ms-documentdb-isquery";
    IsQueryPlan = "x-ms-cosmos-is-query-plan-request";
    IsUpsert = "x-ms-documentdb-is-upsert";
    MaxItemCount = "x-ms-max-item-count";
    MigrateToAutopilot = "x-ms-cosmos-migrate-offer-to-autopilot";
    MigrateToManual = "x-ms-cosmos-migrate-offer-to-manual-throughput";
    OfferThroughput = "x-ms-offer-throughput";
    // The client assumes a single range and wants the query to run unchanged.
    OptimisticDirectExecute = "x-ms-cosmos-query-optimisticdirectexecute";
    PartitionKey = "x-ms-documentdb-partitionkey";
    PartitionKeyRangeId = "x-ms-documentdb-partitionkeyrangeid";
    PopulateIndexMetrics = "x-ms-cosmos-populateindexmetrics";
    PopulateIndexMetricsV2 = "x-ms-cosmos-populateindexmetrics-v2";
    PopulatePartitionStatistics = "x-ms-documentdb-populatepartitionstatistics";
    PopulateQueryAdvice = "x-ms-cosmos-populatequeryadvice";
    PopulateQueryMetrics = "x-ms-documentdb-populatequerymetrics";
    PopulateQuotaInfo = "x-ms-documentdb-populatequotainfo";
    PostTriggerInclude = "x-ms-documentdb-post-trigger-include";
    PreTriggerInclude = "x-ms-documentdb-pre-trigger-include";
    Prefer = "prefer";
    PriorityLevel = "x-ms-cosmos-priority-level";
    ReadConsistencyStrategy = "x-ms-cosmos-read-consistency-strategy";
    ReadKeyType = "x-ms-read-key-type";
    SerializationFormats = "x-ms-cosmos-supported-serialization-formats";
    SessionToken = "x-ms-session-token";
    StartEpk = "x-ms-start-epk";
    SupportedQueryFeatures = "x-ms-cosmos-supported-query-features";
    ThroughputBucket = "x-ms-cosmos-throughput-bucket";
    Version = "x-ms-version";
    XmsDate = "x-ms-date";
}

impl HeaderName {
    /// The header with this name, in lower case; `None` if the API does not read it.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let mut slot = hash(name.as_bytes());
        while let Some(number) = SLOTS[slot] {
            let (header, known) = NAMES[usize::from(number)];
            if known == name {
                return Some(header);
            }
            slot = (slot + 1) % SLOTS.len();
        }
        None
    }

    /// Its name in lower case.
    pub(crate) fn as_str(self) -> &'static str {
        NAMES[self as usize].1
    }
}

impl fmt::Display for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A hash table of the names, made by the compiler: every request looks up each of its headers. A
/// name lies at its hash or, if that slot is taken, in the next free one.
static SLOTS: [Option<u8>; 256] = {
    let mut slots = [None; 256];
    let mut number: u8 = 0;
    while (number as usize) < NAMES.len() {
        let mut slot = hash(NAMES[number as usize].1.as_bytes());
        while slots[slot].is_some() {
            slot = (slot + 1) % slots.len();
        }
        slots[slot] = Some(number);
        number += 1;
    }
    slots
};

/// A hash of the length and two bytes, which tell almost all names apart.
const fn hash(name: &[u8]) -> usize {
    let length = name.len();
    match name {
        [] => 0,
        [.., last] => (length + 15 * name[length / 2] as usize + 33 * *last as usize) % 256,
    }
}

/// The headers of one request: those that the API reads, each at most once.
#[derive(Clone)]
pub(crate) struct Headers(Box<Fields>);

/// One allocation has all headers of a usual request.
#[derive(Clone)]
struct Fields {
    /// The values, one after the other.
    bytes: SmallVec<[u8; 512]>,
    /// Where each header's value lies in `bytes`.
    spans: [Span; NAMES.len()],
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

/// The span of a header that a request does not have.
const ABSENT: Span = Span { start: u32::MAX, end: 0 };

impl Headers {
    /// No headers yet.
    pub(crate) fn new() -> Self {
        Self(Box::new(Fields { bytes: SmallVec::new(), spans: [ABSENT; NAMES.len()] }))
    }

    /// Adds a header. Of headers with the same name the first counts.
    pub(crate) fn add(&mut self, name: HeaderName, value: &[u8]) {
        if !self.has(name) {
            self.set(name, value);
        }
    }

    /// Adds or replaces a header.
    pub(crate) fn set(&mut self, name: HeaderName, value: &[u8]) {
        let Fields { bytes, spans } = self.0.as_mut();
        let start = bytes.len();
        if let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(start + value.len())) {
            bytes.extend_from_slice(value);
            spans[name as usize] = Span { start, end };
        }
    }

    /// Whether the request has this header.
    pub(crate) fn has(&self, name: HeaderName) -> bool {
        self.0.spans[name as usize] != ABSENT
    }

    /// The value as it was sent.
    pub(crate) fn get(&self, name: HeaderName) -> Option<&[u8]> {
        let Span { start, end } = self.0.spans[name as usize];
        self.0.bytes.get(start as usize..end as usize)
    }

    /// The value's text; `None` when absent or not visible ASCII.
    pub(crate) fn text(&self, name: HeaderName) -> Option<&str> {
        visible(self.get(name)?)
    }

    /// The value's text; `unreadable` if it is not visible ASCII.
    pub(crate) fn text_or(&self, name: HeaderName, unreadable: &'static str) -> Option<&str> {
        Some(visible(self.get(name)?).unwrap_or(unreadable))
    }

    /// The value's text, for headers that must not be ignored if they are unreadable: bytes that
    /// are no text become a character that equals nothing valid.
    pub(crate) fn text_lossy(&self, name: HeaderName) -> Option<Cow<'_, str>> {
        self.get(name).map(String::from_utf8_lossy)
    }

    /// Whether a boolean header is true, in any case.
    pub(crate) fn flag(&self, name: HeaderName) -> bool {
        self.text(name).is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }
}

impl fmt::Debug for Headers {
    /// Names alone: values can be credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.iter().filter(|(name, _)| self.has(*name)).map(|(_, text)| text);
        f.debug_list().entries(names).finish()
    }
}

/// Bytes as text without surrounding space, if all are visible ASCII.
fn visible(bytes: &[u8]) -> Option<&str> {
    let is_visible = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t');
    let text = bytes.iter().all(is_visible).then(|| std::str::from_utf8(bytes).ok())??;
    Some(text.trim())
}

/// The requested page size: `None` when absent, -1 or 0, which leave it to the server.
pub(crate) fn page_size(headers: &Headers) -> Result<Option<usize>, ApiError> {
    let Some(text) = headers.text_or(HeaderName::MaxItemCount, "") else { return Ok(None) };
    match text.parse::<i32>() {
        Ok(-1 | 0) => Ok(None),
        Ok(n) if n > 0 => Ok(usize::try_from(n).ok()),
        Ok(_) | Err(_) => Err(ApiError::bad_request(format!(
            "The input PageSize {text} is invalid. Ensure to pass a valid page size which must be \
             a positive integer or -1 for a dynamic page size."
        ))),
    }
}

/// Refuses known headers with values that the protocol does not have. Returns the wire format that
/// the valid ones describe, so that they are not parsed again.
pub(crate) fn validate(headers: &Headers, account: Consistency) -> Result<WireFormat, ApiError> {
    let mut format = WireFormat::default();
    page_size(headers)?;
    if let Some(version) = headers.text_or(HeaderName::Version, "")
        && !is_api_version(version)
    {
        return Err(ApiError::bad_request(
            "Invalid API version. Ensure a valid x-ms-version header value is passed. Please \
             update to the latest version of Azure Cosmos DB SDK.",
        ));
    }
    // The .NET SDK sends an empty level with the queries that the server is to run as a whole.
    let level = headers.text_or(HeaderName::ConsistencyLevel, "?");
    if let Some(level) = level.filter(|level| !level.is_empty()) {
        check_consistency(level, account)?;
        format.consistency = RequestedConsistency::of(level);
    }
    if let Some(strategy) = headers.text_or(HeaderName::ReadConsistencyStrategy, "") {
        format.consistency = RequestedConsistency::of(strategy);
    }
    for (header, allowed) in &CLOSED_HEADERS {
        if let Some(text) = headers.text_or(*header, "")
            && !allowed.iter().any(|a| a.eq_ignore_ascii_case(text))
        {
            return Err(invalid_value(text, *header));
        }
    }
    if let Some(formats) = headers.text_or(HeaderName::SerializationFormats, "") {
        let known = |f: &str| SERIALIZATION_FORMATS.iter().any(|k| k.eq_ignore_ascii_case(f));
        if !formats.split(',').all(|f| known(f.trim())) {
            return Err(invalid_value(formats, HeaderName::SerializationFormats));
        }
        let is_binary = |f: &str| f.trim().eq_ignore_ascii_case("CosmosBinary");
        format.accepts_binary = formats.split(',').any(is_binary);
    }
    Ok(format)
}

/// Headers with a fixed list of values, compared without case.
const CLOSED_HEADERS: [(HeaderName, &[&str]); 4] = [
    (HeaderName::EnableScan, &["true", "false"]),
    (HeaderName::IndexingDirective, &["default", "include", "exclude", "0", "1", "2"]),
    (HeaderName::PriorityLevel, &["high", "low"]),
    (HeaderName::ThroughputBucket, &["1", "2", "3", "4", "5"]),
];

const SERIALIZATION_FORMATS: &[&str] = &["JsonText", "CosmosBinary", "HybridRow"];

/// The oldest supported version of the protocol.
const API_VERSION_MIN: &str = "2015-12-16";

/// The version that clients are advised to use.
pub(crate) const API_VERSION_NEWEST: &str = "2020-07-15";

/// Versions are dates, so texts of the right form compare correctly.
pub(crate) fn is_api_version(text: &str) -> bool {
    let shaped = text.len() == 10
        && text.bytes().enumerate().all(|(i, b)| match i {
            4 | 7 => b == b'-',
            _ => b.is_ascii_digit(),
        });
    shaped && text >= API_VERSION_MIN
}

fn check_consistency(text: &str, account: Consistency) -> Result<(), ApiError> {
    let Some(level) = Consistency::parse(text) else {
        return Err(invalid_value(text, HeaderName::ConsistencyLevel));
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

pub(crate) fn invalid_value(text: &str, header: HeaderName) -> ApiError {
    ApiError::bad_request(format!(
        "The value '{text}' specified for the header '{header}' is invalid."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: HeaderName, text: &'static str) -> bool {
        let mut headers = Headers::new();
        headers.add(header, text.as_bytes());
        validate(&headers, Consistency::Session).is_ok()
    }

    #[test]
    fn page_sizes_are_numbers_or_left_to_the_server() {
        for good in ["1", "100", "-1", "0", "2147483647"] {
            assert!(check(HeaderName::MaxItemCount, good), "{good}");
        }
        for bad in ["-2", "abc", "", "2147483648", "1.5"] {
            assert!(!check(HeaderName::MaxItemCount, bad), "{bad}");
        }
    }

    #[test]
    fn old_and_garbled_versions_are_refused() {
        for good in ["2020-07-15", "2018-12-31", "2018-06-18"] {
            assert!(check(HeaderName::Version, good), "{good}");
        }
        for bad in ["2015-01-01", "latest", "", "2018/06/18", "2018-06-181"] {
            assert!(!check(HeaderName::Version, bad), "{bad}");
        }
    }

    #[test]
    fn a_request_may_ask_for_less_consistency_but_not_for_more() {
        for good in ["Session", "session", "Eventual", "ConsistentPrefix", "", " "] {
            assert!(check(HeaderName::ConsistencyLevel, good), "{good}");
        }
        for bad in ["Strong", "BoundedStaleness", "Perfect", "ü"] {
            assert!(!check(HeaderName::ConsistencyLevel, bad), "{bad}");
        }
    }

    #[test]
    fn closed_lists_are_closed() {
        assert!(check(HeaderName::EnableScan, "True"));
        assert!(!check(HeaderName::EnableScan, "maybe"));
        assert!(check(HeaderName::IndexingDirective, "exclude"));
        assert!(check(HeaderName::IndexingDirective, "1"));
        assert!(!check(HeaderName::IndexingDirective, "3"));
        assert!(check(HeaderName::PriorityLevel, "High"));
        assert!(!check(HeaderName::PriorityLevel, "Medium"));
        assert!(check(HeaderName::ThroughputBucket, "5"));
        assert!(!check(HeaderName::ThroughputBucket, "-1"));
        assert!(check(HeaderName::SerializationFormats, "JsonText,CosmosBinary"));
        assert!(!check(HeaderName::SerializationFormats, "Yaml"));
    }

    #[test]
    fn a_bad_bucket_is_named() {
        let mut headers = Headers::new();
        headers.add(HeaderName::ThroughputBucket, b"-1");
        let error = validate(&headers, Consistency::Session).unwrap_err();
        let wanted = "specified for the header 'x-ms-cosmos-throughput-bucket' is invalid.";
        assert!(error.message().contains(wanted), "{}", error.message());
    }

    #[test]
    fn every_name_is_found_and_no_other() {
        for (name, text) in NAMES {
            assert_eq!(HeaderName::of(text), Some(*name), "{text}");
            assert_eq!(name.as_str(), *text);
            assert_eq!(HeaderName::of(&text[1..]), None, "{text}");
        }
        for unknown in ["", "x", "host", "X-MS-DATE", "x-ms-dates"] {
            assert_eq!(HeaderName::of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn the_first_of_two_headers_counts_until_one_is_set() {
        let mut headers = Headers::new();
        assert_eq!(headers.get(HeaderName::Prefer), None);
        headers.add(HeaderName::Prefer, b"");
        assert_eq!(headers.text(HeaderName::Prefer), Some(""));
        headers.add(HeaderName::Prefer, b"b");
        assert_eq!(headers.get(HeaderName::Prefer), Some(&b""[..]));
        headers.set(HeaderName::Prefer, b"c");
        assert_eq!(headers.get(HeaderName::Prefer), Some(&b"c"[..]));
    }

    #[test]
    fn text_is_visible_ascii_without_surrounding_space() {
        let mut headers = Headers::new();
        headers.add(HeaderName::Prefer, b" a\tb ");
        assert_eq!(headers.text(HeaderName::Prefer), Some("a\tb"));
        for unreadable in [&b"\xc3\xbc"[..], b"a\x7f", b"\x01"] {
            headers.set(HeaderName::Prefer, unreadable);
            assert_eq!(headers.text(HeaderName::Prefer), None);
            assert_eq!(headers.text_or(HeaderName::Prefer, "?"), Some("?"));
        }
        assert_eq!(headers.text_or(HeaderName::AIm, "?"), None);
    }
}
