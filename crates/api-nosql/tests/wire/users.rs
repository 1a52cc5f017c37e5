//! Users, permissions and the tokens that come with them; client encryption keys.

use std::time::Duration;

use account::Key;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::support::{Answer, Call, TestService};

const USERS: &str = "/dbs/d/users";
const PERMISSIONS: &str = "/dbs/d/users/u/permissions";
const ITEMS: &str = "/dbs/d/colls/c/docs";

/// Database `d`, container `c`, user `u`.
async fn with_user() -> TestService {
    let s = TestService::new().with_container().await;
    s.post(USERS, r#"{"id":"u"}"#).await.expect(201);
    s
}

async fn permit(s: &TestService, body: &Value) -> Value {
    s.post(PERMISSIONS, &body.to_string()).await.expect(201).json()
}

/// The same call, authorized by a token instead of a signature.
fn with_token<'s>(call: Call<'s>, permission: &Value) -> Call<'s> {
    let token = permission["_token"].as_str().expect("a token");
    let encoded = utf8_percent_encode(token, NON_ALPHANUMERIC).to_string();
    call.key(None).header("authorization", encoded)
}

async fn read(s: &TestService, permission: &Value, path: &str) -> Answer {
    let call = s.call("GET", path).header("x-ms-documentdb-partitionkey", r#"["a"]"#);
    with_token(call, permission).send().await
}

#[tokio::test]
async fn users_are_made_renamed_listed_and_deleted() {
    let s = TestService::new().with_container().await;
    let user = s.post(USERS, r#"{"id":"u","extra":1}"#).await.expect(201);
    assert_eq!(user.header("etag"), user.json()["_etag"].as_str());
    let user = user.json();
    assert_eq!(user["_permissions"], "permissions/");
    assert_eq!(user.get("extra"), None);
    assert_eq!(
        s.get(&format!("/{}", user["_self"].as_str().unwrap())).await.expect(200).json(),
        user
    );
    s.post(USERS, r#"{"id":"u"}"#).await.expect(409);
    s.post(USERS, r#"{"id":"a/b"}"#).await.expect(400);
    let answer = s.post(USERS, "{}").await.expect(400);
    assert!(answer.message().contains("'id; ' - are missing"));
    s.post("/dbs/none/users", r#"{"id":"u"}"#).await.expect(404);

    let upsert = |body: &'static str| {
        s.call("POST", USERS).header("x-ms-documentdb-is-upsert", "True").body(body).send()
    };
    assert_eq!(upsert(r#"{"id":"u"}"#).await.expect(200).json()["_rid"], user["_rid"]);
    upsert(r#"{"id":"v"}"#).await.expect(201);
    let renamed = s.call("PUT", "/dbs/d/users/u").body(r#"{"id":"w"}"#).send().await.expect(200);
    assert_eq!(renamed.json()["_rid"], user["_rid"]);
    s.get("/dbs/d/users/u").await.expect(404);
    let put = s.call("PUT", "/dbs/d/users/w").body(r#"{"id":"v"}"#);
    put.send().await.expect(409);
    let stale = s.call("PUT", "/dbs/d/users/w").header("if-match", "\"x\"").body(r#"{"id":"w"}"#);
    stale.send().await.expect(412);
    let listed = s.get(USERS).await.expect(200).json();
    assert_eq!((&listed["_count"], &listed["Users"][0]["id"]), (&json!(2), &json!("w")));
    let found = s.query(USERS, r#"{"query":"SELECT * FROM root r WHERE r.id = 'v'"}"#).await;
    assert_eq!(found.expect(200).json()["Users"].as_array().unwrap().len(), 1);
    s.call("DELETE", "/dbs/d/users/w").send().await.expect(204);
    s.get("/dbs/d/users/w").await.expect(404);
    s.call("PATCH", "/dbs/d/users/v").send().await.expect(405);
}

#[tokio::test]
async fn permissions_are_kept_as_given_and_come_with_a_token() {
    let s = with_user().await;
    let body = json!({"id": "p", "permissionMode": "all", "resource": "dbs/d/colls/c/", "resourcePartitionKey": ["a"]});
    let made = permit(&s, &body).await;
    for name in ["id", "permissionMode", "resource", "resourcePartitionKey"] {
        assert_eq!(made[name], body[name], "{name}");
    }
    assert!(made["_token"].as_str().unwrap().starts_with("type=resource&ver=1.0&sig="));
    let path = format!("/{}", made["_self"].as_str().unwrap());
    assert_eq!(s.get(&path).await.expect(200).json()["_rid"], made["_rid"]);
    let list = s.get(PERMISSIONS).await.expect(200).json();
    assert!(list["Permissions"][0]["_token"].is_string());
    let found = s.query(PERMISSIONS, r#"{"query":"SELECT * FROM root r WHERE r.id = 'p'"}"#).await;
    assert!(found.expect(200).json()["Permissions"][0]["_token"].is_string());

    let same = json!({"id": "q", "permissionMode": "Read", "resource": "/dbs/d/colls/c", "resourcePartitionKey": ["a"]});
    s.post(PERMISSIONS, &same.to_string()).await.expect(409);
    let other_key = json!({"id": "q", "permissionMode": "Read", "resource": "dbs/d/colls/c", "resourcePartitionKey": ["b"]});
    permit(&s, &other_key).await;
    let nowhere =
        json!({"id": "r", "permissionMode": "Read", "resource": "dbs/AQAAJA==/colls/AQAAJJ0fgTc="});
    let nowhere = permit(&s, &nowhere).await;
    read(&s, &nowhere, "/").await.expect(200);
    read(&s, &nowhere, "/dbs/d/colls/c").await.expect(403);
}

#[tokio::test]
async fn bad_permissions_are_refused() {
    let s = with_user().await;
    for (body, wanted) in [
        (json!({"id": "p"}), "'permissionMode; resource; ' - are missing"),
        (
            json!({"id": "p", "permissionMode": "Write", "resource": "dbs/d/colls/c"}),
            "permissionMode",
        ),
        (json!({"id": "p", "permissionMode": "Read", "resource": "dbs/d"}), "'resource' must be"),
        (
            json!({"id": "p", "permissionMode": "Read", "resource": "offers/x"}),
            "'resource' must be",
        ),
        (
            json!({"id": "p", "permissionMode": "Read", "resource": "dbs/d/colls/c/pkranges/0"}),
            "'resource' must be",
        ),
        (json!({"id": "p", "permissionMode": "Read", "resource": 5}), "'resource' must be"),
        (
            json!({"id": "p", "permissionMode": "Read", "resource": "dbs/d/colls/c", "resourcePartitionKey": []}),
            "resourcePartitionKey",
        ),
        (
            json!({"id": "p", "permissionMode": "Read", "resource": "dbs/d/colls/c", "resourcePartitionKey": ["a", "b"]}),
            "resourcePartitionKey",
        ),
        (
            json!({"id": "p", "permissionMode": "Read", "resource": "dbs/d/colls/c", "resourcePartitionKey": "a"}),
            "Partition key",
        ),
    ] {
        let answer = s.post(PERMISSIONS, &body.to_string()).await.expect(400);
        assert!(answer.message().contains(wanted), "{body}: {}", answer.message());
    }
    let body =
        json!({"id": "p", "permissionMode": "Read", "resource": "dbs/d/colls/c"}).to_string();
    for bad in ["9", "86401", "-1", "x", ""] {
        let call = s.call("POST", PERMISSIONS).header("x-ms-documentdb-expiry-seconds", bad);
        call.body(body.clone()).send().await.expect(400);
    }
    s.post("/dbs/d/users/none/permissions", &body).await.expect(404);
}

#[tokio::test]
async fn a_token_ends_with_its_time_its_permission_and_its_container() {
    let s = with_user().await;
    let body = json!({"id": "p", "permissionMode": "Read", "resource": "dbs/d/colls/c"});
    let hour = permit(&s, &body).await;
    let path = format!("{PERMISSIONS}/p");
    let short = s.call("GET", &path).header("x-ms-documentdb-expiry-seconds", "10").send().await;
    let short = short.expect(200).json();
    let container = "/dbs/d/colls/c";
    read(&s, &short, container).await.expect(200);
    s.harness.clock.advance(Duration::from_secs(10));
    let expired = read(&s, &short, container).await.expect(403);
    assert!(
        expired.message().contains("is not valid at the current time"),
        "{}",
        expired.message()
    );
    read(&s, &hour, container).await.expect(200);

    // A replaced permission is another version, so its old token fails.
    let put = s.call("PUT", &path).skew_seconds(10).body(body.to_string());
    let replaced = put.send().await.expect(200).json();
    read(&s, &hour, container).await.expect(401);
    read(&s, &replaced, container).await.expect(200);

    // The same holds for a container that was created again.
    s.call("DELETE", container).skew_seconds(10).send().await.expect(204);
    read(&s, &replaced, container).await.expect(403);
    let definition = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    s.call("POST", "/dbs/d/colls").skew_seconds(10).body(definition).send().await.expect(201);
    read(&s, &replaced, container).await.expect(403);
    let again = s.call("GET", &path).skew_seconds(10).send().await.expect(200).json();
    read(&s, &again, container).await.expect(200);

    s.call("DELETE", "/dbs/d/users/u").skew_seconds(10).send().await.expect(204);
    read(&s, &again, container).await.expect(401);
}

#[tokio::test]
async fn resources_may_be_named_by_resource_id_and_asked_for_by_name() {
    let s = with_user().await;
    let create = |body: &'static str| {
        s.call("POST", ITEMS).header("x-ms-documentdb-partitionkey", r#"["a"]"#).body(body).send()
    };
    let item = create(r#"{"id":"x","pk":"a"}"#).await.expect(201).json();
    create(r#"{"id":"y","pk":"a"}"#).await.expect(201);
    let by_rid = json!({"id": "rid", "permissionMode": "Read", "resource": item["_self"]});
    let by_rid = permit(&s, &by_rid).await;
    let by_name =
        json!({"id": "name", "permissionMode": "Read", "resource": "dbs/d/colls/c/docs/x"});
    let by_name = permit(&s, &by_name).await;
    let self_link = format!("/{}", item["_self"].as_str().unwrap());
    for permission in [&by_rid, &by_name] {
        read(&s, permission, &format!("{ITEMS}/x")).await.expect(200);
        read(&s, permission, &self_link).await.expect(200);
        read(&s, permission, &format!("{ITEMS}/y")).await.expect(403);
        read(&s, permission, &format!("{ITEMS}/missing")).await.expect(403);
        read(&s, permission, ITEMS).await.expect(403);
    }
}

#[tokio::test]
async fn a_token_of_an_item_does_not_rename_it() {
    let s = with_user().await;
    const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["a"]"#);
    let create = |body: &'static str| s.call("POST", ITEMS).header(KEY.0, KEY.1).body(body).send();
    let item = create(r#"{"id":"x","pk":"a"}"#).await.expect(201).json();
    create(r#"{"id":"y","pk":"a"}"#).await.expect(201);
    let by_rid = json!({"id": "rid", "permissionMode": "All", "resource": item["_self"]});
    let by_name =
        json!({"id": "name", "permissionMode": "All", "resource": "dbs/d/colls/c/docs/x"});
    let by_key = json!({"id": "key", "permissionMode": "All", "resource": "dbs/d/colls/c",
        "resourcePartitionKey": ["a"]});
    let self_link = format!("/{}", item["_self"].as_str().unwrap());
    let replace = async |permission: &Value, link: &str, id: &str| {
        let body = json!({"id": id, "pk": "a"}).to_string();
        with_token(s.call("PUT", link), permission).header(KEY.0, KEY.1).body(body).send().await
    };
    for permission in [permit(&s, &by_rid).await, permit(&s, &by_name).await] {
        for link in [&self_link, &format!("{ITEMS}/x")] {
            // The token can't tell an existing item from a missing one.
            replace(&permission, link, "y").await.expect(403);
            replace(&permission, link, "z").await.expect(403);
            replace(&permission, link, "x").await.expect(200);
            let patch = r#"{"operations":[{"op":"set","path":"/id","value":"z"}]}"#;
            let patch = with_token(s.call("PATCH", link), &permission).body(patch);
            patch.header(KEY.0, KEY.1).send().await.expect(400);
        }
    }
    let by_key = permit(&s, &by_key).await;
    replace(&by_key, &self_link, "y").await.expect(409);
    replace(&by_key, &self_link, "z").await.expect(200);
}

#[tokio::test]
async fn encoded_links_name_what_they_are_made_of() {
    let s = with_user().await;
    for id in ["a b", "a%20b", "a%2520b"] {
        let body =
            json!({"id": id, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
        s.post("/dbs/d/colls", &body.to_string()).await.expect(201);
    }
    let body = json!({"id": "p", "permissionMode": "Read", "resource": "dbs/d/colls/a%20b"});
    let encoded = permit(&s, &body).await;
    read(&s, &encoded, "/dbs/d/colls/a%20b").await.expect(200);
    read(&s, &encoded, "/dbs/d/colls/a%2520b").await.expect(403);
    // Without a container of the decoded name, the name counts as not encoded.
    s.call("DELETE", "/dbs/d/colls/a%2520b").send().await.expect(204);
    let body = json!({"id": "q", "permissionMode": "Read", "resource": "dbs/d/colls/a%2520b"});
    let raw = permit(&s, &body).await;
    read(&s, &raw, "/dbs/d/colls/a%252520b").await.expect(200);
}

#[tokio::test]
async fn part_of_a_hierarchical_key_can_be_granted() {
    let s = with_user().await;
    let definition =
        r#"{"id":"h","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":2}}"#;
    s.post("/dbs/d/colls", definition).await.expect(201);
    let body = json!({"id": "p", "permissionMode": "All", "resource": "dbs/d/colls/h", "resourcePartitionKey": ["t1"]});
    let permission = permit(&s, &body).await;
    let create = |id: &str, a: &str| {
        let body = json!({"id": id, "a": a, "b": 1}).to_string();
        let call = s.call("POST", "/dbs/d/colls/h/docs").body(body);
        let call = call.header("x-ms-documentdb-partitionkey", json!([a, 1]).to_string());
        with_token(call, &permission).send()
    };
    create("1", "t1").await.expect(201);
    create("2", "t2").await.expect(403);
    let list = |key: &'static str| {
        let call = s.call("GET", "/dbs/d/colls/h/docs").header("x-ms-documentdb-partitionkey", key);
        with_token(call, &permission).send()
    };
    assert_eq!(list(r#"["t1"]"#).await.expect(200).json()["_count"], 1);
    list(r#"["t1",1]"#).await.expect(200);
    list(r#"["t2"]"#).await.expect(403);
    list("[]").await.expect(403);
}

#[tokio::test]
async fn a_read_only_key_reads_users_but_makes_no_tokens() {
    let s = with_user().await;
    let key = || Some(Key::from_bytes(&[3; 64]));
    s.call("GET", USERS).key(key()).send().await.expect(200);
    s.call("GET", PERMISSIONS).key(key()).send().await.expect(403);
    s.call("GET", &format!("{PERMISSIONS}/p")).key(key()).send().await.expect(403);
    s.call("POST", USERS).key(key()).body(r#"{"id":"x"}"#).send().await.expect(403);
}

#[tokio::test]
async fn encryption_keys_are_kept_and_rewrapped() {
    let s = TestService::new().with_container().await;
    let keys = "/dbs/d/clientencryptionkeys";
    let metadata =
        json!({"type": "test", "name": "master", "value": "v1", "algorithm": "RSA-OAEP"});
    let body = json!({"id": "k", "encryptionAlgorithm": "AEAD_AES_256_CBC_HMAC_SHA256",
        "wrappedDataEncryptionKey": "AAAA", "keyWrapMetadata": metadata});
    let made = s.post(keys, &body.to_string()).await.expect(201).json();
    assert_eq!(
        (&made["keyWrapMetadata"], &made["wrappedDataEncryptionKey"]),
        (&metadata, &json!("AAAA"))
    );
    s.post(keys, &body.to_string()).await.expect(409);
    assert_eq!(
        s.get(&format!("/{}", made["_self"].as_str().unwrap())).await.expect(200).json(),
        made
    );
    let mut rewrapped = body.clone();
    rewrapped["wrappedDataEncryptionKey"] = json!("BBBB");
    let path = format!("{keys}/k");
    let put = |etag: &str, body: &Value| {
        s.call("PUT", &path).header("if-match", etag).body(body.to_string()).send()
    };
    let etag = made["_etag"].as_str().unwrap();
    assert_eq!(put(etag, &rewrapped).await.expect(200).json()["wrappedDataEncryptionKey"], "BBBB");
    put(etag, &rewrapped).await.expect(412);
    rewrapped["id"] = json!("other");
    put("*", &rewrapped).await.expect(400);
    let listed = s.get(keys).await.expect(200).json();
    assert_eq!(listed["ClientEncryptionKeys"][0]["id"], "k");
    for missing in ["encryptionAlgorithm", "wrappedDataEncryptionKey", "keyWrapMetadata"] {
        let mut bad = body.clone();
        bad.as_object_mut().unwrap().remove(missing);
        let answer = s.post(keys, &bad.to_string()).await.expect(400);
        assert!(answer.message().contains(missing), "{}", answer.message());
        bad[missing] = json!(7);
        s.post(keys, &bad.to_string()).await.expect(400);
    }
    s.get(&format!("{keys}/none")).await.expect(404);
    s.call("DELETE", &path).send().await.expect(405);

    let policy = json!({"policyFormatVersion": 1, "includedPaths": [{"path": "/secret",
        "clientEncryptionKeyId": "k", "encryptionType": "Randomized",
        "encryptionAlgorithm": "AEAD_AES_256_CBC_HMAC_SHA256"}]});
    let mut container = json!({"id": "e", "clientEncryptionPolicy": policy,
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
    let made = s.post("/dbs/d/colls", &container.to_string()).await.expect(201).json();
    assert_eq!(made["clientEncryptionPolicy"], policy);
    let put = |body: &Value| s.call("PUT", "/dbs/d/colls/e").body(body.to_string()).send();
    assert_eq!(put(&made).await.expect(200).json()["clientEncryptionPolicy"], policy);
    let mut changed = made.clone();
    changed["clientEncryptionPolicy"]["includedPaths"][0]["path"] = json!("/other");
    put(&changed).await.expect(400);
    changed.as_object_mut().unwrap().remove("clientEncryptionPolicy");
    put(&changed).await.expect(400);
    container["id"] = json!("f");
    container["clientEncryptionPolicy"]["includedPaths"][0]["clientEncryptionKeyId"] =
        json!("none");
    let answer = s.post("/dbs/d/colls", &container.to_string()).await.expect(400);
    assert!(answer.message().contains("ClientEncryptionKey with id '[none]' does not exist."));
}

#[tokio::test]
async fn a_key_may_be_named_by_its_place_on_the_hash_line() {
    let s = with_user().await;
    for key in ["a", "b"] {
        let body = json!({"id": key, "pk": key}).to_string();
        let call = s.call("POST", ITEMS).body(body);
        let call = call.header("x-ms-documentdb-partitionkey", json!([key]).to_string());
        call.send().await.expect(201);
    }
    let body = json!({"id": "p", "permissionMode": "Read", "resource": "dbs/d/colls/c", "resourcePartitionKey": ["a"]});
    let permission = permit(&s, &body).await;
    let container = s.harness.engine.catalog();
    let database = container.database("d").unwrap().rid;
    let definition = &container.container(database, "c").unwrap().spec.partition_key;
    let place = |key: &str| model::epk::key_range(definition, &testkit::harness::string_key(key));
    let follow = |min: String, max: String| {
        let call = s.call("GET", ITEMS).header("a-im", "Incremental Feed");
        let call = call.header("x-ms-start-epk", min).header("x-ms-end-epk", max);
        with_token(call, &permission).send()
    };
    let (a, b) = (place("a"), place("b"));
    let own = follow(a.min.to_hex(), a.max.to_hex()).await.expect(200).json();
    assert_eq!((&own["_count"], &own["Documents"][0]["id"]), (&json!(1), &json!("a")));
    follow(b.min.to_hex(), b.max.to_hex()).await.expect(403);
    follow(String::new(), a.max.to_hex()).await.expect(403);
    follow(a.min.to_hex(), "FF".into()).await.expect(403);
}

#[tokio::test]
async fn a_script_may_be_granted_by_name_or_resource_id() {
    let s = with_user().await;
    let (sprocs, udfs) = ("/dbs/d/colls/c/sprocs", "/dbs/d/colls/c/udfs");
    let script = r#"{"id":"s","body":"function () { }"}"#;
    let made = s.post(sprocs, script).await.expect(201).json();
    s.post(udfs, script).await.expect(201);
    let by_name =
        json!({"id": "name", "permissionMode": "Read", "resource": "dbs/d/colls/c/sprocs/s"});
    let by_rid = json!({"id": "rid", "permissionMode": "All", "resource": made["_self"]});
    let (by_name, by_rid) = (permit(&s, &by_name).await, permit(&s, &by_rid).await);
    let self_link = format!("/{}", made["_self"].as_str().unwrap());
    for permission in [&by_name, &by_rid] {
        read(&s, permission, &format!("{sprocs}/s")).await.expect(200);
        read(&s, permission, &self_link).await.expect(200);
        read(&s, permission, &format!("{udfs}/s")).await.expect(403);
        read(&s, permission, &format!("{sprocs}/missing")).await.expect(403);
        read(&s, permission, sprocs).await.expect(403);
        read(&s, permission, ITEMS).await.expect(403);
    }
    let run = |permission| {
        let call = s.call("POST", "/dbs/d/colls/c/sprocs/s").body("[]");
        with_token(call.header("x-ms-documentdb-partitionkey", r#"["a"]"#), permission).send()
    };
    run(&by_name).await.expect(403);
    run(&by_rid).await.expect(200);
}
