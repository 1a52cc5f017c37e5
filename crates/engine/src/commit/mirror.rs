//! Keeping the partitions that will replace another one up to date.
//!
//! While a partition is split or merged its rows are copied in the order of their keys, some at a
//! time, through the committer. Keys carry no partition id, so a row means the same in its new
//! partition. From the moment a key is copied, every later write of it goes to the new partition as
//! well, in the same atomic batch. So when the last row is copied the new partitions hold exactly
//! what the old one holds, nothing is left to catch up with, and changing over is one ordinary
//! commit.
//!
//! Rows are read from a view that is slightly older than the commit which stores them. Keys that
//! were written in between are remembered, and their current value is taken instead.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use hashbrown::{HashMap, HashSet};
use model::{EpkRange, PartitionId};
use tokio::sync::oneshot;

use crate::Error;
use crate::keys::{self, EpkForm};
use crate::planted::{Bug, is_planted};
use crate::repartition::JobId;

use super::group::Group;
use super::state::{LogicalCounters, PartitionState};

/// Most keys remembered between two chunks; with more, the next chunk is read again.
const KEYS_REMEMBERED_MAX: usize = 500_000;

/// How far a partition's rows are copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyProgress {
    /// Every key up to and with this one.
    UpTo(Bytes),
    /// Every key.
    All,
}

impl CopyProgress {
    /// Nothing yet.
    pub(crate) const NONE: CopyProgress = CopyProgress::UpTo(Bytes::new());

    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        match self {
            CopyProgress::UpTo(last) => key <= &last[..],
            CopyProgress::All => true,
        }
    }

    fn encode(&self) -> Bytes {
        match self {
            CopyProgress::UpTo(last) => [&[0], &last[..]].concat().into(),
            CopyProgress::All => Bytes::from_static(&[1]),
        }
    }

    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        match value.split_first()? {
            (0, last) => Some(CopyProgress::UpTo(Bytes::copy_from_slice(last))),
            (1, []) => Some(CopyProgress::All),
            _ => None,
        }
    }
}

/// A partition that is being filled.
#[derive(Clone, Debug)]
pub(crate) struct MirrorTarget {
    pub(crate) partition: PartitionId,
    pub(crate) epk: EpkRange,
}

/// Rows of a partition, read at one moment.
pub(crate) struct CopyChunk {
    /// The job it was read for.
    pub(crate) job: JobId,
    pub(crate) source: PartitionId,
    /// The key that the rows follow.
    pub(crate) after: Bytes,
    pub(crate) rows: Vec<(Bytes, Bytes)>,
    /// Up to where `rows` has every row.
    pub(crate) up_to: CopyProgress,
    pub(crate) reply: oneshot::Sender<Result<ChunkOutcome, Error>>,
}

/// The outcome of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkOutcome {
    Stored,
    /// Too much has changed since it was read; read it again.
    Stale,
    /// The copy was cancelled.
    Cancelled,
}

/// What the committer does for a partition whose rows are being copied.
pub(crate) struct Mirror {
    job: JobId,
    /// Upper bound and id of each target, in the order of the hash line.
    targets: Vec<(Vec<u8>, PartitionId)>,
    copied: CopyProgress,
    /// Keys not yet copied that were written since the last chunk was stored.
    written: HashSet<Bytes, foldhash::fast::FixedState>,
    /// Whether keys may have been written that are not remembered.
    has_lost_track: bool,
}

impl Mirror {
    pub(crate) fn new(
        job: JobId,
        form: EpkForm,
        targets: &[MirrorTarget],
        copied: CopyProgress,
    ) -> Self {
        let targets =
            targets.iter().map(|t| (keys::identity_bound(form, &t.epk.max), t.partition)).collect();
        Self { job, targets, copied, written: HashSet::default(), has_lost_track: false }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.copied == CopyProgress::All
    }

    pub(crate) fn targets(&self) -> impl Iterator<Item = PartitionId> {
        self.targets.iter().map(|(_, p)| *p)
    }

    /// The target that a logical partition belongs to.
    pub(crate) fn target_of(&self, identity: &[u8]) -> Option<PartitionId> {
        let at = self.targets.partition_point(|(upper, _)| &upper[..] <= identity);
        self.targets.get(at).map(|(_, p)| *p)
    }

    fn target_of_row(&self, key: &[u8], value: Option<&[u8]>) -> Result<PartitionId, Error> {
        keys::identity_of(key, value)
            .and_then(|identity| self.target_of(identity))
            .ok_or_else(|| Error::Internal("a row belongs to no partition".into()))
    }

