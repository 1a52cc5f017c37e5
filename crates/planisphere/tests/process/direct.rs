//! Clients in Direct mode: frames over TLS, on the port of HTTPS.
#![expect(clippy::little_endian_bytes, reason = "RNTBD is little-endian")]

use std::io::{Read, Write};
use std::net::TcpStream;

use rustls::{ClientConnection, StreamOwned};
use testkit::http::{Request, sign};
use testkit::rntbd::{Answer, Frame, answer, request};
use testkit::server::TestServer;

use crate::support::{ask_admin, assert_alive, connect, fill, get, in_memory, read_until_closed};
use crate::transport::{TlsStream, connect_tls};

const ITEM: u16 = 3;
const READ: u16 = 3;
const UPSERT: u16 = 19;
const FEED: u16 = 4;

/// A connection before its handshake.
pub(crate) fn tls(server: &TestServer) -> TlsStream {
    let pem = get(server, "/_explorer/emulator.pem").body;
    connect_tls(server, &pem, "localhost")
}

/// A connection after its handshake.
pub(crate) fn greeted(server: &TestServer) -> TlsStream {
    let mut stream = tls(server);
    stream.write_all(&Frame::context().to_bytes()).unwrap();
    assert_eq!(Answer::read(&mut stream).unwrap().status, 200);
    stream
}

/// A signed request for what `fill` made.
#[expect(clippy::disallowed_methods, reason = "the server compares with the real time")]
fn signed(server: &TestServer, frame: Frame, number: u32, verb: &str, link: &str) -> Vec<u8> {
    let signed = sign(server.key(), verb, "docs", link, std::time::SystemTime::now());
    let has_payload = frame.parts().1.is_some();
    let frame = frame
        .text(request::DATABASE_NAME, "shop")
        .text(request::COLLECTION_NAME, "orders")
        .text(request::AUTHORIZATION, &signed.authorization)
        .small_text(request::DATE, &signed.date)
        .byte(request::PAYLOAD_PRESENT, has_payload.into())
        .ulong(request::TRANSPORT_REQUEST_ID, number);
    frame.to_bytes()
}

