//! What the .NET SDKs and their tests read of replies, beside [`crate::older_clients`].

use serde_json::{Value, json};

use crate::support::{Answer, TestService};

const COLLS: &str = "/dbs/d/colls";
const DOCS: &str = "/dbs/d/colls/c/docs";

async fn service() -> TestService {
    TestService::new().with_container().await
}

/// Creates a container from its description.
async fn make(s: &TestService, description: &Value) -> Answer {
    s.post(COLLS, &description.to_string()).await
}

fn keyed(id: &str) -> Value {
    json!({"id": id, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}})
}

/// A description with one more member.
fn with(mut description: Value, name: &str, value: Value) -> Value {
    description[name] = value;
    description
}

#[tokio::test]
async fn clients_may_try_queries_without_a_plan() {
    let s = service().await;
    let account = s.get("/").await.expect(200).json();
    let engine = account["queryEngineConfiguration"].as_str().unwrap();
    let engine: Value = serde_json::from_str(engine).unwrap();
    assert_eq!(engine["clientDisableOptimisticDirectExecution"], false);
}

#[tokio::test]
async fn of_several_activity_ids_the_first_comes_back() {
    let s = service().await;
    let first = "3fa85f64-5717-4562-b3fc-2c963f66afa6";
    for (sent, answered) in [
        (first.to_owned(), first),
        (format!("{first}, 00000000-5717-4562-b3fc-2c963f66afa6"), first),
        (format!(" {first} ,x"), first),
    ] {
        let read = s.call("GET", COLLS).header("x-ms-activity-id", &sent).send().await;
        assert_eq!(read.expect(200).header("x-ms-activity-id"), Some(answered), "{sent}");
    }
    for unusable in ["", ",", &"x".repeat(129), "ü"] {
        let read = s.call("GET", COLLS).header("x-ms-activity-id", unusable).send().await;
        let answered = read.expect(200).header("x-ms-activity-id").unwrap().to_owned();
        assert_eq!(answered.len(), first.len(), "{unusable}");
    }
}

#[tokio::test]
async fn an_empty_consistency_level_is_none() {
    let s = service().await;
    s.post(DOCS, r#"{"id":"1","pk":"a"}"#).await.expect(201);
    let read = s.call("GET", DOCS).header("x-ms-consistency-level", "");
    assert_eq!(read.send().await.expect(200).json()["_count"], 1);
    s.call("GET", DOCS).header("x-ms-consistency-level", "Any").send().await.expect(400);
}

#[tokio::test]
async fn dates_are_read_in_any_case() {
    use account::Key;
    use hmac::{Hmac, KeyInit, Mac};
    let s = service().await;
    let seconds = std::time::Duration::from_secs(testkit::harness::START_SECONDS);
    let date = httpdate::fmt_http_date(std::time::UNIX_EPOCH + seconds).to_lowercase();
    let key = Key::well_known();
    let read = |date: String| {
        use base64::Engine as _;
        let base64 = base64::engine::general_purpose::STANDARD;
        let key = base64.decode(key.expose()).unwrap();
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).unwrap();
        mac.update(format!("get\ndbs\n\n{}\n\n", date.to_lowercase()).as_bytes());
        let signature = base64.encode(mac.finalize().into_bytes());
        let signed = percent_encoding::utf8_percent_encode(
            &format!("type=master&ver=1.0&sig={signature}"),
            percent_encoding::NON_ALPHANUMERIC,
        )
        .to_string();
        let call = s.call("GET", "/dbs").key(None).header("x-ms-date", date);
        call.header("authorization", signed).send()
    };
    read(date.clone()).await.expect(200);
    read(date.to_uppercase()).await.expect(200);
    read(date.replace("gmt", "cet")).await.expect(401);
    read("gmt".into()).await.expect(401);
    read("é".into()).await.expect(401);
}

