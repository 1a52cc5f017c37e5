//! Temporary files for stages of pipelines that need more than memory.
//!
//! A file has no name once it is open, so that nothing is left of it when the server stops, however
//! that comes about. All files together are bounded.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use query::document::Failure;
use query::document::pipeline::{Spill, SpillRun};

use crate::Service;

/// OutOfDiskSpace.
const OUT_OF_DISK_SPACE: i32 = 14031;
/// Bytes that are written and read together.
const CHUNK_BYTES: usize = 64 * 1024;
/// Bytes of the length before a record.
const LENGTH_BYTES: usize = 4;

/// Makes temporary files in a directory.
#[derive(Debug)]
pub struct TemporaryFiles {
    directory: PathBuf,
    bytes_max: u64,
    bytes: Arc<AtomicU64>,
    made: AtomicU64,
}

impl TemporaryFiles {
    /// Files in `directory`, with at most `bytes_max` bytes together.
    pub fn new(directory: &Path, bytes_max: u64) -> Self {
        let bytes = Arc::new(AtomicU64::new(0));
        Self { directory: directory.to_owned(), bytes_max, bytes, made: AtomicU64::new(0) }
    }

    fn open(&self) -> std::io::Result<File> {
        std::fs::create_dir_all(&self.directory)?;
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(format!("stage-{}-{number}.tmp", std::process::id()));
        let file =
            OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    }
}

impl Service {
    /// Where the stages of a pipeline write what they cannot keep in memory.
    pub(crate) fn spill(&self) -> Option<Arc<dyn Spill>> {
        self.hooks.temporary_files.clone().map(|files| files as Arc<dyn Spill>)
    }
}

impl Spill for TemporaryFiles {
    fn create(&self) -> Result<Box<dyn SpillRun>, Failure> {
        Ok(Box::new(Run {
            file: self.open().map_err(|error| failure(&error))?,
            unwritten: Vec::new(),
            written: 0,
            window: Vec::new(),
            window_start: 0,
            bytes_max: self.bytes_max,
            bytes: Arc::clone(&self.bytes),
        }))
    }
}

fn failure(error: &std::io::Error) -> Failure {
    Failure::new(OUT_OF_DISK_SPACE, format!("a temporary file of a stage failed: {error}"))
}

/// Records, each after its length.
struct Run {
    file: File,
    /// What comes after what is in the file.
    unwritten: Vec<u8>,
    written: u64,
    /// A part of the file that was read.
    window: Vec<u8>,
    window_start: u64,
    bytes_max: u64,
    /// The bytes of all files.
    bytes: Arc<AtomicU64>,
}

impl Run {
    fn flush(&mut self) -> Result<(), Failure> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let length = self.unwritten.len() as u64;
        let all = self.bytes.fetch_add(length, Ordering::Relaxed) + length;
        // Counted as written, so that dropping the run gives them back.
        let start = self.written;
        self.written += length;
        if all > self.bytes_max {
            let message = format!(
                "the stages of all pipelines need more than {} bytes of temporary files",
                self.bytes_max
            );
            return Err(Failure::new(OUT_OF_DISK_SPACE, message));
        }
        let write = |file: &mut File, bytes: &[u8]| {
            file.seek(SeekFrom::Start(start))?;
            file.write_all(bytes)
        };
        write(&mut self.file, &self.unwritten).map_err(|error| failure(&error))?;
        self.unwritten.clear();
        Ok(())
    }

    /// The bytes from `start` on, `length` of them.
    fn bytes_at(&mut self, start: u64, length: usize) -> Result<&[u8], Failure> {
        let end = start + length as u64;
        let window_end = self.window_start + self.window.len() as u64;
        if start < self.window_start || end > window_end {
            let available = self.written.saturating_sub(start);
            let wanted = length.max(CHUNK_BYTES) as u64;
            let wanted = usize::try_from(wanted.min(available)).unwrap_or(0);
            if wanted < length {
                return Err(Failure::new(1, "a temporary file of a stage ends too early"));
            }
            self.window.resize(wanted, 0);
            self.window_start = start;
            let read = |file: &mut File, window: &mut [u8]| {
                file.seek(SeekFrom::Start(start))?;
                file.read_exact(window)
            };
            read(&mut self.file, &mut self.window).map_err(|error| failure(&error))?;
        }
        let at = usize::try_from(start - self.window_start).unwrap_or(0);
        Ok(self.window.get(at..at + length).unwrap_or_default())
    }
}

impl SpillRun for Run {
    fn write(&mut self, record: &[u8]) -> Result<u64, Failure> {
        let offset = self.end();
        let length = u32::try_from(record.len())
            .map_err(|_| Failure::new(1, "a record of a stage is too long"))?;
        self.unwritten.extend_from_slice(&length.to_be_bytes());
        self.unwritten.extend_from_slice(record);
        if self.unwritten.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(offset)
    }

    fn read(&mut self, offset: u64) -> Result<(Vec<u8>, u64), Failure> {
        self.flush()?;
        let length = <[u8; LENGTH_BYTES]>::try_from(self.bytes_at(offset, LENGTH_BYTES)?)
            .map_or(0, u32::from_be_bytes);
        let start = offset + LENGTH_BYTES as u64;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let record = self.bytes_at(start, length)?.to_vec();
        Ok((record, start + length as u64))
    }

    fn end(&self) -> u64 {
        self.written + self.unwritten.len() as u64
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.written, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_in_any_order_and_leave_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let files = TemporaryFiles::new(&directory.path().join("stages"), 1 << 24);
        let mut run = files.create().unwrap();
        let record = |n: usize| vec![u8::try_from(n % 251).unwrap(); n * 37 % 5000];
        let offsets: Vec<u64> = (0..500).map(|n| run.write(&record(n)).unwrap()).collect();
        let mut at = 0;
        for n in 0..500 {
            let (found, next) = run.read(at).unwrap();
            assert_eq!(found, record(n));
            at = next;
        }
        assert_eq!(at, run.end());
        for n in [499, 3, 250, 0, 77] {
            assert_eq!(run.read(offsets[n]).unwrap().0, record(n));
        }
        let large = vec![7; 300_000];
        let offset = run.write(&large).unwrap();
        assert_eq!(run.read(offset).unwrap().0, large);
        assert_eq!(std::fs::read_dir(directory.path().join("stages")).unwrap().count(), 0);
        drop(run);
        assert_eq!(files.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn all_files_together_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let files = TemporaryFiles::new(directory.path(), 200_000);
        let mut first = files.create().unwrap();
        first.write(&[1; 100_000]).unwrap();
        let mut second = files.create().unwrap();
        assert_eq!(second.write(&[2; 150_000]).unwrap_err().code, 14031);
        drop(second);
        let mut third = files.create().unwrap();
        third.write(&[3; 90_000]).unwrap();
        assert_eq!(third.read(0).unwrap().0, [3; 90_000]);
    }
}