fn read(server: &TestServer, number: u32) -> Vec<u8> {
    let frame = Frame::new(ITEM, READ).text(request::DOCUMENT_NAME, "1");
    let frame = frame.text(request::PARTITION_KEY, r#"["k1"]"#);
    signed(server, frame, number, "get", "dbs/shop/colls/orders/docs/1")
}

pub(crate) fn upsert(server: &TestServer, number: u32, payload: Vec<u8>) -> Vec<u8> {
    let frame = Frame::new(ITEM, UPSERT).text(request::PARTITION_KEY, r#"["k1"]"#);
    signed(server, frame.payload(payload), number, "post", "dbs/shop/colls/orders")
}

/// An item of this many bytes.
pub(crate) fn item(bytes: usize) -> Vec<u8> {
    let start = r#"{"id":"1","pk":"k1","x":""#;
    [start.as_bytes(), &vec![b'x'; bytes - start.len() - 2], b"\"}"].concat()
}

/// Status and number of the next answer.
fn next(stream: &mut impl Read) -> (u32, u64) {
    let answer = Answer::read(stream).unwrap();
    (answer.status, answer.number(answer::TRANSPORT_REQUEST_ID).unwrap())
}

/// What the server sends until it closes the connection.
pub(crate) fn rest(stream: &mut StreamOwned<ClientConnection, TcpStream>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The server may close a connection without the goodbye of TLS.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

#[test]
fn many_requests_are_under_way_at_once() {
    let server = in_memory(&[]);
    fill(&server);
    let mut stream = greeted(&server);
    let mut all = Vec::new();
    for number in 1..=500 {
        match number % 2 {
            0 => all.extend(read(&server, number)),
            _ => all.extend(upsert(&server, number, item(2_000))),
        }
    }
    stream.write_all(&all).unwrap();
    let mut numbers: Vec<u64> = (0..500)
        .map(|_| next(&mut stream))
        .inspect(|(status, _)| assert_eq!(*status, 200))
        .map(|(_, number)| number)
        .collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(1..=500));
}

/// What the next record of TLS carries, as a client reads it that takes records one by one.
fn next_record(stream: &mut TlsStream) -> Vec<u8> {
    const HEAD_BYTES: usize = 5;
    let mut record = vec![0; HEAD_BYTES];
    stream.sock.read_exact(&mut record).unwrap();
    let length = usize::from(u16::from_be_bytes([record[3], record[4]]));
    record.resize(HEAD_BYTES + length, 0);
    stream.sock.read_exact(&mut record[HEAD_BYTES..]).unwrap();
    let mut rest = &record[..];
    while !rest.is_empty() {
        stream.conn.read_tls(&mut rest).unwrap();
    }
    let bytes = stream.conn.process_new_packets().unwrap().plaintext_bytes_to_read();
    let mut text = vec![0; bytes];
    stream.conn.reader().read_exact(&mut text).unwrap();
    text
}

#[test]
fn no_record_of_tls_has_a_part_of_two_answers() {
    let server = in_memory(&[]);
    fill(&server);
    let mut stream = greeted(&server);
    let sizes = [300, 3_000, 6_000, 40_000];
    let mut number = 0;
    for bytes in sizes {
        stream.write_all(&upsert(&server, 0, item(bytes))).unwrap();
        let mut all = Vec::new();
        for _ in 0..20 {
            number += 1;
            all.extend(read(&server, number));
        }
        stream.write_all(&all).unwrap();
        // The answer to the write as well.
        for _ in 0..=20 {
            let mut answer = next_record(&mut stream);
            let read = loop {
                match Answer::read(&mut &answer[..]) {
                    Ok(read) => break read,
                    Err(_) => answer.extend(next_record(&mut stream)),
                }
            };
            let mut rest = &answer[..];
            Answer::read(&mut rest).unwrap();
            assert_eq!((read.status, rest.len()), (200, 0), "of {bytes} bytes");
        }
    }
}

#[test]
fn a_frame_may_arrive_in_pieces_and_be_large() {
    let server = in_memory(&[]);
    fill(&server);
    let mut stream = greeted(&server);
    for piece in read(&server, 1).chunks(7) {
        stream.write_all(piece).unwrap();
        stream.flush().unwrap();
    }
    assert_eq!(next(&mut stream), (200, 1));
    let large = upsert(&server, 2, item(1_900_000));
    for piece in large.chunks(100_000) {
        stream.write_all(piece).unwrap();
    }
    assert_eq!(next(&mut stream), (200, 2));
    stream.write_all(&read(&server, 3)).unwrap();
    let found = Answer::read(&mut stream).unwrap();
    assert_eq!(found.status, 200);
    assert!(found.payload.len() > 1_900_000);
}

#[test]
fn a_payload_over_the_limit_is_refused_and_the_connection_stays() {
    let server = in_memory(&[]);
    fill(&server);
    let mut stream = greeted(&server);
    let mut both = upsert(&server, 1, item(20 << 20));
    both.extend(read(&server, 2));
    stream.write_all(&both).unwrap();
    assert_eq!(next(&mut stream), (413, 1));
    assert_eq!(next(&mut stream), (200, 2));

    let announced = upsert(&server, 3, Vec::new());
    let (head, _) = announced.split_at(announced.len() - 4);
    stream.write_all(&[head, &u32::MAX.to_le_bytes()].concat()).unwrap();
    assert_eq!(next(&mut stream), (413, 3));
    let chunk = vec![0; 1 << 20];
    while stream.write_all(&chunk).is_ok() {}
    assert_alive(&server);
}

#[test]
fn bad_frames_end_their_connection_alone() {
    let server = in_memory(&[]);
    fill(&server);
    let mut neighbour = greeted(&server);
    let answered = |bytes: &[u8]| {
        let mut stream = greeted(&server);
        stream.write_all(bytes).unwrap();
        rest(&mut stream)
    };
    // A length that can't be: closed without an answer.
    assert_eq!(answered(&23u32.to_le_bytes()), b"");
    assert_eq!(answered(&u32::MAX.to_le_bytes()), b"");
    assert_eq!(answered(&((128u32 << 10) + 1).to_le_bytes()), b"");
    // Without a number there is nothing to match an answer to.
    let nameless = Frame::new(ITEM, READ).byte(request::PAYLOAD_PRESENT, 0);
    assert_eq!(answered(&nameless.to_bytes()), b"");
    // A second handshake, and a token that is there twice.
    let twice = Frame::new(ITEM, READ).ulong(request::TRANSPORT_REQUEST_ID, 9);
    let twice = twice.ulong(request::TRANSPORT_REQUEST_ID, 9);
    for frame in [Frame::context(), twice] {
        let bytes = answered(&frame.to_bytes());
        let mut rest = &bytes[..];
        assert_eq!(Answer::read(&mut rest).unwrap().status, 400);
        assert_eq!(rest, b"", "nothing follows");
    }
    // An operation that the protocol does not have leaves the connection as it is.
    neighbour.write_all(&signed(&server, Frame::new(ITEM, 66), 1, "post", "x")).unwrap();
    assert_eq!(next(&mut neighbour), (400, 1));
    neighbour.write_all(&read(&server, 2)).unwrap();
    assert_eq!(next(&mut neighbour), (200, 2));
    let metrics = ask_admin(&server, &Request::new("GET", "/metrics")).text();
    for line in [
        r#"planisphere_direct_bad_frames_total{reason="length"} 3"#,
        r#"planisphere_direct_bad_frames_total{reason="duplicate"} 1"#,
        r#"planisphere_requests_total{api="nosql",wire="rntbd",operation="read_item",status="200"} 1"#,
        "planisphere_direct_connections_total 7",
        "planisphere_direct_in_flight 0",
    ] {
        assert!(metrics.contains(&format!("{line}\n")), "{line} is not in\n{metrics}");
    }
}

#[test]
fn what_is_no_handshake_is_closed_or_refused() {
    let server = in_memory(&[]);
    let mut stream = tls(&server);
    let version = Frame::new(0, 0).ulong(0, 2).small_text(1, "2020-07-15").small_text(2, "me");
    stream.write_all(&version.to_bytes()).unwrap();
    let refused = rest(&mut stream);
    let refused = Answer::read(&mut &refused[..]).unwrap();
    assert_eq!((refused.status, refused.number(0)), (400, Some(1)));
    // The handshake has no form in clear text.
    let mut clear = connect(&server);
    clear.write_all(&Frame::context().to_bytes()).unwrap();
    assert_eq!(read_until_closed(&mut clear), b"");
    assert_alive(&server);
}

#[test]
fn a_client_that_takes_no_answers_is_read_no_more() {
    let server = in_memory(&[]);
    fill(&server);
    let mut stream = greeted(&server);
    stream.write_all(&upsert(&server, 1, item(1_900_000))).unwrap();
    assert_eq!(next(&mut stream), (200, 1));
    stream.sock.set_nonblocking(true).unwrap();
    let mut sent = 0;
    'full: for number in 2..100_000 {
        let bytes = read(&server, number);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match stream.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    if stream.conn.wants_write() {
                        break 'full;
                    }
                }
                Err(error) => panic!("{error}"),
            }
        }
        sent = number;
    }
    assert!(sent < 99_999, "the server reads what it can't answer");
    assert_alive(&server);
}

