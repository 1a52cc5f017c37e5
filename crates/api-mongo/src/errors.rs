//! What went wrong with a command, as its client is told.

pub(crate) mod codes;

use std::time::Duration;

use engine::error::IndexViolation;
use engine::{Error as EngineError, ResourceKind};
use model::{ErrorKind, Object, Value};
use query::document::print::PrintedObject;

use crate::document::document;
use codes as code;

/// The failure of a command, or of one statement of it.
#[derive(Clone, Debug, PartialEq)]
pub struct MongoError {
    inner: Box<Inner>,
}

#[derive(Clone, Debug, PartialEq)]
struct Inner {
    code: i32,
    message: String,
    labels: Vec<String>,
    /// Further fields, such as the keys of a duplicate.
    details: Object,
}

/// What the text about a duplicate key begins with until its collection is known.
const DUPLICATE_IN_INDEX: &str = "E11000 duplicate key error index: ";

/// The label of a failed write that may be sent again.
pub(crate) const RETRYABLE_WRITE: &str = "RetryableWriteError";
/// The labels of a command that was refused because too much is requested.
pub(crate) const OVERLOADED: [&str; 2] = ["SystemOverloadedError", "RetryableError"];

impl MongoError {
    /// An error with this number.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        let (labels, details) = (Vec::new(), Object::new());
        Self { inner: Box::new(Inner { code, message: message.into(), labels, details }) }
    }

    /// Its number.
    pub fn code(&self) -> i32 {
        self.inner.code
    }

    /// Its text.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// Adds a label, unless it is there.
    pub(crate) fn label(mut self, label: &str) -> Self {
        if !self.inner.labels.iter().any(|there| there == label) {
            self.inner.labels.push(label.to_owned());
        }
        self
    }

    /// Says in which collection a duplicate key is.
    pub(crate) fn in_collection(mut self, namespace: &str) -> Self {
        if self.inner.code == code::DUPLICATE_KEY
            && let Some(rest) = self.inner.message.strip_prefix(DUPLICATE_IN_INDEX)
        {
            self.inner.message =
                format!("E11000 duplicate key error collection: {namespace} index: {rest}");
        }
        self
    }

    /// Adds a field.
    pub(crate) fn with(mut self, name: &str, value: impl crate::document::IntoValue) -> Self {
        self.inner.details.insert(name, value.into_value());
        self
    }

    /// The reply to a command that failed with it, without times.
    pub(crate) fn to_reply(&self) -> Object {
        let Inner { code, message, labels, details } = &*self.inner;
        let mut reply = document! {
            "ok" => 0.0,
            "errmsg" => message.as_str(),
            "code" => *code,
            "codeName" => &*code::name_of(*code),
        };
        if !labels.is_empty() {
            let labels = labels.iter().map(|label| label.as_str().into()).collect::<Vec<_>>();
            reply.insert("errorLabels", labels.into());
        }
        for (name, value) in details.iter() {
            reply.insert(name, value.clone());
        }
        reply
    }

    /// Its entry among the errors of a command that writes.
    pub(crate) fn to_write_error(&self, index: usize) -> Object {
        let Inner { code, message, details, .. } = &*self.inner;
        let index = i32::try_from(index).unwrap_or(i32::MAX);
        let mut entry = document! { "index" => index, "code" => *code };
        for (name, value) in details.iter() {
            entry.insert(name, value.clone());
        }
        entry.insert("errmsg", message.as_str().into());
        entry
    }

    /// The status of HTTP that says about the same, for metrics.
    pub(crate) fn status(&self) -> u16 {
        match self.code() {
            code::INTERNAL_ERROR | code::UNKNOWN_ERROR => 500,
            code::AUTHENTICATION_FAILED => 401,
            code::UNAUTHORIZED => 403,
            code::NAMESPACE_NOT_FOUND
            | code::INDEX_NOT_FOUND
            | code::CURSOR_NOT_FOUND
            | code::USER_NOT_FOUND
            | code::COMMAND_NOT_FOUND => 404,
            code::MAX_TIME_EXPIRED | code::EXCEEDED_TIME_LIMIT => 408,
            code::NAMESPACE_EXISTS | code::WRITE_CONFLICT | code::DUPLICATE_KEY => 409,
            code::BSON_OBJECT_TOO_LARGE => 413,
            code::REQUEST_RATE_TOO_LARGE => 429,
            code::SHUTDOWN_IN_PROGRESS => 503,
            _ => 400,
        }
    }
}

impl std::fmt::Display for MongoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.message(), self.code())
    }
}

impl From<EngineError> for MongoError {
    fn from(error: EngineError) -> Self {
        if let EngineError::Throttled { retry_after } = &error {
            return throttled(*retry_after);
        }
        if let EngineError::IndexViolation(violation) = error {
            return violated(*violation);
        }
        let number = match (&error, error.kind()) {
            (EngineError::AlreadyExists { kind: ResourceKind::Item, .. }, _)
            | (EngineError::UniqueKeyViolation, _) => code::DUPLICATE_KEY,
            (EngineError::DeadlinePassed, _) => code::MAX_TIME_EXPIRED,
            (_, kind) => code_of(kind),
        };
        Self::new(number, error.to_string())
    }
}

