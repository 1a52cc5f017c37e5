//! Reading the logs of the partitions that hold a scope.

use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;
use model::{Charge, Epk, Lsn, PartitionId, limits};
use storage::{Dir, KeyRange, View};

use super::position::Mark;
use super::{ChangesMode, DeletedItem, ItemChange, check_kept, check_not_trimmed};
use crate::cancellation::StopSignal;
use crate::catalog::Container;
use crate::context::Admission;
use crate::governor::Paid;
use crate::item::Etag;
use crate::keys::{self, EpkForm};
use crate::partition::{Reader, Serving};
use crate::planted::{Bug, is_planted};
use crate::prepare::LogicalPartitionId;
use crate::routing::PartitionRange;
use crate::row::{Change, ChangeKind, Row};
use crate::version::{Version, VersionKind};
use crate::{Engine, Error, RequestContext, RowKey, StoredItem, ru};

/// How many entries are read between two readings of the clock.
const ENTRIES_PER_CLOCK: u64 = 64;

/// A range of the hash line within that of one partition, and how far it has been read.
pub(super) struct FeedRange {
    pub(super) range: PartitionRange,
    /// The logical partition, if the range is a single one.
    pub(super) logical_partition: Option<LogicalPartitionId>,
    /// The partition's position before the view was taken. Nothing beyond it is read.
    pub(super) at: Lsn,
    /// Lower bound of the range on the hash line.
    pub(super) min: Epk,
    /// Bounds of the range's rows.
    pub(super) lo: Vec<u8>,
    pub(super) hi: Vec<u8>,
    pub(super) mark: Mark,
}

impl FeedRange {
    /// Whether there may be something to read.
    pub(super) fn is_behind(&self) -> bool {
        self.mark.lsn < self.at
    }

    /// The feed range's part of the position after the page.
    pub(super) fn settled(self, mode: ChangesMode, container: &Container, now: u64) -> (Epk, Mark) {
        let is_behind = self.is_behind();
        // No server issued a mark beyond the partition's position; moving it back to the
        // partition's position lets its reader see what comes next.
        let lsn = self.mark.lsn.min(self.at);
        let mark = match mode {
            ChangesMode::LatestVersion if lsn < self.mark.until => Mark { lsn, ..self.mark },
            ChangesMode::LatestVersion => Mark { lsn, ..Mark::default() },
            ChangesMode::AllVersionsAndDeletes if is_behind => Mark { lsn, ..self.mark },
            ChangesMode::AllVersionsAndDeletes => {
                Mark { lsn, time: now.max(container.versions_since), until: Lsn(0) }
            }
        };
        (self.min, mark)
    }
}

/// The result of reading the logs for a page.
pub(super) struct PageRead {
    /// The feed ranges, with their marks advanced.
    pub(super) feed_ranges: Vec<FeedRange>,
    pub(super) page: PageBuilder,
    /// Which feed range comes first next time.
    pub(super) turn: usize,
}

/// A page under construction.
pub(super) struct PageBuilder {
    mode: ChangesMode,
    form: EpkForm,
    changes: Vec<ItemChange>,
    items_max: usize,
    bytes: usize,
    /// Entries of the log that were read.
    examined: u64,
    /// Bytes of the texts of items.
    text_bytes: usize,
    admission: Admission,
    /// Ends the page earlier than its time limits.
    stop: StopSignal,
    /// What the finished ranges cost.
    pub(super) charge: Charge,
    /// Entries, changes and bytes of those ranges.
    charged: (u64, usize, usize),
}

impl PageBuilder {
    pub(super) fn new(
        mode: ChangesMode,
        form: EpkForm,
        items_max: usize,
        ctx: &mut RequestContext,
    ) -> Self {
        Self {
            mode,
            form,
            changes: Vec::new(),
            items_max,
            bytes: 0,
            examined: 0,
            text_bytes: 0,
            admission: ctx.admission,
            stop: ctx.stop_signal(),
            charge: Charge::ZERO,
            charged: (0, 0, 0),
        }
    }

