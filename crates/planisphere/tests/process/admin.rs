//! The admin API of the real binary: its authorization and its operations.

use std::io::Write;

use serde_json::{Value, json};
use testkit::http::Request;

use crate::support::{ask_admin, assert_alive, connect, fill, in_memory, wait_until};

const MINE: &str = "bXkgb3duIGtleSwgbG9uZyBlbm91Z2ggdG8gYmUgb25l";
const READER: &str = "YSBrZXkgdGhhdCBtYXkgb25seSByZWFkIHRoaW5ncw==";
const JOBS: &str = "/_admin/v1/jobs";

fn bearer(request: Request, key: &str) -> Request {
    request.header("authorization", &format!("Bearer {key}"))
}

#[test]
fn with_the_well_known_key_the_admin_port_needs_none() {
    let server = in_memory(&["--readonly-key", READER]);
    let plain = Request::new("GET", JOBS);
    assert_eq!(ask_admin(&server, &plain).json(), json!({"jobs": []}));
    for key in [server.key(), READER] {
        assert_eq!(ask_admin(&server, &bearer(plain.clone(), key)).status, 200);
    }
    // A given key must be valid.
    assert_eq!(ask_admin(&server, &bearer(plain.clone(), MINE)).status, 401);
    let garbled = plain.clone().header("authorization", "type=master");
    assert_eq!(ask_admin(&server, &garbled).status, 401);
    assert_eq!(ask_admin(&server, &plain.header("x-forwarded-for", "10.0.0.1")).status, 401);
}

#[test]
fn with_another_key_the_admin_port_needs_it() {
    let server = in_memory(&["--key", MINE, "--readonly-key", READER]);
    let plain = Request::new("GET", JOBS);
    let refused = ask_admin(&server, &plain);
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    assert!(refused.json()["message"].as_str().unwrap().contains("Bearer KEY"));
    for key in [MINE, READER] {
        assert_eq!(ask_admin(&server, &bearer(plain.clone(), key)).status, 200);
    }
    let signed = plain.clone().signed(MINE, "jobs", "_admin/v1");
    assert_eq!(ask_admin(&server, &signed).status, 200);
    let wrongly = plain.signed(MINE, "jobs", "_admin/v2");
    assert_eq!(ask_admin(&server, &wrongly).status, 401);
}

#[test]
fn the_nosql_port_always_needs_a_key() {
    for own_key in [None, Some(MINE)] {
        let mut flags = vec!["--readonly-key", READER];
        flags.extend(own_key.into_iter().flat_map(|key| ["--key", key]));
        let server = in_memory(&flags);
        let plain = Request::new("GET", JOBS);
        let mut stream = connect(&server);
        assert_eq!(plain.send(&mut stream).unwrap().status, 401);
        for key in [server.key(), READER] {
            assert_eq!(bearer(plain.clone(), key).send(&mut stream).unwrap().status, 200);
        }
        let signed = plain.signed(server.key(), "jobs", "_admin/v1");
        assert_eq!(signed.send(&mut stream).unwrap().status, 200);
    }
}

#[test]
fn a_read_only_key_reads_and_does_nothing_else() {
    let server = in_memory(&["--readonly-key", READER]);
    fill(&server);
    let split = "/_admin/v1/containers/shop/orders/partitions/0/split";
    let mut stream = connect(&server);
    for (method, path, status) in [
        ("GET", "/_admin/v1/containers", 200),
        ("GET", "/_admin/v1/containers/shop/orders/partitions", 200),
        ("POST", split, 403),
        ("POST", "/_admin/v1/jobs/1/cancel", 403),
    ] {
        let request = bearer(Request::new(method, path), READER);
        assert_eq!(request.send(&mut stream).unwrap().status, status, "{method} {path}");
        assert_eq!(ask_admin(&server, &request).status, status, "{method} {path}");
    }
    let allowed = bearer(Request::new("POST", split), server.key());
    assert_eq!(allowed.send(&mut stream).unwrap().status, 202);
}

#[test]
fn a_browser_is_no_way_in() {
    let server = in_memory(&[]);
    let port = server.ready().admin.unwrap().port();
    // The page's own name still resolves to this machine after its DNS record was changed.
    let rebound = |path: &str| {
        let mut stream = server.connect_admin().unwrap();
        let text = format!("GET {path} HTTP/1.1\r\nhost: evil.example:{port}\r\n\r\n");
        stream.write_all(text.as_bytes()).unwrap();
        testkit::http::read_response(&mut stream).unwrap()
    };
    assert_eq!(rebound(JOBS).status, 403);
    assert!(rebound(JOBS).json()["message"].as_str().unwrap().contains("evil.example"));

    let form = Request::new("POST", "/_admin/v1/jobs/1/cancel");
    for (name, value) in [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("referer", "http://evil.example/page"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let refused = ask_admin(&server, &form.clone().header(name, value));
        assert_eq!(refused.status, 403, "{name}: {value}");
        // The key is well known, so a page that sends it is refused too, on both ports.
        let with_key = bearer(form.clone(), server.key()).header(name, value);
        assert_eq!(ask_admin(&server, &with_key).status, 403, "{name}: {value}");
        assert_eq!(with_key.send(&mut connect(&server)).unwrap().status, 403, "{name}: {value}");
    }
    // No response lets a browser show it to a page of another site, whatever the preflight request
    // asks for.
    let preflight = Request::new("OPTIONS", JOBS).header("origin", "http://evil.example");
    let refused = ask_admin(&server, &preflight);
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (403, None));
    let ours = Request::new("GET", JOBS).header("origin", "http://localhost");
    assert_eq!(ask_admin(&server, &ours).status, 200);
}

