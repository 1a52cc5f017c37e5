//! Follows the store: each batch is checked against the writes that clients requested.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use engine::Catalog;
use engine::audit::StoredRow;
use model::{ContainerRid, PartitionId};
use storage::{Op, WriteBatch};

use super::history::Version;
use super::{Intent, Life, LivePartitions, Moment, Record, Violation};
use crate::disk::Event;
use crate::item::{Content, ItemName, WriteId};

impl Record {
    /// Records what happened to the store in one turn, which began at `before`.
    pub(crate) fn settle(
        &mut self,
        events: Vec<Event>,
        catalog: &Catalog,
        before: Moment,
        now: Moment,
    ) -> Result<(), Violation> {
        if events.is_empty() {
            return Ok(());
        }
        let live = Self::live_map(catalog);
        for event in events {
            match event {
                Event::Written(batch) => self.written(&batch, &live, before, now)?,
                Event::Failed(batch) => self.failed(&batch, before),
                Event::Retired(p) => {
                    if live.contains_key(&p) {
                        return Err(format!("partition {p} was retired while it is live"));
                    }
                    self.rows.remove(&p);
                }
            }
        }
        self.follow_catalog(catalog, live, now)
    }

    /// Applies a batch to the rows and checks its effect on live ones.
    fn written(
        &mut self,
        batch: &WriteBatch,
        live: &LivePartitions,
        before: Moment,
        now: Moment,
    ) -> Result<(), Violation> {
        self.batches += 1;
        let mut touched = BTreeSet::new();
        for op in &batch.ops {
            if let Some((p, identity)) = self.apply(op)? {
                // Before a cut-over the old partitions count, after it the new ones; a batch can
                // change rows of either, but never of both.
                if let Some(container) = live.get(&p).or_else(|| self.live.get(&p)) {
                    touched.insert((*container, p, identity));
                }
            }
        }
        let mut fresh = BTreeSet::new();
        for (container, p, identity) in touched {
            let row = self.rows.get(&p).and_then(|rows| rows.get(&identity)).cloned();
            let name = self.name_of(container, &identity)?;
            let version = row.map(|row| version_of(&name, &row)).transpose()?;
            fresh.extend(self.change(&name, version, before, now)?);
            let batch = self.batches;
            self.histories.entry(name).or_default().touch(now.step, batch);
        }
        self.check_atomicity(&fresh)
    }

    /// Applies one op to the rows; returns the partition and identity of its row, if it has one.
    fn apply(&mut self, op: &Op) -> Result<Option<(PartitionId, Bytes)>, Violation> {
        let (p, key) = match op {
            Op::Put { p, k, .. } | Op::Del { p, k } => (*p, k),
        };
        self.highest_partition = self.highest_partition.max(p.0);
        if p == PartitionId::CATALOG {
            return Ok(None);
        }
        let Some(identity) = StoredRow::identity(key).map(Bytes::copy_from_slice) else {
            return Ok(None);
        };
        let rows = self.rows.entry(p).or_default();
        match op {
            Op::Put { k, v, .. } => {
                let row = StoredRow::read(k, v)
                    .ok_or_else(|| format!("a row of partition {p} can't be read"))?;
                rows.insert(identity.clone(), row);
            }
            Op::Del { .. } => {
                rows.remove(&identity);
            }
        }
        Ok(Some((p, identity)))
    }

    fn failed(&mut self, batch: &WriteBatch, before: Moment) {
        self.failed_at.get_or_insert(before);
        for op in &batch.ops {
            let (p, key) = match op {
                Op::Put { p, k, .. } | Op::Del { p, k } => (*p, k),
            };
            self.highest_partition = self.highest_partition.max(p.0);
            if let (Some(container), Some(identity)) = (self.live.get(&p), StoredRow::identity(key))
            {
                self.doubtful.insert((*container, Bytes::copy_from_slice(identity)));
            }
        }
    }

    pub(super) fn name_of(
        &self,
        container: ContainerRid,
        identity: &Bytes,
    ) -> Result<ItemName, Violation> {
        let name = self.names.get(&(container, identity.clone())).cloned();
        name.ok_or_else(|| format!("{container} holds an item that no client ever wrote"))
    }

    /// Notes a new version of an item, or its absence. Returns the writes that caused it.
    pub(super) fn change(
        &mut self,
        name: &ItemName,
        new: Option<Version>,
        before: Moment,
        now: Moment,
    ) -> Result<Vec<WriteId>, Violation> {
        let old = self.histories.get(name).and_then(|history| history.current().cloned());
        let fresh = match (&old, &new) {
            (None, None) => return Ok(Vec::new()),
            (Some(old), Some(new)) if old.etag == new.etag => return Ok(Vec::new()),
            (Some(old), None) => self.justify_absence(name, old, before, now)?,
            (old, Some(new)) => {
                let fresh = fresh_writes(name, old.as_deref(), new)?;
                self.check_order(name, new)?;
                self.check_time(name, old.as_deref(), new, self.seconds_between(before, now))?;
                for id in &fresh {
                    self.mark_applied(*id, name)?;
                }
                fresh
            }
        };
        if let Some(first) = fresh.first()
            && !self.has_competitors(name, &fresh)
        {
            self.check_before(*first, old.as_deref(), before, now)?;
        }
        self.histories.entry(name.clone()).or_default().push(now.step, new);
        Ok(fresh)
    }

