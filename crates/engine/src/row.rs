//! The stored form of an item and of a change-log entry.
//!
//! Row: format u8 (2 = JSON text, 3 = BSON), item number u64, lsn u64, origin u32, seq u32, time of the
//! last change u64 (seconds in the upper 40 bits, 100 ns ticks after them in the lower 24), time
//! of creation u64 (seconds), own ttl i32 (0 = none), length of the partition-key values u16,
//! those values, then the body as the client wrote it. All numbers are big-endian.

use bytes::{BufMut, Bytes};
use model::{ContainerRid, Lsn, PartitionId, PartitionKey};

use crate::item::{Etag, StoredItem, TICKS_PER_SECOND};
use crate::row_key::text_of;
use crate::{BodyFormat, Error, RowKey};

const FORMAT_JSON: u8 = 2;
const FORMAT_BSON: u8 = 3;
/// Lower bits of the time of a change that hold its ticks.
const TICK_BITS: u32 = 24;
/// Most ticks that a row can have.
const TICKS_MAX: u32 = (1 << TICK_BITS) - 1;
const HEAD_BYTES: usize = 1 + 8 + 8 + 4 + 4 + 8 + 8 + 4 + 2;

/// The head of a row: everything but key values and body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowHead {
    /// The form of the body.
    pub(crate) body: BodyFormat,
    pub(crate) number: u64,
    pub(crate) etag: Etag,
    /// Seconds since the Unix epoch of the last change.
    pub(crate) ts: u64,
    /// 100 ns ticks after them.
    pub(crate) ticks: u32,
    pub(crate) created: u64,
    /// The item's own time to live; 0 = none, -1 = never, n = seconds.
    pub(crate) ttl: i32,
}

impl RowHead {
    /// Reads the head of a row's value; `None` if it is not one.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let head = value.get(..HEAD_BYTES)?;
        let body = match head[0] {
            FORMAT_JSON => BodyFormat::Json,
            FORMAT_BSON => BodyFormat::Bson,
            _ => return None,
        };
        let time = u64_at(head, 25);
        let ticks = u32::try_from(time & u64::from(TICKS_MAX)).unwrap_or(TICKS_MAX);
        Some(RowHead {
            body,
            number: u64_at(head, 1),
            etag: Etag {
                lsn: Lsn(u64_at(head, 9)),
                origin: PartitionId(u32_at(head, 17)),
                seq: u32_at(head, 21),
            },
            ts: time >> TICK_BITS,
            ticks,
            created: u64_at(head, 33),
            ttl: u32_at(head, 41).cast_signed(),
        })
    }

    /// 100 ns ticks since the Unix epoch of the last change.
    pub(crate) fn all_ticks(&self) -> u64 {
        self.ts.saturating_mul(TICKS_PER_SECOND).saturating_add(u64::from(self.ticks))
    }
}

/// A decoded row; body and key are not copied.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) head: RowHead,
    partition_key: Bytes,
    pub(crate) body: Bytes,
}

/// Builds a row's value.
pub(crate) fn encode(head: &RowHead, partition_key: &[u8], body: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(encoded_len(partition_key, body));
    out.put_u8(match head.body {
        BodyFormat::Json => FORMAT_JSON,
        BodyFormat::Bson => FORMAT_BSON,
    });
    out.put_u64(head.number);
    out.put_u64(head.etag.lsn.0);
    out.put_u32(head.etag.origin.0);
    out.put_u32(head.etag.seq);
    out.put_u64(head.ts << TICK_BITS | u64::from(head.ticks.min(TICKS_MAX)));
    out.put_u64(head.created);
    out.put_i32(head.ttl);
    let key_len = u16::try_from(partition_key.len()).expect("key values are limited to 3 x 2 KB");
    out.put_u16(key_len);
    out.put_slice(partition_key);
    out.put_slice(body);
    out.into()
}

/// The length of the value that [`encode`] builds.
pub(crate) fn encoded_len(partition_key: &[u8], body: &[u8]) -> usize {
    HEAD_BYTES + partition_key.len() + body.len()
}

impl Row {
    /// Reads a row's value; `None` if it is not one.
    pub(crate) fn decode(value: Bytes) -> Option<Self> {
        let head = RowHead::decode(&value)?;
        let key_len = u16::from_be_bytes([value[HEAD_BYTES - 2], value[HEAD_BYTES - 1]]);
        let body_at = HEAD_BYTES + usize::from(key_len);
        if body_at > value.len() {
            return None;
        }
        Some(Row {
            head,
            partition_key: value.slice(HEAD_BYTES..body_at),
            body: value.slice(body_at..),
        })
    }

