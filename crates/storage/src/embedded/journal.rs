//! Reading the engine's journal files, as the pinned version writes them.
//!
//! A journal is a sequence of batches, then zeros up to the length the file was created with:
//!
//! | part | bytes |
//! |---|---|
//! | start | `01`, item count u32, sequence number u64 |
//! | item, repeated | `02`, kind u8, compression u8, tree u64, key length u16, value length u32, stored length u32, key, stored value |
//! | or clear, repeated | `04`, tree u64 |
//! | end | `03`, checksum u64 (xxh3 of all items), `FJL` `03` |
//!
//! Numbers are little-endian. Sequence numbers increase through all journals.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use smallvec::SmallVec;
use xxhash_rust::xxh3::Xxh3;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const TRAILER: [u8; 4] = *b"FJL\x03";

/// More than background work can use up between two batches.
const SEQNO_STEP_MAX: u64 = 1 << 32;

/// Half the number at which the engine aborts because it has run out of numbers.
const SEQNO_MAX: u64 = 1 << 62;

/// The length of an end entry.
pub(super) const END_BYTES: u64 = 13;

/// One journal file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Journal {
    pub(super) id: u64,
    pub(super) path: PathBuf,
}

/// The journals of a database, oldest first; none when there is no database yet.
pub(super) fn list(directory: &Path) -> io::Result<Vec<Journal>> {
    let mut journals = Vec::new();
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(journals),
        Err(e) => return Err(e),
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jnl")
            && let Some(id) = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok())
        {
            journals.push(Journal { id, path });
        }
    }
    journals.sort_by_key(|journal| journal.id);
    Ok(journals)
}

/// What is at one position of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchRead {
    /// A whole batch that ends before `end`.
    Batch { seqno: u64, end: u64 },
    /// Nothing: the input ends here.
    Nothing,
    /// No whole batch.
    Broken(BrokenBatch),
}

/// How reading a batch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BrokenBatch {
    /// Where the entry that could not be read begins.
    pub(super) at: u64,
    /// Where the batch ends, if its frame is whole and only its content is not what was written.
    pub(super) frame_end: Option<u64>,
    /// Whether that entry continues past the end of the input.
    pub(super) ran_out: bool,
    /// The sequence number, if the batch's only fault is that its number is not above the previous
    /// one.
    pub(super) out_of_order: Option<u64>,
}

/// Reads batches from a range of a journal.
pub(super) struct BatchReader<R> {
    input: R,
    offset: u64,
    end: u64,
    hash: Xxh3,
    chunk: Vec<u8>,
    entries_read: u64,
    /// Trees that the last batch writes to: few, and normally each once.
    trees: SmallVec<[u64; 4]>,
}

/// Why reading stops short of a whole batch.
enum ReadStop {
    Malformed,
    RanOut,
    Io(io::Error),
}

impl<R: Read> BatchReader<R> {
    /// `input` yields the bytes of the journal from `offset` up to `end`.
    pub(super) fn new(input: R, offset: u64, end: u64) -> Self {
        let chunk = vec![0; 16 << 10];
        let trees = SmallVec::new();
        Self { input, offset, end, hash: Xxh3::new(), chunk, entries_read: 0, trees }
    }

    /// The trees that the last batch writes to.
    pub(super) fn trees(&self) -> impl Iterator<Item = u64> {
        self.trees.iter().copied()
    }

    /// How many entries were read: a measure of work done.
    pub(super) fn entries_read(&self) -> u64 {
        self.entries_read
    }

    /// Reads the next batch; its sequence number must be above `after`.
    pub(super) fn next(&mut self, after: Option<u64>) -> io::Result<BatchRead> {
        if self.offset == self.end {
            return Ok(BatchRead::Nothing);
        }
        let mut at = self.offset;
        let mut broken = BrokenBatch { at, frame_end: None, ran_out: false, out_of_order: None };
        match self.batch(&mut at) {
            Ok((seqno, true)) if follows(after, seqno) => {
                return Ok(BatchRead::Batch { seqno, end: self.offset });
            }
            Ok((seqno, is_whole)) => {
                let is_early = is_whole && after.is_some_and(|after| seqno <= after);
                broken.out_of_order = is_early.then_some(seqno);
                broken.frame_end = Some(self.offset);
            }
            Err(ReadStop::Malformed) => {}
            Err(ReadStop::RanOut) => broken.ran_out = true,
            Err(ReadStop::Io(e)) => return Err(e),
        }
        Ok(BatchRead::Broken(BrokenBatch { at, ..broken }))
    }

    /// The sequence number of a well-framed batch, and whether its content is what was written.
    /// `at` follows the entry being read.
    fn batch(&mut self, at: &mut u64) -> Result<(u64, bool), ReadStop> {
        let (item_count, seqno) = self.start()?;
        self.hash.reset();
        self.trees.clear();
        for _ in 0..item_count {
            *at = self.offset;
            self.item()?;
        }
        *at = self.offset;
        let checksum = self.finish()?;
        Ok((seqno, checksum == self.hash.digest()))
    }

