//! Checks that a restart finds what was stored, apart from what a crash may lose or add.

use std::collections::BTreeSet;

use bytes::Bytes;
use engine::Catalog;
use engine::audit::StoredRow;
use model::PartitionId;
use storage::{Dir, KeyRange, View};

use super::settle::version_of;
use super::{Moment, Record, Violation};

impl Record {
    /// Compares the record with what a new process found. The last `lost` batches were never synced
    /// and are gone.
    pub(crate) fn restarted(
        &mut self,
        view: &dyn View,
        catalog: &Catalog,
        lost: usize,
        now: Moment,
    ) -> Result<(), Violation> {
        self.rows = self.read_rows(view)?;
        let kept = self.batches - (lost as u64).min(self.batches);
        if lost > 0 {
            self.has_lost_batches = true;
            self.forget_after(kept);
        }
        let live = Self::live_map(catalog);
        // The rows were just read back, so old and new partitions can't be compared.
        self.live.clear();
        self.batches += 1;
        let mut found = BTreeSet::new();
        let doubtful = std::mem::take(&mut self.doubtful);
        let failed_at = self.failed_at.take().unwrap_or(now);
        for (p, container) in &live {
            for (identity, row) in self.rows.get(p).cloned().unwrap_or_default() {
                let name = self.name_of(*container, &identity)?;
                let version = version_of(&name, &row)?;
                found.insert(name.clone());
                let is_known = self.etag_now(&name) == Some(version.etag);
                if is_known {
                    continue;
                }
                // A failed batch that reached the disk has all batches before it there too.
                if lost > 0 {
                    let history = self.histories.entry(name).or_default();
                    history.roll_back(now.step, Some(version));
                } else if doubtful.contains(&(*container, identity)) {
                    self.change(&name, Some(version), failed_at, now)?;
                    let batch = self.batches;
                    self.histories.entry(name).or_default().touch(now.step, batch);
                } else {
                    let etag = version.etag;
                    return Err(format!("after a restart {name} has the version {etag}"));
                }
            }
        }
        self.close_containers(catalog, &live, now)?;
        self.check_missing(&found, &doubtful, lost, failed_at, now)?;
        self.close_open_writes();
        Ok(())
    }

    fn close_containers(
        &mut self,
        catalog: &Catalog,
        live: &super::LivePartitions,
        now: Moment,
    ) -> Result<(), Violation> {
        self.follow_catalog(catalog, live.clone(), now)
    }

    /// Checks the items that were stored before and are missing now.
    fn check_missing(
        &mut self,
        found: &BTreeSet<crate::item::ItemName>,
        doubtful: &BTreeSet<(model::ContainerRid, Bytes)>,
        lost: usize,
        failed_at: Moment,
        now: Moment,
    ) -> Result<(), Violation> {
        let is_missing = |name: &crate::item::ItemName| {
            // A container that is lost as well may be created again under the same id.
            let is_alive = self.lives.get(&name.container).is_some_and(|l| l.gone.is_none());
            (is_alive || lost > 0) && self.etag_now(name).is_some() && !found.contains(name)
        };
        let missing: Vec<_> = self.histories.keys().filter(|n| is_missing(n)).cloned().collect();
        for name in missing {
            let identity = self.names.iter().find(|(_, known)| **known == name).map(|(k, _)| k);
            if lost > 0 {
                self.histories.entry(name).or_default().roll_back(now.step, None);
            } else if identity.is_some_and(|identity| doubtful.contains(identity)) {
                self.change(&name, None, failed_at, now)?;
            } else {
                return Err(format!("after a restart {name} is missing"));
            }
        }
        Ok(())
    }

    /// Removes the writes, etags and times of lost batches.
    fn forget_after(&mut self, kept: u64) {
        for write in self.writes.values_mut() {
            if write.applied.is_some_and(|batch| batch > kept) {
                write.applied = None;
            }
        }
        self.etags.retain(|_, batch| *batch <= kept);
        self.times.retain(|_, batch| *batch <= kept);
        self.histories.values_mut().for_each(|history| history.forget_after(kept));
    }

    fn read_rows(
        &self,
        view: &dyn View,
    ) -> Result<
        std::collections::BTreeMap<PartitionId, std::collections::BTreeMap<Bytes, StoredRow>>,
        Violation,
    > {
        let failed = |e: storage::StoreError| e.to_string();
        let mut all = std::collections::BTreeMap::new();
        for p in (1..=self.highest_partition).map(PartitionId) {
            let mut rows = std::collections::BTreeMap::new();
            let mut cursor = view.scan(p, KeyRange::ALL, Dir::Fwd).map_err(failed)?;
            while let Some((key, value)) = cursor.next().map_err(failed)? {
                if let Some(row) = StoredRow::read(key, &Bytes::copy_from_slice(value)) {
                    rows.insert(row.identity.clone(), row);
                }
            }
            all.insert(p, rows);
        }
        Ok(all)
    }
}
