//! Scanning a partition's items in the order of the hash line.

use std::ops::Bound;

use bytes::Bytes;
use model::PartitionId;
use storage::{Dir, KeyRange, View};

use crate::keys::{self, EpkForm};
use crate::row::{Row, RowHead};
use crate::{Error, RowKey, StoredItem};

use super::Reader;

/// Which rows of a partition to scan.
#[derive(Clone, Debug)]
pub(crate) struct ScanRequest {
    pub(crate) partition: PartitionId,
    pub(crate) form: EpkForm,
    pub(crate) lo: Vec<u8>,
    pub(crate) hi: Vec<u8>,
    /// Row key after which the scan continues.
    pub(crate) after: Option<Vec<u8>>,
}

/// Receives each row's key and, unless it has expired, its item; returns whether to continue.
pub(crate) type Visit<'a> = dyn FnMut(&[u8], Option<StoredItem>) -> Result<bool, Error> + 'a;

/// Calls `visit` for every row of the range, until it returns false. Expired rows are included,
/// without an item, so that `visit` can keep to its deadline.
pub(crate) fn scan(
    view: &dyn View,
    request: &ScanRequest,
    reader: Reader,
    visit: &mut Visit<'_>,
) -> Result<(), Error> {
    let lo = match &request.after {
        Some(after) if *after >= request.lo => Bound::Excluded(after.as_slice()),
        _ => Bound::Included(request.lo.as_slice()),
    };
    let range = KeyRange { lo, hi: Bound::Excluded(&request.hi) };
    let mut cursor = view.scan(request.partition, range, Dir::Fwd)?;
    while let Some((key, value)) = cursor.next()? {
        let id = keys::row_key(request.form, key)
            .ok_or_else(|| Error::Internal("a row's key can't be read".into()))?;
        let is_live = RowHead::decode(value).is_none_or(|head| !reader.is_expired(&head));
        let item = match is_live {
            true => Some(
                Row::read(Bytes::copy_from_slice(value), id)?
                    .into_item(reader.container, RowKey::copy_of(id)),
            ),
            false => None,
        };
        if !visit(key, item)? {
            break;
        }
    }
    Ok(())
}
