//! Rows as queries read them, by any access path.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use model::Value;
use model::json::FieldMask;
use query::exec::{Item, Next, RowPosition, Source};
use query::stopwatch::Phase;

use super::by_number::NumberedRows;
use super::find::Posting;
use super::ordered::{Entry, NextEntry, OrderedScan};
use crate::listing::IdBounds;
use crate::partition::{FetchedRow, RowScan, ScanContext, ScanLimits, ScannedRow};
use crate::{Error, StoredItem};

/// Rows of a range in the order of the hash line, or of some ranges in that of their numbers.
pub(crate) enum Rows<'v> {
    /// All of them, by a full scan.
    Scanned(RowScan<'v>),
    /// The rows that an index named.
    PostingList(PostingRows<'v>),
    /// All of them or those that an index named, by number.
    Numbered(NumberedRows<'v>),
}

impl Rows<'_> {
    /// The position behind the row read last, if any was and the caller has taken every row.
    pub(crate) fn last_read(&self) -> Option<RowPosition> {
        let identity = match self {
            Rows::Scanned(scan) => scan.identity(),
            Rows::PostingList(found) => found.identity(),
            Rows::Numbered(numbered) => return numbered.last_read(),
        }?;
        Some(RowPosition::Item { identity: identity.to_vec(), rows: u64::MAX })
    }
}

impl Source for Rows<'_> {
    type WholeItem = StoredItem;
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
            Rows::PostingList(found) => match found.next()? {
                Next::Item(row) => Next::Item(AnyRow::Fetched(row)),
                Next::Pause => Next::Pause,
                Next::End => Next::End,
            },
            Rows::Numbered(numbered) => numbered.next()?,
        })
    }
}

/// Rows that an index named, read one after the other.
pub(crate) struct PostingRows<'v> {
    context: ScanContext<'v>,
    limits: ScanLimits<'v>,
    postings: std::vec::IntoIter<Posting>,
    passed: u64,
    last: Option<Box<[u8]>>,
    has_stopped: bool,
}

impl<'v> PostingRows<'v> {
    pub(crate) fn new(
        context: ScanContext<'v>,
        limits: ScanLimits<'v>,
        postings: Vec<Posting>,
    ) -> Self {
        let postings = postings.into_iter();
        Self { context, limits, postings, passed: 0, last: None, has_stopped: false }
    }

    fn identity(&self) -> Option<&[u8]> {
        self.last.as_deref().filter(|_| self.has_stopped)
    }

    fn next(&mut self) -> Result<Next<FetchedRow>, Error> {
        loop {
            if self.limits.is_over(self.passed, self.context.stats)? {
                self.has_stopped = true;
                return Ok(Next::Pause);
            }
            let Some(posting) = self.postings.next() else {
                self.has_stopped = true;
                return Ok(Next::End);
            };
            self.passed += 1;
            self.limits.next_row();
            let row =
                self.limits.of_row(Phase::Loading, || self.context.fetch(&posting.identity))?;
            self.last = Some(posting.identity);
            if let Some(row) = self.context.live(row) {
                return Ok(Next::Item(row));
            }
        }
    }
}

/// Rows of several ranges in the order of an index.
pub(crate) struct OrderedRows<'v> {
    scans: Vec<(OrderedScan<'v>, ScanContext<'v>)>,
    limits: ScanLimits<'v>,
    /// The next entry of each scan.
    next: BinaryHeap<Reverse<(Entry, usize)>>,
    passed: u64,
    /// Rows that were returned. Only those let a page make progress.
    shown: u64,
    /// How many more rows may be returned.
    rows_max: u64,
    is_cut_short: bool,
    /// The ids of the rows to return.
    ids: Option<&'v IdBounds>,
    /// The entry of the row read last.
    last: Option<Entry>,
    has_paused: bool,
}

