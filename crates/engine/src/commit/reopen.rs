//! Continuing after a failed write, once the store is opened again.
//!
//! Anything that was not acknowledged may be in the store then. The counters of partitions are read
//! back: they tell what is there. So is how far the copies under way have come. A change of the
//! catalog was not published, so what it may have left in the store is undone.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use model::PartitionId;
use storage::{Durability, Op, View, WriteBatch};

use crate::repartition::progress_of;
use crate::{Error, keys};

use super::{Committer, PartitionState};

/// The key that an op writes.
pub(super) fn key_of(op: &Op) -> (PartitionId, Bytes) {
    match op {
        Op::Put { p, k, .. } | Op::Del { p, k } => (*p, k.clone()),
    }
}

impl Committer {
    /// Remembers what was stored before a change that failed. The store still shows it: a failed
    /// write is never visible before the store is opened again.
    pub(super) fn note_undo(&mut self, changed: Vec<(PartitionId, Bytes)>) {
        if self.undo.is_some() || self.failure.load().is_none() {
            return;
        }
        let view = self.store.view();
        let before = |(p, k): (PartitionId, Bytes)| {
            let op = match view.get(p, &k)? {
                Some(v) => Op::Put { p, k, v },
                None => Op::Del { p, k },
            };
            Ok::<_, Error>(op)
        };
        match changed.into_iter().map(before).collect() {
            Ok(ops) => self.undo = Some(WriteBatch { ops }),
            Err(error) => tracing::error!(%error, "a failed change can't be undone; restart"),
        }
    }

    /// Opens the store again if it has failed. Returns whether it takes writes.
    pub(super) fn reopen(&mut self) -> bool {
        self.room.refresh(self.store.as_ref(), self.clock.as_ref());
        if self.failure.load().is_none() {
            if self.store.health().writable {
                return true;
            }
            if !self.store.can_reopen() {
                return false;
            }
            // No write has failed here, so nothing has started the retries yet.
            self.failed(
                "writes are refused: the store failed by itself and is opened again".into(),
            );
        }
        if !self.store.can_reopen() || self.room.check(super::disk_space::DiskNeed::Room).is_err() {
            return false;
        }
        match self.open_again() {
            Ok(()) => {
                tracing::warn!("the store was opened again and takes writes");
                self.reopened.fetch_add(1, Ordering::SeqCst);
                self.failure.store(None);
                self.is_reopening = false;
                true
            }
            Err(error) => {
                tracing::warn!(%error, "the store could not be opened again; trying later");
                self.failed(format!(
                    "writes are refused: the store can't be opened again: {error}"
                ));
                false
            }
        }
    }

    /// Takes no more writes until the store is opened again, and has that retried until it
    /// succeeds.
    pub(super) fn failed(&mut self, reason: String) {
        self.failure.store(Some(Arc::new(reason)));
        if self.store.can_reopen() && !self.is_reopening {
            self.is_reopening = true;
            (self.reopen_later)();
        }
    }

    fn open_again(&mut self) -> Result<(), Error> {
        self.store.reopen()?;
        if let Some(undo) = self.undo.clone() {
            self.store.write(undo, Durability::Synced)?;
            self.undo = None;
        }
        let view = self.store.view();
        for (p, slot) in &mut self.partitions {
            slot.state = stored_state(view.as_ref(), *p)?;
            let routing = slot.container.routing();
            let range = routing.ranges().iter().find(|range| range.partition.id == *p);
            if let Some(range) = range {
                range.partition.publish(&slot.state);
            }
        }
        self.mirrors.read_back(
            |source| progress_of(view.as_ref(), source),
            |target| stored_state(view.as_ref(), target),
        )
    }
}

fn stored_state(view: &dyn View, p: PartitionId) -> Result<PartitionState, Error> {
    view.get(p, keys::PARTITION_STATE)?
        .and_then(|state| PartitionState::decode(&state))
        .ok_or_else(|| Error::Storage(format!("the counters of partition {p} can't be read")))
}
