//! A store that fails on demand, for tests of code that runs on a [`LocalStore`].
//!
//! It passes every call on to the store it wraps and also keeps what a disk would hold: synced
//! batches at once, buffered ones only after the next sync. [`FaultyStore::crash`] discards the
//! wrapped store and continues from the disk.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::PartitionId;

use crate::{
    Durability, Health, LocalStore, MemoryStore, Room, StoreError, WriteBatch, forward_store,
};

/// How a write fails. After any of these the store refuses all writes, as a real store must that no
/// longer knows what its journal holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The disk has no room; the batch is not on it.
    DiskFull,
    /// The sync fails and the batch is not on the disk.
    SyncFailed,
    /// The sync fails although the batch is on the disk: it is there after a restart,
    /// unacknowledged.
    SyncFailedLate,
}

/// A fault-injecting wrapper around a store; see the module.
pub struct FaultyStore {
    inner: Arc<dyn LocalStore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    disk: Arc<MemoryStore>,
    unsynced: VecDeque<WriteBatch>,
    planned: Option<PlannedFault>,
    refusal: Option<String>,
    room: Option<Room>,
    writes: u64,
    syncs: u64,
}

struct PlannedFault {
    successes_left: u64,
    fault: Fault,
}

impl FaultyStore {
    /// Wraps an empty store, without faults.
    pub fn new(inner: Arc<dyn LocalStore>) -> Self {
        Self { inner, state: Mutex::default() }
    }

    /// An empty store in memory, without faults.
    pub fn in_memory() -> Self {
        Self::new(Arc::new(MemoryStore::new()))
    }

    /// Lets `successes` more writes through (retiring is one), then fails the next with `fault`.
    pub fn fail_after(&self, successes: u64, fault: Fault) {
        self.lock().planned = Some(PlannedFault { successes_left: successes, fault });
    }

    /// Sets the room that the disk reports.
    pub fn set_room(&self, room: Option<Room>) {
        self.lock().room = room;
    }

    /// Ends this store and returns the state after a restart: everything synced, and the first
    /// `unsynced_kept` of the batches that were only buffered.
    pub fn crash(&self, unsynced_kept: usize) -> FaultyStore {
        let mut state = self.lock();
        let kept = state.unsynced.len().min(unsynced_kept);
        let lost = state.unsynced.split_off(kept);
        drop(lost);
        state.sync_disk();
        state.refusal = Some("the store has crashed".to_owned());
        let disk = Arc::clone(&state.disk);
        FaultyStore {
            inner: Arc::new(disk.fork()),
            state: Mutex::new(State { disk: Arc::new(disk.fork()), ..State::default() }),
        }
    }

    /// Batches and retirements that were accepted.
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// Syncs of the disk that succeeded.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Decides the outcome of one write; `reach_disk` runs when the fault is a late one.
    fn admit(&mut self, reach_disk: impl FnOnce(&mut Self)) -> Result<(), StoreError> {
        if let Some(reason) = &self.refusal {
            return Err(StoreError::Poisoned(reason.clone()));
        }
        let fault = match &mut self.planned {
            None => return Ok(()),
            Some(planned) if planned.successes_left > 0 => {
                planned.successes_left -= 1;
                return Ok(());
            }
            Some(planned) => planned.fault,
        };
        let failure = match fault {
            Fault::DiskFull => StoreError::Full,
            Fault::SyncFailed => StoreError::Poisoned("injected failure of a sync".to_owned()),
            Fault::SyncFailedLate => {
                reach_disk(self);
                StoreError::Poisoned("injected late failure of a sync".to_owned())
            }
        };
        self.refusal = Some(failure.to_string());
        Err(failure)
    }

    /// Moves everything buffered to the disk.
    fn sync_disk(&mut self) {
        for batch in std::mem::take(&mut self.unsynced) {
            self.disk.apply(batch);
        }
    }

    fn record(&mut self, batch: WriteBatch, durability: Durability) {
        self.unsynced.push_back(batch);
        if durability == Durability::Synced {
            self.sync_disk();
        }
    }
}

