//! The index entries of an item.
//!
//! A *term* is an index key without the number of its item at the end:
//!
//! - one per value at an indexed path: the path, then the value in its order-preserving form.
//!   Arrays and objects are their tag alone, their insides have terms of their own.
//! - one per composite index: the values of its columns, *undefined* where there is none.
//! - one per word of a text at a path with a full-text index, one for the text itself, one for a
//!   vector at a path with a vector index, and one for the cell that it lies in. These have a
//!   *payload*, which stands in the value of the entry.
//! - one per cell of space that a geometry at a spatially indexed path lies in.
//! - one per key of an ordered index ([`query::document::index_keys`]), and one for each of its
//!   columns that led through an array, behind all keys.
//! - one for the item's *shape*, that is which of its indexed paths have a value (those in arrays
//!   aside). Items of one shape lie together, so those without a value at a path are found though
//!   they have no term for it.

use bytes::Bytes;
use model::Value;
use model::order;
use query::document::index_keys::IndexKeys;
use query::functions::spatial::Geospatial;

use super::path::PathHash;
use super::policy::{Composite, PathCursor};
use super::{Index, TERM_ORDER};
use crate::{Error, keys};

/// Terms in order, without duplicates, in one piece of memory. The terms of several policies may
/// have several payloads for one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    bytes: Vec<u8>,
    /// Each term's start, the start of its payload, and its end.
    spans: Vec<Span>,
    /// Terms that hold the time of the item's last change.
    timed: Vec<TimedTerm>,
}

type Span = (u32, u32, u32);

/// One of [`Terms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Term<'t> {
    key: &'t [u8],
    payload: &'t [u8],
}

impl Term<'_> {
    /// The key of the entry of the item with this number.
    pub(crate) fn entry(&self, number: u64) -> Bytes {
        keys::index_entry(self.key, number)
    }

    /// The value of the entry of the item with this identity.
    pub(crate) fn value(&self, identity: &Bytes) -> Bytes {
        match self.payload {
            [] => identity.clone(),
            payload => keys::entry_value(identity, payload),
        }
    }

    /// The length of that value.
    pub(crate) fn value_len(&self, identity: usize) -> usize {
        match self.payload {
            [] => identity,
            payload => 2 + identity + payload.len(),
        }
    }
}

/// A term that is complete once the time of its item's last change is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TimedTerm {
    before: Vec<u8>,
    is_descending: bool,
    after: Vec<u8>,
}

impl Terms {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Term<'_>> {
        self.spans.iter().map(|span| term_at(&self.bytes, *span))
    }

    /// Ends the term that began at `from` and has no payload.
    pub(super) fn end(&mut self, from: usize) {
        self.end_with_payload(from, self.bytes.len());
    }

    /// Ends the term that began at `from` and whose payload began at `payload`.
    pub(super) fn end_with_payload(&mut self, from: usize, payload: usize) {
        // An item has at most 2 MB, and its terms not much more per byte.
        let span = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        self.spans.push((span(from), span(payload), span(self.bytes.len())));
    }

    pub(super) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn push(&mut self, term: Term<'_>) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(term.key);
        let payload = self.bytes.len();
        self.bytes.extend_from_slice(term.payload);
        self.end_with_payload(from, payload);
    }

    fn sort(&mut self) {
        let Self { bytes, spans, timed: _ } = self;
        let at = |span: &Span| term_at(bytes, *span);
        spans.sort_unstable_by(|a, b| at(a).cmp(&at(b)));
        spans.dedup_by(|a, b| at(a) == at(b));
    }

    /// All terms of both.
    pub(crate) fn union(&self, other: &Terms) -> Terms {
        let mut all = Terms::default();
        for term in self.iter().chain(other.iter()) {
            all.push(term);
        }
        all.sort();
        all
    }

    /// The terms that both have.
    pub(crate) fn common(&self, other: &Terms) -> Terms {
        let others: std::collections::BTreeSet<Term<'_>> = other.iter().collect();
        let mut common = Terms::default();
        for term in self.iter().filter(|term| others.contains(term)) {
            common.push(term);
        }
        common
    }

    /// Passes the terms whose entry is only in `self` to one callback, and those whose entry is
    /// only in `other`, or has another payload there, to the other; each in order.
    pub(crate) fn compare<'t>(
        &'t self,
        other: &'t Terms,
        mut only_here: impl FnMut(Term<'t>),
        mut only_there: impl FnMut(Term<'t>),
    ) {
        let (mut here, mut there) = (self.iter().peekable(), other.iter().peekable());
        loop {
            match (here.peek(), there.peek()) {
                (Some(a), Some(b)) if a.key == b.key => {
                    let (a, b) = (*a, *b);
                    here.next();
                    there.next();
                    // With several payloads it is not known which one is stored.
                    let mut is_same = a.payload == b.payload;
                    while here.next_if(|more| more.key == b.key).is_some() {
                        is_same = false;
                    }
                    if !is_same {
                        only_there(b);
                    }
                }
                (Some(a), b) if b.is_none_or(|b| a.key < b.key) => {
                    let a = *a;
                    only_here(a);
                    while here.next_if(|more| more.key == a.key).is_some() {}
                }
                (_, Some(b)) => {
                    only_there(*b);
                    there.next();
                }
                (_, None) => return,
            }
        }
    }
}

