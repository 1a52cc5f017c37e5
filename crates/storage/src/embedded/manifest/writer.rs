//! Keeps the manifest of an open store true and up to date.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use fjall::AbstractTree;
use tracing::{debug, warn};

use crate::StoreError;

use super::super::create::sync_directory;
use super::super::errors::io_failed;
use super::super::journal::{self, Journal};
use super::super::repair::{Ends, walk_sealed};
use super::super::trees::Trees;
use super::{FILE, Manifest, TreeEntry, UnflushedNote};

/// The engine's own lock, held while any of its threads run or a view of it is held.
const ENGINE_LOCK: &str = "lock";
const ENGINE_LOCK_PAUSE: Duration = Duration::from_millis(1);
const STOP_WAIT_MAX: Duration = Duration::from_millis(20);

/// How often the manifest records how far a growing journal has come.
const NOTE_GROWTH_EVERY: Duration = Duration::from_secs(1);

/// Writes the manifest of an open store.
#[derive(Clone, Debug)]
pub(in super::super) struct ManifestWriter {
    dir: PathBuf,
    engine: PathBuf,
    /// The contents of sealed journals; `None` for those that could not be read.
    sealed: BTreeMap<u64, Option<Sealed>>,
    /// The journals of the last manifest, and how far the newest was on disk.
    noted: Option<(Vec<u64>, u64)>,
    /// When the length of the newest was last checked.
    looked: Option<Instant>,
}

/// A journal to which nothing is appended any more.
#[derive(Clone, Debug)]
struct Sealed {
    end: u64,
    /// The sequence number of the last write to each tree.
    last_of_trees: BTreeMap<u64, u64>,
}

impl ManifestWriter {
    pub(in super::super) fn new(dir: &Path, engine: &Path) -> Self {
        let (dir, engine) = (dir.to_owned(), engine.to_owned());
        Self { dir, engine, sealed: BTreeMap::new(), noted: None, looked: None }
    }

    /// Records what the engine is about to be opened on; `ends` is where each journal ends.
    pub(in super::super) fn note_opening(
        &mut self,
        before: Option<&Manifest>,
        ends: &BTreeMap<u64, u64>,
    ) -> Result<(), StoreError> {
        let end_of = |journal: &Journal| Ok(ends.get(&journal.id).copied().unwrap_or(0));
        let manifest = Manifest::of_directory(&self.engine, false, end_of).map_err(io_failed)?;
        // With several, the manifest must say what keeps them, once the engine is open.
        self.noted = Some(ends).filter(|ends| ends.len() == 1).and_then(|ends| {
            let (newest, end) = ends.last_key_value()?;
            Some((vec![*newest], *end))
        });
        self.looked = Some(now());
        if before == Some(&manifest) {
            return Ok(());
        }
        // What the manifest says of journals must be on disk.
        for id in ends.keys() {
            self.sync_journal(*id).map_err(io_failed)?;
        }
        self.save(&manifest).map_err(io_failed)
    }

    /// Records the files of a new store. The caller syncs the directory.
    pub(in super::super) fn note_creation(&mut self) -> Result<(), StoreError> {
        let manifest = Manifest::of_directory(&self.engine, false, |_| Ok(0)).map_err(io_failed)?;
        self.noted = Some((manifest.journals.iter().map(|note| note.id).collect(), 0));
        self.looked = Some(now());
        manifest.save(&self.dir).map_err(io_failed)
    }

