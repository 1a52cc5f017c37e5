//! Where a page begins.

use model::{Value, hash};

use crate::identity::{push_hashed_sort_key, push_sort_key};
use crate::select::Plan;

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
    pub at: At,
}

/// A row, by what orders rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// Before all.
    #[default]
    Start,
    /// In the order of places.
    Item {
        /// Place of an item.
        place: Vec<u8>,
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

impl At {
    /// Shortens a key that is longer than `bytes_max`.
    pub fn cut_long_key(&mut self, bytes_max: usize) {
        if let At::Key { key, cut, .. } = self
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
            true => At::Key { key, cut: None, number: u64::MAX, rows: u64::MAX },
            false => At::Key { key, cut: None, number: number.unwrap_or(0), rows: 0 },
        })
    }

    /// The later one of two.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        match (&self, &other) {
            (At::Start, _) => other,
            (
                At::Key { key, number, rows, .. },
                At::Key { key: other_key, number: other_number, rows: other_rows, .. },
            ) if (key, number, rows) < (other_key, other_number, other_rows) => other,
            _ => self,
        }
    }
}

/// What tells a cut key from others that begin alike.
fn digest(key: &[u8]) -> [u8; CUT_BYTES] {
    hash::hash_bytes(hash::murmur3_x64_128(key, 0))
}

/// Where a page of ordered rows begins.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    key: Option<Vec<u8>>,
    cut: Option<[u8; CUT_BYTES]>,
    number: u64,
    rows: u64,
}

impl Start {
    pub(super) fn of(at: At) -> Self {
        match at {
            At::Key { key, cut, number, rows } => Self { key: Some(key), cut, number, rows },
            At::Start | At::Item { .. } => Self::default(),
        }
    }

    /// Whether only the beginning of the key is known.
    pub(super) fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// The key, or its beginning if it is cut.
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// The number of the item that the key is of.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether a key comes after all that begin as this one does.
    pub(super) fn is_before(&self, candidate: &[u8]) -> bool {
        self.key().is_some_and(|key| candidate > key && !candidate.starts_with(key))
    }

    /// Completes a cut key if this is the one.
    pub(super) fn look_up(&mut self, candidate: &[u8]) -> bool {
        let Some(cut) = self.cut else { return true };
        let is_it = self.key.as_ref().is_some_and(|key| candidate.starts_with(key))
            && digest(candidate) == cut;
        if is_it {
            self.key = Some(candidate.to_vec());
            self.cut = None;
        }
        is_it
    }

    /// How many rows of an item are done; `None` if all are.
    pub(super) fn rows_done(&self, candidate: &[u8], number: u64) -> Option<u64> {
        let Some(key) = &self.key else { return Some(0) };
        // A cut key that was not found again: rather show a row twice than lose one.
        if self.cut.is_some() && candidate.starts_with(key) {
            return Some(0);
        }
        match (candidate, number).cmp(&(key.as_slice(), self.number)) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => (self.rows < u64::MAX).then_some(self.rows),
            std::cmp::Ordering::Greater => Some(0),
        }
    }

    /// As a position, for a page that came no further.
    pub(super) fn to_at(&self) -> At {
        match &self.key {
            Some(key) => {
                At::Key { key: key.clone(), cut: self.cut, number: self.number, rows: self.rows }
            }
            None => At::Start,
        }
    }
}
