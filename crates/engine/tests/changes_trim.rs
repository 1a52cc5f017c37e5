//! Versions are not taken away by what a container was before.

#![expect(clippy::unwrap_used, reason = "a test that can not go on should stop")]

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use engine::ContainerSpec;
use engine::changes::{ChangesMode, ChangesStart};
use engine::ops::Scope;
use storage::{MemoryStore, View};
use testkit::harness::{Harness, spec};
use testkit::hooked::{HookedStore, Hooks};
use tokio::sync::{oneshot, watch};

/// Where whoever wants the next view has to wait.
struct Gate {
    reached: oneshot::Sender<()>,
    opened: mpsc::Receiver<()>,
}

struct HeldUp {
    gate: Mutex<Option<Gate>>,
    /// How often space was reclaimed, which is how a round of the sweep ends.
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

#[tokio::test]
async fn versions_that_are_kept_since_the_sweep_began_stay() {
    let (rounds, mut round) = watch::channel(0);
    let hooks = HeldUp { gate: Mutex::default(), rounds };
    let store = HookedStore::new(MemoryStore::new(), hooks);
    let h = Harness::on(Arc::<HookedStore<_, _>>::clone(&store));
    let c = h.container("c", 1).await;

    // The sweep finds a container that keeps no versions, and is held up.
    let (reached, is_reached) = oneshot::channel();
    let (open, opened) = mpsc::channel();
    *store.hooks.gate.lock().unwrap() = Some(Gate { reached, opened });
    h.clock.advance(Duration::from_secs(1));
    is_reached.await.unwrap();

    let keeping = ContainerSpec { versions_minutes: 60, ..spec("c") };
    let c = h.engine.replace_container(c.rid, keeping, None).await.unwrap();
    let mode = ChangesMode::AllVersionsAndDeletes;
    let start = h.changes(&c, Scope::All, mode, ChangesStart::Now, 10).await.unwrap().position;
    h.create(&c, "a", r#"{"id":"kept","pk":"a"}"#).await.unwrap();
    open.send(()).unwrap();
    round.wait_for(|rounds| *rounds > 0).await.unwrap();
    // What the sweep asked for comes before this.
    h.create(&c, "a", r#"{"id":"later","pk":"a"}"#).await.unwrap();

    let page = h.changes(&c, Scope::All, mode, ChangesStart::After(start), 10).await.unwrap();
    assert_eq!(page.changes.len(), 2);
}
