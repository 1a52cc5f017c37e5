//! The sweep that removes what is no longer visible: expired items and old tombstones of the change
//! log. It also lets the store free retired partitions.
//!
//! There is no index by expiry. The change log has one live entry per item, with its time and ttl
//! in it, so a scan of the log finds what is due without reading a row, and containers without a
//! ttl pay nothing on their writes.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;
use model::{Lsn, PartitionId, PartitionKey};
use storage::{Dir, KeyRange, View};

use super::expires_at;
use super::retries::RetrySweep;
use crate::catalog::Container;
use crate::changes::TrimState;
use crate::commit::{Command, CommitTerms, PreparedOp, TrimLog};
use crate::components::Clock;
use crate::engine::Inner;
use crate::keys::{self, EpkForm, Log};
use crate::prepare::LogicalPartition;
use crate::routing::PartitionRange;
use crate::row::{Change, ChangeKind, Row};
use crate::submit::PendingCommit;
use crate::{Engine, Error, RowKey};

const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Time spent on scanning per tick, over all partitions: bounds what the sweep takes from requests.
const SWEEP_BUDGET: Duration = Duration::from_millis(50);
/// Entries scanned in one step.
const ENTRIES_PER_STEP: usize = 2_000;
/// Commits of the sweep that may be under way at once.
const COMMITS_IN_FLIGHT_MAX: usize = 64;
/// Items of one logical partition removed by one commit.
const ITEMS_PER_COMMIT: usize = 100;
/// How long a tombstone is kept for readers of the log.
const TOMBSTONE_SECONDS: u64 = 3600;
const RECLAIM_BUDGET: Duration = Duration::from_millis(20);

/// The progress of the sweep of one partition.
#[derive(Default)]
struct Sweep {
    /// Log key to continue after; `None` at the start.
    after: Option<Vec<u8>>,
    /// The container's default ttl that applies to this round.
    default_ttl: Option<i32>,
    /// Earliest time, in seconds, at which an entry passed over in this round is due.
    due: u64,
    /// What the last full round left behind.
    finished: Option<FinishedRound>,
    age: LogAge,
    versions: TrimState,
    retries: RetrySweep,
}

struct FinishedRound {
    lsn: Lsn,
    due: u64,
}

/// Which entries of a log are old, whatever their times say: those of a clock that was ahead are in
/// the future.
#[derive(Clone, Copy, Default)]
struct LogAge {
    /// The partition's position at a moment less than [`TOMBSTONE_SECONDS`] ago.
    passed: Option<(Lsn, Duration)>,
    /// Everything up to here is older than that.
    old: Lsn,
}

impl LogAge {
    /// Notes the partition's position. Returns whether more entries are known to be old.
    fn update(&mut self, at: Lsn, now: Duration) -> bool {
        let (passed, since) = *self.passed.get_or_insert((at, now));
        let is_over = now.saturating_sub(since) >= Duration::from_secs(TOMBSTONE_SECONDS);
        if is_over {
            *self = Self { passed: Some((at, now)), old: passed };
        }
        is_over
    }
}

/// What one step of a sweep found.
#[derive(Default)]
struct DueEntries {
    /// Encoded key values and ids of expired items, in the order of the log.
    expired: Vec<(Vec<u8>, RowKey)>,
    tombstones: Vec<Bytes>,
    /// Where to continue.
    after: Option<Vec<u8>>,
    /// Earliest time at which an entry passed over is due.
    due: u64,
    /// Whether the end of what can be due was reached.
    is_done: bool,
}

type Sweeps = HashMap<PartitionId, Sweep, foldhash::fast::FixedState>;

/// Starts the sweep; it ends with the engine.
pub(crate) fn start(engine: &Engine) {
    let weak = Arc::downgrade(&engine.inner);
    let components = engine.inner.components.clone();
    let task = Box::pin(sweep_forever(weak, Arc::clone(&components.clock)));
    components.spawner.spawn("sweep", task);
}

async fn sweep_forever(engine: Weak<Inner>, clock: Arc<dyn Clock>) {
    let mut sweeps = Sweeps::default();
    let mut turn = 0;
    loop {
        clock.sleep(SWEEP_INTERVAL).await;
        let Some(inner) = engine.upgrade() else { return };
        let engine = Engine { inner };
        if engine.inner.commits.is_closed() {
            return;
        }
        engine.sweep_for_a_while(&mut sweeps, &mut turn).await;
        let store = Arc::clone(&engine.inner.store);
        if let Err(error) = engine.run_blocking(move || Ok(store.reclaim(RECLAIM_BUDGET)?)).await {
            tracing::warn!(%error, "space of retired partitions is not freed yet");
        }
    }
}

