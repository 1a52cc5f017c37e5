//! The data directory: opens its store, and notes which server has it open.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use storage::MemoryStore;
use storage::{EmbeddedOptions, EmbeddedStore};
use storage::{LocalStore, StoreError};
use tracing::debug;

use crate::config::{Durability, Storage};
use crate::private_file;

const OWNER: &str = "server.pid";
/// The prefix of the admin API's address in the note.
const ADMIN_NOTE: &str = "admin ";

/// An open store, on disk or in memory.
pub(crate) struct DataDir {
    store: Arc<dyn LocalStore>,
    durability: storage::Durability,
    owner_file: Option<PathBuf>,
}

impl DataDir {
    /// Opens the store. A directory that another process has open is an error that names that
    /// process.
    pub(crate) fn open(storage: &Storage) -> anyhow::Result<Self> {
        let durability = match storage.durability {
            Durability::Synced => storage::Durability::Synced,
            Durability::Relaxed => storage::Durability::Buffered,
        };
        if storage.memory {
            return Ok(Self { store: Arc::new(MemoryStore::new()), durability, owner_file: None });
        }
        let dir = &storage.data;
        let shown = dir.display();
        std::fs::create_dir_all(dir)
            .with_context(|| format!("can't create the data directory {shown}"))?;
        private_file::restrict_directory(dir)
            .with_context(|| format!("can't read the data directory {shown}"))?;
        let owner_file = dir.join(OWNER);
        let options = EmbeddedOptions {
            relaxed: storage.durability == Durability::Relaxed,
            memtable_bytes: storage.memtable_bytes,
            cache_bytes: storage.cache_bytes,
            lookup_cache_bytes: storage.lookup_cache_bytes,
            ..EmbeddedOptions::new(engine::KEY_TAGS)
        };
        let store =
            EmbeddedStore::open(dir, options).map_err(|error| explain(error, dir, &owner_file))?;
        Ok(Self { store: Arc::new(store), durability, owner_file: Some(owner_file) })
    }

    pub(crate) fn store(&self) -> Arc<dyn LocalStore> {
        Arc::clone(&self.store)
    }

    pub(crate) fn durability(&self) -> storage::Durability {
        self.durability
    }

    /// Writes a note for processes that find the directory locked, and for commands that look for
    /// this directory's server. The note is not the lock.
    pub(crate) fn note_endpoints(&self, endpoint: &str, admin: &str) {
        let Some(path) = &self.owner_file else { return };
        let process = std::process::id();
        let note = format!("process {process} serving {endpoint}\n{ADMIN_NOTE}{admin}\n");
        if let Err(error) = std::fs::write(path, note) {
            debug!(%error, "note about the running server not written");
        }
    }

    /// Removes the note.
    pub(crate) fn close(self) {
        if let Some(path) = &self.owner_file
            && let Err(error) = std::fs::remove_file(path)
        {
            debug!(%error, "note about the running server not removed");
        }
    }
}

/// The address of the admin API in the note of the server that has `dir` open.
pub(crate) fn noted_admin_endpoint(dir: &Path) -> Option<String> {
    let note = std::fs::read_to_string(dir.join(OWNER)).ok()?;
    note.lines().find_map(|line| line.strip_prefix(ADMIN_NOTE)).map(ToOwned::to_owned)
}

fn explain(error: StoreError, dir: &Path, owner_file: &Path) -> anyhow::Error {
    let shown = dir.display();
    match error {
        StoreError::Locked => {
            let owner = std::fs::read_to_string(owner_file).unwrap_or_default();
            let owner = match owner.lines().next().unwrap_or_default().trim() {
                "" => "another process",
                owner => owner,
            };
            anyhow!(
                "the data directory {shown} is in use by {owner}.\n\
                 Use that server, stop it first, or choose another directory with --data DIR \
                 (or none with --memory)."
            )
        }
        StoreError::Corrupt(_)
        | StoreError::Full
        | StoreError::Poisoned(_)
        | StoreError::TooLarge
        | StoreError::Io(_) => {
            anyhow::Error::new(error).context(format!("can't open the data directory {shown}"))
        }
    }
}
