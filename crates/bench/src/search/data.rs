//! Sentences and their embeddings, made by `search/make_data.py`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, ensure};

/// Numbers of an embedding.
pub const DIMENSIONS: usize = 384;
/// Items with one partition key.
const PER_KEY: usize = 50;

/// The searched items, and some vectors to search for.
pub struct Corpus {
    texts: Vec<String>,
    vectors: Vec<f32>,
    items: usize,
}

/// The partition key of an item.
pub fn key_of(number: usize) -> String {
    (number / PER_KEY).to_string()
}

impl Corpus {
    /// Reads so many items; the rest are search vectors.
    pub fn read(cache: &Path, items: usize) -> anyhow::Result<Self> {
        let missing = "run crates/bench/search/make_data.py first, see docs/bench.md";
        let texts = std::fs::read_to_string(cache.join("texts.txt")).context(missing)?;
        let texts: Vec<String> = texts.lines().map(str::to_owned).collect();
        let bytes = std::fs::read(cache.join("vectors.f32")).context(missing)?;
        let numbers = bytes.chunks_exact(4).filter_map(|bytes| bytes.try_into().ok());
        let vectors: Vec<f32> = numbers.map(f32::from_le_bytes).collect();
        let count = vectors.len() / DIMENSIONS;
        ensure!(
            count > items && texts.len() >= count,
            "{} has {count} embeddings, which are too few for {items} items and some questions",
            cache.display()
        );
        Ok(Self { texts, vectors, items })
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.items
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// An item as JSON.
    pub fn item(&self, number: usize) -> String {
        let text = serde_json::json!(self.texts[number]);
        format!(r#"{{"id":"{number}","pk":"{}","text":{text}}}"#, key_of(number))
    }

    /// An item with its vector as JSON.
    pub fn item_with_vector(&self, number: usize) -> String {
        let text = serde_json::json!(self.texts[number]);
        let vector = self.vector(number);
        format!(r#"{{"id":"{number}","pk":"{}","text":{text},"v":{vector}}}"#, key_of(number))
    }

    /// A vector that belongs to no item, as JSON.
    pub fn question(&self, at: usize) -> Option<String> {
        let number = self.items + at;
        (number < self.vectors.len() / DIMENSIONS).then(|| self.vector(number))
    }

    fn vector(&self, number: usize) -> String {
        let numbers = &self.vectors[number * DIMENSIONS..(number + 1) * DIMENSIONS];
        let mut out = String::with_capacity(DIMENSIONS * 12);
        for (at, number) in numbers.iter().enumerate() {
            let _ = write!(out, "{}{number}", if at == 0 { '[' } else { ',' });
        }
        out.push(']');
        out
    }

    /// Words that about this fraction of the items contain, counted roughly.
    pub fn words_in_about(&self, part: f64) -> Vec<String> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for text in &self.texts[..self.items] {
            let mut words: Vec<String> = text
                .split(|letter: char| !letter.is_ascii_alphabetic())
                .filter(|word| word.len() > 2)
                .map(str::to_ascii_lowercase)
                .collect();
            words.sort_unstable();
            words.dedup();
            words.into_iter().for_each(|word| *counts.entry(word).or_default() += 1);
        }
        let wanted = part * self.items as f64;
        let is_about = |count: usize| (0.8 * wanted..1.3 * wanted).contains(&(count as f64));
        counts.into_iter().filter(|(_, count)| is_about(*count)).map(|(word, _)| word).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_questions_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let texts: String = (0..12).map(|n| format!("word{n} \"red\" thing\n")).collect();
        std::fs::write(dir.path().join("texts.txt"), texts).unwrap();
        let vectors: Vec<u8> = b"\0\0\0?".repeat(12 * DIMENSIONS);
        std::fs::write(dir.path().join("vectors.f32"), vectors).unwrap();
        let corpus = Corpus::read(dir.path(), 10).unwrap();
        assert!(corpus.item(3).starts_with(r#"{"id":"3","pk":"0","text":"word3 \"red\" thing""#));
        assert!(corpus.item_with_vector(9).ends_with("0.5,0.5]}"));
        assert!(corpus.question(1).is_some() && corpus.question(2).is_none());
        assert_eq!(corpus.words_in_about(1.0), ["red", "thing", "word"]);
        assert!(Corpus::read(dir.path(), 12).is_err());
    }
}
