//! Maps errors to the service's status, code and message.

use std::borrow::Cow;
use std::time::Duration;

use engine::InvalidRequest;
use front_http::BodyError;
use hyper::StatusCode;
use lang::{SyntaxError, SyntaxErrorKind};
use model::ErrorKind;

use crate::Flavour;
use crate::edm::EntityError;

/// An error that becomes a response. `Result<_, TableError>` is what every handler returns.
#[derive(Debug)]
pub(crate) struct TableError {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: Cow<'static, str>,
    pub(crate) extra: Option<Box<Extra>>,
}

/// Fields that only some errors have.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// When the client may retry.
    pub(crate) retry_after: Option<Duration>,
    /// The authority that issues tokens, for the client.
    pub(crate) challenge: Option<String>,
    /// For the log, not for the client.
    pub(crate) detail: Option<String>,
}

/// Which part of a signature does not match the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    Permission,
    Service,
    ResourceType,
    Protocol,
    SourceIp,
}

/// The code for callers whose rights do not suffice.
const PERMISSION_MISMATCH: &str = "AuthorizationPermissionMismatch";

impl TableError {
    pub(crate) fn new(
        status: u16,
        code: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code,
            message: message.into(),
            extra: None,
        }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.extra.as_ref()?.retry_after
    }

    /// The code as clients of a flavour know it.
    pub(crate) fn code_in(&self, flavour: Flavour) -> &'static str {
        match flavour {
            Flavour::Cosmos if self.code == PERMISSION_MISMATCH => "Forbidden",
            Flavour::Cosmos | Flavour::Storage => self.code,
        }
    }

    fn with(self, change: impl FnOnce(&mut Extra)) -> Self {
        let mut extra = self.extra.unwrap_or_default();
        change(&mut extra);
        Self { extra: Some(extra), ..self }
    }

    /// Adds the time after which the client may retry.
    pub(crate) fn after(self, retry_after: Duration) -> Self {
        self.with(|extra| extra.retry_after = Some(retry_after))
    }

    /// Makes it a 401 that tells the client where to get a token.
    pub(crate) fn challenged(self, challenge: String) -> Self {
        let error = self.with(|extra| extra.challenge = Some(challenge));
        Self { status: StatusCode::UNAUTHORIZED, ..error }
    }

    /// Adds a detail for the log.
    pub(crate) fn detailed(self, detail: impl Into<String>) -> Self {
        self.with(|extra| extra.detail = Some(detail.into()))
    }

    /// 400 with the code that most bad requests have.
    pub(crate) fn invalid_input(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, "InvalidInput", message)
    }

    /// An invalid header value.
    pub(crate) fn invalid_header() -> Self {
        Self::new(
            400,
            "InvalidHeaderValue",
            "The value for one of the HTTP headers is not in the correct format.",
        )
    }

    /// 400 without details.
    pub(crate) fn invalid_inputs() -> Self {
        Self::invalid_input("One of the request inputs is not valid.")
    }

    /// 400 for a body that can't be parsed.
    pub(crate) fn unprocessable() -> Self {
        Self::invalid_input("An error occurred while processing this request.")
    }

    pub(crate) fn table_not_found() -> Self {
        Self::new(404, "TableNotFound", "The table specified does not exist.")
    }

    pub(crate) fn resource_not_found() -> Self {
        Self::new(404, "ResourceNotFound", "The specified resource does not exist.")
    }

    pub(crate) fn table_exists() -> Self {
        Self::new(409, "TableAlreadyExists", "The table specified already exists.")
    }

    pub(crate) fn entity_exists() -> Self {
        Self::new(409, "EntityAlreadyExists", "The specified entity already exists.")
    }

    pub(crate) fn condition_not_met() -> Self {
        Self::new(
            412,
            "UpdateConditionNotSatisfied",
            "The update condition specified in the request was not satisfied.",
        )
    }

    pub(crate) fn not_implemented() -> Self {
        Self::new(
            501,
            "NotImplemented",
            "The requested operation is not implemented on the specified resource.",
        )
    }

    pub(crate) fn invalid_query_parameter() -> Self {
        Self::new(
            400,
            "InvalidQueryParameterValue",
            "Value for one of the query parameters specified in the request URI is invalid.",
        )
    }

    pub(crate) fn invalid_uri() -> Self {
        Self::new(
            400,
            "InvalidUri",
            "The requested URI does not represent any resource on the server.",
        )
    }

    pub(crate) fn invalid_xml() -> Self {
        Self::new(400, "InvalidXmlDocument", "XML specified is not syntactically valid.")
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(405, "UnsupportedHttpVerb", "The resource doesn't support specified Http Verb.")
    }

    pub(crate) fn media_type_not_supported() -> Self {
        Self::new(415, "MediaTypeNotSupported", "None of the provided media types are supported")
    }

    pub(crate) fn atom_not_supported() -> Self {
        Self::new(415, "AtomFormatNotSupported", "Atom format is not supported.")
    }

    pub(crate) fn body_too_large() -> Self {
        Self::new(
            413,
            "RequestBodyTooLarge",
            "The request body is too large and exceeds the maximum permissible limit.",
        )
    }

    pub(crate) fn head_too_large() -> Self {
        Self::new(
            431,
            "RequestHeadersTooLarge",
            "The request's line and headers together are too large.",
        )
    }

    pub(crate) fn not_authenticated() -> Self {
        Self::new(
            403,
            "AuthenticationFailed",
            "Server failed to authenticate the request. Make sure the value of the Authorization \
             header is formed correctly including the signature.",
        )
    }

    /// The same error, with advice on the cause.
    pub(crate) fn not_authenticated_since(why: &str) -> Self {
        let error = Self::not_authenticated();
        Self { message: format!("{} {why}", error.message).into(), ..error }
    }

    pub(crate) fn invalid_authentication() -> Self {
        Self::new(
            400,
            "InvalidAuthenticationInfo",
            "Authentication information is not given in the correct format. Check the value of \
             Authorization header.",
        )
    }

    /// 403 for a caller with other rights, by the part that does not match.
    pub(crate) fn not_authorized(mismatch: Mismatch) -> Self {
        let (code, what) = match mismatch {
            Mismatch::Permission => (PERMISSION_MISMATCH, "permission"),
            Mismatch::Service => ("AuthorizationServiceMismatch", "service"),
            Mismatch::ResourceType => ("AuthorizationResourceTypeMismatch", "resource type"),
            Mismatch::Protocol => ("AuthorizationProtocolMismatch", "protocol"),
            Mismatch::SourceIp => ("AuthorizationSourceIPMismatch", "source IP"),
        };
        Self::new(
            403,
            code,
            format!("This request is not authorized to perform this operation using this {what}."),
        )
    }

    pub(crate) fn out_of_key_range() -> Self {
        Self::new(
            403,
            "AuthorizationFailure",
            "This request is not authorized to perform this operation.",
        )
    }

    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        Self::new(
            500,
            "InternalError",
            "The server encountered an internal error. Please retry the request.",
        )
        .detailed(detail)
    }

    /// Whether the request was refused because of its sender.
    pub(crate) fn is_denial(&self) -> bool {
        matches!(self.status, StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED)
    }

    /// Maps a refused change of an entity.
    pub(crate) fn of_entity(error: engine::Error, flavour: Flavour) -> Self {
        let kind = error.kind();
        if kind == ErrorKind::OwnerNotFound {
            return Self::table_not_found();
        }
        if kind == ErrorKind::AlreadyExists {
            return Self::entity_exists();
        }
        Self::of_engine(error, flavour)
    }

    /// Maps a refused change of a table.
    pub(crate) fn of_table(error: engine::Error, flavour: Flavour) -> Self {
        match error.kind() == ErrorKind::AlreadyExists {
            true => Self::table_exists(),
            false => Self::of_engine(error, flavour),
        }
    }

    /// The error table of this front end.
    fn of_engine(error: engine::Error, flavour: Flavour) -> Self {
        if let engine::Error::Throttled { retry_after } = error {
            return Self::throttled(retry_after, flavour);
        }
        if let engine::Error::Unfit(rule) = error {
            return crate::stored::table_error_of(rule).into();
        }
        if matches!(error, engine::Error::DiskAlmostFull { .. }) {
            // The disk monitor logs it once, not for each request.
            return Self::new(503, "ServerBusy", format!("The server is busy: {error}."));
        }
        if let engine::Error::InvalidRequest(invalid) = &error {
            return Self::of_invalid_request(invalid);
        }
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::OwnerNotFound => Self::resource_not_found(),
            ErrorKind::AlreadyExists | ErrorKind::UniqueKeyViolation => {
                Self::new(409, "Conflict", "The specified resource conflicts with one that exists.")
            }
            ErrorKind::PreconditionFailed
            | ErrorKind::PatchConditionFailed
            | ErrorKind::NotModified => Self::condition_not_met(),
            ErrorKind::BadRequest
            | ErrorKind::PartitionKeyMismatch
            | ErrorKind::ContainerRecreated
            | ErrorKind::Syntax
            | ErrorKind::QueryNotServable
            | ErrorKind::NonFiniteNumber
            | ErrorKind::ScriptFailed => Self::invalid_input(error.to_string()),
            ErrorKind::Unauthorized | ErrorKind::Forbidden => Self::out_of_key_range(),
            ErrorKind::PartitionKeyFull => {
                Self::new(403, "AccountLimitExceeded", error.to_string())
            }
            ErrorKind::TooLarge => EntityError::EntityTooLarge.into(),
            // Handled above, with its retry delay.
            ErrorKind::Throttled => Self::throttled(Duration::from_millis(1), flavour),
            ErrorKind::RangeGone
            | ErrorKind::RangeMoving
            | ErrorKind::SessionNotAvailable
            | ErrorKind::Locked
            | ErrorKind::Conflict
            | ErrorKind::Unavailable => {
                Self::new(503, "ServerBusy", "The server is busy.").detailed(error.to_string())
            }
            ErrorKind::Timeout => {
                Self::new(500, "OperationTimedOut", "The operation could not be completed in time.")
            }
            ErrorKind::NotSupported => Self::not_implemented(),
            ErrorKind::FailedDependency | ErrorKind::AnswerTooLarge | ErrorKind::Internal => {
                Self::internal(error.to_string())
            }
        }
    }

    fn of_invalid_request(invalid: &InvalidRequest) -> Self {
        use InvalidRequest as I;
        match invalid {
            I::CatalogFull { count_max } => Self::invalid_input(format!(
                "This server holds at most {count_max} databases and containers."
            )),
            I::Id { shown, reason, too_long } => Self::invalid_input(format!(
                "The input name '{shown}' is invalid: {reason}. Ensure to provide a unique \
                 non-empty string less than '{too_long}' characters."
            )),
            I::PartitionKey(error) => {
                Self::invalid_input(format!("The partition key is invalid: {error}."))
            }
            I::TimeToLive { value } => Self::invalid_input(format!(
                "The input ttl '{value}' is invalid. Ensure to provide a nonzero positive integer \
                 less than or equal to '{}', or '-1' which means never expire.",
                i32::MAX
            )),
            // No operation of this API fails for these reasons.
            I::OpaqueResourcesFull { .. }
            | I::ItemText(_)
            | I::Document(_)
            | I::ItemNotObject
            | I::IdMissing
            | I::IdNotString
            | I::PartitionKeyMissing
            | I::PatchCondition(_)
            | I::Patch(_)
            | I::PatchMovesItem
            | I::Continuation
            | I::OldContinuation
            | I::FeedContinuation
            | I::FeedContinuationTooLong
            | I::VersionsNotKept
            | I::VersionsStart(_)
            | I::VersionsRemoved => Self::invalid_inputs(),
        }
    }

    fn throttled(retry_after: Duration, flavour: Flavour) -> Self {
        let error = match flavour {
            Flavour::Storage => Self::new(503, "ServerBusy", "The server is busy."),
            Flavour::Cosmos => Self::new(
                429,
                "TooManyRequests",
                "The request rate is too large. Please retry after sometime.",
            ),
        };
        error.after(retry_after)
    }
}

impl From<EntityError> for TableError {
    fn from(refusal: EntityError) -> Self {
        Self::new(400, refusal.code(), refusal.message())
    }
}

impl From<BodyError> for TableError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::body_too_large(),
            BodyError::TooSlow => {
                Self::new(408, "RequestTimeout", "The request body did not arrive in time.")
            }
            BodyError::Broken => Self::invalid_input("The request body could not be read."),
        }
    }
}

impl From<SyntaxError> for TableError {
    fn from(error: SyntaxError) -> Self {
        match error.kind {
            SyntaxErrorKind::NotSupported => Self::not_implemented(),
            SyntaxErrorKind::Syntax | SyntaxErrorKind::Binding | SyntaxErrorKind::Planning => {
                Self::invalid_input(error.message)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_almost_full_is_told_to_the_client_and_not_to_the_log() {
        let error = engine::Error::DiskAlmostFull { free_bytes: 5 << 20, floor_bytes: 96 << 20 };
        let error = TableError::of_entity(error, Flavour::Storage);
        assert_eq!((error.status.as_u16(), error.code), (503, "ServerBusy"));
        assert!(error.message.contains("5 MB are free, writes need 96 MB"), "{}", error.message);
        assert!(error.extra.is_none());
    }
}
