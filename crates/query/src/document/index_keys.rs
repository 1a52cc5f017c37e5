//! The keys under which an ordered index has a document, and the key by which it is sorted.
//!
//! A key has an encoded value for each column ([`model::order`], BSON order; descending columns
//! complemented). Where arrays are on the way of a path, a document has several keys:
//!
//! - one for each element of an array at the end of a path, and one for the array as a whole, which
//!   lies behind all values ([`WHOLE_ARRAY`]) so that a scan in order passes by;
//! - for an empty array, *undefined*; for a missing value, null, which sorts and is unique with it;
//! - columns that lead through the same array have their values from the same element. Two arrays
//!   side by side are refused, since their keys would be all pairs.

use model::json::FieldMask;
use model::order::{self, TypeOrder};
use model::{Object, Value};
use serde::{Deserialize, Serialize};

use super::{Failure, FieldPath, PathPart, Predicate, Variables, code, types};

/// The first byte of an array as a whole, above that of every value. Complemented it is below all.
pub const WHOLE_ARRAY: u8 = 0xF8;
/// Above the first byte of every key. A store may mark an index there.
pub const ABOVE_KEYS: u8 = 0xFF;
/// Most columns of an index (MongoDB's limit).
pub const COLUMNS_MAX: usize = 32;
/// Most keys of one document (MongoDB's limit).
pub const KEYS_MAX: usize = 100_000;
/// Most bytes of the keys of one document.
const KEY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// CannotIndexParallelArrays.
const PARALLEL_ARRAYS: i32 = 171;
/// Too many keys for one document.
const TOO_MANY_KEYS: i32 = 13064;
/// An array where a hashed column has its value.
const HASHED_ARRAY: i32 = 16766;

mod partial;

pub use partial::PartialFilter;

/// How a column holds its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ColumnKind {
    /// Least first.
    Ascending,
    /// Greatest first.
    Descending,
    /// By a hash; it serves equality alone.
    Hashed,
}

/// A column of an index, or a key of a sort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexColumn {
    /// Where its values are.
    pub path: FieldPath,
    /// How they are held.
    pub kind: ColumnKind,
}

/// Which keys an index has.
#[derive(Clone, Debug)]
pub struct OrderedIndex {
    /// Its columns, the first of which decides first.
    pub columns: Vec<IndexColumn>,
    /// Whether documents without any of the values are left out.
    pub is_sparse: bool,
    /// The filter of the documents that it has; all if there is none.
    pub partial: Option<Predicate>,
}

/// The keys of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexKeys {
    /// In order, without repetitions. None if the index leaves the document out.
    pub keys: Vec<Vec<u8>>,
    /// A bit for each column whose path led to or through an array, the lowest for the first.
    pub multikey: u64,
}

