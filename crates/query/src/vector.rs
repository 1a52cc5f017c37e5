//! Distances of vectors.

use model::Value;
use serde::{Deserialize, Serialize};

use crate::plan::SortOrder;

/// Partial sums that are computed in parallel, so that a processor can vectorize them.
const LANES: usize = 8;

/// How the distance of two vectors is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VectorMetric {
    /// By the cosine of their angle: more is more similar.
    Cosine,
    /// By their dot product: more is more similar.
    DotProduct,
    /// By the length of their difference: less is more similar.
    Euclidean,
}

/// The numbers of an array, in the precision of stored vectors; `None` if it has other elements.
pub fn numbers_of(value: &Value) -> Option<Vec<f32>> {
    value.as_array()?.iter().map(number_of).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "vectors are kept in single precision")]
fn number_of(value: &Value) -> Option<f32> {
    value.as_f64().map(|number| number as f32).filter(|number| number.is_finite())
}

impl VectorMetric {
    /// The metric called `name`, whatever its case.
    pub fn lookup(name: &str) -> Option<Self> {
        let metrics = [
            ("cosine", VectorMetric::Cosine),
            ("dotproduct", VectorMetric::DotProduct),
            ("euclidean", VectorMetric::Euclidean),
        ];
        let found = metrics.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, metric)| metric)
    }

    /// The order in which the most similar vectors come first.
    pub fn best_first(self) -> SortOrder {
        match self {
            VectorMetric::Euclidean => SortOrder::Ascending,
            VectorMetric::Cosine | VectorMetric::DotProduct => SortOrder::Descending,
        }
    }

    /// The similarity or distance of two vectors; `None` if they have different lengths.
    pub fn measure(self, a: &[f32], b: &[f32]) -> Option<f64> {
        if a.len() != b.len() {
            return None;
        }
        Some(match self {
            VectorMetric::DotProduct => dot(a, b),
            VectorMetric::Euclidean => {
                sum_of(a, b, |a, b| (f64::from(a) - f64::from(b)).powi(2)).sqrt()
            }
            VectorMetric::Cosine => {
                let lengths = (dot(a, a) * dot(b, b)).sqrt();
                if lengths > 0.0 { dot(a, b) / lengths } else { 0.0 }
            }
        })
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    sum_of(a, b, |a, b| f64::from(a) * f64::from(b))
}

fn sum_of(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let (left, right) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = left.remainder().iter().zip(right.remainder());
    let rest: f64 = rest.map(|(a, b)| term(*a, *b)).sum();
    for (a, b) in left.zip(right) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += term(*a, *b);
        }
    }
    lanes.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Option<f64>, b: f64) {
        assert!(a.is_some_and(|a| (a - b).abs() < 1e-12), "{a:?} is not {b}");
    }

    #[test]
    fn distances_are_those_of_the_definitions() {
        let (x, y) = ([1.0, 0.0], [0.0, 1.0]);
        close(VectorMetric::Cosine.measure(&x, &y), 0.0);
        close(VectorMetric::Euclidean.measure(&x, &y), 2.0_f64.sqrt());
        close(VectorMetric::DotProduct.measure(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 32.0);
        close(VectorMetric::Cosine.measure(&[0.0, 0.0], &x), 0.0);
        close(VectorMetric::Cosine.measure(&[2.0, 2.0], &[-1.0, -1.0]), -1.0);
        assert_eq!(VectorMetric::Cosine.measure(&x, &[1.0]), None);
    }

    #[test]
    fn long_vectors_are_summed_up_whole() {
        let ones = vec![1.0_f32; 387];
        let steps: Vec<f32> = (0..387_u16).map(f32::from).collect();
        close(VectorMetric::DotProduct.measure(&ones, &steps), f64::from(386 * 387 / 2));
    }

    #[test]
    fn only_arrays_of_numbers_are_vectors() {
        let number = |n| Value::Double(n);
        assert_eq!(
            numbers_of(&Value::Array(vec![number(0.5), Value::Int64(2)])),
            Some(vec![0.5, 2.0])
        );
        assert_eq!(numbers_of(&Value::Array(vec![Value::Null])), None);
        assert_eq!(numbers_of(&Value::Array(vec![number(1e300)])), None);
        assert_eq!(numbers_of(&Value::Null), None);
    }
}
