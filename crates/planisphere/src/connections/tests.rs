use std::future::pending;

use tokio::runtime::Handle;

use super::*;

const LONG: Duration = Duration::from_secs(3600);

fn connections(limits: ConnectionLimits) -> Connections {
    Connections::new(limits)
}

fn limits() -> ConnectionLimits {
    ConnectionLimits { open_max: 2, head: LONG, body: LONG }
}

/// Admits a connection that stays in `phase` and says so when it ends.
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
    let impatient = admit_for(&connections, Duration::from_millis(1), Phase::Idle);
    assert!(impatient.await.is_err(), "the impatient listener's connection ended");
    assert!(patient.try_recv().is_err_and(is_open));
}

#[tokio::test]
async fn stalled_connections_end_until_the_others_hold_little_enough() {
    let connections = connections(ConnectionLimits { open_max: 10, ..limits() });
    let held = |bytes, phase| {
        let (alive, ended) = tokio::sync::oneshot::channel::<()>();
        connections.admit(&Handle::current(), LONG, move |activity| async move {
            let _alive = alive;
            activity.enter(phase);
            activity.hold(bytes);
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
async fn draining_gives_up_after_its_patience() {
    let connections = connections(limits());
    let stuck = admit(&connections, Phase::Working);
    tokio::task::yield_now().await;
    assert_eq!(connections.drain(Duration::from_millis(20)).await, 1);
    assert!(stuck.await.is_err(), "the stuck connection ended");
}

fn is_open(error: tokio::sync::oneshot::error::TryRecvError) -> bool {
    error == tokio::sync::oneshot::error::TryRecvError::Empty
}
