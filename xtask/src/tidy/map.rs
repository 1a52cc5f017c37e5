//! Whether the guides to the code are true: what they name is there. The map is short besides, and
//! the hand-overs of each request path are as many as its heading says.

use super::Complaint;
use super::tree::Tree;

const MAP: &str = "docs/ARCHITECTURE.md";
const GUIDES: [&str; 2] = [MAP, "CONTRIBUTING.md"];
const LINES_MAX: usize = 250;
const LINE_CHARS_MAX: usize = 120;

/// Complains about files, folders and functions that a guide names and that are not there.
pub(crate) fn names(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for guide in GUIDES {
        let Some(text) = tree.files.get(guide) else {
            complaints.push(format!("{guide}: it is missing"));
            continue;
        };
        for (index, line) in text.lines().enumerate() {
            let wrong = named(line).filter_map(|name| missing(tree, name));
            complaints.extend(wrong.map(|what| format!("{guide}:{}: {what}", index + 1)));
        }
    }
    complaints
}

/// Complains about a map that is too long, and about paths in it that are not counted right.
pub(crate) fn shape(tree: &Tree) -> Vec<Complaint> {
    let Some(text) = tree.files.get(MAP) else { return Vec::new() };
    let mut complaints = Vec::new();
    let lines = text.lines().count();
    if lines > LINES_MAX {
        complaints.push(format!("{MAP}: {lines} lines; at most {LINES_MAX}"));
    }
    for (index, line) in text.lines().enumerate() {
        let (number, chars) = (index + 1, line.chars().count());
        if chars > LINE_CHARS_MAX {
            let most = LINE_CHARS_MAX;
            complaints.push(format!("{MAP}:{number}: {chars} characters; at most {most}"));
        }
    }
    complaints.extend(miscounted(text));
    complaints
}

/// Complains about a section `### Name: N hand-overs` whose table does not number its rows from 1
/// to N. A row is about one of them (`| 3 |`) or about several (`| 4-7 |`).
fn miscounted(text: &str) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for section in text.split("\n### ").skip(1) {
        let heading = section.lines().next().unwrap_or_default();
        let stated = heading.strip_suffix(" hand-overs").and_then(|h| h.rsplit_once(": "));
        let Some((path, stated)) = stated else { continue };
        let mut counted = 0;
        let lines = section.lines().take_while(|line| !line.starts_with("## "));
        for (first, last) in lines.filter_map(row_numbers) {
            if first != counted + 1 || last < first {
                complaints.push(format!("{MAP}: {path}: row {first} follows row {counted}"));
            }
            counted = last;
        }
        if stated.parse() != Ok(counted) {
            complaints.push(format!("{MAP}: {path}: {stated} hand-overs stated, {counted} listed"));
        }
    }
    complaints
}

/// The first and the last number of a table's row.
fn row_numbers(line: &str) -> Option<(u32, u32)> {
    let cell = line.strip_prefix("| ")?.split(" |").next()?;
    let (first, last) = cell.split_once('-').unwrap_or((cell, cell));
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// What a line names between backticks that is a file, a folder or something in a file.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|name| {
        let path = name.split("::").next().unwrap_or_default();
        let is_plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
        let is_file = [".rs", ".js", ".toml", ".golden"].iter().any(|end| path.ends_with(end));
        is_plain && !path.starts_with('/') && (is_file || path.ends_with('/'))
    })
}

/// What is wrong with a name: `crate/path/file.rs`, `crate/folder/`, `crate/path/file.rs::item`, or
/// a path from the root.
fn missing(tree: &Tree, name: &str) -> Option<String> {
    let (path, item) = match name.split_once("::") {
        Some((path, item)) => (path, Some(item)),
        None => (name, None),
    };
    let in_crate = path.split_once('/').map(|(first, rest)| format!("crates/{first}/src/{rest}"));
    let places = [Some(path.to_owned()), in_crate];
    let mut places = places.iter().flatten();
    if path.ends_with('/') {
        let is_there = |place: &String| tree.files.keys().any(|file| file.starts_with(place));
        return (!places.any(is_there)).then(|| format!("there is no folder {path}"));
    }
    let Some(text) = places.find_map(|place| tree.files.get(place)) else {
        return Some(format!("there is no file {path}"));
    };
    let item = item?;
    // `Type::function` stands for both.
    let is_missing = |word: &&str| !defines(text, word);
    let missing = item.split("::").find(is_missing);
    missing.map(|word| format!("{path} has no {word}"))
}

fn defines(text: &str, word: &str) -> bool {
    let kinds = ["fn", "struct", "enum", "trait", "const", "type", "static", "mod", "impl"];
    text.match_indices(word).any(|(at, _)| {
        let after = text[at + word.len()..].chars().next();
        let is_whole = !after.is_some_and(|c| c.is_alphanumeric() || c == '_');
        is_whole && kinds.iter().any(|kind| text[..at].ends_with(&format!("{kind} ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: (&str, &str) =
        ("crates/engine/src/engine.rs", "pub fn read_item() {}\npub struct Engine {}\n");

    fn wrong_names(line: &str) -> usize {
        names(&Tree::of(&[(MAP, line), ("CONTRIBUTING.md", line), CODE])).len()
    }

    fn wrong_shapes(map: &str) -> usize {
        shape(&Tree::of(&[(MAP, map)])).len()
    }

    #[test]
    fn what_guides_name_must_be_there() {
        let good = "`engine/engine.rs::read_item`, `engine/engine.rs::Engine::read_item`, \
                    `crates/engine/src/engine.rs`, `engine/`, `GET /dbs/{db}/`, `Plan`";
        assert_eq!(wrong_names(good), 0);
        for bad in ["`engine/engine.rs::read`", "`engine/gone.rs`", "`storage/`", "`x.rs`"] {
            assert_eq!(wrong_names(bad), GUIDES.len(), "{bad}");
        }
        assert_eq!(names(&Tree::of(&[CODE])).len(), GUIDES.len());
    }

    #[test]
    fn hand_overs_are_as_many_as_stated() {
        let path = |stated: &str, rows: &str| {
            let map =
                format!("# Map\n\n### Read: {stated} hand-overs\n\n{rows}\n## Next\n| 9 | x |\n");
            wrong_shapes(&map)
        };
        assert_eq!(path("4", "| 1 | a |\n| 2-3 | b |\n| 4 | c |\n"), 0);
        assert_eq!(path("5", "| 1 | a |\n| 2-3 | b |\n| 4 | c |\n"), 1);
        assert_eq!(path("4", "| 1 | a |\n| 3-4 | b |\n"), 1);
        assert_eq!(path("many", "| 1 | a |\n"), 1);
        assert_eq!(wrong_shapes("### Glossary\n| 7 | x |\n"), 0);
    }

    #[test]
    fn it_stays_short() {
        assert_eq!(wrong_shapes(&"x\n".repeat(LINES_MAX + 1)), 1);
        assert_eq!(wrong_shapes(&"x".repeat(LINE_CHARS_MAX + 1)), 1);
    }
}
