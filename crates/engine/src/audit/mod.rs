//! Checks what a store holds against the engine's invariants: for tests, simulations and operators
//! who doubt a data directory.

mod jobs;
mod partition;

use bytes::Bytes;
use model::{Epk, Lsn, PartitionId, PartitionKey};
use storage::{Dir, KeyRange, View};

use crate::catalog::record::{self, MetaRecord};
use crate::keys::{self, Kind, catalog as k};
use crate::prepare::LogicalPartition;
use crate::row::Row;
use crate::{Container, Engine, Error, Etag};

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Partitions checked.
    pub partitions: u64,
    /// Items in them, expired ones included.
    pub items: u64,
    /// Violations, in words.
    pub findings: Vec<String>,
}

/// An item's row, as the store holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRow {
    /// The item's identity within its container.
    pub identity: Bytes,
    /// Its number, which it keeps for as long as it exists.
    pub number: u64,
    /// Its version.
    pub etag: Etag,
    /// Position of its last change.
    pub lsn: Lsn,
    /// Seconds since the Unix epoch of its last change.
    pub ts: u64,
    /// 100 ns ticks since the Unix epoch of its last change.
    pub ticks: u64,
    /// Its own time to live; 0 = none.
    pub ttl: i32,
    /// The text as it was written.
    pub body: Bytes,
}

impl StoredRow {
    /// The identity in a row's key; `None` for keys of anything else.
    pub fn identity(key: &[u8]) -> Option<&[u8]> {
        match keys::kind(key) {
            Kind::Row(identity) => Some(identity),
            Kind::State
            | Kind::Progress
            | Kind::IndexProgress
            | Kind::Trimmed
            | Kind::Unique
            | Kind::Index
            | Kind::Counters(_)
            | Kind::Retry(_)
            | Kind::Log { .. }
            | Kind::Version { .. }
            | Kind::TextTotals
            | Kind::Unknown => None,
        }
    }

    /// Reads a key with its value; `None` if it is no row.
    pub fn read(key: &[u8], value: &Bytes) -> Option<Self> {
        let identity = Bytes::copy_from_slice(Self::identity(key)?);
        let row = Row::decode(value.clone())?;
        let (etag, ts, ttl) = (row.head.etag, row.head.ts, row.head.ttl);
        let (number, ticks) = (row.head.number, row.head.all_ticks());
        Some(Self { identity, number, etag, lsn: etag.lsn, ts, ticks, ttl, body: row.body })
    }
}

/// The identity that the item `id` of a full key has in a container.
pub fn identity_of(
    container: &Container,
    key: &PartitionKey,
    id: impl AsRef<[u8]>,
) -> Result<Bytes, Error> {
    let logical_partition = LogicalPartition::of(container, key)?;
    Ok([logical_partition.logical_key.as_bytes(), id.as_ref()].concat().into())
}

impl Engine {
    /// Checks everything. Meaningful only while nothing is being written; holds the keys of one
    /// partition at a time in memory.
    pub fn audit(&self) -> Result<Audit, Error> {
        let view = self.inner.store.view();
        let catalog = self.catalog();
        let mut audit = Audit::default();
        let mut known = Vec::new();
        for container in catalog.containers.values() {
            audit.check_ranges(container);
            let mut numbers = Vec::new();
            for range in container.routing().ranges() {
                known.push(range.partition.id);
                partition::check(&mut audit, view.as_ref(), container, range, &mut numbers)?;
            }
            audit.check_numbers(container, numbers);
        }
        for job in catalog.jobs.values() {
            known.extend(job.children.iter().map(|child| child.partition));
            jobs::check(&mut audit, view.as_ref(), &catalog, job)?;
        }
        audit.check_left_behind(view.as_ref(), known)?;
        Ok(audit)
    }
}

impl Audit {
    fn find(&mut self, what: String) {
        self.findings.push(what);
    }

    /// Ranges cover the whole line without a gap, each with its own partition.
    fn check_ranges(&mut self, container: &Container) {
        let routing = container.routing();
        let mut at = Epk::min();
        for range in routing.ranges() {
            if range.epk.min != at {
                let (id, min) = (range.id, &range.epk.min);
                self.find(format!("{}: range {id} begins at {min}, not at {at}", container.rid));
            }
            at = range.epk.max.clone();
        }
        if at != Epk::max() {
            self.find(format!("{}: the last range ends at {at}", container.rid));
        }
        let mut partitions: Vec<_> = routing.ranges().iter().map(|r| r.partition.id).collect();
        partitions.sort();
        if partitions.windows(2).any(|two| two[0] == two[1]) {
            self.find(format!("{}: two ranges share a partition", container.rid));
        }
    }

    /// No two items of a container have the same resource id.
    fn check_numbers(&mut self, container: &Container, mut numbers: Vec<u64>) {
        numbers.sort_unstable();
        for two in numbers.windows(2).filter(|two| two[0] == two[1]) {
            self.find(format!("{}: two items have the number {}", container.rid, two[0]));
        }
    }

    /// Partitions of no container or job are empty, or noted for removal.
    fn check_left_behind(
        &mut self,
        view: &dyn View,
        mut known: Vec<PartitionId>,
    ) -> Result<(), Error> {
        let Some(meta) = view.get(PartitionId::CATALOG, k::META)? else { return Ok(()) };
        let meta: MetaRecord = record::from_bytes(&meta)?;
        known.sort();
        for id in (1..meta.next_partition).map(PartitionId) {
            let is_noted = || view.get(PartitionId::CATALOG, &k::retiring(id));
            if known.binary_search(&id).is_ok() || is_noted()?.is_some() {
                continue;
            }
            if view.scan(id, KeyRange::ALL, Dir::Fwd)?.next()?.is_some() {
                self.find(format!("partition {id} belongs to nothing and holds something"));
            }
        }
        if let Some(id) = known.iter().find(|id| id.0 >= meta.next_partition) {
            self.find(format!("partition {id} has a number that is not given out yet"));
        }
        Ok(())
    }
}
