//! A partition's counters, as the committer keeps them.

use bytes::{BufMut, Bytes};
use model::{Lsn, PartitionId};

const VERSION: u8 = 2;
/// The epoch and the id of the last commit.
const UNASSIGNED_BYTES: usize = 8 + 16;
const BYTES: usize = 1 + 6 * 8 + UNASSIGNED_BYTES + 8;

/// Counters of a partition. Stored under [`crate::keys::PARTITION_STATE`] with every commit:
/// version u8, then lsn, newest time, next item number, end of the leased numbers, items, bytes,
/// epoch, each u64 big-endian; 16 bytes of the last commit's id; commit clock u64. Epoch and id
/// are zero while no cluster assigns them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionState {
    /// Position of the last commit.
    pub(crate) lsn: Lsn,
    /// The newest time of a version in seconds; later ones may have earlier times.
    pub(crate) ts: u64,
    /// Item numbers come in blocks leased from the container.
    pub(crate) number_next: u64,
    pub(crate) number_end: u64,
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    /// The time of the last commit on the [commit clock](super::CommitClock).
    pub(crate) clock: u64,
}

impl PartitionState {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(BYTES);
        out.put_u8(VERSION);
        for n in [self.lsn.0, self.ts, self.number_next, self.number_end, self.items, self.bytes] {
            out.put_u64(n);
        }
        out.put_bytes(0, UNASSIGNED_BYTES);
        out.put_u64(self.clock);
        out.into()
    }

    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let (&version, mut rest) = value.split_first()?;
        if version != VERSION || value.len() != BYTES {
            return None;
        }
        let mut next = || bytes::Buf::get_u64(&mut rest);
        Some(Self {
            lsn: Lsn(next()),
            ts: next(),
            number_next: next(),
            number_end: next(),
            items: next(),
            bytes: next(),
            clock: u64::from_be_bytes(*value.last_chunk()?),
        })
    }
}

/// Bytes and items of one logical partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogicalCounters {
    pub(crate) bytes: u64,
    pub(crate) items: u64,
}

impl LogicalCounters {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(16);
        out.put_u64(self.bytes);
        out.put_u64(self.items);
        out.into()
    }

    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let bytes = u64::from_be_bytes(value.get(..8)?.try_into().ok()?);
        let items = u64::from_be_bytes(value.get(8..16)?.try_into().ok()?);
        Some(Self { bytes, items })
    }
}

/// The bytes of a logical partition, from its stored counters.
pub(crate) fn logical_bytes(value: &[u8]) -> u64 {
    LogicalCounters::decode(value).map_or(0, |counters| counters.bytes)
}

/// A partition that the committer has just received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewPartition {
    pub(crate) id: PartitionId,
    pub(crate) state: PartitionState,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_read_back() {
        let state = PartitionState {
            lsn: Lsn(1),
            ts: 2,
            number_next: 3,
            number_end: 4,
            items: 5,
            bytes: 6,
            clock: 7,
        };
        assert_eq!(PartitionState::decode(&state.encode()), Some(state));
        assert_eq!(PartitionState::decode(&state.encode()[1..]), None);
        let counters = LogicalCounters { bytes: 9, items: 1 };
        assert_eq!(LogicalCounters::decode(&counters.encode()), Some(counters));
    }
}