impl Engine {
    /// Sweeps partition after partition until all have been swept or the time is used up; the next
    /// tick continues with the next partition. A failure of one does not stop the others.
    async fn sweep_for_a_while(&self, sweeps: &mut Sweeps, turn: &mut usize) {
        let catalog = self.catalog();
        let live: Vec<_> = catalog
            .containers
            .values()
            .flat_map(|c| c.routing().ranges().to_vec().into_iter().map(move |r| (c, r)))
            .collect();
        let is_live = |p: &PartitionId| live.iter().any(|(_, r)| r.partition.id == *p);
        if sweeps.len() > live.len() {
            sweeps.retain(|p, _| is_live(p));
        }
        let clock = &self.inner.components.clock;
        let started = clock.monotonic();
        for _ in 0..live.len() {
            if clock.monotonic() - started >= SWEEP_BUDGET {
                return;
            }
            *turn = (*turn + 1) % live.len();
            let (container, range) = &live[*turn];
            let sweep = sweeps.entry(range.partition.id).or_default();
            if let Err(error) = self.sweep(container, range, sweep).await {
                tracing::warn!(partition = %range.partition.id, %error, "a sweep failed");
            }
        }
    }

    async fn sweep(
        &self,
        container: &Arc<Container>,
        range: &PartitionRange,
        sweep: &mut Sweep,
    ) -> Result<(), Error> {
        let now = self.inner.components.clock.now().seconds();
        let lsn = range.partition.lsn();
        if sweep.default_ttl != container.spec.default_ttl {
            let (versions, age) = (std::mem::take(&mut sweep.versions), sweep.age);
            let retries = std::mem::take(&mut sweep.retries);
            let default_ttl = container.spec.default_ttl;
            *sweep = Sweep { default_ttl, versions, age, retries, ..Sweep::default() };
        }
        self.trim_versions(container, range, &mut sweep.versions, now).await?;
        self.trim_retries(range.partition.id, &mut sweep.retries, now).await?;
        if sweep.age.update(lsn, self.inner.components.clock.monotonic()) {
            // The entries that are now old may be due at once.
            sweep.finished.iter_mut().for_each(|finished| finished.due = 0);
        }
        if sweep.finished.as_ref().is_some_and(|f| f.lsn == lsn && now < f.due) {
            return Ok(());
        }
        if sweep.after.is_none() || sweep.finished.take().is_some() {
            sweep.due = u64::MAX;
        }
        let found =
            self.find_due(container, range, sweep.after.clone(), sweep.age.old, now).await?;
        let cleared = self.remove_due(container, range, found.expired, found.tombstones).await;
        sweep.after = found.after;
        // Entries that could not be removed are still due, and the rest of the round comes first.
        sweep.due = if cleared.is_ok() { sweep.due.min(found.due) } else { 0 };
        if found.is_done {
            sweep.finished = Some(FinishedRound { lsn, due: sweep.due });
        }
        cleared
    }

    /// Scans the next part of the log.
    async fn find_due(
        &self,
        container: &Arc<Container>,
        range: &PartitionRange,
        after: Option<Vec<u8>>,
        old: Lsn,
        now: u64,
    ) -> Result<DueEntries, Error> {
        let store = Arc::clone(&self.inner.store);
        let partition = range.partition.id;
        let container = Arc::clone(container);
        self.run_blocking(move || {
            let view = store.view();
            scan_log(view.as_ref(), partition, &container, after, old, now)
        })
        .await
    }

