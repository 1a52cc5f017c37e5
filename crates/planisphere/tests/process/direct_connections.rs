//! Connections of clients in Direct mode over their life: limits of time, memory, and the stop of
//! the server.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Barrier;

use testkit::rntbd::{Answer, Frame, answer};
use testkit::server::TestServer;

use crate::direct::{greeted, item, rest, tls, upsert};
use crate::support::{fill, get, in_memory};
use crate::transport::{TlsStream, tls_over};

/// Idle connections of the test of memory, and the memory for them.
const IDLE_CONNECTIONS: usize = 250;
const IDLE_BYTES_MAX: u64 = 20_000_000 * IDLE_CONNECTIONS as u64 / 1000;

/// The value of a metric without labels.
fn metric(server: &TestServer, name: &str) -> u64 {
    let text = get(server, "/metrics").text();
    let mut values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    values.next().and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_handshake_that_is_not_completed_in_time_is_closed() {
    let server = in_memory(&["--head-timeout-s", "1"]);
    let frame = Frame::context().to_bytes();
    for sent in [0, 3, 8, frame.len() - 1] {
        let mut stream = tls(&server);
        stream.write_all(&frame[..sent]).unwrap();
        stream.flush().unwrap();
        assert_eq!(rest(&mut stream), b"", "after {sent} bytes");
    }
    assert_eq!(metric(&server, "planisphere_direct_connections_open"), 0);
}

#[test]
fn idle_connections_take_little_memory() {
    let server = in_memory(&[]);
    let pem = get(&server, "/_explorer/emulator.pem").body;
    let open = || {
        let stream = TcpStream::connect(server.ready().address).unwrap();
        let mut stream = tls_over(stream, &pem, "localhost");
        stream.write_all(&Frame::context().to_bytes()).unwrap();
        assert_eq!(Answer::read(&mut stream).unwrap().status, 200);
        stream
    };
    // What is made once is not that of a connection.
    let first: Vec<TlsStream> = (0..20).map(|_| open()).collect();
    let resident = || bench::process::resident_bytes(server.pid()).unwrap();
    let before = resident();
    let connections: Vec<TlsStream> = (0..IDLE_CONNECTIONS).map(|_| open()).collect();
    let grown = resident().saturating_sub(before);
    let expected = connections.len() + first.len();
    assert_eq!(metric(&server, "planisphere_direct_connections_open"), expected as u64);
    assert!(grown < IDLE_BYTES_MAX, "{grown} bytes for {IDLE_CONNECTIONS} connections");
}

/// A client whose write gets no answer does not know whether it was done, and reports an error.
#[test]
#[cfg(unix)]
fn no_write_is_left_without_an_answer_when_the_server_stops() {
    const CLIENTS: usize = 6;
    let mut server = in_memory(&[]);
    fill(&server);
    let begun = Barrier::new(CLIENTS + 1);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut stream = greeted(&server);
                for number in 1.. {
                    stream.write_all(&upsert(&server, number, item(200))).unwrap();
                    let answer = Answer::read(&mut stream).unwrap();
                    if number == 1 {
                        begun.wait();
                    }
                    if answer.outcome() == (410, 0) {
                        assert_eq!(answer.number(answer::DISABLE_CHANNEL), Some(1));
                        break;
                    }
                    assert_eq!(answer.status, 200);
                }
            });
        }
        begun.wait();
        server.terminate().unwrap();
    });
    assert_eq!(server.wait().unwrap().code(), Some(0));
}
