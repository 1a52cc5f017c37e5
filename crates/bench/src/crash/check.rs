//! Compares the server's state with the ledger.

use std::collections::BTreeMap;
use std::fmt;

use crate::crash::item::{ItemKey, ObservedItem, Version};
use crate::crash::ledger::{Change, Intent, Known, Ledger, RangeId};

/// The state that a server at rest reports.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Items that point reads found.
    pub items: BTreeMap<ItemKey, ObservedItem>,
    /// Items that the feed listed.
    pub feed: Vec<(ItemKey, ObservedItem)>,
    /// The current LSN of each range.
    pub lsns: BTreeMap<RangeId, u64>,
}

/// A violation of the server's guarantees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// An acknowledged version is missing, or the item has another one.
    WrongVersion {
        /// The item.
        key: ItemKey,
        /// What was acknowledged last; `None` means deleted.
        acknowledged: Option<Version>,
        /// The version that the operation in doubt would have produced, if there was one.
        in_doubt: Option<Option<Version>>,
        /// The version that was found.
        found: Option<Version>,
    },
    /// Part of an atomic operation was applied and part was not.
    TornBatch {
        /// Items to which it was applied.
        with: Vec<ItemKey>,
        /// Items to which it was not applied.
        without: Vec<ItemKey>,
    },
    /// The version is the acknowledged one but its etag or LSN differs.
    WrongEtag {
        /// The item.
        key: ItemKey,
        /// Etag and LSN as acknowledged.
        acknowledged: (Option<String>, Option<u64>),
        /// Etag and LSN as found.
        found: (Option<String>, Option<u64>),
    },
    /// A contended item shows neither the last acknowledged write nor one in doubt.
    WrongContender {
        /// The item.
        key: ItemKey,
        /// Stamps that would be correct.
        allowed: Vec<u64>,
        /// The stamp that was found.
        found: Option<u64>,
    },
    /// A counter outside of the range between acknowledged and attempted increments.
    WrongCount {
        /// The counter.
        key: ItemKey,
        /// Least correct value.
        least: u64,
        /// Greatest correct value.
        most: u64,
        /// The value that was found.
        found: Option<u64>,
    },
    /// An item that mixes versions.
    Damaged {
        /// The item.
        key: ItemKey,
    },
    /// An item that no writer wrote.
    Unknown {
        /// The item.
        key: ItemKey,
    },
    /// A range reports a lower LSN than before, or gave a later commit a lower one.
    LsnWentBack {
        /// The range.
        range: RangeId,
        /// The earlier LSN.
        before: u64,
        /// The later LSN.
        after: u64,
    },
    /// Two acknowledged commits with one LSN.
    LsnTwice {
        /// The range.
        range: RangeId,
        /// The LSN.
        lsn: u64,
    },
    /// More LSNs were used than operations were sent, or fewer than were acknowledged.
    LsnGap {
        /// The range.
        range: RangeId,
        /// LSNs used since the server was last at rest.
        used: u64,
        /// Acknowledged commits since then.
        acknowledged: u64,
        /// Operations in doubt.
        in_doubt: u64,
    },
    /// Feed and point reads differ on an item.
    FeedDiffers {
        /// The item.
        key: ItemKey,
        /// What the feed shows.
        feed: Option<Version>,
        /// What a point read shows.
        read: Option<Version>,
    },
    /// The feed lists an item more than once.
    FeedRepeats {
        /// The item.
        key: ItemKey,
    },
    /// A reply that contradicts the state before the request.
    WrongReply {
        /// The request and the reply.
        what: String,
    },
    /// The server ended although the test did not kill it.
    Died,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::WrongReply { what } = self {
            return write!(f, "wrong reply: {what}");
        }
        // Names and fields of the other variants are descriptive enough.
        fmt::Debug::fmt(self, f)
    }
}

/// All violations in `observed`. The ledger's pending operations are those in doubt.
pub fn check(ledger: &Ledger, observed: &Observed) -> Vec<Violation> {
    let mut found = Vec::new();
    check_owned(ledger, observed, &mut found);
    check_contended(ledger, observed, &mut found);
    check_counters(ledger, observed, &mut found);
    check_lsns(ledger, observed, &mut found);
    check_bodies(ledger, observed, &mut found);
    check_feed(observed, &mut found);
    found
}

/// Owned items must have the acknowledged version, or all of an operation in doubt.
fn check_owned(ledger: &Ledger, observed: &Observed, out: &mut Vec<Violation>) {
    let mut in_doubt: BTreeMap<&ItemKey, Option<Version>> = BTreeMap::new();
    for pending in ledger.pending.values() {
        let Intent::Owned(changes) = &pending.intent else { continue };
        check_atomic(ledger, observed, changes, out);
        in_doubt.extend(changes.iter().map(|change| (&change.key, change.after)));
    }
    for (key, known) in &ledger.owned {
        let found = observed.items.get(key);
        let version = found.map(|item| item.version);
        if version == known.version {
            check_etag(key, known, found, out);
        } else if in_doubt.get(key).is_none_or(|after| *after != version) {
            out.push(Violation::WrongVersion {
                key: key.clone(),
                acknowledged: known.version,
                in_doubt: in_doubt.get(key).copied(),
                found: version,
            });
        }
    }
}