    /// What the current range costs.
    fn charge_in_range(&self) -> Charge {
        let (examined, changes, bytes) = self.charged;
        let changes = self.changes.len() - changes;
        let bytes = self.text_bytes - bytes;
        ru::change_feed(self.examined - examined, changes as u64, bytes as u64)
    }

    /// Has the range of `feed_range` pay for what was read there.
    fn settle(&mut self, feed_range: &FeedRange, paid: Paid) {
        let charge = self.charge_in_range();
        feed_range.range.partition.meter.settle(
            paid,
            charge,
            feed_range.logical_partition.as_ref(),
        );
        self.charge += charge;
        self.charged = (self.examined, self.changes.len(), self.text_bytes);
    }

    pub(super) fn into_changes(self) -> Vec<ItemChange> {
        self.changes
    }

    fn is_full(&self) -> bool {
        self.changes.len() >= self.items_max || self.bytes >= limits::PAGE_BYTES_MAX
    }

    /// Adds changes that were committed together, if there is room for all of them. The first
    /// always fit.
    fn add(&mut self, together: &mut Vec<ItemChange>) -> bool {
        let bytes: usize = together.iter().map(ItemChange::bytes).sum();
        let fits = self.changes.len() + together.len() <= self.items_max
            && self.bytes + bytes <= limits::PAGE_BYTES_MAX;
        if together.is_empty() || self.changes.is_empty() || fits {
            self.bytes += bytes;
            self.text_bytes += together.iter().map(ItemChange::text_bytes).sum::<usize>();
            self.changes.append(together);
            return true;
        }
        false
    }
}

/// Ends a page that has taken long enough.
struct Deadlines<'a> {
    engine: &'a Engine,
    started: Duration,
    /// How many entries had been read at the last reading of the clock.
    examined: u64,
}

impl Deadlines<'_> {
    fn is_over(&mut self, page: &PageBuilder) -> bool {
        if page.examined - self.examined < ENTRIES_PER_CLOCK {
            return false;
        }
        self.examined = page.examined;
        let max = match page.changes.is_empty() {
            true => limits::EMPTY_FEED_PAGE_TIME_MAX,
            false => limits::PAGE_TIME_MAX,
        };
        page.stop.is_due(self.started + max, self.engine.inner.components.clock.monotonic())
    }
}

impl Engine {
    /// Fills a page, beginning with the feed range at `turn`; `None` if a range is gone.
    pub(super) fn read_logs(
        &self,
        container: &Container,
        mut feed_ranges: Vec<FeedRange>,
        turn: usize,
        mut page: PageBuilder,
    ) -> Result<Option<PageRead>, Error> {
        let Some(view) = self.view_of(feed_ranges.iter().map(|feed_range| &feed_range.range))?
        else {
            return Ok(None);
        };
        // An expired item is skipped for good, so the newest ttl decides: a request that waited
        // long may have been admitted under a shorter one.
        let catalog = self.catalog();
        let newest = catalog.container_by_rid(container.rid).map_or(container, |c| c.as_ref());
        let reader = self.reader(newest);
        if page.mode == ChangesMode::AllVersionsAndDeletes {
            for feed_range in feed_ranges.iter().filter(|feed_range| feed_range.is_behind()) {
                check_kept(newest, &feed_range.mark, reader.now_seconds)?;
                check_not_trimmed(view.as_ref(), feed_range)?;
            }
        }
        let started = self.inner.components.clock.monotonic();
        let mut deadlines = Deadlines { engine: self, started, examined: 0 };
        let count = feed_ranges.len();
        let mut has_moved = false;
        let mut next_turn = turn;
        for step in 0..count {
            let at = (turn + step) % count;
            if !feed_ranges[at].is_behind() {
                continue;
            }
            if page.is_full() {
                next_turn = at;
                break;
            }
            let admission = if has_moved { page.admission.silent() } else { page.admission };
            let paid = match self.try_admit(admission, &feed_ranges[at].range, least()) {
                Ok(paid) => paid,
                // The caller takes the page as it is and comes again for the rest.
                Err(_) if has_moved => {
                    next_turn = at;
                    break;
                }
                Err(error) => return Err(error),
            };
            has_moved = true;
            let before = feed_ranges[at].mark.lsn;
            let is_at_end =
                page.read_log(view.as_ref(), reader, &mut feed_ranges[at], &mut deadlines);
            page.settle(&feed_ranges[at], paid);
            if !is_at_end? {
                // The other ranges come first next time, unless they have left too little room for
                // the next transaction here: on a page that begins with it, it always fits.
                let is_stuck = feed_ranges[at].mark.lsn == before;
                next_turn = if is_stuck { at } else { (at + 1) % count };
                break;
            }
        }
        Ok(Some(PageRead { feed_ranges, page, turn: next_turn }))
    }

