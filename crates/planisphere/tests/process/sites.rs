//! Requests that browsers send for pages of other sites, on every listener.

use std::net::{SocketAddr, TcpListener, TcpStream};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use testkit::http::{Request, Response, signature};
use testkit::server::TestServer;

use crate::support::{TIMEOUT, builder, connect, get, in_memory};
use crate::transport::connect_tls;

const OWN_KEY: &str = "bXkgb3duIGtleSwgbG9uZyBlbm91Z2ggdG8gYmUgb25l";
const DEVELOPMENT: &str = "devstoreaccount1";
const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const TABLES: &str = "/devstoreaccount1/Tables";
const PROPERTIES: &str = "/devstoreaccount1/?restype=service&comp=properties";

/// Every kind of listener, with a request that it answers with 200.
fn listeners(server: &TestServer) -> Vec<(&'static str, SocketAddr, Request)> {
    let ready = server.ready();
    let key = server.key();
    let tables = Request::new("GET", "/Tables").signed_for_tables("localhost", key, "");
    let storage = Request::new("GET", TABLES).signed_for_tables(DEVELOPMENT, key, "");
    let bearer = format!("Bearer {key}");
    let admin = Request::new("GET", "/_admin/v1/jobs").header("authorization", &bearer);
    vec![
        ("nosql", ready.address, Request::new("GET", "/").signed(key, "", "")),
        ("table", ready.table.unwrap(), tables),
        ("table storage", ready.table_storage.unwrap(), storage),
        ("admin", ready.admin.unwrap(), admin.clone()),
        ("admin on the nosql port", ready.address, admin),
    ]
}

fn ask(address: SocketAddr, request: &Request) -> Response {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    request.send(&mut stream).unwrap()
}

fn assert_refused(response: &Response, part: &str, seen: &str) {
    let text = response.text();
    assert_eq!(response.status, 403, "{seen}: {text}");
    assert!(text.contains("--allow-host") && text.contains(part), "{seen}: {text}");
    assert_eq!(response.header("access-control-allow-origin"), None, "{seen}");
}

#[test]
fn a_name_that_was_re_pointed_is_no_way_in() {
    let server = in_memory(&[]);
    for (name, address, request) in listeners(&server) {
        let port = address.port();
        let host = |host: &str| ask(address, &request.clone().host(host));
        for ours in [
            format!("localhost:{port}"),
            format!("127.0.0.1:{port}"),
            format!("LOCALHOST.:{port}"),
            format!("account.localhost:{port}"),
            format!("localhost-westus:{port}"),
            format!("[::1]:{port}"),
            "10.9.8.7".to_owned(),
            format!("host.docker.internal:{port}"),
            format!("host.containers.internal:{port}"),
            hostname(),
            format!("{}:{port}", hostname().to_uppercase()),
        ] {
            let answer = host(&ours);
            assert_eq!(answer.status, 200, "{name}, {ours}: {}", answer.text());
        }
        for other in
            ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "localhost-x.evil"]
        {
            let refused = host(&format!("{other}:{port}"));
            assert_refused(&refused, &format!("--allow-host {other}"), name);
        }
    }
    // The same holds over TLS, and requests that need no key are answered.
    let pem = get(&server, "/_explorer/emulator.pem");
    let rebound = Request::new("GET", "/").signed(server.key(), "", "").host("evil.example");
    let refused = rebound.send(&mut connect_tls(&server, &pem.body, "localhost")).unwrap();
    assert_refused(&refused, "evil.example", "https");
    assert_eq!(refused.json()["code"], "Forbidden");
    assert!(refused.header("x-ms-activity-id").is_some());
    let probe = Request::new("GET", "/ready").host("evil.example");
    assert_eq!(probe.send(&mut connect(&server)).unwrap().status, 200);
    assert!(server.stderr().contains("evil.example"), "{}", server.stderr());
}