    fn start(&mut self) -> Result<(u32, u64), ReadStop> {
        let [tag] = self.take()?;
        let item_count = u32_of(self.take()?);
        let seqno = u64_of(self.take()?);
        if tag == START && item_count > 0 {
            Ok((item_count, seqno))
        } else {
            Err(ReadStop::Malformed)
        }
    }

    fn item(&mut self) -> Result<(), ReadStop> {
        self.entries_read += 1;
        let [tag] = self.take()?;
        match tag {
            ITEM => self.write_item(),
            CLEAR => {
                let tree: [u8; 8] = self.take()?;
                self.hash.update(&[CLEAR]);
                self.hash.update(&tree);
                Ok(())
            }
            _ => Err(ReadStop::Malformed),
        }
    }

    fn write_item(&mut self) -> Result<(), ReadStop> {
        let header: [u8; 20] = self.take()?;
        let (kinds, rest) = header.split_at(10);
        let [value_kind, compression, ..] = *kinds else { return Err(ReadStop::Malformed) };
        if let Some(tree) = kinds.last_chunk() {
            self.note_tree(u64_of(*tree));
        }
        let [k0, k1, v0, v1, v2, v3, s0, s1, s2, s3] = *rest else {
            return Err(ReadStop::Malformed);
        };
        let key_bytes = u16::from(k0) | u16::from(k1) << 8;
        let value_bytes = u32_of([v0, v1, v2, v3]);
        let stored_bytes = u32_of([s0, s1, s2, s3]);
        let known = matches!(value_kind, 0 | 1 | 2 | 4) && compression <= 1;
        if !known || (compression == 0 && value_bytes != stored_bytes) {
            return Err(ReadStop::Malformed);
        }
        self.hash.update(&[ITEM]);
        self.hash.update(&header);
        self.hash_next(u64::from(key_bytes) + u64::from(stored_bytes))
    }

    fn note_tree(&mut self, tree: u64) {
        if !self.trees.contains(&tree) {
            self.trees.push(tree);
        }
    }

    fn finish(&mut self) -> Result<u64, ReadStop> {
        let [tag] = self.take()?;
        let checksum = u64_of(self.take()?);
        let trailer = self.take()?;
        if tag == END && trailer == TRAILER { Ok(checksum) } else { Err(ReadStop::Malformed) }
    }

    fn hash_next(&mut self, byte_count: u64) -> Result<(), ReadStop> {
        self.advance(byte_count)?;
        let mut left = byte_count;
        while left > 0 {
            let step = usize::try_from(left).unwrap_or(usize::MAX).min(self.chunk.len());
            let chunk = &mut self.chunk[..step];
            self.input.read_exact(chunk).map_err(ReadStop::Io)?;
            self.hash.update(chunk);
            left -= step as u64;
        }
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], ReadStop> {
        self.advance(N as u64)?;
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes).map_err(ReadStop::Io)?;
        Ok(bytes)
    }

    fn advance(&mut self, byte_count: u64) -> Result<(), ReadStop> {
        if byte_count > self.end - self.offset {
            return Err(ReadStop::RanOut);
        }
        self.offset += byte_count;
        Ok(())
    }
}

/// Sequence numbers are not part of the checksum, so only their order protects them.
fn follows(after: Option<u64>, seqno: u64) -> bool {
    match after {
        Some(after) => seqno > after && seqno - after < SEQNO_STEP_MAX,
        None => seqno < SEQNO_MAX,
    }
}

/// Whether a batch could begin at the front of `bytes`: a cheap check before reading one.
pub(super) fn may_start_batch(bytes: &[u8], after: Option<u64>) -> bool {
    let Some((&[tag, c0, c1, c2, c3, ref seqno @ ..], rest)) = bytes.split_first_chunk::<13>()
    else {
        return false;
    };
    let first_entry = rest.first().copied();
    tag == START
        && u32_of([c0, c1, c2, c3]) > 0
        && follows(after, u64_of(*seqno))
        && matches!(first_entry, Some(ITEM | CLEAR))
}

/// The sequence number of the batch that begins at the front of `bytes`.
pub(super) fn seqno_of(bytes: &[u8]) -> Option<u64> {
    let (start, _) = bytes.split_first_chunk::<13>()?;
    let [START, _, _, _, _, seqno @ ..] = *start else { return None };
    Some(u64_of(seqno))
}

/// Whether `bytes` begins with an end entry.
pub(super) fn starts_with_end(bytes: &[u8]) -> bool {
    bytes.first() == Some(&END) && bytes.get(9..13) == Some(&TRAILER)
}

