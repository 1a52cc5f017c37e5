//! The items that a full-text index names for words, and how well their texts match.

use std::collections::BTreeMap;

use query::fulltext::{Hits, Phrase, Search, Weights};
use storage::{Dir, KeyRange};

use super::PathHash;
use super::find::{Finder, Posting};
use super::search::{Occurrences, TextTotals};
use crate::partition::too_late;
use crate::{Error, keys};

/// How many entries are read between two checks of the clock.
const ENTRIES_PER_CLOCK: u64 = 4096;

/// Finds words in the texts at a path.
pub(crate) struct WordFinder<'f> {
    pub(crate) finder: &'f Finder<'f>,
    pub(crate) path: PathHash,
}

/// An item and the occurrences found in its text.
#[derive(Clone, Debug)]
struct Hit {
    identity: Box<[u8]>,
    words: u32,
    count: u32,
}

/// An item whose text has a score.
#[derive(Clone, Debug)]
pub(crate) struct Scored {
    pub(crate) posting: Posting,
    pub(crate) score: f64,
}

/// The occurrences of a phrase, by the numbers of items.
type PhraseHits = BTreeMap<u64, Hit>;

impl WordFinder<'_> {
    /// The items whose texts have all or some of the phrases; `None` if more than `max` entries
    /// would be read, or the phrases can't be found by their words.
    pub(crate) fn find(
        &self,
        search: &Search,
        needs_all: bool,
        max: usize,
    ) -> Result<Option<Vec<Posting>>, Error> {
        let mut all: Option<PhraseHits> = None;
        for phrase in &search.phrases {
            let Some(found) = self.phrase(phrase, max)? else { return Ok(None) };
            all = Some(match all {
                None => found,
                Some(mut all) if needs_all => {
                    all.retain(|number, _| found.contains_key(number));
                    all
                }
                Some(mut all) => {
                    all.extend(found);
                    all
                }
            });
        }
        let posting = |(number, hit): (u64, Hit)| Posting { number, identity: hit.identity };
        Ok(Some(all.unwrap_or_default().into_iter().map(posting).collect()))
    }

    /// How many items have a phrase.
    pub(crate) fn count(&self, phrase: &Phrase, max: usize) -> Result<Option<u64>, Error> {
        let [word] = phrase.words.as_slice() else {
            return Ok(self.phrase(phrase, max)?.map(|found| found.len() as u64));
        };
        if phrase.distance > 0 {
            return Ok(None);
        }
        let mut count = 0;
        let is_whole = self.for_each_entry(word, max, &mut |_, _, _| count += 1)?;
        Ok(is_whole.then_some(count))
    }

    /// Whether an item is in the range that is searched.
    pub(crate) fn is_within(&self, posting: &Posting) -> bool {
        self.finder.is_within(&posting.identity)
    }

    /// How many texts there are at the path.
    pub(crate) fn totals(&self) -> Result<TextTotals, Error> {
        let stored = self.finder.view.get(self.finder.partition, &keys::text_totals(self.path))?;
        Ok(stored.and_then(|totals| TextTotals::decode(&totals)).unwrap_or_default())
    }

    /// The items that have one of the phrases, the best first and among equals the oldest.
    pub(crate) fn scored(
        &self,
        search: &Search,
        weights: &Weights,
        max: usize,
    ) -> Result<Option<Vec<Scored>>, Error> {
        let mut all: BTreeMap<u64, (Box<[u8]>, Hits)> = BTreeMap::new();
        for (at, phrase) in search.phrases.iter().enumerate() {
            let Some(found) = self.phrase(phrase, max)? else { return Ok(None) };
            for (number, hit) in found {
                let (_, hits) = all.entry(number).or_insert_with(|| {
                    let counts = vec![0; search.phrases.len()];
                    (hit.identity, Hits { counts, words: hit.words.into() })
                });
                hits.counts[at] = hit.count.into();
            }
        }
        let scored = |(number, (identity, hits)): (u64, (Box<[u8]>, Hits))| Scored {
            posting: Posting { number, identity },
            score: weights.score(&hits),
        };
        let mut scored: Vec<_> = all.into_iter().map(scored).collect();
        scored.sort_by(|a, b| {
            b.score.total_cmp(&a.score).then(a.posting.number.cmp(&b.posting.number))
        });
        Ok(Some(scored))
    }

    /// Calls `visit` for all items that have a text, the oldest first, until it returns false.
    pub(crate) fn for_each_text(
        &self,
        visit: &mut dyn FnMut(Posting) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut lo = Vec::new();
        keys::push_text_term(self.path, &mut lo);
        let hi = keys::successor(&lo);
        let Finder { view, partition, .. } = *self.finder;
        let mut cursor = view.scan(partition, KeyRange::half_open(&lo, &hi), Dir::Fwd)?;
        while let Some((key, value)) = cursor.next()? {
            self.note_entry()?;
            let (number, identity, _) = read(key, value)?;
            let goes_on = visit(Posting { number, identity: identity.into() })?;
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    fn phrase(&self, phrase: &Phrase, max: usize) -> Result<Option<PhraseHits>, Error> {
        if phrase.distance > 0 {
            return Ok(None);
        }
        let Some((first, rest)) = phrase.words.split_first() else {
            return Ok(Some(PhraseHits::new()));
        };
        let mut found = PhraseHits::new();
        // Where the phrase can begin in each text, by the words checked so far.
        let mut starts: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        let is_whole = self.for_each_entry(first, max, &mut |number, identity, occurrences| {
            if self.finder.is_within(identity) {
                let hit = Hit {
                    identity: identity.into(),
                    words: occurrences.words,
                    count: occurrences.count,
                };
                found.insert(number, hit);
                if !rest.is_empty() {
                    starts.insert(number, occurrences.positions());
                }
            }
        })?;
        if !is_whole {
            return Ok(None);
        }
        for (at, word) in (1..).zip(rest) {
            if starts.is_empty() {
                break;
            }
            let mut left: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
            let is_whole = self.for_each_entry(word, max, &mut |number, _, occurrences| {
                if let Some(mut begins) = starts.remove(&number) {
                    let positions = occurrences.positions();
                    begins.retain(|begin| positions.binary_search(&(begin + at)).is_ok());
                    if !begins.is_empty() {
                        left.insert(number, begins);
                    }
                }
            })?;
            if !is_whole {
                return Ok(None);
            }
            starts = left;
        }
        if !rest.is_empty() {
            found.retain(|number, hit| match starts.get(number) {
                Some(begins) => {
                    hit.count = u32::try_from(begins.len()).unwrap_or(u32::MAX);
                    true
                }
                None => false,
            });
        }
        Ok(Some(found))
    }

    /// Calls `visit` for each entry of a word; returns false if there are more than `max`.
    fn for_each_entry(
        &self,
        word: &str,
        max: usize,
        visit: &mut dyn FnMut(u64, &[u8], Occurrences<'_>),
    ) -> Result<bool, Error> {
        let mut lo = Vec::new();
        keys::push_word_term(self.path, word, &mut lo);
        let hi = keys::successor(&lo);
        let Finder { view, partition, .. } = *self.finder;
        let mut cursor = view.scan(partition, KeyRange::half_open(&lo, &hi), Dir::Fwd)?;
        let mut left = max;
        while let Some((key, value)) = cursor.next()? {
            if left == 0 {
                return Ok(false);
            }
            left -= 1;
            self.note_entry()?;
            let (number, identity, payload) = read(key, value)?;
            visit(number, identity, Occurrences::decode(payload).ok_or_else(unreadable)?);
        }
        Ok(true)
    }

    fn note_entry(&self) -> Result<(), Error> {
        let entries = self.finder.entries.get() + 1;
        self.finder.entries.set(entries);
        match entries.is_multiple_of(ENTRIES_PER_CLOCK) && (self.finder.is_late)() {
            true => Err(too_late()),
            false => Ok(()),
        }
    }
}

/// Number, identity and payload of an entry.
pub(super) fn read<'e>(key: &[u8], value: &'e [u8]) -> Result<(u64, &'e [u8], &'e [u8]), Error> {
    let (_, number) = keys::split_index_entry(key).ok_or_else(unreadable)?;
    let (identity, payload) = keys::split_entry(value).ok_or_else(unreadable)?;
    Ok((number, identity, payload))
}

pub(super) fn unreadable() -> Error {
    Error::Internal("an index entry can't be read".into())
}
