//! Where a page begins.

use model::order::TypeOrder;
use model::{Value, hash};

use crate::plan::{Clauses, Plan};
use crate::value_keys::{push_hashed_sort_key, push_sort_key};

/// Length of the digest that distinguishes a cut key from others with the same prefix.
pub const CUT_BYTES: usize = 16;

/// How far a query has progressed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Rows skipped by OFFSET so far.
    pub skipped: u64,
    /// Rows returned so far.
    pub returned: u64,
    /// The row after which to continue.
    pub at: RowPosition,
    /// A second lower bound for the start of the page, only where `at` has a cut key: which of the
    /// two comes later is known once the rest of that key is found.
    pub floor: Option<RowPosition>,
}

impl Position {
    /// Continues at `start`, which a client names beside its continuation, if that comes later.
    pub fn resume_at(&mut self, start: RowPosition) {
        self.at = match (std::mem::take(&mut self.at), start) {
            (RowPosition::Start, start) => start,
            (
                RowPosition::Key { key, cut: Some(cut), tie, rows },
                RowPosition::Key { key: whole, cut: None, tie: named_tie, rows: named_rows },
            ) if whole.starts_with(&key) => {
                if digest(&whole) == cut {
                    let (tie, rows) = (tie, rows).max((named_tie, named_rows));
                    RowPosition::Key { key: whole, cut: None, tie, rows }
                } else {
                    let named = RowPosition::Key {
                        key: whole,
                        cut: None,
                        tie: named_tie,
                        rows: named_rows,
                    };
                    self.floor = Some(named);
                    RowPosition::Key { key, cut: Some(cut), tie, rows }
                }
            }
            (at, start) => match (&at, &start) {
                (
                    RowPosition::Key { key, tie, rows, .. },
                    RowPosition::Key { key: named_key, tie: named_tie, rows: named_rows, .. },
                ) if (key, tie, rows) < (named_key, named_tie, named_rows) => start,
                _ => at,
            },
        };
    }
}

/// The position of a row in an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RowPosition {
    /// Before all rows.
    #[default]
    Start,
    /// In the order of identities.
    Item {
        /// Identity of an item.
        identity: Vec<u8>,
        /// How many of its rows are done; `u64::MAX` = all.
        rows: u64,
    },
    /// In the order of item numbers.
    Number {
        /// Number of an item.
        number: u64,
        /// How many of its rows are done; `u64::MAX` = all.
        rows: u64,
    },
    /// In the order of keys: of ORDER BY, of groups, of distinct rows.
    Key {
        /// The key, or a prefix of it.
        key: Vec<u8>,
        /// A digest of the key, if it was too long to keep.
        cut: Option<[u8; CUT_BYTES]>,
        /// Orders items with the same key, by their [numbers](Plan::tie_of).
        tie: u64,
        /// How many rows of the item are done; `u64::MAX` = all.
        rows: u64,
    },
}

/// What a client knows of a sort key.
#[derive(Clone, Debug, PartialEq)]
pub enum ResumeValue {
    /// The value; `None` = *undefined*.
    Value(Option<Value>),
    /// The distinct hash of an array.
    Array(u128),
    /// The distinct hash of an object.
    Object(u128),
}

impl RowPosition {
    /// Shortens a key that is longer than `bytes_max`.
    pub fn cut_long_key(&mut self, bytes_max: usize) {
        if let RowPosition::Key { key, cut, .. } = self
            && cut.is_none()
            && key.len() > bytes_max
        {
            *cut = Some(digest(key));
            key.truncate(bytes_max);
        }
    }

    /// The position of a client that stopped at a row with these sort keys: after all such rows if
    /// it `excludes` them; otherwise at the item with this number, or at the first.
    ///
    /// `None` if the query is ordered by a different number of keys, or by hashes where arrays and
    /// objects are not in the order of theirs.
    pub fn resume(
        plan: &Plan,
        values: &[ResumeValue],
        number: Option<u64>,
        excludes: bool,
    ) -> Option<Self> {
        let Clauses { order, type_order, .. } = plan.clauses();
        if order.is_empty() || order.len() != values.len() {
            return None;
        }
        let mut key = Vec::new();
        for (sort, value) in order.iter().zip(values) {
            match value {
                ResumeValue::Value(value) => {
                    push_sort_key(*type_order, value.as_ref(), sort.order, &mut key);
                }
                ResumeValue::Array(_) | ResumeValue::Object(_)
                    if *type_order != TypeOrder::NoSql =>
                {
                    return None;
                }
                ResumeValue::Array(hash) => push_hashed_sort_key(true, *hash, sort.order, &mut key),
                ResumeValue::Object(hash) => {
                    push_hashed_sort_key(false, *hash, sort.order, &mut key);
                }
            }
        }
        Some(match excludes {
            true => RowPosition::Key { key, cut: None, tie: u64::MAX, rows: u64::MAX },
            false => {
                let tie = number.map_or(0, |number| plan.tie_of(number));
                RowPosition::Key { key, cut: None, tie, rows: 0 }
            }
        })
    }
}

