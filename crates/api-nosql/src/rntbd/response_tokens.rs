//! The tokens of answers: the id of each.

use crate::reply::ReplyHeader;

macro_rules! tokens {
    ($($constant:ident = $id:literal;)*) => {
        $(pub(super) const $constant: u16 = $id;)*

        #[cfg(test)]
        const ALL: &[u16] = &[$($id),*];
    };
}

tokens! {
    PAYLOAD_PRESENT = 0x00;
    LAST_STATE_CHANGE = 0x02;
    CONTINUATION = 0x03;
    ETAG = 0x04;
    RETRY_AFTER_MS = 0x0C;
    RESOURCE_QUOTA = 0x0E;
    RESOURCE_USAGE = 0x0F;
    SCHEMA_VERSION = 0x10;
    LSN = 0x13;
    ITEM_COUNT = 0x14;
    REQUEST_CHARGE = 0x15;
    OWNER_FULL_NAME = 0x17;
    OWNER_ID = 0x18;
    QUORUM_ACKED_LSN = 0x1A;
    REQUEST_VALIDATION_FAILURE = 0x1B;
    SUBSTATUS = 0x1C;
    INDEX_TRANSFORMATION_PROGRESS = 0x1D;
    CURRENT_WRITE_QUORUM = 0x1E;
    CURRENT_REPLICA_SET_SIZE = 0x1F;
    PARTITION_KEY_RANGE_ID = 0x21;
    LOG_RESULTS = 0x25;
    QUERY_METRICS = 0x28;
    GLOBAL_COMMITTED_LSN = 0x29;
    OFFER_REPLACE_PENDING = 0x31;
    ITEM_LSN = 0x32;
    TRANSPORT_REQUEST_ID = 0x35;
    DISABLE_RNTBD_CHANNEL = 0x38;
    SERVER_DATE_TIME = 0x39;
    LOCAL_LSN = 0x3A;
    QUORUM_ACKED_LOCAL_LSN = 0x3B;
    ITEM_LOCAL_LSN = 0x3C;
    SESSION_TOKEN = 0x3E;
    MINIMUM_RUS = 0x42;
    INDEX_UTILIZATION = 0x44;
    QUERY_EXECUTION_INFO = 0x45;
    BACKEND_REQUEST_DURATION = 0x51;
    REQUIRES_DISTRIBUTION = 0x66;
    QUERY_ADVICE = 0x75;
}

/// The tokens that have the position of the range.
pub(super) const LSNS: [u16; 5] =
    [LSN, LOCAL_LSN, QUORUM_ACKED_LSN, QUORUM_ACKED_LOCAL_LSN, GLOBAL_COMMITTED_LSN];

/// How a token has the value of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Number,
    /// Whether the text is `True`.
    Boolean,
}

/// The token of a header that a handler or an error adds; `None` for those of the account, which has
/// no replicas.
pub(super) fn of(header: ReplyHeader) -> Option<(u16, Form)> {
    Some(match header {
        ReplyHeader::Continuation => (CONTINUATION, Form::Text),
        ReplyHeader::Etag => (ETAG, Form::Text),
        ReplyHeader::ExecutionInfo => (QUERY_EXECUTION_INFO, Form::Text),
        ReplyHeader::IndexTransformationProgress => (INDEX_TRANSFORMATION_PROGRESS, Form::Number),
        ReplyHeader::IndexUtilization => (INDEX_UTILIZATION, Form::Text),
        ReplyHeader::ItemCount => (ITEM_COUNT, Form::Number),
        ReplyHeader::MediaStorageUsage | ReplyHeader::MediaStorageUsageMax => return None,
        ReplyHeader::MinThroughput => (MINIMUM_RUS, Form::Number),
        ReplyHeader::OfferReplacePending => (OFFER_REPLACE_PENDING, Form::Boolean),
        ReplyHeader::QueryAdvice => (QUERY_ADVICE, Form::Text),
        ReplyHeader::QueryMetrics => (QUERY_METRICS, Form::Text),
        ReplyHeader::RequiresDistribution => (REQUIRES_DISTRIBUTION, Form::Boolean),
        ReplyHeader::ResourceQuota => (RESOURCE_QUOTA, Form::Text),
        ReplyHeader::ResourceUsage => (RESOURCE_USAGE, Form::Text),
        ReplyHeader::RetryAfterMs => (RETRY_AFTER_MS, Form::Number),
        ReplyHeader::ScriptLog => (LOG_RESULTS, Form::Text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_in_order() {
        assert!(ALL.is_sorted_by(|a, b| a < b));
    }
}
