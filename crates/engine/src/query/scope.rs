//! The parts of a container that a query scans, and which of them are small.

use std::cell::OnceCell;

use model::{EpkRange, Lsn, PartitionKey, epk};
use storage::View;

use crate::catalog::Container;
use crate::commit::LogicalCounters;
use crate::ops::Scope;
use crate::prepare::{LogicalPartition, LogicalPartitionId};
use crate::routing::{PartitionRange, RoutingMap};
use crate::{Error, KeyMismatch, keys};

/// A range or logical partition with more items than this is not put in the order of their numbers.
pub(super) const NUMBERED_ITEMS_MAX: u64 = 500;
/// The same for bytes.
pub(super) const NUMBERED_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// One range's share of a scan.
pub(super) struct ScanRange {
    pub(super) range: PartitionRange,
    /// Whether the scan covers all of the range.
    pub(super) is_whole: bool,
    /// LSN of the range's partition before the view was taken. The view shows everything up to it.
    pub(super) at: Lsn,
    pub(super) lo: Vec<u8>,
    pub(super) hi: Vec<u8>,
    /// The logical partition that is scanned, if it is only one.
    pub(super) logical_partition: Option<LogicalPartitionId>,
    /// Its counters, once they were read.
    pub(super) counters: OnceCell<Option<LogicalCounters>>,
}

impl ScanRange {
    /// Counters of the logical partition that is scanned; `None` if the scan covers more than one,
    /// or if the logical partition is empty. `view` is the same in every call.
    pub(super) fn counters(&self, view: &dyn View) -> Result<Option<LogicalCounters>, Error> {
        if self.logical_partition.is_none() {
            return Ok(None);
        }
        if let Some(counters) = self.counters.get() {
            return Ok(*counters);
        }
        let stored = view.get(self.range.partition.id, &keys::counters_of_rows(&self.lo))?;
        let counters = stored.and_then(|stored| LogicalCounters::decode(&stored));
        Ok(*self.counters.get_or_init(|| counters))
    }

    /// Whether its items are so few that they are put in the order of their numbers.
    pub(super) fn is_small(&self, view: &dyn View) -> Result<bool, Error> {
        let partition = &self.range.partition;
        if partition.items() <= NUMBERED_ITEMS_MAX && partition.bytes() <= NUMBERED_BYTES_MAX {
            return Ok(true);
        }
        let is_small = |counters: LogicalCounters| {
            counters.items <= NUMBERED_ITEMS_MAX && counters.bytes <= NUMBERED_BYTES_MAX
        };
        Ok(match self.logical_partition {
            Some(_) => self.counters(view)?.is_none_or(is_small),
            None => false,
        })
    }

    /// The rows of a logical partition.
    pub(super) fn of_logical_partition(
        range: &PartitionRange,
        at: Lsn,
        logical_partition: &LogicalPartition,
    ) -> Self {
        let (lo, hi) = logical_partition.logical_key.row_bounds();
        Self {
            range: range.clone(),
            is_whole: false,
            at,
            lo,
            hi,
            logical_partition: Some(logical_partition.id()),
            counters: OnceCell::new(),
        }
    }
}

/// Whether a key names one logical partition, not a part of the hash line.
pub(super) fn is_whole_key(container: &Container, key: &PartitionKey) -> bool {
    let definition = &container.spec.partition_key;
    key.0.len() == definition.paths.len() || definition.is_system
}

/// The range of the hash line that a scope covers; `None` if it covers nothing.
pub(crate) fn scope_range(
    container: &Container,
    routing: &RoutingMap,
    scope: &Scope,
) -> Result<Option<EpkRange>, Error> {
    Ok(match scope {
        Scope::All => Some(EpkRange::full()),
        Scope::Epk(range) => Some(range.clone()),
        Scope::Range { id, epk } => {
            let range = routing.by_id(*id).ok_or(Error::RangeGone)?;
            match epk {
                Some(part) => range.epk.intersect(part),
                None => Some(range.epk.clone()),
            }
        }
        Scope::Key(prefix) => Some(prefix_range(container, prefix)?),
    })
}

fn prefix_range(container: &Container, prefix: &PartitionKey) -> Result<EpkRange, Error> {
    let definition = &container.spec.partition_key;
    if prefix.0.is_empty() || prefix.0.len() > definition.paths.len() {
        return Err(KeyMismatch::Prefix.into());
    }
    Ok(epk::key_range(definition, prefix))
}
