//! Removing what sessions noted of their statements, once no client sends them again.

use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;
use model::PartitionId;
use storage::{Dir, KeyRange, View};

use crate::commit::{Command, RetryRecord, TrimLog};
use crate::keys::RETRY_BOUNDS;
use crate::{Engine, Error};

/// How often a partition is looked through.
const INTERVAL: Duration = Duration::from_secs(60);
/// Records read in one step.
const RECORDS_PER_STEP: usize = 2_000;

/// The progress in one partition.
#[derive(Default)]
pub(super) struct RetrySweep {
    /// When the next round begins; the first one is not urgent.
    due: Option<Duration>,
    /// The key to continue after.
    after: Option<Bytes>,
}

impl Engine {
    /// Removes the next records that are old.
    pub(super) async fn trim_retries(
        &self,
        partition: PartitionId,
        sweep: &mut RetrySweep,
        now: u64,
    ) -> Result<(), Error> {
        let monotonic = self.inner.components.clock.monotonic();
        let due = *sweep.due.get_or_insert(monotonic.saturating_add(INTERVAL));
        if monotonic < due {
            return Ok(());
        }
        let (store, after) = (std::sync::Arc::clone(&self.inner.store), sweep.after.take());
        let step = move || scan(store.view().as_ref(), partition, after.as_ref(), now);
        let (keys, after) = self.run_blocking(step).await?;
        if after.is_none() {
            sweep.due = Some(monotonic.saturating_add(INTERVAL));
        }
        sweep.after = after;
        if keys.is_empty() {
            return Ok(());
        }
        let command = Command::Trim(TrimLog { partition, keys, versions: Vec::new() });
        self.inner.commits.send(command).await.map_err(|_| self.stopped())
    }
}

/// Keys of old records after `after`, and the key to continue after.
fn scan(
    view: &dyn View,
    partition: PartitionId,
    after: Option<&Bytes>,
    now: u64,
) -> Result<(Vec<Bytes>, Option<Bytes>), Error> {
    let (start, end) = RETRY_BOUNDS;
    let lo = after.map_or(Bound::Included(&start[..]), |after| Bound::Excluded(&after[..]));
    let range = KeyRange { lo, hi: Bound::Excluded(&end[..]) };
    let mut cursor = view.scan(partition, range, Dir::Fwd)?;
    let mut old = Vec::new();
    for _ in 0..RECORDS_PER_STEP {
        let Some((key, value)) = cursor.next()? else { return Ok((old, None)) };
        if RetryRecord::decode(value).is_none_or(|record| record.is_old(now)) {
            old.push(Bytes::copy_from_slice(key));
        }
    }
    let last = cursor.row().map(|(key, _)| Bytes::copy_from_slice(key));
    Ok((old, last))
}
