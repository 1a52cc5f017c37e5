//! Converts the engine's errors to [`StoreError`].
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the engine's error list is open; what is not named is treated as the gravest case"
)]

use std::error::Error;
use std::io;

use fjall::LsmError;

use crate::StoreError;

/// Opening failed. Nothing is poisoned yet: the fault is on disk.
pub(super) fn open_failed(failure: fjall::Error) -> StoreError {
    match failure {
        fjall::Error::Io(e) | fjall::Error::Storage(LsmError::Io(e)) => io_failed(e),
        fjall::Error::Locked => StoreError::Locked,
        fjall::Error::InvalidVersion(version) => unsupported(&format!(
            "the data directory has an engine format this program does not read ({version:?})"
        )),
        damaged => StoreError::Corrupt(damaged.to_string()),
    }
}

/// Reading a block or a table failed; writes are unaffected.
pub(super) fn read_failed(failure: fjall::Error) -> StoreError {
    match failure {
        fjall::Error::Io(e) | fjall::Error::Storage(LsmError::Io(e)) => io_failed(e),
        damaged => StoreError::Corrupt(damaged.to_string()),
    }
}

/// Appending or syncing failed. The engine accepts no more writes after any such failure, since it
/// cannot know what reached the disk.
pub(super) fn write_failed(failure: fjall::Error) -> StoreError {
    match failure {
        fjall::Error::Io(e) | fjall::Error::Storage(LsmError::Io(e)) if is_full(&e) => {
            StoreError::Full
        }
        fjall::Error::Poisoned => {
            StoreError::Poisoned("an earlier write or a background flush failed".to_owned())
        }
        other => StoreError::Poisoned(text_of(&other)),
    }
}

/// Whether the engine refuses because of a failure that happened elsewhere and was not returned.
pub(super) fn is_poisoned_unseen(failure: &fjall::Error) -> bool {
    matches!(failure, fjall::Error::Poisoned)
}

pub(super) fn unsupported(message: &str) -> StoreError {
    StoreError::Io(io::Error::new(io::ErrorKind::Unsupported, message))
}

pub(super) fn io_failed(failure: io::Error) -> StoreError {
    if is_full(&failure) {
        return StoreError::Full;
    }
    if failure.kind() == io::ErrorKind::InvalidData {
        return StoreError::Corrupt(failure.to_string());
    }
    StoreError::Io(failure)
}

/// A quota or a file-size limit ends a write as a full disk does.
fn is_full(failure: &io::Error) -> bool {
    matches!(
        failure.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

fn text_of(failure: &fjall::Error) -> String {
    failure.source().map_or_else(|| failure.to_string(), ToString::to_string)
}
