//! A partition's rows as queries read them: scanned in the order of the hash line, decoded only as
//! far as a query needs, and looked up again by their identity.

use std::cell::{Cell, OnceCell};
use std::ops::Bound;
use std::time::Duration;

use model::json::FieldMask;
use model::{Epk, PartitionId, Value};
use query::exec::{Item, Next, RowLookup, Source};
use query::stopwatch::{Phase, Stopwatch};
use storage::{Cursor, Dir, KeyRange, View};

use super::Reader;
use crate::cancellation::StopSignal;
use crate::components::{Clock, Spawner};
use crate::index::Composite;
use crate::item::{ItemVersion, SystemProperties, read_item};
use crate::keys::{self, EpkForm};
use crate::listing::IdBounds;
use crate::ops::Retrieved;
use crate::planted::{Bug, is_planted};
use crate::row::{Row, RowHead, RowRef, unreadable};
use crate::{Error, QueryLimit, RowKey, StoredItem};

/// How many rows are scanned between two checks of the clock.
const ROWS_PER_CLOCK: u64 = 64;

/// The rows of a partition from `lo` up to `hi`.
pub(crate) struct RowScan<'v> {
    cursor: Box<dyn Cursor + Send + 'v>,
    form: EpkForm,
    reader: Reader,
    limits: ScanLimits<'v>,
    stats: &'v ScanStats,
    rows_passed: u64,
    /// Whether the scan came to its end or to a pause, so that the caller has taken every row.
    has_stopped: bool,
    /// Key of the row read last.
    key: Vec<u8>,
    /// The ids of the rows to return.
    ids: Option<&'v IdBounds>,
}

/// When a scan ends early.
#[derive(Clone, Copy)]
pub(crate) struct ScanLimits<'v> {
    pub(crate) clock: &'v dyn Clock,
    pub(crate) spawner: &'v dyn Spawner,
    /// When a page that can be continued must end.
    pub(crate) pause_at: Option<Duration>,
    /// When a page that can't be continued fails.
    pub(crate) fail_at: Duration,
    /// Ends either page earlier.
    pub(crate) stop: &'v StopSignal,
    /// Whether the rows and entries read so far cost as much as a page may.
    pub(crate) is_costly: &'v dyn Fn(&ScanStats) -> bool,
    /// Measures the phases, if the client asked for query metrics.
    pub(crate) stopwatch: Option<&'v Stopwatch>,
}

/// A query that must read all of its rows has passed its deadline.
pub(crate) fn too_late() -> Error {
    QueryLimit::Time.into()
}

impl ScanLimits<'_> {
    /// Starts the next row.
    pub(crate) fn next_row(&self) {
        if let Some(stopwatch) = self.stopwatch {
            stopwatch.next_item();
        }
    }

    /// Runs a step for a row, measured if the client asked for query metrics.
    pub(crate) fn of_row<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        match self.stopwatch {
            Some(stopwatch) => stopwatch.of_item(phase, work),
            None => work(),
        }
    }

    /// Gives way to others, and fails if a scan that must read all of its rows before it can return
    /// one has passed its time limit after `passed` rows. The deadline of a request ends a page that
    /// can be continued once it has a row.
    pub(crate) fn check_deadline(&self, passed: u64) -> Result<(), Error> {
        if passed % ROWS_PER_CLOCK != ROWS_PER_CLOCK / 2 {
            return Ok(());
        }
        self.spawner.give_way();
        let now = self.clock.monotonic();
        let is_late = match self.pause_at {
            Some(_) => now >= self.fail_at,
            None => self.stop.is_due(self.fail_at, now),
        };
        if is_late { Err(too_late()) } else { Ok(()) }
    }

    /// Whether a scan must end after `passed` rows.
    pub(crate) fn is_over(&self, passed: u64, stats: &ScanStats) -> Result<bool, Error> {
        if passed % ROWS_PER_CLOCK == ROWS_PER_CLOCK / 2 {
            self.spawner.give_way();
        }
        let Some(pause_at) = self.pause_at else {
            let is_late = || self.stop.is_due(self.fail_at, self.clock.monotonic());
            if passed.is_multiple_of(ROWS_PER_CLOCK) && is_late() {
                return Err(too_late());
            }
            return Ok(false);
        };
        // At least one row is read, so that every page makes progress.
        let is_late = || {
            passed.is_multiple_of(ROWS_PER_CLOCK)
                && self.stop.is_due(pause_at, self.clock.monotonic())
        };
        Ok(passed > 0 && ((self.is_costly)(stats) || is_late()))
    }
}

