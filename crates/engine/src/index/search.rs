//! The index entries of texts and vectors.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes};
use model::Value;
use query::vector::numbers_of;

use super::cells::{directed, dot, push_coded};
use super::policy::VectorIndex;
use super::terms::Terms;
use super::{Index, PathHash};
use crate::keys;

impl Index {
    /// Adds the terms of an item's texts and vectors.
    pub(super) fn push_searched(&self, item: &Value, terms: &mut Terms) {
        for index in &self.policy.texts {
            if let Some(text) = value_at(item, &index.path).and_then(Value::as_str) {
                let mut words: BTreeMap<String, Vec<u32>> = BTreeMap::new();
                let mut count = 0;
                index.language.for_each_word(text, &mut |word| {
                    match words.get_mut(word) {
                        Some(at) => at.push(count),
                        None => {
                            words.insert(word.to_owned(), vec![count]);
                        }
                    }
                    count += 1;
                });
                push_text(path_of(&index.path), &words, count, terms);
            }
        }
        for index in &self.policy.vectors {
            let vector = value_at(item, &index.path).and_then(numbers_of);
            if let Some(vector) = vector.filter(|vector| vector.len() == index.dimensions) {
                push_vector(index, vector, terms);
            }
        }
    }
}

pub(super) fn path_of(names: &[String]) -> PathHash {
    names.iter().fold(PathHash::ROOT, |at, name| at.name(name))
}

fn value_at<'i>(item: &'i Value, names: &[String]) -> Option<&'i Value> {
    names.iter().try_fold(item, |at, name| at.field(name))
}

fn push_text(path: PathHash, words: &BTreeMap<String, Vec<u32>>, count: u32, terms: &mut Terms) {
    let from = terms.bytes_mut().len();
    keys::push_text_term(path, terms.bytes_mut());
    let payload = terms.bytes_mut().len();
    terms.bytes_mut().put_u32(count);
    terms.end_with_payload(from, payload);
    for (word, positions) in words {
        let out = terms.bytes_mut();
        let from = out.len();
        keys::push_word_term(path, word, out);
        let payload = out.len();
        Occurrences::encode(count, positions, out);
        terms.end_with_payload(from, payload);
    }
}

fn push_vector(index: &VectorIndex, vector: Vec<f32>, terms: &mut Terms) {
    let path = path_of(&index.path);
    let out = terms.bytes_mut();
    let from = out.len();
    keys::push_vector_term(path, out);
    let payload = out.len();
    vector.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
    terms.end_with_payload(from, payload);
    let Some(cells) = &index.cells else { return };
    let vector = directed(index.metric, vector);
    for cell in cells.of(&vector) {
        let out = terms.bytes_mut();
        let from = out.len();
        keys::push_cell_term(path, cell, out);
        let payload = out.len();
        out.extend_from_slice(&dot(&vector, &vector).to_be_bytes());
        push_coded(&vector, out);
        terms.end_with_payload(from, payload);
    }
}

/// How many texts there are at a path, and how many words they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextTotals {
    pub(crate) texts: u64,
    pub(crate) words: u64,
}

impl TextTotals {
    /// The contribution of a text's entry, by its value.
    pub(crate) fn of_entry(value: &[u8]) -> Option<Self> {
        let (_, payload) = keys::split_entry(value)?;
        let words = u32::from_be_bytes(payload.try_into().ok()?);
        Some(Self { texts: 1, words: words.into() })
    }

    pub(crate) fn with(self, more: Option<Self>) -> Self {
        let more = more.unwrap_or_default();
        Self {
            texts: self.texts.saturating_add(more.texts),
            words: self.words.saturating_add(more.words),
        }
    }

    pub(crate) fn without(self, less: Option<Self>) -> Self {
        let less = less.unwrap_or_default();
        Self {
            texts: self.texts.saturating_sub(less.texts),
            words: self.words.saturating_sub(less.words),
        }
    }

    pub(crate) fn encode(self) -> Bytes {
        let mut out = Vec::with_capacity(16);
        out.put_u64(self.texts);
        out.put_u64(self.words);
        out.into()
    }

    pub(crate) fn decode(mut value: &[u8]) -> Option<Self> {
        (value.len() == 16).then(|| Self { texts: value.get_u64(), words: value.get_u64() })
    }
}

/// The occurrences of a word in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occurrences<'e> {
    /// Words of the whole text.
    pub(super) words: u32,
    pub(super) count: u32,
    /// Differences between successive positions, seven bits a byte, the last byte of a number below
    /// 128.
    steps: &'e [u8],
}

impl<'e> Occurrences<'e> {
    fn encode(words: u32, positions: &[u32], out: &mut Vec<u8>) {
        out.put_u32(words);
        out.put_u32(u32::try_from(positions.len()).unwrap_or(u32::MAX));
        let mut before = 0;
        for position in positions {
            let mut step = position - before;
            before = *position;
            while step >= 0x80 {
                out.push(u8::try_from(step & 0x7F).unwrap_or_default() | 0x80);
                step >>= 7;
            }
            out.push(u8::try_from(step).unwrap_or_default());
        }
    }

    pub(super) fn decode(mut payload: &'e [u8]) -> Option<Self> {
        if payload.len() < 8 {
            return None;
        }
        let (words, count) = (payload.get_u32(), payload.get_u32());
        Some(Self { words, count, steps: payload })
    }

    /// The positions of the word among the indexed words of the text.
    pub(super) fn positions(&self) -> Vec<u32> {
        let mut positions = Vec::with_capacity(self.steps.len().min(self.count as usize));
        let (mut at, mut step, mut shift) = (0_u32, 0_u32, 0_u32);
        for byte in self.steps {
            step |= u32::from(byte & 0x7F).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                at = at.wrapping_add(step);
                positions.push(at);
                (step, shift) = (0, 0);
            }
        }
        positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occurrences_read_back() {
        for positions in [vec![], vec![0], vec![5, 6, 133, 134, 70_000, 2_000_000]] {
            let mut out = Vec::new();
            Occurrences::encode(9, &positions, &mut out);
            let read = Occurrences::decode(&out).expect("occurrences");
            assert_eq!((read.words, read.count as usize), (9, positions.len()));
            assert_eq!(read.positions(), positions);
        }
        assert!(Occurrences::decode(&[0; 7]).is_none());
    }

    #[test]
    fn totals_read_back() {
        let totals = TextTotals { texts: 3, words: 1 << 40 };
        assert_eq!(TextTotals::decode(&totals.encode()), Some(totals));
        assert_eq!(TextTotals::decode(&[0; 15]), None);
        let entry = keys::entry_value(b"identity", &7_u32.to_be_bytes());
        let one = TextTotals::of_entry(&entry);
        assert_eq!(one, Some(TextTotals { texts: 1, words: 7 }));
        assert_eq!(totals.with(one).without(one), totals);
    }
}