impl OrderedIndex {
    /// The keys of `document`.
    pub fn keys(&self, document: &Value) -> Result<IndexKeys, Failure> {
        if !self.has(document) {
            return Ok(IndexKeys::default());
        }
        let tuples = Tuples::of(document, &self.columns).map_err(|error| match error {
            TuplesError::Parallel(a, b) => {
                let message = format!("cannot index parallel arrays [{b}] [{a}]");
                Failure::new(PARALLEL_ARRAYS, message)
            }
            TuplesError::TooMany => too_many(),
        })?;
        let is_missing =
            |tuple: &Tuple<'_>| tuple.iter().all(|(_, slot)| matches!(slot, Slot::Missing));
        if self.is_sparse && tuples.tuples.iter().all(is_missing) {
            return Ok(IndexKeys::default());
        }
        let mut keys = Vec::with_capacity(tuples.tuples.len());
        let mut bytes = 0;
        for tuple in &tuples.tuples {
            let key = self.encode(tuple)?;
            bytes += key.len();
            if bytes > KEY_BYTES_MAX {
                return Err(too_many());
            }
            keys.push(key);
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(IndexKeys { keys, multikey: tuples.multikey })
    }

    /// Whether the filter of the index accepts a document.
    fn has(&self, document: &Value) -> bool {
        let accepts = |filter: &Predicate| {
            let now = model::Date { millis: 0, ticks: 0 };
            filter.matches(document, &Variables::at(now)).unwrap_or(false)
        };
        self.partial.as_ref().is_none_or(accepts)
    }

    /// The values of the columns that `document` has under one of its keys: *undefined* for an empty
    /// array, null for what is missing.
    pub fn values_of(&self, document: &Value, key: &[u8]) -> Option<Vec<Value>> {
        let tuples = Tuples::of(document, &self.columns).ok()?.tuples;
        let tuple = tuples.iter().find(|t| self.encode(t).is_ok_and(|own| own == key))?;
        let values = tuple.iter().map(|(_, slot)| slot.value().unwrap_or(&Value::Undefined));
        Some(values.cloned().collect())
    }

    /// Adds what has to be read of a document for its keys.
    pub fn require(&self, mask: &mut FieldMask) {
        self.columns.iter().for_each(|column| column.path.require(mask));
        if let Some(filter) = &self.partial {
            filter.require(mask);
        }
    }

    fn encode(&self, tuple: &Tuple<'_>) -> Result<Vec<u8>, Failure> {
        let mut key = Vec::with_capacity(16 * self.columns.len());
        for (column, (_, slot)) in self.columns.iter().zip(tuple) {
            let from = key.len();
            match column.kind {
                ColumnKind::Ascending => slot.encode(&mut key),
                ColumnKind::Descending => {
                    slot.encode(&mut key);
                    complement(&mut key[from..]);
                }
                ColumnKind::Hashed => slot.encode_hashed(&mut key)?,
            }
        }
        Ok(key)
    }

    /// The key that comes first among those of `document` in a scan of the columns from `first` on,
    /// in the order of the index or the opposite one.
    pub fn first_key(
        &self,
        document: &Value,
        first: usize,
        is_reverse: bool,
    ) -> Result<FirstKey, Failure> {
        let columns: Vec<IndexColumn> = self
            .columns
            .iter()
            .skip(first)
            .map(|column| IndexColumn {
                kind: if is_reverse { column.kind.opposite() } else { column.kind },
                path: column.path.clone(),
            })
            .collect();
        let (mut stored, mut sorted) = (Vec::new(), Vec::new());
        for (column, value) in columns.iter().zip(sort_values(document, &columns)?) {
            let (stored_from, sorted_from) = (stored.len(), sorted.len());
            order::encode(TypeOrder::Bson, value.as_ref(), &mut stored);
            order::encode_whole(TypeOrder::Bson, value.as_ref(), &mut sorted);
            let is_descending = column.kind == ColumnKind::Descending;
            if is_descending {
                complement(&mut sorted[sorted_from..]);
            }
            if is_descending != is_reverse {
                complement(&mut stored[stored_from..]);
            }
        }
        Ok(FirstKey { stored, sorted })
    }
}

/// A key of a document, as a scan finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstKey {
    /// As the index holds it.
    pub stored: Vec<u8>,
    /// In full length, in the order of the scan.
    pub sorted: Vec<u8>,
}

impl ColumnKind {
    /// The opposite direction.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            ColumnKind::Ascending => ColumnKind::Descending,
            ColumnKind::Descending => ColumnKind::Ascending,
            ColumnKind::Hashed => ColumnKind::Hashed,
        }
    }
}

