//! Words of texts: how texts are split into words, searched and scored.
//!
//! The same analysis makes the terms of full-text indexes and the results of the functions, so that
//! a query has the same rows with and without an index.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use rust_stemmers::{Algorithm, Stemmer};
use serde::{Deserialize, Serialize};
use unicode_segmentation::UnicodeSegmentation;

/// How much each further occurrence of a word counts (BM25's k1).
const K1: f64 = 1.2;
/// How much the length of a text counts (BM25's b).
const B: f64 = 0.75;

/// The language of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each name is the language")]
pub enum Language {
    #[default]
    English,
    French,
    German,
    Italian,
    Portuguese,
    Spanish,
}

impl Language {
    /// The language with a code like `en-US`, whatever its case, or with its Windows language
    /// number.
    pub fn lookup(code: &str) -> Option<Self> {
        let codes = [
            ("en-US", Language::English),
            ("fr-FR", Language::French),
            ("de-DE", Language::German),
            ("it-IT", Language::Italian),
            ("pt-BR", Language::Portuguese),
            ("pt-PT", Language::Portuguese),
            ("es-ES", Language::Spanish),
            ("1033", Language::English),
            ("1036", Language::French),
            ("1031", Language::German),
            ("1040", Language::Italian),
            ("1046", Language::Portuguese),
            ("2070", Language::Portuguese),
            ("3082", Language::Spanish),
        ];
        let found = codes.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(code));
        found.map(|(_, language)| language)
    }

    /// Calls `visit` with each significant word, in order, in the form in which words are compared:
    /// in lower case and, except in English, without its ending. Stop words of English are left
    /// out.
    pub fn for_each_word(self, text: &str, visit: &mut dyn FnMut(&str)) {
        let stemmer = self.stemmer();
        let mut lower = String::new();
        for word in text.unicode_words() {
            lower.clear();
            lower.extend(word.chars().flat_map(char::to_lowercase));
            match &stemmer {
                Some(stemmer) => visit(&stemmer.stem(&lower)),
                None if english_stop_words().contains(lower.as_str()) => {}
                None => visit(&lower),
            }
        }
    }

    /// The significant words.
    pub fn words(self, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        self.for_each_word(text, &mut |word| words.push(word.to_owned()));
        words
    }

    fn stemmer(self) -> Option<Stemmer> {
        let algorithm = match self {
            Language::English => return None,
            Language::French => Algorithm::French,
            Language::German => Algorithm::German,
            Language::Italian => Algorithm::Italian,
            Language::Portuguese => Algorithm::Portuguese,
            Language::Spanish => Algorithm::Spanish,
        };
        Some(Stemmer::create(algorithm))
    }
}

fn english_stop_words() -> &'static BTreeSet<&'static str> {
    static WORDS: OnceLock<BTreeSet<&'static str>> = OnceLock::new();
    WORDS.get_or_init(|| include_str!("fulltext/english.txt").lines().collect())
}

/// One word, or several consecutive words, to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phrase {
    /// The words; without any, nothing is found.
    pub words: Vec<String>,
    /// How many letters of each word may differ.
    pub distance: u8,
}

/// A search of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// The language of the texts.
    pub language: Language,
    /// The phrases to find.
    pub phrases: Vec<Phrase>,
}

/// The result of a search in one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hits {
    /// How often each phrase occurs.
    pub counts: Vec<u64>,
    /// How many significant words the text has.
    pub words: u64,
}

impl Search {
    /// Searches a text for the phrases.
    pub fn find_in(&self, text: &str) -> Hits {
        let words = self.language.words(text);
        let counts = self.phrases.iter().map(|phrase| phrase.count_in(&words)).collect();
        Hits { counts, words: words.len() as u64 }
    }

    /// Roughly how many words are compared for each word of a text.
    pub(crate) fn comparisons(&self) -> usize {
        let of = |phrase: &Phrase| {
            let words = phrase.words.len().max(1);
            if phrase.distance > 0 { words.saturating_mul(EDIT_DISTANCE_COST) } else { words }
        };
        self.phrases.iter().map(of).fold(0, usize::saturating_add).max(1)
    }
}

impl Phrase {
    /// How often the phrase occurs in a sequence of words.
    fn count_in(&self, words: &[String]) -> u64 {
        if self.words.is_empty() {
            return 0;
        }
        let is_here = |window: &[String]| {
            window.iter().zip(&self.words).all(|(word, wanted)| self.matches_word(word, wanted))
        };
        words.windows(self.words.len()).filter(|window| is_here(window)).count() as u64
    }

    fn matches_word(&self, word: &str, wanted: &str) -> bool {
        word == wanted
            || (self.distance > 0 && is_within_edit_distance(word, wanted, self.distance.into()))
    }
}

/// The cost of comparing words letter by letter, in comparisons of whole words.
const EDIT_DISTANCE_COST: usize = 64;
/// Longest words that are compared letter by letter.
const EDIT_DISTANCE_LETTERS_MAX: usize = 64;

/// Whether adding, removing or replacing at most `max` letters turns one word into the other.
fn is_within_edit_distance(a: &str, b: &str, max: usize) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > max || a.len().max(b.len()) > EDIT_DISTANCE_LETTERS_MAX {
        return false;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()] <= max
}

/// The statistics that scores are computed from.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// How many items there are.
    pub items: f64,
    /// How many words their texts have in total.
    pub words: f64,
    /// How many texts have each phrase.
    pub hits: Vec<f64>,
}

