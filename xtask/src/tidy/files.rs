//! Rules for single files.

use std::collections::BTreeMap;

use super::Complaint;
use super::tree::Tree;

/// Lines of code, tests not counted, above which a file needs a reason.
const LINES_MAX: usize = 1000;
const LARGE_FILES: &str = "xtask/large-files.txt";

/// This file contains the patterns it searches for.
const OWN_SOURCE: &str = "xtask/src/tidy/files.rs";

/// Complains about large files without a reason, and reasons without a large file.
pub(crate) fn large(tree: &Tree) -> Vec<Complaint> {
    let empty = String::new();
    let listed: BTreeMap<&str, &str> = tree
        .files
        .get(LARGE_FILES)
        .unwrap_or(&empty)
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| line.split_once(' ').unwrap_or((line, "")))
        .collect();
    let mut complaints = Vec::new();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| !is_test(path)) {
        let lines = lines_before_tests(text);
        let is_listed = listed.get(path).is_some_and(|reason| !reason.trim().is_empty());
        if lines > LINES_MAX && !is_listed {
            complaints.push(format!(
                "{path}: {lines} lines; split it, or give the reason in {LARGE_FILES}"
            ));
        }
    }
    for path in listed.keys() {
        let lines = tree.files.get(*path).map_or(0, |text| lines_before_tests(text));
        if lines <= LINES_MAX {
            complaints.push(format!("{LARGE_FILES}: {path} is not large (any more)"));
        }
    }
    complaints
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.split('/').any(|part| part == "tests")
}

fn lines_before_tests(text: &str) -> usize {
    let mut lines = text.lines().peekable();
    let mut count = 0;
    while let Some(line) = lines.next() {
        let tests_follow = lines.peek().is_some_and(|next| next.starts_with("mod tests"));
        if line == "#[cfg(test)]" && tests_follow {
            break;
        }
        count += 1;
    }
    count
}

/// Complains about to-do notes without an issue number.
pub(crate) fn unnumbered(tree: &Tree) -> Vec<Complaint> {
    let words = ["TODO", "FIXME"];
    let untracked = |line: &str| {
        words.iter().any(|word| {
            let after = line.split_once(word).map(|(_, after)| after);
            after.is_some_and(|after| {
                let number = after.trim_start_matches([' ', '(']).strip_prefix('#');
                !number.is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit()))
            })
        })
    };
    let sources = source_lines(tree).filter(|(_, _, line)| untracked(line));
    sources.map(|(path, number, _)| format!("{path}:{number}: no issue number")).collect()
}

/// Lines of code and of scripts, with their numbers.
fn source_lines(tree: &Tree) -> impl Iterator<Item = (&str, usize, &str)> {
    let is_source = |path: &str| {
        let extensions = [".rs", ".py", ".js", ".cs", ".toml", ".sh", "/run"];
        path != OWN_SOURCE && extensions.iter().any(|extension| path.ends_with(extension))
    };
    let sources = tree.files.iter().filter(move |(path, _)| is_source(path));
    sources.flat_map(|(path, text)| {
        text.lines().enumerate().map(move |(index, line)| (path.as_str(), index + 1, line))
    })
}

/// Complains about paths that exist on one machine only.
pub(crate) fn machine_paths(tree: &Tree) -> Vec<Complaint> {
    let roots = ["/work/", "/root/", "/home/", "/Users/", "C:\\Users\\"];
    let mut complaints = Vec::new();
    for (path, text) in tree.files.iter().filter(|(path, _)| *path != OWN_SOURCE) {
        for (index, line) in text.lines().enumerate() {
            if roots.iter().any(|root| names_path_below(line, root)) {
                complaints.push(format!("{path}:{}: a path of one machine", index + 1));
            }
        }
    }
    complaints
}

/// Whether `root` starts a path in `line`, rather than being in the middle of one.
fn names_path_below(line: &str, root: &str) -> bool {
    line.match_indices(root).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '}'))
    })
}