/// The failure that an index can't have a document.
fn violated(violation: IndexViolation) -> MongoError {
    match violation {
        IndexViolation::NoKeys { failure, .. } => MongoError::new(failure.code, failure.message),
        IndexViolation::Duplicate(duplicate) => {
            let (mut pattern, mut values) = (Object::new(), Object::new());
            for (path, value) in duplicate.values {
                pattern.insert(path.clone(), Value::Int32(1));
                values.insert(path, value);
            }
            let (index, printed) = (duplicate.index, PrintedObject(&values).to_string());
            let message = format!("E11000 duplicate key error index: {index} dup key: {printed}");
            MongoError::new(code::DUPLICATE_KEY, message)
                .with("keyPattern", pattern)
                .with("keyValue", values)
        }
    }
}

/// The number of an error of the engine, by its kind.
fn code_of(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::NotFound | ErrorKind::OwnerNotFound => code::NAMESPACE_NOT_FOUND,
        ErrorKind::AlreadyExists => code::NAMESPACE_EXISTS,
        ErrorKind::UniqueKeyViolation => code::DUPLICATE_KEY,
        ErrorKind::PreconditionFailed
        | ErrorKind::PatchConditionFailed
        | ErrorKind::NotModified
        | ErrorKind::ContainerRecreated
        | ErrorKind::Conflict
        | ErrorKind::FailedDependency => code::WRITE_CONFLICT,
        ErrorKind::BadRequest
        | ErrorKind::PartitionKeyMismatch
        | ErrorKind::Syntax
        | ErrorKind::QueryNotServable
        | ErrorKind::NonFiniteNumber
        | ErrorKind::AnswerTooLarge
        | ErrorKind::ScriptFailed => code::BAD_VALUE,
        ErrorKind::Unauthorized => code::AUTHENTICATION_FAILED,
        ErrorKind::Forbidden => code::UNAUTHORIZED,
        ErrorKind::PartitionKeyFull => code::OPERATION_FAILED,
        ErrorKind::TooLarge => code::BSON_OBJECT_TOO_LARGE,
        ErrorKind::Throttled => code::REQUEST_RATE_TOO_LARGE,
        ErrorKind::RangeGone
        | ErrorKind::RangeMoving
        | ErrorKind::SessionNotAvailable
        | ErrorKind::Locked => code::LOCK_TIMEOUT,
        ErrorKind::Timeout => code::MAX_TIME_EXPIRED,
        ErrorKind::NotSupported => code::COMMAND_NOT_SUPPORTED,
        ErrorKind::Unavailable => code::SHUTDOWN_IN_PROGRESS,
        ErrorKind::Internal => code::INTERNAL_ERROR,
    }
}

/// The refusal of a command for which there are no request units. Programs read the wait out of the
/// text, so its beginning is a contract; drivers read it from the field.
pub(crate) fn throttled(retry_after: Duration) -> MongoError {
    let millis = i64::try_from(retry_after.as_millis()).unwrap_or(i64::MAX).max(1);
    let message = format!(
        "Error=16500, RetryAfterMs={millis}, Details='The request rate is larger than the \
         throughput that is provisioned, so nothing was changed. Retry after the time given.'"
    );
    let [overloaded, retryable] = OVERLOADED;
    MongoError::new(code::REQUEST_RATE_TOO_LARGE, message)
        .label(overloaded)
        .label(retryable)
        .with("baseBackoffMS", millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_reply_and_an_entry_of_a_reply() {
        let error = MongoError::new(code::DUPLICATE_KEY, "E11000").with("keyPattern", true);
        assert_eq!(
            error.to_reply(),
            document! {
                "ok" => 0.0, "errmsg" => "E11000", "code" => 11000,
                "codeName" => "DuplicateKey", "keyPattern" => true,
            }
        );
        let entry = document! {
            "index" => 3, "code" => 11000, "keyPattern" => true, "errmsg" => "E11000",
        };
        assert_eq!(error.to_write_error(3), entry);
    }

    #[test]
    fn clients_find_the_wait_in_the_text_and_in_a_field() {
        let refused = EngineError::Throttled { retry_after: Duration::from_millis(34) };
        let error = MongoError::from(refused);
        let reply = error.to_reply();
        let text = reply.get("errmsg").and_then(Value::as_str).unwrap();
        assert!(text.starts_with("Error=16500, RetryAfterMs=34, Details='"), "{text}");
        assert_eq!(reply.get("baseBackoffMS"), Some(&Value::Int64(34)));
        let labels = OVERLOADED.map(Value::from).to_vec();
        assert_eq!(reply.get("errorLabels"), Some(&Value::Array(labels)));
    }
}
