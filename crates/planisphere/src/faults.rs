//! Fault injection for tests: failed requests and delayed commits.
//!
//! Only a server that was started with `--fault-injection on` creates any of this.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api_nosql::{FaultInjector, FaultSubject, InjectedAnswer, Operation};
use engine::RangeId;
use storage::{Durability, LocalStore, StoreError, WriteBatch, forward_store};

/// Most faults in force at a time.
pub(crate) const FAULTS_MAX: usize = 100;

/// The effect of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Matching requests get this answer.
    Answer(InjectedAnswer, Scope),
    /// Every commit takes this much longer.
    DelayCommits(Duration),
}

/// The requests that a fault matches; `None` matches any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) operation: Option<Operation>,
    pub(crate) database: Option<String>,
    pub(crate) container: Option<String>,
    pub(crate) partition: Option<RangeId>,
}

/// The count and duration of a fault; at least one of them is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FaultLimit {
    pub(crate) count: Option<u32>,
    pub(crate) lasts: Option<Duration>,
}

/// A fault in force.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) id: u32,
    pub(crate) effect: Effect,
    /// Remaining count.
    pub(crate) left: Option<u32>,
    until: Option<Instant>,
    /// How often it has been applied.
    pub(crate) fired: u64,
}

/// All faults in force.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u32,
    faults: Vec<Fault>,
}

impl Faults {
    /// Adds a fault; `None` if there are too many.
    pub(crate) fn add(&self, effect: Effect, limit: FaultLimit) -> Option<Fault> {
        let mut state = self.lock();
        if state.faults.len() >= FAULTS_MAX {
            return None;
        }
        state.next += 1;
        let until = limit.lasts.map(|lasts| Instant::now() + lasts);
        let fault = Fault { id: state.next, effect, left: limit.count, until, fired: 0 };
        state.faults.push(fault.clone());
        Some(fault)
    }

    /// The faults in force, oldest first.
    pub(crate) fn all(&self) -> Vec<Fault> {
        self.lock().faults.clone()
    }

    /// Removes a fault; returns whether it was in force.
    pub(crate) fn remove(&self, id: u32) -> bool {
        let mut state = self.lock();
        let before = state.faults.len();
        state.faults.retain(|fault| fault.id != id);
        state.faults.len() < before
    }

    /// Removes all faults.
    pub(crate) fn clear(&self) {
        self.lock().faults.clear();
    }

    /// The state without expired faults.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.faults.is_empty() {
            let now = Instant::now();
            state.faults.retain(|fault| !fault.is_over(now));
        }
        state
    }

    /// Applies the first fault that `pick` accepts.
    fn fire<T>(&self, pick: impl Fn(&Effect) -> Option<T>) -> Option<T> {
        let mut state = self.lock();
        let (fault, found) =
            state.faults.iter_mut().find_map(|fault| pick(&fault.effect).map(|f| (fault, f)))?;
        fault.fired += 1;
        fault.left = fault.left.map(|left| left.saturating_sub(1));
        Some(found)
    }

    fn commit_delay(&self) -> Option<Duration> {
        self.fire(|effect| match effect {
            Effect::DelayCommits(delay) => Some(*delay),
            Effect::Answer(..) => None,
        })
    }
}

impl Fault {
    /// The remaining duration, if it is limited.
    pub(crate) fn remains(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    fn is_over(&self, now: Instant) -> bool {
        self.left == Some(0) || self.until.is_some_and(|until| until <= now)
    }
}

impl FaultInjector for Faults {
    fn answer_instead(&self, request: &FaultSubject<'_>) -> Option<InjectedAnswer> {
        self.fire(|effect| match effect {
            Effect::Answer(answer, scope) => scope.has(request).then_some(*answer),
            Effect::DelayCommits(_) => None,
        })
    }
}

impl Scope {
    fn has(&self, request: &FaultSubject<'_>) -> bool {
        let container = request.container;
        let is_operation = self.operation.is_none_or(|wanted| wanted == request.operation);
        let is_database = self.database.as_ref().is_none_or(|wanted| {
            container.is_some_and(|container| container.database_id == *wanted)
        });
        let is_container = self
            .container
            .as_ref()
            .is_none_or(|wanted| container.is_some_and(|container| container.spec.id == *wanted));
        let is_partition = || self.partition.is_none_or(|range| request.touches(range));
        is_operation && is_database && is_container && is_partition()
    }
}

/// A store whose commits can be delayed.
pub(crate) struct DelayedStore {
    pub(crate) store: Arc<dyn LocalStore>,
    pub(crate) faults: Arc<Faults>,
}

impl LocalStore for DelayedStore {
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError> {
        if let Some(delay) = self.faults.commit_delay() {
            std::thread::sleep(delay);
        }
        self.store.write(batch, durability)
    }

    forward_store!(self => self.store; view, retire, reclaim, approximate_bytes, health, room);
    forward_store!(self => self.store; can_reopen, reopen, close);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay(millis: u64) -> Effect {
        Effect::DelayCommits(Duration::from_millis(millis))
    }

    fn times(count: u32) -> FaultLimit {
        FaultLimit { count: Some(count), lasts: None }
    }

    #[test]
    fn a_fault_happens_as_often_as_it_should() {
        let faults = Faults::default();
        faults.add(delay(1), times(2)).unwrap();
        faults.add(delay(2), times(1)).unwrap();
        let delays: Vec<_> = (0..4).map(|_| faults.commit_delay().map(|d| d.as_millis())).collect();
        assert_eq!(delays, [Some(1), Some(1), Some(2), None]);
        assert!(faults.all().is_empty());
    }

    #[test]
    fn a_fault_ends_with_its_time() {
        let faults = Faults::default();
        let over = FaultLimit { count: None, lasts: Some(Duration::ZERO) };
        faults.add(delay(1), over).unwrap();
        assert_eq!(faults.commit_delay(), None);
        let long = FaultLimit { count: None, lasts: Some(Duration::from_secs(3600)) };
        let fault = faults.add(delay(1), long).unwrap();
        assert!(faults.commit_delay().is_some() && fault.remains().is_some());
        assert_eq!(faults.all()[0].fired, 1);
        assert!(faults.remove(fault.id) && !faults.remove(fault.id));
        assert_eq!(faults.commit_delay(), None);
    }

    #[test]
    fn there_is_room_for_so_many() {
        let faults = Faults::default();
        for _ in 0..FAULTS_MAX {
            faults.add(delay(1), times(1)).unwrap();
        }
        assert!(faults.add(delay(1), times(1)).is_none());
        faults.clear();
        assert!(faults.add(delay(1), times(1)).is_some());
    }
}
