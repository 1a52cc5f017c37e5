//! A note on what the store must hold, so that a file that is gone is missed.
//!
//! The engine takes what it finds: without the file that names the tables of a tree it deletes that
//! tree, without journals it begins a new one. So a file beside the store says which trees there
//! are, which journal is the newest and how far it was on disk. Before the engine touches anything,
//! what is there is compared with that, and less is a refusal.
//!
//! The note is written when the store is opened, when a journal is begun and after a clean stop. A
//! note may claim too little, never too much: whatever happens after it was written, what it says
//! must stay true. While the store is open, journals before the newest go away by themselves, so
//! only a note of a clean stop, written when nothing of the engine runs any more, names them all.
//! It is replaced before the engine is opened again.
//!
//! A store without a note (an older one, or one that was copied without it) is checked for what
//! every store has, and gets one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use tracing::{debug, warn};
use xxhash_rust::xxh3::xxh3_64;

use crate::StoreError;

use super::create::sync_directory;
use super::errors::io_failed;
use super::journal::{self, Journal};
use super::tree_files;

const FILE: &str = "store.manifest";
const NEW_FILE: &str = "store.manifest.new";
const TITLE: &str = "planisphere store manifest 1";

/// The engine's own lock, held for as long as anything of the engine runs or is read.
const ENGINE_LOCK: &str = "lock";
const ENGINE_LOCK_PAUSE: Duration = Duration::from_millis(1);
const STOP_PATIENCE: Duration = Duration::from_millis(20);

/// What a store must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    /// Whether nothing was running any more, so that all journals are named.
    stopped: bool,
    /// In the order of their ids.
    trees: Vec<TreeNote>,
    /// In the order of their ids; the last one is the newest.
    journals: Vec<JournalNote>,
}

/// A tree had at least this version: the engine gives them growing numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TreeNote {
    id: u64,
    version: u64,
}

/// A journal was on disk up to this byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct JournalNote {
    id: u64,
    end: u64,
}

impl Manifest {
    /// The note in `dir`, if there is one.
    pub(super) fn load(dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = dir.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => match Self::parse(&text) {
                Some(manifest) => Ok(Some(manifest)),
                None => Err(StoreError::Corrupt(format!(
                    "{} can't be read; without it, the store is checked as one that never had it",
                    path.display()
                ))),
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io_failed(e)),
        }
    }

    /// Refuses when a file that must be there is not. Nothing is changed.
    pub(super) fn check_files(manifest: Option<&Self>, engine: &Path) -> Result<(), StoreError> {
        let journals = journal::list(engine).map_err(io_failed)?;
        let newest = journals.last().map(|journal| journal.id);
        let noted = manifest.and_then(|manifest| manifest.journals.last());
        match (newest, noted) {
            (None, noted) => return Err(missing_journal(engine, noted.map_or(0, |note| note.id))),
            (Some(newest), Some(noted)) if newest < noted.id => {
                return Err(missing_journal(engine, noted.id));
            }
            (Some(_), _) => {}
        }
        if let Some(manifest) = manifest.filter(|manifest| manifest.stopped) {
            let is_there = |note: &&JournalNote| journals.iter().any(|j| j.id == note.id);
            if let Some(gone) = manifest.journals.iter().find(|note| !is_there(note)) {
                return Err(missing_journal(engine, gone.id));
            }
        }
        let noted = manifest.map_or(&[][..], |manifest| &manifest.trees);
        tree_files::check(engine, noted.iter().map(|note| (note.id, note.version)))
    }

    /// Refuses a journal of which less is whole than was on disk.
    pub(super) fn check_journal(&self, journal: &Journal, whole: u64) -> Result<(), StoreError> {
        match self.journals.iter().find(|note| note.id == journal.id) {
            Some(note) if whole < note.end => Err(StoreError::Corrupt(format!(
                "journal {} is whole up to byte {whole}, but was on disk up to byte {}: writes \
                 that were acknowledged are missing; put it back from a copy of the directory, or \
                 remove {FILE} to go on without them",
                journal.path.display(),
                note.end
            ))),
            Some(_) | None => Ok(()),
        }
    }

    /// What is there, with the journals that `noted` picks.
    fn look(engine: &Path, stopped: bool) -> io::Result<Self> {
        let trees = tree_files::versions(engine)?;
        let trees = trees.into_iter().map(|(id, version)| TreeNote { id, version }).collect();
        let mut journals = Vec::new();
        for journal in journal::list(engine)? {
            let end = if stopped { journal::written_end(&journal.path)? } else { 0 };
            journals.push(JournalNote { id: journal.id, end });
        }
        Ok(Self { stopped, trees, journals })
    }

    fn save(&self, dir: &Path) -> io::Result<()> {
        let new = dir.join(NEW_FILE);
        let mut file = File::create(&new)?;
        file.write_all(self.text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, dir.join(FILE))
    }

    fn text(&self) -> String {
        let mut text = format!("{TITLE}\n{}\n", if self.stopped { "stopped" } else { "open" });
        for TreeNote { id, version } in &self.trees {
            text.push_str(&format!("tree {id} version {version}\n"));
        }
        for JournalNote { id, end } in &self.journals {
            text.push_str(&format!("journal {id} bytes {end}\n"));
        }
        let checksum = xxh3_64(text.as_bytes());
        text.push_str(&format!("checksum {checksum:016x}\n"));
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let (content, checksum) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let checksum = u64::from_str_radix(checksum.strip_prefix("checksum ")?, 16).ok()?;
        if checksum != xxh3_64(format!("{content}\n").as_bytes()) {
            return None;
        }
        let mut lines = content.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let stopped = match lines.next()? {
            "stopped" => true,
            "open" => false,
            _ => return None,
        };
        let mut manifest = Self { stopped, ..Self::default() };
        for line in lines {
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["tree", id, "version", version] => {
                    manifest.trees.push(TreeNote { id: number(id)?, version: number(version)? });
                }
                ["journal", id, "bytes", end] => {
                    manifest.journals.push(JournalNote { id: number(id)?, end: number(end)? });
                }
                _ => return None,
            }
        }
        Some(manifest)
    }
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn missing_journal(engine: &Path, id: u64) -> StoreError {
    missing(&engine.join(format!("{id}.jnl")))
}

