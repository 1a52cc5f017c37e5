//! The table as a golden file, and the shapes of error bodies.

use std::fmt::Write;

use super::*;

/// `BLESS=1 cargo test -p api-nosql` rewrites the golden file.
#[test]
fn the_table_of_kinds_is_the_golden_one() {
    let mut table = String::from(
        "# How each kind of error is spelled, one column per API.\n\
         # kind | NoSQL: status substatus code\n",
    );
    for kind in ErrorKind::ALL {
        let Wire { status, substatus, code } = wire_of(kind);
        writeln!(table, "{:<20} | {status} {substatus:>4} {code}", format!("{kind:?}")).unwrap();
    }
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/errors/kinds.golden");
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &table).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(table, golden, "if the change is meant, bless {}", path.display());
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
    let error = lang::SyntaxError {
        code: "SC1001",
        message: "Syntax error, incorrect syntax near 'FROM'.".into(),
        start: 7,
        end: 11,
        kind: SyntaxErrorKind::Syntax,
    };
    assert_eq!(
        ApiError::from(engine::Error::from(error)).message(),
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