    /// Removes what was found through ordinary commits, many of them in flight at once.
    async fn remove_due(
        &self,
        container: &Arc<Container>,
        range: &PartitionRange,
        mut expired: Vec<(Vec<u8>, RowKey)>,
        tombstones: Vec<Bytes>,
    ) -> Result<(), Error> {
        if !tombstones.is_empty() {
            let (partition, versions) = (range.partition.id, Vec::new());
            let trim = TrimLog { partition, keys: tombstones, versions };
            let command = Command::Trim(trim);
            self.inner.commits.send(command).await.map_err(|_| self.stopped())?;
        }
        expired.sort();
        let mut answers = VecDeque::new();
        for same_key in expired.chunk_by(|a, b| a.0 == b.0) {
            let key = PartitionKey::decode(&same_key[0].0)
                .ok_or_else(|| Error::Internal("stored key values can't be read".into()))?;
            let logical_partition = LogicalPartition::of(container, &key)?;
            for some in same_key.chunks(ITEMS_PER_COMMIT) {
                let ops = some.iter().map(|(_, id)| PreparedOp::Expire { id: id.clone() });
                let (logical_partition, ops) = (logical_partition.clone(), ops.collect());
                let terms = CommitTerms::default();
                let answer = self.submit(container, range, logical_partition, ops, terms).await?;
                answers.push_back(answer);
                if answers.len() >= COMMITS_IN_FLIGHT_MAX
                    && let Some(first) = answers.pop_front()
                {
                    self.settle(first).await?;
                }
            }
        }
        for answer in answers {
            self.settle(answer).await?;
        }
        Ok(())
    }

    /// Waits for a commit, all of which must have been carried out: an operation that failed is
    /// still due.
    async fn settle(&self, answer: PendingCommit) -> Result<(), Error> {
        let committed = answer.await.map_err(|_| self.stopped())??;
        committed.results.into_iter().try_for_each(|result| result.outcome.map(drop))
    }
}

/// Scans some entries of the log for what is due.
///
/// Without a ttl only tombstones can be due. The scan ends at the first entry that is too young,
/// and the next scan continues from there: each entry is read once. Times can go back along the
/// log, so an entry may delay later ones that are older by their times, but only until its position
/// (up to `old`) says that it is old itself. With a ttl any entry can be due, so the scan starts
/// over again and again.
fn scan_log(
    view: &dyn View,
    partition: PartitionId,
    container: &Container,
    after: Option<Vec<u8>>,
    old: Lsn,
    now: u64,
) -> Result<DueEntries, Error> {
    let form = EpkForm::of(&container.spec.partition_key);
    let default_ttl = container.spec.default_ttl;
    let (start, end) = Log::Changes.all();
    let lo = after.as_deref().map_or(Bound::Included(&start[..]), Bound::Excluded);
    let bounds = KeyRange { lo, hi: Bound::Excluded(&end) };
    let mut cursor = view.scan(partition, bounds, Dir::Fwd)?;
    let mut found = DueEntries { due: u64::MAX, after: after.clone(), ..DueEntries::default() };
    for _ in 0..ENTRIES_PER_STEP {
        let Some((key, value)) = cursor.next()? else {
            found.is_done = true;
            if default_ttl.is_some() {
                found.after = None;
            }
            return Ok(found);
        };
        let Some(change) = Change::decode(value) else { continue };
        let is_old = keys::log_entry(key).is_some_and(|(lsn, ..)| lsn <= old);
        let is_young = !is_old && change.ts.saturating_add(TOMBSTONE_SECONDS) > now;
        if default_ttl.is_none() && is_young {
            found.is_done = true;
            found.due = change.ts.saturating_add(TOMBSTONE_SECONDS);
            return Ok(found);
        }
        found.after = Some(key.to_vec());
        let due = match change.kind {
            ChangeKind::Delete if is_old => 0,
            ChangeKind::Delete | ChangeKind::Put => due_at(&change, default_ttl),
        };
        if due > now {
            found.due = found.due.min(due);
            continue;
        }
        match change.kind {
            ChangeKind::Delete => found.tombstones.push(Bytes::copy_from_slice(key)),
            ChangeKind::Put => {
                let row = view.get(partition, &keys::row_of_identity(change.identity))?;
                let row = row.and_then(Row::decode);
                let parts = keys::split_identity(form, change.identity);
                if let (Some(row), Some((_, _, id))) = (row, parts) {
                    found.expired.push((row.partition_key().to_vec(), RowKey::copy_of(id)));
                }
            }
        }
    }
    Ok(found)
}

/// When an entry's item expires or its tombstone may be removed; `u64::MAX` = never.
fn due_at(change: &Change<'_>, default_ttl: Option<i32>) -> u64 {
    match change.kind {
        ChangeKind::Delete => change.ts.saturating_add(TOMBSTONE_SECONDS),
        ChangeKind::Put => expires_at(change.ts, change.ttl, default_ttl).unwrap_or(u64::MAX),
    }
}
