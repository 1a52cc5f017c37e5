//! Rows that are found by a full-text or vector index.

use query::Plan;
use query::access::{Ranking, Searched, Total};
use query::exec::Item;

use super::Stretch;
use super::scan::Walk;
use crate::Error;
use crate::index::{Finder, Found, Posting, VectorFinder, WordFinder};
use crate::partition::{Seen, fetch_row};

/// Most entries of one word that are looked at.
const ENTRIES_MAX: usize = 200_000;
/// Most rows that are looked for by their rank.
const RANKED_MAX: u64 = 10_000;
/// A part of a range with so few items is looked at whole.
const FEW_ITEMS: u64 = 2_000;
/// So many more candidates than rows are handed on, since their order is decided by the items.
const SLACK: usize = 4;
/// Fewest candidates whose vectors are compared.
const CANDIDATES_MIN: usize = 30;
/// With a filter so many candidates are looked at for each row, and so many in all at least.
const FILTERED_PER_ROW: usize = 50;
const FILTERED_MIN: usize = 1_000;

impl Walk<'_> {
    /// The items that have the words which a filter asks for.
    pub(super) fn find_words(
        &self,
        plan: &Plan,
        max: usize,
        seen: &[Seen],
    ) -> Result<Option<Vec<Option<Found>>>, Error> {
        let Some(searched) = plan.searched() else { return Ok(None) };
        let mut all = Vec::with_capacity(self.stretches.len());
        let mut total = 0;
        for (stretch, seen) in self.stretches.iter().zip(seen) {
            let within = self.within(stretch);
            let is_late = || self.is_late();
            let finder = self.finder(stretch, within.as_ref(), seen, &is_late);
            let Some(mut postings) = self.postings(&finder, &searched)? else { return Ok(None) };
            total += postings.len();
            if total > max {
                return Ok(None);
            }
            postings.sort_unstable_by(|a, b| a.place.cmp(&b.place));
            all.push(Some(Found { postings, is_exact: false }));
        }
        Ok(Some(all))
    }

    fn postings(
        &self,
        finder: &Finder<'_>,
        searched: &Searched<'_>,
    ) -> Result<Option<Vec<Posting>>, Error> {
        match searched {
            Searched::Text { path, search, needs_all } => {
                let Some(path) = self.indexes.text(path, search.language) else {
                    return Ok(None);
                };
                WordFinder { finder, path }.find(search, *needs_all, ENTRIES_MAX)
            }
            Searched::Any(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    let Some(found) = self.postings(finder, part)? else { return Ok(None) };
                    all.extend(found);
                }
                all.sort_unstable_by_key(|posting| posting.number);
                all.dedup_by_key(|posting| posting.number);
                Ok(Some(all))
            }
            // Each of them has all that are wanted; the filter does the rest.
            Searched::All(parts) => {
                let mut fewest: Option<Vec<Posting>> = None;
                for part in parts {
                    let found = self.postings(finder, part)?;
                    let is_fewer = |found: &Vec<Posting>| {
                        fewest.as_ref().is_none_or(|fewest| found.len() < fewest.len())
                    };
                    if let Some(found) = found.filter(is_fewer) {
                        fewest = Some(found);
                    }
                }
                Ok(fewest)
            }
        }
    }

    /// What a plan counts over all items, if indexes know it.
    pub(super) fn totals(&self, plan: &Plan, seen: &[Seen]) -> Result<Option<Vec<u64>>, Error> {
        let Some(wanted) = plan.totals() else { return Ok(None) };
        // Expired items are still counted. Without words there is a better way.
        let is_about_words = wanted.iter().any(|total| !matches!(total, Total::Items));
        if self.reader.default_ttl.is_some() || !is_about_words {
            return Ok(None);
        }
        let mut totals = vec![0_u64; wanted.len()];
        for (stretch, seen) in self.stretches.iter().zip(seen) {
            if !stretch.is_whole {
                return Ok(None);
            }
            for (total, wanted) in totals.iter_mut().zip(&wanted) {
                let more = self.looked_up(|| self.total(stretch, wanted, seen))?;
                let Some(more) = more else { return Ok(None) };
                *total = total.saturating_add(more);
            }
        }
        Ok(Some(totals))
    }

    fn total(
        &self,
        stretch: &Stretch,
        wanted: &Total<'_>,
        seen: &Seen,
    ) -> Result<Option<u64>, Error> {
        let is_late = || self.is_late();
        let finder = self.finder(stretch, None, seen, &is_late);
        match wanted {
            Total::Items => self.items_of(stretch),
            Total::Words { path, language } => {
                let Some(path) = self.indexes.text(path, *language) else { return Ok(None) };
                Ok(Some(WordFinder { finder: &finder, path }.totals()?.words))
            }
            Total::Texts(Searched::Text { path, search, .. }) if search.phrases.len() == 1 => {
                let Some(path) = self.indexes.text(path, search.language) else {
                    return Ok(None);
                };
                WordFinder { finder: &finder, path }.count(&search.phrases[0], ENTRIES_MAX)
            }
            Total::Texts(searched) => {
                let found = self.postings(&finder, searched)?;
                Ok(found.map(|found| found.len() as u64))
            }
        }
    }

    /// The items with the best scores, if an index finds them. What comes after them is not wanted.
    pub(super) fn find_best(
        &self,
        plan: &Plan,
        seen: &[Seen],
    ) -> Result<Option<Vec<Option<Found>>>, Error> {
        let Some((ranking, rows)) = plan.ranking() else { return Ok(None) };
        if rows > RANKED_MAX {
            return Ok(None);
        }
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let mut all = Vec::with_capacity(self.stretches.len());
        for (stretch, seen) in self.stretches.iter().zip(seen) {
            if !stretch.is_whole && self.items_of(stretch)?.is_none_or(|items| items < FEW_ITEMS) {
                return Ok(None);
            }
            let within = self.within(stretch);
            let is_late = || self.is_late();
            let finder = self.finder(stretch, within.as_ref(), seen, &is_late);
            let judge = Judge { walk: self, stretch, seen, plan };
            let found = match &ranking {
                Ranking::Text { path, score } => {
                    match self.indexes.text(path, score.search.language) {
                        Some(path) => {
                            let words = WordFinder { finder: &finder, path };
                            best_texts(&words, score, &judge, rows)?
                        }
                        None => None,
                    }
                }
                Ranking::Vector { path, distance, from } => {
                    let index = self.indexes.vector(path);
                    match index.filter(|index| index.dimensions == from.len()) {
                        Some(index) => {
                            let vectors = VectorFinder::new(&finder, index, distance.metric, from);
                            let effort = (!distance.is_exhaustive).then_some(distance.effort);
                            nearest(&vectors, effort, &judge, rows)?
                        }
                        None => None,
                    }
                }
            };
            let Some(mut postings) = found else { return Ok(None) };
            postings.sort_unstable_by(|a, b| a.place.cmp(&b.place));
            all.push(Some(Found { postings, is_exact: false }));
        }
        Ok(Some(all))
    }
}