/// Rows and index entries that were read so far.
#[derive(Debug, Default)]
pub(crate) struct ScanStats {
    /// Rows scanned, and bytes of those that were read.
    pub(crate) scanned: Cell<Retrieved>,
    /// Rows that were read, and their bytes.
    pub(crate) read: Cell<Retrieved>,
    /// Index entries that were read.
    pub(crate) entries: Cell<u64>,
    /// Whether index entries named the rows.
    pub(crate) is_indexed: Cell<bool>,
    /// The composite index of the entries, if they are of one.
    composite: OnceCell<Composite>,
}

impl ScanStats {
    /// Counts an index entry.
    pub(crate) fn note_entry(&self) {
        self.entries.set(self.entries.get() + 1);
    }

    /// Records which composite index the entries were of.
    pub(crate) fn note_composite(&self, composite: &Composite) {
        self.composite.get_or_init(|| composite.clone());
    }

    /// The composite index of the entries, if they were of one.
    pub(crate) fn composite(&self) -> Option<&Composite> {
        self.composite.get()
    }

    /// Counts a row that was read.
    pub(crate) fn note_row(&self, bytes: usize) {
        self.count_scanned();
        self.count_read(bytes, true);
    }

    /// Counts a row that was examined.
    pub(crate) fn count_scanned(&self) {
        let mut scanned = self.scanned.get();
        scanned.rows += 1;
        self.scanned.set(scanned);
    }

    fn count_read(&self, bytes: usize, is_first_time: bool) {
        if !is_first_time {
            return;
        }
        let mut scanned = self.scanned.get();
        scanned.bytes += bytes as u64;
        self.scanned.set(scanned);
        let mut read = self.read.get();
        read.rows += 1;
        read.bytes += bytes as u64;
        self.read.set(read);
    }
}

/// The bounds of a scan's rows.
pub(crate) struct RowBounds<'a> {
    pub(crate) partition: PartitionId,
    pub(crate) lo: Bound<&'a [u8]>,
    pub(crate) hi: &'a [u8],
}

impl<'v> RowScan<'v> {
    pub(crate) fn new(
        view: &'v dyn View,
        bounds: &RowBounds<'_>,
        form: EpkForm,
        reader: Reader,
        limits: ScanLimits<'v>,
        stats: &'v ScanStats,
    ) -> Result<Self, Error> {
        let range = KeyRange { lo: bounds.lo, hi: Bound::Excluded(bounds.hi) };
        let cursor = view.scan(bounds.partition, range, Dir::Fwd)?;
        Ok(Self {
            cursor,
            form,
            reader,
            limits,
            stats,
            rows_passed: 0,
            has_stopped: false,
            key: Vec::new(),
            ids: None,
        })
    }

    /// The same, without rows of other ids.
    pub(crate) fn with_ids(self, ids: &'v IdBounds) -> Self {
        Self { ids: Some(ids), ..self }
    }

    /// Identity of the row read last, if any was and the caller has taken every row.
    pub(crate) fn identity(&self) -> Option<&[u8]> {
        let is_taken = self.has_stopped || is_planted(Bug::PageEndPassed);
        self.key.get(1..).filter(|_| is_taken)
    }

