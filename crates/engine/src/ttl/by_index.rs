//! Deletes documents whose date in an ordered index says that they have expired.
//!
//! The entries of those documents lie together at the beginning of the dates of their index, so a
//! round reads nothing else. They are deleted like any document, each if it is still the version
//! whose date was read.

use std::sync::{Arc, Weak};

use hashbrown::HashSet;
use model::{PartitionId, PartitionKey};
use storage::{Dir, KeyRange, View};

use crate::catalog::Container;
use crate::commit::{CommitTerms, PreparedOp};
use crate::components::Clock;
use crate::engine::Inner;
use crate::keys::{self, EpkForm};
use crate::ops::EtagCondition;
use crate::prepare::LogicalPartition;
use crate::routing::PartitionRange;
use crate::row::Row;
use crate::{Engine, Error, RowKey};

/// Documents of a partition that are deleted before the next partition has its turn.
const DOCUMENTS_MAX: usize = 1_000;
/// Index entries that are read for them.
const ENTRIES_MAX: usize = 10_000;
/// Deletes that are under way at once.
const IN_FLIGHT_MAX: usize = 64;

/// An expired document.
struct Expired {
    key_values: Vec<u8>,
    id: RowKey,
    etag: String,
}

/// Starts the task; it ends with the engine.
pub(crate) fn start(engine: &Engine) {
    let weak = Arc::downgrade(&engine.inner);
    let components = engine.inner.components.clone();
    let task = Box::pin(expire_forever(weak, Arc::clone(&components.clock)));
    components.spawner.spawn("expiry", task);
}

async fn expire_forever(engine: Weak<Inner>, clock: Arc<dyn Clock>) {
    loop {
        let Some(inner) = engine.upgrade() else { return };
        let interval = inner.settings.expiry_interval;
        drop(inner);
        clock.sleep(interval).await;
        let Some(inner) = engine.upgrade() else { return };
        let engine = Engine { inner };
        if engine.inner.commits.is_closed() {
            return;
        }
        engine.delete_expired_documents().await;
    }
}

impl Engine {
    /// Deletes documents of all collections until none has expired. A failure of one partition does
    /// not stop the others.
    async fn delete_expired_documents(&self) {
        let catalog = self.catalog();
        let expires = |container: &&Arc<Container>| {
            let mut indexes = container.indexes.goal.ordered.iter();
            indexes.any(|index| index.spec.expire_after_seconds.is_some())
        };
        for container in catalog.containers.values().filter(expires) {
            for range in container.routing().ranges() {
                let done = async {
                    while self.delete_expired_of(container, range).await? == DOCUMENTS_MAX {}
                    Ok::<(), Error>(())
                };
                if let Err(error) = done.await {
                    let partition = range.partition.id;
                    tracing::warn!(%partition, %error, "expired documents are not deleted yet");
                }
            }
        }
    }

    /// Deletes some documents of a partition; returns how many had expired.
    async fn delete_expired_of(
        &self,
        container: &Arc<Container>,
        range: &PartitionRange,
    ) -> Result<usize, Error> {
        let now = self.inner.components.clock.now();
        let now = i64::try_from(now.0).unwrap_or(i64::MAX);
        let (store, partition) = (Arc::clone(&self.inner.store), range.partition.id);
        let of = Arc::clone(container);
        let expired = self
            .run_blocking(move || find_expired(store.view().as_ref(), partition, &of, now))
            .await?;
        let count = expired.len();
        let mut answers = std::collections::VecDeque::new();
        for Expired { key_values, id, etag } in expired {
            let key = PartitionKey::decode(&key_values)
                .ok_or_else(|| Error::Internal("stored key values can't be read".into()))?;
            let logical_partition = LogicalPartition::of(container, &key)?;
            let if_match = Some(EtagCondition::Is(etag));
            let delete = vec![PreparedOp::Delete { id, if_match, old: None }];
            let terms = CommitTerms::default();
            let answer = self.submit(container, range, logical_partition, delete, terms).await?;
            answers.push_back(answer);
            if answers.len() >= IN_FLIGHT_MAX
                && let Some(first) = answers.pop_front()
            {
                first.await.map_err(|_| self.stopped())??;
            }
        }
        for answer in answers {
            answer.await.map_err(|_| self.stopped())??;
        }
        Ok(count)
    }
}

/// Some documents of a partition that have expired, each once.
fn find_expired(
    view: &dyn View,
    partition: PartitionId,
    container: &Container,
    now: i64,
) -> Result<Vec<Expired>, Error> {
    let form = EpkForm::of(&container.spec.partition_key);
    let mut seen: HashSet<Vec<u8>, foldhash::fast::FixedState> = HashSet::default();
    let mut expired = Vec::new();
    for index in &container.indexes.goal.ordered {
        let Some((lo, hi)) = index.expired_bounds(now) else { continue };
        let mut cursor = view.scan(partition, KeyRange::half_open(&lo, &hi), Dir::Fwd)?;
        for _ in 0..ENTRIES_MAX {
            let Some((_, identity)) = cursor.next()? else { break };
            if expired.len() == DOCUMENTS_MAX {
                return Ok(expired);
            }
            if !seen.insert(identity.to_vec()) {
                continue;
            }
            let row = view.get(partition, &keys::row_of_identity(identity))?.and_then(Row::decode);
            let parts = keys::split_identity(form, identity);
            if let (Some(row), Some((_, _, id))) = (row, parts) {
                let (key_values, etag) = (row.partition_key().to_vec(), row.head.etag.unquoted());
                expired.push(Expired { key_values, id: RowKey::copy_of(id), etag });
            }
        }
    }
    Ok(expired)
}