#[tokio::test]
async fn replies_in_a_container_say_what_it_holds() {
    let s = service().await;
    let created = s.post(DOCS, r#"{"id":"1","pk":"a"}"#).await.expect(201);
    let script = r#"{"id":"s","body":"function () {}"}"#;
    let trigger =
        r#"{"id":"t","body":"function () {}","triggerType":"Pre","triggerOperation":"All"}"#;
    let item =
        s.call("GET", &format!("{DOCS}/1")).header("x-ms-documentdb-partitionkey", "[\"a\"]");
    let answers = [
        created,
        item.send().await.expect(200),
        s.get(DOCS).await.expect(200),
        s.post("/dbs/d/colls/c/sprocs", script).await.expect(201),
        s.post("/dbs/d/colls/c/udfs", script).await.expect(201),
        s.post("/dbs/d/colls/c/triggers", trigger).await.expect(201),
        s.get("/dbs/d/colls/c/triggers/t").await.expect(200),
    ];
    for answer in answers {
        assert_eq!(
            answer.header("x-ms-resource-quota"),
            Some(
                "documentSize=10240;documentsSize=10485760;documentsCount=-1;collectionSize=10485760;"
            )
        );
        let usage = answer.header("x-ms-resource-usage").unwrap();
        assert_eq!(usage, "documentSize=10240;documentsSize=1;documentsCount=1;collectionSize=1;");
        assert_eq!(answer.header("x-ms-current-write-quorum"), Some("1"));
        assert_eq!(answer.header("x-ms-current-replica-set-size"), Some("1"));
    }
    let second = s.post(DOCS, r#"{"id":"2","pk":"a"}"#).await.expect(201);
    assert!(second.header("x-ms-resource-usage").unwrap().contains("documentsCount=2;"));
    assert_eq!(s.get("/dbs/d/colls/c").await.expect(200).header("x-ms-resource-usage"), None);
}

#[tokio::test]
async fn links_are_left_out_where_a_client_does_without_them() {
    let s = service().await;
    let call = |method, path: &str, flag: &str| {
        s.call(method, path).header("x-ms-exclude-system-properties", flag)
    };
    let item = r#"{"id":"1","pk":"a"}"#;
    let bare = call("POST", DOCS, "True").body(item).send().await.expect(201).json();
    assert!(bare.get("_self").is_none() && bare.get("_attachments").is_none(), "{bare}");
    assert!(bare.get("_rid").is_some() && bare.get("_etag").is_some(), "{bare}");
    let read = |flag: &'static str| {
        let read = call("GET", &format!("{DOCS}/1"), flag);
        read.header("x-ms-documentdb-partitionkey", "[\"a\"]").send()
    };
    assert_eq!(read("true").await.expect(200).json(), bare);
    let whole = read("false").await.expect(200).json();
    assert!(whole.get("_self").is_some() && whole.get("_attachments").is_some(), "{whole}");
}

#[tokio::test]
async fn replacing_a_missing_item_says_so_whatever_is_sent() {
    let s = service().await;
    let replace = |key: &str| {
        let call = s.call("PUT", &format!("{DOCS}/zzz"));
        call.header("x-ms-documentdb-partitionkey", key).body(r#"{"id":"other","pk":"b"}"#).send()
    };
    let missing = replace(r#"["a"]"#).await.expect(404);
    assert_eq!(missing.header("x-ms-substatus"), None);
    assert_eq!(missing.header("x-ms-session-token"), Some("0:-1#0"));
    s.post(DOCS, r#"{"id":"zzz","pk":"a"}"#).await.expect(201);
    let mismatch = replace(r#"["a"]"#).await.expect(400);
    assert_eq!(mismatch.header("x-ms-substatus"), Some("1001"));
}

#[tokio::test]
async fn strings_may_have_tabs_and_line_ends_in_them() {
    let s = service().await;
    let sent = "{\"id\":\"1\",\"pk\":\"a\",\"t\":\"a\tb\rc\nd\",\"a\rb\":\"\t\"}";
    let made = s.post(DOCS, sent).await.expect(201).json();
    assert_eq!(made["t"], "a\tb\rc\nd");
    let item =
        s.call("GET", &format!("{DOCS}/1")).header("x-ms-documentdb-partitionkey", "[\"a\"]");
    let item = item.send().await.expect(200);
    assert_eq!(item.json()["t"], "a\tb\rc\nd");
    assert_eq!(item.json()["a\rb"], "\t");
    s.post(DOCS, "{\"id\":\"2\",\"pk\":\"\u{1}\"}").await.expect(400);
    s.post(DOCS, "{\"id\":\"2\",\"pk\":\"\u{0}\"}").await.expect(400);
}

#[tokio::test]
async fn ids_may_have_backslashes() {
    let s = service().await;
    let made = s.post(DOCS, r##"{"id":"Invalid#/\\?Id","pk":"a"}"##).await.expect(201).json();
    assert_eq!(made["id"], r"Invalid#/\?Id");
    let colls = s.get("/dbs/d/colls/c").await.json();
    let by_rid = format!(
        "/dbs/{}/colls/{}/docs/{}",
        s.get("/dbs/d").await.json()["_rid"].as_str().unwrap(),
        colls["_rid"].as_str().unwrap(),
        made["_rid"].as_str().unwrap(),
    );
    let read = s.call("GET", &by_rid).header("x-ms-documentdb-partitionkey", "[\"a\"]");
    assert_eq!(read.send().await.expect(200).json()["id"], made["id"]);
    // An escape that does not exist is no JSON.
    s.post(DOCS, r#"{"id":"Disallowed\Chars","pk":"a"}"#).await.expect(400);
}

#[tokio::test]
async fn the_last_row_of_a_resource_query_ends_it() {
    let s = service().await;
    for name in ["Abcdefg", "Bcdefgh", "Zoo"] {
        s.post("/dbs", &json!({"id": name}).to_string()).await.expect(201);
    }
    let page = |text: &str, max: &str, token: Option<&str>| {
        let call = s.call("POST", "/dbs").header("x-ms-documentdb-isquery", "True");
        let call = call.header("content-type", "application/query+json");
        let call = call.header("x-ms-max-item-count", max);
        let call = match token {
            Some(token) => call.header("x-ms-continuation", token),
            None => call,
        };
        call.body(json!({"query": text}).to_string()).send()
    };
    let one = page("select c.id from c where c.id = 'Abcdefg'", "1", None).await.expect(200);
    assert_eq!(one.json()["_count"], 1);
    assert_eq!(one.header("x-ms-continuation"), None);
    // A row behind others that do not match is reached by the token, once.
    let some = "select value c.id from c where c.id in ('d', 'Zoo')";
    let first = page(some, "1", None).await.expect(200);
    assert_eq!(first.json()["Databases"], json!(["d"]));
    let second = page(some, "1", first.header("x-ms-continuation")).await.expect(200);
    assert_eq!(second.json()["Databases"], json!(["Zoo"]));
    assert_eq!(second.header("x-ms-continuation"), None);
}

#[tokio::test]
async fn rows_are_binary_when_no_other_form_is_taken() {
    let s = service().await;
    for n in 0..3 {
        s.post(DOCS, &json!({"id": n.to_string(), "pk": "a", "n": n}).to_string())
            .await
            .expect(201);
    }
    let rows = |formats: &str| {
        let call = s.call("POST", DOCS).header("x-ms-documentdb-isquery", "True");
        let call = call.header("content-type", "application/query+json");
        let call = call.header("x-ms-documentdb-query-enablecrosspartition", "True");
        call.header("x-ms-cosmos-supported-serialization-formats", formats)
            .body(r#"{"query":"SELECT * FROM c"}"#)
            .send()
    };
    let text = rows("JsonText, CosmosBinary").await.expect(200);
    assert_eq!(text.json()["_count"], 3);
    let binary = rows("CosmosBinary").await.expect(200);
    assert_eq!(binary.body.first(), Some(&0x80));
    assert_eq!(binary.header("x-ms-item-count"), Some("3"));
    assert!(binary.body.len() < text.body.len());
    let feed = s.call("GET", DOCS);
    let feed = feed.header("x-ms-cosmos-supported-serialization-formats", "CosmosBinary");
    assert_eq!(feed.send().await.expect(200).body.first(), Some(&0x80));
}

#[tokio::test]
async fn old_clients_read_the_indexes_of_their_paths_back() {
    let s = service().await;
    let indexes = json!([
        {"kind": "Range", "dataType": "String", "precision": -1},
        {"kind": "Range", "dataType": "Number", "precision": -1},
    ]);
    let policy = json!({"includedPaths": [{"path": "/*", "indexes": indexes}]});
    let description = with(keyed("old"), "indexingPolicy", policy);
    let post = |version: &str, description: &Value| {
        let call = s.call("POST", COLLS).header("x-ms-version", version);
        call.body(description.to_string()).send()
    };
    let made = post("2018-08-31", &description).await.expect(201).json();
    assert_eq!(made["indexingPolicy"]["includedPaths"][0]["indexes"], indexes);
    // A client that does not know them replaces the container without them.
    let replaced = s.call("PUT", "/dbs/d/colls/old").body(made.to_string());
    let replaced = replaced.send().await.expect(200).json();
    assert_eq!(replaced["indexingPolicy"]["includedPaths"], json!([{"path": "/*"}]));
    let new = post("2018-12-31", &with(description.clone(), "id", json!("new"))).await.expect(201);
    assert_eq!(new.json()["indexingPolicy"]["includedPaths"], json!([{"path": "/*"}]));
    let bad = json!({"includedPaths": [{"path": "/*", "indexes": 1}]});
    post("2018-08-31", &with(keyed("bad"), "indexingPolicy", bad)).await.expect(400);
}

#[tokio::test]
async fn a_path_of_the_time_to_live_needs_a_default() {
    let s = service().await;
    let path = with(keyed("e"), "ttlPropertyPath", json!("/creationDate"));
    make(&s, &path).await.expect(400);
    let both = with(path, "defaultTtl", json!(10));
    let made = make(&s, &both).await.expect(201).json();
    assert_eq!(made["ttlPropertyPath"], "/creationDate");
    make(&s, &with(both.clone(), "ttlPropertyPath", json!("creationDate"))).await.expect(400);
    make(&s, &with(both.clone(), "ttlPropertyPath", json!(1))).await.expect(400);
    let put = |body: &Value| s.call("PUT", "/dbs/d/colls/e").body(body.to_string()).send();
    let without = with(both.clone(), "ttlPropertyPath", Value::Null);
    assert_eq!(put(&without).await.expect(200).json().get("ttlPropertyPath"), None);
    assert_eq!(put(&both).await.expect(200).json()["ttlPropertyPath"], "/creationDate");
    put(&with(both, "defaultTtl", Value::Null)).await.expect(400);
}

#[tokio::test]
async fn any_key_may_be_called_a_system_key() {
    let s = service().await;
    let key = json!({"paths": ["/test"], "kind": "Hash", "systemKey": true});
    let made = make(&s, &with(keyed("k"), "partitionKey", key.clone())).await.expect(201).json();
    assert_eq!(made["partitionKey"], key);
    let docs = "/dbs/d/colls/k/docs";
    s.post(docs, r#"{"id":"1","test":"a"}"#).await.expect(201);
    let read = |key: &str| {
        s.call("GET", &format!("{docs}/1")).header("x-ms-documentdb-partitionkey", key).send()
    };
    read(r#"["a"]"#).await.expect(200);
    read(r#"["b"]"#).await.expect(404);
}

#[tokio::test]
async fn every_spatial_type_is_indexed() {
    let s = service().await;
    let policy = json!({"spatialIndexes": [{"path": "/a/*", "types": ["LineString"]}]});
    let made = make(&s, &with(keyed("s"), "indexingPolicy", policy)).await.expect(201).json();
    assert_eq!(
        made["indexingPolicy"]["spatialIndexes"],
        json!([{"path": "/a/*", "types": ["Point", "LineString", "Polygon", "MultiPolygon"]}])
    );
    for types in [json!(["Circle"]), json!([])] {
        let policy = json!({"spatialIndexes": [{"path": "/a/*", "types": types}]});
        make(&s, &with(keyed("t"), "indexingPolicy", policy)).await.expect(400);
    }
}

#[tokio::test]
async fn errors_have_the_texts_that_tests_look_for() {
    let s = service().await;
    let limit = s.call("POST", DOCS).header("x-ms-documentdb-isquery", "True");
    let limit = limit.header("x-ms-documentdb-responsecontinuationtokenlimitinkb", "0");
    let limit = limit.header("x-ms-documentdb-query-enablecrosspartition", "True");
    let limit = limit.body(r#"{"query":"SELECT * FROM c"}"#).send().await.expect(400);
    assert!(limit.message().contains("continuation token limit specified is not large enough"));

    for property in [json!({"name": null, "query": "SELECT VALUE 1"}), json!({"name": "n"})] {
        let bad = make(&s, &with(keyed("p"), "computedProperties", json!([property]))).await;
        let wanted = r#""Errors":["One of the specified inputs is invalid"]"#;
        assert!(bad.message().contains(wanted), "{}", bad.message());
    }

    let token = s.call("GET", DOCS).header("x-ms-session-token", "invalidtoken");
    let message = token.send().await.expect(400).message();
    assert!(message.contains("The session token provided 'invalidtoken' is invalid."), "{message}");

    let policy = json!({"defaultLanguage": "xx-YY", "fullTextPaths": []});
    let message = make(&s, &with(keyed("f"), "fullTextPolicy", policy)).await.expect(400).message();
    let wanted = "The Full Text Policy contains an unsupported language xx-YY.";
    assert!(message.contains(wanted), "{message}");

    let policy = json!({"policyFormatVersion": 2, "includedPaths": [{
        "path": "/", "clientEncryptionKeyId": "unknownKey", "encryptionType": "Deterministic",
        "encryptionAlgorithm": "AEAD_AES_256_CBC_HMAC_SHA256",
    }]});
    let message = make(&s, &with(keyed("k"), "clientEncryptionPolicy", policy)).await.message();
    let wanted = "ClientEncryptionKey with id '[unknownKey]' does not exist.";
    assert!(message.contains(wanted), "{message}");
}

#[tokio::test]
async fn functions_are_looked_up_when_they_are_called() {
    let s = service().await;
    let rows = || {
        let call = s.call("POST", DOCS).header("x-ms-documentdb-isquery", "True");
        let call = call.header("x-ms-documentdb-query-enablecrosspartition", "True");
        call.body(r#"{"query":"SELECT VALUE udf.f(c.n) FROM c WHERE c.n > 0"}"#).send()
    };
    assert_eq!(rows().await.expect(200).json()["_count"], 0);
    s.post(DOCS, r#"{"id":"1","pk":"a","n":0}"#).await.expect(201);
    assert_eq!(rows().await.expect(200).json()["_count"], 0);
    s.post(DOCS, r#"{"id":"2","pk":"a","n":1}"#).await.expect(201);
    let message = rows().await.expect(400).message();
    assert!(message.contains("'udf.f' is not a recognized user-defined function"), "{message}");
    let f = r#"{"id":"f","body":"function (n) { return n + 1; }"}"#;
    s.post("/dbs/d/colls/c/udfs", f).await.expect(201);
    assert_eq!(rows().await.expect(200).json()["Documents"], json!([2]));
}

#[tokio::test]
async fn a_ranking_is_no_score_of_another() {
    let s = service().await;
    let score = "FullTextScore(c.t, 'x')";
    for args in
        [format!("RRF({score}, {score}), {score}"), format!("{score}, RRF({score}, {score})")]
    {
        let text = format!("SELECT TOP 3 * FROM c ORDER BY RANK RRF({args})");
        let plan = s.call("POST", DOCS).header("x-ms-cosmos-is-query-plan-request", "True");
        let plan = plan.header("x-ms-cosmos-supported-query-features", "HybridSearch");
        let refused = plan.body(json!({"query": text}).to_string()).send().await.expect(400);
        let message = refused.message();
        assert!(message.contains("'RRF' is not a recognized built-in function name."), "{message}");
    }
}

#[tokio::test]
async fn encryption_keys_say_when_they_were_created() {
    let s = service().await;
    let path = "/dbs/d/clientencryptionkeys";
    let body = json!({"id": "k", "encryptionAlgorithm": "A", "wrappedDataEncryptionKey": "AQ==",
        "keyWrapMetadata": {"type": "t", "name": "n", "value": "v"}});
    let made = s.post(path, &body.to_string()).await.expect(201).json();
    let created = made["_cts"].as_u64().unwrap();
    assert_eq!(made["_ts"], created);
    s.harness.clock.advance(std::time::Duration::from_secs(5));
    for _ in 0..2 {
        let replaced = s.call("PUT", &format!("{path}/k")).body(body.to_string());
        let replaced = replaced.send().await.expect(200).json();
        assert_eq!(replaced["_cts"], created);
        assert_eq!(replaced["_ts"], created + 5);
    }
    assert_eq!(s.get(&format!("{path}/k")).await.json()["_cts"], created);
}

#[tokio::test]
async fn offers_say_what_the_clients_ask_of_them() {
    let s = service().await;
    let call = s.call("POST", COLLS).header("x-ms-offer-type", "S1");
    let made = call.header("x-ms-offer-throughput", "1000").body(keyed("o").to_string());
    let rid = made.send().await.expect(201).json()["_rid"].clone();
    let offers = s.get("/offers").await.expect(200).json();
    let of_container = |offer: &&Value| offer["offerResourceId"] == rid;
    let mut offer = offers["Offers"].as_array().unwrap().iter().find(of_container).unwrap().clone();
    assert_eq!(offer["offerType"], "Invalid");
    let path = format!("/offers/{}", offer["id"].as_str().unwrap());
    let read = s.get(&path).await.expect(200);
    assert_eq!(read.header("x-ms-offer-replace-pending"), Some("false"));

    let put = |offer: &Value| s.call("PUT", &path).body(offer.to_string()).send();
    offer["content"] = json!({"offerAutopilotSettings": {"maxThroughput": 6000}});
    let migrate = s.call("PUT", &path).header("x-ms-cosmos-migrate-offer-to-autopilot", "true");
    migrate.body(offer.to_string()).send().await.expect(200);
    let replaced = put(&offer).await.expect(200);
    assert_eq!(replaced.header("x-ms-offer-replace-pending"), Some("false"));
    let settings = &replaced.json()["content"]["offerAutopilotSettings"];
    assert_eq!(settings["maxThroughput"], 6000);
    // .NET would rather have none here, but the Python SDK fails without one.
    assert_eq!(settings["autoUpgradePolicy"]["throughputPolicy"]["incrementPercent"], 0);
    let policy = json!({"throughputPolicy": {"incrementPercent": 20}});
    offer["content"]["offerAutopilotSettings"]["autoUpgradePolicy"] = policy.clone();
    let replaced = put(&offer).await.expect(200).json();
    assert_eq!(replaced["content"]["offerAutopilotSettings"]["autoUpgradePolicy"], policy);

    for (id, rid, status) in [(false, false, 400), (true, false, 200), (false, true, 200)] {
        let mut partial = offer.clone();
        if !id {
            partial["id"] = Value::Null;
        }
        if !rid {
            partial.as_object_mut().unwrap().remove("_rid");
        }
        put(&partial).await.expect(status);
    }
}

/// A client compares the items that `DISTINCT` leaves with those it reads otherwise, as text.
#[tokio::test]
async fn distinct_items_are_written_as_they_were_sent() {
    let s = service().await;
    let sent = r#""n":8.127944792019788E+307,"m":0.10,"k":100000000000000000000"#;
    s.post(DOCS, &format!(r#"{{"id":"1","pk":"a",{sent}}}"#)).await.expect(201);
    let rows = |text: &str| {
        let call = s.call("POST", DOCS).header("x-ms-documentdb-isquery", "True");
        let call = call.header("x-ms-documentdb-partitionkeyrangeid", "0");
        call.body(json!({"query": text}).to_string()).send()
    };
    // In the order of creation, in that of a key; and, in a range that is not small, in their own.
    for small in [true, false] {
        if !small {
            for n in 0..600 {
                s.post(DOCS, &format!(r#"{{"id":"n{n}","pk":"b"}}"#)).await.expect(201);
            }
        }
        for text in [
            "SELECT * FROM c WHERE c.pk = 'a'",
            "SELECT DISTINCT * FROM c WHERE c.pk = 'a'",
            "SELECT DISTINCT VALUE c FROM c WHERE c.pk = 'a'",
            "SELECT DISTINCT * FROM c WHERE c.pk = 'a' ORDER BY c.n",
        ] {
            let found = rows(text).await.expect(200);
            let found = String::from_utf8_lossy(&found.body);
            assert!(found.contains(sent), "{text}: {found}");
        }
    }
}

#[tokio::test]
async fn rows_of_all_ranges_are_merged_for_a_client_that_leaves_that_to_the_server() {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let container = s.call("POST", COLLS).header("x-ms-offer-throughput", "25000");
    container.body(keyed("c").to_string()).send().await.expect(201);
    for n in 0..7 {
        s.post(DOCS, &format!(r#"{{"id":"{n}","pk":"p{n}","n":{n},"m":{}}}"#, n % 2))
            .await
            .expect(201);
    }
    let page = |text: &str, token: &str| {
        let call = s.call("POST", DOCS).header("content-type", "application/query+json");
        let call = call.header("x-ms-documentdb-query-enablecrosspartition", "True");
        let call = call.header("x-ms-documentdb-query-iscontinuationexpected", "True");
        let call = call.header("x-ms-max-item-count", "3").header("x-ms-continuation", token);
        call.body(json!({"query": text}).to_string()).send()
    };
    for (text, expected) in [
        ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", json!([6, 5, 4, 3, 2, 1, 0])),
        ("SELECT VALUE COUNT(1) FROM c", json!([7])),
        ("SELECT DISTINCT VALUE c.m FROM c ORDER BY c.m", json!([0, 1])),
        ("SELECT TOP 4 VALUE c.n FROM c ORDER BY c.n", json!([0, 1, 2, 3])),
    ] {
        let mut rows = Vec::new();
        let mut token = String::new();
        loop {
            let answer = page(text, &token).await.expect(200);
            let found = answer.json()["Documents"].as_array().unwrap().clone();
            assert!(found.len() <= 3, "{text}: {found:?}");
            rows.extend(found);
            match answer.header("x-ms-continuation") {
                Some(next) => token = next.to_owned(),
                None => break,
            }
        }
        assert_eq!(Value::from(rows), expected, "{text}");
    }
    let flagged = s.call("POST", DOCS).header("x-ms-documentdb-isquery", "True");
    let flagged = flagged.header("x-ms-documentdb-query-enablecrosspartition", "True");
    let flagged = flagged.header("x-ms-documentdb-query-iscontinuationexpected", "True");
    let body = r#"{"query":"SELECT VALUE c.n FROM c ORDER BY c.n"}"#;
    flagged.body(body).send().await.expect(400);
}