    /// Deletes the manifest of a store that was never finished.
    pub(in super::super) fn forget(dir: &Path) -> Result<(), StoreError> {
        match fs::remove_file(dir.join(FILE)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(io_failed(e)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Writes the manifest again if journals have appeared or disappeared, or if the newest has
    /// grown since a second ago. A late manifest only claims less.
    ///
    /// `between_writes` calls back while no batch is under way, and does not if the newest journal
    /// may end with a batch that failed.
    pub(in super::super) fn keep_up(
        &mut self,
        trees: &Trees,
        between_writes: impl FnOnce(&mut dyn FnMut()),
    ) {
        if let Err(failure) = self.try_keep_up(trees, between_writes) {
            debug!(%failure, "the manifest of the store is not renewed");
        }
    }

    fn try_keep_up(
        &mut self,
        trees: &Trees,
        between_writes: impl FnOnce(&mut dyn FnMut()),
    ) -> io::Result<()> {
        // Files first: a journal that is seen now is deleted with a version that is seen later.
        let versions = trees.version();
        let journals = journal::list(&self.engine)?;
        let Some((newest, sealed)) = journals.split_last() else { return Ok(()) };
        let ids: Vec<_> = journals.iter().map(|journal| journal.id).collect();
        let is_known = self.noted.as_ref().is_some_and(|(noted, _)| *noted == ids);
        let is_due = self.looked.is_none_or(|looked| looked.elapsed() >= NOTE_GROWTH_EVERY);
        if is_known && !is_due {
            return Ok(());
        }
        self.sealed.retain(|id, _| ids.contains(id));
        for journal in sealed {
            let walk = || walk_sealed(journal).ok().flatten().map(Sealed::from);
            self.sealed.entry(journal.id).or_insert_with(walk);
        }
        let before = self.noted.as_ref().filter(|(noted, _)| noted.last() == ids.last());
        let before = before.map_or(0, |(_, end)| *end);
        let mut end = before;
        between_writes(&mut || end = journal::written_end(&newest.path).unwrap_or(before));
        self.looked = Some(now());
        if is_known && end == before {
            return Ok(());
        }
        let end_of = |journal: &Journal| {
            let sealed = self.sealed.get(&journal.id).and_then(Option::as_ref);
            Ok(if journal.id == newest.id { end } else { sealed.map_or(0, |sealed| sealed.end) })
        };
        let mut manifest = Manifest::of_directory(&self.engine, false, end_of)?;
        manifest.unflushed = self.unflushed(trees, &versions);
        self.sync_journal(newest.id)?;
        // A journal that the manifest names must not be lost with its directory entry.
        sync_directory(&self.engine)?;
        self.save(&manifest)?;
        self.noted = Some((ids, end));
        Ok(())
    }

    /// What the trees still have to flush. `versions` were read before, so if a tree lacks a write
    /// now, it lacked it in that version. The engine decides by the same numbers.
    fn unflushed(&self, trees: &Trees, versions: &[u64]) -> Vec<UnflushedNote> {
        let mut unflushed = Vec::new();
        for (tree, version) in trees.each().zip(versions) {
            let in_files = tree.tree.get_highest_persisted_seqno();
            let in_memory = tree.tree.get_highest_memtable_seqno();
            let lacks = |last: u64| {
                in_files.is_none_or(|in_files| in_files < last)
                    && in_memory.is_some_and(|in_memory| in_memory >= last)
            };
            let note = TreeEntry { id: tree.id(), version: *version };
            for (journal, sealed) in &self.sealed {
                let last = sealed.as_ref().and_then(|sealed| sealed.last_of_trees.get(&tree.id()));
                if last.is_some_and(|last| lacks(*last)) {
                    unflushed.push(UnflushedNote { journal: *journal, tree: note });
                }
            }
        }
        unflushed
    }

    /// Records all files, if the engine has released them.
    pub(in super::super) fn note_stop(&self) {
        let noted = self.engine_lock(STOP_WAIT_MAX).and_then(|lock| {
            let Some(lock) = lock else { return Ok(()) };
            let end_of = |journal: &Journal| journal::written_end(&journal.path);
            self.save(&Manifest::of_directory(&self.engine, true, end_of)?)?;
            lock.unlock()
        });
        if let Err(failure) = noted {
            warn!(%failure, "the manifest of the store is not renewed");
        }
    }

    fn save(&self, manifest: &Manifest) -> io::Result<()> {
        manifest.save(&self.dir)?;
        sync_directory(&self.dir)
    }

    fn sync_journal(&self, id: u64) -> io::Result<()> {
        let journal = self.engine.join(format!("{id}.jnl"));
        match OpenOptions::new().read(true).write(true).open(journal) {
            // The engine has deleted it, so what the manifest says of it no longer matters.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            file => file?.sync_all(),
        }
    }

    /// `None` if a reader holds the engine: its threads may run for as long.
    pub(in super::super) fn engine_lock(&self, wait_max: Duration) -> io::Result<Option<File>> {
        let lock = OpenOptions::new().read(true).write(true).open(self.engine.join(ENGINE_LOCK))?;
        for _ in 0..=wait_max.as_millis() / ENGINE_LOCK_PAUSE.as_millis() {
            match lock.try_lock() {
                Ok(()) => return Ok(Some(lock)),
                Err(fs::TryLockError::WouldBlock) => thread::sleep(ENGINE_LOCK_PAUSE),
                Err(fs::TryLockError::Error(e)) => return Err(e),
            }
        }
        Ok(None)
    }
}

impl From<Ends> for Sealed {
    fn from(Ends { end, last_of_trees }: Ends) -> Self {
        Self { end, last_of_trees }
    }
}

#[expect(clippy::disallowed_methods, reason = "only says how often a file is written")]
fn now() -> Instant {
    Instant::now()
}
