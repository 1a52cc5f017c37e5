//! Transactional batches and bulk requests through the wire.

use serde_json::{Value, json};

use crate::support::{Answer, Call, TestService};

const DOCS: &str = "/dbs/d/colls/c/docs";
const PK: &str = "x-ms-documentdb-partitionkey";

async fn service() -> TestService {
    TestService::new().with_container().await
}

fn batch_call<'s>(s: &'s TestService, operations: &Value) -> Call<'s> {
    s.call("POST", DOCS)
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "True")
        .header("x-ms-cosmos-batch-continue-on-error", "False")
        .header(PK, r#"["A"]"#)
        .body(operations.to_string())
}

async fn batch(s: &TestService, operations: Value) -> Answer {
    batch_call(s, &operations).send().await
}

fn bulk_call<'s>(s: &'s TestService, operations: &Value) -> Call<'s> {
    s.call("POST", DOCS)
        .header("x-ms-cosmos-is-batch-request", "true")
        .header("x-ms-cosmos-batch-atomic", "false")
        .header("x-ms-cosmos-batch-continue-on-error", "true")
        .body(operations.to_string())
}

fn codes(answer: &Answer) -> Vec<u64> {
    let results = answer.json();
    let results = results.as_array().map(Vec::as_slice).unwrap_or_default();
    results.iter().map(|r| r["statusCode"].as_u64().unwrap_or_default()).collect()
}

fn create(id: &str) -> Value {
    json!({"operationType": "Create", "resourceBody": {"id": id, "pk": "A"}})
}

async fn count(s: &TestService) -> Value {
    s.get(DOCS).await.json()["_count"].clone()
}

#[tokio::test]
async fn a_batch_is_one_change_whose_operations_see_each_other() {
    let s = service().await;
    let answer = batch(
        &s,
        json!([
            create("1"),
            {"operationType": "Upsert", "resourceBody": {"id": "2", "pk": "A", "n": 1}},
            {"operationType": "Replace", "id": "1", "resourceBody": {"id": "1", "pk": "A", "r": 1}},
            {"operationType": "Patch", "id": "2",
             "resourceBody": {"operations": [{"op": "incr", "path": "/n", "value": 2}]}},
            {"operationType": "Read", "id": "2"},
            {"operationType": "Delete", "id": "1"},
        ]),
    )
    .await
    .expect(200);
    assert_eq!(codes(&answer), [201, 201, 200, 200, 200, 204]);
    let results = answer.json();
    assert_eq!(results[4]["resourceBody"]["n"], 3);
    assert_eq!(results[4]["eTag"], results[4]["resourceBody"]["_etag"]);
    assert_eq!(results[5].get("resourceBody"), None);
    assert_eq!(results[5].get("eTag"), None);
    assert_eq!(answer.header("x-ms-session-token"), Some("0:-1#1"));
    check_sum(&answer);
    assert_eq!(count(&s).await, 1);
}

