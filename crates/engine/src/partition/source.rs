//! A partition's rows as queries see them: walked in the order of the hash line, read only as far
//! as a query looks, and found again by their place.

use std::cell::{Cell, OnceCell};
use std::ops::Bound;
use std::time::Duration;

use model::json::Pick;
use model::{Epk, PartitionId, Value};
use query::exec::{Item, Next, Shelf, Source};
use query::stopwatch::{Phase, Stopwatch};
use storage::{Cursor, Dir, KeyRange, View};

use super::Reader;
use crate::components::{Clock, Spawner};
use crate::index::Composite;
use crate::item::SystemProperties;
use crate::keys::{self, EpkForm};
use crate::ops::Retrieved;
use crate::planted::{Bug, is_planted};
use crate::row::{Row, RowHead, RowRef};
use crate::{Error, StoredItem};

/// How many rows are looked at between two looks at the clock.
const ROWS_PER_CLOCK: u64 = 64;

/// The rows of a partition from `lo` up to `hi`.
pub(crate) struct RowScan<'v> {
    cursor: Box<dyn Cursor + Send + 'v>,
    form: EpkForm,
    reader: Reader,
    limits: ScanLimits<'v>,
    seen: &'v Seen,
    rows_passed: u64,
    /// Whether the walk came to its end or to a pause, so that whoever pulls has taken every row.
    has_stopped: bool,
    /// Key of the row looked at last.
    key: Vec<u8>,
}

/// When a walk ends before its time.
#[derive(Clone, Copy)]
pub(crate) struct ScanLimits<'v> {
    pub(crate) clock: &'v dyn Clock,
    pub(crate) spawner: &'v dyn Spawner,
    /// When a page that can go on later must end.
    pub(crate) pause_at: Option<Duration>,
    /// When a page that can't fails.
    pub(crate) fail_at: Duration,
    /// Whether what was seen so far is as much as a page may cost.
    pub(crate) is_costly: &'v dyn Fn(&Seen) -> bool,
    /// Measures what takes how long, if somebody wants to know.
    pub(crate) stopwatch: Option<&'v Stopwatch>,
}

/// A query that must see all it is about takes too long.
pub(crate) fn too_late() -> Error {
    Error::QueryNotSupported(
        "The query looks at more items than it can within its time. Narrow its filter, or leave \
         out ORDER BY, GROUP BY, DISTINCT or aggregates."
            .into(),
    )
}

impl ScanLimits<'_> {
    /// Goes on to the next row.
    pub(crate) fn next_row(&self) {
        if let Some(stopwatch) = self.stopwatch {
            stopwatch.next_item();
        }
    }

    /// Does something for a row.
    pub(crate) fn of_row<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        match self.stopwatch {
            Some(stopwatch) => stopwatch.of_item(phase, work),
            None => work(),
        }
    }

    /// Whether a walk must end after `passed` rows.
    pub(crate) fn is_over(&self, passed: u64, seen: &Seen) -> Result<bool, Error> {
        if passed % ROWS_PER_CLOCK == ROWS_PER_CLOCK / 2 {
            self.spawner.give_way();
        }
        let Some(pause_at) = self.pause_at else {
            let is_late = || self.clock.monotonic() >= self.fail_at;
            if passed.is_multiple_of(ROWS_PER_CLOCK) && is_late() {
                return Err(too_late());
            }
            return Ok(false);
        };
        // At least one row is looked at, so that every page comes further.
        let is_late =
            || passed.is_multiple_of(ROWS_PER_CLOCK) && self.clock.monotonic() >= pause_at;
        Ok(passed > 0 && ((self.is_costly)(seen) || is_late()))
    }
}

/// What was looked at so far.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Rows walked over, and bytes of those that were read.
    pub(crate) walked: Cell<Retrieved>,
    /// Rows that were read, and their bytes.
    pub(crate) read: Cell<Retrieved>,
    /// Index entries.
    pub(crate) entries: Cell<u64>,
    /// Whether they named the rows.
    pub(crate) is_indexed: Cell<bool>,
    /// The composite index they are of, if they are of one.
    composite: OnceCell<Composite>,
}

impl Seen {
    /// Counts an index entry.
    pub(crate) fn note_entry(&self) {
        self.entries.set(self.entries.get() + 1);
    }

