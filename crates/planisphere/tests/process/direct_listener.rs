//! Where clients in Direct mode are served, and what they are told of it.

use std::io::Write;
use std::net::TcpStream;

use testkit::http::{Request, Response};
use testkit::rntbd::{Answer, Frame};
use testkit::server::TestServer;

use crate::support::{builder, connect, fill, get, in_memory, run, stderr_of};
use crate::transport::tls_over;

fn connect_to(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(crate::support::TIMEOUT)).unwrap();
    stream
}

/// The status of the answer to the first frame on a connection to this port; `None` if there is
/// none.
fn greeting(server: &TestServer, port: u16) -> Option<u32> {
    let pem = get(server, "/_explorer/emulator.pem").body;
    let mut stream = tls_over(connect_to(port), &pem, "localhost");
    stream.write_all(&Frame::context().to_bytes()).ok()?;
    Some(Answer::read(&mut stream).ok()?.status)
}

/// Asks for the addresses of the account's own resources, or of the ranges of a container, given
/// by the resource ids of its database and its own.
fn addresses(server: &TestServer, container: Option<(&str, &str)>, host: Option<&str>) -> Response {
    let (resolve, kind, link) = match container {
        Some((database, rid)) => {
            let path = format!("dbs%2f{database}%2fcolls%2f{rid}%2fdocs");
            (path.replace('=', "%3d"), "docs", rid.to_ascii_lowercase())
        }
        None => ("dbs".to_owned(), "dbs", String::new()),
    };
    let path = format!("//addresses/?$resolveFor={resolve}&$filter=protocol%20eq%20rntbd");
    let request = Request::new("GET", &path).signed(server.key(), kind, &link);
    let request = match host {
        Some(host) => request.host(host),
        None => request,
    };
    request.send(&mut connect(server)).unwrap()
}

/// Where the addresses in an answer are.
fn hosts(answer: &Response) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    let addresses = answer["Addresss"].as_array().unwrap();
    let host = |address: &serde_json::Value| {
        let url = address["physcialUri"].as_str().unwrap();
        url.strip_prefix("rntbd://").and_then(|rest| rest.split('/').next()).unwrap().to_owned()
    };
    addresses.iter().map(host).collect()
}

/// All replicas at one place.
fn at_each(host: &str) -> [&str; 4] {
    [host; 4]
}

#[test]
fn direct_mode_is_on_the_ports_of_the_nosql_api() {
    let server = in_memory(&["--nosql-second-port", &free_port().to_string()]);
    let port = server.ready().address.port();
    assert_eq!(server.ready().direct, Some(port));
    assert_eq!(greeting(&server, port), Some(200));
    // On the same port, before and after.
    assert_eq!(get(&server, "/ready").status, 200);
    let told = hosts(&addresses(&server, None, Some(&format!("localhost:{port}"))));
    assert_eq!(told, at_each(&format!("localhost:{port}")));
    for other in [server.ready().table, server.ready().admin] {
        assert_eq!(greeting(&server, other.unwrap().port()), None);
    }
}

#[test]
fn direct_mode_can_have_a_port_of_its_own() {
    let direct = free_port();
    let server = in_memory(&["--direct", &direct.to_string()]);
    assert_eq!(server.ready().direct, Some(direct));
    assert_eq!(greeting(&server, direct), Some(200));
    assert_eq!(greeting(&server, server.ready().address.port()), None);
    let told = hosts(&addresses(&server, None, Some("localhost:18081")));
    assert_eq!(told, at_each(&format!("localhost:{direct}")));
    // It speaks nothing else.
    let pem = get(&server, "/_explorer/emulator.pem").body;
    let ready = Request::new("GET", "/ready");
    assert!(ready.send(&mut tls_over(connect_to(direct), &pem, "localhost")).is_err());
    assert!(ready.send(&mut connect_to(direct)).is_err());
}

#[test]
fn a_port_for_direct_mode_that_is_taken_ends_the_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(&["serve", "--memory", "--ports", "auto", "--direct", &port]);
    let said = stderr_of(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&port) && said.contains("--direct"), "{said}");
}

#[test]
fn without_direct_mode_addresses_are_refused_with_the_remedy() {
    let server = in_memory(&["--direct", "off"]);
    assert_eq!(server.ready().direct, None);
    fill(&server);
    let rid = |link: &str, kind| {
        let read = Request::new("GET", &format!("/{link}")).signed(server.key(), kind, link);
        let read = read.send(&mut connect(&server)).unwrap().json();
        read["_rid"].as_str().unwrap().to_owned()
    };
    let (database, container) = (rid("dbs/shop", "dbs"), rid("dbs/shop/colls/orders", "colls"));
    for container in [None, Some((database.as_str(), container.as_str()))] {
        let answer = addresses(&server, container, None);
        assert_eq!(answer.status, 400, "{}", answer.text());
        let text = answer.text();
        assert!(text.contains("Gateway") && text.contains("--direct"), "{text}");
    }
    assert_eq!(greeting(&server, server.ready().address.port()), None);
    assert_eq!(get(&server, "/ready").status, 200);
}

#[test]
fn addresses_have_the_port_that_the_client_reaches_unless_a_public_endpoint_says_otherwise() {
    let server = in_memory(&[]);
    for host in ["localhost:18081", "127.0.0.1:9", "host.docker.internal:443"] {
        assert_eq!(hosts(&addresses(&server, None, Some(host))), at_each(host));
    }
    let told = hosts(&addresses(&server, None, Some("[::1]:18081")));
    assert_eq!(told, at_each("localhost:18081"));

    let public = ["--public-endpoint", "https://db.example:8443/"];
    let server = in_memory(&public);
    assert_eq!(hosts(&addresses(&server, None, None)), at_each("db.example:8443"));
    let direct = free_port().to_string();
    let server = builder().args(["--memory"]).args(public).args(["--direct", &direct]);
    let told = hosts(&addresses(&server.start().unwrap(), None, None));
    assert_eq!(told, at_each(&format!("db.example:{direct}")));
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
