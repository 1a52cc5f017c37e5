//! The items that a vector index names as the most similar.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use hashbrown::HashSet;
use query::vector::VectorMetric;
use storage::{Dir, KeyRange};

use super::PathHash;
use super::cells::{Cells, CodedQuery, directed, dot};
use super::find::{Finder, Posting};
use super::policy::VectorIndex;
use super::search::path_of;
use super::words::{read, unreadable};
use crate::partition::too_late;
use crate::{Error, keys};

/// How many entries are read between two checks of the clock.
const ENTRIES_PER_CLOCK: u64 = 1024;
/// At most one of this many cells is read.
const CELLS_PER_PROBE: usize = 40;
const PROBES_MIN: usize = 32;
/// After this many cells without a nearer vector, those behind them, which are further away, hardly
/// ever have one. In a model with 100,000 embeddings, this halved the cells and entries that were
/// read, and lost one in 65 of the nearest.
const CELLS_IN_VAIN_MAX: usize = 20;
/// The effort for which these figures hold.
const EFFORT_USUAL: usize = 5;

/// Receives number, identity and payload of an entry.
type Visit<'v> = dyn FnMut(u64, &[u8], &[u8]) -> Result<(), Error> + 'v;

/// Finds the vectors nearest to a given one.
pub(crate) struct VectorFinder<'f> {
    finder: &'f Finder<'f>,
    path: PathHash,
    metric: VectorMetric,
    cells: Option<&'f Cells>,
    /// The query vector, as it is compared.
    vector: Vec<f32>,
}

/// An item and how far its vector is; less is more similar.
#[derive(Clone, Debug)]
pub(crate) struct Neighbor {
    distance: f32,
    pub(crate) posting: Posting,
}

impl<'f> VectorFinder<'f> {
    /// `metric` may differ from that of the index; then cells are not used.
    pub(crate) fn new(
        finder: &'f Finder<'f>,
        index: &'f VectorIndex,
        metric: VectorMetric,
        from: &[f32],
    ) -> Self {
        let cells = index.cells.as_ref().filter(|_| index.metric == metric);
        let vector = directed(metric, from.to_vec());
        Self { finder, path: path_of(&index.path), metric, cells, vector }
    }

    /// At most `count` of the nearest, the nearest first, by reading all vectors.
    pub(crate) fn exact(&self, count: usize) -> Result<Vec<Neighbor>, Error> {
        let mut lo = Vec::new();
        keys::push_vector_term(self.path, &mut lo);
        let hi = keys::successor(&lo);
        let mut found = BinaryHeap::new();
        let mut numbers = Vec::new();
        self.for_each_entry(&lo, &hi, &mut |number, identity, payload| {
            if !self.finder.is_within(identity) {
                return Ok(());
            }
            numbers.clear();
            decode_into(payload, &mut numbers);
            let distance = self.distance_to(&numbers);
            keep(&mut found, count, distance, number, identity);
            Ok(())
        })?;
        Ok(found.into_sorted_vec())
    }

    /// At most `count` of the vectors in the nearest cells, the nearest first by the distances of
    /// their codes; `None` if there are no cells. If only the nearest `decisive` are needed, the
    /// search ends once further cells have none of them.
    pub(crate) fn approximate(
        &self,
        count: usize,
        decisive: Option<usize>,
        effort: u32,
    ) -> Result<Option<Vec<Neighbor>>, Error> {
        let Some(cells) = self.cells else { return Ok(None) };
        let effort = usize::try_from(effort).unwrap_or(EFFORT_USUAL);
        let with_effort = |usual: usize| usual.saturating_mul(effort).div_ceil(EFFORT_USUAL);
        let probes = with_effort((cells.len() / CELLS_PER_PROBE).max(PROBES_MIN));
        let cells_in_vain_max = with_effort(CELLS_IN_VAIN_MAX);
        let mut nearest = NearestDistances::new(decisive.unwrap_or(0));
        let mut cells_in_vain = 0;
        let coded = CodedQuery::new(self.metric, &self.vector);
        let mut found = BinaryHeap::new();
        let mut known: HashSet<u64, foldhash::fast::FixedState> = HashSet::default();
        for cell in cells.near(self.metric, &self.vector, probes) {
            let mut lo = Vec::new();
            keys::push_cell_term(self.path, cell, &mut lo);
            let hi = keys::successor(&lo);
            self.for_each_entry(&lo, &hi, &mut |number, identity, payload| {
                let (length, codes) = payload.split_first_chunk().ok_or_else(unreadable)?;
                let length = f32::from_be_bytes(*length);
                let distance = coded.distance_to(codes, length).ok_or_else(unreadable)?;
                let is_beyond = |last: &Neighbor| is_farther(last, distance, number);
                let is_full = found.len() >= count;
                if is_full && found.peek().is_some_and(is_beyond) {
                    return Ok(());
                }
                if self.finder.is_within(identity) && known.insert(number) {
                    keep(&mut found, count, distance, number, identity);
                    nearest.take(distance);
                }
                Ok(())
            })?;
            cells_in_vain = if nearest.has_changed() { 0 } else { cells_in_vain + 1 };
            if decisive.is_some() && cells_in_vain >= cells_in_vain_max {
                break;
            }
        }
        Ok(Some(found.into_sorted_vec()))
    }

