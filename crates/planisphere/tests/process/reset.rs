//! `planisphere reset`.

use serde_json::json;
use testkit::http::Request;
use testkit::server::TestServer;

use crate::commands::{json_of, on, said};
use crate::support::{TIMEOUT, ask_admin, builder, connect, fill, in_memory, stderr_of};

fn post(server: &TestServer, path: &str, body: &serde_json::Value) -> u16 {
    ask_admin(server, &Request::new("POST", path).body(body.to_string())).status
}

fn databases(server: &TestServer) -> usize {
    let shown = ask_admin(server, &Request::new("GET", "/_admin/v1/databases")).json();
    shown["databases"].as_array().unwrap().len()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the server runs in real time")]
fn a_server_in_memory_is_emptied_however_much_it_has() {
    let server = in_memory(&["--fault-injection", "on"]);
    fill(&server);
    let user = Request::new("POST", "/dbs/shop/users")
        .signed(server.key(), "users", "dbs/shop")
        .header("content-type", "application/json")
        .body(r#"{"id":"u"}"#);
    assert_eq!(user.send(&mut connect(&server)).unwrap().status, 201);
    for database in 0..20 {
        let id = format!("d{database}");
        let body = json!({"id": id, "throughput": {"manual": 400}});
        assert_eq!(post(&server, "/_admin/v1/databases", &body), 201);
        for container in 0..20 {
            let body = json!({
                "id": format!("c{container}"),
                "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
            });
            assert_eq!(post(&server, &format!("/_admin/v1/containers/{id}"), &body), 201);
        }
    }
    let fault = json!({"delayCommitsMs": 100, "seconds": 600});
    assert_eq!(post(&server, "/_admin/v1/faults", &fault), 201);
    let begun = std::time::Instant::now();
    let reset = json_of(&on(&server, &["reset", "--json"]));
    assert!(begun.elapsed() < TIMEOUT, "{:?}", begun.elapsed());
    assert_eq!(reset, json!({"databases": 21, "containers": 401, "faults": 1}));
    assert_eq!(databases(&server), 0);
    let offers = Request::new("GET", "/offers").signed(server.key(), "offers", "");
    assert_eq!(offers.send(&mut connect(&server)).unwrap().json()["_count"], 0);
    // New resources under the same names contain none of the old data.
    fill(&server);
    let users = Request::new("GET", "/dbs/shop/users").signed(server.key(), "users", "dbs/shop");
    assert_eq!(users.send(&mut connect(&server)).unwrap().json()["_count"], 0);
    assert_eq!(said(&on(&server, &["reset"])), "Deleted 1 database with 1 container.\n");
    assert_eq!(said(&on(&server, &["reset"])), "Deleted 0 databases with 0 containers.\n");
}

#[test]
fn data_on_disk_is_deleted_only_if_that_is_said() {
    let mut server = builder().start().unwrap();
    fill(&server);
    let refused = on(&server, &["reset"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr_of(&refused).contains("--yes"), "{}", stderr_of(&refused));
    assert_eq!(post(&server, "/_admin/v1/reset", &json!({"yes": false})), 403);
    assert_eq!(post(&server, "/_admin/v1/reset", &json!({"really": true})), 400);
    assert_eq!(databases(&server), 1);
    // A running job ends when its container is deleted.
    said(&on(&server, &["partitions", "split", "shop/orders", "0", "--manual"]));
    assert!(said(&on(&server, &["reset", "--yes"])).starts_with("Deleted 1 database"));
    server.restart().unwrap();
    assert_eq!(databases(&server), 0);
    fill(&server);
}

#[test]
fn a_read_only_key_resets_nothing() {
    const READER: &str = "YSBrZXkgdGhhdCBtYXkgb25seSByZWFkIHRoaW5ncw==";
    let server = in_memory(&["--readonly-key", READER]);
    fill(&server);
    let refused = on(&server, &["reset", "--yes", "--key", READER]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(databases(&server), 1);
}