#[test]
#[cfg(unix)]
fn a_stopping_server_answers_what_it_received_and_refuses_the_rest() {
    use crate::support::TIMEOUT;

    let mut server = in_memory(&[]);
    fill(&server);
    let mut busy = greeted(&server);
    let mut idle = greeted(&server);
    let large = upsert(&server, 1, item(100_000));
    let (first, second) = large.split_at(large.len() / 2);
    busy.write_all(first).unwrap();
    busy.flush().unwrap();
    // The request has begun once another on the same connection was answered.
    let metrics = || ask_admin(&server, &Request::new("GET", "/metrics")).text();
    while !metrics().contains("planisphere_direct_in_flight 1\n") {
        std::thread::yield_now();
    }
    server.terminate().unwrap();
    idle.sock.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(rest(&mut idle), b"");
    busy.write_all(second).unwrap();
    busy.write_all(&read(&server, 2)).unwrap();
    busy.flush().unwrap();
    let answers = [Answer::read(&mut busy).unwrap(), Answer::read(&mut busy).unwrap()];
    let of = |number: u64| {
        let found = answers.iter().find(|a| a.number(answer::TRANSPORT_REQUEST_ID) == Some(number));
        found.unwrap()
    };
    assert_eq!(of(1).status, 200, "the write had arrived in part");
    assert_eq!(of(2).outcome(), (410, 0));
    assert_eq!(of(2).number(answer::DISABLE_CHANNEL), Some(1));
    assert_eq!(rest(&mut busy), b"");
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn an_idle_connection_ends_after_its_time_and_no_sooner() {
    let server = in_memory(&["--nosql-idle-timeout-s", "2"]);
    fill(&server);
    let mut stream = greeted(&server);
    stream.write_all(&read(&server, 1)).unwrap();
    assert_eq!(next(&mut stream), (200, 1));
    assert_eq!(rest(&mut stream), b"");
    assert_alive(&server);
}

#[test]
fn the_feed_of_a_page_is_one_answer() {
    let server = in_memory(&[]);
    fill(&server);
    let mut stream = greeted(&server);
    let frame = Frame::new(ITEM, FEED).text(request::PARTITION_KEY_RANGE_ID, "0");
    stream.write_all(&signed(&server, frame, 1, "get", "dbs/shop/colls/orders")).unwrap();
    let page = Answer::read(&mut stream).unwrap();
    assert_eq!((page.status, page.json()["_count"].as_u64()), (200, Some(50)));
    let counted = page.tokens.iter().find(|token| token.0 == 0x14).map(|token| token.2.clone());
    assert_eq!(counted, Some(50u32.to_le_bytes().to_vec()));
}
