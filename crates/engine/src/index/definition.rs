//! Ordered indexes of collections: how they are defined, and the entries of a document.
//!
//! An index has a number, made of what decides about its keys. Its entries are its number, a key
//! ([`query::document::index_keys`]) and the number of the item. Behind all keys it has an entry for
//! each column of a document whose path led through an array, so that a query finds with one seek
//! whether a column is *multikey*: that is true as long as a document makes it so.

use model::hash::murmur3_x64_128;
use model::order::{self, TypeOrder};
use model::{Date, PartitionId, Value};
use query::document::index_keys::{
    ABOVE_KEYS, ColumnKind, IndexColumn, IndexKeys, OrderedIndex, PartialFilter,
};
use query::document::{FieldPath, Predicate};
use serde::{Deserialize, Serialize};
use storage::{Dir, KeyRange, View};

use super::Terms;
use crate::error::IndexViolation;
use crate::{Error, keys};

/// An ordered index of a collection, as its owner defined it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderedIndexSpec {
    /// Its name, unique within the collection.
    pub name: String,
    /// Its columns, the first of which decides first.
    pub columns: Vec<OrderedColumn>,
    /// Whether no two documents of a logical partition may have the same key.
    pub is_unique: bool,
    /// Whether documents without any of the values are left out.
    pub is_sparse: bool,
    /// The filter of the documents that it has; all if there is none.
    pub partial: Option<PartialFilter>,
    /// Whether queries do without it.
    pub is_hidden: bool,
    /// Seconds after the date in its only column at which a document expires.
    pub expire_after_seconds: Option<u32>,
    /// The definition as it was given, a document in BSON, for listings.
    pub shown: Vec<u8>,
}

/// A column of an ordered index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderedColumn {
    /// Names separated by dots.
    pub path: String,
    /// How the values are held.
    pub kind: ColumnKind,
}

impl OrderedIndexSpec {
    /// Whether documents have the same keys in both.
    pub(crate) fn has_keys_of(&self, other: &Self) -> bool {
        let Self { columns, is_unique, is_sparse, partial, .. } = self;
        (columns, is_unique, is_sparse, partial)
            == (&other.columns, &other.is_unique, &other.is_sparse, &other.partial)
    }

    /// Distinguishes its entries from those of other indexes.
    fn number(&self) -> u64 {
        let keys = (&self.columns, self.is_sparse, &self.partial);
        // The types of a definition have no value that JSON lacks.
        let bytes = serde_json::to_vec(&keys).unwrap_or_default();
        murmur3_x64_128(&bytes, 0).to_be_bytes().first_chunk().map_or(0, |n| u64::from_be_bytes(*n))
    }
}

/// An ordered index, ready to be applied.
#[derive(Clone, Debug)]
pub(crate) struct CompiledIndex {
    pub(crate) spec: OrderedIndexSpec,
    pub(crate) number: u64,
    pub(crate) index: OrderedIndex,
}

/// A key that two documents would have in a unique index.
#[derive(Clone, Debug, PartialEq)]
pub struct DuplicateKey {
    /// The name of the index.
    pub index: String,
    /// Its columns, each with the value of the document that was to be stored.
    pub values: Vec<(String, Value)>,
}

impl CompiledIndex {
    pub(crate) fn of(spec: &OrderedIndexSpec) -> Self {
        let column = |column: &OrderedColumn| IndexColumn {
            path: FieldPath::parse(&column.path),
            kind: column.kind,
        };
        let filter = |filter: &PartialFilter| {
            // What can't be read accepts nothing; it was read when the index was defined.
            filter.to_predicate().unwrap_or(Predicate::Constant(false))
        };
        let index = OrderedIndex {
            columns: spec.columns.iter().map(column).collect(),
            is_sparse: spec.is_sparse,
            partial: spec.partial.as_ref().map(filter),
        };
        Self { number: spec.number(), index, spec: spec.clone() }
    }

    /// What the keys of its entries begin with.
    pub(crate) fn prefix(&self) -> Vec<u8> {
        let mut prefix = Vec::with_capacity(9);
        keys::push_ordered_term(self.number, &mut prefix);
        prefix
    }

