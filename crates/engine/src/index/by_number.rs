//! Rows of some ranges in the order of their numbers, in which they were created.
//!
//! The heads of all rows are read and put in order. Where there are so many that they take too much
//! memory, those with the lowest numbers are kept, and the others read again behind them.

use std::ops::Range;

use query::exec::RowPosition;
use query::stopwatch::Phase;
use storage::{Dir, KeyRange};

use super::find::Posting;
use super::source::AnyRow;
use crate::Error;
use crate::partition::{FetchedRow, ScanContext, ScanLimits, ScannedRow};
use crate::planted::{Bug, is_planted};
use crate::row::RowHead;

/// Most rows that are kept at a time.
const KEPT_MAX: usize = 65_536;
/// Most bytes of their keys and values.
const KEPT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Most bytes of values that are kept; later ones are looked up again.
const VALUE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Rows of several ranges in the order of their numbers.
pub(crate) struct NumberedRows<'v> {
    ranges: Vec<RangeRows<'v>>,
    limits: ScanLimits<'v>,
    /// The least number that is returned.
    from: u64,
    kept: Vec<Kept>,
    /// Keys of the rows that are kept.
    keys: Vec<u8>,
    /// Bytes of the values that are kept.
    value_bytes: usize,
    /// Which one is next.
    next: usize,
    /// The greatest number that is kept, if rows with greater ones were left out.
    left_out: Option<u64>,
    passed: u64,
    last: Option<u64>,
    has_stopped: bool,
}

/// The rows of one range.
struct RangeRows<'v> {
    context: ScanContext<'v>,
    rows: RangeRowSource,
}

enum RangeRowSource {
    /// All of them between two keys.
    Scanned(Vec<u8>, Vec<u8>),
    /// Those that an index named.
    PostingList(Vec<Posting>),
}

/// A row whose turn comes.
struct Kept {
    number: u64,
    range: usize,
    identity: Range<usize>,
    value: Option<Box<[u8]>>,
}

/// What comes next.
enum NextNumbered {
    /// The row that is kept here.
    Kept(usize),
    Fetched(FetchedRow),
    Pause,
    End,
}

impl<'v> NumberedRows<'v> {
    pub(crate) fn new(limits: ScanLimits<'v>, start: &RowPosition) -> Self {
        let from = match start {
            RowPosition::Number { number, rows: u64::MAX } => number.saturating_add(1),
            RowPosition::Number { number, .. } => *number,
            RowPosition::Start | RowPosition::Item { .. } | RowPosition::Key { .. } => 0,
        };
        Self {
            ranges: Vec::new(),
            limits,
            from,
            kept: Vec::new(),
            keys: Vec::new(),
            value_bytes: 0,
            next: 0,
            left_out: None,
            passed: 0,
            last: None,
            has_stopped: false,
        }
    }

    /// Adds the rows of a range between two keys.
    pub(crate) fn add_rows(&mut self, context: ScanContext<'v>, lo: &[u8], hi: &[u8]) {
        let rows = RangeRowSource::Scanned(lo.to_vec(), hi.to_vec());
        self.ranges.push(RangeRows { context, rows });
    }

    /// Adds the rows of a range that an index named.
    pub(crate) fn add_postings(&mut self, context: ScanContext<'v>, postings: Vec<Posting>) {
        self.ranges.push(RangeRows { context, rows: RangeRowSource::PostingList(postings) });
    }

    /// Reads the heads of all rows, and keeps those that come next.
    pub(crate) fn load(&mut self) -> Result<(), Error> {
        self.kept.clear();
        self.keys.clear();
        self.value_bytes = 0;
        (self.next, self.left_out) = (0, None);
        let ranges = std::mem::take(&mut self.ranges);
        let loaded =
            ranges.iter().enumerate().try_for_each(|(at, range)| self.load_range(at, range));
        self.ranges = ranges;
        loaded?;
        self.kept.sort_unstable_by_key(|kept| kept.number);
        Ok(())
    }

    fn load_range(&mut self, at: usize, range: &RangeRows<'v>) -> Result<(), Error> {
        match &range.rows {
            RangeRowSource::Scanned(lo, hi) => {
                let ScanContext { view, partition, reader, .. } = range.context;
                let mut cursor = view.scan(partition, KeyRange::half_open(lo, hi), Dir::Fwd)?;
                let mut passed = 0;
                while let Some((key, value)) = cursor.next()? {
                    self.limits.check_deadline(passed)?;
                    passed += 1;
                    let head = RowHead::decode(value).ok_or_else(|| {
                        Error::Internal("the head of a row can't be read".to_owned())
                    })?;
                    if self.is_wanted(head.number) && !reader.is_expired(&head) {
                        let identity = key.get(1..).unwrap_or_default();
                        self.keep(head.number, at, identity, Some(value));
                    }
                }
            }
            RangeRowSource::PostingList(postings) => {
                for Posting { number, identity } in postings {
                    if self.is_wanted(*number) {
                        self.keep(*number, at, identity, None);
                    }
                }
            }
        }
        Ok(())
    }

