//! Making a new store quickly and all or nothing, and the marks beside it.
//!
//! The engine creates a database with some thirty syncs one after the other, and cannot open one
//! whose creation was interrupted. So a mark in the directory says that creation is under way:
//! opening then starts over, which loses nothing because the mark is durably gone before the
//! store is handed out. And where memory can hold files, the database is made there, copied, and
//! the copy synced all at once.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use tracing::{debug, info};

use crate::StoreError;

use super::errors::io_failed;
use super::repair::Unsynced;
use super::{journal, manifest};

const MARK: &str = "store.creating";
const RELAXED_MARK: &str = "store.relaxed";
const ENGINE_VERSION_FILE: &str = "version";

/// A store being made.
pub(super) struct Creation {
    dir: PathBuf,
}

impl Creation {
    /// Marks the beginning, unless `engine` within `dir` already holds a finished store.
    pub(super) fn begin(
        dir: &Path,
        engine: &Path,
        has_manifest: bool,
    ) -> Result<Option<Self>, StoreError> {
        let mark = dir.join(MARK);
        let unfinished = mark.try_exists().map_err(io_failed)?;
        let has_engine = engine.try_exists().map_err(io_failed)?;
        if has_engine && !unfinished {
            return check_version_file(engine).map(|()| None);
        }
        if has_manifest {
            if !unfinished {
                return Err(manifest::missing_store(dir, engine));
            }
            manifest::ManifestWriter::forget(dir)?;
        }
        if has_engine {
            remove_unfinished(engine)?;
        }
        File::create(&mark).map_err(io_failed)?;
        sync_directory(dir).map_err(io_failed)?;
        Ok(Some(Self { dir: dir.to_owned() }))
    }

    /// Fills `engine` with a database that `make` makes below `scratch`, a directory in memory. Not
    /// being able to is fine: the database is then made in place.
    pub(super) fn seed(
        &self,
        engine: &Path,
        scratch: &Path,
        make: impl FnOnce(&Path) -> Result<(), StoreError>,
    ) {
        let seeded = self.try_seed(engine, scratch, make);
        if let Err(failure) = seeded {
            debug!(%failure, "making the database in place");
            // What is left of the attempt is only a hindrance; if it cannot be removed, making
            // the database in place fails and says so.
            let _ = fs::remove_dir_all(engine);
        }
    }

    fn try_seed(
        &self,
        engine: &Path,
        scratch: &Path,
        make: impl FnOnce(&Path) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let scratch = tempfile::Builder::new().prefix("planisphere-").tempdir_in(scratch)?;
        make(scratch.path())?;
        let mut copied = vec![self.dir.clone()];
        copy_tree(scratch.path(), engine, &mut copied)?;
        sync_all(&copied)?;
        Ok(())
    }

    /// Declares the store made.
    pub(super) fn finish(self) -> Result<(), StoreError> {
        fs::remove_file(self.dir.join(MARK)).map_err(io_failed)?;
        let mut directories = vec![self.dir.clone()];
        // Not everyone may open the parent directory, and few file systems need this.
        directories.extend(parent_of(&self.dir).filter(|parent| File::open(parent).is_ok()));
        sync_all(&directories).map_err(io_failed)
    }
}

/// A mark that says how the store was last opened.
pub(super) struct RelaxedMark {
    dir: PathBuf,
}

impl RelaxedMark {
    pub(super) fn of(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// What may have been left unsynced.
    pub(super) fn unsynced(&self) -> Result<Unsynced, StoreError> {
        let relaxed = self.dir.join(RELAXED_MARK).try_exists().map_err(io_failed)?;
        Ok(if relaxed { Unsynced::SeveralBatches } else { Unsynced::LastBatch })
    }

    /// Durably sets or clears the mark.
    pub(super) fn set(&self, relaxed: bool) -> Result<(), StoreError> {
        let was_relaxed = self.unsynced()? == Unsynced::SeveralBatches;
        let mark = self.dir.join(RELAXED_MARK);
        match (was_relaxed, relaxed) {
            (false, false) | (true, true) => return Ok(()),
            (false, true) => drop(File::create(mark).map_err(io_failed)?),
            (true, false) => fs::remove_file(mark).map_err(io_failed)?,
        }
        sync_directory(&self.dir).map_err(io_failed)
    }
}

fn parent_of(dir: &Path) -> Option<PathBuf> {
    Some(dir.canonicalize().ok()?.parent()?.to_owned())
}

fn check_version_file(engine: &Path) -> Result<(), StoreError> {
    let version = engine.join(ENGINE_VERSION_FILE);
    if version.try_exists().map_err(io_failed)? {
        return Ok(());
    }
    Err(manifest::missing(&version))
}

/// Clears away a database that was never handed out; refuses if it holds tables after all.
fn remove_unfinished(engine: &Path) -> Result<(), StoreError> {
    for tree in ["1", "2"] {
        let tables = engine.join("keyspaces").join(tree).join("tables");
        let holds_tables = match fs::read_dir(tables) {
            Ok(mut entries) => entries.next().is_some(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => false,
            Err(e) => return Err(io_failed(e)),
        };
        if holds_tables {
            return Err(StoreError::Corrupt(format!(
                "{} is marked as unfinished but holds data; remove {MARK} beside it to use it",
                engine.display()
            )));
        }
    }
    info!(directory = %engine.display(), "starting over with a store that was never finished");
    fs::remove_dir_all(engine).map_err(io_failed)
}

/// Copies a directory and notes every file and directory made.
fn copy_tree(from: &Path, to: &Path, copied: &mut Vec<PathBuf>) -> Result<(), StoreError> {
    fs::create_dir_all(to)?;
    copied.push(to.to_owned());
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_tree(&source, &target, copied)?;
            continue;
        }
        copy_file(&source, &target)?;
        copied.push(target);
    }
    Ok(())
}

/// Copies a file; of a journal, only what was written and not the empty space behind.
fn copy_file(source: &Path, target: &Path) -> Result<(), StoreError> {
    if source.extension().is_some_and(|extension| extension == "jnl") {
        let written_bytes = journal::written_bytes(source)?;
        let mut input = io::Read::take(File::open(source)?, written_bytes);
        io::copy(&mut input, &mut File::create(target)?)?;
    } else {
        fs::copy(source, target)?;
    }
    Ok(())
}

/// Syncs many files at once: file systems with a journal then commit it once or twice for all.
fn sync_all(paths: &[PathBuf]) -> io::Result<()> {
    let sync = |path: &PathBuf| sync_path(path);
    thread::scope(|scope| {
        let syncs: Vec<_> = paths.iter().map(|path| scope.spawn(move || sync(path))).collect();
        syncs.into_iter().try_for_each(|sync| {
            sync.join().unwrap_or_else(|_| Err(io::Error::other("a sync panicked")))
        })
    })
}

/// Makes the names in a directory durable.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    sync_path(directory)
}

#[cfg(unix)]
fn sync_path(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Directories cannot be synced here, and files only when they are open for writing.
#[cfg(not(unix))]
fn sync_path(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::OpenOptions::new().write(true).open(path)?.sync_all()
}