/// The values by which `document` is sorted: of all that its arrays lead to, those that come first.
/// `None` is below null, and stands for an empty array; a missing value is null.
pub fn sort_values(
    document: &Value,
    columns: &[IndexColumn],
) -> Result<Vec<Option<Value>>, Failure> {
    let tuples = Tuples::of(document, columns).map_err(|error| match error {
        TuplesError::Parallel(..) => {
            Failure::new(code::BAD_VALUE, "cannot sort with keys that are parallel arrays")
        }
        TuplesError::TooMany => too_many(),
    })?;
    let is_sorted_by =
        |tuple: &&Tuple<'_>| tuple.iter().all(|(_, slot)| !matches!(slot, Slot::Whole(_)));
    let first = tuples.tuples.iter().filter(is_sorted_by).min_by(|a, b| {
        let mut pairs = columns.iter().zip(a.iter().zip(b.iter()));
        let orderings = pairs.by_ref().map(|(column, ((_, a), (_, b)))| {
            let ordering = types::compare(a.value(), b.value());
            match column.kind {
                ColumnKind::Descending => ordering.reverse(),
                ColumnKind::Ascending | ColumnKind::Hashed => ordering,
            }
        });
        orderings.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
    let values = |tuple: &Tuple<'_>| tuple.iter().map(|(_, slot)| slot.value().cloned()).collect();
    Ok(first.map_or_else(|| vec![Some(Value::Null); columns.len()], values))
}

fn too_many() -> Failure {
    Failure::new(TOO_MANY_KEYS, "too many index keys would be generated for the document")
}

/// Turns encodings into those of the opposite order.
pub(super) fn complement(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
}

/// What a document has for a column.
#[derive(Clone, Copy, Debug)]
enum Slot<'v> {
    Value(&'v Value),
    /// An array with all of its elements.
    Whole(&'v Value),
    /// An array without elements.
    Empty,
    Missing,
}

impl<'v> Slot<'v> {
    /// The value that stands for it in the order; `None` is below null.
    fn value(self) -> Option<&'v Value> {
        match self {
            Slot::Value(value) | Slot::Whole(value) => Some(value),
            Slot::Empty => None,
            Slot::Missing => Some(&Value::Null),
        }
    }

    fn encode(self, out: &mut Vec<u8>) {
        if let Slot::Whole(_) = self {
            out.push(WHOLE_ARRAY);
        }
        order::encode(TypeOrder::Bson, self.value(), out);
    }

    fn encode_hashed(self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let hash = match self {
            Slot::Value(value) if !matches!(value, Value::Array(_)) => hash_of(value),
            Slot::Missing => hash_of(&Value::Null),
            Slot::Value(_) | Slot::Whole(_) | Slot::Empty => {
                let message = "hashed indexes do not currently support array values";
                return Err(Failure::new(HASHED_ARRAY, message));
            }
        };
        out.extend_from_slice(&hash);
        Ok(())
    }
}

/// What a hashed column holds of a value: a tag that no mark has, and the hash.
pub(super) fn hash_of(value: &Value) -> [u8; 9] {
    const HASH: u8 = 0x01;
    let mut out = [HASH; 9];
    // Undefined and null are one class of filters.
    let value = if matches!(value, Value::Undefined) { &Value::Null } else { value };
    let mut encoded = Vec::new();
    order::encode(TypeOrder::Bson, Some(value), &mut encoded);
    let hash = model::hash::murmur3_x64_128(&encoded, 0).to_be_bytes();
    for (to, from) in out.iter_mut().skip(1).zip(hash) {
        *to = from;
    }
    out
}

/// A slot for each column, with the number of the column.
type Tuple<'v> = Vec<(usize, Slot<'v>)>;

/// What a document has for the columns of an index.
struct Tuples<'v> {
    tuples: Vec<Tuple<'v>>,
    multikey: u64,
}

enum TuplesError {
    /// The names of two arrays side by side.
    Parallel(String, String),
    TooMany,
}

/// A column by its number, and what is left of its path.
type Rest<'p> = (usize, &'p [PathPart]);

impl<'v> Tuples<'v> {
    fn of(document: &'v Value, columns: &[IndexColumn]) -> Result<Self, TuplesError> {
        let rests: Vec<Rest<'_>> =
            columns.iter().map(|column| column.path.parts()).enumerate().collect();
        let mut traversal = Traversal { multikey: 0 };
        let Some(object) = document.as_object() else {
            return Ok(Self { tuples: vec![missing(&rests)], multikey: 0 });
        };
        let found = traversal.object(object, &rests)?;
        let mut tuples = found.tuples;
        tuples.iter_mut().for_each(|tuple| tuple.sort_by_key(|(column, _)| *column));
        Ok(Self { tuples, multikey: traversal.multikey })
    }
}

fn missing<'v>(rests: &[Rest<'_>]) -> Tuple<'v> {
    rests.iter().map(|(column, _)| (*column, Slot::Missing)).collect()
}

struct Traversal {
    multikey: u64,
}

/// The tuples of some columns, and whether they come from an array.
struct Found<'v> {
    tuples: Vec<Tuple<'v>>,
    has_array: bool,
}

impl Found<'_> {
    fn one(tuple: Tuple<'_>) -> Found<'_> {
        Found { tuples: vec![tuple], has_array: false }
    }
}