    /// Checks that the LSNs of one item only grow, and that no etag is assigned twice.
    fn check_order(&mut self, name: &ItemName, new: &Version) -> Result<(), Violation> {
        let highest = self.histories.get(name).map(|history| history.highest);
        if let Some(highest) = highest.filter(|highest| new.lsn <= *highest) {
            let at = new.lsn;
            return Err(format!("{name} was at {highest:?} and now has a version at {at:?}"));
        }
        match self.etags.insert(new.etag.unquoted(), self.batches) {
            Some(_) => Err(format!("{name} got the etag {}, which is taken", new.etag)),
            None => Ok(()),
        }
    }

    /// Checks that a version has the time at which it was made, unless the version it replaces has
    /// a later one, and that no two versions of an item have the same time.
    fn check_time(
        &mut self,
        name: &ItemName,
        old: Option<&Version>,
        new: &Version,
        (earliest, latest): (u64, u64),
    ) -> Result<(), Violation> {
        // An item that was created anew replaces no version.
        let replaced = old.filter(|old| old.number == new.number);
        if let Some(old) = replaced.filter(|old| new.ticks <= old.ticks) {
            return Err(format!("{name} went from {} back to {} ticks", old.ticks, new.ticks));
        }
        // Times of one partition can be some milliseconds ahead.
        let latest = 1 + replaced.map_or(latest, |old| latest.max(old.ts));
        if new.ts < earliest || new.ts > latest {
            let ts = new.ts;
            return Err(format!("{name} has the time {ts}, made from {earliest} to {latest}"));
        }
        match self.times.insert((name.clone(), new.ticks), self.batches) {
            Some(_) => Err(format!("{name} has {} ticks once more", new.ticks)),
            None => Ok(()),
        }
    }

    fn mark_applied(&mut self, id: WriteId, name: &ItemName) -> Result<(), Violation> {
        let batch = self.batches;
        let described = self.describe(id);
        match self.writes.get_mut(&id) {
            Some(write) if write.name == *name && write.may_apply() => {
                write.applied = Some(batch);
                Ok(())
            }
            Some(_) | None => Err(format!("{name} was changed by {described}")),
        }
    }

    /// Checks that a client requested the deletion of the item, or that it has expired.
    fn justify_absence(
        &mut self,
        name: &ItemName,
        old: &Version,
        before: Moment,
        now: Moment,
    ) -> Result<Vec<WriteId>, Violation> {
        let ttls = self.ttls_between(name.container, before.step, now.step);
        let (_, latest) = self.seconds_between(before, now);
        if ttls.iter().any(|ttl| old.is_expired(*ttl, latest)) {
            return Ok(Vec::new());
        }
        let deletes = self.writes.iter().filter(|(_, write)| write.may_delete(name));
        let deletes: Vec<(WriteId, Intent)> = deletes.map(|(id, w)| (*id, w.intent)).collect();
        match deletes.as_slice() {
            [] => Err(format!("{name} vanished, and no client deleted it")),
            [(id, Intent::Delete)] => self.mark_applied(*id, name).map(|()| vec![*id]),
            _ => Ok(Vec::new()),
        }
    }

    /// Checks that a write which is the first to touch its item in its batch found what it needs.
    fn check_before(
        &self,
        id: WriteId,
        old: Option<&Version>,
        before: Moment,
        now: Moment,
    ) -> Result<(), Violation> {
        let Some(write) = self.writes.get(&id) else { return Ok(()) };
        let ttls = self.ttls_between(write.name.container, before.step, now.step);
        let live =
            |seconds: u64| old.filter(|old| !ttls.iter().all(|ttl| old.is_expired(*ttl, seconds)));
        let (earliest, latest) = self.seconds_between(before, now);
        let (maybe, surely) = (live(earliest), live(latest));
        let fits = match write.intent {
            Intent::Create => surely.is_none() || maybe.is_none(),
            Intent::Replace | Intent::Patch | Intent::Delete => maybe.is_some(),
            Intent::Upsert | Intent::EraseKey => true,
        };
        let matches = match (&write.if_match, maybe) {
            (Some(wanted), Some(old)) => *wanted == old.etag,
            (Some(_), None) | (None, _) => true,
        };
        if fits && matches {
            return Ok(());
        }
        let was = old.map_or("nothing".to_owned(), |old| format!("version {}", old.etag));
        Err(format!("{} happened where there was {was}", self.describe(id)))
    }

