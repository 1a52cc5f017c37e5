//! The record of a run: every write that was requested, and every version that was stored.
//!
//! The truth about items is what reaches the store, batch by batch. Each version must come from a
//! write that a client requested and that was not reported as failed. Each answer must fit what the
//! store held between request and answer. Anything else is a violation, returned as an error.

mod answers;
mod feeds;
mod history;
mod restart;
mod settle;
mod writes;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use engine::Catalog;
use engine::audit::StoredRow;
use model::{ContainerRid, PartitionId};

use crate::item::{ItemName, WriteId};
pub(crate) use answers::Wait;
pub(crate) use feeds::FeedStart;
use history::History;
pub(crate) use writes::Intent;
use writes::Write;

/// Describes what is wrong.
pub(crate) type Violation = String;

/// A point in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Turns taken so far.
    pub(crate) step: u64,
    /// Wall-clock time in seconds.
    pub(crate) seconds: u64,
}

/// A change of the wall clock.
#[derive(Clone, Copy, Debug)]
struct ClockSet {
    step: u64,
    /// Its time before the change, in seconds, and after.
    before: u64,
    after: u64,
}

/// What is known of a container.
#[derive(Clone, Debug, Default)]
struct Life {
    /// Each default ttl it had, with the turn in which it was set.
    ttls: Vec<(u64, Option<i32>)>,
    gone: Option<u64>,
}

/// Which container a live partition belongs to.
type LivePartitions = BTreeMap<PartitionId, ContainerRid>;

/// Everything known of a run.
#[derive(Default)]
pub(crate) struct Record {
    writes: BTreeMap<WriteId, Write>,
    requests: u64,
    /// Identities of items that clients requested.
    names: BTreeMap<(ContainerRid, Bytes), ItemName>,
    histories: BTreeMap<ItemName, History>,
    /// Rows of every partition, live or not.
    rows: BTreeMap<PartitionId, BTreeMap<Bytes, StoredRow>>,
    live: LivePartitions,
    lives: BTreeMap<ContainerRid, Life>,
    /// Each etag that was assigned, with the batch that stored it.
    etags: BTreeMap<String, u64>,
    /// Each time that a version of an item has, with the batch that stored it.
    times: BTreeMap<(ItemName, u64), u64>,
    clock_sets: Vec<ClockSet>,
    /// Batches stored so far.
    batches: u64,
    /// Whether a crash lost batches that were not synced.
    has_lost_batches: bool,
    /// Items in batches that failed: those may be in the store after a restart.
    doubtful: BTreeSet<(ContainerRid, Bytes)>,
    /// When the first of them failed.
    failed_at: Option<Moment>,
    highest_partition: u32,
    cut_overs: u64,
}

impl Record {
    /// Notes the item of an identity.
    pub(crate) fn introduce(&mut self, identity: Bytes, name: &ItemName) {
        self.names.entry((name.container, identity)).or_insert_with(|| name.clone());
    }

    /// Items that a container holds now, expired ones included.
    pub(crate) fn items_now(&self, container: ContainerRid) -> Vec<(ItemName, engine::Etag)> {
        let of_container = self.histories.iter().filter(|(name, _)| name.container == container);
        of_container
            .filter_map(|(name, history)| Some((name.clone(), history.current()?.etag)))
            .collect()
    }

    /// Notes that the wall clock is set, and shows `after` from now on.
    pub(crate) fn note_clock_set(&mut self, Moment { step, seconds }: Moment, after: u64) {
        self.clock_sets.push(ClockSet { step, before: seconds, after });
    }

    /// Whether the wall clock was ever set.
    pub(crate) fn was_clock_set(&self) -> bool {
        !self.clock_sets.is_empty()
    }

    /// The earliest and the latest second that the wall clock showed between two moments.
    fn seconds_between(&self, from: Moment, to: Moment) -> (u64, u64) {
        let (low, high) = (from.seconds.min(to.seconds), from.seconds.max(to.seconds));
        let within = self.clock_sets.iter().filter(|s| s.step >= from.step && s.step <= to.step);
        within.fold((low, high), |(low, high), set| (low.min(set.after), high.max(set.before)))
    }

    /// How many cut-overs to other partitions there were.
    pub(crate) fn cut_overs(&self) -> u64 {
        self.cut_overs
    }

    /// The newest version of an item that is stored.
    pub(crate) fn etag_now(&self, name: &ItemName) -> Option<engine::Etag> {
        self.histories.get(name)?.current().map(|version| version.etag)
    }

    /// Default ttls a container had at some time in the interval.
    fn ttls_between(&self, container: ContainerRid, from: u64, to: u64) -> Vec<Option<i32>> {
        let Some(life) = self.lives.get(&container) else { return vec![None] };
        let ends = life.ttls.iter().skip(1).map(|(step, _)| *step).chain([u64::MAX]);
        let spans = life.ttls.iter().zip(ends);
        spans
            .filter(|((begin, _), end)| *begin <= to && *end > from)
            .map(|((_, t), _)| *t)
            .collect()
    }

    fn live_map(catalog: &Catalog) -> LivePartitions {
        let mut live = LivePartitions::new();
        for database in catalog.databases() {
            for container in catalog.containers(database.rid) {
                for range in container.routing().ranges() {
                    live.insert(range.partition_id(), container.rid);
                }
            }
        }
        live
    }
}
