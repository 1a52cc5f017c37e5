//! Files and directories that only their owner may read.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Names of our files in the data directory, matched exactly because users' own files may begin
/// alike.
const OUR_FILE_PREFIXES: [&str; 5] = ["account.key", "account.keys", "kv", "server.pid", "tls"];
/// Prefixes of our other files, of which there are many.
const OUR_PREFIXES: [&str; 2] = ["store.", "torn-journal-"];
/// The suffix of a file that [`replace`] has not renamed yet.
const NEW: &str = ".new";
/// Prefix of the directory in which an authority is created.
const NEW_TLS: &str = "tls.new-";

/// Whether a file in the data directory is ours, judging by its name.
pub(crate) fn is_ours(name: &str) -> bool {
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    OUR_FILE_PREFIXES.contains(&name.strip_suffix(NEW).unwrap_or(name))
        || OUR_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || name.strip_prefix(NEW_TLS).is_some_and(is_number)
}

/// The permission bits of other users in a file's mode.
#[cfg(unix)]
const OTHERS_MODE_BITS: u32 = 0o077;
/// The mode bit of directories that are shared on purpose.
#[cfg(unix)]
const STICKY: u32 = 0o1000;

/// From now on, files that this process creates are accessible to its user only. The store creates
/// files throughout its life.
pub(crate) fn create_all_private() {
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(OTHERS_MODE_BITS));
}

/// Removes all permissions of other users from the data directory and our files in it.
#[cfg(unix)]
pub(crate) fn restrict_directory(dir: &Path) -> io::Result<()> {
    let mut restricted = 0;
    restrict(dir, &mut restricted)?;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if is_ours(&name.to_string_lossy()) {
            restrict_below(&entry.path(), &mut restricted)?;
        }
    }
    if restricted > 0 {
        tracing::info!(
            files = restricted,
            "removed other users' access to files of the data directory"
        );
    }
    Ok(())
}

/// On other systems files have no such modes.
#[cfg(not(unix))]
pub(crate) fn restrict_directory(_dir: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn restrict_below(path: &Path, restricted: &mut u64) -> io::Result<()> {
    restrict(path, restricted)?;
    if path.symlink_metadata()?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            restrict_below(&entry?.path(), restricted)?;
        }
    }
    Ok(())
}

/// A file that belongs to another user stays as it is.
#[cfg(unix)]
fn restrict(path: &Path, restricted: &mut u64) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let meta = path.symlink_metadata()?;
    let mode = meta.permissions().mode();
    if meta.is_symlink() || mode & OTHERS_MODE_BITS == 0 {
        return Ok(());
    }
    let private = std::fs::Permissions::from_mode(mode & !OTHERS_MODE_BITS);
    let outcome = match mode & STICKY {
        0 => std::fs::set_permissions(path, private),
        _ => Err(io::Error::other("it is a directory that is shared on purpose")),
    };
    match outcome {
        Ok(()) => *restricted += 1,
        Err(error) => {
            let path = path.display();
            tracing::warn!(%path, %error, "other users of this machine can read this file");
        }
    }
    Ok(())
}

/// Creates a file with `content` that only its owner may read, with its directory, and makes it
/// durable. Fails if it exists already.
pub(crate) fn create(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let mut file = open_new(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Atomically replaces a file by `content` that only its owner may read, and makes that durable.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(NEW);
    let new = Path::new(&new);
    match std::fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    create(new, content)?;
    std::fs::rename(new, path)?;
    match path.parent() {
        Some(dir) if cfg!(unix) => File::open(dir)?.sync_all(),
        Some(_) | None => Ok(()),
    }
}

fn open_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ours_are_whole() {
        let store = ["store.lock", "store.manifest", "store.manifest.new", "torn-journal-3-at-17"];
        let others = ["account.key", "account.keys", "account.keys.new", "server.pid", "kv", "tls"];
        for ours in store.into_iter().chain(others).chain(["tls.new-4711"]) {
            assert!(is_ours(ours), "{ours}");
        }
        for foreign in ["kvm-images", "kv2", "tls-of-nginx", "tls.new-", "tls.new-ca", "store"] {
            assert!(!is_ours(foreign), "{foreign}");
        }
        for foreign in ["account.keystore", "account.key.bak", "server.pids", ".new", "torn"] {
            assert!(!is_ours(foreign), "{foreign}");
        }
    }

    #[test]
    fn an_existing_file_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/secret");
        create(&path, b"one").unwrap();
        assert_eq!(create(&path, b"two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
    }

    #[test]
    fn a_replaced_file_is_the_new_one_even_after_a_failed_attempt() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(dir.path().join("secret.new"), b"left over").unwrap();
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        create(&path, b"x").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        replace(&path, b"y").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