    /// Tells which composite index the entries were of.
    pub(crate) fn note_composite(&self, composite: &Composite) {
        self.composite.get_or_init(|| composite.clone());
    }

    /// The composite index that the entries were of, if they were of one.
    pub(crate) fn composite(&self) -> Option<&Composite> {
        self.composite.get()
    }

    /// Counts a row that was read.
    pub(crate) fn note_row(&self, bytes: usize) {
        self.walk();
        self.read(bytes, true);
    }

    fn walk(&self) {
        let mut walked = self.walked.get();
        walked.rows += 1;
        self.walked.set(walked);
    }

    fn read(&self, bytes: usize, is_first_time: bool) {
        if !is_first_time {
            return;
        }
        let mut walked = self.walked.get();
        walked.bytes += bytes as u64;
        self.walked.set(walked);
        let mut read = self.read.get();
        read.rows += 1;
        read.bytes += bytes as u64;
        self.read.set(read);
    }
}

/// Which rows a walk begins and ends with.
pub(crate) struct RowBounds<'a> {
    pub(crate) partition: PartitionId,
    pub(crate) lo: Bound<&'a [u8]>,
    pub(crate) hi: &'a [u8],
}

fn unreadable(form: EpkForm, key: &[u8]) -> Error {
    let id = keys::row_id(form, key).unwrap_or("of no id");
    Error::Internal(format!("the row of item {id} can't be read"))
}

impl<'v> RowScan<'v> {
    pub(crate) fn new(
        view: &'v dyn View,
        bounds: &RowBounds<'_>,
        form: EpkForm,
        reader: Reader,
        limits: ScanLimits<'v>,
        seen: &'v Seen,
    ) -> Result<Self, Error> {
        let range = KeyRange { lo: bounds.lo, hi: Bound::Excluded(bounds.hi) };
        let cursor = view.scan(bounds.partition, range, Dir::Fwd)?;
        let key = Vec::new();
        Ok(Self { cursor, form, reader, limits, seen, rows_passed: 0, has_stopped: false, key })
    }

    /// Place of the row looked at last, if any was and all were taken.
    pub(crate) fn place(&self) -> Option<&[u8]> {
        let is_taken = self.has_stopped || is_planted(Bug::PageEndPassed);
        self.key.get(1..).filter(|_| is_taken)
    }

    /// Goes on to the next row: its head if it is to be seen, or `None` at the end.
    fn advance(&mut self) -> Result<Option<Option<RowHead>>, Error> {
        let Some((key, value)) = self.cursor.next()? else { return Ok(None) };
        self.key.clear();
        self.key.extend_from_slice(key);
        self.rows_passed += 1;
        let head = RowHead::decode(value).ok_or_else(|| unreadable(self.form, key))?;
        let is_live = !self.reader.is_expired(&head);
        if is_live {
            self.seen.walk();
        }
        Ok(Some(is_live.then_some(head)))
    }

    fn current(&self, head: RowHead) -> Result<ScannedRow<'_>, Error> {
        let id = keys::row_id(self.form, &self.key)
            .ok_or_else(|| Error::Internal("a row's key can't be read".into()))?;
        let (_, value) = self.cursor.row().unwrap_or_default();
        let row = RowRef::behind(head, value).ok_or_else(|| unreadable(self.form, &self.key))?;
        let (place, seen) = (self.key.get(1..).unwrap_or_default(), self.seen);
        Ok(ScannedRow { place, id, row, reader: self.reader, seen, is_read: Cell::new(false) })
    }
}

impl Source for RowScan<'_> {
    type Whole = StoredItem;
    type Error = Error;
    type Item<'s>
        = ScannedRow<'s>
    where
        Self: 's;

    fn next(&mut self) -> Result<Next<ScannedRow<'_>>, Error> {
        loop {
            if self.limits.is_over(self.rows_passed, self.seen)? {
                self.has_stopped = true;
                return Ok(Next::Pause);
            }
            self.limits.next_row();
            let limits = self.limits;
            match limits.of_row(Phase::Loading, || self.advance())? {
                None => {
                    self.has_stopped = true;
                    return Ok(Next::End);
                }
                Some(Some(head)) => return self.current(head).map(Next::Item),
                Some(None) => {}
            }
        }
    }
}

