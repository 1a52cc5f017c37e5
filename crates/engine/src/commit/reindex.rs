//! One step of bringing a partition's index entries up to date.

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use model::{ContainerRid, PartitionId, Value};
use storage::{Dir, KeyRange, View};
use tokio::sync::oneshot;

use crate::catalog::Container;
use crate::index::{Progress, duplicate_of};
use crate::keys::EpkForm;
use crate::row::Row;
use crate::{Error, keys};

use super::disk_space::{DiskNeed, NotEnoughSpace};
use super::group::Group;
use super::{Committer, GROUP_BYTES_MAX};

/// Rows of one step: other commands wait meanwhile.
const ROWS_MAX: u64 = 200;
/// Bytes of their bodies.
const BYTES_MAX: usize = 512 * 1024;

/// A request to bring the index entries of some rows up to date.
pub(crate) struct ReindexStep {
    pub(crate) container: ContainerRid,
    pub(crate) partition: PartitionId,
    /// The version of the indexes to which they are brought.
    pub(crate) version: u64,
    pub(crate) from: ReindexPosition,
    /// Receives the progress, or nothing if there is nothing left to do.
    pub(crate) reply: oneshot::Sender<Result<Option<ReindexProgress>, Error>>,
}

/// Where among the rows of a partition a step ends and the next begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReindexPosition {
    /// Key of the last finished row; empty at the start.
    pub(crate) after: Bytes,
    /// How many rows are finished.
    pub(crate) rows: u64,
}

/// How far a partition's entries are up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReindexProgress {
    UpTo(ReindexPosition),
    All,
}

impl Committer {
    pub(super) fn reindex(&mut self, step: ReindexStep) {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.reindex_some(&step)));
        let outcome = outcome.unwrap_or_else(|_| {
            tracing::error!(partition = %step.partition, "bringing an index up to date panicked");
            Err(Error::Internal("bringing an index up to date panicked".into()))
        });
        let _ = step.reply.send(outcome);
    }

    fn reindex_some(&mut self, step: &ReindexStep) -> Result<Option<ReindexProgress>, Error> {
        self.room.refresh(self.store.as_ref(), self.clock.as_ref());
        let Some(slot) = self.partitions.get(&step.partition) else { return Ok(None) };
        let container = &slot.container;
        if container.rid != step.container || container.indexes.version != step.version {
            return Ok(None);
        }
        self.room.check(DiskNeed::Room).map_err(NotEnoughSpace::refusal)?;
        let view = self.store.view();
        let mut group = Group::new(view.clone());
        let done = update_entries(view.as_ref(), &mut group, container, step)?;
        let progress = Progress { version: step.version, done };
        group.put(step.partition, keys::INDEX_PROGRESS.into(), progress.encode());
        group.accept();
        self.store_group(group)?;
        Ok(Some(progress.done))
    }
}

fn update_entries(
    view: &dyn View,
    group: &mut Group,
    container: &Container,
    step: &ReindexStep,
) -> Result<ReindexProgress, Error> {
    let (first, end) = keys::ROWS_BOUNDS;
    let lo = match &step.from.after[..] {
        [] => Bound::Included(&first[..]),
        after => Bound::Excluded(after),
    };
    let range = KeyRange { lo, hi: Bound::Excluded(&end) };
    let mut cursor = view.scan(step.partition, range, Dir::Fwd)?;
    let (mut rows, mut bytes) = (0, 0);
    while let Some((key, value)) = cursor.next()? {
        let row = Row::read(Bytes::copy_from_slice(value), b"of a partition to index")?;
        rows += 1;
        bytes += row.body.len();
        update_entries_of(group, container, step.partition, key, &row)?;
        if rows == ROWS_MAX || bytes >= BYTES_MAX || group.bytes() >= GROUP_BYTES_MAX {
            let after = Bytes::copy_from_slice(key);
            return Ok(ReindexProgress::UpTo(ReindexPosition {
                after,
                rows: step.from.rows + rows,
            }));
        }
    }
    Ok(ReindexProgress::All)
}

/// Adds the missing index entries of an item and removes those that should not be there. Entries
/// that both policies require are there already.
fn update_entries_of(
    group: &mut Group,
    container: &Container,
    partition: PartitionId,
    key: &[u8],
    row: &Row,
) -> Result<(), Error> {
    let identity = key.get(1..).unwrap_or_default();
    let item = row.head.body.read(b"to index", &row.body)?;
    container.indexes.goal.check(&item)?;
    update_held(group, container, partition, identity, &item)?;
    let (indexes, number, ts) = (&container.indexes, row.head.number, row.head.ts);
    let (wanted, kept, all) = indexes.terms_of_stored(&item, ts);
    let (mut to_put, mut to_delete) = (Vec::new(), Vec::new());
    wanted.compare(&kept, |term| to_put.push(term), |_| {});
    all.compare(&wanted, |term| to_delete.push(term), |_| {});
    for term in to_delete {
        group.delete_entry(partition, term.entry(number))?;
    }
    let identity = Bytes::copy_from_slice(identity);
    for term in to_put {
        group.put_entry(partition, term.entry(number), term.value(&identity))?;
    }
    Ok(())
}

/// Notes an item in the unique ordered indexes of the policy, and no longer in those of former ones.
fn update_held(
    group: &mut Group,
    container: &Container,
    partition: PartitionId,
    identity: &[u8],
    item: &Value,
) -> Result<(), Error> {
    let indexes = &container.indexes;
    let all = indexes.unique_values(item);
    if all.is_empty() {
        return Ok(());
    }
    let form = EpkForm::of(&container.spec.partition_key);
    let (_, logical, id) = keys::split_identity(form, identity)
        .ok_or_else(|| Error::Internal("the key of a row can't be read".into()))?;
    let wanted = indexes.goal.unique_values(item);
    for held in &all {
        let key = logical.unique(keys::ORDERED_CONSTRAINT, held);
        let holder = group.get(partition, &key)?;
        match (holder, wanted.contains(held)) {
            (None, true) => group.put(partition, key, Bytes::copy_from_slice(id)),
            (Some(holder), true) if holder != id => {
                return Err(duplicate_of(&indexes.goal.ordered, item, held));
            }
            (Some(holder), false) if holder == id => group.delete(partition, key),
            (Some(_), _) | (None, false) => {}
        }
    }
    Ok(())
}
