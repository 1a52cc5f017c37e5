//! What each operation does to a logical partition, against the group's view of it.

use std::sync::Arc;

use bytes::Bytes;
use model::{Charge, Lsn, PartitionId};

use crate::catalog::Container;
use crate::index::{Terms, duplicate_of};
use crate::item::Etag;
use crate::keys::{self, Log};
use crate::old_version::OldVersion;
use crate::ops::{AnswerLimit, EtagCondition, ItemOutcome, OpResult};
use crate::partition::Reader;
use crate::planted::{Bug, is_planted};
use crate::prepare::{self, LogicalPartition, NewItem};
use crate::row::{self, Change, ChangeKind, Row, RowHead};
use crate::update::{Change as UpdateChange, ItemView};
use crate::version::{Version, VersionKind};
use crate::{Error, ResourceKind, RowKey, StoredItem, ru};

use super::group::Group;
use super::stamp::Stamp;
use super::state::{LogicalCounters, PartitionState};
use super::{PreparedOp, PreparedPatch, PreparedUpdate, SettledChange};

/// Item numbers a partition leases at a time.
pub(crate) const NUMBERS_LEASED: u64 = 1024;

/// What applies to the whole commit.
pub(crate) struct CommitContext<'a> {
    pub(crate) container: &'a Container,
    pub(crate) partition: PartitionId,
    pub(crate) logical_partition: &'a LogicalPartition,
    pub(crate) now: Stamp,
    /// Its time on the commit clock.
    pub(crate) commit_time: u64,
    pub(crate) logical_partition_bytes_max: u64,
    /// Most bytes of a partition that is never split.
    pub(crate) partition_bytes_max: u64,
    pub(crate) answer_limit: Option<&'a AnswerLimit>,
}

/// Applies every operation, or reports which one failed and marks the others. On failure the caller
/// undoes what was added to the group.
pub(super) fn apply_all(
    group: &mut Group,
    state: &mut PartitionState,
    context: &CommitContext<'_>,
    ops: Vec<PreparedOp>,
) -> Vec<OpResult> {
    let total = ops.len();
    let mut commit = Commit::new(group, state, context);
    let mut done: Vec<OpResult> = Vec::with_capacity(total);
    let mut answer_bytes = 0;
    for op in ops {
        let at = done.len();
        let (outcome, charge) = commit.apply(op);
        let mut result = OpResult { outcome, charge };
        if let Some(limit) = context.answer_limit {
            answer_bytes += limit.bytes_of(at, &result);
            if answer_bytes > limit.bytes_max {
                result.outcome = Err(Error::AnswerTooLarge);
                done.push(result);
                return too_large(done, total);
            }
        }
        let failed = result.has_failed();
        done.push(result);
        if failed {
            return with_siblings_failed(done, total);
        }
    }
    if let Err(error) = commit.finish() {
        if let Some(last) = done.last_mut() {
            last.outcome = Err(error);
        }
        return with_siblings_failed(done, total);
    }
    done
}

fn with_siblings_failed(mut done: Vec<OpResult>, total: usize) -> Vec<OpResult> {
    let not_done = || OpResult { outcome: Err(Error::FailedDependency), charge: Charge::ZERO };
    let failed_at = done.len() - 1;
    for sibling in &mut done[..failed_at] {
        *sibling = not_done();
    }
    done.resize_with(total, not_done);
    done
}

/// The results of a commit whose last result in `done` no longer fits into the answer: the ones
/// after it don't either.
fn too_large(done: Vec<OpResult>, total: usize) -> Vec<OpResult> {
    let last = done.len();
    let mut results = with_siblings_failed(done, total);
    for result in &mut results[last..] {
        result.outcome = Err(Error::AnswerTooLarge);
    }
    results
}

/// What lies under an id.
enum RowState {
    Live(Row),
    /// It has expired: treated as absent, but removed before its id is used again.
    Expired(Row),
    Absent,
}

impl RowState {
    fn into_expired(self) -> Option<Row> {
        match self {
            RowState::Expired(row) => Some(row),
            RowState::Live(_) | RowState::Absent => None,
        }
    }
}

