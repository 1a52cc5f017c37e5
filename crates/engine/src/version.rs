//! An entry of the log of all versions and deletes.
//!
//! Kind u8 (1 = create, 2 = replace, 3 = delete, 4 = expiry), time u64 in seconds, length of the
//! identity u32, identity (logical key, then row key), LSN of the version before u64 (0 = none),
//! item number u64, length of the partition-key values u16, those values, then the body of the
//! new version or, for a delete, the row of the last one. Deletes of earlier builds have none. Identities begin where those of [`crate::row::Change`] do.

use bytes::{Buf, BufMut, Bytes};
use model::Lsn;

/// What happened to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionKind {
    Create,
    Replace,
    Delete,
    /// A delete because the item expired.
    Expiry,
}

/// One version of an item, or its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version<'a> {
    pub(crate) kind: VersionKind,
    pub(crate) ts: u64,
    /// Logical key, then row key.
    pub(crate) identity: &'a [u8],
    /// Position of the version before.
    pub(crate) previous: Option<Lsn>,
    /// The item's number.
    pub(crate) number: u64,
    /// Encoded partition-key values.
    pub(crate) partition_key: &'a [u8],
    /// The new version's text; of a delete the row of the last version, if it is kept.
    pub(crate) body: &'a [u8],
}

const HEAD_BYTES: usize = 1 + 8 + 4;
const MIDDLE_BYTES: usize = 8 + 8 + 2;

impl<'a> Version<'a> {
    pub(crate) fn encode(&self) -> Bytes {
        let length = HEAD_BYTES
            + self.identity.len()
            + MIDDLE_BYTES
            + self.partition_key.len()
            + self.body.len();
        let mut out = Vec::with_capacity(length);
        out.put_u8(match self.kind {
            VersionKind::Create => 1,
            VersionKind::Replace => 2,
            VersionKind::Delete => 3,
            VersionKind::Expiry => 4,
        });
        out.put_u64(self.ts);
        out.put_u32(u32::try_from(self.identity.len()).expect("ids are limited to 1,536 bytes"));
        out.put_slice(self.identity);
        out.put_u64(self.previous.map_or(0, |lsn| lsn.0));
        out.put_u64(self.number);
        let key_len = u16::try_from(self.partition_key.len());
        out.put_u16(key_len.expect("key values are limited to 3 x 2 KB"));
        out.put_slice(self.partition_key);
        out.put_slice(self.body);
        out.into()
    }

    /// Reads an entry's value; `None` if it is not one.
    pub(crate) fn decode(value: &'a [u8]) -> Option<Self> {
        let (mut head, rest) = value.split_at_checked(HEAD_BYTES)?;
        let kind = match head.get_u8() {
            1 => VersionKind::Create,
            2 => VersionKind::Replace,
            3 => VersionKind::Delete,
            4 => VersionKind::Expiry,
            _ => return None,
        };
        let ts = head.get_u64();
        let (identity, rest) = rest.split_at_checked(usize::try_from(head.get_u32()).ok()?)?;
        let (mut middle, rest) = rest.split_at_checked(MIDDLE_BYTES)?;
        let previous = Some(Lsn(middle.get_u64())).filter(|lsn| *lsn != Lsn(0));
        let number = middle.get_u64();
        let (partition_key, body) = rest.split_at_checked(usize::from(middle.get_u16()))?;
        Some(Self { kind, ts, identity, previous, number, partition_key, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Change, ChangeKind};

    #[test]
    fn versions_read_back_and_cut_ones_do_not() {
        use VersionKind::{Create, Delete, Expiry, Replace};
        for (kind, previous, body) in [
            (Create, None, &b"{}"[..]),
            (Replace, Some(Lsn(7)), &b"{\"a\":1}"[..]),
            (Delete, Some(Lsn(8)), &b""[..]),
            (Expiry, Some(Lsn(9)), &b""[..]),
        ] {
            let version = Version {
                kind,
                ts: 5,
                identity: b"identity",
                previous,
                number: 3,
                partition_key: b"values",
                body,
            };
            let value = version.encode();
            assert_eq!(Version::decode(&value), Some(version));
            for cut in 0..value.len() - body.len() {
                assert!(Version::decode(&value[..cut]).is_none(), "cut at {cut}");
            }
        }
        assert!(Version::decode(&[9; 64]).is_none());
    }

    #[test]
    fn identities_stand_where_those_of_changes_do() {
        let identity = b"identity";
        let change = Change { kind: ChangeKind::Put, ts: 1, ttl: 0, identity }.encode();
        let version = Version {
            kind: VersionKind::Create,
            ts: 1,
            identity,
            previous: None,
            number: 1,
            partition_key: b"",
            body: b"{}",
        };
        let version = version.encode();
        assert_eq!(change[HEAD_BYTES..], version[HEAD_BYTES..HEAD_BYTES + identity.len()]);
    }
}
