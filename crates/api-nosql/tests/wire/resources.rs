//! Databases, containers, ranges and offers through the wire.

use crate::support::TestService;
use serde_json::{Value, json};

const CONTAINER: &str = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;

#[tokio::test]
async fn a_database_lives_from_create_to_delete() {
    let s = TestService::new();
    let created = s.post("/dbs", r#"{"id":"my db"}"#).await.expect(201);
    let body = created.json();
    let rid = body["_rid"].as_str().unwrap().to_owned();
    assert_eq!(body["id"], "my db");
    assert_eq!(body["_self"], format!("dbs/{rid}/"));
    assert_eq!((&body["_colls"], &body["_users"]), (&json!("colls/"), &json!("users/")));
    assert_eq!(created.header("etag"), body["_etag"].as_str());
    s.post("/dbs", r#"{"id":"my db"}"#).await.expect(409);

    assert_eq!(s.get("/dbs/my%20db").await.expect(200).json(), body);
    assert_eq!(s.get("/dbs/my%20db/").await.expect(200).json(), body);
    assert_eq!(s.get(&format!("/dbs/{rid}")).await.expect(200).json(), body);
    let feed = s.get("/dbs").await.expect(200);
    assert_eq!(feed.json()["Databases"], json!([body]));
    assert_eq!(feed.header("x-ms-item-count"), Some("1"));

    let etag = body["_etag"].as_str().unwrap();
    let cached = s.call("GET", "/dbs/my%20db").header("if-none-match", etag).send().await;
    assert!(cached.expect(304).body.is_empty());
    let call = s.call("DELETE", "/dbs/my%20db").header("if-match", "\"other\"");
    call.send().await.expect(412);
    s.call("DELETE", "/dbs/my%20db").send().await.expect(204);
    let gone = s.get("/dbs/my%20db").await.expect(404);
    assert_eq!(gone.header("x-ms-substatus"), None);
    assert!(gone.message().contains("Resource Not Found"));
}

#[tokio::test]
async fn ids_are_checked() {
    let s = TestService::new();
    for body in ["{}", r#"{"id":""}"#, r#"{"id":null}"#] {
        let answer = s.post("/dbs", body).await.expect(400);
        assert!(answer.message().contains("required properties - 'id; ' - are missing"), "{body}");
    }
    for id in ["a/b", "a\\\\b", "a?b", "a#b", "trailing ", &"x".repeat(256)] {
        s.post("/dbs", &format!(r#"{{"id":"{id}"}}"#)).await.expect(400);
    }
    for body in ["", "[]", "nonsense", r#"{"id":7}"#] {
        s.post("/dbs", body).await.expect(400);
    }
}

#[tokio::test]
async fn feeds_are_paged_by_tokens() {
    let s = TestService::new();
    for i in 0..5 {
        s.post("/dbs", &format!(r#"{{"id":"db{i}"}}"#)).await.expect(201);
    }
    let mut ids = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let mut call = s.call("GET", "/dbs").header("x-ms-max-item-count", "2");
        if let Some(token) = &token {
            call = call.header("x-ms-continuation", token);
        }
        let page = call.send().await.expect(200);
        let rows = page.json()["Databases"].as_array().unwrap().clone();
        assert!(rows.len() <= 2);
        ids.extend(rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()));
        token = page.header("x-ms-continuation").map(str::to_owned);
        if token.is_none() {
            break;
        }
    }
    assert_eq!(ids, ["db0", "db1", "db2", "db3", "db4"]);
    let call = s.call("GET", "/dbs").header("x-ms-continuation", "nonsense");
    let answer = call.send().await.expect(400);
    assert!(answer.message().contains("Invalid Continuation Token"));
}

#[tokio::test]
async fn a_container_gets_its_defaults() {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let created = s.post("/dbs/d/colls", CONTAINER).await.expect(201);
    let body = created.json();
    let rid = body["_rid"].as_str().unwrap();
    assert_eq!(
        body["indexingPolicy"],
        json!({"indexingMode": "consistent", "automatic": true,
            "includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/\"_etag\"/?"}]})
    );
    assert_eq!(body["partitionKey"], json!({"paths": ["/pk"], "kind": "Hash", "version": 2}));
    assert_eq!(
        body["conflictResolutionPolicy"],
        json!({"mode": "LastWriterWins", "conflictResolutionPath": "/_ts",
            "conflictResolutionProcedure": ""})
    );
    assert_eq!(body["geospatialConfig"], json!({"type": "Geography"}));
    assert_eq!(body["_docs"], "docs/");
    assert_eq!(body.get("defaultTtl"), None);
    let database_rid = s.get("/dbs/d").await.json()["_rid"].as_str().unwrap().to_owned();
    assert_eq!(body["_self"], format!("dbs/{database_rid}/colls/{rid}/"));
    assert_eq!(created.header("etag"), body["_etag"].as_str());
    assert_eq!(created.header("x-ms-content-path"), Some(database_rid.as_str()));
    assert_eq!(created.header("x-ms-alt-content-path"), Some("dbs/d"));
    let by_rid = s.get(&format!("/dbs/{database_rid}/colls/{rid}")).await.expect(200);
    assert_eq!(by_rid.json(), body);
    assert_eq!(s.get("/dbs/d/colls").await.json()["DocumentCollections"], json!([body]));
}

#[tokio::test]
async fn a_missing_owner_is_told_from_a_missing_resource() {
    let s = TestService::new().with_container().await;
    for (path, substatus) in [
        ("/dbs/none", None),
        ("/dbs/d/colls/none", None),
        ("/dbs/none/colls", Some("1003")),
        ("/dbs/none/colls/c", Some("1003")),
        ("/dbs/d/colls/none/pkranges", Some("1003")),
        ("/dbs/none/colls/none/docs/x", Some("1003")),
        ("/dbs/d/colls/none/docs/x", Some("1003")),
    ] {
        let answer = s.get(path).await.expect(404);
        assert_eq!(answer.header("x-ms-substatus"), substatus, "{path}");
    }
    let rid = s.get("/dbs/d").await.json()["_rid"].as_str().unwrap().to_owned();
    s.get(&format!("/dbs/{rid}/colls/c")).await.expect(400);
}

#[tokio::test]
async fn only_old_clients_may_leave_out_the_partition_key() {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    s.post("/dbs/d/colls", r#"{"id":"fixed"}"#).await.expect(400);
    let old = || s.call("POST", "/dbs/d/colls").header("x-ms-version", "2018-06-18");
    let too_much = old().header("x-ms-offer-throughput", "20000").body(r#"{"id":"fixed"}"#);
    let answer = too_much.send().await.expect(400);
    let wanted = "between 400 and 10000 inclusive in increments of 100";
    assert!(answer.message().contains(wanted), "{}", answer.message());
    let created = old().body(r#"{"id":"fixed"}"#).send().await.expect(201);
    assert_eq!(created.json().get("partitionKey"), None);
    assert_eq!(
        s.get("/dbs/d/colls/fixed").await.json()["partitionKey"],
        json!({"paths": ["/_partitionKey"], "kind": "Hash", "systemKey": true})
    );
    let replaced = s.get("/dbs/d/colls/fixed").await.json().to_string();
    s.call("PUT", "/dbs/d/colls/fixed").body(replaced).send().await.expect(200);
}

#[tokio::test]
async fn replacing_changes_policies_and_nothing_else() {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
        "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/email"]}]}}"#;
    let created = s.post("/dbs/d/colls", body).await.expect(201).json();
    let put = |change: &dyn Fn(&mut Value)| {
        let mut body = created.clone();
        change(&mut body);
        s.call("PUT", "/dbs/d/colls/c").body(body.to_string()).send()
    };
    let replaced = put(&|b| {
        b["defaultTtl"] = json!(60);
        b["indexingPolicy"] = json!({"excludedPaths": [{"path": "/big/*"}]});
    });
    let replaced = replaced.await.expect(200).json();
    assert_eq!(replaced["defaultTtl"], 60);
    assert_eq!(replaced["indexingPolicy"]["excludedPaths"].as_array().unwrap().len(), 2);
    assert_eq!(replaced["uniqueKeyPolicy"], created["uniqueKeyPolicy"]);
    assert_ne!(replaced["_etag"], created["_etag"]);

    put(&|b| b["id"] = json!("other")).await.expect(400);
    put(&|b| b["partitionKey"]["paths"] = json!(["/other"])).await.expect(400);
    put(&|b| b["partitionKey"]["version"] = json!(1)).await.expect(400);
    put(&|b| b["uniqueKeyPolicy"] = json!({"uniqueKeys": []})).await.expect(403);
    let answer = put(&|b| b["clientEncryptionPolicy"] = json!({"includedPaths": []}));
    let wanted = "'clientEncryptionPolicy' cannot be changed as part of collection replace";
    assert!(answer.await.expect(400).message().contains(wanted));
    let without_unique_keys = put(&|b| {
        b.as_object_mut().unwrap().remove("uniqueKeyPolicy");
    });
    let kept = without_unique_keys.await.expect(200).json();
    assert_eq!(kept["uniqueKeyPolicy"], created["uniqueKeyPolicy"]);
    assert_eq!(kept.get("defaultTtl"), None);

    let call = s.call("PUT", "/dbs/d/colls/c").header("if-match", "\"stale\"");
    call.body(created.to_string()).send().await.expect(412);
}

