//! Removing versions that are past their retention time.
//!
//! They go from the start of the log and only up to the first that is to be kept, so what is left
//! has no gaps: a reader positioned at an entry that is still to be kept misses nothing after it.
//! What is gone is noted by position (see [`super::trimmed`]).
//!
//! A version whose time is in the future was written by a clock that was ahead; its time does not
//! say when it is due. It is older than what the partition wrote after it, and than the moment at
//! which it is found, so it is removed when one of these is past the retention time.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use model::{ContainerRid, Lsn, PartitionId};
use storage::{Cursor, Dir, KeyRange, View};

use super::trimmed::Trimmed;
use crate::catalog::Container;
use crate::commit::{Command, TrimLog};
use crate::keys::{self, Log};
use crate::routing::PartitionRange;
use crate::version::Version;
use crate::{Engine, Error};

/// Entries removed by one commit: all writers wait for it.
const ENTRIES_PER_TRIM: usize = 2_000;
/// Commits for one partition at a time; the next tick continues.
const TRIMS_PER_TICK: usize = 20;
/// Entries are kept this much longer than promised, for clocks that differ.
const SLACK_SECONDS: u64 = 60;

/// How far the trimming of one partition has come.
#[derive(Default)]
pub(crate) struct TrimState {
    /// The last entry removed: what the store has to skip lies before it.
    after: Option<Vec<u8>>,
    /// For how many minutes versions were kept when `due` was found.
    minutes: u32,
    /// When the next entry is due, in seconds.
    due: u64,
    /// What time it was when `due` was found.
    checked_at: u64,
    future_versions: FutureVersions,
}

/// What is known of versions at the start of the log whose time is in the future.
#[derive(Clone, Default)]
struct FutureVersions {
    /// Everything up to here was examined, and nothing says when it was written.
    examined_to: Option<Bytes>,
    /// Where the log ended when none of it said so, and what time it was then.
    end: Option<(Bytes, u64)>,
    /// Everything up to here is past its retention time, whatever its own time says.
    clear_to: Option<Bytes>,
}

/// What an examination of the start of the log found.
#[derive(Default)]
struct TrimBatch {
    keys: Vec<Bytes>,
    /// For every range, an item of the last version among `keys`, and its position.
    versions: BTreeMap<usize, (Bytes, Lsn)>,
    /// When to examine the log again.
    next: u64,
    future_versions: FutureVersions,
}

impl Engine {
    /// Removes what is past its retention time.
    pub(crate) async fn trim_versions(
        &self,
        container: &Arc<Container>,
        range: &PartitionRange,
        state: &mut TrimState,
        now: u64,
    ) -> Result<(), Error> {
        for _ in 0..TRIMS_PER_TICK {
            let Some(minutes) = self.versions_minutes(container.rid) else { break };
            // A due time that was found by a clock that has gone back since means nothing.
            let is_early = now < state.due && now >= state.checked_at;
            if minutes == state.minutes && is_early {
                break;
            }
            self.trim_some(container.rid, range, state, now).await?;
        }
        Ok(())
    }

    /// How long a container keeps versions now; `None` if it is gone.
    fn versions_minutes(&self, container: ContainerRid) -> Option<u32> {
        self.catalog().container_by_rid(container).map(|c| c.spec.versions_minutes)
    }

    async fn trim_some(
        &self,
        container: ContainerRid,
        range: &PartitionRange,
        state: &mut TrimState,
        now: u64,
    ) -> Result<(), Error> {
        let (engine, partition) = (self.clone(), range.partition.id);
        let (after, future_versions) = (state.after.clone(), state.future_versions.clone());
        let look = move || {
            let view = engine.inner.store.view();
            // Read after the view is taken: the view shows only earlier writes, so if this
            // description keeps nothing, the view holds nothing that a later description promises
            // to keep.
            let Some(minutes) = engine.versions_minutes(container) else { return Ok(None) };
            let log = VersionLog { view: view.as_ref(), partition, minutes, now };
            log.due(after, future_versions).map(|due| Some((minutes, due)))
        };
        let Some((minutes, due)) = self.run_blocking(look).await? else { return Ok(()) };
        if let Some(last) = due.keys.last() {
            state.after = Some(last.to_vec());
            let versions = due.versions.into_values().collect();
            let command = Command::Trim(TrimLog { partition, keys: due.keys, versions });
            self.inner.commits.send(command).await.map_err(|_| self.stopped())?;
        }
        (state.minutes, state.due, state.checked_at) = (minutes, due.next, now);
        state.future_versions = due.future_versions;
        Ok(())
    }
}

