//! What an overwritten or deleted version has beside its row, computed before the committer needs
//! it.
//!
//! The index entries of a version are found by its text. The committer works for all writers, so it
//! should not have to parse large items. The thread that hands over an operation reads the version
//! that the operation will probably replace and computes its terms; the committer uses them if that
//! version is still the current one under the same indexes, and computes its own otherwise.

use std::sync::Arc;

use bytes::Bytes;
use model::PartitionId;
use storage::View;
use tokio::sync::OwnedSemaphorePermit;

use crate::catalog::Container;
use crate::commit::PreparedOp;
use crate::index::Terms;
use crate::item::Etag;
use crate::keys::LogicalKey;
use crate::prepare;
use crate::row::Row;
use crate::{Engine, Error};

/// Most bytes of old versions that wait for the committer, of all writers together. What has no
/// room is left to the committer.
pub(crate) const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most bytes of old versions of one commit, because their terms are computed on a thread that
/// serves other requests, too.
const COMMIT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Everything that a stored version has beside its row and must be removed with it.
#[derive(Debug)]
pub(crate) struct OldVersion {
    etag: Etag,
    ts: u64,
    body: Bytes,
    index_version: u64,
    former_policies: usize,
    /// Every index entry that it may have.
    pub(crate) terms: Terms,
    /// Its values of the container's unique keys, encoded.
    pub(crate) unique: Vec<Vec<u8>>,
    /// What it may hold in unique ordered indexes.
    pub(crate) held: Vec<Vec<u8>>,
    /// Its share of [`WAITING_BYTES_MAX`].
    _room: Option<OwnedSemaphorePermit>,
}

impl OldVersion {
    /// What the version of `id` with this text has beside its row.
    pub(crate) fn of(
        container: &Container,
        id: &[u8],
        etag: Etag,
        ts: u64,
        body: &Bytes,
    ) -> Result<Self, Error> {
        let indexes = &container.indexes;
        let (mut terms, mut unique, mut held) = (Terms::default(), Vec::new(), Vec::new());
        if has_traces(container) {
            let value = container.spec.body.read(id, body)?;
            if indexes.has_entries() {
                terms = indexes.terms_to_remove(&value, ts);
                held = indexes.unique_values(&value);
            }
            unique = prepare::unique_values(&container.spec, &value);
        }
        Ok(Self {
            etag,
            ts,
            body: body.clone(),
            index_version: indexes.version,
            former_policies: indexes.former.len(),
            terms,
            unique,
            held,
            _room: None,
        })
    }

    /// Whether it is what the version in `row` has under the indexes of `container`. The texts are
    /// compared because a version that a failed write left in a view may have the etag of a later
    /// one. A policy that is applied completely keeps its version and loses the former ones.
    pub(crate) fn is_of(&self, container: &Container, row: &Row) -> bool {
        let indexes = &container.indexes;
        self.etag == row.head.etag
            && self.ts == row.head.ts
            && self.index_version == indexes.version
            && self.former_policies == indexes.former.len()
            && self.body == row.body
    }
}

/// Whether versions of a container's items have anything that is found by their text.
fn has_traces(container: &Container) -> bool {
    container.indexes.has_entries() || !container.spec.unique_keys.is_empty()
}

impl Engine {
    /// Computes what the versions that `ops` will probably replace have beside their rows. What
    /// fails or is too much here is left to the committer.
    pub(crate) fn compute_old_versions(
        &self,
        container: &Container,
        partition: PartitionId,
        logical: &LogicalKey,
        ops: &mut [PreparedOp],
    ) {
        if !has_traces(container) {
            return;
        }
        let bytes_min = self.inner.settings.old_version_bytes_min;
        let mut view: Option<Arc<dyn View>> = None;
        let mut bytes_left = COMMIT_BYTES_MAX;
        for op in ops {
            let Some((id, old)) = op.replaced(bytes_min) else { continue };
            let view = view.get_or_insert_with(|| self.inner.store.view());
            let row = view
                .get(partition, &logical.row(id.as_bytes()))
                .ok()
                .flatten()
                .and_then(Row::decode);
            let Some(Row { head, body, .. }) = row.filter(|row| row.body.len() >= bytes_min) else {
                continue;
            };
            let Some(left) = bytes_left.checked_sub(body.len()) else { return };
            bytes_left = left;
            *old = self.old_version(container, id.as_bytes(), head.etag, head.ts, &body);
        }
    }

    /// What a stored version has beside its row, if there is room for it.
    pub(crate) fn old_version(
        &self,
        container: &Container,
        id: &[u8],
        etag: Etag,
        ts: u64,
        body: &Bytes,
    ) -> Option<Arc<OldVersion>> {
        let bytes = u32::try_from(body.len()).ok()?;
        let room = Arc::clone(&self.inner.old_version_room).try_acquire_many_owned(bytes).ok()?;
        let computed = OldVersion::of(container, id, etag, ts, body).ok()?;
        Some(Arc::new(OldVersion { _room: Some(room), ..computed }))
    }
}
