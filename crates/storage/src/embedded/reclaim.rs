//! Frees the space of retired partitions in bounded steps.
//!
//! Files that lie wholly within retired partitions are dropped; what remains is removed key by key.
//! Dropping a file is not journaled, so replaying the journal after a crash may bring its rows
//! back. Readers never see them, because a retired partition stays hidden for good, and the first
//! run after an open looks for such leftovers.

use std::ops::Bound;
use std::time::{Duration, Instant};

use fjall::{AbstractTree, Keyspace, LsmError, Readable, Slice, Snapshot};
use model::PartitionId;

use crate::{Durability, ReclaimProgress, StoreError};

use super::errors::read_failed;
use super::lookup_cache::CacheUpdate;
use super::sys::{self, ReclaimStage};
use super::view::OpenView;
use super::{EmbeddedStore, OpenEngine};

/// Keys and partitions handled by one batch: few enough not to hold up the committer.
const STEP_MAX: usize = 1_000;

#[derive(Default)]
pub(super) struct Reclaimer {
    swept: bool,
}

impl Reclaimer {
    pub(super) fn run(
        &mut self,
        store: &EmbeddedStore,
        budget: Duration,
    ) -> Result<ReclaimProgress, StoreError> {
        let deadline = Deadline::after(budget);
        if !self.swept {
            find_leftovers(store.lock_writer().engine_mut()?)?;
            self.swept = true;
        }
        drop_whole_files(store)?;
        let mut keys_removed = 0;
        while let Some(removed) = store.reclaim_step()? {
            keys_removed += removed;
            if deadline.has_passed() {
                break;
            }
        }
        let partitions_left = store.lock_writer().engine()?.retired.pending().len();
        Ok(ReclaimProgress { keys_removed, partitions_left })
    }
}

/// A point in real time.
pub(super) struct Deadline(Instant, Duration);

#[expect(
    clippy::disallowed_methods,
    reason = "a budget of real time for real disk work; no result depends on it"
)]
impl Deadline {
    pub(super) fn after(budget: Duration) -> Self {
        Self(Instant::now(), budget)
    }

    fn has_passed(&self) -> bool {
        self.left().is_none()
    }

    /// The time left until then.
    pub(super) fn left(&self) -> Option<Duration> {
        self.1.checked_sub(self.0.elapsed()).filter(|left| !left.is_zero())
    }
}

/// Moves forgotten partitions that hold rows again back to the pending ones.
fn find_leftovers(engine: &mut OpenEngine) -> Result<(), StoreError> {
    let snapshot = engine.db.snapshot();
    let mut found = Vec::new();
    for (first, last) in engine.retired.forgotten().runs() {
        let mut from = first;
        while let Some(id) = first_partition_at(engine, &snapshot, from)?
            && id <= last
        {
            found.push(id);
            let Some(next) = id.checked_add(1) else { break };
            from = next;
        }
    }
    for id in found {
        engine.retired.set_stage(id, ReclaimStage::Fresh);
    }
    Ok(())
}

fn first_partition_at(
    engine: &OpenEngine,
    snapshot: &Snapshot,
    from: u32,
) -> Result<Option<u32>, StoreError> {
    let mut lowest = None;
    for tree in engine.trees.each() {
        let Some(entry) = snapshot.range(tree, from.to_be_bytes()..).next() else { continue };
        let key = entry.key().map_err(read_failed)?;
        let prefix = key.first_chunk::<4>().ok_or_else(|| {
            StoreError::Corrupt("a key of the store is shorter than its prefix".to_owned())
        })?;
        let found = u32::from_be_bytes(*prefix);
        lowest = Some(lowest.map_or(found, |lowest: u32| lowest.min(found)));
    }
    Ok(lowest)
}

/// Drops files within runs of adjacent partitions of which nothing was removed yet.
fn drop_whole_files(store: &EmbeddedStore) -> Result<(), StoreError> {
    let (trees, runs) = {
        let writer = store.lock_writer();
        let engine = writer.engine()?;
        (engine.trees.clone(), fresh_runs(engine))
    };
    for run in runs {
        for tree in trees.each() {
            drop_files_of_run(tree, run).map_err(|e| read_failed(e.into()))?;
        }
    }
    Ok(())
}

fn drop_files_of_run(tree: &Keyspace, (first, last): (u32, u32)) -> Result<(), LsmError> {
    let lo = first.to_be_bytes();
    let hi = last.checked_add(1).map(u32::to_be_bytes);
    let within = |min: &[u8], max: &[u8]| min >= &lo[..] && hi.is_none_or(|hi| max < &hi[..]);
    let any = tree.tree.current_version().iter_tables().any(|table| {
        let range = &table.metadata.key_range;
        within(range.min(), range.max())
    });
    if any {
        let end = hi.map_or(Bound::Unbounded, Bound::Excluded);
        tree.tree.drop_range::<[u8; 4], _>((Bound::Included(lo), end))?;
    }
    Ok(())
}

