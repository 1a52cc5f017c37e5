//! Whether the store is well and takes writes.

use std::sync::atomic::Ordering;

use storage::Room;
use tokio::sync::oneshot;

use crate::commit::Command;
use crate::{Engine, Error};

impl Engine {
    /// The health of the store, and whether writes reach it. Queries the disk: not for an async
    /// thread.
    pub fn health(&self) -> storage::Health {
        let store = self.inner.store.health();
        let failure = self.inner.failure.load_full();
        let room = self.inner.store.room();
        let has_room = room.is_none_or(|room| room.is_enough());
        let failed_by_itself =
            !store.writable && failure.is_none() && self.inner.store.can_reopen();
        if failed_by_itself || (has_room && self.inner.is_low.load(Ordering::Relaxed)) {
            // No write would notice it. If the queue is full, there are writes that do.
            let (reply, _) = oneshot::channel();
            let _ = self.inner.commits.try_send(Command::Reopen(reply));
        }
        let takes_writes = failure.is_none() && !self.inner.commits.is_closed();
        let reason = match (failure, room) {
            (Some(failure), _) => Some(failure.to_string()),
            (None, Some(Room { free_bytes, floor_bytes })) if !has_room => {
                Some(Error::DiskAlmostFull { free_bytes, floor_bytes }.to_string())
            }
            (None, _) => store.reason,
        };
        let writable = store.writable && takes_writes && has_room;
        storage::Health { writable, reason, room, ..store }
    }
}