/// What the log of all versions records of a change, except its identity.
struct NewVersion<'a> {
    kind: VersionKind,
    /// Its time, in seconds.
    ts: u64,
    previous: Option<Lsn>,
    number: u64,
    body: &'a [u8],
}

struct Commit<'a> {
    group: &'a mut Group,
    state: &'a mut PartitionState,
    context: &'a CommitContext<'a>,
    reader: Reader,
    lsn: Lsn,
    now: Stamp,
    /// The latest time of a version that the commit writes, in seconds.
    newest: u64,
    seq: u32,
    /// Loaded when first changed.
    counters: Option<(LogicalCounters, LogicalCounters)>,
}

impl<'a> Commit<'a> {
    fn new(
        group: &'a mut Group,
        state: &'a mut PartitionState,
        context: &'a CommitContext<'a>,
    ) -> Self {
        let mut now = context.now;
        let reader = Reader::new(context.container, now.seconds);
        if is_planted(Bug::TimeOfPartition) {
            now.seconds = now.seconds.max(state.ts);
        }
        let (lsn, newest) = (state.lsn.next(), now.seconds);
        Self { group, state, context, reader, lsn, now, newest, seq: 0, counters: None }
    }

    fn apply(&mut self, op: PreparedOp) -> (Result<ItemOutcome, Error>, Charge) {
        let mut charge = ru::refused_write();
        let outcome = match op {
            PreparedOp::Create(item) => self.create(item, &mut charge),
            PreparedOp::Upsert(item, if_match) => self.upsert(item, if_match, &mut charge),
            PreparedOp::Replace { id, item, if_match } => {
                self.replace(&id, item, if_match, &mut charge)
            }
            PreparedOp::Patch(patch) => self.patch(*patch, &mut charge),
            PreparedOp::Swap { id, item, made_from } => {
                self.swap(&id, item, made_from, &mut charge)
            }
            PreparedOp::Update(update) => self.update(*update, &mut charge),
            PreparedOp::Settle { id, change, made_from } => {
                self.settle(&id, change, made_from, &mut charge)
            }
            PreparedOp::Delete { id, if_match, old } => {
                self.delete(&id, if_match, old, &mut charge)
            }
            PreparedOp::Read { id, if_none_match } => self.read(&id, if_none_match, &mut charge),
            PreparedOp::Erase { id, not_after } => self.erase(&id, not_after, &mut charge),
            PreparedOp::Expire { id } => self.expire(&id),
        };
        (outcome, charge)
    }

    /// Closes the commit: a commit that wrote takes the next position.
    fn finish(self) -> Result<(), Error> {
        if self.seq == 0 {
            return Ok(());
        }
        if let Some((before, now)) = self.counters {
            let limit_bytes = self.context.logical_partition_bytes_max;
            if now.bytes > limit_bytes && now.bytes > before.bytes {
                return Err(Error::PartitionKeyFull { limit_bytes });
            }
            let limit_bytes = self.context.partition_bytes_max;
            let is_full = self.context.container.is_fixed() && self.state.bytes > limit_bytes;
            if is_full && now.bytes > before.bytes {
                return Err(Error::ContainerFull { limit_bytes });
            }
            let key = self.context.logical_partition.logical_key.counters();
            match now.items {
                0 => self.group.delete(self.context.partition, key),
                _ => self.group.put(self.context.partition, key, now.encode()),
            }
        }
        self.state.lsn = self.lsn;
        self.state.ts = self.state.ts.max(self.newest);
        self.state.clock = self.context.commit_time;
        Ok(())
    }

    fn create(&mut self, item: NewItem, charge: &mut Charge) -> Result<ItemOutcome, Error> {
        let found = self.look_up(&item.id)?;
        if let RowState::Live(_) = found {
            return Err(Error::AlreadyExists {
                kind: ResourceKind::Item,
                id: item.id.as_text().into_owned(),
            });
        }
        *charge = ru::create(item.body.len(), item.indexed_values);
        self.insert(item, found.into_expired()).map(ItemOutcome::Created)
    }

