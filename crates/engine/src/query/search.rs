//! Rows that are found by a full-text or vector index.

use query::Plan;
use query::access::{Ranking, TextMatch, Total};
use query::exec::Item;

use super::scan::Scan;
use super::scope::ScanRange;
use crate::Error;
use crate::index::{Finder, Posting, PostingList, VectorFinder, WordFinder};
use crate::partition::ScanStats;

/// Most entries of one word that are read.
const ENTRIES_MAX: usize = 200_000;
/// Most rows that are found by their rank.
const RANKED_MAX: u64 = 10_000;
/// A part of a range with fewer items is scanned.
const FEW_ITEMS: u64 = 2_000;
/// So many more candidates than rows are returned, since the items decide their order.
const SLACK: usize = 4;
/// Fewest candidates whose vectors are compared.
const CANDIDATES_MIN: usize = 30;
/// With a filter so many candidates are examined for each row, and so many in all at least.
const FILTERED_PER_ROW: usize = 50;
const FILTERED_MIN: usize = 1_000;

impl Scan<'_> {
    /// The items that have the words which a filter requires.
    pub(super) fn find_words(
        &self,
        plan: &Plan,
        max: usize,
        stats: &[ScanStats],
    ) -> Result<Option<Vec<Option<PostingList>>>, Error> {
        let Some(searched) = plan.text_match() else { return Ok(None) };
        let mut all = Vec::with_capacity(self.scan_ranges.len());
        let mut total = 0;
        for (scan_range, stats) in self.scan_ranges.iter().zip(stats) {
            let within = self.within(scan_range);
            let is_late = || self.is_late();
            let finder = self.finder(scan_range, within.as_ref(), stats, &is_late);
            let Some(mut postings) = self.postings(&finder, &searched)? else { return Ok(None) };
            total += postings.len();
            if total > max {
                return Ok(None);
            }
            postings.sort_unstable_by(|a, b| a.identity.cmp(&b.identity));
            all.push(Some(PostingList { postings, is_exact: false }));
        }
        Ok(Some(all))
    }

    fn postings(
        &self,
        finder: &Finder<'_>,
        searched: &TextMatch<'_>,
    ) -> Result<Option<Vec<Posting>>, Error> {
        match searched {
            TextMatch::Text { path, search, needs_all } => {
                let Some(path) = self.indexes.text(path, search.language) else {
                    return Ok(None);
                };
                WordFinder { finder, path }.find(search, *needs_all, ENTRIES_MAX)
            }
            TextMatch::Any(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    let Some(found) = self.postings(finder, part)? else { return Ok(None) };
                    all.extend(found);
                }
                all.sort_unstable_by_key(|posting| posting.number);
                all.dedup_by_key(|posting| posting.number);
                Ok(Some(all))
            }
            // Each part has all items that match; the filter does the rest.
            TextMatch::All(parts) => {
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

    /// The totals that a plan computes over all items, if indexes have them.
    pub(super) fn totals(
        &self,
        plan: &Plan,
        stats: &[ScanStats],
    ) -> Result<Option<Vec<u64>>, Error> {
        let Some(wanted) = plan.totals() else { return Ok(None) };
        // Expired items are still counted. Plans without words have a better access path.
        let is_about_words = wanted.iter().any(|total| !matches!(total, Total::Items));
        if self.reader.has_ttl() || !is_about_words {
            return Ok(None);
        }
        let mut totals = vec![0_u64; wanted.len()];
        for (scan_range, stats) in self.scan_ranges.iter().zip(stats) {
            if !scan_range.is_whole {
                return Ok(None);
            }
            for (total, wanted) in totals.iter_mut().zip(&wanted) {
                let more = self.timed_lookup(|| self.total(scan_range, wanted, stats))?;
                let Some(more) = more else { return Ok(None) };
                *total = total.saturating_add(more);
            }
        }
        Ok(Some(totals))
    }

    fn total(
        &self,
        scan_range: &ScanRange,
        wanted: &Total<'_>,
        stats: &ScanStats,
    ) -> Result<Option<u64>, Error> {
        let is_late = || self.is_late();
        let finder = self.finder(scan_range, None, stats, &is_late);
        match wanted {
            Total::Items => self.items_of(scan_range),
            Total::Words { path, language } => {
                let Some(path) = self.indexes.text(path, *language) else { return Ok(None) };
                Ok(Some(WordFinder { finder: &finder, path }.totals()?.words))
            }
            Total::Texts(TextMatch::Text { path, search, .. }) if search.phrases.len() == 1 => {
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

    /// The items with the best scores, if an index finds them. The plan needs no rows behind them.
    pub(super) fn find_best(
        &self,
        plan: &Plan,
        stats: &[ScanStats],
    ) -> Result<Option<Vec<Option<PostingList>>>, Error> {
        let Some((ranking, rows)) = plan.ranking() else { return Ok(None) };
        if rows > RANKED_MAX {
            return Ok(None);
        }
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let mut all = Vec::with_capacity(self.scan_ranges.len());
        for (scan_range, stats) in self.scan_ranges.iter().zip(stats) {
            if !scan_range.is_whole
                && self.items_of(scan_range)?.is_none_or(|items| items < FEW_ITEMS)
            {
                return Ok(None);
            }
            let within = self.within(scan_range);
            let is_late = || self.is_late();
            let finder = self.finder(scan_range, within.as_ref(), stats, &is_late);
            let candidate_filter = CandidateFilter { scan: self, scan_range, stats, plan };
            let found = match &ranking {
                Ranking::Text { path, score } => {
                    match self.indexes.text(path, score.search.language) {
                        Some(path) => {
                            let words = WordFinder { finder: &finder, path };
                            best_texts(&words, score, &candidate_filter, rows)?
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
                            nearest(&vectors, effort, &candidate_filter, rows)?
                        }
                        None => None,
                    }
                }
            };
            let Some(mut postings) = found else { return Ok(None) };
            postings.sort_unstable_by(|a, b| a.identity.cmp(&b.identity));
            all.push(Some(PostingList { postings, is_exact: false }));
        }
        Ok(Some(all))
    }
}

/// Decides whether an item yields a row.
struct CandidateFilter<'j> {
    scan: &'j Scan<'j>,
    scan_range: &'j ScanRange,
    stats: &'j ScanStats,
    plan: &'j Plan,
}

impl CandidateFilter<'_> {
    /// Whether the decision depends on the item itself.
    fn must_read(&self) -> bool {
        self.plan.has_filter() || self.scan.reader.has_ttl()
    }

    fn accepts(&self, posting: &Posting) -> Result<bool, Error> {
        if !self.must_read() {
            return Ok(true);
        }
        let context = self.scan.context(self.scan_range, self.stats, None);
        let row = context.fetch(&posting.identity)?;
        let Some(row) = row.filter(|row| !row.is_expired) else { return Ok(false) };
        self.stats.note_row(row.bytes());
        let value = row.read(&self.plan.fields_to_match())?;
        Ok(self.plan.matches(&value)?)
    }
}

/// The items whose texts match best; `None` if there are too few, or too many to read.
fn best_texts(
    words: &WordFinder<'_>,
    score: &query::functions::search::PreparedScore,
    candidate_filter: &CandidateFilter<'_>,
    rows: usize,
) -> Result<Option<Vec<Posting>>, Error> {
    let weights = score.statistics.weights();
    let Some(scored) = words.scored(&score.search, &weights, ENTRIES_MAX)? else {
        return Ok(None);
    };
    // A text that has the words but no score ranks the same as one without them.
    if scored.last().is_some_and(|scored| scored.score <= 0.0) {
        return Ok(None);
    }
    let examined_max = match candidate_filter.must_read() {
        true => rows.saturating_mul(FILTERED_PER_ROW).max(FILTERED_MIN),
        false => usize::MAX,
    };
    let mut numbers: Vec<u64> = scored.iter().map(|scored| scored.posting.number).collect();
    numbers.sort_unstable();
    let (mut best, mut examined) = (Vec::new(), 0);
    for scored in scored {
        if best.len() >= rows {
            return Ok(Some(best));
        }
        examined += 1;
        if examined > examined_max {
            return Ok(None);
        }
        if candidate_filter.accepts(&scored.posting)? {
            best.push(scored.posting);
        }
    }
    // Texts without any of the words have no score that matters and are ordered by age.
    words.for_each_text(&mut |posting| {
        examined += 1;
        if numbers.binary_search(&posting.number).is_err()
            && words.is_within(&posting)
            && candidate_filter.accepts(&posting)?
        {
            best.push(posting);
        }
        Ok(best.len() < rows && examined < examined_max)
    })?;
    Ok((best.len() >= rows).then_some(best))
}

/// The items with the nearest vectors; `None` if there are too few.
fn nearest(
    vectors: &VectorFinder<'_>,
    effort: Option<u32>,
    candidate_filter: &CandidateFilter<'_>,
    rows: usize,
) -> Result<Option<Vec<Posting>>, Error> {
    let wanted = rows.saturating_add(SLACK);
    let pool = match candidate_filter.must_read() {
        true => rows.saturating_mul(FILTERED_PER_ROW).max(FILTERED_MIN),
        false => wanted,
    };
    if let Some(effort) = effort {
        let times = usize::try_from(effort.div_ceil(2)).unwrap_or(usize::MAX);
        let candidates = rows.saturating_mul(times).max(CANDIDATES_MIN).max(pool);
        // How many of the nearest a filter keeps is known only after they are read.
        let decisive = (!candidate_filter.must_read()).then_some(wanted);
        if let Some(found) = vectors.approximate(candidates, decisive, effort)? {
            let measured = vectors.measured(found)?;
            let accepted = accepted(measured, candidate_filter, wanted)?;
            if accepted.len() >= rows {
                return Ok(Some(accepted));
            }
        }
    }
    let accepted = accepted(vectors.exact(pool)?, candidate_filter, wanted)?;
    Ok((accepted.len() >= rows).then_some(accepted))
}

fn accepted(
    found: Vec<crate::index::Neighbor>,
    candidate_filter: &CandidateFilter<'_>,
    wanted: usize,
) -> Result<Vec<Posting>, Error> {
    let mut accepted = Vec::with_capacity(wanted.min(found.len()));
    for near in found {
        if accepted.len() >= wanted {
            break;
        }
        if candidate_filter.accepts(&near.posting)? {
            accepted.push(near.posting);
        }
    }
    Ok(accepted)
}