    /// Moves to the next row: its head unless it has expired, or `None` at the end.
    fn advance(&mut self) -> Result<Option<Option<RowHead>>, Error> {
        let Some((key, value)) = self.cursor.next()? else { return Ok(None) };
        self.key.clear();
        self.key.extend_from_slice(key);
        self.rows_passed += 1;
        let head = RowHead::decode(value);
        let id = || keys::row_key(self.form, key).unwrap_or(key);
        let head = head.ok_or_else(|| unreadable(id()))?;
        let is_live = !self.reader.is_expired(&head);
        if is_live {
            self.stats.count_scanned();
        }
        Ok(Some(is_live.then_some(head)))
    }

    /// Whether the row read last has one of the ids to return.
    fn is_wanted(&self) -> bool {
        let Some(ids) = self.ids else { return true };
        // A key that can't be read is refused with its row.
        keys::row_key(self.form, &self.key).is_none_or(|id| ids.contain(id))
    }

    fn current(&self, head: RowHead) -> Result<ScannedRow<'_>, Error> {
        let id = keys::row_key(self.form, &self.key)
            .ok_or_else(|| Error::Internal("a row's key can't be read".into()))?;
        let (_, value) = self.cursor.row().unwrap_or_default();
        let row = RowRef::behind(head, value).ok_or_else(|| unreadable(id))?;
        let (identity, stats) = (self.key.get(1..).unwrap_or_default(), self.stats);
        Ok(ScannedRow { identity, id, row, reader: self.reader, stats, is_read: Cell::new(false) })
    }
}

impl Source for RowScan<'_> {
    type WholeItem = StoredItem;
    type Error = Error;
    type Item<'s>
        = ScannedRow<'s>
    where
        Self: 's;

    fn next(&mut self) -> Result<Next<ScannedRow<'_>>, Error> {
        loop {
            if self.limits.is_over(self.rows_passed, self.stats)? {
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
                Some(Some(head)) if self.is_wanted() => {
                    return self.current(head).map(Next::Item);
                }
                Some(_) => {}
            }
        }
    }
}

/// The row at which a scan stands.
pub(crate) struct ScannedRow<'s> {
    identity: &'s [u8],
    id: &'s [u8],
    row: RowRef<'s>,
    reader: Reader,
    stats: &'s ScanStats,
    is_read: Cell<bool>,
}

impl<'s> ScannedRow<'s> {
    /// The row with this identity and value.
    pub(crate) fn read(
        context: &ScanContext<'s>,
        identity: &'s [u8],
        value: &'s [u8],
    ) -> Result<Self, Error> {
        let id = keys::row_key_of_identity(context.form, identity);
        let id = id.ok_or_else(|| Error::Internal("a row's key can't be read".into()))?;
        let head = RowHead::decode(value);
        let row = head.and_then(|head| RowRef::behind(head, value));
        let row = row.ok_or_else(|| unreadable(id))?;
        let (reader, stats) = (context.reader, context.stats);
        Ok(Self { identity, id, row, reader, stats, is_read: Cell::new(false) })
    }
}

impl ScannedRow<'_> {
    /// Counts the row as read, once.
    fn note_read(&self) {
        self.stats.count_read(self.row.body.len(), !self.is_read.replace(true));
    }

    fn version(&self) -> ItemVersion {
        ItemVersion::of(self.reader.container, &self.row.head)
    }
}

impl Item for ScannedRow<'_> {
    type WholeItem = StoredItem;
    type Error = Error;

    fn number(&self) -> u64 {
        self.row.head.number
    }

    fn identity(&self) -> &[u8] {
        self.identity
    }

    fn read(&self, field_mask: &FieldMask) -> Result<Value, Error> {
        self.read_again(field_mask, Value::Null)
    }

    fn read_again(&self, field_mask: &FieldMask, old: Value) -> Result<Value, Error> {
        if !field_mask.is_nothing() {
            self.note_read();
        }
        let system = self.reader.system;
        read_item(self.row.body, &self.version(), system, field_mask, self.id, old)
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        self.note_read();
        let text = self.row.head.body.json_text(self.row.body);
        self.reader.system.write_item(&self.version(), &text, out);
    }

    fn bytes(&self) -> usize {
        self.row.body.len() + ITEM_OVERHEAD
    }

    fn to_whole_item(&self) -> StoredItem {
        self.note_read();
        self.row.to_item(self.reader.container, self.id)
    }
}

