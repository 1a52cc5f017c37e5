//! Checks the journals before the engine opens them, and cuts off a torn last write.
//!
//! When power fails while a batch is being synced, any part of it may be on the disk. Nothing in it
//! was acknowledged, so it is right to drop it. The engine does so for a batch that is merely
//! short, but refuses to open when the batch has a hole. Worse, damage in the middle of a journal
//! can make it silently drop everything after it. So each journal is read first:
//!
//! - whole to its end: nothing to do;
//! - broken at the very last batch of the newest journal: that batch is cut off, and saved in a
//!   file of its own unless it is merely short;
//! - broken anywhere else: a refusal, since acknowledged writes would be lost.
//!
//! "The very last" is sound because at most the last batch is unsynced: nothing may follow the
//! broken batch, neither a whole batch nor a second broken one. A relaxed store does not guarantee
//! that, so there everything from the first broken batch on is cut off.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tracing::warn;

use crate::StoreError;

use super::create::sync_directory;
use super::errors::io_failed;
use super::journal::{
    self, BatchRead, BatchReader, BrokenBatch, END_BYTES, Journal, last_data, may_start_batch,
    starts_with_end,
};

/// Entries read while searching damaged bytes for whole batches, before giving up.
const SEARCH_ENTRIES_MAX: u64 = 50_000_000;

/// What the journals were found to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CheckedJournals {
    /// The sequence number of the last whole batch.
    pub(super) last_seqno: Option<u64>,
    /// The sequence number of a batch after it that was cut off, as far as it can be read.
    pub(super) cut_seqno: Option<u64>,
    /// Bytes of whole batches read.
    pub(super) journal_bytes: u64,
    /// Where each journal ends.
    pub(super) ends: BTreeMap<u64, u64>,
    /// The trees that batches write to, each with the sequence number of the last such batch.
    pub(super) trees: BTreeMap<u64, u64>,
}

/// The contents of a sealed journal, to which nothing is appended any more.
pub(super) struct Ends {
    /// Where the last batch ends.
    pub(super) end: u64,
    /// The sequence number of the last batch for each tree.
    pub(super) last_of_trees: BTreeMap<u64, u64>,
}

/// Reads a sealed journal; `None` if it is not whole.
pub(super) fn walk_sealed(journal: &Journal) -> io::Result<Option<Ends>> {
    let mut last_of_trees = BTreeMap::new();
    let scan = scan_journal(journal, None, &mut last_of_trees)?;
    Ok(scan.broken.is_none().then_some(Ends { end: scan.whole_end, last_of_trees }))
}

/// What a power failure may have torn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsynced {
    /// The last batch of the newest journal.
    LastBatch,
    /// Any number of batches of the newest journal.
    SeveralBatches,
}

/// Checks all journals in `directory` and cuts off torn batches, which are moved to `aside`. For
/// each journal, `is_enough` checks how much of it is whole before anything is cut off. The caller
/// holds the lock on the directory.
pub(super) fn check_journals(
    directory: &Path,
    aside: &Path,
    unsynced: Unsynced,
    is_enough: impl Fn(&Journal, u64) -> Result<(), StoreError>,
) -> Result<CheckedJournals, StoreError> {
    let journals = journal::list(directory).map_err(io_failed)?;
    check_none_missing(&journals)?;
    let mut checked = CheckedJournals::default();
    for (index, journal) in journals.iter().enumerate() {
        let scan =
            scan_journal(journal, checked.last_seqno, &mut checked.trees).map_err(io_failed)?;
        is_enough(journal, scan.whole_end)?;
        checked.last_seqno = scan.last_seqno.or(checked.last_seqno);
        checked.journal_bytes += scan.whole_end;
        checked.ends.insert(journal.id, scan.whole_end);
        if let Some(broken) = scan.broken {
            let damage = Damage::load(journal, scan, broken).map_err(io_failed)?;
            let is_newest = index + 1 == journals.len();
            if unsynced == Unsynced::LastBatch || !is_newest {
                damage.check_is_last()?;
            }
            checked.cut_seqno = journal::seqno_of(&damage.tail);
            damage.cut(is_newest, aside)?;
        }
    }
    Ok(checked)
}

fn check_none_missing(journals: &[Journal]) -> Result<(), StoreError> {
    for pair in journals.windows(2) {
        if let [before, after] = pair
            && before.id.checked_add(1) != Some(after.id)
        {
            return Err(StoreError::Corrupt(format!(
                "the journals between {} and {} are missing",
                before.path.display(),
                after.path.display()
            )));
        }
    }
    Ok(())
}

/// How much of a journal is whole.
#[derive(Clone, Copy, Debug)]
struct JournalScan {
    /// Where the last whole batch ends.
    whole_end: u64,
    last_seqno: Option<u64>,
    /// The sequence number of the batch before it.
    seqno_before_last: Option<u64>,
    /// What follows, unless nothing does.
    broken: Option<BrokenBatch>,
}

fn scan_journal(
    journal: &Journal,
    after: Option<u64>,
    trees: &mut BTreeMap<u64, u64>,
) -> io::Result<JournalScan> {
    let file = File::open(&journal.path)?;
    let file_bytes = file.metadata()?.len();
    let mut batches = BatchReader::new(BufReader::with_capacity(256 << 10, &file), 0, file_bytes);
    let mut scan =
        JournalScan { whole_end: 0, last_seqno: None, seqno_before_last: after, broken: None };
    loop {
        match batches.next(scan.last_seqno.or(after))? {
            BatchRead::Batch { seqno, end } => {
                scan.seqno_before_last = scan.last_seqno.or(after);
                scan.last_seqno = Some(seqno);
                scan.whole_end = end;
                trees.extend(batches.trees().map(|tree| (tree, seqno)));
            }
            BatchRead::Nothing => return Ok(scan),
            BatchRead::Broken(broken) => {
                if last_data(&file, scan.whole_end, file_bytes)?.is_some() {
                    scan.broken = Some(broken);
                }
                return Ok(scan);
            }
        }
    }
}

