//! Fault injection on the real binary.

use serde_json::{Value, json};
use testkit::http::{Request, Response};
use testkit::server::TestServer;

use crate::support::{ask_admin, connect, fill, in_memory};

const FAULTS: &str = "/_admin/v1/faults";

fn inject(server: &TestServer, fault: &Value) -> Value {
    let added = ask_admin(server, &Request::new("POST", FAULTS).body(fault.to_string()));
    assert_eq!(added.status, 201, "{}", added.text());
    added.json()
}

fn read(server: &TestServer, key: &str) -> Response {
    Request::new("GET", "/dbs/shop/colls/orders/docs/1")
        .signed(server.key(), "docs", "dbs/shop/colls/orders/docs/1")
        .header("x-ms-documentdb-partitionkey", &format!("[\"{key}\"]"))
        .send(&mut connect(server))
        .unwrap()
}

fn seen(response: &Response) -> (u16, Option<&str>) {
    (response.status, response.header("x-ms-substatus"))
}

#[test]
fn without_being_asked_for_there_are_none() {
    let server = in_memory(&[]);
    let refused = ask_admin(&server, &Request::new("GET", FAULTS));
    assert_eq!(refused.status, 404);
    assert!(!refused.text().contains("faults"), "{}", refused.text());
}

#[test]
fn requests_fail_as_often_as_asked_for() {
    let server = in_memory(&["--fault-injection", "on"]);
    assert!(server.stderr().contains("inject faults"), "{}", server.stderr());
    fill(&server);
    let answer = json!({"status": 503, "substatus": 20003});
    inject(&server, &json!({"answer": answer, "operation": "read_item", "count": 2}));
    let answer = json!({"status": 429, "substatus": 3200, "retryAfterMs": 7});
    inject(&server, &json!({"answer": answer, "count": 1}));
    let replies: Vec<Response> = (0..4).map(|_| read(&server, "k7")).collect();
    let statuses: Vec<_> = replies.iter().map(seen).collect();
    let (busy, slow) = ((503, Some("20003")), (429, Some("3200")));
    assert_eq!(statuses, [busy, busy, slow, (200, None)]);
    assert_eq!(replies[2].header("x-ms-retry-after-ms"), Some("7"));
    assert!(replies[0].json()["message"].as_str().unwrap().contains("injected"));
    assert!(replies[0].header("x-ms-activity-id").is_some());
}

#[test]
fn a_partition_is_refused_and_the_others_are_not() {
    let server = in_memory(&["--fault-injection", "on", "--default-ranges", "2"]);
    let create = |body: Value, path: &str, kind: &str, link: &str| {
        let request = Request::new("POST", path).signed(server.key(), kind, link);
        let request = request.header("content-type", "application/json").body(body.to_string());
        assert_eq!(request.send(&mut connect(&server)).unwrap().status, 201);
    };
    // A database with shared throughput, so that the container has the default number of ranges.
    let shared = Request::new("POST", "/dbs")
        .signed(server.key(), "dbs", "")
        .header("x-ms-offer-throughput", "400")
        .body(json!({"id": "shop"}).to_string());
    assert_eq!(shared.send(&mut connect(&server)).unwrap().status, 201);
    let key = json!({"paths": ["/pk"], "kind": "Hash", "version": 2});
    create(json!({"id": "orders", "partitionKey": key}), "/dbs/shop/colls", "colls", "dbs/shop");
    let range_of = |key: &str| {
        read(&server, key).header("x-ms-documentdb-partitionkeyrangeid").unwrap().to_owned()
    };
    let keys: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
    let (in_first, in_second): (Vec<_>, Vec<_>) = keys.iter().partition(|key| range_of(key) == "0");
    let (first, second) = (in_first[0], in_second[0]);
    for (status, substatus) in [(410, 1002), (410, 1007), (410, 1008), (503, 0)] {
        let fault = inject(
            &server,
            &json!({
                "answer": {"status": status, "substatus": substatus}, "database": "shop",
                "container": "orders", "partition": "0", "seconds": 600,
            }),
        );
        let substatus = substatus.to_string();
        let expected = Some(substatus.as_str()).filter(|text| *text != "0");
        assert_eq!(seen(&read(&server, first)), (status, expected));
        assert_eq!(read(&server, second).status, 404);
        // A request that names no partition touches all of them.
        let list = Request::new("GET", "/dbs/shop/colls/orders/docs").signed(
            server.key(),
            "docs",
            "dbs/shop/colls/orders",
        );
        let list_of = |id: &str| list.clone().header("x-ms-documentdb-partitionkeyrangeid", id);
        assert_eq!(list.send(&mut connect(&server)).unwrap().status, status);
        assert_eq!(list_of("0").send(&mut connect(&server)).unwrap().status, status);
        assert_eq!(list_of("1").send(&mut connect(&server)).unwrap().status, 200);
        let end = Request::new("DELETE", &format!("{FAULTS}/{}", fault["id"]));
        let ended = ask_admin(&server, &end);
        assert_eq!(ended.json(), json!({"faults": []}));
        assert_eq!(read(&server, first).status, 404);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the server runs in real time")]
fn commits_take_as_much_longer_as_asked_for() {
    let server = in_memory(&["--fault-injection", "on"]);
    fill(&server);
    inject(&server, &json!({"delayCommitsMs": 300, "seconds": 600}));
    let upsert = Request::new("POST", "/dbs/shop/colls/orders/docs")
        .signed(server.key(), "docs", "dbs/shop/colls/orders")
        .header("x-ms-documentdb-partitionkey", "[\"k7\"]")
        .header("x-ms-documentdb-is-upsert", "True")
        .body(json!({"id": "1", "pk": "k7", "n": 1}).to_string());
    let mut stream = connect(&server);
    let began = std::time::Instant::now();
    assert_eq!(upsert.send(&mut stream).unwrap().status, 200);
    assert!(began.elapsed().as_millis() >= 300);
    let list = ask_admin(&server, &Request::new("GET", FAULTS)).json();
    assert!(list["faults"][0]["fired"].as_u64().unwrap() >= 1, "{list}");
    let none = ask_admin(&server, &Request::new("DELETE", FAULTS)).json();
    assert_eq!(none, json!({"faults": []}));
    assert_eq!(upsert.send(&mut stream).unwrap().status, 200);
}