impl LocalStore for FaultyStore {
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError> {
        let mut state = self.lock();
        state.admit(|state| state.record(batch.clone(), Durability::Synced))?;
        self.inner.write(batch.clone(), durability)?;
        state.record(batch, durability);
        state.writes += 1;
        state.syncs += u64::from(durability == Durability::Synced);
        Ok(())
    }

    fn retire(&self, p: PartitionId) -> Result<(), StoreError> {
        let mut state = self.lock();
        state.admit(|state| state.sync_and_retire(p))?;
        self.inner.retire(p)?;
        state.sync_and_retire(p);
        state.writes += 1;
        state.syncs += 1;
        Ok(())
    }

    fn health(&self) -> Health {
        let refuses = self.lock().refusal.is_some();
        let health = self.inner.health();
        Health { writable: health.writable && !refuses, ..health }
    }

    fn room(&self) -> Option<Room> {
        self.lock().room
    }

    fn close(&self) -> Result<(), StoreError> {
        let mut state = self.lock();
        if state.refusal.is_none() {
            state.sync_disk();
        }
        self.inner.close()
    }

    forward_store!(self => self.inner; view, reclaim, approximate_bytes);
}

impl State {
    fn sync_and_retire(&mut self, p: PartitionId) {
        self.sync_disk();
        self.disk.forget(p);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::Op;

    const P: PartitionId = PartitionId(1);

    fn batch(k: &'static str) -> WriteBatch {
        WriteBatch { ops: vec![Op::Put { p: P, k: Bytes::from(k), v: Bytes::from("v") }] }
    }

    fn has(store: &FaultyStore, k: &str) -> bool {
        store.view().get(P, k.as_bytes()).unwrap().is_some()
    }

    #[test]
    fn a_crash_loses_what_was_only_buffered() {
        let store = FaultyStore::in_memory();
        store.write(batch("synced"), Durability::Synced).unwrap();
        store.write(batch("first"), Durability::Buffered).unwrap();
        store.write(batch("second"), Durability::Buffered).unwrap();
        assert!(has(&store, "second"));
        let after = store.crash(1);
        assert!(has(&after, "synced") && has(&after, "first") && !has(&after, "second"));
        assert!(store.write(batch("late"), Durability::Synced).is_err());
    }

    #[test]
    fn a_sync_saves_what_was_buffered_before() {
        let store = FaultyStore::in_memory();
        store.write(batch("buffered"), Durability::Buffered).unwrap();
        store.write(WriteBatch::default(), Durability::Synced).unwrap();
        assert_eq!((store.writes(), store.syncs()), (2, 1));
        assert!(has(&store.crash(0), "buffered"));
    }

    #[test]
    fn a_planned_fault_strikes_once_the_countdown_ends() {
        let store = FaultyStore::in_memory();
        store.fail_after(1, Fault::DiskFull);
        store.write(batch("a"), Durability::Synced).unwrap();
        assert!(matches!(store.write(batch("b"), Durability::Synced), Err(StoreError::Full)));
        let refused = store.write(batch("c"), Durability::Synced);
        assert!(matches!(refused, Err(StoreError::Poisoned(_))), "{refused:?}");
        assert!(!store.health().writable);
        assert!(!has(&store, "b"));
        let after = store.crash(0);
        assert!(has(&after, "a") && !has(&after, "b") && after.health().writable);
    }

    #[test]
    fn a_failed_sync_may_or_may_not_have_reached_the_disk() {
        for (fault, found) in [(Fault::SyncFailed, false), (Fault::SyncFailedLate, true)] {
            let store = FaultyStore::in_memory();
            store.fail_after(0, fault);
            let refused = store.write(batch("a"), Durability::Synced);
            assert!(matches!(refused, Err(StoreError::Poisoned(_))), "{refused:?}");
            assert!(!has(&store, "a"), "a failed write is never visible before a restart");
            assert_eq!(has(&store.crash(0), "a"), found, "{fault:?}");
        }
    }
}
