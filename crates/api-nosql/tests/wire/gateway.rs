//! The stages of every request: address, caller, headers, limits, common reply headers.

use crate::support::{Answer, TestService, account};
use account::{Key, KeyRing};
use api_nosql::Consistency;
use serde_json::json;

#[tokio::test]
async fn the_account_document_points_back_to_where_it_was_asked() {
    let s = TestService::new();
    let answer = s.get("/").await.expect(200);
    for figure in ["x-ms-max-media-storage-usage-mb", "x-ms-media-storage-usage-mb"] {
        assert_eq!(answer.header(figure), Some("0"), "{figure}");
    }
    let document = answer.json();
    assert_eq!(document["id"], "planisphere");
    let location =
        json!([{"name": "Local", "databaseAccountEndpoint": "http://example.test:8081/"}]);
    assert_eq!(document["writableLocations"], location);
    assert_eq!(document["readableLocations"], location);
    assert_eq!(document["userConsistencyPolicy"]["defaultConsistencyLevel"], "Session");
    assert_eq!(document["enableMultipleWriteLocations"], false);
    let configuration = document["queryEngineConfiguration"].as_str().unwrap();
    let configuration: serde_json::Value = serde_json::from_str(configuration).unwrap();
    assert_eq!(configuration["maxSqlQueryInputLength"], model::limits::QUERY_TEXT_BYTES_MAX);
    for name in ["_self", "_rid", "readPolicy", "userReplicationPolicy"] {
        assert!(document.get(name).is_some(), "{name}");
    }
}

#[tokio::test]
async fn a_public_endpoint_wins_over_the_host_and_localhost_is_no_name() {
    let mut account = account();
    account.name = "localhost".into();
    account.public_endpoint = Some("https://db.example".into());
    account.consistency = Consistency::Strong;
    account.region = "West US".into();
    let s = TestService::with_account(account);
    let document = s.get("/").await.expect(200).json();
    assert_eq!(document["id"], "planisphere");
    let location = json!([{"name": "West US", "databaseAccountEndpoint": "https://db.example/"}]);
    assert_eq!(document["writableLocations"], location);
    assert_eq!(document["readableLocations"], location);
    assert_eq!(document["userConsistencyPolicy"]["defaultConsistencyLevel"], "Strong");
}

#[track_caller]
fn assert_common_headers(answer: &Answer, path: &str) {
    for name in [
        "x-ms-activity-id",
        "x-ms-request-charge",
        "x-ms-request-duration-ms",
        "x-ms-schemaversion",
        "x-ms-serviceversion",
        "x-ms-gatewayversion",
        "x-ms-last-state-change-utc",
        "content-location",
    ] {
        assert!(answer.header(name).is_some_and(|v| !v.is_empty()), "{path} {name}");
    }
    assert_eq!(answer.header("content-type"), Some("application/json"), "{path}");
}