/// Distinguishes a cut key from others with the same prefix.
fn digest(key: &[u8]) -> [u8; CUT_BYTES] {
    hash::hash_bytes(hash::murmur3_x64_128(key, 0))
}

/// Where a page of ordered rows begins.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    row: Option<StartRow>,
    /// The digest of the key of `row`, if the key is cut.
    cut: Option<[u8; CUT_BYTES]>,
    /// A second lower bound, as long as the key is cut.
    floor: Option<StartRow>,
}

/// The row after or at which a page begins. The order of these is the order of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct StartRow {
    key: Vec<u8>,
    tie: u64,
    rows: u64,
}

impl StartRow {
    fn of(at: RowPosition) -> Option<(Self, Option<[u8; CUT_BYTES]>)> {
        match at {
            RowPosition::Key { key, cut, tie, rows } => Some((Self { key, tie, rows }, cut)),
            RowPosition::Start | RowPosition::Item { .. } | RowPosition::Number { .. } => None,
        }
    }
}

impl Start {
    pub(super) fn of(position: Position) -> Self {
        let Some((row, cut)) = StartRow::of(position.at) else { return Self::default() };
        let floor = position.floor.and_then(StartRow::of).map(|(floor, _)| floor);
        Self { row: Some(row), cut, floor: floor.filter(|_| cut.is_some()) }
    }

    /// Whether the page begins behind other rows.
    pub(super) fn is_set(&self) -> bool {
        self.row.is_some()
    }

    /// Whether only a prefix of the key is known.
    pub(super) fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// The key, or its prefix if it is cut.
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.row.as_ref().map(|row| row.key.as_slice())
    }

    /// Where among the items with that key.
    pub(super) fn tie(&self) -> u64 {
        self.row.as_ref().map_or(0, |row| row.tie)
    }

    /// Whether a key comes after all keys with this prefix.
    pub(super) fn is_before(&self, candidate: &[u8]) -> bool {
        self.key().is_some_and(|key| candidate > key && !candidate.starts_with(key))
    }

    /// Completes a cut key if `candidate` is that key.
    pub(super) fn look_up(&mut self, candidate: &[u8]) -> bool {
        let (Some(cut), Some(row)) = (self.cut, &mut self.row) else { return true };
        let is_it = candidate.starts_with(&row.key) && digest(candidate) == cut;
        if is_it {
            row.key = candidate.to_vec();
            self.cut = None;
            if let Some(floor) = self.floor.take().filter(|floor| *floor > *row) {
                *row = floor;
            }
        }
        is_it
    }

    /// How many rows of an item are done; `None` if all are.
    pub(super) fn rows_done(&self, candidate: &[u8], tie: u64) -> Option<u64> {
        let Some(row) = &self.row else { return Some(0) };
        let row = match (&self.cut, &self.floor) {
            // A cut key that was not found again. The client has at least reached the floor.
            (Some(_), Some(floor)) => floor,
            // Returning a row twice is better than losing one.
            (Some(_), None) if candidate.starts_with(&row.key) => return Some(0),
            (Some(_) | None, _) => row,
        };
        match (candidate, tie).cmp(&(row.key.as_slice(), row.tie)) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => (row.rows < u64::MAX).then_some(row.rows),
            std::cmp::Ordering::Greater => Some(0),
        }
    }

    /// As a position, for a page that has not moved past it.
    pub(super) fn to_at(&self) -> RowPosition {
        let (row, cut) = match (&self.row, &self.floor) {
            (_, Some(floor)) => (floor, None),
            (Some(row), None) => (row, self.cut),
            (None, None) => return RowPosition::Start,
        };
        RowPosition::Key { key: row.key.clone(), cut, tie: row.tie, rows: row.rows }
    }
}
