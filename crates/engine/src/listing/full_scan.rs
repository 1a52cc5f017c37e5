//! Items of several logical partitions while no index has them in order: every row is read, and the
//! least keys are kept.
//!
//! Such a page costs as much as the container is large, so only small containers are served so. For
//! a larger one the page is empty and the next one begins at the same key; its index is being
//! built.

use std::collections::BTreeMap;

use model::{PartitionId, limits};
use storage::View;

use super::{ITEMS_PER_CLOCK, ItemKey, PageBuilder, PageState, ScanBudget};
use crate::cancellation::StopSignal;
use crate::keys::{self, EpkForm};
use crate::partition::{Reader, ScanRequest, ScanStats, fetch_row, scan};
use crate::routing::PartitionRange;
use crate::{Engine, Error, ru};

/// Most rows of a container that is scanned for a page.
pub(super) const ROWS_MAX: u64 = 100_000;

/// A scan of all ranges of a container.
pub(super) struct FullScan<'v> {
    pub(super) ranges: &'v [PartitionRange],
    /// What was read of each range.
    pub(super) stats: &'v [ScanStats],
    pub(super) view: &'v dyn View,
    pub(super) form: EpkForm,
    pub(super) reader: Reader,
}

impl FullScan<'_> {
    /// Whether scanning all of it costs more than a page may, by the counters.
    fn is_too_large(&self) -> bool {
        let rows = self.ranges.iter().map(|range| range.partition.items()).sum::<u64>();
        let is_costly = |range: &PartitionRange| {
            let all = ru::query(1, range.partition.items(), range.partition.bytes());
            range.partition.meter.page_charge_max().is_some_and(|max| all > max)
        };
        rows > ROWS_MAX || self.ranges.iter().any(is_costly)
    }
}

/// The least keys so far, and where their items are stored.
struct SmallestKeys {
    /// Where each item is stored: its partition, and its identity.
    identities: BTreeMap<ItemKey, (PartitionId, Vec<u8>)>,
    keys_max: usize,
}

impl SmallestKeys {
    fn has_room_for(&self, key: &ItemKey) -> bool {
        self.identities.len() < self.keys_max
            || self.identities.last_key_value().is_some_and(|(last, _)| key < last)
    }

    fn keep(&mut self, key: ItemKey, partition: PartitionId, identity: &[u8]) {
        self.identities.insert(key, (partition, identity.to_vec()));
        if self.identities.len() > self.keys_max {
            self.identities.pop_last();
        }
    }
}

impl Engine {
    /// Fills a page without an index, or reports that there is too much to scan.
    pub(super) fn fill_by_scan(
        &self,
        full_scan: &FullScan<'_>,
        page: &mut PageBuilder<'_>,
        budget: ScanBudget<'_>,
        is_costly: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        page.is_scanned = true;
        if full_scan.is_too_large() {
            page.defer();
            return Ok(());
        }
        // One key more than the page holds shows whether there is another page.
        let keys_max = page.listing.items_max.saturating_add(1);
        let mut smallest = SmallestKeys { identities: BTreeMap::new(), keys_max };
        let mut passed = 0_u64;
        for (range, stats) in full_scan.ranges.iter().zip(full_scan.stats) {
            let (lo, hi) = keys::row_bounds(full_scan.form, &range.epk);
            let partition = range.partition.id;
            let rows = ScanRequest { partition, form: full_scan.form, lo, hi, after: None };
            let mut is_over = false;
            scan(full_scan.view, &rows, full_scan.reader, &mut |row, item| {
                passed += 1;
                is_over = self.must_end(budget, passed)
                    || (passed.is_multiple_of(ITEMS_PER_CLOCK) && is_costly());
                if is_over {
                    return Ok(false);
                }
                let Some(item) = item else { return Ok(true) };
                stats.note_row(item.body().len());
                let Some(key) = ItemKey::of(&item) else { return Ok(true) };
                let is_wanted = page.listing.covers(&key)
                    && smallest.has_room_for(&key)
                    && page.is_wanted(&item)?;
                if is_wanted {
                    smallest.keep(key, partition, row.get(1..).unwrap_or_default());
                }
                Ok(true)
            })?;
            if is_over {
                page.defer();
                return Ok(());
            }
        }
        // The rows were paid for when they were scanned.
        let stats = ScanStats::default();
        for (key, (partition, identity)) in smallest.identities {
            let row =
                fetch_row(full_scan.view, partition, full_scan.form, full_scan.reader, &identity)?;
            let Some(row) = row else { continue };
            if let PageState::Full = page.take(&key, row.item, &stats)? {
                break;
            }
        }
        Ok(())
    }

    /// Waits until an index has a container's items in the order of their keys, but no longer than
    /// a page may take. Returns whether one has.
    pub(super) async fn wait_for_key_order(
        &self,
        container: &crate::Container,
        stop: &StopSignal,
    ) -> bool {
        let clock = &self.inner.components.clock;
        let until = stop.earlier(clock.monotonic() + limits::PAGE_TIME_MAX);
        loop {
            let completed = self.inner.index_completed.notified();
            if super::has_key_order(container, &self.indexes_of(container)) {
                return true;
            }
            let now = clock.monotonic();
            if now >= until {
                return false;
            }
            tokio::select! {
                biased;
                () = completed => {}
                () = clock.sleep(until - now) => {}
            }
        }
    }
}

impl PageBuilder<'_> {
    /// Leaves the page empty; the client requests it again.
    fn defer(&mut self) {
        self.next = Some(self.listing.from.clone());
        self.is_deferred = true;
    }
}
