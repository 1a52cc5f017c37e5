//! Requests beyond the provisioned throughput, as clients see them.

use std::time::Duration;

use engine::Settings;
use engine::catalog::ThroughputLimits;
use serde_json::json;

use crate::support::{Answer, Call, TestService};

const ITEMS: &str = "/dbs/d/colls/c/docs";

fn read(s: &TestService) -> Call<'_> {
    let call = s.call("GET", "/dbs/d/colls/c/docs/none");
    call.header("x-ms-documentdb-partitionkey", r#"["a"]"#)
}

async fn create(s: &TestService, id: &str) -> Answer {
    let body = format!(r#"{{"id":"{id}","pk":"a"}}"#);
    let call = s.call("POST", ITEMS).header("x-ms-documentdb-partitionkey", r#"["a"]"#);
    call.body(body).send().await
}

/// Reads until the bucket is empty, and returns the number of reads.
async fn drain(s: &TestService) -> u32 {
    for served in 0..100_000 {
        if read(s).send().await.status == 429 {
            return served;
        }
    }
    panic!("nothing was throttled");
}

#[tokio::test]
async fn a_throttled_request_says_when_to_come_again() {
    let s = TestService::throttling().with_container().await;
    assert_eq!(drain(&s).await, 400);
    let answer = create(&s, "1").await.expect(429);
    assert_eq!(answer.header("x-ms-substatus"), Some("3200"));
    assert_eq!(answer.header("x-ms-request-charge"), Some("0.38"));
    // The refused read goes first, after 2.5 ms.
    assert_eq!(answer.header("x-ms-retry-after-ms"), Some("3"));
    assert_eq!(answer.json()["code"], "429");
    assert!(answer.message().starts_with(
        "Message: {\"Errors\":[\"Request rate is large. More Request Units may be needed, so no \
         changes were made. Please retry this request later. Learn more: \
         http://aka.ms/cosmosdb-error-429\"]}\r\nActivityId: "
    ));
    s.harness.clock.advance(Duration::from_millis(3));
    create(&s, "1").await.expect(201);
    // The write of 5.04 RU arrived when 1.2 RU were available, and the read has still not been
    // repeated.
    assert_eq!(create(&s, "2").await.expect(429).header("x-ms-retry-after-ms"), Some("13"));
}

#[tokio::test]
async fn metadata_is_not_throttled() {
    let s = TestService::throttling().with_container().await;
    drain(&s).await;
    for path in ["", "/dbs", "/dbs/d", "/dbs/d/colls/c", "/dbs/d/colls/c/pkranges", "/offers"] {
        s.get(&format!("{path}/")).await.expect(200);
    }
    read(&s).send().await.expect(429);
}

#[tokio::test]
async fn queries_and_batches_are_throttled_too() {
    let s = TestService::throttling().with_container().await;
    create(&s, "1").await.expect(201);
    drain(&s).await;
    s.get(ITEMS).await.expect(429);
    let query = s.call("POST", ITEMS).header("x-ms-documentdb-isquery", "True");
    let query = query.header("x-ms-documentdb-partitionkey", r#"["a"]"#);
    query.body(r#"{"query":"SELECT * FROM c"}"#).send().await.expect(429);
    let batch = s.call("POST", ITEMS).header("x-ms-cosmos-is-batch-request", "true");
    let batch = batch.header("x-ms-cosmos-batch-atomic", "true");
    let batch = batch.header("x-ms-documentdb-partitionkey", r#"["a"]"#);
    let body = r#"[{"operationType":"Create","resourceBody":{"id":"2","pk":"a"}}]"#;
    batch.body(body).send().await.expect(429);
    let erase = s.call("POST", "/dbs/d/colls/c/operations/partitionkeydelete");
    let erase = erase.header("x-ms-documentdb-partitionkey", r#"["a"]"#);
    erase.send().await.expect(429);
}

#[tokio::test]
async fn bulk_operations_are_throttled_each_on_its_own() {
    let s = TestService::throttling().with_container().await;
    let one = |n: u32| {
        let body = format!(r#"{{"id":"{n}","pk":"a"}}"#);
        format!(r#"{{"operationType":"Create","partitionKey":"[\"a\"]","resourceBody":{body}}}"#)
    };
    let body = format!("[{}]", (0..100).map(one).collect::<Vec<_>>().join(","));
    let call = s.call("POST", ITEMS).header("x-ms-cosmos-is-batch-request", "true");
    let call = call.header("x-ms-cosmos-batch-atomic", "false");
    let call = call.header("x-ms-documentdb-partitionkeyrangeid", "0");
    let answer = call.body(body).send().await.expect(207).json();
    let results = answer.as_array().unwrap();
    let with = |status: u16| results.iter().filter(move |r| r["statusCode"] == status);
    assert_eq!((with(201).count(), with(429).count()), (80, 20));
    for refused in with(429) {
        assert_eq!(refused["subStatusCode"], 3200);
        assert_eq!(refused["requestCharge"], 0.38);
        assert!(refused["retryAfterMilliseconds"].as_u64().unwrap() >= 1);
    }
}

#[tokio::test]
async fn low_priority_is_throttled_first() {
    let s = TestService::throttling().with_container().await;
    for _ in 0..320 {
        read(&s).send().await.expect(404);
    }
    let with = |level: &str| read(&s).header("x-ms-cosmos-priority-level", level).send();
    with("Low").await.expect(429);
    with("High").await.expect(404);
    with("Urgent").await.expect(400);
}

#[tokio::test]
async fn another_offer_counts_at_once() {
    let s = TestService::throttling().with_container().await;
    drain(&s).await;
    let mut offer = s.get("/offers").await.expect(200).json()["Offers"][0].clone();
    offer["content"]["offerThroughput"] = 4_000.into();
    let path = format!("/offers/{}", offer["id"].as_str().unwrap());
    s.call("PUT", &path).body(offer.to_string()).send().await.expect(200);
    s.harness.clock.advance(Duration::from_secs(1));
    assert_eq!(drain(&s).await, 4_000);
}

#[tokio::test]
async fn an_offer_can_have_a_budget_per_minute() {
    let s = TestService::throttling().with_container().await;
    let mut offer = s.get("/offers").await.expect(200).json()["Offers"][0].clone();
    let path = format!("/offers/{}", offer["id"].as_str().unwrap());
    assert_eq!(offer["content"]["offerIsRUPerMinuteThroughputEnabled"], false);
    offer["content"]["offerIsRUPerMinuteThroughputEnabled"] = json!("yes");
    s.call("PUT", &path).body(offer.to_string()).send().await.expect(400);
    offer["content"]["offerIsRUPerMinuteThroughputEnabled"] = json!(true);
    let replaced = s.call("PUT", &path).body(offer.to_string()).send().await.expect(200);
    assert_eq!(replaced.json()["content"]["offerIsRUPerMinuteThroughputEnabled"], true);
    assert_eq!(drain(&s).await, 4_400);
}

#[tokio::test]
async fn a_changed_offer_is_not_changed_by_who_has_not_seen_it() {
    let s = TestService::new().with_container().await;
    let mut offer = s.get("/offers").await.expect(200).json()["Offers"][0].clone();
    let path = format!("/offers/{}", offer["id"].as_str().unwrap());
    let etag = offer["_etag"].as_str().unwrap().to_owned();
    offer["content"]["offerThroughput"] = json!(500);
    let put = || s.call("PUT", &path).header("if-match", &etag).body(offer.to_string()).send();
    put().await.expect(200);
    put().await.expect(412);
}

#[tokio::test]
async fn autoscale_shows_what_it_scaled_to() {
    let s = TestService::throttling();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    let call = s.call("POST", "/dbs/d/colls");
    let call = call.header("x-ms-cosmos-offer-autopilot-settings", r#"{"maxThroughput":2000}"#);
    call.body(body).send().await.expect(201);
    let shown = async || {
        let offers = s.get("/offers").await.expect(200).json();
        offers["Offers"][0]["content"]["offerThroughput"].as_u64()
    };
    assert_eq!(shown().await, Some(200));
    assert_eq!(drain(&s).await, 2_000);
    assert_eq!(shown().await, Some(2_000));
    s.harness.clock.advance(Duration::from_secs(120));
    assert_eq!(shown().await, Some(200));
}

#[tokio::test]
async fn the_limits_of_the_documents_are_told() {
    let throughput_limits = ThroughputLimits::Documents2018;
    let s = TestService::with_settings(Settings { throughput_limits, ..Settings::default() });
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let create = |id: &str, throughput: &str| {
        let key = json!({"paths": ["/pk"], "kind": "Hash", "version": 2});
        let body = json!({"id": id, "partitionKey": key}).to_string();
        let call = s.call("POST", "/dbs/d/colls").header("x-ms-offer-throughput", throughput);
        call.body(body).send()
    };
    let answer = create("a", "100100").await.expect(400);
    assert!(answer.message().contains("between 400 and 100000 inclusive"), "{}", answer.message());
    create("fixed", "400").await.expect(201);
    create("unlimited", "1000").await.expect(201);
    let offers = s.get("/offers").await.expect(200).json();
    for (n, throughput, text) in [
        (0, 10_100, "between 400 and 10000 inclusive in increments of 100"),
        (1, 900, "Requested throughput 900 is less than required minimum throughput 1000"),
    ] {
        let mut offer = offers["Offers"][n].clone();
        offer["content"]["offerThroughput"] = json!(throughput);
        let path = format!("/offers/{}", offer["id"].as_str().unwrap());
        let answer = s.call("PUT", &path).body(offer.to_string()).send().await.expect(400);
        assert!(answer.message().contains(text), "{}", answer.message());
    }
}
