//! Versions are not taken away by what a container was before.

#![expect(clippy::unwrap_used, reason = "a test that can not go on should stop")]

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use engine::ContainerSpec;
use engine::changes::{ChangesMode, ChangesStart};
use engine::ops::Scope;
use model::PartitionId;
use storage::{
    Durability, Health, LocalStore, MemoryStore, ReclaimProgress, StoreError, View, WriteBatch,
};
use testkit::harness::{Harness, spec};
use tokio::sync::{oneshot, watch};

/// Where whoever wants the next view has to wait.
struct Gate {
    reached: oneshot::Sender<()>,
    opened: mpsc::Receiver<()>,
}

struct GatedStore {
    inner: MemoryStore,
    gate: Mutex<Option<Gate>>,
    /// How often space was reclaimed, which is how a round of the sweep ends.
    rounds: watch::Sender<u64>,
}

impl LocalStore for GatedStore {
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError> {
        self.inner.write(batch, durability)
    }

    fn view(&self) -> Arc<dyn View> {
        let gate = self.gate.lock().unwrap().take();
        if let Some(Gate { reached, opened }) = gate {
            reached.send(()).unwrap();
            opened.recv().unwrap();
        }
        self.inner.view()
    }

    fn retire(&self, p: PartitionId) -> Result<(), StoreError> {
        self.inner.retire(p)
    }

    fn reclaim(&self, budget: Duration) -> Result<ReclaimProgress, StoreError> {
        self.rounds.send_modify(|rounds| *rounds += 1);
        self.inner.reclaim(budget)
    }

    fn approximate_bytes(&self, p: PartitionId) -> Result<u64, StoreError> {
        self.inner.approximate_bytes(p)
    }

    fn health(&self) -> Health {
        self.inner.health()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.inner.close()
    }
}

#[tokio::test]
async fn versions_that_are_kept_since_the_sweep_began_stay() {
    let (rounds, mut round) = watch::channel(0);
    let store = GatedStore { inner: MemoryStore::new(), gate: Mutex::default(), rounds };
    let store = Arc::new(store);
    let h = Harness::on(Arc::<GatedStore>::clone(&store));
    let c = h.container("c", 1).await;

    // The sweep finds a container that keeps no versions, and is held up.
    let (reached, is_reached) = oneshot::channel();
    let (open, opened) = mpsc::channel();
    *store.gate.lock().unwrap() = Some(Gate { reached, opened });
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
