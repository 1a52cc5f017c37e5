//! Words of a private language that the code once had. The field has its own;
//! `docs/decisions/000-names.md` has the table.

use super::Complaint;
use super::tree::Tree;

/// This check's own list, the table of old names, and what is told of the past.
const ABOUT_WORDS: [&str; 3] =
    ["xtask/src/tidy/words.rs", "docs/decisions/000-names.md", "CHANGELOG.md"];

/// Names that are not to come back, and what to say instead.
const NAMES: &[(&str, &str)] = &[
    ("Door", "Listener"),
    ("FoundRows", "PostingRows"),
    ("Haystack", "FullScan"),
    ("KeyGround", "LogicalPartitionView"),
    ("Land", "Snapshot"),
    ("Lanes", "ConnectionThreads"),
    ("Leftover", "UnreadBody"),
    ("OrderWalk", "OrderedScan"),
    ("PartPage", "QueryPartPage"),
    ("Patience", "Deadline or ScanBudget"),
    ("RowShelf", "StoredRows"),
    ("Seat", "AssignedConnection"),
    ("Seen", "ScanStats, or what it has observed"),
    ("ShapeWalk", "ShapeScan"),
    ("Shelf", "RowLookup"),
    ("Stretch", "ScanRange"),
    ("ValueWalk", "ValueScan"),
    ("Visitor", "Peer"),
    ("Walk", "Scan"),
    ("WayTaken", "AccessPathKind"),
    ("Wishes", "what is requested"),
];

/// Words that hide who acts: name the actor.
const NOBODY: &[&str] = &["somebody", "someone", "nobody", "whoever", "anybody", "everybody"];

/// Complains about names and words of the private language.
pub(crate) fn private(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in tree.files.iter().filter(|(path, _)| is_looked_at(path)) {
        for (index, line) in text.lines().enumerate() {
            let place = || format!("{path}:{}", index + 1);
            if path.ends_with(".rs") {
                let private = NAMES.iter().filter(|(name, _)| has_word(line, name));
                complaints.extend(
                    private.map(|(name, instead)| format!("{}: {name}: say {instead}", place())),
                );
            }
            let said = told(path, line).to_lowercase();
            let hidden = NOBODY.iter().filter(|word| has_word(&said, word));
            complaints.extend(hidden.map(|word| format!("{}: {word}: name the actor", place())));
        }
    }
    complaints
}

fn is_looked_at(path: &str) -> bool {
    let is_text = [".rs", ".md", ".toml", ".py", ".cs"].iter().any(|end| path.ends_with(end));
    is_text && !ABOUT_WORDS.contains(&path) && !path.starts_with("fuzz/corpus/")
}

/// What a line tells its readers: of code, the comment.
fn told<'l>(path: &str, line: &'l str) -> &'l str {
    let mark = match path.rsplit_once('.') {
        Some((_, "rs" | "cs")) => "//",
        Some((_, "py" | "toml")) => "#",
        _ => return line,
    };
    line.find(mark).map_or("", |at| &line[at..])
}

/// Whether `word` stands in a line by itself, not within another.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_words_do_not_come_back() {
        let of = |text: &str| private(&Tree::of(&[("crates/a/src/b.rs", text)]));
        assert_eq!(of("struct KeyGround;\n// Nobody waits.\n").len(), 2);
        let plain = "struct KeyGrounds;\n// No client waits.\nlet name = \"nobody\";\n";
        assert_eq!(of(plain), Vec::<String>::new());
        let table = Tree::of(&[("docs/decisions/000-names.md", "nobody says `KeyGround`\n")]);
        assert_eq!(private(&table), Vec::<String>::new());
    }
}