#[tokio::test]
async fn refusals_have_the_common_headers_too() {
    let s = TestService::new().with_container().await;
    let docs = "/dbs/d/colls/c/docs";
    let post = || s.call("POST", docs).body(r#"{"id":"1","pk":"a"}"#);
    let too_large = format!(r#"{{"id":"1","pk":"{}"}}"#, "x".repeat(2 << 20));
    let far_too_large = " ".repeat(3 << 20);
    for (call, status) in [
        (post().key(None), 401),
        (post().key(Some(Key::from_bytes(&[9; 64]))), 401),
        (post().key(Some(Key::from_bytes(&[3; 64]))), 403),
        (post().skew_seconds(-901), 403),
        (s.call("DELETE", docs), 405),
        (s.call("POST", docs).body(too_large), 413),
        (s.call("POST", docs).body(far_too_large), 413),
    ] {
        let answer = call.send().await.expect(status);
        assert_common_headers(&answer, docs);
        assert!(answer.json()["code"].is_string(), "{status}");
    }
    // A reply names the container if the request got as far as resolving it.
    let answer = s.call("DELETE", docs).send().await.expect(405);
    assert_eq!(answer.header("x-ms-alt-content-path"), Some("dbs/d/colls/c"));
}

#[tokio::test]
async fn every_reply_has_the_common_headers() {
    let s = TestService::new().with_container().await;
    for (path, status) in [("/dbs/d/colls/c", 200), ("/dbs/d/colls/none", 404), ("/nonsense", 400)]
    {
        assert_common_headers(&s.get(path).await.expect(status), path);
    }
    let answer = s.get("/dbs/d/colls/c").await;
    let database_rid = s.get("/dbs/d").await.json()["_rid"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("x-ms-alt-content-path"), Some("dbs/d"));
    assert_eq!(answer.header("x-ms-content-path"), Some(database_rid.as_str()));
    assert_eq!(answer.header("x-ms-session-token"), Some("0:-1#0"));
    let location = "http://example.test:8081/dbs/d/colls/c";
    assert_eq!(answer.header("content-location"), Some(location));
    let item = s.get("/dbs/d/colls/c/docs/missing").await;
    assert_eq!(item.header("x-ms-alt-content-path"), Some("dbs/d/colls/c"));
    assert_eq!(item.header("x-ms-content-path"), answer.json()["_rid"].as_str());
}

#[tokio::test]
async fn the_activity_id_is_echoed_also_in_errors() {
    let s = TestService::new();
    let id = "11111111-2222-3333-4444-555555555555";
    let answer = s.call("GET", "/dbs/none").header("x-ms-activity-id", id).send().await.expect(404);
    assert_eq!(answer.header("x-ms-activity-id"), Some(id));
    assert!(answer.message().ends_with(&format!("ActivityId: {id}")), "{}", answer.message());
}

#[tokio::test]
async fn callers_without_a_good_signature_are_refused() {
    let s = TestService::new();
    let missing = s.call("GET", "/").key(None).send().await.expect(401);
    assert_eq!(missing.json()["code"], "Unauthorized");
    let wrong = s.call("GET", "/dbs").key(Some(Key::from_bytes(&[9; 64]))).send().await.expect(401);
    assert!(wrong.message().contains("Server used the following payload to sign: 'get\ndbs\n\n"));
    let stale = s.call("GET", "/dbs").skew_seconds(-901).send().await.expect(403);
    assert!(stale.message().contains("is not valid at the current time"));
    s.call("GET", "/dbs").skew_seconds(-900).send().await.expect(200);
}

#[tokio::test]
async fn a_read_only_key_reads_and_queries_but_does_not_write() {
    let s = TestService::new().with_container().await;
    let key = || Some(Key::from_bytes(&[3; 64]));
    s.call("GET", "/dbs/d").key(key()).send().await.expect(200);
    let create = s.call("POST", "/dbs").body(r#"{"id":"x"}"#).key(key()).send().await.expect(403);
    assert_eq!(create.json()["code"], "Forbidden");
    s.call("DELETE", "/dbs/d").key(key()).send().await.expect(403);
    s.call("PUT", "/dbs/d/colls/c").key(key()).send().await.expect(403);
    s.call("GET", "/dbs/d").key(Some(Key::from_bytes(&[2; 64]))).send().await.expect(200);
}

#[tokio::test]
async fn no_header_makes_a_write_look_like_a_read() {
    let s = TestService::new().with_container().await;
    let item = "/dbs/d/colls/c/docs/1";
    s.post("/dbs/d/colls/c/docs", r#"{"id":"1","pk":"a"}"#).await.expect(201);
    let offer = s.get("/offers").await.json()["Offers"][0]["_self"].as_str().unwrap().to_owned();
    let offer = format!("/{offer}");
    let tricks = [
        ("x-ms-cosmos-is-query-plan-request", "True"),
        ("x-ms-documentdb-isquery", "True"),
        ("content-type", "application/query+json"),
    ];
    let container = r#"{"id":"new","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#;
    let writes = [
        ("POST", "/dbs", r#"{"id":"new"}"#),
        ("POST", "/dbs/d/colls", container),
        ("POST", "/dbs/d/colls/c/docs", r#"{"id":"new","pk":"a"}"#),
        ("POST", "/dbs/d/colls/c/operations/partitionkeydelete", ""),
        ("PUT", item, r#"{"id":"1","pk":"a","changed":true}"#),
        ("PATCH", item, r#"[{"op":"set","path":"/changed","value":true}]"#),
        ("DELETE", item, ""),
        ("PUT", "/dbs/d/colls/c", r#"{"id":"c","defaultTtl":5}"#),
        ("DELETE", "/dbs/d/colls/c", ""),
        ("DELETE", "/dbs/d", ""),
        ("PUT", offer.as_str(), r#"{"content":{"offerThroughput":500}}"#),
    ];
    let before = s.get("/dbs/d/colls/c/docs").await.expect(200).body;
    for (name, value) in tricks {
        for (method, path, body) in writes {
            let call = s.call(method, path).key(Some(Key::from_bytes(&[3; 64])));
            let call = call.header("x-ms-documentdb-partitionkey", r#"["a"]"#).body(body);
            let status = call.header(name, value).send().await.status;
            // The header makes it a query, but its body holds none.
            assert!(matches!(status, 400 | 403), "{method} {path} {name}: {status}");
        }
    }
    assert_eq!(s.get("/dbs").await.json()["_count"], 1);
    assert_eq!(s.get("/dbs/d/colls").await.json()["_count"], 1);
    assert_eq!(s.get("/dbs/d/colls/c/docs").await.body, before);
    assert_eq!(s.get("/offers").await.json()["Offers"][0]["content"]["offerThroughput"], 400);
}

#[tokio::test]
async fn a_read_only_key_may_query_every_feed() {
    let s = TestService::new().with_container().await;
    let all = r#"{"query":"SELECT * FROM c"}"#;
    let docs = "/dbs/d/colls/c/docs";
    for path in ["/dbs", "/dbs/d/colls", docs, "/offers", "/dbs/d/colls/c/conflicts"] {
        let call = s.call("POST", path).key(Some(Key::from_bytes(&[3; 64])));
        let call = call.header("content-type", "application/query+json").body(all);
        let call = call.header("x-ms-documentdb-query-enablecrosspartition", "true");
        call.send().await.expect(200);
    }
    let plan = s.call("POST", docs).key(Some(Key::from_bytes(&[3; 64]))).body(all);
    plan.header("x-ms-cosmos-is-query-plan-request", "True").send().await.expect(200);
}

#[tokio::test]
async fn rotated_keys_replace_the_old_ones_at_once() {
    let s = TestService::new();
    let new = Key::from_bytes(&[7; 64]);
    s.service.rotate_keys(&KeyRing::single(new.clone()));
    s.get("/dbs").await.expect(401);
    s.call("GET", "/dbs").key(Some(new)).send().await.expect(200);
}

#[tokio::test]
async fn bad_headers_are_refused_before_anything_happens() {
    let s = TestService::new();
    for (name, value) in [
        ("x-ms-max-item-count", "-2"),
        ("x-ms-version", "2015-01-01"),
        ("x-ms-consistency-level", "Strong"),
        ("x-ms-cosmos-priority-level", "urgent"),
    ] {
        let call = s.call("POST", "/dbs").header(name, value).body(r#"{"id":"x"}"#);
        call.send().await.expect(400);
    }
    s.get("/dbs/x").await.expect(404);
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_and_the_service_goes_on() {
    let s = TestService::new();
    let answer = s.post("/dbs", &" ".repeat(3 << 20)).await.expect(413);
    assert_eq!(answer.json()["code"], "RequestEntityTooLarge");
    s.get("/dbs").await.expect(200);
}

#[tokio::test]
async fn a_head_beyond_the_limit_is_refused_in_the_shape_of_other_errors() {
    let s = TestService::new();
    let with = |length: usize| s.call("GET", "/dbs").header("x-big", "a".repeat(length));
    with(60_000).send().await.expect(200);
    let answer = with(66_000).send().await.expect(431);
    assert_eq!(answer.json()["code"], "RequestHeaderFieldsTooLarge");
    assert!(answer.header("x-ms-activity-id").is_some());
}

#[tokio::test]
async fn methods_that_a_resource_lacks_are_405_and_missing_types_are_said_to_be() {
    let s = TestService::new().with_container().await;
    for (method, path) in
        [("PUT", "/dbs/d"), ("PATCH", "/dbs/d/colls/c"), ("DELETE", "/dbs"), ("POST", "/")]
    {
        let answer = s.call(method, path).body("{}").send().await.expect(405);
        assert_eq!(answer.json()["code"], "MethodNotAllowed", "{method} {path}");
    }
    let answer = s.post("/dbs/d/colls/c/schemas", "{}").await.expect(400);
    assert!(answer.message().contains("does not support schemas yet"), "{}", answer.message());
    let answer = s.get("/dbs/d/colls/c/other").await.expect(400);
    assert!(answer.message().starts_with("Server could not parse the Url."));
}

#[tokio::test]
async fn conflicts_are_an_empty_feed() {
    let s = TestService::new().with_container().await;
    let answer = s.get("/dbs/d/colls/c/conflicts").await.expect(200);
    assert_eq!(answer.json()["Conflicts"], json!([]));
    assert_eq!(answer.json()["_count"], 0);
    s.get("/dbs/d/colls/c/conflicts/x").await.expect(404);
    s.call("DELETE", "/dbs/d/colls/c/conflicts/x").send().await.expect(404);
    s.call("PUT", "/dbs/d/colls/c/conflicts/x").body("{}").send().await.expect(405);
    let query = |name: &str, value: &str| {
        s.call("POST", "/dbs/d/colls/c/conflicts")
            .header("content-type", "application/query+json")
            .header(name, value)
            .body(r#"{"query":"SELECT * FROM c"}"#)
            .send()
    };
    let all = query("x-ms-max-item-count", "1").await.expect(400);
    assert!(all.message().contains("Cross partition query is required but disabled"));
    query("x-ms-documentdb-query-enablecrosspartition", "True").await.expect(200);
    query("x-ms-documentdb-partitionkey", r#"["a"]"#).await.expect(200);
}

#[tokio::test]
async fn a_container_that_is_not_the_one_meant_is_refused() {
    let s = TestService::new().with_container().await;
    let rid = s.get("/dbs/d/colls/c").await.json()["_rid"].as_str().unwrap().to_owned();
    let with = |rid: &str| {
        s.call("GET", "/dbs/d/colls/c/pkranges")
            .header("x-ms-cosmos-intended-collection-rid", rid)
            .send()
    };
    with(&rid).await.expect(200);
    with("").await.expect(200);
    s.call("DELETE", "/dbs/d/colls/c").send().await.expect(204);
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    s.post("/dbs/d/colls", body).await.expect(201);
    let answer = with(&rid).await.expect(400);
    assert_eq!(answer.header("x-ms-substatus"), Some("1024"));
    let unreadable = s.call("GET", "/dbs/d/colls/c/pkranges");
    let unreadable = unreadable.header("x-ms-cosmos-intended-collection-rid", b"\xff\xfe");
    let answer = unreadable.send().await.expect(400);
    assert_eq!(answer.header("x-ms-substatus"), Some("1024"));
}
