//! Rows as queries see them, however they are found.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use model::Value;
use model::json::Pick;
use query::exec::{Item, Next, Source};
use query::stopwatch::Phase;

use super::find::Posting;
use super::ordered::{Entry, Ground, Moved, OrderWalk};
use crate::partition::{FetchedRow, RowScan, ScanLimits, ScannedRow, fetch_row};
use crate::{Error, StoredItem};

/// Rows of a range in the order of the hash line.
pub(crate) enum Rows<'v> {
    /// All of them.
    Scanned(RowScan<'v>),
    /// Those that an index named.
    Found(FoundRows<'v>),
}

impl Rows<'_> {
    /// Place of the row looked at last, if any was and all were taken.
    pub(crate) fn place(&self) -> Option<&[u8]> {
        match self {
            Rows::Scanned(scan) => scan.place(),
            Rows::Found(found) => found.place(),
        }
    }
}

impl Source for Rows<'_> {
    type Whole = StoredItem;
    type Error = Error;
    type Item<'s>
        = AnyRow<'s>
    where
        Self: 's;

    fn next(&mut self) -> Result<Next<AnyRow<'_>>, Error> {
        Ok(match self {
            Rows::Scanned(scan) => match scan.next()? {
                Next::Item(row) => Next::Item(AnyRow::Scanned(row)),
                Next::Pause => Next::Pause,
                Next::End => Next::End,
            },
            Rows::Found(found) => match found.next()? {
                Next::Item(row) => Next::Item(AnyRow::Fetched(row)),
                Next::Pause => Next::Pause,
                Next::End => Next::End,
            },
        })
    }
}

/// Rows that an index named, read one after the other.
pub(crate) struct FoundRows<'v> {
    ground: Ground<'v>,
    limits: ScanLimits<'v>,
    postings: std::vec::IntoIter<Posting>,
    passed: u64,
    last: Option<Box<[u8]>>,
    has_stopped: bool,
}

impl<'v> FoundRows<'v> {
    pub(crate) fn new(ground: Ground<'v>, limits: ScanLimits<'v>, postings: Vec<Posting>) -> Self {
        let postings = postings.into_iter();
        Self { ground, limits, postings, passed: 0, last: None, has_stopped: false }
    }

    fn place(&self) -> Option<&[u8]> {
        self.last.as_deref().filter(|_| self.has_stopped)
    }

    fn next(&mut self) -> Result<Next<FetchedRow>, Error> {
        loop {
            if self.limits.is_over(self.passed, self.ground.seen)? {
                self.has_stopped = true;
                return Ok(Next::Pause);
            }
            let Some(posting) = self.postings.next() else {
                self.has_stopped = true;
                return Ok(Next::End);
            };
            self.passed += 1;
            self.limits.next_row();
            let row = self.limits.of_row(Phase::Loading, || self.ground.read(&posting.place))?;
            self.last = Some(posting.place);
            if let Some(row) = row {
                return Ok(Next::Item(row));
            }
        }
    }
}

impl Ground<'_> {
    /// The live row at a place.
    fn read(&self, place: &[u8]) -> Result<Option<FetchedRow>, Error> {
        let row = fetch_row(self.view, self.partition, self.form, self.reader, place)?;
        let row = row.filter(|row| !row.is_expired);
        if let Some(row) = &row {
            self.seen.note_row(row.item.body().len());
        }
        Ok(row)
    }
}

/// Rows of several ranges in the order of an index.
pub(crate) struct OrderedRows<'v> {
    walks: Vec<(OrderWalk<'v>, Ground<'v>)>,
    limits: ScanLimits<'v>,
    /// The next entry of each walk.
    next: BinaryHeap<Reverse<(Entry, usize)>>,
    passed: u64,
    /// Rows that were shown. A page comes further only by those.
    shown: u64,
    /// Rows that are still wanted.
    rows_max: u64,
    is_cut_short: bool,
}

impl<'v> OrderedRows<'v> {
    pub(crate) fn new(
        mut walks: Vec<(OrderWalk<'v>, Ground<'v>)>,
        limits: ScanLimits<'v>,
        rows_max: u64,
    ) -> Result<Self, Error> {
        let mut next = BinaryHeap::with_capacity(walks.len());
        let mut is_cut_short = false;
        for (at, (walk, _)) in walks.iter_mut().enumerate() {
            match walk.next()? {
                Moved::Entry(entry) => next.push(Reverse((entry, at))),
                Moved::CutShort => is_cut_short = true,
                Moved::End => {}
            }
        }
        Ok(Self { walks, limits, next, passed: 0, shown: 0, rows_max, is_cut_short })
    }
}

impl Source for OrderedRows<'_> {
    type Whole = StoredItem;
    type Error = Error;
    type Item<'s>
        = FetchedRow
    where
        Self: 's;

    fn next(&mut self) -> Result<Next<FetchedRow>, Error> {
        loop {
            if self.rows_max == 0 {
                return Ok(Next::End);
            }
            let is_over = match self.walks.first() {
                Some((_, ground)) if self.shown > 0 => {
                    self.limits.is_over(self.passed, ground.seen)?
                }
                _ => false,
            };
            // What one walk left out may come before what others have.
            if is_over || self.is_cut_short {
                return Ok(Next::Pause);
            }
            let Some(Reverse((entry, at))) = self.next.pop() else { return Ok(Next::End) };
            let (walk, ground) = &mut self.walks[at];
            self.limits.next_row();
            match self.limits.of_row(Phase::IndexLookup, || walk.next())? {
                Moved::Entry(entry) => self.next.push(Reverse((entry, at))),
                Moved::CutShort => self.is_cut_short = true,
                Moved::End => {}
            }
            self.passed += 1;
            let row = self.limits.of_row(Phase::Loading, || ground.read(&entry.place))?;
            if let Some(row) = row {
                self.rows_max -= 1;
                self.shown += 1;
                return Ok(Next::Item(row));
            }
        }
    }

    fn note_passed_over(&mut self) {
        self.shown = self.shown.saturating_sub(1);
    }
}

/// A row, however it was found.
pub(crate) enum AnyRow<'s> {
    Scanned(ScannedRow<'s>),
    Fetched(FetchedRow),
}

impl Item for AnyRow<'_> {
    type Whole = StoredItem;
    type Error = Error;

    fn number(&self) -> u64 {
        match self {
            AnyRow::Scanned(row) => row.number(),
            AnyRow::Fetched(row) => row.number(),
        }
    }

    fn place(&self) -> &[u8] {
        match self {
            AnyRow::Scanned(row) => row.place(),
            AnyRow::Fetched(row) => row.place(),
        }
    }

    fn read(&self, pick: &Pick) -> Result<Value, Error> {
        match self {
            AnyRow::Scanned(row) => row.read(pick),
            AnyRow::Fetched(row) => row.read(pick),
        }
    }

    fn read_again(&self, pick: &Pick, old: Value) -> Result<Value, Error> {
        match self {
            AnyRow::Scanned(row) => row.read_again(pick, old),
            AnyRow::Fetched(row) => row.read_again(pick, old),
        }
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            AnyRow::Scanned(row) => row.write_json(out),
            AnyRow::Fetched(row) => row.write_json(out),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            AnyRow::Scanned(row) => row.bytes(),
            AnyRow::Fetched(row) => row.bytes(),
        }
    }

    fn to_whole(&self) -> StoredItem {
        match self {
            AnyRow::Scanned(row) => row.to_whole(),
            AnyRow::Fetched(row) => row.to_whole(),
        }
    }
}
