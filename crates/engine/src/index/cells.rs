//! Cells: groups of nearby vectors that lie together in the index, so that the vectors near a given
//! one are found in a few cells.
//!
//! The cells of a path are made once from a sample of its vectors and are part of the container's
//! policy from then on ([`super::train`]). The cells of a vector depend on nothing else, so its
//! entries are written with its item, and are copied with it when a partition is split or merged.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use model::hash::murmur3_x64_128;
use query::vector::VectorMetric;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// How many cells a vector lies in: a vector at the border of two is found in both.
pub(super) const CELLS_PER_VECTOR: usize = 2;
/// In how many groups of cells the nearest ones are searched.
const GROUPS_LOOKED_AT: usize = 4;
/// Sums that are computed in parallel.
const LANES: usize = 16;
/// Largest code of a query vector; its products with bytes fit 32 bits however many there are.
const QUERY_CODE_MAX: f32 = 2047.0;
const CODE_MAX: f32 = 127.0;

/// Rows of numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Matrix {
    pub(super) columns: usize,
    pub(super) numbers: Vec<f32>,
}

impl Matrix {
    pub(super) fn new(columns: usize) -> Self {
        Self { columns: columns.max(1), numbers: Vec::new() }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.numbers.chunks_exact(self.columns)
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len() / self.columns
    }

    pub(super) fn row(&self, at: usize) -> &[f32] {
        &self.numbers[at * self.columns..(at + 1) * self.columns]
    }

    /// The number of the nearest row.
    pub(super) fn nearest(&self, vector: &[f32]) -> usize {
        let far = |row: &[f32]| dot(row, row) / 2.0 - dot(row, vector);
        let rows = self.rows().enumerate().map(|(at, row)| (far(row), at));
        rows.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |(_, at)| at)
    }
}

/// The cells of a path.
#[derive(Debug)]
pub(super) struct CellMap {
    /// Distinguishes these cells from others.
    id: u128,
    /// How many vectors there were when it was made.
    trained_on: u64,
    centres: Matrix,
    /// Half the square of each centre's length.
    halves: Vec<f32>,
    groups: Matrix,
    /// The first cell of each group, and one more than the last of all.
    starts: Vec<usize>,
}

/// The cells of a path. Clones share them.
#[derive(Clone, Debug)]
pub struct Cells(Arc<CellMap>);

impl PartialEq for Cells {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for Cells {}

impl Cells {
    /// Cells around centres, in groups around the centres of `groups`.
    pub(super) fn new(trained_on: u64, groups: &Matrix, cells: &[Matrix]) -> Option<Self> {
        let mut out = Vec::new();
        out.extend_from_slice(&trained_on.to_be_bytes());
        push_count(groups.columns, &mut out);
        push_count(groups.len(), &mut out);
        for (centre, cells) in groups.rows().zip(cells) {
            push_coded(centre, &mut out);
            push_count(cells.len(), &mut out);
            cells.rows().for_each(|cell| push_coded(cell, &mut out));
        }
        // Decodes the encoded form: the numbers in use must be the rounded ones that are stored.
        Self::decode(&out)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let trained_on = u64::from_be_bytes(take(&mut rest)?);
        let columns = take_count(&mut rest)?;
        let count = take_count(&mut rest)?;
        let (mut groups, mut centres) = (Matrix::new(columns), Matrix::new(columns));
        let mut starts = vec![0];
        for _ in 0..count {
            take_coded(&mut rest, columns, &mut groups.numbers)?;
            for _ in 0..take_count(&mut rest)? {
                take_coded(&mut rest, columns, &mut centres.numbers)?;
            }
            starts.push(centres.len());
        }
        if !rest.is_empty() || columns == 0 || centres.len() == 0 {
            return None;
        }
        let halves = centres.rows().map(|row| dot(row, row) / 2.0).collect();
        let id = murmur3_x64_128(bytes, 0);
        Some(Self(Arc::new(CellMap { id, trained_on, centres, halves, groups, starts })))
    }

