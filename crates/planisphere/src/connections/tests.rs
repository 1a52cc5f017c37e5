use std::future::pending;

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Handle;

use super::*;

const LONG: Duration = Duration::from_secs(3600);

fn connections(limits: ConnectionLimits) -> Connections {
    Connections::new(limits)
}

fn limits() -> ConnectionLimits {
    ConnectionLimits { open_max: 2, head: LONG, body: LONG }
}

/// Admits a connection that stays in `phase` and notifies the receiver when it ends.
fn admit(connections: &Connections, phase: Phase) -> tokio::sync::oneshot::Receiver<()> {
    admit_for(connections, LONG, phase)
}

fn admit_for(
    connections: &Connections,
    idle: Duration,
    phase: Phase,
) -> tokio::sync::oneshot::Receiver<()> {
    let (alive, ended) = tokio::sync::oneshot::channel();
    connections.admit(&Handle::current(), idle, move |activity| async move {
        let _alive = alive;
        activity.enter(phase);
        pending::<()>().await;
    });
    ended
}

async fn settle(connections: &Connections, phases: usize) {
    loop {
        if connections.shared.lock().by_id.len() == phases {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_longest_idle_connection_makes_room() {
    let connections = connections(limits());
    let mut busy = admit(&connections, Phase::Working);
    let idle = admit(&connections, Phase::Idle);
    tokio::task::yield_now().await;
    let mut new = admit(&connections, Phase::Head);
    assert!(idle.await.is_err(), "the idle connection ended");
    assert!(busy.try_recv().is_err_and(is_open));
    assert!(new.try_recv().is_err_and(is_open));
}

#[tokio::test]
async fn a_connection_is_refused_when_all_are_busy() {
    let connections = connections(limits());
    let mut first = admit(&connections, Phase::Working);
    let mut second = admit(&connections, Phase::Head);
    tokio::task::yield_now().await;
    assert!(admit(&connections, Phase::Head).await.is_err(), "the third was dropped");
    assert!(first.try_recv().is_err_and(is_open));
    assert!(second.try_recv().is_err_and(is_open));
}

#[tokio::test]
async fn only_phases_that_wait_for_the_client_can_be_overdue() {
    let short = Duration::from_millis(1);
    let connections = connections(ConnectionLimits { head: short, ..limits() });
    let mut working = admit_for(&connections, short, Phase::Working);
    let slow = admit(&connections, Phase::Head);
    assert!(slow.await.is_err(), "the slow connection ended");
    let idle = admit_for(&connections, short, Phase::Idle);
    assert!(idle.await.is_err(), "the idle connection ended");
    assert!(working.try_recv().is_err_and(is_open));
    settle(&connections, 1).await;
}

#[tokio::test]
async fn each_listener_says_how_long_its_connections_may_be_idle() {
    let connections = connections(limits());
    let mut patient = admit_for(&connections, LONG, Phase::Idle);
    let short_lived = admit_for(&connections, Duration::from_millis(1), Phase::Idle);
    assert!(short_lived.await.is_err(), "the impatient listener's connection ended");
    assert!(patient.try_recv().is_err_and(is_open));
}

/// Admits an idle connection that notices when it is asked to end, and does so if it can.
fn admit_asked(
    connections: &Connections,
    idle: Duration,
    can_end: bool,
) -> tokio::sync::oneshot::Receiver<()> {
    let (alive, ended) = tokio::sync::oneshot::channel();
    connections.admit(&Handle::current(), idle, move |activity| async move {
        let _alive = alive;
        activity.enter(Phase::Idle);
        std::future::poll_fn(|cx| match activity.poll_asked_to_end(cx) && can_end {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        })
        .await;
    });
    ended
}

#[tokio::test]
async fn connections_that_end_themselves_linger_while_the_server_stops() {
    let connections = connections(limits());
    let mut asked = admit_asked(&connections, LONG, true);
    let aborted = admit(&connections, Phase::Idle);
    tokio::task::yield_now().await;
    let begin = Instant::now();
    let drained = connections.drain(LONG);
    let others = async {
        assert!(aborted.await.is_err(), "nothing can come of it");
        assert!(asked.try_recv().is_err_and(is_open), "a request may be on its way");
    };
    let (cut_short, ()) = tokio::join!(drained, others);
    assert_eq!(cut_short, 0);
    // The clock of connections is as coarse as a tick.
    assert!(begin.elapsed() >= LINGER - TICK);
    assert!(asked.await.is_err());
}

#[tokio::test]
async fn a_connection_that_was_asked_to_end_and_does_not_is_aborted() {
    let connections = connections(limits());
    let stuck = admit_asked(&connections, Duration::from_millis(1), false);
    assert!(stuck.await.is_err());
    settle(&connections, 0).await;
}

#[tokio::test]
async fn stalled_connections_end_until_the_others_hold_little_enough() {
    let connections = connections(ConnectionLimits { open_max: 10, ..limits() });
    let held = |bytes, phase| {
        let (alive, ended) = tokio::sync::oneshot::channel::<()>();
        connections.admit(&Handle::current(), LONG, move |activity| async move {
            let _alive = alive;
            let reply = Full::new(vec![0; bytes].into());
            let _reply = (phase == Phase::Replying).then(|| activity.reply(reply));
            activity.hold(bytes as u64);
            activity.enter(phase);
            pending::<()>().await;
        });
        ended
    };
    let mut working = held(1000, Phase::Working);
    let mut small = held(10, Phase::Head);
    let large = held(500, Phase::Replying);
    let mut larger = held(400, Phase::Replying);
    tokio::task::yield_now().await;
    for _ in 0..4 {
        assert!(larger.try_recv().is_err_and(is_open));
        connections.shared.lock().end_stalled(500);
    }
    assert!(large.await.is_err(), "the one that held most ended");
    settle(&connections, 3).await;
    connections.shared.lock().end_stalled(500);
    tokio::task::yield_now().await;
    for open in [&mut working, &mut small, &mut larger] {
        assert!(open.try_recv().is_err_and(is_open));
    }
}

/// The client's end of a connection that answers every request with `bytes` of zeros, which are
/// transferred only as they are read.
fn serve(connections: &Connections, bytes: usize) -> tokio::io::DuplexStream {
    let (client, server) = tokio::io::duplex(1 << 10);
    connections.admit(&Handle::current(), LONG, move |activity| async move {
        let stream = TokioIo::new(WatchedStream::new(server, Arc::clone(&activity)));
        let answer = service_fn(move |_| {
            activity.enter(Phase::Working);
            let body = activity.reply(Full::new(Bytes::from(vec![0; bytes])));
            std::future::ready(Ok::<_, std::convert::Infallible>(hyper::Response::new(body)))
        });
        let http = hyper::server::conn::http1::Builder::new();
        let _end = http.serve_connection(stream, answer).await;
    });
    client
}

/// Sends a request and reads a part of the reply.
async fn ask_and_read(client: &mut tokio::io::DuplexStream, bytes: usize) {
    client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    client.read_exact(&mut vec![0; bytes]).await.unwrap();
}

#[tokio::test]
async fn a_reply_is_held_whole_until_its_end() {
    const REPLY: usize = 4 << 20;
    let connections = connections(ConnectionLimits { open_max: 10, ..limits() });
    let unsent = || connections.shared.common.large_replies();
    let mut client = serve(&connections, REPLY);
    ask_and_read(&mut client, REPLY - 10_000).await;
    assert_eq!(unsent(), REPLY as u64, "hyper keeps all of it");
    client.read_exact(&mut [0; 9000]).await.unwrap();
    while unsent() > 0 {
        client.read_exact(&mut [0]).await.unwrap();
    }
    // It makes no difference whether the client reads on or disconnects.
    ask_and_read(&mut client, REPLY / 2).await;
    assert_eq!(unsent(), REPLY as u64);
    drop(client);
    while unsent() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn there_is_room_for_so_many_bytes_of_replies_and_for_small_ones() {
    let connections = connections(limits());
    let (told, taken) = tokio::sync::oneshot::channel();
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    connections.admit(&Handle::current(), LONG, |activity| async move {
        let half = usize::try_from(UNSENT_BYTES_MAX / 2).unwrap();
        let reply = activity.reply(Full::new(Bytes::from(vec![0; half])));
        told.send(()).unwrap();
        let _ = finished.await;
        drop(reply);
    });
    taken.await.unwrap();
    assert!(connections.has_room_for(UNSENT_BYTES_MAX / 2));
    assert!(!connections.has_room_for(UNSENT_BYTES_MAX / 2 + 1));
    finish.send(()).unwrap();
    settle(&connections, 0).await;
    assert!(connections.has_room_for(UNSENT_BYTES_MAX));
    assert!(!connections.has_room_for(UNSENT_BYTES_MAX + 1) && connections.has_room_for(1000));
}

#[tokio::test]
async fn clients_that_leave_the_tail_of_their_replies_end_together() {
    const REPLY: usize = 1 << 20;
    let connections = connections(ConnectionLimits { open_max: 100, ..limits() });
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = serve(&connections, REPLY);
        ask_and_read(&mut client, REPLY - 10_000).await;
        clients.push(client);
    }
    let unsent = || connections.shared.common.large_replies();
    let held_max = 4 * REPLY as u64;
    assert_eq!(unsent(), 20 * REPLY as u64);
    while unsent() > held_max {
        connections.shared.lock().end_stalled(held_max);
        tokio::task::yield_now().await;
    }
    assert_eq!(connections.open(), 4);
}

#[tokio::test]
async fn clients_that_go_on_slowly_end_when_all_hold_far_too_much() {
    const REPLY: usize = 1 << 20;
    let connections = connections(ConnectionLimits { open_max: 100, ..limits() });
    let held_max = 4 * REPLY as u64;
    let mut slow = Vec::new();
    for _ in 0..20 {
        let mut client = serve(&connections, REPLY);
        ask_and_read(&mut client, 32 << 10).await;
        slow.push(client);
    }
    let unsent = || connections.shared.common.large_replies();
    for looks in 0..3 {
        let mut open = Vec::new();
        for mut client in slow {
            // More than the minimum for progress, but far too little.
            if client.read_exact(&mut [0; 20 << 10]).await.is_ok() {
                open.push(client);
            }
        }
        slow = open;
        connections.shared.lock().end_stalled(held_max);
        tokio::task::yield_now().await;
        assert!(looks > 0 || unsent() == 20 * REPLY as u64, "one look says nothing of speed");
    }
    settle(&connections, 8).await;
    assert_eq!(unsent(), 2 * held_max);
}

#[tokio::test]
async fn draining_ends_idle_connections_at_once_and_waits_for_busy_ones() {
    let connections = connections(limits());
    let idle = admit(&connections, Phase::Idle);
    let finish = Arc::new(Notify::new());
    let told = Arc::clone(&finish);
    connections.admit(&Handle::current(), LONG, move |activity| async move {
        activity.enter(Phase::Working);
        told.notified().await;
    });
    tokio::task::yield_now().await;
    let draining = connections.clone();
    let drained = tokio::spawn(async move { draining.drain(LONG).await });
    assert!(idle.await.is_err(), "the idle connection ended");
    assert!(connections.is_closing());
    assert!(!drained.is_finished(), "a request is still under way");
    finish.notify_one();
    assert_eq!(drained.await.unwrap(), 0);
}

#[tokio::test]
async fn draining_gives_up_after_its_timeout() {
    let connections = connections(limits());
    let stuck = admit(&connections, Phase::Working);
    tokio::task::yield_now().await;
    assert_eq!(connections.drain(Duration::from_millis(20)).await, 1);
    assert!(stuck.await.is_err(), "the stuck connection ended");
}

fn is_open(error: tokio::sync::oneshot::error::TryRecvError) -> bool {
    error == tokio::sync::oneshot::error::TryRecvError::Empty
}