/// System properties add about this many bytes to a stored item.
const ITEM_OVERHEAD: usize = 200;

/// Looks up rows of several partitions by identity.
pub(crate) struct StoredRows<'v, F> {
    pub(crate) view: &'v dyn View,
    pub(crate) form: EpkForm,
    pub(crate) reader: Reader,
    /// Which partition holds a key of the hash line.
    pub(crate) partition_of: F,
    pub(crate) stats: &'v ScanStats,
    pub(crate) stopwatch: Option<&'v Stopwatch>,
}

impl<F: Fn(&Epk) -> Option<PartitionId>> RowLookup for StoredRows<'_, F> {
    type Item = FetchedRow;

    fn fetch(&mut self, identity: &[u8]) -> Result<Option<FetchedRow>, Error> {
        let Some((epk, _, _)) = keys::split_identity(self.form, identity) else { return Ok(None) };
        let Some(partition) = (self.partition_of)(&epk) else { return Ok(None) };
        let Self { view, form, reader, stats, .. } = *self;
        let context = ScanContext { view, partition, form, reader, within: None, stats };
        let fetch = || context.fetch(identity);
        let row = match self.stopwatch {
            Some(stopwatch) => {
                stopwatch.next_item();
                stopwatch.of_item(Phase::Loading, fetch)?
            }
            None => fetch()?,
        };
        if let Some(row) = &row {
            self.stats.count_read(row.item.body().len(), true);
        }
        Ok(row)
    }
}

/// The partition that a scan reads, and how.
#[derive(Clone, Copy)]
pub(crate) struct ScanContext<'v> {
    pub(crate) view: &'v dyn View,
    pub(crate) partition: PartitionId,
    pub(crate) form: EpkForm,
    pub(crate) reader: Reader,
    /// The bounds of the identities to return; all identities if there are none.
    pub(crate) within: Option<&'v (Vec<u8>, Vec<u8>)>,
    pub(crate) stats: &'v ScanStats,
}

impl ScanContext<'_> {
    /// The row with an identity, expired or not.
    pub(crate) fn fetch(&self, identity: &[u8]) -> Result<Option<FetchedRow>, Error> {
        let Some(id) = keys::row_key_of_identity(self.form, identity) else { return Ok(None) };
        let Some(value) = self.view.get(self.partition, &keys::row_of_identity(identity))? else {
            return Ok(None);
        };
        let row = Row::read(value, id)?;
        let (is_expired, system) = (self.reader.is_expired(&row.head), self.reader.system);
        let item = row.into_item(self.reader.container, RowKey::copy_of(id));
        Ok(Some(FetchedRow { identity: identity.to_vec(), item, is_expired, system }))
    }

    /// A row that was fetched, unless it has expired. Counts it as read.
    pub(crate) fn live(&self, row: Option<FetchedRow>) -> Option<FetchedRow> {
        let row = row.filter(|row| !row.is_expired)?;
        self.stats.note_row(row.item.body().len());
        Some(row)
    }
}

/// A row that was looked up.
pub(crate) struct FetchedRow {
    identity: Vec<u8>,
    pub(crate) item: StoredItem,
    pub(crate) is_expired: bool,
    system: &'static dyn SystemProperties,
}

impl Item for FetchedRow {
    type WholeItem = StoredItem;
    type Error = Error;

    fn number(&self) -> u64 {
        self.item.number
    }

    fn identity(&self) -> &[u8] {
        &self.identity
    }

    fn read(&self, field_mask: &FieldMask) -> Result<Value, Error> {
        self.item.part(self.system, field_mask)
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        self.item.write_json(self.system, out);
    }

    fn bytes(&self) -> usize {
        self.item.body().len() + ITEM_OVERHEAD
    }

    fn to_whole_item(&self) -> StoredItem {
        self.item.clone()
    }
}