#[tokio::test]
async fn one_failure_undoes_the_batch() {
    let s = service().await;
    s.post(DOCS, r#"{"id":"old","pk":"A"}"#).await.expect(201);
    let cases = [
        (json!({"operationType": "Delete", "id": "none"}), 404, None),
        (create("new"), 409, None),
        (
            json!({"operationType": "Replace", "id": "old",
                   "resourceBody": {"id": "old", "pk": "A"}, "ifMatch": "\"stale\""}),
            412,
            None,
        ),
        (
            json!({"operationType": "Create", "resourceBody": {"id": "x", "pk": "B"}}),
            400,
            Some(1001),
        ),
        (
            json!({"operationType": "Patch", "id": "old", "resourceBody":
                   {"condition": "from c where c.n = 1",
                    "operations": [{"op": "set", "path": "/n", "value": 1}]}}),
            412,
            Some(1110),
        ),
        (
            json!({"operationType": "Patch", "id": "old", "resourceBody":
                   {"operations": [{"op": "remove", "path": "/n"}]}}),
            400,
            None,
        ),
    ];
    let unreadable = [
        json!({"operationType": "Patch", "id": "old", "resourceBody": {"operations": "none"}}),
        json!({"operationType": "Patch", "id": "old", "resourceBody":
               {"operations": vec![json!({"op": "set", "path": "/n", "value": 1}); 11]}}),
        json!({"operationType": "Patch", "id": "old", "resourceBody":
               {"condition": "from c where", "operations":
                [{"op": "set", "path": "/n", "value": 1}]}}),
        json!({"operationType": "Patch", "id": "old", "resourceBody":
               {"operations": [{"op": "set", "path": "/pk", "value": 1}]}}),
        json!({"operationType": "Create", "resourceBody": 7}),
        json!({"operationType": "Create"}),
        json!({"operationType": "Delete"}),
    ];
    let unreadable = unreadable.into_iter().map(|operation| (operation, 400, None));
    for (operation, status, substatus) in cases.into_iter().chain(unreadable) {
        let answer = batch(&s, json!([create("new"), operation, create("after")])).await;
        let answer = answer.expect(207);
        assert_eq!(codes(&answer), [424, status, 424], "{operation}");
        let found = answer.json()[1]["subStatusCode"].as_u64();
        assert_eq!(found, substatus, "{operation}");
        assert_eq!(count(&s).await, 1, "{operation}");
    }
    let answer = batch(&s, json!([create("1"), create("2"), create("1")])).await.expect(207);
    assert_eq!(codes(&answer), [424, 424, 409]);
    assert_eq!(count(&s).await, 1);
}

#[tokio::test]
async fn a_read_of_a_known_version_does_not_fail_a_batch() {
    let s = service().await;
    let old = s.post(DOCS, r#"{"id":"old","pk":"A"}"#).await.expect(201);
    let etag = old.header("etag").unwrap();
    let read = |condition: &str, etag: &str| json!({"operationType": "Read", "id": "old", condition: etag});
    let operations = json!([
        create("new"),
        read("ifNoneMatch", etag),
        read("ifMatch", etag),
        read("ifMatch", "other")
    ]);
    let answer = batch(&s, operations).await.expect(207);
    assert_eq!(codes(&answer), [201, 304, 304, 200]);
    let results = answer.json();
    assert_eq!(results[1]["eTag"], etag);
    assert_eq!(results[1].get("resourceBody"), None);
    assert_eq!(answer.header("x-ms-session-token"), Some("0:-1#2"));
    assert_eq!(count(&s).await, 2);
    // Nothing but such reads: nothing has failed either.
    let answer = batch(&s, json!([read("ifNoneMatch", etag)])).await.expect(207);
    assert_eq!(codes(&answer), [304]);
    // Another failure still undoes all.
    let none = json!({"operationType": "Read", "id": "none"});
    let answer = batch(&s, json!([create("x"), read("ifMatch", etag), none])).await.expect(207);
    assert_eq!(codes(&answer), [424, 424, 404]);
    assert_eq!(count(&s).await, 2);
}

#[tokio::test]
async fn a_session_token_ahead_of_the_server_fails_reads_only() {
    let s = service().await;
    s.post(DOCS, r#"{"id":"old","pk":"A"}"#).await.expect(201);
    let read = json!({"operationType": "Read", "id": "old", "partitionKey": "[\"A\"]"});
    let ahead = ("x-ms-session-token", "0:-1#1000000");
    let refused = batch_call(&s, &json!([create("1"), read])).header(ahead.0, ahead.1);
    let refused = refused.send().await.expect(404);
    assert_eq!(refused.header("x-ms-substatus"), Some("1002"));
    assert_eq!(count(&s).await, 1);
    let writes = batch_call(&s, &json!([create("1")])).header(ahead.0, ahead.1);
    writes.send().await.expect(200);
    let mixed = bulk_call(&s, &json!([read, create("2"), read])).header(ahead.0, ahead.1);
    let mixed = mixed.send().await.expect(207);
    assert_eq!(codes(&mixed), [404, 201, 404]);
    assert_eq!(mixed.json()[2]["subStatusCode"], 1002);
}

#[tokio::test]
async fn an_answer_has_a_largest_size() {
    let s = service().await;
    let large = "x".repeat(1_000_000);
    for id in 0..10 {
        let item = json!({"id": id.to_string(), "pk": "A", "x": large});
        s.post(DOCS, &item.to_string()).await.expect(201);
    }
    let read = |id: usize| json!({"operationType": "Read", "id": id.to_string(), "partitionKey": "[\"A\"]"});
    let reads: Vec<_> = (0..10).map(read).collect();
    let mut with_write = vec![create("new")];
    with_write.extend(reads.iter().cloned());
    let answer = batch(&s, json!(with_write)).await.expect(207);
    let (fits, beyond) = (vec![424; 5], vec![413; 6]);
    assert_eq!(codes(&answer), [fits, beyond].concat());
    assert_eq!(answer.json()[10]["subStatusCode"], 3402);
    check_sum(&answer);
    let new = s.call("GET", "/dbs/d/colls/c/docs/new").header(PK, r#"["A"]"#);
    new.send().await.expect(404);
    batch(&s, json!(reads[..4])).await.expect(200);
    // In bulk the others keep what they have, and what is small still fits.
    s.post(DOCS, r#"{"id":"small","pk":"A"}"#).await.expect(201);
    let mut reads = reads;
    reads.push(json!({"operationType": "Read", "id": "small", "partitionKey": "[\"A\"]"}));
    reads.push(create("new"));
    let answer = bulk_call(&s, &json!(reads)).send().await.expect(207);
    let expected = [vec![200; 4], vec![413; 6], vec![200, 201]].concat();
    assert_eq!(codes(&answer), expected);
    assert_eq!(answer.json()[4]["subStatusCode"], 3402);
    check_sum(&answer);
    // Writes whose items are not returned leave room for reads.
    let patch = |id: usize| {
        json!({"operationType": "Patch", "id": id.to_string(),
        "resourceBody": {"operations": [{"op": "set", "path": "/n", "value": 1}]}})
    };
    let patches: Vec<_> = (0..10).map(patch).collect();
    assert_eq!(codes(&batch(&s, json!(patches)).await.expect(207))[9], 413);
    let call = batch_call(&s, &json!(patches)).header("prefer", "return=minimal");
    call.send().await.expect(200);
}

/// The charges of the results add up to that of the whole, which is not nothing.
fn check_sum(answer: &Answer) {
    let results = answer.json();
    let charges = results
        .as_array()
        .expect("the test's own data")
        .iter()
        .map(|r| r["requestCharge"].as_f64().expect("the test's own data"));
    let total: f64 = answer
        .header("x-ms-request-charge")
        .expect("the test's own data")
        .parse()
        .expect("the test's own data");
    let sum: f64 = charges.sum();
    assert!((sum - total).abs() < 0.001 && total > 0.0, "{sum} {total}");
}

#[tokio::test]
async fn failed_batches_are_charged_too() {
    let s = service().await;
    for failing in [
        create("1"),
        json!({"operationType": "Create", "resourceBody": {"id": "x", "pk": "B"}}),
        json!({"operationType": "Create", "resourceBody": 7}),
        json!({"operationType": "Delete", "id": "none"}),
    ] {
        check_sum(&batch(&s, json!([create("1"), failing])).await.expect(207));
    }
}

#[tokio::test]
async fn minimal_batches_have_no_bodies() {
    let s = service().await;
    let call = batch_call(&s, &json!([create("1")])).header("prefer", "return=minimal");
    let answer = call.send().await.expect(200).json();
    assert_eq!(answer[0]["statusCode"], 201);
    assert_eq!(answer[0].get("resourceBody"), None);
    assert!(answer[0]["eTag"].is_string());
}

#[tokio::test]
async fn writes_are_minimal_one_by_one_and_reads_never() {
    let s = service().await;
    let read = json!({"operationType": "Read", "id": "1"});
    let call = batch_call(&s, &json!([create("1"), read])).header("prefer", "return=minimal");
    let answer = call.send().await.expect(200).json();
    assert_eq!(answer[0].get("resourceBody"), None);
    assert_eq!(answer[1]["resourceBody"]["id"], "1");
    let mut minimal = create("2");
    minimal["minimalReturnPreference"] = true.into();
    let mut full = create("3");
    full["minimalReturnPreference"] = false.into();
    let answer = batch(&s, json!([minimal, full])).await.expect(200).json();
    assert_eq!(answer[0].get("resourceBody"), None);
    assert_eq!(answer[1]["resourceBody"]["id"], "3");
    minimal["minimalReturnPreference"] = "yes".into();
    batch(&s, json!([minimal])).await.expect(400);
}

#[tokio::test]
async fn bad_batches_are_refused_as_a_whole() {
    let s = service().await;
    let text = batch(&s, json!([])).await.expect(400).message();
    assert!(text.contains("Batch request has no operations."));
    let many: Vec<Value> = (0..101).map(|n| create(&n.to_string())).collect();
    let text = batch(&s, json!(many)).await.expect(400).message();
    assert!(text.contains("Batch request has more operations than what is supported."));
    let hundred: Vec<Value> = (0..100).map(|n| create(&n.to_string())).collect();
    batch(&s, json!(hundred)).await.expect(200);
    let large = "x".repeat(2 * 1024 * 1024);
    let large =
        json!([{"operationType": "Create", "resourceBody": {"id": "l", "pk": "A", "x": large}}]);
    let answer = batch(&s, large).await.expect(413);
    assert_eq!(answer.json()["code"], "RequestEntityTooLarge");
    for operations in [json!({}), json!([7]), json!([{"operationType": "Nothing"}])] {
        batch(&s, operations).await.expect(400);
    }
    let no_key = s.call("POST", DOCS).header("x-ms-cosmos-is-batch-request", "True");
    no_key.body(json!([create("k")]).to_string()).send().await.expect(400);
}

#[tokio::test]
async fn bulk_operations_stand_alone() {
    let s = service().await;
    let operations = json!([
        {"operationType": "Create", "resourceBody": {"id": "1", "pk": "A"}, "partitionKey": "[\"A\"]"},
        {"operationType": "Create", "resourceBody": {"id": "1", "pk": "A"}, "partitionKey": "[\"A\"]"},
        {"operationType": "Upsert", "resourceBody": {"id": "2"}, "partitionKey": "[{}]"},
        {"operationType": "Create", "resourceBody": {"id": "3", "pk": "C"}},
        {"operationType": "Read", "id": "none", "partitionKey": "[\"A\"]"},
        {"operationType": "Read", "id": "1"},
        {"operationType": "Delete", "id": "1", "partitionKey": "nonsense"},
        {"operationType": "Create", "resourceBody": {"pk": "A"}, "partitionKey": "[\"A\"]"},
        {"operationType": "Patch", "id": "1", "partitionKey": "[\"A\"]",
         "resourceBody": {"operations": [{"op": "set", "path": "/n", "value": 1}]}},
        {"operationType": "Delete", "id": "2", "partitionKey": "[{}]"},
    ]);
    let call = bulk_call(&s, &operations).header("x-ms-documentdb-partitionkeyrangeid", "0");
    let answer = call.send().await.expect(207);
    assert_eq!(codes(&answer), [201, 409, 201, 201, 404, 400, 400, 400, 200, 204]);
    assert_eq!(count(&s).await, 2);

    let fine = bulk_call(&s, &json!([create("9")])).send().await.expect(200);
    assert_eq!(codes(&fine), [201]);
}

#[tokio::test]
async fn a_bulk_request_reads_what_it_wrote() {
    let s = service().await;
    let of = |kind: &str| json!({"operationType": kind, "id": "1", "partitionKey": "[\"A\"]"});
    let create = json!({"operationType": "Create", "resourceBody": {"id": "1", "pk": "A"}, "partitionKey": "[\"A\"]"});
    for _ in 0..20 {
        let operations =
            json!([of("Read"), create, of("Read"), of("Delete"), of("Read"), of("Delete")]);
        let answer = bulk_call(&s, &operations).send().await.expect(207);
        assert_eq!(codes(&answer), [404, 201, 200, 204, 404, 404]);
    }
}

#[tokio::test]
async fn a_bulk_request_may_stop_at_the_first_failure() {
    let s = service().await;
    let bad =
        json!({"operationType": "Create", "resourceBody": {"id": "b", "pk": "A", "ttl": -10}});
    let unreadable = json!({"operationType": "Delete"});
    for (failing, id) in [(bad, "1"), (unreadable, "2")] {
        let operations = json!([create(id), failing, create("after")]);
        let call = s
            .call("POST", DOCS)
            .header("x-ms-cosmos-is-batch-request", "true")
            .header("x-ms-cosmos-batch-atomic", "false")
            .header("x-ms-cosmos-batch-continue-on-error", "false");
        let answer = call.body(operations.to_string()).send().await.expect(207);
        assert_eq!(codes(&answer), [201, 400, 424], "{failing}");
    }
    assert_eq!(count(&s).await, 2);
}

#[tokio::test]
async fn bulk_operations_outside_their_range_are_gone() {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    let call = s.call("POST", "/dbs/d/colls").header("x-ms-offer-throughput", "12000");
    call.body(body).send().await.expect(201);
    // "x" hashes into the first half of the line and null into the second.
    let operations = json!([
        {"operationType": "Create", "resourceBody": {"id": "1", "pk": "x"}, "partitionKey": "[\"x\"]"},
        {"operationType": "Create", "resourceBody": {"id": "1", "pk": null}, "partitionKey": "[null]"},
    ]);
    let to = |range: &str| {
        bulk_call(&s, &operations).header("x-ms-documentdb-partitionkeyrangeid", range)
    };
    let answer = to("0").send().await.expect(207);
    assert_eq!(codes(&answer), [201, 410]);
    assert_eq!(answer.json()[1]["subStatusCode"], 1002);
    assert_eq!(codes(&to("1").send().await.expect(207)), [410, 201]);
    let gone = to("7").send().await.expect(410);
    assert_eq!(gone.header("x-ms-substatus"), Some("1002"));
    to("x").send().await.expect(400);
}

#[tokio::test]
async fn a_container_without_a_key_takes_batches_and_bulks() {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let call = s.call("POST", "/dbs/d/colls").header("x-ms-version", "2018-06-18");
    call.body(r#"{"id":"c"}"#).send().await.expect(201);
    let new = |id: &str| json!({"operationType": "Create", "resourceBody": {"id": id}});
    let of = |kind: &str, id: &str| json!({"operationType": kind, "id": id});

    for key in [None, Some("[]"), Some("[{}]")] {
        let call = s.call("POST", DOCS).header("x-ms-cosmos-is-batch-request", "True");
        let operations = json!([new("b"), of("Read", "b"), of("Delete", "b")]);
        let call = call.body(operations.to_string());
        let call = if let Some(key) = key { call.header(PK, key) } else { call };
        assert_eq!(codes(&call.send().await.expect(200)), [201, 200, 204], "{key:?}");
    }

    let mut keyed = of("Read", "1");
    keyed["partitionKey"] = "[{}]".into();
    let patch = json!({"operationType": "Patch", "id": "1",
                       "resourceBody": [{"op": "set", "path": "/n", "value": 1}]});
    // Operations of one request are independent, so each step is a request.
    for (operations, statuses) in [
        (json!([new("1")]), vec![201]),
        (json!([of("Read", "1"), keyed]), vec![200, 200]),
        (json!([patch]), vec![200]),
        (json!([of("Delete", "1")]), vec![204]),
    ] {
        let call = bulk_call(&s, &operations).header("x-ms-documentdb-partitionkeyrangeid", "0");
        assert_eq!(codes(&call.send().await.expect(200)), statuses, "{operations}");
    }
    assert_eq!(count(&s).await, 0);
}
