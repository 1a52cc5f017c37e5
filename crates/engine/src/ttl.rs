//! The sweep that removes what nobody can see any more: items whose time is over and old
//! tombstones of the change log, and that lets the store free retired partitions.
//!
//! There is no index by expiry. The change log has one live entry per item, with its time and ttl
//! in it, so a walk over the log finds what is due without touching a row, and containers without
//! a ttl pay nothing on their writes. Expired items are invisible the moment they expire; this
//! only gives their space back.

use std::ops::Bound;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;
use model::{Lsn, PartitionId, PartitionKey};
use storage::{Dir, KeyRange};

use crate::catalog::Container;
use crate::commit::{Command, PreparedOp, TrimLog};
use crate::engine::Inner;
use crate::keys::{self, EpkForm, LOG_BOUNDS};
use crate::prepare::Place;
use crate::routing::PartitionRange;
use crate::row::{self, Change, ChangeKind};
use crate::{Engine, Error};

const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Entries looked at per partition and sweep: bounds the work of one tick.
const ENTRIES_PER_SWEEP: usize = 10_000;
/// How long a tombstone is kept for those who follow the log.
const TOMBSTONE_SECONDS: u64 = 3600;
const RECLAIM_BUDGET: Duration = Duration::from_millis(20);

/// Where the sweep of one partition stands.
#[derive(Default)]
struct Sweep {
    /// Log key to go on after; `None` at the start of a round.
    after: Option<Vec<u8>>,
    /// Earliest moment, in seconds, at which anything seen in this round is due.
    due: u64,
    /// State at the end of the last full round.
    finished: Option<Finished>,
}

struct Finished {
    lsn: Lsn,
    default_ttl: Option<i32>,
    due: u64,
}

/// What one step of a sweep found.
#[derive(Default)]
struct Found {
    expired: Vec<(Vec<u8>, String)>,
    tombstones: Vec<Bytes>,
    last_key: Option<Vec<u8>>,
}

/// Starts the sweep; it ends with the engine.
pub(crate) fn start(engine: &Engine) {
    let weak = Arc::downgrade(&engine.inner);
    let components = engine.inner.components.clone();
    let task = Box::pin(sweep_forever(weak, Arc::clone(&components.clock)));
    components.spawner.spawn("sweep", task);
}

async fn sweep_forever(engine: Weak<Inner>, clock: Arc<dyn crate::components::Clock>) {
    let mut sweeps: HashMap<PartitionId, Sweep, foldhash::fast::FixedState> = HashMap::default();
    loop {
        clock.sleep(SWEEP_INTERVAL).await;
        let Some(inner) = engine.upgrade() else { return };
        let engine = Engine { inner };
        if engine.inner.commits.is_closed() {
            return;
        }
        if let Err(error) = sweep_all(&engine, &mut sweeps).await {
            tracing::warn!(%error, "the sweep could not finish; it will try again");
        }
    }
}

async fn sweep_all(
    engine: &Engine,
    sweeps: &mut HashMap<PartitionId, Sweep, foldhash::fast::FixedState>,
) -> Result<(), Error> {
    let catalog = engine.catalog();
    let mut live = Vec::new();
    for container in catalog.containers.values() {
        for range in container.routing().ranges() {
            live.push(range.partition.id);
            let sweep = sweeps.entry(range.partition.id).or_default();
            engine.sweep(container, range, sweep).await?;
        }
    }
    live.sort_unstable();
    sweeps.retain(|p, _| live.binary_search(p).is_ok());
    let store = Arc::clone(&engine.inner.store);
    engine.run_blocking(move || Ok(store.reclaim(RECLAIM_BUDGET)?)).await?;
    Ok(())
}

impl Engine {
    async fn sweep(
        &self,
        container: &Arc<Container>,
        range: &PartitionRange,
        sweep: &mut Sweep,
    ) -> Result<(), Error> {
        let now = self.inner.components.clock.now().seconds();
        let lsn = range.partition.lsn();
        let default_ttl = container.spec.default_ttl;
        if sweep.after.is_none() {
            if sweep.finished.as_ref().is_some_and(|f| f.still_holds(lsn, default_ttl, now)) {
                return Ok(());
            }
            sweep.due = u64::MAX;
        }
        let found = self.look(container, range, sweep, now).await?;
        if !found.tombstones.is_empty() {
            let trim = TrimLog { partition: range.partition.id, keys: found.tombstones };
            let _ = self.inner.commits.send(Command::Trim(trim)).await;
        }
        for (values, id) in found.expired {
            let key = PartitionKey::decode(&values).unwrap_or_default();
            let place = Place::of(container, &key)?;
            self.commit(container, range, place, vec![PreparedOp::Expire { id }]).await?;
        }
        sweep.after = found.last_key;
        if sweep.after.is_none() {
            sweep.finished = Some(Finished { lsn, default_ttl, due: sweep.due });
        }
        Ok(())
    }

    /// Walks the next part of the log.
    async fn look(
        &self,
        container: &Arc<Container>,
        range: &PartitionRange,
        sweep: &mut Sweep,
        now: u64,
    ) -> Result<Found, Error> {
        let store = Arc::clone(&self.inner.store);
        let partition = range.partition.id;
        let form = EpkForm::of(&container.spec.partition_key);
        let default_ttl = container.spec.default_ttl;
        let after = sweep.after.take();
        let (found, due) = self
            .run_blocking(move || {
                let mut found = Found::default();
                let mut due = u64::MAX;
                let view = store.view();
                let lo =
                    after.as_deref().map_or(Bound::Included(&LOG_BOUNDS.0[..]), Bound::Excluded);
                let bounds = KeyRange { lo, hi: Bound::Excluded(&LOG_BOUNDS.1) };
                let mut cursor = view.scan(partition, bounds, Dir::Fwd)?;
                for _ in 0..ENTRIES_PER_SWEEP {
                    let Some((key, value)) = cursor.next()? else {
                        // The round is over; the next one begins at the start.
                        found.last_key = None;
                        return Ok((found, due));
                    };
                    found.last_key = Some(key.to_vec());
                    let Some(change) = Change::decode(value) else { continue };
                    let at = due_at(&change, default_ttl);
                    if at > now {
                        due = due.min(at);
                        continue;
                    }
                    match change.kind {
                        ChangeKind::Delete => found.tombstones.push(Bytes::copy_from_slice(key)),
                        ChangeKind::Put => {
                            let row =
                                view.get(partition, &keys::row_of_identity(change.identity))?;
                            let row = row.and_then(row::Row::decode);
                            let parts = keys::split_identity(form, change.identity);
                            if let (Some(row), Some((_, _, id))) = (row, parts) {
                                found.expired.push((row.partition_key().to_vec(), id.to_owned()));
                            }
                        }
                    }
                }
                Ok((found, due))
            })
            .await?;
        sweep.due = sweep.due.min(due);
        Ok(found)
    }
}

/// When an entry's item expires or its tombstone may go; `u64::MAX` = never.
fn due_at(change: &Change<'_>, default_ttl: Option<i32>) -> u64 {
    match change.kind {
        ChangeKind::Delete => change.ts.saturating_add(TOMBSTONE_SECONDS),
        ChangeKind::Put => row::expires_at(change.ts, change.ttl, default_ttl).unwrap_or(u64::MAX),
    }
}

impl Finished {
    /// Whether another round would find nothing to do.
    fn still_holds(&self, lsn: Lsn, default_ttl: Option<i32>, now: u64) -> bool {
        self.lsn == lsn && self.default_ttl == default_ttl && now < self.due
    }
}
