//! The versions of one item, in order.

use std::rc::Rc;

use engine::Etag;
use model::Lsn;

use crate::item::Content;

/// One stored version.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) etag: Etag,
    pub(super) lsn: Lsn,
    pub(super) number: u64,
    pub(super) ts: u64,
    pub(super) ticks: u64,
    pub(super) ttl: i32,
    pub(super) content: Content,
}

impl Version {
    /// Whether it is expired at `seconds` under a container's default ttl.
    pub(super) fn is_expired(&self, default_ttl: Option<i32>, seconds: u64) -> bool {
        let Some(default) = default_ttl else { return false };
        let ttl = if self.ttl == 0 { default } else { self.ttl };
        u64::try_from(ttl).is_ok_and(|ttl| self.ts.saturating_add(ttl) <= seconds)
    }
}

struct Entry {
    /// The turn in which it became current.
    step: u64,
    version: Option<Rc<Version>>,
}

/// A batch that wrote the item, with or without a change.
struct Touch {
    step: u64,
    batch: u64,
    /// The LSN of the version it left; `None` if it left none.
    lsn: Option<Lsn>,
}

/// All versions stored under one name.
#[derive(Default)]
pub(super) struct History {
    entries: Vec<Entry>,
    touches: Vec<Touch>,
    /// Every later version must be above this.
    pub(super) highest: Lsn,
}

impl History {
    pub(super) fn current(&self) -> Option<&Rc<Version>> {
        self.entries.last()?.version.as_ref()
    }

    /// The turn in which the current version, or its absence, began.
    pub(super) fn current_since(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.step)
    }

    /// Appends another version, or its absence.
    pub(super) fn push(&mut self, step: u64, version: Option<Version>) {
        if let Some(version) = &version {
            self.highest = version.lsn;
        }
        self.entries.push(Entry { step, version: version.map(Rc::new) });
    }

    pub(super) fn touch(&mut self, step: u64, batch: u64) {
        let lsn = self.current().map(|version| version.lsn);
        self.touches.push(Touch { step, batch, lsn });
    }

    /// The versions that were current at some time between two turns.
    pub(super) fn between(&self, from: u64, to: u64) -> Vec<Option<Rc<Version>>> {
        let first = Entry { step: 0, version: None };
        let mut found = Vec::new();
        let all: Vec<&Entry> = [&first].into_iter().chain(&self.entries).collect();
        for (index, entry) in all.iter().enumerate() {
            let end = all.get(index + 1).map_or(u64::MAX, |next| next.step);
            if entry.step <= to && end > from {
                found.push(entry.version.clone());
            }
        }
        found
    }

    /// Whether a batch wrote the item between two turns.
    pub(super) fn is_touched(&self, from: u64, to: u64) -> bool {
        self.touches.iter().any(|touch| touch.step >= from && touch.step <= to)
    }

    /// Whether this batch wrote the item.
    pub(super) fn is_touched_by(&self, batch: u64) -> bool {
        self.touches.iter().any(|touch| touch.batch == batch)
    }

    /// Whether a batch between two turns left a version newer than `lsn`, or none.
    pub(super) fn is_passed(&self, from: u64, to: u64, lsn: Lsn) -> bool {
        let within = self.touches.iter().filter(|touch| touch.step >= from && touch.step <= to);
        within.into_iter().any(|touch| touch.lsn.is_none_or(|left| left >= lsn))
    }

    /// Forgets the batches after `batch`, since they are lost.
    pub(super) fn forget_after(&mut self, batch: u64) {
        self.touches.retain(|touch| touch.batch <= batch);
        self.highest = self.current().map_or(Lsn(0), |version| version.lsn);
    }

    /// Returns to `version`.
    pub(super) fn roll_back(&mut self, step: u64, version: Option<Version>) {
        self.highest = Lsn(0);
        self.push(step, version);
    }
}
