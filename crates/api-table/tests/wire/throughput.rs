//! Throughput: given with a table, charged with each request, and refused beyond it.

use api_table::Flavour;

use crate::support::{Answer, TestService};

async fn exhaust(s: &TestService) -> Answer {
    for n in 0..1000 {
        let answer = s.insert("p", &n.to_string(), "").await;
        if answer.status != 201 {
            return answer;
        }
    }
    panic!("nobody was refused");
}

async fn with_table(flavour: Flavour, throughput: &str) -> TestService {
    let s = TestService::throttling(flavour);
    let create = s.call("POST", "/Tables").header("x-ms-offer-throughput", throughput);
    create.body(r#"{"TableName":"demo"}"#).send().await.expect(201);
    s
}

#[tokio::test]
async fn each_flavour_refuses_in_its_own_way_and_says_when_to_come_again() {
    let s = with_table(Flavour::Storage, "400").await;
    let refused = exhaust(&s).await;
    refused.refused(503, "ServerBusy");
    assert!(refused.header("retry-after").is_some());
    let millis: u64 = refused.header("x-ms-retry-after-ms").unwrap().parse().unwrap();
    s.harness.clock.advance(std::time::Duration::from_millis(millis));
    s.insert("p", "later", "").await.expect(201);

    let s = with_table(Flavour::Cosmos, "400").await;
    let refused = exhaust(&s).await;
    refused.refused(429, "TooManyRequests");
    assert_eq!(refused.header("x-ms-substatus"), Some("3200"));
}

#[tokio::test]
async fn the_storage_flavour_has_no_request_units_unless_a_table_was_given_throughput() {
    let s = TestService::throttling(Flavour::Storage);
    s.call("POST", "/Tables").body(r#"{"TableName":"demo"}"#).send().await.expect(201);
    for n in 0..200 {
        s.insert("p", &n.to_string(), "").await.expect(201);
    }
    let s = TestService::throttling(Flavour::Cosmos);
    s.call("POST", "/Tables").body(r#"{"TableName":"demo"}"#).send().await.expect(201);
    exhaust(&s).await.refused(429, "TooManyRequests");
}

#[tokio::test]
async fn a_batch_beyond_the_throughput_is_refused_as_a_whole() {
    let s = with_table(Flavour::Storage, "400").await;
    exhaust(&s).await;
    let body = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: \
                application/http\r\n\r\nPUT /demo(PartitionKey='p',RowKey='1') HTTP/1.1\r\n\r\n\
                {}\r\n--c--\r\n--b--\r\n";
    let batch = s.call("POST", "/$batch").header("content-type", "multipart/mixed; boundary=b");
    batch.body(body).send().await.refused(503, "ServerBusy");
}

#[tokio::test]
async fn the_throughput_of_a_table_decides_its_ranges() {
    let s = with_table(Flavour::Cosmos, "12000").await;
    let table = s.demo();
    assert_eq!(table.routing().ranges().len(), 2);
    let wrong = s.call("POST", "/Tables").header("x-ms-offer-throughput", "many");
    wrong.body(r#"{"TableName":"two"}"#).send().await.refused(400, "InvalidHeaderValue");
    let odd = s.call("POST", "/Tables").header("x-ms-offer-throughput", "7");
    odd.body(r#"{"TableName":"two"}"#).send().await.refused(400, "InvalidHeaderValue");
}
