//! What the sweep removes, and what it retries.

#![expect(clippy::unwrap_used, reason = "a test that can not go on should stop")]

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use engine::changes::{ChangesMode, ChangesStart};
use engine::ops::Scope;
use engine::repartition::{Progression, SplitPoint};
use engine::{ContainerSpec, RangeId};
use storage::{MemoryStore, View};
use testkit::harness::{Harness, spec, test_context};
use testkit::hooked::{HookedStore, Hooks};
use tokio::sync::{oneshot, watch};

/// Holds up the next call that takes a view.
struct Gate {
    reached: oneshot::Sender<()>,
    opened: mpsc::Receiver<()>,
}

struct HeldUp {
    gate: Mutex<Option<Gate>>,
    /// How often space was reclaimed, which is the end of each round of the sweep.
    rounds: watch::Sender<u64>,
}

impl Hooks for HeldUp {
    fn view(&self, take: &dyn Fn() -> Arc<dyn View>) -> Arc<dyn View> {
        let gate = self.gate.lock().unwrap().take();
        if let Some(Gate { reached, opened }) = gate {
            reached.send(()).unwrap();
            opened.recv().unwrap();
        }
        take()
    }

    fn before_reclaim(&self) {
        self.rounds.send_modify(|rounds| *rounds += 1);
    }
}

type Store = HookedStore<MemoryStore, HeldUp>;

/// An engine, its store, and the number of rounds that its sweep has made.
fn harness() -> (Harness, Arc<Store>, watch::Receiver<u64>) {
    let (rounds, round) = watch::channel(0);
    let hooks = HeldUp { gate: Mutex::default(), rounds };
    let store = HookedStore::new(MemoryStore::new(), hooks);
    (Harness::on(Arc::<Store>::clone(&store)), store, round)
}

#[tokio::test]
async fn versions_that_are_kept_since_the_sweep_began_stay() {
    let (h, store, mut round) = harness();
    let c = h.container("c", 1).await;

    // The sweep finds a container that keeps no versions, and is held up.
    let (reached, mut is_reached) = oneshot::channel();
    let (open, opened) = mpsc::channel();
    *store.hooks.gate.lock().unwrap() = Some(Gate { reached, opened });
    // The sweep may not sleep yet, so one second is sometimes not enough.
    while is_reached.try_recv().is_err() {
        h.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }

    let keeping = ContainerSpec { versions_minutes: 60, ..spec("c") };
    let c = h.engine.replace_container(&test_context(), c.rid, keeping, None).await.unwrap();
    let mode = ChangesMode::AllVersionsAndDeletes;
    let start = h.changes(&c, Scope::All, mode, ChangesStart::Now, 10).await.unwrap().position;
    h.create(&c, "a", r#"{"id":"kept","pk":"a"}"#).await.unwrap();
    open.send(()).unwrap();
    round.wait_for(|rounds| *rounds > 0).await.unwrap();
    // The write that the sweep requested comes before this one.
    h.create(&c, "a", r#"{"id":"later","pk":"a"}"#).await.unwrap();

    let page = h.changes(&c, Scope::All, mode, ChangesStart::After(start), 10).await.unwrap();
    assert_eq!(page.changes.len(), 2);
}

/// Lets the sweep begin and end `count` rounds.
async fn sweep(h: &Harness, round: &mut watch::Receiver<u64>, count: u64) {
    for _ in 0..count {
        let before = *round.borrow();
        // The sweep may not sleep yet, so one second is sometimes not enough.
        while *round.borrow() == before {
            h.clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn what_could_not_be_removed_is_removed_later() {
    let (h, _, mut round) = harness();
    let expiring = ContainerSpec { default_ttl: Some(1), ..spec("c") };
    let c = h.container_with(expiring, 1).await;
    h.create(&c, "a", r#"{"id":"1","pk":"a"}"#).await.unwrap();
    // A range that is about to move takes no writes, and so no removals.
    let how = Progression::Manual;
    let job = h
        .engine
        .start_split(&test_context(), c.rid, RangeId(0), SplitPoint::Midpoint, how)
        .await
        .unwrap();
    h.engine.advance_job(&test_context(), job.id).await.unwrap();
    h.clock.advance(Duration::from_secs(2));
    sweep(&h, &mut round, 3).await;
    assert_eq!(h.engine.statistics(&c)[0].1, 1);
    h.engine.cancel_job(&test_context(), job.id).await.unwrap();
    sweep(&h, &mut round, 3).await;
    assert_eq!(h.engine.statistics(&c)[0].1, 0);
}