    fn remember(&mut self, key: &Bytes) {
        if self.written.len() <= KEYS_REMEMBERED_MAX {
            self.written.insert(key.clone());
        } else {
            self.has_lost_track = true;
        }
    }
}

/// All copies under way.
#[derive(Default)]
pub(crate) struct Mirrors {
    by_source: HashMap<PartitionId, Mirror, foldhash::fast::FixedState>,
    /// Counters of the partitions being filled.
    target_states: HashMap<PartitionId, PartitionState, foldhash::fast::FixedState>,
}

impl Mirrors {
    /// Begins to fill the mirror's targets, or continues with what they hold already.
    pub(crate) fn attach(
        &mut self,
        source: PartitionId,
        mirror: Mirror,
        held: impl Fn(PartitionId) -> PartitionState,
    ) {
        for target in mirror.targets() {
            self.target_states.entry(target).or_insert_with(|| held(target));
        }
        self.by_source.insert(source, mirror);
    }

    /// Continues from what the store has after a failed write: that may be more or less than is
    /// known here. Chunks that were read before are read again.
    pub(crate) fn read_back(
        &mut self,
        progress_of: impl Fn(PartitionId) -> Result<CopyProgress, Error>,
        state_of: impl Fn(PartitionId) -> Result<PartitionState, Error>,
    ) -> Result<(), Error> {
        for (source, mirror) in &mut self.by_source {
            mirror.copied = progress_of(*source)?;
            mirror.written.clear();
            mirror.has_lost_track = true;
        }
        for (target, state) in &mut self.target_states {
            *state = state_of(*target)?;
        }
        Ok(())
    }

    /// Ends the copy from `source`.
    pub(crate) fn detach(&mut self, source: PartitionId) {
        if let Some(mirror) = self.by_source.remove(&source) {
            for target in mirror.targets() {
                self.target_states.remove(&target);
            }
        }
    }

    /// The counters of a target whose sources are all copied.
    pub(crate) fn finished(
        &self,
        sources: &[PartitionId],
        target: PartitionId,
    ) -> Option<PartitionState> {
        let is_complete = |p| self.by_source.get(p).is_some_and(Mirror::is_complete);
        sources.iter().all(is_complete).then(|| self.target_states.get(&target).copied()).flatten()
    }

    /// Adds a chunk to the group, or leaves the group unchanged. A chunk that does not follow what
    /// was copied last comes from a cancelled job.
    pub(crate) fn take_chunk(
        &mut self,
        group: &mut Group,
        chunk: CopyChunk,
    ) -> Result<ChunkOutcome, Error> {
        let mirror = match self.by_source.get_mut(&chunk.source) {
            Some(m) if m.job == chunk.job && m.copied == CopyProgress::UpTo(chunk.after) => m,
            _ => return Ok(ChunkOutcome::Cancelled),
        };
        let has_lost_track = std::mem::take(&mut mirror.has_lost_track);
        let mut written = std::mem::take(&mut mirror.written);
        if is_planted(Bug::CopyReplacesNewer) {
            written.clear();
        }
        if has_lost_track {
            return Ok(ChunkOutcome::Stale);
        }
        let mut rows = Vec::with_capacity(chunk.rows.len());
        for (key, value) in chunk.rows {
            if !written.contains(&key) {
                rows.push((mirror.target_of_row(&key, Some(&value))?, key, value));
            }
        }
        for key in written.into_iter().filter(|key| chunk.up_to.covers(key)) {
            if is_planted(Bug::WrittenNotCopied) {
                continue;
            }
            if let Some(value) = group.get(chunk.source, &key)? {
                rows.push((mirror.target_of_row(&key, Some(&value))?, key, value));
            }
        }
        for (target, key, value) in rows {
            put_copy(&mut self.target_states, group, target, key, value)?;
        }
        group.put(chunk.source, keys::COPY_PROGRESS.into(), chunk.up_to.encode());
        mirror.copied = chunk.up_to;
        put_states(mirror, &self.target_states, group);
        Ok(ChunkOutcome::Stored)
    }

    /// Repeats what the group did to partitions whose rows are being copied. If that fails for one
    /// of them, its copy is cancelled: the group itself does not depend on it.
    pub(crate) fn repeat(&mut self, group: &mut Group) {
        let mut failed = Vec::new();
        for (source, mirror) in &mut self.by_source {
            let mut to_repeat = Vec::new();
            for (key, value) in group.writes_of(*source) {
                if &key[..] < keys::ITEMS_START {
                    continue;
                }
                match mirror.copied.covers(key) {
                    true => to_repeat.push((key.clone(), value.clone())),
                    false => mirror.remember(key),
                }
            }
            if to_repeat.is_empty() {
                continue;
            }
            let repeated = to_repeat.into_iter().try_for_each(|(key, value)| {
                repeat_one(mirror, &mut self.target_states, group, key, value)
            });
            put_states(mirror, &self.target_states, group);
            if let Err(error) = repeated {
                tracing::error!(partition = %source, %error, "a copy can't be kept up to date");
                failed.push(*source);
            }
        }
        group.accept();
        for source in failed {
            self.detach(source);
        }
    }
}

