//! Invariants within one partition.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use model::{Epk, Lsn, PartitionId};
use storage::{Dir, KeyRange, View};

use super::Audit;
use crate::changes::Trimmed;
use crate::commit::{CopyProgress, LogicalCounters, PartitionState, RetryRecord};
use crate::index::TextTotals;
use crate::keys::{self, EpkForm, Kind, Log, LogicalKey};
use crate::prepare::{self, LogicalPartition};
use crate::row::{self, Change, ChangeKind, Row, RowHead};
use crate::row_key::text_of;
use crate::version::Version;
use crate::{Container, Error, PartitionRange};

/// Everything a partition holds, by kind.
#[derive(Default)]
struct Contents {
    state: Option<PartitionState>,
    /// By identity.
    rows: BTreeMap<Bytes, Row>,
    /// Keys, with the row key of the item that holds the values.
    unique: BTreeMap<Bytes, Bytes>,
    index: BTreeMap<Bytes, Bytes>,
    /// How many texts there are at each path.
    totals: BTreeMap<Bytes, TextTotals>,
    /// By logical key.
    counters: BTreeMap<Bytes, LogicalCounters>,
    /// By key, with the change.
    log: BTreeMap<Bytes, LogEntry>,
    /// Position and identity.
    versions: Vec<(Lsn, Bytes)>,
    unreadable: Vec<Bytes>,
}

struct LogEntry {
    lsn: Lsn,
    kind: ChangeKind,
    identity: Bytes,
}

struct Check<'a> {
    audit: &'a mut Audit,
    container: &'a Container,
    range: &'a PartitionRange,
    form: EpkForm,
    contents: Contents,
}

/// Checks the partition of `range` and adds the numbers of its items to `numbers`.
pub(super) fn check(
    audit: &mut Audit,
    view: &dyn View,
    container: &Container,
    range: &PartitionRange,
    numbers: &mut Vec<u64>,
) -> Result<(), Error> {
    let contents = read(view, range.partition.id)?;
    audit.partitions += 1;
    audit.items += contents.rows.len() as u64;
    numbers.extend(contents.rows.values().map(|row| row.head.number));
    let form = EpkForm::of(&container.spec.partition_key);
    let mut check = Check { audit, container, range, form, contents };
    for key in std::mem::take(&mut check.contents.unreadable) {
        check.find(format!("the key {key:02x?} or its value can't be read"));
    }
    check.rows_in_range();
    check.counters();
    check.log();
    check.versions();
    check.unique()?;
    check.text_totals();
    check.index()
}

fn read(view: &dyn View, partition: PartitionId) -> Result<Contents, Error> {
    let mut contents = Contents::default();
    let mut cursor = view.scan(partition, KeyRange::ALL, Dir::Fwd)?;
    while let Some((key, value)) = cursor.next()? {
        let value = Bytes::copy_from_slice(value);
        let own = || Bytes::copy_from_slice(key);
        let is_read = match keys::kind(key) {
            Kind::State => {
                contents.state = PartitionState::decode(&value);
                contents.state.is_some()
            }
            Kind::Progress => CopyProgress::decode(&value).is_some(),
            Kind::IndexProgress => true,
            Kind::Trimmed => Trimmed::decode(&value).is_some(),
            Kind::TextTotals => TextTotals::decode(&value)
                .map(|totals| contents.totals.insert(own(), totals))
                .is_some(),
            Kind::Row(identity) => Row::decode(value)
                .map(|row| contents.rows.insert(Bytes::copy_from_slice(identity), row))
                .is_some(),
            Kind::Unique => contents.unique.insert(own(), value).is_none(),
            Kind::Index => contents.index.insert(own(), value).is_none(),
            Kind::Counters(logical) => LogicalCounters::decode(&value)
                .map(|c| contents.counters.insert(Bytes::copy_from_slice(logical), c))
                .is_some(),
            Kind::Retry(_) => RetryRecord::decode(&value).is_some(),
            Kind::Log { lsn, .. } => Change::decode(&value)
                .map(|change| {
                    let identity = Bytes::copy_from_slice(change.identity);
                    contents.log.insert(own(), LogEntry { lsn, kind: change.kind, identity })
                })
                .is_some(),
            Kind::Version { lsn, .. } => Version::decode(&value)
                .map(|version| {
                    contents.versions.push((lsn, Bytes::copy_from_slice(version.identity)));
                })
                .is_some(),
            Kind::Unknown => false,
        };
        if !is_read {
            contents.unreadable.push(own());
        }
    }
    Ok(contents)
}