    fn upsert(
        &mut self,
        item: NewItem,
        if_match: Option<EtagCondition>,
        charge: &mut Charge,
    ) -> Result<ItemOutcome, Error> {
        let old = match self.look_up(&item.id)? {
            RowState::Live(row) => row,
            gone @ (RowState::Expired(_) | RowState::Absent) => {
                *charge = ru::create(item.body.len(), item.indexed_values);
                return self.insert(item, gone.into_expired()).map(ItemOutcome::Created);
            }
        };
        check_match(if_match.as_ref(), &old)?;
        *charge = ru::replace(old.body.len(), item.body.len(), item.indexed_values);
        let id = item.id.clone();
        self.supersede(&id, old, item).map(ItemOutcome::Replaced)
    }

    fn replace(
        &mut self,
        id: &RowKey,
        item: NewItem,
        if_match: Option<EtagCondition>,
        charge: &mut Charge,
    ) -> Result<ItemOutcome, Error> {
        let old = self.live(id)?.ok_or_else(|| Error::item_not_found(id.as_bytes()))?;
        check_match(if_match.as_ref(), &old)?;
        if item.id != *id && self.live(&item.id)?.is_some() {
            return Err(Error::AlreadyExists {
                kind: ResourceKind::Item,
                id: item.id.as_text().into_owned(),
            });
        }
        *charge = ru::replace(old.body.len(), item.body.len(), item.indexed_values);
        self.supersede(id, old, item).map(ItemOutcome::Replaced)
    }

    fn patch(
        &mut self,
        PreparedPatch { id, patch, if_match, or_create }: PreparedPatch,
        charge: &mut Charge,
    ) -> Result<ItemOutcome, Error> {
        let id = &id;
        let old = match (self.look_up(id)?, or_create) {
            (RowState::Live(row), _) => row,
            (gone @ (RowState::Expired(_) | RowState::Absent), Some(item)) => {
                *charge = ru::create(item.body.len(), item.indexed_values);
                return self.insert(item, gone.into_expired()).map(ItemOutcome::Created);
            }
            (RowState::Expired(_) | RowState::Absent, None) => {
                return Err(Error::item_not_found(id.as_bytes()));
            }
        };
        check_match(if_match.as_ref(), &old)?;
        let stored = old.clone().into_item(self.context.container.rid, id.clone());
        let item = prepare::patched(self.context.container, &stored, &patch)?;
        *charge = ru::replace(old.body.len(), item.body.len(), item.indexed_values);
        self.supersede(id, old, item).map(ItemOutcome::Replaced)
    }

    /// Stores a version that was made off this thread, if the version it was made from is still
    /// there.
    fn swap(
        &mut self,
        id: &RowKey,
        item: NewItem,
        made_from: Etag,
        charge: &mut Charge,
    ) -> Result<ItemOutcome, Error> {
        let old =
            self.live(id)?.filter(|row| row.head.etag == made_from).ok_or(Error::Overtaken)?;
        *charge = ru::replace(old.body.len(), item.body.len(), item.indexed_values);
        self.supersede(id, old, item).map(ItemOutcome::Replaced)
    }

    fn update(
        &mut self,
        PreparedUpdate { id, update, if_match }: PreparedUpdate,
        charge: &mut Charge,
    ) -> Result<ItemOutcome, Error> {
        let old = match self.look_up(&id)? {
            RowState::Live(row) => row,
            gone @ (RowState::Expired(_) | RowState::Absent) => {
                let after = match update.apply(None)? {
                    UpdateChange::Keep | UpdateChange::Delete => None,
                    UpdateChange::Put(body) => {
                        let context = self.context;
                        let key_values = &context.logical_partition.key_values;
                        let item =
                            prepare::put_by_update(context.container, &id, key_values, body)?;
                        *charge = ru::create(item.body.len(), item.indexed_values);
                        Some(self.insert(item, gone.into_expired())?)
                    }
                };
                return Ok(ItemOutcome::Updated { before: None, after });
            }
        };
        check_match(if_match.as_ref(), &old)?;
        let before = old.clone().into_item(self.context.container.rid, id.clone());
        let change = match update.apply(Some(&ItemView::of(&before)))? {
            UpdateChange::Keep => SettledChange::Keep,
            UpdateChange::Delete => SettledChange::Delete,
            UpdateChange::Put(body) => SettledChange::Put(Box::new(prepare::updated(
                self.context.container,
                &before,
                body,
            )?)),
        };
        self.change_to(&id, old, before, change, charge)
    }

