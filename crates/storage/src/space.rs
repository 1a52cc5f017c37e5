//! How much room the disk has, and how much of it must stay free.
//!
//! A disk that fills up in the middle of a write leaves a journal of unknown length, and the store
//! accepts no more writes. So writes are refused earlier: while less is free than the store may
//! have to write by itself, which are the memtables and the journal that is begun next.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

/// How large the engine makes a journal.
const JOURNAL_BYTES: u64 = 64 << 20;

/// At most this fraction (1 / N) of a file system is kept free.
const PART_MAX: u64 = 3;

/// The size and free space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Bytes that this process may still write.
    pub free_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

/// Tells how much room there is.
pub trait DiskSpace: Debug + Send + Sync {
    /// The file system of `directory`; `None` if that cannot be determined.
    fn of(&self, directory: &Path) -> Option<FileSystem>;
}

/// Asks the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDiskSpace;

impl DiskSpace for SystemDiskSpace {
    #[cfg(unix)]
    fn of(&self, directory: &Path) -> Option<FileSystem> {
        let disk = rustix::fs::statvfs(directory).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Some(FileSystem { free_bytes: bytes(disk.f_bavail), total_bytes: bytes(disk.f_blocks) })
    }

    #[cfg(not(unix))]
    fn of(&self, _directory: &Path) -> Option<FileSystem> {
        None
    }
}

/// How much room there is, and how much must stay free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Below this, writes that need more room are refused.
    pub floor_bytes: u64,
}

impl Room {
    /// Whether all writes are allowed.
    pub fn is_enough(&self) -> bool {
        self.free_bytes >= self.floor_bytes
    }

    /// Whether writes that remove something are still allowed.
    pub fn is_enough_for_removals(&self) -> bool {
        self.free_bytes >= self.floor_bytes / 2
    }
}

/// The room of a store with `memtable_bytes` of memory for memtables.
pub(crate) fn room(space: &Arc<dyn DiskSpace>, dir: &Path, memtable_bytes: u64) -> Option<Room> {
    let FileSystem { free_bytes, total_bytes } = space.of(dir)?;
    let wanted = memtable_bytes.saturating_mul(2).saturating_add(JOURNAL_BYTES);
    Some(Room { free_bytes, floor_bytes: wanted.min(total_bytes / PART_MAX) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Fixed(u64, u64);

    impl DiskSpace for Fixed {
        fn of(&self, _: &Path) -> Option<FileSystem> {
            Some(FileSystem { free_bytes: self.0, total_bytes: self.1 })
        }
    }

    fn room_of(free_bytes: u64, total_bytes: u64) -> Room {
        let space: Arc<dyn DiskSpace> = Arc::new(Fixed(free_bytes, total_bytes));
        room(&space, Path::new("."), 16 << 20).unwrap()
    }

    #[test]
    fn the_floor_is_two_memtables_and_a_journal_or_a_third_of_a_small_disk() {
        assert_eq!(room_of(0, 1 << 40).floor_bytes, 96 << 20);
        assert_eq!(room_of(0, 90 << 20).floor_bytes, 30 << 20);
    }

    #[test]
    fn removals_need_half_as_much() {
        let kinds = |free| {
            let room = room_of(free, 1 << 40);
            (room.is_enough(), room.is_enough_for_removals())
        };
        assert_eq!(kinds(96 << 20), (true, true));
        assert_eq!(kinds((96 << 20) - 1), (false, true));
        assert_eq!(kinds(48 << 20), (false, true));
        assert_eq!(kinds((48 << 20) - 1), (false, false));
    }

    #[cfg(unix)]
    #[test]
    fn the_system_knows_its_disks() {
        let disk = SystemDiskSpace.of(Path::new("/")).unwrap();
        assert!(disk.total_bytes > 0 && disk.free_bytes <= disk.total_bytes);
        assert_eq!(SystemDiskSpace.of(Path::new("/nowhere/at/all")), None);
    }
}
