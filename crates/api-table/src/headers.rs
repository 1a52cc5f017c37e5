//! The names of the protocol's headers.

/// Header names, request and response.
pub(crate) mod name {
    use hyper::header::HeaderName;

    macro_rules! names {
        ($($constant:ident = $text:literal;)*) => {
            $(pub(crate) const $constant: HeaderName = HeaderName::from_static($text);)*
        };
    }

    names! {
        CLIENT_REQUEST_ID = "x-ms-client-request-id";
        CONTENT_MD5 = "content-md5";
        DATA_SERVICE_ID = "dataserviceid";
        ERROR_CODE = "x-ms-error-code";
        NEXT_PARTITION_KEY = "x-ms-continuation-nextpartitionkey";
        NEXT_ROW_KEY = "x-ms-continuation-nextrowkey";
        NEXT_TABLE_NAME = "x-ms-continuation-nexttablename";
        OFFER_THROUGHPUT = "x-ms-offer-throughput";
        PLAN = "x-ps-plan";
        PREFER = "prefer";
        PREFERENCE_APPLIED = "preference-applied";
        REQUEST_CHARGE = "x-ms-request-charge";
        REQUEST_ID = "x-ms-request-id";
        RETRY_AFTER_MS = "x-ms-retry-after-ms";
        SUBSTATUS = "x-ms-substatus";
        VERSION = "x-ms-version";
        XMS_DATE = "x-ms-date";
        X_HTTP_METHOD = "x-http-method";
    }
}
