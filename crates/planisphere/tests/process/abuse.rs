//! Clients that are slow, silent, send too much or send nonsense.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use testkit::http::{Request, read_response};
use testkit::server::TestServer;

use crate::support::{assert_alive, connect, in_memory, read_until_closed};

#[test]
fn a_silent_connection_is_cut() {
    let server = in_memory(&["--head-timeout-s", "1"]);
    let mut stream = connect(&server);
    assert!(read_until_closed(&mut stream).is_empty());
    assert_alive(&server);
}

#[test]
fn headers_that_trickle_are_cut_though_bytes_keep_coming() {
    let server = in_memory(&["--head-timeout-s", "1"]);
    let mut stream = connect(&server);
    stream.write_all(b"GET /ready HTTP/1.1\r\n").unwrap();
    assert!(trickle(&mut stream, b"a: b\r\n"), "the server took headers for ever");
    assert_alive(&server);
}

#[test]
fn a_body_that_trickles_is_cut_though_bytes_keep_coming() {
    let server = in_memory(&["--body-timeout-s", "1"]);
    let mut stream = connect(&server);
    stream
        .write_all(b"POST /dbs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n")
        .unwrap();
    assert!(trickle(&mut stream, b" "), "the server took a body for ever");
    assert_alive(&server);
}

#[test]
fn a_body_that_stops_coming_is_answered_and_its_connection_closed() {
    let server = in_memory(&["--body-timeout-s", "1"]);
    let create = Request::new("POST", "/dbs").signed(server.key(), "dbs", "");
    let bytes = create.body(vec![b' '; 100]).bytes();
    let mut stream = connect(&server);
    stream.write_all(&bytes[..bytes.len() - 50]).unwrap();
    let late = read_response(&mut stream).unwrap();
    assert_eq!((late.status, late.header("connection")), (408, Some("close")));
    assert_eq!(late.json()["code"], "RequestTimeout");
    assert!(read_until_closed(&mut stream).is_empty());
    assert_alive(&server);
}

#[test]
fn the_admin_port_is_no_more_patient() {
    let server = in_memory(&["--body-timeout-s", "1"]);
    let split = Request::new("POST", "/_admin/v1/containers/d/c/partitions/0/split");
    let bytes = split.clone().body(vec![b' '; 100]).bytes();
    let mut stream = server.connect_admin().unwrap();
    stream.write_all(&bytes[..bytes.len() - 50]).unwrap();
    let late = read_response(&mut stream).unwrap();
    assert_eq!((late.status, late.header("connection")), (408, Some("close")));
    assert!(read_until_closed(&mut stream).is_empty());

    let mut stream = server.connect_admin().unwrap();
    let large = split.body(vec![b' '; 1 << 20]).send(&mut stream).unwrap();
    assert_eq!(large.status, 413);
    // The unread body is discarded, so that the connection can be used again.
    assert_eq!(Request::new("GET", "/_admin/v1/jobs").send(&mut stream).unwrap().status, 200);
    let endless = format!("/_admin/v1/{}", "x/".repeat(10_000));
    assert_eq!(Request::new("GET", &endless).send(&mut stream).unwrap().status, 404);
    assert_alive(&server);
}

