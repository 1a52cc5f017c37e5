//! Writers at the same time: no update is lost, and no reader sees half a batch.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::support::TestService;

const ADDRESS: &str = "/demo(PartitionKey='p',RowKey='r')";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost_among_those_who_check_etags() {
    const WRITERS: usize = 4;
    const EACH: usize = 25;
    let s = Arc::new(TestService::with_table().await);
    s.insert("p", "r", r#""n":0"#).await.expect(201);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let s = Arc::clone(&s);
        writers.spawn(async move {
            let verb = if writer % 2 == 0 { "PUT" } else { "PATCH" };
            let mut refused = 0;
            for _ in 0..EACH {
                loop {
                    let read = s.get(ADDRESS).await;
                    let next = read.json()["n"].as_i64().expect("a number") + 1;
                    let call = s.call(verb, ADDRESS).header("if-match", read.etag());
                    let answer = call.body(format!(r#"{{"n":{next}}}"#)).send().await;
                    if answer.status == 204 {
                        break;
                    }
                    answer.refused(412, "UpdateConditionNotSatisfied");
                    refused += 1;
                }
            }
            refused
        });
    }
    let refused: i32 = writers.join_all().await.into_iter().sum();
    let n = s.get(ADDRESS).await.json()["n"].as_u64().expect("a number");
    assert_eq!(n, (WRITERS * EACH) as u64, "{refused} were refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reader_sees_half_a_batch() {
    let s = Arc::new(TestService::with_table().await);
    let batch = |version: usize| {
        let mut body = String::from("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n");
        for row in 0..10 {
            body.push_str(&format!(
                "--c\r\nContent-Type: application/http\r\n\r\nPUT /demo(PartitionKey='p',\
                 RowKey='{row}') HTTP/1.1\r\n\r\n{{\"v\":{version}}}\r\n"
            ));
        }
        body + "--c--\r\n--b--\r\n"
    };
    let write = async |s: &TestService, version: usize| {
        let call = s.call("POST", "/$batch");
        let call = call.header("content-type", "multipart/mixed; boundary=b");
        let answer = call.body(batch(version)).send().await;
        assert!(!answer.expect(202).text().contains("odata.error"), "{}", answer.text());
    };
    write(&s, 0).await;
    let reader = Arc::clone(&s);
    let mut reading = JoinSet::new();
    reading.spawn(async move {
        let mut last = 0;
        while last < 30 {
            let page = reader.get("/demo()?$filter=PartitionKey%20eq%20'p'").await.json();
            let rows = page["value"].as_array().expect("a list");
            let versions: Vec<u64> = rows.iter().map(|r| r["v"].as_u64().expect("one")).collect();
            assert_eq!(versions, vec![versions[0]; 10]);
            assert!(versions[0] >= last);
            last = versions[0];
        }
    });
    for version in 1..=30 {
        write(&s, version).await;
    }
    reading.join_all().await;
}
