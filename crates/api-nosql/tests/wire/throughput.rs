//! Requests beyond the provisioned throughput, as clients see them.

use std::time::Duration;

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

/// Reads until there is nothing left, and returns how many reads that took.
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
    assert_eq!(answer.header("x-ms-retry-after-ms"), Some("1"));
    assert_eq!(answer.json()["code"], "429");
    assert!(answer.message().starts_with(
        "Message: {\"Errors\":[\"Request rate is large. More Request Units may be needed, so no \
         changes were made. Please retry this request later. Learn more: \
         http://aka.ms/cosmosdb-error-429\"]}\r\nActivityId: "
    ));
    s.harness.clock.advance(Duration::from_millis(1));
    create(&s, "1").await.expect(201);
    // The write of 5.04 RU came when 0.4 RU were there.
    assert_eq!(create(&s, "2").await.expect(429).header("x-ms-retry-after-ms"), Some("12"));
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
