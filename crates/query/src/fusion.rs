//! Combines ranks by several scores.

use std::cmp::Ordering;

use crate::plan::SortOrder;

/// Reduces the difference between the first ranks.
const RANK_CONSTANT: f64 = 60.0;

/// One of the scores that rows are ranked by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Which of its values rank first.
    pub order: SortOrder,
    /// How much it counts.
    pub weight: f64,
}

/// The numbers of rows in the order of their ranks. All rows have the same scores; rows of equal
/// rank keep their order.
///
/// With several scores a row is ranked by each of them, rows with equal scores alike, and rows are
/// ordered by the sum of the reciprocals of their ranks.
pub fn ranked(scores: &[Score], rows: &[Vec<f64>]) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..rows.len()).collect();
    let of = |row: usize, at: usize| rows[row].get(at).copied().unwrap_or(f64::NAN);
    if let [only] = scores {
        numbers.sort_by(|a, b| compare(only.order, of(*a, 0), of(*b, 0)));
        return numbers;
    }
    let mut sums = vec![0.0; rows.len()];
    for (at, score) in scores.iter().enumerate() {
        numbers.sort_by(|a, b| compare(score.order, of(*a, at), of(*b, at)));
        let mut rank = 0.0;
        let mut before: Option<f64> = None;
        for row in &numbers {
            let value = of(*row, at);
            if before.is_none_or(|before| before.total_cmp(&value).is_ne()) {
                rank += 1.0;
            }
            before = Some(value);
            sums[*row] += score.weight / (RANK_CONSTANT + rank);
        }
    }
    numbers.sort_unstable();
    numbers.sort_by(|a, b| sums[*b].total_cmp(&sums[*a]));
    numbers
}

fn compare(order: SortOrder, a: f64, b: f64) -> Ordering {
    match order {
        SortOrder::Ascending => a.total_cmp(&b),
        SortOrder::Descending => b.total_cmp(&a),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEST_MOST: Score = Score { order: SortOrder::Descending, weight: 1.0 };
    const BEST_LEAST: Score = Score { order: SortOrder::Ascending, weight: 1.0 };

    #[test]
    fn one_score_is_its_order() {
        let rows = [vec![1.0], vec![3.0], vec![2.0], vec![3.0]];
        assert_eq!(ranked(&[BEST_MOST], &rows), [1, 3, 2, 0]);
        assert_eq!(ranked(&[BEST_LEAST], &rows), [0, 2, 1, 3]);
        assert!(ranked(&[BEST_MOST], &[]).is_empty());
    }

    #[test]
    fn several_scores_are_put_together_by_their_ranks() {
        // Ranks: (1, 3), (2, 1), (3, 2).
        let rows = [vec![9.0, 30.0], vec![8.0, 10.0], vec![1.0, 20.0]];
        assert_eq!(ranked(&[BEST_MOST, BEST_LEAST], &rows), [1, 0, 2]);
        let weighed = [Score { weight: 100.0, ..BEST_MOST }, BEST_LEAST];
        assert_eq!(ranked(&weighed, &rows), [0, 1, 2]);
    }

    #[test]
    fn equal_scores_share_a_rank() {
        let rows = [vec![5.0, 1.0], vec![5.0, 1.0], vec![4.0, 2.0]];
        // The third row is second by one score and first by the other, as are the other rows.
        assert_eq!(ranked(&[BEST_MOST, BEST_MOST], &rows), [0, 1, 2]);
    }
}
