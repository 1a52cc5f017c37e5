//! Creates a new store quickly and atomically, and keeps the marks beside it.
//!
//! The engine creates a database with about thirty syncs in sequence, and cannot open one whose
//! creation was interrupted. So a mark in the directory says that creation is under way: opening
//! then starts over, which loses nothing because the mark is durably removed before the store is
//! returned. Where files can live in memory, the database is built there and copied, and the copy
//! is synced all at once.

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

/// A store that is being created.
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

    /// Fills `engine` with a database that `make` builds below `scratch`, a directory in memory. If
    /// that fails, the database is built in place instead.
    pub(super) fn seed(
        &self,
        engine: &Path,
        scratch: &Path,
        make: impl FnOnce(&Path) -> Result<(), StoreError>,
    ) {
        let seeded = self.try_seed(engine, scratch, make);
        if let Err(failure) = seeded {
            debug!(%failure, "making the database in place");
            // The remains of the attempt only get in the way. If they cannot be removed, building
            // the database in place fails with an error.
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

    /// Declares the store finished.
    pub(super) fn finish(self) -> Result<(), StoreError> {
        fs::remove_file(self.dir.join(MARK)).map_err(io_failed)?;
        let mut directories = vec![self.dir.clone()];
        // The process may lack permission to open the parent directory, and few file systems need
        // this sync.
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

    /// Which batches may have been left unsynced.
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

/// Removes a database that was never returned to a caller; refuses if it holds tables after all.
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

/// Copies a directory and records every file and directory created.
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

/// Copies a file; of a journal, only the written part and not the empty space after it.
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

/// Makes the entries of a directory durable.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    sync_path(directory)
}

#[cfg(unix)]
fn sync_path(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// On this platform directories cannot be synced, and files only when they are open for writing.
#[cfg(not(unix))]
fn sync_path(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::OpenOptions::new().write(true).open(path)?.sync_all()
}
