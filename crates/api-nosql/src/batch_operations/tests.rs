use std::time::Duration;

use bytes::Bytes;
use engine::ops::{EtagCondition, ItemOp, ItemOutcome, OpResult};
use engine::{Error, KeyMismatch};
use model::{Charge, limits};

use super::{Results, parse};
use crate::test_support::{key_definition, request_with};

fn op(text: &str) -> Result<ItemOp, (u16, String)> {
    let body = Bytes::from(format!("[{text}]"));
    let operations = parse(&body).map_err(|e| (e.status(), e.message().to_owned()))?;
    let op = operations[0].to_op(&key_definition(&["/pk"]), &body);
    op.map_err(|e| (e.status(), e.message().to_owned()))
}

#[test]
fn every_kind_is_read() {
    let is = |etag: &str| Some(EtagCondition::Is(etag.to_owned()));
    match op(r#"{"operationType":"Create","resourceBody":{"id":"1","n":1.0}}"#) {
        Ok(ItemOp::Create { body }) => assert!(body.value().field("n").is_some()),
        other => panic!("{other:?}"),
    }
    match op(r#"{"operationType":"upsert","resourceBody":{"id":"1"},"ifMatch":"\"e\""}"#) {
        Ok(ItemOp::Upsert { if_match, .. }) => assert_eq!(if_match, is("e")),
        other => panic!("{other:?}"),
    }
    match op(r#"{"operationType":"Replace","id":"a\"b","resourceBody":{"id":"1"},"ifMatch":"e"}"#) {
        Ok(ItemOp::Replace { id, if_match, .. }) => {
            assert_eq!((&*id.as_text(), if_match), ("a\"b", is("e")));
        }
        other => panic!("{other:?}"),
    }
    match op(r#"{"operationType":"Read","id":"1","ifNoneMatch":"*","ifMatch":null}"#) {
        Ok(ItemOp::Read { id, if_none_match }) => {
            assert_eq!((&*id.as_text(), if_none_match), ("1", Some(EtagCondition::Any)));
        }
        other => panic!("{other:?}"),
    }
    match op(r#"{"operationType":"Read","id":"1","ifMatch":"\"e\""}"#) {
        Ok(ItemOp::Read { if_none_match, .. }) => assert_eq!(if_none_match, is("e")),
        other => panic!("{other:?}"),
    }
    match op(r#"{"operationType":"Delete","id":"1","resourceBody":null}"#) {
        Ok(ItemOp::Delete { id, if_match: None }) => assert_eq!(id.as_text(), "1"),
        other => panic!("{other:?}"),
    }
    let patch = r#"{"operations":[{"op":"remove","path":"/x"}],"condition":"from c where c.n=1"}"#;
    match op(&format!(r#"{{"operationType":"Patch","id":"1","resourceBody":{patch}}}"#)) {
        Ok(ItemOp::Patch { id, patch, .. }) => {
            assert_eq!((&*id.as_text(), patch.operations.len()), ("1", 1));
            assert!(patch.condition.is_some());
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_missing_is_named() {
    for (text, wanted) in [
        (r#"{"operationType":"Create"}"#, "needs a 'resourceBody'"),
        (r#"{"operationType":"Replace","resourceBody":{"id":"1"}}"#, "needs an 'id'"),
        (r#"{"operationType":"Read"}"#, "needs an 'id'"),
        (r#"{"operationType":"Read","id":""}"#, "needs an 'id'"),
        (r#"{"operationType":"Patch","id":"1"}"#, "needs a 'resourceBody'"),
        (r#"{"operationType":"Merge","id":"1"}"#, "no operation type 'Merge'"),
        (r#"{"operationType":"Create","resourceBody":[1]}"#, "must be a JSON object"),
        (r#"{"id":"1"}"#, "operationType"),
    ] {
        let (status, message) = op(text).unwrap_err();
        assert_eq!(status, 400, "{text}");
        assert!(message.contains(wanted), "{text}: {message}");
    }
}

fn result(outcome: Result<ItemOutcome, Error>, milli: u64) -> OpResult {
    OpResult { outcome, charge: Charge::milli(milli) }
}

#[test]
fn results_have_status_charge_and_what_a_client_acts_upon() {
    let list = vec![
        result(Ok(ItemOutcome::Deleted), 6100),
        result(Err(Error::FailedDependency), 0),
        result(Err(Error::PartitionKeyMismatch(KeyMismatch::Item)), 0),
        result(Err(Error::RangeGone), 0),
        result(Err(Error::Throttled { retry_after: Duration::from_micros(1500) }), 380),
    ];
    let mut out = Results::new(&request_with(&[], b""));
    list.into_iter().for_each(|result| out.push(result, true));
    let text = out.finish();
    assert_eq!(
        std::str::from_utf8(&text).unwrap(),
        "[{\"statusCode\":204,\"requestCharge\":6.1},\
         {\"statusCode\":424,\"requestCharge\":0},\
         {\"statusCode\":400,\"requestCharge\":0,\"subStatusCode\":1001},\
         {\"statusCode\":410,\"requestCharge\":0,\"subStatusCode\":1002},\
         {\"statusCode\":429,\"requestCharge\":0.38,\"subStatusCode\":3200,\
         \"retryAfterMilliseconds\":2}]"
    );
    assert_eq!(Results::new(&request_with(&[], b"")).finish(), "[]");
}

fn message_of(body: String) -> (u16, String) {
    let error = parse(body.as_bytes()).unwrap_err();
    (error.status(), error.message().to_owned())
}

fn list(operations: usize) -> String {
    let one = r#"{"operationType":"Read","id":"1"}"#;
    format!("[{}]", vec![one; operations].join(","))
}

#[test]
fn the_number_of_operations_is_bounded() {
    assert_eq!(message_of("[]".into()), (400, "Batch request has no operations.".into()));
    let text = "Batch request has more operations than what is supported.";
    assert_eq!(message_of(list(101)), (400, text.into()));
    assert_eq!(parse(list(100).as_bytes()).unwrap().len(), 100);
}

#[test]
fn the_size_is_bounded() {
    let blank = " ".repeat(limits::BATCH_BYTES_MAX);
    assert_eq!(message_of(format!("[{blank}]")).0, 413);
}

#[test]
fn what_is_no_list_is_refused() {
    for body in ["", "{}", "[1]", "null", "[{}]", "[", "\u{1}", "[{\"operationType\":7}]"] {
        assert_eq!(message_of(body.into()).0, 400, "{body}");
    }
}