    fn settle(
        &mut self,
        id: &RowKey,
        change: SettledChange,
        made_from: Etag,
        charge: &mut Charge,
    ) -> Result<ItemOutcome, Error> {
        let old =
            self.live(id)?.filter(|row| row.head.etag == made_from).ok_or(Error::Overtaken)?;
        let before = old.clone().into_item(self.context.container.rid, id.clone());
        self.change_to(id, old, before, change, charge)
    }

    /// Carries out what an update of the live item `before` came to.
    fn change_to(
        &mut self,
        id: &RowKey,
        old: Row,
        before: StoredItem,
        change: SettledChange,
        charge: &mut Charge,
    ) -> Result<ItemOutcome, Error> {
        let after = match change {
            SettledChange::Keep => {
                *charge = ru::point_read(old.body.len());
                Some(before.clone())
            }
            SettledChange::Put(item) => {
                *charge = ru::replace(old.body.len(), item.body.len(), item.indexed_values);
                Some(self.supersede(id, old, *item)?)
            }
            SettledChange::Delete => {
                *charge = ru::delete(old.body.len());
                self.remove(id, &old, None)?;
                None
            }
        };
        Ok(ItemOutcome::Updated { before: Some(Box::new(before)), after })
    }

    fn delete(
        &mut self,
        id: &RowKey,
        if_match: Option<EtagCondition>,
        computed: Option<Arc<OldVersion>>,
        charge: &mut Charge,
    ) -> Result<ItemOutcome, Error> {
        let old = self.live(id)?.ok_or_else(|| Error::item_not_found(id.as_bytes()))?;
        check_match(if_match.as_ref(), &old)?;
        *charge = ru::delete(old.body.len());
        self.remove(id, &old, computed)?;
        Ok(ItemOutcome::Deleted)
    }

    fn read(
        &mut self,
        id: &RowKey,
        if_none_match: Option<EtagCondition>,
        charge: &mut Charge,
    ) -> Result<ItemOutcome, Error> {
        *charge = ru::point_read(0);
        let row = self.live(id)?.ok_or_else(|| Error::item_not_found(id.as_bytes()))?;
        let etag = row.head.etag;
        if if_none_match.is_some_and(|c| c.is_met_by_version(&etag, row.head.all_ticks())) {
            return Err(Error::NotModified { etag });
        }
        *charge = ru::point_read(row.body.len());
        Ok(ItemOutcome::Read(row.into_item(self.context.container.rid, id.clone())))
    }

    fn erase(
        &mut self,
        id: &RowKey,
        not_after: Lsn,
        charge: &mut Charge,
    ) -> Result<ItemOutcome, Error> {
        *charge = Charge::ZERO;
        if let Some(row) = self.row(id)?
            && row.head.etag.lsn <= not_after
        {
            *charge = ru::delete(row.body.len());
            self.remove(id, &row, None)?;
        }
        Ok(ItemOutcome::Deleted)
    }

    fn expire(&mut self, id: &RowKey) -> Result<ItemOutcome, Error> {
        if let Some(row) = self.row(id)?
            && (self.reader.is_expired(&row.head) || is_planted(Bug::ExpiryNotChecked))
        {
            self.remove(id, &row, None)?;
        }
        Ok(ItemOutcome::Deleted)
    }

    /// The row of `id`, expired or not.
    fn row(&self, id: &RowKey) -> Result<Option<Row>, Error> {
        let key = self.context.logical_partition.logical_key.row(id.as_bytes());
        self.group
            .get(self.context.partition, &key)?
            .map(|value| Row::read(value, id.as_bytes()))
            .transpose()
    }

    fn look_up(&self, id: &RowKey) -> Result<RowState, Error> {
        Ok(match self.row(id)? {
            None => RowState::Absent,
            Some(row) if self.reader.is_expired(&row.head) => RowState::Expired(row),
            Some(row) => RowState::Live(row),
        })
    }

    /// The row of `id` unless it has expired.
    fn live(&self, id: &RowKey) -> Result<Option<Row>, Error> {
        Ok(self.row(id)?.filter(|row| !self.reader.is_expired(&row.head)))
    }