fn check_atomic(
    ledger: &Ledger,
    observed: &Observed,
    changes: &[Change],
    out: &mut Vec<Violation>,
) {
    let version_of = |key: &ItemKey| observed.items.get(key).map(|item| item.version);
    let (with, without): (Vec<_>, Vec<_>) =
        changes.iter().partition(|change| version_of(&change.key) == change.after);
    // An item with neither version is reported separately.
    let untouched = |change: &&&Change| {
        version_of(&change.key) == ledger.owned.get(&change.key).and_then(|known| known.version)
    };
    let without: Vec<_> = without.iter().filter(untouched).map(|c| c.key.clone()).collect();
    if !with.is_empty() && !without.is_empty() {
        let with = with.into_iter().map(|change| change.key.clone()).collect();
        out.push(Violation::TornBatch { with, without });
    }
}

fn check_etag(
    key: &ItemKey,
    known: &Known,
    found: Option<&ObservedItem>,
    out: &mut Vec<Violation>,
) {
    let Some(item) = found else { return };
    let etag_differs = known.etag.as_ref().is_some_and(|etag| *etag != item.etag);
    let lsn_differs = known.lsn.zip(item.lsn).is_some_and(|(known, item)| known != item);
    if etag_differs || lsn_differs {
        out.push(Violation::WrongEtag {
            key: key.clone(),
            acknowledged: (known.etag.clone(), known.lsn),
            found: (Some(item.etag.clone()), item.lsn),
        });
    }
}

fn check_contended(ledger: &Ledger, observed: &Observed, out: &mut Vec<Violation>) {
    for (key, contended) in &ledger.contended {
        let in_doubt = ledger.pending.values().filter_map(|pending| match &pending.intent {
            Intent::Contended(wanted, stamp) if wanted == key => Some(*stamp),
            Intent::Contended(..) | Intent::Owned(_) | Intent::Increment(_) => None,
        });
        let last = contended.last.map(|(_, stamp)| stamp);
        let allowed: Vec<u64> = last.into_iter().chain(in_doubt).collect();
        let found = observed.items.get(key).map(|item| item.version.stamp);
        let right = match found {
            Some(stamp) => allowed.contains(&stamp),
            None => last.is_none(),
        };
        if !right {
            out.push(Violation::WrongContender { key: key.clone(), allowed, found });
        }
    }
}

fn check_counters(ledger: &Ledger, observed: &Observed, out: &mut Vec<Violation>) {
    for (key, counter) in &ledger.counters {
        let increments = |intent: &Intent| *intent == Intent::Increment(key.clone());
        let in_doubt = ledger.pending.values().filter(|p| increments(&p.intent)).count() as u64;
        let (least, most) = (counter.acknowledged, counter.acknowledged + in_doubt);
        let found = observed.items.get(key).map(|item| item.version.count);
        if !found.is_some_and(|count| (least..=most).contains(&count)) {
            out.push(Violation::WrongCount { key: key.clone(), least, most, found });
        }
    }
}

fn check_lsns(ledger: &Ledger, observed: &Observed, out: &mut Vec<Violation>) {
    for (range, log) in &ledger.ranges {
        let Some(&after) = observed.lsns.get(range) else { continue };
        if after < log.floor {
            let range = range.clone();
            out.push(Violation::LsnWentBack { range, before: log.floor, after });
            continue;
        }
        // The LSNs of a range made by a split or merge continue from those of its parents.
        let Some(rest) = log.rest else { continue };
        let used = after - rest;
        let acknowledged = log.acknowledged;
        let in_doubt = ledger.in_doubt_in(range);
        if used < acknowledged || used > acknowledged + in_doubt {
            let range = range.clone();
            out.push(Violation::LsnGap { range, used, acknowledged, in_doubt });
        }
    }
}

fn check_bodies(ledger: &Ledger, observed: &Observed, out: &mut Vec<Violation>) {
    for (key, item) in &observed.items {
        if !item.is_intact {
            out.push(Violation::Damaged { key: key.clone() });
        }
    }
    let is_known = |key: &ItemKey| {
        ledger.owned.contains_key(key)
            || ledger.contended.contains_key(key)
            || ledger.counters.contains_key(key)
    };
    for (key, _) in &observed.feed {
        if !is_known(key) {
            out.push(Violation::Unknown { key: key.clone() });
        }
    }
}

fn check_feed(observed: &Observed, out: &mut Vec<Violation>) {
    let mut feed: BTreeMap<&ItemKey, &ObservedItem> = BTreeMap::new();
    for (key, item) in &observed.feed {
        if feed.insert(key, item).is_some() {
            out.push(Violation::FeedRepeats { key: key.clone() });
        }
    }
    let all = feed.keys().copied().chain(observed.items.keys());
    let all: std::collections::BTreeSet<&ItemKey> = all.collect();
    for key in all {
        let (listed, read) = (feed.get(key), observed.items.get(key));
        let same = match (listed, read) {
            (Some(listed), Some(read)) => {
                listed.version == read.version && listed.etag == read.etag && listed.is_intact
            }
            (Some(_), None) | (None, Some(_)) | (None, None) => false,
        };
        if !same {
            out.push(Violation::FeedDiffers {
                key: key.clone(),
                feed: listed.map(|item| item.version),
                read: read.map(|item| item.version),
            });
        }
    }
}

#[cfg(test)]
mod tests;