fn fresh_runs(engine: &OpenEngine) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for (id, stage) in engine.retired.pending() {
        if *stage != ReclaimStage::Fresh {
            continue;
        }
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*id) => *last = *id,
            Some(_) | None => runs.push((*id, *id)),
        }
    }
    runs
}

/// One batch of work.
#[derive(Default)]
struct Step {
    /// Keys to remove, across partitions, each with the number of its tree.
    keys: Vec<(usize, Slice)>,
    /// Partitions that hold nothing once the keys are removed.
    emptied: Vec<u32>,
    /// The last partition, if it does not fit into the step.
    cut_short: Option<u32>,
}

impl Step {
    /// Looks for work; writers need not wait meanwhile, as retired partitions do not change.
    fn plan(pending: Vec<(u32, ReclaimStage)>, view: &OpenView) -> Result<Self, StoreError> {
        let mut step = Self::default();
        for (id, stage) in pending {
            let room = STEP_MAX - step.keys.len();
            if room == 0 {
                break;
            }
            let before = step.keys.len();
            for row in keys_left(view, id, &stage).take(room) {
                step.keys.push(row?);
            }
            if step.keys.len() - before < room {
                step.emptied.push(id);
            } else {
                step.cut_short = Some(id);
            }
        }
        Ok(step)
    }
}

/// The keys that a partition still holds, tree by tree. Starting after those already removed avoids
/// scanning their tombstones again and again.
fn keys_left<'v>(
    view: &'v OpenView,
    id: u32,
    stage: &'v ReclaimStage,
) -> impl Iterator<Item = Result<(usize, Slice), StoreError>> + 'v {
    let removed = match stage {
        ReclaimStage::Fresh => None,
        ReclaimStage::RemovedUpTo(tree, key) => Some((*tree, &key[..])),
    };
    let trees = view.trees.each().enumerate();
    trees.skip(removed.map_or(0, |(tree, _)| tree)).flat_map(move |(number, tree)| {
        let prefix = id.to_be_bytes();
        let lo = match removed {
            Some((removed_from, key)) if removed_from == number => Bound::Excluded(key),
            Some(_) | None => Bound::Included(&prefix[..]),
        };
        let end = id.checked_add(1).map(u32::to_be_bytes);
        let hi = end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(&end[..]));
        let rows = view.snapshot.range::<&[u8], _>(tree, (lo, hi));
        rows.map(move |row| Ok((number, row.key().map_err(read_failed)?)))
    })
}

impl EmbeddedStore {
    /// Takes one step; returns how many keys it removed, or `None` when no work is left.
    fn reclaim_step(&self) -> Result<Option<u64>, StoreError> {
        let (pending, view) = {
            let writer = self.lock_writer();
            let engine = writer.engine()?;
            let pending = engine.retired.pending().iter().take(STEP_MAX);
            (pending.map(|(id, stage)| (*id, stage.clone())).collect(), engine.open_view())
        };
        let step = Step::plan(pending, &view)?;
        drop(view);
        if step.keys.is_empty() && step.emptied.is_empty() {
            return Ok(None);
        }
        self.take_step(&step)?;
        Ok(Some(step.keys.len() as u64))
    }

    fn take_step(&self, step: &Step) -> Result<(), StoreError> {
        let mut writer = self.lock_writer();
        let mut forgotten = writer.engine()?.retired.forgotten().clone();
        let ops_max = step.keys.len() + 3 * step.emptied.len();
        // Readers see none of these keys, so the cache does not hold them.
        let update = CacheUpdate::default();
        self.commit(&mut writer, Durability::Synced, ops_max, update, |engine, batch| {
            for (number, tree) in engine.trees.each().enumerate() {
                for (_, key) in step.keys.iter().filter(|(of, _)| *of == number) {
                    batch.remove(tree, key.clone());
                }
            }
            for id in &step.emptied {
                sys::mark_forgotten(
                    &engine.trees.data,
                    batch,
                    forgotten.insert(PartitionId(*id)),
                    *id,
                );
            }
        })?;
        let engine = writer.engine_mut()?;
        engine.retired.forget(&step.emptied, forgotten);
        if let (Some(id), Some((tree, key))) = (step.cut_short, step.keys.last()) {
            engine.retired.set_stage(id, ReclaimStage::RemovedUpTo(*tree, key.clone()));
        }
        self.shared.publish(engine);
        Ok(())
    }
}