impl Index {
    /// The terms of an item, without the one for the time of its last change, which is known only
    /// when it is stored.
    pub(crate) fn terms(&self, item: &Value) -> Terms {
        // An item that an ordered index refuses has no keys there.
        let keys = self.ordered.iter().map(|index| index.keys(item).unwrap_or_default());
        self.terms_with_keys(item, &keys.collect::<Vec<_>>())
    }

    /// The terms of an item, and what it holds in unique ordered indexes; refused is an item that an
    /// ordered index can't have.
    pub(crate) fn terms_and_held(&self, item: &Value) -> Result<(Terms, Vec<Vec<u8>>), Error> {
        let keys = self.ordered.iter().map(|index| index.keys(item));
        let keys: Vec<IndexKeys> = keys.collect::<Result<_, _>>()?;
        let pairs = self.ordered.iter().zip(&keys);
        let held = pairs.flat_map(|(index, keys)| index.unique_values_of(keys)).collect();
        Ok((self.terms_with_keys(item, &keys), held))
    }

    fn terms_with_keys(&self, item: &Value, keys: &[IndexKeys]) -> Terms {
        let mut terms = Terms::default();
        for (index, keys) in self.ordered.iter().zip(keys) {
            index.push_terms(keys, &mut terms);
        }
        if !self.is_on() {
            terms.sort();
            return terms;
        }
        let mut walk = TreeWalk { terms: &mut terms, shape: 0 };
        if let Value::Object(fields) = item {
            let root = self.tree.root();
            for (name, value) in fields.iter() {
                walk.value(value, root.name(name), PathHash::ROOT.name(name), true);
            }
        }
        let shape = walk.shape;
        if !self.policy.is_lean {
            let from = terms.bytes.len();
            keys::push_shape_term(shape, &mut terms.bytes);
            terms.end(from);
            let mut time = Vec::new();
            keys::push_path_term(PathHash::ROOT.name(TIME), &mut time);
            terms.timed.push(TimedTerm { before: time, is_descending: false, after: Vec::new() });
        }
        for composite in &self.policy.composites {
            push_composite(composite, item, &mut terms);
        }
        self.push_searched(item, &mut terms);
        if !self.policy.spatial.is_empty() {
            let root = self.geometries.root();
            push_cells(item, root, PathHash::ROOT, self.policy.space(), &mut terms);
        }
        terms.sort();
        terms
    }

    /// The terms of a stored item that was changed last at `ts`.
    pub(crate) fn terms_at(&self, item: &Value, ts: u64) -> Terms {
        self.terms(item).with_time(ts)
    }
}

impl Terms {
    /// With the terms that hold the time of the last change, which is `ts`.
    pub(crate) fn with_time(mut self, ts: u64) -> Self {
        for term in std::mem::take(&mut self.timed) {
            let from = self.bytes.len();
            self.bytes.extend_from_slice(&term.before);
            let ts = Value::Int64(ts.cast_signed());
            push_column(Some(&ts), term.is_descending, &mut self.bytes);
            self.bytes.extend_from_slice(&term.after);
            self.end(from);
            self.move_last_into_order();
        }
        self
    }