    fn is_wanted(&self, number: u64) -> bool {
        number >= self.from && self.left_out.is_none_or(|greatest| number <= greatest)
    }

    fn keep(&mut self, number: u64, range: usize, identity: &[u8], value: Option<&[u8]>) {
        let start = self.keys.len();
        self.keys.extend_from_slice(identity);
        let has_room = |value: &&[u8]| self.value_bytes + value.len() <= VALUE_BYTES_MAX;
        // Each by itself: one buffer for all would be copied each time that it grows.
        let value = value.filter(has_room).map(Box::<[u8]>::from);
        self.value_bytes += value.as_ref().map_or(0, |value| value.len());
        self.kept.push(Kept { number, range, identity: start..self.keys.len(), value });
        let bytes = self.keys.len() + self.value_bytes;
        if self.kept.len() > KEPT_MAX || bytes > KEPT_BYTES_MAX {
            self.leave_out_half();
        }
    }

    /// Leaves out the rows with the greater numbers, and all values.
    fn leave_out_half(&mut self) {
        let half = (self.kept.len() / 2).max(1);
        if half < self.kept.len() {
            self.kept.select_nth_unstable_by_key(half, |kept| kept.number);
            self.kept.truncate(half);
        }
        self.left_out = self.kept.iter().map(|kept| kept.number).max();
        let keys = std::mem::take(&mut self.keys);
        self.value_bytes = 0;
        for kept in &mut self.kept {
            let start = self.keys.len();
            self.keys.extend_from_slice(&keys[kept.identity.clone()]);
            (kept.identity, kept.value) = (start..self.keys.len(), None);
        }
    }

    /// The position behind the row read last, if the caller has taken every row.
    pub(crate) fn last_read(&self) -> Option<RowPosition> {
        let is_taken = self.has_stopped || is_planted(Bug::PageEndPassed);
        let number = self.last.filter(|_| is_taken)?;
        Some(RowPosition::Number { number, rows: u64::MAX })
    }

    /// Moves to the next row.
    fn advance(&mut self) -> Result<NextNumbered, Error> {
        loop {
            let is_over = match self.ranges.first() {
                Some(range) => self.limits.is_over(self.passed, range.context.stats)?,
                None => false,
            };
            if is_over {
                self.has_stopped = true;
                return Ok(NextNumbered::Pause);
            }
            let Some(kept) = self.kept.get(self.next) else {
                match self.left_out {
                    Some(greatest) => {
                        self.from = greatest.saturating_add(1);
                        self.load()?;
                        continue;
                    }
                    None => {
                        self.has_stopped = true;
                        return Ok(NextNumbered::End);
                    }
                }
            };
            self.passed += 1;
            self.next += 1;
            self.limits.next_row();
            self.last = Some(kept.number);
            let context = self.ranges[kept.range].context;
            if kept.value.is_some() {
                context.stats.count_scanned();
                return Ok(NextNumbered::Kept(self.next - 1));
            }
            let identity = &self.keys[kept.identity.clone()];
            let row = self.limits.of_row(Phase::Loading, || context.fetch(identity))?;
            if let Some(row) = context.live(row) {
                return Ok(NextNumbered::Fetched(row));
            }
        }
    }

    /// The next row, or why there is none.
    pub(crate) fn next(&mut self) -> Result<query::exec::Next<AnyRow<'_>>, Error> {
        Ok(match self.advance()? {
            NextNumbered::Kept(at) => query::exec::Next::Item(AnyRow::Scanned(self.row(at)?)),
            NextNumbered::Fetched(row) => query::exec::Next::Item(AnyRow::Fetched(row)),
            NextNumbered::Pause => query::exec::Next::Pause,
            NextNumbered::End => query::exec::Next::End,
        })
    }

    fn row(&self, at: usize) -> Result<ScannedRow<'_>, Error> {
        let Kept { range, identity, value, .. } = &self.kept[at];
        let context = &self.ranges[*range].context;
        ScannedRow::read(
            context,
            &self.keys[identity.clone()],
            value.as_deref().unwrap_or_default(),
        )
    }
}
