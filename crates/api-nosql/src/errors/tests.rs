//! The table as a golden file, and the shapes of error bodies.

use std::fmt::Write;

use engine::patch::{PatchError, PatchFailure};
use engine::{Busy, InvalidRequest, KeyMismatch, QueryLimit, UnsupportedStart};
use model::json::JsonError;
use model::partition_key::PartitionKeyError;
use model::rid::IdError;

use super::*;

/// `BLESS=1 cargo test -p api-nosql` rewrites the golden file.
#[test]
fn the_table_of_kinds_is_the_golden_one() {
    let mut table = String::from(
        "# What the NoSQL API answers to each kind of error.\n\
         # kind | NoSQL: status substatus code\n",
    );
    for kind in ErrorKind::ALL {
        let Wire { status, substatus, code } = wire_of(kind);
        writeln!(table, "{:<20} | {status} {substatus:>4} {code}", format!("{kind:?}")).unwrap();
    }
    check_golden("kinds.golden", &table);
}

fn check_golden(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/errors");
    let path = path.join(name);
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, golden, "if the change is meant, bless {}", path.display());
}

/// `BLESS=1 cargo test -p api-nosql` rewrites the golden file.
#[test]
fn the_texts_of_invalid_requests_are_the_golden_ones() {
    let list = |error: engine::Error| ApiError::from(error).message().replace('\n', "\\n");
    let id = |reason| InvalidRequest::id("a/b", reason, 255);
    let path = || "/a".to_owned();
    let patch = |reason| InvalidRequest::Patch(PatchError { operation: 2, reason });
    let too_deep = JsonError::TooDeep { max: 128 };
    let invalid = [
        InvalidRequest::CatalogFull { count_max: 7 },
        InvalidRequest::OpaqueResourcesFull { count_max: 7 },
        id(IdError::Empty),
        id(IdError::TooLong { max: 254, unit: "characters" }),
        id(IdError::Forbidden('/')),
        InvalidRequest::ItemText(too_deep),
        InvalidRequest::Document(model::bson::BsonError::ZeroByteInName),
        InvalidRequest::ItemNotObject,
        InvalidRequest::IdMissing,
        InvalidRequest::IdNotString,
        InvalidRequest::PartitionKey(PartitionKeyError::NotScalar),
        InvalidRequest::PartitionKey(PartitionKeyError::TooLong { max: 2048 }),
        InvalidRequest::PartitionKeyMissing,
        InvalidRequest::TimeToLive { value: "0".to_owned() },
        InvalidRequest::PatchCondition(query::EvalError::BudgetExceeded),
        patch(PatchFailure::NoParent { operation: "Add", segment: "b".to_owned() }),
        patch(PatchFailure::OutOfBounds { index: "3".to_owned() }),
        patch(PatchFailure::ReplacedIsAbsent { path: path() }),
        patch(PatchFailure::RemovedIsAbsent { path: path() }),
        patch(PatchFailure::NotANumber { path: path() }),
        patch(PatchFailure::MoveIntoItself { from: path(), path: "/a/b".to_owned() }),
        InvalidRequest::PatchMovesItem,
        InvalidRequest::Continuation,
        InvalidRequest::OldContinuation,
        InvalidRequest::FeedContinuation,
        InvalidRequest::FeedContinuationTooLong,
        InvalidRequest::VersionsNotKept,
        InvalidRequest::VersionsStart(UnsupportedStart::Beginning),
        InvalidRequest::VersionsStart(UnsupportedStart::Time),
        InvalidRequest::VersionsRemoved,
    ];
    let mismatches = [KeyMismatch::Components, KeyMismatch::Item, KeyMismatch::Prefix];
    let limits = [QueryLimit::Time, QueryLimit::SortKey];
    let busy = [Busy::Scaling, Busy::Jobs, Busy::Range, Busy::AutomaticJob];
    let errors = (invalid.into_iter().map(engine::Error::from))
        .chain(mismatches.map(engine::Error::from))
        .chain(limits.map(engine::Error::from))
        .chain(busy.map(engine::Error::from));
    let mut texts = String::from("# What the NoSQL API says of requests that it refuses.\n");
    for error in errors {
        writeln!(texts, "{}", list(error)).unwrap();
    }
    check_golden("nosql-texts.golden", &texts);
}

fn rendered(error: ApiError) -> (u16, String, Reply) {
    let reply = error.into_reply("0f6c");
    (reply.status.0, String::from_utf8(reply.body.to_vec()).unwrap(), reply)
}

#[test]
fn bodies_have_code_message_and_activity() {
    let (status, body, reply) = rendered(ApiError::missing(ErrorKind::OwnerNotFound));
    assert_eq!(status, 404);
    assert_eq!(reply.substatus, 1003);
    assert_eq!(
        body,
        "{\"code\":\"NotFound\",\"message\":\"Resource Not Found. Learn more: \
         https://aka.ms/cosmosdb-tsg-not-found\\r\\nActivityId: 0f6c\"}"
    );
}

#[test]
fn fragments_that_clients_look_for_are_there() {
    let message = |error: engine::Error| ApiError::from(error).message().to_owned();
    let exists =
        engine::Error::AlreadyExists { kind: engine::ResourceKind::Item, id: String::new() };
    let exists = message(exists);
    assert!(exists.contains("Entity with the specified id already exists in the system"));
    assert!(exists.contains("Resource with specified id, name, or unique index already exists."));
    let precondition = message(engine::Error::PreconditionFailed);
    assert!(precondition.contains("One of the specified pre-condition is not met"));
    let session = message(engine::Error::SessionNotAvailable);
    assert!(session.contains("The read session is not available for the input session token"));
    assert_eq!(
        ApiError::missing_properties(&["id"]).message(),
        "The input content is invalid because the required properties - 'id; ' - are missing"
    );
}

#[test]
fn a_throttled_request_is_told_whole_milliseconds() {
    let error = engine::Error::Throttled { retry_after: Duration::from_micros(11_200) };
    let (status, body, reply) = rendered(error.into());
    assert_eq!(status, 429);
    assert_eq!(reply.text_of(ReplyHeader::RetryAfterMs).as_deref(), Some("12"));
    assert_eq!(reply.substatus, 3200);
    assert!(body.contains("Message: {\\\"Errors\\\":[\\\"Request rate is large."), "{body}");
}

#[test]
fn syntax_errors_have_the_compiler_envelope() {
    let error = SyntaxError {
        code: "SC1001",
        message: "Syntax error, incorrect syntax near 'FROM'.".into(),
        start: 7,
        end: 11,
        kind: SyntaxErrorKind::Syntax,
    };
    assert_eq!(
        ApiError::from(error).message(),
        "Message: {\"errors\":[{\"severity\":\"Error\",\"location\":{\"start\":7,\"end\":11},\
         \"code\":\"SC1001\",\"message\":\"Syntax error, incorrect syntax near 'FROM'.\"}]}"
    );
}

#[test]
fn internal_details_stay_inside() {
    let (status, body, _) = rendered(engine::Error::Internal("secret".into()).into());
    assert_eq!(status, 500);
    assert!(!body.contains("secret"));
    assert_eq!(ApiError::from(engine::Error::Internal("secret".into())).detail(), "secret");
}

#[test]
fn errors_stay_small() {
    assert!(size_of::<ApiError>() <= 72);
}