/// Disk space that the journals in a directory take. Their lengths do not tell: they are sparse.
pub(super) fn occupied_bytes(directory: &Path) -> u64 {
    let journals = list(directory).unwrap_or_default();
    let metas = journals.iter().filter_map(|journal| fs::metadata(&journal.path).ok());
    metas.map(|meta| space_of(&meta)).sum()
}

#[cfg(unix)]
fn space_of(meta: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    meta.blocks() * 512
}

#[cfg(not(unix))]
fn space_of(meta: &fs::Metadata) -> u64 {
    meta.len()
}

/// How much of a journal was ever written.
pub(super) fn written_bytes(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    let file_bytes = file.metadata()?.len();
    Ok(last_data(&file, 0, file_bytes)?.unwrap_or(0))
}

/// The same, searched from the end, which is fast where nothing is damaged.
pub(super) fn written_end(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let file_bytes = file.metadata()?.len();
    let (mut end, mut at) = (0, 0);
    while let Some(start) = skip_hole(&file, at, file_bytes)? {
        end = skip_data(&file, start, file_bytes)?;
        at = end;
    }
    let mut chunk = vec![0; 64 << 10];
    while end > 0 {
        let from = end.saturating_sub(chunk.len() as u64);
        let chunk = &mut chunk[..usize::try_from(end - from).unwrap_or(usize::MAX)];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(chunk)?;
        if let Some(place) = chunk.iter().rposition(|byte| *byte != 0) {
            return Ok(from + place as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

/// Writes the newest two journals again as they read, and syncs them.
///
/// After a failed sync the operating system treats unwritten data as written: it reads back as if
/// it were on disk, and a later sync does nothing. Anything built on it would be lost with it. Two
/// journals, since a journal is begun as soon as the one before is synced.
pub(super) fn write_again(directory: &Path) -> io::Result<()> {
    for journal in list(directory)?.iter().rev().take(2) {
        let mut file = OpenOptions::new().read(true).write(true).open(&journal.path)?;
        let file_bytes = file.metadata()?.len();
        let mut chunk = vec![0; 64 << 10];
        let mut at = 0;
        while let Some(start) = skip_hole(&file, at, file_bytes)? {
            file.seek(SeekFrom::Start(start))?;
            let read = file.read(&mut chunk)?;
            if read == 0 {
                break;
            }
            file.seek(SeekFrom::Start(start))?;
            file.write_all(&chunk[..read])?;
            at = start + read as u64;
        }
        file.sync_all()?;
    }
    Ok(())
}

/// Where the last byte that is not zero ends, at or after `from`.
pub(super) fn last_data(mut file: &File, from: u64, file_bytes: u64) -> io::Result<Option<u64>> {
    let mut last = None;
    let mut chunk = vec![0; 64 << 10];
    let mut at = from;
    while let Some(start) = skip_hole(file, at, file_bytes)? {
        file.seek(SeekFrom::Start(start))?;
        let read = file.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        if let Some(place) = chunk[..read].iter().rposition(|byte| *byte != 0) {
            last = Some(start + place as u64 + 1);
        }
        at = start + read as u64;
    }
    Ok(last)
}

/// The first byte at or after `at` that is not in a hole of the file: journals are created sparse,
/// and reading their zeros would take longer than everything else.
#[cfg(any(target_os = "linux", target_os = "macos", target_os = "freebsd"))]
fn skip_hole(file: &File, at: u64, file_bytes: u64) -> io::Result<Option<u64>> {
    if at >= file_bytes {
        return Ok(None);
    }
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(start) => Ok(Some(start)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(rustix::io::Errno::INVAL) => Ok(Some(at)),
        Err(e) => Err(e.into()),
    }
}

/// Where the range of data that contains `at` ends.
#[cfg(any(target_os = "linux", target_os = "macos", target_os = "freebsd"))]
fn skip_data(file: &File, at: u64, file_bytes: u64) -> io::Result<u64> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(at)) {
        Ok(end) => Ok(end.max(at + 1)),
        Err(rustix::io::Errno::NXIO | rustix::io::Errno::INVAL) => Ok(file_bytes),
        Err(e) => Err(e.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos", target_os = "freebsd")))]
fn skip_data(_file: &File, _at: u64, file_bytes: u64) -> io::Result<u64> {
    Ok(file_bytes)
}

#[cfg(not(any(target_os = "linux", target_os = "macos", target_os = "freebsd")))]
fn skip_hole(_file: &File, at: u64, file_bytes: u64) -> io::Result<Option<u64>> {
    Ok((at < file_bytes).then_some(at))
}

#[expect(clippy::little_endian_bytes, reason = "the engine's journal is little-endian")]
fn u32_of(bytes: [u8; 4]) -> u32 {
    u32::from_le_bytes(bytes)
}

#[expect(clippy::little_endian_bytes, reason = "the engine's journal is little-endian")]
fn u64_of(bytes: [u8; 8]) -> u64 {
    u64::from_le_bytes(bytes)
}
