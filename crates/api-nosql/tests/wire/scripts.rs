//! Stored procedures, triggers and functions as resources.

use serde_json::{Value, json};

use crate::support::TestService;

const SPROCS: &str = "/dbs/d/colls/c/sprocs";
const KINDS: [(&str, &str); 3] =
    [("sprocs", "StoredProcedures"), ("triggers", "Triggers"), ("udfs", "UserDefinedFunctions")];

fn definition(kind: &str, id: &str, body: &str) -> String {
    let mut value = json!({ "id": id, "body": body });
    if kind == "triggers" {
        value["triggerType"] = "pre".into();
        value["triggerOperation"] = "All".into();
    }
    value.to_string()
}

#[tokio::test]
async fn scripts_live_from_create_to_delete() {
    let s = TestService::new().with_container().await;
    for (kind, key) in KINDS {
        let feed = format!("/dbs/d/colls/c/{kind}");
        let text = definition(kind, "my script", "function () { return 1; }");
        let created = s.post(&feed, &text).await.expect(201);
        let body = created.json();
        assert_eq!(created.header("etag"), body["_etag"].as_str());
        assert_eq!(body["body"], "function () { return 1; }");
        if kind == "triggers" {
            let spelled = (&body["triggerType"], &body["triggerOperation"]);
            assert_eq!(spelled, (&json!("pre"), &json!("All")));
        }
        s.post(&feed, &text).await.expect(409);
        let path = format!("{feed}/my%20script");
        assert_eq!(s.get(&path).await.expect(200).json(), body);
        let own = body["_self"].as_str().unwrap();
        assert!(own.contains(kind) && own.ends_with('/'), "{own}");
        assert_eq!(s.get(&format!("/{own}")).await.expect(200).json(), body);
        assert_eq!(s.get(&feed).await.expect(200).json()[key], json!([body]));
        let query = r#"{"query":"SELECT * FROM root r WHERE r.id=@id","parameters":[{"name":"@id","value":"my script"}]}"#;
        assert_eq!(s.query(&feed, query).await.expect(200).json()[key], json!([body]));

        let etag = body["_etag"].as_str().unwrap();
        let renamed = definition(kind, "renamed", "not even JavaScript");
        let put = |etag: &str| s.call("PUT", &path).header("if-match", etag).body(renamed.as_str());
        put("\"other\"").send().await.expect(412);
        let replaced = put(etag).send().await.expect(200).json();
        assert_eq!((&replaced["id"], &replaced["_rid"]), (&json!("renamed"), &body["_rid"]));
        assert_ne!(replaced["_etag"], body["_etag"]);
        s.get(&path).await.expect(404);
        let path = format!("{feed}/renamed");
        let upsert = s.call("POST", &feed).header("x-ms-documentdb-is-upsert", "True");
        let upserted = upsert.body(definition(kind, "renamed", "x")).send().await.expect(200);
        assert_eq!(upserted.json()["_rid"], body["_rid"]);
        s.call("DELETE", &path).send().await.expect(204);
        s.call("DELETE", &path).send().await.expect(404);
        s.call("PUT", &path).body(renamed.as_str()).send().await.expect(404);
        assert_eq!(s.get(&feed).await.expect(200).json()[key], json!([]));
    }
}

#[tokio::test]
async fn resource_ids_of_scripts_have_the_nibble_of_their_kind() {
    let s = TestService::new().with_container().await;
    for (kind, ending) in [("sprocs", "AgA=="), ("triggers", "AcA=="), ("udfs", "AYA==")] {
        let feed = format!("/dbs/d/colls/c/{kind}");
        let body = s.post(&feed, &definition(kind, "s", "x")).await.expect(201).json();
        let rid = body["_rid"].as_str().unwrap();
        assert!(rid.ends_with(ending) && rid.len() == 24, "{rid}");
    }
    let body = s.get(&format!("{SPROCS}/s")).await.json();
    let other = body["_self"].as_str().unwrap().replace("sprocs", "udfs");
    s.get(&format!("/{other}")).await.expect(400);
}

#[tokio::test]
async fn bad_definitions_say_what_is_wrong() {
    let s = TestService::new().with_container().await;
    let message = async |kind: &str, body: Value| {
        let path = format!("/dbs/d/colls/c/{kind}");
        s.post(&path, &body.to_string()).await.expect(400).message().to_owned()
    };
    let missing = |name: &str| format!("required properties - '{name}; ' - are missing");
    for (kind, _) in KINDS {
        assert!(message(kind, json!({"body":"x"})).await.contains(&missing("id")));
        assert!(message(kind, json!({"id":"x"})).await.contains(&missing("body")));
        assert!(message(kind, json!({"id":"x","body":7})).await.contains("must be a string"));
        message(kind, json!({"id":"a/b","body":"x"})).await;
    }
    let trigger = json!({"id":"t","body":"x","triggerOperation":"All"});
    assert!(message("triggers", trigger).await.contains(&missing("triggerType")));
    let trigger = json!({"id":"t","body":"x","triggerType":"Pre"});
    assert!(message("triggers", trigger).await.contains(&missing("triggerOperation")));
    let trigger = json!({"id":"t","body":"x","triggerType":"During","triggerOperation":"All"});
    assert!(message("triggers", trigger).await.contains("During"));
    let large = json!({"id":"t","body":"x".repeat(512 * 1024 + 1)}).to_string();
    s.post(SPROCS, &large).await.expect(413);
    let largest = json!({"id":"t","body":"x".repeat(512 * 1024)}).to_string();
    s.post(SPROCS, &largest).await.expect(201);
    s.post("/dbs/d/colls/none/sprocs", r#"{"id":"s","body":"x"}"#).await.expect(404);
}

#[tokio::test]
async fn a_container_has_a_limited_number_of_scripts_of_a_kind() {
    let s = TestService::new().with_container().await;
    let feed = "/dbs/d/colls/c/udfs";
    for i in 0..50 {
        s.post(feed, &definition("udfs", &format!("u{i}"), "x")).await.expect(201);
    }
    s.post(feed, &definition("udfs", "one more", "x")).await.expect(403);
    s.post(SPROCS, &definition("sprocs", "another kind", "x")).await.expect(201);
    let page = s.call("GET", feed).header("x-ms-max-item-count", "20").send().await.expect(200);
    assert_eq!(page.json()["_count"], 20);
    assert!(page.header("x-ms-continuation").is_some());
}
