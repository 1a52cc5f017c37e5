//! Changing the ordered indexes of a collection, and waiting until they are built.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use model::ContainerRid;
use storage::{Dir, KeyRange, View};

use crate::catalog::{Change, Container, ContainerSpec};
use crate::error::IndexViolation;
use crate::index::{CompiledIndex, IndexingPolicy, OrderedIndexSpec};
use crate::{Engine, Error, RequestContext, ResourceKind, keys};

/// Most failures that are kept for those who wait.
const FAILURES_MAX: usize = 256;

/// Why indexes were taken back while they were built, the latest last.
pub(crate) type IndexFailures = VecDeque<(ContainerRid, IndexViolation)>;

/// What is known of an ordered index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedIndexStats {
    /// Its name.
    pub name: String,
    /// Whether it has all of its entries, so that queries use it.
    pub is_complete: bool,
    /// How many entries it has; an estimate if it has many.
    pub entries: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// Which columns have led through arrays of documents that are stored now.
    pub multikey: Vec<bool>,
}

/// Entries of a partition that are counted one by one.
const ENTRIES_COUNTED_MAX: u64 = 20_000;

impl Engine {
    /// What is known of the ordered indexes of a collection.
    pub async fn ordered_index_stats(
        &self,
        container: &Arc<Container>,
    ) -> Result<Vec<OrderedIndexStats>, Error> {
        let (store, container) = (Arc::clone(&self.inner.store), Arc::clone(container));
        self.run_blocking(move || {
            let view = store.view();
            let ordered = container.indexes.goal.ordered.iter();
            ordered.map(|index| stats_of(view.as_ref(), &container, index)).collect()
        })
        .await
    }

    /// Changes the ordered indexes of a collection as `change` does. New ones are built and old ones
    /// removed in the background; queries use none that is not complete.
    pub async fn change_ordered_indexes(
        &self,
        ctx: &RequestContext,
        rid: ContainerRid,
        change: impl FnOnce(&mut Vec<OrderedIndexSpec>) -> Result<(), Error>,
    ) -> Result<Arc<Container>, Error> {
        let mut changing = self.begin_change_for(ctx).await?;
        let changed = change_indexes(&mut changing, rid, change)?;
        if changed.is_new {
            self.finish_change_for(ctx, changing, "change_ordered_indexes", &rid).await?;
            self.rebuild_indexes();
        }
        Ok(changed.container)
    }

    /// Waits until the indexes of a collection are complete. One of `names` that could not be built
    /// was taken back; then the answer is why.
    pub async fn wait_for_ordered_indexes(
        &self,
        rid: ContainerRid,
        names: &[String],
    ) -> Result<(), Error> {
        loop {
            let completed = self.inner.index_completed.notified();
            let catalog = self.catalog();
            let Some(container) = catalog.container_by_rid(rid) else { return Ok(()) };
            let has = |name: &String| {
                container.spec.indexing.ordered.iter().any(|index| index.name == *name)
            };
            if let Some(missing) = names.iter().find(|name| !has(name)) {
                return self.failure_of(rid, missing).map_or(Ok(()), |why| Err(why.into()));
            }
            if container.indexes.former.is_empty() {
                return Ok(());
            }
            drop(catalog);
            completed.await;
        }
    }

    fn failure_of(&self, rid: ContainerRid, name: &str) -> Option<IndexViolation> {
        let failures = self.inner.index_failures.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own = failures.iter().rev();
        own.find(|(of, why)| *of == rid && why.index() == name).map(|(_, why)| why.clone())
    }

    /// Takes back an index that can't have an item which is stored already.
    pub(crate) async fn take_back(
        &self,
        container: &Container,
        why: IndexViolation,
    ) -> Result<(), Error> {
        let name = why.index().to_owned();
        {
            let failures = self.inner.index_failures.lock();
            let mut failures = failures.unwrap_or_else(PoisonError::into_inner);
            if failures.len() == FAILURES_MAX {
                failures.pop_front();
            }
            failures.push_back((container.rid, why));
        }
        let mut changing = self.begin_change().await;
        let changed = change_indexes(&mut changing, container.rid, |ordered| {
            ordered.retain(|index| index.name != name);
            Ok(())
        })?;
        if changed.is_new {
            self.finish_change(changing).await?;
        }
        self.inner.index_completed.notify_waiters();
        Ok(())
    }
}

/// A collection after a change.
struct Changed {
    container: Arc<Container>,
    is_new: bool,
}

fn change_indexes(
    changing: &mut Change,
    rid: ContainerRid,
    change: impl FnOnce(&mut Vec<OrderedIndexSpec>) -> Result<(), Error>,
) -> Result<Changed, Error> {
    let Some(old) = changing.catalog.container_by_rid(rid).cloned() else {
        let id = rid.to_string();
        return Err(Error::NotFound { kind: ResourceKind::Container, id });
    };
    let mut ordered = old.spec.indexing.ordered.clone();
    change(&mut ordered)?;
    if ordered == old.spec.indexing.ordered {
        return Ok(Changed { container: old, is_new: false });
    }
    let indexing = IndexingPolicy { ordered, ..old.spec.indexing.clone() };
    let spec = ContainerSpec { indexing, ..old.spec.clone() };
    let indexes = Arc::new(old.indexes.succeeded_by(&spec));
    let (ts, version) = (changing.ts.max(old.ts), old.version + 1);
    let container = Arc::new(Container { spec, ts, version, indexes, ..old.same() });
    changing.put_container(Arc::clone(&container));
    Ok(Changed { container, is_new: true })
}

fn stats_of(
    view: &dyn View,
    container: &Container,
    index: &CompiledIndex,
) -> Result<OrderedIndexStats, Error> {
    let (mut entries, mut bytes, mut multikey) = (0, 0, 0);
    let lo = index.prefix();
    let hi = keys::successor(&lo);
    for range in container.routing().ranges() {
        let partition = &range.partition;
        multikey |= index.multikey(view, partition.id)?;
        let mut cursor = view.scan(partition.id, KeyRange::half_open(&lo, &hi), Dir::Fwd)?;
        let (mut counted, mut counted_bytes) = (0_u64, 0_u64);
        while counted < ENTRIES_COUNTED_MAX {
            let Some((key, value)) = cursor.next()? else { break };
            counted += 1;
            counted_bytes += (key.len() + value.len()) as u64;
        }
        // A document has about one entry in most indexes.
        let all = match counted < ENTRIES_COUNTED_MAX {
            true => counted,
            false => partition.items().max(counted),
        };
        entries += all;
        bytes += counted_bytes / counted.max(1) * all;
    }
    let columns = 0..index.spec.columns.len();
    Ok(OrderedIndexStats {
        name: index.spec.name.clone(),
        is_complete: container.indexes.has_ordered(index),
        entries,
        bytes,
        multikey: columns.map(|column| multikey >> (column % 64) & 1 == 1).collect(),
    })
}