    fn encode(&self) -> Vec<u8> {
        let map = &self.0;
        let mut out = map.trained_on.to_be_bytes().to_vec();
        push_count(map.groups.columns, &mut out);
        push_count(map.groups.len(), &mut out);
        for (centre, ends) in map.groups.rows().zip(map.starts.windows(2)) {
            push_coded(centre, &mut out);
            push_count(ends[1] - ends[0], &mut out);
            (ends[0]..ends[1]).for_each(|cell| push_coded(map.centres.row(cell), &mut out));
        }
        out
    }

    /// How many vectors there were when they were made.
    pub(crate) fn trained_on(&self) -> u64 {
        self.0.trained_on
    }

    pub(crate) fn len(&self) -> usize {
        self.0.centres.len()
    }

    /// The cells that a vector lies in: the nearest ones in the nearest groups.
    pub(crate) fn of(&self, vector: &[f32]) -> Vec<u32> {
        let map = &self.0;
        let far = |row: &[f32]| dot(row, row) / 2.0 - dot(row, vector);
        let groups = map.groups.rows().enumerate().map(|(at, row)| (far(row), at));
        let groups = best(groups, GROUPS_LOOKED_AT);
        let cells = groups.into_iter().flat_map(|group| map.starts[group]..map.starts[group + 1]);
        let cells = cells.map(|at| (map.halves[at] - dot(map.centres.row(at), vector), at));
        number_cells(best(cells, CELLS_PER_VECTOR))
    }

    /// The cells in which the vectors most similar to a given one lie, the best first.
    pub(crate) fn near(&self, metric: VectorMetric, vector: &[f32], count: usize) -> Vec<u32> {
        let map = &self.0;
        let half = |at: usize| match metric {
            VectorMetric::DotProduct => 0.0,
            VectorMetric::Cosine | VectorMetric::Euclidean => map.halves[at],
        };
        let cells = map.centres.rows().enumerate();
        number_cells(best(cells.map(|(at, row)| (half(at) - dot(row, vector), at)), count))
    }
}

fn number_cells(cells: Vec<usize>) -> Vec<u32> {
    cells.into_iter().filter_map(|at| u32::try_from(at).ok()).collect()
}

/// The numbers of the elements with the least keys.
fn best(keyed: impl Iterator<Item = (f32, usize)>, count: usize) -> Vec<usize> {
    let mut all: Vec<(f32, usize)> = keyed.collect();
    let order = |a: &(f32, usize), b: &(f32, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    if count < all.len() {
        all.select_nth_unstable_by(count, order);
        all.truncate(count);
    }
    all.sort_unstable_by(order);
    all.into_iter().map(|(_, at)| at).collect()
}

/// A vector as it is compared: for cosine similarity only its direction matters.
pub(super) fn directed(metric: VectorMetric, mut vector: Vec<f32>) -> Vec<f32> {
    if metric == VectorMetric::Cosine {
        let length = dot(&vector, &vector).sqrt();
        if length > 0.0 {
            vector.iter_mut().for_each(|number| *number /= length);
        }
    }
    vector
}

pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (left, right) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = left.remainder().iter().zip(right.remainder());
    let rest: f32 = rest.map(|(a, b)| a * b).sum();
    for (a, b) in left.zip(right) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b;
        }
    }
    lanes.iter().sum::<f32>() + rest
}

fn push_count(count: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*first)
}

fn take_count(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(take(rest)?)).ok()
}

/// The numbers as one byte each, behind the factor to multiply them with.
pub(super) fn push_coded(numbers: &[f32], out: &mut Vec<u8>) {
    let scale = scale_of(numbers, CODE_MAX);
    out.extend_from_slice(&scale.to_be_bytes());
    out.extend(numbers.iter().map(|number| code_of(*number, scale).to_be_bytes()[1]));
}

fn take_coded(rest: &mut &[u8], columns: usize, out: &mut Vec<f32>) -> Option<()> {
    let scale = f32::from_be_bytes(take(rest)?);
    let (codes, after) = rest.split_at_checked(columns)?;
    *rest = after;
    out.extend(codes.iter().map(|code| f32::from(code.cast_signed()) * scale));
    Some(())
}

fn scale_of(numbers: &[f32], code_max: f32) -> f32 {
    let most = numbers.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
    if most > 0.0 { most / code_max } else { 1.0 }
}