impl<'v> OrderedRows<'v> {
    pub(crate) fn new(
        mut scans: Vec<(OrderedScan<'v>, ScanContext<'v>)>,
        limits: ScanLimits<'v>,
        rows_max: u64,
    ) -> Result<Self, Error> {
        let mut next = BinaryHeap::with_capacity(scans.len());
        let mut is_cut_short = false;
        for (at, (scan, _)) in scans.iter_mut().enumerate() {
            match scan.next()? {
                NextEntry::Entry(entry) => next.push(Reverse((entry, at))),
                NextEntry::CutShort => is_cut_short = true,
                NextEntry::End => {}
            }
        }
        Ok(Self {
            scans,
            limits,
            next,
            passed: 0,
            shown: 0,
            rows_max,
            is_cut_short,
            ids: None,
            last: None,
            has_paused: false,
        })
    }

    /// The same, without rows of other ids. A page may end at any of them.
    pub(crate) fn with_ids(self, ids: &'v IdBounds) -> Self {
        Self { ids: Some(ids), ..self }
    }

    /// Identity of the row read last, if the page was to end there.
    pub(crate) fn identity(&self) -> Option<&[u8]> {
        self.last.as_ref().filter(|_| self.has_paused).map(|entry| entry.identity.as_slice())
    }
}

impl Source for OrderedRows<'_> {
    type WholeItem = StoredItem;
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
            let is_over = match self.scans.first() {
                Some((_, context)) if self.shown > 0 => {
                    self.limits.is_over(self.passed, context.stats)?
                }
                _ => false,
            };
            // Entries that one scan left out may come before those of other scans.
            if is_over || self.is_cut_short {
                self.has_paused = true;
                return Ok(Next::Pause);
            }
            let Some(Reverse((entry, at))) = self.next.pop() else { return Ok(Next::End) };
            let (scan, context) = &mut self.scans[at];
            self.limits.next_row();
            match self.limits.of_row(Phase::IndexLookup, || scan.next())? {
                NextEntry::Entry(entry) => self.next.push(Reverse((entry, at))),
                NextEntry::CutShort => self.is_cut_short = true,
                NextEntry::End => {}
            }
            self.passed += 1;
            let row = self.limits.of_row(Phase::Loading, || context.fetch(&entry.identity))?;
            let Some(row) = context.live(row) else { continue };
            self.last = Some(entry);
            self.shown += 1;
            if self.ids.is_none_or(|ids| ids.contain(row.item.row_key().as_bytes())) {
                self.rows_max -= 1;
                return Ok(Next::Item(row));
            }
        }
    }

    fn note_passed_over(&mut self) {
        self.shown = self.shown.saturating_sub(1);
    }
}

/// A row, by any access path.
pub(crate) enum AnyRow<'s> {
    Scanned(ScannedRow<'s>),
    Fetched(FetchedRow),
}

impl Item for AnyRow<'_> {
    type WholeItem = StoredItem;
    type Error = Error;

    fn number(&self) -> u64 {
        match self {
            AnyRow::Scanned(row) => row.number(),
            AnyRow::Fetched(row) => row.number(),
        }
    }

    fn identity(&self) -> &[u8] {
        match self {
            AnyRow::Scanned(row) => row.identity(),
            AnyRow::Fetched(row) => row.identity(),
        }
    }

    fn read(&self, field_mask: &FieldMask) -> Result<Value, Error> {
        match self {
            AnyRow::Scanned(row) => row.read(field_mask),
            AnyRow::Fetched(row) => row.read(field_mask),
        }
    }

    fn read_again(&self, field_mask: &FieldMask, old: Value) -> Result<Value, Error> {
        match self {
            AnyRow::Scanned(row) => row.read_again(field_mask, old),
            AnyRow::Fetched(row) => row.read_again(field_mask, old),
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

    fn to_whole_item(&self) -> StoredItem {
        match self {
            AnyRow::Scanned(row) => row.to_whole_item(),
            AnyRow::Fetched(row) => row.to_whole_item(),
        }
    }
}
