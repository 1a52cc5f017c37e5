//! Responses of the admin API: JSON, also for errors.

use std::time::Duration;

use api_nosql::ManagementError;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use hyper::{Response, StatusCode};
use model::ErrorKind;
use serde::Serialize;
use serde_json::{Value, json};

use super::types::QueryErrorInfo;

/// How long a throttled request must wait; the data APIs use the same header.
pub(crate) const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("x-ms-retry-after-ms");

/// A reply that becomes a response.
#[derive(Debug)]
pub(super) struct Reply {
    status: StatusCode,
    media_type: HeaderValue,
    body: Bytes,
    location: Option<String>,
    allow: Option<&'static str>,
    retry_after: Option<Duration>,
}

/// A request that is not carried out, and why.
#[derive(Debug)]
pub(super) struct AdminError {
    status: StatusCode,
    code: &'static str,
    message: String,
    detail: ErrorDetail,
}

/// The detail of an error beside its message.
#[derive(Debug)]
enum ErrorDetail {
    Nothing,
    /// The existing names or paths.
    Names(Vec<String>),
    /// The allowed methods.
    Methods(&'static str),
    /// The time after which a retry may succeed.
    RetryAfter(Duration),
    /// The mistake in the query.
    QueryError(Box<QueryErrorInfo>),
}

impl Reply {
    /// 200 with a body.
    pub(super) fn ok(body: &impl Serialize) -> Self {
        Self::json(StatusCode::OK, body)
    }

    /// 200 with text of some type.
    pub(super) fn text(media_type: &'static str, text: String) -> Self {
        Self {
            status: StatusCode::OK,
            media_type: HeaderValue::from_static(media_type),
            body: text.into(),
            location: None,
            allow: None,
            retry_after: None,
        }
    }

    /// 201; `location` is the address of the new resource.
    pub(super) fn created(body: &impl Serialize, location: String) -> Self {
        Self { location: Some(location), ..Self::json(StatusCode::CREATED, body) }
    }

    /// 202 for a job that was started; `location` is its address.
    pub(super) fn accepted(body: &impl Serialize, location: String) -> Self {
        Self { location: Some(location), ..Self::json(StatusCode::ACCEPTED, body) }
    }

    fn json(status: StatusCode, body: &impl Serialize) -> Self {
        match serde_json::to_vec(body) {
            Ok(text) => Self {
                status,
                media_type: HeaderValue::from_static("application/json"),
                body: text.into(),
                location: None,
                allow: None,
                retry_after: None,
            },
            Err(error) => {
                tracing::error!(%error, "an admin reply can't be written");
                AdminError::internal().into_reply()
            }
        }
    }

    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::from(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, self.media_type);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(location) = self.location.and_then(|text| HeaderValue::try_from(text).ok()) {
            headers.insert(LOCATION, location);
        }
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if let Some(wait) = self.retry_after {
            let whole = |wait: u128| HeaderValue::from(u64::try_from(wait).unwrap_or(u64::MAX));
            headers.insert(RETRY_AFTER_MS, whole(wait.as_nanos().div_ceil(1_000_000).max(1)));
            // In seconds, for clients that know no finer header.
            headers.insert(RETRY_AFTER, whole(wait.as_nanos().div_ceil(1_000_000_000).max(1)));
        }
        response
    }
}

impl AdminError {
    fn new(status: StatusCode, code: &'static str, message: String) -> Self {
        Self { status, code, message, detail: ErrorDetail::Nothing }
    }

