//! Removing log entries, and noting which versions are gone.

use std::sync::Arc;

use bytes::Bytes;
use model::{Lsn, PartitionId};
use storage::{Op, StoreError};

use super::{Committer, CutOver, Group, RetryRecord, TrimLog};
use crate::Error;
use crate::catalog::Container;
use crate::changes::Trimmed;
use crate::keys::{self, EpkForm};

impl Committer {
    pub(super) fn trim(&self, group: &mut Group, trim: TrimLog) {
        let TrimLog { partition, keys, versions } = trim;
        if partition != PartitionId::CATALOG && !self.partitions.contains_key(&partition) {
            return;
        }
        // Entries whose removal can't be noted are kept.
        if let Err(error) = note(group, partition, &versions) {
            tracing::warn!(%partition, %error, "a log is not trimmed");
            return group.reject();
        }
        for key in keys {
            // A session may have gone on since its record was found to be old.
            if !keys::is_retry(&key) || self.is_old_retry(group, partition, &key) {
                group.delete(partition, key);
            }
        }
        group.accept();
    }

    fn is_old_retry(&self, group: &Group, partition: PartitionId, key: &[u8]) -> bool {
        let value = group.get(partition, key).ok().flatten();
        let record = value.and_then(|value| RetryRecord::decode(&value));
        record.is_some_and(|record| record.is_old(self.clock.now().seconds()))
    }

    /// What partitions have to note with a change of the catalog: that they begin to keep versions
    /// and have none from before, or what was trimmed of the partitions they replace.
    pub(super) fn notes_of_trimming(
        &self,
        cut_over: Option<&CutOver>,
        containers: &[Arc<Container>],
    ) -> Result<Vec<Op>, Error> {
        let mut ops = Vec::new();
        let mut put = |p: PartitionId, note: &Trimmed| {
            ops.push(Op::Put { p, k: keys::TRIMMED.into(), v: note.encode() });
        };
        for container in containers.iter().filter(|c| c.spec.versions_minutes > 0) {
            for range in container.routing().ranges() {
                let slot = self.partitions.get(&range.partition.id);
                if let Some(slot) = slot.filter(|slot| slot.container.spec.versions_minutes == 0) {
                    put(range.partition.id, &Trimmed::everywhere(slot.state.lsn));
                }
            }
        }
        let Some(cut_over) = cut_over else { return Ok(ops) };
        let form = EpkForm::of(&cut_over.container.spec.partition_key);
        let before = cut_over.container.routing();
        let mut sources = Vec::new();
        let view = self.store.view();
        for range in before.ranges() {
            if cut_over.sources.iter().any(|source| source.id == range.partition.id) {
                let note = decoded(view.get(range.partition.id, keys::TRIMMED)?)?;
                sources.push((range, note));
            }
        }
        for range in cut_over.routing.ranges() {
            if !cut_over.targets.iter().any(|target| target.id == range.partition.id) {
                continue;
            }
            let parts: Vec<_> = sources
                .iter()
                .filter_map(|(source, note)| {
                    let common = source.epk.intersect(&range.epk)?;
                    let bound = |epk| keys::identity_bound(form, epk);
                    Some((note, bound(&common.min), bound(&common.max)))
                })
                .collect();
            let note =
                Trimmed::joined(parts.iter().map(|(note, lo, hi)| (*note, &lo[..], &hi[..])));
            if note != Trimmed::default() {
                put(range.partition.id, &note);
            }
        }
        Ok(ops)
    }
}

fn note(group: &mut Group, partition: PartitionId, versions: &[(Bytes, Lsn)]) -> Result<(), Error> {
    if versions.is_empty() {
        return Ok(());
    }
    let mut trimmed = decoded(group.get(partition, keys::TRIMMED)?)?;
    for (identity, lsn) in versions {
        trimmed.raise(identity, *lsn);
    }
    group.put(partition, keys::TRIMMED.into(), trimmed.encode());
    Ok(())
}

fn decoded(note: Option<Bytes>) -> Result<Trimmed, Error> {
    let Some(note) = note else { return Ok(Trimmed::default()) };
    Trimmed::decode(&note)
        .ok_or_else(|| StoreError::Corrupt("what was trimmed can't be read".into()).into())
}
