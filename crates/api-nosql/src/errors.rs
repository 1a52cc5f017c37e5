//! Maps kinds of errors to the protocol's status, sub-status, code name and text.
//!
//! `wire_of` is the whole table of this front end; a golden file holds a copy of it. Texts keep the
//! fragments that client test suites look for.

use std::borrow::Cow;
use std::time::Duration;

use account::TokenError;
use bytes::Bytes;
use engine::Etag;
use engine::catalog::{OfferBounds, OfferRefused};
use front_http::BodyError;
use lang::{SyntaxError, SyntaxErrorKind};
use model::{ErrorKind, json};
use script::{ScriptError, ScriptFailure};

use crate::faults::InjectedAnswer;
use crate::reply::{Reply, ReplyHeader, Status};

/// How a kind of error appears on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wire {
    /// HTTP status.
    status: u16,
    /// `x-ms-substatus`; 0 = absent.
    substatus: u32,
    /// `code` of the body.
    code: &'static str,
}

const fn wire(status: u16, substatus: u32, code: &'static str) -> Wire {
    Wire { status, substatus, code }
}

/// The error table of this front end.
const fn wire_of(kind: ErrorKind) -> Wire {
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
        ErrorKind::NonFiniteNumber => wire(400, 4001, "BadRequest"),
        ErrorKind::Unauthorized => wire(401, 0, "Unauthorized"),
        ErrorKind::Forbidden => wire(403, 0, "Forbidden"),
        ErrorKind::PartitionKeyFull => wire(403, 1014, "Forbidden"),
        ErrorKind::TooLarge => wire(413, 0, "RequestEntityTooLarge"),
        ErrorKind::AnswerTooLarge => wire(413, 3402, "RequestEntityTooLarge"),
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

const NOT_FOUND: &str = "Resource Not Found. Learn more: https://aka.ms/cosmosdb-tsg-not-found";
const GONE: &str = "The requested resource is no longer available at the server. Learn more: \
                    https://aka.ms/cosmosdb-tsg-gone";
/// The prefix of an error's envelope.
const ENVELOPE: &str = "Message: ";
/// Levels of the envelope: the object, its list, a text.
const ENVELOPE_DEPTH: usize = 3;
const NEEDS_PLAN: &str = "The provided cross partition query can not be directly served by the gateway. This is a first \
     chance (internal) exception that all newer clients will know how to handle gracefully. This \
     exception is traced, but unless you see it bubble up as an exception (which only happens on \
     older SDK clients), then you can safely ignore this message.";
const THROTTLED: &str = "Request rate is large. More Request Units may be needed, so no changes \
                         were made. Please retry this request later. Learn more: \
                         http://aka.ms/cosmosdb-error-429";

/// An error that becomes a response. `Result<_, ApiError>` is what every handler returns.
#[derive(Debug)]
pub(crate) struct ApiError {
    kind: ErrorKind,
    wire: Wire,
    message: Cow<'static, str>,
    extra: Option<Box<Extra>>,
}

/// Fields that only some errors have.
#[derive(Debug, Default)]
struct Extra {
    etag: Option<Etag>,
    retry_after: Option<Duration>,
    /// For the log, not for the client.
    detail: Option<String>,
    /// A machine-readable detail for the client.
    info: Option<String>,
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

    /// 400 for a body that lacks something: `names` joined with `; ` as the service does it.
    pub(crate) fn missing_properties(names: &[&str]) -> Self {
        let list: String = names.iter().flat_map(|n| [*n, "; "]).collect();
        Self::bad_request(format!(
            "The input content is invalid because the required properties - '{list}' - are missing"
        ))
    }

    /// 400 for a body of the wrong shape, with the reason.
    pub(crate) fn invalid_input(reason: impl AsRef<str>) -> Self {
        Self::bad_request(errors_text(&format!(
            "One of the specified inputs is invalid. {}",
            reason.as_ref()
        )))
    }

    /// 400 in the service's envelope of run-time errors.
    pub(crate) fn bad_request_errors(reason: impl AsRef<str>) -> Self {
        Self::bad_request(errors_text(reason.as_ref()))
    }

    /// 400 for a feature of the protocol that this server does not have.
    pub(crate) fn not_supported(what: &str) -> Self {
        Self::new(ErrorKind::NotSupported, format!("This server does not support {what} yet."))
    }

    /// 404 for a missing resource or its parent.
    pub(crate) fn missing(kind: ErrorKind) -> Self {
        debug_assert!(matches!(kind, ErrorKind::NotFound | ErrorKind::OwnerNotFound));
        Self::new(kind, NOT_FOUND)
    }

    /// 400 for a query that the client must run over all ranges itself, with the query plan.
    pub(crate) fn needs_plan(plan: String) -> Self {
        let mut error = Self::new(ErrorKind::QueryNotServable, NEEDS_PLAN);
        error.extra_mut().info = Some(plan);
        error
    }

    /// The error of a script, with the number that the script gave it.
    pub(crate) fn script(error: &ScriptError) -> Self {
        const COMPILE_SUBSTATUS: u32 = 65_535;
        let kind = ErrorKind::ScriptFailed;
        let failed = |substatus: u32, text: &str| {
            let mut out = Self::new(kind, errors_text(text));
            out.wire.substatus = substatus;
            out
        };
        match error {
            ScriptError::Compile { message } => failed(
                COMPILE_SUBSTATUS,
                &format!("Encountered exception while compiling Javascript. Exception = {message}"),
            ),
            ScriptError::Thrown { number, text, stack } => {
                let substatus = number.and_then(|n| u32::try_from(n).ok()).unwrap_or_default();
                failed(
                    substatus,
                    &format!(
                        "Encountered exception while executing function. Exception = {text}\r\n\
                         Stack trace: {text}\n{stack}"
                    ),
                )
            }
            ScriptError::OutOfMemory => failed(
                0,
                "Encountered exception while executing function. Exception = Error: out of memory",
            ),
            ScriptError::TimedOut => Self::new(
                ErrorKind::Timeout,
                errors_text(
                    "The requested operation exceeded maximum alloted time: the script \
                     did not come to its end.",
                ),
            ),
        }
    }

    /// 413.
    pub(crate) fn too_large() -> Self {
        Self::new(ErrorKind::TooLarge, errors_text("Request size is too large"))
    }

    /// 431.
    pub(crate) fn head_too_large() -> Self {
        Self {
            wire: wire(431, 0, "RequestHeaderFieldsTooLarge"),
            ..Self::bad_request("The request's line and headers together are too large.")
        }
    }

    /// 410 for a client that has another container under the name that it sends: it reads the
    /// container again.
    pub(crate) fn stale_name() -> Self {
        let message = "The container was created again under its name. Read it again and retry.";
        Self { wire: wire(410, 1000, "Gone"), ..Self::new(ErrorKind::RangeGone, message) }
    }

    /// 410 for a client that uses an address which was never given: it asks for addresses again.
    pub(crate) fn stale_address() -> Self {
        let message = "The request came to an address that no range has. Read the addresses again \
                       and retry.";
        Self { wire: wire(410, 0, "Gone"), ..Self::new(ErrorKind::RangeGone, message) }
    }

    /// 405.
    pub(crate) fn method_not_allowed() -> Self {
        Self {
            wire: wire(405, 0, "MethodNotAllowed"),
            ..Self::bad_request("The requested verb is not supported on this resource.")
        }
    }

    /// 403 for a principal of the directory without the role that the request needs.
    pub(crate) fn rbac_denied(message: String) -> Self {
        Self { wire: wire(403, 5300, "Forbidden"), ..Self::new(ErrorKind::Forbidden, message) }
    }

    /// 401 for a key, when only tokens of the directory are accepted.
    pub(crate) fn local_auth_disabled() -> Self {
        let message =
            "Local Authorization is disabled. Use an AAD token to authorize all requests.";
        Self {
            wire: wire(401, 5202, "Unauthorized"),
            ..Self::new(ErrorKind::Unauthorized, message)
        }
    }

    /// The response of an injected fault.
    pub(crate) fn injected(answer: &InjectedAnswer) -> Self {
        let code = match answer.status {
            410 => "Gone",
            429 => "429",
            503 => "ServiceUnavailable",
            _ => "InjectedFault",
        };
        let message = "This fault was injected through the admin API.";
        let mut out = Self {
            wire: wire(answer.status, answer.substatus, code),
            ..Self::bad_request(message)
        };
        if answer.retry_after.is_some() {
            out.extra_mut().retry_after = answer.retry_after;
        }
        out
    }

    /// 500 without any detail.
    pub(crate) fn internal() -> Self {
        Self::new(
            ErrorKind::Internal,
            "An internal error occurred. The server's log has the details under the activity id.",
        )
    }

    /// HTTP status.
    pub(crate) fn status(&self) -> u16 {
        self.wire.status
    }

    /// Sub-status; 0 = none.
    pub(crate) fn substatus(&self) -> u32 {
        self.wire.substatus
    }

    /// The kind of error.
    pub(crate) fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message for people.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The message without the envelope that SDKs expect around some messages.
    pub(crate) fn plain_message(&self) -> String {
        let reason = || {
            let envelope = self.message.strip_prefix(ENVELOPE)?;
            let envelope = json::parse(envelope.as_bytes(), ENVELOPE_DEPTH).ok()?.value;
            let [reason] = envelope.field("Errors")?.as_array()? else { return None };
            reason.as_str().map(str::to_owned)
        };
        reason().unwrap_or_else(|| self.message.clone().into_owned())
    }

    /// The version of the item that the client has already.
    pub(crate) fn etag(&self) -> Option<Etag> {
        self.extra.as_ref()?.etag
    }

    /// How long the client must wait before it retries, if it is throttled.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.extra.as_ref()?.retry_after
    }

    /// The retry delay in whole milliseconds, at least one.
    pub(crate) fn retry_after_ms(&self) -> Option<u64> {
        let wait = self.retry_after()?;
        Some(u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1))
    }

    /// Whether a read was refused because the client is ahead of its range.
    pub(crate) fn is_ahead_of_session(&self) -> bool {
        matches!(self.kind, ErrorKind::SessionNotAvailable)
    }

    /// Whether the range takes no requests until a split or merge takes its next step.
    pub(crate) fn is_range_moving(&self) -> bool {
        matches!(self.kind, ErrorKind::RangeMoving)
    }

    /// Whether the request was refused because of its sender.
    pub(crate) fn is_denial(&self) -> bool {
        matches!(self.wire.status, 401 | 403)
    }

    /// Whether the server is at fault, so that the error is logged.
    pub(crate) fn is_ours(&self) -> bool {
        let is_unavailable = matches!(self.kind, ErrorKind::Unavailable);
        matches!(self.kind, ErrorKind::Internal) || (is_unavailable && !self.detail().is_empty())
    }

    /// Details for the log besides the message.
    pub(crate) fn detail(&self) -> &str {
        self.extra.as_ref().and_then(|e| e.detail.as_deref()).unwrap_or_default()
    }

    /// The response: the protocol's error body, and the headers that belong to the error.
    pub(crate) fn into_reply(self, activity: &str) -> Reply {
        let status = Status(self.wire.status);
        let body = match status {
            Status::NOT_MODIFIED => Bytes::new(),
            _ => self.body(activity),
        };
        let mut reply = Reply::new(status, body);
        reply.substatus = self.wire.substatus;
        if let Some(wait_ms) = self.retry_after_ms() {
            reply = reply.number(ReplyHeader::RetryAfterMs, wait_ms);
        }
        match self.extra.and_then(|e| e.etag) {
            Some(etag) => reply.etag(etag.to_string()),
            None => reply,
        }
    }

    /// The error as the result of an operation shows it.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut out = self.opened(&self.message);
        out.push(b'}');
        out
    }

    /// The beginning of a body: code and message.
    fn opened(&self, message: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(128 + message.len());
        out.extend_from_slice(b"{\"code\":");
        json::write_str(self.wire.code, &mut out);
        out.extend_from_slice(b",\"message\":");
        json::write_str(message, &mut out);
        out
    }

    fn body(&self, activity: &str) -> Bytes {
        let mut out = self.opened(&format!("{}\r\nActivityId: {activity}", self.message));
        if let Some(info) = self.extra.as_ref().and_then(|extra| extra.info.as_deref()) {
            out.extend_from_slice(b",\"additionalErrorInfo\":");
            json::write_str(info, &mut out);
        }
        out.push(b'}');
        out.into()
    }

    fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    fn with_detail(mut self, detail: String) -> Self {
        self.extra_mut().detail = Some(detail);
        self
    }
}

