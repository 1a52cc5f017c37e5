//! Shared helpers of these tests.

use std::io::Read;
use std::net::TcpStream;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::http::{Request, Response};
use testkit::server::{ServerBuilder, TestServer};

/// Longer than any step of these tests takes.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A server in memory with more arguments.
pub(crate) fn in_memory(arguments: &[&str]) -> TestServer {
    builder().args(["--memory"]).args(arguments.iter().copied()).start().unwrap()
}

pub(crate) fn builder() -> ServerBuilder {
    ServerBuilder::new(binary())
}

pub(crate) fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_planisphere")
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    Command::new(binary()).args(arguments).output().unwrap()
}

pub(crate) fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn connect(server: &TestServer) -> TcpStream {
    let stream = server.connect().unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

pub(crate) fn get(server: &TestServer, path: &str) -> Response {
    Request::new("GET", path).send(&mut connect(server)).unwrap()
}

/// `GET /` signed with `key`.
pub(crate) fn read_account(server: &TestServer, key: &str) -> Response {
    Request::new("GET", "/").signed(key, "", "").send(&mut connect(server)).unwrap()
}

pub(crate) fn assert_alive(server: &TestServer) {
    let response = get(server, "/ready");
    assert_eq!((response.status, response.text().as_str()), (200, r#"{"ready":true}"#));
}

/// Waits until the server closes the connection, and returns what it sent until then.
pub(crate) fn read_until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("the connection was not closed within {TIMEOUT:?}: {error}"),
    }
}

/// Sends a request to the admin port.
pub(crate) fn ask_admin(server: &TestServer, request: &Request) -> Response {
    request.send(&mut server.connect_admin().unwrap()).unwrap()
}

/// A request of the NoSQL API that creates a resource.
pub(crate) fn write(
    server: &TestServer,
    path: &str,
    kind: &str,
    link: &str,
    body: &Value,
) -> Request {
    let request = Request::new("POST", path).signed(server.key(), kind, link);
    request.header("content-type", "application/json").body(body.to_string())
}

/// Database `shop` with container `orders`, keyed by `/pk`, and an item of each of 50 keys.
pub(crate) fn fill(server: &TestServer) {
    let mut stream = connect(server);
    let database = write(server, "/dbs", "dbs", "", &json!({"id": "shop"}));
    assert_eq!(database.send(&mut stream).unwrap().status, 201);
    let container =
        json!({"id": "orders", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
    let container = write(server, "/dbs/shop/colls", "colls", "dbs/shop", &container);
    assert_eq!(container.send(&mut stream).unwrap().status, 201);
    for key in 0..50 {
        let item = json!({"id": "1", "pk": format!("k{key}")});
        let create =
            write(server, "/dbs/shop/colls/orders/docs", "docs", "dbs/shop/colls/orders", &item)
                .header("x-ms-documentdb-partitionkey", &format!("[\"k{key}\"]"));
        assert_eq!(create.send(&mut stream).unwrap().status, 201);
    }
}

/// Polls a job until it is in `phase`.
#[expect(clippy::disallowed_methods, reason = "the server runs in real time")]
pub(crate) fn wait_until(server: &TestServer, job: &str, phase: &str) {
    let deadline = std::time::Instant::now() + TIMEOUT;
    loop {
        let job = ask_admin(server, &Request::new("GET", job)).json();
        if job["phase"] == phase {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{job}");
    }
}