#[test]
fn the_host_of_an_absolute_address_is_the_one_that_counts() {
    let server = in_memory(&[]);
    for (name, address, request) in listeners(&server) {
        let port = address.port();
        let to = |host: &str, header: &str| {
            ask(address, &request.clone().to_host(&format!("{host}:{port}")).host(header))
        };
        assert_refused(&to("evil.example", "localhost"), "evil.example", name);
        let answer = to("localhost", "evil.example");
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
    }
}

#[test]
fn the_second_port_of_the_nosql_api_is_no_way_in() {
    // A port that is free now may be taken a moment later.
    let (server, port) = (0..10)
        .find_map(|_| {
            let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let flag = ["--memory", "--nosql-second-port", &port.to_string()].map(str::to_owned);
            builder().args(flag).start().ok().map(|server| (server, port))
        })
        .unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let account = Request::new("GET", "/").signed(server.key(), "", "");
    assert_eq!(ask(address, &account).status, 200);
    assert_refused(&ask(address, &account.clone().host("evil.example")), "evil.example", "host");
    let page = account.header("origin", "http://evil.example");
    assert_refused(&ask(address, &page), "http://evil.example", "page");
}

fn hostname() -> String {
    rustix::system::uname().nodename().to_str().unwrap().to_owned()
}

#[test]
fn pages_of_other_sites_are_refused_on_every_listener() {
    let server = in_memory(&[]);
    for (name, address, request) in listeners(&server) {
        let own = format!("localhost:{}", address.port());
        let from =
            |mark: &str, value: &str| ask(address, &request.clone().host(&own).header(mark, value));
        for scheme in ["http", "https"] {
            assert_eq!(from("origin", &format!("{scheme}://{own}")).status, 200, "{name}");
        }
        assert_eq!(from("sec-fetch-site", "same-origin").status, 200, "{name}");
        assert_eq!(from("referer", &format!("http://{own}/_explorer/")).status, 200, "{name}");
        for (mark, value) in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://localhost:3000"),
            ("origin", "http://127.0.0.1:3000"),
            ("referer", "http://evil.example/page"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert_refused(&from(mark, value), "other sites", &format!("{name}, {mark}: {value}"));
        }
    }
}

/// A shared access signature in a query string, made with a well-known key, for adding entities to
/// a table.
fn sas_to_add(table: &str) -> String {
    let (expiry, version) = ("2099-01-01T00:00:00Z", "2019-02-02");
    let resource = format!("/table/{DEVELOPMENT}/{table}");
    let text = format!("a\n\n{expiry}\n{resource}\n\n\n\n{version}\n\n\n\n");
    let signature = signature(DEVELOPMENT_KEY, &text);
    let encoded = utf8_percent_encode(&signature, NON_ALPHANUMERIC);
    format!("tn={table}&sp=a&se={expiry}&sv={version}&sig={encoded}")
}

fn storage(server: &TestServer) -> SocketAddr {
    server.ready().table_storage.unwrap()
}

fn create_table(server: &TestServer) {
    let create = Request::new("POST", TABLES)
        .signed_for_tables(DEVELOPMENT, DEVELOPMENT_KEY, "")
        .header("content-type", "application/json")
        .body(json!({"TableName": "notes"}).to_string());
    assert_eq!(ask(storage(server), &create).status, 201);
}

/// A request that a form or `fetch` of any page can send without a preflight request.
fn simple_insert(row: &str) -> Request {
    Request::new("POST", &format!("/devstoreaccount1/notes?{}", sas_to_add("notes")))
        .body(json!({"PartitionKey": "p", "RowKey": row}).to_string())
}

fn allow_page(server: &TestServer, origin: &str) {
    let rules = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties><Cors><CorsRule>\
         <AllowedOrigins>{origin}</AllowedOrigins><AllowedMethods>GET,POST</AllowedMethods>\
         <AllowedHeaders>*</AllowedHeaders><ExposedHeaders>*</ExposedHeaders>\
         <MaxAgeInSeconds>5</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>"
    );
    let set = Request::new("PUT", PROPERTIES)
        .signed_for_tables(DEVELOPMENT, DEVELOPMENT_KEY, "properties")
        .body(rules);
    let answer = ask(storage(server), &set);
    assert_eq!(answer.status, 202, "{}", answer.text());
}

