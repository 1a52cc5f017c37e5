//! What operations cost. `docs/ru.md` explains the model and the figures it is calibrated to.
//!
//! Charges depend on the request and the data alone, never on load or time, so that the same
//! request always costs the same.

use model::{Charge, Value};

const READ_FIRST_KB: u64 = 1_000;
const READ_FURTHER_KB: u64 = 91;
const WRITE_FIRST_KB: u64 = 5_000;
const WRITE_FURTHER_KB: u64 = 450;
const INDEXED_VALUE: u64 = 20;
const REFUSED_WRITE: u64 = 1_240;
const QUERY_PER_RANGE: u64 = 2_250;
const QUERY_ROW: u64 = 30;
const INDEX_ENTRY: u64 = 1;
const THROTTLED: u64 = 380;
const CHANGES_PER_RANGE: u64 = 1_000;
const CHANGES_LOOKED_AT: u64 = 1;

fn further_kb(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(1024).saturating_sub(1)
}

/// Reading an item of `bytes` by its key. Reading an absent item costs as much as the smallest one.
pub fn point_read(bytes: usize) -> Charge {
    Charge::milli(READ_FIRST_KB + READ_FURTHER_KB * further_kb(bytes))
}

/// Adding an item of `bytes` with `indexed_values` values to index.
pub fn create(bytes: usize, indexed_values: u64) -> Charge {
    Charge::milli(
        WRITE_FIRST_KB + WRITE_FURTHER_KB * further_kb(bytes) + INDEXED_VALUE * indexed_values,
    )
}

/// Removing an item of `bytes`.
pub fn delete(bytes: usize) -> Charge {
    create(bytes, 0)
}

/// Replacing an old version by a new one: both are paid.
pub fn replace(old_bytes: usize, new_bytes: usize, indexed_values: u64) -> Charge {
    delete(old_bytes) + create(new_bytes, indexed_values)
}

/// A write that was refused by a condition or a conflict.
pub fn refused_write() -> Charge {
    Charge::milli(REFUSED_WRITE)
}

/// What a request that was refused because of its rate reports. No budget pays for it: no work was
/// done.
pub fn throttled() -> Charge {
    Charge::milli(THROTTLED)
}

/// A page of a query or listing that read `rows` items of `bytes` in all over `ranges` ranges.
pub fn query(ranges: u64, rows: u64, bytes: u64) -> Charge {
    let kilobytes = bytes / 1024;
    Charge::milli(QUERY_PER_RANGE * ranges.max(1) + QUERY_ROW * rows + READ_FURTHER_KB * kilobytes)
}

/// How many index entries cost this much.
pub(crate) fn entries_for(charge: Charge) -> u64 {
    charge.as_milli() / INDEX_ENTRY
}

/// What a query pays in addition for reading this many index entries.
pub fn index_entries(entries: u64) -> Charge {
    Charge::milli(INDEX_ENTRY * entries)
}

/// A range's part of a page of a change feed, for which `entries` of its log were read and
/// `changes` of `bytes` in all returned. Where nothing is new it costs as much as the smallest
/// read.
pub fn change_feed(entries: u64, changes: u64, bytes: u64) -> Charge {
    let kilobytes = bytes / 1024;
    Charge::milli(
        CHANGES_PER_RANGE
            + CHANGES_LOOKED_AT * entries
            + QUERY_ROW * changes
            + READ_FURTHER_KB * kilobytes,
    )
}

/// How many values of `item` an index with the default policy holds: every leaf.
pub(crate) fn indexed_values(item: &Value) -> u64 {
    match item {
        Value::Array(items) => items.iter().map(indexed_values).sum(),
        Value::Object(fields) => fields.iter().map(|(_, v)| indexed_values(v)).sum(),
        Value::Null
        | Value::Bool(_)
        | Value::Int32(_)
        | Value::Int64(_)
        | Value::Double(_)
        | Value::Decimal128(_)
        | Value::String(_)
        | Value::Binary { .. }
        | Value::Guid(_)
        | Value::Date(_)
        | Value::ObjectId(_)
        | Value::Timestamp { .. }
        | Value::Regex { .. }
        | Value::JavaScript { .. }
        | Value::Undefined
        | Value::DbPointer { .. }
        | Value::Symbol(_)
        | Value::MinKey
        | Value::MaxKey => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_read_of_one_kilobyte_costs_one() {
        assert_eq!(point_read(0).to_string(), "1");
        assert_eq!(point_read(1024).to_string(), "1");
        assert_eq!(point_read(100 * 1024).to_string(), "10.009");
    }

    #[test]
    fn a_poll_that_finds_nothing_costs_one() {
        assert_eq!(change_feed(0, 0, 0).to_string(), "1");
        assert_eq!(change_feed(100, 100, 100 * 1024).to_string(), "13.2");
    }

    #[test]
    fn writes_cost_by_size_and_indexed_values() {
        assert_eq!(create(1024, 15).to_string(), "5.3");
        assert_eq!(replace(1024, 1024, 15).to_string(), "10.3");
        assert_eq!(create(100 * 1024, 0).to_string(), "49.55");
    }
}
