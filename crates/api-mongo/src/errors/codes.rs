//! The numbers of errors, with their names.

use std::borrow::Cow;

macro_rules! codes {
    ($($constant:ident = $number:literal $name:literal),* $(,)?) => {
        $(
            #[allow(dead_code, reason = "the table also names errors that other crates raise")]
            pub(crate) const $constant: i32 = $number;
        )*

        const NAMES: &[(i32, &str)] = &[$(($number, $name)),*];
    };
}

codes! {
    INTERNAL_ERROR = 1 "InternalError",
    BAD_VALUE = 2 "BadValue",
    HOST_UNREACHABLE = 6 "HostUnreachable",
    HOST_NOT_FOUND = 7 "HostNotFound",
    UNKNOWN_ERROR = 8 "UnknownError",
    FAILED_TO_PARSE = 9 "FailedToParse",
    USER_NOT_FOUND = 11 "UserNotFound",
    UNAUTHORIZED = 13 "Unauthorized",
    TYPE_MISMATCH = 14 "TypeMismatch",
    OVERFLOW = 15 "Overflow",
    INVALID_LENGTH = 16 "InvalidLength",
    PROTOCOL_ERROR = 17 "ProtocolError",
    AUTHENTICATION_FAILED = 18 "AuthenticationFailed",
    ILLEGAL_OPERATION = 20 "IllegalOperation",
    INVALID_BSON = 22 "InvalidBSON",
    ALREADY_INITIALIZED = 23 "AlreadyInitialized",
    LOCK_TIMEOUT = 24 "LockTimeout",
    NAMESPACE_NOT_FOUND = 26 "NamespaceNotFound",
    INDEX_NOT_FOUND = 27 "IndexNotFound",
    PATH_NOT_VIABLE = 28 "PathNotViable",
    ROLE_NOT_FOUND = 31 "RoleNotFound",
    CANNOT_BACKFILL_ARRAY = 34 "CannotBackfillArray",
    CONFLICTING_UPDATE_OPERATORS = 40 "ConflictingUpdateOperators",
    CURSOR_NOT_FOUND = 43 "CursorNotFound",
    NAMESPACE_EXISTS = 48 "NamespaceExists",
    MAX_TIME_EXPIRED = 50 "MaxTimeMSExpired",
    MANUAL_INTERVENTION_REQUIRED = 51 "ManualInterventionRequired",
    DOLLAR_PREFIXED_FIELD_NAME = 52 "DollarPrefixedFieldName",
    INVALID_ID_FIELD = 53 "InvalidIdField",
    NOT_SINGLE_VALUE_FIELD = 54 "NotSingleValueField",
    EMPTY_FIELD_NAME = 56 "EmptyFieldName",
    DOTTED_FIELD_NAME = 57 "DottedFieldName",
    COMMAND_NOT_FOUND = 59 "CommandNotFound",
    SHARD_KEY_NOT_FOUND = 61 "ShardKeyNotFound",
    WRITE_CONCERN_FAILED = 64 "WriteConcernFailed",
    IMMUTABLE_FIELD = 66 "ImmutableField",
    CANNOT_CREATE_INDEX = 67 "CannotCreateIndex",
    INDEX_ALREADY_EXISTS = 68 "IndexAlreadyExists",
    INVALID_OPTIONS = 72 "InvalidOptions",
    INVALID_NAMESPACE = 73 "InvalidNamespace",
    NO_REPLICATION_ENABLED = 76 "NoReplicationEnabled",
    UNKNOWN_REPL_WRITE_CONCERN = 79 "UnknownReplWriteConcern",
    INDEX_OPTIONS_CONFLICT = 85 "IndexOptionsConflict",
    INDEX_KEY_SPECS_CONFLICT = 86 "IndexKeySpecsConflict",
    NETWORK_TIMEOUT = 89 "NetworkTimeout",
    SHUTDOWN_IN_PROGRESS = 91 "ShutdownInProgress",
    OPERATION_FAILED = 96 "OperationFailed",
    UNSATISFIABLE_WRITE_CONCERN = 100 "UnsatisfiableWriteConcern",
    WRITE_CONFLICT = 112 "WriteConflict",
    COMMAND_NOT_SUPPORTED = 115 "CommandNotSupported",
    NAMESPACE_NOT_SHARDED = 118 "NamespaceNotSharded",
    DOCUMENT_VALIDATION_FAILURE = 121 "DocumentValidationFailure",
    READ_CONCERN_MAJORITY_NOT_AVAILABLE_YET = 134 "ReadConcernMajorityNotAvailableYet",
    EXCEEDED_MEMORY_LIMIT = 146 "ExceededMemoryLimit",
    COMMAND_NOT_SUPPORTED_ON_VIEW = 166 "CommandNotSupportedOnView",
    INVALID_PIPELINE_OPERATOR = 168 "InvalidPipelineOperator",
    CANNOT_INDEX_PARALLEL_ARRAYS = 171 "CannotIndexParallelArrays",
    CLIENT_METADATA_CANNOT_BE_MUTATED = 186 "ClientMetadataCannotBeMutated",
    PRIMARY_STEPPED_DOWN = 189 "PrimarySteppedDown",
    INVALID_INDEX_SPECIFICATION_OPTION = 197 "InvalidIndexSpecificationOption",
    INVALID_UUID = 207 "InvalidUUID",
    KEY_NOT_FOUND = 211 "KeyNotFound",
    ELECTION_IN_PROGRESS = 216 "ElectionInProgress",
    CLOSE_CHANGE_STREAM = 222 "CloseChangeStream",
    TRANSACTION_TOO_OLD = 225 "TransactionTooOld",
    NOT_IMPLEMENTED = 238 "NotImplemented",
    CONVERSION_FAILURE = 241 "ConversionFailure",
    TRANSACTION_ABORTED = 244 "TransactionAborted",
    SNAPSHOT_UNAVAILABLE = 246 "SnapshotUnavailable",
    NO_SUCH_TRANSACTION = 251 "NoSuchTransaction",
    TRANSACTION_COMMITTED = 256 "TransactionCommitted",
    INVALID_RESUME_TOKEN = 260 "InvalidResumeToken",
    EXCEEDED_TIME_LIMIT = 262 "ExceededTimeLimit",
    OPERATION_NOT_SUPPORTED_IN_TRANSACTION = 263 "OperationNotSupportedInTransaction",
    CHANGE_STREAM_FATAL_ERROR = 280 "ChangeStreamFatalError",
    CHANGE_STREAM_HISTORY_LOST = 286 "ChangeStreamHistoryLost",
    NO_QUERY_EXECUTION_PLANS = 291 "NoQueryExecutionPlans",
    MEMORY_LIMIT_NO_DISK_USE = 292 "QueryExceededMemoryLimitNoDiskUseAllowed",
    API_VERSION_ERROR = 322 "APIVersionError",
    API_STRICT_ERROR = 323 "APIStrictError",
    API_DEPRECATION_ERROR = 324 "APIDeprecationError",
    MECHANISM_UNAVAILABLE = 334 "MechanismUnavailable",
    UNSUPPORTED_OP_QUERY_COMMAND = 352 "UnsupportedOpQueryCommand",
    REAUTHENTICATION_REQUIRED = 391 "ReauthenticationRequired",
    INGRESS_REQUEST_RATE_LIMIT_EXCEEDED = 462 "IngressRequestRateLimitExceeded",
    SOCKET_EXCEPTION = 9001 "SocketException",
    NOT_WRITABLE_PRIMARY = 10107 "NotWritablePrimary",
    BSON_OBJECT_TOO_LARGE = 10334 "BSONObjectTooLarge",
    DUPLICATE_KEY = 11000 "DuplicateKey",
    INTERRUPTED_AT_SHUTDOWN = 11600 "InterruptedAtShutdown",
    INTERRUPTED = 11601 "Interrupted",
    INTERRUPTED_DUE_TO_REPL_STATE_CHANGE = 11602 "InterruptedDueToReplStateChange",
    NOT_PRIMARY_NO_SECONDARY_OK = 13435 "NotPrimaryNoSecondaryOk",
    NOT_PRIMARY_OR_SECONDARY = 13436 "NotPrimaryOrSecondary",
    REQUEST_RATE_TOO_LARGE = 16500 "RequestRateTooLarge",
    DUPLICATE_FIELD = 40413 "Location40413",
    MISSING_FIELD = 40414 "Location40414",
    UNKNOWN_FIELD = 40415 "Location40415",
    USER_EXISTS = 51003 "Location51003",
}

/// The name of an error; one without a name of its own has that of its place.
pub(crate) fn name_of(code: i32) -> Cow<'static, str> {
    match NAMES.binary_search_by_key(&code, |(number, _)| *number) {
        Ok(at) => NAMES.get(at).map_or("", |(_, name)| *name).into(),
        Err(_) => format!("Location{code}").into(),
    }
}

/// Errors after which a client that sent a retryable write may send it again.
pub(crate) const RETRYABLE: [i32; 12] = [
    HOST_UNREACHABLE,
    HOST_NOT_FOUND,
    NETWORK_TIMEOUT,
    SHUTDOWN_IN_PROGRESS,
    PRIMARY_STEPPED_DOWN,
    EXCEEDED_TIME_LIMIT,
    SOCKET_EXCEPTION,
    NOT_WRITABLE_PRIMARY,
    INTERRUPTED_AT_SHUTDOWN,
    INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
    NOT_PRIMARY_NO_SECONDARY_OK,
    NOT_PRIMARY_OR_SECONDARY,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_have_their_names() {
        assert!(NAMES.is_sorted_by_key(|(number, _)| *number));
        assert_eq!(name_of(11000), "DuplicateKey");
        assert_eq!(name_of(40324), "Location40324");
    }
}
