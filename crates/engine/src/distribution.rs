//! How a partition's bytes are divided among its logical partitions.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use bytes::Bytes;
use model::{PartitionId, PartitionKey};
use storage::{Dir, KeyRange, LocalStore, View};

use crate::cancellation::CancellationToken;
use crate::catalog::Container;
use crate::commit::LogicalCounters;
use crate::keys::{COUNTERS_BOUNDS, LogicalKey};
use crate::row::Row;
use crate::{Engine, Error, RangeId};

/// A logical partition and what it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct KeySize {
    /// Its key values.
    pub key: PartitionKey,
    /// Bytes of its items.
    pub bytes: u64,
    /// Its items.
    pub items: u64,
}

/// The largest logical partitions of a range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LargestKeys {
    /// Largest first.
    pub keys: Vec<KeySize>,
    /// Logical partitions that were counted.
    pub counted: u64,
    /// Whether those were all.
    pub is_complete: bool,
}

impl Engine {
    /// The `count` largest logical partitions of a range. Reads the counters of at most
    /// `counted_max` of them, not their rows, and stops when no caller waits any more.
    pub async fn largest_keys(
        &self,
        container: &Container,
        range: RangeId,
        count: usize,
        counted_max: u64,
    ) -> Result<LargestKeys, Error> {
        let routing = container.routing();
        let partition = routing.by_id(range).ok_or(Error::RangeGone)?.partition_id();
        let store = Arc::clone(&self.inner.store);
        self.run_cancellable(move |cancellation| {
            largest_keys(store.as_ref(), partition, count, counted_max, cancellation)
        })
        .await
    }
}

fn largest_keys(
    store: &dyn LocalStore,
    partition: PartitionId,
    count: usize,
    counted_max: u64,
    cancellation: &CancellationToken,
) -> Result<LargestKeys, Error> {
    let view = store.view();
    let (lo, hi) = (&COUNTERS_BOUNDS.0[..], &COUNTERS_BOUNDS.1[..]);
    let mut cursor = view.scan(partition, KeyRange::half_open(lo, hi), Dir::Fwd)?;
    let mut largest: BinaryHeap<Reverse<(u64, u64, Bytes)>> = BinaryHeap::new();
    let (mut counted, mut is_complete) = (0, true);
    while let Some((key, value)) = cursor.next()? {
        if counted == counted_max {
            is_complete = false;
            break;
        }
        counted += 1;
        cancellation.check(counted)?;
        let Some(LogicalCounters { bytes, items }) = LogicalCounters::decode(value) else {
            continue;
        };
        let smallest = largest.peek().map_or(0, |Reverse((bytes, ..))| *bytes);
        if items == 0 || (largest.len() == count && bytes <= smallest) {
            continue;
        }
        largest.push(Reverse((bytes, items, Bytes::copy_from_slice(key))));
        if largest.len() > count {
            largest.pop();
        }
    }
    let mut keys = Vec::with_capacity(largest.len());
    for Reverse((bytes, items, counters)) in largest.into_sorted_vec() {
        if let Some(key) = key_values(view.as_ref(), partition, &counters)? {
            keys.push(KeySize { key, bytes, items });
        }
    }
    Ok(LargestKeys { keys, counted, is_complete })
}

/// The key values of the logical partition with these `counters`; its rows hold them.
fn key_values(
    view: &dyn View,
    partition: PartitionId,
    counters: &[u8],
) -> Result<Option<PartitionKey>, Error> {
    let Some(logical) = LogicalKey::of_counters(counters) else { return Ok(None) };
    let (lo, hi) = logical.row_bounds();
    let mut cursor = view.scan(partition, KeyRange::half_open(&lo, &hi), Dir::Fwd)?;
    let Some((_, value)) = cursor.next()? else { return Ok(None) };
    let row = Row::decode(Bytes::copy_from_slice(value));
    Ok(row.and_then(|row| PartitionKey::decode(row.partition_key())))
}
