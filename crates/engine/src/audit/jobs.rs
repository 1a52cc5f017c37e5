//! Invariants while partitions are split or merged: the new ones hold exactly what is copied so
//! far, in its current state.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::PartitionId;
use storage::{Dir, KeyRange, View};

use super::Audit;
use crate::Error;
use crate::catalog::Catalog;
use crate::commit::{LogicalCounters, PartitionState};
use crate::keys;
use crate::repartition::{JobSpec, progress_of};

/// Rows by target and key.
type Rows = BTreeMap<(PartitionId, Bytes), Bytes>;

/// Compares what the targets of a job hold with what its sources say they should hold.
pub(super) fn check(
    audit: &mut Audit,
    view: &dyn View,
    catalog: &Catalog,
    job: &JobSpec,
) -> Result<(), Error> {
    let Some(expected) = expected(view, catalog, job)? else {
        audit.find(format!("job {} has no container or no range", job.id.0));
        return Ok(());
    };
    let mut held = Rows::new();
    for child in &job.children {
        let p = child.partition;
        each_row(view, p, &mut |key, value| {
            held.insert((p, Bytes::copy_from_slice(key)), Bytes::copy_from_slice(value));
        })?;
        check_state(audit, view, p, &held)?;
    }
    for at in expected.keys().chain(held.keys()).filter(|at| expected.get(at) != held.get(at)) {
        let (p, key) = at;
        let (is, should) = (held.get(at).map(Bytes::len), expected.get(at).map(Bytes::len));
        audit.find(format!(
            "job {}: under {key:02x?} partition {p} holds {is:?} bytes, not the {should:?} it should",
            job.id.0
        ));
    }
    Ok(())
}

/// What the targets should hold; `None` if the job does not match the catalog.
fn expected(view: &dyn View, catalog: &Catalog, job: &JobSpec) -> Result<Option<Rows>, Error> {
    let Some(container) = catalog.container_by_rid(job.container) else { return Ok(None) };
    let routing = container.routing();
    let mut rows = Rows::new();
    for id in &job.sources {
        let Some(source) = routing.by_id(*id) else { return Ok(None) };
        let copied = progress_of(view, source.partition.id)?;
        let mirror = job.mirror(container, Some(copied.clone()));
        each_row(view, source.partition.id, &mut |key, value| {
            let identity = keys::identity_of(key, Some(value));
            if let Some(target) = identity.and_then(|identity| mirror.target_of(identity))
                && copied.covers(key)
            {
                rows.insert((target, Bytes::copy_from_slice(key)), Bytes::copy_from_slice(value));
            }
        })?;
    }
    Ok(Some(rows))
}

/// The counters of a target are the sum of those of its logical partitions.
fn check_state(
    audit: &mut Audit,
    view: &dyn View,
    p: PartitionId,
    held: &Rows,
) -> Result<(), Error> {
    let stored = view.get(p, keys::PARTITION_STATE)?;
    let state = stored.as_deref().and_then(PartitionState::decode);
    let own = held.iter().filter(|((at, key), _)| *at == p && keys::is_counters(key));
    let counters = own.filter_map(|(_, value)| LogicalCounters::decode(value));
    let (items, bytes) = counters.fold((0, 0), |(i, b), c| (i + c.items, b + c.bytes));
    let counted = state.map(|state| (state.items, state.bytes));
    if counted != Some((items, bytes)) {
        let is = (items, bytes);
        audit.find(format!("partition {p}, being filled, is {is:?}, counted as {counted:?}"));
    }
    Ok(())
}

/// Passes everything of a partition that belongs to its items to `visit`.
fn each_row(
    view: &dyn View,
    p: PartitionId,
    visit: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<(), Error> {
    let items = KeyRange {
        lo: std::ops::Bound::Included(keys::ITEMS_START),
        hi: std::ops::Bound::Unbounded,
    };
    let mut cursor = view.scan(p, items, Dir::Fwd)?;
    while let Some((key, value)) = cursor.next()? {
        visit(key, value);
    }
    Ok(())
}
