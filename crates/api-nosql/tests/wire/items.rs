//! Items through the wire: every operation, its conditions and its errors.

use api_nosql::fuzzing::{Limits, decode};
use serde_json::{Value, json};

use crate::support::{Answer, Call, TestService};

const DOCS: &str = "/dbs/d/colls/c/docs";
const PK: &str = "x-ms-documentdb-partitionkey";

async fn service() -> TestService {
    TestService::new().with_container().await
}

fn keyed<'s>(s: &'s TestService, method: &'static str, path: &str, key: &str) -> Call<'s> {
    s.call(method, path).header(PK, key)
}

fn item_path(id: &str) -> String {
    format!("{DOCS}/{id}")
}

async fn create(s: &TestService, body: &str) -> Answer {
    s.post(DOCS, body).await
}

async fn read(s: &TestService, id: &str, key: &str) -> Answer {
    keyed(s, "GET", &item_path(id), key).send().await
}

#[tokio::test]
async fn an_item_lives_from_create_to_delete() {
    let s = service().await;
    let body = r#"{"id":"1","pk":"a","n":9007199254740993,"x":1.50,"ü":"é"}"#;
    let created = keyed(&s, "POST", DOCS, r#"["a"]"#).body(body).send().await.expect(201);
    let item = created.json();
    let rid = item["_rid"].as_str().unwrap();
    let container = s.get("/dbs/d/colls/c").await.json();
    assert_eq!(item["_self"], format!("{}docs/{rid}/", container["_self"].as_str().unwrap()));
    assert_eq!(item["_attachments"], "attachments/");
    assert_eq!(item["_ts"], 1_700_000_000);
    assert_eq!(created.header("etag"), item["_etag"].as_str());
    // The text is kept as it was sent.
    assert!(created.body.starts_with(&body.as_bytes()[..body.len() - 1]));

    let found = read(&s, "1", r#"["a"]"#).await.expect(200);
    assert_eq!(found.body, created.body);
    read(&s, "1", r#"["b"]"#).await.expect(404);
    let conflict = create(&s, body).await.expect(409);
    assert!(conflict.message().contains("Entity with the specified id already exists"));

    let replace = keyed(&s, "PUT", &item_path("1"), r#"["a"]"#).body(r#"{"id":"1","pk":"a"}"#);
    let replaced = replace.send().await.expect(200).json();
    assert_eq!(replaced["_rid"], item["_rid"]);
    assert_ne!(replaced["_etag"], item["_etag"]);
    assert_eq!(replaced.get("n"), None);

    let deleted = keyed(&s, "DELETE", &item_path("1"), r#"["a"]"#).send().await.expect(204);
    assert!(deleted.body.is_empty());
    let gone = keyed(&s, "DELETE", &item_path("1"), r#"["a"]"#).send().await.expect(404);
    assert!(gone.message().contains("Resource Not Found"));
    assert_eq!(gone.header("x-ms-substatus"), None);
}

#[tokio::test]
async fn replies_carry_the_headers_clients_need_on_success_and_on_failure() {
    let s = service().await;
    let rid = s.get("/dbs/d/colls/c").await.json()["_rid"].as_str().unwrap().to_owned();
    let created = create(&s, r#"{"id":"1","pk":"a"}"#).await.expect(201);
    let answers = [
        ("created", created),
        ("read", read(&s, "1", r#"["a"]"#).await.expect(200)),
        ("missing", read(&s, "2", r#"["a"]"#).await.expect(404)),
        ("conflict", create(&s, r#"{"id":"1","pk":"a"}"#).await.expect(409)),
        (
            "condition",
            keyed(&s, "DELETE", &item_path("1"), r#"["a"]"#)
                .header("if-match", "\"other\"")
                .send()
                .await
                .expect(412),
        ),
        ("feed", s.get(DOCS).await.expect(200)),
    ];
    for (what, answer) in &answers {
        assert_eq!(answer.header("x-ms-session-token"), Some("0:-1#1"), "{what}");
        assert_eq!(answer.header("x-ms-alt-content-path"), Some("dbs/d/colls/c"), "{what}");
        assert_eq!(answer.header("x-ms-content-path"), Some(rid.as_str()), "{what}");
        assert_eq!(answer.header("x-ms-documentdb-partitionkeyrangeid"), Some("0"), "{what}");
        assert_eq!(answer.header("lsn"), Some("1"), "{what}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{what}");
        for name in ["x-ms-activity-id", "x-ms-request-charge", "x-ms-request-duration-ms"] {
            assert!(answer.header(name).is_some(), "{what} {name}");
        }
    }
    for (what, answer) in &answers[..2] {
        assert_eq!(answer.header("x-ms-item-lsn"), Some("1"), "{what}");
        let charge: f64 = answer.header("x-ms-request-charge").unwrap().parse().unwrap();
        assert!(charge >= 1.0, "{what}");
    }
}

#[tokio::test]
async fn upsert_creates_then_replaces() {
    let s = service().await;
    let upsert = |body: &'static str| {
        s.call("POST", DOCS).header("x-ms-documentdb-is-upsert", "True").body(body)
    };
    // A condition on a missing item is ignored.
    let first = upsert(r#"{"id":"1","pk":"a","n":1}"#).header("if-match", "\"x\"");
    let first = first.send().await.expect(201);
    let etag = first.header("etag").unwrap();
    upsert(r#"{"id":"1","pk":"a","n":2}"#).header("if-match", etag).send().await.expect(200);
    let stale = upsert(r#"{"id":"1","pk":"a","n":3}"#).header("if-match", etag);
    let stale = stale.send().await.expect(412);
    assert!(stale.message().contains("One of the specified pre-condition is not met"));
    assert_eq!(read(&s, "1", r#"["a"]"#).await.json()["n"], 2);
}

#[tokio::test]
async fn conditions_hold_on_every_operation() {
    let s = service().await;
    let etag = create(&s, r#"{"id":"1","pk":"a"}"#).await.header("etag").unwrap().to_owned();
    let bare = etag.trim_matches('"').to_owned();
    let path = item_path("1");
    let call = |method: &'static str| keyed(&s, method, &path, r#"["a"]"#);

    for condition in [&etag, &bare, "*"] {
        let cached = call("GET").header("if-none-match", condition).send().await.expect(304);
        assert!(cached.body.is_empty());
        assert_eq!(cached.header("etag"), Some(etag.as_str()));
    }
    call("GET").header("if-none-match", "\"other\"").send().await.expect(200);

    let patch = r#"{"operations":[{"op":"set","path":"/n","value":1}]}"#;
    for (method, body) in [("PUT", r#"{"id":"1","pk":"a"}"#), ("PATCH", patch), ("DELETE", "")] {
        call(method).header("if-match", "\"other\"").body(body).send().await.expect(412);
        keyed(&s, method, &item_path("2"), r#"["a"]"#)
            .header("if-match", "\"other\"")
            .body(body.replace("\"1\"", "\"2\""))
            .send()
            .await
            .expect(404);
    }
    for unreadable in ["é".as_bytes(), b"\xff"] {
        for (method, body) in [("PUT", r#"{"id":"1","pk":"a"}"#), ("PATCH", patch), ("DELETE", "")]
        {
            call(method).header("if-match", unreadable).body(body).send().await.expect(412);
        }
        call("GET").header("if-none-match", unreadable).send().await.expect(200);
        s.call("DELETE", "/dbs/d").header("if-match", unreadable).send().await.expect(412);
    }
    let replaced = call("PUT").header("if-match", &bare).body(r#"{"id":"1","pk":"a"}"#);
    replaced.send().await.expect(200);
    call("PATCH").header("if-match", "*").body(patch).send().await.expect(200);
    call("DELETE").header("if-match", "*").send().await.expect(204);
}

#[tokio::test]
async fn minimal_answers_differ_only_in_their_body() {
    let s = service().await;
    let minimal = |method: &'static str, path: &str| {
        keyed(&s, method, path, r#"["a"]"#).header("prefer", "return=minimal")
    };
    let path = item_path("1");
    let patch = r#"[{"op":"set","path":"/n","value":1}]"#;
    for (method, path, body, status) in [
        ("POST", DOCS, r#"{"id":"1","pk":"a"}"#, 201),
        ("PUT", path.as_str(), r#"{"id":"1","pk":"a"}"#, 200),
        ("PATCH", path.as_str(), patch, 200),
    ] {
        let answer = minimal(method, path).body(body).send().await.expect(status);
        assert!(answer.body.is_empty(), "{method}");
        assert!(answer.header("etag").is_some(), "{method}");
        assert!(answer.header("x-ms-session-token").is_some(), "{method}");
    }
    assert_eq!(minimal("GET", &path).send().await.expect(200).json()["n"], 1);
    for (body, status) in [(r#"{"id":"1","pk":"a"}"#, 200), (r#"{"id":"2","pk":"a"}"#, 201)] {
        let upsert = minimal("POST", DOCS).header("x-ms-documentdb-is-upsert", "True");
        let answer = upsert.body(body).send().await.expect(status);
        assert!(answer.body.is_empty() && answer.header("etag").is_some());
    }
    minimal("DELETE", &path).send().await.expect(204);
}

#[tokio::test]
async fn another_id_in_the_body_renames() {
    let s = service().await;
    create(&s, r#"{"id":"1","pk":"a"}"#).await.expect(201);
    create(&s, r#"{"id":"3","pk":"a"}"#).await.expect(201);
    let put = |body: &'static str| keyed(&s, "PUT", "/dbs/d/colls/c/docs/1", r#"["a"]"#).body(body);
    put(r#"{"id":"3","pk":"a"}"#).send().await.expect(409);
    assert_eq!(put(r#"{"id":"2","pk":"a"}"#).send().await.expect(200).json()["id"], "2");
    read(&s, "1", r#"["a"]"#).await.expect(404);
    read(&s, "2", r#"["a"]"#).await.expect(200);
}

#[tokio::test]
async fn the_key_of_header_and_body_must_agree() {
    let s = service().await;
    let body = r#"{"id":"1","pk":"a"}"#;
    for key in [r#"["b"]"#, "[null]", "[{}]", "[1]"] {
        let answer = keyed(&s, "POST", DOCS, key).body(body).send().await.expect(400);
        assert_eq!(answer.header("x-ms-substatus"), Some("1001"), "{key}");
        let text = "PartitionKey extracted from document doesn't match the one specified in the";
        assert!(answer.message().contains(text), "{key}");
    }
    for key in ["[]", r#"["a","b"]"#] {
        let answer = keyed(&s, "POST", DOCS, key).body(body).send().await.expect(400);
        assert_eq!(answer.header("x-ms-substatus"), Some("1001"), "{key}");
    }
    for key in ["a", "[[]]", "[", "{}"] {
        let answer = keyed(&s, "POST", DOCS, key).body(body).send().await.expect(400);
        assert_eq!(answer.header("x-ms-substatus"), None, "{key}");
    }
    let answer = s.get(&item_path("1")).await.expect(400);
    assert!(answer.message().contains("PartitionKey value must be supplied"));
    create(&s, body).await.expect(201);
    let moved = keyed(&s, "PUT", &item_path("1"), r#"["a"]"#).body(r#"{"id":"1","pk":"b"}"#);
    assert_eq!(moved.send().await.expect(400).header("x-ms-substatus"), Some("1001"));
}

#[tokio::test]
async fn every_kind_of_key_is_its_own_partition() {
    let s = service().await;
    let cases = [
        (r#"["x"]"#, r#""x""#),
        (r#"[""]"#, r#""""#),
        ("[0]", "0"),
        ("[5.5]", "5.5"),
        ("[true]", "true"),
        ("[false]", "false"),
        ("[null]", "null"),
        (r#"["\u00fc"]"#, "\"ü\""),
    ];
    for (key, value) in cases {
        let body = format!(r#"{{"id":"same","pk":{value}}}"#);
        keyed(&s, "POST", DOCS, key).body(body).send().await.expect(201);
    }
    keyed(&s, "POST", DOCS, "[{}]").body(r#"{"id":"same"}"#).send().await.expect(201);
    for (key, value) in cases {
        let item = read(&s, "same", key).await.expect(200).json();
        assert_eq!(item["pk"], serde_json::from_str::<Value>(value).unwrap(), "{key}");
    }
    assert_eq!(read(&s, "same", "[{}]").await.expect(200).json().get("pk"), None);
    assert_eq!(s.get(DOCS).await.json()["_count"], 9);
}

#[tokio::test]
async fn bad_items_are_refused_and_nothing_is_kept() {
    let s = service().await;
    let missing = create(&s, r#"{"pk":"a"}"#).await.expect(400);
    let text =
        "The input content is invalid because the required properties - 'id; ' - are missing";
    assert!(missing.message().contains(text), "{}", missing.message());
    for body in [
        "",
        "nonsense",
        "[]",
        "7",
        r#"{"id":7,"pk":"a"}"#,
        r#"{"id":"","pk":"a"}"#,
        r#"{"id":"1","pk":"a","ttl":0}"#,
        r#"{"id":"1","pk":"a","ttl":null}"#,
        r#"{"id":"1","pk":"a","ttl":-2}"#,
        r#"{"id":"1","pk":"a"} trailing"#,
    ] {
        create(&s, body).await.expect(400);
    }
    s.call("POST", DOCS).body(b"{\"id\":\"\xff\"}".to_vec()).send().await.expect(400);
    s.call("POST", DOCS).body(b"\x80\xEF\xFF".to_vec()).send().await.expect(400);
    s.call("POST", DOCS).body(b"\x81\x00".to_vec()).send().await.expect(400);
    let nested = |n: usize| format!(r#"{{"id":"1","a":{}0{}}}"#, "[".repeat(n), "]".repeat(n));
    create(&s, &nested(128)).await.expect(400);
    let id = "x".repeat(1024);
    create(&s, &format!(r#"{{"id":"{id}"}}"#)).await.expect(400);
    let large = format!(r#"{{"id":"1","pk":"a","x":"{}"}}"#, "x".repeat(2 * 1024 * 1024));
    let answer = create(&s, &large).await.expect(413);
    assert_eq!(answer.json()["code"], "RequestEntityTooLarge");
    let text = "Message: {\"Errors\":[\"Request size is too large\"]}\r\n";
    assert!(answer.message().contains(text), "{}", answer.message());
    assert_eq!(s.get(DOCS).await.json()["_count"], 0);
    create(&s, &nested(127)).await.expect(201);
}

#[tokio::test]
async fn an_id_has_up_to_1023_bytes_however_it_is_written() {
    let s = service().await;
    let (longest, longer) = ("x".repeat(1023), "x".repeat(1024));
    let item = |id: &str| json!({"id": id, "pk": "a"}).to_string();
    create(&s, &item(&longest)).await.expect(201);
    create(&s, &item("1")).await.expect(201);
    let upsert = s.call("POST", DOCS).header("x-ms-documentdb-is-upsert", "true");
    let replace = s.call("PUT", &item_path("1"));
    let batch = |is_atomic: &str| {
        let operations = json!([{"operationType": "Create", "partitionKey": r#"["a"]"#,
            "resourceBody": {"id": longer, "pk": "a"}}]);
        let call = s.call("POST", DOCS).header("x-ms-cosmos-is-batch-request", "True");
        let call = call.header("x-ms-cosmos-batch-atomic", is_atomic).header(PK, r#"["a"]"#);
        call.body(operations.to_string()).send()
    };
    for call in [s.call("POST", DOCS), upsert, replace] {
        let answer = call.header(PK, r#"["a"]"#).body(item(&longer)).send().await.expect(400);
        assert!(answer.message().contains("longer than 1023 bytes"), "{}", answer.message());
    }
    for is_atomic in ["True", "False"] {
        assert_eq!(batch(is_atomic).await.expect(207).json()[0]["statusCode"], 400);
    }
    // Items of other APIs may have longer ones, and are read and patched like all others.
    let body = testkit::harness::body(&item(&longer));
    let container = s.harness.engine.catalog();
    let database = container.database("d").expect("a database").rid;
    let container = container.container(database, "c").expect("a container").clone();
    let written = s.harness.write(&container, "a", engine::ops::ItemOp::Create { body });
    written.await.expect("an item");
    read(&s, &longer, r#"["a"]"#).await.expect(200);
    let patch = r#"{"operations":[{"op":"add","path":"/n","value":1}]}"#;
    keyed(&s, "PATCH", &item_path(&longer), r#"["a"]"#).body(patch).send().await.expect(200);
    keyed(&s, "DELETE", &item_path(&longer), r#"["a"]"#).send().await.expect(204);
}

#[tokio::test]
async fn triggers_that_are_not_there_are_refused_rather_than_skipped() {
    let s = service().await;
    for name in ["x-ms-documentdb-pre-trigger-include", "x-ms-documentdb-post-trigger-include"] {
        let call = s.call("POST", DOCS).header(name, "t").body(r#"{"id":"1","pk":"a"}"#);
        assert!(call.send().await.expect(400).message().contains("does not exist"));
    }
    assert_eq!(s.get(DOCS).await.json()["_count"], 0);
}

#[tokio::test]
async fn binary_bodies_go_in_and_out() {
    let s = service().await;
    let formats = "x-ms-cosmos-supported-serialization-formats";
    // {"id":"i 1","pk":"ü"}
    let body = b"\x80\xED\x0D\x02\x82id\x83i 1\x82pk\x82\xC3\xBC".to_vec();
    let call = keyed(&s, "POST", DOCS, r#"["\u00fc"]"#).header(formats, "CosmosBinary");
    let created = call.body(body).send().await.expect(201);
    assert_eq!(created.body[0], 0x80);
    assert_eq!(created.header("content-type"), Some("application/json"));
    let item = decode(&created.body, Limits::ITEM).unwrap();
    assert_eq!(item.field("id").and_then(model::Value::as_str), Some("i 1"));
    assert_eq!(item.field("_etag").and_then(model::Value::as_str), created.header("etag"));
    let path = item_path("i%201");
    let text = read(&s, "i%201", r#"["\u00fc"]"#).await.expect(200);
    assert!(text.body.starts_with("{\"id\":\"i 1\",\"pk\":\"ü\",\"_rid\"".as_bytes()));
    let either = keyed(&s, "GET", &path, r#"["\u00fc"]"#).header(formats, "JsonText,CosmosBinary");
    assert_eq!(either.send().await.expect(200).body, text.body);
    let binary = keyed(&s, "GET", &path, r#"["\u00fc"]"#).header(formats, "CosmosBinary");
    assert_eq!(binary.send().await.expect(200).body, created.body);
    // {"id":"i 1","pk":"ü","n":7}
    let body = b"\x80\xED\x10\x03\x82id\x83i 1\x82pk\x82\xC3\xBC\x81n\x07".to_vec();
    let upsert =
        keyed(&s, "POST", DOCS, r#"["\u00fc"]"#).header("x-ms-documentdb-is-upsert", "True");
    let replace = keyed(&s, "PUT", &path, r#"["\u00fc"]"#);
    for call in [upsert, replace] {
        let call = call.header(formats, "CosmosBinary").body(body.clone());
        let written = decode(&call.send().await.expect(200).body, Limits::ITEM).unwrap();
        assert_eq!(written.field("n").and_then(model::Value::as_i64), Some(7));
        let text = read(&s, "i%201", r#"["\u00fc"]"#).await.expect(200).json();
        assert_eq!((&text["n"], &text["pk"]), (&json!(7), &json!("ü")));
        let reset = keyed(&s, "PUT", &path, r#"["\u00fc"]"#).body(r#"{"id":"i 1","pk":"ü"}"#);
        reset.send().await.expect(200);
    }
    // Errors are always text.
    let missing = keyed(&s, "GET", &item_path("2"), r#"["x"]"#).header(formats, "CosmosBinary");
    assert_eq!(missing.send().await.expect(404).json()["code"], "NotFound");
}

#[tokio::test]
async fn patches_change_parts() {
    let s = service().await;
    create(&s, r#"{"id":"1","pk":"a","n":1,"list":[1],"o":{"x":1}}"#).await.expect(201);
    let path = item_path("1");
    let patch = |body: &str| keyed(&s, "PATCH", &path, r#"["a"]"#).body(body);
    let operations = json!({"operations": [
        {"op": "add", "path": "/list/-", "value": 2},
        {"op": "set", "path": "/o/y", "value": {"z": null}},
        {"op": "replace", "path": "/o/x", "value": "new"},
        {"op": "incr", "path": "/n", "value": 4},
        {"op": "move", "from": "/o/y", "path": "/moved"},
        {"op": "remove", "path": "/list/0"},
    ]});
    let patched = patch(&operations.to_string()).send().await.expect(200).json();
    assert_eq!(patched["list"], json!([2]));
    assert_eq!(patched["o"], json!({"x": "new"}));
    assert_eq!(patched["moved"], json!({"z": null}));
    assert_eq!(patched["n"], 5);

    // All or nothing.
    let half = r#"[{"op":"set","path":"/n","value":9},{"op":"remove","path":"/none"}]"#;
    let refused = patch(half).send().await.expect(400);
    assert!(refused.message().contains("For Operation(2): Node(/none) to be removed is absent"));
    let orphan = r#"[{"op":"add","path":"/nonExistentParent/Child","value":1}]"#;
    let text = "For Operation(1): Add Operation can only create a child object of an existing \
                node(array or object) and cannot create path recursively, no path found beyond: \
                'nonExistentParent'. Learn more: https://aka.ms/cosmosdbpatchdocs";
    assert!(patch(orphan).send().await.expect(400).message().contains(text));
    assert_eq!(read(&s, "1", r#"["a"]"#).await.json()["n"], 5);

    let conditional = |condition: &str| {
        json!({"condition": condition, "operations": [{"op": "incr", "path": "/n", "value": 1}]})
            .to_string()
    };
    let unmet = patch(&conditional("from c where c.n = 3")).send().await.expect(412);
    assert_eq!(unmet.header("x-ms-substatus"), Some("1110"));
    patch(&conditional("from c where c.n = 5")).send().await.expect(200);
    patch(&conditional("from c where c.n =")).send().await.expect(400);
    for path in ["/id", "/pk", "/_ts"] {
        let body = json!([{"op": "set", "path": path, "value": "b"}]);
        patch(&body.to_string()).send().await.expect(400);
    }
    keyed(&s, "PATCH", &item_path("2"), r#"["a"]"#)
        .body(r#"[{"op":"set","path":"/n","value":1}]"#)
        .send()
        .await
        .expect(404);
    let wrong_type = patch(half).header("content-type", "text/xml");
    wrong_type.send().await.expect(400);
}

#[tokio::test]
async fn a_patch_can_not_make_an_item_too_large_or_too_deep() {
    let s = service().await;
    let text = "x".repeat(1_500_000);
    let depth = 100;
    let body = format!(
        r#"{{"id":"1","pk":"a","x":"{text}","d":{}{}}}"#,
        r#"{"d":"#.repeat(depth),
        "1".to_owned() + &"}".repeat(depth)
    );
    create(&s, &body).await.expect(201);
    let patch = |body: String| keyed(&s, "PATCH", "/dbs/d/colls/c/docs/1", r#"["a"]"#).body(body);
    let larger = format!(r#"[{{"op":"set","path":"/y","value":"{text}"}}]"#);
    patch(larger).send().await.expect(413);
    let path = "/d".repeat(depth);
    let deeper = format!(
        r#"[{{"op":"set","path":"{path}","value":{}1{}}}]"#,
        "[".repeat(depth),
        "]".repeat(depth)
    );
    patch(deeper).send().await.expect(400);
    read(&s, "1", r#"["a"]"#).await.expect(200);
}

#[tokio::test]
async fn one_logical_partition_is_deleted_as_a_whole() {
    let s = service().await;
    for (id, pk) in [("1", "a"), ("2", "a"), ("1", "b")] {
        create(&s, &format!(r#"{{"id":"{id}","pk":"{pk}"}}"#)).await.expect(201);
    }
    let path = "/dbs/d/colls/c/operations/partitionkeydelete";
    s.call("POST", path).send().await.expect(400);
    keyed(&s, "POST", path, r#"["a"]"#).send().await.expect(200);
    read(&s, "1", r#"["a"]"#).await.expect(404);
    read(&s, "2", r#"["a"]"#).await.expect(404);
    read(&s, "1", r#"["b"]"#).await.expect(200);
}

#[tokio::test]
async fn deleting_an_empty_logical_partition_costs_something_too() {
    let s = service().await;
    let path = "/dbs/d/colls/c/operations/partitionkeydelete";
    let answer = keyed(&s, "POST", path, r#"["nothing"]"#).send().await.expect(200);
    let charge: f64 = answer.header("x-ms-request-charge").unwrap().parse().unwrap();
    assert!(charge > 0.0);
}

#[tokio::test]
async fn session_tokens_are_honoured() {
    let s = service().await;
    create(&s, r#"{"id":"1","pk":"a"}"#).await.expect(201);
    let get = |token: &str| {
        keyed(&s, "GET", "/dbs/d/colls/c/docs/1", r#"["a"]"#).header("x-ms-session-token", token)
    };
    for token in ["0:-1#1", "0:-1#1,7:-1#99", "0:0#1#11=-1"] {
        assert_eq!(
            get(token).send().await.expect(200).header("x-ms-session-token"),
            Some("0:-1#1")
        );
    }
    let ahead = get("0:-1#2").send().await.expect(404);
    assert_eq!(ahead.header("x-ms-substatus"), Some("1002"));
    assert!(ahead.message().contains("The read session is not available"));
    get("garbage").send().await.expect(400);
    get("0:-1#2").header("x-ms-consistency-level", "Eventual").send().await.expect(200);
    // The token of a batch that goes ahead of the container would be a client's mistake too.
    let feed = s.call("GET", DOCS).header("x-ms-session-token", "0:-1#2");
    assert_eq!(feed.send().await.expect(404).header("x-ms-substatus"), Some("1002"));
}

#[tokio::test]
async fn items_are_found_by_resource_id_too() {
    let s = service().await;
    let item = create(&s, r#"{"id":"1","pk":"a"}"#).await.expect(201).json();
    let path = format!("/{}", item["_self"].as_str().unwrap());
    assert_eq!(keyed(&s, "GET", &path, r#"["a"]"#).send().await.expect(200).json(), item);
    let other = path.replace(item["_rid"].as_str().unwrap(), "1");
    let mixed = keyed(&s, "GET", &other, r#"["a"]"#).send().await.expect(400);
    assert!(mixed.message().contains("Failed to parse the value '1' as ResourceId"));
    keyed(&s, "DELETE", &path, r#"["a"]"#).send().await.expect(204);
    keyed(&s, "GET", &path, r#"["a"]"#).send().await.expect(404);
}

#[tokio::test]
async fn hierarchical_keys_have_all_their_levels() {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let body = json!({"id": "c", "partitionKey":
        {"paths": ["/t", "/u"], "kind": "MultiHash", "version": 2}});
    s.post("/dbs/d/colls", &body.to_string()).await.expect(201);
    for (id, key, body) in [
        ("1", r#"["a",1]"#, r#"{"id":"1","t":"a","u":1}"#),
        ("2", r#"["a",{}]"#, r#"{"id":"2","t":"a"}"#),
        ("3", r#"["a",null]"#, r#"{"id":"3","t":"a","u":null}"#),
        ("4", r#"["b",1]"#, r#"{"id":"4","t":"b","u":1}"#),
    ] {
        keyed(&s, "POST", DOCS, key).body(body).send().await.expect(201);
        read(&s, id, key).await.expect(200);
    }
    let partial = read(&s, "1", r#"["a"]"#).await.expect(400);
    assert_eq!(partial.header("x-ms-substatus"), Some("1001"));
    let prefix = keyed(&s, "GET", DOCS, r#"["a"]"#).send().await.expect(200).json();
    assert_eq!(prefix["_count"], 3);
    let prefix = keyed(&s, "POST", DOCS, r#"["a"]"#).header("x-ms-documentdb-isquery", "true");
    let rows = prefix.body(r#"{"query":"SELECT * FROM c"}"#).send().await.expect(200).json();
    assert_eq!(rows["_count"], 3);
    let path = "/dbs/d/colls/c/operations/partitionkeydelete";
    keyed(&s, "POST", path, r#"["a"]"#).send().await.expect(400);
}

#[tokio::test]
async fn a_container_without_a_key_takes_items_without_one() {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let call = s.call("POST", "/dbs/d/colls").header("x-ms-version", "2018-06-18");
    call.body(r#"{"id":"c"}"#).send().await.expect(201);
    for (id, key) in [("1", "[]"), ("2", "[{}]")] {
        let body = format!(r#"{{"id":"{id}"}}"#);
        keyed(&s, "POST", DOCS, key).body(body).send().await.expect(201);
        for key in ["[]", "[{}]"] {
            read(&s, id, key).await.expect(200);
        }
    }
    create(&s, r#"{"id":"3"}"#).await.expect(201);
    s.get(&item_path("3")).await.expect(200);
    s.call("DELETE", &item_path("3")).send().await.expect(204);
    assert_eq!(
        s.query(DOCS, r#"{"query":"SELECT * FROM c"}"#).await.expect(200).json()["_count"],
        2
    );
}

#[tokio::test]
async fn any_id_that_can_be_created_can_be_addressed() {
    let s = service().await;
    for (id, sent) in [
        ("a b", "a%20b"),
        ("trailing ", "trailing%20"),
        ("a%20b", "a%2520b"),
        ("a?b c", "a?b%20c"),
        ("a?b", "a%3Fb"),
        ("a#b", "a%23b"),
        ("tab\there", "tab%09here"),
        ("漢", "%E6%BC%A2"),
        ("a+b,c=d:e@f", "a+b,c=d:e@f"),
    ] {
        create(&s, &json!({"id": id, "pk": "a"}).to_string()).await.expect(201);
        assert_eq!(read(&s, sent, r#"["a"]"#).await.expect(200).json()["id"], id);
        keyed(&s, "DELETE", &item_path(sent), r#"["a"]"#).send().await.expect(204);
    }
}