#[expect(clippy::cast_possible_truncation, reason = "scaled to what fits a code")]
fn code_of(number: f32, scale: f32) -> i16 {
    (number / scale).round() as i16
}

/// A query vector, to be compared with coded vectors.
pub(super) struct CodedQuery {
    codes: Vec<i16>,
    scale: f32,
    metric: VectorMetric,
}

impl CodedQuery {
    pub(super) fn new(metric: VectorMetric, vector: &[f32]) -> Self {
        let scale = scale_of(vector, QUERY_CODE_MAX);
        let codes = vector.iter().map(|number| code_of(*number, scale)).collect();
        Self { codes, scale, metric }
    }

    /// The approximate distance to a coded vector of the given length; less is more similar.
    pub(super) fn distance_to(&self, coded: &[u8], squared_length: f32) -> Option<f32> {
        let mut rest = coded;
        let scale = f32::from_be_bytes(take(&mut rest)?);
        if rest.len() != self.codes.len() {
            return None;
        }
        let product = |(code, other): (&i16, &u8)| {
            i32::from(*code) * i32::from(i16::from(other.cast_signed()))
        };
        let sum: i32 = self.codes.iter().zip(rest).map(product).sum();
        let near = sum as f32 * scale * self.scale;
        Some(match self.metric {
            VectorMetric::DotProduct | VectorMetric::Cosine => -near,
            VectorMetric::Euclidean => squared_length - 2.0 * near,
        })
    }
}

impl Serialize for Cells {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD_NO_PAD.encode(self.encode()))
    }
}

impl<'de> Deserialize<'de> for Cells {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD_NO_PAD.decode(text).ok();
        bytes
            .and_then(|bytes| Self::decode(&bytes))
            .ok_or_else(|| de::Error::custom("the cells of a vector index can't be read"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Cells around the corners of a square, in two groups.
    pub(crate) fn corners() -> Cells {
        let matrix = |rows: &[[f32; 2]]| Matrix { columns: 2, numbers: rows.concat() };
        let left = matrix(&[[-1.0, -1.0], [-1.0, 1.0]]);
        let right = matrix(&[[1.0, -1.0], [1.0, 1.0]]);
        let groups = matrix(&[[-1.0, 0.0], [1.0, 0.0]]);
        Cells::new(4, &groups, &[left, right]).expect("cells")
    }

    #[test]
    fn cells_read_back_as_they_are() {
        let cells = corners();
        let text = serde_json::to_string(&cells).expect("a string");
        let read: Cells = serde_json::from_str(&text).expect("cells");
        assert_eq!(read, cells);
        assert_eq!(serde_json::to_string(&read).expect("a string"), text);
        assert_eq!((read.len(), read.trained_on()), (4, 4));
        assert!(serde_json::from_str::<Cells>(r#""AAAA""#).is_err());
        assert!(serde_json::from_str::<Cells>(r#""?""#).is_err());
    }

    #[test]
    fn a_vector_lies_in_the_nearest_cells() {
        let cells = corners();
        assert_eq!(cells.of(&[0.9, 0.8]), [3, 2]);
        assert_eq!(cells.of(&[-0.9, 0.1]), [1, 0]);
        assert_eq!(cells.near(VectorMetric::Euclidean, &[0.9, 0.8], 1), [3]);
        assert_eq!(cells.near(VectorMetric::DotProduct, &[-5.0, -4.0], 9), [0, 1, 2, 3]);
    }

    #[test]
    fn coded_vectors_are_about_as_far_as_they_were() {
        let (a, b) = ([0.5_f32, -0.25, 1.0], [0.1_f32, 0.9, -0.3]);
        let mut coded = Vec::new();
        push_coded(&b, &mut coded);
        let far = |metric| CodedQuery::new(metric, &a).distance_to(&coded, dot(&b, &b));
        let near = dot(&a, &b);
        let close = |found: Option<f32>, wanted: f32| {
            assert!(found.is_some_and(|found| (found - wanted).abs() < 0.02), "{found:?}");
        };
        close(far(VectorMetric::DotProduct), -near);
        close(far(VectorMetric::Euclidean), dot(&b, &b) - 2.0 * near);
        assert_eq!(CodedQuery::new(VectorMetric::Cosine, &a).distance_to(&coded[..5], 1.0), None);
    }
}
