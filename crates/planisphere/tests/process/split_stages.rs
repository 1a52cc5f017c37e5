//! Kills the server in every stage of a split and of a merge, and checks that no data is lost.

use serde_json::{Value, json};
use testkit::http::Request;
use testkit::server::TestServer;

use crate::support::{builder, connect};

const PARTITIONS: &str = "/_admin/v1/containers/shop/orders/partitions";
const DOCS: &str = "/dbs/shop/colls/orders/docs";
const KEYS: usize = 40;

/// The stage in which the server is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Rows are being copied, and the copy is interrupted.
    Copying,
    /// All rows are copied, the old partitions serve.
    Copied,
    /// Writes to the old partitions are held.
    Swapping,
    /// The new partitions have just taken over.
    Over,
}

fn send(server: &TestServer, request: Request) -> (u16, Value) {
    let response = request.send(&mut connect(server)).unwrap();
    let is_empty = response.text().is_empty();
    (response.status, if is_empty { Value::Null } else { response.json() })
}

fn admin(server: &TestServer, method: &str, path: &str, body: &Value) -> Value {
    let request = Request::new(method, path).header("content-type", "application/json");
    let request = if body.is_null() { request } else { request.body(body.to_string()) };
    let response = request.send(&mut server.connect_admin().unwrap()).unwrap();
    assert!(response.status < 300, "{method} {path}: {} {}", response.status, response.text());
    response.json()
}

fn create(server: &TestServer, path: &str, kind: &str, link: &str, body: &Value) -> u16 {
    let request = Request::new("POST", path).signed(server.key(), kind, link);
    let request = request.header("content-type", "application/json").body(body.to_string());
    let key = json!([body["pk"]]).to_string();
    send(server, request.header("x-ms-documentdb-partitionkey", &key)).0
}

fn write(server: &TestServer, key: usize, version: usize) -> u16 {
    let item = json!({"id": "1", "pk": format!("k{key}"), "version": version, "filler": "x".repeat(30_000)});
    let request = Request::new("POST", DOCS)
        .signed(server.key(), "docs", "dbs/shop/colls/orders")
        .header("content-type", "application/json")
        .header("x-ms-documentdb-is-upsert", "true")
        .header("x-ms-documentdb-partitionkey", &format!("[\"k{key}\"]"))
        .body(item.to_string());
    send(server, request).0
}

fn read(server: &TestServer, key: usize) -> (u16, Value) {
    let request = Request::new("GET", &format!("{DOCS}/1"))
        .signed(server.key(), "docs", "dbs/shop/colls/orders/docs/1")
        .header("x-ms-documentdb-partitionkey", &format!("[\"k{key}\"]"));
    let (status, body) = send(server, request);
    (status, body["version"].clone())
}

fn assert_all_there(server: &TestServer, versions: &[usize], stage: Stage) {
    for (key, version) in versions.iter().enumerate() {
        assert_eq!(read(server, key), (200, json!(version)), "key {key} after {stage:?}");
    }
}

fn partition_ids(server: &TestServer) -> Vec<Value> {
    let shown = admin(server, "GET", PARTITIONS, &Value::Null);
    shown["partitions"].as_array().unwrap().iter().map(|p| p["id"].clone()).collect()
}

fn job(server: &TestServer, id: &Value) -> Value {
    admin(server, "GET", &format!("/_admin/v1/jobs/{id}"), &Value::Null)
}

fn step(server: &TestServer, id: &Value, what: &str) -> Value {
    admin(server, "POST", &format!("/_admin/v1/jobs/{id}/{what}"), &Value::Null)
}

fn begin(server: &TestServer) -> Value {
    let ids = partition_ids(server);
    let (path, body) = match ids.len() {
        1 => {
            let id = ids[0].as_str().unwrap();
            (format!("{PARTITIONS}/{id}/split"), json!({"at": "median", "manual": true}))
        }
        _ => (format!("{PARTITIONS}/merge"), json!({"ids": ids, "manual": true})),
    };
    admin(server, "POST", &path, &body)["id"].clone()
}

/// Advances a job to `stage`, with writes in between.
fn drive(server: &TestServer, stage: Stage, versions: &mut [usize]) -> Value {
    let id = begin(server);
    if stage == Stage::Copying {
        step(server, &id, "pause");
    }
    for (key, version) in versions.iter_mut().enumerate().step_by(3) {
        *version += 1;
        assert_eq!(write(server, key, *version), 200);
    }
    match stage {
        Stage::Copying => {}
        // The request for the step after the copy waits for the copy's end, but also takes the
        // step.
        Stage::Copied => while job(server, &id)["progress"] != 1.0 {},
        Stage::Swapping => {
            assert_eq!(step(server, &id, "advance")["phase"], "swapping");
            assert_eq!(write(server, 0, 1_000), 410, "it stands still");
        }
        Stage::Over => {
            step(server, &id, "advance");
            assert_eq!(step(server, &id, "advance")["phase"], "succeeded");
        }
    }
    id
}

#[test]
fn nothing_is_lost_in_any_stage_of_a_split_or_merge() {
    let mut server = builder().args(["--throttling", "off"]).start().unwrap();
    assert_eq!(create(&server, "/dbs", "dbs", "", &json!({"id": "shop"})), 201);
    let container =
        json!({"id": "orders", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
    assert_eq!(create(&server, "/dbs/shop/colls", "colls", "dbs/shop", &container), 201);
    let mut versions = vec![0; KEYS];
    for key in 0..KEYS {
        assert_eq!(write(&server, key, 0), 201);
    }
    // Splits and merges alternate.
    for stage in [Stage::Copying, Stage::Copied, Stage::Swapping, Stage::Over].repeat(2) {
        let ranges_before = partition_ids(&server).len();
        let id = drive(&server, stage, &mut versions);
        server.restart().unwrap();
        assert_all_there(&server, &versions, stage);
        if stage != Stage::Over {
            let now = job(&server, &id);
            assert_eq!(now["phase"], "preparing", "it goes on after {stage:?}");
            assert_eq!(now["paused"], stage == Stage::Copying, "what was paused stays so");
            assert_eq!(write(&server, 1, versions[1]), 200);
            step(&server, &id, "resume");
            step(&server, &id, "advance");
            assert_eq!(step(&server, &id, "advance")["phase"], "succeeded");
            assert_all_there(&server, &versions, stage);
        }
        assert_eq!(partition_ids(&server).len(), 3 - ranges_before, "after {stage:?}");
    }
}
