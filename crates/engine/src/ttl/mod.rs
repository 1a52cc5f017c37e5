//! Time to live: which items have expired, and the sweep that frees their space.
//!
//! An item is invisible from the second it expires. Its row, its index entries and its part in the
//! counters stay until the sweep, or a new item with its id, removes them. A document that expires
//! by a date in an ordered index is there until it is deleted.

mod by_index;
mod retries;
mod sweep;

use model::{Value, json};

use crate::partition::Reader;
use crate::row::RowHead;
use crate::{Error, InvalidRequest};

pub(crate) use by_index::start as start_expiry;
pub(crate) use sweep::start as start_sweep;

impl Reader {
    /// Whether an item has expired: reads leave it out, writes treat it as absent.
    pub(crate) fn is_expired(&self, head: &RowHead) -> bool {
        expires_at(head.ts, head.ttl, self.default_ttl).is_some_and(|at| at <= self.now_seconds)
    }

    /// Whether items of the container can expire, so that what is stored or counted of it may be
    /// more than what is visible.
    pub(crate) fn has_ttl(&self) -> bool {
        self.default_ttl.is_some()
    }
}

/// When an item expires, in seconds; `None` = never. An item's own ttl wins over the container's,
/// and both count only while the container has one.
fn expires_at(ts: u64, own: i32, default_ttl: Option<i32>) -> Option<u64> {
    let default = default_ttl?;
    let ttl = if own == 0 { default } else { own };
    u64::try_from(ttl).ok().map(|ttl| ts.saturating_add(ttl))
}

/// The ttl that an item sets for itself; 0 = none.
pub(crate) fn own_ttl(item: &Value) -> Result<i32, Error> {
    let Some(ttl) = item.field("ttl") else { return Ok(0) };
    match ttl.as_i64().and_then(|n| i32::try_from(n).ok()) {
        Some(n) if n == -1 || n >= 1 => Ok(n),
        _ => Err(InvalidRequest::TimeToLive { value: json::to_string(ttl) }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_ttl_wins_and_counts_only_while_the_container_has_one() {
        let expired = |own, default, now| expires_at(100, own, default).is_some_and(|at| at <= now);
        assert!(!expired(5, None, 1000));
        assert!(!expired(0, Some(-1), 1000));
        assert!(expired(5, Some(-1), 105));
        assert!(!expired(5, Some(-1), 104));
        assert!(!expired(-1, Some(1), 1000));
        assert!(expired(0, Some(10), 110));
    }
}
