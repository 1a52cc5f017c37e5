//! What is refused while the disk has too little room.
//!
//! A commit that needs room is refused while less than the store's floor is free, one that removes
//! something while less than half of the floor is. A refusal loses and closes nothing, and writes
//! continue by themselves once there is room.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::PartitionId;
use storage::{LocalStore, Op, Room};

use crate::components::Clock;
use crate::{Error, keys};

use super::{CatalogCommit, PreparedOp};

/// The disk is queried at most this often.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// What a commit does to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskNeed {
    /// It writes nothing.
    Nothing,
    /// It removes something, which frees room sooner or later.
    Removal,
    /// It needs room.
    Room,
}

impl DiskNeed {
    pub(super) fn of_items(ops: &[PreparedOp]) -> Self {
        let need = |op: &PreparedOp| match op {
            PreparedOp::Read { .. } => DiskNeed::Nothing,
            PreparedOp::Delete { .. } | PreparedOp::Erase { .. } | PreparedOp::Expire { .. } => {
                DiskNeed::Removal
            }
            PreparedOp::Create(_)
            | PreparedOp::Upsert(..)
            | PreparedOp::Replace { .. }
            | PreparedOp::Patch(_)
            | PreparedOp::Update(_)
            | PreparedOp::Settle { .. }
            | PreparedOp::Swap { .. } => DiskNeed::Room,
        };
        let needs = || ops.iter().map(need);
        match needs().any(|need| need == DiskNeed::Room) {
            true => DiskNeed::Room,
            false if needs().any(|need| need == DiskNeed::Removal) => DiskNeed::Removal,
            false => DiskNeed::Nothing,
        }
    }

    /// The end of a split or merge drops what was copied.
    pub(super) fn of_catalog(commit: &CatalogCommit) -> Self {
        let makes_something = !commit.create.is_empty() || !commit.begin.is_empty();
        let lets_go = !commit.retire.is_empty() || !commit.cancel.is_empty();
        let removes = commit.ops.iter().all(removes_or_counts);
        if commit.cut_over.is_some() || (!makes_something && (lets_go || removes)) {
            DiskNeed::Removal
        } else {
            DiskNeed::Room
        }
    }
}

/// Every change of the catalog stores the id counters again, over the old ones.
fn removes_or_counts(op: &Op) -> bool {
    match op {
        Op::Del { .. } => true,
        Op::Put { p, k, .. } => *p == PartitionId::CATALOG && k == keys::catalog::META,
    }
}

/// What is known of the disk's free space.
#[derive(Debug, Default)]
pub(crate) struct DiskSpaceWatch {
    checked_at: Option<Duration>,
    last: Option<Room>,
    /// Whether the last check refused writes, for readers on other threads.
    was_low: Arc<AtomicBool>,
}

impl DiskSpaceWatch {
    pub(crate) fn new(was_low: Arc<AtomicBool>) -> Self {
        Self { was_low, ..Self::default() }
    }

    /// Queries the disk again if the last result is old.
    pub(super) fn refresh(&mut self, store: &dyn LocalStore, clock: &dyn Clock) {
        // A store in memory has no disk to query.
        if self.last.is_none() && store.room().is_none() {
            return;
        }
        let now = clock.monotonic();
        if self.checked_at.is_some_and(|at| now.saturating_sub(at) < CHECK_EVERY) {
            return;
        }
        self.checked_at = Some(now);
        self.last = store.room();
        let is_low = self.last.is_some_and(|room| !room.is_enough());
        // ORDERING: nothing else depends on it.
        if is_low != self.was_low.load(Ordering::Relaxed)
            && let Some(Room { free_bytes, floor_bytes }) = self.last
        {
            self.was_low.store(is_low, Ordering::Relaxed);
            if is_low {
                tracing::warn!(
                    free_bytes,
                    floor_bytes,
                    "the disk is almost full; refusing writes until there is room"
                );
            } else {
                tracing::warn!(free_bytes, floor_bytes, "the disk has room; taking writes again");
            }
        }
    }

    /// Refuses what there is no room for.
    pub(super) fn check(&self, need: DiskNeed) -> Result<(), NotEnoughSpace> {
        let Some(room) = self.last else { return Ok(()) };
        let is_enough = match need {
            DiskNeed::Nothing => true,
            DiskNeed::Removal => room.is_enough_for_removals(),
            DiskNeed::Room => room.is_enough(),
        };
        match is_enough {
            true => Ok(()),
            false => Err(NotEnoughSpace(room)),
        }
    }
}

/// There is not enough room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotEnoughSpace(Room);

impl NotEnoughSpace {
    pub(super) fn refusal(self) -> Error {
        let Room { free_bytes, floor_bytes } = self.0;
        Error::DiskAlmostFull { free_bytes, floor_bytes }
    }
}
