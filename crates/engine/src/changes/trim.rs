//! Taking versions away that are over their time.
//!
//! They go from the start of the log and only up to the first that is to be kept, so what is left
//! has no gaps: whoever stands at an entry that is still to be kept misses nothing after it.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use model::{ContainerRid, PartitionId};
use storage::{Dir, KeyRange, View};

use crate::catalog::Container;
use crate::commit::{Command, TrimLog};
use crate::keys::Log;
use crate::routing::PartitionRange;
use crate::version::Version;
use crate::{Engine, Error};

/// Entries taken away by one commit: all writers wait for it.
const ENTRIES_PER_TRIM: usize = 2_000;
/// Commits for one partition at a time; the next tick goes on.
const TRIMS_PER_TICK: usize = 20;
/// Entries are kept this much longer than promised, for clocks that differ.
const SLACK_SECONDS: u64 = 60;

/// Where the trimming of one partition stands.
#[derive(Default)]
pub(crate) struct TrimState {
    /// The last entry taken away: what the store has to step over lies before it.
    after: Option<Vec<u8>>,
    /// For how many minutes versions were kept when `due` was found.
    minutes: u32,
    /// When the next entry is due, in seconds.
    due: u64,
}

/// What a look at the start of the log found.
struct Due {
    keys: Vec<Bytes>,
    /// When to look again.
    next: u64,
}

impl Engine {
    /// Takes away what is over its time.
    pub(crate) async fn trim_versions(
        &self,
        container: &Arc<Container>,
        range: &PartitionRange,
        state: &mut TrimState,
        now: u64,
    ) -> Result<(), Error> {
        for _ in 0..TRIMS_PER_TICK {
            let Some(minutes) = self.versions_minutes(container.rid) else { break };
            if minutes == state.minutes && now < state.due {
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
        let after = state.after.clone();
        let look = move || {
            let view = engine.inner.store.view();
            // After the view: what it shows was written before, so if nothing is kept by this
            // description, nothing that a later one promises to keep is in it.
            let Some(minutes) = engine.versions_minutes(container) else { return Ok(None) };
            due(view.as_ref(), partition, minutes, after, now).map(|due| Some((minutes, due)))
        };
        let Some((minutes, due)) = self.run_blocking(look).await? else { return Ok(()) };
        if let Some(last) = due.keys.last() {
            state.after = Some(last.to_vec());
            let command = Command::Trim(TrimLog { partition, keys: due.keys });
            self.inner.commits.send(command).await.map_err(|_| self.stopped())?;
        }
        (state.minutes, state.due) = (minutes, due.next);
        Ok(())
    }
}

fn due(
    view: &dyn View,
    partition: PartitionId,
    minutes: u32,
    after: Option<Vec<u8>>,
    now: u64,
) -> Result<Due, Error> {
    let keep_seconds = match minutes {
        0 => 0,
        minutes => 60 * u64::from(minutes) + SLACK_SECONDS,
    };
    let (start, end) = Log::Versions.all();
    let lo = after.as_deref().map_or(Bound::Included(&start[..]), Bound::Excluded);
    let mut cursor = view.scan(partition, KeyRange { lo, hi: Bound::Excluded(&end) }, Dir::Fwd)?;
    let mut keys = Vec::new();
    while keys.len() < ENTRIES_PER_TRIM {
        let Some((key, value)) = cursor.next()? else {
            // Whatever comes is kept as long as everything.
            let next = if minutes == 0 { u64::MAX } else { now.saturating_add(keep_seconds) };
            return Ok(Due { keys, next });
        };
        let ts = Version::decode(value).map_or(0, |version| version.ts);
        let next = ts.saturating_add(keep_seconds);
        if next > now {
            return Ok(Due { keys, next });
        }
        keys.push(Bytes::copy_from_slice(key));
    }
    Ok(Due { keys, next: now })
}
