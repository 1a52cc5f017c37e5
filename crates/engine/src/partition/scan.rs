//! Walking a partition's items in the order of the hash line.

use std::ops::Bound;

use bytes::Bytes;
use model::PartitionId;
use storage::{Dir, KeyRange, View};

use crate::keys::{self, EpkForm};
use crate::row::Row;
use crate::{Error, StoredItem};

use super::Reader;

/// Which rows of a partition to walk.
#[derive(Clone, Debug)]
pub(crate) struct ScanRequest {
    pub(crate) partition: PartitionId,
    pub(crate) form: EpkForm,
    pub(crate) lo: Vec<u8>,
    pub(crate) hi: Vec<u8>,
    /// Row key to go on after.
    pub(crate) after: Option<Vec<u8>>,
}

/// Whether the walk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanOutcome {
    /// The range is done.
    Finished,
    /// The visitor had enough.
    Stopped,
}

/// Gets each item with its key; returns whether to go on.
pub(crate) type Visit<'a> = dyn FnMut(&[u8], StoredItem) -> Result<bool, Error> + 'a;

/// Shows every live item of the range to `visit` with its key, until it returns false.
pub(crate) fn scan(
    view: &dyn View,
    request: &ScanRequest,
    reader: Reader,
    visit: &mut Visit<'_>,
) -> Result<ScanOutcome, Error> {
    let lo = match &request.after {
        Some(after) if *after >= request.lo => Bound::Excluded(after.as_slice()),
        _ => Bound::Included(request.lo.as_slice()),
    };
    let range = KeyRange { lo, hi: Bound::Excluded(&request.hi) };
    let mut cursor = view.scan(request.partition, range, Dir::Fwd)?;
    while let Some((key, value)) = cursor.next()? {
        let row = Row::decode(Bytes::copy_from_slice(value))
            .ok_or_else(|| Error::Internal("a row can't be read".into()))?;
        let (_, _, id) = keys::split_row_key(request.form, key)
            .ok_or_else(|| Error::Internal("a row's key can't be read".into()))?;
        let Some(item) = reader.live_item(row, id) else { continue };
        if !visit(key, item)? {
            return Ok(ScanOutcome::Stopped);
        }
    }
    Ok(ScanOutcome::Finished)
}
