//! The expected state of the server: every acknowledged write, and every write in doubt.
//!
//! There are three kinds of items. *Owned* items have one writer, which sends one operation at a
//! time, so their state is known exactly. *Contended* items are overwritten by all writers; the
//! acknowledged write with the highest LSN is the state. *Counters* are incremented by all writers;
//! their value lies between acknowledged and attempted.

use std::collections::{BTreeMap, BTreeSet};

use crate::crash::check::Violation;
use crate::crash::item::{ItemKey, ObservedItem, Version};

/// Name of a physical partition, as replies carry it.
pub type RangeId = String;

/// Identifies an operation from its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpId(u64);

/// The known state of an owned item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Its version; `None` when it does not exist.
    pub version: Option<Version>,
    /// Its etag, if a reply had it.
    pub etag: Option<String>,
    /// LSN of its last write, if a reply had it.
    pub lsn: Option<u64>,
}

/// One item's part of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The item.
    pub key: ItemKey,
    /// Its version afterwards; `None` for a delete.
    pub after: Option<Version>,
}

/// What an operation does if it succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Changes owned items of one logical partition, all or none. Empty for an operation that must
    /// fail.
    Owned(Vec<Change>),
    /// Overwrites a contended item with this stamp.
    Contended(ItemKey, u64),
    /// Adds one to a counter.
    Increment(ItemKey),
}

/// The contents of a reply to a successful write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// The range that served it.
    pub range: RangeId,
    /// The LSN of the range after the commit, or later.
    pub lsn: u64,
    /// The LSN of the commit itself, if the reply had it.
    pub item_lsn: Option<u64>,
    /// Etags of the changed items in the order of the changes, where known.
    pub etags: Vec<Option<String>>,
}

/// An operation that was sent and not answered.
#[derive(Clone, Debug)]
pub struct Pending {
    /// Its effect.
    pub intent: Intent,
    /// Its logical partition.
    pub partition: String,
    /// The highest known LSN of each range when it began.
    floors: BTreeMap<RangeId, u64>,
}

/// A contended item.
#[derive(Clone, Debug, Default)]
pub struct Contended {
    /// LSN and stamp of the last acknowledged write.
    pub last: Option<(u64, u64)>,
}

/// A counter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter {
    /// Value read at rest plus acknowledged increments since.
    pub acknowledged: u64,
}

/// Commits of one range since the server was last at rest.
#[derive(Clone, Debug, Default)]
pub struct RangeLog {
    /// LSN at rest; `None` for a range that was created since.
    pub rest: Option<u64>,
    /// Highest known LSN.
    pub floor: u64,
    /// Acknowledged commits since then.
    pub acknowledged: u64,
    /// Their LSNs, if replies had them.
    pub commits: BTreeSet<u64>,
}

/// The whole expected state. Violations that are detected under load are collected in it.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    next: u64,
    pub(super) owned: BTreeMap<ItemKey, Known>,
    pub(super) contended: BTreeMap<ItemKey, Contended>,
    pub(super) counters: BTreeMap<ItemKey, Counter>,
    pub(super) pending: BTreeMap<OpId, Pending>,
    pub(super) ranges: BTreeMap<RangeId, RangeLog>,
    pub(super) range_of: BTreeMap<String, RangeId>,
    violations: Vec<Violation>,
    acknowledged: u64,
}

impl Ledger {
    /// Registers an owned item that does not exist yet.
    pub fn own(&mut self, key: ItemKey) {
        self.owned.insert(key, Known::default());
    }

    /// Registers a contended item that does not exist yet.
    pub fn contend(&mut self, key: ItemKey) {
        self.contended.insert(key, Contended::default());
    }

    /// Registers a counter that was created at zero.
    pub fn count(&mut self, key: ItemKey) {
        self.counters.insert(key, Counter::default());
    }

