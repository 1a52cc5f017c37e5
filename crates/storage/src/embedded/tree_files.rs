//! The files of the engine's trees, as the pinned version writes them.
//!
//! Tree `N` is the directory `keyspaces/N`. Its file `current` begins with the number V of the
//! current version (u64, little-endian); the file `vV` has a section `tables` that names the files
//! below `tables/`: a count of levels u8, for each a count of runs u8, for each a count of tables
//! u32, for each its id u64, a checksum (a byte for its kind, 16 bytes) and a number u64.
//! u32, for each its id u64, a checksum (a byte for its kind, 16 bytes) and a number u64.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::StoreError;

use super::errors::io_failed;
use super::manifest::{missing, read_number};

/// The engine's list of trees and the first tree of the store, without which there is no store.
const TREES_ALWAYS: [u64; 2] = [0, 1];

const CURRENT: &str = "current";
const CHECKSUM_BYTES: usize = 17;

/// Refuses when a file of a tree is missing. `noted` lists trees that must exist, each with a
/// version that it must have reached.
pub(super) fn check(
    engine: &Path,
    noted: impl Iterator<Item = (u64, u64)>,
) -> Result<(), StoreError> {
    let mut trees: BTreeMap<u64, u64> = TREES_ALWAYS.map(|id| (id, 0)).into();
    for id in ids(engine).map_err(io_failed)? {
        trees.insert(id, 0);
    }
    trees.extend(noted);
    trees.into_iter().try_for_each(|(id, version)| check_tree(&path_of(engine, id), version))
}

/// Refuses when there is no tree with that id, although a journal has writes to it.
pub(super) fn check_is_there(engine: &Path, id: u64) -> Result<(), StoreError> {
    let current = path_of(engine, id).join(CURRENT);
    if current.try_exists().map_err(io_failed)? { Ok(()) } else { Err(missing(&current)) }
}

/// The current version of every tree.
pub(super) fn versions(engine: &Path) -> io::Result<Vec<(u64, u64)>> {
    let mut ids = ids(engine)?;
    ids.sort_unstable();
    ids.into_iter().map(|id| Ok((id, version_of(&path_of(engine, id))?))).collect()
}

/// The current version of one tree.
pub(super) fn version(engine: &Path, id: u64) -> io::Result<u64> {
    version_of(&path_of(engine, id))
}

fn path_of(engine: &Path, id: u64) -> PathBuf {
    engine.join("keyspaces").join(id.to_string())
}

fn ids(engine: &Path) -> io::Result<Vec<u64>> {
    let keyspaces = engine.join("keyspaces");
    let entries = match fs::read_dir(&keyspaces) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut ids = Vec::new();
    for entry in entries {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
        ids.push(id.ok_or_else(|| {
            let message = format!("{} does not belong to the store", entry.path().display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        })?);
    }
    Ok(ids)
}

fn version_of(tree: &Path) -> io::Result<u64> {
    read_number::<8>(&mut File::open(tree.join(CURRENT))?)
}

fn check_tree(tree: &Path, version_min: u64) -> Result<(), StoreError> {
    let version = match version_of(tree) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(missing(&tree.join(CURRENT))),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(damaged(&tree.join(CURRENT), "it is too short"));
        }
        version => version.map_err(io_failed)?,
    };
    if version < version_min {
        let why = format!("it is of version {version}, but version {version_min} was in force");
        return Err(damaged(&tree.join(CURRENT), &why));
    }
    let list = tree.join(format!("v{version}"));
    if !list.try_exists().map_err(io_failed)? {
        return Err(missing(&list));
    }
    for table in tables_of(&list).map_err(|why| damaged(&list, &why))? {
        let table = tree.join("tables").join(table.to_string());
        if !table.try_exists().map_err(io_failed)? {
            return Err(missing(&table));
        }
    }
    Ok(())
}

fn tables_of(list: &Path) -> Result<Vec<u64>, String> {
    let reader = sfa::Reader::new(list).map_err(|e| format!("{e:?}"))?;
    let section = reader.toc().section(b"tables").ok_or("it has no list of tables")?;
    let mut input = section.buf_reader(list).map_err(|e| e.to_string())?;
    read_tables(&mut input).map_err(|e| e.to_string())
}

fn read_tables(input: &mut impl io::Read) -> io::Result<Vec<u64>> {
    let mut tables = Vec::new();
    for _level in 0..read_number::<1>(input)? {
        for _run in 0..read_number::<1>(input)? {
            for _table in 0..read_number::<4>(input)? {
                tables.push(read_number::<8>(input)?);
                input.read_exact(&mut [0; CHECKSUM_BYTES])?;
                read_number::<8>(input)?;
            }
        }
    }
    Ok(tables)
}

fn damaged(path: &Path, why: &str) -> StoreError {
    StoreError::Corrupt(format!(
        "{}: {why}; put it back from a copy of the directory (nothing was changed)",
        path.display()
    ))
}