#[test]
fn a_rule_of_the_table_service_lets_its_origins_in() {
    let server = in_memory(&[]);
    create_table(&server);
    let page = |origin: &str, row: &str| {
        let insert = simple_insert(row).header("origin", origin);
        ask(storage(&server), &insert.header("sec-fetch-site", "cross-site"))
    };
    assert_eq!(ask(storage(&server), &simple_insert("0")).status, 201);
    assert_refused(&page("http://app.example", "1"), "http://app.example", "without a rule");

    allow_page(&server, "http://app.example");
    let inserted = page("http://app.example", "2");
    assert_eq!(inserted.status, 201, "{}", inserted.text());
    assert_eq!(inserted.header("access-control-allow-origin"), Some("http://app.example"));
    assert_refused(&page("http://evil.example", "3"), "http://evil.example", "with a rule");
    let rebound = simple_insert("4").host("evil.example").header("origin", "http://app.example");
    assert_refused(&ask(storage(&server), &rebound), "evil.example", "by another host");
    let method = Request::new("DELETE", &format!("{TABLES}('notes')"))
        .signed_for_tables(DEVELOPMENT, DEVELOPMENT_KEY, "")
        .header("origin", "http://app.example");
    assert_refused(&ask(storage(&server), &method), "http://app.example", "another method");

    let preflight = |origin: &str| {
        let request = Request::new("OPTIONS", "/devstoreaccount1/notes").header("origin", origin);
        let request = request.header("access-control-request-method", "POST");
        ask(storage(&server), &request.header("access-control-request-headers", "content-type"))
    };
    let answer = preflight("http://app.example");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("access-control-allow-origin"), Some("http://app.example"));
    let answer = preflight("http://evil.example");
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (403, None));
    // CORS rules apply to tables only.
    let nosql = Request::new("GET", "/").signed(server.key(), "", "");
    let nosql = nosql.header("origin", "http://app.example");
    assert_refused(&nosql.send(&mut connect(&server)).unwrap(), "http://app.example", "nosql");
}

#[test]
fn hosts_that_were_allowed_are_answered_and_their_pages_too() {
    let server = in_memory(&[
        "--allow-host",
        "db",
        "--allow-host",
        "localhost:3000",
        "--public-endpoint",
        "https://cosmos.example/",
    ]);
    for (name, address, request) in listeners(&server) {
        let port = address.port();
        for host in [format!("db:{port}"), format!("cosmos.example:{port}"), "DB".to_owned()] {
            assert_eq!(ask(address, &request.clone().host(&host)).status, 200, "{name}, {host}");
        }
        assert_refused(&ask(address, &request.clone().host("db.evil")), "db.evil", name);
        for origin in
            ["http://db", "https://db:8443", "http://localhost:3000", "https://cosmos.example"]
        {
            let page = request.clone().header("origin", origin);
            let answer = ask(address, &page.header("sec-fetch-site", "cross-site"));
            let is_public_endpoint = origin == "https://cosmos.example";
            assert_eq!(
                answer.status,
                if is_public_endpoint { 403 } else { 200 },
                "{name}, {origin}"
            );
            let same = request.clone().header("origin", origin);
            assert_eq!(ask(address, &same).status, 200, "{name}, {origin}");
        }
        let other = request.clone().header("origin", "http://localhost:3001");
        assert_refused(&ask(address, &other), "localhost:3001", name);
    }
}