/// Sends `bytes` repeatedly until the server closes the connection; false if it never does.
fn trickle(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    (0..400).any(|_| {
        let mut answer = [0; 4096];
        let sent = stream.write_all(bytes);
        // Waits for an answer for a short time, which paces the sending.
        let closed = match std::io::Read::read(stream, &mut answer) {
            Ok(count) => count == 0,
            Err(error) => !is_timeout(&error),
        };
        sent.is_err() || closed
    })
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

#[test]
fn an_idle_connection_is_cut_after_its_last_answer() {
    let server = in_memory(&["--idle-timeout-s", "1"]);
    let mut stream = connect(&server);
    for _ in 0..2 {
        assert_eq!(Request::new("GET", "/ready").send(&mut stream).unwrap().status, 200);
    }
    assert!(read_until_closed(&mut stream).is_empty());
}

#[test]
fn each_listener_has_an_idle_time_of_its_own() {
    let server = in_memory(&["--table-storage-idle-timeout-s", "1"]);
    let ready = Request::new("GET", "/ready");
    let mut nosql = connect(&server);
    assert_eq!(ready.send(&mut nosql).unwrap().status, 200);
    let mut tables = TcpStream::connect(server.ready().table_storage.unwrap()).unwrap();
    tables.set_read_timeout(Some(crate::support::TIMEOUT)).unwrap();
    assert_eq!(ready.send(&mut tables).unwrap().status, 200);
    assert!(read_until_closed(&mut tables).is_empty());
    // It was idle for longer, but is still open.
    assert_eq!(ready.send(&mut nosql).unwrap().status, 200);
}

#[test]
fn a_tls_handshake_that_stalls_is_cut() {
    let server = in_memory(&["--head-timeout-s", "1"]);
    let mut stream = connect(&server);
    stream.write_all(&[0x16, 3, 1, 2, 0, 1]).unwrap();
    read_until_closed(&mut stream);
    assert_alive(&server);
}

#[test]
fn too_many_header_bytes_are_refused() {
    let server = in_memory(&["--header-bytes-max", "8192"]);
    let big = Request::new("GET", "/dbs").header("x-big", &"a".repeat(9000));
    let refused = big.send(&mut connect(&server)).unwrap();
    assert_eq!(refused.status, 431);
    assert_eq!(refused.json()["code"], "RequestHeaderFieldsTooLarge");
    let huge = Request::new("GET", "/ready").header("x-big", &"a".repeat(20_000));
    assert_eq!(huge.send(&mut connect(&server)).unwrap().status, 431);
    let fitting = Request::new("GET", "/ready").header("x-big", &"a".repeat(7000));
    assert_eq!(fitting.send(&mut connect(&server)).unwrap().status, 200);
}

#[test]
fn too_many_headers_are_refused() {
    let server = in_memory(&[]);
    let with = |count: usize| {
        let request = Request::new("GET", "/ready");
        (0..count).fold(request, |request, i| request.header(&format!("x-{i}"), "v"))
    };
    assert_eq!(with(90).send(&mut connect(&server)).unwrap().status, 200);
    assert_eq!(with(200).send(&mut connect(&server)).unwrap().status, 431);
}

#[test]
fn nonsense_is_answered_or_cut_and_harms_nobody() {
    let server = in_memory(&["--head-timeout-s", "1"]);
    let nonsense: &[&[u8]] = &[
        b"\0\0\0\0",
        b"hello there\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01garbage that is no client hello at all",
        b"\x80\x2e\x01\x03\x01",
        &[0xff; 70_000],
    ];
    for bytes in nonsense {
        let mut stream = connect(&server);
        // The server may close before it has read everything.
        let _ = stream.write_all(bytes);
        let answer = read_until_closed(&mut stream);
        let status = String::from_utf8_lossy(&answer).into_owned();
        let refused = status.is_empty()
            || !answer.starts_with(b"HTTP/1.1 ")
            || status.starts_with("HTTP/1.1 4")
            || status.starts_with("HTTP/1.1 505");
        assert!(refused, "{bytes:?} was answered with {status}");
        assert_alive(&server);
    }
}

#[test]
fn a_client_that_leaves_in_the_middle_harms_nobody() {
    let server = in_memory(&[]);
    for cut in [1, 20, 60] {
        let bytes = Request::new("POST", "/dbs").body(vec![b'x'; 1000]).bytes();
        connect(&server).write_all(&bytes[..cut]).unwrap();
    }
    assert_alive(&server);
}

#[test]
fn a_refused_body_is_read_to_its_end_so_that_the_answer_arrives() {
    let server = in_memory(&[]);
    let mut stream = connect(&server);
    // The request is not authenticated, so no handler reads its twelve megabytes.
    let unsigned = Request::new("POST", "/dbs").body(vec![b' '; 12 << 20]);
    let response = unsigned.send(&mut stream).unwrap();
    assert!(matches!(response.status, 401 | 413), "{}", response.status);
    assert_eq!(Request::new("GET", "/ready").send(&mut stream).unwrap().status, 200);
}

#[test]
fn items_of_tens_of_megabytes_are_told_that_they_are_too_large() {
    let server = in_memory(&[]);
    let signed = |kind: &str, link: &str| {
        Request::new("POST", &format!("/{link}/{kind}"))
            .signed(server.key(), kind, link)
            .header("x-ms-documentdb-partitionkey", "[\"a\"]")
    };
    crate::support::fill(&server);
    // Like clients that send all of a request before they read the response.
    for megabytes in [3, 30, 50, 90] {
        let mut stream = connect(&server);
        let item = signed("docs", "dbs/shop/colls/orders").body(vec![b' '; megabytes << 20]);
        let refused = item.send(&mut stream).unwrap();
        assert_eq!(refused.status, 413, "{megabytes} MB: {}", refused.text());
        assert_eq!(Request::new("GET", "/ready").send(&mut stream).unwrap().status, 200);
    }
    // Like clients that do not know the length beforehand.
    let mut stream = connect(&server);
    let item = signed("docs", "dbs/shop/colls/orders").header("transfer-encoding", "chunked");
    stream.write_all(&item.bytes()).unwrap();
    let chunk = [format!("{:x}\r\n", 1 << 20).as_bytes(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    for _ in 0..50 {
        stream.write_all(&chunk).unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(read_response(&mut stream).unwrap().status, 413);
}

#[test]
fn a_body_without_end_is_not_read_without_end() {
    let server = in_memory(&[]);
    let mut stream = connect(&server);
    stream
        .write_all(b"POST /dbs HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        .unwrap();
    let mut chunk = format!("{:x}\r\n", 1 << 20).into_bytes();
    chunk.resize(chunk.len() + (1 << 20), b' ');
    chunk.extend_from_slice(b"\r\n");
    let endless = (0..1000).all(|_| stream.write_all(&chunk).is_ok());
    assert!(!endless, "a gigabyte was taken");
    assert_alive(&server);
}

#[test]
fn one_connection_too_many_takes_the_place_of_an_idle_one() {
    let server = in_memory(&["--connections-max", "2"]);
    let mut first = connect(&server);
    let mut second = connect(&server);
    for stream in [&mut first, &mut second] {
        assert_eq!(Request::new("GET", "/ready").send(stream).unwrap().status, 200);
    }
    // A client can have its answer before the server has recorded that the connection is idle. So
    // the test can't know which connection is closed, and for a moment perhaps none can be.
    let ready = Request::new("GET", "/ready");
    let third = (0..1000).map(|_| connect(&server)).find_map(|mut stream| {
        let response = ready.send(&mut stream).ok()?;
        Some((stream, response.status))
    });
    assert_eq!(third.as_ref().map(|(_, status)| *status), Some(200));
    let left = [first, second].into_iter().filter_map(|mut stream| ready.send(&mut stream).ok());
    assert_eq!(left.count(), 1);
}

#[test]
fn requests_in_one_write_are_answered_in_order() {
    let server: TestServer = in_memory(&[]);
    let mut stream = connect(&server);
    let ready = Request::new("GET", "/ready").bytes();
    let health = Request::new("GET", "/healthz").bytes();
    stream.write_all(&[ready.clone(), health, ready].concat()).unwrap();
    let bodies: Vec<String> = (0..3).map(|_| read_response(&mut stream).unwrap().text()).collect();
    assert_eq!(bodies[0], r#"{"ready":true}"#);
    assert!(bodies[1].contains("\"status\""));
    assert_eq!(bodies[2], r#"{"ready":true}"#);
}
