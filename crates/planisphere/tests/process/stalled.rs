//! Hundreds of clients that keep memory in use: they stall in the middle of a request, or do not
//! receive their reply.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use testkit::http::Request;
use testkit::server::TestServer;

use crate::support::{TIMEOUT, connect, fill, in_memory};

/// By how much all of them together may make the server grow.
const GROWTH_BYTES_MAX: u64 = 150 << 20;
/// A large write of another client must be answered within this time on a busy machine.
const NEIGHBOUR_MAX: Duration = Duration::from_secs(20);
const ITEM_BYTES: usize = 1_900_000;
const CONTAINER: &str = "dbs/shop/colls/orders";

fn with_items() -> TestServer {
    let server = in_memory(&["--throttling", "off"]);
    fill(&server);
    let text = format!(r#"{{"id":"large","pk":"large","text":"{}"}}"#, "x".repeat(ITEM_BYTES));
    let answer = upsert(&server).body(text).send(&mut connect(&server)).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
    server
}

fn upsert(server: &TestServer) -> Request {
    Request::new("POST", &format!("/{CONTAINER}/docs"))
        .signed(server.key(), "docs", CONTAINER)
        .header("x-ms-documentdb-is-upsert", "True")
        .header("x-ms-documentdb-partitionkey", r#"["large"]"#)
}

fn read(server: &TestServer, id: &str, key: &str) -> Request {
    let link = format!("{CONTAINER}/docs/{id}");
    Request::new("GET", &format!("/{link}"))
        .signed(server.key(), "docs", &link)
        .header("x-ms-documentdb-partitionkey", &format!("[\"{key}\"]"))
}

fn resident_bytes(server: &TestServer) -> u64 {
    bench::process::resident_bytes(server.pid()).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the server runs in real time")]
fn now() -> Instant {
    Instant::now()
}

/// Sends small requests until stalled clients were disconnected and the server's memory is small
/// again.
fn served_until_small(server: &TestServer, before: u64) {
    let deadline = now() + TIMEOUT * 2;
    let small = read(server, "1", "k1");
    loop {
        let answer = small.send(&mut connect(server)).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let grown = resident_bytes(server).saturating_sub(before);
        let ended = server.stderr().contains("their clients stalled");
        if ended && grown < GROWTH_BYTES_MAX {
            return;
        }
        assert!(now() < deadline, "grown by {} MB, ended some: {ended}", grown >> 20);
        std::thread::yield_now();
    }
}

#[test]
fn answers_that_nobody_takes_are_bounded_together() {
    let server = with_items();
    let before = resident_bytes(&server);
    // The first ones end up in the buffers of the operating system, the last one in the server.
    let several = read(&server, "large", "large").bytes().repeat(8);
    let clients: Vec<TcpStream> = (0..150)
        .map(|_| {
            let mut stream = connect(&server);
            stream.write_all(&several).unwrap();
            stream
        })
        .collect();
    served_until_small(&server, before);
    drop(clients);
}

#[test]
fn heads_without_an_end_are_bounded_together() {
    let server = with_items();
    let before = resident_bytes(&server);
    let head = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx-long: {}", "x".repeat(120_000));
    let clients: Vec<TcpStream> = (0..700)
        .map(|_| {
            let mut stream = connect(&server);
            // The server may disconnect them before the last one.
            let _ = stream.write_all(head.as_bytes());
            stream
        })
        .collect();
    served_until_small(&server, before);
    drop(clients);
}

#[test]
fn handshakes_without_an_end_are_bounded_together() {
    let server = with_items();
    let before = resident_bytes(&server);
    // A client's greeting of 64,000 bytes, in records of the maximum size, without the last ones.
    let greeting = [&[1, 0, 0xfa, 0][..], &[3; 50_000]].concat();
    let records = greeting.chunks(16_000).flat_map(|part| {
        let size = u16::try_from(part.len()).unwrap().to_be_bytes();
        [&[0x16, 3, 1][..], &size, part].concat()
    });
    let records: Vec<u8> = records.collect();
    let clients: Vec<TcpStream> = (0..1800)
        .map(|_| {
            let mut stream = connect(&server);
            // The server may disconnect them before the last one.
            let _ = stream.write_all(&records);
            stream
        })
        .collect();
    served_until_small(&server, before);
    drop(clients);
}

#[test]
fn bodies_that_do_not_come_leave_memory_to_others() {
    let server = with_items();
    // Each announces a large item and sends a little more than the limit of small bodies.
    let whole = upsert(&server).body(vec![b' '; ITEM_BYTES]).bytes();
    let part = &whole[..whole.len() - ITEM_BYTES + 40_000];
    let clients: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = connect(&server);
            stream.write_all(part).unwrap();
            stream
        })
        .collect();
    for _ in 0..5 {
        let begin = now();
        let text = format!(r#"{{"id":"next","pk":"large","text":"{}"}}"#, "y".repeat(100_000));
        let answer = upsert(&server).body(text).send(&mut connect(&server)).unwrap();
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
        assert!(begin.elapsed() < NEIGHBOUR_MAX, "{:?}", begin.elapsed());
    }
    drop(clients);
}

#[test]
fn a_client_that_takes_its_answers_slowly_gets_them_all() {
    let server = with_items();
    let mut stream = connect(&server);
    let wanted = read(&server, "large", "large");
    for _ in 0..3 {
        stream.write_all(&wanted.bytes()).unwrap();
    }
    for _ in 0..3 {
        let answer = testkit::http::read_response(&mut stream).unwrap();
        assert_eq!((answer.status, answer.body.len() > ITEM_BYTES), (200, true));
    }
}
