//! The shutdown on signals.
#![cfg(unix)]

use std::io::Write;
use std::net::TcpStream;

use testkit::http::{Request, read_response};
use testkit::server::TestServer;

use crate::support::{binary, connect, in_memory, read_until_closed};

/// Begins a request and waits until the server asks for its body of 10 bytes.
fn begin_request(stream: &mut TcpStream) {
    let head =
        b"POST /dbs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\nexpect: 100-continue\r\n\r\n";
    stream.write_all(head).unwrap();
    assert_eq!(read_response(stream).unwrap().status, 100);
}

#[test]
fn a_signal_stops_the_server_cleanly() {
    let mut server = TestServer::start(binary()).unwrap();
    let mut idle = connect(&server);
    assert_eq!(Request::new("GET", "/ready").send(&mut idle).unwrap().status, 200);
    let mut fresh = connect(&server);
    server.terminate().unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0), "{}", server.stderr());
    assert!(read_until_closed(&mut idle).is_empty());
    assert!(read_until_closed(&mut fresh).is_empty());
    assert!(!server.data_dir().join("server.pid").exists());
    server.restart().unwrap();
}

#[test]
fn a_request_under_way_is_finished_first() {
    let mut server = in_memory(&[]);
    let mut stream = connect(&server);
    begin_request(&mut stream);
    server.terminate().unwrap();
    await_no_listener(&server);
    stream.write_all(&[b' '; 10]).unwrap();
    let response = read_response(&mut stream).unwrap();
    assert_eq!((response.status, response.header("connection")), (401, Some("close")));
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_request_that_does_not_finish_is_cut_after_the_time_to_drain() {
    let mut server = in_memory(&["--drain-timeout-s", "1"]);
    let mut stream = connect(&server);
    begin_request(&mut stream);
    server.terminate().unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
    assert!(read_until_closed(&mut stream).is_empty());
}

#[test]
fn a_second_signal_stops_it_at_once() {
    let mut server = in_memory(&["--drain-timeout-s", "3600", "--body-timeout-s", "3600"]);
    let mut stream = connect(&server);
    begin_request(&mut stream);
    server.terminate().unwrap();
    await_no_listener(&server);
    server.terminate().unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(130));
}

/// Waits until the server no longer accepts connections.
fn await_no_listener(server: &TestServer) {
    while server.connect().is_ok() {
        std::thread::yield_now();
    }
}
