//! `$sort`: in memory, keeping only what a limit needs, or in runs on disk that are merged.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use model::Value;

use super::spill::{SpillRun, decode, encode};
use super::{Context, Documents};
use crate::budget::bytes_of;
use crate::document::Failure;
use crate::document::sort::SortPattern;

/// `$sort`, with the limit that follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    /// The order.
    pub pattern: SortPattern,
    /// How many documents are wanted.
    pub limit: Option<u64>,
}

pub(super) fn run(
    sort: Arc<Sort>,
    source: Box<dyn Documents>,
    context: Context,
) -> Box<dyn Documents> {
    Box::new(Sorting { sort, source: Some(source), context, sorted: Sorted::Kept(VecDeque::new()) })
}

struct Sorting {
    sort: Arc<Sort>,
    source: Option<Box<dyn Documents>>,
    context: Context,
    sorted: Sorted,
}

impl Documents for Sorting {
    fn next(&mut self) -> Result<Option<Value>, Failure> {
        if let Some(mut source) = self.source.take() {
            let mut sorter = Sorter::new(self.sort.limit, &self.context);
            while let Some(document) = source.next()? {
                sorter.add(self.sort.pattern.key_of(&document)?, document)?;
            }
            self.sorted = sorter.finish()?;
        }
        self.sorted.next()
    }
}

/// A document with its key. The number keeps documents with equal keys in their order.
#[derive(Debug)]
struct Row {
    key: Vec<u8>,
    number: u64,
    document: Value,
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Row {}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (&self.key, self.number).cmp(&(&other.key, other.number))
    }
}

/// Sorts documents by keys.
pub(super) struct Sorter<'c> {
    limit: Option<u64>,
    context: &'c Context,
    /// Without a limit, unordered; with one, a heap whose greatest row is dropped first.
    rows: Vec<Row>,
    heap: BinaryHeap<Row>,
    bytes: usize,
    added: u64,
    runs: Vec<Box<dyn SpillRun>>,
}

/// The documents in order.
pub(super) enum Sorted {
    Kept(VecDeque<Value>),
    Merged(Merge),
}

impl<'c> Sorter<'c> {
    pub(super) fn new(limit: Option<u64>, context: &'c Context) -> Self {
        Self {
            limit,
            context,
            rows: Vec::new(),
            heap: BinaryHeap::new(),
            bytes: 0,
            added: 0,
            runs: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, key: Vec<u8>, document: Value) -> Result<(), Failure> {
        let row = Row { key, number: self.added, document };
        self.added += 1;
        let Some(limit) = self.limit else {
            self.bytes += size_of_row(&row);
            self.rows.push(row);
            return self.check_memory();
        };
        let is_full = self.heap.len() as u64 >= limit;
        if is_full && self.heap.peek().is_none_or(|greatest| *greatest <= row) {
            return Ok(());
        }
        self.bytes += size_of_row(&row);
        self.heap.push(row);
        if is_full && let Some(dropped) = self.heap.pop() {
            self.bytes -= size_of_row(&dropped);
        }
        self.check_memory()
    }

    fn check_memory(&mut self) -> Result<(), Failure> {
        if self.bytes <= self.context.stage_bytes_max {
            return Ok(());
        }
        let mut rows = std::mem::take(&mut self.rows);
        rows.extend(std::mem::take(&mut self.heap));
        rows.sort_unstable();
        let mut run = self.context.create_run("$sort")?;
        for row in rows {
            run.write(&encode_row(row)?)?;
        }
        self.runs.push(run);
        self.bytes = 0;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Sorted, Failure> {
        let mut rows = std::mem::take(&mut self.rows);
        rows.extend(std::mem::take(&mut self.heap));
        rows.sort_unstable();
        let limit = self.limit.and_then(|limit| usize::try_from(limit).ok());
        if self.runs.is_empty() {
            let documents = rows.into_iter().map(|row| row.document);
            return Ok(Sorted::Kept(documents.take(limit.unwrap_or(usize::MAX)).collect()));
        }
        Merge::new(self.runs, rows, limit).map(Sorted::Merged)
    }
}

impl Sorted {
    pub(super) fn next(&mut self) -> Result<Option<Value>, Failure> {
        match self {
            Sorted::Kept(documents) => Ok(documents.pop_front()),
            Sorted::Merged(merge) => merge.next(),
        }
    }
}

/// Runs on disk and what was left in memory, merged.
pub(super) struct Merge {
    /// The runs with the places of their next rows.
    runs: Vec<(Box<dyn SpillRun>, u64)>,
    kept: std::vec::IntoIter<Row>,
    /// The next row of each run, and of the rows that were kept, which come last.
    heads: BinaryHeap<Reverse<(Row, usize)>>,
    left: usize,
}

impl Merge {
    fn new(
        runs: Vec<Box<dyn SpillRun>>,
        kept: Vec<Row>,
        limit: Option<usize>,
    ) -> Result<Self, Failure> {
        let runs: Vec<_> = runs.into_iter().map(|run| (run, 0)).collect();
        let mut merge = Self {
            runs,
            kept: kept.into_iter(),
            heads: BinaryHeap::new(),
            left: limit.unwrap_or(usize::MAX),
        };
        for run in 0..=merge.runs.len() {
            merge.advance(run)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, run: usize) -> Result<(), Failure> {
        let row = match self.runs.get_mut(run) {
            None => self.kept.next(),
            Some((file, at)) if *at < file.end() => {
                let (record, next) = file.read(*at)?;
                *at = next;
                Some(decode_row(&record)?)
            }
            Some(_) => None,
        };
        self.heads.extend(row.map(|row| Reverse((row, run))));
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Value>, Failure> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        let Some(Reverse((row, run))) = self.heads.pop() else { return Ok(None) };
        self.left = left;
        self.advance(run)?;
        Ok(Some(row.document))
    }
}

fn size_of_row(row: &Row) -> usize {
    size_of::<Row>() + row.key.len() + bytes_of(&row.document)
}

fn encode_row(row: Row) -> Result<Vec<u8>, Failure> {
    let number = i64::try_from(row.number).unwrap_or(i64::MAX);
    let key = Value::Binary { subtype: 0, bytes: row.key };
    encode(Value::Array(vec![key, Value::Int64(number), row.document]))
}

fn decode_row(record: &[u8]) -> Result<Row, Failure> {
    let damaged = || Failure::new(1, "a temporary record of $sort cannot be read");
    let Value::Array(parts) = decode(record)? else { return Err(damaged()) };
    let mut parts = parts.into_iter();
    match (parts.next(), parts.next(), parts.next()) {
        (Some(Value::Binary { bytes, .. }), Some(Value::Int64(number)), Some(document)) => {
            let number = u64::try_from(number).unwrap_or(u64::MAX);
            Ok(Row { key: bytes, number, document })
        }
        _ => Err(damaged()),
    }
}
