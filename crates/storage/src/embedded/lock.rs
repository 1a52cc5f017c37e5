//! One store per directory.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::Path;

use crate::StoreError;

use super::errors::io_failed;

const LOCK_FILE: &str = "store.lock";

/// The right to use a directory, until dropped. The operating system releases it however the
/// process ends, so the file itself may remain.
pub(super) struct DirectoryLock {
    file: File,
}

impl DirectoryLock {
    /// Takes the lock or returns `Locked` at once; creates the directory when it is missing.
    pub(super) fn acquire(dir: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(dir).map_err(io_failed)?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        let file = options.open(dir.join(LOCK_FILE)).map_err(io_failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Locked),
            Err(TryLockError::Error(e)) => Err(io_failed(e)),
        }
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that is being started shares it until it
        // runs its own program. If this fails, closing releases the lock a little later.
        let _ = self.file.unlock();
    }
}