impl From<engine::Error> for ApiError {
    fn from(error: engine::Error) -> Self {
        use engine::Error as E;
        let kind = error.kind();
        let simple = |message: &'static str| ApiError::new(kind, message);
        match error {
            E::NotFound { .. } | E::OwnerNotFound { .. } => simple(NOT_FOUND),
            E::AlreadyExists { .. } => simple(
                "Entity with the specified id already exists in the system. Resource with \
                 specified id, name, or unique index already exists.",
            ),
            E::UniqueKeyViolation => simple(
                "Unique index constraint violation. Resource with specified id, name, or unique \
                 index already exists.",
            ),
            E::IndexViolation(violation) => ApiError::new(
                kind,
                format!("The item does not fit an index of the collection: {violation}."),
            ),
            E::PreconditionFailed => simple(
                "Operation cannot be performed because one of the specified precondition is not \
                 met. One of the specified pre-condition is not met.",
            ),
            E::PatchConditionFailed => simple(
                "One of the specified pre-condition is not met. The condition of the patch is not \
                 true of the item.",
            ),
            E::NotModified { etag } => {
                let mut out = simple("");
                out.extra_mut().etag = Some(etag);
                out
            }
            E::InvalidRequest(invalid) => ApiError::new(kind, texts::invalid_request(&invalid)),
            E::PartitionKeyMismatch(mismatch) => simple(texts::key_mismatch(mismatch)),
            E::Unfit(_) | E::UpdateRefused { .. } | E::RetryTooOld { .. } => {
                ApiError::new(kind, error.to_string())
            }
            E::ContainerRecreated => simple(
                "The intended collection rid does not match the collection found under the name. \
                 Refresh the cached collection and retry.",
            ),
            E::Evaluation(error) => ApiError::new(kind, evaluation_text(error)),
            E::QueryLimit(limit) => ApiError::new(kind, errors_text(texts::query_limit(limit))),
            E::DeadlinePassed => ApiError::new(
                kind,
                errors_text("The requested operation exceeded maximum alloted time."),
            ),
            E::PartitionKeyFull { limit_bytes } => {
                let limit = size_text(limit_bytes);
                ApiError::new(kind, format!("Partition key reached maximum size of {limit}"))
            }
            E::ContainerFull { limit_bytes } => {
                let limit = size_text(limit_bytes);
                ApiError::new(kind, format!("The container reached its maximum size of {limit}"))
            }
            E::OfferRefused(refused) => refused.into(),
            E::TooLarge { .. } => ApiError::too_large(),
            E::AnswerTooLarge => simple("Response size is too large"),
            E::TooMany { .. } => {
                let reason = format!("{error}. Delete some of them first.");
                ApiError::new(kind, errors_text(&reason))
            }
            E::Throttled { retry_after } => {
                let mut out = ApiError::new(kind, errors_text(THROTTLED));
                out.extra_mut().retry_after = Some(retry_after);
                out
            }
            E::RangeGone | E::RangeMoving => simple(GONE),
            E::NotPartitionable(message) => ApiError::new(kind, message),
            E::Busy(busy) => ApiError::new(kind, texts::busy(busy)),
            E::SessionNotAvailable => {
                simple("The read session is not available for the input session token.")
            }
            E::Overtaken => simple("The item was changed by another writer. Please retry."),
            E::FailedDependency => simple(
                "Operation was not carried out because another operation of the batch failed.",
            ),
            // The disk monitor logs it once, not for each request.
            E::DiskAlmostFull { .. } => ApiError::new(kind, error.to_string()),
            E::Storage(detail) | E::Unavailable(detail) => {
                simple("Service is currently unavailable. Please retry.").with_detail(detail)
            }
            E::Internal(detail) => ApiError::internal().with_detail(detail),
        }
    }
}

