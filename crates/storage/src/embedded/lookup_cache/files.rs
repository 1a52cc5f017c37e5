//! The files that hold copies: filled one after the other, unnamed, gone with the process.
//!
//! They are a cache. Losing them loses no data, so they are never synced, a failure to read or
//! write one fails nothing else, and a disk that gets full frees their space first.

use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use tracing::warn;

use crate::Room;

use super::index::{CacheLocation, FILE_BYTES_MAX, UNIT_BYTES};

/// What a file takes of the cache's limit, unless it would be too large or too small.
const FILE_PART: u64 = 32;

/// A smaller file is begun only if the setting allows no larger one.
const FILE_BYTES_MIN: u64 = 2 << 20;

/// The files may take this much more than copies of all rows, and one part: room for the file that
/// is being filled.
pub(super) const SPARE_BYTES: u64 = 8 << 20;

/// No new file is begun unless the disk has room for this many.
const ROOM_FILES: u64 = 4;

/// Files are dropped when less than this many times the floor is free. Below the floor, writes are
/// refused.
const FLOORS: u64 = 2;

/// A file is dropped when less than this fraction of its copies is in use.
const USED_PART_MIN: u64 = 4;

/// How much is read at once when the read goes to the disk.
#[cfg(target_os = "linux")]
const SURROUNDINGS_BYTES: NonZeroU64 = NonZeroU64::new(64 << 10).expect("more than nothing");

/// What the cache asks its store.
pub(super) struct Surroundings {
    /// Reads how much room the disk has.
    pub(super) room: Box<dyn Fn() -> Option<Room> + Send + Sync>,
    /// Counts the rows that may be cached, about.
    pub(super) rows: Box<dyn Fn() -> u64 + Send + Sync>,
}

pub(super) struct CacheFiles {
    directory: PathBuf,
    surroundings: Surroundings,
    bytes_max: u64,
    file_bytes_max: u64,
    /// Ordered by number. Only the last one is being filled.
    open: ArcSwap<Vec<Arc<CacheFile>>>,
    /// Held while the list is replaced.
    replacing: Mutex<()>,
    files_made: AtomicU64,
    /// Whether files were dropped since the last check.
    has_dropped_files: AtomicBool,
    /// Whether an operation failed, after which no more files are made.
    is_disabled: AtomicBool,
}

/// Which bytes were written, and where.
pub(super) struct WrittenAt {
    pub(super) file: u64,
    pub(super) offset: u64,
}

struct CacheFile {
    number: u64,
    file: File,
    bytes_max: u64,
    filled_bytes: AtomicU64,
    copies: AtomicU64,
    /// Copies that are no longer in use.
    unused: AtomicU64,
}

impl CacheFiles {
    /// Files below `directory` that take at most `bytes_max` together.
    pub(super) fn new(directory: &Path, bytes_max: u64, surroundings: Surroundings) -> Self {
        Self {
            directory: directory.to_owned(),
            surroundings,
            replacing: Mutex::default(),
            bytes_max,
            file_bytes_max: (bytes_max / FILE_PART).clamp(UNIT_BYTES as u64, FILE_BYTES_MAX),
            open: ArcSwap::default(),
            files_made: AtomicU64::new(0),
            has_dropped_files: AtomicBool::new(false),
            is_disabled: AtomicBool::new(false),
        }
    }

    /// Bytes on disk.
    pub(super) fn bytes(&self) -> u64 {
        bytes_of(&self.open.load())
    }

    /// The most that the files may take now: as much as copies of all rows, if those that are not
    /// copied are of the same size as the others.
    fn bytes_max_now(&self, open: &[Arc<CacheFile>]) -> u64 {
        let copies: u64 = open.iter().map(|file| file.copies.load(Ordering::Relaxed)).sum();
        let copy_bytes = bytes_of(open).div_ceil(copies.max(1));
        let data_bytes = (self.surroundings.rows)().saturating_mul(copy_bytes);
        data_bytes.saturating_add(data_bytes / FILE_PART + SPARE_BYTES).min(self.bytes_max)
    }

    /// The number of the file that is being filled.
    pub(super) fn newest(&self) -> Option<u64> {
        self.open.load().last().map(|file| file.number)
    }

    pub(super) fn has(&self, location: CacheLocation) -> bool {
        find(&self.open.load(), location).is_some()
    }

    pub(super) fn read(&self, location: CacheLocation) -> Option<Vec<u8>> {
        let open = self.open.load();
        let mut bytes = vec![0; location.bytes()];
        read_at(&find(&open, location)?.file, &mut bytes, location.offset()).ok()?;
        Some(bytes)
    }

