//! Functions that search texts and vectors.
//!
//! The searched phrases are known ahead, and so are the language of a text and the metric of a
//! vector: compilers prepare calls with [`Prepared::Search`], [`Prepared::Score`] and
//! [`Prepared::Distance`].

use std::borrow::Cow;
use std::sync::Arc;

use model::Value;

use super::{Args, Function, Outcome, Prepared, at_least, between, exactly};
use crate::Budget;
use crate::eval::from_f64;
use crate::fulltext::{Hits, Search, Statistics};
use crate::vector::{VectorMetric, numbers_of};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::metered("FullTextContains", exactly(2), contains_any),
    Function::metered("FullTextContainsAll", at_least(2), contains_all),
    Function::metered("FullTextContainsAny", at_least(2), contains_any),
    Function::metered("VectorDistance", between(2, 4), distance),
    Function::metered("_FullTextScore", exactly(5), score),
    Function::metered("_FullTextWordCount", exactly(1), word_count),
    Function::metered("_VectorScore", between(2, 4), distance),
];

/// Splitting off a word costs about as much as copying this many bytes for each of its own.
const WORD_COST: usize = 8;

/// A measure of vectors, prepared.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedDistance {
    /// How it is measured.
    pub metric: VectorMetric,
    /// The vector that is known ahead, if there is one.
    pub known: Option<Arc<[f32]>>,
    /// Whether all vectors must be compared.
    pub is_exhaustive: bool,
    /// By what factor the number of candidates is increased.
    pub effort: u32,
}

/// A full-text score, prepared.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedScore {
    /// The phrases to find.
    pub search: Search,
    /// The statistics that scores are computed from.
    pub statistics: Statistics,
}

/// The hits in the text that is the first argument.
fn hits(
    search: &Search,
    args: &Args<'_>,
    budget: &Budget,
) -> Result<Option<Hits>, crate::EvalError> {
    let Some(text) = args.str(0) else { return Ok(None) };
    budget.spend_bytes(text.len().saturating_mul(WORD_COST * search.comparisons()))?;
    Ok(Some(search.find_in(text)))
}

fn contained(args: &Args<'_>, budget: &Budget, is_met: impl Fn(&[u64]) -> bool) -> Outcome {
    let Some(Prepared::Search(search)) = args.prepared() else { return Ok(None) };
    let hits = hits(search, args, budget)?;
    Ok(hits.map(|hits| is_met(&hits.counts).into()))
}

fn contains_any(args: &Args<'_>, budget: &Budget) -> Outcome {
    contained(args, budget, |counts| counts.iter().any(|count| *count > 0))
}

fn contains_all(args: &Args<'_>, budget: &Budget) -> Outcome {
    contained(args, budget, |counts| counts.iter().all(|count| *count > 0))
}

fn word_count(args: &Args<'_>, budget: &Budget) -> Outcome {
    let Some(Prepared::Search(search)) = args.prepared() else { return Ok(None) };
    let hits = hits(search, args, budget)?;
    Ok(hits.map(|hits| Value::Int64(hits.words.try_into().unwrap_or(i64::MAX))))
}

fn score(args: &Args<'_>, budget: &Budget) -> Outcome {
    let Some(Prepared::Score(prepared)) = args.prepared() else { return Ok(None) };
    let hits = hits(&prepared.search, args, budget)?;
    Ok(hits.map(|hits| from_f64(prepared.statistics.score(&hits))))
}

fn distance(args: &Args<'_>, budget: &Budget) -> Outcome {
    let Some(Prepared::Distance(prepared)) = args.prepared() else { return Ok(None) };
    let (Some(a), Some(b)) = (args.array(0), args.array(1)) else { return Ok(None) };
    if a.len() != b.len() {
        return Ok(None);
    }
    budget.spend_bytes(a.len().saturating_mul(16))?;
    let (Some(a), Some(b)) = (numbers(args, 0, prepared), numbers(args, 1, prepared)) else {
        return Ok(None);
    };
    Ok(prepared.metric.measure(&a, &b).map(from_f64))
}

/// The vector of an argument: that of the first constant argument is known already.
fn numbers<'a>(
    args: &Args<'a>,
    at: usize,
    prepared: &'a PreparedDistance,
) -> Option<Cow<'a, [f32]>> {
    match (&prepared.known, at) {
        (Some(known), 1) => Some(Cow::Borrowed(known)),
        _ => args.get(at).and_then(numbers_of).map(Cow::Owned),
    }
}
