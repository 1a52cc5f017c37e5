//! Queries with unbounded cost are refused or aborted with a clear error, and other queries are
//! answered meanwhile.

use std::sync::Arc;
use std::time::Duration;

use api_nosql::AdminQuery;
use serde_json::{Value, json};

use crate::support::{Answer, TestService};

const DOCS: &str = "/dbs/d/colls/c/docs";

/// A container with one item that has a long text and long arrays.
async fn service() -> TestService {
    let s = TestService::new();
    s.post("/dbs", r#"{"id":"d"}"#).await.expect(201);
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    s.post("/dbs/d/colls", body).await.expect(201);
    let numbers: Vec<u32> = (0..2000).collect();
    let item = json!({"id": "1", "pk": "p", "s": "a".repeat(500_000), "a": numbers});
    s.post(DOCS, &item.to_string()).await.expect(201);
    s
}

async fn query(s: &TestService, text: &str) -> Answer {
    s.call("POST", DOCS)
        .header("x-ms-documentdb-isquery", "true")
        .header("content-type", "application/query+json")
        .header("x-ms-documentdb-partitionkey", r#"["p"]"#)
        .body(json!({"query": text}).to_string())
        .send()
        .await
}

/// Checks that a query is refused with this status and message.
async fn check_stopped(s: &TestService, text: &str, status: u16, message: &str) {
    let short: String = text.chars().take(80).collect();
    let answer = in_time(s, text).await.expect(status).json();
    let got = answer["message"].as_str().unwrap_or_default();
    assert!(got.contains(message), "{short}: {got}");
}

/// Checks that the response takes too little time for an unbounded search. Test builds are slow,
/// and so are the machines they run on.
#[expect(clippy::disallowed_methods, reason = "what is tested is time that really passes")]
async fn in_time(s: &TestService, text: &str) -> Answer {
    let answer = tokio::time::timeout(Duration::from_secs(30), query(s, text)).await;
    answer.unwrap_or_else(|_| panic!("no answer to {}", &text[..text.len().min(80)]))
}

const TOO_MUCH_WORK: &str = "exceeded the work allowed for a single item";

/// How many tasks a query of a feed handed to other threads.
async fn handed_on(s: &TestService, feed: &str, text: &str, status: u16) -> u64 {
    let before = s.harness.spawner.blocking();
    let call = s.call("POST", feed).header("x-ms-documentdb-isquery", "true");
    let call = call.header("content-type", "application/query+json");
    let call = call.header("x-ms-documentdb-query-enablecrosspartition", "true");
    call.body(json!({ "query": text }).to_string()).send().await.expect(status);
    s.harness.spawner.blocking() - before
}

#[tokio::test]
async fn long_texts_are_read_where_they_hold_up_nobody() {
    let s = service().await;
    let long = format!("SELECT * FROM c WHERE c.id IN ({}'d')", "'x', ".repeat(10_000));
    let wrong = format!("{long} ORDER BY RANK nothing");
    for feed in [
        "/dbs",
        "/offers",
        "/dbs/d/colls",
        "/dbs/d/users",
        "/dbs/d/clientencryptionkeys",
        "/dbs/d/colls/c/sprocs",
        "/dbs/d/colls/c/triggers",
        "/dbs/d/colls/c/udfs",
        "/dbs/d/colls/c/conflicts",
    ] {
        assert_eq!(handed_on(&s, feed, "SELECT * FROM c WHERE c.id = 'd'", 200).await, 0, "{feed}");
        assert!(handed_on(&s, feed, &long, 200).await > 0, "{feed}");
        assert!(handed_on(&s, feed, &wrong, 400).await > 0, "{feed}");
    }
    assert!(handed_on(&s, DOCS, &wrong, 400).await > 0);
    let admin_query = AdminQuery::parse(json!({ "query": wrong }).to_string().as_bytes()).unwrap();
    let container = s.harness.engine.catalog();
    let database = container.database("d").unwrap().rid;
    let container = Arc::clone(container.container(database, "c").unwrap());
    let before = s.harness.spawner.blocking();
    s.service.explain(&container, &admin_query, false).await.unwrap_err();
    assert!(s.harness.spawner.blocking() > before);
}

#[tokio::test]
async fn what_costs_is_done_to_resources_where_it_holds_up_nobody() {
    let s = service().await;
    let joins = " JOIN p IN c.indexingPolicy.includedPaths".to_owned();
    let text = format!("SELECT VALUE c.id FROM c{joins}");
    assert!(handed_on(&s, "/dbs/d/colls", &text, 200).await > 0);
}

#[tokio::test]
async fn texts_beyond_all_measure_are_refused() {
    let s = service().await;
    let nested = |n: usize| format!("SELECT VALUE {}1{}", "(".repeat(n), ")".repeat(n));
    check_stopped(&s, &nested(5_000_000), 413, "").await;
    check_stopped(&s, &nested(500_000), 400, "SC3020").await;
    // Nested parentheses up to the limit of length are harmless; nested arrays are not.
    assert_eq!(query(&s, &nested(200_000)).await.expect(200).json()["Documents"], json!([1]));
    let arrays = format!("SELECT VALUE {}{}", "[".repeat(200_000), "]".repeat(200_000));
    check_stopped(&s, &arrays, 400, "nesting of more than").await;
    let joins: String = (0..100).map(|n| format!(" JOIN j{n} IN c.a")).collect();
    let text = format!("SELECT VALUE COUNT(1) FROM c{joins}");
    check_stopped(&s, &text, 400, "exceeded the maximum number of joins").await;
}

#[tokio::test]
async fn searches_without_end_are_cut() {
    let s = service().await;
    let joins: String = (0..10).map(|n| format!(" JOIN j{n} IN c.a")).collect();
    for text in [
        format!("SELECT VALUE COUNT(1) FROM c{joins}"),
        format!("SELECT VALUE c.id FROM c{joins} WHERE j9 + 0 = -1"),
        format!("SELECT DISTINCT VALUE j0 + j1 + j2 FROM c{joins}"),
        format!("SELECT j0, COUNT(1) AS n FROM c{joins} GROUP BY j0"),
        "SELECT VALUE ARRAY(SELECT VALUE [x, y] FROM x IN c.a JOIN y IN c.a JOIN z IN c.a) FROM c"
            .to_owned(),
        format!("SELECT * FROM c WHERE c.s LIKE '%{}b%'", "a".repeat(100_000)),
        "SELECT VALUE REPLACE(c.s, 'a', c.s) FROM c".to_owned(),
    ] {
        check_stopped(&s, &text, 400, TOO_MUCH_WORK).await;
    }
}

#[tokio::test]
async fn patterns_that_backtrack_elsewhere_run_in_one_pass() {
    let s = service().await;
    let text = format!("SELECT * FROM c WHERE c.s LIKE '%{}b'", "a%".repeat(1000));
    assert_eq!(query(&s, &text).await.expect(200).json()["Documents"], json!([]));
    for pattern in ["(a+)+$", "(a|aa)+b", "(a*)*(a*)*(a*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$"] {
        let text = format!("SELECT VALUE RegexMatch(c.s, '{pattern}') FROM c");
        let answer = in_time(&s, &text).await;
        assert!(matches!(answer.status, 200 | 400), "{pattern}: {}", answer.status);
    }
    let text = "SELECT * FROM c WHERE RegexMatch(c.s, '(((a{100}){100}){100}){100}')";
    check_stopped(&s, text, 400, "RegexMatch").await;
}

#[tokio::test]
async fn a_huge_list_is_searched_like_any_other() {
    let s = service().await;
    let members: Vec<String> = (0..70_000).map(|n| n.to_string()).collect();
    let list = members.join(",");
    let text = format!("SELECT VALUE c.id FROM c WHERE c.none IN ({list}) OR c.id IN ({list})");
    assert!(text.len() < 2 * 512 * 1024);
    check_stopped(&s, &text, 400, "SC3020").await;
    let text = format!("SELECT VALUE c.a[1999] FROM c WHERE c.a[1999] IN ({list})");
    assert_eq!(query(&s, &text).await.expect(200).json()["Documents"], json!([1999]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_answered_meanwhile() {
    let s = service().await;
    let joins: String = (0..10).map(|n| format!(" JOIN j{n} IN c.a")).collect();
    let text = format!("SELECT VALUE COUNT(1) FROM c{joins}");
    let hostile = async { query(&s, &text).await.expect(400) };
    let others = async {
        let mut rows: Vec<Value> = Vec::new();
        for _ in 0..20 {
            rows.push(query(&s, "SELECT VALUE c.id FROM c").await.expect(200).json());
        }
        rows
    };
    let (_, rows) = tokio::join!(hostile, others);
    assert!(rows.iter().all(|row| row["Documents"] == json!(["1"])));
}
