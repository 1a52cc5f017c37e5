//! Where a page begins.

use model::{Value, hash};

use crate::select::Plan;
use crate::value_keys::{push_hashed_sort_key, push_sort_key};

/// Bytes that tell a cut key from others that begin alike.
pub const CUT_BYTES: usize = 16;

/// How far a query has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Rows passed over by OFFSET so far.
    pub skipped: u64,
    /// Rows returned so far.
    pub returned: u64,
    /// Behind which row.
    pub at: RowPosition,
    /// A row that the page does not begin before either. It is only there where `at` is a cut key:
    /// which of the two comes later is known once the rest of that key is found.
    pub floor: Option<RowPosition>,
}

impl Position {
    /// Goes on to `start`, which a client names beside its token, if that comes later.
    pub fn resume_at(&mut self, start: RowPosition) {
        self.at = match (std::mem::take(&mut self.at), start) {
            (RowPosition::Start, start) => start,
            (
                RowPosition::Key { key, cut: Some(cut), number, rows },
                RowPosition::Key { key: whole, cut: None, number: named_number, rows: named_rows },
            ) if whole.starts_with(&key) => {
                if digest(&whole) == cut {
                    let (number, rows) = (number, rows).max((named_number, named_rows));
                    RowPosition::Key { key: whole, cut: None, number, rows }
                } else {
                    let named = RowPosition::Key {
                        key: whole,
                        cut: None,
                        number: named_number,
                        rows: named_rows,
                    };
                    self.floor = Some(named);
                    RowPosition::Key { key, cut: Some(cut), number, rows }
                }
            }
            (at, start) => match (&at, &start) {
                (
                    RowPosition::Key { key, number, rows, .. },
                    RowPosition::Key {
                        key: named_key, number: named_number, rows: named_rows, ..
                    },
                ) if (key, number, rows) < (named_key, named_number, named_rows) => start,
                _ => at,
            },
        };
    }
}

/// A row, by what orders rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RowPosition {
    /// Before all.
    #[default]
    Start,
    /// In the order of identities.
    Item {
        /// Identity of an item.
        identity: Vec<u8>,
        /// How many of its rows are done; `u64::MAX` = all.
        rows: u64,
    },
    /// In the order of keys: of ORDER BY, of groups, of distinct rows.
    Key {
        /// The key, or its beginning.
        key: Vec<u8>,
        /// A digest of the key, if it was too long to keep.
        cut: Option<[u8; CUT_BYTES]>,
        /// Number of the item.
        number: u64,
        /// How many of its rows are done; `u64::MAX` = all.
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

    /// The position of a client that stopped at a row with these sort keys: behind all such rows
    /// if it `excludes` them; else at the item with this number, or at the first.
    ///
    /// `None` if the query is not ordered by as many keys.
    pub fn resume(
        plan: &Plan,
        values: &[ResumeValue],
        number: Option<u64>,
        excludes: bool,
    ) -> Option<Self> {
        let order = &plan.clauses().order;
        if order.is_empty() || order.len() != values.len() {
            return None;
        }
        let mut key = Vec::new();
        for (sort, value) in order.iter().zip(values) {
            match value {
                ResumeValue::Value(value) => push_sort_key(value.as_ref(), sort.order, &mut key),
                ResumeValue::Array(hash) => push_hashed_sort_key(true, *hash, sort.order, &mut key),
                ResumeValue::Object(hash) => {
                    push_hashed_sort_key(false, *hash, sort.order, &mut key);
                }
            }
        }
        Some(match excludes {
            true => RowPosition::Key { key, cut: None, number: u64::MAX, rows: u64::MAX },
            false => RowPosition::Key { key, cut: None, number: number.unwrap_or(0), rows: 0 },
        })
    }
}

/// What tells a cut key from others that begin alike.
fn digest(key: &[u8]) -> [u8; CUT_BYTES] {
    hash::hash_bytes(hash::murmur3_x64_128(key, 0))
}

/// Where a page of ordered rows begins.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    row: Option<StartRow>,
    /// What tells the key of `row` from others that begin alike, if it is cut.
    cut: Option<[u8; CUT_BYTES]>,
    /// A row that the page does not begin before either, as long as the key is cut.
    floor: Option<StartRow>,
}

/// A row that a page begins behind or with. Rows come in the order of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct StartRow {
    key: Vec<u8>,
    number: u64,
    rows: u64,
}

impl StartRow {
    fn of(at: RowPosition) -> Option<(Self, Option<[u8; CUT_BYTES]>)> {
        match at {
            RowPosition::Key { key, cut, number, rows } => Some((Self { key, number, rows }, cut)),
            RowPosition::Start | RowPosition::Item { .. } => None,
        }
    }
}

impl Start {
    pub(super) fn of(position: Position) -> Self {
        let Some((row, cut)) = StartRow::of(position.at) else { return Self::default() };
        let floor = position.floor.and_then(StartRow::of).map(|(floor, _)| floor);
        Self { row: Some(row), cut, floor: floor.filter(|_| cut.is_some()) }
    }

    /// Whether only the beginning of the key is known.
    pub(super) fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// The key, or its beginning if it is cut.
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.row.as_ref().map(|row| row.key.as_slice())
    }

    /// The number of the item that the key is of.
    pub(super) fn number(&self) -> u64 {
        self.row.as_ref().map_or(0, |row| row.number)
    }

    /// Whether a key comes after all that begin as this one does.
    pub(super) fn is_before(&self, candidate: &[u8]) -> bool {
        self.key().is_some_and(|key| candidate > key && !candidate.starts_with(key))
    }

    /// Completes a cut key if this is the one.
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
    pub(super) fn rows_done(&self, candidate: &[u8], number: u64) -> Option<u64> {
        let Some(row) = &self.row else { return Some(0) };
        let row = match (&self.cut, &self.floor) {
            // A cut key that was not found again. The client has come as far as this at least.
            (Some(_), Some(floor)) => floor,
            // Rather show a row twice than lose one.
            (Some(_), None) if candidate.starts_with(&row.key) => return Some(0),
            (Some(_) | None, _) => row,
        };
        match (candidate, number).cmp(&(row.key.as_slice(), row.number)) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => (row.rows < u64::MAX).then_some(row.rows),
            std::cmp::Ordering::Greater => Some(0),
        }
    }

    /// As a position, for a page that came no further.
    pub(super) fn to_at(&self) -> RowPosition {
        let (row, cut) = match (&self.row, &self.floor) {
            (_, Some(floor)) => (floor, None),
            (Some(row), None) => (row, self.cut),
            (None, None) => return RowPosition::Start,
        };
        RowPosition::Key { key: row.key.clone(), cut, number: row.number, rows: row.rows }
    }
}