impl Statistics {
    /// How well a text matches (BM25): each phrase it contains counts by its rarity, weighed by how
    /// often it occurs relative to the length of the text.
    pub fn score(&self, hits: &Hits) -> f64 {
        self.weights().score(hits)
    }

    /// The part of scores that does not depend on the text.
    pub fn weights(&self) -> Weights {
        let rarity = |hits: &f64| (1.0 + (self.items - hits + 0.5) / (hits + 0.5)).max(1.0).ln();
        let length = if self.items > 0.0 { self.words / self.items } else { 0.0 };
        Weights {
            rarities: self.hits.iter().map(rarity).collect(),
            length: if length > 0.0 { length } else { 1.0 },
        }
    }
}

/// How much each phrase counts among all texts.
#[derive(Clone, Debug)]
pub struct Weights {
    rarities: Vec<f64>,
    /// The average number of words of a text.
    length: f64,
}

impl Weights {
    /// As [`Statistics::score`].
    pub fn score(&self, hits: &Hits) -> f64 {
        let length = K1 * (1.0 - B + B * hits.words as f64 / self.length);
        let scored = self.rarities.iter().zip(&hits.counts).filter(|(_, count)| **count > 0);
        let of_phrase = |(rarity, count): (&f64, &u64)| {
            let count = *count as f64;
            rarity * count * (K1 + 1.0) / (count + length)
        };
        scored.map(of_phrase).fold(0.0, |sum, score| sum + score)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phrase(text: &str, distance: u8) -> Phrase {
        Phrase { words: Language::English.words(text), distance }
    }

    fn count(text: &str, wanted: &Phrase) -> u64 {
        let search = Search { language: Language::English, phrases: vec![wanted.clone()] };
        search.find_in(text).counts[0]
    }

    #[test]
    fn words_are_those_of_unicode_in_lower_case_without_stop_words() {
        let words = Language::English.words("The Red-Bicycle cost 1,977 USD; isn't it 5?");
        assert_eq!(words, ["red", "bicycle", "cost", "1,977", "usd", "5"]);
        assert!(Language::English.words("the AND of").is_empty());
        assert!(Language::English.words("").is_empty());
    }

    #[test]
    fn words_of_other_languages_lose_their_endings() {
        let stems = |language: Language, a, b| (language.words(a), language.words(b));
        for (language, one, many) in [
            (Language::French, "démonstration", "démonstrations"),
            (Language::German, "Beispiel", "Beispiele"),
            (Language::Spanish, "demostración", "demostraciones"),
            (Language::Italian, "esempio", "esempi"),
            (Language::Portuguese, "exemplo", "exemplos"),
        ] {
            let (one, many) = stems(language, one, many);
            assert_eq!(one, many, "{language:?}");
        }
        assert_ne!(Language::English.words("runs"), Language::English.words("run"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_words_that_are_found_again(text in "\\PC{0,60}") {
            for language in [
                Language::English,
                Language::French,
                Language::German,
                Language::Italian,
                Language::Portuguese,
                Language::Spanish,
            ] {
                let words = language.words(&text);
                proptest::prop_assert!(words.iter().all(|word| !word.contains('\0')));
                let phrases = vec![Phrase { words: words.clone(), distance: 0 }];
                let hits = Search { language, phrases }.find_in(&text);
                proptest::prop_assert_eq!(hits.words, words.len() as u64);
                proptest::prop_assert_eq!(hits.counts[0], u64::from(!words.is_empty()));
            }
        }
    }

    #[test]
    fn a_phrase_is_its_words_in_a_row_once_stop_words_are_gone() {
        let wanted = phrase("red bicycle", 0);
        assert_eq!(count("A red bicycle, a RED bicycle", &wanted), 2);
        assert_eq!(count("red the bicycle", &wanted), 1);
        assert_eq!(count("bicycle red", &wanted), 0);
        assert_eq!(count("red", &wanted), 0);
        assert_eq!(count("the", &phrase("the", 0)), 0);
    }

    #[test]
    fn words_may_differ_by_some_letters() {
        assert_eq!(count("a rad bicycle", &phrase("red", 1)), 1);
        assert_eq!(count("a rad bicycle", &phrase("red", 0)), 0);
        assert_eq!(count("kitten", &phrase("sitting", 2)), 0);
        assert!(
            is_within_edit_distance("kitten", "sitting", 3)
                && !is_within_edit_distance("kitten", "sitting", 2)
        );
        assert!(is_within_edit_distance("", "ab", 2) && !is_within_edit_distance("", "abc", 2));
    }

    #[test]
    fn rare_phrases_and_short_texts_score_more() {
        let statistics = Statistics { items: 100.0, words: 1000.0, hits: vec![1.0, 50.0] };
        let score =
            |counts: [u64; 2], words| statistics.score(&Hits { counts: counts.to_vec(), words });
        assert!(score([1, 0], 10) > score([0, 1], 10));
        assert!(score([1, 0], 5) > score([1, 0], 10));
        assert!(score([2, 0], 10) > score([1, 0], 10));
        assert!(score([0, 0], 10).abs() < f64::EPSILON);
        let expected = (1.0_f64 + 99.5 / 1.5).ln() * 2.2 / 2.2;
        assert!((score([1, 0], 10) - expected).abs() < 1e-12);
        let nothing = Statistics { items: 0.0, words: 0.0, hits: vec![0.0] };
        assert!(nothing.score(&Hits { counts: vec![1], words: 1 }).is_finite());
    }
}