    /// A page of ranges where nothing has happened; `None` if one of them is gone. The range at
    /// `turn` pays for it.
    pub(super) fn unchanged_page(
        &self,
        feed_ranges: Vec<FeedRange>,
        turn: usize,
        mut page: PageBuilder,
    ) -> Result<Option<PageRead>, Error> {
        for feed_range in &feed_ranges {
            if feed_range.range.partition.check_serving()? == Serving::Gone {
                return Ok(None);
            }
        }
        if let Some(feed_range) = feed_ranges.get(turn) {
            let paid = self.try_admit(page.admission, &feed_range.range, least())?;
            page.settle(feed_range, paid);
        }
        Ok(Some(PageRead { feed_ranges, page, turn }))
    }
}

/// What a range's part of a page costs at least.
fn least() -> Charge {
    ru::change_feed(0, 0, 0)
}

impl PageBuilder {
    /// Continues reading a feed range. Returns whether its end was reached.
    fn read_log(
        &mut self,
        view: &dyn View,
        reader: Reader,
        feed_range: &mut FeedRange,
        deadlines: &mut Deadlines<'_>,
    ) -> Result<bool, Error> {
        let partition = feed_range.range.partition.id;
        let (lo, hi) = self.mode.log().bounds(feed_range.mark.lsn, feed_range.at);
        let bounds = KeyRange { lo: Bound::Included(&lo), hi: Bound::Excluded(&hi) };
        let mut cursor = view.scan(partition, bounds, Dir::Fwd)?;
        let charge_max = feed_range.range.partition.meter.page_charge_max();
        let examined_before = self.examined;
        let mut together = Vec::new();
        // Position and time of the entries that `together` is made of.
        let mut reached = (feed_range.mark.lsn, feed_range.mark.time);
        while let Some((key, value)) = cursor.next()? {
            let damaged = || Error::Internal("an entry of a log can't be read".into());
            let entry = LogKey::of(key).ok_or_else(damaged)?;
            if entry.lsn > reached.0 {
                if !self.add(&mut together) {
                    if is_planted(Bug::FeedEndPassed) {
                        feed_range.pass(self.mode, reached);
                    }
                    return Ok(false);
                }
                feed_range.pass(self.mode, reached);
                // A small share is used up by coming here at all; at least one entry is read all
                // the same.
                let is_costly = self.examined > examined_before
                    && charge_max.is_some_and(|max| self.charge_in_range() >= max);
                if self.is_full() || is_costly || deadlines.is_over(self) {
                    return Ok(false);
                }
            }
            self.examined += 1;
            let (ts, change) = match self.mode {
                ChangesMode::LatestVersion => {
                    let change = Change::decode(value).ok_or_else(damaged)?;
                    (change.ts, self.latest(view, reader, feed_range, entry, &change)?)
                }
                ChangesMode::AllVersionsAndDeletes => {
                    let version = Version::decode(value).ok_or_else(damaged)?;
                    (version.ts, self.version(reader, feed_range, entry, &version)?)
                }
            };
            // After a merge, entries of other ranges lie in between, with times of their own.
            let time = if change.is_some() { ts } else { reached.1 };
            reached = (entry.lsn, time);
            together.extend(change);
        }
        if !self.add(&mut together) && !is_planted(Bug::FeedEndPassed) {
            return Ok(false);
        }
        feed_range.mark.lsn = feed_range.at;
        Ok(true)
    }