/// The part of a journal after its last whole batch.
struct Damage<'j> {
    journal: &'j Journal,
    scan: JournalScan,
    broken: BrokenBatch,
    /// From the end of the last whole batch to the last byte that is not zero.
    tail: Vec<u8>,
}

impl<'j> Damage<'j> {
    fn load(journal: &'j Journal, scan: JournalScan, broken: BrokenBatch) -> io::Result<Self> {
        let mut file = File::open(&journal.path)?;
        let file_bytes = file.metadata()?.len();
        let end = last_data(&file, scan.whole_end, file_bytes)?.unwrap_or(scan.whole_end);
        file.seek(SeekFrom::Start(scan.whole_end))?;
        let mut tail = Vec::new();
        file.take(end - scan.whole_end).read_to_end(&mut tail)?;
        Ok(Self { journal, scan, broken, tail })
    }

    /// Refuses unless the damage is confined to one batch with nothing behind it.
    fn check_is_last(&self) -> Result<(), StoreError> {
        // This whole batch would be in order but for the batch before it, so it is that batch's
        // number that was damaged.
        if let Some(seqno) = self.broken.out_of_order
            && self.scan.seqno_before_last.is_none_or(|before| seqno > before)
        {
            return Err(self.refusal("its writes are out of order"));
        }
        // A whole frame tells where the batch ends, so its values are not searched for batches.
        let from = self.broken.frame_end.map_or(1, |end| self.tail_index(end));
        if let Some(at) = self.find_batch(from)? {
            return Err(self.refusal(&format!("whole writes follow at byte {at}")));
        }
        let ends = match self.broken.frame_end {
            Some(end) => Some(self.tail_index(end)),
            None => self.first_end(),
        };
        if ends.is_some_and(|end| end < self.tail.len()) {
            return Err(self.refusal("more than one write is damaged"));
        }
        Ok(())
    }

    /// Where a whole batch begins, searching from `from` in the tail.
    fn find_batch(&self, from: usize) -> Result<Option<u64>, StoreError> {
        let after = self.scan.last_seqno;
        let mut entries_read = 0;
        for index in from..self.tail.len() {
            let bytes = &self.tail[index..];
            if !may_start_batch(bytes, after) {
                continue;
            }
            let mut batches = BatchReader::new(bytes, 0, bytes.len() as u64);
            if let BatchRead::Batch { .. } = batches.next(after).map_err(io_failed)? {
                return Ok(Some(self.scan.whole_end + index as u64));
            }
            entries_read += batches.entries_read();
            if entries_read > SEARCH_ENTRIES_MAX {
                return Err(self.refusal("it is too large to be told from a torn last write"));
            }
        }
        Ok(None)
    }

    /// Where the first bytes in the tail that look like the end of a batch end.
    fn first_end(&self) -> Option<usize> {
        let index = (0..self.tail.len()).find(|index| starts_with_end(&self.tail[*index..]))?;
        Some(index + usize::try_from(END_BYTES).unwrap_or(usize::MAX))
    }

    fn tail_index(&self, offset: u64) -> usize {
        let index = offset.saturating_sub(self.scan.whole_end);
        usize::try_from(index).unwrap_or(usize::MAX).min(self.tail.len())
    }

    /// Whether the batch lacks only its end, as when the process dies between two writes of it. A
    /// batch with an end mark was written whole: if it seems too short, one of its lengths is
    /// damaged.
    fn is_merely_short(&self) -> bool {
        let BrokenBatch { at, frame_end, ran_out, .. } = self.broken;
        let runs_out = ran_out || self.tail_index(at) >= self.tail.len();
        frame_end.is_none() && runs_out && self.first_end().is_none()
    }

    fn cut(&self, is_newest: bool, aside: &Path) -> Result<(), StoreError> {
        let (journal, from) = (self.journal.path.display(), self.scan.whole_end);
        let to = from + self.tail.len() as u64;
        if !is_newest && !self.is_merely_short() {
            return Err(self.refusal("newer journals follow"));
        }
        if is_newest && self.is_merely_short() {
            warn!(%journal, from, to, "dropping an unfinished last write");
        } else {
            let kept = self.keep_aside(aside).map_err(io_failed)?;
            let kept = kept.display();
            warn!(%journal, from, to, %kept, "cutting off a torn last write");
        }
        let file = OpenOptions::new().write(true).open(&self.journal.path).map_err(io_failed)?;
        file.set_len(from).map_err(io_failed)?;
        file.sync_all().map_err(io_failed)
    }

    fn keep_aside(&self, aside: &Path) -> io::Result<PathBuf> {
        fs::create_dir_all(aside)?;
        let name = format!("torn-journal-{}-at-{}", self.journal.id, self.scan.whole_end);
        let path = aside.join(name);
        let mut file = File::create(&path)?;
        file.write_all(&self.tail)?;
        file.sync_all()?;
        sync_directory(aside)?;
        Ok(path)
    }

    fn refusal(&self, why: &str) -> StoreError {
        StoreError::Corrupt(format!(
            "journal {} is broken at byte {}, and this is not a torn last write: {why}; \
             restore the directory from a backup",
            self.journal.path.display(),
            self.scan.whole_end
        ))
    }
}

#[cfg(test)]
mod tests;
