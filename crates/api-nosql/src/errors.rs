//! From kinds of errors to the protocol's status, sub-status, code name and text.

use std::borrow::Cow;
use std::time::Duration;

use engine::Etag;
use model::ErrorKind;

/// How a kind of error is spelled on this wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wire {
    /// HTTP status.
    pub status: u16,
    /// `x-ms-substatus`; 0 = absent.
    pub substatus: u32,
    /// `code` of the body.
    pub code: &'static str,
}

const fn wire(status: u16, substatus: u32, code: &'static str) -> Wire {
    Wire { status, substatus, code }
}

/// The one table of this front end.
pub(crate) const fn wire_of(kind: ErrorKind) -> Wire {
    match kind {
        ErrorKind::NotFound => wire(404, 0, "NotFound"),
        ErrorKind::OwnerNotFound => wire(404, 1003, "NotFound"),
        ErrorKind::AlreadyExists => wire(409, 0, "Conflict"),
        ErrorKind::UniqueKeyViolation => wire(409, 3301, "Conflict"),
        ErrorKind::PreconditionFailed => wire(412, 0, "PreconditionFailed"),
        ErrorKind::PatchConditionFailed => wire(412, 1110, "PreconditionFailed"),
        ErrorKind::NotModified => wire(304, 0, "NotModified"),
        ErrorKind::BadRequest => wire(400, 0, "BadRequest"),
        ErrorKind::PartitionKeyMismatch => wire(400, 1001, "BadRequest"),
        ErrorKind::ContainerRecreated => wire(400, 1024, "BadRequest"),
        ErrorKind::Syntax => wire(400, 0, "BadRequest"),
        ErrorKind::QueryNotServable => wire(400, 1004, "BadRequest"),
        ErrorKind::Unauthorized => wire(401, 0, "Unauthorized"),
        ErrorKind::Forbidden => wire(403, 0, "Forbidden"),
        ErrorKind::PartitionKeyFull => wire(403, 1014, "Forbidden"),
        ErrorKind::TooLarge => wire(413, 0, "RequestEntityTooLarge"),
        ErrorKind::Throttled => wire(429, 3200, "429"),
        ErrorKind::RangeGone => wire(410, 1002, "Gone"),
        ErrorKind::RangeMoving => wire(410, 1007, "Gone"),
        ErrorKind::SessionNotAvailable => wire(404, 1002, "NotFound"),
        ErrorKind::FailedDependency => wire(424, 0, "FailedDependency"),
        ErrorKind::Locked => wire(423, 0, "Locked"),
        ErrorKind::Conflict => wire(449, 0, "RetryWith"),
        ErrorKind::Timeout => wire(408, 0, "RequestTimeout"),
        ErrorKind::ScriptFailed => wire(400, 0, "BadRequest"),
        ErrorKind::NotSupported => wire(400, 0, "BadRequest"),
        ErrorKind::Unavailable => wire(503, 0, "ServiceUnavailable"),
        ErrorKind::Internal => wire(500, 0, "InternalServerError"),
    }
}

/// An error on its way out. `Result<_, ApiError>` is what every handler returns.
#[derive(Debug)]
pub(crate) struct ApiError {
    kind: ErrorKind,
    wire: Wire,
    message: Cow<'static, str>,
    extra: Option<Box<Extra>>,
}

/// What only some errors carry.
#[derive(Debug, Default)]
struct Extra {
    etag: Option<Etag>,
    retry_after: Option<Duration>,
    additional_info: Option<String>,
}

impl ApiError {
    /// An error of `kind` with a text for people.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, wire: wire_of(kind), message: message.into(), extra: None }
    }

    /// 400 with a text.
    pub(crate) fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::BadRequest, message)
    }

    /// 400 saying that the protocol has `what` but this server does not.
    pub(crate) fn not_supported(what: &str) -> Self {
        Self::new(ErrorKind::NotSupported, format!("This server does not support {what} yet."))
    }

    /// 405.
    pub(crate) fn method_not_allowed() -> Self {
        Self {
            wire: wire(405, 0, "MethodNotAllowed"),
            ..Self::bad_request("The requested verb is not supported.")
        }
    }

    /// With another sub-status than the kind's own.
    pub(crate) fn with_substatus(mut self, substatus: u32) -> Self {
        self.wire.substatus = substatus;
        self
    }

    /// With `additionalErrorInfo` in the body: the query plan of a 400/1004.
    pub(crate) fn with_additional_info(mut self, info: String) -> Self {
        self.extra_mut().additional_info = Some(info);
        self
    }

    /// What kind it is.
    pub(crate) fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// HTTP status.
    pub(crate) fn status(&self) -> u16 {
        self.wire.status
    }

    /// Sub-status; 0 = none.
    pub(crate) fn substatus(&self) -> u32 {
        self.wire.substatus
    }

    /// `code` of the body.
    pub(crate) fn code(&self) -> &'static str {
        self.wire.code
    }

    /// The text for people.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// When a throttled request may come again.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.extra.as_ref()?.retry_after
    }

    /// The version a 304 is about.
    pub(crate) fn etag(&self) -> Option<Etag> {
        self.extra.as_ref()?.etag
    }

    /// Third member of the body.
    pub(crate) fn additional_info(&self) -> Option<&str> {
        self.extra.as_ref()?.additional_info.as_deref()
    }

    fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }
}

impl From<engine::Error> for ApiError {
    fn from(error: engine::Error) -> Self {
        let kind = error.kind();
        let mut out = ApiError::new(kind, error.to_string());
        if let engine::Error::NotModified { etag } = error {
            out.extra_mut().etag = Some(etag);
        } else if let engine::Error::Throttled { retry_after } = error {
            out.extra_mut().retry_after = Some(retry_after);
        }
        out
    }
}