impl Traversal {
    fn object<'v>(
        &mut self,
        object: &'v Object,
        rests: &[Rest<'_>],
    ) -> Result<Found<'v>, TuplesError> {
        let mut all = Found::one(Vec::new());
        let mut array_name: Option<&str> = None;
        let mut left: Vec<Rest<'_>> = rests.to_vec();
        while let Some((_, parts)) = left.first() {
            let Some((first, _)) = parts.split_first() else {
                // The path of the value itself; documents have none.
                let (column, _) = left.remove(0);
                all.tuples.iter_mut().for_each(|tuple| tuple.push((column, Slot::Missing)));
                continue;
            };
            let is_same =
                |(_, parts): &Rest<'_>| parts.first().is_some_and(|p| p.name == first.name);
            let (same, others) = left.iter().partition::<Vec<_>, _>(|rest| is_same(rest));
            let deeper: Vec<Rest<'_>> =
                same.iter().map(|(c, parts)| (*c, parts.get(1..).unwrap_or_default())).collect();
            let found = self.value(object.get(&first.name), &deeper)?;
            if found.has_array {
                if let Some(other) = array_name {
                    return Err(TuplesError::Parallel(other.to_owned(), first.name.clone()));
                }
                array_name = Some(&first.name);
            }
            all = joined(all, found)?;
            left = others;
        }
        Ok(all)
    }

    fn value<'v>(
        &mut self,
        value: Option<&'v Value>,
        rests: &[Rest<'_>],
    ) -> Result<Found<'v>, TuplesError> {
        let Some(value) = value else { return Ok(Found::one(missing(rests))) };
        if let Value::Array(elements) = value {
            return self.array(value, elements, rests);
        }
        let (ending, deeper): (Vec<Rest<'_>>, Vec<Rest<'_>>) =
            rests.iter().partition(|(_, parts)| parts.is_empty());
        let ending = ending.iter().map(|(column, _)| (*column, Slot::Value(value))).collect();
        let below = match value.as_object() {
            Some(object) => self.object(object, &deeper)?,
            None => Found::one(missing(&deeper)),
        };
        joined(Found::one(ending), below)
    }

    fn array<'v>(
        &mut self,
        array: &'v Value,
        elements: &'v [Value],
        rests: &[Rest<'_>],
    ) -> Result<Found<'v>, TuplesError> {
        rests.iter().for_each(|(column, _)| self.multikey |= 1 << (column % 64));
        let (ending, deeper): (Vec<Rest<'_>>, Vec<Rest<'_>>) =
            rests.iter().partition(|(_, parts)| parts.is_empty());
        let all_as = |slot: Slot<'v>| -> Tuple<'v> {
            ending.iter().map(|(column, _)| (*column, slot)).collect()
        };
        let mut tuples = Vec::with_capacity(elements.len() + 1);
        for element in elements {
            let below = match element.as_object() {
                Some(object) => self.object(object, &deeper)?,
                None => Found::one(missing(&deeper)),
            };
            if !ending.is_empty() && !deeper.is_empty() {
                let whole = Found::one(all_as(Slot::Whole(array)));
                let below = Found { tuples: below.tuples.clone(), has_array: false };
                tuples.extend(joined(whole, below)?.tuples);
            }
            tuples.extend(joined(Found::one(all_as(Slot::Value(element))), below)?.tuples);
            if tuples.len() > KEYS_MAX {
                return Err(TuplesError::TooMany);
            }
        }
        if elements.is_empty() {
            let below = Found::one(missing(&deeper));
            tuples.extend(joined(Found::one(all_as(Slot::Empty)), below)?.tuples);
        }
        if !ending.is_empty() && (deeper.is_empty() || elements.is_empty()) {
            let below = Found::one(missing(&deeper));
            tuples.extend(joined(Found::one(all_as(Slot::Whole(array))), below)?.tuples);
        }
        for (column, parts) in deeper {
            self.add_position(elements, (column, parts), &mut tuples)?;
        }
        Ok(Found { tuples, has_array: true })
    }

    /// Adds the tuples in which a column has what it finds at the position that its path names.
    fn add_position<'v>(
        &mut self,
        elements: &'v [Value],
        (column, parts): Rest<'_>,
        tuples: &mut Vec<Tuple<'v>>,
    ) -> Result<(), TuplesError> {
        let Some((first, rest)) = parts.split_first() else { return Ok(()) };
        let Some(element) = first.position.and_then(|at| elements.get(at)) else { return Ok(()) };
        let found = self.value(Some(element), &[(column, rest)])?;
        let mut added = Vec::new();
        for tuple in tuples.iter() {
            for at_position in &found.tuples {
                let others = tuple.iter().filter(|(other, _)| *other != column);
                added.push(others.chain(at_position).copied().collect());
            }
            if tuples.len() + added.len() > KEYS_MAX {
                return Err(TuplesError::TooMany);
            }
        }
        tuples.extend(added);
        Ok(())
    }
}

/// Each tuple of one side with each of the other.
fn joined<'v>(a: Found<'v>, b: Found<'v>) -> Result<Found<'v>, TuplesError> {
    if a.tuples.len().saturating_mul(b.tuples.len()) > KEYS_MAX {
        return Err(TuplesError::TooMany);
    }
    let has_array = a.has_array || b.has_array;
    let pair = |a: &Tuple<'v>, b: &Tuple<'v>| a.iter().chain(b).copied().collect();
    let tuples = a.tuples.iter().flat_map(|a| b.tuples.iter().map(move |b| pair(a, b))).collect();
    Ok(Found { tuples, has_array })
}

#[cfg(test)]
pub(super) mod tests;
