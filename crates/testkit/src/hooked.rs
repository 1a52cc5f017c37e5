//! A store whose calls a test can observe, delay or intercept.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use model::PartitionId;
use storage::{
    Durability, Health, LocalStore, ReclaimProgress, Room, StoreError, View, WriteBatch,
};

/// What a test does at the calls of a store. Each hook runs on the thread of the caller, who waits.
pub trait Hooks: Send + Sync + 'static {
    /// A batch is about to be written.
    fn before_write(&self) {}

    /// A caller requests a view; `take` returns one of this moment.
    fn view(&self, take: &dyn Fn() -> Arc<dyn View>) -> Arc<dyn View> {
        take()
    }

    /// Space is about to be reclaimed.
    fn before_reclaim(&self) {}
}

/// A store with hooks.
#[derive(Debug, Default)]
pub struct HookedStore<S, H> {
    /// The store itself.
    pub inner: S,
    /// The hooks of the test.
    pub hooks: H,
}

impl<S: LocalStore, H: Hooks> HookedStore<S, H> {
    /// Calls `hooks` before `inner`.
    pub fn new(inner: S, hooks: H) -> Arc<Self> {
        Arc::new(Self { inner, hooks })
    }
}

impl<S: LocalStore, H: Hooks> LocalStore for HookedStore<S, H> {
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError> {
        self.hooks.before_write();
        self.inner.write(batch, durability)
    }

    fn view(&self) -> Arc<dyn View> {
        self.hooks.view(&|| self.inner.view())
    }

    fn retire(&self, p: PartitionId) -> Result<(), StoreError> {
        self.inner.retire(p)
    }

    fn reclaim(&self, budget: Duration) -> Result<ReclaimProgress, StoreError> {
        self.hooks.before_reclaim();
        self.inner.reclaim(budget)
    }

    fn approximate_bytes(&self, p: PartitionId) -> Result<u64, StoreError> {
        self.inner.approximate_bytes(p)
    }

    fn health(&self) -> Health {
        self.inner.health()
    }

    fn room(&self) -> Option<Room> {
        self.inner.room()
    }

    fn can_reopen(&self) -> bool {
        self.inner.can_reopen()
    }

    fn reopen(&self) -> Result<(), StoreError> {
        self.inner.reopen()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.inner.close()
    }
}

/// Makes writes wait until the test releases them.
pub struct WriteGate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl WriteGate {
    /// An open gate.
    pub fn opened() -> Self {
        Self { is_open: Mutex::new(true), opened: Condvar::new() }
    }

    /// Opens or closes the gate.
    pub fn set_open(&self, is_open: bool) {
        *self.is_open.lock().expect("no panic holds the gate") = is_open;
        self.opened.notify_all();
    }
}

impl Hooks for WriteGate {
    fn before_write(&self) {
        let gate = self.is_open.lock().expect("no panic holds the gate");
        drop(self.opened.wait_while(gate, |is_open| !*is_open).expect("no panic holds the gate"));
    }
}
