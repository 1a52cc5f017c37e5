//! The manifest: records which files the store must have, so that a missing file is detected.
//!
//! The engine accepts whatever it finds: without the file that names the tables of a tree it
//! deletes that tree, and without journals it begins a new one. So a file beside the store names
//! the trees, the newest journal and how far that journal was on disk. Before the engine touches
//! anything, the directory is compared with the manifest, and anything less is refused.
//!
//! The manifest is written when the store is opened, whenever journals appear, grow or disappear
//! while it is open, and after a clean stop. It may claim too little, never too much: what it says
//! must stay true whatever happens after it was written. While the store is open, the engine
//! deletes journals older than the newest. So what the manifest says of those holds only if they
//! exist, and it also says what must be true before they are deleted: a tree has another version,
//! which contains their writes. The manifest of a clean stop, written when no part of the engine
//! runs any more, says that all named journals exist. It is replaced before the engine is opened
//! again.
//!
//! A store without a manifest (an older one, or one that was copied without it) is checked for what
//! every store has, and gets one.

mod writer;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::str::FromStr;

use xxhash_rust::xxh3::xxh3_64;

use crate::StoreError;

use super::errors::io_failed;
use super::journal::{self, Journal};
use super::tree_files;

pub(super) use writer::ManifestWriter;

const FILE: &str = "store.manifest";
const NEW_FILE: &str = "store.manifest.new";
const TITLE: &str = "planisphere store manifest 1";

/// What a store must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    /// Whether the engine had stopped, so that all journals are named.
    stopped: bool,
    /// Ordered by id.
    trees: Vec<TreeEntry>,
    /// Ordered by id; the last one is the newest, which must exist.
    journals: Vec<JournalEntry>,
    /// Which writes keep older journals from being deleted.
    unflushed: Vec<UnflushedNote>,
}

/// A tree had at least this version: the engine numbers versions upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TreeEntry {
    id: u64,
    version: u64,
}

/// A journal was on disk up to this byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct JournalEntry {
    id: u64,
    end: u64,
}

/// A journal had writes that were not in the files of a tree as of this version, so it is not
/// deleted before the tree has a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnflushedNote {
    journal: u64,
    tree: TreeEntry,
}

impl Manifest {
    /// The manifest in `dir`, if there is one.
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

    /// Refuses the store when a file that must exist is missing. Changes nothing.
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
            let is_there = |note: &&JournalEntry| journals.iter().any(|j| j.id == note.id);
            if let Some(gone) = manifest.journals.iter().find(|note| !is_there(note)) {
                return Err(missing_journal(engine, gone.id));
            }
        }
        let noted = manifest.map_or(&[][..], |manifest| &manifest.trees);
        tree_files::check(engine, noted.iter().map(|note| (note.id, note.version)))?;
        let unflushed = manifest.map_or(&[][..], |manifest| &manifest.unflushed);
        let is_gone =
            |note: &&UnflushedNote| !journals.iter().any(|journal| journal.id == note.journal);
        for note in unflushed.iter().filter(is_gone) {
            if tree_files::version(engine, note.tree.id).map_err(io_failed)? <= note.tree.version {
                return Err(missing_journal(engine, note.journal));
            }
        }
        Ok(())
    }

    /// Refuses a journal whose whole part is shorter than what was on disk.
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

    /// The files that exist, and how far journals were on disk if `end_of` can tell.
    fn of_directory(
        engine: &Path,
        stopped: bool,
        end_of: impl Fn(&Journal) -> io::Result<u64>,
    ) -> io::Result<Self> {
        let trees = tree_files::versions(engine)?;
        let trees = trees.into_iter().map(|(id, version)| TreeEntry { id, version }).collect();
        let mut journals = Vec::new();
        for journal in journal::list(engine)? {
            journals.push(JournalEntry { id: journal.id, end: end_of(&journal)? });
        }
        Ok(Self { stopped, trees, journals, unflushed: Vec::new() })
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
        for TreeEntry { id, version } in &self.trees {
            text.push_str(&format!("tree {id} version {version}\n"));
        }
        for JournalEntry { id, end } in &self.journals {
            text.push_str(&format!("journal {id} bytes {end}\n"));
        }
        for UnflushedNote { journal, tree: TreeEntry { id, version } } in &self.unflushed {
            text.push_str(&format!("unflushed {journal} tree {id} version {version}\n"));
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
                    manifest.trees.push(TreeEntry { id: number(id)?, version: number(version)? });
                }
                ["journal", id, "bytes", end] => {
                    manifest.journals.push(JournalEntry { id: number(id)?, end: number(end)? });
                }
                ["unflushed", journal, "tree", id, "version", version] => {
                    let tree = TreeEntry { id: number(id)?, version: number(version)? };
                    manifest.unflushed.push(UnflushedNote { journal: number(journal)?, tree });
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

/// An older version of this program keeps no manifest, and deletes journals once they are flushed.
fn missing_journal(engine: &Path, id: u64) -> StoreError {
    StoreError::Corrupt(format!(
        "{} is missing; put it back from a copy of the directory, or, to begin with an empty \
         store, remove all of the directory but tls and account.key; if an older version of this \
         program, which does not know {FILE}, has opened the directory since, remove that file to \
         open what is there (nothing was changed)",
        engine.join(format!("{id}.jnl")).display()
    ))
}

/// The error for a file that is missing.
pub(super) fn missing(path: &Path) -> StoreError {
    StoreError::Corrupt(format!(
        "{} is missing; put it back from a copy of the directory, or, to begin with an empty \
         store, remove all of the directory but tls and account.key (nothing was changed)",
        path.display()
    ))
}

/// The error for a store that is missing although its manifest exists.
pub(super) fn missing_store(dir: &Path, engine: &Path) -> StoreError {
    StoreError::Corrupt(format!(
        "{} is missing; put it back from a copy of the directory, or, to begin with an empty \
         store, remove {}",
        engine.display(),
        dir.join(FILE).display()
    ))
}

/// Reads a whole number as the engine writes it.
pub(super) fn read_number<const N: usize>(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests;