    /// Adds the terms of a document with these keys.
    pub(super) fn push_terms(&self, IndexKeys { keys, multikey }: &IndexKeys, terms: &mut Terms) {
        let prefix = self.prefix();
        let mut push = |key: &[u8]| {
            let bytes = terms.bytes_mut();
            let from = bytes.len();
            bytes.extend_from_slice(&prefix);
            bytes.extend_from_slice(key);
            terms.end(from);
        };
        keys.iter().for_each(|key| push(key));
        let columns = (0..64_u8).filter(|column| multikey >> column & 1 == 1);
        columns.for_each(|column| push(&[ABOVE_KEYS, column]));
    }

    /// The keys of a document, which is refused if the index can't have it.
    pub(super) fn keys(&self, document: &Value) -> Result<IndexKeys, Error> {
        self.index.keys(document).map_err(|failure| {
            IndexViolation::NoKeys { index: self.spec.name.clone(), failure }.into()
        })
    }

    /// Which columns have led through arrays of documents that are stored now.
    pub(crate) fn multikey(&self, view: &dyn View, partition: PartitionId) -> Result<u64, Error> {
        let mut columns = 0;
        let mut from = [self.prefix().as_slice(), &[ABOVE_KEYS]].concat();
        let end = keys::successor(&from);
        loop {
            let mut cursor = view.scan(partition, KeyRange::half_open(&from, &end), Dir::Fwd)?;
            let Some((key, _)) = cursor.next()? else { return Ok(columns) };
            let Some(column) = key.get(self.prefix().len() + 1) else { return Ok(columns) };
            columns |= 1_u64 << (column % 64);
            from = [self.prefix().as_slice(), &[ABOVE_KEYS, column.saturating_add(1)]].concat();
        }
    }

    /// The bounds of the entries of documents that have expired at a moment, in milliseconds; `None`
    /// if documents don't expire by this index.
    pub(crate) fn expired_bounds(&self, now: i64) -> Option<(Vec<u8>, Vec<u8>)> {
        let seconds = i64::from(self.spec.expire_after_seconds?);
        let [column] = self.spec.columns.as_slice() else { return None };
        let last = Value::Date(Date { millis: now.saturating_sub(seconds * 1000), ticks: 0 });
        let mut encoded = Vec::with_capacity(16);
        order::encode(TypeOrder::Bson, Some(&last), &mut encoded);
        let dates = encoded.get(..1).unwrap_or_default().to_vec();
        let with = |bytes: &[u8]| [self.prefix().as_slice(), bytes].concat();
        match column.kind {
            ColumnKind::Ascending => Some((with(&dates), keys::successor(&with(&encoded)))),
            ColumnKind::Descending => {
                let complement = |bytes: &[u8]| bytes.iter().map(|byte| !byte).collect::<Vec<u8>>();
                let all = keys::successor(&with(&complement(&dates)));
                Some((with(&complement(&encoded)), all))
            }
            ColumnKind::Hashed => None,
        }
    }

    /// The values that a document holds, if the index is unique: each a number and a key.
    pub(crate) fn unique_values(&self, document: &Value) -> Vec<Vec<u8>> {
        match self.spec.is_unique {
            true => self.unique_values_of(&self.index.keys(document).unwrap_or_default()),
            false => Vec::new(),
        }
    }

    /// As [`CompiledIndex::unique_values`], of a document with these keys.
    pub(super) fn unique_values_of(&self, keys: &IndexKeys) -> Vec<Vec<u8>> {
        let keys = keys.keys.iter().filter(|_| self.spec.is_unique);
        keys.map(|key| [self.number.to_be_bytes().as_slice(), key].concat()).collect()
    }

    /// What to say of a document that would hold a value which another one holds; `None` if the
    /// value is not one of this index.
    fn duplicate(&self, document: &Value, value: &[u8]) -> Option<DuplicateKey> {
        let key = value.strip_prefix(&self.number.to_be_bytes()).filter(|_| self.spec.is_unique)?;
        let values = self.index.values_of(document, key)?;
        let names = self.spec.columns.iter().map(|column| column.path.clone());
        Some(DuplicateKey { index: self.spec.name.clone(), values: names.zip(values).collect() })
    }
}

/// The error of a document that would hold a value which another one holds.
pub(crate) fn duplicate_of(indexes: &[CompiledIndex], document: &Value, value: &[u8]) -> Error {
    let duplicate = indexes.iter().find_map(|index| index.duplicate(document, value));
    duplicate
        .map_or(Error::UniqueKeyViolation, |duplicate| IndexViolation::Duplicate(duplicate).into())
}