    /// Stores an item whose id no live item has; `expired` is the expired item that may still have
    /// that id.
    fn insert(&mut self, mut item: NewItem, expired: Option<Row>) -> Result<StoredItem, Error> {
        if let Some(expired) = expired {
            let computed = item.replaces.take();
            self.remove(&item.id, &expired, computed)?;
        }
        let number = self.next_number()?;
        self.store(item, number, self.now, self.now.seconds, None, &Terms::default())
    }

    /// Stores `item` in place of the live item `old_id`; the ids may differ.
    fn supersede(
        &mut self,
        old_id: &RowKey,
        old: Row,
        mut item: NewItem,
    ) -> Result<StoredItem, Error> {
        let computed = item.replaces.take();
        let time = match is_planted(Bug::TimeGoesBack) {
            true => self.now,
            false => self.now.after(&old.head),
        };
        let RowHead { number, created, .. } = old.head;
        if item.id == *old_id {
            let gone = self.old_version(old_id, &old, computed)?;
            self.forget(old_id, &old, &gone)?;
            let previous = Some(old.head.etag.lsn);
            return self.store(item, number, time, created, previous, &gone.terms);
        }
        self.remove(old_id, &old, computed)?;
        if let Some(expired) = self.row(&item.id)? {
            self.remove(&item.id, &expired, None)?;
        }
        self.store(item, number, time, created, None, &Terms::default())
    }

    /// Stores a version. `old_terms` are those of the version before, whose entries are still
    /// there.
    fn store(
        &mut self,
        mut item: NewItem,
        number: u64,
        time: Stamp,
        created: u64,
        previous: Option<Lsn>,
        old_terms: &Terms,
    ) -> Result<StoredItem, Error> {
        self.renew(&mut item)?;
        self.claim_unique(&item)?;
        self.claim_held(&item)?;
        let (ts, ticks) = (time.seconds, time.ticks);
        self.newest = self.newest.max(ts);
        let terms = std::mem::take(&mut item.terms).with_time(ts);
        self.reindex(&item.id, number, old_terms, &terms)?;
        let etag = Etag { origin: self.context.partition, lsn: self.lsn, seq: self.seq };
        let body = self.context.container.spec.body;
        let head = RowHead { body, number, etag, ts, ticks, created, ttl: item.ttl };
        let key = self.context.logical_partition.logical_key.row(item.id.as_bytes());
        let value = row::encode(&head, &self.context.logical_partition.key_values, &item.body);
        let kind = previous.map_or(VersionKind::Create, |_| VersionKind::Replace);
        let version = NewVersion { kind, ts, previous, number, body: &item.body };
        self.log(item.ttl, &item.id, version);
        self.count(1, key.len() + value.len())?;
        let stored = StoredItem {
            container: self.context.container.rid,
            number,
            etag,
            ts,
            ticks,
            partition_key: self.context.logical_partition.key_values.clone(),
            id: item.id,
            format: body,
            body: item.body,
        };
        self.group.put(self.context.partition, key, value);
        Ok(stored)
    }

    /// Removes an item for good and leaves a tombstone in the change log.
    fn remove(
        &mut self,
        id: &RowKey,
        old: &Row,
        computed: Option<Arc<OldVersion>>,
    ) -> Result<(), Error> {
        let gone = self.old_version(id, old, computed)?;
        self.forget(id, old, &gone)?;
        let is_expired = self.reader.is_expired(&old.head);
        let kind = if is_expired { VersionKind::Expiry } else { VersionKind::Delete };
        self.reindex(id, old.head.number, &gone.terms, &Terms::default())?;
        let (ts, previous) = (self.now.seconds.max(old.head.ts), Some(old.head.etag.lsn));
        // Readers of all versions get the item that was deleted, but not one that expired.
        let is_kept = !is_expired && self.context.container.spec.versions_minutes > 0;
        let last = match is_kept {
            true => row::encode(&old.head, old.partition_key(), &old.body),
            false => Bytes::new(),
        };
        self.log(0, id, NewVersion { kind, ts, previous, number: old.head.number, body: &last });
        let key = self.context.logical_partition.logical_key.row(id.as_bytes());
        self.group.delete(self.context.partition, key);
        Ok(())
    }