/// The log of versions of a partition while it is trimmed.
struct VersionLog<'a> {
    view: &'a dyn View,
    partition: PartitionId,
    /// For how many minutes versions are kept.
    minutes: u32,
    now: u64,
}

impl VersionLog<'_> {
    fn keep_seconds(&self) -> u64 {
        match self.minutes {
            0 => 0,
            minutes => 60 * u64::from(minutes) + SLACK_SECONDS,
        }
    }

    /// When a version of this time may be removed.
    fn due_at(&self, ts: u64) -> u64 {
        match self.minutes {
            0 => 0,
            _ => ts.saturating_add(self.keep_seconds()),
        }
    }

    fn scan(&self, after: Option<&[u8]>) -> Result<Box<dyn Cursor + '_>, Error> {
        let (start, end) = Log::Versions.all();
        let lo = after.map_or(Bound::Included(&start[..]), Bound::Excluded);
        let range = KeyRange { lo, hi: Bound::Excluded(&end) };
        Ok(self.view.scan(self.partition, range, Dir::Fwd)?)
    }

    /// The entries of the log after `after` that may be removed.
    fn due(
        &self,
        after: Option<Vec<u8>>,
        future_versions: FutureVersions,
    ) -> Result<TrimBatch, Error> {
        let trimmed = self.view.get(self.partition, keys::TRIMMED)?;
        let trimmed = trimmed.and_then(|note| Trimmed::decode(&note)).unwrap_or_default();
        let mut due = TrimBatch { next: self.now, future_versions, ..TrimBatch::default() };
        let mut cursor = self.scan(after.as_deref())?;
        while due.keys.len() < ENTRIES_PER_TRIM {
            let Some((key, value)) = cursor.next()? else {
                due.future_versions = FutureVersions::default();
                // Versions to come are kept as long as all others.
                due.next = match self.minutes {
                    0 => u64::MAX,
                    _ => self.now.saturating_add(self.keep_seconds()),
                };
                return Ok(due);
            };
            let version = Version::decode(value);
            let ts = version.as_ref().map_or(0, |version| version.ts);
            let is_cleared =
                due.future_versions.clear_to.as_ref().is_some_and(|last| key <= &last[..]);
            if !is_cleared && self.due_at(ts) > self.now {
                match ts > self.now {
                    true => self.resolve(key, &mut due)?,
                    false => due.next = self.due_at(ts),
                }
                return Ok(due);
            }
            if let (Some(version), Some((lsn, ..))) = (version, keys::log_entry(key)) {
                let range = trimmed.range_of(version.identity);
                let identity = Bytes::copy_from_slice(version.identity);
                due.versions.insert(range, (identity, lsn));
            }
            due.keys.push(Bytes::copy_from_slice(key));
        }
        Ok(due)
    }

    /// Looks for an entry that says how old the version at `first` is, whose own time is in the
    /// future.
    fn resolve(&self, first: &[u8], due: &mut TrimBatch) -> Result<(), Error> {
        let first = Bytes::copy_from_slice(first);
        let future_versions = &mut due.future_versions;
        let mut last = future_versions.examined_to.take().map_or(first.clone(), |at| at.max(first));
        let mut cursor = self.scan(Some(&last))?;
        for _ in 0..ENTRIES_PER_TRIM {
            let Some((key, value)) = cursor.next()? else {
                let (end, since) =
                    future_versions.end.get_or_insert_with(|| (last.clone(), self.now));
                // If the clock has gone back since, the time begins anew.
                *since = (*since).min(self.now);
                due.next = self.due_at(*since);
                if due.next <= self.now {
                    (future_versions.clear_to, future_versions.end) = (Some(end.clone()), None);
                }
                future_versions.examined_to = Some(last);
                return Ok(());
            };
            let ts = Version::decode(value).map_or(0, |version| version.ts);
            // Inherited entries need not be newer: the logs of two partitions are merged by
            // position.
            let is_own =
                keys::log_entry(key).is_some_and(|(_, origin, _)| origin == self.partition);
            if is_own && ts <= self.now {
                due.next = self.due_at(ts);
                if due.next <= self.now {
                    future_versions.clear_to = Some(Bytes::copy_from_slice(key));
                }
                future_versions.examined_to = Some(last);
                return Ok(());
            }
            last = Bytes::copy_from_slice(key);
        }
        future_versions.examined_to = Some(last);
        due.next = self.now;
        Ok(())
    }
}