/// Complains about packages from sources other than the public registries.
pub(crate) fn registries(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in &tree.files {
        let is_foreign: fn(&str) -> bool = if path.ends_with("Cargo.lock") {
            |line| {
                line.starts_with("source = ")
                    && !line.contains("github.com/rust-lang/crates.io-index\"")
            }
        } else if path.ends_with("package-lock.json") {
            |line| {
                line.contains("\"resolved\": ") && !line.contains("\"https://registry.npmjs.org/")
            }
        } else if path.ends_with(".npmrc") {
            |line| line.starts_with("registry") || line.contains(":registry")
        } else if path.ends_with("requirements.txt") {
            |line| line.contains("://") || line.contains("index-url")
        } else if path.ends_with(".cargo/config.toml") {
            |line| line.starts_with("[source") || line.starts_with("[registr")
        } else {
            continue;
        };
        for (index, line) in text.lines().enumerate() {
            if is_foreign(line) {
                complaints.push(format!("{path}:{}: not from a public registry", index + 1));
            }
        }
    }
    complaints
}

/// Complains about links between documents whose target is missing.
pub(crate) fn links(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in tree.ending(".md") {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        for target in link_targets(text) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            let wanted = normalized(directory, file);
            let is_directory =
                || tree.files.keys().any(|known| known.starts_with(&format!("{wanted}/")));
            if !tree.files.contains_key(&wanted) && !is_directory() {
                complaints.push(format!("{path}: links to {target}, which is not there"));
            }
        }
    }
    complaints
}

fn link_targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// A relative link as a path from the root.
fn normalized(directory: &str, link: &str) -> String {
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_needs_a_reason_and_a_reason_a_large_file() {
        let long = "x\n".repeat(LINES_MAX + 1);
        let tree = |list: &str| Tree::of(&[("crates/a/src/b.rs", &long), (LARGE_FILES, list)]);
        assert_eq!(large(&tree("")).len(), 1);
        assert_eq!(large(&tree("crates/a/src/b.rs\n")).len(), 1);
        assert_eq!(large(&tree("crates/a/src/b.rs one table\n")).len(), 0);
        assert_eq!(large(&Tree::of(&[(LARGE_FILES, "crates/c.rs gone\n")])).len(), 1);
    }

    #[test]
    fn tests_do_not_count_as_lines() {
        let tests = "x\n".repeat(LINES_MAX * 2);
        let inline = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{tests}}}\n");
        let files = [("crates/a/src/b.rs", &*inline), ("crates/a/src/c/tests.rs", &*tests)];
        assert_eq!(large(&Tree::of(&files)), Vec::<String>::new());
    }

    #[test]
    fn things_to_do_need_a_number() {
        let found = |line: &str| unnumbered(&Tree::of(&[("a.rs", line)])).len();
        assert_eq!(found("// TODO: later"), 1);
        assert_eq!(found("// FIXME"), 1);
        assert_eq!(found("// TODO(#12): later"), 0);
        assert_eq!(found("// TODO #12"), 0);
        assert_eq!(found("// done"), 0);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let found = |line: &str| machine_paths(&Tree::of(&[("a.md", line)])).len();
        assert_eq!(found("see /home/me/x"), 1);
        assert_eq!(found("\"/root/.cargo\""), 1);
        assert_eq!(found("https://example.org/home/x and crates/work/src"), 0);
    }

    #[test]
    fn packages_from_elsewhere_are_found() {
        let found = |path: &str, line: &str| registries(&Tree::of(&[(path, line)])).len();
        let official = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
        assert_eq!(found("Cargo.lock", official), 0);
        assert_eq!(found("Cargo.lock", "source = \"sparse+https://mirror.example/\""), 1);
        let resolved = "      \"resolved\": \"https://registry.npmjs.org/a/-/a-1.tgz\",";
        assert_eq!(found("js/package-lock.json", resolved), 0);
        let mirrored = "      \"resolved\": \"https://mirror.example/a-1.tgz\",";
        assert_eq!(found("js/package-lock.json", mirrored), 1);
        assert_eq!(found("py/requirements.txt", "--index-url https://mirror.example/"), 1);
        assert_eq!(found("js/.npmrc", "registry=https://mirror.example/"), 1);
        assert_eq!(found("js/.npmrc", "omit-lockfile-registry-resolved=true"), 0);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let files =
            [("docs/a.md", "[b](b.md) [c](../c.md#x) [d](https://d.example) [e](../crates)")];
        assert_eq!(links(&Tree::of(&files)).len(), 3);
        let more = [files[0], ("docs/b.md", ""), ("c.md", ""), ("crates/x.rs", "")];
        assert_eq!(links(&Tree::of(&more)), Vec::<String>::new());
    }
}