#[test]
fn pages_that_were_allowed_may_ask_and_see_the_answer() {
    let server = in_memory(&["--allow-host", "app.example"]);
    let allow_origin = "access-control-allow-origin";
    for (name, address, request) in listeners(&server) {
        let preflight = |origin: &str| {
            let asked = Request::new("OPTIONS", "/dbs").header("origin", origin);
            let asked = asked.header("access-control-request-method", "POST");
            ask(address, &asked.header("access-control-request-headers", "authorization,x-ms-date"))
        };
        let granted = preflight("https://app.example");
        assert_eq!(granted.status, 204, "{name}: {}", granted.text());
        assert_eq!(granted.header(allow_origin), Some("https://app.example"), "{name}");
        assert_eq!(granted.header("access-control-allow-methods"), Some("POST"), "{name}");
        let headers = granted.header("access-control-allow-headers");
        assert_eq!(headers, Some("authorization,x-ms-date"), "{name}");
        assert_eq!(granted.header("access-control-allow-credentials"), None, "{name}");
        assert_eq!(granted.header("vary"), Some("Origin"), "{name}");
        assert_refused(&preflight("https://evil.example"), "--allow-host", name);

        let page = request.clone().header("origin", "https://app.example");
        let answer = ask(address, &page.clone().header("sec-fetch-site", "cross-site"));
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        assert_eq!(answer.header(allow_origin), Some("https://app.example"), "{name}");
        // A name whose DNS record was changed is refused, whatever its headers state.
        assert_refused(&ask(address, &page.host("evil.example")), "evil.example", name);
        let plain = ask(address, &request);
        assert_eq!((plain.status, plain.header(allow_origin)), (200, None), "{name}");
    }
    let denied = Request::new("GET", "/").header("origin", "https://app.example");
    let denied = denied.send(&mut connect(&server)).unwrap();
    assert_eq!((denied.status, denied.header(allow_origin)), (401, Some("https://app.example")));
}

#[test]
fn with_a_key_of_ones_own_only_the_admin_api_looks_at_pages() {
    let server = in_memory(&["--key", OWN_KEY]);
    for (name, address, request) in listeners(&server) {
        let host = request.clone().host("db.example");
        assert_eq!(ask(address, &host).status, 200, "{name}");
        let page = ask(address, &request.header("origin", "http://app.example"));
        if name.starts_with("admin") {
            assert_refused(&page, "http://app.example", name);
        } else {
            assert_eq!(page.status, 200, "{name}: {}", page.text());
        }
    }
    // The key of the development account is still a well-known one.
    create_table(&server);
    assert_eq!(ask(storage(&server), &simple_insert("1")).status, 201);
    let rebound = simple_insert("2").host("evil.example");
    assert_refused(&ask(storage(&server), &rebound), "public", "a public key by another host");
    let page = simple_insert("3").header("origin", "http://evil.example");
    assert_refused(&ask(storage(&server), &page), "public", "a public key by a page");
}

#[test]
fn the_key_of_other_development_tools_is_public_wherever_it_is_given() {
    let server = in_memory(&["--key", DEVELOPMENT_KEY]);
    for (name, address, request) in listeners(&server) {
        assert_eq!(ask(address, &request).status, 200, "{name}");
        let page = request.clone().header("origin", "http://evil.example");
        assert_refused(&ask(address, &page), "http://evil.example", name);
        assert_refused(&ask(address, &request.host("evil.example")), "evil.example", name);
    }

    let account = format!("{DEVELOPMENT}:{DEVELOPMENT_KEY}");
    let server = in_memory(&["--key", OWN_KEY, "--table-accounts", &account]);
    create_table(&server);
    assert_eq!(ask(storage(&server), &simple_insert("1")).status, 201);
    let rebound = simple_insert("2").host("evil.example");
    assert_refused(&ask(storage(&server), &rebound), "public", "by another host");
    let page = simple_insert("3").header("origin", "http://evil.example");
    assert_refused(&ask(storage(&server), &page), "public", "by a page");
}

#[test]
fn without_any_key_hosts_and_pages_are_looked_at() {
    let server = in_memory(&["--key", OWN_KEY, "--directory", "trust-any"]);
    let account = Request::new("GET", "/").signed(server.key(), "", "");
    assert_eq!(account.clone().send(&mut connect(&server)).unwrap().status, 200);
    let rebound = account.clone().host("evil.example").send(&mut connect(&server)).unwrap();
    assert_refused(&rebound, "evil.example", "host");
    let page = account.header("origin", "null").send(&mut connect(&server)).unwrap();
    assert_refused(&page, "other sites", "page");
}