    /// Puts the last term where it belongs among the others, which are in order. The committer does
    /// this for every version, so it must not sort them all.
    fn move_last_into_order(&mut self) {
        let Self { bytes, spans, timed: _ } = self;
        let Some(last) = spans.pop() else { return };
        let term = term_at(bytes, last);
        if let Err(at) = spans.binary_search_by(|span| term_at(bytes, *span).cmp(&term)) {
            spans.insert(at, last);
        }
    }
}

fn term_at(bytes: &[u8], (from, payload, to): Span) -> Term<'_> {
    let (from, payload, to) = (from as usize, payload as usize, to as usize);
    Term { key: &bytes[from..payload], payload: &bytes[payload..to] }
}

struct TreeWalk<'t> {
    terms: &'t mut Terms,
    shape: u64,
}

impl TreeWalk<'_> {
    fn value(&mut self, value: &Value, at: PathCursor<'_>, path: PathHash, is_in_shape: bool) {
        if at.is_over() {
            return;
        }
        if at.includes_value() {
            let from = self.terms.bytes.len();
            push_value_term(path, value, &mut self.terms.bytes);
            self.terms.end(from);
            if is_in_shape {
                // A sum does not depend on the order of the paths.
                self.shape = self.shape.wrapping_add(path.number());
            }
        }
        if let Value::Object(fields) = value {
            for (name, value) in fields.iter() {
                self.value(value, at.name(name), path.name(name), is_in_shape);
            }
        } else if let Value::Array(elements) = value {
            for element in elements {
                self.value(element, at.elements(), path.elements(), false);
            }
        }
    }
}

fn push_value_term(path: PathHash, value: &Value, out: &mut Vec<u8>) {
    keys::push_path_term(path, out);
    match matches!(value, Value::Array(_) | Value::Object(_)) {
        true => out.push(order::tag(TERM_ORDER, Some(value))),
        false => order::encode(TERM_ORDER, Some(value), out),
    }
}

/// Adds the cells of all geometries in a value, by their paths.
fn push_cells(
    value: &Value,
    at: PathCursor<'_>,
    path: PathHash,
    space: Geospatial,
    terms: &mut Terms,
) {
    if at.is_over() {
        return;
    }
    if let Value::Object(fields) = value {
        if at.includes_value() {
            for cell in space.cells_of(value) {
                let from = terms.bytes.len();
                keys::push_path_term(path.cells(space), &mut terms.bytes);
                terms.bytes.extend_from_slice(&cell.to_bytes());
                terms.end(from);
            }
        }
        for (name, value) in fields.iter() {
            push_cells(value, at.name(name), path.name(name), space, terms);
        }
    } else if let Value::Array(elements) = value {
        for element in elements {
            push_cells(element, at.elements(), path.elements(), space, terms);
        }
    }
}

fn push_composite(composite: &Composite, item: &Value, terms: &mut Terms) {
    let from = terms.bytes.len();
    keys::push_composite_term(composite.number(), &mut terms.bytes);
    let mut timed: Option<TimedTerm> = None;
    for column in &composite.columns {
        let is_time = column.path.len() == 1 && column.path[0] == TIME;
        if is_time && timed.is_none() {
            let before = terms.bytes.split_off(from);
            let is_descending = column.is_descending;
            timed = Some(TimedTerm { before, is_descending, after: Vec::new() });
            continue;
        }
        let value = column.path.iter().try_fold(item, |at, name| at.field(name));
        push_column(value, column.is_descending, &mut terms.bytes);
    }
    match timed {
        Some(mut timed) => {
            timed.after = terms.bytes.split_off(from);
            terms.timed.push(timed);
        }
        None => terms.end(from),
    }
}

fn push_column(value: Option<&Value>, is_descending: bool, out: &mut Vec<u8>) {
    let from = out.len();
    order::encode(TERM_ORDER, value, out);
    if is_descending {
        out[from..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// The only system property that is indexed.
pub(crate) const TIME: &str = "_ts";