    /// The same items in the order of their exact distances.
    pub(crate) fn measured(&self, found: Vec<Neighbor>) -> Result<Vec<Neighbor>, Error> {
        let mut term = Vec::new();
        keys::push_vector_term(self.path, &mut term);
        let mut measured = Vec::with_capacity(found.len());
        let mut numbers = Vec::new();
        for near in found {
            let key = keys::index_entry(&term, near.posting.number);
            let Some(value) = self.finder.view.get(self.finder.partition, &key)? else { continue };
            let (_, payload) = keys::split_entry(&value).ok_or_else(unreadable)?;
            numbers.clear();
            decode_into(payload, &mut numbers);
            measured.push(Neighbor { distance: self.distance_to(&numbers), posting: near.posting });
        }
        measured.sort_unstable();
        Ok(measured)
    }

    fn distance_to(&self, vector: &[f32]) -> f32 {
        if vector.len() != self.vector.len() {
            return f32::MAX;
        }
        let near = dot(&self.vector, vector);
        match self.metric {
            VectorMetric::DotProduct => -near,
            VectorMetric::Euclidean => dot(vector, vector) - 2.0 * near,
            VectorMetric::Cosine => {
                let length = dot(vector, vector).sqrt();
                if length > 0.0 { -near / length } else { 0.0 }
            }
        }
    }

    fn for_each_entry(&self, lo: &[u8], hi: &[u8], visit: &mut Visit<'_>) -> Result<(), Error> {
        let Finder { view, partition, entries, .. } = *self.finder;
        let mut cursor = view.scan(partition, KeyRange::half_open(lo, hi), Dir::Fwd)?;
        while let Some((key, value)) = cursor.next()? {
            entries.set(entries.get() + 1);
            if entries.get().is_multiple_of(ENTRIES_PER_CLOCK) && (self.finder.is_late)() {
                return Err(too_late());
            }
            let (number, identity, payload) = read(key, value)?;
            visit(number, identity, payload)?;
        }
        Ok(())
    }
}

/// The distances of the nearest few.
struct NearestDistances {
    count: usize,
    /// In ascending order.
    distance: Vec<f32>,
    has_changed: bool,
}

impl NearestDistances {
    fn new(count: usize) -> Self {
        Self { count, distance: Vec::new(), has_changed: false }
    }

    fn take(&mut self, distance: f32) {
        let at = self.distance.partition_point(|known| *known <= distance);
        if at < self.count {
            self.distance.truncate(self.count - 1);
            self.distance.insert(at, distance);
            self.has_changed = true;
        }
    }

    /// Whether a distance was added since the last call.
    fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }
}

fn is_farther(last: &Neighbor, distance: f32, number: u64) -> bool {
    distance.total_cmp(&last.distance).then(number.cmp(&last.posting.number)).is_gt()
}

/// Keeps an item if it is among the `count` nearest so far.
fn keep(
    found: &mut BinaryHeap<Neighbor>,
    count: usize,
    distance: f32,
    number: u64,
    identity: &[u8],
) {
    if found.len() >= count && found.peek().is_none_or(|last| is_farther(last, distance, number)) {
        return;
    }
    found.push(Neighbor { distance, posting: Posting { number, identity: identity.into() } });
    if found.len() > count {
        found.pop();
    }
}

pub(super) fn decode_into(payload: &[u8], out: &mut Vec<f32>) {
    let numbers = payload.chunks_exact(4).filter_map(|bytes| bytes.try_into().ok());
    out.extend(numbers.map(f32::from_be_bytes));
}

impl Ord for Neighbor {
    fn cmp(&self, other: &Self) -> Ordering {
        self.distance
            .total_cmp(&other.distance)
            .then(self.posting.number.cmp(&other.posting.number))
    }
}

impl PartialOrd for Neighbor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Neighbor {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Neighbor {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_change_only_with_what_is_nearer() {
        let mut nearest = NearestDistances::new(2);
        assert!(!nearest.has_changed());
        for (distance, changes) in
            [(5.0, true), (9.0, true), (9.0, false), (10.0, false), (7.0, true), (1.0, true)]
        {
            nearest.take(distance);
            assert_eq!(nearest.has_changed(), changes, "{distance}");
        }
        assert_eq!(nearest.distance, [1.0, 5.0]);
        let mut none = NearestDistances::new(0);
        none.take(1.0);
        assert!(!none.has_changed());
    }
}