    /// Checks that of an atomic request all writes happened or none.
    fn check_atomicity(&self, fresh: &BTreeSet<WriteId>) -> Result<(), Violation> {
        let requests: BTreeSet<u64> = fresh
            .iter()
            .filter_map(|id| self.writes.get(id))
            .filter(|write| write.is_atomic)
            .map(|write| write.request)
            .collect();
        let siblings = self.writes.iter().filter(|(_, write)| requests.contains(&write.request));
        for (id, write) in siblings {
            let history = self.histories.get(&write.name);
            let is_touched = history.is_some_and(|history| history.is_touched_by(self.batches));
            if write.applied != Some(self.batches) && !is_touched {
                return Err(format!("{} was left out of its batch", self.describe(*id)));
            }
        }
        Ok(())
    }

    /// Notes the existing containers and partitions. A change of partitions must change no item.
    pub(super) fn follow_catalog(
        &mut self,
        catalog: &Catalog,
        live: LivePartitions,
        now: Moment,
    ) -> Result<(), Violation> {
        let mut present = BTreeSet::new();
        for database in catalog.databases() {
            for container in catalog.containers(database.rid) {
                present.insert(container.rid);
                let life = self.lives.entry(container.rid).or_default();
                life.gone = None;
                let ttl = container.spec.default_ttl;
                if life.ttls.last().is_none_or(|(_, last)| *last != ttl) {
                    life.ttls.push((now.step, ttl));
                }
                self.check_cut_over(container.rid, &live)?;
            }
        }
        for (rid, life) in &mut self.lives {
            if !present.contains(rid) && life.gone.is_none() {
                life.gone = Some(now.step);
            }
        }
        self.live = live;
        Ok(())
    }

    /// Checks that old and new partitions of a container hold the same rows.
    fn check_cut_over(
        &mut self,
        container: ContainerRid,
        live: &LivePartitions,
    ) -> Result<(), Violation> {
        let of = |live: &LivePartitions| -> Vec<PartitionId> {
            live.iter().filter(|(_, owner)| **owner == container).map(|(p, _)| *p).collect()
        };
        let (old, new) = (of(&self.live), of(live));
        if old == new || old.is_empty() {
            return Ok(());
        }
        let before = self.rows_of(&old)?;
        let after = self.rows_of(&new)?;
        self.cut_overs += 1;
        if before == after {
            return Ok(());
        }
        let identities: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let differs = |identity: &&&Bytes| before.get(**identity) != after.get(**identity);
        let first = identities.iter().find(differs);
        let shown = first.map(|identity| {
            let name = self.name_of(container, identity).map(|name| name.to_string());
            let etag = |rows: &BTreeMap<Bytes, StoredRow>| {
                rows.get(*identity).map(|row| row.etag.to_string())
            };
            format!("{name:?}: {:?} became {:?}", etag(&before), etag(&after))
        });
        Err(format!("partitions {old:?} and {new:?} differ: {}", shown.unwrap_or_default()))
    }

    /// Rows of several partitions. No row may be in more than one of them.
    fn rows_of(&self, partitions: &[PartitionId]) -> Result<BTreeMap<Bytes, StoredRow>, Violation> {
        let mut all = BTreeMap::new();
        for p in partitions {
            for (identity, row) in self.rows.get(p).into_iter().flatten() {
                if all.insert(identity.clone(), row.clone()).is_some() {
                    return Err(format!("partition {p} holds an item that another holds too"));
                }
            }
        }
        Ok(all)
    }
}

impl Life {
    pub(super) fn was_there_at(&self, step: u64) -> bool {
        self.ttls.first().is_some_and(|(since, _)| *since <= step)
    }

    pub(super) fn is_gone_by(&self, step: u64) -> bool {
        self.gone.is_some_and(|gone| gone <= step)
    }
}

/// The version that a row holds, after a check that the row is one of the item.
pub(super) fn version_of(name: &ItemName, row: &StoredRow) -> Result<Version, Violation> {
    let parsed = Content::parse(&row.body);
    let (key, id, content) = parsed.ok_or_else(|| format!("the body of {name} can't be read"))?;
    if key != name.key || id != name.id {
        return Err(format!("{name} is stored with the body of {key}/{id}"));
    }
    let StoredRow { number, etag, lsn, ts, ticks, ttl, .. } = *row;
    Ok(Version { etag, lsn, number, ts, ticks, ttl, content })
}

/// The writes that turned `old` into `new`.
fn fresh_writes(
    name: &ItemName,
    old: Option<&Version>,
    new: &Version,
) -> Result<Vec<WriteId>, Violation> {
    match old {
        Some(old) if old.content.write == new.content.write => {
            let (before, after) = (&old.content.patches, &new.content.patches);
            match after.strip_prefix(before.as_slice()) {
                Some(fresh) if !fresh.is_empty() => Ok(fresh.to_vec()),
                _ => Err(format!("{name} had the patches {before:?} and now has {after:?}")),
            }
        }
        _ => Ok([new.content.write].into_iter().chain(new.content.patches.clone()).collect()),
    }
}