/// Tells whether an item gives a row.
struct Judge<'j> {
    walk: &'j Walk<'j>,
    stretch: &'j Stretch,
    seen: &'j Seen,
    plan: &'j Plan,
}

impl Judge<'_> {
    /// Whether there is anything to be told from the item itself.
    fn must_look(&self) -> bool {
        self.plan.has_filter() || self.walk.reader.default_ttl.is_some()
    }

    fn accepts(&self, posting: &Posting) -> Result<bool, Error> {
        if !self.must_look() {
            return Ok(true);
        }
        let Walk { view, form, reader, .. } = *self.walk;
        let partition = self.stretch.range.partition.id;
        let row = fetch_row(view, partition, form, reader, &posting.place)?;
        let Some(row) = row.filter(|row| !row.is_expired) else { return Ok(false) };
        self.seen.note_row(row.bytes());
        let value = row.read(&self.plan.pick_to_match())?;
        Ok(self.plan.matches(&value)?)
    }
}

/// The items whose texts fit best; `None` if there are fewer than wanted, or too many to look at.
fn best_texts(
    words: &WordFinder<'_>,
    score: &query::functions::search::PreparedScore,
    judge: &Judge<'_>,
    rows: usize,
) -> Result<Option<Vec<Posting>>, Error> {
    let weights = score.statistics.weights();
    let Some(scored) = words.scored(&score.search, &weights, ENTRIES_MAX)? else {
        return Ok(None);
    };
    // A text that has the words and no score is as good as one without them.
    if scored.last().is_some_and(|scored| scored.score <= 0.0) {
        return Ok(None);
    }
    let looked_max = match judge.must_look() {
        true => rows.saturating_mul(FILTERED_PER_ROW).max(FILTERED_MIN),
        false => usize::MAX,
    };
    let mut numbers: Vec<u64> = scored.iter().map(|scored| scored.posting.number).collect();
    numbers.sort_unstable();
    let (mut best, mut looked) = (Vec::new(), 0);
    for scored in scored {
        if best.len() >= rows {
            return Ok(Some(best));
        }
        looked += 1;
        if looked > looked_max {
            return Ok(None);
        }
        if judge.accepts(&scored.posting)? {
            best.push(scored.posting);
        }
    }
    // Texts without any of the words have no score to speak of, and come in the order of age.
    words.for_each_text(&mut |posting| {
        looked += 1;
        if numbers.binary_search(&posting.number).is_err()
            && words.is_within(&posting)
            && judge.accepts(&posting)?
        {
            best.push(posting);
        }
        Ok(best.len() < rows && looked < looked_max)
    })?;
    Ok((best.len() >= rows).then_some(best))
}

/// The items with the nearest vectors; `None` if there are fewer than wanted.
fn nearest(
    vectors: &VectorFinder<'_>,
    effort: Option<u32>,
    judge: &Judge<'_>,
    rows: usize,
) -> Result<Option<Vec<Posting>>, Error> {
    let wanted = rows.saturating_add(SLACK);
    let pool = match judge.must_look() {
        true => rows.saturating_mul(FILTERED_PER_ROW).max(FILTERED_MIN),
        false => wanted,
    };
    if let Some(effort) = effort {
        let times = usize::try_from(effort.div_ceil(2)).unwrap_or(usize::MAX);
        let candidates = rows.saturating_mul(times).max(CANDIDATES_MIN).max(pool);
        // What a filter leaves of the nearest is not known before they are looked at.
        let decisive = (!judge.must_look()).then_some(wanted);
        if let Some(found) = vectors.approximate(candidates, decisive, effort)? {
            let measured = vectors.measured(found)?;
            let accepted = accepted(measured, judge, wanted)?;
            if accepted.len() >= rows {
                return Ok(Some(accepted));
            }
        }
    }
    let accepted = accepted(vectors.exact(pool)?, judge, wanted)?;
    Ok((accepted.len() >= rows).then_some(accepted))
}

fn accepted(
    found: Vec<crate::index::Near>,
    judge: &Judge<'_>,
    wanted: usize,
) -> Result<Vec<Posting>, Error> {
    let mut accepted = Vec::with_capacity(wanted.min(found.len()));
    for near in found {
        if accepted.len() >= wanted {
            break;
        }
        if judge.accepts(&near.posting)? {
            accepted.push(near.posting);
        }
    }
    Ok(accepted)
}
