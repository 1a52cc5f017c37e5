//! The store of a simulated process: it fails as planned, takes its time, and reports everything
//! that is written to the simulator.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::PartitionId;
use storage::faulty::{Fault, FaultyStore};
use storage::{Durability, LocalStore, Op, StoreError, WriteBatch, forward_store};

use crate::clock::VirtualClock;
use crate::random::Stream;

/// Something that happened to the store.
pub(crate) enum Event {
    /// A batch was written.
    Written(WriteBatch),
    /// A batch failed; it may be in the store after a restart all the same.
    Failed(WriteBatch),
    /// A partition was retired.
    Retired(PartitionId),
}

/// A short description of a batch's changes to each partition.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, batch) = match self {
            Event::Written(batch) => ("stored:", batch),
            Event::Failed(batch) => ("NOT stored:", batch),
            Event::Retired(p) => return write!(f, "retired: {p}"),
        };
        write!(f, "{verb}")?;
        let mut partitions: BTreeMap<PartitionId, Vec<String>> = BTreeMap::new();
        for op in &batch.ops {
            let (p, sign, key) = match op {
                Op::Put { p, k, .. } => (p, '+', k),
                Op::Del { p, k } => (p, '-', k),
            };
            let short = match key.split_at_checked(1) {
                // The tag, and the end, where rows have their id.
                Some((tag, rest)) => {
                    let end = rest[rest.len().saturating_sub(4)..].escape_ascii();
                    format!("{sign}{:02x}..{end}", tag[0])
                }
                None => format!("{sign}"),
            };
            partitions.entry(*p).or_default().push(short);
        }
        for (p, mut ops) in partitions {
            ops.sort();
            write!(f, " [{p}: {}]", ops.join(" "))?;
        }
        Ok(())
    }
}

/// How slow a store is: one write in `every` takes up to `micros_max`. 0 = never.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slowness {
    pub(crate) every: u64,
    pub(crate) micros_max: u64,
}

/// A [`FaultyStore`] under observation.
pub(crate) struct Disk {
    store: FaultyStore,
    clock: VirtualClock,
    slowness: Slowness,
    state: Mutex<State>,
}

struct State {
    events: Vec<Event>,
    /// Written but not synced.
    unsynced: usize,
    planned: Option<Fault>,
    chance: Stream,
}

impl Disk {
    pub(crate) fn new(clock: VirtualClock, slowness: Slowness, chance: Stream) -> Self {
        Self::around(FaultyStore::in_memory(), clock, slowness, chance)
    }

    fn around(store: FaultyStore, clock: VirtualClock, slowness: Slowness, chance: Stream) -> Self {
        let state = State { events: Vec::new(), unsynced: 0, planned: None, chance };
        let state = Mutex::new(state);
        Self { store, clock, slowness, state }
    }

    /// The disk that a restart finds, and how many batches it has lost.
    pub(crate) fn crash(&self) -> (Disk, usize) {
        let (kept, lost, chance) = {
            let mut state = self.lock();
            let unsynced = state.unsynced;
            let kept = state.chance.index(unsynced + 1);
            (kept, unsynced - kept, state.chance.fork("after a crash"))
        };
        let store = self.store.crash(kept);
        (Self::around(store, self.clock.clone(), self.slowness, chance), lost)
    }

    /// Fails the write after `successes` more.
    pub(crate) fn fail_after(&self, successes: u64, fault: Fault) {
        self.lock().planned = Some(fault);
        self.store.fail_after(successes, fault);
    }

    /// What happened since the last call.
    pub(crate) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.lock().events)
    }

    fn take_time(&self) {
        let Slowness { every, micros_max } = self.slowness;
        let micros = {
            let chance = &mut self.lock().chance;
            if every == 0 || chance.below(every) > 0 { 0 } else { chance.below(micros_max) }
        };
        self.clock.advance(micros);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LocalStore for Disk {
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError> {
        self.take_time();
        let written = self.store.write(batch.clone(), durability);
        let mut state = self.lock();
        match &written {
            Ok(()) => {
                state.unsynced = match durability {
                    Durability::Synced => 0,
                    Durability::Buffered => state.unsynced + 1,
                };
                state.events.push(Event::Written(batch));
            }
            Err(_) => {
                state.note_fault();
                state.events.push(Event::Failed(batch));
            }
        }
        written
    }

    fn retire(&self, p: PartitionId) -> Result<(), StoreError> {
        self.take_time();
        let retired = self.store.retire(p);
        let mut state = self.lock();
        if retired.is_ok() {
            state.unsynced = 0;
            state.events.push(Event::Retired(p));
        } else {
            state.note_fault();
        }
        retired
    }

    fn close(&self) -> Result<(), StoreError> {
        if self.store.health().writable {
            self.lock().unsynced = 0;
        }
        self.store.close()
    }

    forward_store!(self => self.store; view, reclaim, approximate_bytes, health);
}

impl State {
    /// A sync that fails late has written everything to the disk.
    fn note_fault(&mut self) {
        if self.planned.take() == Some(Fault::SyncFailedLate) {
            self.unsynced = 0;
        }
    }
}