impl Check<'_> {
    fn find(&mut self, what: String) {
        let id = self.range.partition.id;
        self.audit.find(format!("partition {id} (range {}): {what}", self.range.id));
    }

    /// The name of an item for findings.
    fn name(&self, identity: &[u8]) -> String {
        match keys::split_identity(self.form, identity) {
            Some((epk, _, id)) => format!("item {:?} at {epk}", text_of(id)),
            None => format!("identity {identity:02x?}"),
        }
    }

    /// The logical key at the front of an identity.
    fn logical_of(&self, identity: &[u8]) -> Option<(Epk, LogicalKey)> {
        keys::split_identity(self.form, identity).map(|(epk, logical, _)| (epk, logical))
    }

    /// Rows lie within the range, under the hash of their own key values.
    fn rows_in_range(&mut self) {
        let mut wrong = Vec::new();
        for (identity, row) in &self.contents.rows {
            let Some((epk, logical)) = self.logical_of(identity) else {
                wrong.push(format!("{} can't be split", self.name(identity)));
                continue;
            };
            if !self.range.epk.contains(&epk) {
                wrong.push(format!("{} lies outside the range", self.name(identity)));
            }
            let key = row::decode_partition_key(row.partition_key());
            let logical_partition = LogicalPartition::of(self.container, &key);
            if !logical_partition
                .is_ok_and(|logical_partition| logical_partition.logical_key == logical)
            {
                wrong
                    .push(format!("{} does not lie where its key values say", self.name(identity)));
            }
        }
        wrong.into_iter().for_each(|what| self.find(what));
    }

    /// Counters match the rows.
    fn counters(&mut self) {
        let mut there: BTreeMap<Bytes, LogicalCounters> = BTreeMap::new();
        let (mut items, mut bytes) = (0, 0);
        for (identity, row) in &self.contents.rows {
            let Some((_, logical)) = self.logical_of(identity) else { continue };
            let key_len = keys::row_of_identity(identity).len();
            let len = (key_len + row::encoded_len(row.partition_key(), &row.body)) as u64;
            let counters = there.entry(Bytes::copy_from_slice(logical.as_bytes())).or_default();
            counters.items += 1;
            counters.bytes += len;
            items += 1;
            bytes += len;
        }
        if there != self.contents.counters {
            let counted = &self.contents.counters;
            let keys: BTreeSet<_> = there.keys().chain(counted.keys()).collect();
            let differ = keys.into_iter().filter(|key| there.get(*key) != counted.get(*key));
            let one = |key: &Bytes| {
                let (is, counted) = (there.get(key), counted.get(key));
                format!("the logical partition {key:02x?} is {is:?}, counted as {counted:?}")
            };
            let differ: Vec<_> = differ.map(one).collect();
            differ.into_iter().for_each(|what| self.find(what));
        }
        let Some(state) = self.contents.state else {
            return self.find("there is no state".to_owned());
        };
        if (state.items, state.bytes) != (items, bytes) {
            let counted = (state.items, state.bytes);
            self.find(format!("items and bytes are {:?}, counted as {counted:?}", (items, bytes)));
        }
        let partition = &self.range.partition;
        let published = (partition.lsn(), partition.items(), partition.bytes());
        if published != (state.lsn, state.items, state.bytes) {
            self.find(format!("published as {published:?}, but stored is {state:?}"));
        }
    }

    /// Every item has exactly one live entry, entries without an item are tombstones, and nothing
    /// is newer than the partition's position.
    fn log(&mut self) {
        let mut wrong = Vec::new();
        let reached = self.contents.state.map_or(Lsn(0), |state| state.lsn);
        for (identity, row) in &self.contents.rows {
            let etag = row.head.etag;
            let entry = self.contents.log.get(&Log::Changes.key(etag.lsn, etag.origin, etag.seq));
            let is_own = entry.is_some_and(|e| e.kind == ChangeKind::Put && e.identity == identity);
            if !is_own {
                wrong.push(format!("{} has no entry for {etag} in the log", self.name(identity)));
            }
            if etag.lsn > reached {
                wrong.push(format!("{} is newer than {reached:?}", self.name(identity)));
            }
        }
        for (key, entry) in &self.contents.log {
            let row = self.contents.rows.get(&entry.identity);
            let is_live = row.is_some_and(|row| {
                let etag = row.head.etag;
                Log::Changes.key(etag.lsn, etag.origin, etag.seq) == *key
            });
            let name = self.name(&entry.identity);
            if entry.kind == ChangeKind::Put && !is_live {
                wrong.push(format!("the entry at {:?} for {name} has no row", entry.lsn));
            }
            let logical_partition = self.logical_of(&entry.identity);
            if !logical_partition.is_some_and(|(epk, _)| self.range.epk.contains(&epk)) {
                wrong.push(format!("the entry at {:?} for {name} is not of here", entry.lsn));
            }
            if entry.lsn > reached {
                wrong.push(format!("the entry at {:?} for {name} is not reached", entry.lsn));
            }
        }
        wrong.into_iter().for_each(|what| self.find(what));
    }

    /// Versions lie within the range, and none is newer than the partition's position.
    fn versions(&mut self) {
        let mut wrong = Vec::new();
        let reached = self.contents.state.map_or(Lsn(0), |state| state.lsn);
        for (lsn, identity) in &self.contents.versions {
            let logical_partition = self.logical_of(identity);
            let is_of_here =
                logical_partition.is_some_and(|(epk, _)| self.range.epk.contains(&epk));
            if !is_of_here || *lsn > reached {
                let name = self.name(identity);
                wrong.push(format!(
                    "the version at {lsn:?} of {name} is not of here or not reached"
                ));
            }
        }
        wrong.into_iter().for_each(|what| self.find(what));
    }

    /// The stored unique values are exactly those of the items, each with its item.
    fn unique(&mut self) -> Result<(), Error> {
        let spec = &self.container.spec;
        let mut held = BTreeMap::new();
        let mut wrong = Vec::new();
        for (identity, row) in &self.contents.rows {
            let Some((_, logical, id)) = keys::split_identity(self.form, identity) else {
                continue;
            };
            let body = row.head.body.read(id, &row.body)?;
            for (constraint, values) in (0u16..).zip(prepare::unique_values(spec, &body)) {
                let id = Bytes::copy_from_slice(id);
                if let Some(other) = held.insert(logical.unique(constraint, &values), id) {
                    wrong.push(format!("{} and {other:?} share values", self.name(identity)));
                }
            }
            let indexes = &self.container.indexes;
            for values in indexes.goal.unique_values(&body) {
                let id = Bytes::copy_from_slice(id);
                let key = logical.unique(keys::ORDERED_CONSTRAINT, &values);
                // Those of an index that is being built are not all there yet.
                let is_there = self.contents.unique.get(&key) == Some(&id);
                if indexes.former.is_empty() || is_there {
                    held.insert(key, id);
                }
            }
            for values in indexes.former.iter().flat_map(|index| index.unique_values(&body)) {
                let id = Bytes::copy_from_slice(id);
                let key = logical.unique(keys::ORDERED_CONSTRAINT, &values);
                if self.contents.unique.get(&key) == Some(&id) {
                    held.insert(key, id);
                }
            }
        }
        if wrong.is_empty() && held != self.contents.unique {
            wrong.push(format!("held are {held:?}, noted {:?}", self.contents.unique));
        }
        wrong.into_iter().for_each(|what| self.find(what));
        Ok(())
    }

    /// The counters of texts match the entries.
    fn text_totals(&mut self) {
        let mut there: BTreeMap<Bytes, TextTotals> = BTreeMap::new();
        for (entry, value) in &self.contents.index {
            if let Some(key) = keys::text_totals_of(entry) {
                let totals = there.entry(key).or_default();
                *totals = totals.with(TextTotals::of_entry(value));
            }
        }
        if there != self.contents.totals {
            let counted = &self.contents.totals;
            self.find(format!("texts are {there:?}, counted as {counted:?}"));
        }
    }

    /// Every item has the entries it should have, and there are no others. While the policy is
    /// being changed, entries that only one of the policies requires may be there or not.
    fn index(&mut self) -> Result<(), Error> {
        let indexes = Arc::clone(&self.container.indexes);
        let mut may_be = BTreeSet::new();
        let mut wrong = Vec::new();
        for (identity, row) in &self.contents.rows {
            let Some((_, _, id)) = keys::split_identity(self.form, identity) else { continue };
            let body = row.head.body.read(id, &row.body)?;
            let RowHead { number, ts, .. } = row.head;
            for term in indexes.terms_to_remove(&body, ts).iter() {
                may_be.insert((term.entry(number), term.value(identity)));
            }
            for term in indexes.terms_to_have(&body, ts).iter() {
                let entry = term.entry(number);
                if self.contents.index.get(&entry) != Some(&term.value(identity)) {
                    wrong.push(format!("{} has no entry {entry:02x?}", self.name(identity)));
                }
            }
        }
        for (entry, value) in &self.contents.index {
            if !may_be.contains(&(entry.clone(), value.clone())) {
                let name = self.name(keys::identity_of(entry, Some(value)).unwrap_or_default());
                wrong.push(format!("the entry {entry:02x?} for {name} should not be there"));
            }
        }
        wrong.into_iter().for_each(|what| self.find(what));
        Ok(())
    }
}