#[test]
fn metrics_are_as_protected_as_the_admin_port() {
    let metrics = Request::new("GET", "/metrics");
    let server = in_memory(&[]);
    for mut stream in [server.connect_admin().unwrap(), connect(&server)] {
        let found = metrics.send(&mut stream).unwrap();
        assert_eq!(found.status, 200);
        assert!(found.header("content-type").unwrap().starts_with("application/openmetrics-text"));
        assert!(found.text().contains("planisphere_build_info"), "{}", found.text());
        let elsewhere = metrics.clone().header("origin", "http://evil.example");
        assert_eq!(elsewhere.send(&mut stream).unwrap().status, 403);
        assert_eq!(Request::new("POST", "/metrics").send(&mut stream).unwrap().status, 405);
    }
    let server = in_memory(&["--key", MINE, "--readonly-key", READER]);
    for mut stream in [server.connect_admin().unwrap(), connect(&server)] {
        assert_eq!(metrics.send(&mut stream).unwrap().status, 401);
        assert_eq!(bearer(metrics.clone(), READER).send(&mut stream).unwrap().status, 200);
    }
}

#[test]
fn off_loopback_the_admin_port_is_never_open() {
    let server = in_memory(&["--admin-bind", "0.0.0.0"]);
    assert_ne!(
        server.key(),
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
    );
    let plain = Request::new("GET", JOBS);
    assert_eq!(ask_admin(&server, &plain).status, 401);
    assert_eq!(ask_admin(&server, &bearer(plain, server.key())).status, 200);
}

#[test]
fn the_admin_port_can_be_turned_off() {
    let server = in_memory(&["--admin-port", "0"]);
    assert_eq!(server.ready().admin, None);
    assert_alive(&server);
    let with_key = bearer(Request::new("GET", JOBS), server.key());
    assert_eq!(with_key.send(&mut connect(&server)).unwrap().status, 200);
}

#[test]
fn a_container_is_split_and_merged_over_the_wire() {
    let server = in_memory(&[]);
    fill(&server);
    let partitions = "/_admin/v1/containers/shop/orders/partitions";
    let shown = ask_admin(&server, &Request::new("GET", partitions)).json();
    assert_eq!(shown["container"]["items"], 50);
    let split = ask_admin(&server, &Request::new("POST", &format!("{partitions}/0/split")));
    assert_eq!(split.status, 202);
    let location = split.header("location").unwrap().to_owned();
    wait_until(&server, &location, "succeeded");
    let shown = ask_admin(&server, &Request::new("GET", partitions)).json();
    let ids: Vec<_> = shown["partitions"].as_array().unwrap().iter().map(|p| &p["id"]).collect();
    assert_eq!(ids, ["1", "2"]);
    let items: u64 = shown["partitions"].as_array().unwrap().iter().map(items_of).sum();
    assert_eq!(items, 50);
    let merge = Request::new("POST", &format!("{partitions}/merge"))
        .body(json!({"ids": ["1", "2"], "manual": true}).to_string());
    let merge = ask_admin(&server, &merge);
    assert_eq!(merge.status, 202, "{}", merge.text());
    let location = merge.header("location").unwrap().to_owned();
    let step = Request::new("POST", &format!("{location}/advance"));
    assert_eq!(ask_admin(&server, &step).json()["phase"], "swapping");
    let read = Request::new("GET", "/dbs/shop/colls/orders/docs/1")
        .signed(server.key(), "docs", "dbs/shop/colls/orders/docs/1")
        .header("x-ms-documentdb-partitionkey", "[\"k7\"]");
    let held = read.send(&mut connect(&server)).unwrap();
    assert_eq!((held.status, held.header("x-ms-substatus")), (410, Some("1007")));
    assert_eq!(ask_admin(&server, &step).json()["phase"], "succeeded");
    assert_eq!(read.send(&mut connect(&server)).unwrap().status, 200);
}

fn items_of(partition: &Value) -> u64 {
    partition["items"].as_u64().unwrap()
}