/// A row that a walk stands at.
pub(crate) struct ScannedRow<'s> {
    place: &'s [u8],
    id: &'s str,
    row: RowRef<'s>,
    reader: Reader,
    seen: &'s Seen,
    is_read: Cell<bool>,
}

impl ScannedRow<'_> {
    /// Counts the row as one that was read, once.
    fn note_read(&self) {
        self.seen.read(self.row.body.len(), !self.is_read.replace(true));
    }

    fn system(&self) -> SystemProperties {
        SystemProperties::of(self.reader.container, &self.row.head)
    }
}

impl Item for ScannedRow<'_> {
    type Whole = StoredItem;
    type Error = Error;

    fn number(&self) -> u64 {
        self.row.head.number
    }

    fn place(&self) -> &[u8] {
        self.place
    }

    fn read(&self, pick: &Pick) -> Result<Value, Error> {
        self.read_again(pick, Value::Null)
    }

    fn read_again(&self, pick: &Pick, old: Value) -> Result<Value, Error> {
        if !pick.is_nothing() {
            self.note_read();
        }
        self.system().read_item_again(self.row.body, pick, self.id, old)
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        self.note_read();
        self.system().write_item(self.row.body, out);
    }

    fn bytes(&self) -> usize {
        self.row.body.len() + ITEM_OVERHEAD
    }

    fn to_whole(&self) -> StoredItem {
        self.note_read();
        self.row.to_item(self.reader.container, self.id)
    }
}

/// System properties add about this much to what is stored.
const ITEM_OVERHEAD: usize = 200;

/// The rows of several partitions, by place.
pub(crate) struct RowShelf<'v, F> {
    pub(crate) view: &'v dyn View,
    pub(crate) form: EpkForm,
    pub(crate) reader: Reader,
    /// Which partition holds a place.
    pub(crate) partition_of: F,
    pub(crate) seen: &'v Seen,
    pub(crate) stopwatch: Option<&'v Stopwatch>,
}

impl<F: Fn(&Epk) -> Option<PartitionId>> Shelf for RowShelf<'_, F> {
    type Item = FetchedRow;

    fn fetch(&mut self, place: &[u8]) -> Result<Option<FetchedRow>, Error> {
        let Some((epk, _, _)) = keys::split_identity(self.form, place) else { return Ok(None) };
        let Some(partition) = (self.partition_of)(&epk) else { return Ok(None) };
        let fetch = || fetch_row(self.view, partition, self.form, self.reader, place);
        let row = match self.stopwatch {
            Some(stopwatch) => {
                stopwatch.next_item();
                stopwatch.of_item(Phase::Loading, fetch)?
            }
            None => fetch()?,
        };
        if let Some(row) = &row {
            self.seen.read(row.item.body().len(), true);
        }
        Ok(row)
    }
}

/// The row at a place, expired or not.
pub(crate) fn fetch_row(
    view: &dyn View,
    partition: PartitionId,
    form: EpkForm,
    reader: Reader,
    place: &[u8],
) -> Result<Option<FetchedRow>, Error> {
    let Some(id) = keys::id_of_identity(form, place) else { return Ok(None) };
    let Some(value) = view.get(partition, &keys::row_of_identity(place))? else {
        return Ok(None);
    };
    let row = Row::read(value, id)?;
    let is_expired = reader.is_expired(&row.head);
    let item = row.into_item(reader.container, id);
    Ok(Some(FetchedRow { place: place.to_vec(), item, is_expired }))
}

/// A row that was found again.
pub(crate) struct FetchedRow {
    place: Vec<u8>,
    pub(crate) item: StoredItem,
    pub(crate) is_expired: bool,
}

impl Item for FetchedRow {
    type Whole = StoredItem;
    type Error = Error;

    fn number(&self) -> u64 {
        self.item.number
    }

    fn place(&self) -> &[u8] {
        &self.place
    }

    fn read(&self, pick: &Pick) -> Result<Value, Error> {
        self.item.system().read_item(self.item.body(), pick, self.item.id())
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        self.item.write_json(out);
    }

    fn bytes(&self) -> usize {
        self.item.body().len() + ITEM_OVERHEAD
    }

    fn to_whole(&self) -> StoredItem {
        self.item.clone()
    }
}