/// The refusal for a file that is not there.
pub(super) fn missing(path: &Path) -> StoreError {
    StoreError::Corrupt(format!(
        "{} is missing; put it back from a copy of the directory, or, to begin with an empty \
         store, remove all of the directory but tls and account.key (nothing was changed)",
        path.display()
    ))
}

/// The refusal for a store that is not there although its note is.
pub(super) fn missing_store(dir: &Path, engine: &Path) -> StoreError {
    StoreError::Corrupt(format!(
        "{} is missing; put it back from a copy of the directory, or, to begin with an empty \
         store, remove {}",
        engine.display(),
        dir.join(FILE).display()
    ))
}

/// Keeps the note of a store that is open.
#[derive(Clone, Debug)]
pub(super) struct Keeper {
    dir: PathBuf,
    engine: PathBuf,
    /// The newest journal that the note names.
    newest: Option<u64>,
}

impl Keeper {
    pub(super) fn new(dir: &Path, engine: &Path) -> Self {
        Self { dir: dir.to_owned(), engine: engine.to_owned(), newest: None }
    }

    /// Notes what the engine is about to be opened on; `end` is where the newest journal ends.
    pub(super) fn note_opening(
        &mut self,
        before: Option<&Manifest>,
        end: u64,
    ) -> Result<(), StoreError> {
        let mut manifest = self.newest_only().map_err(io_failed)?;
        if let Some(newest) = manifest.journals.last_mut() {
            newest.end = end;
        }
        if before == Some(&manifest) {
            return Ok(());
        }
        self.sync_newest().map_err(io_failed)?;
        manifest.save(&self.dir).map_err(io_failed)?;
        sync_directory(&self.dir).map_err(io_failed)
    }

    /// Notes what a new store has. The directory is synced by the caller.
    pub(super) fn note_creation(&mut self) -> Result<(), StoreError> {
        let manifest = self.newest_only().map_err(io_failed)?;
        manifest.save(&self.dir).map_err(io_failed)
    }

    /// Forgets the note of a store that was never finished.
    pub(super) fn forget(dir: &Path) -> Result<(), StoreError> {
        match fs::remove_file(dir.join(FILE)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(io_failed(e)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Writes the note anew if a journal was begun. One that is late only claims less.
    pub(super) fn note_rotation(&mut self) {
        let before = self.newest;
        let newest =
            journal::list(&self.engine).ok().and_then(|journals| Some(journals.last()?.id));
        if newest == before {
            return;
        }
        let noted = self.newest_only().and_then(|manifest| {
            manifest.save(&self.dir)?;
            sync_directory(&self.dir)
        });
        if let Err(failure) = noted {
            debug!(%failure, "the manifest of the store is not renewed");
            self.newest = before;
        }
    }

    /// Notes everything that is there, if the engine has let go of it.
    pub(super) fn note_stop(&self) {
        let noted = self.engine_lock(STOP_PATIENCE).and_then(|lock| {
            let Some(lock) = lock else { return Ok(()) };
            Manifest::look(&self.engine, true)?.save(&self.dir)?;
            sync_directory(&self.dir)?;
            lock.unlock()
        });
        if let Err(failure) = noted {
            warn!(%failure, "the manifest of the store is not renewed");
        }
    }

    fn newest_only(&mut self) -> io::Result<Manifest> {
        let mut manifest = Manifest::look(&self.engine, false)?;
        let newest = manifest.journals.pop();
        self.newest = newest.map(|note| note.id);
        manifest.journals = newest.into_iter().collect();
        Ok(manifest)
    }

    /// What the note says of the newest journal must be on disk.
    fn sync_newest(&self) -> io::Result<()> {
        let Some(newest) = self.newest else { return Ok(()) };
        let journal = self.engine.join(format!("{newest}.jnl"));
        OpenOptions::new().read(true).write(true).open(journal)?.sync_all()
    }

    /// `None` if somebody still reads: the engine's threads may be at work as long as that.
    pub(super) fn engine_lock(&self, patience: Duration) -> io::Result<Option<File>> {
        let lock = OpenOptions::new().read(true).write(true).open(self.engine.join(ENGINE_LOCK))?;
        for _ in 0..=patience.as_millis() / ENGINE_LOCK_PAUSE.as_millis() {
            match lock.try_lock() {
                Ok(()) => return Ok(Some(lock)),
                Err(fs::TryLockError::WouldBlock) => thread::sleep(ENGINE_LOCK_PAUSE),
                Err(fs::TryLockError::Error(e)) => return Err(e),
            }
        }
        Ok(None)
    }
}

/// Reads a whole number as the engine writes it.
pub(super) fn read_number<const N: usize>(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests;