    /// Appends `copies` copies, one after the other, to one file. Only one thread calls this.
    pub(super) fn append(&self, bytes: &[u8], copies: u64) -> Option<WrittenAt> {
        let written_bytes = bytes.len() as u64;
        if copies == 0 || written_bytes > self.file_bytes_max {
            return None;
        }
        let (file, offset) = match self.with_room_for(written_bytes) {
            Some(found) => found,
            None => {
                self.add_file(written_bytes)?;
                self.with_room_for(written_bytes)?
            }
        };
        if let Err(failure) = write_at(&file.file, bytes, offset) {
            self.disable(&failure);
            return None;
        }
        // ORDERING: only this thread changes these, and locations are published under a lock.
        file.filled_bytes.store(offset + written_bytes, Ordering::Relaxed);
        file.copies.fetch_add(copies, Ordering::Relaxed);
        Some(WrittenAt { file: file.number, offset })
    }

    fn with_room_for(&self, bytes: u64) -> Option<(Arc<CacheFile>, u64)> {
        let open = self.open.load();
        let file = open.last()?;
        let filled_bytes = file.filled_bytes.load(Ordering::Relaxed);
        let has_room = filled_bytes + bytes <= file.bytes_max;
        has_room.then(|| (Arc::clone(file), filled_bytes))
    }