    /// The item that an entry is about, if it is requested and still there.
    fn latest(
        &self,
        view: &dyn View,
        reader: Reader,
        feed_range: &FeedRange,
        entry: LogKey,
        change: &Change<'_>,
    ) -> Result<Option<ItemChange>, Error> {
        let is_too_old = entry.lsn <= feed_range.mark.until && change.ts <= feed_range.mark.time;
        if change.kind == ChangeKind::Delete || is_too_old {
            return Ok(None);
        }
        let key = keys::row_of_identity(change.identity);
        if !feed_range.holds(&key) {
            return Ok(None);
        }
        let id = keys::row_key(self.form, &key)
            .ok_or_else(|| Error::Internal("an entry of the log names no item".into()))?;
        let Some(value) = view.get(feed_range.range.partition.id, &key)? else { return Ok(None) };
        let row = Row::read(value, id)?;
        let is_current = row.head.etag == entry.etag() && !reader.is_expired(&row.head);
        Ok(is_current
            .then(|| ItemChange::Latest(row.into_item(reader.container, RowKey::copy_of(id)))))
    }

    /// The version or delete of an entry, if it is requested.
    fn version(
        &self,
        reader: Reader,
        feed_range: &FeedRange,
        entry: LogKey,
        version: &Version<'_>,
    ) -> Result<Option<ItemChange>, Error> {
        let key = keys::row_of_identity(version.identity);
        if !feed_range.holds(&key) {
            return Ok(None);
        }
        let id = keys::row_key(self.form, &key)
            .ok_or_else(|| Error::Internal("a version names no item".into()))?;
        let previous = version.previous;
        let (is_expired, last) = match version.kind {
            VersionKind::Create | VersionKind::Replace => {
                let item = StoredItem {
                    container: reader.container,
                    number: version.number,
                    etag: entry.etag(),
                    ts: version.ts,
                    ticks: 0,
                    partition_key: Bytes::copy_from_slice(version.partition_key),
                    id: RowKey::copy_of(id),
                    format: reader.body,
                    body: Bytes::copy_from_slice(version.body),
                };
                return Ok(Some(ItemChange::Put { item, previous }));
            }
            VersionKind::Delete if version.body.is_empty() => (false, None),
            VersionKind::Delete => {
                let row = Row::read(Bytes::copy_from_slice(version.body), id)?;
                (false, Some(row.into_item(reader.container, RowKey::copy_of(id))))
            }
            VersionKind::Expiry => (true, None),
        };
        Ok(Some(ItemChange::Delete(DeletedItem {
            id: RowKey::copy_of(id),
            lsn: entry.lsn,
            ts: version.ts,
            previous,
            last,
            is_expired,
            partition_key: version.partition_key.to_vec(),
        })))
    }
}

impl FeedRange {
    fn holds(&self, row_key: &[u8]) -> bool {
        self.lo.as_slice() <= row_key && row_key < self.hi.as_slice()
    }

    /// Advances the mark past entries that have been read.
    fn pass(&mut self, mode: ChangesMode, (lsn, ts): (Lsn, u64)) {
        self.mark.lsn = lsn;
        if mode == ChangesMode::AllVersionsAndDeletes {
            // The clock may have been ahead, or behind, when a version was written.
            self.mark.time = self.mark.time.max(ts);
        }
    }
}

/// What the key of an entry says.
#[derive(Clone, Copy)]
struct LogKey {
    lsn: Lsn,
    origin: PartitionId,
    seq: u32,
}

impl LogKey {
    fn of(key: &[u8]) -> Option<Self> {
        let (lsn, origin, seq) = keys::log_entry(key)?;
        Some(Self { lsn, origin, seq })
    }

    fn etag(self) -> Etag {
        Etag { origin: self.origin, lsn: self.lsn, seq: self.seq }
    }
}