type TargetStates = HashMap<PartitionId, PartitionState, foldhash::fast::FixedState>;

/// Stores a row in its new partition for the first time.
fn put_copy(
    target_states: &mut TargetStates,
    group: &mut Group,
    target: PartitionId,
    key: Bytes,
    value: Bytes,
) -> Result<(), Error> {
    if keys::is_counters(&key) {
        count(target_states, target, None, LogicalCounters::decode(&value));
        group.put(target, key, value);
    } else if keys::text_totals_of(&key).is_some() {
        group.put_entry(target, key, value)?;
    } else {
        group.put_unseen(target, key, value);
    }
    Ok(())
}

/// Repeats a write of a copied key in its new partition.
fn repeat_one(
    mirror: &Mirror,
    target_states: &mut TargetStates,
    group: &mut Group,
    key: Bytes,
    value: Option<Bytes>,
) -> Result<(), Error> {
    if value.is_none() && keys::identity_of(&key, None).is_none() {
        // A removed log entry no longer tells its item. At most one of the targets has it.
        for target in mirror.targets() {
            group.delete_entry(target, key.clone())?;
        }
        return Ok(());
    }
    let target = mirror.target_of_row(&key, value.as_deref())?;
    if keys::is_counters(&key) {
        let before = group.get(target, &key)?.and_then(|v| LogicalCounters::decode(&v));
        let after = value.as_deref().and_then(LogicalCounters::decode);
        count(target_states, target, before, after);
    }
    match value {
        Some(value) => group.put_entry(target, key, value)?,
        None if is_planted(Bug::DeleteNotMirrored) => {}
        None => group.delete(target, key),
    }
    Ok(())
}

fn count(
    target_states: &mut TargetStates,
    target: PartitionId,
    before: Option<LogicalCounters>,
    after: Option<LogicalCounters>,
) {
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let state = target_states.entry(target).or_default();
    state.items = (state.items + after.items).saturating_sub(before.items);
    state.bytes = (state.bytes + after.bytes).saturating_sub(before.bytes);
}

/// Stores the counters of the targets, so that a restart can continue from here.
fn put_states(mirror: &Mirror, target_states: &TargetStates, group: &mut Group) {
    for target in mirror.targets() {
        let state = target_states.get(&target).copied().unwrap_or_default();
        group.put(target, keys::PARTITION_STATE.into(), state.encode());
    }
}

/// The partitions of a job, as the committer needs them to begin it.
pub(crate) struct NewMirror {
    pub(crate) source: PartitionId,
    pub(crate) mirror: Mirror,
}

/// The last step of a split or merge.
pub(crate) struct CutOver {
    pub(crate) sources: Vec<Arc<crate::partition::Partition>>,
    pub(crate) targets: Vec<Arc<crate::partition::Partition>>,
    pub(crate) container: Arc<crate::catalog::Container>,
    pub(crate) routing: Arc<crate::routing::RoutingMap>,
    /// Where the committer records how long writers had to wait for it.
    pub(crate) held_micros: Arc<AtomicU64>,
}

#[cfg(test)]
mod tests {
    use storage::{LocalStore, MemoryStore};

    use super::*;

    #[test]
    fn a_chunk_of_a_job_that_was_called_off_is_not_taken_for_the_next() {
        let (source, target) = (PartitionId(1), PartitionId(2));
        let targets = [MirrorTarget { partition: target, epk: EpkRange::full() }];
        let mirror = Mirror::new(JobId(2), EpkForm::Fixed(16), &targets, CopyProgress::NONE);
        let mut mirrors = Mirrors::default();
        mirrors.attach(source, mirror, |_| PartitionState::default());
        let mut take = |job| {
            let (reply, _) = oneshot::channel();
            let chunk = CopyChunk {
                job,
                source,
                after: Bytes::new(),
                rows: Vec::new(),
                up_to: CopyProgress::All,
                reply,
            };
            let outcome = mirrors.take_chunk(&mut Group::new(MemoryStore::new().view()), chunk);
            (outcome.unwrap(), mirrors.by_source[&source].is_complete())
        };
        assert_eq!(take(JobId(1)), (ChunkOutcome::Cancelled, false));
        assert_eq!(take(JobId(2)), (ChunkOutcome::Stored, true));
    }
}