    /// What a stored version has beside its row: what was `computed` from exactly this version under
    /// these indexes, or computed now.
    fn old_version(
        &self,
        id: &RowKey,
        old: &Row,
        computed: Option<Arc<OldVersion>>,
    ) -> Result<Arc<OldVersion>, Error> {
        let container = self.context.container;
        let is_current = |computed: &Arc<OldVersion>| {
            computed.is_of(container, old) || is_planted(Bug::StaleOldVersion)
        };
        if let Some(computed) = computed.filter(is_current) {
            return Ok(computed);
        }
        OldVersion::of(container, id.as_bytes(), old.head.etag, old.head.ts, &old.body)
            .map(Arc::new)
    }

    /// Removes everything that a version left beside its row, except its index entries.
    fn forget(&mut self, id: &RowKey, old: &Row, gone: &OldVersion) -> Result<(), Error> {
        let Etag { origin, lsn, seq } = old.head.etag;
        if !is_planted(Bug::OldEntryKept) {
            self.group.delete(self.context.partition, Log::Changes.key(lsn, origin, seq));
        }
        for key in self.unique_keys(&gone.unique) {
            if !is_planted(Bug::UniqueValueKept) {
                self.group.delete(self.context.partition, key);
            }
        }
        for key in self.held_keys(&gone.held) {
            // While an index is built, another item may hold the key.
            if self.group.get(self.context.partition, &key)?.is_some_and(|h| h == id.as_bytes()) {
                self.group.delete(self.context.partition, key);
            }
        }
        let key_len = self.context.logical_partition.logical_key.row(id.as_bytes()).len();
        let value_len = row::encoded_len(&self.context.logical_partition.key_values, &old.body);
        self.count(-1, key_len + value_len)
    }

    /// Brings what was computed of a new version up to the current policy.
    fn renew(&self, item: &mut NewItem) -> Result<(), Error> {
        let Container { indexes, spec, .. } = self.context.container;
        if item.index_version != indexes.version {
            let value = spec.body.read(item.id.as_bytes(), &item.body)?;
            (item.terms, item.held) = indexes.goal.terms_and_held(&value)?;
            item.index_version = indexes.version;
        }
        Ok(())
    }

    /// Changes the index entries of an item from the `old` terms to the `new` ones.
    fn reindex(&mut self, id: &RowKey, number: u64, old: &Terms, new: &Terms) -> Result<(), Error> {
        let identity = self.identity(id);
        let partition = self.context.partition;
        let (mut gone, mut added) = (Vec::new(), Vec::new());
        old.compare(new, |term| gone.push(term), |term| added.push(term));
        if !is_planted(Bug::OldTermsKept) {
            for term in gone {
                self.group.delete_entry(partition, term.entry(number))?;
            }
        }
        for term in added {
            self.group.put_entry(partition, term.entry(number), term.value(&identity))?;
        }
        Ok(())
    }

    /// The identity of an item within its container.
    fn identity(&self, id: &RowKey) -> Bytes {
        let logical = self.context.logical_partition.logical_key.as_bytes();
        [logical, id.as_bytes()].concat().into()
    }

    fn log(&mut self, ttl: i32, id: &RowKey, new: NewVersion<'_>) {
        let identity = self.identity(id);
        let partition = self.context.partition;
        let (kind, ts) = match new.kind {
            VersionKind::Create | VersionKind::Replace => (ChangeKind::Put, new.ts),
            // The age of a tombstone counts from the real time, whatever the time of the version
            // was.
            VersionKind::Delete | VersionKind::Expiry => (ChangeKind::Delete, self.now.seconds),
        };
        let change = Change { kind, ts, ttl, identity: &identity };
        self.group.put(partition, Log::Changes.key(self.lsn, partition, self.seq), change.encode());
        if self.context.container.spec.versions_minutes > 0 {
            let NewVersion { kind, ts, previous, number, body } = new;
            let partition_key = &self.context.logical_partition.key_values;
            let identity = &identity;
            let version = Version { kind, ts, identity, previous, number, partition_key, body };
            let key = Log::Versions.key(self.lsn, partition, self.seq);
            self.group.put(partition, key, version.encode());
        }
        self.seq += 1;
    }

