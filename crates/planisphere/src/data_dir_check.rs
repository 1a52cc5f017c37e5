//! Checks the path of a data directory before anything is written there.

use std::io;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use storage::StoreError;

use crate::config::Storage;
use crate::private_file;

/// Files that operating systems, file systems and version control create in directories.
const SYSTEM_FILES: [&str; 19] = [
    "$RECYCLE.BIN",
    ".DS_Store",
    ".Spotlight-V100",
    ".TemporaryItems",
    ".Trashes",
    ".fseventsd",
    ".gitignore",
    ".gitkeep",
    ".keep",
    ".localized",
    ".snapshot",
    ".snapshots",
    ".zfs",
    "System Volume Information",
    "Thumbs.db",
    "aquota.group",
    "aquota.user",
    "desktop.ini",
    "lost+found",
];
const SYSTEM_FILE_PREFIXES: [&str; 3] = [".Trash-", ".fuse_hidden", ".nfs"];
/// Most foreign files in an error.
const NAMED_MAX: usize = 3;

/// Refuses a path that is not a directory, and a directory with other content than a store: the
/// store's files would be mixed with those of the directory's owner, and its permissions changed.
pub(crate) fn check(storage: &Storage) -> anyhow::Result<()> {
    let dir = storage.data.as_path();
    if storage.memory {
        return Ok(());
    }
    if dir.as_os_str().is_empty() {
        bail!("--data is empty; give a directory, or --memory for none");
    }
    let shown = dir.display();
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let file = file_among(dir).unwrap_or(dir).display();
            bail!("{file} is a file; --data needs a directory (it is created if missing)");
        }
        Err(error) => {
            let error = anyhow::Error::new(error);
            let error = error.context(format!("can't read the data directory {shown}"));
            return Err(with_advice(error));
        }
    };
    if storage.data_force || has_store(dir) {
        return Ok(());
    }
    let mut foreign = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("can't read the data directory {shown}"))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !is_harmless(&name) {
            foreign.push(name);
        }
    }
    foreign.sort();
    if foreign.is_empty() {
        return Ok(());
    }
    let more = if foreign.len() > NAMED_MAX { ", ..." } else { "" };
    foreign.truncate(NAMED_MAX);
    bail!(
        "the directory {shown} contains other files and no Planisphere data: {}{more}.\n\
         Give a new or empty directory with --data DIR, or --data-force to use this one all the \
         same.",
        foreign.join(", ")
    )
}

/// The part of a path that is a file but should be a directory.
fn file_among(dir: &Path) -> Option<&Path> {
    let mut parts = dir.ancestors().filter(|part| !part.as_os_str().is_empty());
    parts.find(|part| part.exists() && !part.is_dir())
}

fn has_store(dir: &Path) -> bool {
    dir.join("store.lock").is_file() || dir.join("kv").join("keyspaces").is_dir()
}

/// Earlier starts leave files without a store, and users prepare certificates and keys.
fn is_harmless(name: &str) -> bool {
    private_file::is_ours(name)
        || SYSTEM_FILES.contains(&name)
        || SYSTEM_FILE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Adds advice about a directory that this user may not write to.
pub(crate) fn with_advice(error: anyhow::Error) -> anyhow::Error {
    let is_refused = |error: &io::Error| {
        let kind = error.kind();
        kind == io::ErrorKind::PermissionDenied || kind == io::ErrorKind::ReadOnlyFilesystem
    };
    let is_about_rights = error.chain().any(|cause| {
        let of_store = match cause.downcast_ref::<StoreError>() {
            Some(StoreError::Io(error)) => Some(error),
            Some(_) | None => None,
        };
        of_store.or_else(|| cause.downcast_ref::<io::Error>()).is_some_and(is_refused)
    });
    if !is_about_rights {
        return error;
    }
    anyhow!(
        "{error:#}.\nLet this user write there, or choose another directory with --data DIR (or \
         none with --memory)."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    fn checked(dir: &Path, data_force: bool) -> Result<(), String> {
        let defaults = Settings::default().storage;
        let storage = Storage { data: dir.to_owned(), data_force, ..defaults };
        check(&storage).map_err(|error| error.to_string())
    }

    #[test]
    fn a_directory_with_other_files_is_refused_unless_forced() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["tls", "lost+found", "thesis"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let error = checked(dir.path(), false).unwrap_err();
        assert!(error.contains("data: thesis.\n"), "{error}");
        assert!(error.contains("--data-force"), "{error}");
        assert_eq!(checked(dir.path(), true), Ok(()));
    }

    #[test]
    fn directories_with_names_like_ours_are_foreign() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["kvm-images", "tls-of-nginx"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let error = checked(dir.path(), false).unwrap_err();
        assert!(error.contains("data: kvm-images, tls-of-nginx.\n"), "{error}");
    }

    #[test]
    fn what_is_no_work_of_anybody_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(checked(&dir.path().join("new"), false), Ok(()));
        assert_eq!(checked(dir.path(), false), Ok(()));
        for name in ["account.key", ".DS_Store", ".gitkeep", ".nfs0001", "store.creating"] {
            std::fs::write(dir.path().join(name), "").unwrap();
            assert_eq!(checked(dir.path(), false), Ok(()), "{name}");
        }
        std::fs::write(dir.path().join(".bashrc"), "").unwrap();
        assert!(checked(dir.path(), false).unwrap_err().contains(".bashrc"));
        // Other files beside a store do not matter.
        std::fs::create_dir_all(dir.path().join("kv/keyspaces")).unwrap();
        assert_eq!(checked(dir.path(), false), Ok(()));
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        for data in [file.clone(), file.join("below/it")] {
            let error = checked(&data, true).unwrap_err();
            assert!(error.starts_with(&format!("{} is a file", file.display())), "{error}");
        }
        assert!(checked(Path::new(""), false).unwrap_err().contains("--data is empty"));
    }

    #[test]
    fn who_may_not_write_is_told_what_to_do() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        for error in [anyhow::Error::new(denied()), StoreError::Io(denied()).into()] {
            let said = with_advice(error.context("can't")).to_string();
            assert!(said.contains("can't") && said.contains("--data DIR"), "{said}");
        }
        assert_eq!(with_advice(anyhow!("damaged")).to_string(), "damaged");
    }
}
