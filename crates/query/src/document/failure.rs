//! Why an operator on documents failed, in the terms that clients of this language know.

/// A number and a text that drivers and programs compare, so both are part of the language.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The error number.
    pub code: i32,
    /// The text.
    pub message: String,
}

impl Failure {
    /// A failure with this number and text.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The same failure with a text in front that says which operator it belongs to.
    #[must_use]
    pub fn within(self, context: &str) -> Self {
        Self { code: self.code, message: format!("{context} :: caused by :: {}", self.message) }
    }
}

/// Error numbers that have names. Those of one operator stand where it fails.
pub mod code {
    /// BadValue: an argument has a value that is not allowed.
    pub const BAD_VALUE: i32 = 2;
    /// FailedToParse: the shape of an argument is wrong.
    pub const FAILED_TO_PARSE: i32 = 9;
    /// TypeMismatch: an argument has a type that is not allowed.
    pub const TYPE_MISMATCH: i32 = 14;
    /// Overflow: nesting or a number exceeds its limit.
    pub const OVERFLOW: i32 = 15;
    /// IndexNotFound: the operator needs an index that does not exist.
    pub const INDEX_NOT_FOUND: i32 = 27;
    /// PathNotViable: the path leads through a value that cannot have fields.
    pub const PATH_NOT_VIABLE: i32 = 28;
    /// CannotBackfillArray: the path would make an array too long.
    pub const CANNOT_BACKFILL_ARRAY: i32 = 34;
    /// ConflictingUpdateOperators: two operators change the same path.
    pub const CONFLICTING_UPDATE_OPERATORS: i32 = 40;
    /// DollarPrefixedFieldName: a field may not begin with a dollar sign here.
    pub const DOLLAR_PREFIXED_FIELD_NAME: i32 = 52;
    /// InvalidIdField: the `_id` has a type that is not allowed.
    pub const INVALID_ID_FIELD: i32 = 53;
    /// NotSingleValueField: an upsert has several values for one field.
    pub const NOT_SINGLE_VALUE_FIELD: i32 = 54;
    /// EmptyFieldName: a path has an empty part.
    pub const EMPTY_FIELD_NAME: i32 = 56;
    /// ImmutableField: the operation would change `_id`.
    pub const IMMUTABLE_FIELD: i32 = 66;
    /// CommandNotSupported.
    pub const NOT_SUPPORTED: i32 = 115;
    /// ConversionFailure: a value cannot become one of another type.
    pub const CONVERSION_FAILURE: i32 = 241;
    /// QueryExceededMemoryLimitNoDiskUseAllowed.
    pub const MEMORY_LIMIT_EXCEEDED: i32 = 292;
    /// BSONObjectTooLarge: a document exceeds its limit.
    pub const OBJECT_TOO_LARGE: i32 = 10334;
}