    /// A number that was never used before.
    pub fn stamp(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The known state of an owned item.
    pub fn known(&self, key: &ItemKey) -> Known {
        self.owned.get(key).cloned().unwrap_or_default()
    }

    /// Every registered item, existing or not.
    pub fn keys(&self) -> Vec<ItemKey> {
        let all = self.owned.keys().chain(self.contended.keys()).chain(self.counters.keys());
        all.cloned().collect()
    }

    /// Notes that an operation in `partition` is about to be sent.
    pub fn begin(&mut self, partition: &str, intent: Intent) -> OpId {
        let id = OpId(self.stamp());
        let floors = self.ranges.iter().map(|(range, log)| (range.clone(), log.floor)).collect();
        self.pending.insert(id, Pending { intent, partition: partition.to_owned(), floors });
        id
    }

    /// Notes that the server acknowledged the operation.
    pub fn acknowledge(&mut self, id: OpId, ack: Ack) {
        let Some(pending) = self.pending.remove(&id) else { return };
        self.acknowledged += 1;
        self.note_commit(&pending, &ack);
        match pending.intent {
            Intent::Owned(changes) => {
                for (at, change) in changes.into_iter().enumerate() {
                    let etag = ack.etags.get(at).cloned().flatten();
                    let known = Known { version: change.after, etag, lsn: ack.item_lsn };
                    self.owned.insert(change.key, known);
                }
            }
            Intent::Contended(key, stamp) => {
                let lsn = ack.item_lsn.unwrap_or(ack.lsn);
                let entry = self.contended.entry(key).or_default();
                if entry.last.is_none_or(|(last, _)| last < lsn) {
                    entry.last = Some((lsn, stamp));
                }
            }
            Intent::Increment(key) => {
                self.counters.entry(key).or_default().acknowledged += 1;
            }
        }
    }

    /// Notes that the server has refused the operation, which therefore changed nothing.
    pub fn refuse(&mut self, id: OpId) {
        self.pending.remove(&id);
    }

    /// Notes a violation.
    pub fn note(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    /// Takes the violations noted so far.
    pub fn take_violations(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }

    /// Acknowledged writes so far.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Operations whose outcome is unknown.
    pub fn in_doubt(&self) -> usize {
        self.pending.len()
    }

    /// Pending operations that may have committed in `range`.
    pub(super) fn in_doubt_in(&self, range: &RangeId) -> u64 {
        let may = |pending: &&Pending| {
            pending.intent != Intent::Owned(Vec::new())
                && self.range_of.get(&pending.partition).is_none_or(|known| known == range)
        };
        self.pending.values().filter(may).count() as u64
    }

    /// Takes the state of a checked server at rest as the new expected state: nothing is in doubt
    /// any more.
    pub fn adopt(
        &mut self,
        items: &BTreeMap<ItemKey, ObservedItem>,
        lsns: &BTreeMap<RangeId, u64>,
    ) {
        self.pending.clear();
        for (key, known) in &mut self.owned {
            *known = items.get(key).map_or_else(Known::default, |item| Known {
                version: Some(item.version),
                etag: Some(item.etag.clone()),
                lsn: item.lsn.or(known.lsn),
            });
        }
        for (key, contended) in &mut self.contended {
            contended.last = items.get(key).map(|item| (item.lsn.unwrap_or(0), item.version.stamp));
        }
        for (key, counter) in &mut self.counters {
            counter.acknowledged = items.get(key).map_or(0, |item| item.version.count);
        }
        for (range, &lsn) in lsns {
            let log = RangeLog { rest: Some(lsn), floor: lsn, ..RangeLog::default() };
            self.ranges.insert(range.clone(), log);
        }
    }

    /// Checks the LSN of a commit against those known before it was sent.
    fn note_commit(&mut self, pending: &Pending, ack: &Ack) {
        let floor = pending.floors.get(&ack.range).copied().unwrap_or(0);
        let after = ack.item_lsn.unwrap_or(ack.lsn).min(ack.lsn);
        if after <= floor {
            let range = ack.range.clone();
            self.violations.push(Violation::LsnWentBack { range, before: floor, after });
        }
        self.range_of.insert(pending.partition.clone(), ack.range.clone());
        let log = self.ranges.entry(ack.range.clone()).or_default();
        log.floor = log.floor.max(ack.lsn);
        log.acknowledged += 1;
        let Some(lsn) = ack.item_lsn else { return };
        if !log.commits.insert(lsn) {
            self.violations.push(Violation::LsnTwice { range: ack.range.clone(), lsn });
        }
    }
}
