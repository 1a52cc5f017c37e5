//! The text files of the repository, in memory.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Directories that hold no source.
const SKIPPED: &[&str] =
    &["target", "node_modules", "planisphere-data", "__pycache__", "artifacts", "corpus"];

/// Paths relative to the root, with `/` between their parts, and the text of each file.
pub(crate) struct Tree {
    pub(crate) files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads all text files below `root` that are not build products. Binary files are left out.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        read_directory(root, "", &mut files)?;
        Ok(Self { files })
    }

    /// A tree of given files, for tests.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self { files: files.iter().map(owned).collect() }
    }

    /// Files whose path ends in `suffix`.
    pub(crate) fn ending(&self, suffix: &str) -> impl Iterator<Item = (&str, &str)> {
        let files = self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        files.filter(move |(path, _)| path.ends_with(suffix))
    }
}

fn read_directory(
    directory: &Path,
    prefix: &str,
    files: &mut BTreeMap<String, String>,
) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let kind = entry.file_type()?;
        let is_tool_state = name.starts_with('.') && !matches!(&*name, ".ci" | ".cargo" | ".npmrc");
        if SKIPPED.contains(&&*name) || is_tool_state || kind.is_symlink() {
            continue;
        }
        let path = format!("{prefix}{name}");
        if kind.is_dir() {
            read_directory(&entry.path(), &format!("{path}/"), files)?;
        } else if let Ok(text) = String::from_utf8(std::fs::read(entry.path())?) {
            files.insert(path, text);
        }
    }
    Ok(())
}