    /// Reads the row of item `id`, which must be one.
    pub(crate) fn read(value: Bytes, id: &[u8]) -> Result<Self, Error> {
        Self::decode(value).ok_or_else(|| unreadable(id))
    }

    /// Encoded partition-key values.
    pub(crate) fn partition_key(&self) -> &[u8] {
        &self.partition_key
    }

    /// The item as the engine returns it.
    pub(crate) fn into_item(self, container: ContainerRid, id: RowKey) -> StoredItem {
        StoredItem {
            container,
            number: self.head.number,
            etag: self.head.etag,
            ts: self.head.ts,
            ticks: self.head.ticks,
            partition_key: self.partition_key,
            id,
            format: self.head.body,
            body: self.body,
        }
    }
}

/// The row of item `id` has a value that is none of a row.
pub(crate) fn unreadable(id: &[u8]) -> Error {
    Error::Internal(format!("the row of item {} can't be read", text_of(id)))
}

/// A row that is read in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowRef<'a> {
    pub(crate) head: RowHead,
    partition_key: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl<'a> RowRef<'a> {
    /// Reads the rest of the row with this value, whose head was read before.
    pub(crate) fn behind(head: RowHead, value: &'a [u8]) -> Option<Self> {
        let (partition_key, body) = split_key(value)?;
        Some(Self { head, partition_key, body })
    }

    /// A copy, as the engine returns it.
    pub(crate) fn to_item(self, container: ContainerRid, id: &[u8]) -> StoredItem {
        StoredItem {
            container,
            number: self.head.number,
            etag: self.head.etag,
            ts: self.head.ts,
            ticks: self.head.ticks,
            partition_key: Bytes::copy_from_slice(self.partition_key),
            id: RowKey::copy_of(id),
            format: self.head.body,
            body: Bytes::copy_from_slice(self.body),
        }
    }
}

/// Splits what follows the head of a row's value into the partition-key values and the body.
fn split_key(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, rest) = value.split_at_checked(HEAD_BYTES)?;
    let key_len = u16::from_be_bytes([value[HEAD_BYTES - 2], value[HEAD_BYTES - 1]]);
    rest.split_at_checked(usize::from(key_len))
}

/// What happened to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Put,
    Delete,
}

/// An entry of the change log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change<'a> {
    pub(crate) kind: ChangeKind,
    pub(crate) ts: u64,
    pub(crate) ttl: i32,
    /// Logical key, then row key.
    pub(crate) identity: &'a [u8],
}

const CHANGE_HEAD_BYTES: usize = 1 + 8 + 4;

impl<'a> Change<'a> {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(CHANGE_HEAD_BYTES + self.identity.len());
        out.put_u8(match self.kind {
            ChangeKind::Put => 1,
            ChangeKind::Delete => 2,
        });
        out.put_u64(self.ts);
        out.put_i32(self.ttl);
        out.put_slice(self.identity);
        out.into()
    }

    pub(crate) fn decode(value: &'a [u8]) -> Option<Self> {
        let head = value.get(..CHANGE_HEAD_BYTES)?;
        let kind = match head[0] {
            1 => ChangeKind::Put,
            2 => ChangeKind::Delete,
            _ => return None,
        };
        Some(Change {
            kind,
            ts: u64_at(head, 1),
            ttl: u32_at(head, 9).cast_signed(),
            identity: &value[CHANGE_HEAD_BYTES..],
        })
    }
}

/// Decodes the partition-key values kept in a row.
pub(crate) fn decode_partition_key(bytes: &[u8]) -> PartitionKey {
    PartitionKey::decode(bytes).unwrap_or_default()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |n, b| n << 8 | u32::from(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_changes_read_back() {
        let head = RowHead {
            body: BodyFormat::Bson,
            number: 77,
            etag: Etag { origin: PartitionId(9), lsn: Lsn(1 << 40), seq: 3 },
            ts: 1_700_000_000,
            ticks: 9_999_999,
            created: 1_600_000_000,
            ttl: -1,
        };
        let value = encode(&head, b"key", br#"{"id":"a"}"#);
        let row = Row::decode(value.clone()).unwrap();
        assert_eq!(
            (row.head, &row.partition_key[..], &row.body[..]),
            (head, &b"key"[..], &br#"{"id":"a"}"#[..])
        );
        for cut in 0..HEAD_BYTES + 3 {
            assert!(Row::decode(value.slice(..cut)).is_none(), "cut at {cut}");
        }
        let change = Change { kind: ChangeKind::Delete, ts: 5, ttl: 60, identity: b"k" };
        assert_eq!(Change::decode(&change.encode()), Some(change));
    }
}