#[tokio::test]
async fn reading_a_container_can_tell_its_size() {
    let s = TestService::new().with_container().await;
    let container = {
        let catalog = s.harness.engine.catalog();
        let rid = catalog.database("d").unwrap().rid;
        catalog.container(rid, "c").unwrap().clone()
    };
    s.harness.create(&container, "a", r#"{"id":"1","pk":"a"}"#).await.unwrap();
    let answer = s
        .call("GET", "/dbs/d/colls/c")
        .header("x-ms-documentdb-populatepartitionstatistics", "True")
        .header("x-ms-documentdb-populatequotainfo", "True")
        .send()
        .await
        .expect(200);
    let statistics = &answer.json()["statistics"];
    assert_eq!(statistics[0]["id"], "0");
    assert_eq!(statistics[0]["documentCount"], 1);
    assert_eq!(statistics[0]["sizeInKB"], 1);
    let quota = answer.header("x-ms-resource-quota").unwrap();
    assert!(quota.contains("collectionSize=10485760;"), "{quota}");
    let usage = answer.header("x-ms-resource-usage").unwrap();
    assert!(usage.contains("documentsCount=1;"), "{usage}");
    let progress = "x-ms-documentdb-collection-index-transformation-progress";
    assert_eq!(answer.header(progress), Some("100"));
    assert_eq!(answer.header("x-ms-documentdb-collection-lazy-indexing-progress"), None);
    assert_eq!(answer.header("x-ms-session-token"), Some("0:-1#1"));
    assert_eq!(s.get("/dbs/d/colls/c").await.json().get("statistics"), None);
}

#[tokio::test]
async fn ranges_cover_the_line_and_end_with_304() {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let call = s.call("POST", "/dbs/d/colls").header("x-ms-offer-throughput", "12000");
    call.body(CONTAINER).send().await.expect(201);
    let answer = s.get("/dbs/d/colls/c/pkranges").await.expect(200);
    let body = answer.json();
    let ranges = body["PartitionKeyRanges"].as_array().unwrap();
    assert_eq!((ranges.len(), &body["_count"]), (2, &json!(2)));
    assert_eq!(answer.header("x-ms-item-count"), Some("2"));
    assert_eq!(ranges[0]["minInclusive"], "");
    assert_eq!(ranges[0]["maxExclusive"], "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF");
    assert_eq!(ranges[1]["minInclusive"], ranges[0]["maxExclusive"]);
    assert_eq!(ranges[1]["maxExclusive"], "FF");
    for (i, range) in ranges.iter().enumerate() {
        assert_eq!(range["id"], i.to_string());
        assert_eq!(range["parents"], json!([]));
        assert_eq!(range["status"], "online");
        assert_eq!(range["throughputFraction"], 0.5);
        let rid = range["_rid"].as_str().unwrap();
        assert!(range["_self"].as_str().unwrap().ends_with(&format!("/pkranges/{rid}/")));
    }
    let etag = answer.header("etag").unwrap().to_owned();
    let again = s
        .call("GET", "/dbs/d/colls/c/pkranges/")
        .header("a-im", "Incremental Feed")
        .header("if-none-match", &etag)
        .send()
        .await
        .expect(304);
    assert_eq!(again.header("etag"), Some(etag.as_str()));
    assert!(again.body.is_empty());
    let call = s.call("GET", "/dbs/d/colls/c/pkranges").header("if-none-match", "\"0\"");
    call.send().await.expect(200);
    s.post("/dbs/d/colls/c/pkranges", "{}").await.expect(405);
}

#[tokio::test]
async fn ranges_of_a_container_made_anew_are_not_taken_for_the_old_ones() {
    let s = TestService::new().with_container().await;
    let path = "/dbs/d/colls/c/pkranges";
    let etag = s.get(path).await.expect(200).header("etag").unwrap().to_owned();
    s.call("DELETE", "/dbs/d/colls/c").send().await.expect(204);
    s.post("/dbs/d/colls", CONTAINER).await.expect(201);
    let answer = s.call("GET", path).header("if-none-match", &etag).send().await.expect(200);
    assert_ne!(answer.header("etag"), Some(etag.as_str()));
}

#[tokio::test]
async fn at_most_25_containers_share_a_databases_throughput() {
    let s = TestService::new();
    let call = s.call("POST", "/dbs").header("x-ms-offer-throughput", "400");
    call.body(r#"{"id":"d"}"#).send().await.expect(201);
    let create = |id: &str| {
        let body = CONTAINER.replace("\"c\"", &format!("\"{id}\""));
        s.call("POST", "/dbs/d/colls").body(body)
    };
    // A container with its own throughput takes no slot.
    create("own").header("x-ms-offer-throughput", "400").send().await.expect(201);
    for n in 0..25 {
        create(&n.to_string()).send().await.expect(201);
    }
    let refused = create("25").send().await.expect(400);
    assert!(refused.message().contains("25"), "{}", refused.message());
    create("25").header("x-ms-offer-throughput", "400").send().await.expect(201);
    s.call("DELETE", "/dbs/d/colls/7").send().await.expect(204);
    create("26").send().await.expect(201);
    create("27").send().await.expect(400);
}

#[tokio::test]
async fn a_system_key_in_a_definition_makes_a_fixed_container() {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let key = json!({"paths": ["/_partitionKey"], "kind": "Hash", "systemKey": true});
    let body = json!({"id": "c", "partitionKey": key}).to_string();
    let created = s.post("/dbs/d/colls", &body).await.expect(201).json();
    assert_eq!(created["partitionKey"], key);
    s.post("/dbs/d/colls/c/docs", r#"{"id":"1"}"#).await.expect(201);
    // Only such a container finds an item without a key.
    s.get("/dbs/d/colls/c/docs/1").await.expect(200);
    s.call("PUT", "/dbs/d/colls/c").body(body).send().await.expect(200);
    let large = s.call("POST", "/dbs/d/colls").header("x-ms-offer-throughput", "20000");
    large.body(json!({"id": "l", "partitionKey": key}).to_string()).send().await.expect(400);
}

#[tokio::test]
async fn a_data_masking_policy_is_kept_and_an_index_container_refused() {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let mut body: Value = serde_json::from_str(CONTAINER).unwrap();
    let policy = json!({"includedPaths": [{"path": "/"}], "excludedPaths": []});
    body["dataMaskingPolicy"] = policy.clone();
    let created = s.post("/dbs/d/colls", &body.to_string()).await.expect(201).json();
    assert_eq!(created["dataMaskingPolicy"], policy);
    assert_eq!(s.get("/dbs/d/colls/c").await.json()["dataMaskingPolicy"], policy);
    body["id"] = "m".into();
    body["dataMaskingPolicy"] = "mask".into();
    s.post("/dbs/d/colls", &body.to_string()).await.expect(400);
    let mut body: Value = serde_json::from_str(CONTAINER).unwrap();
    body["id"] = "g".into();
    body["globalSecondaryIndexDefinition"] =
        json!({"sourceContainerId": "c", "definition": "SELECT c.id FROM c"});
    let refused = s.post("/dbs/d/colls", &body.to_string()).await.expect(400);
    let text = refused.message();
    assert!(text.contains("does not support globalSecondaryIndexDefinition"), "{text}");
}

#[tokio::test]
async fn offers_follow_the_throughput_asked_for() {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let created = s.post("/dbs/d/colls", CONTAINER).await.expect(201).json();
    let offers = s.get("/offers").await.expect(200).json();
    let offer = &offers["Offers"][0];
    assert_eq!(offers["_count"], 1);
    assert_eq!(offer["offerResourceId"], created["_rid"]);
    assert_eq!(offer["resource"], created["_self"]);
    assert_eq!(offer["content"]["offerThroughput"], 400);
    assert_eq!(offer["content"].get("offerAutopilotSettings"), None);
    let id = offer["id"].as_str().unwrap();
    assert!(offer["_self"].as_str().unwrap().contains(id));

    let call = s.call("POST", "/dbs").header(
        "x-ms-cosmos-offer-autopilot-settings",
        r#"{"maxThroughput":5000,"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":2}}}"#,
    );
    let shared = call.body(r#"{"id":"shared"}"#).send().await.expect(201).json();
    s.post("/dbs/shared/colls", CONTAINER).await.expect(201);
    let offers = s.get("/offers").await.expect(200).json();
    assert_eq!(offers["_count"], 2, "a container of a database with throughput has no own offer");
    let offer = &offers["Offers"][1];
    assert_eq!(offer["offerResourceId"], shared["_rid"]);
    let settings = &offer["content"]["offerAutopilotSettings"];
    assert_eq!(settings["maxThroughput"], 5000);
    assert_eq!(settings["autoUpgradePolicy"]["throughputPolicy"]["incrementPercent"], 2);
    assert_eq!(offer["content"]["offerThroughput"], 500);

    s.call("DELETE", "/dbs/d").send().await.expect(204);
    s.get(&format!("/offers/{id}")).await.expect(404);
}

#[tokio::test]
async fn throughput_outside_the_limits_is_refused() {
    let s = TestService::new();
    for (header, value, text) in [
        ("x-ms-offer-throughput", "300", "less than required minimum throughput 400"),
        ("x-ms-offer-throughput", "450", "increments of 100"),
        ("x-ms-offer-throughput", "1000100", "between 400 and 1000000"),
        ("x-ms-offer-throughput", "many", "valid throughput values"),
        (
            "x-ms-cosmos-offer-autopilot-settings",
            r#"{"maxThroughput":-200}"#,
            "Requested throughput -200 is less than required minimum throughput 1000",
        ),
        ("x-ms-cosmos-offer-autopilot-settings", r#"{"maxThroughput":4500}"#, "increments of 1000"),
        ("x-ms-cosmos-offer-autopilot-settings", "{}", "autoscale settings"),
        ("x-ms-cosmos-offer-autopilot-settings", "nonsense", "autoscale settings"),
    ] {
        let call = s.call("POST", "/dbs").header(header, value).body(r#"{"id":"x"}"#);
        let answer = call.send().await.expect(400);
        assert!(answer.message().contains(text), "{value}: {}", answer.message());
    }
    for name in ["x-ms-offer-throughput", "x-ms-cosmos-offer-autopilot-settings"] {
        let call = s.call("POST", "/dbs").header(name, b"\xff").body(r#"{"id":"x"}"#);
        call.send().await.expect(400);
    }
    let token = s.call("GET", "/dbs").header("x-ms-continuation", b"\xff");
    token.send().await.expect(400);
    let both = s
        .call("POST", "/dbs")
        .header("x-ms-offer-throughput", "400")
        .header("x-ms-cosmos-offer-autopilot-settings", r#"{"maxThroughput":4000}"#);
    both.body(r#"{"id":"x"}"#).send().await.expect(400);
    s.get("/dbs/x").await.expect(404);
}

#[tokio::test]
async fn replacing_an_offer_changes_the_throughput() {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let call = s.call("POST", "/dbs/d/colls").header("x-ms-offer-throughput", "60000");
    call.body(CONTAINER).send().await.expect(201);
    let offer = s.get("/offers").await.json()["Offers"][0].clone();
    let path = format!("/offers/{}", offer["id"].as_str().unwrap());
    let put = |change: &dyn Fn(&mut Value)| {
        let mut body = offer.clone();
        change(&mut body);
        s.call("PUT", &path).body(body.to_string()).send()
    };
    let replaced = put(&|o| o["content"]["offerThroughput"] = json!(70_000)).await.expect(200);
    assert_eq!(replaced.json()["content"]["offerThroughput"], 70_000);
    assert_eq!(replaced.header("x-ms-cosmos-min-throughput"), Some("700"));
    // The ten partitions that it was created with can serve that.
    assert_eq!(replaced.header("x-ms-offer-replace-pending"), Some("false"));
    let read = s.get(&path).await.expect(200);
    assert_eq!(read.json(), replaced.json());
    assert_eq!(
        read.json()["content"]["offerMinimumThroughputParameters"]["maxThroughputEverProvisioned"],
        70_000
    );

    let answer = put(&|o| o["content"]["offerThroughput"] = json!(500)).await.expect(400);
    assert!(answer.message().contains("less than required minimum throughput 700"));
    put(&|o| o["content"]["offerThroughput"] = json!(700)).await.expect(200);
    put(&|o| o["_rid"] = json!("Zzzz")).await.expect(400);
    put(&|o| o["content"] = json!(null)).await.expect(400);
    s.get("/offers/AAAA").await.expect(404);
    s.get("/offers/nonsense").await.expect(404);
}

#[tokio::test]
async fn an_offer_can_move_between_manual_and_autoscale() {
    let s = TestService::new().with_container().await;
    let offer = s.get("/offers").await.json()["Offers"][0].clone();
    let path = format!("/offers/{}", offer["id"].as_str().unwrap());
    let call = s.call("PUT", &path).header("x-ms-cosmos-migrate-offer-to-autopilot", "true");
    let autoscale = call.body(offer.to_string()).send().await.expect(200).json();
    assert_eq!(autoscale["content"]["offerAutopilotSettings"]["maxThroughput"], 1000);
    let call =
        s.call("PUT", &path).header("x-ms-cosmos-migrate-offer-to-manual-throughput", "true");
    let manual = call.body(autoscale.to_string()).send().await.expect(200).json();
    assert_eq!(manual["content"].get("offerAutopilotSettings"), None);
    assert_eq!(manual["content"]["offerThroughput"], 1000);
}

#[tokio::test]
async fn resources_are_found_by_query() {
    let s = TestService::new().with_container().await;
    s.post("/dbs", r#"{"id":"e"}"#).await.expect(201);
    let by_id = |id: &str| {
        json!({"query": "SELECT * FROM root r WHERE r.id=@id",
            "parameters": [{"name": "@id", "value": id}]})
        .to_string()
    };
    let found = s.query("/dbs", &by_id("e")).await.expect(200);
    assert_eq!(found.json()["Databases"][0]["id"], "e");
    assert_eq!(found.header("x-ms-item-count"), Some("1"));
    let none = s.query("/dbs", &by_id("x")).await.expect(200);
    assert_eq!(none.json()["Databases"], json!([]));
    let found = s.query("/dbs/d/colls/", &by_id("c")).await.expect(200).json();
    assert_eq!(found["DocumentCollections"][0]["id"], "c");
    s.query("/dbs/x/colls", &by_id("c")).await.expect(404);

    let container = s.get("/dbs/d/colls/c").await.json();
    let link = container["_self"].as_str().unwrap();
    for query in [
        json!({"query": "SELECT * FROM root r WHERE r.resource=@link",
            "parameters": [{"name": "@link", "value": link}]}),
        json!({"query": "SELECT * FROM root r WHERE r.resource=@link",
            "parameters": [{"name": "@link", "value": link.trim_end_matches('/')}]}),
        json!({"query": format!("SELECT * from root where root.resource = \"{link}\"")}),
        json!({"query": "SELECT * FROM c WHERE c.offerResourceId = @rid",
            "parameters": [{"name": "@rid", "value": container["_rid"]}]}),
    ] {
        let found = s.query("/offers", &query.to_string()).await.expect(200).json();
        assert_eq!(found["_count"], 1, "{query}");
        assert_eq!(found["Offers"][0]["resource"], link, "{query}");
    }
    let without = r#"{"query":"SELECT * FROM c WHERE c.resource = 'x'","parameters":null}"#;
    assert_eq!(s.query("/offers", without).await.expect(200).json()["_count"], 0);
    let constant = s.query("/dbs", r#"{"query":"SELECT VALUE 7"}"#).await.expect(200);
    assert_eq!(constant.json()["Databases"], json!([7]));
}

#[tokio::test]
async fn bad_queries_are_refused() {
    let s = TestService::new();
    let syntax = s.query("/dbs", r#"{"query":"SELECT FROM"}"#).await.expect(400);
    assert!(syntax.message().contains(r#""code":"SC1001""#), "{}", syntax.message());
    for body in ["", "{}", "[]", r#"{"query":7}"#, r#"{"query":"SELECT 1","parameters":7}"#] {
        let answer = s.query("/dbs", body).await.expect(400);
        assert!(answer.message().contains("request payload is invalid"), "{body}");
    }
    let names = |a: &str, b: &str| {
        json!({"query": "SELECT 1", "parameters": [{"name": a, "value": 1}, {"name": b}]})
            .to_string()
    };
    let answer = s.query("/dbs", &names("a", "@b")).await.expect(400);
    assert!(answer.message().contains("Parameter names should be in the format"));
    let answer = s.query("/dbs", &names("@a", "@a")).await.expect(400);
    assert!(answer.message().contains("Specified duplicate parameter name"));
    s.query("/dbs", &names("@a", "@b")).await.expect(200);
}