    /// Records that a copy is no longer in use.
    pub(super) fn mark_unused(&self, location: CacheLocation) {
        if let Some(file) = find(&self.open.load(), location) {
            file.unused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds a file that `needed_bytes` fit into. The oldest files go, so that no limit is exceeded
    /// once it is full.
    fn add_file(&self, needed_bytes: u64) -> Option<()> {
        if self.is_disabled.load(Ordering::Relaxed) {
            return None;
        }
        let _replacing = self.lock();
        let open = self.open.load();
        let all_bytes_max = self.bytes_max_now(&open);
        let bytes_max = (all_bytes_max / FILE_PART)
            .max(FILE_BYTES_MIN)
            .max(needed_bytes)
            .min(self.file_bytes_max)
            .min(all_bytes_max);
        let has_room = self.has_room(bytes_max);
        let excess_bytes = match has_room {
            true => (bytes_of(&open) + bytes_max).saturating_sub(all_bytes_max),
            // The oldest file makes room for other files.
            false => 1,
        };
        let mut kept = without_oldest(&open, excess_bytes);
        if has_room {
            let number = self.files_made.fetch_add(1, Ordering::Relaxed);
            match tempfile::tempfile_in(&self.directory) {
                Ok(file) => kept.push(Arc::new(CacheFile::new(number, file, bytes_max))),
                Err(failure) => {
                    self.note_failure(&failure);
                    return None;
                }
            }
        }
        self.replace(&open, kept);
        has_room.then_some(())
    }

    /// Drops the oldest files until the disk has enough room for the store's writes and the others
    /// take no more than they may. Returns whether any were dropped.
    pub(super) fn make_room(&self) -> bool {
        if self.open.load().is_empty() {
            return false;
        }
        let lacking_bytes = (self.surroundings.room)().map_or(0, |room| {
            room.floor_bytes.saturating_mul(FLOORS).saturating_sub(room.free_bytes)
        });
        let _replacing = self.lock();
        let open = self.open.load();
        let excess_bytes = bytes_of(&open).saturating_sub(self.bytes_max_now(&open));
        if lacking_bytes == 0 && excess_bytes == 0 {
            return false;
        }
        self.replace(&open, without_oldest(&open, lacking_bytes.max(excess_bytes)));
        true
    }

    /// Drops files of which little is in use. Returns whether any were dropped since the last call.
    pub(super) fn drop_unused(&self) -> bool {
        let _replacing = self.lock();
        let open = self.open.load();
        let filling = open.last().map(|file| file.number);
        let is_kept = |file: &&Arc<CacheFile>| Some(file.number) == filling || file.is_of_use();
        let kept = open.iter().filter(is_kept).map(Arc::clone).collect();
        self.replace(&open, kept);
        self.has_dropped_files.swap(false, Ordering::Relaxed)
    }

    fn replace(&self, before: &[Arc<CacheFile>], kept: Vec<Arc<CacheFile>>) {
        let remaining = before.iter().filter(|file| kept.iter().any(|k| k.number == file.number));
        if remaining.count() < before.len() {
            self.has_dropped_files.store(true, Ordering::Relaxed);
        }
        self.open.store(Arc::new(kept));
    }

    /// Whether the disk has room for more files of `file_bytes`.
    fn has_room(&self, file_bytes: u64) -> bool {
        let is_enough = |Room { free_bytes, floor_bytes }| {
            let left = floor_bytes.saturating_mul(FLOORS).saturating_add(file_bytes);
            free_bytes >= left.max(ROOM_FILES * file_bytes)
        };
        (self.surroundings.room)().map_or(cfg!(not(unix)), is_enough)
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.replacing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn disable(&self, failure: &io::Error) {
        let _replacing = self.lock();
        self.note_failure(failure);
    }

    /// Disables the cache.
    fn note_failure(&self, failure: &io::Error) {
        if !self.is_disabled.swap(true, Ordering::Relaxed) {
            warn!(%failure, "items can't be copied for lookups, which will take longer");
        }
        self.has_dropped_files.store(true, Ordering::Relaxed);
        self.open.store(Arc::default());
    }
}

#[cfg(test)]
impl CacheFiles {
    /// Evicts the files from the operating system's page cache.
    #[cfg(target_os = "linux")]
    pub(super) fn evict(&self) {
        for copies in self.open.load().iter() {
            copies.file.sync_all().unwrap();
            rustix::fs::fadvise(&copies.file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
    }

    pub(super) fn overwrite(&self, location: CacheLocation, at: u64, bytes: &[u8]) {
        write_at(&find(&self.open.load(), location).unwrap().file, bytes, location.offset() + at)
            .unwrap();
    }

    /// Appends a file that can only be read.
    pub(super) fn make_unwritable(&self) {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let mut open: Vec<_> = self.open.load().iter().map(Arc::clone).collect();
        open.push(Arc::new(CacheFile::new(u64::MAX, file, FILE_BYTES_MAX)));
        self.open.store(Arc::new(open));
    }
}

impl CacheFile {
    fn new(number: u64, file: File, bytes_max: u64) -> Self {
        Self {
            number,
            file,
            bytes_max,
            filled_bytes: AtomicU64::new(0),
            copies: AtomicU64::new(0),
            unused: AtomicU64::new(0),
        }
    }

    fn is_of_use(&self) -> bool {
        let copies = self.copies.load(Ordering::Relaxed);
        let used = copies.saturating_sub(self.unused.load(Ordering::Relaxed));
        used > copies / USED_PART_MIN
    }
}

fn bytes_of(open: &[Arc<CacheFile>]) -> u64 {
    open.iter().map(|file| file.filled_bytes.load(Ordering::Relaxed)).sum()
}

/// All but the oldest files that take `bytes` together.
fn without_oldest(open: &[Arc<CacheFile>], bytes: u64) -> Vec<Arc<CacheFile>> {
    let mut dropped_bytes = 0;
    let is_kept = |file: &&Arc<CacheFile>| {
        let is_kept = dropped_bytes >= bytes;
        dropped_bytes += file.filled_bytes.load(Ordering::Relaxed);
        is_kept
    };
    open.iter().filter(is_kept).map(Arc::clone).collect()
}

fn find(open: &[Arc<CacheFile>], location: CacheLocation) -> Option<&CacheFile> {
    let at = open.binary_search_by_key(&location.file(), |file| file.number).ok()?;
    open.get(at).map(|file| &**file)
}

/// Reads uncached bytes together with their surroundings: copies made at about the same time are
/// likely to be uncached and needed too, and the larger read hardly takes longer.
#[cfg(target_os = "linux")]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    use rustix::io::{Errno, ReadWriteFlags};

    let mut whole = [io::IoSliceMut::new(bytes)];
    match rustix::io::preadv2(file, &mut whole, offset, ReadWriteFlags::NOWAIT) {
        Ok(read) if read == bytes.len() => return Ok(()),
        Ok(_) | Err(Errno::AGAIN) => {
            // Advice that is ignored does no harm.
            let _ = rustix::fs::fadvise(
                file,
                offset - offset % SURROUNDINGS_BYTES.get(),
                Some(SURROUNDINGS_BYTES),
                rustix::fs::Advice::WillNeed,
            );
        }
        // Some file systems cannot tell whether a read would block.
        Err(_) => {}
    }
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(all(unix, not(target_os = "linux")))]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Other platforms have no copies: the first attempt disables the cache.
#[cfg(not(unix))]
fn read_at(_: &File, _: &mut [u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
fn write_at(_: &File, _: &[u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