impl From<SyntaxError> for ApiError {
    fn from(error: SyntaxError) -> Self {
        Self::new(ErrorKind::Syntax, syntax_text(&error))
    }
}

impl From<Box<ScriptFailure>> for ApiError {
    fn from(failed: Box<ScriptFailure>) -> Self {
        Self::script(&failed.error)
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::too_large(),
            BodyError::TooSlow => {
                Self::new(ErrorKind::Timeout, "The request body did not arrive in time.")
            }
            BodyError::Broken => Self::bad_request("The request body could not be read."),
        }
    }
}

impl From<TokenError> for ApiError {
    fn from(refused: TokenError) -> Self {
        let error = Self::new(ErrorKind::Unauthorized, refused.to_string());
        match refused {
            TokenError::Expired => Self { wire: wire(401, 5006, "Unauthorized"), ..error },
            TokenError::Malformed
            | TokenError::Algorithm
            | TokenError::UnknownKey
            | TokenError::Signature
            | TokenError::NotYet
            | TokenError::Issuer
            | TokenError::Audience
            | TokenError::NoPrincipal => error,
        }
    }
}

impl From<OfferRefused> for ApiError {
    fn from(refused: OfferRefused) -> Self {
        ApiError::bad_request_errors(match refused {
            OfferRefused::BelowMinimum { wanted, minimum } => format!(
                "Requested throughput {wanted} is less than required minimum throughput {minimum}."
            ),
            OfferRefused::OutOfBounds(OfferBounds { minimum, maximum, step }) => format!(
                "The offer should have valid throughput values between {minimum} and {maximum} \
                 inclusive in increments of {step}."
            ),
            OfferRefused::SharedByTooMany { containers_max } => format!(
                "The number of containers that share the throughput of the database has reached \
                 the maximum of {containers_max}. Create the container with throughput of its own."
            ),
            OfferRefused::SharedWithoutKey => {
                "A container without a partition key can't share the throughput of its database. \
                 Create it with throughput of its own."
                    .to_owned()
            }
        })
    }
}