    pub(super) fn status(&self) -> u16 {
        self.status.as_u16()
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message.into())
    }

    pub(super) fn unauthorized(message: String) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
    }

    pub(super) fn forbidden(message: String) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", message.into())
    }

    pub(super) fn conflict(message: String) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", message)
    }

    pub(super) fn too_large(bytes_max: usize) -> Self {
        let message = format!("The body is larger than {bytes_max} bytes.");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    pub(super) fn timeout() -> Self {
        let message = "The body was not received in time.".to_owned();
        Self::new(StatusCode::REQUEST_TIMEOUT, "RequestTimeout", message)
    }

    pub(super) fn internal() -> Self {
        let message = "An internal error occurred; the server's log has the details.".to_owned();
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", message)
    }

    pub(super) fn method_not_allowed(allow: &'static str) -> Self {
        let message = format!("This path takes {allow}.");
        let error = Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message);
        Self { detail: ErrorDetail::Methods(allow), ..error }
    }

    /// Adds a list of valid alternatives.
    pub(super) fn with_help(mut self, help: impl IntoIterator<Item = String>) -> Self {
        self.detail = ErrorDetail::Names(help.into_iter().collect());
        self
    }

    /// Adds the time to wait before a retry.
    pub(super) fn with_retry_after(self, retry_after: Option<Duration>) -> Self {
        match retry_after {
            Some(wait) => Self { detail: ErrorDetail::RetryAfter(wait), ..self },
            None => self,
        }
    }

    /// Adds the position of the mistake in the query.
    pub(super) fn with_query_error(self, query_error: Option<Box<QueryErrorInfo>>) -> Self {
        match query_error {
            Some(query_error) => Self { detail: ErrorDetail::QueryError(query_error), ..self },
            None => self,
        }
    }

    pub(super) fn into_reply(self) -> Reply {
        let mut body = json!({"code": self.code, "message": self.message});
        let (mut allow, mut retry_after) = (None, None);
        match self.detail {
            ErrorDetail::Nothing => {}
            ErrorDetail::Names(names) => body["help"] = Value::from(names),
            ErrorDetail::Methods(methods) => allow = Some(methods),
            ErrorDetail::RetryAfter(wait) => retry_after = Some(wait),
            ErrorDetail::QueryError(query_error) => body["query"] = json!(query_error),
        }
        Reply { allow, retry_after, ..Reply::json(self.status, &body) }
    }
}

impl AdminError {
    /// An error of some kind, with a text for people.
    pub(super) fn of_kind(kind: ErrorKind, message: String) -> Self {
        let (status, code) = match kind {
            ErrorKind::NotFound | ErrorKind::OwnerNotFound | ErrorKind::RangeGone => {
                (StatusCode::NOT_FOUND, "NotFound")
            }
            ErrorKind::AlreadyExists
            | ErrorKind::UniqueKeyViolation
            | ErrorKind::Locked
            | ErrorKind::Conflict
            | ErrorKind::RangeMoving => (StatusCode::CONFLICT, "Conflict"),
            ErrorKind::PreconditionFailed
            | ErrorKind::PatchConditionFailed
            | ErrorKind::NotModified
            | ErrorKind::BadRequest
            | ErrorKind::PartitionKeyMismatch
            | ErrorKind::ContainerRecreated
            | ErrorKind::Syntax
            | ErrorKind::QueryNotServable
            | ErrorKind::NonFiniteNumber
            | ErrorKind::PartitionKeyFull
            | ErrorKind::SessionNotAvailable
            | ErrorKind::FailedDependency
            | ErrorKind::ScriptFailed
            | ErrorKind::NotSupported => (StatusCode::BAD_REQUEST, "BadRequest"),
            ErrorKind::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            ErrorKind::Forbidden => (StatusCode::FORBIDDEN, "Forbidden"),
            ErrorKind::TooLarge | ErrorKind::AnswerTooLarge => {
                (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge")
            }
            ErrorKind::Throttled => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
            ErrorKind::Timeout => (StatusCode::REQUEST_TIMEOUT, "RequestTimeout"),
            ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            ErrorKind::Internal => {
                tracing::error!(error = %message, "an admin request failed");
                return Self::internal();
            }
        };
        Self::new(status, code, message)
    }
}

impl From<engine::Error> for AdminError {
    fn from(error: engine::Error) -> Self {
        let message = if matches!(error, engine::Error::RangeGone) {
            "The partition does not exist; it may have been split or merged.".to_owned()
        } else {
            error.to_string()
        };
        Self::of_kind(error.kind(), message).with_retry_after(error.retry_after())
    }
}

impl From<ManagementError> for AdminError {
    fn from(refused: ManagementError) -> Self {
        let ManagementError { kind, message, retry_after } = refused;
        Self::of_kind(kind, message).with_retry_after(retry_after)
    }
}