    /// Keys under which a version holds its unique values.
    fn unique_keys(&self, values: &[Vec<u8>]) -> Vec<Bytes> {
        let logical = &self.context.logical_partition.logical_key;
        (0u16..).zip(values).map(|(constraint, v)| logical.unique(constraint, v)).collect()
    }

    fn claim_unique(&mut self, item: &NewItem) -> Result<(), Error> {
        for key in self.unique_keys(&item.unique) {
            if let Some(holder) = self.group.get(self.context.partition, &key)? {
                self.release_expired_holder(holder)?;
            }
            self.group.put(self.context.partition, key, item.id.clone().into_bytes());
        }
        Ok(())
    }

    /// Keys under which a version is noted in unique ordered indexes.
    fn held_keys(&self, values: &[Vec<u8>]) -> Vec<Bytes> {
        let logical = &self.context.logical_partition.logical_key;
        values.iter().map(|value| logical.unique(keys::ORDERED_CONSTRAINT, value)).collect()
    }

    /// Notes a new version in the unique ordered indexes of the current policy.
    fn claim_held(&mut self, item: &NewItem) -> Result<(), Error> {
        let indexes = &self.context.container.indexes;
        let form = self.context.container.spec.body;
        let keys = self.held_keys(&item.held);
        for (key, held) in keys.into_iter().zip(&item.held) {
            let holder = self.group.get(self.context.partition, &key)?;
            if let Some(holder) = holder.filter(|holder| *holder != item.id.as_bytes()) {
                match self.release_expired_holder(holder) {
                    Err(Error::UniqueKeyViolation) => {
                        let value = form.read(item.id.as_bytes(), &item.body)?;
                        return Err(duplicate_of(&indexes.goal.ordered, &value, held));
                    }
                    released => released?,
                }
            }
            self.group.put(self.context.partition, key, item.id.clone().into_bytes());
        }
        Ok(())
    }

    /// Another item holds a unique value that is needed: a conflict, unless that item has expired.
    fn release_expired_holder(&mut self, holder: Bytes) -> Result<(), Error> {
        let id = RowKey::new(holder);
        match self.row(&id)? {
            Some(row) if self.reader.is_expired(&row.head) => self.remove(&id, &row, None),
            _ => Err(Error::UniqueKeyViolation),
        }
    }

    /// The next item number. They come in blocks from the container, so that no two partitions use
    /// the same number.
    fn next_number(&mut self) -> Result<u64, Error> {
        if self.state.number_next == self.state.number_end {
            let key = keys::catalog::numbers(self.context.container.rid);
            let leased = self
                .group
                .get(PartitionId::CATALOG, &key)?
                .and_then(|v| v.as_ref().try_into().ok().map(u64::from_be_bytes))
                .unwrap_or(1);
            let end = leased + NUMBERS_LEASED;
            self.group.put(PartitionId::CATALOG, key, Bytes::copy_from_slice(&end.to_be_bytes()));
            (self.state.number_next, self.state.number_end) = (leased, end);
        }
        let number = self.state.number_next;
        self.state.number_next += 1;
        Ok(number)
    }

    fn count(&mut self, items: i64, bytes: usize) -> Result<(), Error> {
        let (_, counters) = match &mut self.counters {
            Some(loaded) => loaded,
            none => {
                let key = self.context.logical_partition.logical_key.counters();
                let stored = self.group.get(self.context.partition, &key)?;
                let loaded = stored.and_then(|v| LogicalCounters::decode(&v)).unwrap_or_default();
                none.insert((loaded, loaded))
            }
        };
        let bytes = if items < 0 { -(bytes as i64) } else { bytes as i64 };
        counters.items = counters.items.saturating_add_signed(items);
        counters.bytes = counters.bytes.saturating_add_signed(bytes);
        self.state.items = self.state.items.saturating_add_signed(items);
        self.state.bytes = self.state.bytes.saturating_add_signed(bytes);
        Ok(())
    }
}

fn check_match(condition: Option<&EtagCondition>, row: &Row) -> Result<(), Error> {
    match condition {
        _ if is_planted(Bug::ConditionIgnored) => Ok(()),
        Some(condition) if !condition.is_met_by_version(&row.head.etag, row.head.all_ticks()) => {
            Err(Error::PreconditionFailed)
        }
        _ => Ok(()),
    }
}