fn size_text(bytes: u64) -> String {
    match bytes >> 30 {
        0 => format!("{bytes} bytes"),
        gigabytes => format!("{gigabytes} GB"),
    }
}

/// The service's envelope of run-time errors: `Message: {"Errors":["..."]}`.
fn errors_text(reason: &str) -> String {
    let mut out = ENVELOPE.as_bytes().to_vec();
    out.extend_from_slice(b"{\"Errors\":[");
    json::write_str(reason, &mut out);
    out.extend_from_slice(b"]}");
    String::from_utf8_lossy(&out).into_owned()
}

/// The service's envelope of compiler errors. Errors that are found late have a bare number as code
/// and no position, or neither.
fn syntax_text(error: &SyntaxError) -> String {
    let place = format!("\"location\":{{\"start\":{},\"end\":{}}},", error.start, error.end);
    let (place, quote) = match error.kind {
        SyntaxErrorKind::Syntax | SyntaxErrorKind::NotSupported => (place.as_str(), "\""),
        SyntaxErrorKind::Binding => ("", ""),
        SyntaxErrorKind::Planning => return errors_text(&error.message),
    };
    compiler_text(place, &format!("{quote}{}{quote}", error.code), &error.message)
}

fn compiler_text(place: &str, code: &str, message: &str) -> String {
    let head = format!("Message: {{\"errors\":[{{\"severity\":\"Error\",{place}\"code\":{code},");
    let mut out = head.into_bytes();
    out.extend_from_slice(b"\"message\":");
    json::write_str(message, &mut out);
    out.extend_from_slice(b"}]}");
    String::from_utf8_lossy(&out).into_owned()
}

/// Errors in the evaluation of a row. A number that JSON lacks is reported in the form of a
/// compiler error.
fn evaluation_text(error: query::EvalError) -> String {
    match error {
        query::EvalError::NonFiniteNumber => compiler_text("", "4001", &error.to_string()),
        query::EvalError::BudgetExceeded
        | query::EvalError::ScalarSubqueryRows
        | query::EvalError::UserFunction
        | query::EvalError::PatternTooSlow
        | query::EvalError::Document
        | query::EvalError::MemoryExceeded => errors_text(&error.to_string()),
    }
}

pub(crate) mod texts;

#[cfg(test)]
mod tests;
