//! A store whose calls a test can observe, delay or intercept.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use storage::{
    Durability, LocalStore, ReclaimProgress, StoreError, View, WriteBatch, forward_store,
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

    fn reclaim(&self, budget: Duration) -> Result<ReclaimProgress, StoreError> {
        self.hooks.before_reclaim();
        self.inner.reclaim(budget)
    }

    forward_store!(self => self.inner; retire, approximate_bytes, health, room, can_reopen, reopen);
    forward_store!(self => self.inner; close);
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
