//! How a partition's bytes are divided among its logical partitions.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use bytes::Bytes;
use model::{PartitionId, PartitionKey};
use storage::{Dir, KeyRange, LocalStore, View};

use crate::catalog::Container;
use crate::commit::LogicalCounters;
use crate::keys::{COUNTERS_BOUNDS, LogicalKey};
use crate::row::Row;
use crate::{Engine, Error, RangeId, RequestContext};

/// Logical partitions that are counted between two looks at deadline and caller.
const COUNTED_PER_CHECK: u64 = 1024;

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
    /// `counted_max` of them, not their rows, and stops when no caller waits any more or the
    /// deadline has passed.
    pub async fn largest_keys(
        &self,
        ctx: &mut RequestContext,
        container: &Container,
        range: RangeId,
        count: usize,
        counted_max: u64,
    ) -> Result<LargestKeys, Error> {
        let routing = container.routing();
        let partition = routing.by_id(range).ok_or(Error::RangeGone)?.partition_id();
        let (store, stop) = (Arc::clone(&self.inner.store), ctx.stop_signal());
        let clock = Arc::clone(&self.inner.components.clock);
        self.run_blocking(move || {
            let check = |counted: u64| match counted.is_multiple_of(COUNTED_PER_CHECK) {
                true => stop.check(clock.monotonic()),
                false => Ok(()),
            };
            largest_keys(store.as_ref(), partition, count, counted_max, check)
        })
        .await
    }
}

fn largest_keys(
    store: &dyn LocalStore,
    partition: PartitionId,
    count: usize,
    counted_max: u64,
    check: impl Fn(u64) -> Result<(), Error>,
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
        check(counted)?;
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
